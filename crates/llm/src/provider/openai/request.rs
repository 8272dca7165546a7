//! Builds requests for the Chat Completions API.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::ChatCompletionsDialect;
use crate::error::ModelError;
use crate::json_schema::with_ordered_properties;
use crate::message::{Message, MessagePart, Role, ToolCall};
use crate::model::{ChatRequest, ResponseSchema, SamplingSetting, ToolChoice, ToolSpec};
use crate::provider::dialect::Dialect;
use crate::provider::quoted_material;
use crate::provider::vendors::JsonOutputMode;
use crate::structured_output::strict_schema;

impl ChatCompletionsDialect {
    /// Returns the body of a request.
    pub(super) fn request_body(&self, request: &ChatRequest) -> Result<Value, ModelError> {
        let quirks = &self.quirks;
        if !request.tools.is_empty() && !quirks.supports_tools {
            return Err(ModelError::Rejected { reason: "this vendor's models do not call tools".into() });
        }
        let mut body = Map::new();
        body.insert("model".into(), self.model.clone().into());
        body.insert("messages".into(), self.request_messages(request).into());
        body.insert("stream".into(), self.streamed.into());
        if self.streamed && quirks.sends_stream_options {
            body.insert("stream_options".into(), json!({ "include_usage": true }));
        }
        if let Some(limit) = request.max_output_tokens {
            body.insert(quirks.limit_field.into(), limit.into());
        }
        let unsupported = self.unsupported_settings();
        if let Some(temperature) = request.temperature
            && !unsupported.contains(&SamplingSetting::Temperature)
        {
            body.insert("temperature".into(), shortest_json_number(temperature));
        }
        if let Some(top_p) = request.top_p
            && !unsupported.contains(&SamplingSetting::TopP)
        {
            body.insert("top_p".into(), shortest_json_number(top_p));
        }
        if let Some(seed) = request.seed {
            body.insert(quirks.seed_field.into(), seed.into());
        }
        if !request.stop.is_empty() {
            body.insert("stop".into(), request.stop.clone().into());
        }
        if quirks.sends_prompt_cache_key {
            body.insert("prompt_cache_key".into(), prompt_cache_key(request).into());
        }
        self.add_tools(&mut body, request);
        self.add_schema(&mut body, request);
        body.extend(self.extra.clone());
        Ok(body.into())
    }

    fn add_tools(&self, body: &mut Map<String, Value>, request: &ChatRequest) {
        let is_unused = self.quirks.shortens_tools && request.tool_choice == ToolChoice::None;
        if request.tools.is_empty() || is_unused {
            return;
        }
        let definition = |tool: &ToolSpec| match self.quirks.shortens_tools {
            false => tool_definition(tool),
            true => {
                tool_definition(&ToolSpec { parameters: without_limits(&tool.parameters), ..tool.clone() })
            }
        };
        body.insert("tools".into(), request.tools.iter().map(definition).collect());
        let choice = match &request.tool_choice {
            ToolChoice::Auto => json!("auto"),
            ToolChoice::None => json!("none"),
            ToolChoice::Required => json!("required"),
            ToolChoice::Named(name) => json!({ "type": "function", "function": { "name": name } }),
        };
        body.insert("tool_choice".into(), choice);
        if self.quirks.sends_parallel_tool_calls {
            body.insert("parallel_tool_calls".into(), true.into());
        }
    }

    fn add_schema(&self, body: &mut Map<String, Value>, request: &ChatRequest) {
        let Some(schema) = &request.schema else { return };
        let format = |strictly: bool, schema: &ResponseSchema, shape: Value| {
            json!({
                "type": "json_schema",
                "json_schema": { "name": schema.name, "schema": shape, "strict": strictly },
            })
        };
        match self.quirks.json_output {
            JsonOutputMode::Strict => {
                body.insert("response_format".into(), format(true, schema, strict_schema(&schema.schema)));
            }
            JsonOutputMode::Schema => {
                body.insert("response_format".into(), format(false, schema, schema.schema.clone()));
            }
            JsonOutputMode::Object => {
                body.insert("response_format".into(), json!({ "type": "json_object" }));
            }
            JsonOutputMode::Tool => {
                let mut tools = match body.remove("tools") {
                    Some(Value::Array(tools)) => tools,
                    _ => Vec::new(),
                };
                tools.push(tool_definition(&answer_tool(schema)));
                body.insert("tools".into(), tools.into());
                let choice = match request.tools.is_empty() || request.tool_choice == ToolChoice::None {
                    true => json!({ "type": "function", "function": { "name": schema.name } }),
                    // It may call the tools first, and answers with the last one.
                    false => json!("required"),
                };
                body.insert("tool_choice".into(), choice);
            }
        }
    }

    fn request_messages(&self, request: &ChatRequest) -> Vec<Value> {
        let mut messages = Vec::new();
        let mut talked = false;
        for message in &request.messages {
            match message.role {
                Role::System => {
                    // The chat templates of many open models reject a system message that is not the first, and put the
                    // tools at its end. Quoted material stands after tools, so that a server finds what does not change
                    // from question to question in its cache.
                    let is_quoted =
                        message.parts.iter().any(|part| quoted_material::is_quoted(part.origin()));
                    let is_late = talked || (is_quoted && !request.tools.is_empty());
                    let role =
                        if is_late && self.quirks.system_messages_first_only { "user" } else { "system" };
                    messages.push(
                        json!({ "role": role, "content": quoted_material::message_text_with_marks(message) }),
                    );
                }
                Role::User => {
                    talked = true;
                    messages.push(json!({ "role": "user", "content": message_content(message) }));
                }
                Role::Assistant => {
                    talked = true;
                    messages.push(self.assistant_message(message));
                }
                Role::Tool => {
                    messages.extend(message.tool_results().map(|result| {
                        json!({
                            "role": "tool",
                            "tool_call_id": self.vendor_call_id(&result.call),
                            "content": quoted_material::marked_tool_result(result),
                        })
                    }));
                    messages.extend(tool_images_message(message));
                }
            }
        }
        if let (JsonOutputMode::Object, Some(schema)) = (self.quirks.json_output, &request.schema) {
            let message = format!(
                "Answer with one JSON object that fits this schema, and nothing else: {}",
                with_ordered_properties(&schema.schema)
            );
            let role = if self.quirks.system_messages_first_only { "user" } else { "system" };
            messages.push(json!({ "role": role, "content": message }));
        }
        if self.quirks.system_messages_first_only { join_messages_of_one_role(messages) } else { messages }
    }

    fn assistant_message(&self, message: &Message) -> Value {
        let mut fields = Map::new();
        fields.insert("role".into(), "assistant".into());
        let words = quoted_material::message_text_with_marks(message);
        let calls: Vec<Value> = message.tool_calls().map(|call| self.tool_call_json(call)).collect();
        if words.is_empty() && !calls.is_empty() {
            fields.insert("content".into(), Value::Null);
        } else {
            fields.insert("content".into(), words.into());
        }
        if !calls.is_empty() {
            if self.quirks.resends_reasoning {
                let thoughts: String = message.parts.iter().filter_map(reasoning_text).collect();
                fields.insert("reasoning_content".into(), thoughts.into());
            }
            fields.insert("tool_calls".into(), calls.into());
        }
        fields.into()
    }

    fn tool_call_json(&self, call: &ToolCall) -> Value {
        json!({
            "id": self.vendor_call_id(&call.id),
            "type": "function",
            "function": { "name": call.name, "arguments": arguments_as_object(&call.arguments).to_string() },
        })
    }

    /// Converts a call id to the form that this vendor accepts. The same id always gives the same result.
    fn vendor_call_id(&self, id: &str) -> String {
        let fits = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !self.quirks.nine_character_call_ids || fits {
            return id.to_owned();
        }
        hex::encode(Sha256::digest(id.as_bytes()))[..9].to_owned()
    }
}

/// Returns the tool whose arguments are the answer.
pub(in crate::provider) fn answer_tool(schema: &ResponseSchema) -> ToolSpec {
    ToolSpec {
        name: schema.name.clone(),
        description: "Gives the answer. 답을 제출합니다.".into(),
        parameters: schema.schema.clone(),
    }
}

/// Returns arguments as an object. Arguments that were not JSON are sent back as a string inside one.
pub(in crate::provider) fn arguments_as_object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        Value::Null => json!({}),
        other => json!({ "not_json": other }),
    }
}

/// Requests with the same start share a key, so that the vendor routes them to the server that has it cached.
pub(in crate::provider) fn prompt_cache_key(request: &ChatRequest) -> String {
    let mut digest = Sha256::new();
    for message in request.messages.iter().take_while(|message| message.role == Role::System) {
        digest.update(message.text().as_bytes());
    }
    for tool in &request.tools {
        digest.update(tool.name.as_bytes());
    }
    let digest = digest.finalize();
    let letters = hex::encode(&digest[..8]);
    format!("doran-{letters}")
}

/// Returns a finite number without the noise of its wider form: 0.7, not 0.699999988079071.
pub(in crate::provider) fn shortest_json_number(number: f32) -> Value {
    Value::from(number.to_string().parse().unwrap_or(f64::from(number)))
}

fn tool_definition(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": { "name": tool.name, "description": tool.description, "parameters": tool.parameters },
    })
}

fn message_content(message: &Message) -> Value {
    let mut images = quoted_material::message_images(message).peekable();
    if images.peek().is_none() {
        return quoted_material::message_text_with_marks(message).into();
    }
    let words = quoted_material::message_text_with_marks(message);
    let words = Some(words).filter(|words| !words.is_empty());
    let mut parts: Vec<Value> =
        words.map(|words| json!({ "type": "text", "text": words })).into_iter().collect();
    parts.extend(images.map(|image| json!({ "type": "image_url", "image_url": { "url": image.url } })));
    parts.into()
}

/// The images of tool results, as a message of its own: a tool message takes text only.
fn tool_images_message(message: &Message) -> Option<Value> {
    let images = quoted_material::message_images(message);
    let images: Vec<Value> =
        images.map(|image| json!({ "type": "image_url", "image_url": { "url": image.url } })).collect();
    (!images.is_empty()).then(|| json!({ "role": "user", "content": images }))
}

fn reasoning_text(part: &MessagePart) -> Option<&str> {
    match part {
        MessagePart::Reasoning { text, .. } => Some(text),
        _ => None,
    }
}

/// Joins texts of the system, or of the user, that follow each other: many chat templates want the roles to alternate.
fn join_messages_of_one_role(messages: Vec<Value>) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::with_capacity(messages.len());
    for message in messages {
        let words = match (joined.last(), message["role"].as_str()) {
            (Some(last), Some("system" | "user")) if last["role"] == message["role"] => {
                last["content"].as_str().zip(message["content"].as_str())
            }
            _ => None,
        };
        let words = words.map(|(before, after)| format!("{before}\n\n{after}"));
        match (words, joined.last_mut()) {
            (Some(words), Some(last)) => last["content"] = words.into(),
            _ => joined.push(message),
        }
    }
    joined
}

/// Returns the schema of arguments without what it says about the length and size of values.
fn without_limits(schema: &Value) -> Value {
    const LIMITS: [&str; 7] =
        ["minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "additionalProperties"];
    let Value::Object(fields) = schema else { return schema.clone() };
    let kept = fields.iter().filter(|(name, _)| !LIMITS.contains(&name.as_str()));
    let kept = kept.map(|(name, value)| {
        let value = match (name.as_str(), value) {
            ("properties" | "$defs", Value::Object(named)) => {
                named.iter().map(|(name, schema)| (name.clone(), without_limits(schema))).collect()
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(options)) => {
                options.iter().map(without_limits).collect()
            }
            ("items", value) => without_limits(value),
            (_, value) => value.clone(),
        };
        (name.clone(), value)
    });
    kept.collect()
}
