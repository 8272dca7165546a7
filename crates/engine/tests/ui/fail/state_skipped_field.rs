use doran_engine::State;
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Chat {
    #[serde(skip)]
    cache: Vec<String>,
    is_empty: bool,
}

fn main() {}
