//! What a person sees of a run, gathered from its events: the words, the steps, the sources.

use std::collections::HashSet;

use doran_agents::protocol::{AgentActivity, StepNotes};
use doran_agents::{AnswerSource, CitationNumbering, TurnProgress, UserLanguage as Spoken, history};
use doran_llm::{MessageId, Role};
use doran_server::api::{ModelErrorAdvice, QuestionInfo, RunEvent, RunEventBody, StepTask, advice};
use serde_json::{Value, json};

use crate::output::{BilingualMessage, OutputLanguage, bilingual};

/// The most characters of a tool's arguments or result on a line.
const MAX_LINE_CHARS: usize = 80;

/// An answer on its way.
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
    /// What was shown of the reply in progress. A turn may have several, with tools between them.
    shown_reply: String,
    /// Whether a reply of this turn stands above it.
    has_earlier_reply: bool,
    /// The messages that were said.
    seen_message_ids: HashSet<MessageId>,
}

impl StreamedAnswer {
    /// Takes an event in and gives the words that came with it, their sources numbered as people count. Words of a try
    /// that was given up are void: what follows then starts anew.
    pub(crate) fn apply_event(&mut self, event: &RunEvent) -> anyhow::Result<String> {
        let words = self.reduce_event(event)?;
        let mut words = self.cited.push_text(&words);
        if matches!(
            event.body,
            RunEventBody::Step { .. } | RunEventBody::Finished | RunEventBody::Paused { .. }
        ) {
            words.push_str(&self.cited.take_pending());
        }
        Ok(words)
    }

    fn reduce_event(&mut self, event: &RunEvent) -> anyhow::Result<String> {
        self.last_event_number = event.n.unwrap_or(self.last_event_number);
        match &event.body {
            RunEventBody::Started { run, .. } => self.run.clone_from(run),
            RunEventBody::Delta { text: Some(words), .. } => {
                return Ok(self.append_reply_text(words));
            }
            RunEventBody::Delta { restarted: Some(_), .. } | RunEventBody::Restarted { .. }
                if !self.shown_reply.is_empty() =>
            {
                self.cited.reset();
                self.shown_reply.clear();
                // What follows a reply keeps its distance anyway.
                return Ok(if self.has_earlier_reply { String::new() } else { "\n".into() });
            }
            // A node that calls its tools itself has several replies in one step, the last of which is put on record.
            RunEventBody::Delta { data: Some(data), .. } if AgentActivity::from_json(data).is_tool_call() => {
                self.finish_reply()
            }
            RunEventBody::Step { tasks, .. } => {
                let told: Result<Vec<String>, _> = tasks.iter().map(|task| self.apply_task(task)).collect();
                return Ok(told?.concat());
            }
            RunEventBody::Failed { code, message, en, ko, .. } => {
                self.error_code = Some(code.clone());
                self.failure = Some(bilingual!(
                    "실행이 실패했습니다. {ko} ({code}: {message})",
                    "the run failed. {en} ({code}: {message})"
                ));
            }
            RunEventBody::Cancelled { .. } => {
                self.error_code = Some("cancelled".into());
                self.failure = Some(bilingual!("실행이 취소되었습니다", "the run was cancelled"));
            }
            RunEventBody::Paused { questions } => self.questions.clone_from(questions),
            RunEventBody::Resumed { .. } => self.questions.clear(),
            RunEventBody::Draining | RunEventBody::Error { .. } => {
                self.error_code = Some("stopping".into());
                self.failure = Some(bilingual!(
                    "서버가 멈추는 중입니다. 실행은 다음 시작에서 이어집니다",
                    "the server is stopping; the run goes on at its next start"
                ));
            }
            RunEventBody::Restarted { .. } | RunEventBody::Finished | RunEventBody::Delta { .. } => {}
        }
        Ok(String::new())
    }

    /// Takes in what a node did, and gives the words of its replies that were not shown yet.
    fn apply_task(&mut self, task: &StepTask) -> anyhow::Result<String> {
        if let Some(progress) = task.update.get("progress") {
            self.progress = serde_json::from_value(progress.clone())?;
        }
        self.cited.add_sources_of_update(&task.update);
        let calls = describe_tool_calls(&StepNotes::from_notes(&task.notes)?.events, self.progress.language);
        self.steps.push(describe_step(task, &calls));
        self.calls.extend(calls);
        self.tokens += task.input_tokens + task.output_tokens;
        // Agents have the names of their designs.
        let code = ["errorCode", "error_code"].iter().find_map(|name| task.update.get(*name)?.as_str());
        if let Some(code) = code {
            let ModelErrorAdvice { ko, en } = advice(code);
            self.error_code = Some(code.to_owned());
            self.failure =
                Some(bilingual!("답하지 못했습니다. {ko} ({code})", "there is no answer. {en} ({code})"));
            self.text_is_error_reply = true;
        }
        let mut told = String::new();
        for (message, sources) in history::messages_in_update(&task.update)? {
            // What is said stays said: a node that shortens the working messages afterwards takes no word back.
            let is_new = self.seen_message_ids.insert(message.id.clone());
            if is_new && message.role == Role::Assistant && !message.text().is_empty() {
                self.text = message.text();
                self.sources = sources;
                told.push_str(&self.unshown_reply_text());
                self.finish_reply();
            }
        }
        Ok(told)
    }

    /// Shows words of the reply in progress. Two replies do not run into one another.
    fn append_reply_text(&mut self, words: &str) -> String {
        let begins = self.shown_reply.is_empty() && !words.is_empty();
        self.shown_reply.push_str(words);
        if begins && self.has_earlier_reply { format!("\n\n{words}") } else { words.to_owned() }
    }

    /// What of the reply on record was not shown yet: all of it when the words came before anybody looked.
    fn unshown_reply_text(&mut self) -> String {
        let rest = match self.text.strip_prefix(&self.shown_reply) {
            Some(rest) => rest.to_owned(),
            None if self.text.trim() == self.shown_reply.trim() => String::new(),
            None => format!("\n{}", self.text),
        };
        self.append_reply_text(&rest)
    }

    /// The reply in progress is whole; what comes after it is another.
    fn finish_reply(&mut self) {
        self.has_earlier_reply |= !self.shown_reply.is_empty();
        self.shown_reply.clear();
    }

    /// The nodes in order.
    pub(crate) fn node_path(&self) -> &[String] {
        &self.progress.path
    }

    /// A line a source, in the order of their numbers.
    pub(crate) fn source_lines(&self, language: OutputLanguage) -> Vec<String> {
        self.numbered_sources(language).into_iter().map(|(_, line)| line).collect()
    }

    /// The sources in the order of their numbers, each with its line: its number, what it is called, the page and the
    /// document.
    pub(crate) fn numbered_sources(&self, language: OutputLanguage) -> Vec<(&AnswerSource, String)> {
        let line = |source: &AnswerSource| {
            let page = source.page.map(|page| bilingual!("{page}쪽", "p. {page}").text(language).to_owned());
            // What was handed in as a file goes by a number that tells a person nothing.
            let is_number =
                source.document.len() == 32 && source.document.bytes().all(|byte| byte.is_ascii_hexdigit());
            let document = (!is_number).then(|| source.document.clone());
            let article =
                source.article.as_deref().map(|article| localize_article_numbers(article, &source.title));
            let rest: Vec<String> = [article, page, document].into_iter().flatten().collect();
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
    pub(crate) fn to_json(&self, thread: &str, seconds: f64, language: OutputLanguage) -> Value {
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

/// What a node did, on a line.
fn describe_step(task: &StepTask, calls: &[String]) -> BilingualMessage {
    let (node, ms) = (&task.node, task.ms);
    let found = task.update.get("context").and_then(|found| found.as_array()).map_or(0, Vec::len);
    let called = calls.iter().map(|call| format!(" {call}")).collect::<String>();
    match found {
        0 => bilingual!("{node}{called} {ms}밀리초", "{node}{called} {ms} ms"),
        found => {
            bilingual!("{node} 문단 {found}개{called} {ms}밀리초", "{node} {found} passages{called} {ms} ms")
        }
    }
}

/// The tool calls of a node, as it noted them, for a person who asked in this language.
fn describe_tool_calls(shown: &[AgentActivity], language: Spoken) -> Vec<String> {
    let arguments_of = |id: &str| {
        shown.iter().find_map(|activity| match activity {
            AgentActivity::ToolCall { call, arguments, .. } if call == id => {
                Some(format_arguments(arguments, language))
            }
            _ => None,
        })
    };
    let described = shown.iter().filter_map(|activity| match activity {
        AgentActivity::ToolResult { call, name, text, failed, .. } => {
            let text = truncate_to_line(&localize_place_label(text));
            let sign = if *failed { "✗" } else { "=" };
            Some(format!("{name}({}) {sign} {text}", arguments_of(call).unwrap_or_default()))
        }
        _ => None,
    });
    described.collect()
}

/// What was found begins with its place in brackets, which is named in the language of its document.
fn localize_place_label(text: &str) -> String {
    match text.strip_prefix('[').and_then(|rest| rest.split_once("]\n")) {
        Some((place, rest)) => format!("[{}]\n{rest}", localize_article_numbers(place, place)),
        None => text.to_owned(),
    }
}

/// Arguments as a person would write them: the value alone when there is one.
fn format_arguments(arguments: &Value, language: Spoken) -> String {
    let values: Vec<&Value> = arguments.as_object().into_iter().flat_map(|fields| fields.values()).collect();
    match values.as_slice() {
        [] => String::new(),
        [Value::String(only)] if language == Spoken::En => {
            truncate_to_line(&localize_article_numbers(only, only))
        }
        [Value::String(only)] => truncate_to_line(only),
        _ => truncate_to_line(&arguments.to_string()),
    }
}

/// Articles are counted in Korean (제2조); of a document that is not in Korean, in English.
pub(crate) fn localize_article_numbers(label: &str, title: &str) -> String {
    let pieces = |text: &str| -> Vec<String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('제') {
            let after = &rest[at + '제'.len_utf8()..];
            let digits = after.find(|char: char| !char.is_ascii_digit()).unwrap_or(after.len());
            match after[digits..].strip_prefix('조') {
                Some(tail) if digits > 0 => {
                    pieces.extend([rest[..at].to_owned(), after[..digits].to_owned()]);
                    rest = tail;
                }
                _ => {
                    pieces.clear();
                    return pieces;
                }
            }
        }
        pieces.push(rest.to_owned());
        pieces
    };
    let is_korean = |text: &str| text.chars().any(|char| ('가'..='힣').contains(&char));
    let of_title = pieces(title);
    if of_title.is_empty() || of_title.iter().any(|piece| is_korean(piece)) {
        return label.to_owned();
    }
    let mut named = String::new();
    for (place, piece) in pieces(label).iter().enumerate() {
        // Words and numbers take turns.
        match place % 2 {
            0 if place > 0 && piece.starts_with('(') => named.push_str(&format!(" {piece}")),
            0 => named.push_str(piece),
            _ => named.push_str(&format!("Article {piece}")),
        }
    }
    named
}

fn truncate_to_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
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

    fn task_with(update: Value, notes: Value) -> StepTask {
        StepTask {
            node: "call_model".into(),
            ms: 1,
            attempts: 1,
            input_tokens: 2,
            output_tokens: 3,
            update,
            notes: serde_json::from_value(notes).expect("notes"),
        }
    }

    fn step_event(text: &str) -> RunEvent {
        let update = json!({ "messages": [{ "put": Message::assistant("m", text) }] });
        let tasks = vec![task_with(update, json!({}))];
        RunEventBody::Step { step: 2, path: String::new(), tasks, next: Vec::new() }.into()
    }

    #[test]
    fn every_word_is_shown_once_whoever_looked_when() {
        for before in [&[][..], &["하나 "], &["하나 ", "둘"]] {
            let mut answer = StreamedAnswer::default();
            let mut seen = String::new();
            for words in before {
                seen.push_str(&answer.apply_event(&delta_event(words)).expect("taken"));
            }
            seen.push_str(&answer.apply_event(&step_event("하나 둘")).expect("taken"));
            assert_eq!((seen.as_str(), answer.text.as_str(), answer.tokens), ("하나 둘", "하나 둘", 5));
        }
    }

    fn reply_event(id: &str, text: &str) -> RunEvent {
        let update = json!({ "messages": [{ "put": Message::assistant(id, text) }] });
        let tasks = vec![task_with(update, json!({}))];
        RunEventBody::Step { step: 2, path: String::new(), tasks, next: Vec::new() }.into()
    }

    fn collect_words(events: &[RunEvent]) -> String {
        let mut answer = StreamedAnswer::default();
        events.iter().map(|event| answer.apply_event(event).expect("taken")).collect()
    }

    #[test]
    fn what_is_said_before_a_tool_and_after_it_is_shown_once_whoever_looked_when() {
        let (first, second) = ("확인해 볼게요.", "세 시입니다. 늦지 마세요.");
        let tools = RunEventBody::Step {
            step: 3,
            path: String::new(),
            tasks: vec![task_with(json!({}), json!({}))],
            next: Vec::new(),
        };
        for seen in [&[][..], &["확인해 "], &["확인해 ", "볼게요."]] {
            for heard in [&[][..], &["세 시"], &["세 시", "입니다. 늦지 마세요."]] {
                let mut events: Vec<RunEvent> = seen.iter().map(|words| delta_event(words)).collect();
                events.extend([reply_event("a", first), tools.clone().into()]);
                events.extend(heard.iter().map(|words| delta_event(words)));
                // A step of somebody else in between tells nothing again.
                events.extend([tools.clone().into(), reply_event("b", second)]);
                assert_eq!(collect_words(&events), format!("{first}\n\n{second}"), "{seen:?} {heard:?}");
            }
        }
    }

    #[test]
    fn replies_of_one_step_are_told_apart_by_the_tools_between_them() {
        let data = Some(json!({ "type": "tool_call", "call": "a", "name": "clock", "arguments": {} }));
        let call: RunEvent = RunEventBody::Delta {
            node: "agent".into(),
            attempt: 1,
            index: 1,
            text: None,
            data,
            restarted: None,
        }
        .into();
        let events =
            [delta_event("확인해 볼게요."), call, delta_event("세 "), reply_event("a", "세 시입니다.")];
        assert_eq!(collect_words(&events), "확인해 볼게요.\n\n세 시입니다.");
    }

    #[test]
    fn an_answer_that_is_shortened_for_later_turns_is_still_told_whole() {
        let source = json!({ "number": 1, "document": "d", "title": "t", "kind": "general", "passage": "d#0",
            "version": "", "quote": "q", "start": 0, "end": 1 });
        let said = json!({ "messages": [{ "put": Message::assistant("m", "아주 긴 답 [1]") }], "sources": [source] });
        let shortened =
            json!({ "messages": [{ "remove": "q" }, { "put": Message::assistant("m", "아주 […]") }] });
        let mut answer = StreamedAnswer::default();
        let mut seen = String::new();
        for update in [said, shortened] {
            let tasks = vec![task_with(update, json!({}))];
            let step = RunEventBody::Step { step: 1, path: String::new(), tasks, next: Vec::new() };
            seen.push_str(&answer.apply_event(&step.into()).expect("taken"));
        }
        assert_eq!(
            (seen.as_str(), answer.text_with_numbered_sources().as_str()),
            ("아주 긴 답 [1]", "아주 긴 답 [1]")
        );
        assert_eq!(answer.source_lines(OutputLanguage::Korean), ["[1] t  (d)"]);
    }

    #[test]
    fn a_turn_without_an_answer_is_a_failure_whatever_its_agent_calls_the_code() {
        for name in ["errorCode", "error_code"] {
            let mut answer = StreamedAnswer::default();
            let said = json!([{ "put": Message::assistant("m", "지금은 답할 수 없습니다.") }]);
            let update = json!({ name: "model_unavailable", "messages": said });
            let tasks = vec![task_with(update, json!({}))];
            answer
                .apply_event(
                    &RunEventBody::Step { step: 1, path: String::new(), tasks, next: Vec::new() }.into(),
                )
                .expect("taken");
            let shown = answer.to_json("t", 0.1, OutputLanguage::English);
            assert_eq!(
                (&shown["error"], &shown["errorCode"], &shown["response"]),
                (&json!(true), &json!("model_unavailable"), &json!("지금은 답할 수 없습니다."))
            );
            assert!(answer.failure.is_some_and(|failure| failure.en.contains("(model_unavailable)")));
        }
        let mut answer = StreamedAnswer::default();
        let tasks = vec![task_with(json!({ "errorCode": null }), json!({}))];
        answer
            .apply_event(&RunEventBody::Step { step: 1, path: String::new(), tasks, next: Vec::new() }.into())
            .expect("taken");
        assert!(
            answer.failure.is_none()
                && answer.to_json("t", 0.1, OutputLanguage::English).get("error").is_none()
        );
    }

    #[test]
    fn articles_are_counted_in_the_language_of_their_document() {
        let check = |label: &str, title: &str, expected: &str| {
            assert_eq!(localize_article_numbers(label, title), expected)
        };
        let english = "Services Agreement › 제2조(Fees)";
        check(english, english, "Services Agreement › Article 2 (Fees)");
        check("제2조", english, "Article 2");
        check("제5조", "용역계약서 › 제5조(계약 금액)", "제5조");
        check("Handbook › Leave", "Handbook › Leave", "Handbook › Leave");
        check("제도 안내", "제도 안내", "제도 안내");
    }

    fn activities(shown: &Value) -> Vec<AgentActivity> {
        shown.as_array().expect("a list").iter().map(AgentActivity::from_json).collect()
    }

    #[test]
    fn a_tool_call_is_told_with_what_it_gave() {
        let events = activities(&json!([
            { "type": "tool_call", "call": "a", "name": "calculator", "arguments": { "expression": "15-6.5" } },
            { "type": "tool_result", "call": "a", "name": "calculator", "text": "8.5\n", "failed": false, "ms": 0 },
            { "type": "tool_result", "call": "b", "name": "x", "text": "y", "failed": true, "ms": 0 },
        ]));
        assert_eq!(describe_tool_calls(&events, Spoken::Ko), ["calculator(15-6.5) = 8.5", "x() ✗ y"]);
    }

    #[test]
    fn an_article_is_counted_in_the_language_of_whoever_asked_and_of_its_document() {
        let called = |article: &str, place: &str, language: Spoken| {
            let events = activities(&json!([
                { "type": "tool_call", "call": "a", "name": "read", "arguments": { "article": article } },
                { "type": "tool_result", "call": "a", "name": "read", "text": format!("[{place}]\n30 days."), "failed": false },
            ]));
            describe_tool_calls(&events, language).concat()
        };
        assert_eq!(
            called("제2조", "Agreement › 제2조(Fees)", Spoken::En),
            "read(Article 2) = [Agreement › Article 2 (Fees)] 30 days."
        );
        assert_eq!(
            called("제2조", "용역계약서 › 제2조(대금)", Spoken::Ko),
            "read(제2조) = [용역계약서 › 제2조(대금)] 30 days."
        );
        assert_eq!(
            called("제2조", "용역계약서 › 제2조(대금)", Spoken::En),
            "read(Article 2) = [용역계약서 › 제2조(대금)] 30 days."
        );
    }
}
