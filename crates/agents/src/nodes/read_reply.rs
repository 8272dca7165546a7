//! Replies that are to be JSON: asked for by schema, read leniently, asked for once more where they do not fit.

use doran_engine::NodeError;
use doran_llm::{ChatRequest, Message, ResponseSchema};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::ask::{Models, ReplyCache, Words};
use super::work::Work;
use crate::prompt::Prompts;

/// A reply that does not fit its schema, twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// What was wrong with the last one.
    pub(crate) reason: String,
}

/// The shape of a `T` for a request.
pub(crate) fn schema<T: JsonSchema>(name: &str) -> ResponseSchema {
    let mut schema = schemars::schema_for!(T).to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.remove("title");
        object.insert("additionalProperties".into(), false.into());
    }
    ResponseSchema { name: name.to_owned(), schema }
}

/// Asks for a `T`. A reply that does not fit is shown to the model once with what is wrong; the outer result is about
/// models, the inner one about what they said.
pub(crate) async fn ask_for<T: DeserializeOwned>(
    work: &Work,
    models: &Models,
    prompts: &Prompts,
    cache: Option<&ReplyCache>,
    request: ChatRequest,
) -> Result<Result<T, Misfit>, NodeError> {
    let (reply, key) = ReplyCache::ask(cache, work, models, request.clone()).await?;
    let reason = match read(&reply.text) {
        Ok(value) => {
            if let (Some(cache), Some(key)) = (cache, key) {
                cache.keep(key, reply);
            }
            return Ok(Ok(value));
        }
        Err(reason) => reason,
    };
    let mut again = request;
    again.messages.push(Message::assistant("misfit", reply.text));
    again.messages.push(Message::user("repair", prompts.repair(work.language, &reason)?));
    let reply = work.ask(models, again, Words::Hidden).await?;
    Ok(read(&reply.text).map_err(|reason| Misfit { reason }))
}

/// The JSON object in a text: models like to wrap it in words and fences.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let object = match (text.find('{'), text.rfind('}')) {
        (Some(start), Some(end)) if start < end => &text[start..=end],
        _ => return Err("there is no JSON object in it".into()),
    };
    serde_json::from_str(object).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Decision {
        yes: bool,
    }

    #[test]
    fn an_object_is_found_in_words_and_fences() {
        for text in [r#"{"yes":true}"#, "```json\n{\"yes\": true}\n```", "Sure! {\"yes\":true, \"more\":1} Bye"] {
            assert_eq!(read::<Decision>(text), Ok(Decision { yes: true }), "{text}");
        }
        for text in ["", "yes", "}{", "{", r#"{"no":true}"#, r#"{"yes":"maybe"}"#] {
            assert!(read::<Decision>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_schema_names_its_properties_and_no_more() {
        let ResponseSchema { name, schema } = schema::<Decision>("decision");
        assert_eq!(name, "decision");
        assert_eq!(schema["properties"]["yes"]["type"], "boolean");
        assert_eq!(schema["additionalProperties"], false);
    }
}
