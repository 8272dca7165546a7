//! The resources and the prompts of an MCP server, each as one tool: without arguments it lists them, with an address or
//! a name it reads one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_llm::{TextOrigin, ToolSpec};
use rmcp::model::{JsonObject, Prompt, Resource, ResourceTemplate, Role};
use serde_json::{Value, json};

use super::connection::McpConnection;
use super::result_text::{McpContent, clean_and_truncate};
use super::tool::to_tool_error;
use crate::tools::{Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolSideEffect};

/// The most entries of a list that are shown.
const MAX_LISTED: usize = 100;
/// The most bytes of a name, an address or a description in a list.
const MAX_LISTED_BYTES: usize = 300;

/// Lists and reads the resources of a server.
#[derive(Debug)]
pub(super) struct McpResources {
    info: ToolInfo,
    connection: Arc<McpConnection>,
}

/// Lists and reads the prompts of a server.
#[derive(Debug)]
pub(super) struct McpPrompts {
    info: ToolInfo,
    connection: Arc<McpConnection>,
}

impl McpResources {
    pub(super) fn new(connection: Arc<McpConnection>) -> Self {
        let server = connection.name();
        let parameters = json!({
            "type": "object",
            "properties": {
                "uri": { "type": "string", "description": "The address of a resource, as the list gives it" },
            },
            "additionalProperties": false,
        });
        let info = info(
            &connection,
            "resources",
            parameters,
            format!(
                "Lists the resources of the MCP server `{server}`, or reads one if `uri` is given. \
                 A template such as `x://{{id}}` is an address with places to fill in."
            ),
            format!("MCP 서버 `{server}`의 자료 목록을 보거나 하나를 읽습니다"),
        );
        Self { info, connection }
    }
}

impl McpPrompts {
    pub(super) fn new(connection: Arc<McpConnection>) -> Self {
        let server = connection.name();
        let parameters = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "The name of a prompt, as the list gives it" },
                "arguments": {
                    "type": "object",
                    "description": "Its arguments",
                    "additionalProperties": { "type": "string" },
                },
            },
            "additionalProperties": false,
        });
        let info = info(
            &connection,
            "prompts",
            parameters,
            format!(
                "Lists the prompts that the MCP server `{server}` suggests, or gives the text of one if `name` is given."
            ),
            format!("MCP 서버 `{server}`이(가) 제안하는 프롬프트 목록을 보거나 하나를 가져옵니다"),
        );
        Self { info, connection }
    }
}

fn info(connection: &McpConnection, name: &str, parameters: Value, en: String, ko: String) -> ToolInfo {
    let bounds = connection.server().bounds;
    ToolInfo {
        spec: ToolSpec {
            name: format!("{}__{name}", connection.name()),
            description: en.clone(),
            parameters,
        },
        ko,
        en,
        side_effect: ToolSideEffect::ReadOnly,
        outward: true,
        origin: TextOrigin::Web,
        timeout: bounds.start + bounds.call + Duration::from_secs(1),
        max_output_bytes: bounds.output,
    }
}

#[async_trait]
impl Tool for McpResources {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let Some(uri) = arguments.get("uri").and_then(Value::as_str) else {
            let listed = self.connection.list_resources().await;
            let (resources, templates) = listed.map_err(|error| to_tool_error(&error, call.language))?;
            return Ok(ToolOutput::text(listed_resources(&resources, &templates)));
        };
        let read = self.connection.read_resource(uri).await;
        let read = read.map_err(|error| to_tool_error(&error, call.language))?;
        let mut content = McpContent::new(self.connection.server());
        read.contents.iter().for_each(|contents| content.add_resource(contents));
        Ok(content.into_output())
    }
}

#[async_trait]
impl Tool for McpPrompts {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, mut arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let Some(name) = arguments.get("name").and_then(Value::as_str).map(str::to_owned) else {
            let listed = self.connection.list_prompts().await;
            let prompts = listed.map_err(|error| to_tool_error(&error, call.language))?;
            return Ok(ToolOutput::text(listed_prompts(&prompts)));
        };
        let given = match arguments.get_mut("arguments").map(Value::take) {
            Some(Value::Object(given)) => given,
            Some(_) | None => JsonObject::new(),
        };
        let prompt = self.connection.get_prompt(&name, given).await;
        let prompt = prompt.map_err(|error| to_tool_error(&error, call.language))?;
        let mut content = McpContent::new(self.connection.server());
        for message in &prompt.messages {
            content.add_text(match message.role {
                Role::Assistant => "assistant:",
                Role::User => "user:",
            });
            content.add(&message.content);
        }
        Ok(content.into_output())
    }
}

fn listed_resources(resources: &[Resource], templates: &[ResourceTemplate]) -> String {
    let resources =
        resources.iter().map(|one| list_line(&one.uri, Some(&one.name), one.description.as_deref()));
    let templates =
        templates.iter().map(|one| list_line(&one.uri_template, Some(&one.name), one.description.as_deref()));
    joined_list(resources.chain(templates))
}

fn listed_prompts(prompts: &[Prompt]) -> String {
    joined_list(prompts.iter().map(|prompt| {
        let arguments = prompt.arguments.iter().flatten().map(|argument| match argument.required {
            Some(true) => argument.name.clone(),
            Some(false) | None => format!("{}?", argument.name),
        });
        let name = format!("{}({})", prompt.name, arguments.collect::<Vec<_>>().join(", "));
        list_line(&name, None, prompt.description.as_deref())
    }))
}

fn list_line(address: &str, name: Option<&str>, description: Option<&str>) -> String {
    let parts = [Some(address), name.filter(|name| *name != address), description];
    let parts: Vec<String> =
        parts.into_iter().flatten().map(|part| clean_and_truncate(part.trim(), MAX_LISTED_BYTES)).collect();
    parts.join(": ").replace('\n', " ")
}

fn joined_list(lines: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> = lines.collect();
    match lines.len().checked_sub(MAX_LISTED) {
        Some(more @ 1..) => format!("{}\n(and {more} more)", lines[..MAX_LISTED].join("\n")),
        _ if lines.is_empty() => "(none)".to_owned(),
        _ => lines.join("\n"),
    }
}
