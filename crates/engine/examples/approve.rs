//! Drafts a letter three times, then waits for a yes. Run it with `--die`: it is killed in the middle. Run it again:
//! it goes on where it was, and nothing that was finished happens twice.

use doran_engine::{Cx, Graph, NodeError, Nodes, Outcome, Runtime, Snap, State, ThreadKey, To, node};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Letter {
    #[reduce(append)]
    drafts: Vec<String>,
    approved: Option<bool>,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Draft,
    Approve,
}

async fn draft(letter: Snap<Letter>, cx: Cx) -> Result<LetterUpdate, NodeError> {
    let nth = letter.drafts.len() + 1;
    // Recorded: after a crash the result is used and the call is not made again.
    let text = cx.effect("write", async { Ok::<_, NodeError>(write(nth)) }).await?;
    if nth == 3 && std::env::args().any(|arg| arg == "--die") {
        std::process::abort();
    }
    Ok(Letter::update().drafts(vec![text]))
}

async fn approve(letter: Snap<Letter>, cx: Cx) -> Result<LetterUpdate, NodeError> {
    let yes: bool = cx.ask(format!("send {:?}?", letter.drafts.last())).await?; // for days, if need be
    Ok(Letter::update().approved(Some(yes)))
}

fn write(nth: usize) -> String {
    println!("writing draft {nth}");
    format!("draft {nth}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let graph = Graph::define(|step| match step {
        Step::Draft => node(draft).branch([Step::Draft, Step::Approve], |letter: &Letter| {
            To::Node(if letter.drafts.len() < 3 { Step::Draft } else { Step::Approve })
        }),
        Step::Approve => node(approve).end(),
    })
    .start(Step::Draft)
    .build()?;
    let runtime = Runtime::new(doran_store::open("letter.db").await?.store);
    let bot = runtime.graph("letter", &graph)?;
    let thread = ThreadKey::local("letter-1")?;
    runtime.work().await?; // goes on with what an earlier process left
    let run = match bot.active(&thread).await? {
        Some(run) => run,
        None => bot.start(&thread, Letter::update()).await?,
    };
    if let Outcome::Paused(asks) = bot.outcome(&run).await? {
        println!("{} yes", asks[0].question);
        bot.resume(&thread, true).await?;
    }
    println!("{:?}", bot.state(&thread).await?);
    Ok(())
}
