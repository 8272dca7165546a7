//! `doran eval`: measures search quality with questions whose answers are known. It uses the configured store with a
//! temporary index.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use doran_agents::{PassageReranking, rerank_hits};
use doran_llm::ChatModel;
use doran_retrieval::eval::{RankingMetrics, RetrievalEvalReport, RetrievalEvalSet};
use doran_retrieval::{DocumentTenant, Hit, Language, RetrieveError, Retriever, SearchQuery};

use crate::assemble::model;
use crate::assemble::search_index::{self, EvaluationIndex};
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
    let (reranking, small) = model::open_evaluated_reranking(config)?;
    let scratch = search_index::open_evaluation_index(config).await?;
    let kept = AtomicUsize::new(0);
    let search = EvaluatedSearch { scratch, reranking, small, language: config.language, kept };
    let tenant = DocumentTenant::new("eval");
    let filled = set.fill_index(search.scratch.index(), &tenant).await;
    let report = match filled {
        Ok(()) => set.evaluate(&search, &tenant).await,
        Err(error) => Err(error),
    };
    let kept = search.kept.into_inner();
    search.scratch.remove().await?;
    let report = report?;
    if kept > 0 {
        let all = report.queries;
        output.print_message(&bilingual!(
            "질문 {all}개 가운데 {kept}개는 순서를 다시 정하지 못해 검색한 순서로 평가했습니다. 까닭은 로그에 있습니다",
            "{kept} of {all} questions kept the order of the search, because there was no other one; the log says why"
        ));
    }
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        format_report(&report)
    };
    output.print_data(&text)
}

/// The search that is measured, with the new order that agents would take passages in.
struct EvaluatedSearch {
    scratch: EvaluationIndex,
    reranking: PassageReranking,
    small: Arc<dyn ChatModel>,
    language: Language,
    /// How many questions kept the order of the search.
    kept: AtomicUsize,
}

#[async_trait]
impl Retriever for EvaluatedSearch {
    async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
        let hits = self.scratch.index().retrieve(question).await?;
        let small = self.small.clone();
        match rerank_hits(&self.reranking, small, &question.text, &hits, self.language).await {
            Ok(hits) => Ok(hits),
            Err(reason) => {
                tracing::warn!(%reason, "cannot rerank the passages; they keep the order of the search");
                self.kept.fetch_add(1, Ordering::Relaxed);
                Ok(hits)
            }
        }
    }
}

fn format_report(report: &RetrievalEvalReport) -> String {
    let mut text = format!("{:<16} {:>8} {:>8} {:>8}\n", "type", "ndcg@10", "recall@5", "mrr");
    let all = (&String::from("all"), &report.all);
    for (name, RankingMetrics { ndcg, recall, mrr }) in std::iter::once(all).chain(&report.types) {
        writeln!(text, "{name:<16} {ndcg:>8.4} {recall:>8.4} {mrr:>8.4}").ok();
    }
    text
}
