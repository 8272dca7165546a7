//! The common case from end to end, on the store in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use doran_engine::store::RamStore;
use doran_engine::{
    Cx, EngineError, Event, Graph, MisuseError, NodeError, Nodes, Outcome, Runtime, Snap, State, ThreadKey,
    To, node,
};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct ApprovalLetterState {
    #[reduce(append)]
    log: Vec<String>,
    drafts: u32,
    text: String,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Draft,
    Approve,
    Send,
}

fn graph(before_ask: Arc<AtomicU32>) -> Graph<ApprovalLetterState> {
    Graph::define(|step| match step {
        Step::Draft => node(|state: Snap<ApprovalLetterState>, cx: Cx| async move {
            cx.emit_text("초안 ");
            let n = state.drafts + 1;
            Ok::<_, NodeError>(
                ApprovalLetterState::update()
                    .drafts(n)
                    .text(format!("draft {n}"))
                    .log(vec![format!("draft {n}")]),
            )
        })
        .branch([Step::Draft, Step::Approve], |state: &ApprovalLetterState| {
            To::Node(if state.drafts < 3 { Step::Draft } else { Step::Approve })
        }),
        Step::Approve => {
            let before_ask = before_ask.clone();
            node(move |state: Snap<ApprovalLetterState>, cx: Cx| {
                let before_ask = before_ask.clone();
                async move {
                    let looked = cx
                        .effect("look", async {
                            Ok::<_, NodeError>(before_ask.fetch_add(1, Ordering::SeqCst))
                        })
                        .await?;
                    let ok: bool = cx.ask(format!("send {}?", state.text)).await?;
                    Ok::<_, NodeError>(
                        ApprovalLetterState::update().log(vec![format!("looked {looked}, approved {ok}")]),
                    )
                }
            })
            .then(Step::Send)
        }
        Step::Send => node(|state: Snap<ApprovalLetterState>| async move {
            Ok::<_, NodeError>(ApprovalLetterState::update().log(vec![format!("sent {}", state.text)]))
        })
        .end(),
    })
    .start(Step::Draft)
    .build()
    .expect("a sound graph")
}

#[tokio::test]
async fn a_run_loops_asks_waits_and_goes_on() {
    let looked = Arc::new(AtomicU32::new(0));
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    let bot = runtime.register_graph("letter", &graph(looked.clone())).expect("registered");
    let thread = ThreadKey::local("t1").expect("a name");
    let run =
        bot.start(&thread, ApprovalLetterState::update().log(vec!["hi".into()])).await.expect("started");
    let Outcome::Paused(asks) = bot.wait_for_outcome(&run).await.expect("rests") else {
        panic!("not paused")
    };
    assert_eq!(asks[0].question, "send draft 3?");
    assert!(
        matches!(bot.start(&thread, ApprovalLetterState::update()).await, Err(EngineError::Store(_))),
        "one run per thread"
    );

    let outcome = bot.resume(&thread, true).await.expect("goes on");
    let state = outcome.finished().expect("finished");
    assert_eq!(state.log, ["hi", "draft 1", "draft 2", "draft 3", "looked 0, approved true", "sent draft 3"]);
    assert_eq!(looked.load(Ordering::SeqCst), 1, "what stood before the question did not run again");

    let mut kinds = Vec::new();
    let mut watch = runtime.watch(&run.key(), 0, doran_engine::WatchUntil::RunEnded).await.expect("watch");
    while let Some(event) = watch.try_next().await.expect("event") {
        if let Event::Entry(n, entry) = event {
            kinds.push(format!("{n}:{:?}", entry.kind()));
        }
    }
    assert_eq!(kinds.join(" "), "1:Started 2:Step 3:Step 4:Step 5:Paused 6:Resumed 7:Step 8:Step 9:Finished");
    assert!(matches!(
        bot.resume(&thread, true).await,
        Err(EngineError::Misuse(MisuseError::NoOpenQuestion(_)))
    ));
}

#[tokio::test]
async fn a_graph_runs_without_a_store_too() {
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct IncrementState {
        #[reduce(add)]
        n: u64,
    }
    #[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum IncrementNode {
        Inc,
    }
    let graph = Graph::define(|IncrementNode::Inc| {
        node(|_: Snap<IncrementState>| async { Ok::<_, NodeError>(IncrementState::update().n(1)) })
            .branch_or_end([IncrementNode::Inc], |state: &IncrementState| {
                if state.n < 100 { To::Node(IncrementNode::Inc) } else { To::End }
            })
    })
    .start(IncrementNode::Inc)
    .build()
    .expect("sound");
    assert_eq!(graph.run(IncrementState::update()).await.expect("runs").n, 100);
}

#[tokio::test(start_paused = true)]
async fn a_piece_is_shown_once_however_long_the_silence_after_it() {
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct ThinkingState {
        done: bool,
    }
    #[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum ThinkNode {
        Think,
    }
    let graph = Graph::define(|ThinkNode::Think| {
        node(|_: Snap<ThinkingState>, cx: Cx| async move {
            cx.emit_text("음…");
            tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            Ok::<_, NodeError>(ThinkingState::update().done(true))
        })
        .end()
    })
    .start(ThinkNode::Think)
    .build()
    .expect("sound");
    let bot = Runtime::new(Arc::new(RamStore::new())).register_graph("think", &graph).expect("registered");
    let thread = ThreadKey::local("t").expect("a name");
    let run = bot.start(&thread, ThinkingState::update()).await.expect("started");
    let mut watch = run.watch().await.expect("watch");
    let mut pieces = 0;
    while let Some(event) = watch.try_next().await.expect("event") {
        pieces += u32::from(matches!(event, Event::Delta(_)));
    }
    assert_eq!(pieces, 1);
}
