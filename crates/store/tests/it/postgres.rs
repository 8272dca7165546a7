//! The store in PostgreSQL: the suite of the engine, formats, and a database that goes away.

mod batched_writes;
mod key_values;
mod long_logs;
mod lost_connections;
mod replicas;

use std::error::Error;
use std::time::{Duration, Instant};

use doran_engine::id::{RunId, ThreadKey};
use doran_engine::store::{
    ClaimedRun, Commit, Durability, EntryKind, HistoryStore, IfBusy, InputDurability, ItemKey, ItemNamespace,
    ItemStore, KeyValueStore, KeyValueWrite, NewEntry, NewRun, NewRunEntry, NodeCacheStore, Record,
    RecordStage, Retention, RunIdempotencyKey, RunSignal, RunStore, Seq, StoreError, SubmitOutcome,
    ThreadMaintenance, TimerStore, WorkerLease, conformance,
};
use doran_store::postgres::{PostgresOptions, PostgresStore};
use doran_store::{InspectedFormat, RefusedLogin};
use serde_json::Map;
use tokio_postgres::{Client, NoTls};

use crate::postgres_server;

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_the_contract() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let store = open(&url).await;
    conformance::check(async || store.clone()).await;
    conformance::check_idempotency(async || store.clone()).await;
}

#[tokio::test]
async fn schemas_do_not_mix() {
    let (Some(here), Some(there)) =
        (postgres_server::fresh_schema_url(), postgres_server::fresh_schema_url())
    else {
        return;
    };
    let (here, there) = (open(&here).await, open(&there).await);
    enqueue_run(&here, &local_thread("t")).await;
    assert!(matches!(there.thread(&local_thread("t")).await, Err(StoreError::NotFound { .. })));
    assert!(there.claim(&worker("w"), None, 10).await.expect("claim").is_empty());
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    drop(open(&url).await);
    connect_plain(&url)
        .await
        .batch_execute("update doran_meta set value = 999 where name = 'format'")
        .await
        .expect("update");
    let refused = PostgresStore::open(&url).await;
    assert!(matches!(refused, Err(StoreError::Newer { found: 999, known: 15 })), "{refused:?}");
}

/// What a program finds that still runs when a newer one has started: it takes up no work any more and says why.
#[tokio::test]
async fn a_program_that_has_become_too_old_takes_up_no_more_runs() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let (store, old) = (open(&url).await, open(&url).await);
    enqueue_run(&store, &local_thread("t")).await;
    let newer = "update doran_meta set value = 999 where name = 'format'";
    connect_plain(&url).await.batch_execute(newer).await.expect("update");
    for _ in 0..2 {
        let refused = old.claim(&worker("w"), None, 10).await;
        assert!(matches!(refused, Err(StoreError::Newer { found: 999, known: 15 })), "{refused:?}");
        let refused = old.submit(new_run(&local_thread("u"))).await;
        assert!(matches!(refused, Err(StoreError::Newer { found: 999, known: 15 })), "{refused:?}");
    }
    assert!(old.thread(&local_thread("u")).await.is_err(), "nothing was begun");
}

/// Also writes that begin no run, and without anybody who looks for runs.
#[tokio::test]
async fn a_program_that_has_become_too_old_notices_it_by_itself_and_writes_nothing_more() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let (store, old) = (open(&url).await, open(&url).await);
    let shared = doran_store::open(&url).await.expect("open").shared_format.expect("shared");
    let thread = local_thread("t");
    let running = match old.submit(new_run(&thread)).await.expect("submit") {
        SubmitOutcome::Started(claimed) => claimed,
        other => panic!("{other:?}"),
    };
    old.check_writable().await.expect("not yet");
    let newer = "update doran_meta set value = 999 where name = 'format'";
    connect_plain(&url).await.batch_execute(newer).await.expect("update");
    let is_newer = |error: &StoreError| matches!(error, StoreError::Newer { found: 999, known: 15 });
    let noticed = tokio::time::timeout(Duration::from_secs(60), async {
        let error = shared.wait_for_newer_format().await;
        assert!(is_newer(&error), "{error:?}");
        while old.check_writable().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    noticed.await.expect("noticed");
    let (namespace, key) = (ItemNamespace::new(["a"]).expect("names"), ItemKey::new("key").expect("a key"));
    let refused = [
        old.put_thread(&thread, &Map::new()).await.map(drop),
        old.delete_thread(&thread).await.map(drop),
        old.gc(&Retention::default()).await.map(drop),
        old.cache_value(&thread.tenant, "key", b"value", None).await,
        old.put_item(&thread.tenant, &namespace, &key, &Map::new(), None).await.map(drop),
        old.delete_item(&thread.tenant, &namespace, &key).await.map(drop),
        old.write_key_value(KeyValueWrite::put("bucket", "key", None, b"value")).await.map(drop),
        old.renew(&worker("w"), &[running.fence()]).await.map(drop),
        old.commit(&running.fence(), Commit { head: running.head, ..Commit::default() }).await.map(drop),
        old.signal(&thread.run(running.run.run), RunSignal::Cancel { body: Vec::new() }).await.map(drop),
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        assert!(refused.as_ref().is_err_and(&is_newer), "write {number}: {refused:?}");
    }
    old.thread(&thread).await.expect("reading goes on");
    assert!(store.key_value("bucket", "key").await.expect("read").is_none());
}

#[tokio::test]
async fn inspecting_a_database_changes_nothing() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let inspect = async || doran_store::inspect(&url).await.expect("inspected");
    assert_eq!(inspect().await, InspectedFormat { found: None, known: 15 });
    assert_eq!(inspect().await.found, None, "no schema was made");
    drop(open(&url).await);
    assert_eq!(inspect().await, InspectedFormat { found: Some(15), known: 15 });
    let set = async |format: u32| {
        let update = format!("update doran_meta set value = {format} where name = 'format'");
        connect_plain(&url).await.batch_execute(&update).await.expect("update");
    };
    set(999).await;
    assert_eq!(inspect().await, InspectedFormat { found: Some(999), known: 15 });
    set(13).await;
    let unreleased = doran_store::inspect(&url).await;
    assert!(matches!(unreleased, Err(StoreError::Other(_))), "{unreleased:?}");
}

#[tokio::test]
async fn a_refused_login_says_what_is_wrong() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let Some((before, rest)) = url.split_once('@') else { return };
    let (address, _) = rest.split_once('/').expect("a database");
    let refusal = async |url: String| {
        let refused = PostgresStore::open(&url).await.expect_err("refused");
        let cause = refused.source().and_then(|cause| cause.downcast_ref::<RefusedLogin>());
        match cause {
            Some(RefusedLogin::Credentials(_)) => "credentials",
            Some(RefusedLogin::NoDatabase(_)) => "no database",
            None => panic!("{refused:?}"),
        }
    };
    assert_eq!(refusal(format!("{before}@{address}/no_such_database")).await, "no database");
    let user = before.rsplit('/').next().and_then(|login| login.split(':').next()).expect("a user");
    assert_eq!(refusal(format!("postgres://nobody-{user}:wrong@{rest}")).await, "credentials");
    let closed = PostgresStore::open("postgres://doran:x@127.0.0.1:1/doran").await.expect_err("nobody there");
    assert!(matches!(closed, StoreError::Unavailable(_)), "{closed:?}");
}

#[tokio::test]
async fn an_unreleased_format_is_refused() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    drop(open(&url).await);
    let older = "update doran_meta set value = 13 where name = 'format'";
    connect_plain(&url).await.batch_execute(older).await.expect("update");
    let refused = PostgresStore::open(&url).await.expect_err("older");
    let told = std::error::Error::source(&refused).map(ToString::to_string).unwrap_or_default();
    assert!(told.starts_with("the database has format 13, which no release of Doran has written"), "{told}");
}

/// A file of a format that stores out there already have must not change: what it did to them is done. A change is a
/// new script.
#[test]
fn the_scripts_of_known_formats_stay_as_they_are() {
    let files = [
        ("14", include_str!("../../migrations/postgres/0014_initial.sql")),
        ("15", include_str!("../../migrations/postgres/0015_keys_outlive_threads.sql")),
        ("functions of 15", include_str!("../../migrations/postgres/functions.sql")),
    ];
    let hashes = files.map(|(format, text)| {
        // FNV-1a: enough to see a change that nobody meant to be one.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{format}: {hash:016x}")
    });
    expect_test::expect![[r#"
        14: e2579c0c8bf2da13
        15: c4601a92702e255f
        functions of 15: b4c788a4cfe8184b"#]]
    .assert_eq(&hashes.join("\n"));
}

/// A store as the first format left it: a run that was submitted there goes on here, with the entries of its thread.
#[tokio::test]
async fn a_store_of_the_first_format_opens_and_its_runs_go_on() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let (_, schema) = url.split_once("schema=").expect("a schema");
    let admin = connect_plain(&url).await;
    let meta = "create table doran_meta (name varchar(60) not null, value int8 not null)";
    admin.batch_execute(&format!("create schema {schema}; {meta}")).await.expect("schema");
    for script in [
        include_str!("../../migrations/postgres/0014_initial.sql"),
        include_str!("../../migrations/postgres/functions.sql"),
        include_str!("../fixtures/postgres/v14.sql"),
    ] {
        admin.batch_execute(script).await.expect("fixture");
    }
    let store = open(&url).await;
    let claimed = store.claim(&worker("w"), None, 10).await.expect("claim");
    assert_eq!(claimed.len(), 1, "the run that waited");
    assert_eq!(claimed[0].head, 3);
    assert_eq!(entry_bodies(&store, &local_thread("t")).await, "one two first");
    let loaded = store.load(&local_thread("t"), None).await.expect("load");
    assert_eq!(loaded.snapshot, Some((2, b"state".to_vec())));
    start(&store, new_run(&local_thread("other"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_whose_certificate_is_not_known_is_not_spoken_to() {
    let Some(server) = postgres_server::start_own_server() else { return };
    let made = || rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("certificate");
    let (shown, other) = (made(), made());
    let folder = tempfile::tempdir().expect("folder");
    let roots = |name: &str, pem: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).expect("write");
        path
    };
    let (known, unknown) = (roots("known.pem", shown.cert.pem()), roots("unknown.pem", other.cert.pem()));
    let url = |roots: &std::path::Path| {
        let tcp = server.tcp_url(postgres_server::PASSWORD);
        format!("{tcp}?sslmode=verify-full&sslrootcert={}", roots.display())
    };

    let refused = PostgresStore::open(&url(&known)).await.expect_err("no TLS yet");
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");

    let admin = connect_plain(&postgres_server::with_schema(&server.socket_url(), "public")).await;
    for (file, pem) in [("server.crt", shown.cert.pem()), ("server.key", shown.signing_key.serialize_pem())] {
        let lines = format!("select unnest(string_to_array('{pem}', e'\\n'))");
        let sql = format!("copy ({lines}) to program 'umask 077 && cat > {file}'");
        admin.batch_execute(&sql).await.expect("write");
    }
    admin.batch_execute("alter system set ssl = on").await.expect("set");
    admin.batch_execute("select pg_reload_conf()").await.expect("reload");
    // The server reads its settings again when it comes to it.
    let opened = async {
        loop {
            match PostgresStore::open(&url(&known)).await {
                Ok(store) => return store,
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    };
    let store = soon(opened).await;
    start(&store, new_run(&local_thread("t"))).await;
    let sql = "select bool_and(s.ssl) from pg_stat_ssl s join pg_stat_activity a using (pid)
               where a.application_name = 'doran'";
    let row = admin.query_one(sql, &[]).await.expect("who is there");
    assert_eq!(row.get::<_, Option<bool>>(0), Some(true), "all our connections are encrypted");

    let refused = PostgresStore::open(&url(&unknown)).await.expect_err("another certificate");
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
    let told = format!("{refused:?}");
    assert!(told.contains("InvalidCertificate"), "{told}");
    assert!(!told.contains(postgres_server::PASSWORD), "{told}");
}

#[tokio::test]
async fn a_write_that_waits_too_long_is_undone() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let store = open(&url).await;
    let options =
        PostgresOptions { statement_timeout: Duration::from_secs(3), ..PostgresOptions::new(url.clone()) };
    let impatient = PostgresStore::open_with(&options).await.expect("open");
    let thread = local_thread("t");
    let run = start(&store, new_run(&thread)).await;
    let holder = connect_plain(&url).await;
    holder.batch_execute("begin; select 1 from runs for update").await.expect("lock");
    let late = impatient.commit(&run.fence(), step(1, "x")).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    assert_eq!(entry_bodies(&store, &thread).await, "in", "reading waits for nobody");
    holder.batch_execute("rollback").await.expect("unlock");
    store.commit(&run.fence(), step(1, "x")).await.expect("commit");
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_changes_nothing() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let store = open(&url).await;
    let thread = local_thread("t");
    let run = start(&store, new_run(&thread)).await;
    let full = "create function full_disk() returns trigger language plpgsql as
        $$ begin raise exception 'no room' using errcode = '53100'; end $$;
        create trigger full_disk before insert on entries execute function full_disk()";
    let admin = connect_plain(&url).await;
    admin.batch_execute(full).await.expect("trigger");
    let refused = store.commit(&run.fence(), step(1, "x")).await;
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    assert_eq!(store.thread(&thread).await.expect("thread").head, 1);
    admin.batch_execute("drop trigger full_disk on entries").await.expect("drop");
    store.commit(&run.fence(), step(1, "x")).await.expect("commit");
}

#[tokio::test]
async fn a_database_that_says_nothing_is_unavailable_soon() {
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let url = format!("postgres://u:p@{}/d", deaf.local_addr().expect("address"));
    let opened = soon(PostgresStore::open(&url)).await;
    assert!(matches!(opened, Err(StoreError::Unavailable(_))), "{opened:?}");
    drop(deaf);
    let opened = soon(PostgresStore::open(&url)).await;
    assert!(matches!(opened, Err(StoreError::Unavailable(_))), "{opened:?}");
}

#[tokio::test]
async fn the_password_is_in_no_error() {
    let Some(server) = postgres_server::start_own_server() else { return };
    let store = open(&server.tcp_url(postgres_server::PASSWORD)).await;
    assert_eq!(format!("{store:?}"), "PostgresStore");
    let wrong = PostgresStore::open(&server.tcp_url("hunter2-canary")).await.expect_err("wrong password");
    assert!(matches!(wrong, StoreError::Unavailable(_)), "{wrong:?}");
    assert_hides_secret(&wrong, "hunter2-canary");
    server.stop_immediately().expect("stop");
    assert_hides_secret(
        &store.thread(&local_thread("t")).await.expect_err("down"),
        postgres_server::PASSWORD,
    );
    assert_hides_secret(
        &PostgresStore::open(&server.tcp_url(postgres_server::PASSWORD)).await.expect_err("down"),
        postgres_server::PASSWORD,
    );
}

#[tokio::test]
async fn a_table_that_grew_under_a_running_program_is_still_used() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let store = open(&url).await;
    let thread = local_thread("t");
    let run = start(&store, new_run(&thread)).await;
    let known = run.run.key();
    store.run(&known).await.expect("run");
    let newer = "alter table runs add column extra int8; alter table threads add column extra int8";
    connect_plain(&url).await.batch_execute(newer).await.expect("alter");
    assert_eq!(store.run(&known).await.expect("run").run, known.run);
    store.signal(&known, RunSignal::Cancel { body: Vec::new() }).await.expect("signal");
    assert!(store.commit(&run.fence(), step(1, "x")).await.expect("commit").cancel_asked);
    start(&store, new_run(&local_thread("u"))).await;
}

#[tokio::test]
async fn a_server_with_synchronous_commit_off_is_overridden() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let store = open(&format!("{url}&options=-c%20synchronous_commit%3Doff")).await;
    let spy = "create table seen (setting text);
        create function spy() returns trigger language plpgsql as
        $$ begin insert into seen values (current_setting('synchronous_commit')); return new; end $$;
        create trigger spy before insert on entries for each row execute function spy()";
    let admin = connect_plain(&url).await;
    admin.batch_execute(spy).await.expect("trigger");
    start(&store, new_run(&local_thread("t"))).await;
    let seen: String = admin.query_one("select setting from seen", &[]).await.expect("seen").get(0);
    assert_eq!(seen, "on");
}

fn later_step(head: Seq) -> Commit {
    Commit { durability: Durability::Later, ..step(head, "later") }
}

/// Notes for each entry whether its transaction waits for the disk: at its end, where the server decides.
async fn spy_on_commits(url: &str) -> Client {
    let spy = "create table seen (n serial, setting text);
        create function spy() returns trigger language plpgsql as
        $$ begin insert into seen (setting) values (current_setting('synchronous_commit')); return null; end $$;
        create constraint trigger spy after insert on entries deferrable initially deferred
        for each row execute function spy()";
    let admin = connect_plain(url).await;
    admin.batch_execute(spy).await.expect("trigger");
    admin
}

async fn settings_of_commits(admin: &Client) -> Vec<String> {
    let rows = admin.query("select setting from seen order by n", &[]).await.expect("seen");
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn only_steps_that_may_be_lost_do_not_wait_for_the_disk_of_the_server() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let store = open(&url).await;
    let admin = spy_on_commits(&url).await;
    let run = start(&store, new_run(&local_thread("t"))).await;
    let fence = run.fence();
    store.commit(&fence, later_step(1)).await.expect("commit");
    store.commit(&fence, step(2, "now")).await.expect("commit");
    // A commit that is more than a step is on disk at once.
    let records =
        vec![Record { path: "0.0".into(), key: "k".into(), stage: RecordStage::Done, body: vec![] }];
    store.commit(&fence, Commit { records, ..later_step(3) }).await.expect("commit");
    assert_eq!(settings_of_commits(&admin).await, ["on", "off", "on", "on"]);
}

#[tokio::test]
async fn only_a_new_run_that_nobody_is_told_of_starts_without_the_disk_of_the_server() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let store = open(&url).await;
    let admin = spy_on_commits(&url).await;
    let key = RunIdempotencyKey { key: "k".into(), hash: "h".into() };
    let starts = [
        (InputDurability::Now, None),
        (InputDurability::Awaited, None),
        (InputDurability::Later, None),
        // The same request may come again, by another replica.
        (InputDurability::Later, Some(key)),
    ];
    for (number, (durability, idempotency)) in starts.into_iter().enumerate() {
        let thread = local_thread(&format!("t{number}"));
        start(&store, NewRun { durability, idempotency, ..new_run(&thread) }).await;
    }
    assert_eq!(settings_of_commits(&admin).await, ["on", "on", "off", "on"]);
}

#[tokio::test]
async fn what_another_replica_reads_is_on_the_disk_of_the_server() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let (store, other, admin) = (open(&url).await, open(&url).await, connect_plain(&url).await);
    let run = start(&store, new_run(&local_thread("t"))).await;
    let lsn = async |which: &str| -> u64 {
        let sql = format!("select ({which}() - '0/0')::int8");
        let lsn: i64 = admin.query_one(&sql, &[]).await.expect("position").get(0);
        lsn.unsigned_abs()
    };
    for (head, durability) in [(1, "a read"), (2, "a read"), (3, "a wait"), (4, "a wait")] {
        let committed = store.commit(&run.fence(), later_step(head)).await.expect("commit");
        let written = lsn("pg_current_wal_insert_lsn").await;
        match durability {
            "a read" => assert_eq!(other.thread(&local_thread("t")).await.expect("thread").head, head + 1),
            _ => store.wait_until_durable(committed.position).await.expect("durable"),
        }
        assert!(lsn("pg_current_wal_flush_lsn").await >= written, "after {durability}");
    }
    for told in ["a wait", "a read", "a refusal", "a wait beside a write of nothing"] {
        let thread = local_thread(told);
        let new = || NewRun { durability: InputDurability::Later, ..new_run(&thread) };
        let run = start(&store, new()).await;
        let written = lsn("pg_current_wal_insert_lsn").await;
        match told {
            "a wait" => store.wait_until_durable(run.position).await.expect("durable"),
            "a read" => drop(other.run(&thread.run(run.run.run)).await.expect("run")),
            "a wait beside a write of nothing" => {
                // It commits and writes nothing, so the server flushes nothing.
                assert!(!store.delete_timer(&thread.tenant, "none").await.expect("no timer"));
                store.wait_until_durable(run.position).await.expect("durable");
            }
            _ => assert!(matches!(other.submit(new()).await, Err(StoreError::Busy { .. }))),
        }
        assert!(lsn("pg_current_wal_flush_lsn").await >= written, "after {told} about a start");
    }
}

/// Prints what a commit costs beside a bare insert on the same server. Not a law: it depends on the disk.
#[tokio::test]
#[ignore = "measures, and needs a quiet machine"]
async fn a_commit_beside_a_bare_insert() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let options = PostgresOptions { max_connections: 1, ..PostgresOptions::new(url.clone()) };
    let store = PostgresStore::open_with(&options).await.expect("open");
    let run = start(&store, new_run(&local_thread("t"))).await;
    let bare = connect_plain(&url).await;
    bare.batch_execute("create table bare (id int8 primary key, body bytea not null)").await.expect("table");
    let insert = bare.prepare("insert into bare values ($1, $2)").await.expect("prepare");
    let body = vec![b'x'; 400];
    let record = Record { path: "1.0".into(), key: "k".into(), stage: RecordStage::Done, body: body.clone() };
    let (mut head, mut inserts, mut steps, mut fulls) = (1, Vec::new(), Vec::new(), Vec::new());
    for round in 0..1500_i64 {
        let since = Instant::now();
        bare.execute(&insert, &[&round, &body]).await.expect("insert");
        inserts.push(since.elapsed());
        for (times, records) in [(&mut steps, Vec::new()), (&mut fulls, vec![record.clone()])] {
            let mut commit = Commit { clear_records: !records.is_empty(), records, ..step(head, "") };
            commit.entries[0].body.clone_from(&body);
            let since = Instant::now();
            head = store.commit(&run.fence(), commit).await.expect("commit").head;
            times.push(since.elapsed());
        }
    }
    for times in [&mut inserts, &mut steps, &mut fulls] {
        times.sort();
    }
    for percent in [10, 50, 90] {
        let at = |times: &[Duration]| times[times.len() * percent / 100];
        let (insert, step, full) = (at(&inserts), at(&steps), at(&fulls));
        let ratio = |time: Duration| time.as_secs_f64() / insert.as_secs_f64();
        let (light, heavy) = (ratio(step), ratio(full));
        println!(
            "p{percent}: insert {insert:?}, entry {step:?} ({light:.2}), with a record {full:?} ({heavy:.2})"
        );
    }
}

/// Fails if something does not come within a minute, which is more than a busy machine needs.
async fn soon<T>(awaited: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), awaited).await.expect("in time")
}

async fn open(url: &str) -> PostgresStore {
    PostgresStore::open(url).await.expect("open")
}

/// A plain connection to the database and schema of a URL.
async fn connect_plain(url: &str) -> Client {
    let (plain, schema) = url.split_once("schema=").expect("a schema");
    let schema = schema.split('&').next().expect("a name");
    let (client, connection) =
        tokio_postgres::connect(plain.trim_end_matches(['?', '&']), NoTls).await.expect("connect");
    tokio::spawn(connection);
    client.batch_execute(&format!("set search_path = {schema}")).await.expect("schema");
    client
}

fn assert_hides_secret(error: &StoreError, secret: &str) {
    let mut told = format!("{error:?} {error}");
    let mut source = error.source();
    while let Some(inner) = source {
        told += &format!(" {inner:?} {inner}");
        source = inner.source();
    }
    assert!(!told.contains(secret), "{told}");
}

fn local_thread(name: &str) -> ThreadKey {
    ThreadKey::local(name).expect("name")
}

fn worker(name: &str) -> WorkerLease {
    WorkerLease { worker: name.into(), lease: Duration::from_secs(60), graphs: None }
}

fn new_run(thread: &ThreadKey) -> NewRun {
    NewRun {
        thread: thread.clone(),
        run: RunId::random(),
        graph: "chat".into(),
        fingerprint: "f".into(),
        first: NewRunEntry { kind: EntryKind::Started, body: b"in".to_vec(), parent: None },
        if_busy: IfBusy::Reject,
        idempotency: None,
        metadata: Map::new(),
        thread_metadata: serde_json::Map::new(),
        options: Vec::new(),
        stop_body: Vec::new(),
        claim: Some(worker("w")),
        durability: InputDurability::Now,
    }
}

async fn start(store: &PostgresStore, run: NewRun) -> ClaimedRun {
    match store.submit(run).await.expect("submit") {
        SubmitOutcome::Started(claimed) => claimed,
        other => panic!("should start, not {other:?}"),
    }
}

async fn enqueue_run(store: &PostgresStore, thread: &ThreadKey) {
    let queued = store.submit(NewRun { claim: None, ..new_run(thread) }).await.expect("submit");
    assert!(matches!(queued, SubmitOutcome::Queued { .. }), "{queued:?}");
}

fn step(head: Seq, body: &str) -> Commit {
    let entry = NewEntry { kind: EntryKind::Step, body: body.into(), parent: None, base: 0, snapshot: None };
    Commit { head, entries: vec![entry], ..Commit::default() }
}

async fn entry_bodies(store: &PostgresStore, thread: &ThreadKey) -> String {
    let entries = store.entries(thread, 0, 100_000).await.expect("entries");
    let bodies: Vec<String> =
        entries.into_iter().map(|entry| String::from_utf8(entry.body).expect("text")).collect();
    bodies.join(" ")
}
