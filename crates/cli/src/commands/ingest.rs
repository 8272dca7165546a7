//! `doran ingest`: adds files to the library and waits until each is ready or has failed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use doran_retrieval::{DocumentId, DocumentKind, DocumentStatus, IngestState, Language};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::args::expected_values;
use crate::assemble;
use crate::busy_server_retry::BusyServerRetry;
use crate::commands::files_to_ingest::{self, CollectedFiles, FileToIngest};
use crate::config::Config;
use crate::document_client::{DocumentClient, DocumentUpload, document_kind_name};
use crate::exit;
use crate::output::{
    BilingualMessage, TerminalOutput, bilingual, pad_to_width, pluralize, strip_control_characters,
};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran ingest 규정/
  doran ingest --kind contract 용역계약서.hwpx
  doran ingest --kind standard:용역 --collection 표준 표준용역계약서.pdf
  doran ingest 규정/ --json | grep '\"state\":\"failed\"'

Files that cannot be read are listed, and the exit code is 1 · 읽지 못한 파일을 알려 주고 종료 코드 1로 끝납니다")]
pub(crate) struct IngestArgs {
    /// Files and directories · 파일과 디렉터리
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Collection to add them to · 추가할 컬렉션
    #[arg(long, value_name = "NAME", default_value = "")]
    collection: String,
    /// Kind of document: auto, general, contract or standard:KIND; auto recognises contracts · 문서 종류: auto, general, contract, standard:용역. auto는 계약서를 알아봅니다
    #[arg(long, value_name = "KIND", default_value = "auto", value_parser = parse_ingest_kind)]
    kind: IngestKind,
    /// Print one JSON object per line · 한 줄에 JSON 하나씩 출력합니다
    #[arg(long)]
    json: bool,
}

/// The kind of the files that are ingested. `None` recognises it.
#[derive(Clone, Debug)]
struct IngestKind(Option<DocumentKind>);

fn parse_ingest_kind(text: &str) -> Result<IngestKind, BilingualMessage> {
    match text {
        "auto" => Ok(IngestKind(None)),
        other => parse_kind(other)
            .map(|kind| IngestKind(Some(kind)))
            .ok_or_else(|| expected_values(&format!("auto, {DOCUMENT_KINDS}"))),
    }
}

/// The names of document kinds.
const DOCUMENT_KINDS: &str = "general, contract, standard:용역";

/// Parses a document kind.
pub(crate) fn parse_document_kind(text: &str) -> Result<DocumentKind, BilingualMessage> {
    parse_kind(text).ok_or_else(|| expected_values(DOCUMENT_KINDS))
}

fn parse_kind(text: &str) -> Option<DocumentKind> {
    match text.split_once(':') {
        None if text == "general" => Some(DocumentKind::General),
        None if text == "contract" => Some(DocumentKind::Contract),
        Some(("standard", of)) if !of.trim().is_empty() => Some(DocumentKind::Standard(of.trim().to_owned())),
        Some(_) | None => None,
    }
}

/// Ingests the files, directly or through the server that has the data directory open.
pub(crate) async fn run(args: &IngestArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let CollectedFiles { files, folders, unreadable, skipped: left_out, .. } =
        CollectedFiles::collect(&args.paths);
    let client = DocumentClient::open(config, true).await?;
    let bar = progress_bar(files.len() + unreadable.len(), output);
    let refuse = |why: &BilingualMessage| {
        bar.suspend(|| output.print_message(why));
        bar.inc(1);
    };
    left_out.messages().iter().for_each(|line| bar.suspend(|| output.print_message(line)));
    unreadable.iter().for_each(refuse);
    let mut refused = unreadable.len();
    let mut documents = Vec::new();
    let mut retry = BusyServerRetry::default();
    let taking = async {
        for file in files_to_ingest::assign_document_names(
            files,
            &client.list_with_origins(config, &args.collection).await?,
            file_exists,
        ) {
            let tell = |why: &BilingualMessage| bar.suspend(|| output.print_message(why));
            match ingest_file(&client, args, &file, &mut retry, tell).await? {
                Ok(id) => documents.push(id),
                Err(why) => {
                    refused += 1;
                    refuse(&why);
                }
            }
        }
        wait_for_documents(&client, &documents, refused, &bar).await
    };
    let statuses = run_until_stop_signal(&client, &bar, taking).await?;
    bar.finish_and_clear();
    output.print_data(&format_statuses(&statuses, args.json, output.language)?)?;
    report_missing_files(&folders, &client.list_with_origins(config, &args.collection).await?, output);
    client.report_samples_change(output).await?;
    report_totals(&statuses, refused, output)
}

/// Waits for the work or for a signal to stop. Documents that were already added are kept.
pub(crate) async fn run_until_stop_signal<T>(
    client: &DocumentClient,
    bar: &ProgressBar,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    tokio::select! {
        done = work => done,
        asked = exit::wait_for_stop_signal() => {
            asked?;
            bar.finish_and_clear();
            Err(match client {
                DocumentClient::Local(app) => {
                    app.library.stop_workers().await;
                    let message = app.pending_documents_message().or_else(|| app.missing_vectors_message());
                    message.unwrap_or_else(|| bilingual!("멈췄습니다", "stopped"))
                }
                DocumentClient::Remote { .. } => bilingual!(
                    "멈췄습니다. 서버가 받은 문서는 서버가 이어서 읽습니다",
                    "stopped; what the server has taken it reads on"
                ),
            }
            .into())
        }
    }
}

fn file_exists(origin: &str) -> bool {
    Path::new(origin).exists()
}

/// Ingests one file. The inner result has errors that concern only this file.
async fn ingest_file(
    client: &DocumentClient,
    args: &IngestArgs,
    file: &FileToIngest,
    retry: &mut BusyServerRetry,
    tell: impl Fn(&BilingualMessage),
) -> anyhow::Result<Result<DocumentId, BilingualMessage>> {
    let bytes = match files_to_ingest::read_limited(&file.path, client.max_document_bytes()) {
        Ok(bytes) => bytes,
        Err(why) => return Ok(Err(why)),
    };
    let (collection, kind) = (&args.collection, args.kind.0.as_ref());
    let incoming = DocumentUpload { name: &file.name, collection, kind, origin: &file.origin, bytes };
    let added = client.add(incoming, retry, tell).await?;
    Ok(added.map(|status| status.id).map_err(|why| files_to_ingest::file_refused_message(&file.path, &why)))
}

/// Reports missing files. Their documents stay searchable until the user deletes them, because a directory may be
/// unavailable only for a while.
fn report_missing_files(folders: &[PathBuf], known: &[DocumentStatus], output: TerminalOutput) {
    for status in files_to_ingest::documents_with_missing_files(folders, known, file_exists) {
        let (name, id) = (&status.name, &status.id);
        output.print_message(&bilingual!(
            "`{name}`은(는) 이제 그 폴더에 없지만 아직 찾을 수 있습니다. 지우려면 `doran documents delete {id}`",
            "`{name}` is not in its folder any more and can still be found; remove it with `doran documents delete {id}`"
        ));
    }
}

/// A progress bar on stderr, if that is a terminal.
pub(crate) fn progress_bar(files: usize, output: TerminalOutput) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(files as u64), ProgressDrawTarget::stderr());
    let template = "[{bar:30}] {pos}/{len}  {percent:>3} %  {wide_msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("##-"));
    }
    if output.colour {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}

/// Waits until every document is finished. In this process, also until all vectors are computed.
pub(crate) async fn wait_for_documents(
    client: &DocumentClient,
    documents: &[DocumentId],
    refused: usize,
    bar: &ProgressBar,
) -> anyhow::Result<Vec<DocumentStatus>> {
    let progress = |statuses: &[DocumentStatus]| {
        let pending: Vec<&DocumentStatus> =
            statuses.iter().filter(|status| status.state.is_pending()).collect();
        bar.set_position((refused + statuses.len() - pending.len()) as u64);
        let working = pending.iter().find(|status| status.state != IngestState::Queued);
        bar.set_message(
            working.map(|status| strip_control_characters(&status.name).into_owned()).unwrap_or_default(),
        );
    };
    let statuses = client.watch_until_processed(documents, progress).await?;
    if let DocumentClient::Local(app) = client {
        assemble::embed_missing(app.index.as_ref(), |left| show_vector_progress(bar, left)).await?;
    }
    Ok(statuses)
}

/// Shows how many passages are still without vectors. The bar starts anew with the first number.
pub(crate) fn show_vector_progress(bar: &ProgressBar, left: usize) {
    const MESSAGE: &str = "vectors · 벡터";
    let left = left as u64;
    if bar.message() != MESSAGE {
        bar.set_message(MESSAGE);
        bar.set_length(left);
    }
    // Documents may be added meanwhile.
    bar.set_length(bar.length().unwrap_or(0).max(left));
    bar.set_position(bar.length().unwrap_or(left) - left);
}

/// The kind of a document at the end of its line, if it is not general.
pub(crate) fn kind_suffix(kind: &DocumentKind) -> String {
    match kind {
        DocumentKind::General => String::new(),
        kind => format!("  {}", document_kind_name(kind)),
    }
}

/// The status of each document, one per line.
pub(crate) fn format_statuses(
    statuses: &[DocumentStatus],
    as_json: bool,
    language: Language,
) -> anyhow::Result<String> {
    let mut lines = String::new();
    for status in statuses {
        let reason = status
            .failure
            .as_ref()
            .map(|failure| language.pick(failure.kind.message_ko(), failure.kind.message_en()));
        let line = if as_json {
            let code = status.failure.as_ref().map(|failure| failure.kind.as_str());
            json!({
                "id": status.id, "name": status.name, "title": status.title, "collection": status.collection,
                "kind": document_kind_name(&status.kind), "state": status.state, "passages": status.passages, "pages": status.pages, "bytes": status.bytes,
                "version": status.version, "failure": code, "reason": reason,
            })
            .to_string()
        } else {
            let message = match reason {
                Some(reason) => format!("{}: {reason}", status.name),
                None => format!("{}  ({}){}", status.title, status.name, kind_suffix(&status.kind)),
            };
            format!("{}  {:>5}  {message}", pad_to_width(status.state.as_str(), 9), status.passages)
        };
        lines.push_str(&line);
        lines.push('\n');
    }
    Ok(lines)
}

/// Reports the totals. Returns an error if a document could not be read.
pub(crate) fn report_totals(
    statuses: &[DocumentStatus],
    refused: usize,
    output: TerminalOutput,
) -> anyhow::Result<()> {
    let count = |state: IngestState| statuses.iter().filter(|status| status.state == state).count();
    let (ready, failed) = (count(IngestState::Ready), count(IngestState::Failed) + refused);
    let passages: usize = statuses.iter().map(|status| status.passages).sum();
    let (documents, pieces) = (pluralize(ready, "document"), pluralize(passages, "passage"));
    output.print_message(&bilingual!(
        "문서 {ready}개를 찾을 수 있습니다(문단 {passages}개). 실패 {failed}개",
        "{documents} can be found ({pieces}), {failed} failed"
    ));
    match (failed, ready) {
        (0, _) => Ok(()),
        (_, 0) => Err(bilingual!("아무 문서도 읽지 못했습니다", "no document could be read").into()),
        (_, _) => Err(bilingual!(
            "{failed}개를 읽지 못했습니다. 이유는 위에 있습니다. 나머지는 찾을 수 있습니다",
            "{failed} could not be read, for the reasons above; the others can be found"
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_one_of_three() {
        assert_eq!(parse_kind("general"), Some(DocumentKind::General));
        assert_eq!(parse_kind("contract"), Some(DocumentKind::Contract));
        assert_eq!(parse_kind("standard:용역"), Some(DocumentKind::Standard("용역".into())));
        for wrong in ["", "standard", "standard:", "x:y"] {
            assert!(parse_document_kind(wrong).is_err(), "{wrong}");
        }
    }
}
