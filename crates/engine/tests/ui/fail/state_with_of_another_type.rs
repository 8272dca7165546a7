use doran_engine::State;
use serde::{Deserialize, Serialize};

#[derive(State, Clone, Default, Serialize, Deserialize)]
struct Chat {
    #[reduce(with = longer)]
    count: u32,
}

fn longer(field: &mut String, change: String) {
    field.push_str(&change);
}

fn main() {}
