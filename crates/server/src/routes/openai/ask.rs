//! Starts the run of a client's question, or goes on with the run that waits for its tool results. Shared by chat
//! completions and Responses.

use doran_agents::TurnRequest;
use doran_engine::store::{IfBusy, Seq};
use doran_engine::{Acknowledgement, RunHandle, RunId, ThreadKey};
use serde_json::{Map, Value};

use super::client_calls::{self, CallResults};
use super::client_messages::ClientQuestion;
use super::turn_request::{check_agent, check_model_settings};
use crate::ServerApp;
use crate::agent_request::{self, AgentRequest, RunPlacement, RunStart, WaitingRun};
use crate::authentication::ApiCaller;
use crate::error::ApiError;

/// A question of a client.
pub(super) struct ClientAsk<'a> {
    pub(super) agent: &'a str,
    pub(super) question: ClientQuestion,
    pub(super) request: TurnRequest,
    /// The parameters for tools, a format and so on, and whether the request has them.
    pub(super) parameters: &'a [(&'a str, bool)],
    /// The parameter by which the length of a reply is limited.
    pub(super) limit_parameter: &'a str,
    /// The parameter that the conversation is in.
    pub(super) parameter: &'a str,
    /// The thread that the client names.
    pub(super) thread: Option<ThreadKey>,
    /// The log entry that the question follows, if it is not the newest.
    pub(super) from: Option<Seq>,
    /// What is stored with the run.
    pub(super) metadata: Map<String, Value>,
    /// The key of the client, and the bytes that it stands for.
    pub(super) idempotency: Option<(String, &'a [u8])>,
    /// When the client is told of the run.
    pub(super) acknowledge: Acknowledgement,
}

/// A run that answers, from an event on.
pub(super) struct AnsweringRun {
    pub(super) run: RunHandle,
    /// The number of the event after which the answer comes.
    pub(super) after: u64,
}

/// Whether a question was accepted.
pub(super) enum AskOutcome {
    Answering(AnsweringRun),
    /// The thread waits for a person, and no run was started.
    ThreadWaiting(WaitingRun),
}

impl AskOutcome {
    /// The run, and the number of the event after which its answer comes.
    pub(super) fn part(&self) -> (RunId, u64) {
        match self {
            Self::Answering(answering) => (answering.run.id(), answering.after),
            Self::ThreadWaiting(waits) => (waits.run.run, 0),
        }
    }
}

/// Starts the run, or goes on with the one that waits for the results in the conversation.
pub(super) async fn start_or_continue(
    app: &ServerApp,
    caller: &ApiCaller,
    ask: ClientAsk<'_>,
) -> Result<(ThreadKey, AskOutcome), ApiError> {
    let ClientAsk {
        agent,
        question,
        request,
        parameter,
        thread,
        from,
        metadata,
        idempotency,
        acknowledge,
        ..
    } = ask;
    let found = agent_request::find_agent(app, agent)?;
    check_agent(&found, ask.parameters)?;
    check_model_settings(&found, &request, ask.limit_parameter)?;
    check_agent(&found, &[(parameter, question.has_images)])?;
    if question.has_calls && !found.accepts_turn_requests {
        check_agent(&found, &[(parameter, true)])?;
    }
    let sent = CallResults {
        agent,
        thread: thread.as_ref(),
        results: &question.results,
        request: &request,
        system: question.options.system.as_deref(),
        following: &question.after_results,
        metadata: &metadata,
        parameter,
    };
    if let Some(continued) = client_calls::continue_run(app, caller, sent).await? {
        let answering = AnsweringRun { run: continued.run, after: continued.after };
        return Ok((continued.row.thread, AskOutcome::Answering(answering)));
    }
    if question.is_only_results {
        return Err(ApiError::for_parameter(
            parameter,
            "no run waits for these tool results; send the whole conversation",
            "이 도구 결과를 기다리는 실행이 없습니다. 대화를 모두 보내세요",
        ));
    }
    let key = idempotency.as_ref().map(|(key, _)| key.as_str());
    let thread = match thread {
        Some(thread) => thread,
        None => agent_request::new_thread_key(app, caller, key).await?,
    };
    let mut options = doran_agents::AskOptions { request, ..question.options };
    if !found.accepts_turn_requests {
        options.chosen.temperature = options.request.temperature;
    }
    let placement = RunPlacement { from, metadata, ..RunPlacement::default() };
    let request = AgentRequest {
        agent,
        thread: thread.clone(),
        message: &question.text,
        options,
        if_busy: IfBusy::Enqueue,
        acknowledge,
        placement,
        idempotency,
        key: caller.key.clone(),
    };
    let outcome = match agent_request::start_unless_waiting(app, request).await? {
        RunStart::Started(run) => AskOutcome::Answering(AnsweringRun { run, after: 0 }),
        RunStart::ThreadWaiting(waits) => AskOutcome::ThreadWaiting(waits),
    };
    Ok((thread, outcome))
}
