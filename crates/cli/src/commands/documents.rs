//! `doran documents`: what was taken in, where each stands, and how to be rid of it or have it read again.

use doran_retrieval::{DocumentId, Status};

use crate::commands::ingest;
use crate::config::Config;
use crate::output::{Both, Language, Output, both, padded};
use crate::shelf::{Change, Shelf};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 보기:
  doran documents list
  doran documents delete 규정.md
  doran documents retry 3f9c01d2ab77e05512f3c8a90b4d6e71
  doran documents pause 큰책.pdf, doran documents resume 큰책.pdf, doran documents cancel 큰책.pdf
  doran documents read")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// What to do with them.
#[derive(Debug, clap::Subcommand)]
enum What {
    /// List them, the newest change first · 바뀐 지 얼마 안 된 것부터 나열한다
    List {
        /// Only in this collection · 이 모음에서만
        #[arg(long, value_name = "NAME")]
        collection: Option<String>,
        /// Print one JSON object a line · 한 줄에 JSON 하나씩 출력
        #[arg(long)]
        json: bool,
    },
    /// Remove them: the file kept, its text and what is found of it · 보관한 파일과 글, 찾을 수 있는 것을 모두 지운다
    Delete(Which),
    /// Read again what failed or was cancelled · 실패했거나 그만둔 것을 다시 읽는다
    Retry(Which),
    /// Keep from being read until resumed · 다시 이을 때까지 읽지 않는다
    Pause(Which),
    /// Let go on what was paused · 멈춘 것을 이어서 읽는다
    Resume(Which),
    /// Give up on what was not read yet · 아직 읽지 않은 것을 그만둔다
    Cancel(Which),
    /// Read what still waits · 아직 기다리는 것을 읽는다
    Read,
}

/// Which of them.
#[derive(Debug, clap::Args)]
struct Which {
    /// Ids, or names that one document alone has · ID, 또는 한 문서만 쓰는 이름
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

/// Does it, in the data directory or by the server that has it.
pub(crate) async fn run(args: &Args, config: &Config, output: Output) -> anyhow::Result<()> {
    let (change, which) = match &args.what {
        What::List { collection, json } => return list(collection.as_deref(), *json, config, output).await,
        What::Read => return read(config, output).await,
        What::Delete(which) => (Change::Delete, which),
        What::Retry(which) => (Change::Retry, which),
        What::Pause(which) => (Change::Pause, which),
        What::Resume(which) => (Change::Resume, which),
        What::Cancel(which) => (Change::Cancel, which),
    };
    let shelf = Shelf::open(config, matches!(change, Change::Retry | Change::Resume)).await?;
    let known = shelf.list().await?;
    // All names are looked up before anything is done.
    let chosen: Vec<&Status> = which.ids.iter().map(|id| chosen(&known, id)).collect::<Result<_, _>>()?;
    let mut changed = Vec::new();
    for status in chosen {
        let now = shelf.change(change, &status.id).await?;
        let name = &status.name;
        match now {
            Some(now) => changed.push(now),
            None => output.tell(&both!("지웠습니다: {name}", "removed: {name}")),
        }
    }
    if let (Change::Retry | Change::Resume, Shelf::Here(_)) = (change, &shelf) {
        let ids: Vec<DocumentId> = changed.iter().map(|status| status.id.clone()).collect();
        return finish(&shelf, &ids, output).await;
    }
    if change == Change::Delete {
        shelf.end(output).await?;
    }
    output.data(&changed.iter().map(|status| line(status, output.language)).collect::<String>())
}

async fn list(
    collection: Option<&str>,
    as_json: bool,
    config: &Config,
    output: Output,
) -> anyhow::Result<()> {
    let mut all = Shelf::open(config, false).await?.list().await?;
    all.retain(|status| collection.is_none_or(|wanted| status.collection == wanted));
    if all.is_empty() {
        output.tell(&both!(
            "넣은 문서가 없습니다. `doran ingest`로 넣으세요",
            "no document was taken in; add some with `doran ingest`"
        ));
    }
    match as_json {
        true => output.data(&ingest::lines(&all, true, output.language)?),
        false => output.data(&all.iter().map(|status| line(status, output.language)).collect::<String>()),
    }
}

/// Reads all that waits, and says what became of it.
async fn read(config: &Config, output: Output) -> anyhow::Result<()> {
    let shelf = Shelf::open(config, true).await?;
    if let Shelf::There { .. } = shelf {
        output.tell(&both!(
            "데이터 디렉터리를 쓰는 서버가 읽고 있습니다. `doran documents list`로 볼 수 있습니다",
            "the server that has the data directory reads them; see `doran documents list`"
        ));
        return Ok(());
    }
    let mut waiting = shelf.list().await?;
    waiting.retain(|status| status.state.is_pending());
    let ids: Vec<DocumentId> = waiting.into_iter().map(|status| status.id).collect();
    finish(&shelf, &ids, output).await
}

/// Waits until these have come to rest.
async fn finish(shelf: &Shelf, ids: &[DocumentId], output: Output) -> anyhow::Result<()> {
    let bar = ingest::bar(ids.len(), output);
    let statuses = ingest::until_told(shelf, &bar, ingest::wait(shelf, ids, 0, &bar)).await?;
    bar.finish_and_clear();
    output.data(&ingest::lines(&statuses, false, output.language)?)?;
    shelf.end(output).await?;
    ingest::sum(&statuses, 0, output)
}

/// The document with this id, or the only one of this name.
fn chosen<'a>(known: &'a [Status], asked: &str) -> Result<&'a Status, Both> {
    if let Some(status) = known.iter().find(|status| status.id.as_str() == asked) {
        return Ok(status);
    }
    let mut named = known.iter().filter(|status| status.name == asked);
    match (named.next(), named.next()) {
        (Some(status), None) => Ok(status),
        (Some(_), Some(_)) => Err(both!(
            "이름이 `{asked}`인 문서가 여럿입니다. `doran documents list`가 보여 주는 ID를 쓰세요",
            "several documents are called `{asked}`; use the id that `doran documents list` shows"
        )),
        (None, _) => Err(both!(
            "문서 `{asked}`이(가) 없습니다. `doran documents list`가 ID와 이름을 보여 줍니다",
            "there is no document `{asked}`; `doran documents list` shows ids and names"
        )),
    }
}

fn line(status: &Status, language: Language) -> String {
    let Status { id, name, title, passages, .. } = status;
    let group = match status.collection.as_str() {
        "" => String::new(),
        collection => format!("  [{collection}]"),
    };
    let why = status.failure.as_ref().map(|failure| match language {
        Language::Korean => failure.kind.ko(),
        Language::English => failure.kind.en(),
    });
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!("{id}  {}  {passages:>5}  {title}  ({name}){group}{why}\n", padded(status.state.as_str(), 9))
}
