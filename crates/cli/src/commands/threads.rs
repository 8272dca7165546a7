//! `doran threads`: the conversations, the last changed first.

use doran_engine::Tenant;
use doran_engine::store::{ThreadFilter, ThreadRow};
use doran_server::api::Thread;
use serde_json::{Value, json};

use crate::assemble;
use crate::config::Config;
use crate::desk;
use crate::output::{Output, padded, width};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 보기:
  doran threads
  doran threads --limit 5 --json")]
pub(crate) struct Args {
    /// Print one JSON object a line · 한 줄에 JSON 하나씩 출력
    #[arg(long)]
    json: bool,
    /// Most to list · 보여 줄 최대 수
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

/// Lists them, from the database or from the server that has it.
pub(crate) async fn run(args: &Args, config: &Config, output: Output) -> anyhow::Result<()> {
    let threads: Vec<Thread> = match desk::server(config) {
        Some(client) => {
            let mut listed = client.get(&format!("/api/threads?limit={}", args.limit)).await?;
            serde_json::from_value(listed["threads"].take())?
        }
        None => {
            let records = assemble::records(config).await?;
            let filter = ThreadFilter { limit: args.limit, ..ThreadFilter::default() };
            let rows = records.store.threads(&Tenant::local(), &filter).await?;
            rows.iter().map(of_row).collect()
        }
    };
    let wide = threads.iter().map(|thread| width(&thread.id)).max().unwrap_or(0);
    let mut lines = String::new();
    for thread in &threads {
        let Thread { id, title, agent, active, updated, .. } = thread;
        let line = if args.json {
            json!({ "thread": id, "title": title, "agent": agent, "updated_at": updated, "active": active })
                .to_string()
        } else {
            format!("{}  {title}", padded(id, wide))
        };
        lines.push_str(&format!("{}\n", line.trim_end()));
    }
    output.data(&lines)
}

fn of_row(row: &ThreadRow) -> Thread {
    let text = |key: &str| row.metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    Thread {
        id: row.key.thread.to_string(),
        title: text("title").unwrap_or_default(),
        agent: text("agent"),
        active: row.active.map(|run| run.to_string()),
        created: row.created_at,
        updated: row.updated_at,
    }
}
