//! What a person sees of a run, gathered from its events: the words, the steps, the sources.

use std::collections::HashSet;

use doran_agents::{Cited, Language as Spoken, Progress, Source, history};
use doran_llm::{MessageId, Role};
use doran_server::api::{Advice, Body, Event, Question, Task, advice};
use serde_json::{Value, json};

use crate::output::{Both, Language, both};

/// The most characters of a tool's arguments or result on a line.
const SHOWN: usize = 80;

/// An answer on its way.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The run it is the answer of.
    pub(crate) run: String,
    /// The number of the newest event.
    pub(crate) last: u64,
    /// The words so far.
    pub(crate) text: String,
    /// One line a node that finished.
    pub(crate) steps: Vec<Both>,
    /// One line a tool call: what was called with what, and what it gave.
    pub(crate) calls: Vec<String>,
    /// What the answer quotes.
    pub(crate) sources: Vec<Source>,
    /// Tokens in and out.
    pub(crate) tokens: u64,
    /// Nodes, tools and models of the turn.
    pub(crate) progress: Progress,
    /// What the run waits for.
    pub(crate) questions: Vec<Question>,
    /// Why the answer says that there is none.
    pub(crate) error_code: Option<String>,
    /// Why there is no answer.
    pub(crate) failure: Option<Both>,
    /// Whether the words are those of the agent for having no answer.
    pub(crate) is_excuse: bool,
    /// The numbers by which people know the sources.
    pub(crate) cited: Cited,
    /// What was shown of the reply in progress. A turn may have several, with tools between them.
    shown: String,
    /// Whether a reply of this turn stands above it.
    follows: bool,
    /// The messages that were said.
    said: HashSet<MessageId>,
}

impl Answer {
    /// Takes an event in and gives the words that came with it, their sources numbered as people count. Words of a try
    /// that was given up are void: what follows then starts anew.
    pub(crate) fn take(&mut self, event: &Event) -> anyhow::Result<String> {
        let words = self.read(event)?;
        let mut words = self.cited.pass(&words);
        if matches!(event.body, Body::Step { .. } | Body::Finished | Body::Paused { .. }) {
            words.push_str(&self.cited.rest());
        }
        Ok(words)
    }

    fn read(&mut self, event: &Event) -> anyhow::Result<String> {
        self.last = event.n.unwrap_or(self.last);
        match &event.body {
            Body::Started { run, .. } => self.run.clone_from(run),
            Body::Delta { text: Some(words), .. } => {
                return Ok(self.say(words));
            }
            Body::Delta { restarted: Some(_), .. } | Body::Restarted { .. } if !self.shown.is_empty() => {
                self.cited.begin_anew();
                self.shown.clear();
                // What follows a reply keeps its distance anyway.
                return Ok(if self.follows { String::new() } else { "\n".into() });
            }
            // A node that calls its tools itself has several replies in one step, the last of which is put on record.
            Body::Delta { data: Some(data), .. } if data["type"] == "tool_call" => self.end_reply(),
            Body::Step { tasks, .. } => {
                let told: Result<Vec<String>, _> = tasks.iter().map(|task| self.take_task(task)).collect();
                return Ok(told?.concat());
            }
            Body::Failed { code, message, en, ko, .. } => {
                self.error_code = Some(code.clone());
                self.failure = Some(both!(
                    "실행이 실패했습니다. {ko} ({code}: {message})",
                    "the run failed. {en} ({code}: {message})"
                ));
            }
            Body::Cancelled { .. } => {
                self.error_code = Some("cancelled".into());
                self.failure = Some(both!("실행이 취소되었습니다", "the run was cancelled"));
            }
            Body::Paused { questions } => self.questions.clone_from(questions),
            Body::Resumed { .. } => self.questions.clear(),
            Body::Draining | Body::Error { .. } => {
                self.error_code = Some("stopping".into());
                self.failure = Some(both!(
                    "서버가 멈추는 중입니다. 실행은 다음 시작에서 이어집니다",
                    "the server is stopping; the run goes on at its next start"
                ));
            }
            Body::Restarted { .. } | Body::Finished | Body::Delta { .. } => {}
        }
        Ok(String::new())
    }

    /// Takes in what a node did, and gives the words of its replies that were not shown yet.
    fn take_task(&mut self, task: &Task) -> anyhow::Result<String> {
        if let Some(progress) = task.update.get("progress") {
            self.progress = serde_json::from_value(progress.clone())?;
        }
        self.cited.learn_from(&task.update);
        let calls = calls(task, self.progress.language);
        self.steps.push(step(task, &calls));
        self.calls.extend(calls);
        self.tokens += task.input_tokens + task.output_tokens;
        // Agents have the names of their designs.
        let code = ["errorCode", "error_code"].iter().find_map(|name| task.update.get(*name)?.as_str());
        if let Some(code) = code {
            let Advice { ko, en } = advice(code);
            self.error_code = Some(code.to_owned());
            self.failure =
                Some(both!("답하지 못했습니다. {ko} ({code})", "there is no answer. {en} ({code})"));
            self.is_excuse = true;
        }
        let mut told = String::new();
        for (message, sources) in history::said_in(&task.update)? {
            // What is said stays said: a node that shortens the working messages afterwards takes no word back.
            let is_new = self.said.insert(message.id.clone());
            if is_new && message.role == Role::Assistant && !message.text().is_empty() {
                self.text = message.text();
                self.sources = sources;
                told.push_str(&self.rest());
                self.end_reply();
            }
        }
        Ok(told)
    }

    /// Shows words of the reply in progress. Two replies do not run into one another.
    fn say(&mut self, words: &str) -> String {
        let begins = self.shown.is_empty() && !words.is_empty();
        self.shown.push_str(words);
        if begins && self.follows { format!("\n\n{words}") } else { words.to_owned() }
    }

    /// What of the reply on record was not shown yet: all of it when the words came before anybody looked.
    fn rest(&mut self) -> String {
        let rest = match self.text.strip_prefix(&self.shown) {
            Some(rest) => rest.to_owned(),
            None if self.text.trim() == self.shown.trim() => String::new(),
            None => format!("\n{}", self.text),
        };
        self.say(&rest)
    }

    /// The reply in progress is whole; what comes after it is another.
    fn end_reply(&mut self) {
        self.follows |= !self.shown.is_empty();
        self.shown.clear();
    }

    /// The nodes in order.
    pub(crate) fn path(&self) -> &[String] {
        &self.progress.path
    }

    /// A line a source, in the order of their numbers.
    pub(crate) fn source_lines(&self, language: Language) -> Vec<String> {
        self.listed(language).into_iter().map(|(_, line)| line).collect()
    }

    /// The sources in the order of their numbers, each with its line: its number, what it is called, the page and the
    /// document.
    pub(crate) fn listed(&self, language: Language) -> Vec<(&Source, String)> {
        let line = |source: &Source| {
            let page = source.page.map(|page| both!("{page}쪽", "p. {page}").text(language).to_owned());
            // What was handed in as a file goes by a number that tells a person nothing.
            let is_number =
                source.document.len() == 32 && source.document.bytes().all(|byte| byte.is_ascii_hexdigit());
            let document = (!is_number).then(|| source.document.clone());
            let article = source.article.as_deref().map(|article| counted(article, &source.title));
            let rest: Vec<String> = [article, page, document].into_iter().flatten().collect();
            let rest = if rest.is_empty() { String::new() } else { format!("  ({})", rest.join(", ")) };
            let number = self
                .cited
                .shown(source.number)
                .unwrap_or(usize::try_from(source.number).unwrap_or(usize::MAX));
            (number, format!("[{number}] {}{rest}", counted(&source.title, &source.title)))
        };
        let mut lines: Vec<(&Source, (usize, String))> =
            self.sources.iter().map(|source| (source, line(source))).collect();
        lines.sort_by_key(|(_, (number, _))| *number);
        lines.into_iter().map(|(source, (_, line))| (source, line)).collect()
    }

    /// The whole answer, its sources numbered as people count; to be called before they are listed.
    pub(crate) fn counted_text(&mut self) -> String {
        let (cited, text) = Cited::all(&self.text, self.sources.iter().map(|source| source.number));
        self.cited = cited;
        text
    }

    /// The answer for programs, its sources numbered as people count.
    pub(crate) fn json(&self, thread: &str, seconds: f64, language: Language) -> Value {
        let (cited, response) = Cited::all(&self.text, self.sources.iter().map(|source| source.number));
        let mut shown = json!({
            "response": response, "sessionId": thread, "toolsUsed": self.progress.tools_used,
            "sources": cited.counted(&self.sources), "modelCalls": self.progress.model_calls, "path": self.path(),
            "executionTime": seconds,
        });
        if let Some(failure) = &self.failure {
            shown["error"] = json!(true);
            if !self.is_excuse || self.text.is_empty() {
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
fn step(task: &Task, calls: &[String]) -> Both {
    let (node, ms) = (&task.node, task.ms);
    let found = task.update.get("context").and_then(|found| found.as_array()).map_or(0, Vec::len);
    let called = calls.iter().map(|call| format!(" {call}")).collect::<String>();
    match found {
        0 => both!("{node}{called} {ms}밀리초", "{node}{called} {ms} ms"),
        found => both!("{node} 문단 {found}개{called} {ms}밀리초", "{node} {found} passages{called} {ms} ms"),
    }
}

/// The tool calls of a node, as it noted them, for a person who asked in this language.
fn calls(task: &Task, language: Spoken) -> Vec<String> {
    let events = task.notes.get("events").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let field = |event: &Value, name: &str| event.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
    let results = events.iter().filter(|event| event["type"] == "tool_result");
    let told = results.map(|result| {
        let id = field(result, "call");
        let asked = |event: &&Value| event["type"] == "tool_call" && event["call"] == id.as_str();
        let arguments = events.iter().find(asked).map(|event| arguments(&event["arguments"], language));
        let (name, text) = (field(result, "name"), cut(&headed(&field(result, "text"))));
        let sign = if result["failed"] == true { "✗" } else { "=" };
        format!("{name}({}) {sign} {text}", arguments.unwrap_or_default())
    });
    told.collect()
}

/// What was found begins with its place in brackets, which is named in the language of its document.
fn headed(text: &str) -> String {
    match text.strip_prefix('[').and_then(|rest| rest.split_once("]\n")) {
        Some((place, rest)) => format!("[{}]\n{rest}", counted(place, place)),
        None => text.to_owned(),
    }
}

/// Arguments as a person would write them: the value alone when there is one.
fn arguments(arguments: &Value, language: Spoken) -> String {
    let values: Vec<&Value> = arguments.as_object().into_iter().flat_map(|fields| fields.values()).collect();
    match values.as_slice() {
        [] => String::new(),
        [Value::String(only)] if language == Spoken::En => cut(&counted(only, only)),
        [Value::String(only)] => cut(only),
        _ => cut(&arguments.to_string()),
    }
}

/// Articles are counted in Korean (제2조); of a document that is not in Korean, in English.
pub(crate) fn counted(label: &str, title: &str) -> String {
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

fn cut(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use doran_llm::Message;

    use super::*;

    fn delta(text: &str) -> Event {
        let text = Some(text.to_owned());
        Body::Delta { node: "call_model".into(), attempt: 1, index: 0, text, data: None, restarted: None }
            .into()
    }

    fn task(update: Value, notes: Value) -> Task {
        Task {
            node: "call_model".into(),
            ms: 1,
            attempts: 1,
            input_tokens: 2,
            output_tokens: 3,
            update,
            notes: serde_json::from_value(notes).expect("notes"),
        }
    }

    fn step(text: &str) -> Event {
        let update = json!({ "messages": [{ "put": Message::assistant("m", text) }] });
        let tasks = vec![task(update, json!({}))];
        Body::Step { step: 2, path: String::new(), tasks, next: Vec::new() }.into()
    }

    #[test]
    fn every_word_is_shown_once_whoever_looked_when() {
        for before in [&[][..], &["하나 "], &["하나 ", "둘"]] {
            let mut answer = Answer::default();
            let mut seen = String::new();
            for words in before {
                seen.push_str(&answer.take(&delta(words)).expect("taken"));
            }
            seen.push_str(&answer.take(&step("하나 둘")).expect("taken"));
            assert_eq!((seen.as_str(), answer.text.as_str(), answer.tokens), ("하나 둘", "하나 둘", 5));
        }
    }

    fn reply(id: &str, text: &str) -> Event {
        let update = json!({ "messages": [{ "put": Message::assistant(id, text) }] });
        let tasks = vec![task(update, json!({}))];
        Body::Step { step: 2, path: String::new(), tasks, next: Vec::new() }.into()
    }

    fn words(events: &[Event]) -> String {
        let mut answer = Answer::default();
        events.iter().map(|event| answer.take(event).expect("taken")).collect()
    }

    #[test]
    fn what_is_said_before_a_tool_and_after_it_is_shown_once_whoever_looked_when() {
        let (first, second) = ("확인해 볼게요.", "세 시입니다. 늦지 마세요.");
        let tools = Body::Step {
            step: 3,
            path: String::new(),
            tasks: vec![task(json!({}), json!({}))],
            next: Vec::new(),
        };
        for seen in [&[][..], &["확인해 "], &["확인해 ", "볼게요."]] {
            for heard in [&[][..], &["세 시"], &["세 시", "입니다. 늦지 마세요."]] {
                let mut events: Vec<Event> = seen.iter().map(|words| delta(words)).collect();
                events.extend([reply("a", first), tools.clone().into()]);
                events.extend(heard.iter().map(|words| delta(words)));
                // A step of somebody else in between tells nothing again.
                events.extend([tools.clone().into(), reply("b", second)]);
                assert_eq!(words(&events), format!("{first}\n\n{second}"), "{seen:?} {heard:?}");
            }
        }
    }

    #[test]
    fn replies_of_one_step_are_told_apart_by_the_tools_between_them() {
        let data = Some(json!({ "type": "tool_call", "name": "clock" }));
        let call: Event =
            Body::Delta { node: "agent".into(), attempt: 1, index: 1, text: None, data, restarted: None }
                .into();
        let events = [delta("확인해 볼게요."), call, delta("세 "), reply("a", "세 시입니다.")];
        assert_eq!(words(&events), "확인해 볼게요.\n\n세 시입니다.");
    }

    #[test]
    fn an_answer_that_is_shortened_for_later_turns_is_still_told_whole() {
        let source = json!({ "number": 1, "document": "d", "title": "t", "kind": "general", "passage": "d#0",
            "version": "", "quote": "q", "start": 0, "end": 1 });
        let said = json!({ "messages": [{ "put": Message::assistant("m", "아주 긴 답 [1]") }], "sources": [source] });
        let shortened =
            json!({ "messages": [{ "remove": "q" }, { "put": Message::assistant("m", "아주 […]") }] });
        let mut answer = Answer::default();
        let mut seen = String::new();
        for update in [said, shortened] {
            let tasks = vec![task(update, json!({}))];
            let step = Body::Step { step: 1, path: String::new(), tasks, next: Vec::new() };
            seen.push_str(&answer.take(&step.into()).expect("taken"));
        }
        assert_eq!((seen.as_str(), answer.counted_text().as_str()), ("아주 긴 답 [1]", "아주 긴 답 [1]"));
        assert_eq!(answer.source_lines(Language::Korean), ["[1] t  (d)"]);
    }

    #[test]
    fn a_turn_without_an_answer_is_a_failure_whatever_its_agent_calls_the_code() {
        for name in ["errorCode", "error_code"] {
            let mut answer = Answer::default();
            let said = json!([{ "put": Message::assistant("m", "지금은 답할 수 없습니다.") }]);
            let update = json!({ name: "model_unavailable", "messages": said });
            let tasks = vec![task(update, json!({}))];
            answer
                .take(&Body::Step { step: 1, path: String::new(), tasks, next: Vec::new() }.into())
                .expect("taken");
            let shown = answer.json("t", 0.1, Language::English);
            assert_eq!(
                (&shown["error"], &shown["errorCode"], &shown["response"]),
                (&json!(true), &json!("model_unavailable"), &json!("지금은 답할 수 없습니다."))
            );
            assert!(answer.failure.is_some_and(|failure| failure.en.contains("(model_unavailable)")));
        }
        let mut answer = Answer::default();
        let tasks = vec![task(json!({ "errorCode": null }), json!({}))];
        answer
            .take(&Body::Step { step: 1, path: String::new(), tasks, next: Vec::new() }.into())
            .expect("taken");
        assert!(answer.failure.is_none() && answer.json("t", 0.1, Language::English).get("error").is_none());
    }

    #[test]
    fn articles_are_counted_in_the_language_of_their_document() {
        let check = |label: &str, title: &str, expected: &str| assert_eq!(counted(label, title), expected);
        let english = "Services Agreement › 제2조(Fees)";
        check(english, english, "Services Agreement › Article 2 (Fees)");
        check("제2조", english, "Article 2");
        check("제5조", "용역계약서 › 제5조(계약 금액)", "제5조");
        check("Handbook › Leave", "Handbook › Leave", "Handbook › Leave");
        check("제도 안내", "제도 안내", "제도 안내");
    }

    #[test]
    fn a_tool_call_is_told_with_what_it_gave() {
        let events = json!({ "events": [
            { "type": "tool_call", "call": "a", "name": "calculator", "arguments": { "expression": "15-6.5" } },
            { "type": "tool_result", "call": "a", "name": "calculator", "text": "8.5\n", "failed": false, "ms": 0 },
            { "type": "tool_result", "call": "b", "name": "x", "text": "y", "failed": true, "ms": 0 },
        ]});
        assert_eq!(calls(&task(json!({}), events), Spoken::Ko), ["calculator(15-6.5) = 8.5", "x() ✗ y"]);
    }

    #[test]
    fn an_article_is_counted_in_the_language_of_whoever_asked_and_of_its_document() {
        let called = |article: &str, place: &str, language: Spoken| {
            let events = json!({ "events": [
                { "type": "tool_call", "call": "a", "name": "read", "arguments": { "article": article } },
                { "type": "tool_result", "call": "a", "name": "read", "text": format!("[{place}]\n30 days."), "failed": false },
            ]});
            calls(&task(json!({}), events), language).concat()
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
