//! Requests a reply that matches a JSON schema. A reply that does not match is requested once more.

use doran_engine::NodeError;
use doran_llm::{
    ChatRequest, ModelReply, ReplyFormatError, ToolChoice, parse_reply, parse_reply_json, repair_request,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::ask_model::{Models, ReplyVisibility};
use super::node_work::NodeWork;
use super::reply_cache::ReplyCache;

/// Asks for a `T`. A reply that does not fit is shown to the model once with what is wrong; the outer result is about
/// models, the inner one about what they said the second time.
pub(crate) async fn ask_structured<T: DeserializeOwned + JsonSchema>(
    work: &NodeWork,
    models: &Models,
    cache: Option<&ReplyCache>,
    request: ChatRequest,
) -> Result<Result<T, ReplyFormatError>, NodeError> {
    let (reply, key) = ReplyCache::ask_cached(cache, work, models, request.clone()).await?;
    let misfit = match parse_reply(&reply) {
        Ok(value) => {
            if let (Some(cache), Some(key)) = (cache, key) {
                cache.insert(key, reply);
            }
            return Ok(Ok(value));
        }
        Err(misfit) => misfit,
    };
    let reply = work.ask(models, repair_request(request, &reply, &misfit), ReplyVisibility::Hidden).await?;
    let read = parse_reply(&reply);
    if let Err(misfit) = &read {
        work.note_misfit(misfit);
    }
    Ok(read)
}

/// What a run fails with when an answer does not have the format that the client wants.
const RESPONSE_FORMAT_CODE: &str = "response_format";

/// Asks for the answer that a person reads. Where it must be JSON of some shape, it is shown once it fits; one that does
/// not fit is shown to the model once with what is wrong. A second one fails the run.
pub(crate) async fn ask_answer(
    work: &NodeWork,
    models: &Models,
    request: ChatRequest,
) -> Result<ModelReply, NodeError> {
    let Some(schema) = request.schema.clone() else {
        return work.ask(models, request, ReplyVisibility::Shown).await;
    };
    let mut reply = work.ask(models, request.clone(), ReplyVisibility::Hidden).await?;
    if !reply.tool_calls.is_empty() {
        return Ok(reply);
    }
    let mut fitting = parse_reply_json(&reply, &schema);
    if let Err(misfit) = &fitting {
        let repair = ChatRequest { tool_choice: ToolChoice::None, ..repair_request(request, &reply, misfit) };
        reply = work.ask(models, repair, ReplyVisibility::Hidden).await?;
        fitting = parse_reply_json(&reply, &schema);
    }
    let value = fitting.map_err(|misfit| NodeError::permanent(misfit).with_code(RESPONSE_FORMAT_CODE))?;
    // JSON in a code fence, or after other words, is taken out of them; any other stays as the model wrote it.
    if serde_json::from_str::<serde_json::Value>(&reply.text).is_err() {
        reply.text = value.to_string();
    }
    work.cx.emit_text(reply.text.clone());
    Ok(reply)
}
