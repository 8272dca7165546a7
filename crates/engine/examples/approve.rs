//! Drafts a letter three times, then waits for a yes. Run it with `--die`: it is killed in the middle. Run it again: it
//! goes on where it was, nothing that was finished happens twice, and it asks. Run it with `yes`: that is the answer.

use doran_engine::{Cx, Graph, NodeError, Runtime, Snap, State, ThreadKey, node};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Letter {
    #[reduce(append)]
    drafts: Vec<String>,
    approved: Option<bool>,
}

async fn draft(letter: Snap<Letter>, cx: Cx) -> Result<LetterUpdate, NodeError> {
    let nth = letter.drafts.len() + 1;
    // Recorded: after a crash the result is used and the call is not made again.
    let text = cx.effect("write", write(nth)).await?;
    if nth == 3 && std::env::args().any(|arg| arg == "--die") {
        std::process::abort();
    }
    Ok(Letter::update().drafts(vec![text]))
}

async fn write(nth: usize) -> Result<String, NodeError> {
    println!("writing draft {nth}");
    Ok(format!("draft {nth}"))
}

async fn approve(letter: Snap<Letter>, cx: Cx) -> Result<LetterUpdate, NodeError> {
    let yes: bool = cx.ask(format!("send {:?}?", letter.drafts.last())).await?; // for days, if need be
    Ok(Letter::update().approved(Some(yes)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let graph = Graph::named()
        .node("draft", node(draft).when(|letter: &Letter| letter.drafts.len() < 3, "draft", "approve"))
        .node("approve", node(approve).end())
        .start("draft")
        .build()?;
    let runtime = Runtime::new(doran_store::open("letter.db").await?.store);
    let letters = runtime.register_graph("letter", &graph)?;
    let answer = std::env::args().any(|arg| arg == "yes").then_some(true);
    let outcome = letters.run_or_resume(&ThreadKey::local("letter-1")?, Letter::update(), answer).await?;
    println!("{outcome:?}");
    Ok(())
}
