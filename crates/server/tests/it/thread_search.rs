//! A search in threads ends in time, and the next page goes on where it ended.

use std::sync::Arc;
use std::time::Duration;

use doran_engine::store::{Commit, CommitOutcome, Fence, RamStore, StoreError};

use crate::{app_with_history, get, json, post};

/// How long a slow call takes. A thread is read in two: its entries, and that there are no more.
const READ_TIME: Duration = Duration::from_millis(500);

/// A store in memory with one slow call.
pub(crate) struct SlowCallStore {
    pub(crate) inner: RamStore,
    pub(crate) slow: &'static str,
}

impl SlowCallStore {
    async fn slow_call<T>(
        &self,
        call: &'static str,
        made: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if call == self.slow {
            tokio::time::sleep(READ_TIME).await;
        }
        made.await
    }

    async fn quick_commit(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError> {
        use doran_engine::store::RunStore as _;
        self.inner.commit(fence, commit).await
    }
}

doran_engine::delegated_store!(SlowCallStore, call: slow_call, commit: quick_commit, exclusive: true);

#[tokio::test(start_paused = true)]
async fn a_search_that_takes_long_gives_what_it_found_and_goes_on_in_the_next_page() {
    let store = RamStore::new();
    let app =
        app_with_history(Arc::new(SlowCallStore { inner: store.clone(), slow: "entries" }), Arc::new(store));
    let ask = async |thread: &str, message: &str| {
        let body = serde_json::json!({ "agent": "react", "message": message }).to_string();
        json(&app, post(&format!("/api/threads/{thread}/runs?wait=true"), &body)).await;
    };
    for thread in ["t0", "t1", "t2", "t3", "t4"] {
        ask(thread, "안녕하세요").await;
    }
    // Its title is the first message, so that the log has to be read for the second.
    ask("t2", "고래는 무엇을 먹나요?").await;
    let (mut pages, mut found, mut cursor) = (0, Vec::new(), String::new());
    loop {
        let searched = json(&app, get(&format!("/api/threads?q=%EA%B3%A0%EB%9E%98{cursor}")));
        // Nobody else waits for it.
        let other = json(&app, get("/api/threads"));
        let (page, listed) = tokio::join!(searched, async {
            let started = tokio::time::Instant::now();
            (other.await, started.elapsed())
        });
        assert_eq!((listed.0["threads"].as_array().map(Vec::len), listed.1), (Some(5), Duration::ZERO));
        let threads = page["threads"].as_array().expect("a list").iter();
        found.extend(threads.map(|thread| thread["id"].as_str().expect("an id").to_owned()));
        pages += 1;
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    // Two threads are read in two seconds.
    assert_eq!(pages, 3);
    assert_eq!(found, ["t2"]);
}
