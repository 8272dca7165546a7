//! A graph as lines of text for a terminal.

use doran_engine::graph::{END_NODE_ID, GraphTopology, START_NODE_ID};

pub(crate) fn render_text(topology: &GraphTopology) -> String {
    let mut lines = String::new();
    render_lines(topology, "", &mut lines);
    lines
}

fn render_lines(topology: &GraphTopology, indent: &str, lines: &mut String) {
    let nodes = topology.nodes.iter().map(|node| (node.id.as_str(), node.inner.as_deref()));
    for (id, inner) in [(START_NODE_ID, None)].into_iter().chain(nodes) {
        let targets = |conditional: bool| {
            let edges =
                topology.edges.iter().filter(|edge| edge.source == id && edge.conditional == conditional);
            edges.map(|edge| label(&edge.target)).collect::<Vec<_>>().join(" | ")
        };
        let (always, branches) = (targets(false), targets(true));
        let mut line = format!("{indent}{}", label(id));
        if !always.is_empty() {
            line.push_str(&format!(" --> {always}"));
        }
        if !branches.is_empty() {
            line.push_str(&format!(" ..> {branches}"));
        }
        lines.push_str(&line);
        lines.push('\n');
        if let Some(inner) = inner {
            render_lines(inner, &format!("{indent}    "), lines);
        }
    }
}

/// The name of a node, on one line and without control characters.
fn label(id: &str) -> String {
    match id {
        START_NODE_ID => "start".to_owned(),
        END_NODE_ID => "end".to_owned(),
        name => name.chars().map(|char| if char.is_control() { '?' } else { char }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use doran_engine::graph::{TopologyEdge, TopologyNode};

    use super::*;

    #[test]
    fn each_node_is_a_line_with_what_may_follow_it() {
        let edge = |source: &str, target: &str, conditional| TopologyEdge {
            source: source.into(),
            target: target.into(),
            conditional,
        };
        let node = |id: &str, inner| TopologyNode { id: id.into(), deferred: false, inner };
        let inner = GraphTopology {
            nodes: vec![node("look\u{1b}", None)],
            edges: vec![edge(START_NODE_ID, "look\u{1b}", false), edge("look\u{1b}", END_NODE_ID, false)],
        };
        let topology = GraphTopology {
            nodes: vec![node("route", None), node("help", Some(Box::new(inner)))],
            edges: vec![
                edge(START_NODE_ID, "route", false),
                edge("route", "help", true),
                edge("route", END_NODE_ID, true),
                edge("help", END_NODE_ID, false),
            ],
        };
        let expected =
            "start --> route\nroute ..> help | end\nhelp --> end\n    start --> look?\n    look? --> end\n";
        assert_eq!(render_text(&topology), expected);
    }
}
