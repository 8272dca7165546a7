//! `doran eval answers FILE`: asks an agent questions over the documents of a folder and counts right, withheld and
//! wrong answers.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use doran_agents::eval::{AnswerGrade, AnswerQuestion, GradeCounts, GradedAnswer, run_answer_questions};
use doran_engine::TenantId;
use doran_retrieval::ingest::{ReadLimits, extract_text};
use doran_retrieval::{Document, DocumentIndex, DocumentTenant, RetrieveError, split_into_passages};
use serde_json::json;

use crate::assemble::{self, DataDirWrites, RecordReplay, search_index};
use crate::config::Config;
use crate::output::{TerminalOutput, bilingual};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct EvalAnswersArgs {
    /// Questions, one JSON object per line: id, ask, must, must_not, answerable · 질문, 한 줄에 JSON 하나: id, ask, must, must_not, answerable
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The folder of the documents · 문서가 있는 폴더
    #[arg(long, value_name = "FOLDER")]
    documents: PathBuf,
    /// The agent to ask · 질문할 에이전트
    #[arg(long, default_value = "docqa")]
    agent: String,
    /// Print one JSON object per line: answers, then counts · 한 줄에 JSON 하나씩 출력합니다: 답, 합계
    #[arg(long)]
    json: bool,
}

/// Asks every question and prints the counts. The documents are searched in a temporary index.
pub(crate) async fn run(
    args: &EvalAnswersArgs,
    config: &Config,
    output: TerminalOutput,
) -> anyhow::Result<()> {
    let shown = args.file.display();
    let unreadable =
        || bilingual!("평가 파일 `{shown}`을(를) 읽을 수 없습니다", "cannot read the questions in `{shown}`");
    let text = fs::read_to_string(&args.file).map_err(|error| unreadable().with_cause(error))?;
    let questions = AnswerQuestion::from_json_lines(&text).map_err(|error| unreadable().with_cause(error))?;
    let (index, _folder) = search_index::open_temporary_index(config).await?;
    let tenant = DocumentTenant::new(TenantId::local().as_str());
    put_documents(&*index, &tenant, &read_documents(&args.documents)?).await?;
    let record_replay = RecordReplay::default();
    let staff = assemble::assemble_agents(config, &record_replay, index, DataDirWrites::Forbidden).await?;
    staff.notes.iter().for_each(|note| output.print_message(note));
    let name = &args.agent;
    let agent = staff
        .agents
        .iter()
        .find(|agent| agent.name == *name)
        .ok_or_else(|| bilingual!("에이전트 `{name}`이(가) 없습니다", "there is no agent `{name}`"))?;
    let mut printed = Ok(());
    let answers = run_answer_questions(&questions, agent, |answer| {
        let line = if args.json { format!("{}\n", json!(answer)) } else { format_answer(answer) };
        if printed.is_ok() {
            printed = output.print_data(&line);
        }
    })
    .await?;
    printed?;
    let counts = GradeCounts::by_group(&answers);
    let text = if args.json { format!("{}\n", json!(counts)) } else { format_counts(&counts) };
    output.print_data(&text)
}

/// Makes documents searchable, by meaning too.
async fn put_documents(
    index: &dyn DocumentIndex,
    tenant: &DocumentTenant,
    documents: &[Document],
) -> Result<(), RetrieveError> {
    for document in documents {
        index.put(tenant, document, &split_into_passages(document)).await?;
    }
    while index.embed_some().await? > 0 {}
    Ok(())
}

/// The documents of a folder. They are files of the person who runs the evaluation, so they are read in this process.
fn read_documents(folder: &Path) -> anyhow::Result<Vec<Document>> {
    let shown = folder.display();
    let unreadable =
        || bilingual!("폴더 `{shown}`을(를) 읽을 수 없습니다", "cannot read the folder `{shown}`");
    let entries = fs::read_dir(folder).map_err(|error| unreadable().with_cause(error))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.sort();
    let mut documents = Vec::new();
    for path in paths.iter().filter(|path| path.is_file()) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let found = extract_text(&name, &fs::read(path)?, &ReadLimits::default())
            .map_err(|failure| unreadable().with_cause(failure))?;
        let title = found.title.unwrap_or_else(|| name.clone());
        documents.push(Document { pages: found.pages, ..Document::new(name, title, found.text) });
    }
    Ok(documents)
}

fn format_answer(answer: &GradedAnswer) -> String {
    let grade = match answer.grade {
        AnswerGrade::Right => "right   ",
        AnswerGrade::Withheld => "withheld",
        AnswerGrade::Wrong => "WRONG   ",
    };
    let answered = answer.answer.replace('\n', "\n          ");
    format!("{grade}  {}  {}\n          {answered}\n", answer.id, answer.ask)
}

fn format_counts(counts: &std::collections::BTreeMap<String, GradeCounts>) -> String {
    let mut text =
        format!("\n{:<18} {:>5} {:>7} {:>9} {:>7}\n", "group", "all", "right", "withheld", "wrong");
    for (group, count) in counts {
        let GradeCounts { right, withheld, wrong } = *count;
        writeln!(text, "{group:<18} {:>5} {right:>7} {withheld:>9} {wrong:>7}", count.total()).ok();
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use std::sync::Arc;

    use doran_retrieval::{BuiltInEncoder, LocalIndex};

    use super::*;

    #[tokio::test]
    async fn questions_are_asked_when_every_passage_has_its_vector() {
        let folder = tempfile::tempdir().expect("a folder");
        let encoder = BuiltInEncoder::open().expect("the encoder");
        let index = LocalIndex::open(folder.path(), Some(Arc::new(encoder))).await.expect("an index");
        let tenant = DocumentTenant::new("t");
        // More than one step takes.
        let articles: Vec<String> =
            (1..=400).map(|number| format!("## 제{number}조\n\n연차휴가는 {number}일을 준다.")).collect();
        let documents = [Document::new("a.md", "휴가 규정", articles.join("\n\n"))];
        put_documents(&index, &tenant, &documents).await.expect("put");
        assert_eq!(index.embed_some().await.expect("a step"), 0, "nothing is left");
    }
}
