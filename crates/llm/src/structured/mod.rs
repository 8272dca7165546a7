//! Answers that are JSON of a known shape.
//!
//! The pieces are plain functions, so that a caller who records every model call can put its own call between them:
//! [`schema_of`] says what is wanted, [`read`] checks what came, [`repair`] asks again with the error. [`ask`] is the
//! three in a row, with one repair.

mod arguments;
mod lenient;
mod schema;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::arguments::{
    BadCall, CheckedCall, MOST_ARGUMENT_BYTES, MOST_PARALLEL_CALLS, check_arguments, check_calls, repeats,
};
pub(crate) use self::lenient::{json_in, tool_call_in};
use self::schema::problems;
pub use self::schema::schema_of;
pub(crate) use self::schema::strict;
use crate::message::{Message, MessageId, Origin, Part, Role};
use crate::model::{ChatModel, ChatRequest, Finish, ModelError, Reply, ResponseSchema, collect};

/// Why an answer does not fit what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// There is no JSON in it.
    #[error("the answer is not JSON: {reason}")]
    NotJson {
        /// What was seen.
        reason: String,
    },
    /// It is JSON of another shape.
    #[error("the answer does not fit the schema: {}", problems.join("; "))]
    WrongShape {
        /// Each with the place where it was found.
        problems: Vec<String>,
    },
    /// The limit on tokens cut it.
    #[error("the answer was cut by the limit on tokens")]
    Cut,
    /// The vendor held it back.
    #[error("the answer was held back by the vendor")]
    Filtered,
}

/// Why [`ask`] has nothing to give.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The model gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// It answered twice, and both times something else.
    #[error("the model answered in another shape twice")]
    Misfit {
        /// What was wrong with the second answer.
        #[source]
        misfit: Misfit,
        /// The second answer.
        reply: Box<Reply>,
    },
}

/// Asks for a value; an answer that does not fit is shown to the model once, with what is wrong.
///
/// Gives the value and every reply it took, so that all of them can be paid for.
pub async fn ask<T: DeserializeOwned + JsonSchema>(
    model: &dyn ChatModel,
    mut request: ChatRequest,
) -> Result<(T, Vec<Reply>), AskError> {
    let schema = schema_of::<T>();
    request.schema.get_or_insert(schema);
    let first = collect(model.stream(request.clone())).await?;
    let misfit = match read::<T>(&first) {
        Ok(value) => return Ok((value, vec![first])),
        Err(misfit) => misfit,
    };
    let second = collect(model.stream(repair(request, &first, &misfit))).await?;
    match read::<T>(&second) {
        Ok(value) => Ok((value, vec![first, second])),
        Err(misfit) => Err(AskError::Misfit { misfit, reply: Box::new(second) }),
    }
}

/// The value in an answer, checked against the schema of its type.
pub fn read<T: DeserializeOwned + JsonSchema>(reply: &Reply) -> Result<T, Misfit> {
    let value = read_value(reply, &schema_of::<T>())?;
    serde_json::from_value(value).map_err(|error| Misfit::WrongShape { problems: vec![error.to_string()] })
}

/// The JSON in an answer, checked against a schema. JSON in a fence or after a thought counts; half of one does not.
pub fn read_value(reply: &Reply, schema: &ResponseSchema) -> Result<Value, Misfit> {
    match reply.finish {
        Finish::Length => return Err(Misfit::Cut),
        Finish::Filtered => return Err(Misfit::Filtered),
        Finish::Stop | Finish::ToolCalls | Finish::Other => {}
    }
    let value = json_in(&reply.text).map_err(|reason| Misfit::NotJson { reason })?;
    let problems = problems(&schema.schema, &value);
    if problems.is_empty() { Ok(value) } else { Err(Misfit::WrongShape { problems }) }
}

/// The same request again, with the answer that did not fit and what is wrong with it. What was sent stays as it was.
pub fn repair(mut request: ChatRequest, reply: &Reply, misfit: &Misfit) -> ChatRequest {
    let korean = request.question().is_some_and(|question| has_hangul(&question));
    let last = request.messages.last().map_or("m", |message| message.id.as_str()).to_owned();
    // A tool call without its result is refused by every vendor, so only the words go back.
    let said = match reply.text.trim() {
        "" => "(empty)".to_owned(),
        text => text.chars().take(MOST_SHOWN).collect(),
    };
    let told = if korean { in_korean(misfit) } else { in_english(misfit) };
    let part = Part::Text { text: told, origin: Origin::Program };
    request.messages.push(Message::assistant(format!("{last}-misfit"), said));
    request.messages.push(Message {
        id: MessageId::new(format!("{last}-repair")),
        role: Role::User,
        parts: vec![part],
    });
    request
}

/// The most characters of a wrong answer that are worth showing to its author.
const MOST_SHOWN: usize = 8_000;

fn in_korean(misfit: &Misfit) -> String {
    let wrong = match misfit {
        Misfit::NotJson { reason } => format!("JSON이 아닙니다 ({reason})."),
        Misfit::WrongShape { problems } => format!("스키마에 맞지 않습니다: {}.", problems.join("; ")),
        Misfit::Cut => "길이 한도에 걸려 잘렸습니다. 더 짧게 쓰세요.".into(),
        Misfit::Filtered => "공급사 필터에 막혔습니다. 다르게 표현하세요.".into(),
    };
    format!("방금 답은 {wrong} 요청한 스키마에 맞는 JSON 하나만, 다른 말 없이 다시 쓰세요.")
}

fn in_english(misfit: &Misfit) -> String {
    let wrong = match misfit {
        Misfit::NotJson { reason } => format!("is not JSON ({reason})."),
        Misfit::WrongShape { problems } => format!("does not fit the schema: {}.", problems.join("; ")),
        Misfit::Cut => "was cut by the limit on its length. Be shorter.".into(),
        Misfit::Filtered => "was held back by the vendor's filter. Put it differently.".into(),
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
