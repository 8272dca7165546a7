//! What nodes of all agents share: asking a model, structured replies, tool calls, search, summaries. The nodes themselves are in
//! the folders of their agents.

mod ask_model;
mod brief_request;
mod call_tools;
mod call_trace;
mod context_window;
mod conversation_text;
mod model_request;
mod node_work;
mod query_rewriting;
mod reply_cache;
mod reply_hints;
mod reranking;
mod retrieve;
mod structured_reply;

use std::sync::Arc;

use doran_engine::{Cx, NodeError, Snap, State};
use doran_llm::{FinishReason, ModelError, ModelReply, Usage};
use doran_retrieval::Language;

pub(crate) use ask_model::ReplyVisibility;
pub use ask_model::{ModelCatalog, Models};
pub(crate) use call_tools::{ToolCaller, call_tools};
pub(crate) use call_trace::CallTrace;
pub(crate) use context_window::{
    BYTES_PER_TOKEN, DEFAULT_CONTEXT_TOKENS, MAX_DECISION_TOKENS, fit_messages, fit_request,
    remaining_tokens, share_bytes, truncate_at_sentence,
};
pub(crate) use conversation_text::conversation_as_text;
pub(crate) use node_work::NodeWork;
pub use query_rewriting::QueryRewriting;
pub(crate) use query_rewriting::REWORD_PROMPT;
pub(crate) use reply_cache::ReplyCache;
pub(crate) use reply_hints::hint_at_repeated_calls;
pub(crate) use reranking::RERANK_PROMPT;
pub use reranking::{PassageReranking, rerank_hits};
pub(crate) use retrieve::{
    DEFAULT_NEIGHBOURS, DocumentFinder, MAX_NEIGHBOURS, SearchScope, library_heading, retrieval_tenant,
    retrieve_node_error, sources_message, titles_message, verify_sources, verify_sources_with,
};
pub(crate) use structured_reply::{ask_answer, ask_structured};

/// The answer of a model that may call no tool any more. If it stays empty, or calls a tool all the same, the person
/// gets a message that says so: what the tools did before is not lost.
pub(crate) fn final_reply(
    work: &NodeWork,
    asked: Result<ModelReply, NodeError>,
) -> Result<ModelReply, NodeError> {
    let is_silent =
        |error: &NodeError| matches!(error.source().downcast_ref(), Some(ModelError::Empty { .. }));
    let mut reply = match asked {
        Err(error) if is_silent(&error) => ModelReply {
            text: String::new(),
            reasoning: Vec::new(),
            tool_calls: Vec::new(),
            usage: Usage::default(),
            finish: FinishReason::Stop,
        },
        asked => asked?,
    };
    reply.tool_calls.clear();
    if reply.text.trim().is_empty() {
        out_of_tool_rounds_message(work.language).clone_into(&mut reply.text);
        work.show_reply_text(reply.text.clone());
    }
    Ok(reply)
}

/// The answer where a model wants another round of tools and there is none.
fn out_of_tool_rounds_message(language: Language) -> &'static str {
    language.pick(
        "도구를 쓸 수 있는 횟수를 다 썼지만 답을 찾지 못했습니다. 질문을 나누어 다시 물어봐 주세요.",
        "I used all the tool rounds I have without finding an answer. Please ask again in smaller parts.",
    )
}

/// An async function with its agent's parts in front, as a node.
pub(crate) fn bind_parts<P, S, F, Fut>(
    parts: &Arc<P>,
    run: F,
) -> impl Fn(Snap<S>, Cx) -> Fut + Send + Sync + 'static
where
    P: Send + Sync + 'static,
    S: State,
    F: Fn(Arc<P>, Snap<S>, Cx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<S::Update, NodeError>> + Send + 'static,
{
    let parts = parts.clone();
    move |state, cx| run(parts.clone(), state, cx)
}
