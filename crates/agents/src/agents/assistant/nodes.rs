//! The nodes of the assistant. Each model request is a pure function of the state, so that it can be shown later; the
//! router is also told titles of documents.

use std::sync::Arc;

use async_trait::async_trait;
use doran_engine::state::ItemChanges;
use doran_engine::{Cx, NodeError, Snap};
use doran_llm::{
    ChatRequest, Message, ModelRole, Role, ToolChoice, response_schema_of, strip_citation_marks,
};
use doran_retrieval::DocumentTenant;
use schemars::JsonSchema;
use serde::Deserialize;

use super::AssistantAgent;
use super::state::{AssistantState, AssistantStateUpdate, NextAction};
use crate::agents::RequestExplainer;
use crate::nodes::{
    BYTES_PER_TOKEN, MAX_DECISION_TOKENS, NodeWork, ReplyVisibility, SearchScope, ToolCaller, ask_answer,
    ask_structured, call_tools, conversation_as_text, final_reply, fit_messages, fit_request,
    hint_at_repeated_calls, library_heading, remaining_tokens, retrieval_tenant, sources_message,
    titles_message, truncate_at_sentence as cut_text, verify_sources,
};
use crate::protocol::ThinkingStep;
use crate::request_purpose::RequestPurpose;
use crate::source::{AnswerSource, strip_old_citation_marks};
use crate::state::{conversation_language, newest_question, older_messages_end, typed_text};

/// Messages before the question that the router is shown.
const MAX_ROUTER_HISTORY_MESSAGES: usize = 4;

#[derive(Debug, Deserialize, JsonSchema)]
struct RouteDecision {
    // First, so that a model thinks before it chooses.
    reason: String,
    route: AssistantRoute,
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
    let work = NodeWork::new(cx, &state.progress).in_language(language);
    let titles = own.finder.library_titles(&retrieval_tenant(&work)?, own.collection_of(&state)).await?;
    let Some(request) = own.route_request(&state, &titles)? else {
        let mut progress = state.progress.after_node("router", 0);
        progress.language = language;
        return Ok(AssistantState::update()
            .next_action(Some(NextAction::Agent))
            .route_reason(None)
            .progress(progress));
    };
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

/// Looks documents up. No model is called unless questions are reworded or passages reranked.
pub(super) async fn rag(
    own: Arc<AssistantAgent>,
    state: Snap<AssistantState>,
    cx: Cx,
) -> Result<AssistantStateUpdate, NodeError> {
    let work = NodeWork::new(cx, &state.progress);
    let (found, taint) =
        own.finder.find(&work, &state.messages, own.search_scope(&state), state.taint).await?;
    let progress = state.progress.after_node("rag", work.model_calls());
    Ok(AssistantState::update().context(found).taint(taint).progress(progress))
}

/// Sums up what is too much to be worked with.
pub(super) async fn memory(
    own: Arc<AssistantAgent>,
    state: Snap<AssistantState>,
    cx: Cx,
) -> Result<AssistantStateUpdate, NodeError> {
    let work = NodeWork::new(cx, &state.progress);
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
    let max_summary_bytes =
        usize::try_from(own.limits.summary_tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
    let window =
        state.summary.push_summary(cut_text(summary.trim(), max_summary_bytes), own.limits.max_summaries);
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
    let work = NodeWork::new(cx, &state.progress);
    let request = own.answer_request(&state)?;
    let may_call = request.tool_choice != ToolChoice::None;
    let reply = ask_answer(&work, &own.models, request).await;
    let reply = if may_call { reply? } else { final_reply(&work, reply)? };
    let reply = state.request.limit_calls(reply);
    let (text, calls) = (reply.text.clone(), !reply.tool_calls.is_empty());
    let progress = state.progress.after_node("agent", work.model_calls());
    let progress = state.request.progress_after_request(progress);
    let update =
        AssistantState::update().messages(reply.into_message(work.take_reply_id())).progress(progress);
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
    let work = NodeWork::new(cx, &state.progress);
    let read = own.answer_request(&state)?.messages;
    let caller = ToolCaller {
        toolbox: &own.tools,
        read_messages: &read,
        taint: state.taint,
        sessions: &state.sessions,
        turn_request: &state.request,
    };
    let called = call_tools(&work, &caller, &state.pending_tool_calls()).await?;
    let mut update = AssistantState::update()
        .messages(called.message_changes(work.cx.new_id(), &state.messages))
        .progress(called.progress_after(&state.progress, "tools"))
        .sessions(called.sessions)
        .taint(called.taint)
        .next_action(None);
    update.request = called.turn_request;
    Ok(update)
}

impl AssistantAgent {
    /// The collection that is searched; all documents without one.
    fn search_scope(&self, state: &AssistantState) -> SearchScope {
        let default = || self.models.default_passages(&state.progress.chosen);
        let limit = self.limits.passages.unwrap_or_else(default);
        SearchScope { limit, collection: self.collection_of(state) }
    }

    fn collection_of(&self, state: &AssistantState) -> Option<String> {
        state.collection.clone().or_else(|| self.collection.clone())
    }

    /// None for a question without words: there is nothing to look up.
    fn route_request(
        &self,
        state: &AssistantState,
        titles: &[String],
    ) -> Result<Option<ChatRequest>, NodeError> {
        if newest_question(&state.messages).is_some_and(|question| typed_text(question).trim().is_empty()) {
            return Ok(None);
        }
        let language = conversation_language(self.language, &state.messages);
        let conversation: Vec<&Message> =
            state.messages.iter().filter(|message| is_spoken_message(message)).collect();
        let from = conversation.len().saturating_sub(MAX_ROUTER_HISTORY_MESSAGES + 1);
        let mut messages = vec![Message::system("system", self.prompts.router(language)?)];
        messages.extend(titles_message(library_heading(language), titles));
        let conversation = conversation[from..].iter().copied().cloned().collect();
        let room = remaining_tokens(self.limits.context_length, &messages, &[]).min(MAX_DECISION_TOKENS);
        messages.extend(fit_messages(conversation, room, language));
        Ok(Some(ChatRequest {
            purpose: RequestPurpose::Route.label(),
            role: ModelRole::Small,
            schema: Some(response_schema_of::<RouteDecision>()),
            temperature: Some(0.0),
            ..ChatRequest::new(messages)
        }))
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
        messages.push(conversation_as_text(
            "transcript",
            &fit_messages(older.to_vec(), room, language),
            language,
        ));
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
        let (tools, choice) = state.request.offered_tools(self.tools.specs(), &state.progress);
        let system = self.prompts.assistant(language, &summaries, &tools)?;
        let mut messages = vec![Message::system("system", system)];
        messages.extend(state.context.as_deref().map(|found| sources_message(found, language)));
        let room = remaining_tokens(self.limits.context_length, &messages, &tools);
        messages.extend(fit_messages(strip_old_citation_marks(&state.messages), room, language));
        let has_rounds_left = state.progress.tool_rounds < self.limits.max_tool_rounds && !tools.is_empty();
        let tool_choice = if has_rounds_left { choice } else { ToolChoice::None };
        let temperature = state.progress.chosen.temperature;
        let request = ChatRequest { tools, tool_choice, temperature, ..ChatRequest::new(messages) };
        let request = hint_at_repeated_calls(state.request.apply_settings(request), language);
        Ok(fit_request(request, self.limits.context_length, language))
    }
}

#[async_trait]
impl RequestExplainer<AssistantState> for AssistantAgent {
    async fn explain(
        &self,
        node: &str,
        state: &AssistantState,
        tenant: &DocumentTenant,
    ) -> Result<Vec<ChatRequest>, NodeError> {
        let request = match node {
            "router" => {
                let titles = self.finder.library_titles(tenant, self.collection_of(state)).await?;
                self.route_request(state, &titles)?
            }
            "rag" => {
                let scope = self.search_scope(state);
                return self.finder.explain(&state.messages, &state.progress, tenant, scope).await;
            }
            "memory" => self.summary_request(state)?,
            "agent" => Some(self.answer_request(state)?),
            _ => None,
        };
        Ok(request.into_iter().collect())
    }
}

/// Words of the person or of the model; not a call of tools, and not what they gave.
fn is_spoken_message(message: &Message) -> bool {
    matches!(message.role, Role::User | Role::Assistant) && !message.text().is_empty()
}
