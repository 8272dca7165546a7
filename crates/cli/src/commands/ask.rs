//! `doran ask`: asks one question. Steps and sources go to stderr, the answer to stdout.

use std::io::{IsTerminal, Read};
use std::time::Instant;

use doran_engine::ThreadId;
use doran_server::api::StartRun;
use serde_json::json;

use crate::agent_client::{self, AgentClient};
use crate::assemble::RecordReplay;
use crate::commands::chat;
use crate::config::Config;
use crate::exit::{self, StopSignal};
use crate::output::{TerminalOutput, bilingual};
use crate::streamed_answer::StreamedAnswer;

/// The longest question, in bytes.
const MAX_QUESTION_BYTES: u64 = 512 * 1024;

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran ask '육아휴직은 얼마나 쓸 수 있나요?'
  doran ask --agent react --json '15 * 4 + 3'
  cat question.txt | doran ask -
  cat contract.txt | doran ask 위약금이 나오는 문장만 알려 줘 -")]
pub(crate) struct AskArgs {
    /// Agent · 에이전트
    #[arg(long, value_name = "AGENT", default_value = "assistant")]
    agent: String,
    /// Thread to continue; default: a new one · 이어 갈 스레드. 기본값: 새 스레드
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
    /// Document id of the contract · 계약서의 문서 ID
    #[arg(long, value_name = "ID")]
    contract: Option<String>,
    /// Print exactly one JSON object · JSON 하나만 출력합니다
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    record_replay: RecordReplay,
    /// The question. `-` reads stdin: alone it is the question, with a question it is the text to ask about · 질문. `-`는 표준 입력입니다. 혼자 쓰면 질문, 질문과 함께 쓰면 질문의 대상이 되는 글입니다
    #[arg(value_name = "TEXT")]
    text: Vec<String>,
}

/// Asks the question and prints the answer.
pub(crate) async fn run(args: &AskArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let thread = match &args.thread {
        Some(name) => agent_client::parse_thread_name(name)?,
        None => ThreadId::random(),
    };
    let started = Instant::now();
    let mut answer = StreamedAnswer::default();
    let outcome = ask_question(args, config, &thread, &mut answer, output).await;
    if !args.json {
        outcome?;
        let text = answer.text_with_numbered_sources();
        let lines = answer.source_lines(output.language);
        lines.iter().for_each(|line| output.print_note(&format!("  {line}")));
        return match answer.failure {
            Some(failure) => Err(failure.into()),
            None => output.print_markdown(&format!("{text}\n")),
        };
    }
    // With `--json` exactly one object is printed in every case. The exit code also tells the outcome.
    let mut shown = answer.to_json(thread.as_str(), started.elapsed().as_secs_f64(), output.language);
    if let Err(error) = &outcome {
        shown["error"] = json!(true);
        shown["response"] = json!(crate::output::error_message(error, output.language));
        shown["errorCode"] = json!(crate::output::error_code(error).unwrap_or("not_asked"));
    }
    output.print_data(&format!("{shown}\n"))?;
    outcome?;
    answer.failure.map_or(Ok(()), |failure| Err(failure.into()))
}

async fn ask_question(
    args: &AskArgs,
    config: &Config,
    thread: &ThreadId,
    answer: &mut StreamedAnswer,
    output: TerminalOutput,
) -> anyhow::Result<()> {
    let (question, document) = read_question(&args.text)?;
    let client = AgentClient::open(config, &args.record_replay).await?;
    if let AgentClient::Local(app) = &client {
        app.notes.iter().for_each(|note| output.print_message(note));
    }
    let contract_id = args.contract.clone();
    let model = config.chosen_model().map(str::to_owned);
    let run = StartRun { contract_id, document, model, ..StartRun::new(&args.agent, question) };
    let asking = async {
        client.wait_for_active_run(thread).await?;
        client
            .ask(thread, &run, |event| {
                let before = answer.steps.len();
                answer.apply_event(event)?;
                for step in &answer.steps[before..] {
                    output.print_note(&format!("· {}", step.text(output.language)));
                }
                Ok(())
            })
            .await
    };
    let ended = tokio::select! {
        ended = asking => ended,
        asked = exit::wait_for_stop_signal() => handle_stop_signal(&client, thread, asked).await,
        trouble = client.wait_for_fatal_error() => Err(trouble.into()),
    };
    client.close().await;
    ended?;
    if !answer.questions.is_empty() {
        let questions: Vec<String> = answer
            .questions
            .iter()
            .map(|question| chat::format_question(question, output.language))
            .collect();
        let (questions, thread, agent) = (questions.join("\n"), thread.as_str(), &args.agent);
        answer.error_code = Some("waits_for_approval".into());
        // A tool call is approved. A question from a node of a described agent is answered.
        let approval = answer.questions.iter().all(|question| question.interrupt().is_tool_approval());
        let (ko, en) = if approval {
            ("승인을", "an approval")
        } else {
            ("사람의 답을", "an answer of a person")
        };
        answer.failure = Some(bilingual!(
            "실행이 {ko} 기다립니다. `doran chat --agent {agent} --thread '{thread}'`나 웹 화면에서 답하세요\n{questions}",
            "the run waits for {en}; answer it with `doran chat --agent {agent} --thread '{thread}'`, or on the page\n{questions}"
        ));
    }
    Ok(())
}

/// Ctrl-C cancels the run. After a signal from the system, the run continues at the next start.
async fn handle_stop_signal(
    client: &AgentClient,
    thread: &ThreadId,
    asked: anyhow::Result<StopSignal>,
) -> anyhow::Result<()> {
    if asked? == StopSignal::CtrlC {
        client.cancel_active_run(thread).await?;
    }
    Err(bilingual!("멈추었습니다", "stopped").into())
}

/// The question from the command line, and the text of standard input if `-` is given. Without a question, standard
/// input is the question. Next to a question, the piped text is a document and not the user's own words.
fn read_question(words: &[String]) -> anyhow::Result<(String, Option<String>)> {
    let is_piped =
        words.iter().any(|word| word == "-") || (words.is_empty() && !std::io::stdin().is_terminal());
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "-").collect();
    let text = words.join(" ").trim().to_owned();
    let mut piped = Vec::new();
    if is_piped {
        std::io::stdin().lock().take(MAX_QUESTION_BYTES + 1).read_to_end(&mut piped)?;
        if piped.len() as u64 > MAX_QUESTION_BYTES {
            let max_kib = MAX_QUESTION_BYTES / 1024;
            return Err(bilingual!(
                "표준 입력의 글이 {max_kib} KiB보다 깁니다. `doran ingest`로 문서를 추가한 뒤에 물어보세요",
                "the text on standard input is longer than {max_kib} KiB; add it with `doran ingest` and ask about it"
            )
            .with_code("input_too_long")
            .into());
        }
    }
    let piped = String::from_utf8(piped).map_err(|_| {
        bilingual!(
            "표준 입력이 UTF-8로 쓴 글이 아닙니다. 문서 파일이면 `doran ingest 파일`로 추가한 뒤에 물어보세요",
            "standard input is not text in UTF-8; if it is a document, add it with `doran ingest FILE` and ask about it"
        )
        .with_code("bad_input")
    })?;
    let piped = Some(piped.trim().to_owned()).filter(|piped| !piped.is_empty());
    let (text, document) = if text.is_empty() { (piped.unwrap_or_default(), None) } else { (text, piped) };
    if text.is_empty() {
        return Err(bilingual!(
            "질문이 비어 있습니다. `doran ask 질문`처럼 적거나 파이프로 넣으세요",
            "the question is empty; write `doran ask QUESTION`, or pipe it in"
        )
        .with_code("empty_input")
        .into());
    }
    Ok((text, document))
}
