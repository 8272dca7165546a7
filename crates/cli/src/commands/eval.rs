//! `doran eval`: measures how well a store finds passages, on questions whose answers are known.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use doran_llm::Embedder;
use doran_llm::embed::UniversalEmbedder;
use doran_retrieval::eval::{Measures, Report, Set};
use doran_retrieval::{Index, LocalIndex, OpenSearchIndex, RamKeyword, Tenant};

use crate::commands::eval_agent;
use crate::config::Config;
use crate::output::{Output, both};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// What to measure.
#[derive(Debug, clap::Subcommand)]
enum What {
    /// How well passages are found · 단락을 얼마나 잘 찾는지
    Retrieval(Retrieval),
    /// How well agents keep what is expected of them · 에이전트가 기대대로 답하는지
    Agent(eval_agent::Args),
}

#[derive(Debug, clap::Args)]
struct Retrieval {
    /// Passages, one JSON object a line: id, title, text, doc, article · 단락, 한 줄에 하나
    #[arg(long, value_name = "FILE")]
    passages: PathBuf,
    /// Questions, one JSON object a line: id, text, relevant, scope, type · 질문, 한 줄에 하나
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Where passages are looked for · 찾을 저장소
    #[arg(long, value_enum, default_value_t = Store::Memory)]
    store: Store,
    /// The address of OpenSearch; an index of its own is made there and left · OpenSearch 주소
    #[arg(long, value_name = "URL", required_if_eq("store", "opensearch"))]
    opensearch: Option<String>,
    /// Find by meaning too, with the built-in encoder in this folder · 이 폴더의 내장 인코더로 뜻도 찾는다
    #[arg(long, value_name = "DIR")]
    encoder: Option<PathBuf>,
    /// Print JSON · JSON으로 출력한다
    #[arg(long)]
    json: bool,
}

/// Stores that can be measured.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Store {
    /// Words, in memory · 메모리, 낱말로
    Memory,
    /// A directory that is removed again · 디렉터리, 끝나면 지운다
    #[value(alias = "faiss")]
    Local,
    /// A cluster · 클러스터
    #[value(name = "opensearch")]
    OpenSearch,
}

/// Measures and prints.
pub(crate) async fn run(args: &Args, config: &Config, output: Output) -> anyhow::Result<()> {
    let args = match &args.what {
        What::Retrieval(args) => args,
        What::Agent(args) => return eval_agent::run(args, config, output).await,
    };
    let set = Set::read(&args.passages, &args.queries).map_err(|error| {
        both!(
            "평가 파일을 읽을 수 없습니다. `--passages`와 `--queries`가 JSON 줄로 된 파일인지 보세요",
            "the evaluation files cannot be read; see that `--passages` and `--queries` are files of JSON lines"
        )
        .because(error)
    })?;
    let encoder = match &args.encoder {
        Some(folder) => Some(Arc::new(UniversalEmbedder::open(folder)?) as Arc<dyn Embedder>),
        None => None,
    };
    let name = format!("doran-eval-{}", std::process::id());
    let directory = std::env::temp_dir().join(&name);
    let index: Box<dyn Index> = match args.store {
        Store::Memory if encoder.is_some() => {
            return Err(both!(
                "메모리 저장소는 낱말로만 찾습니다. `--store local`로 재세요",
                "the store in memory finds by words alone; measure `--store local`"
            )
            .into());
        }
        Store::Memory => Box::new(RamKeyword::default()),
        Store::Local => Box::new(LocalIndex::open(&directory, encoder).await?),
        Store::OpenSearch => {
            let address = args.opensearch.as_deref().unwrap_or_default();
            Box::new(OpenSearchIndex::open(address, &name, encoder).await?)
        }
    };
    let tenant = Tenant::new("eval");
    set.fill(&*index, &tenant).await?;
    let report = set.measure(&*index, &tenant).await?;
    drop(index);
    if matches!(args.store, Store::Local) {
        std::fs::remove_dir_all(&directory)?;
    }
    let text =
        if args.json { format!("{}\n", serde_json::to_string_pretty(&report)?) } else { table(&report) };
    output.data(&text)
}

fn table(report: &Report) -> String {
    let mut text = format!("{:<16} {:>8} {:>8} {:>8}\n", "type", "ndcg@10", "recall@5", "mrr");
    let all = (&String::from("all"), &report.all);
    for (name, Measures { ndcg, recall, mrr }) in std::iter::once(all).chain(&report.types) {
        writeln!(text, "{name:<16} {ndcg:>8.4} {recall:>8.4} {mrr:>8.4}").ok();
    }
    text
}
