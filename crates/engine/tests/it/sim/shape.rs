//! Small graphs out of a seed: lines, loops, fan-outs with their joins, maps over lists and maps after them, graphs
//! inside.

use doran_engine::graph::{NamedBuilder, Open};
use doran_engine::{Cx, Def, Graph, NodeError, Snap, To, node, subgraph};

use super::dice::Dice;
use super::world::{World, act};
use crate::support::Notes;

/// What a node does, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Act {
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
pub(super) enum Cell {
    Leaf(String, Vec<Act>),
    Sub(String, Vec<Cell>),
}

/// A piece of a graph; pieces follow each other.
#[derive(Clone, Debug)]
pub(super) enum Block {
    Line(Cell),
    Loop(Cell, usize),
    Fan(Vec<Vec<Cell>>),
    /// A task for each of so many items.
    Each(Cell, u64),
    /// A map whose tasks lead to another map.
    Maps([(Cell, u64); 2]),
    /// A map beside a node, and a join that waits for both.
    Beside(Cell, u64, Cell),
}

fn leaf(dice: &mut Dice, name: String) -> Cell {
    const ACTS: [Act; 11] = [
        Act::Read,
        Act::Read,
        Act::Write,
        Act::Write,
        Act::Once,
        Act::Once,
        Act::Nap,
        Act::Token,
        Act::Draw,
        Act::Ask,
        Act::Together,
    ];
    let acts = (0..dice.below(4)).map(|_| ACTS[dice.below(11) as usize]).collect();
    Cell::Leaf(name, acts)
}

fn cell(dice: &mut Dice, name: String, depth: u32) -> Cell {
    if depth < 2 && dice.chance(250) {
        let inner = (0..=dice.below(2)).map(|n| cell(dice, format!("{name}i{n}"), depth + 1)).collect();
        return Cell::Sub(name, inner);
    }
    leaf(dice, name)
}

pub(super) fn blocks(dice: &mut Dice) -> Vec<Block> {
    (0..=dice.below(4))
        .map(|n| match dice.below(6) {
            0 => Block::Line(cell(dice, format!("b{n}"), 0)),
            1 => Block::Loop(leaf(dice, format!("b{n}")), 1 + dice.below(3) as usize),
            2 => Block::Fan(
                (0..2 + dice.below(2))
                    .map(|branch| {
                        (0..=dice.below(2)).map(|at| cell(dice, format!("b{n}x{branch}s{at}"), 0)).collect()
                    })
                    .collect(),
            ),
            3 => Block::Each(leaf(dice, format!("b{n}w")), dice.below(4)),
            4 => Block::Maps(["w", "v"].map(|at| (leaf(dice, format!("b{n}{at}")), dice.below(4)))),
            _ => Block::Beside(
                leaf(dice, format!("b{n}w")),
                1 + dice.below(3),
                cell(dice, format!("b{n}v"), 0),
            ),
        })
        .collect()
}

/// A node that does its acts and says what came of them.
fn open(world: &World, cell: &Cell) -> Open<Notes> {
    match cell {
        Cell::Leaf(name, acts) => {
            let (world, name, acts) = (world.clone(), name.clone(), acts.clone());
            node(move |state: Snap<Notes>, cx: Cx| {
                let (world, name, acts) = (world.clone(), name.clone(), acts.clone());
                async move {
                    world.pass().await;
                    world.done.lock().expect("no panic").begins(&format!("{cx:?}"));
                    let mut results = Vec::new();
                    for (nth, what) in acts.into_iter().enumerate() {
                        // The run, the task and the act name a call for good.
                        let call = format!("{} {cx:?} {nth}", state.sum);
                        results.push(act(&world, &cx, call, what).await?);
                    }
                    let item = cx.input::<u64>().map(|item| item.to_string()).unwrap_or_default();
                    world.pass().await;
                    Ok::<_, NodeError>(
                        Notes::update().said(vec![format!("{name}{item}({})", results.join(","))]),
                    )
                }
            })
        }
        Cell::Sub(_, inner) => {
            let names: Vec<String> = inner.iter().map(|cell| name_of(cell).to_owned()).collect();
            let mut graph = Graph::named();
            for (nth, cell) in inner.iter().enumerate() {
                graph = graph.node(&names[nth], way(open(world, cell), names.get(nth + 1).cloned()));
            }
            let graph = graph.start(&names[0]).build().expect("sound");
            node(subgraph(
                graph,
                |state: &Notes| Notes::update().sum(state.sum),
                |inner: &Notes| Notes::update().said(inner.said.clone()),
            ))
        }
    }
}

fn name_of(cell: &Cell) -> &str {
    match cell {
        Cell::Leaf(name, _) | Cell::Sub(name, _) => name,
    }
}

fn way(open: Open<Notes>, next: Option<String>) -> Def<Notes, String> {
    match next {
        Some(next) => open.then(next),
        None => open.end(),
    }
}

/// How many words a run of these says. The unbroken run alone could not tell what multiplies by itself.
pub(super) fn words(blocks: &[Block]) -> u64 {
    fn of(cell: &Cell) -> u64 {
        match cell {
            Cell::Leaf(..) => 1,
            Cell::Sub(_, inner) => inner.iter().map(of).sum(),
        }
    }
    let words = |block: &Block| match block {
        Block::Line(cell) => of(cell),
        Block::Loop(cell, rounds) => of(cell) * *rounds as u64,
        Block::Fan(branches) => branches.iter().flatten().map(of).sum(),
        Block::Each(_, items) => *items,
        Block::Maps([(_, some), (_, more)]) => {
            if *some > 0 {
                some + more
            } else {
                0
            }
        }
        Block::Beside(_, items, beside) => items + of(beside),
    };
    blocks.iter().map(words).sum()
}

/// Leads to a task of this cell for each item; without items, on to `otherwise`.
fn each(cell: &Cell, items: u64, otherwise: &str) -> impl Fn(&Notes) -> To<String> + Send + Sync + 'static {
    let (work, after) = (name_of(cell).to_owned(), otherwise.to_owned());
    move |_: &Notes| To::each(work.clone(), 0..items, To::Node(after.clone()))
}

pub(super) fn build(world: &World, blocks: &[Block]) -> Graph<Notes> {
    let plain = || node(|_: Snap<Notes>| async { Ok::<_, NodeError>(Notes::update()) });
    let mut graph: NamedBuilder<Notes> = Graph::named();
    for (n, block) in blocks.iter().enumerate() {
        let (entry, join) = (format!("b{n}"), format!("b{n}j"));
        let next = (n + 1 < blocks.len()).then(|| format!("b{}", n + 1));
        graph = match block {
            Block::Line(cell) => graph.node(&entry, way(open(world, cell), next)),
            Block::Loop(cell, rounds) => {
                let (rounds, word, again) = (*rounds, format!("{}(", name_of(cell)), entry.clone());
                let mut targets = vec![entry.clone()];
                targets.extend(next.clone());
                let choose = move |state: &Notes| {
                    let said = state.said.iter().filter(|said| said.starts_with(&word)).count();
                    match &next {
                        _ if said % rounds != 0 => To::Node(again.clone()),
                        Some(next) => To::Node(next.clone()),
                        None => To::End,
                    }
                };
                graph.node(&entry, open(world, cell).branch_or_end(targets, choose))
            }
            Block::Fan(branches) => {
                let heads: Vec<String> = branches.iter().map(|cells| name_of(&cells[0]).to_owned()).collect();
                let lasts: Vec<String> =
                    branches.iter().map(|cells| name_of(&cells[cells.len() - 1]).to_owned()).collect();
                let mut graph = graph.node(&entry, plain().then_all(heads));
                for cells in branches {
                    for (at, cell) in cells.iter().enumerate() {
                        let next = cells.get(at + 1).map_or(join.clone(), |cell| name_of(cell).to_owned());
                        graph = graph.node(name_of(cell), open(world, cell).then(next));
                    }
                }
                graph.node(&join, way(plain(), next).after_all(lasts))
            }
            Block::Each(cell, items) => graph
                .node(&entry, plain().branch([name_of(cell), &join], each(cell, *items, &join)))
                .node(name_of(cell), open(world, cell).then(join.clone()))
                .node(&join, way(plain(), next)),
            Block::Maps([(one, some), (two, more)]) => graph
                .node(&entry, plain().branch([name_of(one), &join], each(one, *some, &join)))
                .node(name_of(one), open(world, one).branch([name_of(two), &join], each(two, *more, &join)))
                .node(name_of(two), open(world, two).then(join.clone()))
                .node(&join, way(plain(), next)),
            Block::Beside(cell, items, beside) => {
                let list = format!("b{n}l");
                graph
                    .node(&entry, plain().then_all([list.as_str(), name_of(beside)]))
                    .node(&list, plain().branch([name_of(cell)], each(cell, *items, &join)))
                    .node(name_of(cell), open(world, cell).then(join.clone()))
                    .node(name_of(beside), open(world, beside).then(join.clone()))
                    .node(&join, way(plain(), next).after_all([name_of(cell), name_of(beside)]))
            }
        };
    }
    graph.start("b0").build().expect("sound")
}
