//! `doran threads`: the conversations, the last changed first.

use doran_engine::store::ThreadFilter;
use serde_json::json;

use crate::assemble;
use crate::config::Config;
use crate::output::{Output, padded, width};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object a line · 한 줄에 JSON 하나씩 출력
    #[arg(long)]
    json: bool,
    /// Most to list · 보여 줄 최대 수
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

/// Lists them.
pub(crate) async fn run(args: &Args, config: &Config, output: Output) -> anyhow::Result<()> {
    let house = assemble::house(config).await?;
    let filter = ThreadFilter { limit: args.limit, ..ThreadFilter::default() };
    let threads = house.runtime.store().threads(&house.tenant, &filter).await?;
    let wide = threads.iter().map(|row| width(row.key.thread.as_str())).max().unwrap_or(0);
    let mut lines = String::new();
    for row in &threads {
        let (name, active) = (row.key.thread.as_str(), row.active.map(|run| run.to_string()));
        let line = if args.json {
            json!({ "thread": name, "entries": row.head, "updated_at": row.updated_at, "active": active })
                .to_string()
        } else {
            format!("{}  {:>6}  {}", padded(name, wide), row.head, active.unwrap_or_default())
        };
        lines.push_str(&format!("{}\n", line.trim_end()));
    }
    output.data(&lines)
}
