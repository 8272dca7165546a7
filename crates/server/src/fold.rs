//! One run told as a conversation: words and news in order, each once, whatever was seen live and whatever is read from
//! the log afterwards. Every dialect that streams is written over this.
//!
//! Pieces of a step in progress are shown early and are no record; the step is, and at last the turn that the run ended
//! with. What those hold and the pieces did not show is told when they come, so that a late watcher ends with the same.

use std::collections::HashMap;

use doran_agents::history;
use serde_json::Value;

use crate::api::{Body, Event, Question, Task};

/// Between two replies of one turn.
const GAP: &str = "\n\n";

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
    /// So many bytes of them are replies on record: what an agent says before it calls a tool stands, whatever becomes of
    /// the reply after it.
    settled: usize,
}

#[derive(Debug, Default)]
struct Open {
    /// The words of its reply so far. A tool call ends one reply, and another may follow in the same step.
    words: String,
    news: usize,
    /// What was settled before its first words: so much stands if its try is void.
    before: Option<usize>,
}

impl Fold {
    /// What the next event tells.
    pub(crate) fn take(&mut self, event: Event) -> Vec<Told> {
        let mut told = Vec::new();
        self.read(event, &mut told);
        told
    }

    /// What is left to tell of the answer that the run ended with.
    pub(crate) fn end(&mut self, response: &str) -> Vec<Told> {
        let mut told = Vec::new();
        if self.told.trim_end().ends_with(response.trim_end()) {
            return told;
        }
        if let Some(rest) = response.strip_prefix(&self.told[self.settled..]) {
            self.say(rest, &mut told);
        } else {
            self.void(&mut told);
            self.say(response, &mut told);
        }
        told
    }

    /// Tells words. Two replies do not run into one another.
    fn say(&mut self, words: &str, told: &mut Vec<Told>) {
        if words.is_empty() {
            return;
        }
        let runs_on = self.told.len() > self.settled || words.starts_with(char::is_whitespace);
        if !runs_on && self.told.ends_with(|last: char| !last.is_whitespace()) {
            self.told.push_str(GAP);
            self.settled = self.told.len();
            told.push(Told::Words(GAP.to_owned()));
        }
        self.told.push_str(words);
        told.push(Told::Words(words.to_owned()));
    }

    /// Takes back what is on no record. A listener knows only how to begin anew, so what stands is told again.
    fn void(&mut self, told: &mut Vec<Told>) {
        self.settled = self.told.floor_char_boundary(self.settled);
        self.told.truncate(self.settled);
        told.push(Told::Void);
        if !self.told.is_empty() {
            told.push(Told::Words(self.told.clone()));
        }
    }

    fn read(&mut self, event: Event, told: &mut Vec<Told>) {
        match event.body {
            Body::Started { .. } | Body::Resumed { .. } => {}
            Body::Delta { node, text, data, restarted, .. } => {
                self.piece(node, text, data, restarted.is_some(), told);
            }
            Body::Step { path, tasks, .. } => {
                for task in &tasks {
                    self.task(task, told);
                }
                if path.is_empty() {
                    self.open.clear();
                }
            }
            // What the step in progress had shown before the crash is void.
            Body::Restarted { .. } => {
                if let Some(before) = self.open.values().filter_map(|open| open.before).min() {
                    self.settled = before;
                    self.void(told);
                }
                self.open.clear();
            }
            Body::Paused { questions } => told.push(Told::Asks(questions)),
            Body::Finished => told.push(Told::Over(End::Finished)),
            Body::Failed { code, message, .. } => told.push(Told::Over(End::Failed { code, message })),
            Body::Cancelled { .. } => told.push(Told::Over(End::Cancelled)),
            Body::Draining | Body::Error { .. } => told.push(Told::Over(End::Left)),
        }
    }

    fn piece(
        &mut self,
        node: String,
        text: Option<String>,
        data: Option<Value>,
        void: bool,
        told: &mut Vec<Told>,
    ) {
        let mut open = self.open.remove(&node).unwrap_or_default();
        if void {
            if let Some(before) = open.before {
                self.settled = before;
                self.void(told);
            }
            open = Open::default();
        }
        if let Some(text) = text {
            open.before = open.before.or(Some(self.settled));
            open.words.push_str(&text);
            self.say(&text, told);
        }
        if let Some(data) = data {
            open.news += 1;
            if is_call(&data) {
                open.words.clear();
                self.settled = self.told.len();
            }
            told.push(Told::News(data));
        }
        self.open.insert(node, open);
    }

    fn task(&mut self, task: &Task, told: &mut Vec<Told>) {
        let open = self.open.remove(&task.node).unwrap_or_default();
        let events =
            task.notes.get("events").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let unseen = events.get(open.news..).unwrap_or_default();
        if !open.words.is_empty()
            && !self.settle(&open.words, &task.update, told)
            && unseen.iter().any(is_call)
        {
            // A reply that ended in a tool call, of which only the last one of the step is on record: it was cut off here.
            self.say("…", told);
            self.settled = self.told.len();
        }
        told.extend(unseen.iter().cloned().map(Told::News));
    }

    /// The words of a node are on record: those that came too late to be seen on their way are told now. Whether they are.
    fn settle(&mut self, seen: &str, update: &Value, told: &mut Vec<Told>) -> bool {
        let Ok(replies) = history::replies_in(update) else { return false };
        match replies.strip_prefix(seen) {
            Some(rest) => self.say(rest, told),
            None if replies.trim() == seen.trim() => {}
            // Words that are on no record: how the turn ended decides about them.
            None => return false,
        }
        self.settled = self.told.len();
        true
    }
}

/// Whether news are a call of a tool.
fn is_call(news: &Value) -> bool {
    news["type"] == "tool_call"
}

#[cfg(test)]
mod tests {
    use doran_llm::Message;
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

    /// A step that puts this reply on record.
    fn replied(node: &str, reply: &str) -> Event {
        let mut event = step(node, json!([{ "type": "tool_call" }]));
        if let Body::Step { tasks, .. } = &mut event.body {
            tasks[0].update = json!({ "messages": [{ "put": Message::assistant("m", reply) }] });
        }
        event
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
    fn what_is_said_before_a_tool_stands_whatever_was_seen_live() {
        let (first, whole) = ("시간을 확인해 볼게요.", "지금은 세 시입니다. 늦지 마세요.");
        for seen in ["", "시간을 ", first] {
            for heard in ["", "지금은 세", whole] {
                let pieces = |text: &str| (!text.is_empty()).then(|| delta("agent", text));
                let events: Vec<Event> = [
                    pieces(seen),
                    Some(replied("agent", first)),
                    Some(step("tools", json!([]))),
                    pieces(heard),
                    Some(replied("agent", whole)),
                ]
                .into_iter()
                .flatten()
                .collect();
                let mut fold = Fold::default();
                let mut told: Vec<Told> = events.into_iter().flat_map(|event| fold.take(event)).collect();
                told.extend(fold.end(whole));
                assert!(!told.contains(&Told::Void), "{seen:?} {heard:?}: {told:?}");
                let said: String = told
                    .iter()
                    .filter_map(|one| if let Told::Words(words) = one { Some(words.as_str()) } else { None })
                    .collect();
                let expected = if seen.is_empty() { whole.to_owned() } else { format!("{first}\n\n{whole}") };
                assert_eq!(said, expected, "{seen:?} {heard:?}");
            }
        }
    }

    #[test]
    fn replies_of_one_step_are_told_apart_by_the_tools_between_them() {
        let call = json!({ "type": "tool_call", "name": "calculator" });
        let called = || -> Event {
            let data = Some(call.clone());
            Body::Delta { node: "agent".into(), attempt: 1, index: 0, text: None, data, restarted: None }
                .into()
        };
        for (events, expected) in [
            (vec![delta("agent", "확인해"), replied("agent", "세 시.")], "확인해…\n\n세 시."),
            (vec![delta("agent", "확인해요."), called(), replied("agent", "세 시.")], "확인해요.\n\n세 시."),
            (
                vec![delta("agent", "확인해요."), called(), delta("agent", "세"), replied("agent", "세 시.")],
                "확인해요.\n\n세 시.",
            ),
        ] {
            assert_eq!(words(events, "세 시."), expected);
        }
        let mut again = delta("agent", "확인해요.");
        if let Body::Delta { restarted, .. } = &mut again.body {
            *restarted = Some("reset".into());
        }
        let events = vec![
            delta("agent", "확인해요."),
            called(),
            delta("agent", "두"),
            again,
            called(),
            delta("agent", "세 시."),
        ];
        assert_eq!(
            words(events, "세 시."),
            "확인해요.\n\n세 시.",
            "a try that is void is void with its tools"
        );
    }

    #[test]
    fn a_reply_that_begins_anew_does_not_unsay_the_one_before_it() {
        let mut again = delta("agent", "지금은 네 시입니다.");
        if let Body::Delta { restarted, .. } = &mut again.body {
            *restarted = Some("reset".into());
        }
        let events = vec![
            delta("agent", "확인해 볼게요. "),
            replied("agent", "확인해 볼게요. "),
            delta("agent", "지금은 세"),
            again,
        ];
        assert_eq!(words(events, "지금은 네 시입니다."), "확인해 볼게요. 지금은 네 시입니다.");
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
