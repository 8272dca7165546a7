//! The common case from end to end, on the store in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use doran_engine::store::RamStore;
use doran_engine::{
    Cx, EngineError, Event, Graph, NodeError, Nodes, Outcome, Runtime, Snap, State, ThreadKey, To, node,
};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Letter {
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

fn graph(before_ask: Arc<AtomicU32>) -> Graph<Letter> {
    Graph::define(|step| match step {
        Step::Draft => node(|state: Snap<Letter>, cx: Cx| async move {
            cx.token("초안 ");
            let n = state.drafts + 1;
            Ok::<_, NodeError>(
                Letter::update().drafts(n).text(format!("draft {n}")).log(vec![format!("draft {n}")]),
            )
        })
        .branch([Step::Draft, Step::Approve], |state: &Letter| {
            To::Node(if state.drafts < 3 { Step::Draft } else { Step::Approve })
        }),
        Step::Approve => {
            let before_ask = before_ask.clone();
            node(move |state: Snap<Letter>, cx: Cx| {
                let before_ask = before_ask.clone();
                async move {
                    let looked = cx
                        .effect("look", async {
                            Ok::<_, NodeError>(before_ask.fetch_add(1, Ordering::SeqCst))
                        })
                        .await?;
                    let ok: bool = cx.ask(format!("send {}?", state.text)).await?;
                    Ok::<_, NodeError>(Letter::update().log(vec![format!("looked {looked}, approved {ok}")]))
                }
            })
            .then(Step::Send)
        }
        Step::Send => node(|state: Snap<Letter>| async move {
            Ok::<_, NodeError>(Letter::update().log(vec![format!("sent {}", state.text)]))
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
    let bot = runtime.graph("letter", &graph(looked.clone())).expect("registered");
    let thread = ThreadKey::local("t1").expect("a name");
    let run = bot.start(&thread, Letter::update().log(vec!["hi".into()])).await.expect("started");
    let Outcome::Paused(asks) = bot.outcome(&run).await.expect("rests") else { panic!("not paused") };
    assert_eq!(asks[0].question, "send draft 3?");
    assert!(
        matches!(bot.start(&thread, Letter::update()).await, Err(EngineError::Store(_))),
        "one run per thread"
    );

    let outcome = bot.resume(&thread, true).await.expect("goes on");
    let state = outcome.finished().expect("finished");
    assert_eq!(state.log, ["hi", "draft 1", "draft 2", "draft 3", "looked 0, approved true", "sent draft 3"]);
    assert_eq!(looked.load(Ordering::SeqCst), 1, "what stood before the question did not run again");

    let mut kinds = Vec::new();
    let mut watch = runtime.watch(&run.key(), 0, doran_engine::Until::End).await.expect("watch");
    while let Some(event) = watch.next().await.expect("event") {
        if let Event::Entry(n, entry) = event {
            kinds.push(format!("{n}:{:?}", entry.kind));
        }
    }
    assert_eq!(kinds.join(" "), "1:Started 2:Step 3:Step 4:Step 5:Paused 6:Resumed 7:Step 8:Step 9:Finished");
    assert!(matches!(bot.resume(&thread, true).await, Err(EngineError::NotPaused(_))));
}

#[tokio::test]
async fn a_graph_runs_without_a_store_too() {
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Count {
        #[reduce(add)]
        n: u64,
    }
    #[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum One {
        Inc,
    }
    let graph = Graph::define(|One::Inc| {
        node(|_: Snap<Count>| async { Ok::<_, NodeError>(Count::update().n(1)) }).branch_or_end(
            [One::Inc],
            |state: &Count| if state.n < 100 { To::Node(One::Inc) } else { To::End },
        )
    })
    .start(One::Inc)
    .build()
    .expect("sound");
    assert_eq!(graph.run(Count::update()).await.expect("runs").n, 100);
}

#[tokio::test(start_paused = true)]
async fn a_piece_is_shown_once_however_long_the_silence_after_it() {
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Nothing {
        done: bool,
    }
    #[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum One {
        Think,
    }
    let graph = Graph::define(|One::Think| {
        node(|_: Snap<Nothing>, cx: Cx| async move {
            cx.token("음…");
            tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            Ok::<_, NodeError>(Nothing::update().done(true))
        })
        .end()
    })
    .start(One::Think)
    .build()
    .expect("sound");
    let bot = Runtime::new(Arc::new(RamStore::new())).graph("think", &graph).expect("registered");
    let thread = ThreadKey::local("t").expect("a name");
    let run = bot.start(&thread, Nothing::update()).await.expect("started");
    let mut watch = run.watch().await.expect("watch");
    let mut pieces = 0;
    while let Some(event) = watch.next().await.expect("event") {
        pieces += u32::from(matches!(event, Event::Delta(_)));
    }
    assert_eq!(pieces, 1);
}
