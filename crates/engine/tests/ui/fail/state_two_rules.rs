use doran_engine::State;
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Chat {
    #[reduce(append, last)]
    lines: Vec<String>,
    #[reduce(add)]
    #[reduce(last)]
    count: u32,
}

fn main() {}
