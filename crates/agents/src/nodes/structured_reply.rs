//! Replies that are to be JSON: asked for by schema, and asked for once more where they do not fit.

use doran_engine::NodeError;
use doran_llm::{ChatRequest, ReplyFormatError, parse_reply, repair_request};
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
