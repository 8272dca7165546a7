use doran_engine::Nodes;

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum None {}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct One;

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Full {
    Empty,
    Tuple(u8),
    Named { times: u8 },
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Generic<const N: usize> {
    One,
}

fn main() {}
