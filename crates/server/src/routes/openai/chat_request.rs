//! Reads a request for a chat completion.

use doran_agents::TurnRequest;
use doran_engine::store::check_metadata;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::request_fields::{CHAT_COMPLETION_FIELDS, FieldObject, RequestFields, unsupported_parameter};
use super::turn_request::{FieldNesting, read_response_format, read_tool_choice, read_tools};
use crate::error::ApiError;

/// A request for a chat completion. A parameter of OpenAI's API that is not here is rejected with `400`.
#[derive(Debug, JsonSchema)]
pub(super) struct ChatCompletionBody {
    /// The name of the agent.
    pub(super) model: String,
    /// The conversation. The last message of the user is the question. Tool results at its end continue the run that
    /// waits for them.
    #[schemars(length(min = 1))]
    pub(super) messages: Vec<Map<String, Value>>,
    /// Whether the answer is streamed.
    pub(super) stream: Option<bool>,
    /// Options of a stream.
    pub(super) stream_options: Option<CompletionStreamOptions>,
    /// Functions that the client runs. The agents `assistant` and `react` offer them to the model.
    pub(super) tools: Option<Vec<Map<String, Value>>>,
    /// `auto`, `none`, `required` or a function of `tools`. It applies to `tools`, not to the tools of the agent.
    pub(super) tool_choice: Option<Value>,
    /// Whether a reply of the model can have several tool calls. The default is `true`.
    pub(super) parallel_tool_calls: Option<bool>,
    /// `text`, `json_object` or `json_schema`. An answer is checked by the schema; one that does not fit is requested once more.
    pub(super) response_format: Option<Map<String, Value>>,
    /// How freely words of the answer are chosen.
    #[schemars(range(min = 0, max = 2))]
    pub(super) temperature: Option<f32>,
    /// Only the likeliest words that together have this probability are chosen from.
    #[schemars(range(min = 0, max = 1))]
    pub(super) top_p: Option<f32>,
    /// Asks the model for the same choice of words again.
    pub(super) seed: Option<i64>,
    /// A text at which a reply of the model ends, or up to four.
    pub(super) stop: Option<StopTexts>,
    /// Maximum number of tokens of a reply of the model.
    #[schemars(range(min = 1))]
    pub(super) max_completion_tokens: Option<u64>,
    /// The same, under its older name.
    #[schemars(range(min = 1))]
    pub(super) max_tokens: Option<u64>,
    /// Texts by name. They are stored with the run. `thread_id` is the thread to continue.
    pub(super) metadata: Option<Map<String, Value>>,
    /// Who the question is from. Stored with the run.
    pub(super) user: Option<String>,
    /// The same, under its newer name. Stored beside it.
    pub(super) safety_identifier: Option<String>,
}

/// Texts at which a reply ends.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub(super) enum StopTexts {
    /// One.
    One(String),
    /// Several.
    Many(#[schemars(length(max = 4))] Vec<String>),
}

/// The parameter that names the thread.
pub(super) const THREAD_ID: &str = "metadata.thread_id";
/// The most texts at which a reply ends.
const MAX_STOP_TEXTS: usize = 4;
/// The most bytes of each.
const MAX_STOP_BYTES: usize = 256;

impl StopTexts {
    fn into_checked(self) -> Result<Vec<String>, ApiError> {
        let texts = match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        };
        let fits = |text: &String| (1..=MAX_STOP_BYTES).contains(&text.len());
        if texts.len() > MAX_STOP_TEXTS || !texts.iter().all(fits) {
            return Err(ApiError::for_parameter(
                "stop",
                format!("it has at most {MAX_STOP_TEXTS} texts of 1 to {MAX_STOP_BYTES} bytes"),
                format!("1~{MAX_STOP_BYTES}바이트의 글을 {MAX_STOP_TEXTS}개까지 쓸 수 있습니다"),
            ));
        }
        Ok(texts)
    }
}

/// Options of a stream.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct CompletionStreamOptions {
    /// Whether the last chunk has the usage.
    #[serde(default)]
    pub(super) include_usage: bool,
}

impl ChatCompletionBody {
    /// Reads a body, and how its question is to be answered.
    pub(super) fn read(body: Map<String, Value>) -> Result<(Self, TurnRequest), ApiError> {
        let mut fields = RequestFields::check(body, CHAT_COMPLETION_FIELDS)?;
        let stream_options = match fields.take("stream_options")? {
            Some(options) => Some(CompletionStreamOptions::read(options)?),
            None => None,
        };
        let body = Self {
            model: fields.require("model")?,
            messages: fields.require("messages")?,
            stream: fields.take("stream")?,
            stream_options,
            tools: fields.take("tools")?,
            tool_choice: fields.take("tool_choice")?,
            parallel_tool_calls: fields.take("parallel_tool_calls")?,
            response_format: fields.take("response_format")?,
            temperature: fields.take("temperature")?,
            top_p: fields.take("top_p")?,
            seed: fields.take("seed")?,
            stop: fields.take("stop")?,
            max_completion_tokens: fields.take("max_completion_tokens")?,
            max_tokens: fields.take("max_tokens")?,
            metadata: fields.take("metadata")?,
            user: fields.take("user")?,
            safety_identifier: fields.take("safety_identifier")?,
        };
        check_run_metadata(body.metadata.as_ref(), body.user.as_deref(), body.safety_identifier.as_deref())?;
        let request = body.turn_request()?;
        Ok((body, request))
    }

    fn turn_request(&self) -> Result<TurnRequest, ApiError> {
        let nesting = FieldNesting::Nested;
        let tools = self.tools.iter().flatten().cloned().map(Value::Object).collect();
        let tools = read_tools(tools, nesting)?;
        let tool_choice = match self.tool_choice.clone() {
            Some(choice) => read_tool_choice(choice, &tools, nesting)?,
            None => Default::default(),
        };
        let response_schema = match self.response_format.clone() {
            Some(format) => read_response_format("response_format", format.into(), nesting)?,
            None => None,
        };
        if self.max_tokens.is_some_and(|max| self.max_completion_tokens.is_some_and(|other| other != max)) {
            return Err(contradiction("max_tokens", "max_completion_tokens"));
        }
        let max_output_tokens = self.max_completion_tokens.or(self.max_tokens);
        check_settings(self.temperature, self.top_p, self.limit_parameter(), max_output_tokens)?;
        Ok(TurnRequest {
            tools,
            tool_choice,
            one_call_per_reply: self.parallel_tool_calls == Some(false),
            response_schema,
            temperature: self.temperature,
            top_p: self.top_p,
            seed: self.seed,
            stop: self.stop.clone().map(StopTexts::into_checked).transpose()?.unwrap_or_default(),
            max_output_tokens,
        })
    }

    /// The parameter by which the length of a reply is limited.
    pub(super) fn limit_parameter(&self) -> &'static str {
        if self.max_completion_tokens.is_some() { "max_completion_tokens" } else { "max_tokens" }
    }

    /// The thread that `metadata` names.
    pub(super) fn thread_name(&self) -> Result<Option<&str>, ApiError> {
        match self.metadata.as_ref().and_then(|metadata| metadata.get("thread_id")) {
            None => Ok(None),
            Some(Value::String(name)) => Ok(Some(name)),
            Some(_) => Err(ApiError::for_parameter(THREAD_ID, "it is not text", "글이 아닙니다")),
        }
    }

    /// What is stored with the run.
    pub(super) fn run_metadata(&self) -> Map<String, Value> {
        run_metadata(self.metadata.as_ref(), self.user.as_ref(), self.safety_identifier.as_ref())
    }
}

impl CompletionStreamOptions {
    fn read(options: Value) -> Result<Self, ApiError> {
        let mut fields = FieldObject::new("stream_options", options)?;
        let include_usage = fields.take("include_usage")?.unwrap_or(false);
        let place = fields.place_of("include_obfuscation");
        if fields.take("include_obfuscation")? == Some(true) {
            return Err(unsupported_parameter(&place));
        }
        fields.finish()?;
        Ok(Self { include_usage })
    }
}

/// A parameter that says something else than another.
pub(super) fn contradiction(name: &str, other: &str) -> ApiError {
    ApiError::for_parameter(
        name,
        format!("it contradicts `{other}`; send one of them"),
        format!("`{other}`와 다릅니다. 둘 중 하나만 보내세요"),
    )
}

/// Checks the settings of a model that have bounds.
pub(super) fn check_settings(
    temperature: Option<f32>,
    top_p: Option<f32>,
    limit_parameter: &str,
    max_output_tokens: Option<u64>,
) -> Result<(), ApiError> {
    if temperature.is_some_and(|temperature| !(0.0..=2.0).contains(&temperature)) {
        return Err(ApiError::for_parameter("temperature", "it is from 0 to 2", "0부터 2까지입니다"));
    }
    if top_p.is_some_and(|top_p| !(0.0..=1.0).contains(&top_p)) {
        return Err(ApiError::for_parameter("top_p", "it is from 0 to 1", "0부터 1까지입니다"));
    }
    if max_output_tokens == Some(0) {
        return Err(ApiError::for_parameter(limit_parameter, "it is at least 1", "1 이상이어야 합니다"));
    }
    Ok(())
}

/// Checks what is stored with a run of what its client says about it.
pub(super) fn check_run_metadata(
    metadata: Option<&Map<String, Value>>,
    user: Option<&str>,
    safety_identifier: Option<&str>,
) -> Result<(), ApiError> {
    for (parameter, text) in [("user", user), ("safety_identifier", safety_identifier)] {
        if text.is_some_and(|text| text.contains('\0')) {
            return Err(ApiError::for_parameter(
                parameter,
                "it holds a NUL character",
                "NUL 문자가 있습니다",
            ));
        }
    }
    if metadata.is_some_and(|metadata| check_metadata(metadata).is_err()) {
        return Err(ApiError::for_parameter(
            "metadata",
            "it holds a NUL character, or is nested too deep",
            "NUL 문자가 있거나 너무 깊이 중첩되어 있습니다",
        ));
    }
    Ok(())
}

/// What is stored with a run of what its client says about it.
pub(super) fn run_metadata(
    metadata: Option<&Map<String, Value>>,
    user: Option<&String>,
    safety_identifier: Option<&String>,
) -> Map<String, Value> {
    let metadata = metadata.filter(|metadata| !metadata.is_empty()).map(|metadata| metadata.clone().into());
    let text = |text: Option<&String>| text.map(|text| Value::from(text.as_str()));
    let pairs =
        [("metadata", metadata), ("user", text(user)), ("safety_identifier", text(safety_identifier))];
    pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
