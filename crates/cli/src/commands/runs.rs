//! `doran runs`: lists runs, newest first.

use doran_engine::store::RunFilter;
use doran_engine::{TenantId, ThreadId};
use doran_server::api::RunInfo;
use serde_json::json;

use crate::agent_client;
use crate::assemble;
use crate::client::{ServerHttpClient, percent_encode};
use crate::config::Config;
use crate::output::{TerminalOutput, pad_to_width};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran runs
  doran runs --thread main --json")]
pub(crate) struct RunsArgs {
    /// Only of this thread · 이 스레드의 실행만
    #[arg(long, value_name = "NAME")]
    thread: Option<ThreadId>,
    /// Print one JSON object per line · 한 줄에 JSON 하나씩 출력합니다
    #[arg(long)]
    json: bool,
    /// Maximum number to list · 최대 개수
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

/// Lists runs from the database, or from the server that has it open.
pub(crate) async fn run(args: &RunsArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let runs = match agent_client::running_server(config) {
        Some(client) => list_runs_of_server(args, &client).await?,
        None => {
            let records = assemble::open_locked_store(config).await?;
            let filter = RunFilter { thread: args.thread.clone(), limit: args.limit, ..RunFilter::default() };
            let rows = records.store.runs(&TenantId::local(), &filter).await?;
            rows.iter().map(RunInfo::from_row).collect()
        }
    };
    let mut lines = String::new();
    for run in runs {
        let status = serde_json::to_value(run.status)?;
        let line = if args.json {
            let failure = run.error_code.map(|code| json!({ "code": code, "message": run.error_message }));
            json!({
                "run": run.id, "thread": run.thread, "agent": run.agent, "status": status, "steps": run.steps,
                "input_tokens": run.usage.input_tokens, "output_tokens": run.usage.output_tokens,
                "cost_micros": run.usage.cost_micros,
                "created_at": run.created, "ended_at": run.ended, "error": failure,
            })
            .to_string()
        } else {
            let status = pad_to_width(status.as_str().unwrap_or_default(), 9);
            format!("{}  {status}  {:>4}  {}  {}", run.id, run.steps, run.agent, run.thread)
        };
        lines.push_str(&format!("{line}\n"));
    }
    output.print_data(&lines)
}

/// A server lists the runs of one thread at a time.
async fn list_runs_of_server(args: &RunsArgs, client: &ServerHttpClient) -> anyhow::Result<Vec<RunInfo>> {
    let threads = match &args.thread {
        Some(thread) => vec![thread.as_str().to_owned()],
        None => {
            let listed = client.get(&format!("/api/threads?limit={}", args.limit)).await?;
            let rows = listed["threads"].as_array().cloned().unwrap_or_default();
            rows.iter().filter_map(|row| row["id"].as_str().map(str::to_owned)).collect()
        }
    };
    let mut runs: Vec<RunInfo> = Vec::new();
    for thread in threads {
        let path = format!("/api/threads/{}/runs?limit={}", percent_encode(&thread), args.limit);
        let mut listed = client.get(&path).await?;
        runs.extend(serde_json::from_value::<Vec<RunInfo>>(listed["runs"].take())?);
    }
    runs.sort_by(|left, right| right.created.cmp(&left.created).then(right.id.cmp(&left.id)));
    runs.truncate(args.limit);
    Ok(runs)
}
