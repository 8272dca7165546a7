//! `doran eval`: measures how well the store of the settings finds passages, on questions whose answers are known. The
//! index is one of its own and is removed again.

use std::fmt::Write as _;
use std::path::PathBuf;

use doran_retrieval::Tenant;
use doran_retrieval::eval::{Measures, Report, Set};

use crate::assemble::search;
use crate::commands::eval_agent;
use crate::config::Config;
use crate::output::{Output, both};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 보기:
  doran eval agent questions.toml
  doran eval retrieval --passages passages.jsonl --queries queries.jsonl")]
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
    /// Print JSON · JSON으로 출력한다
    #[arg(long)]
    json: bool,
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
    let scratch = search::scratch(config).await?;
    let tenant = Tenant::new("eval");
    let filled = set.fill(scratch.index(), &tenant).await;
    let report = match filled {
        Ok(()) => set.measure(scratch.index(), &tenant).await,
        Err(error) => Err(error),
    };
    scratch.end().await?;
    let report = report?;
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
