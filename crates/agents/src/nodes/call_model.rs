//! Asks the model and shows its answer while it comes.

use std::sync::Arc;
use std::time::Duration;

use doran_engine::store::Usage;
use doran_engine::{Cx, Node, NodeError, NodeFuture, Snap, Timeout};
use doran_llm::{ChatModel, ChatRequest, Collector, Delta, DeltaStream, Message, ModelError, Passage, Reply};
use futures_util::StreamExt;
use serde_json::json;

use crate::state::{ChatState, ChatStateUpdate, Citation};

/// Asks the model for the next message.
pub(crate) struct CallModel {
    pub(crate) model: Arc<dyn ChatModel>,
}

impl CallModel {
    /// A model that says nothing for so long will not say anything.
    pub(crate) const TIMEOUT: Timeout = Timeout { total: None, idle: Some(Duration::from_secs(120)) };
}

impl Node<ChatState> for CallModel {
    fn run(&self, state: Snap<ChatState>, cx: Cx) -> NodeFuture<ChatState> {
        Box::pin(call_model(self.model.clone(), state, cx))
    }
}

async fn call_model(
    model: Arc<dyn ChatModel>,
    state: Snap<ChatState>,
    cx: Cx,
) -> Result<ChatStateUpdate, NodeError> {
    let answer = async { shown(model.stream(request(&state)), &cx).await.map_err(sorted) };
    let reply: Reply = cx.effect("model", answer).await?;
    let about = model.about();
    let note = json!({
        "name": about.name,
        "kind": about.kind,
        "finish": reply.finish,
        "counted": reply.usage.counted,
    });
    cx.note("model", note);
    cx.spend(Usage {
        input_tokens: reply.usage.input_tokens,
        output_tokens: reply.usage.output_tokens,
        cost_micros: 0,
    })?;
    let id = cx.new_id();
    let cited = Citation::named_in(&reply.text, &state.passages);
    let update = ChatState::update().messages(Message::assistant(id.clone(), reply.text));
    Ok(if cited.is_empty() { update } else { update.citations([(id, cited)]) })
}

/// The passages first, then the conversation: what was sent of it before stays where it was.
fn request(state: &ChatState) -> ChatRequest {
    let passages = state.passages.iter().map(|found| Passage {
        number: found.number,
        title: found.title.clone(),
        text: found.text.clone(),
    });
    let mut messages = Vec::new();
    if !state.passages.is_empty() {
        messages.push(Message::passages("passages", passages));
    }
    messages.extend(state.messages.iter().cloned());
    ChatRequest::new(messages)
}

/// The whole answer, each piece shown as it comes. An answer without its end is an error, never a short answer.
async fn shown(mut deltas: DeltaStream, cx: &Cx) -> Result<Reply, ModelError> {
    let mut collector = Collector::default();
    while let Some(delta) = deltas.next().await {
        let delta = delta?;
        if let Delta::Text { text } = &delta {
            cx.token(text.clone());
        }
        if let Some(reply) = collector.take(delta) {
            return Ok(reply);
        }
    }
    Err(ModelError::Broken { reason: "it ended without saying so".into() })
}

fn sorted(error: ModelError) -> NodeError {
    if error.is_transient() { NodeError::transient(error) } else { NodeError::permanent(error) }
}
