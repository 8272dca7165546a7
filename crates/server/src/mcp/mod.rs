//! The Model Context Protocol: agents, search and documents as tools and resources for MCP hosts.
//!
//! A dialect like the others: `ask` starts a run as `POST /api/chat` does, and reads its events. Its activities are sent
//! as progress, a cancelled request cancels the run, and a question of the run is put to the person by elicitation. A
//! host that cannot do that gets the address where the run waits: an approval is never given by the model that wants it.

mod ask;
mod documents;
mod elicitation;
mod session;

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) use self::session::{McpSessions, handle_request};
use crate::ServerApp;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::openapi::omit_instead_of_null;

const ASK: &str = "ask";
const SEARCH_DOCUMENTS: &str = "search_documents";
const READ_DOCUMENT: &str = "read_document";

const INSTRUCTIONS: &str = "Doran runs agents that answer from the documents of their owner. `search_documents` finds passages and `read_document` reads a document; neither changes anything. `ask` has an agent answer a question, with sources. Pass the `thread` of an answer to ask on in the same conversation.";

/// What one tenant's hosts can reach.
#[derive(Clone)]
pub(crate) struct McpEndpoint {
    app: ServerApp,
    caller: ApiCaller,
}

impl ServerHandler for McpEndpoint {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("doran", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    /// Later versions of the protocol have no sessions, in which a person can be asked.
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25).into()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let called = match request.name.as_ref() {
            ASK => match parse(arguments) {
                Ok(arguments) => self.ask(arguments, &context).await,
                Err(error) => Err(error),
            },
            SEARCH_DOCUMENTS => match parse(arguments) {
                Ok(arguments) => self.search_documents(arguments).await,
                Err(error) => Err(error),
            },
            READ_DOCUMENT => match parse(arguments) {
                Ok(arguments) => self.read_document(arguments).await,
                Err(error) => Err(error),
            },
            other => {
                return Err(ErrorData::invalid_params(
                    format!(
                        "there is no tool `{other}`; there are: {ASK}, {SEARCH_DOCUMENTS}, {READ_DOCUMENT}"
                    ),
                    None,
                ));
            }
        };
        // What went wrong is for the model to read; an error of the protocol would hide it.
        Ok(called.unwrap_or_else(|error| error_result(&error)).into())
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = page.and_then(|page| page.cursor);
        self.document_resources(cursor.as_deref()).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![documents::resource_template()]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(ReadResourceResult::new(vec![self.read_document_resource(&request.uri).await?]).into())
    }
}

impl McpEndpoint {
    fn tools(&self) -> Vec<Tool> {
        let mut ask_schema = input_schema::<ask::AskArguments>();
        let agents = self.app.agents.current();
        let chat_agents = || agents.iter().filter(|agent| agent.is_chat() && !agent.is_hidden);
        let names: Vec<&str> = chat_agents().map(|agent| agent.name.as_str()).collect();
        if let Some(agent) = ask_schema.get_mut("properties").and_then(|fields| fields.get_mut("agent")) {
            agent["enum"] = json!(names);
        }
        let agents = chat_agents().map(|agent| format!("\n- `{}`: {}", agent.name, agent.en));
        let about_ask = format!(
            "Asks an agent and waits for its answer, with the sources it rests on. Agents:{}",
            agents.collect::<String>()
        );
        let reads = || ToolAnnotations::new().read_only(true).idempotent(true).open_world(false);
        vec![
            Tool::new(ASK, about_ask, ask_schema)
                .with_title("Ask a Doran agent")
                .with_annotations(ToolAnnotations::new().read_only(false).destructive(false)),
            Tool::new(
                SEARCH_DOCUMENTS,
                "Searches the documents by words and by meaning, in Korean and in English. Returns passages, best first.",
                input_schema::<documents::SearchArguments>(),
            )
            .with_title("Search documents")
            .with_annotations(reads()),
            Tool::new(
                READ_DOCUMENT,
                "Reads the text of a document, or a part of it.",
                input_schema::<documents::ReadArguments>(),
            )
            .with_title("Read a document")
            .with_annotations(reads()),
        ]
    }
}

/// The schema of a tool's arguments. Several hosts read neither a list of types nor Rust's names of number formats.
fn input_schema<T: JsonSchema>() -> JsonObject {
    let generator = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = generator.into_generator().into_root_schema_for::<T>().to_value();
    omit_instead_of_null(&mut schema);
    match schema {
        Value::Object(mut schema) => {
            schema.remove("title");
            let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
            for field in fields.into_iter().flat_map(|fields| fields.values_mut()) {
                field.as_object_mut().map(|field| field.remove("format"));
            }
            schema
        }
        _ => JsonObject::new(),
    }
}

/// The arguments of a tool.
fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, ApiError> {
    serde_json::from_value(arguments).map_err(|error| {
        let ko = format!("인자가 맞지 않습니다: {error}");
        ApiError::with_message(ApiErrorCode::BadInput, format!("arguments: {error}"), ko)
    })
}

fn error_result(error: &ApiError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error_text(error))])
}

/// The sentences of an error, in English.
fn error_text(error: &ApiError) -> String {
    let problem = error.to_json();
    let part = |name: &str| problem.get(name).and_then(Value::as_str).map(str::to_owned);
    let parts: Vec<String> = [part("title"), part("detail")].into_iter().flatten().collect();
    parts.join(": ")
}

fn protocol_error(error: &ApiError) -> ErrorData {
    let text = error_text(error);
    match error.code.info().status {
        404 => ErrorData::resource_not_found(text, None),
        500.. => ErrorData::internal_error(text, None),
        _ => ErrorData::invalid_params(text, None),
    }
}

/// A result with one text and the same for programs.
fn result(blocks: Vec<ContentBlock>, structured: Value) -> CallToolResult {
    let mut result = CallToolResult::success(blocks);
    result.structured_content = Some(structured);
    result
}

type Called = Result<CallToolResult, ApiError>;

impl McpEndpoint {
    fn new(app: &ServerApp, caller: &ApiCaller) -> Self {
        // The sessions hold this, so it must not hold the sessions.
        let app = app.clone().change_parts(|parts| parts.mcp = McpSessions::default());
        let caller = ApiCaller { tenant: caller.tenant.clone(), key: None, hash: None, is_admin: false };
        Self { app, caller }
    }

    fn shared(app: &ServerApp, caller: &ApiCaller) -> Arc<Self> {
        Arc::new(Self::new(app, caller))
    }
}
