//! `doran runs`: lists runs, newest first, and shows, watches or forks one.

use std::num::NonZeroUsize;

use doran_engine::store::{RunFilter, RunStatus};
use doran_engine::{TenantId, ThreadId};
use doran_server::api::{RunInfo, RunList, RunPage, ThreadInfo, ThreadList};
use doran_server::percent_encode;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::agent_client;
use crate::args::parse_count;
use crate::assemble;
use crate::client::ServerHttpClient;
use crate::config::Config;
use crate::local_api::LocalApi;
use crate::output::{TerminalOutput, bilingual, format_local_time, pad_to_width, widest};
use crate::streamed_answer::StreamedAnswer;

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran runs
  doran runs list --thread main --json
  doran runs show 01a1e60f
  doran runs watch 01a1e60f
  doran runs fork 01a1e60f --title 다시")]
pub(crate) struct RunsArgs {
    #[command(flatten)]
    list: RunListOptions,
    #[command(subcommand)]
    what: Option<RunsCommand>,
}

/// What is listed, and how.
#[derive(Clone, Debug, clap::Args)]
struct RunListOptions {
    /// Only of this thread · 이 스레드의 실행만
    #[arg(long, value_name = "NAME")]
    thread: Option<ThreadId>,
    /// Print one JSON object per line · 한 줄에 JSON 하나씩 출력합니다
    #[arg(long)]
    json: bool,
    /// Maximum number to list; default: 50 · 최대 개수. 기본값: 50
    #[arg(long, value_name = "N", value_parser = parse_count)]
    limit: Option<NonZeroUsize>,
}

impl RunListOptions {
    fn limit(&self) -> usize {
        self.limit.map_or(50, NonZeroUsize::get)
    }

    /// These, and where one is not given, that of the others.
    fn or(&self, others: &Self) -> Self {
        Self {
            thread: self.thread.clone().or_else(|| others.thread.clone()),
            json: self.json || others.json,
            limit: self.limit.or(others.limit),
        }
    }
}

/// What to do with runs.
#[derive(Debug, clap::Subcommand)]
enum RunsCommand {
    /// List runs, as without a command · 실행 목록을 보여 줍니다. 명령을 적지 않아도 같습니다
    List(RunListOptions),
    #[command(flatten)]
    One(OneRunCommand),
}

/// What to do with one run.
#[derive(Debug, clap::Subcommand)]
enum OneRunCommand {
    /// Print the steps, the answer and the sources of a run · 실행의 단계, 답, 출처를 출력합니다
    Show {
        /// Id of the run, or its beginning · 실행의 id 또는 앞부분
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Follow a run until it ends · 실행이 끝날 때까지 따라갑니다
    Watch {
        /// Id of the run, or its beginning · 실행의 id 또는 앞부분
        #[arg(value_name = "RUN")]
        run: String,
    },
    /// Make a thread that goes on after a run · 실행 다음부터 이어지는 스레드를 만듭니다
    Fork {
        /// Id of the run, or its beginning · 실행의 id 또는 앞부분
        #[arg(value_name = "RUN")]
        run: String,
        /// Log entry to go on from; the last one of the run without it · 이어 갈 기록. 없으면 실행의 마지막 기록
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
        /// Title of the new thread · 새 스레드의 제목
        #[arg(long, value_name = "TITLE")]
        title: Option<String>,
    },
}

/// Lists runs, or does something with one.
pub(crate) async fn run(args: &RunsArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let what = match &args.what {
        None => return list(&args.list, config, output).await,
        Some(RunsCommand::List(options)) => return list(&options.or(&args.list), config, output).await,
        Some(RunsCommand::One(what)) => what,
    };
    let api = LocalApi::open(config).await?;
    let outcome = match what {
        OneRunCommand::Show { run } => show_run(&api.client, run, false, output).await,
        OneRunCommand::Watch { run } => show_run(&api.client, run, true, output).await,
        OneRunCommand::Fork { run, at, title } => {
            fork_run(&api.client, run, *at, title.as_deref(), output).await
        }
    };
    api.close().await?;
    outcome
}

/// The run whose id begins like this.
async fn find_run(client: &ServerHttpClient, start: &str) -> anyhow::Result<RunInfo> {
    let mut before: Option<String> = None;
    loop {
        let cursor = before.map(|before| format!("&before={before}")).unwrap_or_default();
        let page: RunPage = client.get(&format!("/api/runs?limit=200{cursor}")).await?;
        let mut found: Vec<RunInfo> = page.runs.into_iter().filter(|run| run.id.starts_with(start)).collect();
        match found.len() {
            0 => {}
            1 => return Ok(found.remove(0)),
            count => {
                return Err(bilingual!(
                    "`{start}`(으)로 시작하는 실행이 {count}개입니다. id를 더 길게 적으세요",
                    "{count} runs begin with `{start}`; write more of the id"
                )
                .into());
            }
        }
        before = page.next;
        if before.is_none() {
            return Err(bilingual!(
                "`{start}`(으)로 시작하는 실행이 없습니다",
                "there is no run that begins with `{start}`"
            )
            .into());
        }
    }
}

/// Prints what a run did. One that is under way is followed to its end only on request.
async fn show_run(
    client: &ServerHttpClient,
    start: &str,
    follow: bool,
    output: TerminalOutput,
) -> anyhow::Result<()> {
    let run = find_run(client, start).await?;
    let is_active = matches!(run.status, RunStatus::Queued | RunStatus::Running);
    let (id, agent, thread) = (&run.id, &run.agent, &run.thread);
    output.print_note(&format!("{id}  {agent}  {thread}"));
    if is_active && !follow {
        output.print_message(&bilingual!(
            "실행이 진행 중입니다. `doran runs watch {id}`로 따라갑니다",
            "the run is under way; follow it with `doran runs watch {id}`"
        ));
        return Ok(());
    }
    let path = format!("/api/threads/{}/runs/{id}/events", percent_encode(thread));
    let mut answer = StreamedAnswer::default();
    client
        .stream_events(&path, None::<&serde_json::Value>, |event| {
            let before = answer.steps.len();
            answer.apply_event(event)?;
            for step in &answer.steps[before..] {
                output.print_note(&format!("· {}", step.text(output.language)));
            }
            Ok(())
        })
        .await?;
    let text = answer.text_with_numbered_sources();
    answer.source_lines(output.language).iter().for_each(|line| output.print_note(&format!("  {line}")));
    if !text.is_empty() {
        output.print_markdown(&format!("{text}\n"))?;
    }
    for question in &answer.questions {
        output.print_note(&super::chat::format_question(question, output.language));
    }
    answer.failure.map_or(Ok(()), |failure| Err(failure.into()))
}

async fn fork_run(
    client: &ServerHttpClient,
    start: &str,
    at: Option<u64>,
    title: Option<&str>,
    output: TerminalOutput,
) -> anyhow::Result<()> {
    let run = find_run(client, start).await?;
    let path = format!("/api/threads/{}/fork", percent_encode(&run.thread));
    let mut body = json!({ "agent": run.agent });
    if let Some(at) = at.or(run.last) {
        body["at"] = json!(at);
    }
    if let Some(title) = title {
        body["title"] = json!(title);
    }
    let made: ThreadInfo = client.post(&path, &body).await?;
    output.print_data(&format!("{}\n", made.id))
}

/// Lists runs from the database, or from the server that has it open.
async fn list(args: &RunListOptions, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let runs = match agent_client::running_server(config) {
        Some(client) => list_runs_of_server(args, &client).await?,
        None => {
            let records = assemble::open_locked_store(config).await?;
            let filter =
                RunFilter { thread: args.thread.clone(), limit: args.limit(), ..RunFilter::default() };
            let rows = records.store.runs(&TenantId::local(), &filter).await?;
            rows.iter().map(RunInfo::from_row).collect()
        }
    };
    let wide = widest(runs.iter().map(|run| run.agent.as_str()));
    let zone = TimeZone::system();
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
                "agent_missing": run.agent_missing,
            })
            .to_string()
        } else {
            let status = pad_to_width(status.as_str().unwrap_or_default(), 9);
            let (started, agent) = (format_local_time(run.created, &zone), pad_to_width(&run.agent, wide));
            let missing =
                bilingual!("  (이 에이전트가 서버에 없습니다)", "  (the server does not have this agent)");
            let note = if run.agent_missing { missing.text(output.language) } else { "" };
            format!("{}  {started}  {status}  {:>4}  {agent}  {}{note}", run.id, run.steps, run.thread)
        };
        lines.push_str(&format!("{line}\n"));
    }
    output.print_data(&lines)
}

/// A server lists the runs of one thread at a time.
async fn list_runs_of_server(
    args: &RunListOptions,
    client: &ServerHttpClient,
) -> anyhow::Result<Vec<RunInfo>> {
    let threads = match &args.thread {
        Some(thread) => vec![thread.as_str().to_owned()],
        None => {
            let path = format!("/api/threads?limit={}", args.limit());
            let listed: ThreadList = client.get(&path).await?;
            listed.threads.into_iter().map(|thread| thread.id).collect()
        }
    };
    let mut runs: Vec<RunInfo> = Vec::new();
    for thread in threads {
        let path = format!("/api/threads/{}/runs?limit={}", percent_encode(&thread), args.limit());
        runs.extend(client.get::<RunList>(&path).await?.runs);
    }
    runs.sort_by(|left, right| right.created.cmp(&left.created).then(right.id.cmp(&left.id)));
    runs.truncate(args.limit());
    Ok(runs)
}
