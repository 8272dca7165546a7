//! Values that replicas share.

use std::time::Duration;

use super::fixture::*;
use crate::store::*;

impl<S: Store + KeyValueStore> StoreFixture<S> {
    /// A bucket of this case alone.
    fn bucket(&self) -> String {
        format!("bucket of {}", self.tenant)
    }

    async fn put_value(&self, key: &str, expected: Option<u64>, value: &str) -> Option<u64> {
        let bucket = self.bucket();
        let write = KeyValueWrite::put(&bucket, key, expected, value.as_bytes());
        self.store.write_key_value(write).await.expect("write")
    }

    async fn remove_value(&self, key: &str, expected: u64) -> Option<u64> {
        let bucket = self.bucket();
        self.store.write_key_value(KeyValueWrite::remove(&bucket, key, expected)).await.expect("write")
    }

    /// The value as text, or `-`.
    async fn value_text(&self, key: &str) -> String {
        let found = self.store.key_value(&self.bucket(), key).await.expect("read");
        found.map_or_else(|| "-".to_owned(), |found| String::from_utf8(found.value).expect("text"))
    }

    /// The changes after a revision, as `key=value` or `key` for a removal.
    async fn value_changes(&self, after: u64) -> Vec<String> {
        let changes = self.store.key_value_changes(&self.bucket(), after, 100).await.expect("changes");
        let text = |change: KeyValueChange| match change.value {
            Some(value) => format!("{}={}", change.key, String::from_utf8(value).expect("text")),
            None => change.key,
        };
        changes.changes.into_iter().map(text).collect()
    }

    async fn value_keys(&self, prefix: &str) -> Vec<String> {
        let found = self.store.key_values(&self.bucket(), prefix).await.expect("values");
        found.into_iter().map(|found| found.key).collect()
    }

    async fn value_blob(&self, key: &str, name: &str) -> Option<Vec<u8>> {
        self.store.key_value_blob(&self.bucket(), key, name).await.expect("blob")
    }
}

pub(super) async fn a_write_replaces_the_value_it_names<S: Store + KeyValueStore>(b: StoreFixture<S>) {
    assert_eq!(b.value_text("k").await, "-");
    let first = b.put_value("k", None, "one").await.expect("written");
    assert_eq!(b.put_value("k", None, "two").await, None, "there is one already");
    assert_eq!(b.put_value("k", Some(first + 1), "two").await, None);
    assert_eq!(b.put_value("other", Some(first), "two").await, None);
    assert_eq!(b.value_text("k").await, "one");
    let second = b.put_value("k", Some(first), "two").await.expect("written");
    assert!(second > first);
    assert_eq!(b.put_value("k", Some(first), "three").await, None, "too late");
    assert_eq!(b.remove_value("k", first).await, None);
    let removed = b.remove_value("k", second).await.expect("removed");
    assert_eq!((b.value_text("k").await.as_str(), b.remove_value("k", second).await), ("-", None));
    assert!(b.put_value("k", None, "").await.expect("free again") > removed);
    assert_eq!(b.value_text("k").await, "");
}

pub(super) async fn values_are_found_by_the_beginning_of_their_keys<S: Store + KeyValueStore>(
    b: StoreFixture<S>,
) {
    for key in ["b/1", "a/2", "a/1", "a", "a0", "가/1"] {
        b.put_value(key, None, key).await.expect("written");
    }
    let gone = b.put_value("a/3", None, "x").await.expect("written");
    b.remove_value("a/3", gone).await.expect("removed");
    assert_eq!(b.value_keys("a/").await, ["a/1", "a/2"]);
    assert_eq!(b.value_keys("").await, ["a", "a/1", "a/2", "a0", "b/1", "가/1"]);
    assert_eq!(b.value_keys("가").await, ["가/1"]);
    assert_eq!(b.value_keys("c").await, [""; 0]);
    assert_eq!(b.store.key_values("no such bucket", "").await.expect("values"), []);
}

pub(super) async fn changes_are_followed_from_a_revision<S: Store + KeyValueStore>(b: StoreFixture<S>) {
    assert_eq!(b.value_changes(0).await, [""; 0]);
    let one = b.put_value("a", None, "1").await.expect("written");
    let two = b.put_value("b", None, "2").await.expect("written");
    assert_eq!(b.value_changes(0).await, ["a=1", "b=2"]);
    assert_eq!(b.value_changes(one).await, ["b=2"]);
    let three = b.put_value("a", Some(one), "3").await.expect("written");
    let four = b.remove_value("b", two).await.expect("removed");
    assert_eq!(b.value_changes(two).await, ["a=3", "b"], "a removal is a change");
    assert_eq!(b.value_changes(three).await, ["b"]);
    assert_eq!(b.value_changes(four).await, [""; 0]);
    let first = b.store.key_value_changes(&b.bucket(), one, 1).await.expect("changes");
    assert_eq!((first.changes.len(), first.changes[0].revision), (1, three), "the oldest first");
    let revisions = b.store.bucket_revisions().await.expect("revisions");
    assert_eq!(revisions.get(&b.bucket()), Some(&four));
}

pub(super) async fn buckets_do_not_mix<S: Store + KeyValueStore>(b: StoreFixture<S>) {
    let other = b.with_other_tenant();
    let ours = b.put_value("k", None, "ours").await.expect("written");
    assert_eq!(other.value_text("k").await, "-");
    other.put_value("k", None, "theirs").await.expect("written");
    assert_eq!((b.value_text("k").await.as_str(), other.value_text("k").await.as_str()), ("ours", "theirs"));
    assert_eq!(b.value_changes(ours).await, [""; 0]);
}

pub(super) async fn blobs_are_written_and_deleted_with_their_value<S: Store + KeyValueStore>(
    b: StoreFixture<S>,
) {
    let (bucket, bytes) = (b.bucket(), (0..=255).collect::<Vec<u8>>());
    let put = KeyValueWrite {
        put_blobs: &[("x", &bytes), ("y", b"")],
        ..KeyValueWrite::put(&bucket, "k", None, b"1")
    };
    let first = b.store.write_key_value(put).await.expect("write").expect("written");
    assert_eq!(
        (b.value_blob("k", "x").await, b.value_blob("k", "y").await),
        (Some(bytes.clone()), Some(Vec::new()))
    );
    assert_eq!(b.value_blob("other", "x").await, None);
    let late = KeyValueWrite { put_blobs: &[("x", b"late")], delete_blobs: &["y"], ..put };
    assert_eq!(b.store.write_key_value(late).await.expect("write"), None);
    assert_eq!(
        b.value_blob("k", "x").await,
        Some(bytes.clone()),
        "a write that came too late changes no blob"
    );
    assert_eq!(b.value_blob("k", "y").await, Some(Vec::new()));
    let second = b.put_value("k", Some(first), "2").await.expect("written");
    assert_eq!(b.value_blob("k", "x").await, Some(bytes), "a value keeps its blobs");
    let change = KeyValueWrite {
        put_blobs: &[("x", b"new"), ("z", b"z")],
        delete_blobs: &["y", "never there"],
        ..KeyValueWrite::put(&bucket, "k", Some(second), b"3")
    };
    let third = b.store.write_key_value(change).await.expect("write").expect("written");
    assert_eq!((b.value_blob("k", "x").await, b.value_blob("k", "y").await), (Some(b"new".to_vec()), None));
    b.remove_value("k", third).await.expect("removed");
    assert_eq!((b.value_blob("k", "x").await, b.value_blob("k", "z").await), (None, None));
    b.put_value("k", None, "again").await.expect("written");
    assert_eq!(b.value_blob("k", "x").await, None);
}

pub(super) async fn a_value_with_a_lifetime_is_a_lease<S: Store + KeyValueStore>(b: StoreFixture<S>) {
    let bucket = b.bucket();
    let lease = |expected, lifetime| KeyValueWrite {
        lifetime: Some(lifetime),
        ..KeyValueWrite::put(&bucket, "lease", expected, b"me")
    };
    let (short, long) = (Duration::from_millis(1), Duration::from_secs(600));
    let held = b.store.write_key_value(lease(None, short)).await.expect("write").expect("taken");
    sleep_millis(15).await;
    assert_eq!(b.value_text("lease").await, "-");
    assert_eq!(b.store.key_values(&bucket, "").await.expect("values"), []);
    assert_eq!(b.store.write_key_value(lease(Some(held), long)).await.expect("write"), None, "it is over");
    let held = b.store.write_key_value(lease(None, long)).await.expect("write").expect("free");
    assert_eq!(b.store.write_key_value(lease(None, long)).await.expect("write"), None, "it is taken");
    let renewed = b.store.write_key_value(lease(Some(held), short)).await.expect("write").expect("renewed");
    assert!(renewed > held);
    sleep_millis(15).await;
    assert!(b.put_value("lease", None, "for ever").await.is_some());
    b.store.gc(&Retention::default()).await.expect("gc");
    assert_eq!(b.value_text("lease").await, "for ever");
}

pub(super) async fn of_many_writers_of_one_value_each_is_counted<S: Store + KeyValueStore>(
    b: StoreFixture<S>,
) {
    let bucket = b.bucket();
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (store, bucket) = (std::sync::Arc::clone(&b.store), bucket.clone());
        writers.spawn(async move {
            for _ in 0..10 {
                loop {
                    let found = store.key_value(&bucket, "count").await.expect("read");
                    let count = found.as_ref().map_or(0, |found| found.value.len());
                    let (expected, value) = (found.map(|found| found.revision), vec![b'x'; count + 1]);
                    let write = KeyValueWrite::put(&bucket, "count", expected, &value);
                    if store.write_key_value(write).await.expect("write").is_some() {
                        break;
                    }
                }
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.expect("counted");
    }
    assert_eq!(b.value_text("count").await.len(), 40);
}

pub(super) async fn what_cannot_be_stored_is_refused<S: Store + KeyValueStore>(b: StoreFixture<S>) {
    let (bucket, long) = (b.bucket(), "k".repeat(MAX_VALUE_KEY_BYTES + 1));
    let large = vec![0; MAX_VALUE_BYTES + 1];
    let fits = KeyValueWrite::put(&bucket, "k", None, b"v");
    for wrong in [
        KeyValueWrite { key: "", ..fits },
        KeyValueWrite { key: "a\0b", ..fits },
        KeyValueWrite { key: &long, ..fits },
        KeyValueWrite { bucket: "", ..fits },
        KeyValueWrite { value: Some(&large), ..fits },
        KeyValueWrite { value: None, ..fits },
        KeyValueWrite { put_blobs: &[("", b"")], ..fits },
        KeyValueWrite { put_blobs: &[("x", b"")], lifetime: Some(Duration::from_secs(1)), ..fits },
    ] {
        let refused = b.store.write_key_value(wrong).await;
        assert!(matches!(refused, Err(StoreError::Rejected(_))), "{refused:?}");
    }
    assert_eq!(b.store.key_values(&bucket, "").await.expect("values"), []);
}
