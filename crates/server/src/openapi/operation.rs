//! The description of a route: what it takes and what it answers.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::error::ApiErrorCode;

/// Gives the schema of a type.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The group that a route is listed under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationTag {
    Agents,
    Threads,
    Runs,
    Documents,
    Models,
    Memory,
    Evals,
    Chat,
    OpenAi,
    LangGraph,
    Mcp,
    Server,
}

impl OperationTag {
    pub(super) const ALL: [Self; 12] = [
        Self::Agents,
        Self::Threads,
        Self::Runs,
        Self::Documents,
        Self::Models,
        Self::Memory,
        Self::Evals,
        Self::Chat,
        Self::OpenAi,
        Self::LangGraph,
        Self::Mcp,
        Self::Server,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Threads => "threads",
            Self::Runs => "runs",
            Self::Documents => "documents",
            Self::Models => "models",
            Self::Memory => "memory",
            Self::Evals => "evals",
            Self::Chat => "chat",
            Self::OpenAi => "openai",
            Self::LangGraph => "langgraph",
            Self::Mcp => "mcp",
            Self::Server => "server",
        }
    }
}

/// What the same request under the same `Idempotency-Key` leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdempotencyEffect {
    /// The response that was stored.
    SameResponse,
    /// The run that was started.
    SameRun,
}

/// The body that a route reads.
#[derive(Clone, Copy)]
pub(super) enum OperationBody {
    None,
    /// Read and not used.
    Ignored,
    /// A file.
    File,
    Json(SchemaOf),
}

/// A header that a route reads.
#[derive(Clone, Copy)]
pub(super) struct HeaderParameter {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) schema: fn() -> Value,
}

/// What a route answers when all is well.
#[derive(Clone, Copy)]
pub(super) struct OperationResponse {
    pub(super) status: u16,
    pub(super) description: &'static str,
    pub(super) content: OperationContent,
}

/// The content of a response.
#[derive(Clone, Copy)]
pub(super) enum OperationContent {
    None,
    Json(SchemaOf),
    /// Text of this media type.
    Text(&'static str),
    /// Server-sent events; their data, if it has one schema.
    Events(Option<SchemaOf>),
}

/// The description of a route.
#[derive(Clone)]
pub(crate) struct Operation {
    pub(super) tag: OperationTag,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: Option<&'static str>,
    pub(super) query: Option<SchemaOf>,
    pub(super) headers: Vec<HeaderParameter>,
    pub(super) repeated: Option<IdempotencyEffect>,
    pub(super) body: OperationBody,
    pub(super) responses: Vec<OperationResponse>,
    pub(super) errors: Vec<ApiErrorCode>,
}

impl Operation {
    pub(crate) fn new(tag: OperationTag, id: &'static str, summary: &'static str) -> Self {
        Self {
            tag,
            id,
            summary,
            description: None,
            query: None,
            headers: Vec::new(),
            repeated: None,
            body: OperationBody::None,
            responses: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// More than the summary says.
    pub(crate) fn description(mut self, description: &'static str) -> Self {
        self.description = Some(description);
        self
    }

    /// The route reads its query into `T`.
    pub(crate) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(T::json_schema);
        self
    }

    /// The names of the parameters that may follow the path.
    pub(crate) fn query_names(&self) -> Vec<String> {
        let Some(query) = self.query else { return Vec::new() };
        let schema = query(&mut SchemaGenerator::default()).to_value();
        schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect()
    }

    /// The route reads this header.
    pub(crate) fn header(
        mut self,
        name: &'static str,
        description: &'static str,
        schema: fn() -> Value,
    ) -> Self {
        self.headers.push(HeaderParameter { name, description, schema });
        self
    }

    /// The request may be repeated under an `Idempotency-Key`.
    pub(crate) fn idempotent(mut self, repeated: IdempotencyEffect) -> Self {
        self.repeated = Some(repeated);
        self
    }

    /// The route reads its body into `T`.
    pub(crate) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = OperationBody::Json(|generator| generator.subschema_for::<T>());
        self
    }

    /// The route takes a file as its body.
    pub(crate) fn file_body(mut self) -> Self {
        self.body = OperationBody::File;
        self
    }

    /// The route reads its body and does not use it.
    pub(crate) fn ignored_body(mut self) -> Self {
        self.body = OperationBody::Ignored;
        self
    }

    /// The route answers with the JSON of `T`.
    pub(crate) fn returns<T: JsonSchema>(self, status: u16, description: &'static str) -> Self {
        self.response(status, description, OperationContent::Json(|generator| generator.subschema_for::<T>()))
    }

    /// The route answers with text.
    pub(crate) fn returns_text(self, media_type: &'static str, description: &'static str) -> Self {
        self.response(200, description, OperationContent::Text(media_type))
    }

    /// The route answers with server-sent events whose data is the JSON of `T`.
    pub(crate) fn streams<T: JsonSchema>(self, description: &'static str) -> Self {
        let schema: SchemaOf = |generator| generator.subschema_for::<T>();
        self.response(200, description, OperationContent::Events(Some(schema)))
    }

    /// The route answers with server-sent events that the description describes.
    pub(crate) fn streams_events(self, description: &'static str) -> Self {
        self.response(200, description, OperationContent::Events(None))
    }

    /// The route answers with `202` and no body.
    pub(crate) fn accepted(self, description: &'static str) -> Self {
        self.response(202, description, OperationContent::None)
    }

    /// The route answers with `204` and no body.
    pub(crate) fn returns_nothing(self, description: &'static str) -> Self {
        self.response(204, description, OperationContent::None)
    }

    fn response(mut self, status: u16, description: &'static str, content: OperationContent) -> Self {
        self.responses.push(OperationResponse { status, description, content });
        self
    }

    /// The route may answer with these errors, beside those that its access, body and headers bring along.
    pub(crate) fn errors(mut self, errors: &[ApiErrorCode]) -> Self {
        self.errors.extend(errors);
        self
    }
}

/// A whole number from 0.
pub(crate) fn count_schema() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

/// Any text.
pub(crate) fn text_schema() -> Value {
    json!({ "type": "string" })
}

/// The name of a thread.
pub(crate) fn thread_name_schema() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 200 })
}
