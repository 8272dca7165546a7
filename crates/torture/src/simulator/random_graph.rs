//! Small graphs out of a seed: lines, loops, fan-outs with their joins, maps over lists and maps after them, graphs
//! inside.

use doran_engine::graph::{NamedGraphBuilder, NodeBuilder};
use doran_engine::{Cx, Graph, NodeDefinition, NodeError, Snap, To, node, subgraph};

use super::simulated_world::{SimulatedWorld, perform_action};
use super::simulation_rng::SimulationRng;
use crate::support::EngineTestState;

/// What a node does, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SimulatedAction {
    Read,
    Write,
    Once,
    Nap,
    Token,
    Draw,
    Ask,
    /// Three reads side by side.
    Together,
}

/// One node: acts, or a graph inside.
#[derive(Clone, Debug)]
pub(super) enum RandomNode {
    Leaf(String, Vec<SimulatedAction>),
    Sub(String, Vec<RandomNode>),
}

/// A piece of a graph; pieces follow each other.
#[derive(Clone, Debug)]
pub(super) enum GraphBlock {
    Line(RandomNode),
    Loop(RandomNode, usize),
    Fan(Vec<Vec<RandomNode>>),
    /// A task for each of so many items.
    Each(RandomNode, u64),
    /// A map whose tasks lead to another map.
    Maps([(RandomNode, u64); 2]),
    /// A map beside a node, and a join that waits for both.
    Beside(RandomNode, u64, RandomNode),
}

fn random_leaf(dice: &mut SimulationRng, name: String) -> RandomNode {
    const ACTS: [SimulatedAction; 11] = [
        SimulatedAction::Read,
        SimulatedAction::Read,
        SimulatedAction::Write,
        SimulatedAction::Write,
        SimulatedAction::Once,
        SimulatedAction::Once,
        SimulatedAction::Nap,
        SimulatedAction::Token,
        SimulatedAction::Draw,
        SimulatedAction::Ask,
        SimulatedAction::Together,
    ];
    let acts = (0..dice.below(4)).map(|_| ACTS[dice.below(11) as usize]).collect();
    RandomNode::Leaf(name, acts)
}

fn random_node(dice: &mut SimulationRng, name: String, depth: u32) -> RandomNode {
    if depth < 2 && dice.chance_per_mille(250) {
        let inner =
            (0..=dice.below(2)).map(|n| random_node(dice, format!("{name}i{n}"), depth + 1)).collect();
        return RandomNode::Sub(name, inner);
    }
    random_leaf(dice, name)
}

pub(super) fn random_blocks(dice: &mut SimulationRng) -> Vec<GraphBlock> {
    (0..=dice.below(4))
        .map(|n| match dice.below(6) {
            0 => GraphBlock::Line(random_node(dice, format!("b{n}"), 0)),
            1 => GraphBlock::Loop(random_leaf(dice, format!("b{n}")), 1 + dice.below(3) as usize),
            2 => GraphBlock::Fan(
                (0..2 + dice.below(2))
                    .map(|branch| {
                        (0..=dice.below(2))
                            .map(|at| random_node(dice, format!("b{n}x{branch}s{at}"), 0))
                            .collect()
                    })
                    .collect(),
            ),
            3 => GraphBlock::Each(random_leaf(dice, format!("b{n}w")), dice.below(4)),
            4 => {
                GraphBlock::Maps(["w", "v"].map(|at| (random_leaf(dice, format!("b{n}{at}")), dice.below(4))))
            }
            _ => GraphBlock::Beside(
                random_leaf(dice, format!("b{n}w")),
                1 + dice.below(3),
                random_node(dice, format!("b{n}v"), 0),
            ),
        })
        .collect()
}

/// A node that does its acts and says what came of them.
fn build_node(world: &SimulatedWorld, cell: &RandomNode) -> NodeBuilder<EngineTestState> {
    match cell {
        RandomNode::Leaf(name, acts) => {
            let (world, name, acts) = (world.clone(), name.clone(), acts.clone());
            node(move |state: Snap<EngineTestState>, cx: Cx| {
                let (world, name, acts) = (world.clone(), name.clone(), acts.clone());
                async move {
                    world.random_wait().await;
                    world.finished_tasks.lock().expect("no panic").record_begin(&format!("{cx:?}"));
                    let mut results = Vec::new();
                    for (nth, what) in acts.into_iter().enumerate() {
                        // The run, the task and the act name a call for good.
                        let call = format!("{} {cx:?} {nth}", state.sum);
                        results.push(perform_action(&world, &cx, call, what).await?);
                    }
                    let item = cx.input::<u64>().map(|item| item.to_string()).unwrap_or_default();
                    world.random_wait().await;
                    Ok::<_, NodeError>(
                        EngineTestState::update().said(vec![format!("{name}{item}({})", results.join(","))]),
                    )
                }
            })
        }
        RandomNode::Sub(_, inner) => {
            let names: Vec<String> = inner.iter().map(|cell| node_name(cell).to_owned()).collect();
            let mut graph = Graph::named();
            for (nth, cell) in inner.iter().enumerate() {
                graph = graph
                    .node(&names[nth], continue_or_end(build_node(world, cell), names.get(nth + 1).cloned()));
            }
            let graph = graph.start(&names[0]).build().expect("sound");
            node(subgraph(
                graph,
                |state: &EngineTestState| EngineTestState::update().sum(state.sum),
                |inner: &EngineTestState| EngineTestState::update().said(inner.said.clone()),
            ))
        }
    }
}

fn node_name(cell: &RandomNode) -> &str {
    match cell {
        RandomNode::Leaf(name, _) | RandomNode::Sub(name, _) => name,
    }
}

fn continue_or_end(
    open: NodeBuilder<EngineTestState>,
    next: Option<String>,
) -> NodeDefinition<EngineTestState, String> {
    match next {
        Some(next) => open.then(next),
        None => open.end(),
    }
}

/// How many words a run of these says. The unbroken run alone could not tell what multiplies by itself.
pub(super) fn expected_word_count(blocks: &[GraphBlock]) -> u64 {
    fn words_of_node(cell: &RandomNode) -> u64 {
        match cell {
            RandomNode::Leaf(..) => 1,
            RandomNode::Sub(_, inner) => inner.iter().map(words_of_node).sum(),
        }
    }
    let words = |block: &GraphBlock| match block {
        GraphBlock::Line(cell) => words_of_node(cell),
        GraphBlock::Loop(cell, rounds) => words_of_node(cell) * *rounds as u64,
        GraphBlock::Fan(branches) => branches.iter().flatten().map(words_of_node).sum(),
        GraphBlock::Each(_, items) => *items,
        GraphBlock::Maps([(_, some), (_, more)]) => {
            if *some > 0 {
                some + more
            } else {
                0
            }
        }
        GraphBlock::Beside(_, items, beside) => items + words_of_node(beside),
    };
    blocks.iter().map(words).sum()
}

/// Leads to a task of this cell for each item; without items, on to `otherwise`.
fn fan_out_over(
    cell: &RandomNode,
    items: u64,
    otherwise: &str,
) -> impl Fn(&EngineTestState) -> To<String> + Send + Sync + 'static {
    let (work, after) = (node_name(cell).to_owned(), otherwise.to_owned());
    move |_: &EngineTestState| To::each(work.clone(), 0..items, To::Node(after.clone()))
}

pub(super) fn build_graph(world: &SimulatedWorld, blocks: &[GraphBlock]) -> Graph<EngineTestState> {
    let plain = || node(|_: Snap<EngineTestState>| async { Ok::<_, NodeError>(EngineTestState::update()) });
    let mut graph: NamedGraphBuilder<EngineTestState> = Graph::named();
    for (n, block) in blocks.iter().enumerate() {
        let (entry, join) = (format!("b{n}"), format!("b{n}j"));
        let next = (n + 1 < blocks.len()).then(|| format!("b{}", n + 1));
        graph = match block {
            GraphBlock::Line(cell) => graph.node(&entry, continue_or_end(build_node(world, cell), next)),
            GraphBlock::Loop(cell, rounds) => {
                let (rounds, word, again) = (*rounds, format!("{}(", node_name(cell)), entry.clone());
                let mut targets = vec![entry.clone()];
                targets.extend(next.clone());
                let choose = move |state: &EngineTestState| {
                    let said = state.said.iter().filter(|said| said.starts_with(&word)).count();
                    match &next {
                        _ if said % rounds != 0 => To::Node(again.clone()),
                        Some(next) => To::Node(next.clone()),
                        None => To::End,
                    }
                };
                graph.node(&entry, build_node(world, cell).branch_or_end(targets, choose))
            }
            GraphBlock::Fan(branches) => {
                let heads: Vec<String> =
                    branches.iter().map(|cells| node_name(&cells[0]).to_owned()).collect();
                let lasts: Vec<String> =
                    branches.iter().map(|cells| node_name(&cells[cells.len() - 1]).to_owned()).collect();
                let mut graph = graph.node(&entry, plain().then_all(heads));
                for cells in branches {
                    for (at, cell) in cells.iter().enumerate() {
                        let next = cells.get(at + 1).map_or(join.clone(), |cell| node_name(cell).to_owned());
                        graph = graph.node(node_name(cell), build_node(world, cell).then(next));
                    }
                }
                graph.node(&join, continue_or_end(plain(), next).after_all(lasts))
            }
            GraphBlock::Each(cell, items) => graph
                .node(&entry, plain().branch([node_name(cell), &join], fan_out_over(cell, *items, &join)))
                .node(node_name(cell), build_node(world, cell).then(join.clone()))
                .node(&join, continue_or_end(plain(), next)),
            GraphBlock::Maps([(one, some), (two, more)]) => graph
                .node(&entry, plain().branch([node_name(one), &join], fan_out_over(one, *some, &join)))
                .node(
                    node_name(one),
                    build_node(world, one).branch([node_name(two), &join], fan_out_over(two, *more, &join)),
                )
                .node(node_name(two), build_node(world, two).then(join.clone()))
                .node(&join, continue_or_end(plain(), next)),
            GraphBlock::Beside(cell, items, beside) => {
                let list = format!("b{n}l");
                graph
                    .node(&entry, plain().then_all([list.as_str(), node_name(beside)]))
                    .node(&list, plain().branch([node_name(cell)], fan_out_over(cell, *items, &join)))
                    .node(node_name(cell), build_node(world, cell).then(join.clone()))
                    .node(node_name(beside), build_node(world, beside).then(join.clone()))
                    .node(
                        &join,
                        continue_or_end(plain(), next).after_all([node_name(cell), node_name(beside)]),
                    )
            }
        };
    }
    graph.start("b0").build().expect("sound")
}
