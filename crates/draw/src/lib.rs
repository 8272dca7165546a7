//! Draws graphs: as text for Mermaid, as a picture in SVG, and as JSON for clients. Plain functions of a
//! [`GraphTopology`]: the same topology gives the same bytes.
//!
//! In which layer a box goes is in `layout`, where in the layer in `grid`, how lines run between boxes in `route`;
//! `svg` only writes it down.
//!
//! ```
//! use doran_engine::graph::{GraphTopology, TopologyEdge, TopologyNode};
//!
//! let edge = |source: &str, target: &str, conditional| TopologyEdge {
//!     source: source.into(),
//!     target: target.into(),
//!     conditional,
//! };
//! let topology = GraphTopology {
//!     nodes: vec![TopologyNode { id: "답변".into(), deferred: false, inner: None }],
//!     edges: vec![edge("__start__", "답변", false), edge("답변", "__end__", true)],
//! };
//! let chart = "flowchart TD
//!   n0([\"start\"])
//!   n1[\"답변\"]
//!   n2([\"end\"])
//!   n0 --> n1
//!   n1 -.-> n2
//! ";
//! assert_eq!(doran_draw::draw_mermaid(&topology), chart);
//! assert!(doran_draw::draw_svg(&topology).contains("id=\"node-답변\""));
//! ```

mod grid;
mod layout;
mod mermaid;
mod route;
mod svg;
#[cfg(test)]
mod tests;
mod text;

use std::collections::{HashMap, HashSet};

use doran_engine::graph::{END_NODE_ID, GraphTopology, START_NODE_ID, TopologyEdge, TopologyNode};
use serde::Serialize;

/// The graph as a Mermaid flowchart. Branches are dotted, subgraphs are blocks, and any name is safe in it.
pub fn draw_mermaid(topology: &GraphTopology) -> String {
    mermaid::render_mermaid(topology)
}

/// The graph as lines of text for a terminal: each node with the nodes that may follow it. `-->` always follows, `..>` is a
/// branch. The nodes of a subgraph are indented below it.
pub fn draw_text(topology: &GraphTopology) -> String {
    text::render_text(topology)
}

/// The graph as a picture that stands alone or inside a page.
///
/// Each node is a `g.node` with `data-node="NAME"` and the id `node-NAME`, each edge a `g.edge` with
/// `data-source` and `data-target`, so that a page can light them up. Branches are also `conditional`, edges that
/// lead back up `back`, deferred nodes `deferred`. A node of a subgraph has `data-in="OUTER"` and the id
/// `node-OUTER/NAME`. In an id, everything but letters, digits, `_` and `-` is written as `.hex.`.
///
/// Colours follow `currentColor`; a page may set `--graph-line`, `--graph-box` and `--graph-text`.
pub fn draw_svg(topology: &GraphTopology) -> String {
    svg::render_svg(topology)
}

/// The graph as clients of the HTTP interface read it.
pub fn draw_json(topology: &GraphTopology) -> DrawnGraph {
    let nodes = drawn_boxes(topology).into_iter().map(|shown| DrawnNode {
        id: shown.id.to_owned(),
        kind: DrawnNodeType::Runnable,
        data: DrawnNodeData { name: shown.id.to_owned() },
        deferred: shown.is_deferred(),
        inner: shown.inner().map(draw_json).map(Box::new),
    });
    DrawnGraph { nodes: nodes.collect(), edges: topology.edges.clone() }
}

/// A graph as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct DrawnGraph {
    /// The nodes, with the two ends `__start__` and `__end__`.
    pub nodes: Vec<DrawnNode>,
    /// The edges.
    pub edges: Vec<TopologyEdge>,
}

/// A node of a [`DrawnGraph`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct DrawnNode {
    /// The name of the node.
    pub id: String,
    /// Always `runnable`.
    #[serde(rename = "type")]
    pub kind: DrawnNodeType,
    /// What the node is.
    pub data: DrawnNodeData,
    /// Whether the node runs only when nothing else is due.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deferred: bool,
    /// The graph inside the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inner: Option<Box<DrawnGraph>>,
}

/// The type of a [`DrawnNode`], as other programs that draw graphs call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DrawnNodeType {
    /// Something that runs.
    Runnable,
}

/// What a [`DrawnNode`] is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct DrawnNodeData {
    /// The name of the node.
    pub name: String,
}

/// All that an edge or the list of nodes names, each once: the start, the nodes in their order, the end.
fn drawn_boxes(topology: &GraphTopology) -> Vec<DrawnBox<'_>> {
    let mut shown: Vec<DrawnBox<'_>> = Vec::new();
    let mut known: HashSet<&str> = HashSet::new();
    for node in &topology.nodes {
        if known.insert(&node.id) {
            shown.push(DrawnBox { id: &node.id, kind: DrawnBoxKind::Node, node: Some(node) });
        }
    }
    let mut ends = [None, None];
    for id in topology.edges.iter().flat_map(|edge| [edge.source.as_str(), edge.target.as_str()]) {
        if !known.insert(id) {
            continue;
        }
        match id {
            START_NODE_ID => ends[0] = Some(DrawnBox { id, kind: DrawnBoxKind::Start, node: None }),
            END_NODE_ID => ends[1] = Some(DrawnBox { id, kind: DrawnBoxKind::End, node: None }),
            _ => shown.push(DrawnBox { id, kind: DrawnBoxKind::Node, node: None }),
        }
    }
    let [start, end] = ends;
    start.into_iter().chain(shown).chain(end).collect()
}

/// One thing that is drawn as a box.
#[derive(Clone, Copy)]
struct DrawnBox<'a> {
    id: &'a str,
    kind: DrawnBoxKind,
    /// Nothing for the ends.
    node: Option<&'a TopologyNode>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DrawnBoxKind {
    Start,
    Node,
    End,
}

impl<'a> DrawnBox<'a> {
    fn is_deferred(&self) -> bool {
        self.node.is_some_and(|node| node.deferred)
    }

    fn inner(&self) -> Option<&'a GraphTopology> {
        self.node.and_then(|node| node.inner.as_deref())
    }

    /// What a person reads: the ends without their underscores.
    fn label(&self) -> &'a str {
        match self.kind {
            DrawnBoxKind::Start => "start",
            DrawnBoxKind::Node => self.id,
            DrawnBoxKind::End => "end",
        }
    }
}

/// Where each id is among `shown`.
fn index_by_id<'a>(shown: &[DrawnBox<'a>]) -> HashMap<&'a str, usize> {
    shown.iter().enumerate().map(|(at, shown)| (shown.id, at)).collect()
}
