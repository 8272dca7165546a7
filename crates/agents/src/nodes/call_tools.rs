//! Runs the tool calls of one reply: asks a person where that is needed, then runs what may be run side by side.
//!
//! What a tool gave, or that it failed, is recorded by the class of the tool; a call that finished is not made again.
//! A failed tool is news for the model, not the end of a run.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use doran_engine::NodeError;
use doran_llm::{Message, TextOrigin, ToolCall, ToolResult};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::node_work::NodeWork;
use crate::protocol::AgentActivity;
use crate::tools::{
    CompletedToolCall, RunExposure, Taint, ToolAdmission, ToolCallContext, ToolError, ToolPermit,
    ToolSideEffect, Toolbox, truncate_with_note,
};

/// The most of a result that is shown while it comes; all of it is in the message.
const MAX_SHOWN_RESULT_BYTES: usize = 600;

/// Who calls tools, and what they have in front of them.
pub(crate) struct ToolCaller<'a> {
    pub(crate) toolbox: &'a Toolbox,
    /// What the model had read when it asked for the calls.
    pub(crate) read_messages: &'a [Message],
    /// What the thread had read before.
    pub(crate) taint: Taint,
    /// What tools handed back for their next call, by name.
    pub(crate) sessions: &'a BTreeMap<String, String>,
}

/// What the calls gave, in their order.
#[derive(Debug, Default)]
pub(crate) struct ToolCallResults {
    pub(crate) results: Vec<ToolResult>,
    /// What programs are told, a value for each result.
    pub(crate) data: Vec<Value>,
    /// The tools that were really run, refused calls left out.
    pub(crate) tools_run: Vec<String>,
    /// Sessions that changed.
    pub(crate) sessions: BTreeMap<String, String>,
    /// What the thread has read now.
    pub(crate) taint: Taint,
}

/// What is recorded of a call that was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ToolCallRecord {
    result: ToolResult,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    data: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    ms: u64,
}

/// A call that was made, or what somebody said that it gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum ToolCallOutcome {
    Ran(ToolCallRecord),
    Told(Value),
}

/// Runs the calls. Its error is a question that waits for a person, or a store that is gone.
pub(crate) async fn call_tools(
    work: &NodeWork,
    caller: &ToolCaller<'_>,
    calls: &[ToolCall],
) -> Result<ToolCallResults, NodeError> {
    for call in calls {
        let ToolCall { id: call, name, arguments, .. } = call.clone();
        work.show_activity(AgentActivity::ToolCall { call, name, arguments });
    }
    let mut outcomes: Vec<Option<ToolCallRecord>> = calls.iter().map(|_| None).collect();
    let mut groups: Vec<Vec<(usize, ToolPermit)>> = Vec::new();
    let mut names = Vec::new();
    let refused = |result: ToolResult| {
        let refused = refused_record(result);
        work.cx.emit(tool_result_activity(&refused).to_json());
        Some(refused)
    };
    for (place, admission) in admit_calls(work, caller, calls).await?.into_iter().enumerate() {
        match admission {
            ToolAdmission::Run(permit) => {
                names.push(permit.info().spec.name.clone());
                group_by_tool(&mut groups, place, permit);
            }
            ToolAdmission::Refuse(result) => outcomes[place] = refused(result),
            ToolAdmission::Ask(ask) => outcomes[place] = refused(ask.unanswered_result(work.language)),
        }
    }
    let now_ms = work.cx.now()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    let running = groups.into_iter().map(|group| run_group(work, caller, calls, group, now_ms));
    for ran in join_all(running).await {
        for (place, ran) in ran? {
            outcomes[place] = Some(ran);
        }
    }
    let mut called = ToolCallResults { taint: caller.taint, tools_run: names, ..ToolCallResults::default() };
    let outcomes: Vec<ToolCallRecord> = outcomes.into_iter().flatten().collect();
    work.note_activities(outcomes.iter().map(tool_result_activity));
    for ran in outcomes {
        if let Some(session) = ran.session {
            called.sessions.insert(ran.result.name.clone(), session);
        }
        called.results.push(ran.result);
        called.data.push(ran.data);
    }
    let read = Taint::of_messages(&[Message::tool_output("results", called.results.iter().cloned())]);
    called.taint = called.taint.union(read);
    Ok(called)
}

/// What may be run, after people were asked. All questions of one reply are put at once.
async fn admit_calls(
    work: &NodeWork,
    caller: &ToolCaller<'_>,
    calls: &[ToolCall],
) -> Result<Vec<ToolAdmission>, NodeError> {
    let seen = RunExposure::from_messages(caller.read_messages, caller.taint);
    let mut approvals = Vec::new();
    let mut waits = None;
    let first = caller.toolbox.admit_all(calls, &seen, &approvals, work.language);
    for admission in &first {
        let ToolAdmission::Ask(ask) = admission else { continue };
        match work.cx.ask::<Value, _>(ask.question()).await {
            Ok(answer) => approvals.push(ask.approval_from_answer(&answer)),
            Err(error) => waits = Some(error),
        }
    }
    match waits {
        Some(error) => Err(error),
        None if approvals.is_empty() => Ok(first),
        None => Ok(caller.toolbox.admit_all(calls, &seen, &approvals, work.language)),
    }
}

/// Calls that only read stand alone; others of one tool take turns, because a later one may build on an earlier one.
fn group_by_tool(groups: &mut Vec<Vec<(usize, ToolPermit)>>, place: usize, permit: ToolPermit) {
    let (name, class) = (permit.info().spec.name.clone(), permit.info().class);
    let same = |group: &&mut Vec<(usize, ToolPermit)>| {
        group.first().is_some_and(|(_, first)| first.info().spec.name == name)
    };
    match groups.iter_mut().find(same).filter(|_| class != ToolSideEffect::ReadOnly) {
        Some(group) => group.push((place, permit)),
        None => groups.push(vec![(place, permit)]),
    }
}

async fn run_group(
    work: &NodeWork,
    caller: &ToolCaller<'_>,
    calls: &[ToolCall],
    group: Vec<(usize, ToolPermit)>,
    now_ms: i64,
) -> Result<Vec<(usize, ToolCallRecord)>, NodeError> {
    let mut session =
        group.first().and_then(|(_, permit)| caller.sessions.get(&permit.info().spec.name)).cloned();
    let mut done = Vec::new();
    for (place, permit) in group {
        let about = permit.info().clone();
        let ran = match run_call(work, caller, (place, permit), session.as_deref(), now_ms).await? {
            ToolCallOutcome::Ran(ran) => ran,
            ToolCallOutcome::Told(told) => ToolCallRecord {
                result: ToolResult {
                    call: calls[place].id.clone(),
                    name: about.spec.name,
                    text: match told {
                        Value::Null => work.language.pick("실행되었습니다".into(), "it was done".into()),
                        Value::String(words) => words,
                        other => other.to_string(),
                    },
                    failed: false,
                    origin: TextOrigin::User,
                },
                data: Value::Null,
                session: None,
                ms: 0,
            },
        };
        work.cx.emit(tool_result_activity(&ran).to_json());
        session = ran.session.clone().or(session);
        done.push((place, ran));
    }
    Ok(done)
}

async fn run_call(
    work: &NodeWork,
    caller: &ToolCaller<'_>,
    (place, permit): (usize, ToolPermit),
    session: Option<&str>,
    now_ms: i64,
) -> Result<ToolCallOutcome, NodeError> {
    let (Some(tenant), Some(thread)) = (work.cx.tenant(), work.cx.thread()) else {
        return Err(NodeError::permanent("a tool was called in a run without a tenant and a thread"));
    };
    let (tenant, thread) = (tenant.as_str().to_owned(), thread.as_str().to_owned());
    let language = work.language;
    let class = permit.info().class;
    let taint = RunExposure::from_messages(caller.read_messages, caller.taint).taint;
    let Value::Object(unknown) = permit.unknown_outcome_question().to_json() else {
        return Err(NodeError::permanent("the question about a tool is not a JSON object"));
    };
    // Named by the place of the call, so that calls side by side find their own record again in any order.
    let name = format!("tool-{place}");
    let made = |key: String| async move {
        let call =
            ToolCallContext { tenant: &tenant, thread: &thread, key: &key, language, session, now_ms, taint };
        let done = permit.run(call).await;
        // Whether a call that was given up did its work is open; that is for a person to say if it must not be repeated.
        match &done.error {
            Some(ToolError::TimedOut(late)) if class == ToolSideEffect::Once => {
                Err(NodeError::permanent(late.clone()))
            }
            _ => Ok(ToolCallOutcome::Ran(ToolCallRecord::from_completed(done))),
        }
    };
    match class {
        ToolSideEffect::ReadOnly => {
            let key = work.cx.new_id();
            work.cx.effect(&name, made(key)).await
        }
        ToolSideEffect::Idempotent => work.cx.idempotent_effect(&name, made).await,
        ToolSideEffect::Once => work.cx.effect_at_most_once_with_details(&name, unknown, made).await,
    }
}

impl ToolCallRecord {
    fn from_completed(done: CompletedToolCall) -> Self {
        Self { result: done.result, data: done.data, session: done.session, ms: done.ms }
    }
}

fn refused_record(result: ToolResult) -> ToolCallRecord {
    ToolCallRecord { result, data: Value::Null, session: None, ms: 0 }
}

fn tool_result_activity(ran: &ToolCallRecord) -> AgentActivity {
    let ToolResult { call, name, text, failed, .. } = ran.result.clone();
    let text = truncate_with_note(text, MAX_SHOWN_RESULT_BYTES);
    AgentActivity::ToolResult { call, name, text, failed, ms: ran.ms }
}
