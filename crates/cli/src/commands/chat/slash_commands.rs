//! The commands of a chat about its turns: ask again, choose the model, show sources and steps, attach a file, export.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use doran_server::api::StartRun;

use super::ChatSession;
use super::answer_printer::AnswerPrinter;
use crate::commands::threads::messages_as_markdown;
use crate::output::{BilingualMessage, bilingual};

/// The size of the largest document.
const MAX_ATTACHMENT_BYTES: u64 = 50 * 1024 * 1024;

/// The newest turn.
#[derive(Default)]
pub(super) struct LastTurn {
    pub(super) question: String,
    run: String,
    steps: Vec<BilingualMessage>,
    /// A line for each source, and its quote.
    sources: Vec<(String, String)>,
}

impl LastTurn {
    pub(super) fn new(question: &str, shown: &AnswerPrinter) -> Self {
        let answer = &shown.answer;
        let sources = answer.numbered_sources(shown.output.language);
        Self {
            question: question.to_owned(),
            run: answer.run.clone(),
            steps: answer.steps.iter().map(BilingualMessage::sentence).collect(),
            sources: sources.into_iter().map(|(source, line)| (line, source.quote.clone())).collect(),
        }
    }
}

impl ChatSession<'_> {
    /// Asks the last question again, or another one in its place. The old turn stays in the log as another branch.
    pub(super) async fn ask_instead(&mut self, question: &str) -> anyhow::Result<()> {
        let Some(last) = &self.last else { return Err(no_turn_error()) };
        let question = if question.is_empty() { last.question.clone() } else { question.to_owned() };
        let from = self.client.entry_before_run(&self.thread, &last.run).await?;
        let run = StartRun { from, ..self.new_run(&question) };
        self.answer_run(&question, &run).await
    }

    /// A question to the agent of the chat, for the model that was chosen.
    pub(super) fn new_run(&self, question: &str) -> StartRun {
        StartRun { model: self.model.clone(), ..StartRun::new(&self.agent, question) }
    }

    /// Stores the choice of a model that was made before the thread existed.
    pub(super) async fn store_model(&mut self) -> anyhow::Result<()> {
        if !self.is_model_stored {
            self.is_model_stored = self.client.set_model(&self.thread, self.model.as_deref()).await?;
        }
        Ok(())
    }

    pub(super) fn print_sources(&self) -> anyhow::Result<()> {
        let Some(last) = &self.last else { return Err(no_turn_error()) };
        if last.sources.is_empty() {
            self.output.print_message(&bilingual!("출처가 없습니다", "there are no sources"));
        }
        for (line, quote) in &last.sources {
            let quote = quote.split_whitespace().collect::<Vec<_>>().join(" ");
            self.output.print_data(&format!("{line}\n  \"{quote}\"\n"))?;
        }
        Ok(())
    }

    pub(super) fn print_steps(&self) -> anyhow::Result<()> {
        let Some(last) = &self.last else { return Err(no_turn_error()) };
        let lines: String =
            last.steps.iter().map(|step| format!("{}\n", step.text(self.output.language))).collect();
        self.output.print_data(&lines)
    }

    /// Lists the models that the chat can choose, or chooses one. `default` takes the choice back.
    pub(super) async fn choose_model(&mut self, name: &str) -> anyhow::Result<()> {
        let models = self.client.model_ids().await?;
        if name.is_empty() {
            return self.output.print_data(&models.iter().map(|id| format!("{id}\n")).collect::<String>());
        }
        let choice = (name != "default").then_some(name);
        if let Some(name) = choice
            && !models.iter().any(|id| id == name)
        {
            let known = models.join(", ");
            return Err(bilingual!(
                "`{name}`(이)라는 모델을 고를 수 없습니다. 고를 수 있는 것: {known}",
                "the model `{name}` cannot be chosen; there are: {known}"
            )
            .into());
        }
        self.is_model_stored = self.client.set_model(&self.thread, choice).await?;
        self.model = choice.map(str::to_owned);
        self.output.print_message(&bilingual!(
            "다음 질문부터 {name}이(가) 답합니다",
            "{name} answers from the next question on"
        ));
        Ok(())
    }

    /// Attaches a file to the thread and waits until it is read.
    pub(super) async fn attach_file(&self, path: &str) -> anyhow::Result<()> {
        let path = Path::new(path);
        let shown = path.display();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return Err(bilingual!(
                "첨부할 파일을 적으세요: /attach 파일",
                "name the file to attach: /attach FILE"
            )
            .into());
        };
        let unreadable =
            |error| bilingual!("`{shown}`을(를) 읽을 수 없습니다", "cannot read `{shown}`").with_cause(error);
        // A device or a pipe may have no end.
        let about = std::fs::metadata(path).map_err(unreadable)?;
        if !about.is_file() {
            return Err(bilingual!("`{shown}`은(는) 파일이 아닙니다", "`{shown}` is not a file").into());
        }
        if about.len() > MAX_ATTACHMENT_BYTES {
            return Err(
                bilingual!("`{shown}`이(가) 50 MiB보다 큽니다", "`{shown}` is larger than 50 MiB").into()
            );
        }
        let bytes = std::fs::read(path).map_err(unreadable)?;
        let attached = self.client.attach_document(&self.thread, &self.agent, name, bytes).await?;
        if let Err(BilingualMessage { ko, en, .. }) = attached {
            return Err(bilingual!(
                "`{name}`을(를) 읽지 못했습니다. {ko}",
                "`{name}` could not be read. {en}"
            )
            .into());
        }
        self.output.print_message(&bilingual!(
            "`{name}`을(를) 이 대화에 첨부했습니다",
            "`{name}` is attached to this conversation"
        ));
        Ok(())
    }

    /// Writes the conversation to a new file, as JSON where its name says so and as Markdown otherwise, or prints it.
    pub(super) async fn export(&self, path: &str) -> anyhow::Result<()> {
        let is_json = Path::new(path).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let text = if is_json {
            self.client.thread_export(&self.thread).await?.to_json()?
        } else {
            let messages = self.client.messages(&self.thread).await?;
            messages_as_markdown(self.thread.as_str(), &messages, self.output.language)
        };
        if path.is_empty() {
            return self.output.print_data(&text);
        }
        let opened = File::options().write(true).create_new(true).open(path);
        opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => bilingual!(
                "`{path}` 파일이 이미 있어 쓰지 않았습니다. 다른 이름을 적으세요",
                "the file `{path}` exists and was left as it is; choose another name"
            ),
            _ => bilingual!("`{path}`에 쓸 수 없습니다", "cannot write `{path}`").with_cause(error),
        })?;
        self.output.print_message(&bilingual!("`{path}`에 적었습니다", "written to `{path}`"));
        Ok(())
    }
}

fn no_turn_error() -> anyhow::Error {
    bilingual!("먼저 질문하세요", "ask something first").into()
}
