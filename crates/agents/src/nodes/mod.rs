//! What nodes of all agents do: ask a model, read a structured reply, run tools, find passages, sum up. The nodes
//! themselves belong to their agents; these are the verbs they are made of.

mod ask;
mod call_tools;
mod read_reply;
mod retrieve;
mod reword;
mod shorten;
mod summarize;
mod work;

use std::sync::Arc;

use doran_engine::{Cx, NodeError, Snap, State};
use doran_llm::{Finish, ModelError, Reply, Usage};

use crate::language::Language;

pub use ask::Models;
pub(crate) use ask::{ReplyCache, TRIES, Words};
pub(crate) use call_tools::{Caller, call_tools};
pub(crate) use read_reply::ask_for;
pub(crate) use retrieve::{
    Finder, MOST_NEIGHBOURS, NEIGHBOURS, material, sorted, tenant, verified, verified_as,
};
pub use reword::Rewriting;
pub(crate) use shorten::{
    BYTES_PER_TOKEN, CONTEXT_LENGTH, DECIDING, cut, fitted, room_beside, shares, within,
};
pub(crate) use summarize::transcript;
pub(crate) use work::{Step, Work};

/// What a model said that may call no tool any more. Where it says nothing, as often as it is asked, or calls one all
/// the same, the person is told so: what the tools did before is not lost for that.
pub(crate) fn last_words(work: &Work, asked: Result<Reply, NodeError>) -> Result<Reply, NodeError> {
    let is_silent = |error: &NodeError| {
        let empty = matches!(error.source().downcast_ref(), Some(ModelError::Empty { .. }));
        empty && work.cx.attempt() >= TRIES
    };
    let mut reply = match asked {
        Err(error) if is_silent(&error) => {
            work.count(TRIES);
            Reply {
                text: String::new(),
                reasoning: Vec::new(),
                tool_calls: Vec::new(),
                usage: Usage::default(),
                finish: Finish::Stop,
            }
        }
        asked => asked?,
    };
    reply.tool_calls.clear();
    if reply.text.trim().is_empty() {
        out_of_rounds(work.language).clone_into(&mut reply.text);
        work.cx.token(reply.text.clone());
    }
    Ok(reply)
}

/// What is said where a model wants another round of tools and there is none.
fn out_of_rounds(language: Language) -> &'static str {
    language.pick(
        "도구를 쓸 수 있는 횟수를 다 썼지만 답을 찾지 못했습니다. 질문을 나누어 다시 물어봐 주세요.",
        "I used all the tool rounds I have without finding an answer. Please ask again in smaller parts.",
    )
}

/// An async function with its agent's parts in front, as a node.
pub(crate) fn with<P, S, F, Fut>(
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
