//! A request in Gemini's words.

use serde_json::{Map, Value, json};

use super::Gemini;
use super::stream::{of_call, of_text};
use crate::message::{Image, Message, Part, Role};
use crate::model::{ChatRequest, ToolChoice};
use crate::provider::material;
use crate::provider::openai::{object, shortest};

impl Gemini {
    pub(super) fn body(&self, request: &ChatRequest) -> Value {
        let mut body = Map::new();
        let (system, contents) = turns(&request.messages);
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
        let settings = settings(request);
        if !settings.is_empty() {
            body.insert("generationConfig".into(), settings.into());
        }
        body.extend(self.extra.clone());
        body.into()
    }
}

fn settings(request: &ChatRequest) -> Map<String, Value> {
    let mut settings = Map::new();
    if let Some(temperature) = request.temperature {
        settings.insert("temperature".into(), shortest(temperature));
    }
    if let Some(limit) = request.max_output_tokens {
        settings.insert("maxOutputTokens".into(), limit.into());
    }
    if let Some(seed) = request.seed {
        // The vendor's seed is a signed number of 32 bits.
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

/// The system's words at the beginning, and the turns after them, alternating.
fn turns(messages: &[Message]) -> (Vec<Value>, Vec<Value>) {
    let opening = messages.iter().take_while(|message| message.role == Role::System).count();
    let system =
        messages[..opening].iter().map(|message| json!({ "text": material::words(message) })).collect();
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &messages[opening..] {
        let (role, parts) = match message.role {
            Role::Assistant => ("model", said(message)),
            Role::System | Role::User => ("user", asked(message)),
            Role::Tool => ("user", results(message)),
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

/// What the model said. A signature goes back to the part it came with: the call it names, or the words.
fn said(message: &Message) -> Vec<Value> {
    let signature = |wanted: &str| {
        message.parts.iter().find_map(|part| match part {
            Part::Reasoning { signature: Some(signature), .. } => {
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
    let words = material::words(message);
    if !words.is_empty() {
        parts.push(sign(json!({ "text": words }), signature(&of_text(""))));
    }
    parts.extend(message.tool_calls().map(|call| {
        let part = json!({ "functionCall": { "name": call.name, "args": object(&call.arguments) } });
        sign(part, signature(&of_call(&call.id, "")))
    }));
    parts
}

fn asked(message: &Message) -> Vec<Value> {
    let mut parts: Vec<Value> = material::images(message).map(image).collect();
    let words = material::words(message);
    if !words.is_empty() {
        parts.push(json!({ "text": words }));
    }
    parts
}

fn results(message: &Message) -> Vec<Value> {
    let results = message.tool_results().map(|result| {
        let key = if result.failed { "error" } else { "result" };
        let response = json!({ key: material::tool_result(result) });
        json!({ "functionResponse": { "name": result.name, "response": response } })
    });
    results.collect()
}

fn image(image: &Image) -> Value {
    match material::inline(image) {
        Some((media_type, body)) => json!({ "inlineData": { "mimeType": media_type, "data": body } }),
        None => json!({ "fileData": { "mimeType": image.media_type, "fileUri": image.url } }),
    }
}
