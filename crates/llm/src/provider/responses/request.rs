//! Builds requests for the OpenAI Responses API.

use serde_json::{Map, Value, json};

use super::{ResponsesDialect, tag_signature};
use crate::message::{Message, MessagePart, Role};
use crate::model::{ChatRequest, ToolChoice};
use crate::provider::openai::{
    arguments_as_object, is_reasoning_model, prompt_cache_key, shortest_json_number,
};
use crate::provider::quoted_material;
use crate::structured_output::strict_schema;

impl ResponsesDialect {
    pub(super) fn request_body(&self, request: &ChatRequest) -> Value {
        let mut body = Map::new();
        body.insert("model".into(), self.model.clone().into());
        body.insert(
            "input".into(),
            request.messages.iter().flat_map(|message| self.message_items(message)).collect(),
        );
        body.insert("stream".into(), self.streamed.into());
        body.insert("store".into(), false.into());
        body.insert("prompt_cache_key".into(), prompt_cache_key(request).into());
        if let Some(limit) = request.max_output_tokens {
            body.insert("max_output_tokens".into(), limit.into());
        }
        if is_reasoning_model(&self.model) {
            body.insert("include".into(), json!(["reasoning.encrypted_content"]));
            body.insert("reasoning".into(), json!({ "summary": "auto" }));
        } else {
            for (name, number) in [("temperature", request.temperature), ("top_p", request.top_p)] {
                if let Some(number) = number {
                    body.insert(name.into(), shortest_json_number(number));
                }
            }
        }
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|tool| {
                json!({
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": false,
                })
            });
            body.insert("tools".into(), tools.collect());
            let choice = match &request.tool_choice {
                ToolChoice::Auto => json!("auto"),
                ToolChoice::None => json!("none"),
                ToolChoice::Required => json!("required"),
                ToolChoice::Named(name) => json!({ "type": "function", "name": name }),
            };
            body.insert("tool_choice".into(), choice);
            body.insert("parallel_tool_calls".into(), true.into());
        }
        if let Some(schema) = &request.schema {
            let format = json!({
                "type": "json_schema",
                "name": schema.name,
                "schema": strict_schema(&schema.schema),
                "strict": true,
            });
            body.insert("text".into(), json!({ "format": format }));
        }
        body.extend(self.extra.clone());
        body.into()
    }

    /// Converts one message to input items.
    fn message_items(&self, message: &Message) -> Vec<Value> {
        match message.role {
            Role::System => vec![message_item("developer", "input_text", message)],
            Role::User => vec![message_item("user", "input_text", message)],
            Role::Assistant => self.assistant_items(message),
            Role::Tool => message
                .tool_results()
                .map(|result| {
                    json!({
                        "type": "function_call_output",
                        "call_id": result.call,
                        "output": quoted_material::marked_tool_result(result),
                    })
                })
                .chain(tool_images_item(message))
                .collect(),
        }
    }

    fn assistant_items(&self, message: &Message) -> Vec<Value> {
        let mut items: Vec<Value> =
            message.parts.iter().filter_map(|part| self.reasoning_item(part)).collect();
        if !quoted_material::message_text_with_marks(message).is_empty() {
            items.push(message_item("assistant", "output_text", message));
        }
        items.extend(message.tool_calls().map(|call| {
            json!({
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": arguments_as_object(&call.arguments).to_string(),
            })
        }));
        items
    }

    /// Returns a reasoning item of this model, encrypted as it was received.
    fn reasoning_item(&self, part: &MessagePart) -> Option<Value> {
        let MessagePart::Reasoning { text, signature: Some(signature) } = part else { return None };
        let own = signature.strip_prefix(&format!("responses {} ", self.model))?;
        let (id, sealed) = own.split_once(' ')?;
        debug_assert_eq!(*signature, tag_signature(&self.model, id, sealed));
        let summary =
            if text.is_empty() { json!([]) } else { json!([{ "type": "summary_text", "text": text }]) };
        Some(json!({ "type": "reasoning", "id": id, "summary": summary, "encrypted_content": sealed }))
    }
}

/// The images of tool results, as an item of its own: the output of a call is text.
fn tool_images_item(message: &Message) -> Option<Value> {
    let images = quoted_material::message_images(message);
    let images: Vec<Value> =
        images.map(|image| json!({ "type": "input_image", "image_url": image.url })).collect();
    (!images.is_empty()).then(|| json!({ "type": "message", "role": "user", "content": images }))
}

fn message_item(role: &str, kind: &str, message: &Message) -> Value {
    let words = quoted_material::message_text_with_marks(message);
    let mut content: Vec<Value> = quoted_material::message_images(message)
        .map(|image| json!({ "type": "input_image", "image_url": image.url }))
        .collect();
    if !words.is_empty() || content.is_empty() {
        content.insert(0, json!({ "type": kind, "text": words }));
    }
    json!({ "type": "message", "role": role, "content": content })
}
