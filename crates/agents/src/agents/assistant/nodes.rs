//! The nodes of the assistant. What each asks a model is a plain function of the state, so that it can be shown later.

use std::sync::Arc;

use doran_engine::state::ItemChanges;
use doran_engine::{Cx, NodeError, Snap};
use doran_llm::{
    ChatRequest, Message, ModelRole, Role, ToolChoice, response_schema_of, strip_citation_marks,
};
use doran_retrieval::DocumentFilter;
use schemars::JsonSchema;
use serde::Deserialize;

use super::AssistantAgent;
use super::state::{AssistantState, AssistantStateUpdate, NextAction};
use crate::nodes::{
    BYTES_PER_TOKEN, MAX_DECISION_TOKENS, NodeWork, ReplyVisibility, ToolCaller, ask_structured, call_tools,
    final_reply, fit_messages, fit_request, remaining_tokens, sources_message, transcript,
    truncate_at_sentence as cut_text, verify_sources,
};
use crate::protocol::ThinkingStep;
use crate::request_purpose::RequestPurpose;
use crate::source::{AnswerSource, strip_old_citation_marks};
use crate::state::{conversation_language, older_messages_end};
use crate::tools::Taint;

/// Messages before the question that the router is shown.
const MAX_ROUTER_HISTORY_MESSAGES: usize = 4;

#[derive(Debug, Deserialize, JsonSchema)]
struct RouteDecision {
    route: AssistantRoute,
    reason: String,
}

// Comments in the form of docs would go into the schema, and so into every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AssistantRoute {
    Rag,
    Agent,
}

impl AssistantRoute {
    /// Its name in the reply of a model.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rag => "rag",
            Self::Agent => "agent",
        }
    }
}

/// Decides whether documents are looked up first.
pub(super) async fn router(
    own: Arc<AssistantAgent>,
    state: Snap<AssistantState>,
    cx: Cx,
) -> Result<AssistantStateUpdate, NodeError> {
    let language = conversation_language(own.language, &state.messages);
    let work = NodeWork::new(cx, language);
    let request = own.route_request(&state)?;
    let decided = ask_structured::<RouteDecision>(&work, &own.models, None, request).await?;
    let (next, reason) = match decided {
        Ok(RouteDecision { route: AssistantRoute::Rag, reason }) => (NextAction::Rag, reason),
        Ok(RouteDecision { route: AssistantRoute::Agent, reason }) => (NextAction::Agent, reason),
        Err(misfit) => {
            let ko = format!("경로를 정하는 답이 두 번 다 형식에 맞지 않아 agent로 보냅니다: {misfit}");
            let en = format!("the routing reply did not fit twice, so it goes to agent: {misfit}");
            (NextAction::Agent, language.pick(ko, en))
        }
    };
    let route = if next == NextAction::Rag { AssistantRoute::Rag } else { AssistantRoute::Agent }.as_str();
    work.show_thinking(ThinkingStep::Routing, format!("{route}: {reason}"), format!("{route}: {reason}"));
    let mut progress = state.progress.after_node("router", work.model_calls());
    progress.language = language;
    Ok(AssistantState::update().next_action(Some(next)).route_reason(Some(reason)).progress(progress))
}

/// Looks documents up. No model is asked unless questions are put in other words.
pub(super) async fn rag(
    own: Arc<AssistantAgent>,
    state: Snap<AssistantState>,
    cx: Cx,
) -> Result<AssistantStateUpdate, NodeError> {
    let work = NodeWork::new(cx, state.progress.language);
    work.show_thinking(ThinkingStep::Searching, "문서를 찾고 있습니다", "looking documents up");
    let collection = state.collection.clone().or_else(|| own.collection.clone());
    let filter = DocumentFilter { collection, ..DocumentFilter::default() };
    let found = own.finder.find(&work, &state.messages, own.limits.passages, filter).await?;
    let taint = state.taint.union(Taint::of_messages(&[sources_message(&found, work.language)]));
    let progress = state.progress.after_node("rag", work.model_calls());
    Ok(AssistantState::update().context(Some(found)).taint(taint).progress(progress))
}

/// Sums up what is too much to be worked with.
pub(super) async fn memory(
    own: Arc<AssistantAgent>,
    state: Snap<AssistantState>,
    cx: Cx,
) -> Result<AssistantStateUpdate, NodeError> {
    let work = NodeWork::new(cx, state.progress.language);
    let Some(request) = own.summary_request(&state)? else {
        return Ok(AssistantState::update().progress(state.progress.after_node("memory", 0)));
    };
    let older = &state.messages[..older_messages_end(&state.messages, own.limits.keep_recent)];
    let count = older.len();
    work.show_thinking(
        ThinkingStep::Summarizing,
        format!("오래된 메시지 {count}개를 요약합니다"),
        format!("summing up {count} older messages"),
    );
    let summary = work.ask(&own.models, request, ReplyVisibility::Hidden).await?.text;
    // However much a model writes, a summary is what fits beside the conversation.
    let most =
        usize::try_from(own.limits.summary_tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
    let window = state.summary.push_summary(cut_text(summary.trim(), most), own.limits.max_summaries);
    let gone = ItemChanges::remove(older.iter().map(|message| message.id.as_str()));
    let progress = state.progress.after_node("memory", work.model_calls());
    Ok(AssistantState::update().summary(window).messages(gone).progress(progress))
}

/// Answers, or asks for tools.
pub(super) async fn agent(
    own: Arc<AssistantAgent>,
    state: Snap<AssistantState>,
    cx: Cx,
) -> Result<AssistantStateUpdate, NodeError> {
    let work = NodeWork::new(cx, state.progress.language);
    let request = own.answer_request(&state)?;
    let may_call = request.tool_choice == ToolChoice::Auto;
    let asked = work.ask(&own.models, request, ReplyVisibility::Shown).await;
    let reply = if may_call { asked? } else { final_reply(&work, asked)? };
    let (text, calls) = (reply.text.clone(), !reply.tool_calls.is_empty());
    let progress = state.progress.after_node("agent", work.model_calls());
    let update = AssistantState::update().messages(reply.into_message(work.cx.new_id())).progress(progress);
    if calls {
        return Ok(update.next_action(Some(NextAction::Tools)));
    }
    let named = AnswerSource::cited_in(&text, state.context.as_deref().unwrap_or_default());
    let sources = verify_sources(&work, &*own.index, named).await?;
    Ok(update.next_action(Some(NextAction::End)).sources(sources))
}

/// Runs the tools that the model asked for.
pub(super) async fn tools(
    own: Arc<AssistantAgent>,
    state: Snap<AssistantState>,
    cx: Cx,
) -> Result<AssistantStateUpdate, NodeError> {
    let work = NodeWork::new(cx, state.progress.language);
    let read = own.answer_request(&state)?.messages;
    let caller = ToolCaller {
        toolbox: &own.tools,
        read_messages: &read,
        taint: state.taint,
        sessions: &state.sessions,
    };
    let called = call_tools(&work, &caller, &state.pending_tool_calls()).await?;
    let progress =
        state.progress.after_node("tools", 0).after_tool_round(called.tools_run.iter().map(String::as_str));
    Ok(AssistantState::update()
        .messages(Message::tool_output(work.cx.new_id(), called.results))
        .sessions(called.sessions)
        .taint(called.taint)
        .next_action(None)
        .progress(progress))
}

impl AssistantAgent {
    fn route_request(&self, state: &AssistantState) -> Result<ChatRequest, NodeError> {
        let language = conversation_language(self.language, &state.messages);
        let said: Vec<&Message> =
            state.messages.iter().filter(|message| is_spoken_message(message)).collect();
        let from = said.len().saturating_sub(MAX_ROUTER_HISTORY_MESSAGES + 1);
        let mut messages = vec![Message::system("system", self.prompts.router(language)?)];
        let said = said[from..].iter().copied().cloned().collect();
        let room = remaining_tokens(self.limits.context_length, &messages, &[]).min(MAX_DECISION_TOKENS);
        messages.extend(fit_messages(said, room, language));
        Ok(ChatRequest {
            purpose: RequestPurpose::Route.label(),
            role: ModelRole::Small,
            schema: Some(response_schema_of::<RouteDecision>()),
            temperature: Some(0.0),
            ..ChatRequest::new(messages)
        })
    }

    /// None while there is room for all messages.
    fn summary_request(&self, state: &AssistantState) -> Result<Option<ChatRequest>, NodeError> {
        if state.messages.len() <= self.limits.max_messages {
            return Ok(None);
        }
        let language = state.progress.language;
        let older = &state.messages[..older_messages_end(&state.messages, self.limits.keep_recent)];
        let mut messages = vec![Message::system("system", self.prompts.summary(language)?)];
        let room = remaining_tokens(self.limits.context_length, &messages, &[]);
        messages.push(transcript("transcript", &fit_messages(older.to_vec(), room, language), language));
        Ok(Some(ChatRequest {
            purpose: RequestPurpose::Summarize.label(),
            role: ModelRole::Small,
            temperature: Some(0.0),
            max_output_tokens: Some(self.limits.summary_tokens),
            ..ChatRequest::new(messages)
        }))
    }

    /// System text and summaries, documents, then the recent messages.
    fn answer_request(&self, state: &AssistantState) -> Result<ChatRequest, NodeError> {
        let language = state.progress.language;
        let summaries: Vec<String> =
            state.summary.0.iter().map(|summary| strip_citation_marks(summary)).collect();
        let system = self.prompts.assistant(language, &summaries)?;
        let mut messages = vec![Message::system("system", system)];
        messages.extend(state.context.as_deref().map(|found| sources_message(found, language)));
        let tools = self.tools.specs();
        let room = remaining_tokens(self.limits.context_length, &messages, &tools);
        messages.extend(fit_messages(strip_old_citation_marks(&state.messages), room, language));
        let rounds_left = state.progress.tool_rounds < self.limits.max_tool_rounds && !tools.is_empty();
        let tool_choice = if rounds_left { ToolChoice::Auto } else { ToolChoice::None };
        let request = ChatRequest { tools, tool_choice, ..ChatRequest::new(messages) };
        Ok(fit_request(request, self.limits.context_length, language))
    }

    pub(super) fn explain(&self, node: &str, state: &AssistantState) -> Vec<ChatRequest> {
        let request = match node {
            "router" => self.route_request(state).map(Some),
            "rag" => Ok(self.finder.explain(&state.messages, state.progress.language)),
            "memory" => self.summary_request(state),
            "agent" => self.answer_request(state).map(Some),
            _ => Ok(None),
        };
        request.ok().flatten().into_iter().collect()
    }
}

/// Words of the person or of the model; not a call of tools, and not what they gave.
fn is_spoken_message(message: &Message) -> bool {
    matches!(message.role, Role::User | Role::Assistant) && !message.text().is_empty()
}
