//! `doran runs`: the runs, newest first.

use doran_engine::ThreadId;
use doran_engine::store::RunFilter;
use serde_json::json;

use crate::assemble;
use crate::config::Config;
use crate::output::{Output, padded};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only of this conversation · 이 대화의 것만
    #[arg(long, value_name = "NAME")]
    thread: Option<ThreadId>,
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
    let filter = RunFilter { thread: args.thread.clone(), limit: args.limit, ..RunFilter::default() };
    let mut lines = String::new();
    for row in house.runtime.store().runs(&house.tenant, &filter).await? {
        let (run, thread) = (row.run.to_string(), row.thread.thread.as_str());
        let status = serde_json::to_value(row.status)?;
        let line = if args.json {
            let failure = row.error.map(|error| json!({ "code": error.code, "message": error.message }));
            json!({
                "run": run, "thread": thread, "agent": row.graph, "status": status, "steps": row.steps,
                "input_tokens": row.usage.input_tokens, "output_tokens": row.usage.output_tokens,
                "created_at": row.created_at, "ended_at": row.ended_at, "error": failure,
            })
            .to_string()
        } else {
            let status = padded(status.as_str().unwrap_or_default(), 9);
            format!("{run}  {status}  {:>4}  {}  {thread}", row.steps, row.graph)
        };
        lines.push_str(&format!("{line}\n"));
    }
    output.data(&lines)
}
