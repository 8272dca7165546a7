//! `doran chat`: an interactive conversation in the terminal, or one question per line through a pipe.

mod answer_printer;
mod questions;
mod slash_commands;

use std::sync::Arc;

use doran_engine::ThreadId;
use doran_llm::{ModelKind, Role};
use doran_server::api::{AgentInfo, AgentList, MessageInfo, RunInfo, StartRun};

use crate::agent_client::{self, AgentClient};
use crate::assemble::RecordReplay;
use crate::client::STOPPING_CODE;
use crate::config::Config;
use crate::exit;
use crate::line_reader::{LineReader, TypedLine};
use crate::output::{self, TerminalOutput, bilingual};
use answer_printer::AnswerPrinter;
pub(crate) use questions::format_question;
use slash_commands::LastTurn;

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran chat
  doran chat --agent contract --thread lease
  echo '연차휴가는 며칠인가요?' | doran chat --quiet

Commands in a chat · 대화 중 명령:
  /agent [NAME]  list the agents or go to the conversation with one · 에이전트를 보여 주거나 그 에이전트의 대화로 옮깁니다
  /model [ID]    list the models or choose one · 모델을 보여 주거나 고릅니다
  /retry         ask the last question again · 마지막 질문을 다시 묻습니다
  /edit TEXT     ask this instead of the last question · 마지막 질문 대신 묻습니다
  /sources       show the quotations of the answer · 답의 인용문을 보여 줍니다
  /steps         show the steps of the answer · 답의 단계를 보여 줍니다
  /attach FILE   attach a file to this chat · 파일을 이 대화에 첨부합니다
  /export FILE   write the chat as Markdown, or as JSON to FILE.json · 대화를 Markdown으로, 파일.json이면 JSON으로 저장합니다
  /help          show the commands · 명령을 보여 줍니다
  /quit          quit, like Ctrl-D · 종료합니다. Ctrl-D와 같습니다
  \\              at the end of a line: continue on the next · 줄 끝에 쓰면 다음 줄로 이어집니다
  Ctrl-C         cancel the run; quit if there is none · 실행을 취소합니다. 실행이 없으면 종료합니다")]
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
    config: &'a Config,
    client: Arc<AgentClient>,
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
    /// Prints the newest answer.
    shown: AnswerPrinter,
    /// The newest turn.
    last: Option<LastTurn>,
    /// The question whose answer was cut off, because the server stopped.
    cut_off: Option<String>,
    /// The model that answers instead of that of the thread.
    model: Option<String>,
    /// Whether the thread has the model that was chosen with `/model`.
    is_model_stored: bool,
}

fn offered_names(agents: &[AgentInfo]) -> impl Iterator<Item = &str> {
    agents.iter().filter(|agent| !agent.hidden).map(|agent| agent.id.as_str())
}

/// Answers each line of standard input until it ends.
pub(crate) async fn run(args: &ChatArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let thread = agent_client::parse_thread_name(&args.thread)?;
    let client = Arc::new(AgentClient::open_reading_documents(config, &args.record_replay).await?);
    let input = LineReader::open(output);
    let mut talk = ChatSession {
        config,
        client: client.clone(),
        thread: thread.clone(),
        agent: args.agent.clone(),
        initial_thread_and_agent: (thread, args.agent.clone()),
        quiet: args.quiet,
        is_interactive: input.is_terminal(),
        input,
        is_interrupted: false,
        output,
        shown: AnswerPrinter::new(output, args.quiet),
        last: None,
        cut_off: None,
        model: config.chosen_model().map(str::to_owned),
        is_model_stored: true,
    };
    let typed = talk.is_interactive;
    let ended = tokio::select! {
        ended = talk.run() => ended,
        // In a terminal, Ctrl-C is handled by what is in progress.
        asked = async { if typed { exit::wait_for_sigterm().await } else { exit::wait_for_stop_signal().await.map(drop) } } => asked,
        trouble = client.wait_for_fatal_error() => Err(trouble.into()),
    };
    let printed = talk.shown.break_off();
    client.close().await;
    ended.and(printed)
}

impl ChatSession<'_> {
    async fn run(&mut self) -> anyhow::Result<()> {
        let agents = self.agents().await?;
        self.check_agent_exists(&agents, &self.agent.clone())?;
        self.greet();
        let mut failed = self.run_until_ctrl_c(Self::show_last_turn).await.err();
        self.report(&failed);
        while let Some(line) = self.next_question().await? {
            let line = line.trim();
            if self.cut_off.is_some() {
                failed = self.run_until_ctrl_c(Self::show_cut_off_turn).await.err();
                self.report(&failed);
            }
            if line.is_empty() {
                continue;
            }
            if let Some(command) = line.strip_prefix('/') {
                match command.split_once(char::is_whitespace).unwrap_or((command, "")) {
                    ("agent", "") => self.print_if_failed(self.print_agents(&agents)),
                    ("agent", name) => match self.check_agent_exists(&agents, name.trim()) {
                        Ok(()) => {
                            self.switch_agent(name.trim());
                            failed = self.run_until_ctrl_c(Self::show_last_turn).await.err();
                            self.report(&failed);
                        }
                        Err(error) => self.output.print_error(&error),
                    },
                    ("retry", _) => {
                        failed = self.run_until_ctrl_c(async |talk| talk.ask_instead("").await).await.err();
                        self.report(&failed);
                    }
                    ("edit", text) => {
                        let text = text.trim();
                        failed = self.run_until_ctrl_c(async |talk| talk.ask_instead(text).await).await.err();
                        self.report(&failed);
                    }
                    ("model", name) => {
                        let chosen = self.choose_model(name.trim()).await;
                        self.print_if_failed(chosen);
                    }
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
            self.report(&failed);
        }
        match failed {
            Some(_) if !self.is_interactive => {
                Err(bilingual!("마지막 질문에 답하지 못했습니다", "the last question was not answered")
                    .into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Prints why a turn failed, and how an answer that was cut off can be seen.
    fn report(&self, failed: &Option<anyhow::Error>) {
        let Some(error) = failed else { return };
        self.output.print_error(error);
        if self.cut_off.is_some() && self.is_interactive {
            self.output.print_message(&bilingual!(
                "서버가 다시 시작되면 Enter를 눌러 답을 보세요",
                "press Enter to see the answer once the server is back"
            ));
        }
    }

    fn print_if_failed(&self, outcome: anyhow::Result<()>) {
        if let Err(error) = outcome {
            self.output.print_error(&error);
        }
    }

    /// The agents that can be asked.
    async fn agents(&self) -> anyhow::Result<Vec<AgentInfo>> {
        Ok(match &*self.client {
            AgentClient::Local(app) => app.agents.iter().map(AgentInfo::from_agent).collect(),
            AgentClient::Remote(client) => client.get::<AgentList>("/api/agents").await?.agents,
        })
    }

    fn check_agent_exists(&self, agents: &[AgentInfo], name: &str) -> anyhow::Result<()> {
        if agents.iter().any(|agent| agent.id == name) {
            return Ok(());
        }
        Err(agent_client::unknown_agent_error(name, offered_names(agents)).into())
    }

    fn print_agents(&self, agents: &[AgentInfo]) -> anyhow::Result<()> {
        self.output.print_data(&offered_names(agents).map(|name| format!("{name}\n")).collect::<String>())
    }

    fn switch_agent(&mut self, name: &str) {
        name.clone_into(&mut self.agent);
        // A thread holds the state of one kind of agent.
        let (thread, first) = &self.initial_thread_and_agent;
        let other = (name != first).then(|| ThreadId::new(&format!("{}-{name}", thread.as_str())).ok());
        self.thread = other.flatten().unwrap_or_else(|| thread.clone());
        (self.model, self.is_model_stored) = (self.config.chosen_model().map(str::to_owned), true);
        let thread = &self.thread;
        self.output.print_message(&bilingual!(
            "{name}에게 묻습니다. 대화: {thread}",
            "asking {name}; conversation: {thread}"
        ));
    }

    /// Prints the commands that can be typed besides questions.
    fn print_help(&self, agents: &[AgentInfo]) {
        let (agent, agents) = (&self.agent, offered_names(agents).collect::<Vec<_>>().join(", "));
        self.output.print_message(&bilingual!(
            "/agent 이름   다른 에이전트의 대화로 옮깁니다. 지금은 {agent}. 있는 것: {agents}\n/model [ID]   모델을 보여 주거나 고릅니다. default는 기본 모델입니다\n/retry        마지막 질문을 다시 묻습니다\n/edit 글      마지막 질문 대신 묻습니다\n/sources      답의 인용문을 보여 줍니다\n/steps        답의 단계를 보여 줍니다\n/attach 파일  파일을 이 대화에 첨부합니다\n/export 파일  대화를 Markdown으로, 파일.json이면 JSON으로 저장합니다\n/quit         마칩니다. Ctrl-D와 같습니다\n\\             줄 끝에 쓰면 다음 줄로 이어 씁니다. ↑ ↓는 앞서 쓴 줄을 불러옵니다\nCtrl-C        실행을 멈춥니다. 묻고 있어도 그렇습니다. 실행이 없으면 마칩니다\n/help         이 도움말\n나머지는 모두 질문입니다",
            "/agent NAME   go to the conversation with another agent; now {agent}. There are: {agents}\n/model [ID]   list the models or choose one; `default` takes it back\n/retry        ask the last question again\n/edit TEXT    ask this instead of the last question\n/sources      show the quotations of the answer\n/steps        show the steps of the answer\n/attach FILE  attach a file to this chat\n/export FILE  write the chat as Markdown, or as JSON to FILE.json\n/quit         end, as Ctrl-D does\n\\             at the end of a line: go on in the next one; ↑ and ↓ call up earlier lines\nCtrl-C        stop the run, also one that asks you something; where there is none, end\n/help         this text\nEverything else is a question"
        ));
    }

    fn greet(&self) {
        match &*self.client {
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
        let ended = if self.is_interactive {
            tokio::select! {
                biased;
                pressed = tokio::signal::ctrl_c() => {
                    pressed?;
                    None
                }
                ended = work(self) => Some(ended),
            }
        } else {
            Some(work(self).await)
        };
        if let Some(ended) = ended
            && !std::mem::take(&mut self.is_interrupted)
        {
            self.shown.break_off()?;
            return ended;
        }
        // The terminal wrote `^C` behind the words.
        self.shown.is_mid_line = true;
        self.shown.break_off()?;
        self.client.cancel_active_run(&self.thread).await?;
        self.output.print_message(&bilingual!("멈추었습니다", "stopped"));
        Ok(())
    }

    async fn answer_question(&mut self, question: &str) -> anyhow::Result<()> {
        let run = self.new_run(question);
        self.answer_run(question, &run).await
    }

    async fn answer_run(&mut self, question: &str, run: &StartRun) -> anyhow::Result<()> {
        self.shown = AnswerPrinter::new(self.output, self.quiet);
        let asked = self.client.ask(&self.thread, run, |event| self.shown.print_event(event)).await;
        self.finish_turn(question, asked).await?;
        self.store_model().await
    }

    /// Shows the last turn of the thread. A run that was cut off goes on, and one that waits asks again. A pipe gets only what
    /// is not over yet.
    async fn show_last_turn(&mut self) -> anyhow::Result<()> {
        let Some(run) = self.client.last_run(&self.thread).await? else { return Ok(()) };
        if run.ended.is_some() && !self.is_interactive {
            return Ok(());
        }
        let question = self.question_of_run(&run).await?;
        self.show_turn(&question, &run).await
    }

    /// Shows the turn whose answer was cut off. The server may have been started again, with another address and another key.
    async fn show_cut_off_turn(&mut self) -> anyhow::Result<()> {
        let Some(question) = self.cut_off.clone() else { return Ok(()) };
        if let Some(server) = agent_client::running_server(self.config) {
            self.client = Arc::new(AgentClient::Remote(server));
        }
        let run = self.client.last_run(&self.thread).await?;
        self.cut_off = None;
        if let Some(run) = run
            && self.question_of_run(&run).await? == question
        {
            return self.show_turn(&question, &run).await;
        }
        Err(bilingual!(
            "끊긴 질문은 서버에 닿지 않았습니다. 다시 물으세요: {question}",
            "the question that was cut off did not reach the server; ask it again: {question}"
        )
        .into())
    }

    async fn question_of_run(&self, run: &RunInfo) -> anyhow::Result<String> {
        let asked =
            |message: &MessageInfo| message.role == Role::User && message.run.as_ref() == Some(&run.id);
        let messages = self.client.messages(&self.thread).await?;
        Ok(messages.into_iter().rfind(asked).map(|message| message.text).unwrap_or_default())
    }

    async fn show_turn(&mut self, question: &str, run: &RunInfo) -> anyhow::Result<()> {
        if !question.is_empty() {
            self.output.print_note(&format!("> {question}"));
        }
        self.shown = AnswerPrinter::new(self.output, self.quiet);
        let watched =
            self.client.watch_run(&self.thread, &run.id, |event| self.shown.print_event(event)).await;
        if watched.is_ok() && !self.shown.answer.questions.is_empty() {
            self.shown.break_off()?;
            self.output.print_message(&bilingual!(
                "이 대화의 실행이 답을 기다립니다",
                "a run of this conversation waits for an answer"
            ));
        }
        self.finish_turn(question, watched).await
    }

    /// Finishes a turn whose run was followed so far. A question whose answer was cut off is kept.
    async fn finish_turn(&mut self, question: &str, followed: anyhow::Result<()>) -> anyhow::Result<()> {
        let finished = match followed {
            Ok(()) => self.answer_until_finished(question).await,
            Err(error) => Err(error),
        };
        let is_stopping = |error: &anyhow::Error| output::error_code(error) == Some(STOPPING_CODE);
        self.cut_off = finished.as_ref().is_err_and(is_stopping).then(|| question.to_owned());
        finished
    }

    /// Asks the user what the run asks, until the run is finished. Without an answer, the run keeps waiting.
    async fn answer_until_finished(&mut self, question: &str) -> anyhow::Result<()> {
        while !self.shown.answer.questions.is_empty() {
            let questions = self.shown.answer.questions.clone();
            let Some(answers) = self.ask_questions(&questions).await? else {
                let (agent, thread) = (&self.agent, &self.thread);
                return Err(bilingual!(
                    "답이 없어 실행이 계속 기다립니다. `doran chat --agent {agent} --thread '{thread}'`로 이어서 답하세요",
                    "nothing was answered, so the run goes on waiting; `doran chat --agent {agent} --thread '{thread}'` asks again"
                )
                .into());
            };
            let (id, last) = (self.shown.answer.run.clone(), self.shown.answer.last_event_number);
            self.client
                .resume_with_answers(&self.thread, &id, last, &answers, |event| self.shown.print_event(event))
                .await?;
        }
        self.last = (!question.is_empty()).then(|| LastTurn::new(question, &self.shown));
        self.shown.finish()
    }
}
