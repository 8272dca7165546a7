use doran_engine::Nodes;

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Same {
    CallModel,
    #[node(name = "call_model")]
    Other,
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wrong {
    #[node(name = "")]
    Empty,
    #[node(name = "two words")]
    Words,
    #[node(title = "x")]
    Title,
    #[node(name = "a", name = "b")]
    Twice,
    #[node(name = 1)]
    Number,
}

fn main() {}
