//! How often the whole state is written beside a step.

use std::sync::Arc;

use doran_engine::Graph;
use doran_engine::store::HistoryStore;

use crate::support::{EngineTestState, graph_handle_on, local_thread, node_running, ram_store};

/// A node that replaces a long text so often, in one run.
fn rewriting_graph(times: u32) -> Graph<EngineTestState> {
    let rewrite = node_running(|state, _| async move {
        Ok(EngineTestState::update().n(state.n + 1).text(state.n.to_string().repeat(20_000)))
    });
    Graph::named()
        .node("rewrite", rewrite.when(move |state: &EngineTestState| state.n < times, "rewrite", "end"))
        .node("end", node_running(|_, _| async { Ok(EngineTestState::update().n(0)) }).end())
        .start("rewrite")
        .build()
        .expect("sound")
}

#[tokio::test]
async fn snapshots_are_written_now_and_then_within_a_run_and_from_run_to_run() {
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &rewriting_graph(40));
    let thread = local_thread("t");
    for _ in 0..2 {
        bot.run(&thread, EngineTestState::update()).await.expect("finished");
    }
    let head = store.load(&thread, None).await.expect("loaded").head;
    let (mut snapshots, mut longest) = (0, 0);
    for seq in 1..=head {
        let loaded = store.load(&thread, Some(seq)).await.expect("loaded");
        let whole = loaded.snapshot.as_ref().map_or(0, |(_, state)| state.len());
        longest = longest.max(whole + loaded.entries.iter().map(|entry| entry.body.len()).sum::<usize>());
        snapshots += u32::from(loaded.snapshot.is_some_and(|(at, _)| at == seq));
    }
    // One as soon as the log since the last one is more than twice the state, and some: about every sixth step.
    assert!((8..=20).contains(&snapshots), "{snapshots} snapshots in {head} entries");
    assert!(longest < 300_000, "{longest} bytes are read to load a state of 40,000");
}
