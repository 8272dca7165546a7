use doran_engine::State;
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Chat {
    #[reduce(apend)]
    lines: Vec<String>,
    #[reduce()]
    more: Vec<String>,
    #[reduce]
    most: Vec<String>,
}

fn main() {}
