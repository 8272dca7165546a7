//! What is left of logs that were to be deleted or copied.

use doran_engine::store::{Retention, ThreadMaintenance};

use super::{connect_plain, entry_bodies, local_thread, new_run, open, start};
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
