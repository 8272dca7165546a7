//! A graph as a node of another. The inner graph has a state of its own; two functions carry values in and out. Its
//! steps are as durable as those of the outer graph, and they show in the log with the path of the task around them.
//!
//! `cargo run -p doran-engine --example subgraph` prints the entries of the log and the result.

use std::sync::Arc;

use doran_engine::store::RamStore;
use doran_engine::{EntryBody, Graph, NodeError, Runtime, Snap, State, ThreadKey, node, subgraph};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Order {
    price: u64,
    total: u64,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct TaxForm {
    net: u64,
    tax: u64,
    gross: u64,
}

async fn tax(form: Snap<TaxForm>) -> Result<TaxFormUpdate, NodeError> {
    Ok(TaxForm::update().tax(form.net / 10))
}

async fn add(form: Snap<TaxForm>) -> Result<TaxFormUpdate, NodeError> {
    Ok(TaxForm::update().gross(form.net + form.tax))
}

async fn accept(_: Snap<Order>) -> Result<OrderUpdate, NodeError> {
    Ok(Order::update())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let taxes = Graph::named()
        .node("tax", node(tax).then("add"))
        .node("add", node(add).end())
        .start("tax")
        .build()?;
    let inner = subgraph(
        taxes,
        |order: &Order| TaxForm::update().net(order.price),
        |form: &TaxForm| Order::update().total(form.gross),
    );
    let graph = Graph::named()
        .node("accept", node(accept).then("taxes"))
        .node("taxes", node(inner).end())
        .start("accept")
        .build()?;
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    let orders = runtime.register_graph("orders", &graph)?;
    let thread = ThreadKey::local("order-1")?;
    let outcome = orders.run(&thread, Order::update().price(100)).await?;
    for entry in runtime.entries(&thread, 0, 100).await? {
        if let EntryBody::Step(step) | EntryBody::InnerStep(step) = entry.body {
            let within = step.path.map_or_else(String::new, |path| format!(" inside task {path}"));
            println!("step {}: {}{within}", step.step, step.tasks[0].node);
        }
    }
    println!("{:?}", outcome.finished().map(|order| order.total));
    Ok(())
}
