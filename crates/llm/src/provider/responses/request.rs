//! A request in the words of OpenAI's responses.

use serde_json::{Map, Value, json};

use super::{Responses, signed};
use crate::message::{Message, Part, Role};
use crate::model::{ChatRequest, ToolChoice};
use crate::provider::material;
use crate::provider::openai::{cache_key, object, shortest, thinks};
use crate::structured::strict;

impl Responses {
    pub(super) fn body(&self, request: &ChatRequest) -> Value {
        let mut body = Map::new();
        body.insert("model".into(), self.model.clone().into());
        body.insert(
            "input".into(),
            request.messages.iter().flat_map(|message| self.items(message)).collect(),
        );
        body.insert("stream".into(), self.streamed.into());
        body.insert("store".into(), false.into());
        body.insert("prompt_cache_key".into(), cache_key(request).into());
        if let Some(limit) = request.max_output_tokens {
            body.insert("max_output_tokens".into(), limit.into());
        }
        if thinks(&self.model) {
            body.insert("include".into(), json!(["reasoning.encrypted_content"]));
            body.insert("reasoning".into(), json!({ "summary": "auto" }));
        } else if let Some(temperature) = request.temperature {
            body.insert("temperature".into(), shortest(temperature));
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
                "schema": strict(&schema.schema),
                "strict": true,
            });
            body.insert("text".into(), json!({ "format": format }));
        }
        body.extend(self.extra.clone());
        body.into()
    }

    /// One message as the items it is made of here.
    fn items(&self, message: &Message) -> Vec<Value> {
        match message.role {
            Role::System => vec![said("developer", "input_text", message)],
            Role::User => vec![said("user", "input_text", message)],
            Role::Assistant => self.assistant(message),
            Role::Tool => message
                .tool_results()
                .map(|result| {
                    json!({
                        "type": "function_call_output",
                        "call_id": result.call,
                        "output": material::tool_result(result),
                    })
                })
                .collect(),
        }
    }

    fn assistant(&self, message: &Message) -> Vec<Value> {
        let mut items: Vec<Value> = message.parts.iter().filter_map(|part| self.thought(part)).collect();
        if !material::words(message).is_empty() {
            items.push(said("assistant", "output_text", message));
        }
        items.extend(message.tool_calls().map(|call| {
            json!({
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": object(&call.arguments).to_string(),
            })
        }));
        items
    }

    /// A thought of this very model, sealed as it was.
    fn thought(&self, part: &Part) -> Option<Value> {
        let Part::Reasoning { text, signature: Some(signature) } = part else { return None };
        let own = signature.strip_prefix(&format!("responses {} ", self.model))?;
        let (id, sealed) = own.split_once(' ')?;
        debug_assert_eq!(*signature, signed(&self.model, id, sealed));
        let summary =
            if text.is_empty() { json!([]) } else { json!([{ "type": "summary_text", "text": text }]) };
        Some(json!({ "type": "reasoning", "id": id, "summary": summary, "encrypted_content": sealed }))
    }
}

fn said(role: &str, kind: &str, message: &Message) -> Value {
    let mut content = vec![json!({ "type": kind, "text": material::words(message) })];
    content.extend(
        material::images(message).map(|image| json!({ "type": "input_image", "image_url": image.url })),
    );
    json!({ "type": "message", "role": role, "content": content })
}
