//! Where the boxes of a drawing go: in layers from top to bottom, each edge leading down, except those that close a
//! cycle. Layers come from the longest path, the order in a layer from a few barycentre sweeps, and the places in it
//! from the neighbours, as near as the widths allow.

use std::collections::BTreeMap;

use doran_engine::graph::GraphTopology;

use crate::grid::LayerGrid;
use crate::route::{self, EdgeRoute};
use crate::{DrawnBox, DrawnBoxKind, drawn_boxes, index_by_id};

/// Width of one column of text in pixels, for a monospaced font of 13 pixels. Wide characters take two.
const TEXT_COLUMN_WIDTH: i32 = 8;
/// Longer names are cut in the picture; their titles are whole.
const MAX_LABEL_COLUMNS: usize = 40;
/// Around the graph in a subgraph's box.
pub(super) const SUBGRAPH_PADDING: i32 = 16;

/// A drawing with places. Boxes are in the order of `drawn_boxes`.
pub(super) struct DrawingLayout<'a> {
    pub width: i32,
    pub height: i32,
    pub boxes: Vec<PlacedBox<'a>>,
    pub routes: Vec<EdgeRoute>,
}

/// A box, by its left upper corner and size.
pub(super) struct PlacedBox<'a> {
    pub drawn: DrawnBox<'a>,
    pub label: String,
    pub x: i32,
    pub y: i32,
    pub w: i32,
    pub h: i32,
    pub layer: usize,
    pub inner: Option<DrawingLayout<'a>>,
}

/// An edge between boxes. Two edges between the same boxes in the same direction are drawn as one.
#[derive(Clone, Copy)]
pub(super) struct LayoutLink {
    pub source: usize,
    pub target: usize,
    pub conditional: bool,
    pub direction: LinkDirection,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LinkDirection {
    /// To a lower layer.
    Down,
    /// To a higher layer, closing a cycle.
    Back,
    /// To itself.
    SelfLoop,
}

pub(super) fn layout(topology: &GraphTopology) -> DrawingLayout<'_> {
    let shown = drawn_boxes(topology);
    let mut links = layout_links(topology, &shown);
    mark_back_links(&mut links, shown.len());
    let layers = assign_layers(&shown, &links);
    let mut boxes: Vec<PlacedBox<'_>> =
        shown.into_iter().zip(layers).map(|(shown, layer)| size_box(shown, layer)).collect();
    let mut grid = LayerGrid::new(&boxes, &links);
    grid.order_layers();
    grid.place_items();
    grid.straighten(&links);
    for (placed, item) in boxes.iter_mut().zip(&grid.items) {
        placed.x = item.x - placed.w / 2;
    }
    let (width, height, routes) = route::route_links(&mut boxes, &links, &grid);
    DrawingLayout { width, height, boxes, routes }
}

fn layout_links(topology: &GraphTopology, shown: &[DrawnBox<'_>]) -> Vec<LayoutLink> {
    let places = index_by_id(shown);
    let mut seen: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut links: Vec<LayoutLink> = Vec::new();
    for edge in &topology.edges {
        let (source, target) = (places[edge.source.as_str()], places[edge.target.as_str()]);
        match seen.get(&(source, target)) {
            Some(at) => links[*at].conditional &= edge.conditional,
            None => {
                seen.insert((source, target), links.len());
                let way = if source == target { LinkDirection::SelfLoop } else { LinkDirection::Down };
                links.push(LayoutLink { source, target, conditional: edge.conditional, direction: way });
            }
        }
    }
    links
}

/// Marks the links that a walk in depth, from the start and in order of definition, finds to close a cycle.
fn mark_back_links(links: &mut [LayoutLink], count: usize) {
    #[derive(Clone, Copy, PartialEq)]
    enum DepthFirstMark {
        Unvisited,
        OnStack,
        Done,
    }
    let out = outgoing(links, count);
    let mut seen = vec![DepthFirstMark::Unvisited; count];
    for root in 0..count {
        if seen[root] != DepthFirstMark::Unvisited {
            continue;
        }
        // A stack of its own: a chain of any length must not use up the thread's.
        let mut stack = vec![(root, 0)];
        seen[root] = DepthFirstMark::OnStack;
        while let Some((at, next)) = stack.last_mut() {
            let Some(link) = out[*at].get(*next) else {
                seen[*at] = DepthFirstMark::Done;
                stack.pop();
                continue;
            };
            *next += 1;
            let target = links[*link].target;
            match seen[target] {
                DepthFirstMark::OnStack => links[*link].direction = LinkDirection::Back,
                DepthFirstMark::Unvisited => {
                    seen[target] = DepthFirstMark::OnStack;
                    stack.push((target, 0));
                }
                DepthFirstMark::Done => {}
            }
        }
    }
}

/// For each box the links that leave it for another.
fn outgoing(links: &[LayoutLink], count: usize) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new(); count];
    for (at, link) in links.iter().enumerate().filter(|(_, link)| link.direction != LinkDirection::SelfLoop) {
        out[link.source].push(at);
    }
    out
}

/// The longest way down to each box. The end goes to the last layer, wherever it could be reached from.
fn assign_layers(shown: &[DrawnBox<'_>], links: &[LayoutLink]) -> Vec<usize> {
    let out = outgoing(links, shown.len());
    let mut above = vec![0_usize; shown.len()];
    for link in links.iter().filter(|link| link.direction == LinkDirection::Down) {
        above[link.target] += 1;
    }
    let mut layers = vec![0; shown.len()];
    let mut ready: Vec<usize> = (0..shown.len()).filter(|at| above[*at] == 0).collect();
    while let Some(at) = ready.pop() {
        for link in
            out[at].iter().map(|link| &links[*link]).filter(|link| link.direction == LinkDirection::Down)
        {
            layers[link.target] = layers[link.target].max(layers[at] + 1);
            above[link.target] -= 1;
            if above[link.target] == 0 {
                ready.push(link.target);
            }
        }
    }
    let last = layers.iter().copied().max().unwrap_or(0);
    for (at, shown) in shown.iter().enumerate() {
        if shown.kind == DrawnBoxKind::End && out[at].is_empty() {
            layers[at] = last;
        }
    }
    layers
}

fn size_box(shown: DrawnBox<'_>, layer: usize) -> PlacedBox<'_> {
    let label = truncate_label(shown.label());
    let text = text_columns(&label) * TEXT_COLUMN_WIDTH;
    let inner = shown.inner().map(layout);
    let (w, h) = match (&inner, shown.kind) {
        (Some(inner), _) => {
            let header = if shown.is_deferred() { 42 } else { 32 };
            ((text + 32).max(inner.width + 2 * SUBGRAPH_PADDING), inner.height + header + SUBGRAPH_PADDING)
        }
        (None, DrawnBoxKind::Node) => ((text + 32).max(64), if shown.is_deferred() { 50 } else { 38 }),
        (None, DrawnBoxKind::Start | DrawnBoxKind::End) => (text + 24, 26),
    };
    // An even width has its middle on a whole pixel.
    PlacedBox { drawn: shown, label, x: 0, y: 0, w: (w + 1) / 2 * 2, h, layer, inner }
}

/// The name on one line, cut when it is long.
fn truncate_label(name: &str) -> String {
    let mut label = String::new();
    let mut width = 0;
    for c in name.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        width += if is_wide_character(c) { 2 } else { 1 };
        if width > MAX_LABEL_COLUMNS {
            label.push('…');
            break;
        }
        label.push(c);
    }
    label
}

pub(super) fn text_columns(text: &str) -> i32 {
    text.chars().map(|c| if is_wide_character(c) { 2 } else { 1 }).sum()
}

/// Whether a character takes two columns: Korean, Chinese, Japanese, full-width forms, emoji.
fn is_wide_character(c: char) -> bool {
    matches!(u32::from(c),
        0x1100..=0x115F | 0x2E80..=0x303E | 0x3041..=0x4DBF | 0x4E00..=0xA4CF | 0xA960..=0xA97F
        | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF | 0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1FAFF | 0x20000..=0x3FFFD)
}
