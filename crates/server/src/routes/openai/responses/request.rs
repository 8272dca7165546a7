//! Reads a request for a response.

use doran_agents::TurnRequest;
use schemars::JsonSchema;
use serde_json::{Map, Value};

use super::super::chat_request::{check_run_metadata, check_settings};
use super::super::client_calls::ClientCallResult;
use super::super::client_messages::{ClientMessage, read_content, read_text, tool_call};
use super::super::request_fields::{FieldObject, RESPONSE_FIELDS, RequestFields, unsupported_parameter};
use super::super::turn_request::{FieldNesting, read_response_format, read_tool_choice, read_tools};
use crate::api::OpenAiResponseRequest;
use crate::error::ApiError;

/// Fields that items of a response have, and that clients send back with them.
const OWN_ITEM_FIELDS: [&str; 2] = ["id", "status"];

/// A request for a response. A parameter of OpenAI's API that is not here is rejected with `400`.
#[derive(Debug, JsonSchema)]
pub(super) struct ResponseBody {
    /// The name of the agent.
    pub(super) model: String,
    /// A text, or a list of items: messages, function calls, their outputs, and references to items of responses. The last message of the user is the
    /// question. Outputs at its end continue the run that waits for them.
    pub(super) input: Value,
    /// What applies to the conversation, with the rank of user text.
    pub(super) instructions: Option<String>,
    /// The response that this one follows. Its thread continues.
    pub(super) previous_response_id: Option<String>,
    /// The thread to continue: its name, or an object with its name as `id`.
    pub(super) conversation: Option<Value>,
    /// Whether the request returns at once. `GET /v1/responses/{response}` has the answer later.
    pub(super) background: Option<bool>,
    /// Whether the answer is streamed.
    pub(super) stream: Option<bool>,
    /// Functions that the client runs. The agents `assistant` and `react` offer them to the model.
    pub(super) tools: Option<Vec<Map<String, Value>>>,
    /// `auto`, `none`, `required` or a function of `tools`. It applies to `tools`, not to the tools of the agent.
    pub(super) tool_choice: Option<Value>,
    /// Whether a reply of the model can have several tool calls. The default is `true`.
    pub(super) parallel_tool_calls: Option<bool>,
    /// `format`: `text`, `json_object` or `json_schema`. An answer is checked by the schema; one that does not fit is
    /// requested once more.
    pub(super) text: Option<Map<String, Value>>,
    /// How freely words of the answer are chosen.
    #[schemars(range(min = 0, max = 2))]
    pub(super) temperature: Option<f32>,
    /// Only the likeliest words that together have this probability are chosen from.
    #[schemars(range(min = 0, max = 1))]
    pub(super) top_p: Option<f32>,
    /// Maximum number of tokens of a reply of the model.
    #[schemars(range(min = 1))]
    pub(super) max_output_tokens: Option<u64>,
    /// Texts by name. They are stored with the run.
    pub(super) metadata: Option<Map<String, Value>>,
    /// Who the request is from. Stored with the run.
    pub(super) user: Option<String>,
    /// The same, under its newer name. Stored beside it.
    pub(super) safety_identifier: Option<String>,
}

impl ResponseBody {
    /// Reads a body, and how its question is to be answered.
    pub(super) fn read(body: Map<String, Value>) -> Result<(Self, TurnRequest), ApiError> {
        let mut fields = RequestFields::check(body, RESPONSE_FIELDS)?;
        let body = Self {
            model: fields.require("model")?,
            input: fields.require("input")?,
            instructions: fields.take("instructions")?,
            previous_response_id: fields.take("previous_response_id")?,
            conversation: fields.take("conversation")?,
            background: fields.take("background")?,
            stream: fields.take("stream")?,
            tools: fields.take("tools")?,
            tool_choice: fields.take("tool_choice")?,
            parallel_tool_calls: fields.take("parallel_tool_calls")?,
            text: fields.take("text")?,
            temperature: fields.take("temperature")?,
            top_p: fields.take("top_p")?,
            max_output_tokens: fields.take("max_output_tokens")?,
            metadata: fields.take("metadata")?,
            user: fields.take("user")?,
            safety_identifier: fields.take("safety_identifier")?,
        };
        check_run_metadata(body.metadata.as_ref(), body.user.as_deref(), body.safety_identifier.as_deref())?;
        let request = body.turn_request()?;
        Ok((body, request))
    }

    fn turn_request(&self) -> Result<TurnRequest, ApiError> {
        let nesting = FieldNesting::Flat;
        let tools = read_tools(self.tools.iter().flatten().cloned().map(Value::Object).collect(), nesting)?;
        let tool_choice = match self.tool_choice.clone() {
            Some(choice) => read_tool_choice(choice, &tools, nesting)?,
            None => Default::default(),
        };
        let response_schema = match self.text.clone() {
            Some(text) => {
                let mut text = FieldObject::new("text", text.into())?;
                let place = text.place_of("verbosity");
                if text.take::<String>("verbosity")?.is_some_and(|verbosity| verbosity != "medium") {
                    return Err(unsupported_parameter(&place));
                }
                let format = text.take::<Value>("format")?;
                text.finish()?;
                match format {
                    Some(format) => read_response_format("text.format", format, nesting)?,
                    None => None,
                }
            }
            None => None,
        };
        check_settings(self.temperature, self.top_p, "max_output_tokens", self.max_output_tokens)?;
        Ok(TurnRequest {
            tools,
            tool_choice,
            one_call_per_reply: self.parallel_tool_calls == Some(false),
            response_schema,
            temperature: self.temperature,
            top_p: self.top_p,
            seed: None,
            stop: Vec::new(),
            max_output_tokens: self.max_output_tokens,
        })
    }

    /// The thread that the client names.
    pub(super) fn conversation_name(&self) -> Result<Option<String>, ApiError> {
        match self.conversation.clone() {
            None => Ok(None),
            Some(Value::String(name)) => Ok(Some(name)),
            Some(conversation) => {
                let mut fields = FieldObject::new("conversation", conversation)?;
                let name = fields.require("id")?;
                fields.finish()?;
                Ok(Some(name))
            }
        }
    }

    /// The messages of the conversation, the instructions first, from the input without references.
    pub(super) fn messages(&self, input: Value) -> Result<Vec<ClientMessage>, ApiError> {
        let mut messages: Vec<ClientMessage> =
            self.instructions.iter().cloned().map(ClientMessage::System).collect();
        match input {
            Value::String(text) => messages.push(ClientMessage::User { text, images: Vec::new() }),
            Value::Array(items) => {
                for (at, item) in items.into_iter().enumerate() {
                    messages.push(read_item(format!("input[{at}]"), item)?);
                }
            }
            _ => {
                return Err(ApiError::for_parameter(
                    "input",
                    "it is neither text nor a list",
                    "글이나 목록이 아닙니다",
                ));
            }
        }
        Ok(messages)
    }

    /// What is repeated in the response.
    pub(super) fn echo(&self) -> OpenAiResponseRequest {
        let format = Map::from_iter([("format".to_owned(), serde_json::json!({ "type": "text" }))]);
        OpenAiResponseRequest {
            background: self.background == Some(true),
            instructions: self.instructions.clone(),
            max_output_tokens: self.max_output_tokens,
            metadata: self.metadata.clone().unwrap_or_default(),
            parallel_tool_calls: self.parallel_tool_calls != Some(false),
            previous_response_id: self.previous_response_id.clone(),
            temperature: self.temperature,
            text: self.text.clone().filter(|text| text.contains_key("format")).unwrap_or(format),
            tool_choice: self.tool_choice.clone().unwrap_or_else(|| "auto".into()),
            tools: self.tools.clone().unwrap_or_default(),
            top_p: self.top_p,
            truncation: "auto".to_owned(),
            user: self.user.clone(),
            safety_identifier: self.safety_identifier.clone(),
            store: true,
        }
    }
}

fn read_item(place: String, item: Value) -> Result<ClientMessage, ApiError> {
    let mut fields = FieldObject::new(place, item)?.skip_own(&OWN_ITEM_FIELDS);
    let type_place = fields.place_of("type");
    let kind = fields.take::<String>("type")?.unwrap_or_else(|| "message".to_owned());
    let read = match kind.as_str() {
        "message" => {
            let (role_place, content_place) = (fields.place_of("role"), fields.place_of("content"));
            let role: String = fields.require("role")?;
            let content: Value = fields.require("content")?;
            match role.as_str() {
                "system" | "developer" => ClientMessage::System(read_text(&content_place, content)?),
                "user" => {
                    let (text, images) = read_content(&content_place, content)?;
                    ClientMessage::User { text, images }
                }
                "assistant" => {
                    ClientMessage::Assistant { text: read_text(&content_place, content)?, calls: Vec::new() }
                }
                _ => {
                    return Err(ApiError::for_parameter(
                        &role_place,
                        "it can be `system`, `developer`, `user` or `assistant`",
                        "`system`, `developer`, `user`, `assistant` 가운데 하나여야 합니다",
                    ));
                }
            }
        }
        "function_call" => {
            let call =
                tool_call(fields.require("call_id")?, fields.require("name")?, fields.require("arguments")?);
            ClientMessage::Assistant { text: String::new(), calls: vec![call] }
        }
        "function_call_output" => {
            let output_place = fields.place_of("output");
            let output = read_text(&output_place, fields.require("output")?)?;
            ClientMessage::ToolResult(ClientCallResult { call: fields.require("call_id")?, output })
        }
        _ => {
            return Err(ApiError::for_parameter(
                &type_place,
                format!("items of the type `{kind}` are not supported"),
                format!("`{kind}` 형식의 항목은 지원하지 않습니다"),
            ));
        }
    };
    fields.finish()?;
    Ok(read)
}
