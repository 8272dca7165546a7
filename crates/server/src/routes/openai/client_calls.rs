//! Tool calls that a client makes for a run. The run waits for the results, however long that takes and whatever restarts
//! in between. The id of a call leads back to its run, because a client sends nothing else that does.

use std::collections::BTreeMap;

use doran_agents::protocol::{ClientToolAnswer, InterruptQuestion};
use doran_agents::{EarlierMessage, TurnRequest};
use doran_engine::store::{Millis, RunRow, RunStatus, Seq, StoreError};
use doran_engine::{
    EngineError, EntryBody, PendingQuestion, RunHandle, RunId, RunKey, ThreadEntry, ThreadKey,
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::ServerApp;
use crate::api::QuestionInfo;
use crate::authentication::ApiCaller;
use crate::error::ApiError;

/// What the ids of calls begin with.
const CALL_ID_PREFIX: &str = "call_";
/// Entries of a log that are read in one go.
const ENTRIES_PER_PAGE: usize = 500;

/// A call that a client is to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientCall {
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments as the model wrote them: JSON, unless it did not write JSON.
    pub(super) arguments: String,
}

/// What a call gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientCallResult {
    pub(super) call: String,
    pub(super) output: String,
}

/// The calls among the questions of a run.
pub(super) fn client_calls(questions: &[QuestionInfo]) -> Vec<ClientCall> {
    let call = |waiting: &QuestionInfo| {
        let InterruptQuestion::ClientTool { name, arguments, .. } = waiting.interrupt() else { return None };
        let run: RunId = waiting.run.parse().ok()?;
        let arguments = match arguments {
            Value::String(text) => text,
            other => other.to_string(),
        };
        Some(ClientCall { id: call_id(run, &waiting.id), name, arguments })
    };
    questions.iter().filter_map(call).collect()
}

/// The id of a call, for clients: of the run, and of the question in it.
fn call_id(run: RunId, question: &str) -> String {
    let digest = Sha256::digest(question.as_bytes());
    format!("{CALL_ID_PREFIX}{}_{}", run.as_uuid().simple(), hex::encode(&digest[..4]))
}

/// The run that wants the call of this id.
pub(super) fn run_of_call(id: &str) -> Option<RunId> {
    let (run, _) = id.strip_prefix(CALL_ID_PREFIX)?.split_once('_')?;
    run.parse().ok()
}

/// A run that goes on with the results of a client.
pub(super) struct ContinuedRun {
    pub(super) run: RunHandle,
    pub(super) row: RunRow,
    /// The number of the pause among the events of the run. What is answered comes after it.
    pub(super) after: u64,
}

/// What a client sends results with.
pub(super) struct CallResults<'a> {
    pub(super) agent: &'a str,
    /// The thread that the client names, if it does.
    pub(super) thread: Option<&'a ThreadKey>,
    pub(super) results: &'a [ClientCallResult],
    /// How the turn is to be answered from now on.
    pub(super) request: &'a TurnRequest,
    /// The instructions of the client.
    pub(super) system: Option<&'a str>,
    /// The message of the client after the results.
    pub(super) following: &'a [EarlierMessage],
    /// What is stored with the results.
    pub(super) metadata: &'a Map<String, Value>,
    /// The parameter that the results are in.
    pub(super) parameter: &'a str,
}

/// Goes on with the run that waits for these results. A run that has got the very same results before is followed from
/// there, so that a request may be sent again. None where no run waits for them: the conversation was changed, or began
/// somewhere else.
pub(super) async fn continue_run(
    app: &ServerApp,
    caller: &ApiCaller,
    sent: CallResults<'_>,
) -> Result<Option<ContinuedRun>, ApiError> {
    let Some(run) = sent.results.first().and_then(|result| run_of_call(&result.call)) else {
        return Ok(None);
    };
    let key = RunKey { tenant: caller.tenant.clone(), run };
    let row = match app.runtime.run_row(&key).await {
        Ok(row) => row,
        Err(EngineError::Store(StoreError::NotFound { .. })) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if row.graph != sent.agent || sent.thread.is_some_and(|thread| *thread != row.thread) {
        return Ok(None);
    }
    let Some(pause) = find_pause(app, &row, sent.results).await? else { return Ok(None) };
    let after = pause.number;
    if let Some(answers) = &pause.answers {
        let read: BTreeMap<&String, ClientToolAnswer> = answers
            .iter()
            .map(|(question, answer)| (question, ClientToolAnswer::from_json(answer)))
            .collect();
        let is_same = |(question, output): (&String, &String)| {
            read.get(question).is_some_and(|answer| answer.output == *output)
        };
        let is_followed_alike = read.values().find(|answer| answer.request.is_some()).is_none_or(|answer| {
            answer.following == sent.following && answer.system.as_deref() == sent.system
        });
        if !pause.outputs.iter().all(is_same) || !is_followed_alike {
            return Ok(None);
        }
        return Ok(Some(ContinuedRun { run: app.runtime.run_handle(&key).await?, row, after }));
    }
    if row.status != RunStatus::Paused {
        return Ok(None);
    }
    if let Some(missing) = pause.missing {
        return Err(ApiError::for_parameter(
            sent.parameter,
            format!("there is no result for the tool call `{missing}`"),
            format!("도구 호출 `{missing}`의 결과가 없습니다"),
        ));
    }
    // What comes with the results is stored with one of them.
    let mut beside = Some(ClientToolAnswer {
        request: Some(sent.request.clone()),
        system: sent.system.map(str::to_owned),
        following: sent.following.to_vec(),
        metadata: sent.metadata.clone(),
        ..ClientToolAnswer::default()
    });
    let answers: BTreeMap<String, Value> = pause
        .outputs
        .into_iter()
        .map(|(question, output)| {
            (question, ClientToolAnswer { output, ..beside.take().unwrap_or_default() }.to_json())
        })
        .collect();
    let run = app.runtime.answer(&key, &answers).await?;
    Ok(Some(ContinuedRun { run, row, after }))
}

/// A pause of a run in which it wanted these calls.
struct FoundPause {
    number: u64,
    /// What the calls gave, by question.
    outputs: BTreeMap<String, String>,
    /// A call that has no result.
    missing: Option<String>,
    /// What was answered, if it was.
    answers: Option<BTreeMap<String, Value>>,
}

async fn find_pause(
    app: &ServerApp,
    row: &RunRow,
    results: &[ClientCallResult],
) -> Result<Option<FoundPause>, ApiError> {
    let Some(first) = row.first_seq else { return Ok(None) };
    let mut found: Option<FoundPause> = None;
    for entry in read_pauses(app, row).await? {
        match &entry.body {
            EntryBody::Paused { questions, .. } => {
                found = match_pause(row.run, entry.seq + 1 - first, questions, results).or(found);
            }
            EntryBody::Resumed { answers } => {
                if let Some(pause) = &mut found {
                    pause.answers.get_or_insert_with(|| answers.clone());
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The call of this id that a run wanted.
pub(super) async fn find_call(
    app: &ServerApp,
    row: &RunRow,
    id: &str,
) -> Result<Option<ClientCall>, ApiError> {
    let pauses = read_pauses(app, row).await?;
    let questions = pauses.iter().flat_map(|entry| match &entry.body {
        EntryBody::Paused { questions, .. } => &questions[..],
        _ => &[],
    });
    let asked: Vec<_> = questions.map(|question| (row.key(), question.clone())).collect();
    Ok(client_calls(&QuestionInfo::from_log_all(&asked)).into_iter().find(|call| call.id == id))
}

/// What was stored with the results that a part of a run began with, and when they came. None if no part begins after the
/// event with this number.
pub(super) async fn results_before_part(
    app: &ServerApp,
    row: &RunRow,
    after: u64,
) -> Result<Option<(Map<String, Value>, Millis)>, ApiError> {
    let Some(first) = row.first_seq else { return Ok(None) };
    let pauses = read_pauses(app, row).await?;
    let mut from = pauses.iter().skip_while(|entry| entry.seq + 1 - first != after);
    if !from.next().is_some_and(wants_client_tools) {
        return Ok(None);
    }
    Ok(from.next().and_then(|entry| match &entry.body {
        EntryBody::Resumed { answers } => {
            let metadata = answers.values().flat_map(|answer| ClientToolAnswer::from_json(answer).metadata);
            Some((metadata.collect(), entry.at))
        }
        _ => None,
    }))
}

/// Whether the part of a run after the event with this number ended with tools of the client.
pub(super) async fn part_ended_with_calls(
    app: &ServerApp,
    row: &RunRow,
    after: u64,
) -> Result<bool, ApiError> {
    let Some(first) = row.first_seq else { return Ok(false) };
    let pauses = read_pauses(app, row).await?;
    Ok(pauses.iter().any(|entry| entry.seq + 1 - first > after && wants_client_tools(entry)))
}

fn wants_client_tools(entry: &ThreadEntry) -> bool {
    match &entry.body {
        EntryBody::Paused { questions, .. } => questions.iter().any(is_client_tool),
        _ => false,
    }
}

fn is_client_tool(question: &PendingQuestion) -> bool {
    matches!(InterruptQuestion::from_json(&question.question), InterruptQuestion::ClientTool { .. })
}

/// The entries of a run with what it waited for, and what it was answered.
async fn read_pauses(app: &ServerApp, row: &RunRow) -> Result<Vec<ThreadEntry>, ApiError> {
    let Some(first) = row.first_seq else { return Ok(Vec::new()) };
    let (mut pauses, mut after): (Vec<ThreadEntry>, Seq) = (Vec::new(), first - 1);
    loop {
        let page = app.runtime.entries(&row.thread, after, ENTRIES_PER_PAGE).await?;
        let is_last = page.len() < ENTRIES_PER_PAGE;
        after = page.last().map_or(after, |last| last.seq);
        let is_pause = |entry: &ThreadEntry| {
            let of_run = entry.run == Some(row.run);
            of_run && matches!(entry.body, EntryBody::Paused { .. } | EntryBody::Resumed { .. })
        };
        pauses.extend(page.into_iter().filter(is_pause));
        if is_last || row.last_seq.is_some_and(|last| after >= last) {
            return Ok(pauses);
        }
    }
}

/// The pause, if every result is of a call that it wants.
fn match_pause(
    run: RunId,
    number: u64,
    questions: &[PendingQuestion],
    results: &[ClientCallResult],
) -> Option<FoundPause> {
    let mut outputs = BTreeMap::new();
    let (mut missing, mut matched) = (None, 0);
    for question in questions.iter().filter(|question| is_client_tool(question)) {
        let id = call_id(run, &question.id);
        match results.iter().find(|result| result.call == id) {
            Some(result) => {
                matched += 1;
                outputs.insert(question.id.clone(), result.output.clone());
            }
            None => missing = Some(id),
        }
    }
    (matched == results.len()).then_some(FoundPause { number, outputs, missing, answers: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_call_leads_to_its_run_and_fits_where_ids_are_short() {
        let run = RunId::random();
        let id = call_id(run, "5.0:ask#0");
        assert_eq!(run_of_call(&id), Some(run));
        assert!(id.len() <= 64 && id != call_id(run, "5.0:ask#1"), "{id}");
        for other in ["", "call_", "call_abc", "call_abc_1", "toolu_01"] {
            assert_eq!(run_of_call(other), None, "{other}");
        }
    }
}
