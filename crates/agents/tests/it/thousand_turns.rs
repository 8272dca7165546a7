//! A thread of a thousand turns on SQLite: what a model is sent stays within its limits, and a turn late in the thread
//! writes no more than an early one, grows the file by no more, and takes about as long.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doran_agents::tools::Toolbox;
use doran_agents::{RequestPurpose, Settings, history};
use doran_engine::store::Store;
use doran_llm::{ChatModel, ChatRequest, DeltaStream, ScriptedModel, ScriptedReply};
use doran_store::FileStoreMaintenance;
use doran_store::sqlite::SqliteStore;
use serde_json::json;

use crate::agent_fixture::{AgentFixture, agent_parts, build_fixture, test_thread};

const TURNS: usize = 1000;

/// A model that answers at once, always with as many bytes, and remembers the most it was sent.
#[derive(Clone, Default)]
struct FixedLengthReplyModel {
    max_sent_tokens: Arc<AtomicU64>,
    summaries: Arc<AtomicU64>,
    last: Arc<Mutex<String>>,
}

impl ChatModel for FixedLengthReplyModel {
    fn info(&self) -> doran_llm::ModelInfo {
        ScriptedModel::new([]).info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let sent: String = request.messages.iter().map(|message| message.text()).collect();
        self.max_sent_tokens.fetch_max(doran_llm::estimate_tokens(&sent), Ordering::SeqCst);
        let reply = match RequestPurpose::of(&request).expect("a purpose of agents") {
            RequestPurpose::Route => ScriptedReply::json(&json!({ "route": "agent", "reason": "시험" })),
            RequestPurpose::Classify => ScriptedReply::json(&json!({ "reason": "x", "type": "chitchat" })),
            RequestPurpose::Summarize => {
                self.summaries.fetch_add(1, Ordering::SeqCst);
                ScriptedReply::text("요약 문장입니다. ".repeat(10))
            }
            _ => {
                *self.last.lock().expect("a lock") = sent;
                ScriptedReply::text("같은 길이의 대답입니다. ".repeat(20))
            }
        };
        ScriptedModel::new([reply]).stream(request)
    }
}

/// The bytes of the entries of the thread's log after one of them, and the newest.
async fn log_bytes_after(store: &dyn Store, after: u64) -> (u64, u64) {
    let (mut bytes, mut last) = (0, after);
    loop {
        let entries = store.entries(&test_thread(), last, 1000).await.expect("entries");
        let Some(newest) = entries.last() else { return (bytes, last) };
        last = newest.seq;
        bytes += entries.iter().map(|entry| entry.body.len() as u64).sum::<u64>();
    }
}

/// The bytes of everything that is stored: entries, snapshots, runs and what finds them.
async fn stored_bytes(store: &SqliteStore, place: &Path) -> u64 {
    let copy = place.join("copy.db");
    store.backup(&copy).await.expect("a copy");
    let bytes = std::fs::metadata(&copy).expect("a file").len();
    std::fs::remove_file(&copy).expect("removed");
    bytes
}

async fn check_thousand_turns(agent: &str, settings: &str, most_tokens: u64) {
    let place = tempfile::tempdir().expect("a directory");
    let file = SqliteStore::open(place.path().join("thread.db")).expect("a store");
    let store: Arc<dyn Store> = Arc::new(file.clone());
    let model = FixedLengthReplyModel::default();
    let parts = agent_parts(Arc::new(model.clone()), Toolbox::new());
    let settings: Settings = toml::from_str(settings).expect("settings");
    let stage: AgentFixture = build_fixture(agent, &settings, &parts, store.clone());
    let (mut per_turn, mut seen) = (Vec::with_capacity(TURNS), 0);
    let (mut times, mut sizes) = (Vec::with_capacity(TURNS), Vec::new());
    for turn in 0..TURNS {
        if [0, 100, TURNS - 100].contains(&turn) {
            sizes.push(stored_bytes(&file, place.path()).await);
        }
        let started = std::time::Instant::now();
        let run = stage.start(&format!("{turn:04} {}", "같은 길이의 질문입니다. ".repeat(5))).await;
        run.wait().await.expect("a rest");
        times.push(started.elapsed());
        let (bytes, last) = log_bytes_after(&*store, seen).await;
        seen = last;
        per_turn.push(bytes);
    }
    assert!(model.summaries.load(Ordering::SeqCst) > 0, "{agent}: nothing was summed up");
    let most_sent = model.max_sent_tokens.load(Ordering::SeqCst);
    assert!(most_sent <= most_tokens, "{agent}: {most_sent} tokens were sent");
    assert!(model.last.lock().expect("a lock").contains("0999 "), "{agent}: the last question was sent");
    let average = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len() as f64;
    let (first, last) = (average(&per_turn[..100]), average(&per_turn[TURNS - 100..]));
    println!("{agent}: {first:.0} bytes a turn at first, {last:.0} at last, at most {most_sent} tokens sent");
    assert!(last <= first * 1.2, "{agent}: {first:.0} bytes a turn at first, {last:.0} at last");
    sizes.push(stored_bytes(&file, place.path()).await);
    let (first, last) = (sizes[1] - sizes[0], sizes[3] - sizes[2]);
    println!("{agent}: the file grew by {first} bytes in the first hundred turns, by {last} in the last");
    assert!(last * 5 <= first * 6, "{agent}: the file grew by {first} bytes at first, by {last} at last");
    // How long a turn takes is a matter for `./x bench agents`, which compares in peace; here it is only told.
    let median = |part: &[Duration]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part[part.len() / 2]
    };
    let (first, last) = (median(&times[..100]), median(&times[TURNS - 100..]));
    println!("{agent}: {first:?} a turn at first, {last:?} at last");
    let messages = history::read_history(&stage.runtime, &test_thread(), &[]).await.expect("a history");
    assert_eq!(messages.len(), TURNS * 2, "{agent}: the history keeps every message");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_assistant_talks_a_thousand_turns_and_stays_small() {
    // Ten messages of at most some 600 bytes, three summaries of 240, and the prompt.
    check_thousand_turns("assistant", "", 4_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn docqa_talks_a_thousand_turns_and_stays_small() {
    // Above 1,400 tokens it condenses to 200; a turn and the prompt come on top.
    check_thousand_turns("docqa", "[agents.docqa]\ncontextLength = 2000", 2_400).await;
}
