//! Time travel. Every entry of a thread's log can be read again, run from again (a rewind), or copied to a thread of its
//! own (a fork). Nothing that was written is changed: what came after the entry stays as another branch.
//!
//! `cargo run -p doran-engine --example time_travel`

use std::sync::Arc;

use doran_engine::store::RamStore;
use doran_engine::{Graph, NodeError, Runtime, Snap, StartOptions, State, ThreadId, ThreadKey, node};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Story {
    input: String,
    #[reduce(append)]
    lines: Vec<String>,
}

async fn tell(story: Snap<Story>) -> Result<StoryUpdate, NodeError> {
    Ok(Story::update().lines(vec![story.input.clone()]))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::named().node("tell", node(tell).end()).start("tell").build()?;
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    let stories = runtime.register_graph("stories", &graph)?;
    let thread = ThreadKey::local("story")?;
    for line in ["A fox lived in a wood.", "It met a bear.", "They fought."] {
        stories.run(&thread, Story::update().input(line)).await?;
    }
    println!("told:    {}", stories.state(&thread).await?.lines.join(" "));

    // After the second run. Each run wrote three entries: started, step, finished.
    let second = 6;
    println!("then:    {}", stories.state_at(&thread, Some(second)).await?.lines.join(" "));

    // A rewind: the next run starts from that entry.
    let options = StartOptions { from: Some(second), ..StartOptions::default() };
    let input = Story::update().input("They became friends.");
    let run = stories.start_with(&thread, Some(input), options).await?;
    stories.wait_for_outcome(&run).await?;
    println!("rewound: {}", stories.state(&thread).await?.lines.join(" "));

    // A fork: the other branch goes on in a thread of its own.
    let fork = runtime.fork(&thread, Some(9), &ThreadId::new("story-2")?).await?;
    stories.run(&fork, Story::update().input("The bear won.")).await?;
    println!("forked:  {}", stories.state(&fork).await?.lines.join(" "));
    println!("{} entries on the first thread", runtime.thread_row(&thread).await?.head);
    Ok(())
}
