//! Threads that are deleted: lists that are read meanwhile, and crons that would make them anew.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use doran_agents::Agent;
use doran_engine::store::{
    Commit, CommitOutcome, Fence, RamStore, RunStore as _, StoreError, ThreadMaintenance as _,
};
use doran_engine::{Cx, Graph, NodeError, Runtime, Snap, State, TenantId, ThreadId, ThreadKey, node};
use doran_server::ServerApp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{four_graphs, four_graphs_app_and_runtime, hi, new_thread};
use crate::{get, json, json_request, post, problem, send, text};

/// A store in memory that deletes a thread after the next call of this name.
struct DeletingStore {
    inner: RamStore,
    next: Mutex<Option<(&'static str, ThreadKey)>>,
}

impl DeletingStore {
    async fn call<T>(
        &self,
        name: &'static str,
        made: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let made = made.await;
        let due = self.next.lock().expect("a lock").take_if(|(after, _)| *after == name);
        if let Some((_, thread)) = due {
            self.inner.delete_thread(&thread).await.expect("deleted");
        }
        made
    }

    async fn commit_as_is(&self, fence: &Fence, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.inner.commit(fence, commit).await
    }
}

doran_engine::delegated_store!(DeletingStore, call: call, commit: commit_as_is, exclusive: true);

fn deleting_app() -> (ServerApp, Arc<DeletingStore>) {
    let inner = RamStore::new();
    let store = Arc::new(DeletingStore { inner: inner.clone(), next: Mutex::new(None) });
    let runtime = Runtime::new(store.clone());
    let graphs = four_graphs::graphs().expect("sound graphs");
    for graph in &graphs {
        graph.register(&runtime).expect("registered");
    }
    (ServerApp::new(runtime, Arc::new(inner), graphs), store)
}

/// A thread with a run of this graph: `chat` ends, and `hitl` waits.
async fn thread_of(app: &ServerApp, graph: &str) -> String {
    let thread = new_thread(app).await;
    let mut input = hi();
    if graph == "hitl" {
        input["answer"] = json!("none");
    }
    let body = json!({ "assistant_id": graph, "input": input }).to_string();
    json(app, post(&format!("/threads/{thread}/runs/wait"), &body)).await;
    thread
}

/// The store deletes this thread after the next call of this name.
fn delete_after(store: &DeletingStore, call: &'static str, thread: &str) {
    let thread = ThreadKey { tenant: TenantId::local(), thread: ThreadId::new(thread).expect("an id") };
    *store.next.lock().expect("a lock") = Some((call, thread));
}

/// What finds the threads of a graph by their status.
fn status_of(graph: &str) -> Value {
    json!({ "status": if graph == "chat" { "idle" } else { "interrupted" } })
}

/// What finds them by their state.
fn state_of(graph: &str) -> Value {
    json!({ "values": if graph == "chat" { json!({ "turn": 1 }) } else { json!({ "answer": "none" }) } })
}

#[tokio::test]
async fn a_thread_that_is_deleted_while_a_list_is_read_is_left_out_of_it() {
    for (graph, call) in [
        ("chat", "threads"),
        ("chat", "runs"),
        ("chat", "entries"),
        ("hitl", "threads"),
        ("hitl", "runs"),
        ("hitl", "run"),
        ("hitl", "entries"),
    ] {
        for mut body in [json!({}), status_of(graph), state_of(graph)] {
            let shown = format!("{graph} after `{call}`: {body}");
            let (app, store) = deleting_app();
            let stay = [thread_of(&app, graph).await, thread_of(&app, graph).await];
            // The last changed is read first.
            let leaves = thread_of(&app, graph).await;
            let all = json(&app, post("/threads/search", &body.to_string())).await;
            assert_eq!(all.as_array().map(Vec::len), Some(3), "{shown}");
            delete_after(&store, call, &leaves);
            // The next thread takes its place on the page.
            body["limit"] = json!(1);
            let response = send(&app, post("/threads/search", &body.to_string())).await;
            let (status, headers) = (response.status(), response.headers().clone());
            let words = text(response).await;
            assert_eq!(status, 200, "{shown}: {words}");
            assert!(store.next.lock().expect("a lock").is_none(), "{shown}: nothing was deleted");
            let page: Value = serde_json::from_str(&words).expect("JSON");
            assert_eq!(page.as_array().map(Vec::len), Some(1), "{shown}: {page}");
            assert_eq!(page[0]["thread_id"], stay[1], "{shown}");
            assert_eq!(headers["x-pagination-next"], "1", "{shown}");
            body["offset"] = json!(1);
            let next = json(&app, post("/threads/search", &body.to_string())).await;
            assert_eq!(next[0]["thread_id"], stay[0], "{shown}");
        }
    }
}

#[tokio::test]
async fn a_thread_that_is_deleted_while_threads_are_counted_does_not_count() {
    for (graph, call, body) in [
        ("chat", "threads", status_of("chat")),
        ("chat", "threads", state_of("chat")),
        ("chat", "entries", state_of("chat")),
        ("hitl", "threads", status_of("hitl")),
        ("hitl", "runs", status_of("hitl")),
        ("hitl", "threads", state_of("hitl")),
        ("hitl", "entries", state_of("hitl")),
    ] {
        let shown = format!("{graph} after `{call}`: {body}");
        let (app, store) = deleting_app();
        thread_of(&app, graph).await;
        let leaves = thread_of(&app, graph).await;
        assert_eq!(json(&app, post("/threads/count", &body.to_string())).await, 2, "{shown}");
        delete_after(&store, call, &leaves);
        let response = send(&app, post("/threads/count", &body.to_string())).await;
        let (status, words) = (response.status(), text(response).await);
        assert_eq!((status.as_u16(), &*words), (200, "1"), "{shown}");
    }
}

#[tokio::test]
async fn a_cron_leaves_with_its_thread() {
    for route in ["/threads", "/api/threads", "/v1/responses"] {
        let (app, runtime) = four_graphs_app_and_runtime();
        let asked = post("/v1/responses", r#"{"model":"chat","input":"hi"}"#);
        let response = send(&app, asked).await;
        let thread = response.headers()["x-thread-id"].to_str().expect("text").to_owned();
        let response: Value = serde_json::from_str(&text(response).await).expect("JSON");
        let other = new_thread(&app).await;
        let body = json!({ "assistant_id": "chat", "schedule": "0 0 1 1 *", "input": hi() }).to_string();
        let cron = async |path: String| {
            let cron = json(&app, post(&path, &body)).await;
            cron["cron_id"].as_str().expect("an id").to_owned()
        };
        let own = cron(format!("/threads/{thread}/runs/crons")).await;
        let damaged = cron(format!("/threads/{thread}/runs/crons")).await;
        let of_other = cron(format!("/threads/{other}/runs/crons")).await;
        let of_none = cron("/runs/crons".to_owned()).await;
        let tenant = TenantId::local();
        let schedule = runtime.schedule(&tenant, &damaged).await.expect("read").expect("a schedule");
        let mut definition = schedule.definition;
        definition.metadata["doran"]["cron"] = json!("damaged");
        runtime.put_schedule(&tenant, &damaged, &definition, true).await.expect("stored");
        // A schedule of a program is no cron.
        definition.metadata.remove("doran");
        runtime.put_schedule(&tenant, "of-program", &definition, true).await.expect("stored");
        let id = if route == "/v1/responses" { response["id"].as_str().expect("an id") } else { &thread };
        let deleted = send(&app, json_request("delete", &format!("{route}/{id}"), "")).await;
        assert!(deleted.status().is_success(), "{route}");
        assert_eq!(problem(&app, get(&format!("/threads/{thread}"))).await, "404 not_found", "{route}");
        for gone in [own, damaged] {
            assert_eq!(problem(&app, get(&format!("/runs/crons/{gone}"))).await, "404 not_found", "{route}");
        }
        for kept in [&of_other, &of_none, "of-program"] {
            let schedule = runtime.schedule(&tenant, kept).await.expect("read");
            assert!(schedule.is_some(), "{route}: {kept}");
        }
    }
}

/// What a graph carries whose only node does not end.
#[derive(State, Clone, Default, Serialize, Deserialize, JsonSchema)]
struct EndlessState {
    rounds: u32,
}

#[tokio::test]
async fn runs_that_wait_do_not_begin_while_their_thread_is_deleted() {
    let begun = Arc::new(AtomicUsize::new(0));
    for route in ["/threads", "/api/threads"] {
        let counted = begun.clone();
        let endless = node(move |_: Snap<EndlessState>, _: Cx| {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<Result<EndlessStateUpdate, NodeError>>()
        });
        let graph = Graph::named().node("endless", endless.end()).start("endless").build().expect("sound");
        let inner = RamStore::new();
        let runtime = Runtime::new(Arc::new(inner.clone()));
        let agent = Agent::from_graph("endless", &graph);
        agent.register(&runtime).expect("registered");
        let app = ServerApp::new(runtime, Arc::new(inner), vec![agent]);
        let thread = new_thread(&app).await;
        let body = json!({ "assistant_id": "endless", "input": {}, "multitask_strategy": "enqueue" });
        for _ in 0..4 {
            let started = send(&app, post(&format!("/threads/{thread}/runs"), &body.to_string())).await;
            assert!(started.status().is_success(), "{route}");
        }
        while begun.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let deleted = send(&app, json_request("delete", &format!("{route}/{thread}"), "")).await;
        assert!(deleted.status().is_success(), "{route}");
        assert_eq!(begun.swap(0, Ordering::SeqCst), 1, "{route}: the others waited");
    }
}
