//! Events of a run as clients see them.

use std::collections::BTreeMap;

use doran_agents::protocol::{
    AgentActivity, EffectOutcomeAnswer, InterruptQuestion, StepNotes, ToolApprovalAnswer,
};
use doran_agents::transcript::{TaskTranscript, TranscriptChange, TranscriptReducer};
use doran_agents::{Agent, TurnUpdate};
use doran_engine::runtime::NodeDeltaContent;
use doran_engine::store::{RunFailure, RunUsage, StoreError};
use doran_engine::{
    EntryBody, PendingQuestion, QuestionKind, RunId, RunKey, TaskResult, ThreadEntry, UnfinishedTask,
    stored_json,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ModelErrorAdvice, Problem, advice};

/// An event of a run. `type` is also the name of its frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunEvent {
    /// The number of the event within the run, from 1 without gaps. Deltas have no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// When the event was written, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<i64>,
    /// What happened.
    #[serde(flatten)]
    pub body: RunEventBody,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunEventBody {
    /// The run began.
    Started {
        /// Its agent.
        agent: String,
        /// Its thread.
        thread: String,
        /// Its id.
        run: String,
    },
    /// A step is on disk.
    Step {
        /// Steps finished so far.
        step: u32,
        /// Where a step inside a node belongs.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        path: String,
        /// What each node did.
        tasks: Vec<StepTask>,
        /// What is due next.
        next: Vec<String>,
    },
    /// The run waits for answers.
    Paused {
        /// What it asks.
        questions: Vec<QuestionInfo>,
    },
    /// Questions were answered.
    Resumed {
        /// By question.
        answers: BTreeMap<String, Value>,
    },
    /// The run goes on after a crash or a takeover.
    Restarted {
        /// Why.
        why: String,
    },
    /// The run ended well.
    Finished,
    /// The run ended with an error.
    Failed {
        /// Stable, for programs.
        code: String,
        /// The message of the error.
        message: String,
        /// For people.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        en: String,
        /// The same in Korean.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        ko: String,
        /// The node that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// Nodes of the last step that did not finish.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unfinished: Vec<UnfinishedTask>,
    },
    /// The run was cancelled.
    Cancelled {
        /// Text shown before it was cut off, by node.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        partial: BTreeMap<String, String>,
        /// Nodes of the step that was cut off.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unfinished: Vec<UnfinishedTask>,
    },
    /// A piece of the step in progress. Shown early, not a record.
    Delta {
        /// The node.
        node: String,
        /// Which try of the node.
        attempt: u32,
        /// Number of the piece within the try, from 0.
        index: u64,
        /// The next words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// What the agent shows beside the text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<KnownOrOther<AgentActivity>>")]
        data: Option<Value>,
        /// The node is tried again, for this reason: what its earlier try showed is void.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        restarted: Option<String>,
    },
    /// Events that were asked for are not there: they were removed after their time of retention, or the number after
    /// which events were asked for is beyond the run.
    Gone {
        /// The number after which events were asked for, or the last one that was sent.
        after: u64,
        /// The number of the next event.
        next: u64,
    },
    /// The server stops. Come back with the number of the last event.
    Draining,
    /// The events cannot be read on. Come back with the number of the last event.
    Error {
        /// The error.
        #[schemars(with = "Problem")]
        problem: Value,
    },
}

/// What a node did in a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepTask {
    /// The node.
    pub node: String,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// How often it was tried.
    pub attempts: u32,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// The change it proposed.
    pub update: Value,
    /// What it noted for people.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "StepNotes")]
    pub notes: BTreeMap<String, Value>,
    /// What the change says about the turn, as its agent reads it; absent where the agent is not
    /// there any more, or became another under the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnUpdate>,
}

/// A question of a run to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionInfo {
    /// The id of the question. The answer names it.
    pub id: String,
    /// The run that asks. It takes the answer. It may be an earlier run of the thread.
    #[serde(default)]
    pub run: String,
    /// The node that asks.
    pub node: String,
    /// Why the run waits: a node asks, a breakpoint was reached, or it is unknown whether a call happened that must not be
    /// repeated.
    pub kind: QuestionKind,
    /// The question. `answer` is an example of an answer to a question about a tool, to one of the kind `effect_unknown`, which
    /// takes `{"result": …}` if the call happened and `{"retry": true}` if it did not and may be made, and to a breakpoint, which
    /// takes any.
    #[schemars(with = "KnownOrOther<InterruptQuestion>")]
    pub question: Value,
    /// Why the last answer was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The schema of JSON that may come from another version.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum KnownOrOther<T> {
    Known(T),
    Other(Value),
}

impl QuestionInfo {
    /// The question, read.
    pub fn interrupt(&self) -> InterruptQuestion {
        InterruptQuestion::from_json(&self.question)
    }

    /// The open questions of a thread.
    pub(crate) fn from_log_all(questions: &[(RunKey, PendingQuestion)]) -> Vec<Self> {
        questions.iter().map(|(run, ask)| Self::from_log(run.run, ask)).collect()
    }

    pub(crate) fn from_log(run: RunId, ask: &PendingQuestion) -> Self {
        let PendingQuestion { id, node, kind, mut question, problem } = ask.clone();
        // In words and with an example, for whoever answers without having read about it.
        let added = match kind {
            QuestionKind::EffectUnknown => json!({
                "ko": format!("`{node}` 노드에서 중단된 호출이 실행되었나요?"),
                "en": format!("a call of the node `{node}` was cut off; did it happen?"),
                "answer": EffectOutcomeAnswer::Result("…".into()).to_json(),
            }),
            QuestionKind::Breakpoint => {
                let (ko, en) =
                    if question["pause"] == "after" { ("뒤", "after") } else { ("앞", "before") };
                json!({
                    "ko": format!("`{node}` 노드 {ko}에서 멈췄습니다. 계속할까요?"),
                    "en": format!("the run paused {en} the node `{node}`; continue?"),
                    "answer": true,
                })
            }
            _ if InterruptQuestion::from_json(&question).is_tool_approval() => {
                json!({ "answer": ToolApprovalAnswer { approve: true, ..Default::default() }.to_json() })
            }
            QuestionKind::Ask | QuestionKind::Timer => Value::Null,
        };
        if let (Value::Object(added), Some(question)) = (added, question.as_object_mut()) {
            for (name, value) in added {
                question.entry(name).or_insert(value);
            }
        }
        Self { id, run: run.to_string(), node, kind, question, problem }
    }
}

impl RunEvent {
    /// An event of the engine as clients see it; `thread` and `agent` are those of its run.
    pub fn from_engine(
        thread: &str,
        agent: Option<&Agent>,
        event: &doran_engine::Event,
    ) -> Result<Self, StoreError> {
        match event {
            doran_engine::Event::Entry(n, entry) => {
                Ok(Self { n: Some(*n), at: Some(entry.at), body: body_from_entry(thread, agent, entry)? })
            }
            doran_engine::Event::Delta(delta) => {
                let (mut text, mut data, mut restarted) = (None, None, None);
                match &delta.piece {
                    NodeDeltaContent::Data(Value::String(words)) => text = Some(words.clone()),
                    NodeDeltaContent::Data(other) => data = Some(other.clone()),
                    NodeDeltaContent::Restarted(why) => restarted = Some(why.clone()),
                }
                let (node, attempt, index) = (delta.node.to_string(), delta.attempt, delta.index);
                Ok(RunEventBody::Delta { node, attempt, index, text, data, restarted }.into())
            }
            doran_engine::Event::Removed { after, next } => {
                Ok(RunEventBody::Gone { after: *after, next: *next }.into())
            }
        }
    }

    /// What the event tells, by a reducer that was told those before it.
    pub fn transcript(
        &self,
        reducer: &mut TranscriptReducer,
    ) -> Result<Vec<TranscriptChange>, serde_json::Error> {
        Ok(match &self.body {
            RunEventBody::Delta { node, text, data, restarted, .. } => {
                let mut changes = Vec::new();
                if restarted.is_some() {
                    changes.extend(reducer.restart_node(node));
                }
                if let Some(words) = text {
                    changes.extend(reducer.add_text(node, words));
                }
                if let Some(shown) = data {
                    changes.extend(reducer.add_activity(node, AgentActivity::from_json(shown)));
                }
                changes
            }
            RunEventBody::Step { path, tasks, .. } => {
                let tasks = tasks.iter().map(StepTask::transcript).collect::<Result<_, _>>()?;
                reducer.add_step(tasks, !path.is_empty())
            }
            RunEventBody::Restarted { .. } => reducer.restart_run(),
            RunEventBody::Started { .. }
            | RunEventBody::Resumed { .. }
            | RunEventBody::Paused { .. }
            | RunEventBody::Finished
            | RunEventBody::Failed { .. }
            | RunEventBody::Cancelled { .. }
            | RunEventBody::Gone { .. }
            | RunEventBody::Draining
            | RunEventBody::Error { .. } => Vec::new(),
        })
    }

    /// The name of its frame. Never text of a client.
    pub fn frame_name(&self) -> &'static str {
        match self.body {
            RunEventBody::Started { .. } => "started",
            RunEventBody::Step { .. } => "step",
            RunEventBody::Paused { .. } => "paused",
            RunEventBody::Resumed { .. } => "resumed",
            RunEventBody::Restarted { .. } => "restarted",
            RunEventBody::Finished => "finished",
            RunEventBody::Failed { .. } => "failed",
            RunEventBody::Cancelled { .. } => "cancelled",
            RunEventBody::Delta { .. } => "delta",
            RunEventBody::Gone { .. } => "gone",
            RunEventBody::Draining => "draining",
            RunEventBody::Error { .. } => "error",
        }
    }
}

impl StepTask {
    fn transcript(&self) -> Result<TaskTranscript, serde_json::Error> {
        let turn = self.turn.clone().unwrap_or_default();
        TaskTranscript::new(&self.node, &self.update, &self.notes, &turn)
    }
}

impl From<RunEventBody> for RunEvent {
    fn from(body: RunEventBody) -> Self {
        Self { n: None, at: None, body }
    }
}

fn body_from_entry(
    thread: &str,
    agent: Option<&Agent>,
    entry: &ThreadEntry,
) -> Result<RunEventBody, StoreError> {
    let damaged = |what: &str| StoreError::Damaged(format!("entry {} {what}", entry.seq));
    Ok(match &entry.body {
        EntryBody::Started { graph, .. } => {
            let run = entry.run.ok_or_else(|| damaged("is a start of no run"))?;
            RunEventBody::Started { agent: graph.clone(), thread: thread.to_owned(), run: run.to_string() }
        }
        EntryBody::Step(step) | EntryBody::InnerStep(step) => RunEventBody::Step {
            step: step.step,
            path: step.path.as_ref().map(ToString::to_string).unwrap_or_default(),
            tasks: step
                .tasks
                .iter()
                .map(|task| {
                    step_task(entry, agent, task).map_err(|error| damaged(&format!("has an update: {error}")))
                })
                .collect::<Result<_, _>>()?,
            next: step.next.clone(),
        },
        EntryBody::Paused { questions, .. } => {
            let run = entry.run.ok_or_else(|| damaged("is a pause of no run"))?;
            RunEventBody::Paused {
                questions: questions.iter().map(|ask| QuestionInfo::from_log(run, ask)).collect(),
            }
        }
        EntryBody::Resumed { answers } => RunEventBody::Resumed { answers: answers.clone() },
        EntryBody::Restarted { reason } => RunEventBody::Restarted { why: reason.clone() },
        EntryBody::Finished => RunEventBody::Finished,
        EntryBody::Failed { failure, node, unfinished } => {
            failed_body(failure.clone(), node.clone(), unfinished.clone())
        }
        EntryBody::Cancelled { partial_text, unfinished, .. } => {
            RunEventBody::Cancelled { partial: partial_text.clone(), unfinished: unfinished.clone() }
        }
        EntryBody::Edited(_) => return Err(damaged("of a run is an edit")),
    })
}

fn failed_body(
    RunFailure { code, message }: RunFailure,
    node: Option<String>,
    unfinished: Vec<UnfinishedTask>,
) -> RunEventBody {
    let ModelErrorAdvice { en, ko } = advice(&code);
    RunEventBody::Failed { code, message, en: en.into(), ko: ko.into(), node, unfinished }
}

fn step_task(
    entry: &ThreadEntry,
    agent: Option<&Agent>,
    task: &TaskResult,
) -> Result<StepTask, serde_json::Error> {
    let RunUsage { input_tokens, output_tokens, .. } = task.usage;
    let unfit = |error: &serde_json::Error| {
        tracing::warn!(%error, seq = entry.seq, "cannot read an update with the agent of this name; the agent may have changed since the run");
    };
    let turn = agent.and_then(|agent| agent.read_update(task.update.get()).inspect_err(unfit).ok());
    Ok(StepTask {
        node: task.node.clone(),
        ms: task.ms,
        attempts: task.attempts,
        input_tokens,
        output_tokens,
        update: stored_json::from_str(task.update.get())?,
        notes: task.notes.clone(),
        turn,
    })
}

#[cfg(test)]
mod tests {
    use doran_engine::failure::NODE_FAILED;

    use super::*;

    fn failed(body: &str) -> (String, String, String) {
        let body: Value = serde_json::from_str(body).expect("json");
        let failure = serde_json::from_value(body).expect("a failure");
        let body = EntryBody::Failed { failure, node: None, unfinished: Vec::new() };
        let entry =
            ThreadEntry { seq: 2, parent: 1, run: Some(RunId::random()), at: 0, body, shown: Vec::new() };
        match body_from_entry("t", None, &entry).expect("an event") {
            RunEventBody::Failed { code, en, ko, .. } => (code, en, ko),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_failure_is_shown_by_its_code_and_never_by_its_message() {
        let ModelErrorAdvice { en, ko } = advice(NODE_FAILED);
        let plain = |code: &str| (code.to_owned(), en.to_owned(), ko.to_owned());
        // As runs were kept before errors of models had codes of their own.
        let old = r#"{"code":"node_failed","message":"node `agent`: the model refused the key: 401","node":"agent"}"#;
        assert_eq!(failed(old), plain("node_failed"));
        assert_eq!(failed(r#"{"code":"of_a_later_version","message":"?"}"#), plain("of_a_later_version"));
        let (code, en, _) = failed(r#"{"code":"model_unauthorized","message":"anything"}"#);
        assert_eq!(code, "model_unauthorized");
        assert_eq!(en, doran_llm::ModelErrorKind::Unauthorized.advice().en);
    }
}
