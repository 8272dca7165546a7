//! `doran documents`: lists documents with their status, changes their kind, and deletes, retries, pauses, resumes or
//! cancels them.

use doran_retrieval::{DocumentId, DocumentKind, DocumentStatus, Language};

use crate::commands::ingest;
use crate::config::Config;
use crate::document_client::{DocumentChange, DocumentClient};
use crate::output::{BilingualMessage, TerminalOutput, bilingual, pad_to_width};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran documents list
  doran documents delete 규정.md
  doran documents kind contract 용역계약서.hwpx
  doran documents retry 3f9c01d2ab77e05512f3c8a90b4d6e71
  doran documents pause 큰책.pdf, doran documents resume 큰책.pdf, doran documents cancel 큰책.pdf
  doran documents read")]
pub(crate) struct DocumentsArgs {
    #[command(subcommand)]
    what: DocumentsCommand,
}

/// What to do with them.
#[derive(Debug, clap::Subcommand)]
enum DocumentsCommand {
    /// List documents, last changed first · 문서 목록을 최근 변경순으로 보여 줍니다
    List {
        /// Only in this collection · 이 컬렉션에서만
        #[arg(long, value_name = "NAME")]
        collection: Option<String>,
        /// Print one JSON object per line · 한 줄에 JSON 하나씩 출력합니다
        #[arg(long)]
        json: bool,
    },
    /// Remove documents: file, text and index entries · 문서의 파일, 텍스트, 색인을 모두 삭제합니다
    Delete(DocumentSelection),
    /// Change the kind of documents: general, contract or standard:KIND · 문서 종류를 바꿉니다: general, contract, standard:용역
    Kind {
        /// New kind · 새 종류
        #[arg(value_name = "KIND", value_parser = ingest::parse_document_kind)]
        kind: DocumentKind,
        #[command(flatten)]
        which: DocumentSelection,
    },
    /// Retry failed or cancelled documents · 실패했거나 취소한 문서를 다시 읽습니다
    Retry(DocumentSelection),
    /// Pause documents until they are resumed · 재개할 때까지 읽지 않습니다
    Pause(DocumentSelection),
    /// Resume paused documents · 일시 중지한 문서를 재개합니다
    Resume(DocumentSelection),
    /// Cancel documents that were not read yet · 아직 읽지 않은 문서를 취소합니다
    Cancel(DocumentSelection),
    /// Read queued documents now · 대기 중인 문서를 지금 읽습니다
    Read,
}

/// Which of them.
#[derive(Debug, clap::Args)]
struct DocumentSelection {
    /// Document ids, or unique names · 문서 ID, 또는 겹치지 않는 이름
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

/// Runs the command in the data directory, or through the server that has it open.
pub(crate) async fn run(args: &DocumentsArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let (change, which) = match &args.what {
        DocumentsCommand::List { collection, json } => {
            return list_documents(collection.as_deref(), *json, config, output).await;
        }
        DocumentsCommand::Read => return read_pending_documents(config, output).await,
        DocumentsCommand::Delete(which) => (DocumentChange::Delete, which),
        DocumentsCommand::Kind { kind, which } => (DocumentChange::Kind(kind.clone()), which),
        DocumentsCommand::Retry(which) => (DocumentChange::Retry, which),
        DocumentsCommand::Pause(which) => (DocumentChange::Pause, which),
        DocumentsCommand::Resume(which) => (DocumentChange::Resume, which),
        DocumentsCommand::Cancel(which) => (DocumentChange::Cancel, which),
    };
    let reads = matches!(change, DocumentChange::Kind(_) | DocumentChange::Retry | DocumentChange::Resume);
    let client = DocumentClient::open(config, reads).await?;
    let known = client.list().await?;
    // All names are resolved before anything is changed.
    let chosen: Vec<&DocumentStatus> =
        which.ids.iter().map(|id| find_document(&known, id)).collect::<Result<_, _>>()?;
    let mut changed = Vec::new();
    let mut refused = None;
    for status in chosen {
        let now = client.apply_change(&change, &status.id).await?;
        let name = &status.name;
        match now {
            Some(now) if change.is_without_effect(now.state) => {
                let state = now.state.as_str();
                refused = Some(bilingual!(
                    "`{name}`의 상태는 {state}입니다. 읽는 중이거나 기다리는 문서가 아니어서 바뀐 것이 없습니다",
                    "`{name}` is {state}; it neither waits nor is being read, so nothing was changed"
                ));
            }
            Some(now) => changed.push(now),
            None => output.print_message(&bilingual!("지웠습니다: {name}", "removed: {name}")),
        }
    }
    if reads && matches!(client, DocumentClient::Local(_)) {
        let ids: Vec<DocumentId> = changed.iter().map(|status| status.id.clone()).collect();
        return wait_and_report(&client, &ids, output).await;
    }
    if change == DocumentChange::Delete {
        client.report_samples_change(output).await?;
    }
    output.print_data(
        &changed.iter().map(|status| format_status(status, output.language)).collect::<String>(),
    )?;
    refused.map_or(Ok(()), |refused| Err(refused.into()))
}

async fn list_documents(
    collection: Option<&str>,
    as_json: bool,
    config: &Config,
    output: TerminalOutput,
) -> anyhow::Result<()> {
    let mut all = DocumentClient::open(config, false).await?.list().await?;
    all.retain(|status| collection.is_none_or(|wanted| status.collection == wanted));
    if all.is_empty() {
        output.print_message(&bilingual!(
            "넣은 문서가 없습니다. `doran ingest`로 넣으세요",
            "no document was taken in; add some with `doran ingest`"
        ));
    }
    match as_json {
        true => output.print_data(&ingest::format_statuses(&all, true, output.language)?),
        false => output
            .print_data(&all.iter().map(|status| format_status(status, output.language)).collect::<String>()),
    }
}

/// Reads all queued documents and reports the result.
async fn read_pending_documents(config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let client = DocumentClient::open(config, true).await?;
    if let DocumentClient::Remote { .. } = client {
        output.print_message(&bilingual!(
            "데이터 디렉터리를 쓰는 서버가 읽고 있습니다. `doran documents list`로 볼 수 있습니다",
            "the server that has the data directory reads them; see `doran documents list`"
        ));
        return Ok(());
    }
    let mut waiting = client.list().await?;
    waiting.retain(|status| status.state.is_pending());
    let ids: Vec<DocumentId> = waiting.into_iter().map(|status| status.id).collect();
    wait_and_report(&client, &ids, output).await
}

/// Waits until these documents are finished, and reports the result.
async fn wait_and_report(
    client: &DocumentClient,
    ids: &[DocumentId],
    output: TerminalOutput,
) -> anyhow::Result<()> {
    let bar = ingest::progress_bar(ids.len(), output);
    let statuses =
        ingest::run_until_stop_signal(client, &bar, ingest::wait_for_documents(client, ids, 0, &bar)).await?;
    bar.finish_and_clear();
    output.print_data(&ingest::format_statuses(&statuses, false, output.language)?)?;
    client.report_samples_change(output).await?;
    ingest::report_totals(&statuses, 0, output)
}

/// Finds a document by id, or by a name that only one has.
fn find_document<'a>(
    known: &'a [DocumentStatus],
    asked: &str,
) -> Result<&'a DocumentStatus, BilingualMessage> {
    if let Some(status) = known.iter().find(|status| status.id.as_str() == asked) {
        return Ok(status);
    }
    let mut named = known.iter().filter(|status| status.name == asked);
    match (named.next(), named.next()) {
        (Some(status), None) => Ok(status),
        (Some(_), Some(_)) => Err(bilingual!(
            "이름이 `{asked}`인 문서가 여럿입니다. `doran documents list`가 보여 주는 ID를 쓰세요",
            "several documents are called `{asked}`; use the id that `doran documents list` shows"
        )),
        (None, _) => Err(bilingual!(
            "문서 `{asked}`이(가) 없습니다. `doran documents list`가 ID와 이름을 보여 줍니다",
            "there is no document `{asked}`; `doran documents list` shows ids and names"
        )),
    }
}

fn format_status(status: &DocumentStatus, language: Language) -> String {
    let DocumentStatus { id, name, title, passages, .. } = status;
    let group = match status.collection.as_str() {
        "" => String::new(),
        collection => format!("  [{collection}]"),
    };
    let why = status
        .failure
        .as_ref()
        .map(|failure| language.pick(failure.kind.message_ko(), failure.kind.message_en()));
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!(
        "{id}  {}  {passages:>5}  {title}  ({name}){}{group}{why}\n",
        pad_to_width(status.state.as_str(), 9),
        ingest::kind_suffix(&status.kind)
    )
}
