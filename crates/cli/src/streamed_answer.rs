//! What a person sees of a run, gathered from its events: the words, the steps, the sources.

use doran_agents::protocol::StepNotes;
use doran_agents::transcript::{TranscriptChange, TranscriptReducer};
use doran_agents::{AnswerSource, CitationNumbering, TurnProgress, history};
use doran_engine::UnfinishedTask;
use doran_llm::Role;
use doran_retrieval::{Language, localize_article_numbers};
use doran_server::api::{ModelErrorAdvice, QuestionInfo, RunEvent, RunEventBody, StepTask, advice};
use serde_json::{Value, json};

use crate::client::STOPPING_CODE;
use crate::output::{BilingualMessage, bilingual};
use crate::step_lines::{describe_step, describe_tool_calls};

/// An answer that is being streamed.
#[derive(Debug, Default)]
pub(crate) struct StreamedAnswer {
    /// The run it is the answer of.
    pub(crate) run: String,
    /// The number of the newest event.
    pub(crate) last_event_number: u64,
    /// The words so far.
    pub(crate) text: String,
    /// One line a node that finished.
    pub(crate) steps: Vec<BilingualMessage>,
    /// One line a tool call: what was called with what, and what it gave.
    pub(crate) calls: Vec<String>,
    /// What the answer quotes.
    pub(crate) sources: Vec<AnswerSource>,
    /// Tokens in and out.
    pub(crate) tokens: u64,
    /// Nodes, tools and models of the turn.
    pub(crate) progress: TurnProgress,
    /// What the run waits for.
    pub(crate) questions: Vec<QuestionInfo>,
    /// Why the answer says that there is none.
    pub(crate) error_code: Option<String>,
    /// Why there is no answer.
    pub(crate) failure: Option<BilingualMessage>,
    /// Whether the words are those of the agent for having no answer.
    pub(crate) text_is_error_reply: bool,
    /// The numbers by which people know the sources.
    pub(crate) cited: CitationNumbering,
    /// The words that were shown.
    reducer: TranscriptReducer,
}

impl StreamedAnswer {
    /// Takes an event in and gives the words that came with it, their sources numbered as people count. Words of a try
    /// that was given up are void: what follows then starts anew.
    pub(crate) fn apply_event(&mut self, event: &RunEvent) -> anyhow::Result<String> {
        self.last_event_number = event.n.unwrap_or(self.last_event_number);
        if let RunEventBody::Step { tasks, .. } = &event.body {
            tasks.iter().try_for_each(|task| self.apply_task(task))?;
        }
        let mut changes = event.transcript(&mut self.reducer)?;
        if matches!(event.body, RunEventBody::Finished) && !self.text.is_empty() {
            changes.extend(self.reducer.finish(&self.text));
        }
        let mut words: String = changes.into_iter().map(|change| self.shown_words(change)).collect();
        if matches!(
            event.body,
            RunEventBody::Step { .. } | RunEventBody::Finished | RunEventBody::Paused { .. }
        ) {
            words.push_str(&self.cited.finish_text());
        }
        self.apply_status(&event.body)?;
        Ok(words)
    }

    /// The words to print for a change. What is printed cannot be taken back, so what is void is left behind on its line.
    fn shown_words(&mut self, change: TranscriptChange) -> String {
        match change {
            TranscriptChange::Text(words) => self.cited.push_text(&words),
            TranscriptChange::Reset { kept } => {
                self.cited.reset();
                self.cited.push_text(&kept);
                // After a reply that stands, the next one keeps its distance by itself.
                let is_new_line = kept.is_empty() || kept.ends_with(char::is_whitespace);
                if is_new_line { "\n".to_owned() } else { String::new() }
            }
            TranscriptChange::Activity(_) => String::new(),
        }
    }

    /// Takes in how the run stands.
    fn apply_status(&mut self, body: &RunEventBody) -> anyhow::Result<()> {
        match body {
            RunEventBody::Started { run, .. } => self.run.clone_from(run),
            RunEventBody::Failed { code, message, en, ko, unfinished, .. } => {
                self.apply_unfinished(unfinished)?;
                self.error_code = Some(code.clone());
                self.failure = Some(bilingual!(
                    "실행이 실패했습니다. {ko} ({code}: {message})",
                    "the run failed. {en} ({code}: {message})"
                ));
            }
            RunEventBody::Cancelled { unfinished, .. } => {
                self.apply_unfinished(unfinished)?;
                self.error_code = Some("cancelled".into());
                self.failure = Some(bilingual!("실행이 취소되었습니다", "the run was cancelled"));
            }
            RunEventBody::Paused { questions } => self.questions.clone_from(questions),
            RunEventBody::Resumed { .. } => self.questions.clear(),
            RunEventBody::Draining | RunEventBody::Error { .. } => {
                self.error_code = Some(STOPPING_CODE.into());
                let failure = bilingual!(
                    "서버가 멈추는 중입니다. 실행은 다음 시작에서 이어집니다",
                    "the server is stopping; the run goes on at its next start"
                );
                self.failure = Some(failure.with_code(STOPPING_CODE));
            }
            RunEventBody::Step { .. }
            | RunEventBody::Restarted { .. }
            | RunEventBody::Finished
            | RunEventBody::Gone { .. }
            | RunEventBody::Delta { .. } => {}
        }
        Ok(())
    }

    /// Takes in nodes that did not finish.
    fn apply_unfinished(&mut self, tasks: &[UnfinishedTask]) -> anyhow::Result<()> {
        for task in tasks {
            let (node, ms) = (&task.node, task.ms);
            self.progress.model_calls += StepNotes::from_notes(&task.notes)?.request_count();
            self.tokens += task.usage.input_tokens + task.usage.output_tokens;
            self.steps.push(bilingual!("{node} 끝내지 못함 {ms}밀리초", "{node} did not finish {ms} ms"));
        }
        Ok(())
    }

    /// Takes in what a node did.
    fn apply_task(&mut self, task: &StepTask) -> anyhow::Result<()> {
        let Some(turn) = &task.turn else {
            return Err(bilingual!(
                "이 실행의 에이전트를 서버가 모르거나, 서버가 이 프로그램보다 오래되었습니다. 서버를 다시 시작하세요",
                "the server does not know the agent of this run, or is older than this program; restart it"
            )
            .into());
        };
        if let Some(progress) = &turn.progress {
            self.progress = progress.clone();
        }
        self.cited.add_source_numbers(turn.found.iter().copied());
        let calls = describe_tool_calls(&StepNotes::from_notes(&task.notes)?.events, self.progress.language);
        self.steps.push(describe_step(task, turn, &calls));
        self.calls.extend(calls);
        self.tokens += task.input_tokens + task.output_tokens;
        // A node that shortens the working messages afterwards does not take back what was shown.
        let messages =
            if turn.rewrites_messages { Vec::new() } else { history::messages_in_update(&task.update)? };
        for message in messages.iter().filter(|message| message.role == Role::Assistant) {
            if !message.text().is_empty() {
                self.text = message.text();
                self.sources.clone_from(&turn.sources);
            }
        }
        if let Some(code) = &turn.error_code {
            let ModelErrorAdvice { ko, en } = advice(code);
            self.error_code = Some(code.clone());
            // The agent's own sentence says it; another one could only disagree.
            let text = self.text.as_str();
            self.failure = Some(match text {
                "" => bilingual!("답하지 못했습니다. {ko} ({code})", "there is no answer. {en} ({code})"),
                text => BilingualMessage::new(format!("{text} ({code})"), format!("{text} ({code})")),
            });
            self.text_is_error_reply = !text.is_empty();
        }
        Ok(())
    }

    /// The nodes in order.
    pub(crate) fn node_path(&self) -> &[String] {
        &self.progress.path
    }

    /// A line a source, in the order of their numbers.
    pub(crate) fn source_lines(&self, language: Language) -> Vec<String> {
        self.numbered_sources(language).into_iter().map(|(_, line)| line).collect()
    }

    /// The sources in the order of their numbers, each with its line: its number, what it is called, the page and the
    /// document.
    pub(crate) fn numbered_sources(&self, language: Language) -> Vec<(&AnswerSource, String)> {
        let line = |source: &AnswerSource| {
            let page = source.page.map(|page| bilingual!("{page}쪽", "p. {page}").text(language).to_owned());
            // What was handed in as a file goes by a number that tells a person nothing.
            let is_number =
                source.document.len() == 32 && source.document.bytes().all(|byte| byte.is_ascii_hexdigit());
            let document = (!is_number).then(|| source.document.clone());
            let article =
                source.article.as_deref().map(|article| localize_article_numbers(article, &source.title));
            let sample =
                source.sample.then(|| bilingual!("예시 문서", "sample document").text(language).to_owned());
            let rest: Vec<String> = [article, page, document, sample].into_iter().flatten().collect();
            let rest = if rest.is_empty() { String::new() } else { format!("  ({})", rest.join(", ")) };
            let number = self
                .cited
                .displayed_number(source.number)
                .unwrap_or(usize::try_from(source.number).unwrap_or(usize::MAX));
            (number, format!("[{number}] {}{rest}", localize_article_numbers(&source.title, &source.title)))
        };
        let mut lines: Vec<(&AnswerSource, (usize, String))> =
            self.sources.iter().map(|source| (source, line(source))).collect();
        lines.sort_by_key(|(_, (number, _))| *number);
        lines.into_iter().map(|(source, (_, line))| (source, line)).collect()
    }

    /// The whole answer, its sources numbered as people count; to be called before they are listed.
    pub(crate) fn text_with_numbered_sources(&mut self) -> String {
        let (cited, text) =
            CitationNumbering::renumber_text(&self.text, self.sources.iter().map(|source| source.number));
        self.cited = cited;
        text
    }

    /// The answer for programs, its sources numbered as people count.
    pub(crate) fn to_json(&self, thread: &str, seconds: f64, language: Language) -> Value {
        let (cited, response) =
            CitationNumbering::renumber_text(&self.text, self.sources.iter().map(|source| source.number));
        let mut shown = json!({
            "response": response, "sessionId": thread, "toolsUsed": self.progress.tools_used,
            "sources": cited.renumber_sources(&self.sources), "modelCalls": self.progress.model_calls, "path": self.node_path(),
            "executionTime": seconds,
        });
        if let Some(failure) = &self.failure {
            shown["error"] = json!(true);
            if !self.text_is_error_reply || self.text.is_empty() {
                shown["response"] = json!(failure.text(language));
            }
        }
        if let Some(code) = &self.error_code {
            shown["errorCode"] = json!(code);
        }
        if !self.questions.is_empty() {
            shown["questions"] = json!(self.questions);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use doran_agents::TurnUpdate;
    use doran_llm::Message;

    use super::*;

    fn delta_event(text: &str) -> RunEvent {
        let text = Some(text.to_owned());
        RunEventBody::Delta {
            node: "call_model".into(),
            attempt: 1,
            index: 0,
            text,
            data: None,
            restarted: None,
        }
        .into()
    }

    fn step_event(update: Value, turn: TurnUpdate) -> RunEvent {
        let task = StepTask {
            node: "call_model".into(),
            ms: 1,
            attempts: 1,
            input_tokens: 2,
            output_tokens: 3,
            update,
            notes: Default::default(),
            turn: Some(turn),
        };
        RunEventBody::Step { step: 2, path: String::new(), tasks: vec![task], next: Vec::new() }.into()
    }

    fn reply_update(id: &str, text: &str) -> Value {
        json!({ "messages": [{ "put": Message::assistant(id, text) }] })
    }

    #[test]
    fn every_word_is_shown_once_to_every_reader() {
        for before in [&[][..], &["하나 "], &["하나 ", "둘"]] {
            let mut answer = StreamedAnswer::default();
            let mut seen = String::new();
            for words in before {
                seen.push_str(&answer.apply_event(&delta_event(words)).expect("taken"));
            }
            let step = step_event(reply_update("m", "하나 둘"), TurnUpdate::default());
            seen.push_str(&answer.apply_event(&step).expect("taken"));
            seen.push_str(&answer.apply_event(&RunEventBody::Finished.into()).expect("taken"));
            assert_eq!((seen.as_str(), answer.text.as_str(), answer.tokens), ("하나 둘", "하나 둘", 5));
        }
    }

    #[test]
    fn words_that_are_void_stay_on_a_line_of_their_own() {
        let restarted: RunEvent = RunEventBody::Delta {
            node: "call_model".into(),
            attempt: 2,
            index: 0,
            text: None,
            data: None,
            restarted: Some("the model broke off".into()),
        }
        .into();
        let mut answer = StreamedAnswer::default();
        let mut seen = String::new();
        let first = step_event(reply_update("a", "확인해 볼게요."), TurnUpdate::default());
        for event in [
            delta_event("확인"),
            restarted.clone(),
            delta_event("확인해 볼게요."),
            first,
            delta_event("세 시"),
            restarted,
            delta_event("네 시"),
        ] {
            seen.push_str(&answer.apply_event(&event).expect("taken"));
        }
        assert_eq!(seen, "확인\n확인해 볼게요.\n\n세 시\n\n네 시");
    }

    #[test]
    fn an_answer_that_is_shortened_for_later_turns_is_still_shown_whole() {
        let source = AnswerSource {
            number: 1,
            document: "d".into(),
            title: "t".into(),
            quote: "q".into(),
            ..AnswerSource::default()
        };
        let update = TurnUpdate { found: vec![1], sources: vec![source], ..TurnUpdate::default() };
        let shortened = TurnUpdate { rewrites_messages: true, ..TurnUpdate::default() };
        let mut answer = StreamedAnswer::default();
        let mut seen = String::new();
        for (text, turn) in [("아주 긴 답 [1]", update), ("아주 […]", shortened)] {
            let step = step_event(reply_update("m", text), turn);
            seen.push_str(&answer.apply_event(&step).expect("taken"));
        }
        assert_eq!(
            (seen.as_str(), answer.text_with_numbered_sources().as_str()),
            ("아주 긴 답 [1]", "아주 긴 답 [1]")
        );
        assert_eq!(answer.source_lines(Language::Korean), ["[1] t  (d)"]);
    }

    #[test]
    fn a_turn_without_an_answer_is_a_failure() {
        let mut answer = StreamedAnswer::default();
        let turn = TurnUpdate { error_code: Some("model_unavailable".into()), ..TurnUpdate::default() };
        let step = step_event(reply_update("m", "지금은 답할 수 없습니다."), turn);
        answer.apply_event(&step).expect("taken");
        let shown = answer.to_json("t", 0.1, Language::English);
        assert_eq!(
            (&shown["error"], &shown["errorCode"], &shown["response"]),
            (&json!(true), &json!("model_unavailable"), &json!("지금은 답할 수 없습니다."))
        );
        assert!(answer.failure.is_some_and(|failure| failure.en.contains("(model_unavailable)")));
        let mut answer = StreamedAnswer::default();
        answer.apply_event(&step_event(json!({}), TurnUpdate::default())).expect("taken");
        assert!(
            answer.failure.is_none() && answer.to_json("t", 0.1, Language::English).get("error").is_none()
        );
    }

    #[test]
    fn a_step_that_says_nothing_about_the_turn_is_an_error_and_no_empty_answer() {
        let mut step = step_event(json!({}), TurnUpdate::default());
        if let RunEventBody::Step { tasks, .. } = &mut step.body {
            tasks[0].turn = None;
        }
        assert!(StreamedAnswer::default().apply_event(&step).is_err());
    }
}
