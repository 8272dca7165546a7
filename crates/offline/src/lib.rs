//! The built-in model `offline-extractive-2`: it quotes, and is not a language model.
//!
//! It goes by the purpose of a request. For an answer it splits the passages into sentences and table rows, ranks them by
//! the words and the meaning they share with the question and by the kind of answer that is asked for, and quotes the best
//! one to three, or says that it found nothing. It tells what tools gave back and recalls what the person said earlier; for
//! the small decisions of agents it fills the properties that the schema names; for a summary it picks sentences. Tool calls
//! come from a grammar over the words of the person alone: words of documents and tools are material and never obeyed. The
//! same request always gives the same bytes.
//!
//! What people say is recognised by the patterns in `data/`.

mod answer;
mod arithmetic;
mod calendar;
mod calls;
mod compared_quotes;
mod comparison;
mod comparison_lines;
mod cues;
mod decisions;
mod facts;
mod headings;
mod intent;
mod meaning;
mod memory;
mod phrasing;
mod places;
mod quotes;
mod ranking;
mod results;
mod schema;
mod summarize;
#[cfg(test)]
mod tests;
mod text;
mod turn;
mod units;
mod weather;
mod weights;

use doran_agents::RequestPurpose;
use doran_llm::{
    BYTES_PER_TOKEN, ChatModel, ChatRequest, Delta, DeltaStream, FinishReason, Message, MessagePart,
    ModelError, ModelInfo, ModelKind, ResponseSchema, ToolCall, Usage, estimate_tokens,
};
use futures_util::{StreamExt, stream};
use serde_json::{Map, Value};

use self::phrasing::FixedPhrase;
use self::turn::OfflineTurn;

/// The name of the built-in model.
pub const OFFLINE_MODEL: &str = "offline-extractive-2";

/// The name of the version before, which settings may still hold.
const OLDER_OFFLINE_MODEL: &str = "offline-extractive-1";

/// Whether settings mean the built-in model by this name.
pub fn is_offline_model(name: &str) -> bool {
    name == OFFLINE_MODEL || name == OLDER_OFFLINE_MODEL
}

/// The built-in model. It has no settings and no memory of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineModel;

impl ChatModel for OfflineModel {
    fn info(&self) -> ModelInfo {
        ModelInfo {
            name: OFFLINE_MODEL.into(),
            kind: ModelKind::Extractive,
            ko: "오프라인 추출 모드 · LLM 아님. 정해진 규칙으로 움직이며, 주어진 문서의 문장을 그대로 인용하고, 식이 분명한 \
                 도구를 부르고, 이 대화에서 들은 사실을 되짚습니다. 문장을 새로 쓰거나 추론하지 않습니다."
                .into(),
            en: "Offline extractive - not an LLM. Works by fixed rules: it quotes sentences of the documents it \
                 is given, word for word, calls tools for clear requests, and recalls facts stated in this \
                 conversation. It neither writes sentences of its own nor reasons."
                .into(),
            // It always gives the likeliest answer, and the same one again.
            unsupported_settings: Vec::new(),
        }
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        stream::once(async move { deltas(&request) }).flat_map(stream::iter).boxed()
    }
}

/// What the rules give for a request.
enum OfflineOutput {
    Text(String),
    Calls(Vec<ToolCall>),
}

fn deltas(request: &ChatRequest) -> Vec<Result<Delta, ModelError>> {
    let input_tokens = request.messages.iter().map(estimate_message_tokens).sum();
    let usage = |output_tokens| Usage { input_tokens, output_tokens, ..Usage::default() };
    match run_rules(request) {
        Err(error) => vec![Err(error)],
        Ok(OfflineOutput::Calls(calls)) => {
            let output = calls
                .iter()
                .map(|call| estimate_tokens(&call.name) + estimate_tokens(&call.arguments.to_string()))
                .sum();
            let mut deltas: Vec<_> = calls.into_iter().map(|call| Ok(Delta::ToolCall(call))).collect();
            deltas.push(Ok(Delta::Done { usage: usage(output), finish: FinishReason::ToolCalls }));
            deltas
        }
        Ok(OfflineOutput::Text(text)) => {
            let (mut deltas, bytes, finish) = word_deltas(&text, request);
            deltas.push(Ok(Delta::Done { usage: usage(bytes.div_ceil(BYTES_PER_TOKEN)), finish }));
            deltas
        }
    }
}

/// The text word by word, each with the space after it, up to the limits of the request.
fn word_deltas(text: &str, request: &ChatRequest) -> (Vec<Result<Delta, ModelError>>, u64, FinishReason) {
    let stops =
        request.stop.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| text.find(stop.as_str()));
    let text = stops.min().map_or(text, |end| &text[..end]);
    let mut bytes = 0;
    let mut deltas = Vec::new();
    for word in text.split_inclusive(char::is_whitespace) {
        let longer = bytes + word.len() as u64;
        if request.max_output_tokens.is_some_and(|most| longer.div_ceil(BYTES_PER_TOKEN) > most) {
            return (deltas, bytes, FinishReason::Length);
        }
        bytes = longer;
        deltas.push(Ok(Delta::Text { text: word.into() }));
    }
    (deltas, bytes, FinishReason::Stop)
}

fn run_rules(request: &ChatRequest) -> Result<OfflineOutput, ModelError> {
    let purpose = RequestPurpose::of(request).ok_or_else(|| ModelError::Rejected {
        reason: format!("the offline model does not know requests for `{}`", request.purpose),
    })?;
    if purpose == RequestPurpose::Summarize {
        return Ok(OfflineOutput::Text(summarize::summarize(&request.messages, request.max_output_tokens)));
    }
    let turn = OfflineTurn::from_request(request)
        .ok_or_else(|| ModelError::Rejected { reason: "there is no message of the user to answer".into() })?;
    let decision = match purpose {
        RequestPurpose::Route => decisions::route(&turn),
        RequestPurpose::Scope => decisions::scope(&turn),
        RequestPurpose::PreviousContext => decisions::previous(&turn),
        RequestPurpose::Classify => decisions::classify(&turn),
        RequestPurpose::Sufficiency => decisions::sufficiency(&turn),
        RequestPurpose::Rewrite => decisions::rewrite(&turn),
        RequestPurpose::Rerank => {
            return Err(ModelError::Rejected { reason: "the offline model does not rerank passages".into() });
        }
        RequestPurpose::Answer | RequestPurpose::Plan | RequestPurpose::Summarize => {
            return calls_or_answer(&turn, request);
        }
    };
    schema::fill_schema(&decision, request.schema.as_ref()).map(OfflineOutput::Text)
}

/// Tool calls, or words.
fn calls_or_answer(turn: &OfflineTurn<'_>, request: &ChatRequest) -> Result<OfflineOutput, ModelError> {
    if !request.tools.is_empty() {
        let calls = calls::next_tool_calls(turn, request)?;
        if !calls.is_empty() {
            return Ok(OfflineOutput::Calls(calls));
        }
    }
    if request.purpose == RequestPurpose::Plan {
        return Ok(OfflineOutput::Text(FixedPhrase::NoCalls.filled(turn.language, &[])));
    }
    let answer = answer::answer(turn, &request.messages);
    match &request.schema {
        None => Ok(OfflineOutput::Text(answer)),
        Some(schema) => answer_in_schema(&answer, schema).map(OfflineOutput::Text),
    }
}

/// An answer as the one text that a schema asks for.
fn answer_in_schema(answer: &str, schema: &ResponseSchema) -> Result<String, ModelError> {
    let root = &schema.schema;
    let properties = root.get("properties").and_then(Value::as_object);
    let names = ["answer", "response", "text", "content", "message", "reply", "output"];
    let slot = properties.and_then(|properties| names.iter().find(|name| properties.contains_key(**name)));
    let required =
        root.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    if let Some(other) = required.into_iter().find(|name| slot.is_none_or(|slot| slot != name)) {
        return Err(schema::unknown_property_error(other));
    }
    let slot = slot.ok_or_else(|| schema::unknown_property_error(&schema.name))?;
    let mut object = Map::new();
    object.insert((*slot).into(), Value::String(answer.into()));
    Ok(Value::Object(object).to_string())
}

fn estimate_message_tokens(message: &Message) -> u64 {
    let tokens = message.parts.iter().map(|part| match part {
        MessagePart::Text { text, .. } => estimate_tokens(text),
        MessagePart::Passage(passage) => estimate_tokens(&passage.title) + estimate_tokens(&passage.text),
        MessagePart::ToolResult(result) => estimate_tokens(&result.text),
        MessagePart::ToolCall(call) => {
            estimate_tokens(&call.name) + estimate_tokens(&call.arguments.to_string())
        }
        MessagePart::Image(_) | MessagePart::Reasoning { .. } => 0,
    });
    tokens.sum()
}
