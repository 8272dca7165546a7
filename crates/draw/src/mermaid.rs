//! Mermaid flowcharts. Nodes are numbered, and names appear only as quoted labels, so that no name is syntax.

use doran_engine::graph::GraphTopology;

use crate::{DrawnBoxKind, drawn_boxes, index_by_id};

pub(super) fn render_mermaid(topology: &GraphTopology) -> String {
    let mut chart = MermaidChart { text: String::from("flowchart TD\n"), next: 0, deferred: Vec::new() };
    chart.graph(topology, 1);
    if !chart.deferred.is_empty() {
        chart.line(1, "classDef deferred stroke-dasharray:3 3");
        let deferred = chart.deferred.join(",");
        chart.line(1, &format!("class {deferred} deferred"));
    }
    chart.text
}

struct MermaidChart {
    text: String,
    /// Numbers run through all subgraphs, since Mermaid has one name space.
    next: usize,
    deferred: Vec<String>,
}

impl MermaidChart {
    fn graph(&mut self, topology: &GraphTopology, depth: usize) {
        let shown = drawn_boxes(topology);
        let mut names = Vec::new();
        for shown in &shown {
            let name = format!("n{}", self.next);
            self.next += 1;
            let mut label = escape_mermaid(shown.label());
            if shown.is_deferred() {
                label.push_str("<br/>deferred");
                self.deferred.push(name.clone());
            }
            match (shown.inner(), shown.kind) {
                (Some(inner), _) => {
                    self.line(depth, &format!("subgraph {name}[\"{label}\"]"));
                    self.graph(inner, depth + 1);
                    self.line(depth, "end");
                }
                (None, DrawnBoxKind::Node) => self.line(depth, &format!("{name}[\"{label}\"]")),
                (None, DrawnBoxKind::Start | DrawnBoxKind::End) => {
                    self.line(depth, &format!("{name}([\"{label}\"])"))
                }
            }
            names.push(name);
        }
        let places = index_by_id(&shown);
        for edge in &topology.edges {
            let [source, target] = [&edge.source, &edge.target].map(|id| &names[places[id.as_str()]]);
            let arrow = if edge.conditional { "-.->" } else { "-->" };
            self.line(depth, &format!("{source} {arrow} {target}"));
        }
    }

    fn line(&mut self, depth: usize, text: &str) {
        for _ in 0..depth {
            self.text.push_str("  ");
        }
        self.text.push_str(text);
        self.text.push('\n');
    }
}

/// Writes all but letters, digits and harmless signs as `#number;`, which Mermaid reads back as the character.
fn escape_mermaid(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        match c {
            '\n' => text.push_str("<br/>"),
            ' ' | '_' | '-' | '.' | ',' | '/' => text.push(c),
            _ if c.is_alphanumeric() => text.push(c),
            _ if c.is_control() => text.push(' '),
            _ => text.push_str(&format!("#{};", u32::from(c))),
        }
    }
    // Mermaid takes an empty label for a mistake.
    if text.is_empty() { " ".into() } else { text }
}
