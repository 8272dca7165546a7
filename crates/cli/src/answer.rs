//! What a person sees of a run, gathered from its events: the words, the steps, the sources.

use doran_agents::{Source, history};
use doran_llm::{Message, Role};
use doran_server::api::{Body, Event, Task};

use crate::output::{Both, both};

/// An answer on its way.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The words so far.
    pub(crate) text: String,
    /// One line a node that finished.
    pub(crate) steps: Vec<Both>,
    /// What the answer quotes.
    pub(crate) sources: Vec<Source>,
    /// Tokens in and out.
    pub(crate) tokens: u64,
    /// Why there is none.
    pub(crate) failure: Option<Both>,
    shown: String,
}

impl Answer {
    /// Takes an event in and gives the words that came with it. Words of a try that was given up are void: what
    /// follows then starts anew.
    pub(crate) fn take(&mut self, event: &Event) -> anyhow::Result<String> {
        match &event.body {
            Body::Delta { text: Some(words), .. } => {
                self.shown.push_str(words);
                return Ok(words.clone());
            }
            Body::Delta { restarted: Some(_), .. } => {
                self.shown.clear();
                return Ok("\n".into());
            }
            Body::Step { tasks, .. } => {
                for task in tasks {
                    self.take_task(task)?;
                }
                return Ok(self.rest());
            }
            Body::Failed { code, message, .. } => {
                self.failure = Some(both!(
                    "실행이 실패했습니다 ({code}): {message}",
                    "the run failed ({code}): {message}"
                ));
            }
            Body::Cancelled { .. } => {
                self.failure = Some(both!("실행이 취소되었습니다", "the run was cancelled"));
            }
            Body::Paused { questions } => {
                let count = questions.len();
                self.failure =
                    Some(both!("실행이 답을 기다립니다: {count}", "the run waits for answers: {count}"));
            }
            Body::Draining | Body::Error { .. } => {
                self.failure = Some(both!("서버가 멈추는 중입니다", "the server is stopping"));
            }
            Body::Started { .. }
            | Body::Resumed { .. }
            | Body::Restarted { .. }
            | Body::Finished
            | Body::Delta { .. } => {}
        }
        Ok(String::new())
    }

    fn take_task(&mut self, task: &Task) -> anyhow::Result<()> {
        let (node, ms) = (&task.node, task.ms);
        let found = task.update.get("context").and_then(|found| found.as_array()).map_or(0, Vec::len);
        self.steps.push(match found {
            0 => both!("{node} {ms}밀리초", "{node} {ms} ms"),
            found => both!("{node} 문단 {found}개 {ms}밀리초", "{node} {found} passages {ms} ms"),
        });
        self.tokens += task.input_tokens + task.output_tokens;
        let answers = history::said_in(&task.update)?;
        let is_answer =
            |said: &&(Message, Vec<Source>)| said.0.role == Role::Assistant && !said.0.text().is_empty();
        if let Some((message, sources)) = answers.iter().rev().find(is_answer) {
            self.text = message.text();
            self.sources.clone_from(sources);
        }
        Ok(())
    }

    /// What of the answer was not shown yet: all of it when the words came before anybody looked.
    fn rest(&mut self) -> String {
        let rest = match self.text.strip_prefix(&self.shown) {
            Some(rest) => rest.to_owned(),
            None => format!("\n{}", self.text),
        };
        if !self.text.is_empty() {
            self.shown = self.text.clone();
        }
        if self.text.is_empty() { String::new() } else { rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(text: &str) -> Event {
        let text = Some(text.to_owned());
        Body::Delta { node: "call_model".into(), attempt: 1, index: 0, text, data: None, restarted: None }
            .into()
    }

    fn step(text: &str) -> Event {
        let update = serde_json::json!({ "messages": [{ "put": Message::assistant("m", text) }] });
        let task = Task {
            node: "call_model".into(),
            ms: 1,
            attempts: 1,
            input_tokens: 2,
            output_tokens: 3,
            update,
            notes: Default::default(),
        };
        Body::Step { step: 2, path: String::new(), tasks: vec![task], next: Vec::new() }.into()
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
}
