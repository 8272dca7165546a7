use doran_engine::State;
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Chat {
    #[reduce(by_id)]
    lines: Vec<String>,
}

fn main() {}
