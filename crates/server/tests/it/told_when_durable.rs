//! A client that waits for an answer is told of the run when it is on disk, whatever it is told.

use std::sync::Arc;
use std::time::Duration;

use doran_engine::TenantId;
use doran_engine::store::{
    Commit, CommitOutcome, Durability, Fence, HistoryStore, RamStore, RunFilter, RunStore, StoreError,
};
use doran_llm::ChatModel;
use doran_offline::OfflineModel;
use doran_server::ServerLimits;
use serde_json::json as object;
use tokio::sync::{Notify, watch};

use crate::{PausingModel, app_with_history_and_model, post, send, text};

/// A store in memory whose disk is held back once a run was submitted: who waits for it waits, and so does who reads.
struct HeldDiskStore {
    inner: RamStore,
    /// Whether a run was submitted, and whether it is on disk.
    submitted: watch::Sender<bool>,
    on_disk: watch::Sender<bool>,
}

impl HeldDiskStore {
    async fn wait_for_disk(&self) {
        if *self.submitted.borrow() {
            self.on_disk.subscribe().wait_for(|on_disk| *on_disk).await.expect("open");
        }
    }

    async fn held_call<T>(
        &self,
        call: &'static str,
        made: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let made = made.await;
        match call {
            "submit" => drop(self.submitted.send_replace(true)),
            _ => self.wait_for_disk().await,
        }
        made
    }

    async fn held_commit(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let durability = commit.durability;
        let committed = self.inner.commit(fence, commit).await;
        if durability == Durability::Now {
            self.wait_for_disk().await;
        }
        committed
    }
}

doran_engine::delegated_store!(HeldDiskStore, call: held_call, commit: held_commit, exclusive: true);

/// What happens while a client waits.
#[derive(Clone, Copy, Debug)]
enum WaitEnd {
    /// The run ends.
    Finished,
    /// The server stops.
    Stopped,
    /// Nobody waits longer.
    Late,
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_an_answer_is_told_nothing_before_the_run_is_on_disk() {
    let messages = object!([{ "role": "user", "content": "안녕하세요" }]);
    let ways = [
        ("/api/chat", object!({ "agent": "react", "message": "안녕하세요", "sessionId": "t" })),
        ("/api/threads/t/runs?wait=true", object!({ "agent": "react", "message": "안녕하세요" })),
        ("/v1/chat/completions", object!({ "model": "react", "messages": messages })),
        ("/v1/responses", object!({ "model": "react", "input": "안녕하세요" })),
        ("/runs/wait", object!({ "assistant_id": "react", "input": { "messages": messages } })),
        (
            "/threads/0190a2b4-7c3e-7a2b-9f4d-1c2b3a4d5e6f/runs/wait",
            object!({ "assistant_id": "react", "if_not_exists": "create", "input": { "messages": messages } }),
        ),
    ];
    for (path, body) in &ways {
        for end in [WaitEnd::Finished, WaitEnd::Stopped, WaitEnd::Late] {
            let model: Arc<dyn ChatModel> = match end {
                WaitEnd::Finished => Arc::new(OfflineModel),
                WaitEnd::Stopped | WaitEnd::Late => Arc::new(PausingModel(Arc::new(Notify::new()))),
            };
            let answer_timeout = match end {
                WaitEnd::Late => Duration::from_millis(200),
                WaitEnd::Finished | WaitEnd::Stopped => ServerLimits::default().answer_timeout,
            };
            let inner = RamStore::new();
            let store = Arc::new(HeldDiskStore {
                inner: inner.clone(),
                submitted: watch::Sender::new(false),
                on_disk: watch::Sender::new(false),
            });
            let app = app_with_history_and_model(store.clone(), Arc::new(inner.clone()), model)
                .limits(ServerLimits { answer_timeout, ..ServerLimits::default() });
            let mut asking = Box::pin(send(&app, post(path, &body.to_string())));
            let mut submitted = store.submitted.subscribe();
            tokio::select! {
                answer = &mut asking => panic!("{path}, {end:?}: {} before the start", answer.status()),
                begun = submitted.wait_for(|submitted| *submitted) => drop(begun.expect("open")),
            }
            if let WaitEnd::Stopped = end {
                app.draining().cancel();
            }
            let told = tokio::time::timeout(Duration::from_secs(60), &mut asking).await;
            assert!(told.is_err(), "{path}, {end:?}: the client was told before the run was on disk");
            store.on_disk.send_replace(true);
            let answer = asking.await;
            let status = answer.status().as_u16();
            let words = text(answer).await;
            let expected: &[u16] = match end {
                WaitEnd::Finished => &[200],
                WaitEnd::Stopped => &[504],
                // Some say so in the answer.
                WaitEnd::Late => &[200, 504],
            };
            assert!(expected.contains(&status), "{path}, {end:?}: {status} {words}");
            let runs = inner.runs(&TenantId::local(), &RunFilter::default()).await.expect("runs");
            // A run without a thread is deleted after its answer.
            assert!(runs.len() == 1 || *path == "/runs/wait", "{path}, {end:?}: {runs:?}");
        }
    }
}
