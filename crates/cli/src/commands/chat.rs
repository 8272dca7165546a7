//! `doran chat`: an interactive conversation in the terminal, or one question per line through a pipe.

mod slash_commands;

use std::collections::BTreeMap;

use doran_agents::protocol::{EffectOutcomeAnswer, ToolApprovalAnswer};
use doran_engine::QuestionKind;
use doran_engine::ThreadId;
use doran_llm::ModelKind;
use doran_retrieval::Language;
use doran_server::api::{QuestionInfo, RunEvent, RunEventBody, StartRun};
use serde_json::Value;

use crate::agent_client::{self, AgentClient};
use crate::assemble::RecordReplay;
use crate::client::ListedId;
use crate::config::Config;
use crate::exit;
use crate::line_reader::{LineReader, TypedLine};
use crate::output::{TerminalOutput, bilingual};
use crate::streamed_answer::StreamedAnswer;
use crate::terminal_markdown::TerminalMarkdown;
use slash_commands::LastTurn;

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran chat
  doran chat --agent contract --thread lease
  echo '연차휴가는 며칠인가요?' | doran chat --quiet

Commands in a chat · 대화 중 명령:
  /agent NAME   switch to another agent · 다른 에이전트로 바꿉니다
  /model [ID]   list the models or choose one · 모델을 보여 주거나 고릅니다
  /retry        ask the last question again · 마지막 질문을 다시 묻습니다
  /edit TEXT    ask this instead of the last question · 마지막 질문 대신 묻습니다
  /sources      show the quotations of the answer · 답의 인용문을 보여 줍니다
  /steps        show the steps of the answer · 답의 단계를 보여 줍니다
  /attach FILE  attach a file to this chat · 파일을 이 대화에 첨부합니다
  /export FILE  write the chat as Markdown, or as JSON to FILE.json · 대화를 Markdown으로, 파일.json이면 JSON으로 저장합니다
  /help         show the commands · 명령을 보여 줍니다
  /quit         quit, like Ctrl-D · 종료합니다. Ctrl-D와 같습니다
  \\             at the end of a line: continue on the next · 줄 끝에 쓰면 다음 줄로 이어집니다
  Ctrl-C        cancel the run; quit if there is none · 실행을 취소합니다. 실행이 없으면 종료합니다")]
pub(crate) struct ChatArgs {
    /// Thread to continue · 이어 갈 스레드
    #[arg(long, value_name = "NAME", default_value = "main")]
    thread: String,
    /// Agent; `/agent NAME` switches it · 에이전트. `/agent 이름`으로 바꿉니다
    #[arg(long, value_name = "AGENT", default_value = "assistant")]
    agent: String,
    /// Do not show steps · 단계를 표시하지 않습니다
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    record_replay: RecordReplay,
}

/// A conversation in progress.
struct ChatSession<'a> {
    client: &'a AgentClient,
    thread: ThreadId,
    agent: String,
    /// The thread and the agent at the start.
    initial_thread_and_agent: (ThreadId, String),
    quiet: bool,
    is_interactive: bool,
    input: LineReader,
    /// Whether Ctrl-C was typed instead of a line.
    is_interrupted: bool,
    output: TerminalOutput,
    /// The newest turn of this process.
    last: Option<LastTurn>,
}

/// Answers each line of standard input until it ends.
pub(crate) async fn run(args: &ChatArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let thread = agent_client::parse_thread_name(&args.thread)?;
    let client = AgentClient::open_reading_documents(config, &args.record_replay).await?;
    let input = LineReader::open(output);
    let mut talk = ChatSession {
        client: &client,
        thread: thread.clone(),
        agent: args.agent.clone(),
        initial_thread_and_agent: (thread, args.agent.clone()),
        quiet: args.quiet,
        is_interactive: input.is_terminal(),
        input,
        is_interrupted: false,
        output,
        last: None,
    };
    let typed = talk.is_interactive;
    let ended = tokio::select! {
        ended = talk.run() => ended,
        // In a terminal, Ctrl-C is handled by what is in progress.
        asked = async { if typed { exit::wait_for_sigterm().await } else { exit::wait_for_stop_signal().await.map(drop) } } => asked,
        trouble = client.wait_for_unknown_write() => Err(trouble.into_message().into()),
    };
    client.close().await;
    ended
}

impl ChatSession<'_> {
    async fn run(&mut self) -> anyhow::Result<()> {
        let agents = self.agents().await?;
        self.check_agent_exists(&agents, &self.agent.clone())?;
        self.greet();
        self.client.wait_for_active_run(&self.thread).await?;
        let mut failed = self.run_until_ctrl_c(Self::resume_waiting_run).await.err();
        if let Some(error) = &failed {
            self.output.print_error(error);
        }
        while let Some(line) = self.next_question().await? {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            if let Some(command) = line.strip_prefix('/') {
                match command.split_once(char::is_whitespace).unwrap_or((command, "")) {
                    ("agent", name) => {
                        self.switch_agent(&agents, name.trim());
                        failed = self.run_until_ctrl_c(Self::resume_waiting_run).await.err();
                        if let Some(error) = &failed {
                            self.output.print_error(error);
                        }
                    }
                    ("retry", _) => {
                        failed = self.run_until_ctrl_c(async |talk| talk.ask_instead("").await).await.err();
                        failed.iter().for_each(|error| self.output.print_error(error));
                    }
                    ("edit", text) => {
                        let text = text.trim();
                        failed = self.run_until_ctrl_c(async |talk| talk.ask_instead(text).await).await.err();
                        failed.iter().for_each(|error| self.output.print_error(error));
                    }
                    ("model", name) => self.print_if_failed(self.choose_model(name.trim()).await),
                    ("sources", _) => self.print_if_failed(self.print_sources()),
                    ("steps", _) => self.print_if_failed(self.print_steps()),
                    ("attach", path) => self.print_if_failed(self.attach_file(path.trim()).await),
                    ("export", path) => self.print_if_failed(self.export(path.trim()).await),
                    ("quit" | "exit", _) => break,
                    ("help", _) => self.print_help(&agents),
                    (other, _) => {
                        self.output.print_message(&bilingual!(
                            "`/{other}`(이)라는 명령은 없습니다",
                            "there is no command `/{other}`"
                        ));
                        self.print_help(&agents);
                    }
                }
                continue;
            }
            // A failed run does not end the conversation: the error is printed and the next line is read.
            failed = self.run_until_ctrl_c(async |talk| talk.answer_question(line).await).await.err();
            if let Some(error) = &failed {
                self.output.print_error(error);
            }
        }
        match failed {
            Some(_) if !self.is_interactive => {
                Err(bilingual!("마지막 질문에 답하지 못했습니다", "the last question was not answered")
                    .into())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn print_if_failed(&self, outcome: anyhow::Result<()>) {
        if let Err(error) = outcome {
            self.output.print_error(&error);
        }
    }

    /// The names of the available agents.
    async fn agents(&self) -> anyhow::Result<Vec<String>> {
        Ok(match self.client {
            AgentClient::Local(app) => app.agents.iter().map(|agent| agent.name.clone()).collect(),
            AgentClient::Remote(client) => {
                let rows: Vec<ListedId> = client.get_field("/api/agents", "agents").await?;
                rows.into_iter().map(|row| row.id).collect()
            }
        })
    }

    fn check_agent_exists(&self, agents: &[String], name: &str) -> anyhow::Result<()> {
        if agents.iter().any(|agent| agent == name) {
            return Ok(());
        }
        Err(agent_client::unknown_agent_error(name, agents.iter().map(String::as_str)).into())
    }

    fn switch_agent(&mut self, agents: &[String], name: &str) {
        match self.check_agent_exists(agents, name) {
            Ok(()) => {
                name.clone_into(&mut self.agent);
                // A thread holds the state of one kind of agent.
                let (thread, first) = &self.initial_thread_and_agent;
                let other =
                    (name != first).then(|| ThreadId::new(&format!("{}-{name}", thread.as_str())).ok());
                self.thread = other.flatten().unwrap_or_else(|| thread.clone());
                let thread = &self.thread;
                self.output.print_message(&bilingual!(
                    "{name}에게 묻습니다. 대화: {thread}",
                    "asking {name}; conversation: {thread}"
                ));
            }
            Err(error) => self.output.print_error(&error),
        }
    }

    /// Prints the commands that can be typed besides questions.
    fn print_help(&self, agents: &[String]) {
        let (agent, agents) = (&self.agent, agents.join(", "));
        self.output.print_message(&bilingual!(
            "/agent 이름   다른 에이전트에게 묻습니다. 지금은 {agent}. 있는 것: {agents}\n/model [ID]   모델을 보여 주거나 고릅니다. default는 기본 모델입니다\n/retry        마지막 질문을 다시 묻습니다\n/edit 글      마지막 질문 대신 묻습니다\n/sources      답의 인용문을 보여 줍니다\n/steps        답의 단계를 보여 줍니다\n/attach 파일  파일을 이 대화에 첨부합니다\n/export 파일  대화를 Markdown으로, 파일.json이면 JSON으로 저장합니다\n/quit         마칩니다. Ctrl-D와 같습니다\n\\             줄 끝에 쓰면 다음 줄로 이어 씁니다. ↑ ↓는 앞서 쓴 줄을 불러옵니다\nCtrl-C        실행을 멈춥니다. 묻고 있어도 그렇습니다. 실행이 없으면 마칩니다\n/help         이 도움말\n나머지는 모두 질문입니다",
            "/agent NAME   ask another agent; now {agent}. There are: {agents}\n/model [ID]   list the models or choose one; `default` takes it back\n/retry        ask the last question again\n/edit TEXT    ask this instead of the last question\n/sources      show the quotations of the answer\n/steps        show the steps of the answer\n/attach FILE  attach a file to this chat\n/export FILE  write the chat as Markdown, or as JSON to FILE.json\n/quit         end, as Ctrl-D does\n\\             at the end of a line: go on in the next one; ↑ and ↓ call up earlier lines\nCtrl-C        stop the run, also one that asks you something; where there is none, end\n/help         this text\nEverything else is a question"
        ));
    }

    fn greet(&self) {
        match self.client {
            AgentClient::Remote(client) => {
                let server = client.address;
                self.output.print_message(&bilingual!(
                    "서버 http://{server} 가 데이터 디렉터리를 쓰고 있어 그 서버에 묻습니다",
                    "the server http://{server} has the data directory and is asked"
                ));
            }
            AgentClient::Local(app) => {
                app.notes.iter().for_each(|note| self.output.print_message(note));
                if self.is_interactive {
                    let about = &app.model;
                    let (name, ko, en) = (&about.name, &about.ko, &about.en);
                    self.output.print_message(&match about.kind {
                        ModelKind::Extractive => bilingual!(
                            "{name} · LLM 아님. 글을 찾아 인용합니다. /help로 도움말, Ctrl-D로 마칩니다",
                            "{name} · not an LLM. It finds text and cites it. /help helps, Ctrl-D ends"
                        ),
                        ModelKind::Language => {
                            bilingual!(
                                "{ko} /help로 도움말, Ctrl-D로 마칩니다",
                                "{en} /help helps, Ctrl-D ends"
                            )
                        }
                    });
                }
            }
        }
    }

    /// Reads the next question, or `None` at the end of the input. Nothing is running, so Ctrl-C ends the
    /// conversation.
    async fn next_question(&mut self) -> anyhow::Result<Option<String>> {
        if !self.is_interactive {
            return self.read_line("> ").await;
        }
        tokio::select! {
            biased;
            pressed = tokio::signal::ctrl_c() => {
                pressed?;
                Ok(None)
            }
            line = self.read_line("> ") => line,
        }
    }

    /// Reads the next line, or `None` at the end of the input and after Ctrl-C.
    async fn read_line(&mut self, prompt: &str) -> anyhow::Result<Option<String>> {
        Ok(match self.input.next(prompt).await? {
            TypedLine::Text(line) => Some(line),
            TypedLine::End => None,
            TypedLine::Interrupted => {
                self.is_interrupted = true;
                None
            }
        })
    }

    /// Runs `work`. In a terminal, Ctrl-C cancels the run, even one that waits for an answer.
    async fn run_until_ctrl_c(
        &mut self,
        work: impl AsyncFnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !self.is_interactive {
            return work(self).await;
        }
        let ended = tokio::select! {
            biased;
            pressed = tokio::signal::ctrl_c() => {
                pressed?;
                None
            }
            ended = work(self) => Some(ended),
        };
        if let Some(ended) = ended
            && !std::mem::take(&mut self.is_interrupted)
        {
            return ended;
        }
        self.client.cancel_active_run(&self.thread).await?;
        self.output.print_data("\n")?;
        self.output.print_message(&bilingual!("멈추었습니다", "stopped"));
        Ok(())
    }

    async fn answer_question(&mut self, question: &str) -> anyhow::Result<()> {
        let run = StartRun::new(&self.agent, question);
        self.answer_run(question, &run).await
    }

    async fn answer_run(&mut self, question: &str, run: &StartRun) -> anyhow::Result<()> {
        let mut shown = AnswerPrinter::new(self.output, self.quiet);
        self.client.ask(&self.thread, run, |event| shown.print_event(event)).await?;
        self.answer_until_finished(question, shown).await
    }

    /// Resumes an earlier run on this thread that waits for answers.
    async fn resume_waiting_run(&mut self) -> anyhow::Result<()> {
        let mut shown = AnswerPrinter::new(self.output, true);
        self.client.watch_waiting_run(&self.thread, |event| shown.print_event(event)).await?;
        if shown.answer.questions.is_empty() {
            return Ok(());
        }
        self.output.print_message(&bilingual!(
            "이 대화의 실행이 답을 기다립니다",
            "a run of this conversation waits for an answer"
        ));
        shown.quiet = self.quiet;
        self.answer_until_finished("", shown).await
    }

    /// Asks the user what the run asks, until the run is finished. Without an answer, the run keeps waiting.
    async fn answer_until_finished(
        &mut self,
        question: &str,
        mut shown: AnswerPrinter,
    ) -> anyhow::Result<()> {
        while !shown.answer.questions.is_empty() {
            let Some(answers) = self.ask_questions(&shown.answer.questions.clone()).await? else {
                let (agent, thread) = (&self.agent, &self.thread);
                return Err(bilingual!(
                    "답이 없어 실행이 계속 기다립니다. `doran chat --agent {agent} --thread '{thread}'`로 이어서 답하세요",
                    "nothing was answered, so the run goes on waiting; `doran chat --agent {agent} --thread '{thread}'` asks again"
                )
                .into());
            };
            let (id, last) = (shown.answer.run.clone(), shown.answer.last_event_number);
            self.client
                .resume_with_answers(&self.thread, &id, last, &answers, |event| shown.print_event(event))
                .await?;
        }
        // A turn that began in another process can be shown, and not asked again.
        self.last = (!question.is_empty()).then(|| LastTurn::new(question, &shown));
        shown.finish()
    }

    /// Asks each question. Anything but a clear yes is a no. The end of the input is no answer.
    async fn ask_questions(
        &mut self,
        questions: &[QuestionInfo],
    ) -> anyhow::Result<Option<BTreeMap<String, Value>>> {
        let mut answers = BTreeMap::new();
        for question in questions {
            let is_approval = question.interrupt().is_tool_approval();
            self.output.print_note(&format_question(question, self.output.language));
            if question.kind == QuestionKind::EffectUnknown {
                let Some(settled) = self.ask_effect_outcome().await? else { return Ok(None) };
                answers.insert(question.id.clone(), settled.to_json());
                continue;
            }
            let hint = match (is_approval, self.output.language) {
                (true, Language::Korean) => "[예/아니요] ",
                (true, Language::English) => "[y/N] ",
                (false, _) => "? ",
            };
            let Some(line) = self.read_line(hint).await? else { return Ok(None) };
            let line = line.trim();
            let answer = match is_approval {
                true => ToolApprovalAnswer { approve: is_yes(&line.to_lowercase()), ..Default::default() }
                    .to_json(),
                false => line.into(),
            };
            answers.insert(question.id.clone(), answer);
        }
        Ok(Some(answers))
    }

    /// Asks for the outcome of a call that must not be repeated. An unclear reply is asked again.
    async fn ask_effect_outcome(&mut self) -> anyhow::Result<Option<EffectOutcomeAnswer>> {
        self.output.print_message(&bilingual!(
            "  `예`, 또는 `예 결과`: 실행되었다 · `아니요`: 실행되지 않았다. 지금 실행한다",
            "  `y`, or `y RESULT`: it happened · `n`: it did not, and is made now"
        ));
        let hint = self.output.language.pick("[예/아니요] ", "[y/n] ");
        loop {
            let Some(line) = self.read_line(hint).await? else { return Ok(None) };
            if let Some(settled) = parse_effect_outcome(&line) {
                return Ok(Some(settled));
            }
        }
    }
}

/// Parses the reply: a yes, optionally followed by the result of the call, or a no.
fn parse_effect_outcome(line: &str) -> Option<EffectOutcomeAnswer> {
    let (first, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    match (first.to_lowercase().as_str(), rest.trim()) {
        (word, "") if is_yes(word) => Some(EffectOutcomeAnswer::Result(Value::Null)),
        (word, result) if is_yes(word) => Some(EffectOutcomeAnswer::Result(result.into())),
        ("n" | "no" | "아니요" | "아니오" | "아니" | "ㄴ", "") => {
            Some(EffectOutcomeAnswer::Retry(true))
        }
        _ => None,
    }
}

fn is_yes(word: &str) -> bool {
    matches!(word, "y" | "yes" | "예" | "네" | "ㅇ" | "응")
}

/// A question of a run, in the user's language.
pub(crate) fn format_question(pending: &QuestionInfo, language: Language) -> String {
    let question = pending.interrupt();
    let mut text = format!("? {}", question.text(language));
    if let Some((name, arguments)) = question.tool() {
        text.push_str(&format!("\n  {name} {arguments}"));
    }
    if let Some(problem) = &pending.problem {
        text.push_str(&format!("\n  ({problem})"));
    }
    text
}

/// Prints an answer as it arrives: text to stdout, finished steps to stderr.
struct AnswerPrinter {
    answer: StreamedAnswer,
    output: TerminalOutput,
    quiet: bool,
    /// What renders the words, on a terminal.
    markdown: Option<TerminalMarkdown>,
    /// Whether the last output did not end its line.
    is_mid_line: bool,
    /// Whether no words were printed since the start or the line of a step.
    is_after_step: bool,
}

impl AnswerPrinter {
    fn new(output: TerminalOutput, quiet: bool) -> Self {
        let markdown = output.renders_markdown.then(TerminalMarkdown::default);
        let answer = StreamedAnswer::default();
        Self { answer, output, quiet, markdown, is_mid_line: false, is_after_step: true }
    }

    fn print_event(&mut self, event: &RunEvent) -> anyhow::Result<()> {
        let before = self.answer.steps.len();
        let mut words = self.answer.apply_event(event)?;
        // In a terminal, the line of a step already separates two replies.
        if self.is_after_step && self.output.stdout_and_stderr_share_terminal() {
            words = words.trim_start_matches('\n').to_owned();
        }
        self.is_after_step &= words.is_empty();
        self.print_words(words, &event.body)?;
        let steps = &self.answer.steps[before..];
        if self.quiet || steps.is_empty() {
            return Ok(());
        }
        // In a terminal, a step that ends after text is printed below it. A pipe gets the text only.
        if self.is_mid_line && self.output.stdout_and_stderr_share_terminal() {
            self.output.print_data("\n")?;
            self.is_mid_line = false;
        }
        self.is_after_step = true;
        steps
            .iter()
            .for_each(|step| self.output.print_note(&format!("· {}", step.text(self.output.language))));
        Ok(())
    }

    /// Prints the words of an event. Markdown ends with the words that are void, and with those that no more follow.
    fn print_words(&mut self, words: String, body: &RunEventBody) -> anyhow::Result<()> {
        let shown = match (&mut self.markdown, body) {
            (None, _) => words,
            (Some(markdown), RunEventBody::Delta { restarted: None, .. }) => markdown.push(&words),
            (Some(markdown), RunEventBody::Delta { .. }) => markdown.finish() + &markdown.push(&words),
            (Some(markdown), _) => markdown.push(&words) + &markdown.finish(),
        };
        self.output.print_data(&shown)?;
        if let Some(last) = shown.chars().last() {
            self.is_mid_line = last != '\n';
        }
        Ok(())
    }

    /// Ends the line and prints the sources.
    fn finish(self) -> anyhow::Result<()> {
        let lines = self.answer.source_lines(self.output.language);
        let sources: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        let is_open = self.is_mid_line || !self.output.stdout_and_stderr_share_terminal();
        self.output.print_data(&format!("{}{sources}", if is_open { "\n" } else { "" }))?;
        match self.answer.failure {
            // The agent's own sentence was printed as it came.
            Some(_) if self.answer.text_is_error_reply => Ok(()),
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_clear_word_says_what_became_of_a_call() {
        for (line, expected) in [
            ("예", Some(json!({ "result": null }))),
            ("  Y  ", Some(json!({ "result": null }))),
            ("yes 메일 3통을 보냄", Some(json!({ "result": "메일 3통을 보냄" }))),
            ("아니요", Some(json!({ "retry": true }))),
            ("n", Some(json!({ "retry": true }))),
            ("no idea", None),
            ("", None),
            ("yesterday", None),
        ] {
            assert_eq!(parse_effect_outcome(line).map(|outcome| outcome.to_json()), expected, "{line}");
        }
    }
}
