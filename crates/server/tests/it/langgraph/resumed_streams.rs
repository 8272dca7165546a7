//! A stream that was cut goes on with what its client does not have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use doran_agents::{Agent, ByMessageId, llm::Message};
use doran_engine::store::RamStore;
use doran_engine::{Cx, Graph, NodeError, RetryPolicy, Runtime, Snap, State, node, subgraph};
use doran_server::ServerApp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{four_graphs_app, hi, new_thread, run_of};
use crate::{get, post, problem, send, text, with_header};

#[derive(Clone, Debug, PartialEq)]
struct StreamedEvent {
    id: String,
    name: String,
    data: Value,
}

fn read_events(stream: &str) -> Vec<StreamedEvent> {
    let frames = stream.split("\n\n").filter(|frame| frame.contains("data: "));
    let read = |frame: &str| {
        let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
        let data = serde_json::from_str(field("data: ")).expect("JSON");
        StreamedEvent { id: field("id: ").to_owned(), name: field("event: ").to_owned(), data }
    };
    frames.map(read).collect()
}

/// The messages as clients that add pieces have them: their words by their ids.
fn messages(events: &[StreamedEvent]) -> BTreeMap<String, String> {
    let mut messages: BTreeMap<String, String> = BTreeMap::new();
    for event in events.iter().filter(|event| event.name == "messages") {
        let (message, words) = (&event.data[0], event.data[0]["content"].as_str().expect("words"));
        messages.entry(message["id"].as_str().expect("an id").to_owned()).or_default().push_str(words);
    }
    messages
}

fn others(events: &[StreamedEvent]) -> Vec<(String, Value)> {
    let others = events.iter().filter(|event| !event.name.starts_with("messages"));
    others.map(|event| (event.name.clone(), event.data.clone())).collect()
}

async fn stream(app: &ServerApp, assistant: &str) -> (Vec<StreamedEvent>, String) {
    let thread = new_thread(app).await;
    let body = json!({
        "assistant_id": assistant, "input": hi(), "stream_mode": ["messages-tuple", "updates", "values"],
    });
    let response = send(app, post(&format!("/threads/{thread}/runs/stream"), &body.to_string())).await;
    let (thread, run) = run_of(&response);
    let path = format!(
        "/threads/{thread}/runs/{run}/stream?stream_mode=messages-tuple&stream_mode=updates&stream_mode=values"
    );
    (read_events(&text(response).await), path)
}

/// Cut after any event, and read on when the run is over: no word is lost, and none comes twice.
#[tokio::test]
async fn a_stream_that_was_cut_goes_on_with_what_its_client_does_not_have() {
    let app = four_graphs_app();
    let (all, path) = stream(&app, "chat").await;
    let whole = messages(&all);
    let said: String = (0..20).map(|number| format!("token{number} ")).collect();
    assert_eq!(whole.values().collect::<Vec<_>>(), [&said]);
    for cut in 1..=all.len() {
        let (had, last) = (&all[..cut], &all[cut - 1].id);
        let rest = text(send(&app, with_header(get(&path), "last-event-id", last)).await).await;
        let together = [had, &read_events(&rest)].concat();
        assert_eq!(messages(&together), whole, "after {last}: {rest}");
        assert_eq!(others(&together), others(&all), "after {last}: {rest}");
    }
    for wrong in ["1", "1-x", "1-1-x", "1-1~1.2", "99999999999999-1"] {
        let request = with_header(get(&path), "last-event-id", wrong);
        assert_eq!(problem(&app, request).await, "422 invalid_request", "{wrong}");
    }
}

#[derive(State, Clone, Default, Serialize, Deserialize, JsonSchema)]
struct Ticks {
    answer: Option<String>,
}

/// Two steps that show ticks. Then `pausing` asks, `broken` fails, and `ticks` ends.
fn ticking_app() -> ServerApp {
    let graph = |end: &'static str| {
        let first = async |_: Snap<Ticks>, cx: Cx| {
            (0..5).for_each(|tick| cx.emit(json!({ "tick": tick })));
            cx.emit_text("words");
            Ok::<_, NodeError>(Ticks::update())
        };
        let last = move |_: Snap<Ticks>, cx: Cx| async move {
            (5..8).for_each(|tick| cx.emit(json!({ "tick": tick })));
            match end {
                "pausing" => Ok(Ticks::update().answer(cx.ask::<String, _>(json!("go on?")).await?)),
                "broken" => Err(NodeError::permanent("boom")),
                _ => Ok(Ticks::update().answer("done".to_owned())),
            }
        };
        let graph = Graph::named().node("first", node(first).then("last")).node("last", node(last).end());
        Agent::from_graph(end, &graph.start("first").build().expect("sound"))
    };
    let inner = Graph::named().node(
        "inner",
        node(async |_: Snap<Ticks>| Ok::<_, NodeError>(Ticks::update().answer("within".to_owned()))).end(),
    );
    let inner = inner.start("inner").build().expect("sound");
    let outer = subgraph(
        inner,
        |_: &Ticks| Ticks::update(),
        |inner: &Ticks| Ticks::update().answer(inner.answer.clone().unwrap_or_default()),
    );
    let outer = Graph::named().node("outer", node(outer).end()).start("outer").build().expect("sound");
    let mut graphs = ["ticks", "pausing", "broken"].map(graph).to_vec();
    graphs.push(Agent::from_graph("nested", &outer));
    let store = Arc::new(RamStore::new());
    let runtime = Runtime::new(store.clone());
    graphs.iter().for_each(|graph| graph.register(&runtime).expect("registered"));
    ServerApp::new(runtime, store, graphs)
}

async fn stream_ticks(app: &ServerApp, graph: &str, is_resumable: bool) -> (Vec<StreamedEvent>, String) {
    let thread = new_thread(app).await;
    let body = json!({
        "assistant_id": graph, "input": {}, "stream_mode": ["custom", "updates"], "stream_resumable": is_resumable,
    });
    let response = send(app, post(&format!("/threads/{thread}/runs/stream"), &body.to_string())).await;
    let (thread, run) = run_of(&response);
    (read_events(&text(response).await), format!("/threads/{thread}/runs/{run}/stream"))
}

fn ticks(events: &[StreamedEvent]) -> Vec<Value> {
    events.iter().filter(|event| event.name == "custom").map(|event| event.data.clone()).collect()
}

fn all_ticks() -> Vec<Value> {
    let tick = |tick: u32| json!({ "tick": tick });
    (0..5).map(tick).chain([json!("words")]).chain((5..8).map(tick)).collect()
}

/// A stream that is requested as resumable stores what nodes show, whatever their steps come to.
#[tokio::test]
async fn custom_events_of_steps_that_are_over_are_sent_to_those_who_come_back() {
    let app = ticking_app();
    for graph in ["ticks", "pausing", "broken"] {
        let (all, path) = stream_ticks(&app, graph, true).await;
        assert_eq!(ticks(&all), all_ticks(), "{graph}");
        let joined = read_events(&text(send(&app, get(&path)).await).await);
        assert_eq!(others(&joined), others(&all), "{graph}");
        for cut in 1..=all.len() {
            let last = &all[cut - 1].id;
            let rest = text(send(&app, with_header(get(&path), "last-event-id", last)).await).await;
            let together = [&all[..cut], &read_events(&rest)].concat();
            assert_eq!(others(&together), others(&all), "{graph} after {last}: {rest}");
        }
    }
    // Without that nothing is stored.
    let (all, path) = stream_ticks(&app, "ticks", false).await;
    assert_eq!(ticks(&all), all_ticks());
    let joined = read_events(&text(send(&app, get(&path)).await).await);
    assert_eq!(ticks(&joined), [] as [Value; 0]);
}

/// Steps of a graph inside a node are streamed on request, also to those who join later.
#[tokio::test]
async fn steps_inside_a_node_are_streamed_with_stream_subgraphs() {
    let app = ticking_app();
    for (subgraphs, count) in [(true, 1), (false, 0)] {
        let thread = new_thread(&app).await;
        let body = json!({
            "assistant_id": "nested", "input": {}, "stream_mode": "updates", "stream_subgraphs": subgraphs,
        });
        let response = send(&app, post(&format!("/threads/{thread}/runs/stream"), &body.to_string())).await;
        let (thread, run) = run_of(&response);
        let all = read_events(&text(response).await);
        let inner: Vec<&StreamedEvent> =
            all.iter().filter(|event| event.name.starts_with("updates|outer:")).collect();
        assert_eq!(inner.len(), count, "{all:?}");
        assert!(inner.iter().all(|event| event.data["inner"]["answer"] == "within"), "{all:?}");
        let path = format!("/threads/{thread}/runs/{run}/stream");
        assert_eq!(others(&read_events(&text(send(&app, get(&path)).await).await)), others(&all));
    }
}

/// A run that goes on is streamed as the request that answered it said, also to its client that comes back.
#[tokio::test]
async fn a_client_that_comes_back_to_an_answered_run_gets_the_modes_of_its_answer() {
    let app = ticking_app();
    let (_, path) = stream_ticks(&app, "pausing", true).await;
    let thread = path.split('/').nth(2).expect("a thread");
    let body = json!({
        "assistant_id": "pausing", "command": { "resume": "yes" }, "stream_mode": "values", "stream_resumable": true,
    });
    let response = send(&app, post(&format!("/threads/{thread}/runs/stream"), &body.to_string())).await;
    let location = response.headers()["location"].to_str().expect("text").to_owned();
    let all = read_events(&text(response).await);
    let names: Vec<&str> = all.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["metadata", "values", "values"]);
    let rest = text(send(&app, with_header(get(&location), "last-event-id", &all[1].id)).await).await;
    assert_eq!(others(&read_events(&rest)), others(&all[2..]), "{location}");
}

#[derive(State, Clone, Default, Serialize, Deserialize, JsonSchema)]
struct Talk {
    #[reduce(rule = ByMessageId)]
    messages: Vec<Message>,
}

fn talk_app() -> ServerApp {
    let graph = |second_try: &'static str| {
        let has_failed = Arc::new(AtomicBool::new(false));
        let talk = move |_: Snap<Talk>, cx: Cx| {
            let has_failed = has_failed.clone();
            async move {
                if !has_failed.swap(true, Relaxed) {
                    cx.emit_text_of("m", "one ");
                    return Err(NodeError::transient("again"));
                }
                second_try.split_inclusive(' ').for_each(|word| cx.emit_text_of("m", word.to_owned()));
                Ok(Talk::update().messages(Message::assistant("m", second_try)))
            }
        };
        let retry = RetryPolicy { first_wait: Duration::ZERO, ..RetryPolicy::times(3) };
        Graph::named().node("talk", node(talk).retry(retry).end()).start("talk").build().expect("sound")
    };
    let graphs = vec![
        Agent::from_graph("same", &graph("one two three")),
        Agent::from_graph("other", &graph("eins zwei")),
    ];
    let store = Arc::new(RamStore::new());
    let runtime = Runtime::new(store.clone());
    graphs.iter().for_each(|graph| graph.register(&runtime).expect("registered"));
    ServerApp::new(runtime, store, graphs)
}

/// A node that is tried again repeats no word, and other words have another id.
#[tokio::test]
async fn words_of_a_node_that_is_tried_again_come_once() {
    let app = talk_app();
    let same = messages(&stream(&app, "same").await.0);
    assert_eq!(same.into_iter().collect::<Vec<_>>(), [("m".to_owned(), "one two three".to_owned())]);
    // Who looks late sees nothing of the first try.
    let other = messages(&stream(&app, "other").await.0);
    assert!(other.values().any(|words| words == "eins zwei"), "{other:?}");
    assert!(other.values().all(|words| ["one ", "eins zwei"].contains(&words.as_str())), "{other:?}");
}
