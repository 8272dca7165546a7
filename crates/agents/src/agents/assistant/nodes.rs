//! The nodes of the assistant. What each asks a model is a plain function of the state, so that it can be shown later.

use std::sync::Arc;

use doran_engine::state::Changes;
use doran_engine::{Cx, NodeError, Snap};
use doran_llm::{ChatRequest, Message, ModelRole, Purpose, Role, ToolChoice, schema_of, without_marks};
use doran_retrieval::Filter;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Assistant;
use super::state::{AssistantState, AssistantStateUpdate, NextAction};
use crate::nodes::{
    BYTES_PER_TOKEN, Caller, DECIDING, Step, Words, Work, ask_for, call_tools, cut as cut_text, fitted,
    last_words, material, room_beside, transcript, verified, within,
};
use crate::source::{Source, without_old_marks};
use crate::state::{cut, spoken};
use crate::tools::Taint;

/// Messages before the question that the router is shown.
const ROUTER_MEMORY: usize = 4;

#[derive(Debug, Deserialize, JsonSchema)]
struct RouteDecision {
    route: Route,
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Route {
    Rag,
    Agent,
}

/// Decides whether documents are looked up first.
pub(super) async fn router(
    own: Arc<Assistant>,
    state: Snap<AssistantState>,
    cx: Cx,
) -> Result<AssistantStateUpdate, NodeError> {
    let language = spoken(own.language, &state.messages);
    let work = Work::new(cx, language);
    let request = own.route_request(&state)?;
    let decided = ask_for::<RouteDecision>(&work, &own.models, None, request).await?;
    let (next, reason) = match decided {
        Ok(RouteDecision { route: Route::Rag, reason }) => (NextAction::Rag, reason),
        Ok(RouteDecision { route: Route::Agent, reason }) => (NextAction::Agent, reason),
        Err(misfit) => {
            let ko = format!("경로를 정하는 답이 두 번 다 형식에 맞지 않아 agent로 보냅니다: {misfit}");
            let en = format!("the routing reply did not fit twice, so it goes to agent: {misfit}");
            (NextAction::Agent, language.pick(ko, en))
        }
    };
    let route = if next == NextAction::Rag { "rag" } else { "agent" };
    work.thinking(Step::Routing, format!("{route}: {reason}"), format!("{route}: {reason}"));
    let mut progress = state.progress.after("router", work.calls());
    progress.language = language;
    Ok(AssistantState::update().next_action(Some(next)).route_reason(Some(reason)).progress(progress))
}

/// Looks documents up. No model is asked unless questions are put in other words.
pub(super) async fn rag(
    own: Arc<Assistant>,
    state: Snap<AssistantState>,
    cx: Cx,
) -> Result<AssistantStateUpdate, NodeError> {
    let work = Work::new(cx, state.progress.language);
    work.thinking(Step::Searching, "문서를 찾고 있습니다", "looking documents up");
    let collection = state.collection.clone().or_else(|| own.collection.clone());
    let filter = Filter { collection, ..Filter::default() };
    let found = own.finder.find(&work, &state.messages, own.limits.passages, filter).await?;
    let taint = state.taint.and(Taint::of(&[material(&found, work.language)]));
    let progress = state.progress.after("rag", work.calls());
    Ok(AssistantState::update().context(Some(found)).taint(taint).progress(progress))
}

/// Sums up what is too much to be worked with.
pub(super) async fn memory(
    own: Arc<Assistant>,
    state: Snap<AssistantState>,
    cx: Cx,
) -> Result<AssistantStateUpdate, NodeError> {
    let work = Work::new(cx, state.progress.language);
    let Some(request) = own.summary_request(&state)? else {
        return Ok(AssistantState::update().progress(state.progress.after("memory", 0)));
    };
    let older = &state.messages[..cut(&state.messages, own.limits.keep_recent)];
    let count = older.len();
    work.thinking(
        Step::Summarizing,
        format!("오래된 메시지 {count}개를 요약합니다"),
        format!("summing up {count} older messages"),
    );
    let summary = work.ask(&own.models, request, Words::Hidden).await?.text;
    // However much a model writes, a summary is what fits beside the conversation.
    let most =
        usize::try_from(own.limits.summary_tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
    let window = state.summary.and(cut_text(summary.trim(), most), own.limits.max_summaries);
    let gone = Changes::remove(older.iter().map(|message| message.id.as_str()));
    let progress = state.progress.after("memory", work.calls());
    Ok(AssistantState::update().summary(window).messages(gone).progress(progress))
}

/// Answers, or asks for tools.
pub(super) async fn agent(
    own: Arc<Assistant>,
    state: Snap<AssistantState>,
    cx: Cx,
) -> Result<AssistantStateUpdate, NodeError> {
    let work = Work::new(cx, state.progress.language);
    let request = own.answer_request(&state)?;
    let may_call = request.tool_choice == ToolChoice::Auto;
    let asked = work.ask(&own.models, request, Words::Shown).await;
    let reply = if may_call { asked? } else { last_words(&work, asked)? };
    let (text, calls) = (reply.text.clone(), !reply.tool_calls.is_empty());
    let progress = state.progress.after("agent", work.calls());
    let update = AssistantState::update().messages(reply.into_message(work.cx.new_id())).progress(progress);
    if calls {
        return Ok(update.next_action(Some(NextAction::Tools)));
    }
    let named = Source::named_in(&text, state.context.as_deref().unwrap_or_default());
    let sources = verified(&work, &*own.index, named).await?;
    Ok(update.next_action(Some(NextAction::End)).sources(sources))
}

/// Runs the tools that the model asked for.
pub(super) async fn tools(
    own: Arc<Assistant>,
    state: Snap<AssistantState>,
    cx: Cx,
) -> Result<AssistantStateUpdate, NodeError> {
    let work = Work::new(cx, state.progress.language);
    let read = own.answer_request(&state)?.messages;
    let caller = Caller { toolbox: &own.tools, read: &read, taint: state.taint, sessions: &state.sessions };
    let called = call_tools(&work, &caller, &state.pending()).await?;
    let progress = state.progress.after("tools", 0).with_tools(called.ran.iter().map(String::as_str));
    Ok(AssistantState::update()
        .messages(Message::tool_output(work.cx.new_id(), called.results))
        .sessions(called.sessions)
        .taint(called.taint)
        .next_action(None)
        .progress(progress))
}

impl Assistant {
    fn route_request(&self, state: &AssistantState) -> Result<ChatRequest, NodeError> {
        let language = spoken(self.language, &state.messages);
        let said: Vec<&Message> = state.messages.iter().filter(|message| is_talk(message)).collect();
        let from = said.len().saturating_sub(ROUTER_MEMORY + 1);
        let mut messages = vec![Message::system("system", self.prompts.router(language)?)];
        let said = said[from..].iter().copied().cloned().collect();
        let room = room_beside(self.limits.context_length, &messages, &[]).min(DECIDING);
        messages.extend(within(said, room, language));
        Ok(ChatRequest {
            purpose: Purpose::Route,
            role: ModelRole::Small,
            schema: Some(schema_of::<RouteDecision>()),
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
        let older = &state.messages[..cut(&state.messages, self.limits.keep_recent)];
        let mut messages = vec![Message::system("system", self.prompts.summary(language)?)];
        let room = room_beside(self.limits.context_length, &messages, &[]);
        messages.push(transcript("transcript", &within(older.to_vec(), room, language), language));
        Ok(Some(ChatRequest {
            purpose: Purpose::Summarize,
            role: ModelRole::Small,
            temperature: Some(0.0),
            max_output_tokens: Some(self.limits.summary_tokens),
            ..ChatRequest::new(messages)
        }))
    }

    /// System text and summaries, documents, then the recent messages.
    fn answer_request(&self, state: &AssistantState) -> Result<ChatRequest, NodeError> {
        let language = state.progress.language;
        let summaries: Vec<String> = state.summary.0.iter().map(|summary| without_marks(summary)).collect();
        let system = self.prompts.assistant(language, &summaries)?;
        let mut messages = vec![Message::system("system", system)];
        messages.extend(state.context.as_deref().map(|found| material(found, language)));
        let tools = self.tools.specs();
        let room = room_beside(self.limits.context_length, &messages, &tools);
        messages.extend(within(without_old_marks(&state.messages), room, language));
        let rounds_left = state.progress.tool_rounds < self.limits.max_tool_rounds && !tools.is_empty();
        let tool_choice = if rounds_left { ToolChoice::Auto } else { ToolChoice::None };
        let request = ChatRequest { tools, tool_choice, ..ChatRequest::new(messages) };
        Ok(fitted(request, self.limits.context_length, language))
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
fn is_talk(message: &Message) -> bool {
    matches!(message.role, Role::User | Role::Assistant) && !message.text().is_empty()
}
