//! Replies that are to be JSON: asked for by schema, and asked for once more where they do not fit.

use doran_engine::NodeError;
use doran_llm::{ChatRequest, Misfit, read, repair};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::ask::{Models, ReplyCache, Words};
use super::work::Work;

/// Asks for a `T`. A reply that does not fit is shown to the model once with what is wrong; the outer result is about
/// models, the inner one about what they said the second time.
pub(crate) async fn ask_for<T: DeserializeOwned + JsonSchema>(
    work: &Work,
    models: &Models,
    cache: Option<&ReplyCache>,
    request: ChatRequest,
) -> Result<Result<T, Misfit>, NodeError> {
    let (reply, key) = ReplyCache::ask(cache, work, models, request.clone()).await?;
    let misfit = match read(&reply) {
        Ok(value) => {
            if let (Some(cache), Some(key)) = (cache, key) {
                cache.keep(key, reply);
            }
            return Ok(Ok(value));
        }
        Err(misfit) => misfit,
    };
    let reply = work.ask(models, repair(request, &reply, &misfit), Words::Hidden).await?;
    Ok(read(&reply))
}
