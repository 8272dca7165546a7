//! Runs the tool calls of one reply: asks a person where that is needed, then runs what may be run side by side.
//!
//! What a tool gave, or that it failed, is recorded by the class of the tool; a call that finished is not made again.
//! A failed tool is news for the model, not the end of a run.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use doran_engine::NodeError;
use doran_llm::{Message, Origin, ToolCall, ToolResult};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::work::Work;
use crate::tools::{Admission, Call, Class, Done, Permit, Seen, Taint, ToolError, Toolbox, cut};

/// The most of a result that is shown while it comes; all of it is in the message.
const MOST_SHOWN: usize = 600;

/// Who calls tools, and what they have in front of them.
pub(crate) struct Caller<'a> {
    pub(crate) toolbox: &'a Toolbox,
    /// What the model had read when it asked for the calls.
    pub(crate) read: &'a [Message],
    /// What the thread had read before.
    pub(crate) taint: Taint,
    /// What tools handed back for their next call, by name.
    pub(crate) sessions: &'a BTreeMap<String, String>,
}

/// What the calls gave, in their order.
#[derive(Debug, Default)]
pub(crate) struct Called {
    pub(crate) results: Vec<ToolResult>,
    /// What programs are told, a value for each result.
    pub(crate) data: Vec<Value>,
    /// The tools that were really run, refused calls left out.
    pub(crate) ran: Vec<String>,
    /// Sessions that changed.
    pub(crate) sessions: BTreeMap<String, String>,
    /// What the thread has read now.
    pub(crate) taint: Taint,
}

/// What is recorded of a call that was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ran {
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
enum Outcome {
    Ran(Ran),
    Told(Value),
}

/// Runs the calls. Its error is a question that waits for a person, or a store that is gone.
pub(crate) async fn call_tools(
    work: &Work,
    caller: &Caller<'_>,
    calls: &[ToolCall],
) -> Result<Called, NodeError> {
    for call in calls {
        work.show(
            json!({ "type": "tool_call", "call": call.id, "name": call.name, "arguments": call.arguments }),
        );
    }
    let mut outcomes: Vec<Option<Ran>> = calls.iter().map(|_| None).collect();
    let mut groups: Vec<Vec<(usize, Permit)>> = Vec::new();
    let mut names = Vec::new();
    for (place, admission) in admitted(work, caller, calls).await?.into_iter().enumerate() {
        match admission {
            Admission::Run(permit) => {
                names.push(permit.about().spec.name.clone());
                group(&mut groups, place, permit);
            }
            Admission::Refuse(result) => outcomes[place] = Some(refused(result)),
            Admission::Ask(ask) => outcomes[place] = Some(refused(ask.unanswered(work.language))),
        }
    }
    let now_ms = work.cx.now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    let running = groups.into_iter().map(|group| run_in_turn(work, caller, calls, group, now_ms));
    for ran in join_all(running).await {
        for (place, ran) in ran? {
            outcomes[place] = Some(ran);
        }
    }
    let mut called = Called { taint: caller.taint, ran: names, ..Called::default() };
    let outcomes: Vec<Ran> = outcomes.into_iter().flatten().collect();
    work.note_events(outcomes.iter().map(shown));
    for ran in outcomes {
        if let Some(session) = ran.session {
            called.sessions.insert(ran.result.name.clone(), session);
        }
        called.results.push(ran.result);
        called.data.push(ran.data);
    }
    let read = Taint::of(&[Message::tool_output("results", called.results.iter().cloned())]);
    called.taint = called.taint.and(read);
    Ok(called)
}

/// What may be run, after people were asked. All questions of one reply are put at once.
async fn admitted(work: &Work, caller: &Caller<'_>, calls: &[ToolCall]) -> Result<Vec<Admission>, NodeError> {
    let seen = Seen::of(caller.read, caller.taint);
    let mut approvals = Vec::new();
    let mut waits = None;
    let first = caller.toolbox.admit_all(calls, &seen, &approvals, work.language);
    for admission in &first {
        let Admission::Ask(ask) = admission else { continue };
        match work.cx.ask::<Value, Value>(ask.question()).await {
            Ok(answer) => approvals.push(ask.answered(&answer)),
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
fn group(groups: &mut Vec<Vec<(usize, Permit)>>, place: usize, permit: Permit) {
    let (name, class) = (permit.about().spec.name.clone(), permit.about().class);
    let same = |group: &&mut Vec<(usize, Permit)>| {
        group.first().is_some_and(|(_, first)| first.about().spec.name == name)
    };
    match groups.iter_mut().find(same).filter(|_| class != Class::ReadOnly) {
        Some(group) => group.push((place, permit)),
        None => groups.push(vec![(place, permit)]),
    }
}

async fn run_in_turn(
    work: &Work,
    caller: &Caller<'_>,
    calls: &[ToolCall],
    group: Vec<(usize, Permit)>,
    now_ms: i64,
) -> Result<Vec<(usize, Ran)>, NodeError> {
    let mut session =
        group.first().and_then(|(_, permit)| caller.sessions.get(&permit.about().spec.name)).cloned();
    let mut done = Vec::new();
    for (place, permit) in group {
        let about = permit.about().clone();
        let ran = match run(work, place, permit, session.as_deref(), now_ms).await? {
            Outcome::Ran(ran) => ran,
            Outcome::Told(told) => Ran {
                result: ToolResult {
                    call: calls[place].id.clone(),
                    name: about.spec.name,
                    text: match told {
                        Value::Null => work.language.pick("실행되었습니다".into(), "it was done".into()),
                        Value::String(words) => words,
                        other => other.to_string(),
                    },
                    failed: false,
                    origin: Origin::User,
                },
                data: Value::Null,
                session: None,
                ms: 0,
            },
        };
        work.cx.emit(shown(&ran));
        session = ran.session.clone().or(session);
        done.push((place, ran));
    }
    Ok(done)
}

async fn run(
    work: &Work,
    place: usize,
    permit: Permit,
    session: Option<&str>,
    now_ms: i64,
) -> Result<Outcome, NodeError> {
    let tenant = work.cx.tenant().map_or("local", |tenant| tenant.as_str()).to_owned();
    let thread = work.cx.thread().map_or("", |thread| thread.as_str()).to_owned();
    let language = work.language;
    let class = permit.about().class;
    let unknown = permit.unknown();
    // Named by the place of the call, so that calls side by side find their own record again in any order.
    let name = format!("tool-{place}");
    let made = |key: String| async move {
        let call = Call { tenant: &tenant, thread: &thread, key: &key, language, session, now_ms };
        let done = permit.run(call).await;
        // Whether a call that was given up did its work is open; that is for a person to say if it must not be repeated.
        match &done.error {
            Some(ToolError::TimedOut(late)) if class == Class::Once => {
                Err(NodeError::permanent(late.clone()))
            }
            _ => Ok(Outcome::Ran(Ran::of(done))),
        }
    };
    match class {
        Class::ReadOnly => {
            let key = work.cx.new_id();
            work.cx.effect(&name, made(key)).await
        }
        Class::Idempotent => work.cx.idempotent(&name, made).await,
        Class::Once => work.cx.once_about(&name, unknown, made).await,
    }
}

impl Ran {
    fn of(done: Done) -> Self {
        Self { result: done.result, data: done.data, session: done.session, ms: done.ms }
    }
}

fn refused(result: ToolResult) -> Ran {
    Ran { result, data: Value::Null, session: None, ms: 0 }
}

fn shown(ran: &Ran) -> Value {
    let ToolResult { call, name, text, failed, .. } = &ran.result;
    let text = cut(text.clone(), MOST_SHOWN);
    json!({ "type": "tool_result", "call": call, "name": name, "text": text, "failed": failed, "ms": ran.ms })
}
