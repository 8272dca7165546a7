//! Graphs of nodes.

/// The nodes of a graph. Derive it for an enum without content: `#[derive(Nodes)]`.
pub trait Nodes: Copy + Eq + std::hash::Hash + std::fmt::Debug + Send + Sync + 'static {
    /// Every node, in order.
    const ALL: &'static [Self];

    /// The name that logs and events know a node by.
    fn name(self) -> &'static str;

    /// The place of a node in [`ALL`](Self::ALL).
    fn index(self) -> usize;
}
