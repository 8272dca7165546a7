//! `doran threads`: lists threads, last changed first.

use doran_engine::TenantId;
use doran_engine::store::{ThreadFilter, ThreadRow};
use doran_server::api::ThreadInfo;
use serde_json::{Value, json};

use crate::agent_client;
use crate::assemble;
use crate::config::Config;
use crate::output::{TerminalOutput, display_width, pad_to_width};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran threads
  doran threads --limit 5 --json")]
pub(crate) struct ThreadsArgs {
    /// Print one JSON object per line · 한 줄에 JSON 하나씩 출력합니다
    #[arg(long)]
    json: bool,
    /// Maximum number to list · 최대 개수
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

/// Lists threads from the database, or from the server that has it open.
pub(crate) async fn run(args: &ThreadsArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let threads: Vec<ThreadInfo> = match agent_client::running_server(config) {
        Some(client) => {
            let mut listed = client.get(&format!("/api/threads?limit={}", args.limit)).await?;
            serde_json::from_value(listed["threads"].take())?
        }
        None => {
            let records = assemble::open_locked_store(config).await?;
            let filter = ThreadFilter { limit: args.limit, ..ThreadFilter::default() };
            let rows = records.store.threads(&TenantId::local(), &filter).await?;
            rows.iter().map(thread_from_row).collect()
        }
    };
    let wide = threads.iter().map(|thread| display_width(&thread.id)).max().unwrap_or(0);
    let mut lines = String::new();
    for thread in &threads {
        let ThreadInfo { id, title, agent, active, updated, .. } = thread;
        let line = if args.json {
            json!({ "thread": id, "title": title, "agent": agent, "updated_at": updated, "active": active })
                .to_string()
        } else {
            format!("{}  {title}", pad_to_width(id, wide))
        };
        lines.push_str(&format!("{}\n", line.trim_end()));
    }
    output.print_data(&lines)
}

fn thread_from_row(row: &ThreadRow) -> ThreadInfo {
    let text = |key: &str| row.metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    ThreadInfo {
        id: row.key.thread.to_string(),
        title: text("title").unwrap_or_default(),
        agent: text("agent"),
        active: row.active.map(|run| run.to_string()),
        created: row.created_at,
        updated: row.updated_at,
    }
}
