//! The nodes of the document agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use doran_engine::state::ItemChanges;
use doran_engine::{Cx, NodeError, Snap};
use doran_llm::{ChatRequest, Message, ModelRole, ToolChoice, response_schema_of, strip_citation_marks};
use doran_retrieval::DocumentTenant;
use schemars::JsonSchema;
use serde::Deserialize;

use super::DocqaAgent;
use super::compression::{
    self, CompressionPlan, estimate_conversation_tokens, plan_compression, split_transcript,
};
use super::state::{CompressionResult, DocqaState, DocqaStateUpdate, QueryType};
use crate::agents::{RequestExplainer, TurnRequest};
use crate::anaphora::refers_to_previous_turn;
use crate::nodes::{
    MAX_DECISION_TOKENS, NodeWork, ReplyVisibility, SearchScope, ToolCaller, ask_structured, call_tools,
    conversation_as_text, final_reply, fit_messages, fit_request, library_heading, remaining_tokens,
    retrieval_tenant, sources_message, titles_message, truncate_at_sentence, verify_sources,
};
use crate::protocol::ThinkingStep;
use crate::request_format::SUMMARY_MESSAGE_ID;
use crate::request_purpose::RequestPurpose;
use crate::source::{AnswerSource, strip_old_citation_marks};
use crate::state::{conversation_language, has_given_text, newest_question, typed_text};
use crate::summaries::Summaries;
use crate::tools::Taint;

/// Most pieces of a conversation that are summed up one by one.
const MAX_TRANSCRIPT_CHUNKS: usize = 16;

#[derive(Debug, Deserialize, JsonSchema)]
struct QueryClassification {
    // First, so that a model thinks before it chooses.
    #[allow(dead_code, reason = "asked for because a model decides better when it says why")]
    reason: String,
    r#type: QueryType,
}

/// Decides what the person wants. A reply that does not fit, twice, is taken for a question: documents do no harm.
pub(super) async fn classify_query(
    own: Arc<DocqaAgent>,
    state: Snap<DocqaState>,
    cx: Cx,
) -> Result<DocqaStateUpdate, NodeError> {
    let language = conversation_language(own.language, &state.messages);
    let work = NodeWork::new(cx, &state.progress).in_language(language);
    let titles = own.finder.library_titles(&retrieval_tenant(&work)?, own.collection_of(&state)).await?;
    let request = own.classify_request(&state, &titles)?;
    let decided = ask_structured::<QueryClassification>(&work, &own.models, None, request).await?;
    // With nothing said before and no text given, a summary can only be of documents. They are looked up, unless the words
    // point at something that nobody has named.
    let is_of_documents = |question: &Message| {
        state.is_first_turn() && !has_given_text(question) && !refers_to_previous_turn(&typed_text(question))
    };
    let kind = match decided.map_or(QueryType::Question, |classified| classified.r#type) {
        QueryType::Summary if newest_question(&state.messages).is_some_and(is_of_documents) => {
            QueryType::Question
        }
        kind => kind,
    };
    let (ko, en) = match kind {
        QueryType::Question => ("문서에서 답을 찾을 질문입니다", "a question for the documents"),
        QueryType::Summary => ("나눈 대화를 요약합니다", "a summary of the conversation"),
        QueryType::Chitchat => ("문서 없이 답할 이야기입니다", "small talk, no documents"),
    };
    work.show_thinking(ThinkingStep::Routing, ko, en);
    let mut progress = state.progress.after_node("classifyQuery", work.model_calls());
    progress.language = language;
    Ok(DocqaState::update().query_type(Some(kind)).current_step("classifyQuery").progress(progress))
}

/// Looks documents up. No model is called unless questions are reworded or passages reranked.
pub(super) async fn retrieve_docs(
    own: Arc<DocqaAgent>,
    state: Snap<DocqaState>,
    cx: Cx,
) -> Result<DocqaStateUpdate, NodeError> {
    let work = NodeWork::new(cx, &state.progress);
    let (found, taint) =
        own.finder.find(&work, &state.messages, own.search_scope(&state), state.taint).await?;
    let progress = state.progress.after_node("retrieveDocs", work.model_calls());
    let update = DocqaState::update()
        .documents(found.unwrap_or_default())
        .current_step("retrieveDocs")
        .progress(progress);
    Ok(if taint == state.taint { update } else { update.taint(taint) })
}

/// Answers. Where settings give it tools, those that the model asks for are run first; the conversation keeps the answer.
pub(super) async fn generate_answer(
    own: Arc<DocqaAgent>,
    state: Snap<DocqaState>,
    cx: Cx,
) -> Result<DocqaStateUpdate, NodeError> {
    let work = NodeWork::new(cx, &state.progress);
    work.show_thinking(ThinkingStep::Generating, "답을 쓰고 있습니다", "writing the answer");
    let mut round = AnswerToolCalls { taint: state.taint, ..AnswerToolCalls::default() };
    let mut progress = state.progress.clone();
    let reply = loop {
        let request = own.answer_request(&state, &round.messages, progress.tool_rounds)?;
        let (may_call, read) = (request.tool_choice == ToolChoice::Auto, request.messages.clone());
        let reply = work.ask(&own.models, request, ReplyVisibility::Shown).await;
        let reply = if may_call { reply? } else { final_reply(&work, reply)? };
        if reply.tool_calls.is_empty() {
            break reply;
        }
        let calls = reply.tool_calls.clone();
        let mut sessions = state.sessions.clone();
        sessions.extend(round.sessions.clone());
        let caller = ToolCaller {
            toolbox: &own.tools,
            read_messages: &read,
            taint: round.taint,
            sessions: &sessions,
            turn_request: &TurnRequest::default(),
        };
        let called = call_tools(&work, &caller, &calls).await?;
        progress = progress.after_tool_round(called.tools_run.iter().map(String::as_str));
        round.taint = called.taint;
        round.messages.push(reply.into_message(work.take_reply_id()));
        round.messages.push(called.message(work.cx.new_id()));
        round.sessions.extend(called.sessions);
    };
    let sources =
        verify_sources(&work, &*own.index, AnswerSource::cited_in(&reply.text, &state.documents)).await?;
    let progress = progress.after_node("generateAnswer", work.model_calls());
    let mut update = DocqaState::update();
    if !round.messages.is_empty() {
        update = update.taint(round.taint).sessions(round.sessions);
    }
    Ok(update
        .messages(reply.into_message(work.take_reply_id()))
        .sources(sources)
        .current_step("generateAnswer")
        .progress(progress))
}

/// What tools were asked and gave within one answer.
#[derive(Default)]
struct AnswerToolCalls {
    messages: Vec<Message>,
    sessions: BTreeMap<String, String>,
    taint: Taint,
}

/// Makes the conversation small: the newest messages stay, the summary takes in all of it, and together they are at
/// most the share that was set, whatever the model does.
pub(super) async fn summarize_history(
    own: Arc<DocqaAgent>,
    state: Snap<DocqaState>,
    cx: Cx,
) -> Result<DocqaStateUpdate, NodeError> {
    let language = state.progress.language;
    let work = NodeWork::new(cx, &state.progress).in_language(language);
    let most_tokens = own.limits.max_tokens_after_compression();
    let tokens_before = estimate_conversation_tokens(state.summary_text(), &state.messages);
    let CompressionPlan { recent_messages: kept, summary_bytes: room } =
        plan_compression(&state.messages, own.limits.keep_recent, most_tokens, language);
    work.show_thinking(
        ThinkingStep::Summarizing,
        format!("대화 약 {tokens_before}토큰을 {most_tokens}토큰 아래로 줄입니다"),
        format!("condensing about {tokens_before} tokens to at most {most_tokens}"),
    );
    let summary = own.condense_conversation(&work, &state, room).await?;
    let tokens_after = estimate_conversation_tokens(&summary, &kept);
    let compressed = CompressionResult { tokens_before, tokens_after, most_tokens };
    work.cx.note("compressed", compressed);
    work.show_thinking(
        ThinkingStep::Summarizing,
        format!("대화를 약 {tokens_before}토큰에서 {tokens_after}토큰으로 줄였습니다"),
        format!("condensed the conversation from about {tokens_before} to {tokens_after} tokens"),
    );
    let gone = &state.messages[..state.messages.len() - kept.len()];
    let shortened: Vec<Message> =
        kept.into_iter().filter(|message| !state.messages.contains(message)).collect();
    let answer = state.messages.last().filter(|last| shortened.iter().any(|short| short.id == last.id));
    let full_answer = answer.map(Message::text);
    let changes = ItemChanges::remove(gone.iter().map(|message| message.id.as_str())).put(shortened);
    let progress = state.progress.after_node("summarizeHistory", work.model_calls());
    Ok(DocqaState::update()
        .summary(Summaries(if summary.is_empty() { Vec::new() } else { vec![summary] }))
        .messages(changes)
        .compressed(Some(compressed))
        .full_answer(full_answer)
        .current_step("summarizeHistory")
        .progress(progress))
}

impl DocqaAgent {
    /// The collection that is searched; all documents without one.
    fn search_scope(&self, state: &DocqaState) -> SearchScope {
        let default = || self.models.default_passages(&state.progress.chosen);
        let limit = self.limits.passages.unwrap_or_else(default);
        SearchScope { limit, collection: self.collection_of(state) }
    }

    fn collection_of(&self, state: &DocqaState) -> Option<String> {
        state.collection.clone().or_else(|| self.collection.clone())
    }

    fn classify_request(&self, state: &DocqaState, titles: &[String]) -> Result<ChatRequest, NodeError> {
        let language = conversation_language(self.language, &state.messages);
        let mut messages = vec![Message::system("system", self.prompts.classify(language)?)];
        messages.extend(titles_message(library_heading(language), titles));
        let room = remaining_tokens(self.limits.context_length, &messages, &[]).min(MAX_DECISION_TOKENS);
        messages.extend(fit_messages(
            newest_question(&state.messages).cloned().into_iter().collect(),
            room,
            language,
        ));
        Ok(ChatRequest {
            purpose: RequestPurpose::Classify.label(),
            role: ModelRole::Small,
            schema: Some(response_schema_of::<QueryClassification>()),
            temperature: Some(0.0),
            ..ChatRequest::new(messages)
        })
    }

    /// `called` is what tools were asked and gave for this answer so far, in so many rounds.
    fn answer_request(
        &self,
        state: &DocqaState,
        called: &[Message],
        rounds: u32,
    ) -> Result<ChatRequest, NodeError> {
        let language = state.progress.language;
        let kind = state.query_type.unwrap_or(QueryType::Question);
        let tools = self.tools.specs();
        let summary = strip_citation_marks(state.summary_text());
        let system = self.prompts.docqa(language, kind.as_str(), &summary, !tools.is_empty())?;
        let mut messages = vec![Message::system("system", system)];
        let is_searched = !newest_question(&state.messages).is_some_and(has_given_text);
        if is_searched
            && (kind == QueryType::Question || (kind == QueryType::Summary && state.is_first_turn()))
        {
            messages.push(sources_message(&state.documents, language));
        }
        let room = remaining_tokens(self.limits.context_length, &messages, &tools);
        let conversation =
            strip_old_citation_marks(&state.messages).into_iter().chain(called.iter().cloned()).collect();
        messages.extend(fit_messages(conversation, room, language));
        let may_call = !tools.is_empty() && rounds < self.limits.max_tool_rounds;
        let tool_choice = if may_call { ToolChoice::Auto } else { ToolChoice::None };
        let temperature = state.progress.chosen.temperature;
        let request = ChatRequest { tools, tool_choice, temperature, ..ChatRequest::new(messages) };
        Ok(fit_request(request, self.limits.context_length, language))
    }

    /// Sums up a piece of the conversation on top of a summary of what came before.
    fn condense_request(
        &self,
        state: &DocqaState,
        before: &str,
        piece: &Message,
        most_tokens: usize,
    ) -> Result<ChatRequest, NodeError> {
        let language = state.progress.language;
        let mut messages =
            vec![Message::system("system", self.prompts.condense(language, before, most_tokens)?)];
        if !before.is_empty() {
            messages.push(Message::system(SUMMARY_MESSAGE_ID, before));
        }
        messages.push(piece.clone());
        Ok(ChatRequest {
            purpose: RequestPurpose::Summarize.label(),
            role: ModelRole::Main,
            temperature: Some(0.0),
            max_output_tokens: Some(most_tokens as u64),
            ..ChatRequest::new(messages)
        })
    }

    /// The conversation in pieces that the model can take beside the prompt and the summary so far; mostly in one.
    fn transcript_chunks(&self, state: &DocqaState) -> Result<Vec<Message>, NodeError> {
        let context_length = self.limits.context_length;
        let prompt = self.prompts.condense(
            state.progress.language,
            state.summary_text(),
            self.limits.max_tokens_after_compression(),
        )?;
        let whole = conversation_as_text("transcript", &state.messages, state.progress.language);
        // A tenth is for the summary that is written. Where one piece is not enough, three fifths leave room for the
        // summary of the pieces before too.
        let one =
            estimate_conversation_tokens(&(prompt + state.summary_text()), std::slice::from_ref(&whole))
                <= context_length * 9 / 10;
        let max_bytes = if one { usize::MAX } else { (context_length * 9 / 5).max(1) };
        let mut all = split_transcript(&whole, max_bytes);
        // A conversation of many times what the model can take is given by its beginning and its newest part.
        if all.len() > MAX_TRANSCRIPT_CHUNKS {
            all.drain(1..=all.len() - MAX_TRANSCRIPT_CHUNKS);
        }
        Ok(all)
    }

    /// A summary of at most so many bytes. One that is too long is requested again, shorter, and then cut.
    async fn condense_conversation(
        &self,
        work: &NodeWork,
        state: &DocqaState,
        room: usize,
    ) -> Result<String, NodeError> {
        let most_tokens = room / 3;
        if most_tokens == 0 {
            return Ok(String::new());
        }
        let mut summary = state.summary_text().to_owned();
        for piece in self.transcript_chunks(state)? {
            let before = truncate_at_sentence(&summary, room).to_owned();
            let request = self.condense_request(state, &before, &piece, most_tokens)?;
            summary = work.ask(&self.models, request, ReplyVisibility::Hidden).await?.text.trim().to_owned();
            if summary.len() > room {
                let shorter = self.condense_request(state, &before, &piece, (most_tokens / 2).max(1))?;
                summary =
                    work.ask(&self.models, shorter, ReplyVisibility::Hidden).await?.text.trim().to_owned();
            }
        }
        Ok(truncate_at_sentence(&summary, room).to_owned())
    }
}

#[async_trait]
impl RequestExplainer<DocqaState> for DocqaAgent {
    async fn explain(
        &self,
        node: &str,
        state: &DocqaState,
        tenant: &DocumentTenant,
    ) -> Result<Vec<ChatRequest>, NodeError> {
        let request = match node {
            "classifyQuery" => {
                let titles = self.finder.library_titles(tenant, self.collection_of(state)).await?;
                Some(self.classify_request(state, &titles)?)
            }
            "retrieveDocs" => {
                let scope = self.search_scope(state);
                return self.finder.explain(&state.messages, &state.progress, tenant, scope).await;
            }
            "generateAnswer" => Some(self.answer_request(state, &[], 0)?),
            "summarizeHistory" => {
                let plan = compression::plan_compression(
                    &state.messages,
                    self.limits.keep_recent,
                    self.limits.max_tokens_after_compression(),
                    state.progress.language,
                );
                let pieces = self.transcript_chunks(state)?;
                let first = pieces.first().map(|piece| {
                    self.condense_request(state, state.summary_text(), piece, plan.summary_bytes / 3)
                });
                first.transpose()?
            }
            _ => None,
        };
        Ok(request.into_iter().collect())
    }
}
