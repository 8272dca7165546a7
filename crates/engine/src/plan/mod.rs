//! What is due next. Plain functions of the graph's shape and what just finished: no clock, no store, no task, so a
//! replay decides alike and the tests need no runtime.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

#[cfg(test)]
mod tests;

/// Number of a node in its graph, in order of definition.
pub(crate) type NodeIndex = u16;

/// A node that is due, with the item it was handed by a dynamic fan-out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedTask {
    pub node: NodeIndex,
    pub input: Option<Value>,
}

impl PlannedTask {
    pub(crate) fn without_input(node: NodeIndex) -> Self {
        Self { node, input: None }
    }
}

/// Where a run stands between two supersteps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlanPosition {
    /// Supersteps finished so far in this run.
    pub step: u32,
    /// What runs in the next superstep, in the order in which updates are folded.
    pub due: Vec<PlannedTask>,
    /// Deferred nodes that wait until nothing else is due.
    pub held_back: Vec<PlannedTask>,
    /// Joins that some, but not all, of their predecessors have reached.
    pub arrived: BTreeMap<NodeIndex, BTreeSet<NodeIndex>>,
}

/// The parts of a graph that decide what is due.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanTopology {
    /// For each node: the predecessors it waits for, when it is a join.
    pub waits_for: Vec<BTreeSet<NodeIndex>>,
    /// For each node: whether it runs only when nothing else is due.
    pub deferred: Vec<bool>,
}

/// Where a node leads once its tasks finished: nodes, and tasks with an item each. Nowhere when there are none.
pub(crate) type NextTasks = Vec<PlannedTask>;

/// A join that can never run: nothing is due any more and these did not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StuckJoin {
    pub join: NodeIndex,
    pub missing: Vec<NodeIndex>,
}

/// The position of a run that begins at these nodes.
pub(crate) fn start_position(topology: &PlanTopology, start: &[NodeIndex]) -> PlanPosition {
    position_at(topology, start.iter().copied().map(PlannedTask::without_input).collect())
}

/// The position at which these tasks are due and nothing else.
pub(crate) fn position_at(topology: &PlanTopology, due: Vec<PlannedTask>) -> PlanPosition {
    defer_and_sort(topology, PlanPosition { due, ..PlanPosition::default() })
}

/// The position after a superstep whose tasks, in order, lead to `routes`. The tasks of one node lie side by side and
/// lead on once, however many they are: where a node leads is a matter of the state, not of one of its tasks.
pub(crate) fn advance(
    topology: &PlanTopology,
    position: &PlanPosition,
    mut routes: Vec<(NodeIndex, NextTasks)>,
) -> Result<PlanPosition, StuckJoin> {
    let mut next = PlanPosition {
        step: position.step + 1,
        due: Vec::new(),
        held_back: position.held_back.clone(),
        arrived: position.arrived.clone(),
    };
    routes.dedup_by_key(|(from, _)| *from);
    for (from, tasks) in routes {
        let mut reached = BTreeSet::new();
        for task in tasks {
            if task.input.is_some() {
                next.due.push(task);
            // A node that is named twice is reached once.
            } else if reached.insert(task.node) {
                mark_arrived(topology, &mut next, from, task.node);
            }
        }
    }
    let next = defer_and_sort(topology, next);
    match next.arrived.iter().next() {
        Some((join, arrived)) if next.due.is_empty() => {
            let missing = topology.waits_for[usize::from(*join)].difference(arrived).copied().collect();
            Err(StuckJoin { join: *join, missing })
        }
        _ => Ok(next),
    }
}

/// Makes `target` due. A join counts who arrived, and is due when all have.
fn mark_arrived(topology: &PlanTopology, next: &mut PlanPosition, from: NodeIndex, target: NodeIndex) {
    let waits_for = &topology.waits_for[usize::from(target)];
    if !waits_for.is_empty() {
        let arrived = next.arrived.entry(target).or_default();
        arrived.insert(from);
        if arrived != waits_for {
            return;
        }
        next.arrived.remove(&target);
    }
    if !next.due.iter().any(|task| task.node == target && task.input.is_none()) {
        next.due.push(PlannedTask::without_input(target));
    }
}

/// Puts deferred nodes aside while others are due, and the rest into the order of definition. That order, and not
/// the order of arrival, is the one in which updates are folded.
fn defer_and_sort(topology: &PlanTopology, mut position: PlanPosition) -> PlanPosition {
    let is_deferred = |task: &PlannedTask| topology.deferred[usize::from(task.node)];
    if position.due.iter().any(is_deferred) {
        let (deferred, due): (Vec<PlannedTask>, Vec<PlannedTask>) =
            position.due.into_iter().partition(is_deferred);
        position.due = due;
        for task in deferred {
            if task.input.is_some() || !position.held_back.contains(&task) {
                position.held_back.push(task);
            }
        }
    }
    if position.due.is_empty() {
        position.due = std::mem::take(&mut position.held_back);
    }
    position.due.sort_by_key(|task| task.node);
    position
}
