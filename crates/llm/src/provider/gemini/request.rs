//! Builds requests for the Gemini API.

use serde_json::{Map, Value, json};

use super::GeminiDialect;
use super::stream::{tag_call_signature, tag_text_signature};
use crate::message::{ImageReference, Message, MessagePart, Role};
use crate::model::{ChatRequest, ToolChoice};
use crate::provider::openai::{arguments_as_object, shortest_json_number};
use crate::provider::quoted_material;

impl GeminiDialect {
    pub(super) fn request_body(&self, request: &ChatRequest) -> Value {
        let mut body = Map::new();
        let (system, contents) = system_and_contents(&request.messages);
        if !system.is_empty() {
            body.insert("systemInstruction".into(), json!({ "parts": system }));
        }
        body.insert("contents".into(), contents.into());
        if !request.tools.is_empty() {
            let tools: Vec<Value> = request
                .tools
                .iter()
                .map(|tool| {
                    json!({
                        "name": tool.name,
                        "description": tool.description,
                        "parametersJsonSchema": tool.parameters,
                    })
                })
                .collect();
            body.insert("tools".into(), json!([{ "functionDeclarations": tools }]));
            let calling = match &request.tool_choice {
                ToolChoice::Auto => json!({ "mode": "AUTO" }),
                ToolChoice::None => json!({ "mode": "NONE" }),
                ToolChoice::Required => json!({ "mode": "ANY" }),
                ToolChoice::Named(name) => json!({ "mode": "ANY", "allowedFunctionNames": [name] }),
            };
            body.insert("toolConfig".into(), json!({ "functionCallingConfig": calling }));
        }
        let settings = generation_config(request);
        if !settings.is_empty() {
            body.insert("generationConfig".into(), settings.into());
        }
        body.extend(self.extra.clone());
        body.into()
    }
}

fn generation_config(request: &ChatRequest) -> Map<String, Value> {
    let mut settings = Map::new();
    if let Some(temperature) = request.temperature {
        settings.insert("temperature".into(), shortest_json_number(temperature));
    }
    if let Some(top_p) = request.top_p {
        settings.insert("topP".into(), shortest_json_number(top_p));
    }
    if let Some(limit) = request.max_output_tokens {
        settings.insert("maxOutputTokens".into(), limit.into());
    }
    if let Some(seed) = request.seed {
        // The vendor's seed is a signed 32-bit number.
        settings.insert("seed".into(), (seed & 0x7fff_ffff).into());
    }
    if !request.stop.is_empty() {
        settings.insert("stopSequences".into(), request.stop.clone().into());
    }
    if let Some(schema) = &request.schema {
        settings.insert("responseMimeType".into(), "application/json".into());
        settings.insert("responseJsonSchema".into(), schema.schema.clone());
    }
    settings
}

/// Returns the leading system messages and the turns after them, alternating.
fn system_and_contents(messages: &[Message]) -> (Vec<Value>, Vec<Value>) {
    let opening = messages.iter().take_while(|message| message.role == Role::System).count();
    let system = messages[..opening]
        .iter()
        .map(|message| json!({ "text": quoted_material::message_text_with_marks(message) }))
        .collect();
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &messages[opening..] {
        let (role, parts) = match message.role {
            Role::Assistant => ("model", model_parts(message)),
            Role::System | Role::User => ("user", user_parts(message)),
            Role::Tool => ("user", function_response_parts(message)),
        };
        if parts.is_empty() {
            continue;
        }
        match turns.last_mut() {
            Some((last, before)) if *last == role => before.extend(parts),
            _ => turns.push((role, parts)),
        }
    }
    let turns = turns.into_iter().map(|(role, parts)| json!({ "role": role, "parts": parts }));
    (system, turns.collect())
}

/// Returns the parts of a model message. A signature is attached to the part it came with: a call or the text.
fn model_parts(message: &Message) -> Vec<Value> {
    let signature = |wanted: &str| {
        message.parts.iter().find_map(|part| match part {
            MessagePart::Reasoning { signature: Some(signature), .. } => {
                signature.strip_prefix(wanted).map(str::to_owned)
            }
            _ => None,
        })
    };
    let sign = |mut part: Value, signature: Option<String>| {
        if let (Value::Object(part), Some(signature)) = (&mut part, signature) {
            part.insert("thoughtSignature".into(), signature.into());
        }
        part
    };
    let mut parts = Vec::new();
    let words = quoted_material::message_text_with_marks(message);
    if !words.is_empty() {
        parts.push(sign(json!({ "text": words }), signature(&tag_text_signature(""))));
    }
    parts.extend(message.tool_calls().map(|call| {
        let part =
            json!({ "functionCall": { "name": call.name, "args": arguments_as_object(&call.arguments) } });
        sign(part, signature(&tag_call_signature(&call.id, "")))
    }));
    parts
}

fn user_parts(message: &Message) -> Vec<Value> {
    let mut parts: Vec<Value> = quoted_material::message_images(message).map(image_part).collect();
    let words = quoted_material::message_text_with_marks(message);
    if !words.is_empty() {
        parts.push(json!({ "text": words }));
    }
    parts
}

fn function_response_parts(message: &Message) -> Vec<Value> {
    let results = message.tool_results().map(|result| {
        let key = if result.failed { "error" } else { "result" };
        let response = json!({ key: quoted_material::marked_tool_result(result) });
        json!({ "functionResponse": { "name": result.name, "response": response } })
    });
    results.chain(quoted_material::message_images(message).map(image_part)).collect()
}

fn image_part(image: &ImageReference) -> Value {
    match quoted_material::parse_data_url(image) {
        Some((media_type, body)) => json!({ "inlineData": { "mimeType": media_type, "data": body } }),
        None => json!({ "fileData": { "mimeType": image.media_type, "fileUri": image.url } }),
    }
}
