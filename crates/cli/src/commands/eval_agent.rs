//! `doran eval agent FILE`: asks agents questions with expected answers, and reports what changed since the last run.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use doran_agents::Agent;
use doran_agents::eval::{
    self, AgentEvalReport, AgentEvalSet, EvalCaseOutcome, EvalCaseRun, EvalChange, EvalDocuments,
    FailedExpectation,
};
use doran_engine::TenantId;
use doran_retrieval::{Language, RamKeywordIndex};
use doran_server::EvalUsage;
use serde_json::json;

use crate::agent_client::running_server;
use crate::assemble::{self, App, DataDirWrites, RecordReplay};
use crate::config::Config;
use crate::eval_files::{EvalReportFiles, EvalUsageFiles};
use crate::eval_folder::{EvalFolder, now_millis};
use crate::output::{BilingualMessage, TerminalOutput, bilingual, pad_to_width, widest};
use crate::replica::open_shared_values;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct EvalAgentArgs {
    /// Test cases with expected answers, in TOML · 기대하는 답이 있는 평가 파일 (TOML)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only cases whose id starts with this · ID가 이 글자로 시작하는 사례만
    #[arg(long, value_name = "PREFIX", default_value = "")]
    only: String,
    /// Print one JSON object per line: cases, changes, totals · 한 줄에 JSON 하나씩 출력합니다: 사례, 변경, 합계
    #[arg(long)]
    json: bool,
}

/// Asks, judges, prints, and stores the report for the next run. Fails if an expectation was not met.
pub(crate) async fn run(args: &EvalAgentArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let set = read_eval_file(&args.file)?.with_id_prefix(&args.only);
    if set.cases.is_empty() {
        let prefix = &args.only;
        return Err(
            bilingual!("`{prefix}`(으)로 시작하는 것이 없습니다", "no case begins with `{prefix}`").into()
        );
    }
    // The application keeps its lock on the data directory until all questions are asked.
    let (agents, _app) = assemble_eval_agents(&set, config, output).await?;
    let wide = widest(set.cases.iter().map(|case| case.id.as_str()));
    let shared = open_shared_values(config).await?;
    let usage_files = EvalUsageFiles::new(EvalFolder::new(&config.data_dir, shared.as_ref()));
    let mut broken = Ok(());
    let mut report = eval::run_eval_set(&set, &agents, async |asked: &EvalCaseRun| {
        let usage = EvalUsage::of_case(now_millis(), &asked.agent, None, asked.usage.clone());
        let counted = usage_files.add_usage(&TenantId::local(), &usage).await;
        let printed = match &asked.outcome {
            Ok(outcome) if args.json => output.print_data(&outcome_json(outcome)),
            Ok(outcome) => output.print_data(&format_outcome(outcome, wide)),
            Err(_) => Ok(()),
        };
        if broken.is_ok() {
            broken = counted.map_err(anyhow::Error::from).and(printed);
        }
    })
    .await?;
    broken?;
    let report_files = EvalReportFiles::of_set(&config.data_dir, &args.file);
    let before = report_files.read(&report.variant).await?;
    let changes =
        before.as_ref().map(|before| changes_since(before, &report, &args.only)).unwrap_or_default();
    report.ended_at = now_millis();
    report.changes = changes.clone();
    let text = if args.json {
        changes.iter().map(|change| format!("{}\n", json!(change))).collect::<String>()
            + &summary_json(&report)
    } else {
        format_summary(&report, before.as_ref(), &changes, output.language)
    };
    output.print_data(&text)?;
    save_report(&report_files, before, &report, &args.only).await?;
    let failed = report.cases.len() - report.passed_count() - report.known_failure_count();
    if failed > 0 {
        return Err(bilingual!("{failed}개가 기대와 다릅니다", "{failed} did not hold").into());
    }
    Ok(())
}

fn read_eval_file(path: &Path) -> Result<AgentEvalSet, BilingualMessage> {
    let shown = path.display();
    let wrong =
        || bilingual!("평가 파일 `{shown}`을(를) 읽을 수 없습니다", "cannot read the questions in `{shown}`");
    let text = fs::read_to_string(path).map_err(|error| wrong().with_cause(error))?;
    AgentEvalSet::from_toml(&text).map_err(|error| wrong().with_cause(error))
}

/// Builds the agents to evaluate, with the application whose documents they search. Their memories are discarded
/// afterwards.
async fn assemble_eval_agents(
    set: &AgentEvalSet,
    config: &Config,
    output: TerminalOutput,
) -> anyhow::Result<(Vec<Agent>, Option<App>)> {
    let record_replay = RecordReplay::default();
    match set.documents {
        EvalDocuments::Library => {
            if let Some(server) = running_server(config) {
                let (address, folder) = (server.address, config.data_dir.join("evals"));
                let folder = folder.display();
                return Err(bilingual!(
                    "`documents = \"library\"`는 서버 http://{address} 가 쓰고 있는 문서를 검색하므로 서버가 멈춘 동안에만 할 수 있습니다. 서버를 켠 곳에서 Ctrl-C로 멈추고 다시 하거나, 파일을 `{folder}`에 두고 웹 화면의 *평가*에서 실행하세요",
                    "`documents = \"library\"` searches the documents that the server http://{address} is using, and this can be done only while it is stopped; stop it with Ctrl-C where it was started and try again, or put the file into `{folder}` and run it on the page under Evaluation"
                )
                .into());
            }
            let app = assemble::assemble_app(config, &record_replay).await?;
            app.notes.iter().for_each(|note| output.print_message(note));
            let staff = assemble::assemble_agents(
                config,
                &record_replay,
                app.index.clone(),
                DataDirWrites::Forbidden,
            )
            .await?;
            Ok((staff.agents, Some(app)))
        }
        EvalDocuments::Samples => {
            let index = Arc::new(RamKeywordIndex::default());
            assemble::samples::add_samples(index.as_ref()).await?;
            let staff =
                assemble::assemble_agents(config, &record_replay, index, DataDirWrites::Forbidden).await?;
            staff.notes.iter().for_each(|note| output.print_message(note));
            Ok((staff.agents, None))
        }
    }
}

/// What changed. A case that was not asked this time does not count as removed.
fn changes_since(before: &AgentEvalReport, now: &AgentEvalReport, only: &str) -> Vec<EvalChange> {
    let mut changes = eval::compare_reports(before, now);
    changes.retain(|change| !matches!(change, EvalChange::Gone { id } if !id.starts_with(only)));
    changes
}

/// Stores the report. Cases that `only` excluded are kept from the last report. Cases no longer in the file are
/// removed.
async fn save_report(
    files: &EvalReportFiles,
    before: Option<AgentEvalReport>,
    now: &AgentEvalReport,
    only: &str,
) -> Result<(), BilingualMessage> {
    let mut all = now.clone();
    let left_out = |case: &EvalCaseOutcome| !case.id.starts_with(only);
    all.cases.extend(before.into_iter().flat_map(|before| before.cases).filter(left_out));
    files.save(&all).await
}

fn outcome_json(outcome: &EvalCaseOutcome) -> String {
    format!("{}\n", json!(outcome))
}

fn summary_json(report: &AgentEvalReport) -> String {
    let (cases, passed) = (report.cases.len(), report.passed_count());
    let sum = json!({
        "model": report.model, "cases": cases, "passed": passed, "known": report.known_failure_count(),
        "failed": cases - passed - report.known_failure_count(),
        "model_calls": report.model_calls(), "cost_micros": report.cost_micros(),
    });
    format!("{sum}\n")
}

fn format_outcome(outcome: &EvalCaseOutcome, wide: usize) -> String {
    let EvalCaseOutcome { id, failures, known, observed, .. } = outcome;
    let verdict = match (failures.is_empty(), known) {
        (true, None) => "ok   ",
        (true, Some(_)) => "known",
        (false, _) => "FAIL ",
    };
    let tools = if observed.tools.is_empty() { "-".to_owned() } else { observed.tools.join("+") };
    let mut text = format!(
        "{verdict}  {}  {}  {} · sources {} · models {} · ${:.6} · {} ms\n",
        pad_to_width(id, wide),
        pad_to_width(&observed.route, 18),
        pad_to_width(&tools, 20),
        observed.sources.len(),
        observed.model_calls,
        observed.cost_micros as f64 / 1e6,
        observed.ms,
    );
    if let Some(why) = known {
        writeln!(text, "      {}", truncate_to_line(why)).ok();
    }
    for FailedExpectation { what, expected, was } in failures {
        writeln!(text, "      {what}: {} ≠ {}", truncate_to_line(expected), truncate_to_line(was)).ok();
    }
    text
}

/// Shortens a text to one line.
fn truncate_to_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn format_summary(
    report: &AgentEvalReport,
    before: Option<&AgentEvalReport>,
    changes: &[EvalChange],
    language: Language,
) -> String {
    let (passed, all, model, calls) =
        (report.passed_count(), report.cases.len(), &report.model, report.model_calls());
    let dollars = report.cost_micros() as f64 / 1e6;
    let line = bilingual!(
        "\n{all}개 가운데 {passed}개가 기대대로 · 모델 {model} · 모델 호출 {calls}번 · ${dollars:.6}\n",
        "\n{passed} of {all} held · model {model} · {calls} model calls · ${dollars:.6}\n"
    );
    let mut text = line.text(language).to_owned();
    let Some(before) = before else {
        let first = bilingual!("견줄 지난 결과가 없습니다\n", "there is no earlier report to compare with\n");
        return text + first.text(language);
    };
    let model = &before.model;
    let count = changes.len();
    let line = bilingual!(
        "지난번(모델 {model})과 다른 것: {count}\n",
        "changed since the last time (model {model}): {count}\n"
    );
    text.push_str(line.text(language));
    for change in changes {
        text.push_str(&format_change(change, language));
    }
    text
}

fn format_change(change: &EvalChange, language: Language) -> String {
    let sentence = match change {
        EvalChange::Broke { id } => {
            bilingual!("- {id}: 이제 어긋납니다\n", "- {id}: does not hold any more\n")
        }
        EvalChange::Mended { id } => bilingual!("+ {id}: 이제 맞습니다\n", "+ {id}: holds now\n"),
        EvalChange::New { id } => bilingual!("+ {id}: 새로 생겼습니다\n", "+ {id}: is new\n"),
        EvalChange::Gone { id } => bilingual!("- {id}: 없어졌습니다\n", "- {id}: is gone\n"),
        EvalChange::Answer { id, before, now } => {
            let (before, now) = (truncate_to_line(before), truncate_to_line(now));
            bilingual!(
                "~ {id}: 답이 바뀌었습니다\n    - {before}\n    + {now}\n",
                "~ {id}: another answer\n    - {before}\n    + {now}\n"
            )
        }
        EvalChange::ModelCalls { id, before, now } => {
            bilingual!("~ {id}: 모델 호출 {before} → {now}\n", "~ {id}: model calls {before} → {now}\n")
        }
        EvalChange::Cost { id, before, now } => {
            let (before, now) = (*before as f64 / 1e6, *now as f64 / 1e6);
            bilingual!("~ {id}: 비용 ${before:.6} → ${now:.6}\n", "~ {id}: cost ${before:.6} → ${now:.6}\n")
        }
    };
    sentence.text(language).to_owned()
}
