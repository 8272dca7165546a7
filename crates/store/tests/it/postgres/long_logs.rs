//! What is left of logs that were to be deleted or copied.

use doran_engine::store::{HistoryStore, Retention, RunStore, StoreError, ThreadMaintenance};

use super::{connect_plain, entry_bodies, local_thread, new_run, open, start, step};
use crate::postgres_server;

/// What replicas left that died: one while it deleted a thread, one while it copied one, long ago. A copy that goes on is
/// left alone.
#[tokio::test]
async fn the_logs_that_dead_replicas_left_are_deleted() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let store = open(&url).await;
    start(&store, new_run(&local_thread("kept"))).await;
    let admin = connect_plain(&url).await;
    admin
        .batch_execute(
            "insert into unowned_logs (number, copying_until) values
                (1001, null), (1002, now() - interval '1 second'), (1003, now() + interval '1 hour');
             insert into entries (at, number, seq, base, kind, body)
             select now(), n, s, 0, 2, 'x' from unnest(array[1001, 1002, 1003]) n, generate_series(1, 6000) s",
        )
        .await
        .expect("leftovers");
    store.gc(&Retention::default()).await.expect("gc");
    let left = admin.query("select number, count(*) from entries group by number order by number", &[]);
    let left = left.await.expect("rows");
    let left: Vec<(i64, i64)> = left.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(left[1..], [(1003, 6000)]);
    assert_eq!(entry_bodies(&store, &local_thread("kept")).await, "in");
}

/// A replica that died while it cleared old entries, in front of the first snapshot.
#[tokio::test]
async fn a_log_without_its_beginning_is_not_loaded_as_if_it_were_whole() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let (store, key) = (open(&url).await, local_thread("t"));
    let run = start(&store, new_run(&key)).await;
    for head in 1..5 {
        store.commit(&run.fence(), step(head, "step")).await.expect("step");
    }
    assert_eq!(store.load(&key, Some(4)).await.expect("whole").entries.len(), 4);
    let cleared = connect_plain(&url).await.execute("delete from entries where seq <= 2", &[]).await;
    assert_eq!(cleared.expect("cleared"), 2);
    for at in [None, Some(3), Some(4)] {
        let loaded = store.load(&key, at).await;
        assert!(matches!(loaded, Err(StoreError::NotFound { .. })), "{at:?}: {loaded:?}");
    }
}
