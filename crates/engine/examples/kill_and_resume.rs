//! Killed in the middle, and started again. Each step is one transaction in SQLite, so the next process goes on at the
//! step, and at the call, where the last one was.
//!
//! `cargo run -p doran-engine --example kill_and_resume -- --die` counts to 3 and aborts. Without `--die` it goes on at 3
//! and ends at 5. The thread is kept in `counter.db` in the current directory; delete it to begin again.

use doran_engine::{Cx, Graph, NodeError, Runtime, Snap, State, ThreadKey, node};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Counter {
    #[reduce(add)]
    n: u64,
}

async fn count(counter: Snap<Counter>, cx: Cx) -> Result<CounterUpdate, NodeError> {
    let n = counter.n + 1;
    // Recorded. After the crash below its result is read from the record, and nothing is printed twice.
    cx.effect("print", print(n)).await?;
    if n == 3 && std::env::args().any(|arg| arg == "--die") {
        std::process::abort();
    }
    Ok(Counter::update().n(1))
}

async fn print(n: u64) -> Result<(), NodeError> {
    println!("{n}");
    Ok(())
}

async fn report(counter: Snap<Counter>) -> Result<CounterUpdate, NodeError> {
    println!("counted to {}", counter.n);
    Ok(Counter::update())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let graph = Graph::named()
        .node("count", node(count).when(|counter: &Counter| counter.n < 5, "count", "report"))
        .node("report", node(report).end())
        .start("count")
        .build()?;
    let runtime = Runtime::new(doran_store::open("counter.db").await?.store);
    let counters = runtime.register_graph("counter", &graph)?;
    // Starts a run, or goes on with the one that the last process left.
    counters.run_or_resume(&ThreadKey::local("counter-1")?, Counter::update(), None::<()>).await?;
    Ok(())
}
