//! What is due next. Plain functions of the graph's shape and what just finished: no clock, no store, no task, so a
//! replay decides alike and the tests need no runtime.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

#[cfg(test)]
mod tests;

/// Number of a node in its graph, in order of definition.
pub(crate) type Ix = u16;

/// A node that is due, with the item it was handed by a dynamic fan-out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Task {
    pub node: Ix,
    pub input: Option<Value>,
}

impl Task {
    pub(crate) fn plain(node: Ix) -> Self {
        Self { node, input: None }
    }
}

/// Where a run stands between two supersteps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Position {
    /// Supersteps finished so far in this run.
    pub step: u32,
    /// What runs in the next superstep, in the order in which updates are folded.
    pub due: Vec<Task>,
    /// Deferred nodes that wait until nothing else is due.
    pub held: Vec<Task>,
    /// Joins that some, but not all, of their predecessors have reached.
    pub arrived: BTreeMap<Ix, BTreeSet<Ix>>,
}

/// The parts of a graph that decide what is due.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topology {
    /// For each node: the predecessors it waits for, when it is a join.
    pub waits_for: Vec<BTreeSet<Ix>>,
    /// For each node: whether it runs only when nothing else is due.
    pub deferred: Vec<bool>,
}

/// Where a node leads once its tasks finished.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    End,
    Nodes(Vec<Ix>),
    /// One task of the node for each item.
    Each(Ix, Vec<Value>),
}

/// A join that can never run: nothing is due any more and these did not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StuckJoin {
    pub join: Ix,
    pub missing: Vec<Ix>,
}

/// The position of a run that begins at these nodes.
pub(crate) fn begin(topology: &Topology, start: &[Ix]) -> Position {
    let due = start.iter().copied().map(Task::plain).collect();
    settle(topology, Position { due, ..Position::default() })
}

/// The position after a superstep whose tasks, in order, lead to `routes`. The tasks of one node lie side by side and
/// lead on once, however many they are: where a node leads is a matter of the state, not of one of its tasks.
pub(crate) fn advance(
    topology: &Topology,
    position: &Position,
    mut routes: Vec<(Ix, Next)>,
) -> Result<Position, StuckJoin> {
    let mut next = Position {
        step: position.step + 1,
        due: Vec::new(),
        held: position.held.clone(),
        arrived: position.arrived.clone(),
    };
    routes.dedup_by_key(|(from, _)| *from);
    for (from, route) in routes {
        match route {
            Next::End => {}
            Next::Nodes(targets) => {
                for (nth, target) in targets.iter().enumerate() {
                    // A node that is named twice is reached once.
                    if !targets[..nth].contains(target) {
                        arrive(topology, &mut next, from, *target);
                    }
                }
            }
            Next::Each(target, items) => {
                next.due.extend(items.into_iter().map(|item| Task { node: target, input: Some(item) }));
            }
        }
    }
    let next = settle(topology, next);
    match next.arrived.iter().next() {
        Some((join, came)) if next.due.is_empty() => {
            let missing = topology.waits_for[usize::from(*join)].difference(came).copied().collect();
            Err(StuckJoin { join: *join, missing })
        }
        _ => Ok(next),
    }
}

/// Makes `target` due. A join counts who came, and is due when all have.
fn arrive(topology: &Topology, next: &mut Position, from: Ix, target: Ix) {
    let waits_for = &topology.waits_for[usize::from(target)];
    if !waits_for.is_empty() {
        let came = next.arrived.entry(target).or_default();
        came.insert(from);
        if came != waits_for {
            return;
        }
        next.arrived.remove(&target);
    }
    if !next.due.iter().any(|task| task.node == target && task.input.is_none()) {
        next.due.push(Task::plain(target));
    }
}

/// Puts deferred nodes aside while others are due, and the rest into the order of definition. That order, and not
/// the order of arrival, is the one in which updates are folded.
fn settle(topology: &Topology, mut position: Position) -> Position {
    let is_deferred = |task: &Task| topology.deferred[usize::from(task.node)];
    if position.due.iter().any(is_deferred) {
        let (deferred, due): (Vec<Task>, Vec<Task>) = position.due.into_iter().partition(is_deferred);
        position.due = due;
        for task in deferred {
            if task.input.is_some() || !position.held.contains(&task) {
                position.held.push(task);
            }
        }
    }
    if position.due.is_empty() {
        position.due = std::mem::take(&mut position.held);
    }
    position.due.sort_by_key(|task| task.node);
    position
}
