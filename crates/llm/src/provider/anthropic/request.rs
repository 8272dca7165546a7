//! A request in Anthropic's words.

use serde_json::{Map, Value, json};

use super::{Age, Messages, signed};
use crate::message::{Image, Message, Part, Role};
use crate::model::{ChatRequest, ToolChoice, ToolSpec};
use crate::provider::material;
use crate::provider::openai::{answer_tool, object, shortest};
use crate::structured::strict;

/// The vendor wants a limit; this is one that any of its models allows.
const USUAL_LIMIT: u64 = 8_192;

impl Messages {
    pub(super) fn body(&self, request: &ChatRequest) -> Value {
        let age = Age::of(&self.model);
        let mut body = Map::new();
        body.insert("model".into(), self.model.clone().into());
        body.insert("max_tokens".into(), request.max_output_tokens.unwrap_or(USUAL_LIMIT).into());
        body.insert("stream".into(), self.streamed.into());
        let (system, turns) = self.turns(&request.messages);
        if !system.is_empty() {
            body.insert("system".into(), cached(system).into());
        }
        body.insert("messages".into(), turns.into());
        if let Some(temperature) = request.temperature
            && age != Age::Third
        {
            body.insert("temperature".into(), shortest(temperature));
        }
        if !request.stop.is_empty() {
            body.insert("stop_sequences".into(), request.stop.clone().into());
        }
        add_tools(&mut body, request, age);
        body.extend(self.extra.clone());
        body.into()
    }

    /// The system's words at the beginning, and the turns after them. Turns alternate, as the vendor wants it.
    fn turns(&self, messages: &[Message]) -> (Vec<Value>, Vec<Value>) {
        let opening = messages.iter().take_while(|message| message.role == Role::System).count();
        let system = messages[..opening].iter().map(|message| text(&material::words(message))).collect();
        let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
        for message in &messages[opening..] {
            let (role, blocks) = match message.role {
                Role::Assistant => ("assistant", self.assistant(message)),
                Role::System | Role::User => ("user", user(message)),
                Role::Tool => ("user", results(message)),
            };
            if blocks.is_empty() {
                continue;
            }
            match turns.last_mut() {
                Some((last, before)) if *last == role => before.extend(blocks),
                _ => turns.push((role, blocks)),
            }
        }
        let last = turns.len().saturating_sub(1);
        let turns = turns.into_iter().enumerate().map(|(at, (role, blocks))| {
            // The next request begins with all of this one, so its end is worth keeping.
            let blocks = if at == last { cached(blocks) } else { blocks };
            json!({ "role": role, "content": blocks })
        });
        (system, turns.collect())
    }

    fn assistant(&self, message: &Message) -> Vec<Value> {
        let mut blocks: Vec<Value> = message.parts.iter().filter_map(|part| self.thought(part)).collect();
        let words = material::words(message);
        if !words.trim().is_empty() {
            blocks.push(text(&words));
        }
        blocks.extend(message.tool_calls().map(|call| {
            json!({ "type": "tool_use", "id": id(&call.id), "name": call.name, "input": object(&call.arguments) })
        }));
        blocks
    }

    /// A thought of this very model, as it was. A thought of another is left out.
    fn thought(&self, part: &Part) -> Option<Value> {
        let Part::Reasoning { text, signature: Some(signature) } = part else { return None };
        if let Some(signature) = signature.strip_prefix(&signed(&self.model, "thinking", "")) {
            return Some(json!({ "type": "thinking", "thinking": text, "signature": signature }));
        }
        let data = signature.strip_prefix(&signed(&self.model, "redacted", ""))?;
        Some(json!({ "type": "redacted_thinking", "data": data }))
    }
}

fn add_tools(body: &mut Map<String, Value>, request: &ChatRequest, age: Age) {
    let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
    let mut choice = match &request.tool_choice {
        ToolChoice::Auto => json!({ "type": "auto" }),
        ToolChoice::None => json!({ "type": "none" }),
        ToolChoice::Required => json!({ "type": "any" }),
        ToolChoice::Named(name) => json!({ "type": "tool", "name": name }),
    };
    if let Some(schema) = &request.schema {
        if age == Age::First {
            tools.push(tool(&answer_tool(schema)));
            choice = json!({ "type": "tool", "name": schema.name });
        } else {
            let format = json!({ "type": "json_schema", "schema": strict(&schema.schema) });
            body.insert("output_config".into(), json!({ "format": format }));
        }
    }
    if !tools.is_empty() {
        body.insert("tools".into(), cached(tools).into());
        body.insert("tool_choice".into(), choice);
    }
}

/// Marks the last block as the end of something that comes again.
fn cached(mut blocks: Vec<Value>) -> Vec<Value> {
    if let Some(Value::Object(last)) = blocks.last_mut()
        && !matches!(last.get("type").and_then(Value::as_str), Some("thinking" | "redacted_thinking"))
    {
        last.insert("cache_control".into(), json!({ "type": "ephemeral" }));
    }
    blocks
}

fn tool(tool: &ToolSpec) -> Value {
    json!({ "name": tool.name, "description": tool.description, "input_schema": tool.parameters })
}

fn user(message: &Message) -> Vec<Value> {
    let mut blocks: Vec<Value> = material::images(message).map(image).collect();
    let words = material::words(message);
    if !words.trim().is_empty() {
        blocks.push(text(&words));
    }
    blocks
}

fn results(message: &Message) -> Vec<Value> {
    let results = message.tool_results().map(|result| {
        json!({
            "type": "tool_result",
            "tool_use_id": id(&result.call),
            "content": material::tool_result(result),
            "is_error": result.failed,
        })
    });
    results.collect()
}

fn image(image: &Image) -> Value {
    let source = match material::inline(image) {
        Some((media_type, body)) => json!({ "type": "base64", "media_type": media_type, "data": body }),
        None => json!({ "type": "url", "url": image.url }),
    };
    json!({ "type": "image", "source": source })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Ids are letters, digits, `_` and `-` here; what another vendor's id has beside that is replaced.
fn id(id: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    id.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
}
