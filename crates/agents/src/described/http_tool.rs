//! A tool of a described agent that calls a program over HTTP.

use async_trait::async_trait;
use doran_llm::{TextOrigin, ToolSpec};
use serde_json::{Value, json};

use super::description::ToolDescription;
use super::http::{HttpCall, HttpCallError, HttpCallParts, HttpFailureKind};
use super::template;
use crate::tools::{Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolSideEffect};

/// The most bytes of a result that go on to the model.
const MAX_OUTPUT_BYTES: usize = 64 << 10;
/// What the templates of a tool may use.
const TOOL_VARIABLES: [&str; 1] = ["arguments"];
/// What the template of its result may use.
const RESULT_VARIABLES: [&str; 2] = ["arguments", "response"];

/// The tool.
#[derive(Debug)]
pub(super) struct HttpTool {
    info: ToolInfo,
    call: HttpCall,
}

impl HttpTool {
    /// The tool, or what is wrong with its description.
    pub(super) fn new(description: &ToolDescription, parts: &HttpCallParts) -> Result<Self, String> {
        let call = HttpCall::new(&description.http, parts)?;
        for (field, value) in HttpCall::templates(&description.http) {
            check_template(&format!("`{field}`"), &value, &TOOL_VARIABLES)?;
        }
        if let Some(result) = &description.http.result {
            check_template("`result`", result, &RESULT_VARIABLES)?;
        }
        let side_effect = match (call.once(), call.is_read_only()) {
            (true, _) => ToolSideEffect::Once,
            (false, true) => ToolSideEffect::ReadOnly,
            (false, false) => ToolSideEffect::Idempotent,
        };
        let parameters = match &description.parameters {
            Value::Null => json!({ "type": "object", "properties": {}, "additionalProperties": false }),
            given => given.clone(),
        };
        let info = ToolInfo {
            spec: ToolSpec {
                name: description.name.clone(),
                description: description.en.clone(),
                parameters,
            },
            ko: description.ko.clone(),
            en: description.en.clone(),
            side_effect,
            outward: !call.is_private(),
            origin: TextOrigin::Web,
            timeout: call.time() * call.attempts(),
            max_output_bytes: MAX_OUTPUT_BYTES,
        };
        Ok(Self { info, call })
    }
}

/// Checks what a template uses.
pub(super) fn check_template(field: &str, value: &Value, known: &[&str]) -> Result<(), String> {
    match template::unknown_variable(value, known) {
        Ok(None) => Ok(()),
        Ok(Some(unknown)) => Err(format!("{field} uses `{unknown}`; it may use: {}", known.join(", "))),
        Err(error) => Err(format!("{field} is not a template: {error}")),
    }
}

#[async_trait]
impl Tool for HttpTool {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let variables = json!({ "arguments": arguments });
        let rendered = self.call.render(&variables, &arguments).map_err(tool_error)?;
        let mut left = self.call.attempts();
        let response = loop {
            left -= 1;
            match self.call.send(rendered.clone(), call.key).await {
                Ok(response) => break response,
                Err(error)
                    if left > 0
                        && matches!(error.kind, HttpFailureKind::NotSent | HttpFailureKind::Transient) =>
                {
                    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                }
                Err(error) => return Err(tool_error(error)),
            }
        };
        let result = self.call.result(response, &variables).map_err(tool_error)?;
        let text = match &result {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Ok(ToolOutput { data: result, ..ToolOutput::text(text) })
    }
}

fn tool_error(error: HttpCallError) -> ToolError {
    match error.kind {
        HttpFailureKind::NotSent => ToolError::Unavailable(error.reason),
        HttpFailureKind::Transient | HttpFailureKind::Unusable => ToolError::OutcomeUnknown(error.reason),
        HttpFailureKind::Refused | HttpFailureKind::Impossible => ToolError::Failed(error.reason),
    }
}
