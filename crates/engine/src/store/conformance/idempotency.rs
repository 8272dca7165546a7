//! Responses stored under idempotency keys.

use std::time::Duration;

use super::fixture::*;
use crate::store::*;

const LONG_RETENTION: ResponseRetention =
    ResponseRetention { lifetime: Duration::from_secs(600), max_per_tenant: 100 };

fn response(text: &str) -> IdempotentResponse {
    IdempotentResponse { request_hash: format!("hash of {text}"), response: text.as_bytes().to_vec() }
}

impl<S: Store + IdempotencyStore> StoreFixture<S> {
    async fn respond(&self, key: &str, text: &str, retention: ResponseRetention) {
        self.store.store_response(&self.tenant, key, &response(text), retention).await.expect("store");
    }

    /// The stored response as text, or `-`.
    async fn responded(&self, key: &str) -> String {
        match self.store.stored_response(&self.tenant, key).await.expect("read") {
            Some(stored) => {
                let text = String::from_utf8(stored.response).expect("text");
                assert_eq!(stored.request_hash, format!("hash of {text}"));
                text
            }
            None => "-".to_owned(),
        }
    }
}

pub(super) async fn a_stored_response_is_returned<S: Store + IdempotencyStore>(b: StoreFixture<S>) {
    assert_eq!(b.responded("k").await, "-");
    b.respond("k", "one", LONG_RETENTION).await;
    b.respond("K", "", LONG_RETENTION).await;
    assert_eq!((b.responded("k").await, b.responded("K").await), ("one".to_owned(), String::new()));
    let bytes = IdempotentResponse { request_hash: String::new(), response: (0..=255).collect() };
    b.store.store_response(&b.tenant, "bytes\0", &bytes, LONG_RETENTION).await.expect("store");
    assert_eq!(b.store.stored_response(&b.tenant, "bytes\0").await.expect("read"), Some(bytes));
}

pub(super) async fn the_first_response_under_a_key_stays<S: Store + IdempotencyStore>(b: StoreFixture<S>) {
    b.respond("k", "first", LONG_RETENTION).await;
    b.respond("k", "second", LONG_RETENTION).await;
    assert_eq!(b.responded("k").await, "first");
}

pub(super) async fn an_expired_response_is_gone<S: Store + IdempotencyStore>(b: StoreFixture<S>) {
    let short = ResponseRetention { lifetime: Duration::from_millis(1), ..LONG_RETENTION };
    b.respond("short", "old", short).await;
    b.respond("long", "long", LONG_RETENTION).await;
    sleep_millis(15).await;
    assert_eq!((b.responded("short").await, b.responded("long").await), ("-".to_owned(), "long".to_owned()));
    b.respond("short", "new", LONG_RETENTION).await;
    assert_eq!(b.responded("short").await, "new", "an expired response leaves its key free");

    b.respond("cleared", "old", short).await;
    sleep_millis(15).await;
    let cleared = b.store.gc(&Retention::default()).await.expect("gc");
    assert!(cleared.keys >= 1, "{cleared:?}");
    assert_eq!(
        (b.responded("short").await, b.responded("long").await),
        ("new".to_owned(), "long".to_owned())
    );
}

pub(super) async fn the_oldest_responses_are_deleted<S: Store + IdempotencyStore>(b: StoreFixture<S>) {
    let other = b.with_other_tenant();
    let three = ResponseRetention { max_per_tenant: 3, ..LONG_RETENTION };
    other.respond("k0", "theirs", three).await;
    for number in 0..5 {
        b.respond(&format!("k{number}"), &number.to_string(), three).await;
    }
    // A response that was there already does not count again.
    b.respond("k4", "again", three).await;
    let mut stored = String::new();
    for number in 0..5 {
        stored += &b.responded(&format!("k{number}")).await;
    }
    assert_eq!(stored, "--234");
    assert_eq!(other.responded("k0").await, "theirs");
}

pub(super) async fn responses_belong_to_a_tenant<S: Store + IdempotencyStore>(b: StoreFixture<S>) {
    let other = b.with_other_tenant();
    b.respond("k", "ours", LONG_RETENTION).await;
    assert_eq!(other.responded("k").await, "-");
    other.respond("k", "theirs", LONG_RETENTION).await;
    assert_eq!(
        (b.responded("k").await, other.responded("k").await),
        ("ours".to_owned(), "theirs".to_owned())
    );
    // The cache of nodes is another table.
    assert_eq!(b.store.cached_value(&b.tenant, "k").await.expect("cached"), None);
}
