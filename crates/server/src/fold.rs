//! One run told as a conversation: words and news in order, each once, whatever was seen live and whatever is read from
//! the log afterwards. Every dialect that streams is written over this.
//!
//! Pieces of a step in progress are shown early and are no record; the step is, and at last the turn that the run ended
//! with. What those hold and the pieces did not show is told when they come, so that a late watcher ends with the same.

use std::collections::HashMap;

use serde_json::Value;

use crate::api::{Body, Event, Question, Task};

/// The next thing to tell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    /// The next words of the answer.
    Words(String),
    /// What was told of the answer is void; it begins anew.
    Void,
    /// News beside the words: a thought, a tool call, a result, sources.
    News(Value),
    /// The run waits for answers.
    Asks(Vec<Question>),
    /// The run is over.
    Over(End),
}

/// How a run ended, or why nothing more comes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    Finished,
    /// It finished, and its answer only says that there is none.
    Unanswered {
        code: String,
        words: String,
    },
    Failed {
        code: String,
        message: String,
    },
    Cancelled,
    /// The server stops, or the log cannot be read on. The run itself goes on.
    Left,
}

/// Turns events into what is told.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    /// Of the step in progress, by node.
    open: HashMap<String, Open>,
    /// All words that were told and not taken back.
    told: String,
}

#[derive(Debug, Default)]
struct Open {
    words: String,
    news: usize,
}

impl Fold {
    /// What the next event tells.
    pub(crate) fn take(&mut self, event: Event) -> Vec<Told> {
        let told = self.read(event);
        self.count(&told);
        told
    }

    /// What is left to tell of the answer that the run ended with.
    pub(crate) fn end(&mut self, response: &str) -> Vec<Told> {
        let told = if self.told.trim_end().ends_with(response.trim_end()) {
            Vec::new()
        } else if let Some(rest) = response.strip_prefix(self.told.as_str()) {
            vec![Told::Words(rest.to_owned())]
        } else {
            vec![Told::Void, Told::Words(response.to_owned())]
        };
        self.count(&told);
        told
    }

    fn count(&mut self, told: &[Told]) {
        for one in told {
            match one {
                Told::Words(words) => self.told.push_str(words),
                Told::Void => self.told.clear(),
                Told::News(_) | Told::Asks(_) | Told::Over(_) => {}
            }
        }
    }

    fn read(&mut self, event: Event) -> Vec<Told> {
        match event.body {
            Body::Started { .. } | Body::Resumed { .. } => Vec::new(),
            Body::Delta { node, text, data, restarted, .. } => {
                self.piece(node, text, data, restarted.is_some())
            }
            Body::Step { path, tasks, .. } => {
                let told = tasks.iter().flat_map(|task| self.task(task)).collect();
                if path.is_empty() {
                    self.open.clear();
                }
                told
            }
            // What the step in progress had shown before the crash is void.
            Body::Restarted { .. } => self.void_all(),
            Body::Paused { questions } => vec![Told::Asks(questions)],
            Body::Finished => vec![Told::Over(End::Finished)],
            Body::Failed { code, message, .. } => vec![Told::Over(End::Failed { code, message })],
            Body::Cancelled { .. } => vec![Told::Over(End::Cancelled)],
            Body::Draining | Body::Error { .. } => vec![Told::Over(End::Left)],
        }
    }

    fn piece(&mut self, node: String, text: Option<String>, data: Option<Value>, void: bool) -> Vec<Told> {
        let open = self.open.entry(node).or_default();
        let mut told = Vec::new();
        if void {
            if !open.words.is_empty() {
                told.push(Told::Void);
            }
            *open = Open::default();
        }
        if let Some(text) = text {
            open.words.push_str(&text);
            told.push(Told::Words(text));
        }
        if let Some(data) = data {
            open.news += 1;
            told.push(Told::News(data));
        }
        told
    }

    fn task(&mut self, task: &Task) -> Vec<Told> {
        let open = self.open.remove(&task.node).unwrap_or_default();
        let mut told = Vec::new();
        if let Some(Value::Array(events)) = task.notes.get("events") {
            told.extend(events.iter().skip(open.news).cloned().map(Told::News));
        }
        told
    }

    fn void_all(&mut self) -> Vec<Told> {
        let shown = self.open.values().any(|open| !open.words.is_empty());
        self.open.clear();
        if shown { vec![Told::Void] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn delta(node: &str, text: &str) -> Event {
        let text = Some(text.to_owned());
        Body::Delta { node: node.into(), attempt: 1, index: 0, text, data: None, restarted: None }.into()
    }

    fn step(node: &str, events: Value) -> Event {
        let task = Task {
            node: node.into(),
            ms: 1,
            attempts: 1,
            input_tokens: 0,
            output_tokens: 0,
            update: json!({}),
            notes: [("events".to_owned(), events)].into(),
        };
        Body::Step { step: 1, path: String::new(), tasks: vec![task], next: vec![] }.into()
    }

    fn words(events: Vec<Event>, response: &str) -> String {
        let mut fold = Fold::default();
        let mut words = String::new();
        let mut told: Vec<Told> = events.into_iter().flat_map(|event| fold.take(event)).collect();
        told.extend(fold.end(response));
        for told in told {
            match told {
                Told::Words(more) => words.push_str(&more),
                Told::Void => words.clear(),
                Told::News(_) | Told::Asks(_) | Told::Over(_) => {}
            }
        }
        words
    }

    #[test]
    fn words_end_the_same_whatever_was_seen_live() {
        let whole = "연차는 15일입니다. [1]";
        for seen in [vec![], vec!["연차는 "], vec!["연차는 ", "15일입니다. ", "[1]"], vec!["다른 말"]]
        {
            let mut events: Vec<Event> = seen.iter().map(|text| delta("agent", text)).collect();
            events.push(step("agent", json!([])));
            assert_eq!(words(events, whole), whole, "{seen:?}");
        }
        let before_a_tool =
            vec![delta("agent", "찾아보겠습니다. "), step("agent", json!([])), delta("agent", whole)];
        assert_eq!(words(before_a_tool, whole), format!("찾아보겠습니다. {whole}"));
    }

    #[test]
    fn news_are_told_once() {
        let thought = json!({ "type": "thinking", "step": "planning", "content": "…" });
        let mut fold = Fold::default();
        let live = Body::Delta {
            node: "planner".into(),
            attempt: 1,
            index: 0,
            text: None,
            data: Some(thought.clone()),
            restarted: None,
        };
        assert_eq!(fold.take(live.into()), [Told::News(thought.clone())]);
        assert_eq!(fold.take(step("planner", json!([thought]))), []);
        assert_eq!(fold.take(step("planner", json!([thought]))), [Told::News(thought)]);
    }
}
