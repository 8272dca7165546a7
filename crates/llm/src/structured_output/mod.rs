//! Structured output: answers that are JSON with a known schema.
//!
//! The steps are plain functions, so that a caller that records every model call can make its own call between them.
//! [`response_schema_of`] makes the schema, [`parse_reply`] checks an answer, and [`repair_request`] asks again with
//! the error. [`request_structured`] does all three, with one repair.

mod lenient_json;
mod response_schema;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::lenient_json::{extract_json, extract_written_tool_calls, repeats_written_call};
pub use self::response_schema::response_schema_of;
pub(crate) use self::response_schema::{schema_violations, strict_schema};
use crate::message::{Message, MessagePart, Role, TextOrigin};
use crate::model::{
    ChatModel, ChatRequest, FinishReason, ModelError, ModelReply, ResponseSchema, collect_reply,
};

/// Why an answer does not have the requested format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyFormatError {
    /// It contains no JSON.
    #[error("the answer is not JSON: {reason}")]
    NotJson {
        /// What went wrong.
        reason: String,
    },
    /// The JSON does not match the schema.
    #[error("the answer does not fit the schema: {}", problems.join("; "))]
    WrongShape {
        /// The violations, each with its location.
        problems: Vec<String>,
    },
    /// It was cut off by the token limit.
    #[error("the answer was cut by the limit on tokens")]
    Cut,
    /// The vendor filtered it.
    #[error("the answer was held back by the vendor")]
    Filtered,
}

/// Why [`request_structured`] failed.
#[derive(Debug, thiserror::Error)]
pub enum StructuredRequestError {
    /// The model request failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Both answers had the wrong format.
    #[error("the model answered in another shape twice")]
    ReplyFormat {
        /// What is wrong with the second answer.
        #[source]
        misfit: ReplyFormatError,
        /// The second answer.
        reply: Box<ModelReply>,
    },
}

/// Requests a structured value. If the answer has the wrong format, it is sent back to the model once, with the error.
///
/// Returns the value and every reply, so that the usage of all of them can be counted.
pub async fn request_structured<T: DeserializeOwned + JsonSchema>(
    model: &dyn ChatModel,
    mut request: ChatRequest,
) -> Result<(T, Vec<ModelReply>), StructuredRequestError> {
    let schema = response_schema_of::<T>();
    request.schema.get_or_insert(schema);
    let first = collect_reply(model.stream(request.clone())).await?;
    let misfit = match parse_reply::<T>(&first) {
        Ok(value) => return Ok((value, vec![first])),
        Err(misfit) => misfit,
    };
    let second = collect_reply(model.stream(repair_request(request, &first, &misfit))).await?;
    match parse_reply::<T>(&second) {
        Ok(value) => Ok((value, vec![first, second])),
        Err(misfit) => Err(StructuredRequestError::ReplyFormat { misfit, reply: Box::new(second) }),
    }
}

/// Parses the value in an answer and checks it against the schema of its type.
pub fn parse_reply<T: DeserializeOwned + JsonSchema>(reply: &ModelReply) -> Result<T, ReplyFormatError> {
    let value = parse_reply_json(reply, &response_schema_of::<T>())?;
    serde_json::from_value(value)
        .map_err(|error| ReplyFormatError::WrongShape { problems: vec![error.to_string()] })
}

/// Extracts the JSON in an answer and checks it against a schema. JSON in a code fence or after a thinking block is
/// accepted; incomplete JSON is not.
pub fn parse_reply_json(reply: &ModelReply, schema: &ResponseSchema) -> Result<Value, ReplyFormatError> {
    match reply.finish {
        FinishReason::Length => return Err(ReplyFormatError::Cut),
        FinishReason::Filtered => return Err(ReplyFormatError::Filtered),
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other => {}
    }
    let value = extract_json(&reply.text).map_err(|reason| ReplyFormatError::NotJson { reason })?;
    let problems = schema_violations(&schema.schema, &value);
    if problems.is_empty() { Ok(value) } else { Err(ReplyFormatError::WrongShape { problems }) }
}

/// Returns the same request with the wrong answer and the error appended. The messages already sent are unchanged.
pub fn repair_request(
    mut request: ChatRequest,
    reply: &ModelReply,
    misfit: &ReplyFormatError,
) -> ChatRequest {
    let korean = request.question().is_some_and(|question| has_hangul(&question));
    let last = request.messages.last().map_or("m", |message| message.id.as_str()).to_owned();
    // Every vendor rejects a tool call without its result, so only the text is sent back.
    let reply_text = match reply.text.trim() {
        "" => "(empty)".to_owned(),
        text => text.chars().take(MAX_SHOWN_REPLY_CHARS).collect(),
    };
    let prompt = if korean { repair_prompt_korean(misfit) } else { repair_prompt_english(misfit) };
    let part = MessagePart::Text { text: prompt, origin: TextOrigin::Program };
    request.messages.push(Message::assistant(format!("{last}-misfit"), reply_text));
    request.messages.push(Message::new(format!("{last}-repair"), Role::User, vec![part]));
    request
}

/// The maximum length of a wrong answer that is sent back to the model.
const MAX_SHOWN_REPLY_CHARS: usize = 8_000;

fn repair_prompt_korean(misfit: &ReplyFormatError) -> String {
    let wrong = match misfit {
        ReplyFormatError::NotJson { reason } => format!("JSON이 아닙니다 ({reason})."),
        ReplyFormatError::WrongShape { problems } => {
            format!("스키마에 맞지 않습니다: {}.", problems.join("; "))
        }
        ReplyFormatError::Cut => "길이 한도에 걸려 잘렸습니다. 더 짧게 쓰세요.".into(),
        ReplyFormatError::Filtered => "제공자의 필터에 막혔습니다. 다르게 표현하세요.".into(),
    };
    format!("방금 답은 {wrong} 요청한 스키마에 맞는 JSON 하나만, 다른 말 없이 다시 쓰세요.")
}

fn repair_prompt_english(misfit: &ReplyFormatError) -> String {
    let wrong = match misfit {
        ReplyFormatError::NotJson { reason } => format!("is not JSON ({reason})."),
        ReplyFormatError::WrongShape { problems } => {
            format!("does not fit the schema: {}.", problems.join("; "))
        }
        ReplyFormatError::Cut => "was cut by the limit on its length. Be shorter.".into(),
        ReplyFormatError::Filtered => "was held back by the vendor's filter. Put it differently.".into(),
    };
    format!(
        "Your last answer {wrong} Write it again as one JSON value that fits the schema, and nothing else."
    )
}

fn has_hangul(text: &str) -> bool {
    text.chars().any(|letter| matches!(letter, '\u{ac00}'..='\u{d7a3}' | '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}'))
}

#[cfg(test)]
mod tests;
