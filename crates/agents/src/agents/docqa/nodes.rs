//! The nodes of the document chatbot.

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_engine::state::Changes;
use doran_engine::{Cx, NodeError, Snap};
use doran_llm::{ChatRequest, Message, ModelRole, Purpose, ToolChoice, schema_of, without_marks};
use doran_retrieval::Filter;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Docqa;
use super::fit::{self, Plan, estimate, pieces, plan};
use super::state::{Compressed, DocqaState, DocqaStateUpdate, QueryType};
use crate::nodes::{
    Caller, DECIDING, Step, Words, Work, ask_for, call_tools, cut, fitted, last_words, material, room_beside,
    transcript, verified, within,
};
use crate::source::{Source, without_old_marks};
use crate::state::{question, spoken};
use crate::summaries::Summaries;
use crate::tools::Taint;

/// Most pieces of a conversation that are summed up one by one.
const MOST_PIECES: usize = 16;

#[derive(Debug, Deserialize, JsonSchema)]
struct Classified {
    r#type: QueryType,
}

/// Decides what the person wants. A reply that does not fit, twice, is taken for a question: documents do no harm.
pub(super) async fn classify_query(
    own: Arc<Docqa>,
    state: Snap<DocqaState>,
    cx: Cx,
) -> Result<DocqaStateUpdate, NodeError> {
    let language = spoken(own.language, &state.messages);
    let work = Work::new(cx, language);
    let decided = ask_for::<Classified>(&work, &own.models, None, own.classify_request(&state)?).await?;
    let kind = decided.map_or(QueryType::Question, |classified| classified.r#type);
    let (ko, en) = match kind {
        QueryType::Question => ("문서에서 답을 찾을 질문입니다", "a question for the documents"),
        QueryType::Summary => ("나눈 대화를 요약합니다", "a summary of the conversation"),
        QueryType::Chitchat => ("문서 없이 답할 이야기입니다", "small talk, no documents"),
    };
    work.thinking(Step::Routing, ko, en);
    let mut progress = state.progress.after("classifyQuery", work.calls());
    progress.language = language;
    Ok(DocqaState::update().query_type(Some(kind)).current_step("classifyQuery").progress(progress))
}

/// Looks documents up. No model is asked unless questions are put in other words.
pub(super) async fn retrieve_docs(
    own: Arc<Docqa>,
    state: Snap<DocqaState>,
    cx: Cx,
) -> Result<DocqaStateUpdate, NodeError> {
    let work = Work::new(cx, state.progress.language);
    work.thinking(Step::Searching, "문서를 찾고 있습니다", "looking documents up");
    let collection = state.collection.clone().or_else(|| own.collection.clone());
    let filter = Filter { collection, ..Filter::default() };
    let found = own.finder.find(&work, &state.messages, own.limits.passages, filter).await?;
    let taint = state.taint.and(Taint::of(&[material(&found, work.language)]));
    let progress = state.progress.after("retrieveDocs", work.calls());
    let update = DocqaState::update().documents(found).current_step("retrieveDocs").progress(progress);
    Ok(if taint == state.taint { update } else { update.taint(taint) })
}

/// Answers. Where settings give it tools, those that the model asks for are run first; the conversation keeps the answer.
pub(super) async fn generate_answer(
    own: Arc<Docqa>,
    state: Snap<DocqaState>,
    cx: Cx,
) -> Result<DocqaStateUpdate, NodeError> {
    let work = Work::new(cx, state.progress.language);
    work.thinking(Step::Generating, "답을 쓰고 있습니다", "writing the answer");
    let mut round = Round { taint: state.taint, ..Round::default() };
    let mut progress = state.progress.clone();
    let reply = loop {
        let request = own.answer_request(&state, &round.said, progress.tool_rounds)?;
        let (may_call, read) = (request.tool_choice == ToolChoice::Auto, request.messages.clone());
        let asked = work.ask(&own.models, request, Words::Shown).await;
        let reply = if may_call { asked? } else { last_words(&work, asked)? };
        if reply.tool_calls.is_empty() {
            break reply;
        }
        let calls = reply.tool_calls.clone();
        let mut sessions = state.sessions.clone();
        sessions.extend(round.sessions.clone());
        let caller = Caller { toolbox: &own.tools, read: &read, taint: round.taint, sessions: &sessions };
        let called = call_tools(&work, &caller, &calls).await?;
        progress = progress.with_tools(called.ran.iter().map(String::as_str));
        round.taint = called.taint;
        round.sessions.extend(called.sessions);
        round.said.push(reply.into_message(work.cx.new_id()));
        round.said.push(Message::tool_output(work.cx.new_id(), called.results));
    };
    let sources = verified(&work, &*own.index, Source::named_in(&reply.text, &state.documents)).await?;
    let progress = progress.after("generateAnswer", work.calls());
    let mut update = DocqaState::update();
    if !round.said.is_empty() {
        update = update.taint(round.taint).sessions(round.sessions);
    }
    Ok(update
        .messages(reply.into_message(work.cx.new_id()))
        .sources(sources)
        .current_step("generateAnswer")
        .progress(progress))
}

/// What tools were asked and gave within one answer.
#[derive(Default)]
struct Round {
    said: Vec<Message>,
    sessions: BTreeMap<String, String>,
    taint: Taint,
}

/// Makes the conversation small: the newest messages stay, the summary takes in all of it, and together they are at
/// most the share that was set, whatever the model does.
pub(super) async fn summarize_history(
    own: Arc<Docqa>,
    state: Snap<DocqaState>,
    cx: Cx,
) -> Result<DocqaStateUpdate, NodeError> {
    let language = state.progress.language;
    let work = Work::new(cx, language);
    let most_tokens = own.limits.most_tokens_after();
    let tokens_before = estimate(state.summed_up(), &state.messages);
    let Plan { kept, room } = plan(&state.messages, own.limits.keep_recent, most_tokens, language);
    work.thinking(
        Step::Summarizing,
        format!("대화 약 {tokens_before}토큰을 {most_tokens}토큰 아래로 줄입니다"),
        format!("condensing about {tokens_before} tokens to at most {most_tokens}"),
    );
    let summary = own.condensed(&work, &state, room).await?;
    let tokens_after = estimate(&summary, &kept);
    let compressed = Compressed { tokens_before, tokens_after, most_tokens };
    work.cx.note("compressed", compressed);
    work.thinking(
        Step::Summarizing,
        format!("대화를 약 {tokens_before}토큰에서 {tokens_after}토큰으로 줄였습니다"),
        format!("condensed the conversation from about {tokens_before} to {tokens_after} tokens"),
    );
    let gone = &state.messages[..state.messages.len() - kept.len()];
    let shortened: Vec<Message> =
        kept.into_iter().filter(|message| !state.messages.contains(message)).collect();
    let answer = state.messages.last().filter(|last| shortened.iter().any(|short| short.id == last.id));
    let full_answer = answer.map(Message::text);
    let changes = Changes::remove(gone.iter().map(|message| message.id.as_str())).put(shortened);
    let progress = state.progress.after("summarizeHistory", work.calls());
    Ok(DocqaState::update()
        .summary(Summaries(if summary.is_empty() { Vec::new() } else { vec![summary] }))
        .messages(changes)
        .compressed(Some(compressed))
        .full_answer(full_answer)
        .current_step("summarizeHistory")
        .progress(progress))
}

impl Docqa {
    fn classify_request(&self, state: &DocqaState) -> Result<ChatRequest, NodeError> {
        let language = spoken(self.language, &state.messages);
        let mut messages = vec![Message::system("system", self.prompts.classify(language)?)];
        let room = room_beside(self.limits.context_length, &messages, &[]).min(DECIDING);
        messages.extend(within(question(&state.messages).cloned().into_iter().collect(), room, language));
        Ok(ChatRequest {
            purpose: Purpose::Classify,
            role: ModelRole::Small,
            schema: Some(schema_of::<Classified>()),
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
        let summary = without_marks(state.summed_up());
        let system = self.prompts.docqa(language, kind.as_str(), &summary, !tools.is_empty())?;
        let mut messages = vec![Message::system("system", system)];
        // With nothing said before, a summary can only be of documents, and none was looked up.
        let is_first = state.messages.len() <= 1 && state.summed_up().is_empty();
        if kind == QueryType::Question || (kind == QueryType::Summary && is_first) {
            messages.push(material(&state.documents, language));
        }
        let room = room_beside(self.limits.context_length, &messages, &tools);
        let said = without_old_marks(&state.messages).into_iter().chain(called.iter().cloned()).collect();
        messages.extend(within(said, room, language));
        let may_call = !tools.is_empty() && rounds < self.limits.max_tool_rounds;
        let tool_choice = if may_call { ToolChoice::Auto } else { ToolChoice::None };
        let request = ChatRequest { tools, tool_choice, ..ChatRequest::new(messages) };
        Ok(fitted(request, self.limits.context_length, language))
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
            messages.push(Message::system("summary", before));
        }
        messages.push(piece.clone());
        Ok(ChatRequest {
            purpose: Purpose::Summarize,
            role: ModelRole::Main,
            temperature: Some(0.0),
            max_output_tokens: Some(most_tokens as u64),
            ..ChatRequest::new(messages)
        })
    }

    /// The conversation in pieces that the model can take beside the prompt and the summary so far; mostly in one.
    fn conversation(&self, state: &DocqaState) -> Result<Vec<Message>, NodeError> {
        let context_length = self.limits.context_length;
        let prompt = self.prompts.condense(
            state.progress.language,
            state.summed_up(),
            self.limits.most_tokens_after(),
        )?;
        let whole = transcript("transcript", &state.messages, state.progress.language);
        // A tenth is for the summary that is written. Where one piece is not enough, three fifths leave room for the
        // summary of the pieces before too.
        let one =
            estimate(&(prompt + state.summed_up()), std::slice::from_ref(&whole)) <= context_length * 9 / 10;
        let most = if one { usize::MAX } else { (context_length * 9 / 5).max(1) };
        let mut all = pieces(&whole, most);
        // A conversation of many times what the model can take is told by how it began and by its newest part.
        if all.len() > MOST_PIECES {
            all.drain(1..=all.len() - MOST_PIECES);
        }
        Ok(all)
    }

    /// A summary of at most so many bytes. One that is too long is asked for again, shorter, and then cut.
    async fn condensed(&self, work: &Work, state: &DocqaState, room: usize) -> Result<String, NodeError> {
        let most_tokens = room / 3;
        if most_tokens == 0 {
            return Ok(String::new());
        }
        let mut summary = state.summed_up().to_owned();
        for piece in self.conversation(state)? {
            let before = cut(&summary, room).to_owned();
            let request = self.condense_request(state, &before, &piece, most_tokens)?;
            summary = work.ask(&self.models, request, Words::Hidden).await?.text.trim().to_owned();
            if summary.len() > room {
                let shorter = self.condense_request(state, &before, &piece, (most_tokens / 2).max(1))?;
                summary = work.ask(&self.models, shorter, Words::Hidden).await?.text.trim().to_owned();
            }
        }
        Ok(cut(&summary, room).to_owned())
    }

    pub(super) fn explain(&self, node: &str, state: &DocqaState) -> Vec<ChatRequest> {
        match node {
            "classifyQuery" => self.classify_request(state).into_iter().collect(),
            "retrieveDocs" => {
                self.finder.explain(&state.messages, state.progress.language).into_iter().collect()
            }
            "generateAnswer" => self.answer_request(state, &[], 0).into_iter().collect(),
            "summarizeHistory" => {
                let plan = fit::plan(
                    &state.messages,
                    self.limits.keep_recent,
                    self.limits.most_tokens_after(),
                    state.progress.language,
                );
                let pieces = self.conversation(state).unwrap_or_default();
                let first = pieces
                    .first()
                    .map(|piece| self.condense_request(state, state.summed_up(), piece, plan.room / 3));
                first.and_then(Result::ok).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }
}
