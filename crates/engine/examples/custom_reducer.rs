//! Rules of your own for how a field takes a change: a function (`with`), or a type that implements `Reduce` and takes
//! changes of another type than the field's.
//!
//! Two sensors report side by side in one step. `cargo run -p doran-engine --example custom_reducer` prints
//! `highest 31, alarms {"kitchen"}`.

use std::collections::BTreeSet;

use doran_engine::state::Reduce;
use doran_engine::{Graph, NodeError, Snap, State, node};
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct SmartHome {
    #[reduce(with = keep_highest)]
    highest: i64,
    #[reduce(rule = AlarmRule)]
    alarms: BTreeSet<String>,
}

/// Folds a change into the value, and two changes of one update into one: it has to be associative.
fn keep_highest(value: &mut i64, change: i64) {
    *value = (*value).max(change);
}

/// An alarm goes on or off.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum AlarmChange {
    On(String),
    Off(String),
}

struct AlarmRule;

impl Reduce<BTreeSet<String>> for AlarmRule {
    type Change = Vec<AlarmChange>;

    fn fold(alarms: &mut BTreeSet<String>, changes: Vec<AlarmChange>) {
        for change in changes {
            match change {
                AlarmChange::On(room) => alarms.insert(room),
                AlarmChange::Off(room) => alarms.remove(&room),
            };
        }
    }

    fn join(earlier: &mut Vec<AlarmChange>, later: Vec<AlarmChange>) {
        earlier.extend(later);
    }
}

async fn kitchen(_: Snap<SmartHome>) -> Result<SmartHomeUpdate, NodeError> {
    Ok(SmartHome::update().highest(31).alarms(vec![AlarmChange::On("kitchen".into())]))
}

async fn bath(_: Snap<SmartHome>) -> Result<SmartHomeUpdate, NodeError> {
    let alarms = vec![AlarmChange::On("bath".into()), AlarmChange::Off("bath".into())];
    Ok(SmartHome::update().highest(24).alarms(alarms))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::named()
        .node("kitchen", node(kitchen).end())
        .node("bath", node(bath).end())
        .start("kitchen")
        .start("bath")
        .build()?;
    let home = graph.run(SmartHome::update()).await?;
    println!("highest {}, alarms {:?}", home.highest, home.alarms);
    Ok(())
}
