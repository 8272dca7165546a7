//! `doran threads`: lists, shows, renames, deletes and exports threads.

use std::num::NonZeroUsize;

use doran_agents::{AnswerSource, Role};
use doran_engine::store::ThreadFilter;
use doran_engine::{TenantId, ThreadId};
use doran_retrieval::{Language, localize_article_numbers};
use doran_server::api::{MessageInfo, MessageList, ThreadInfo, ThreadList};
use doran_server::percent_encode;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::json;

use crate::agent_client;
use crate::args::parse_count;
use crate::assemble;
use crate::client::ServerHttpClient;
use crate::config::Config;
use crate::local_api::LocalApi;
use crate::output::{
    self, BilingualMessage, TerminalOutput, bilingual, format_local_time, pad_to_width, widest,
};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran threads
  doran threads list --limit 5 --json
  doran threads show main
  doran threads rename main 휴가 질문
  doran threads export main > main.md
  doran threads delete main")]
pub(crate) struct ThreadsArgs {
    #[command(flatten)]
    list: ThreadListOptions,
    #[command(subcommand)]
    what: Option<ThreadsCommand>,
}

/// What is listed, and how.
#[derive(Clone, Copy, Debug, clap::Args)]
struct ThreadListOptions {
    /// Print one JSON object per line · 한 줄에 JSON 하나씩 출력합니다
    #[arg(long)]
    json: bool,
    /// Maximum number to list; default: 50 · 최대 개수. 기본값: 50
    #[arg(long, value_name = "N", value_parser = parse_count)]
    limit: Option<NonZeroUsize>,
}

impl ThreadListOptions {
    /// These, and where one is not given, that of the others.
    fn or(self, others: Self) -> Self {
        Self { json: self.json || others.json, limit: self.limit.or(others.limit) }
    }
}

/// What to do with threads.
#[derive(Debug, clap::Subcommand)]
enum ThreadsCommand {
    /// List threads, as without a command · 스레드 목록을 보여 줍니다. 명령을 적지 않아도 같습니다
    List(ThreadListOptions),
    #[command(flatten)]
    One(OneThreadCommand),
}

/// What to do with one thread.
#[derive(Debug, clap::Subcommand)]
enum OneThreadCommand {
    /// Print the messages of a thread · 스레드의 메시지를 출력합니다
    Show {
        /// Name of the thread · 스레드의 이름
        #[arg(value_name = "THREAD")]
        thread: ThreadId,
    },
    /// Change the title of a thread · 스레드의 제목을 바꿉니다
    Rename {
        /// Name of the thread · 스레드의 이름
        #[arg(value_name = "THREAD")]
        thread: ThreadId,
        /// New title · 새 제목
        #[arg(value_name = "TITLE", required = true, num_args = 1..)]
        title: Vec<String>,
    },
    /// Delete a thread with its runs and attachments · 스레드를 실행, 첨부 파일과 함께 삭제합니다
    Delete {
        /// Name of the thread · 스레드의 이름
        #[arg(value_name = "THREAD")]
        thread: ThreadId,
    },
    /// Print a thread as a file · 스레드를 파일로 출력합니다
    Export {
        /// Name of the thread · 스레드의 이름
        #[arg(value_name = "THREAD")]
        thread: ThreadId,
        /// Output format · 출력 형식
        #[arg(long, value_enum, default_value_t = ThreadExportFormat::Markdown)]
        format: ThreadExportFormat,
    },
}

impl OneThreadCommand {
    fn no_thread_error(&self) -> BilingualMessage {
        let (Self::Show { thread }
        | Self::Rename { thread, .. }
        | Self::Delete { thread }
        | Self::Export { thread, .. }) = self;
        bilingual!("`{thread}`(이)라는 스레드가 없습니다", "there is no thread `{thread}`")
    }
}

/// Ways to export.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ThreadExportFormat {
    Markdown,
    Json,
}

/// Lists threads, or does something with one.
pub(crate) async fn run(args: &ThreadsArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let what = match &args.what {
        None => return list(args.list, config, output).await,
        Some(ThreadsCommand::List(options)) => return list(options.or(args.list), config, output).await,
        Some(ThreadsCommand::One(what)) => what,
    };
    let api = LocalApi::open(config).await?;
    let outcome =
        change_or_show(what, &api.client, output).await.map_err(|error| match output::error_code(&error) {
            Some("not_found") => what.no_thread_error().into(),
            _ => error,
        });
    api.close().await?;
    outcome
}

async fn change_or_show(
    what: &OneThreadCommand,
    client: &ServerHttpClient,
    output: TerminalOutput,
) -> anyhow::Result<()> {
    let path = |thread: &ThreadId| format!("/api/threads/{}", percent_encode(thread.as_str()));
    match what {
        OneThreadCommand::Show { thread } => {
            let listed: MessageList = client.get(&format!("{}/messages", path(thread))).await?;
            output.print_data(&messages_as_text(&listed.messages, output))
        }
        OneThreadCommand::Rename { thread, title } => {
            client.patch::<ThreadInfo>(&path(thread), &json!({ "title": title.join(" ") })).await.map(drop)
        }
        OneThreadCommand::Delete { thread } => {
            if client.delete(&path(thread)).await? {
                return Ok(());
            }
            Err(what.no_thread_error().into())
        }
        OneThreadCommand::Export { thread, format: ThreadExportFormat::Json } => {
            output.print_data(&fetch_thread(client, thread).await?.to_json()?)
        }
        OneThreadCommand::Export { thread, format: ThreadExportFormat::Markdown } => {
            let ThreadExport { thread, messages } = fetch_thread(client, thread).await?;
            output.print_data(&messages_as_markdown(&thread.title, &messages, output.language))
        }
    }
}

/// A thread and its messages.
#[derive(Debug, Serialize)]
pub(crate) struct ThreadExport {
    #[serde(flatten)]
    pub(crate) thread: ThreadInfo,
    pub(crate) messages: Vec<MessageInfo>,
}

impl ThreadExport {
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        Ok(format!("{:#}\n", serde_json::to_value(self)?))
    }
}

pub(crate) async fn fetch_thread(
    client: &ServerHttpClient,
    thread: &ThreadId,
) -> anyhow::Result<ThreadExport> {
    let path = format!("/api/threads/{}", percent_encode(thread.as_str()));
    let listed: MessageList = client.get(&format!("{path}/messages")).await?;
    Ok(ThreadExport { thread: client.get(&path).await?, messages: listed.messages })
}

/// The messages of people and agents. What tools said is in the JSON.
fn spoken(messages: &[MessageInfo]) -> impl Iterator<Item = &MessageInfo> {
    messages
        .iter()
        .filter(|message| matches!(message.role, Role::User | Role::Assistant) && !message.text.is_empty())
}

/// The messages as a chat shows them: what a person typed as it is, and answers as Markdown.
fn messages_as_text(messages: &[MessageInfo], output: TerminalOutput) -> String {
    let mut text = String::new();
    for message in spoken(messages) {
        match message.role {
            Role::User => text.push_str(&format!("> {}\n", message.text)),
            _ => text.push_str(&format!("{}\n", output.render_markdown(&message.text))),
        }
        for AnswerSource { number, title, .. } in &message.sources {
            text.push_str(&format!("  [{number}] {}\n", localize_article_numbers(title, title)));
        }
        if let Some(model) = &message.model {
            text.push_str(&format!("  {}: {model}\n", output.language.pick("모델", "model")));
        }
        text.push('\n');
    }
    text
}

pub(crate) fn messages_as_markdown(title: &str, messages: &[MessageInfo], language: Language) -> String {
    let mut text = format!("# {title}\n");
    for message in spoken(messages) {
        let who = match message.role {
            Role::User => language.pick("나", "You").to_owned(),
            _ => message.model.clone().unwrap_or_else(|| language.pick("에이전트", "Agent").to_owned()),
        };
        text.push_str(&format!("\n## {who}\n\n{}\n", message.text));
        if !message.sources.is_empty() {
            text.push_str(&format!("\n{}\n\n", language.pick("출처:", "Sources:")));
        }
        for AnswerSource { number, title, quote, .. } in &message.sources {
            let quote = quote.split_whitespace().collect::<Vec<_>>().join(" ");
            text.push_str(&format!("{number}. {title}: \"{quote}\"\n"));
        }
    }
    text
}

/// The newest threads of a server. It gives them page by page.
async fn fetch_threads(client: &ServerHttpClient, limit: usize) -> anyhow::Result<Vec<ThreadInfo>> {
    let mut threads = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = format!("/api/threads?limit={}{cursor}", limit - threads.len());
        let ThreadList { threads: more, next } = client.get(&page).await?;
        threads.extend(more);
        match next {
            Some(next) if threads.len() < limit => cursor = format!("&cursor={}", percent_encode(&next)),
            Some(_) | None => return Ok(threads),
        }
    }
}

/// Lists threads from the database, or from the server that has it open.
async fn list(args: ThreadListOptions, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let limit = args.limit.map_or(50, NonZeroUsize::get);
    let threads: Vec<ThreadInfo> = match agent_client::running_server(config) {
        Some(client) => fetch_threads(&client, limit).await?,
        None => {
            let records = assemble::open_locked_store(config).await?;
            let filter = ThreadFilter { limit, ..ThreadFilter::default() };
            let rows = records.store.threads(&TenantId::local(), &filter).await?;
            rows.iter().map(ThreadInfo::from_row).collect()
        }
    };
    let wide = widest(threads.iter().map(|thread| thread.id.as_str()));
    let zone = TimeZone::system();
    let mut lines = String::new();
    for thread in &threads {
        let ThreadInfo { id, title, agent, active, updated, .. } = thread;
        let line = if args.json {
            json!({ "thread": id, "title": title, "agent": agent, "updated_at": updated, "active": active })
                .to_string()
        } else {
            format!("{}  {}  {title}", pad_to_width(id, wide), format_local_time(*updated, &zone))
        };
        lines.push_str(&format!("{}\n", line.trim_end()));
    }
    output.print_data(&lines)
}
