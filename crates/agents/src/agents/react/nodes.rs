//! The nodes of the react agent.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use doran_engine::{Cx, NodeError, Snap};
use doran_llm::{ChatRequest, Message, ModelError, TextOrigin, ToolResult};
use doran_retrieval::DocumentTenant;

use super::ReactAgent;
use super::error_messages::{call_not_run_message, error_message};
use super::state::{ReactErrorCode, ReactState, ReactStateUpdate};
use crate::agents::RequestExplainer;
use crate::nodes::{NodeWork, ToolCaller, ask_answer, call_tools, fit_request, hint_at_repeated_calls};
use crate::state::{attach_document, attach_images, conversation_language};

/// Takes the question in.
pub(super) async fn input(
    own: Arc<ReactAgent>,
    state: Snap<ReactState>,
    cx: Cx,
) -> Result<ReactStateUpdate, NodeError> {
    let text = state.user_message.clone().unwrap_or_default();
    let message = state.label.apply_to(Message::user(cx.new_id(), text.clone()));
    let message = attach_document(message, state.document.as_deref());
    let mut new_messages = vec![attach_images(message, &state.images)];
    new_messages.extend(state.following.iter().cloned());
    let messages = [&state.messages[..], &new_messages].concat();
    let mut progress = state.progress.after_node("input", 0);
    progress.language = conversation_language(own.language, &messages);
    let session = cx.thread().map(|thread| thread.as_str().to_owned());
    let update = ReactState::update()
        .current_step("input")
        .session_id(session)
        .started_ms(now_millis(&cx)?)
        .progress(progress);
    if text.trim().is_empty() && state.images.is_empty() {
        return Ok(update
            .error(Some("the input is empty".into()))
            .error_code(Some(ReactErrorCode::EmptyInput)));
    }
    Ok(update.messages(new_messages))
}

/// Asks the model. A final failure is an error of the turn, not of the run.
pub(super) async fn llm(
    own: Arc<ReactAgent>,
    state: Snap<ReactState>,
    cx: Cx,
) -> Result<ReactStateUpdate, NodeError> {
    let work = NodeWork::new(cx, &state.progress);
    let update = ReactState::update().current_step("llm").iteration_count(state.iteration_count + 1);
    match ask_answer(&work, &own.models, own.request(&state)?).await {
        Ok(reply) => {
            let reply = state.request.limit_calls(reply);
            let calls = reply.tool_calls.clone();
            let progress = state.progress.after_node("llm", work.model_calls());
            let message = reply.into_message(work.take_reply_id());
            Ok(update
                .messages(message.clone())
                .ai_message(Some(message))
                .tool_execution_requests(calls)
                .progress(state.request.progress_after_request(progress)))
        }
        Err(error) => match model_error_code(&error) {
            Some(code) => Ok(update
                .error(Some(error.to_string()))
                .error_code(Some(code))
                .tool_execution_requests(Vec::new())
                .progress(state.progress.after_node("llm", work.model_calls()))),
            None => Err(error),
        },
    }
}

/// Decides where to go; the decision itself is the branch behind this node.
pub(super) async fn conditional(
    own: Arc<ReactAgent>,
    state: Snap<ReactState>,
    _: Cx,
) -> Result<ReactStateUpdate, NodeError> {
    let update = ReactState::update()
        .current_step("conditional")
        .progress(state.progress.after_node("conditional", 0));
    if state.error_code.is_none() && state.iteration_count > own.max_iterations {
        let content = format!(
            "the model was asked {} times, and {} are allowed",
            state.iteration_count, own.max_iterations
        );
        return Ok(update.error(Some(content)).error_code(Some(ReactErrorCode::MaxIterationsExceeded)));
    }
    Ok(update)
}

/// Runs the tools. One that fails gives an error as its result.
pub(super) async fn tool(
    own: Arc<ReactAgent>,
    state: Snap<ReactState>,
    cx: Cx,
) -> Result<ReactStateUpdate, NodeError> {
    let work = NodeWork::new(cx, &state.progress);
    let read = own.request(&state)?.messages;
    let caller = ToolCaller {
        toolbox: &own.tools,
        read_messages: &read,
        taint: state.taint,
        sessions: &state.sessions,
        turn_request: &state.request,
    };
    let called = call_tools(&work, &caller, &state.tool_execution_requests).await?;
    let mut update = ReactState::update()
        .current_step("tool")
        .messages(called.message_changes(work.cx.new_id(), &state.messages))
        .progress(called.progress_after(&state.progress, "tool"))
        .tool_execution_results(called.results)
        .tool_execution_requests(Vec::new())
        .sessions(called.sessions)
        .taint(called.taint);
    update.iteration_count = called.turn_request.is_some().then_some(0);
    update.request = called.turn_request;
    Ok(update)
}

/// Hands the answer over.
pub(super) async fn response(
    _: Arc<ReactAgent>,
    state: Snap<ReactState>,
    cx: Cx,
) -> Result<ReactStateUpdate, NodeError> {
    let text = state.ai_message.as_ref().map(Message::text).unwrap_or_default();
    Ok(ReactState::update()
        .current_step("response")
        .response(Some(text))
        .execution_time(Some(elapsed_seconds(&state, &cx)?))
        .progress(state.progress.after_node("response", 0)))
}

/// Says in plain words that there is no answer. The conversation is left so that it can go on.
pub(super) async fn error(
    _: Arc<ReactAgent>,
    state: Snap<ReactState>,
    cx: Cx,
) -> Result<ReactStateUpdate, NodeError> {
    let language = state.progress.language;
    let code = state.error_code.unwrap_or(ReactErrorCode::Internal);
    let sentence = error_message(code, language);
    let reply_id = cx.new_id();
    cx.emit_text_of(&reply_id, sentence);
    let mut messages = Vec::new();
    let open = state.tool_execution_requests.iter().map(|call| ToolResult {
        call: call.id.clone(),
        name: call.name.clone(),
        text: call_not_run_message(language).to_owned(),
        failed: true,
        origin: TextOrigin::Program,
    });
    let open: Vec<ToolResult> = open.collect();
    if !open.is_empty() {
        messages.push(Message::tool_output(cx.new_id(), open));
    }
    messages.push(Message::assistant(reply_id, sentence));
    Ok(ReactState::update()
        .current_step("error")
        .messages(messages)
        .tool_execution_requests(Vec::new())
        .error_code(Some(code))
        .response(Some(sentence.to_owned()))
        .execution_time(Some(elapsed_seconds(&state, &cx)?))
        .progress(state.progress.after_node("error", 0)))
}

impl ReactAgent {
    fn request(&self, state: &ReactState) -> Result<ChatRequest, NodeError> {
        let (tools, tool_choice) = state.request.offered_tools(self.tools.specs(), &state.progress);
        let system = self.prompts.react(state.progress.language, &tools)?;
        let mut messages = vec![Message::system("system", system)];
        messages.extend(state.messages.iter().cloned());
        let temperature = state.progress.chosen.temperature;
        let request = ChatRequest { tools, tool_choice, temperature, ..ChatRequest::new(messages) };
        let request = state.request.apply_settings(request);
        let request = hint_at_repeated_calls(request, state.progress.language);
        Ok(fit_request(request, self.context_length, state.progress.language))
    }
}

#[async_trait]
impl RequestExplainer<ReactState> for ReactAgent {
    async fn explain(
        &self,
        node: &str,
        state: &ReactState,
        _: &DocumentTenant,
    ) -> Result<Vec<ChatRequest>, NodeError> {
        if node == "llm" { Ok(vec![self.request(state)?]) } else { Ok(Vec::new()) }
    }
}

/// The code of an error of a model; none for what is no business of the turn: a question, a limit, a lost store.
fn model_error_code(error: &NodeError) -> Option<ReactErrorCode> {
    Some(match error.source().downcast_ref::<ModelError>()? {
        ModelError::Unavailable { .. }
        | ModelError::Unreachable { .. }
        | ModelError::RateLimited { .. }
        | ModelError::Broken { .. }
        | ModelError::Empty { .. } => ReactErrorCode::ModelUnavailable,
        ModelError::Unauthorized { .. } => ReactErrorCode::ModelUnauthorized,
        ModelError::OutOfCredit { .. } => ReactErrorCode::ModelOutOfCredit,
        ModelError::TooLong { .. } => ReactErrorCode::ModelContextTooLong,
        ModelError::Filtered { .. } => ReactErrorCode::ModelFiltered,
        ModelError::Rejected { .. } | ModelError::LimitExceeded { .. } | ModelError::NotRecorded { .. } => {
            ReactErrorCode::ModelRejected
        }
    })
}

fn now_millis(cx: &Cx) -> Result<u64, NodeError> {
    let since = cx.now()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn elapsed_seconds(state: &ReactState, cx: &Cx) -> Result<f64, NodeError> {
    let ms = now_millis(cx)?.saturating_sub(state.started_ms);
    Ok(std::time::Duration::from_millis(ms).as_secs_f64())
}
