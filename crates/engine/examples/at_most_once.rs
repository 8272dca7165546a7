//! An effect that must never happen twice. That the payment is about to be made is on disk before it is made. Here the
//! connection breaks in the middle, so nobody knows whether it was made: the run pauses and asks, instead of paying again.
//!
//! `cargo run -p doran-engine --example at_most_once` prints the question, and goes on with the answer of a person.

use std::sync::Arc;

use doran_engine::store::RamStore;
use doran_engine::{Cx, Graph, NodeError, Outcome, Runtime, Snap, State, ThreadKey, node};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Invoice {
    amount: u64,
    receipt: String,
}

async fn pay(invoice: Snap<Invoice>, cx: Cx) -> Result<InvoiceUpdate, NodeError> {
    let amount = invoice.amount;
    // The key is the same in every try. A bank that knows requests by a key can be given it.
    let receipt: String = cx.effect_at_most_once("pay", move |_key| transfer(amount)).await?;
    Ok(Invoice::update().receipt(receipt))
}

/// Only `NodeError::not_done` would say that the money certainly stayed where it was.
async fn transfer(amount: u64) -> Result<String, NodeError> {
    println!("paying {amount}");
    Err(NodeError::transient("connection lost after the request was sent"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::named().node("pay", node(pay).end()).start("pay").build()?;
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    let invoices = runtime.register_graph("invoices", &graph)?;
    let thread = ThreadKey::local("invoice-1")?;
    let outcome = invoices.run(&thread, Invoice::update().amount(42)).await?;
    let Outcome::Paused(questions) = &outcome else { return Err("it did not ask".into()) };
    println!("{:?}: did `{}` happen?", questions[0].kind, questions[0].question["call"]);
    // A person looked at the account. `{"retry": true}` would make the call once more.
    let outcome = invoices.resume(&thread, json!({ "result": "receipt 7" })).await?;
    println!("{:?}", outcome.finished().map(|invoice| invoice.receipt.clone()));
    Ok(())
}
