//! Watching a run: pieces of text while a node works, and each step once it is on disk. `RunWatch` is a `Stream` of typed
//! events. A watcher that comes late, or comes back with the number of its last event, misses no entry.
//!
//! `cargo run -p doran-engine --example watch`

use std::sync::Arc;
use std::time::Duration;

use doran_engine::runtime::NodeDeltaContent;
use doran_engine::store::RamStore;
use doran_engine::{
    Cx, EntryBody, Event, Graph, NodeError, Runtime, Snap, State, ThreadKey, WatchUntil, node,
};
use futures_util::TryStreamExt;
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Poem {
    text: String,
}

async fn recite(_: Snap<Poem>, cx: Cx) -> Result<PoemUpdate, NodeError> {
    let lines = ["Roses are red,", "violets are blue."];
    for line in lines {
        // Shown early, and not a record.
        cx.emit_text(line);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Poem::update().text(lines.join(" ")))
}

fn describe(event: &Event) -> String {
    match event {
        Event::Removed { after, next } => format!("   events between {after} and {next} are not kept"),
        Event::Delta(delta) => match &delta.piece {
            NodeDeltaContent::Data(data) => format!("   {}: {data}", delta.node),
            NodeDeltaContent::Restarted(why) => format!("   {} again: {why}", delta.node),
        },
        Event::Entry(number, entry) => match &entry.body {
            EntryBody::Step(step) => {
                let task = &step.tasks[0];
                format!("{number}. step {}: {} proposed {}", step.step, task.node, task.update)
            }
            _ => format!("{number}. {:?}", entry.kind()),
        },
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::named().node("recite", node(recite).end()).start("recite").build()?;
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    let poems = runtime.register_graph("poems", &graph)?;
    let run = poems.start(&ThreadKey::local("poem-1")?, Poem::update()).await?;
    let mut events = run.watch().await?;
    while let Some(event) = events.try_next().await? {
        println!("{}", describe(&event));
    }
    // The same again, from the log: entries stay, pieces are kept for a short time only.
    let again = runtime.watch(&run.key(), 0, WatchUntil::RunEnded).await?;
    let again: Vec<Event> = again.try_collect().await?;
    println!("{} entries", again.iter().filter(|event| matches!(event, Event::Entry(..))).count());
    Ok(())
}
