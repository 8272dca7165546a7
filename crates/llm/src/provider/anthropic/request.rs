//! Builds requests for the Anthropic Messages API.

use serde_json::{Map, Value, json};

use super::{AnthropicDialect, AnthropicModelGeneration, tag_signature};
use crate::message::{ImageReference, Message, MessagePart, Role};
use crate::model::{ChatRequest, ToolChoice, ToolSpec};
use crate::provider::openai::{answer_tool, arguments_as_object, shortest_json_number};
use crate::provider::quoted_material;
use crate::structured_output::strict_schema;

/// The vendor requires a limit; all of its models allow this one.
const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 8_192;

impl AnthropicDialect {
    pub(super) fn request_body(&self, request: &ChatRequest) -> Value {
        let age = AnthropicModelGeneration::of_model(&self.model);
        let mut body = Map::new();
        body.insert("model".into(), self.model.clone().into());
        body.insert(
            "max_tokens".into(),
            request.max_output_tokens.unwrap_or(DEFAULT_MAX_OUTPUT_TOKENS).into(),
        );
        body.insert("stream".into(), self.streamed.into());
        let (system, turns) = self.system_and_turns(&request.messages);
        if !system.is_empty() {
            body.insert("system".into(), with_cache_control(system).into());
        }
        body.insert("messages".into(), turns.into());
        if age != AnthropicModelGeneration::Third {
            for (name, number) in [("temperature", request.temperature), ("top_p", request.top_p)] {
                if let Some(number) = number {
                    body.insert(name.into(), shortest_json_number(number));
                }
            }
        }
        if !request.stop.is_empty() {
            body.insert("stop_sequences".into(), request.stop.clone().into());
        }
        add_tools(&mut body, request, age);
        body.extend(self.extra.clone());
        body.into()
    }

    /// Returns the leading system messages and the turns after them. Turns alternate, as the vendor requires.
    fn system_and_turns(&self, messages: &[Message]) -> (Vec<Value>, Vec<Value>) {
        let opening = messages.iter().take_while(|message| message.role == Role::System).count();
        let system = messages[..opening]
            .iter()
            .map(|message| text_block(&quoted_material::message_text_with_marks(message)))
            .collect();
        let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
        for message in &messages[opening..] {
            let (role, blocks) = match message.role {
                Role::Assistant => ("assistant", self.assistant_blocks(message)),
                Role::System | Role::User => ("user", user_blocks(message)),
                Role::Tool => ("user", tool_result_blocks(message)),
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
            // The next request starts with all of this one, so its end is a cache breakpoint.
            let blocks = if at == last { with_cache_control(blocks) } else { blocks };
            json!({ "role": role, "content": blocks })
        });
        (system, turns.collect())
    }

    fn assistant_blocks(&self, message: &Message) -> Vec<Value> {
        let mut blocks: Vec<Value> =
            message.parts.iter().filter_map(|part| self.thinking_block(part)).collect();
        let words = quoted_material::message_text_with_marks(message);
        if !words.trim().is_empty() {
            blocks.push(text_block(&words));
        }
        blocks.extend(message.tool_calls().map(|call| {
            json!({ "type": "tool_use", "id": sanitized_call_id(&call.id), "name": call.name, "input": arguments_as_object(&call.arguments) })
        }));
        blocks
    }

    /// Returns a reasoning block of this model unchanged. Those of other models are left out.
    fn thinking_block(&self, part: &MessagePart) -> Option<Value> {
        let MessagePart::Reasoning { text, signature: Some(signature) } = part else { return None };
        if let Some(signature) = signature.strip_prefix(&tag_signature(&self.model, "thinking", "")) {
            return Some(json!({ "type": "thinking", "thinking": text, "signature": signature }));
        }
        let data = signature.strip_prefix(&tag_signature(&self.model, "redacted", ""))?;
        Some(json!({ "type": "redacted_thinking", "data": data }))
    }
}

fn add_tools(body: &mut Map<String, Value>, request: &ChatRequest, age: AnthropicModelGeneration) {
    let mut tools: Vec<Value> = request.tools.iter().map(tool_definition).collect();
    let mut choice = match &request.tool_choice {
        ToolChoice::Auto => json!({ "type": "auto" }),
        ToolChoice::None => json!({ "type": "none" }),
        ToolChoice::Required => json!({ "type": "any" }),
        ToolChoice::Named(name) => json!({ "type": "tool", "name": name }),
    };
    if let Some(schema) = &request.schema {
        if age == AnthropicModelGeneration::First {
            tools.push(tool_definition(&answer_tool(schema)));
            choice = match request.tools.is_empty() || request.tool_choice == ToolChoice::None {
                true => json!({ "type": "tool", "name": schema.name }),
                // It may call the tools first, and answers with the last one.
                false => json!({ "type": "any" }),
            };
        } else {
            let format = json!({ "type": "json_schema", "schema": strict_schema(&schema.schema) });
            body.insert("output_config".into(), json!({ "format": format }));
        }
    }
    if !tools.is_empty() {
        body.insert("tools".into(), with_cache_control(tools).into());
        body.insert("tool_choice".into(), choice);
    }
}

/// Marks the last block as a cache breakpoint.
fn with_cache_control(mut blocks: Vec<Value>) -> Vec<Value> {
    if let Some(Value::Object(last)) = blocks.last_mut()
        && !matches!(last.get("type").and_then(Value::as_str), Some("thinking" | "redacted_thinking"))
    {
        last.insert("cache_control".into(), json!({ "type": "ephemeral" }));
    }
    blocks
}

fn tool_definition(tool: &ToolSpec) -> Value {
    json!({ "name": tool.name, "description": tool.description, "input_schema": tool.parameters })
}

fn user_blocks(message: &Message) -> Vec<Value> {
    let mut blocks: Vec<Value> = quoted_material::message_images(message).map(image_block).collect();
    let words = quoted_material::message_text_with_marks(message);
    if !words.trim().is_empty() {
        blocks.push(text_block(&words));
    }
    blocks
}

fn tool_result_blocks(message: &Message) -> Vec<Value> {
    let results = message.tool_results().map(|result| {
        json!({
            "type": "tool_result",
            "tool_use_id": sanitized_call_id(&result.call),
            "content": quoted_material::marked_tool_result(result),
            "is_error": result.failed,
        })
    });
    results.chain(quoted_material::message_images(message).map(image_block)).collect()
}

fn image_block(image: &ImageReference) -> Value {
    let source = match quoted_material::parse_data_url(image) {
        Some((media_type, body)) => json!({ "type": "base64", "media_type": media_type, "data": body }),
        None => json!({ "type": "url", "url": image.url }),
    };
    json!({ "type": "image", "source": source })
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Returns an id of letters, digits, `_` and `-`. Other characters in an id of another vendor are replaced.
fn sanitized_call_id(id: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    id.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
}
