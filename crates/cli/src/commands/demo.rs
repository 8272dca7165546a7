//! `doran demo`: starts a real server, ingests documents and asks questions through its HTTP API, and prints what
//! happens.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use doran_agents::samples::{self, SAMPLE_COLLECTION};
use doran_engine::ThreadId;
use doran_llm::ModelKind;
use doran_retrieval::{DocumentStatus, IngestState, Language};
use doran_server::ApiKeys;
use doran_server::api::StartRun;
use doran_server::percent_encode;
use tokio::net::TcpListener;

use crate::api_key_file::ApiKeyWatcher;
use crate::assemble::{self, App, RecordReplay};
use crate::client::ServerHttpClient;
use crate::commands::ingest;
use crate::commands::serve::{RunningServer, bind_listener};
use crate::config::{Config, Database, SearchStore};
use crate::document_client::{DocumentClient, document_kind_name};
use crate::exit::StopSignals;
use crate::output::{BilingualMessage, TerminalOutput, bilingual};
use crate::streamed_answer::StreamedAnswer;
use crate::systemd_notify::SystemdNotifier;

/// How many further ports are tried if the configured one is in use.
const EXTRA_PORTS_TO_TRY: u16 = 20;
/// How long the sample documents may take.
const MAX_DOCUMENT_WAIT: Duration = Duration::from_secs(300);
/// The directory of the demo below the data directory.
const DEMO_DIRECTORY: &str = "demo";

/// The agent and its question, in Korean and in English.
const DEMO_QUESTIONS: [(&str, &str, &str); 4] = [
    ("assistant", "육아휴직은 최대 얼마나 쓸 수 있나요?", "When must receipts be uploaded?"),
    ("docqa", "모니터는 몇 년마다 교체하나요?", "How many days of annual leave are there?"),
    ("contract", "계약을 해지하려면 며칠 전에 알려야 하나요?", "When are invoices due?"),
    ("react", "연차 15일 중 6.5일을 썼으면 며칠 남았나요? 15 - 6.5를 계산해 주세요.", "What is 15 - 6.5?"),
];

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran demo
  doran demo --once --lang ko

It uses the directory `demo` in the data directory, so that sample documents never mix with yours · 예시 문서가 내 문서와 섞이지 않도록 데이터 디렉터리 안의 `demo`를 사용합니다")]
pub(crate) struct DemoArgs {
    /// Exit after the questions; the default when stdout is not a terminal · 질문이 끝나면 종료합니다. 표준 출력이 터미널이 아니면 기본값입니다
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    record_replay: RecordReplay,
}

/// File names by document id.
type FileNamesByDocument = BTreeMap<String, &'static str>;

/// Totals over all questions.
#[derive(Default)]
struct DemoTotals {
    steps: usize,
    tokens: u64,
    calls: u32,
    tools: usize,
}

/// The settings of the demo: its own directory, database and index, whatever the settings say.
fn demo_config(config: &Config) -> Config {
    let data_dir = config.data_dir.join(DEMO_DIRECTORY);
    let mut demo = config.clone();
    demo.database = Database::Sqlite(data_dir.join("doran.db"));
    demo.search.store = SearchStore::Local(data_dir.join("search"));
    demo.data_dir = data_dir;
    demo
}

/// Ingests documents, asks questions, prints the answers, and keeps serving.
pub(crate) async fn run(args: &DemoArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let config = &demo_config(config);
    let key_watcher = ApiKeyWatcher::open(config).await?;
    let ends = args.once || !std::io::stdout().is_terminal();
    let listener = bind_free_port(listen_address(config.listen, ends), &key_watcher.keys).await?;
    let mut app = assemble::assemble_app_without_samples(config, &args.record_replay).await?;
    app.notes.iter().for_each(|note| output.print_message(note));
    let serving = RunningServer::start(&mut app, listener, config, key_watcher).await?;
    let outcome = tokio::select! {
        outcome = run_demo_questions(&app, config, &serving.client, output) => outcome,
        error = app.wait_for_fatal_error() => Err(error.into()),
    };
    if outcome.is_err() || ends {
        serving.shut_down(&app).await?;
        return outcome;
    }
    // A person who tries it with a document of their own gets answers from that document.
    tokio::spawn(assemble::samples::remove_samples_beside_own_documents(
        app.index.clone(),
        app.library.clone(),
    ));
    let address = serving.client.address;
    let signals = StopSignals::listen()?;
    output.print_message(&bilingual!(
        "열기: http://{address}   (화면, API, 문서)   Ctrl-C로 멈춤",
        "open: http://{address}   (page, API, docs)   Ctrl-C stops it"
    ));
    serving.serve_until_stopped(&app, &SystemdNotifier::default(), signals, output).await
}

/// A demo that ends by itself is used by nobody else, so it needs no address that other machines reach.
fn listen_address(configured: SocketAddr, ends: bool) -> SocketAddr {
    if ends { SocketAddr::new(Ipv4Addr::LOCALHOST.into(), configured.port()) } else { configured }
}

/// Binds the configured port, or the next free one.
async fn bind_free_port(address: SocketAddr, keys: &ApiKeys) -> anyhow::Result<TcpListener> {
    let first = bind_listener(address, keys).await;
    let (Err(error), true) = (&first, address.ip().is_loopback()) else { return Ok(first?) };
    tracing::debug!(%error, "the port is in use; trying another");
    for more in 1..=EXTRA_PORTS_TO_TRY {
        let port = address.port().saturating_add(more);
        if let Ok(listener) = doran_server::bind(SocketAddr::new(address.ip(), port), keys).await {
            return Ok(listener);
        }
    }
    Ok(bind_listener(SocketAddr::new(address.ip(), 0), keys).await?)
}

async fn run_demo_questions(
    app: &App,
    config: &Config,
    client: &ServerHttpClient,
    output: TerminalOutput,
) -> anyhow::Result<()> {
    output.print_data(&format!("{}\n", demo_header(app, config, output.language)))?;
    let names = ingest_samples(app, client, output).await?;
    let mut sum = DemoTotals::default();
    let mark = ThreadId::random();
    let mark = mark.as_str().split('-').next().unwrap_or_default();
    for (nth, (agent, ko, en)) in (2..).zip(DEMO_QUESTIONS) {
        let question = output.language.pick(ko, en);
        // A thread holds the state of one agent.
        let path = format!("/api/threads/demo-{mark}-{agent}/runs");
        let mut answer = StreamedAnswer::default();
        client
            .stream_events(&path, Some(&StartRun::new(agent, question)), |event| {
                answer.apply_event(event).map(drop)
            })
            .await?;
        output.print_data(&format_answer(nth, agent, question, &mut answer, &names, output.language)?)?;
        sum.steps += answer.steps.len();
        sum.tokens += answer.tokens;
        sum.calls += answer.progress.model_calls;
        sum.tools += answer.calls.len();
        if let Some(failure) = answer.failure {
            return Err(failure.into());
        }
    }
    let (runs, DemoTotals { steps, tokens, calls, tools }) = (DEMO_QUESTIONS.len(), sum);
    let cost = match app.model.kind {
        ModelKind::Extractive => {
            bilingual!(", 밖으로 나간 것 없음, 비용 0원", ", nothing left this machine, cost 0")
        }
        ModelKind::Language => Default::default(),
    };
    let (cost_ko, cost_en) = (cost.ko, cost.en);
    let data = config.data_dir.display();
    let sum = bilingual!(
        "실행 {runs}번, 단계 {steps}개, 모델 호출 {calls}번, 도구 호출 {tools}번, 토큰 약 {tokens}개(어림){cost_ko}. `{data}`의 대화 `demo-{mark}-…`에 모두 남아 있습니다.\n",
        "{runs} runs, {steps} steps, {calls} model calls, {tools} tool calls, about {tokens} tokens (estimated){cost_en}. All of it is kept in threads `demo-{mark}-…` in `{data}`.\n"
    );
    output.print_data(sum.text(output.language))
}

fn demo_header(app: &App, config: &Config, language: Language) -> String {
    let (version, data, model) = (env!("CARGO_PKG_VERSION"), &config.database, &app.model.name);
    let made = bilingual!(" (새로 만듦)", " (new)");
    let age = if app.store_is_new { made.text(language) } else { "" };
    let what = match app.model.kind {
        ModelKind::Extractive => bilingual!(
            " (내장, LLM 아님: 글을 찾아 인용합니다)",
            " (built in, NOT an LLM: it finds text and cites it)"
        ),
        ModelKind::Language => Default::default(),
    };
    let (ko, en) = (what.ko, what.en);
    let head = bilingual!(
        "doran {version}   데이터: {data}{age}   모델: {model}{ko}",
        "doran {version}   data: {data}{age}   model: {model}{en}"
    );
    head.text(language).to_owned()
}

/// Uploads the sample files and waits until they are searchable. Returns the file names by document.
async fn ingest_samples(
    app: &App,
    client: &ServerHttpClient,
    output: TerminalOutput,
) -> anyhow::Result<FileNamesByDocument> {
    let started = Instant::now();
    let files = samples::files();
    let bar = ingest::progress_bar(files.len(), output);
    let mut ids = Vec::new();
    for file in &files {
        let (name, kind) = (percent_encode(file.name), percent_encode(&document_kind_name(&file.kind)));
        let path = format!("/api/documents?name={name}&collection={SAMPLE_COLLECTION}&kind={kind}");
        let accepted = client.upload(&path, file.bytes.to_vec()).await?;
        ids.push(accepted.document.document.id);
    }
    let mut documents = Vec::new();
    let server = DocumentClient::Remote { server: client.clone() };
    let watch = server.watch_until_processed(&ids, |now| {
        bar.set_position(now.iter().filter(|document| !document.state.is_pending()).count() as u64);
        documents = now.to_vec();
    });
    // Documents that take longer are replaced by the texts inside the program, like those that cannot be read.
    if let Ok(watched) = tokio::time::timeout(MAX_DOCUMENT_WAIT, watch).await {
        watched?;
    }
    bar.finish_and_clear();
    let is_ready = |document: &&DocumentStatus| document.state == IngestState::Ready;
    let ready = documents.iter().filter(is_ready).count();
    let passages: usize = documents.iter().filter(is_ready).map(|document| document.passages).sum();
    let (all, seconds) = (files.len(), started.elapsed().as_secs_f32());
    let steps = DEMO_QUESTIONS.len() + 1;
    let line = bilingual!(
        "[1/{steps}] 문서 넣기  예시 규정과 계약서 {ready}/{all}개 (HWPX, DOCX, PDF, MD)  문단 {passages}개  {seconds:.1}초\n",
        "[1/{steps}] ingest  sample rules and contracts {ready}/{all} files (HWPX, DOCX, PDF, MD)  {passages} passages  {seconds:.1} s\n"
    );
    output.print_data(line.text(output.language))?;
    let names = ids.iter().map(ToString::to_string).zip(files.iter().map(|file| file.name)).collect();
    if ready == all {
        return Ok(names);
    }
    for document in documents.iter().filter(|document| document.state != IngestState::Ready) {
        let failure = document.failure.as_ref().map(|failure| failure.kind);
        let (ko, en) = failure.map_or(("?", "?"), |kind| (kind.message_ko(), kind.message_en()));
        let name = &document.name;
        output.print_message(&BilingualMessage::new(format!("  {name}: {ko}"), format!("  {name}: {en}")));
    }
    // Without isolation no file is read. The texts of the samples are compiled in as well.
    output.print_message(&bilingual!(
        "  읽지 못한 파일 대신 프로그램에 든 같은 글을 씁니다. `doran doctor`가 이유를 알려 줍니다",
        "  the same texts from inside the program stand in for files that could not be read; `doran doctor` says why"
    ));
    assemble::samples::add_samples(app.index.as_ref()).await?;
    Ok(names)
}

fn format_answer(
    nth: usize,
    agent: &str,
    question: &str,
    answer: &mut StreamedAnswer,
    names: &FileNamesByDocument,
    language: Language,
) -> anyhow::Result<String> {
    let mut text = format!("[{nth}/{}] {agent}  Q: {question}\n", DEMO_QUESTIONS.len() + 1);
    writeln!(text, "      {}", answer.node_path().join(" → "))?;
    for call in &answer.calls {
        writeln!(text, "      {call}")?;
    }
    writeln!(
        text,
        "      A: {}",
        answer.text_with_numbered_sources().trim_end().replace('\n', "\n         ")
    )?;
    for (source, line) in answer.numbered_sources(language) {
        let file = names.get(&source.document).map(|file| format!("  {file}")).unwrap_or_default();
        writeln!(text, "         {line}{file}")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use doran_agents::AnswerSource;

    use super::*;

    #[test]
    fn a_source_has_the_number_of_its_mark_and_the_file_it_was_read_from() {
        let source = |number: u32, name: &str| AnswerSource {
            number,
            document: name.repeat(32),
            title: format!("규정 {name}"),
            ..AnswerSource::default()
        };
        // In the order in which they were found, and named the other way round.
        let mut answer = StreamedAnswer::default();
        answer.text = "둘째. [2] 첫째. [1]".into();
        answer.sources = vec![source(1, "a"), source(2, "b")];
        let names = [("a".repeat(32), "a.md"), ("b".repeat(32), "b.md")].into_iter().collect();
        let text = format_answer(2, "docqa", "?", &mut answer, &names, Language::Korean).expect("told");
        let lines = "A: 둘째. [1] 첫째. [2]\n         [1] 규정 b  b.md\n         [2] 규정 a  a.md\n";
        assert!(text.ends_with(lines), "{text}");
    }
}
