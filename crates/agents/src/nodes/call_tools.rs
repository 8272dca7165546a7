//! Runs the tool calls of one reply: asks a person where that is needed, then runs calls concurrently where that is safe.
//!
//! What a tool gave, or that it failed, is recorded by the side effect of the tool; a call that finished is not made again.
//! A failed tool is news for the model, not the end of a run.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use doran_engine::NodeError;
use doran_engine::state::{ItemChange, ItemChanges};
use doran_llm::{ImageReference, Message, TextOrigin, ToolCall, ToolResult};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call_trace::CallTrace;
use super::node_work::NodeWork;
use crate::agents::{ClientTool, TurnRequest};
use crate::protocol::{
    AgentActivity, CallNote, CallNoteKind, ClientToolAnswer, InterruptQuestion, ToolApprovalAnswer,
};
use crate::request_format::NOTE_PREFIX;
use crate::state::{TurnProgress, message_from_client, replace_client_instructions};
use crate::tools::{
    CompletedToolCall, MAX_CALLS_PER_REPLY, RunExposure, Taint, ToolAdmission, ToolCallContext,
    ToolCallReason, ToolError, ToolPermit, ToolSideEffect, Toolbox, tool_key, truncate_with_note,
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
    /// What tools handed back for their next call, by name, and the keys of tools that a person allowed for the rest of
    /// the thread, under [`ALLOWED_PREFIX`].
    pub(crate) sessions: &'a BTreeMap<String, String>,
    /// How the turn is to be answered: tools that the client runs.
    pub(crate) turn_request: &'a TurnRequest,
}

/// What stands before the name of a tool that a person allowed for the rest of the thread. No tool has such a name.
const ALLOWED_PREFIX: &str = "allowed:";

impl ToolCaller<'_> {
    fn exposure(&self) -> RunExposure {
        let allowed = self.sessions.iter().filter(|(name, _)| name.starts_with(ALLOWED_PREFIX));
        RunExposure::from_messages(self.read_messages, self.taint)
            .with_allowed_tools(allowed.map(|(_, key)| key.clone()))
    }
}

/// What may be run, after people were asked.
struct AdmittedCalls {
    /// The calls, with the arguments that people gave them.
    calls: Vec<ToolCall>,
    admissions: Vec<ToolAdmission>,
    /// Tools that were allowed for the rest of the thread.
    allowed: BTreeMap<String, String>,
    /// The results of tools of the client, by the place of the call.
    client_results: BTreeMap<usize, ToolResult>,
    /// What came with the results of the client's tools: how to answer the turn from now on, and a message.
    client_answer: ClientToolAnswer,
}

/// What the calls gave, in their order.
#[derive(Debug, Default)]
pub(crate) struct ToolCallResults {
    pub(crate) results: Vec<ToolResult>,
    /// What the model is shown beside them.
    pub(crate) images: Vec<ImageReference>,
    /// Data for programs, a value for each result.
    pub(crate) data: Vec<Value>,
    /// The tools that were really run, refused calls left out.
    pub(crate) tools_run: Vec<String>,
    /// Sessions that changed.
    pub(crate) sessions: BTreeMap<String, String>,
    /// What the thread has read now.
    pub(crate) taint: Taint,
    /// How the turn is to be answered from now on, where that came with the results of somebody's tools.
    pub(crate) turn_request: Option<TurnRequest>,
    /// Instructions of the client that came with the results of its tools.
    system: Option<String>,
    /// Messages that the client sent after the results of its tools.
    following: Vec<Message>,
}

impl ToolCallResults {
    /// What the conversation gets: what came of the calls, and the message of the client.
    pub(crate) fn message_changes(&self, id: impl Into<String>, known: &[Message]) -> ItemChanges<Message> {
        let system = self.system.as_deref().and_then(|text| replace_client_instructions(known, text));
        let messages = [self.message(id)].into_iter().chain(self.following.iter().cloned());
        ItemChanges(system.into_iter().chain(messages.map(ItemChange::Put)).collect())
    }

    /// The message that gives the model what came of its calls.
    pub(crate) fn message(&self, id: impl Into<String>) -> Message {
        Message::tool_output(id, self.results.iter().cloned()).with_images(self.images.iter().cloned())
    }

    /// How far the turn has come after this node made the calls.
    pub(crate) fn progress_after(&self, before: &TurnProgress, node: &str) -> TurnProgress {
        let progress = before.after_node(node, 0).after_tool_round(self.tools_run.iter().map(String::as_str));
        if self.turn_request.is_some() { progress.with_new_rounds() } else { progress }
    }
}

/// What is recorded of a call that was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ToolCallRecord {
    result: ToolResult,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<ImageReference>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    data: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<CallTrace>,
}

/// A call that was made, or the result that a person reported.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum ToolCallOutcome {
    Ran(ToolCallRecord),
    ReportedByPerson(Value),
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
    let show_result = |result: ToolResult| {
        let record = record_of_result(result);
        work.cx.emit(tool_result_activity(&record).to_json());
        Some(record)
    };
    let AdmittedCalls { calls: given, admissions, allowed, mut client_results, client_answer } =
        admit_calls(work, caller, calls).await?;
    let edited: Vec<bool> =
        given.iter().zip(calls).map(|(given, call)| given.arguments != call.arguments).collect();
    for (call, _) in given.iter().zip(&edited).filter(|(_, edited)| **edited) {
        let ToolCall { id: call, name, arguments, .. } = call.clone();
        work.show_activity(AgentActivity::ToolCall { call, name, arguments });
    }
    for (place, admission) in admissions.into_iter().enumerate() {
        if let Some(result) = client_results.remove(&place) {
            if !result.failed {
                names.push(result.name.clone());
            }
            outcomes[place] = show_result(result);
            continue;
        }
        match admission {
            ToolAdmission::Run(permit) => {
                names.push(permit.info().spec.name.clone());
                group_by_tool(&mut groups, place, permit);
            }
            ToolAdmission::Refuse(result) => outcomes[place] = show_result(result),
            ToolAdmission::Ask(ask) => outcomes[place] = show_result(ask.unanswered_result(work.language)),
        }
    }
    let now_ms = work.cx.now()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    let running = groups.into_iter().map(|group| run_group(work, caller, calls, group, now_ms));
    for ran in join_all(running).await {
        for (place, mut ran) in ran? {
            if edited[place] {
                ran.result.text = edited_note(work, &given[place].arguments) + &ran.result.text;
            }
            outcomes[place] = Some(ran);
        }
    }
    let mut called = ToolCallResults {
        taint: caller.taint,
        tools_run: names,
        sessions: allowed,
        turn_request: client_answer.request,
        system: client_answer.system,
        following: client_answer
            .following
            .iter()
            .map(|message| message_from_client(work.cx.new_id(), message))
            .collect(),
        ..ToolCallResults::default()
    };
    let outcomes: Vec<ToolCallRecord> = outcomes.into_iter().flatten().collect();
    work.note_activities(outcomes.iter().map(tool_result_activity));
    work.note_calls(outcomes.iter().filter_map(ToolCallRecord::call_note));
    for ran in outcomes {
        if let Some(session) = ran.session {
            called.sessions.insert(ran.result.name.clone(), session);
        }
        called.results.push(ran.result);
        called.images.extend(ran.images);
        called.data.push(ran.data);
    }
    let read = Taint::of_messages(&[called.message("results")]);
    called.taint = called.taint.union(read);
    Ok(called)
}

/// Asks people where that is needed. All questions of one reply are put at once.
async fn admit_calls(
    work: &NodeWork,
    caller: &ToolCaller<'_>,
    calls: &[ToolCall],
) -> Result<AdmittedCalls, NodeError> {
    let seen = caller.exposure();
    let (mut calls, mut approvals, mut allowed) = (calls.to_vec(), Vec::new(), BTreeMap::new());
    let (mut client_results, mut client_answer) = (BTreeMap::new(), ClientToolAnswer::default());
    let mut waits = None;
    let first = caller.toolbox.admit_all(&calls, &seen, &approvals, work.language);
    for (place, admission) in first.iter().enumerate() {
        if let Some(tool) = client_tool_at(caller, &calls, place) {
            match call_client_tool(work, tool, &calls[place]).await {
                Ok((result, answer)) => {
                    client_results.insert(place, result);
                    // It comes with one of the results.
                    if answer.request.is_some() {
                        client_answer = answer;
                    }
                }
                Err(error) => waits = Some(error),
            }
            continue;
        }
        let ToolAdmission::Ask(ask) = admission else { continue };
        let answer = match work.cx.ask::<Value, _>(ask.question()).await {
            Ok(answer) => answer,
            Err(error) => {
                waits = Some(error);
                continue;
            }
        };
        approvals.push(ask.approval_from_answer(&answer));
        let Some(ToolApprovalAnswer { approve: true, always, arguments, .. }) =
            ToolApprovalAnswer::from_json(&answer)
        else {
            continue;
        };
        if let Some(tool) = caller.toolbox.get(&ask.call.name)
            && always
            && ask.why == ToolCallReason::Policy
        {
            allowed.insert(format!("{ALLOWED_PREFIX}{}", ask.call.name), tool_key(tool.info()));
        }
        if let Some(arguments) = arguments {
            calls[place].arguments = arguments;
            approvals.pop();
            approvals.extend(caller.toolbox.approval_of(&calls[place]));
        }
    }
    let admissions = match waits {
        Some(error) => return Err(error),
        None if approvals.is_empty() => first,
        None => caller.toolbox.admit_all(&calls, &seen, &approvals, work.language),
    };
    Ok(AdmittedCalls { calls, admissions, allowed, client_results, client_answer })
}

/// The tool of the client that this call is of. Calls that are too many, or have the id of another, are refused like
/// those of any tool.
fn client_tool_at<'a>(caller: &ToolCaller<'a>, calls: &[ToolCall], place: usize) -> Option<&'a ClientTool> {
    let is_repeated = calls[..place].iter().any(|call| call.id == calls[place].id);
    let tool = caller.turn_request.client_tool(&calls[place].name)?;
    (place < MAX_CALLS_PER_REPLY && !is_repeated).then_some(tool)
}

/// Waits for the client to run its tool. Its error is the question to the client.
async fn call_client_tool(
    work: &NodeWork,
    tool: &ClientTool,
    call: &ToolCall,
) -> Result<(ToolResult, ClientToolAnswer), NodeError> {
    let ToolCall { id, name, arguments } = call.clone();
    let problems = tool.argument_problems(&arguments);
    if !problems.is_empty() {
        let problems = problems.join("; ");
        let text = work.language.pick(
            format!("Error: `{name}`의 인자가 스키마에 맞지 않습니다: {problems}"),
            format!("Error: the arguments do not fit the schema of `{name}`: {problems}"),
        );
        let result = ToolResult { call: id, name, text, failed: true, origin: TextOrigin::Program };
        return Ok((result, ClientToolAnswer::default()));
    }
    let question = InterruptQuestion::ClientTool {
        ko: format!("`{name}` 도구를 실행하고 결과를 보내 주세요"),
        en: format!("run the tool `{name}` and send what it gives"),
        call: id.clone(),
        name: name.clone(),
        arguments,
    };
    let answer = work.cx.ask::<Value, _>(question.to_json()).await?;
    let answer = ClientToolAnswer::from_json(&answer);
    let text = answer.output.clone();
    Ok((ToolResult { call: id, name, text, failed: false, origin: TextOrigin::Tool }, answer))
}

/// The note for the model about a call that a person changed.
fn edited_note(work: &NodeWork, arguments: &Value) -> String {
    let ko = format!("{NOTE_PREFIX}사용자가 인자를 바꾸어 실행했습니다: {arguments}\n\n");
    let en = format!("{NOTE_PREFIX}The person changed the arguments and ran it with: {arguments}\n\n");
    work.language.pick(ko, en)
}

/// Calls that only read stand alone; others of one tool take turns, because a later one may build on an earlier one.
fn group_by_tool(groups: &mut Vec<Vec<(usize, ToolPermit)>>, place: usize, permit: ToolPermit) {
    let (name, side_effect) = (permit.info().spec.name.clone(), permit.info().side_effect);
    let same = |group: &&mut Vec<(usize, ToolPermit)>| {
        group.first().is_some_and(|(_, first)| first.info().spec.name == name)
    };
    match groups.iter_mut().find(same).filter(|_| side_effect != ToolSideEffect::ReadOnly) {
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
            ToolCallOutcome::ReportedByPerson(answer) => ToolCallRecord {
                result: ToolResult {
                    call: calls[place].id.clone(),
                    name: about.spec.name,
                    text: match answer {
                        Value::Null => work.language.pick("실행되었습니다".into(), "it was done".into()),
                        Value::String(words) => words,
                        other => other.to_string(),
                    },
                    failed: false,
                    origin: TextOrigin::User,
                },
                images: Vec::new(),
                data: Value::Null,
                session: None,
                ms: 0,
                trace: None,
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
    let (language, cx) = (work.language, &work.cx);
    let side_effect = permit.info().side_effect;
    let taint = caller.exposure().taint;
    let Value::Object(unknown) = permit.unknown_outcome_question().to_json() else {
        return Err(NodeError::permanent("the question about a tool is not a JSON object"));
    };
    // Named by the place of the call, so that calls side by side find their own record again in any order.
    let name = format!("tool-{place}");
    let made = |key: String| async move {
        let call =
            ToolCallContext { tenant: &tenant, thread: &thread, key: &key, language, session, now_ms, taint };
        let trace = CallTrace::begin(cx);
        let done = trace.scope(permit.run(call)).await;
        // Whether a call that was given up did its work is open; that is for a person to say if it must not be repeated.
        match &done.error {
            Some(ToolError::OutcomeUnknown(late)) if side_effect == ToolSideEffect::Once => {
                Err(NodeError::permanent(late.clone()))
            }
            _ => Ok(ToolCallOutcome::Ran(ToolCallRecord::from_completed(done, trace))),
        }
    };
    match side_effect {
        ToolSideEffect::ReadOnly => {
            let key = work.cx.new_id();
            work.cx.effect(&name, made(key)).await
        }
        ToolSideEffect::Idempotent => work.cx.idempotent_effect(&name, made).await,
        ToolSideEffect::Once => work.cx.effect_at_most_once_with_details(&name, unknown, made).await,
    }
}

impl ToolCallRecord {
    /// The note of a call that was made.
    fn call_note(&self) -> Option<CallNote> {
        let CallTrace { at, span, .. } = self.trace.clone()?;
        let ToolResult { call, name, failed, .. } = self.result.clone();
        Some(CallNote { kind: CallNoteKind::Tool, name, call: Some(call), at, ms: self.ms, span, failed })
    }

    fn from_completed(done: CompletedToolCall, trace: CallTrace) -> Self {
        let CompletedToolCall { result, images, data, session, ms, .. } = done;
        Self { result, images, data, session, ms, trace: Some(trace) }
    }
}

fn record_of_result(result: ToolResult) -> ToolCallRecord {
    ToolCallRecord { result, images: Vec::new(), data: Value::Null, session: None, ms: 0, trace: None }
}

fn tool_result_activity(ran: &ToolCallRecord) -> AgentActivity {
    let ToolResult { call, name, text, failed, .. } = ran.result.clone();
    let text = truncate_with_note(text, MAX_SHOWN_RESULT_BYTES);
    AgentActivity::ToolResult { call, name, text, failed, ms: ran.ms }
}
