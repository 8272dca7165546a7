use doran_engine::State;
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Tuple(u32, String);

#[derive(State, Clone, Default, Serialize, Deserialize)]
enum Either {
    #[default]
    Left,
    Right,
}

#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Generic<T> {
    value: T,
}

fn main() {}
