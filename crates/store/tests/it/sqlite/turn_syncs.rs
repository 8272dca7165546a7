//! How often a turn waits for the disk.

use std::sync::Arc;

use doran_engine::{Graph, GraphHandle, NodeError, Runtime, Snap, State, node};
use doran_store::sqlite::SqliteStore;
use serde::{Deserialize, Serialize};

use super::thread;

/// Turns of which each is to wait once.
const TURNS: u64 = 10;
/// How often they are tried. A turn that takes longer than 20 ms on a busy machine has a sync in its middle.
const TRIES: usize = 100;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct WordState {
    #[reduce(append)]
    words: Vec<String>,
}

async fn speak(_: Snap<WordState>) -> Result<WordStateUpdate, NodeError> {
    Ok(WordState::update().words(vec!["word".to_owned()]))
}

fn three_nodes(store: &SqliteStore) -> GraphHandle<WordState> {
    let graph = Graph::named()
        .node("a", node(speak).then("b"))
        .node("b", node(speak).then("c"))
        .node("c", node(speak).end())
        .start("a")
        .build()
        .expect("a sound graph");
    Runtime::new(Arc::new(store.clone())).register_graph("g", &graph).expect("registered")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_is_waited_for_is_one_sync() {
    let folder = tempfile::tempdir().expect("folder");
    let store = SqliteStore::open(folder.path().join("doran.db")).expect("open");
    let bot = three_nodes(&store);
    let mut fewest = u64::MAX;
    for one in 0..TRIES {
        let before = store.syncs();
        for turn in 0..TURNS {
            let outcome = bot.run(&thread(&format!("t{one}-{turn}")), WordState::update()).await;
            assert_eq!(outcome.expect("a run").finished().expect("it ended").words.len(), 3);
        }
        fewest = fewest.min(store.syncs() - before);
        if fewest == TURNS {
            return;
        }
    }
    panic!("{TURNS} turns are {fewest} syncs at least");
}
