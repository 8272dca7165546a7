//! `doran eval`: measures search quality with questions whose answers are known. It uses the configured store with a
//! temporary index.

use std::fmt::Write as _;
use std::path::PathBuf;

use doran_retrieval::DocumentTenant;
use doran_retrieval::eval::{RankingMetrics, RetrievalEvalReport, RetrievalEvalSet};

use crate::assemble::search_index;
use crate::commands::{eval_agent, eval_answers};
use crate::config::Config;
use crate::output::{TerminalOutput, bilingual};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran eval agent questions.toml
  doran eval answers questions.jsonl --documents folder
  doran eval retrieval --passages passages.jsonl --queries queries.jsonl")]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    what: EvalCommand,
}

/// What to measure.
#[derive(Debug, clap::Subcommand)]
enum EvalCommand {
    /// Evaluate search · 검색을 평가합니다
    Retrieval(EvalRetrievalArgs),
    /// Evaluate the answers of agents · 에이전트의 답을 평가합니다
    Agent(eval_agent::EvalAgentArgs),
    /// Evaluate answers by strings of the documents · 문서의 문구로 답을 평가합니다
    Answers(eval_answers::EvalAnswersArgs),
}

#[derive(Debug, clap::Args)]
struct EvalRetrievalArgs {
    /// Passages, one JSON object per line: id, title, text, doc, article · 문단, 한 줄에 JSON 하나: id, title, text, doc, article
    #[arg(long, value_name = "FILE")]
    passages: PathBuf,
    /// Questions, one JSON object per line: id, text, relevant, scope, type · 질문, 한 줄에 JSON 하나: id, text, relevant, scope, type
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Print JSON · JSON으로 출력합니다
    #[arg(long)]
    json: bool,
}

/// Runs the evaluation and prints the result.
pub(crate) async fn run(args: &EvalArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let args = match &args.what {
        EvalCommand::Retrieval(args) => args,
        EvalCommand::Agent(args) => return eval_agent::run(args, config, output).await,
        EvalCommand::Answers(args) => return eval_answers::run(args, config, output).await,
    };
    let set = RetrievalEvalSet::read(&args.passages, &args.queries).map_err(|error| {
        bilingual!(
            "평가 파일을 읽을 수 없습니다. `--passages`와 `--queries`가 JSON 줄로 된 파일인지 보세요",
            "the evaluation files cannot be read; see that `--passages` and `--queries` are files of JSON lines"
        )
        .with_cause(error)
    })?;
    let scratch = search_index::open_evaluation_index(config).await?;
    let tenant = DocumentTenant::new("eval");
    let filled = set.fill_index(scratch.index(), &tenant).await;
    let report = match filled {
        Ok(()) => set.evaluate(scratch.index(), &tenant).await,
        Err(error) => Err(error),
    };
    scratch.remove().await?;
    let report = report?;
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        format_report(&report)
    };
    output.print_data(&text)
}

fn format_report(report: &RetrievalEvalReport) -> String {
    let mut text = format!("{:<16} {:>8} {:>8} {:>8}\n", "type", "ndcg@10", "recall@5", "mrr");
    let all = (&String::from("all"), &report.all);
    for (name, RankingMetrics { ndcg, recall, mrr }) in std::iter::once(all).chain(&report.types) {
        writeln!(text, "{name:<16} {ndcg:>8.4} {recall:>8.4} {mrr:>8.4}").ok();
    }
    text
}
