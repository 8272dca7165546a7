//! `remember`, `recall` and `forget`: the memory of a model.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_llm::{TextOrigin, ToolSpec};
use doran_retrieval::Language;
use serde_json::{Value, json};

use super::{MemoryError, MemoryFact, MemoryOwner, MemoryStore, fact_id};
use crate::tools::{Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolSideEffect, names};

/// How many facts are recalled unless the call says otherwise.
const DEFAULT_RECALL_LIMIT: usize = 10;

/// The three tools over `memories`. `space` is whose memory it is within the tenant of a call.
pub fn memory_tools(memories: &Arc<dyn MemoryStore>, space: &str) -> Vec<Arc<dyn Tool>> {
    let parts = |about: ToolInfo| MemoryToolParts {
        info: about,
        memories: memories.clone(),
        space: space.to_owned(),
    };
    vec![
        Arc::new(Remember(parts(remember_info()))),
        Arc::new(Recall(parts(recall_info()))),
        Arc::new(Forget(parts(forget_info()))),
    ]
}

/// Keeps a fact.
#[derive(Debug)]
pub struct Remember(MemoryToolParts);

/// Finds facts.
#[derive(Debug)]
pub struct Recall(MemoryToolParts);

/// Forgets a fact.
#[derive(Debug)]
pub struct Forget(MemoryToolParts);

struct MemoryToolParts {
    info: ToolInfo,
    memories: Arc<dyn MemoryStore>,
    space: String,
}

impl MemoryToolParts {
    fn owner(&self, call: ToolCallContext<'_>) -> MemoryOwner {
        MemoryOwner::new(call.tenant, self.space.as_str())
    }
}

impl std::fmt::Debug for MemoryToolParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.info.spec.name)
    }
}

#[async_trait]
impl Tool for Remember {
    fn info(&self) -> &ToolInfo {
        &self.0.info
    }

    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let owner = self.0.owner(call);
        let text = string_argument(&arguments, "fact").trim().to_owned();
        let fact = MemoryFact { id: fact_id(&owner, call.key), text, at_ms: call.now_ms, taint: call.taint };
        let stored = self
            .0
            .memories
            .keep(&owner, fact)
            .await
            .map_err(|error| memory_tool_error(&error, call.language))?;
        let MemoryFact { id, text, .. } = &stored;
        let words =
            call.language.pick(format!("기억했습니다 [{id}]: {text}"), format!("remembered [{id}]: {text}"));
        Ok(ToolOutput { text: words, data: json!({ "id": id }), ..ToolOutput::default() })
    }
}

#[async_trait]
impl Tool for Recall {
    fn info(&self) -> &ToolInfo {
        &self.0.info
    }

    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let owner = self.0.owner(call);
        let query = string_argument(&arguments, "query");
        let limit = arguments
            .get("limit")
            .and_then(Value::as_u64)
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(DEFAULT_RECALL_LIMIT);
        let memories = &self.0.memories;
        let found = match query.trim() {
            "" => memories.list(&owner).await,
            query => memories.find(&owner, query, limit).await,
        };
        let mut found = found.map_err(|error| memory_tool_error(&error, call.language))?;
        found.truncate(limit);
        if found.is_empty() {
            return Ok(ToolOutput::text(
                call.language.pick("기억한 것이 없습니다", "nothing is remembered about that"),
            ));
        }
        let text = found.iter().map(recalled_fact_line).collect::<Vec<_>>().join("\n");
        // What was kept after reading words of strangers may be theirs.
        let is_untrusted = found.iter().any(|fact| fact.taint.untrusted);
        let origin = is_untrusted.then_some(TextOrigin::Document);
        Ok(ToolOutput { text, data: json!({ "facts": found }), origin, ..ToolOutput::default() })
    }
}

#[async_trait]
impl Tool for Forget {
    fn info(&self) -> &ToolInfo {
        &self.0.info
    }

    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let owner = self.0.owner(call);
        let id = string_argument(&arguments, "id").trim().trim_matches(['[', ']']).to_owned();
        let was_there = self
            .0
            .memories
            .forget(&owner, &id)
            .await
            .map_err(|error| memory_tool_error(&error, call.language))?;
        Ok(ToolOutput::text(match was_there {
            true => call.language.pick(format!("잊었습니다 [{id}]"), format!("forgotten [{id}]")),
            false => call.language.pick(
                format!("[{id}]은(는) 기억에 없습니다. recall로 번호를 확인하세요"),
                format!("[{id}] is not remembered; see the ids with recall"),
            ),
        }))
    }
}

/// A fact as `recall` tells it.
fn recalled_fact_line(fact: &MemoryFact) -> String {
    format!("[{}] {}", fact.id, fact.text.replace('\n', " "))
}

/// The id of the fact that a line of `recall` tells; none if the line tells no fact.
pub fn recalled_fact_id(line: &str) -> Option<&str> {
    line.strip_prefix('[')?.split_once("] ").map(|(id, _)| id)
}

fn string_argument<'a>(arguments: &'a Value, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn memory_tool_error(error: &MemoryError, language: Language) -> ToolError {
    let (max_bytes, many) = (super::MAX_FACT_BYTES, super::MAX_FACTS_PER_OWNER);
    match error {
        MemoryError::BadLength => ToolError::BadArguments(language.pick(
            format!("기억할 내용은 1바이트에서 {max_bytes}바이트까지입니다"),
            format!("a fact has 1 to {max_bytes} bytes"),
        )),
        MemoryError::Full => ToolError::Failed(language.pick(
            format!("기억이 {many}개로 가득 찼습니다. forget으로 지우고 다시 하세요"),
            format!("there are already {many} facts; forget some first"),
        )),
        MemoryError::InUse | MemoryError::Newer(_) | MemoryError::Damaged(_) | MemoryError::Io(_) => {
            ToolError::Unavailable(
                language
                    .pick("기억 저장소에 쓰거나 읽지 못했습니다", "the memories could not be written or read")
                    .into(),
            )
        }
    }
}

fn memory_tool_info(
    name: &str,
    description: &str,
    parameters: Value,
    ko: &str,
    en: &str,
    side_effect: ToolSideEffect,
) -> ToolInfo {
    ToolInfo {
        spec: ToolSpec { name: name.into(), description: description.into(), parameters },
        ko: ko.into(),
        en: en.into(),
        side_effect,
        outward: false,
        // A fact that was kept after reading words of strangers says so itself.
        origin: TextOrigin::Tool,
        timeout: Duration::from_secs(10),
        max_output_bytes: 16 * 1024,
    }
}

fn remember_info() -> ToolInfo {
    let parameters = json!({
        "type": "object",
        "properties": { "fact": { "type": "string", "minLength": 1, "maxLength": super::MAX_FACT_BYTES, "description": "One fact, in the person's words" } },
        "required": ["fact"],
        "additionalProperties": false,
    });
    let description = "Keeps a fact about the person for later conversations. Use it only when the person asks to remember something.";
    memory_tool_info(
        names::REMEMBER,
        description,
        parameters,
        "부탁받은 사실을 다음 대화까지 기억합니다.",
        "Keeps a fact for later conversations.",
        ToolSideEffect::Idempotent,
    )
}

fn recall_info() -> ToolInfo {
    let parameters = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "maxLength": 300, "description": "What it is about; empty gives everything" },
            "limit": { "type": "integer", "minimum": 1, "maximum": 20, "description": "How many (default 10)" },
        },
        "additionalProperties": false,
    });
    let description = "Finds facts that the person asked to remember in earlier conversations.";
    memory_tool_info(
        names::RECALL,
        description,
        parameters,
        "예전에 기억해 둔 사실을 찾습니다.",
        "Finds facts kept earlier.",
        ToolSideEffect::ReadOnly,
    )
}

fn forget_info() -> ToolInfo {
    let parameters = json!({
        "type": "object",
        "properties": { "id": { "type": "string", "minLength": 1, "maxLength": 40, "description": "The id that recall shows" } },
        "required": ["id"],
        "additionalProperties": false,
    });
    let description = "Forgets a remembered fact. Use it only when the person asks to forget something.";
    memory_tool_info(
        names::FORGET,
        description,
        parameters,
        "기억해 둔 사실을 지웁니다.",
        "Forgets a kept fact.",
        ToolSideEffect::Idempotent,
    )
}
