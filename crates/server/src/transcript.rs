//! One run told as a conversation: words and news in order, each once, whatever was seen live and whatever is read from
//! the log afterwards. Every dialect that streams is written over this.
//!
//! Pieces of a step in progress are shown early and are no record; the step is, and at last the turn that the run ended
//! with. What those hold and the pieces did not show is told when they come, so that a late watcher ends with the same.

use std::collections::HashMap;

use doran_agents::history;
use doran_agents::protocol::{AgentActivity, StepNotes};
use serde_json::Value;

use crate::api::{QuestionInfo, RunEvent, RunEventBody, StepTask};

/// Between two replies of one turn.
const REPLY_SEPARATOR: &str = "\n\n";

/// The next thing to tell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TranscriptEvent {
    /// The next words of the answer.
    Text(String),
    /// What was told of the answer is void; it begins anew.
    Reset,
    /// News beside the words: a thought, a tool call, a result, sources.
    Activity(AgentActivity),
    /// The run waits for answers.
    Questions(Vec<QuestionInfo>),
    /// The run is over.
    End(TranscriptEnd),
}

/// How a run ended, or why nothing more comes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TranscriptEnd {
    Finished,
    /// It finished, and its answer only says that there is none.
    Unanswered {
        code: String,
        text: String,
    },
    Failed {
        code: String,
        message: String,
    },
    Cancelled,
    /// The server stops, or the log cannot be read on. The run itself goes on.
    Disconnected,
}

/// Turns events into what is told.
#[derive(Debug, Default)]
pub(crate) struct TranscriptReducer {
    /// Of the step in progress, by node.
    pending: HashMap<String, PendingNodeReply>,
    /// All words that were told and not taken back.
    text: String,
    /// So many bytes of them are replies on record: what an agent says before it calls a tool stands, whatever becomes of
    /// the reply after it.
    settled_bytes: usize,
}

#[derive(Debug, Default)]
struct PendingNodeReply {
    /// The words of its reply so far. A tool call ends one reply, and another may follow in the same step.
    text: String,
    activity_count: usize,
    /// What was settled before its first words: so much stands if its try is void.
    settled_before: Option<usize>,
}

impl TranscriptReducer {
    /// What the next event tells.
    pub(crate) fn apply_event(&mut self, event: RunEvent) -> Vec<TranscriptEvent> {
        let mut told = Vec::new();
        self.reduce_event(event, &mut told);
        told
    }

    /// What is left to tell of the answer that the run ended with.
    pub(crate) fn finish(&mut self, response: &str) -> Vec<TranscriptEvent> {
        let mut told = Vec::new();
        if self.text.trim_end().ends_with(response.trim_end()) {
            return told;
        }
        if let Some(rest) = response.strip_prefix(&self.text[self.settled_bytes..]) {
            self.push_text(rest, &mut told);
        } else {
            self.discard_unsettled(&mut told);
            self.push_text(response, &mut told);
        }
        told
    }

    /// Tells words. Two replies do not run into one another.
    fn push_text(&mut self, words: &str, told: &mut Vec<TranscriptEvent>) {
        if words.is_empty() {
            return;
        }
        let runs_on = self.text.len() > self.settled_bytes || words.starts_with(char::is_whitespace);
        if !runs_on && self.text.ends_with(|last: char| !last.is_whitespace()) {
            self.text.push_str(REPLY_SEPARATOR);
            self.settled_bytes = self.text.len();
            told.push(TranscriptEvent::Text(REPLY_SEPARATOR.to_owned()));
        }
        self.text.push_str(words);
        told.push(TranscriptEvent::Text(words.to_owned()));
    }

    /// Takes back what is on no record. A listener knows only how to begin anew, so what stands is told again.
    fn discard_unsettled(&mut self, told: &mut Vec<TranscriptEvent>) {
        self.settled_bytes = self.text.floor_char_boundary(self.settled_bytes);
        self.text.truncate(self.settled_bytes);
        told.push(TranscriptEvent::Reset);
        if !self.text.is_empty() {
            told.push(TranscriptEvent::Text(self.text.clone()));
        }
    }

    fn reduce_event(&mut self, event: RunEvent, told: &mut Vec<TranscriptEvent>) {
        match event.body {
            RunEventBody::Started { .. } | RunEventBody::Resumed { .. } => {}
            RunEventBody::Delta { node, text, data, restarted, .. } => {
                self.apply_delta(node, text, data, restarted.is_some(), told);
            }
            RunEventBody::Step { path, tasks, .. } => {
                for task in &tasks {
                    self.apply_task(task, told);
                }
                if path.is_empty() {
                    self.pending.clear();
                }
            }
            // What the step in progress had shown before the crash is void.
            RunEventBody::Restarted { .. } => {
                if let Some(before) = self.pending.values().filter_map(|open| open.settled_before).min() {
                    self.settled_bytes = before;
                    self.discard_unsettled(told);
                }
                self.pending.clear();
            }
            RunEventBody::Paused { questions } => told.push(TranscriptEvent::Questions(questions)),
            RunEventBody::Finished => told.push(TranscriptEvent::End(TranscriptEnd::Finished)),
            RunEventBody::Failed { code, message, .. } => {
                told.push(TranscriptEvent::End(TranscriptEnd::Failed { code, message }))
            }
            RunEventBody::Cancelled { .. } => told.push(TranscriptEvent::End(TranscriptEnd::Cancelled)),
            RunEventBody::Draining | RunEventBody::Error { .. } => {
                told.push(TranscriptEvent::End(TranscriptEnd::Disconnected))
            }
        }
    }

    fn apply_delta(
        &mut self,
        node: String,
        text: Option<String>,
        data: Option<Value>,
        void: bool,
        told: &mut Vec<TranscriptEvent>,
    ) {
        let mut open = self.pending.remove(&node).unwrap_or_default();
        if void {
            if let Some(before) = open.settled_before {
                self.settled_bytes = before;
                self.discard_unsettled(told);
            }
            open = PendingNodeReply::default();
        }
        if let Some(text) = text {
            open.settled_before = open.settled_before.or(Some(self.settled_bytes));
            open.text.push_str(&text);
            self.push_text(&text, told);
        }
        if let Some(data) = data {
            open.activity_count += 1;
            let activity = AgentActivity::from_json(&data);
            if activity.is_tool_call() {
                open.text.clear();
                self.settled_bytes = self.text.len();
            }
            told.push(TranscriptEvent::Activity(activity));
        }
        self.pending.insert(node, open);
    }

    fn apply_task(&mut self, task: &StepTask, told: &mut Vec<TranscriptEvent>) {
        let open = self.pending.remove(&task.node).unwrap_or_default();
        let events = StepNotes::from_notes(&task.notes).map(|notes| notes.events).unwrap_or_default();
        let unseen = events.get(open.activity_count..).unwrap_or_default();
        if !open.text.is_empty()
            && !self.settle_reply(&open.text, &task.update, told)
            && unseen.iter().any(AgentActivity::is_tool_call)
        {
            // A reply that ended in a tool call, of which only the last one of the step is on record: it was cut off here.
            self.push_text("…", told);
            self.settled_bytes = self.text.len();
        }
        told.extend(unseen.iter().cloned().map(TranscriptEvent::Activity));
    }

    /// The words of a node are on record: those that came too late to be seen on their way are told now. Whether they are.
    fn settle_reply(&mut self, seen: &str, update: &Value, told: &mut Vec<TranscriptEvent>) -> bool {
        let Ok(replies) = history::assistant_text_in_update(update) else { return false };
        match replies.strip_prefix(seen) {
            Some(rest) => self.push_text(rest, told),
            None if replies.trim() == seen.trim() => {}
            // Words that are on no record: how the turn ended decides about them.
            None => return false,
        }
        self.settled_bytes = self.text.len();
        true
    }
}

#[cfg(test)]
mod tests {
    use doran_llm::Message;
    use serde_json::json;

    use super::*;

    fn delta(node: &str, text: &str) -> RunEvent {
        let text = Some(text.to_owned());
        RunEventBody::Delta { node: node.into(), attempt: 1, index: 0, text, data: None, restarted: None }
            .into()
    }

    fn step(node: &str, events: Value) -> RunEvent {
        let task = StepTask {
            node: node.into(),
            ms: 1,
            attempts: 1,
            input_tokens: 0,
            output_tokens: 0,
            update: json!({}),
            notes: [("events".to_owned(), events)].into(),
        };
        RunEventBody::Step { step: 1, path: String::new(), tasks: vec![task], next: vec![] }.into()
    }

    /// A step that puts this reply on record.
    fn recorded_reply(node: &str, reply: &str) -> RunEvent {
        let mut event =
            step(node, json!([{ "type": "tool_call", "call": "a", "name": "f", "arguments": {} }]));
        if let RunEventBody::Step { tasks, .. } = &mut event.body {
            tasks[0].update = json!({ "messages": [{ "put": Message::assistant("m", reply) }] });
        }
        event
    }

    fn reduced_text(events: Vec<RunEvent>, response: &str) -> String {
        let mut fold = TranscriptReducer::default();
        let mut words = String::new();
        let mut told: Vec<TranscriptEvent> =
            events.into_iter().flat_map(|event| fold.apply_event(event)).collect();
        told.extend(fold.finish(response));
        for told in told {
            match told {
                TranscriptEvent::Text(more) => words.push_str(&more),
                TranscriptEvent::Reset => words.clear(),
                TranscriptEvent::Activity(_) | TranscriptEvent::Questions(_) | TranscriptEvent::End(_) => {}
            }
        }
        words
    }

    #[test]
    fn words_end_the_same_whatever_was_seen_live() {
        let whole = "연차는 15일입니다. [1]";
        for seen in [vec![], vec!["연차는 "], vec!["연차는 ", "15일입니다. ", "[1]"], vec!["다른 말"]]
        {
            let mut events: Vec<RunEvent> = seen.iter().map(|text| delta("agent", text)).collect();
            events.push(step("agent", json!([])));
            assert_eq!(reduced_text(events, whole), whole, "{seen:?}");
        }
        let before_a_tool =
            vec![delta("agent", "찾아보겠습니다. "), step("agent", json!([])), delta("agent", whole)];
        assert_eq!(reduced_text(before_a_tool, whole), format!("찾아보겠습니다. {whole}"));
    }

    #[test]
    fn what_is_said_before_a_tool_stands_whatever_was_seen_live() {
        let (first, whole) = ("시간을 확인해 볼게요.", "지금은 세 시입니다. 늦지 마세요.");
        for seen in ["", "시간을 ", first] {
            for heard in ["", "지금은 세", whole] {
                let pieces = |text: &str| (!text.is_empty()).then(|| delta("agent", text));
                let events: Vec<RunEvent> = [
                    pieces(seen),
                    Some(recorded_reply("agent", first)),
                    Some(step("tools", json!([]))),
                    pieces(heard),
                    Some(recorded_reply("agent", whole)),
                ]
                .into_iter()
                .flatten()
                .collect();
                let mut fold = TranscriptReducer::default();
                let mut told: Vec<TranscriptEvent> =
                    events.into_iter().flat_map(|event| fold.apply_event(event)).collect();
                told.extend(fold.finish(whole));
                assert!(!told.contains(&TranscriptEvent::Reset), "{seen:?} {heard:?}: {told:?}");
                let said: String = told
                    .iter()
                    .filter_map(|one| {
                        if let TranscriptEvent::Text(words) = one { Some(words.as_str()) } else { None }
                    })
                    .collect();
                let expected = if seen.is_empty() { whole.to_owned() } else { format!("{first}\n\n{whole}") };
                assert_eq!(said, expected, "{seen:?} {heard:?}");
            }
        }
    }

    #[test]
    fn replies_of_one_step_are_told_apart_by_the_tools_between_them() {
        let call = json!({ "type": "tool_call", "call": "a", "name": "calculator", "arguments": {} });
        let called = || -> RunEvent {
            let data = Some(call.clone());
            RunEventBody::Delta {
                node: "agent".into(),
                attempt: 1,
                index: 0,
                text: None,
                data,
                restarted: None,
            }
            .into()
        };
        for (events, expected) in [
            (vec![delta("agent", "확인해"), recorded_reply("agent", "세 시.")], "확인해…\n\n세 시."),
            (
                vec![delta("agent", "확인해요."), called(), recorded_reply("agent", "세 시.")],
                "확인해요.\n\n세 시.",
            ),
            (
                vec![
                    delta("agent", "확인해요."),
                    called(),
                    delta("agent", "세"),
                    recorded_reply("agent", "세 시."),
                ],
                "확인해요.\n\n세 시.",
            ),
        ] {
            assert_eq!(reduced_text(events, "세 시."), expected);
        }
        let mut again = delta("agent", "확인해요.");
        if let RunEventBody::Delta { restarted, .. } = &mut again.body {
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
            reduced_text(events, "세 시."),
            "확인해요.\n\n세 시.",
            "a try that is void is void with its tools"
        );
    }

    #[test]
    fn a_reply_that_begins_anew_does_not_unsay_the_one_before_it() {
        let mut again = delta("agent", "지금은 네 시입니다.");
        if let RunEventBody::Delta { restarted, .. } = &mut again.body {
            *restarted = Some("reset".into());
        }
        let events = vec![
            delta("agent", "확인해 볼게요. "),
            recorded_reply("agent", "확인해 볼게요. "),
            delta("agent", "지금은 세"),
            again,
        ];
        assert_eq!(reduced_text(events, "지금은 네 시입니다."), "확인해 볼게요. 지금은 네 시입니다.");
    }

    #[test]
    fn news_are_told_once() {
        let thought = json!({ "type": "thinking", "step": "planning", "content": "…" });
        let mut fold = TranscriptReducer::default();
        let live = RunEventBody::Delta {
            node: "planner".into(),
            attempt: 1,
            index: 0,
            text: None,
            data: Some(thought.clone()),
            restarted: None,
        };
        assert_eq!(
            fold.apply_event(live.into()),
            [TranscriptEvent::Activity(AgentActivity::from_json(&thought))]
        );
        assert_eq!(fold.apply_event(step("planner", json!([thought]))), []);
        let told = fold.apply_event(step("planner", json!([thought])));
        assert_eq!(told, [TranscriptEvent::Activity(AgentActivity::from_json(&thought))]);
    }
}
