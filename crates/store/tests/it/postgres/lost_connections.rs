//! Connections that are lost, one by one and all at once: what was told is kept, and what is unknown is said to be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use doran_engine::id::ThreadKey;
use doran_engine::store::{
    HistoryStore, InputDurability, NewRun, RunStore, Seq, StoreError, ThreadMaintenance,
};
use doran_store::postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::Client;

use super::{connect_plain, entry_bodies, later_step, local_thread, new_run, open, soon, start, step};
use crate::postgres_server;

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_comes_back_is_used_again() {
    let Some(server) = postgres_server::start_own_server() else { return };
    let url = postgres_server::with_schema(&server.socket_url(), "doran");
    let store = Arc::new(open(&url).await);
    let thread = local_thread("t");
    let run = start(&store, new_run(&thread)).await;

    // One writer goes on while the plug is pulled, and counts what it was told.
    let (written, mut has_written) = tokio::sync::watch::channel(1);
    let writer = tokio::spawn({
        let (store, fence) = (Arc::clone(&store), run.fence());
        async move {
            let mut head = 1;
            loop {
                match store.commit(&fence, step(head, "x")).await {
                    Ok(committed) => head = written.send_replace(committed.head).max(committed.head),
                    Err(error) => return (head, error),
                }
            }
        }
    });
    soon(has_written.wait_for(|head| *head > 10)).await.expect("the writer writes");
    // Nobody waits for its input, so it may be lost with the server.
    let new = NewRun { durability: InputDurability::Later, ..new_run(&local_thread("begun")) };
    let begun = start(&store, new).await;
    server.stop_immediately().expect("stop");
    let (told, error) = soon(writer).await.expect("task");
    assert!(matches!(error, StoreError::Unknown(_) | StoreError::Unavailable(_)), "{error:?}");

    let write = soon(store.commit(&run.fence(), step(told, "down"))).await;
    assert!(matches!(write, Err(StoreError::Unavailable(_))), "{write:?}");
    let read = soon(store.thread(&thread)).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    let waited = soon(store.wait_until_durable(begun.position)).await;
    // A flush that followed of itself may have been quicker than the end of the server.
    assert!(matches!(waited, Ok(()) | Err(StoreError::Unknown(_))), "it was committed: {waited:?}");

    server.start_process().expect("start");
    let head = store.thread(&thread).await.expect("thread").head;
    assert!(head == told || head == told + 1, "acknowledged up to {told}, found {head}");
    store.commit(&run.fence(), step(head, "again")).await.expect("commit");
    assert!(entry_bodies(&store, &thread).await.ends_with(" x again"));
}

#[tokio::test]
async fn a_dead_connection_is_replaced() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let name = postgres_server::fresh_schema_name();
    let options = PostgresOptions {
        max_connections: 1,
        ..PostgresOptions::new(format!("{url}&application_name={name}"))
    };
    let store = PostgresStore::open_with(&options).await.expect("open");
    let admin = connect_plain(&url).await;
    let thread = local_thread("t");
    let run = start(&store, new_run(&thread)).await;
    for round in 0..20 {
        end_backends(&admin, &name, "true").await;
        assert_eq!(store.thread(&thread).await.expect("a read is asked again").head, 1 + round);
        store.commit(&run.fence(), step(1 + round, "x")).await.expect("a write on the new connection");
    }
}

#[tokio::test]
async fn a_role_that_may_not_log_in_or_write_for_a_while_makes_the_store_unavailable() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let Some((_, rest)) = url.split_once('@') else { return };
    let name = postgres_server::fresh_schema_name();
    let admin = connect_plain(&url).await;
    admin.batch_execute(&format!("create role {name} superuser login password 'x'")).await.expect("a role");
    let store = open(&format!("postgres://{name}:x@{rest}&application_name={name}")).await;
    let thread = local_thread("t");
    let run = start(&store, new_run(&thread)).await;
    store.check_writable().await.expect("writable");
    for (change, undo) in [
        ("nologin", "login"),
        ("set default_transaction_read_only = on", "reset default_transaction_read_only"),
    ] {
        admin.batch_execute(&format!("alter role {name} {change}")).await.expect("changed");
        end_backends(&admin, &name, "true").await;
        let written = store.put_thread(&thread, &serde_json::Map::new()).await;
        assert!(matches!(written, Err(StoreError::Unavailable(_))), "{change}: {written:?}");
        let writable = store.check_writable().await;
        assert!(matches!(writable, Err(StoreError::Unavailable(_))), "{change}: {writable:?}");
        admin.batch_execute(&format!("alter role {name} {undo}")).await.expect("changed back");
        end_backends(&admin, &name, "true").await;
        store.check_writable().await.expect("writable again");
    }
    store.commit(&run.fence(), step(1, "again")).await.expect("commit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_cut_off_half_way_is_unknown() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let name = postgres_server::fresh_schema_name();
    let store = Arc::new(open(&format!("{url}&application_name={name}")).await);
    let thread = local_thread("t");
    let run = start(&store, new_run(&thread)).await;
    let (holder, killer) = (connect_plain(&url).await, connect_plain(&url).await);
    holder.batch_execute("begin; select 1 from runs for update").await.expect("lock");
    let writer = tokio::spawn({
        let (store, fence) = (Arc::clone(&store), run.fence());
        async move { store.commit(&fence, step(1, "x")).await }
    });
    while end_backends(&killer, &name, "wait_event_type = 'Lock'").await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let cut = writer.await.expect("task");
    assert!(matches!(cut, Err(StoreError::Unknown(_))), "{cut:?}");
    holder.batch_execute("rollback").await.expect("unlock");
    assert_eq!(store.thread(&thread).await.expect("thread").head, 1);
    store.commit(&run.fence(), step(1, "x")).await.expect("commit");
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_that_lose_their_connections_leave_one_whole_log() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let name = postgres_server::fresh_schema_name();
    let named = format!("{url}&application_name={name}");
    let stores = [Arc::new(open(&named).await), Arc::new(open(&named).await)];
    let admin = connect_plain(&url).await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let cut_off = Arc::new(AtomicUsize::new(0));
    let mut writers = Vec::new();
    for i in 0..4 {
        let thread = local_thread(&format!("t{i}"));
        let run = start(&stores[i % 2], new_run(&thread)).await;
        let (store, stopped, cut_off) = (Arc::clone(&stores[i % 2]), stopped.clone(), Arc::clone(&cut_off));
        let writer = tokio::spawn(async move {
            let mut head = 1;
            while !*stopped.borrow() {
                match store.commit(&run.fence(), step(head, &head.to_string())).await {
                    Ok(committed) => head = committed.head,
                    Err(StoreError::Unknown(_)) => {
                        cut_off.fetch_add(1, Ordering::SeqCst);
                        let found = head_of(&store, &run.run.thread).await;
                        assert!(found == head || found == head + 1, "knew {head}, found {found}");
                        head = found;
                    }
                    // New connections were ended too. Nothing was written.
                    Err(StoreError::Unavailable(_)) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            head
        });
        writers.push((thread, writer));
    }
    for _ in 0..40 {
        end_backends(&admin, &name, "state = 'active' and random() < 0.5").await;
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    // If chance ended none in the middle of a write: those that wait for a lock are in one.
    let holder = connect_plain(&url).await;
    let cut_one_off = async {
        while cut_off.load(Ordering::SeqCst) == 0 {
            holder.batch_execute("begin; select 1 from runs for update").await.expect("lock");
            while end_backends(&admin, &name, "wait_event_type = 'Lock'").await == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            holder.batch_execute("rollback").await.expect("unlock");
        }
    };
    soon(cut_one_off).await;
    stop.send(true).expect("writers");
    for (thread, writer) in writers {
        let head = soon(writer).await.expect("task");
        let expected: Vec<String> =
            std::iter::once("in".into()).chain((1..head).map(|number| number.to_string())).collect();
        assert_eq!(entry_bodies(&stores[0], &thread).await, expected.join(" "));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_no_connection_can_prove_is_unknown_and_takes_no_connections() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let name = postgres_server::fresh_schema_name();
    let store = open(&format!("{url}&application_name={name}")).await;
    let admin = connect_plain(&url).await;
    let run = start(&store, new_run(&local_thread("t"))).await;
    let mut head = 1;
    // The flush that follows a commit may be quicker than the end of the connections.
    let lost = async {
        loop {
            let committed = store.commit(&run.fence(), later_step(head)).await.expect("commit");
            head = committed.head;
            end_backends(&admin, &name, "true").await;
            match store.wait_until_durable(committed.position).await {
                Ok(()) => {}
                Err(StoreError::Unknown(_)) => return committed.position,
                Err(error) => panic!("{error:?}"),
            }
        }
    };
    let lost = soon(lost).await;
    // Flushes that follow of themselves look for an older connection in vain.
    for _ in 0..5 {
        let committed = store.commit(&run.fence(), later_step(head)).await.expect("commit");
        head = committed.head;
        store.wait_until_durable(committed.position).await.expect("durable");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(matches!(store.wait_until_durable(lost).await, Err(StoreError::Unknown(_))));
    }
    let sql = format!("select count(*) from pg_stat_activity where application_name = '{name}'");
    let open_connections: i64 = admin.query_one(&sql, &[]).await.expect("activity").get(0);
    assert!(open_connections <= 3, "{open_connections} connections are open for one caller");
}

/// The head of a thread, asked for until the database answers.
async fn head_of(store: &PostgresStore, thread: &ThreadKey) -> Seq {
    loop {
        match store.thread(thread).await {
            Ok(found) => return found.head,
            Err(StoreError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Ends the backends of a program and waits until they are gone.
async fn end_backends(admin: &Client, program: &str, which: &str) -> usize {
    let sql = format!(
        "select pg_terminate_backend(pid, 2000) from pg_stat_activity where application_name = '{program}' and {which}"
    );
    admin.query(&sql, &[]).await.expect("terminate").len()
}
