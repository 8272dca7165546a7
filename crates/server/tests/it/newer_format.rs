//! A server whose database a newer program has migrated: it is not ready, takes no writes, and says why.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use doran_engine::store::{Commit, CommitOutcome, Fence, RamStore, StoreError};

use crate::{app_with_history, check_both_languages, get, json, json_request, post, problem, send, text};

/// What only reads.
const READS: [&str; 9] = [
    "load",
    "entries",
    "run",
    "run_positions",
    "runs",
    "deleted_usage",
    "thread",
    "thread_before_write",
    "threads",
];

/// A store that a newer program may have migrated.
struct MigratedStore {
    inner: RamStore,
    is_newer: Arc<AtomicBool>,
}

impl MigratedStore {
    fn check(&self, name: &str) -> Result<(), StoreError> {
        match self.is_newer.load(Ordering::SeqCst) && !READS.contains(&name) {
            true => Err(StoreError::Newer { found: 99, known: 14 }),
            false => Ok(()),
        }
    }

    async fn call<T>(
        &self,
        name: &'static str,
        made: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.check(name)?;
        made.await
    }

    async fn checked_commit(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError> {
        use doran_engine::store::RunStore as _;
        self.check("commit")?;
        self.inner.commit(fence, commit).await
    }
}

doran_engine::delegated_store!(MigratedStore, call: call, commit: checked_commit, exclusive: false);

#[tokio::test]
async fn a_server_that_has_become_too_old_is_not_ready_and_takes_no_writes() {
    let (store, is_newer) = (RamStore::new(), Arc::new(AtomicBool::new(false)));
    let migrated = MigratedStore { inner: store.clone(), is_newer: is_newer.clone() };
    let app = app_with_history(Arc::new(migrated), Arc::new(store));
    assert_eq!(json(&app, get("/readyz")).await["status"], "ready");
    let made = json(&app, post("/api/threads", r#"{"title":"하나"}"#)).await;
    let thread = format!("/api/threads/{}", made["id"].as_str().expect("an id"));
    is_newer.store(true, Ordering::SeqCst);
    let answer = send(&app, get("/readyz")).await;
    assert_eq!(answer.status(), 503);
    let answer: serde_json::Value = serde_json::from_str(&text(answer).await).expect("JSON");
    check_both_languages(&answer);
    assert!(answer["code"] == "newer_format" && answer.to_string().contains("format 99"), "{answer}");
    let asked = r#"{"agent":"react","message":"안녕?"}"#;
    for write in [
        post("/api/threads", r#"{"title":"둘"}"#),
        json_request("patch", &thread, r#"{"title":"셋"}"#),
        json_request("delete", &thread, ""),
        post(&format!("{thread}/runs"), asked),
        post("/api/chat", r#"{"message":"안녕?"}"#),
    ] {
        let shown = format!("{} {}", write.method(), write.uri());
        assert_eq!(problem(&app, write).await, "503 newer_format", "{shown}");
    }
    assert_eq!(json(&app, get(&thread)).await["title"], "하나", "reading goes on");
}
