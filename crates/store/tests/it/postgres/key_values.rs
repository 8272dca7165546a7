//! Values that replicas share: the suite of the engine, and what is forgotten.

use doran_engine::store::{KeyValueStore, KeyValueWrite, Retention, ThreadMaintenance, conformance};

use super::{connect_plain, open};
use crate::postgres_server;

#[tokio::test(flavor = "multi_thread")]
async fn shared_values_keep_the_contract() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let store = open(&url).await;
    conformance::check_key_values(async || store.clone()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_missed_forgotten_removals_reads_the_whole_bucket() {
    let Some(url) = postgres_server::fresh_schema_url() else { return };
    let (store, other) = (open(&url).await, open(&url).await);
    let put = async |key: &str| {
        let write = KeyValueWrite::put("b", key, None, b"v");
        store.write_key_value(write).await.expect("write").expect("written")
    };
    let (seen, gone) = (put("stays").await, put("goes").await);
    let removed = KeyValueWrite::remove("b", "goes", gone);
    let removed = store.write_key_value(removed).await.expect("write").expect("removed");
    let later = put("later").await;

    store.gc(&Retention::default()).await.expect("gc");
    let changes = other.key_value_changes("b", seen, 10).await.expect("changes");
    assert!(!changes.from_start && changes.changes.len() == 2, "young removals stay: {changes:?}");

    let older = "update key_values set changed_at = changed_at - interval '2 days' where value is null";
    connect_plain(&url).await.batch_execute(older).await.expect("update");
    store.gc(&Retention::default()).await.expect("gc");
    let changes = other.key_value_changes("b", seen, 10).await.expect("changes");
    let keys: Vec<&str> = changes.changes.iter().map(|change| change.key.as_str()).collect();
    assert!(changes.from_start, "{changes:?}");
    assert_eq!(keys, ["stays", "later"]);
    let changes = other.key_value_changes("b", removed, 10).await.expect("changes");
    assert!(!changes.from_start, "who has seen the removal goes on from there");
    assert_eq!(changes.changes.len(), 1);
    assert_eq!(changes.changes[0].revision, later);
}
