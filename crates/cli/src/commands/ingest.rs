//! `doran ingest`: takes files into the library and waits until each is ready or failed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use doran_retrieval::{DocumentId, DocumentKind, NewDocument, State, Status, Tenant};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::assemble::{self, House};
use crate::config::Config;
use crate::output::{Both, Language, Output, both, padded};

/// How deep directories are followed.
const DEPTH: usize = 32;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files and directories · 파일과 디렉터리
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Collection they belong to · 넣을 모음
    #[arg(long, value_name = "NAME", default_value = "")]
    collection: String,
    /// What they are: general, contract or standard:KIND · 종류: general, contract, standard:용역
    #[arg(long, value_name = "KIND", default_value = "general", value_parser = kind)]
    kind: DocumentKind,
    /// Print one JSON object a line · 한 줄에 JSON 하나씩 출력
    #[arg(long)]
    json: bool,
}

fn kind(text: &str) -> Result<DocumentKind, String> {
    match text.split_once(':') {
        None if text == "general" => Ok(DocumentKind::General),
        None if text == "contract" => Ok(DocumentKind::Contract),
        Some(("standard", of)) if !of.trim().is_empty() => Ok(DocumentKind::Standard(of.trim().to_owned())),
        Some(_) | None => Err("general, contract, standard:용역".to_owned()),
    }
}

/// Takes the files in.
pub(crate) async fn run(args: &Args, config: &Config, output: Output) -> anyhow::Result<()> {
    let mut files = BTreeSet::new();
    for path in &args.paths {
        gather(path, path, 0, &mut files)?;
    }
    let house = assemble::house(config, &assemble::Tape::default()).await?;
    let bar = bar(files.len(), output);
    let mut documents = Vec::new();
    let mut refused = 0;
    for (path, name) in files {
        let bytes = std::fs::read(&path).map_err(|error| unreadable(&path, error))?;
        let new = NewDocument {
            tenant: tenant(&house),
            name,
            collection: args.collection.clone(),
            kind: args.kind.clone(),
            bytes,
        };
        match house.library.add(new).await {
            Ok(status) => documents.push(status.id),
            Err(error) => {
                refused += 1;
                let (shown, ko) = (path.display(), error.ko());
                bar.suspend(|| {
                    output.tell(&both!(
                        "`{shown}`을(를) 받지 않았습니다: {ko}",
                        "`{shown}` was not taken: {error}"
                    ));
                });
                bar.inc(1);
            }
        }
    }
    let statuses = wait(&house, &documents, refused, &bar).await;
    bar.finish_and_clear();
    output.data(&lines(&statuses, args.json, output.language)?)?;
    sum(&statuses, refused, output)
}

fn tenant(house: &House) -> Tenant {
    Tenant::new(house.tenant.as_str())
}

/// Every file at or below a path, with the name it goes by. Hidden files and links inside a directory are left out.
fn gather(
    path: &Path,
    top: &Path,
    depth: usize,
    files: &mut BTreeSet<(PathBuf, String)>,
) -> Result<(), Both> {
    let about = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
    if about.is_file() {
        let below = path.strip_prefix(top).ok().filter(|below| !below.as_os_str().is_empty());
        let name = match (below, path.file_name()) {
            (Some(below), _) => below.to_string_lossy().into_owned(),
            (None, Some(name)) => name.to_string_lossy().into_owned(),
            (None, None) => path.to_string_lossy().into_owned(),
        };
        files.insert((path.to_owned(), name));
        return Ok(());
    }
    if !about.is_dir() || depth >= DEPTH {
        return Ok(());
    }
    for entry in std::fs::read_dir(path).map_err(|error| unreadable(path, error))? {
        let entry = entry.map_err(|error| unreadable(path, error))?;
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if !is_link && !entry.file_name().to_string_lossy().starts_with('.') {
            gather(&entry.path(), top, depth + 1, files)?;
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: std::io::Error) -> Both {
    let shown = path.display();
    both!("`{shown}`을(를) 읽을 수 없습니다", "cannot read `{shown}`").because(error)
}

/// A bar of progress on stderr, where that is a terminal.
pub(crate) fn bar(files: usize, output: Output) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(files as u64), ProgressDrawTarget::stderr());
    let template = "[{bar:30}] {pos}/{len}  {percent:>3} %  {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("##-"));
    }
    if output.colour {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}

/// Waits until every document has come to rest.
async fn wait(house: &House, documents: &[DocumentId], refused: usize, bar: &ProgressBar) -> Vec<Status> {
    let tenant = tenant(house);
    let mut changes = house.library.watch();
    loop {
        let statuses: Vec<Status> =
            documents.iter().filter_map(|id| house.library.status(&tenant, id)).collect();
        let pending: Vec<&Status> = statuses.iter().filter(|status| status.state.is_pending()).collect();
        bar.set_position((refused + statuses.len() - pending.len()) as u64);
        let working = pending.iter().find(|status| status.state != State::Queued);
        bar.set_message(working.map(|status| status.name.clone()).unwrap_or_default());
        if pending.is_empty() || changes.changed().await.is_err() {
            return statuses;
        }
    }
}

fn lines(statuses: &[Status], as_json: bool, language: Language) -> anyhow::Result<String> {
    let mut lines = String::new();
    for status in statuses {
        let reason = status.failure.as_ref().map(|failure| match language {
            Language::Korean => failure.kind.ko(),
            Language::English => failure.kind.en(),
        });
        let line = if as_json {
            let code = status.failure.as_ref().map(|failure| failure.kind.as_str());
            json!({
                "id": status.id, "name": status.name, "title": status.title, "collection": status.collection,
                "state": status.state, "passages": status.passages, "pages": status.pages, "bytes": status.bytes,
                "version": status.version, "failure": code, "reason": reason,
            })
            .to_string()
        } else {
            let told = match reason {
                Some(reason) => format!("{}: {reason}", status.name),
                None => format!("{}  ({})", status.title, status.name),
            };
            format!("{}  {:>5}  {told}", padded(status.state.as_str(), 9), status.passages)
        };
        lines.push_str(&line);
        lines.push('\n');
    }
    Ok(lines)
}

fn sum(statuses: &[Status], refused: usize, output: Output) -> anyhow::Result<()> {
    let count = |state: State| statuses.iter().filter(|status| status.state == state).count();
    let (ready, failed) = (count(State::Ready), count(State::Failed) + refused);
    let passages: usize = statuses.iter().map(|status| status.passages).sum();
    output.tell(&both!(
        "문서 {ready}개를 찾을 수 있습니다(문단 {passages}개). 실패 {failed}개",
        "{ready} documents can be found ({passages} passages), {failed} failed"
    ));
    if failed > 0 && ready == 0 {
        return Err(both!("아무 문서도 읽지 못했습니다", "no document could be read").into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_one_of_three() {
        assert_eq!(kind("general"), Ok(DocumentKind::General));
        assert_eq!(kind("contract"), Ok(DocumentKind::Contract));
        assert_eq!(kind("standard:용역"), Ok(DocumentKind::Standard("용역".into())));
        for wrong in ["", "standard", "standard:", "x:y"] {
            assert!(kind(wrong).is_err(), "{wrong}");
        }
    }
}
