//! The nodes of the react agent.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use doran_engine::{Cx, NodeError, Snap};
use doran_llm::{ChatRequest, Message, ModelError, Origin, ToolChoice, ToolResult};

use super::React;
use super::state::{ErrorCode, ReactState, ReactStateUpdate};
use super::words::{friendly, not_run};
use crate::nodes::{Caller, TRIES, Words, Work, call_tools, fitted};
use crate::state::{spoken, with_document};

/// Takes the question in.
pub(super) async fn input(
    own: Arc<React>,
    state: Snap<ReactState>,
    cx: Cx,
) -> Result<ReactStateUpdate, NodeError> {
    let text = state.user_message.clone().unwrap_or_default();
    let message = with_document(Message::user(cx.new_id(), text.clone()), state.document.as_deref());
    let mut said = state.messages.clone();
    said.push(message.clone());
    let mut progress = state.progress.after("input", 0);
    progress.language = spoken(own.language, &said);
    let session = cx.thread().map(|thread| thread.as_str().to_owned());
    let update = ReactState::update()
        .current_step("input")
        .session_id(session)
        .started_ms(millis(&cx))
        .progress(progress);
    if text.trim().is_empty() {
        return Ok(update.error(Some("the input is empty".into())).error_code(Some(ErrorCode::EmptyInput)));
    }
    Ok(update.messages(message))
}

/// Asks the model. What it could not answer in three tries is an error of the turn, not of the run.
pub(super) async fn llm(
    own: Arc<React>,
    state: Snap<ReactState>,
    cx: Cx,
) -> Result<ReactStateUpdate, NodeError> {
    let work = Work::new(cx, state.progress.language);
    let update = ReactState::update().current_step("llm").iteration_count(state.iteration_count + 1);
    match work.ask(&own.models, own.request(&state)?, Words::Shown).await {
        Ok(reply) => {
            let calls = reply.tool_calls.clone();
            let message = reply.into_message(work.cx.new_id());
            Ok(update
                .messages(message.clone())
                .ai_message(Some(message))
                .tool_execution_requests(calls)
                .progress(state.progress.after("llm", work.calls())))
        }
        // What may go away is tried again by the engine, up to the last try.
        Err(error) => match failed(&error).filter(|_| !error.is_transient() || work.cx.attempt() >= TRIES) {
            Some(code) => {
                let calls = work.cx.attempt();
                Ok(update
                    .error(Some(error.to_string()))
                    .error_code(Some(code))
                    .tool_execution_requests(Vec::new())
                    .progress(state.progress.after("llm", calls)))
            }
            None => Err(error),
        },
    }
}

/// Decides where to go; the decision itself is the branch behind this node.
pub(super) async fn conditional(
    own: Arc<React>,
    state: Snap<ReactState>,
    _: Cx,
) -> Result<ReactStateUpdate, NodeError> {
    let update =
        ReactState::update().current_step("conditional").progress(state.progress.after("conditional", 0));
    if state.error_code.is_none() && state.iteration_count > own.max_iterations {
        let told = format!(
            "the model was asked {} times, and {} are allowed",
            state.iteration_count, own.max_iterations
        );
        return Ok(update.error(Some(told)).error_code(Some(ErrorCode::MaxIterationsExceeded)));
    }
    Ok(update)
}

/// Runs the tools. One that fails gives an error as its result.
pub(super) async fn tool(
    own: Arc<React>,
    state: Snap<ReactState>,
    cx: Cx,
) -> Result<ReactStateUpdate, NodeError> {
    let work = Work::new(cx, state.progress.language);
    let read = own.request(&state)?.messages;
    let caller = Caller { toolbox: &own.tools, read: &read, taint: state.taint, sessions: &state.sessions };
    let called = call_tools(&work, &caller, &state.tool_execution_requests).await?;
    let progress = state.progress.after("tool", 0).with_tools(called.ran.iter().map(String::as_str));
    Ok(ReactState::update()
        .current_step("tool")
        .messages(Message::tool_output(work.cx.new_id(), called.results.clone()))
        .tool_execution_results(called.results)
        .tool_execution_requests(Vec::new())
        .sessions(called.sessions)
        .taint(called.taint)
        .progress(progress))
}

/// Hands the answer over.
pub(super) async fn response(
    _: Arc<React>,
    state: Snap<ReactState>,
    cx: Cx,
) -> Result<ReactStateUpdate, NodeError> {
    let text = state.ai_message.as_ref().map(Message::text).unwrap_or_default();
    Ok(ReactState::update()
        .current_step("response")
        .response(Some(text))
        .execution_time(Some(taken(&state, &cx)))
        .progress(state.progress.after("response", 0)))
}

/// Says in plain words that there is no answer. The conversation is left so that it can go on.
pub(super) async fn error(
    _: Arc<React>,
    state: Snap<ReactState>,
    cx: Cx,
) -> Result<ReactStateUpdate, NodeError> {
    let language = state.progress.language;
    let code = state.error_code.unwrap_or(ErrorCode::Internal);
    let sentence = friendly(code, language);
    cx.token(sentence);
    let mut messages = Vec::new();
    let open = state.tool_execution_requests.iter().map(|call| ToolResult {
        call: call.id.clone(),
        name: call.name.clone(),
        text: not_run(language).to_owned(),
        failed: true,
        origin: Origin::Program,
    });
    let open: Vec<ToolResult> = open.collect();
    if !open.is_empty() {
        messages.push(Message::tool_output(cx.new_id(), open));
    }
    messages.push(Message::assistant(cx.new_id(), sentence));
    Ok(ReactState::update()
        .current_step("error")
        .messages(messages)
        .tool_execution_requests(Vec::new())
        .error_code(Some(code))
        .response(Some(sentence.to_owned()))
        .execution_time(Some(taken(&state, &cx)))
        .progress(state.progress.after("error", 0)))
}

impl React {
    fn request(&self, state: &ReactState) -> Result<ChatRequest, NodeError> {
        let mut messages = vec![Message::system("system", self.prompts.react(state.progress.language)?)];
        messages.extend(state.messages.iter().cloned());
        let tools = self.tools.specs();
        let tool_choice = if tools.is_empty() { ToolChoice::None } else { ToolChoice::Auto };
        let request = ChatRequest { tools, tool_choice, ..ChatRequest::new(messages) };
        Ok(fitted(request, self.context_length, state.progress.language))
    }

    pub(super) fn explain(&self, node: &str, state: &ReactState) -> Vec<ChatRequest> {
        if node == "llm" { self.request(state).into_iter().collect() } else { Vec::new() }
    }
}

/// The code of an error of a model; none for what is no business of the turn: a question, a limit, a lost store.
fn failed(error: &NodeError) -> Option<ErrorCode> {
    Some(match error.source().downcast_ref::<ModelError>()? {
        ModelError::Unavailable { .. }
        | ModelError::Unreachable { .. }
        | ModelError::RateLimited { .. }
        | ModelError::Broken { .. }
        | ModelError::Empty { .. } => ErrorCode::ModelUnavailable,
        ModelError::Unauthorized { .. } => ErrorCode::ModelUnauthorized,
        ModelError::OutOfCredit { .. } => ErrorCode::ModelOutOfCredit,
        ModelError::TooLong { .. } => ErrorCode::ModelContextTooLong,
        ModelError::Filtered { .. } => ErrorCode::ModelFiltered,
        ModelError::Rejected { .. } | ModelError::LimitExceeded { .. } | ModelError::NotRecorded { .. } => {
            ErrorCode::ModelRejected
        }
    })
}

fn millis(cx: &Cx) -> u64 {
    let since = cx.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn taken(state: &ReactState, cx: &Cx) -> f64 {
    let ms = millis(cx).saturating_sub(state.started_ms);
    std::time::Duration::from_millis(ms).as_secs_f64()
}
