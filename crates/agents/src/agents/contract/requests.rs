//! What the contract agent asks models: plain functions of the state, so that it can be shown later.

use doran_engine::NodeError;
use doran_llm::{
    ChatRequest, Message, MessageId, ModelRole, Origin, Part, Purpose, Role, ToolCall, ToolChoice,
    ToolResult, ToolSpec, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Contracts;
use super::desk::Desk;
use super::state::{ContractState, ToolRun, signature};
use super::tools::{NOTED, TOOLS};
use crate::language::Language;
use crate::nodes::{DECIDING, fitted, room_beside, within};
use crate::prompt::PlanPrompt;
use crate::source::{Source, SourceKind};
use crate::state::{question, spoken};
use crate::tools::{Policy, Toolbox};

/// Whether a question is about contracts.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct InScope {
    pub(super) in_scope: bool,
    pub(super) need_previous_context: bool,
    pub(super) reason: String,
}

/// Whether a question leans on the turn before it.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct NeedsPrevious {
    pub(super) need_previous_context: bool,
    #[allow(dead_code, reason = "asked for because a model decides better when it says why")]
    pub(super) reasoning: String,
}

/// Whether what was collected holds an answer.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Sufficiency {
    pub(super) is_sufficient: bool,
    pub(super) reasoning: String,
    pub(super) missing_info: Option<String>,
}

impl Contracts {
    pub(super) fn desk(&self, state: &ContractState) -> Desk {
        Desk { index: self.index.clone(), contract: state.contract_id.clone() }
    }

    /// Its own tools as settings leave them, and those that settings give it.
    pub(super) fn toolbox(&self, state: &ContractState) -> Result<Toolbox, NodeError> {
        let names: Vec<&str> = self.own.iter().map(|(name, _)| *name).collect();
        let mut toolbox = self.desk(state).toolbox()?.only(&names);
        for (name, policy) in &self.own {
            toolbox.set_policy(name, *policy);
        }
        Ok(toolbox.and(&self.more))
    }

    /// Whether a tool is among those it has.
    pub(super) fn may_call(&self, name: &str) -> bool {
        self.own.iter().any(|(own, policy)| *own == name && *policy != Policy::Deny)
            || self.more.get(name).is_some()
    }

    /// Whether it was given a memory.
    pub(super) fn has_memory(&self) -> bool {
        ["remember", "recall", "forget"].iter().any(|name| self.more.get(name).is_some())
    }

    /// What the tools that settings give it are called.
    fn more_names(&self) -> Vec<String> {
        self.more.specs().into_iter().map(|spec| spec.name).collect()
    }

    fn specs(&self, state: &ContractState) -> Result<Vec<ToolSpec>, NodeError> {
        Ok(self.toolbox(state)?.specs())
    }

    /// A small decision about the question, with the turn before it.
    fn small(&self, state: &ContractState, system: String, purpose: Purpose) -> ChatRequest {
        let mut messages = vec![Message::system("system", system)];
        let said = state.previous_turn().into_iter().chain(question(&state.messages).cloned()).collect();
        let room = room_beside(self.context_length, &messages, &[]).min(DECIDING);
        messages.extend(within(said, room, spoken(self.language, &state.messages)));
        ChatRequest { purpose, role: ModelRole::Small, temperature: Some(0.0), ..ChatRequest::new(messages) }
    }

    pub(super) fn scope_request(&self, state: &ContractState) -> Result<ChatRequest, NodeError> {
        let system = self.prompts.scope(spoken(self.language, &state.messages), self.more_names())?;
        Ok(ChatRequest { schema: Some(schema_of::<InScope>()), ..self.small(state, system, Purpose::Scope) })
    }

    pub(super) fn previous_request(&self, state: &ContractState) -> Result<ChatRequest, NodeError> {
        let system = self.prompts.previous(state.progress.language)?;
        let request = self.small(state, system, Purpose::PreviousContext);
        Ok(ChatRequest { schema: Some(schema_of::<NeedsPrevious>()), ..request })
    }

    pub(super) fn plan_request(
        &self,
        state: &ContractState,
        rules: &[ToolCall],
        documents: &[String],
    ) -> Result<ChatRequest, NodeError> {
        let plan = PlanPrompt {
            missing_info: state.missing_info.clone().unwrap_or_default(),
            proposed: rules.iter().map(signature).collect(),
            done: state.tool_history.iter().map(|run| signature(&run.call)).collect(),
            explored: state.explored_articles.clone(),
            unexplored: state.unexplored_articles.clone(),
            more: self.more_names(),
        };
        let language = state.progress.language;
        let system = self.prompts.plan(language, plan)?;
        let mut messages = worked(state, system);
        messages.splice(1..1, named(documents, language));
        let request = ChatRequest {
            purpose: Purpose::Plan,
            tools: self.specs(state)?,
            tool_choice: ToolChoice::Auto,
            ..ChatRequest::new(messages)
        };
        Ok(fitted(request, self.context_length, state.progress.language))
    }

    pub(super) fn evaluate_request(&self, state: &ContractState) -> Result<ChatRequest, NodeError> {
        let (explored, unexplored) = (&state.explored_articles, &state.unexplored_articles);
        let system = self.prompts.evaluate(state.progress.language, explored, unexplored)?;
        let request = ChatRequest {
            purpose: Purpose::Sufficiency,
            schema: Some(schema_of::<Sufficiency>()),
            temperature: Some(0.0),
            // Vendors want to know the tools whose calls and results they are shown.
            tools: self.specs(state)?,
            tool_choice: ToolChoice::None,
            ..ChatRequest::new(worked(state, system))
        };
        Ok(fitted(request, self.context_length, state.progress.language))
    }

    pub(super) fn answer_request(&self, state: &ContractState) -> Result<ChatRequest, NodeError> {
        let language = state.progress.language;
        let previous = state.need_previous_context == Some(true);
        let more: Vec<&ToolRun> =
            state.tool_history.iter().filter(|run| !TOOLS.contains(&run.call.name.as_str())).collect();
        let system = self.prompts.contract(language, previous, !more.is_empty())?;
        let mut messages = vec![Message::system("system", system)];
        messages.extend(kept_apart(&state.collected_info, language));
        messages.extend(beside_places(state, language));
        messages.extend(state.standing().cloned());
        if previous {
            messages.extend(state.previous_turn());
        }
        messages.extend(question(&state.messages).cloned());
        if more.is_empty() {
            return Ok(fitted(ChatRequest::new(messages), self.context_length, language));
        }
        messages.extend(calls_and_results(&more));
        // Vendors want to know the tools whose calls and results they are shown.
        let tools = self.specs(state)?;
        let request = ChatRequest { tools, tool_choice: ToolChoice::None, ..ChatRequest::new(messages) };
        Ok(fitted(request, self.context_length, language))
    }

    pub(super) fn explain(&self, node: &str, state: &ContractState) -> Vec<ChatRequest> {
        let request = match node {
            "scope_validator" => self.scope_request(state),
            "check_previous_context" => self.previous_request(state),
            "planner" => self.plan_request(state, &[], &[]),
            "evaluator" => self.evaluate_request(state),
            "respond" => self.answer_request(state),
            _ => return Vec::new(),
        };
        request.into_iter().collect()
    }
}

/// The question with what was looked up for it, as calls and results of the model.
fn worked(state: &ContractState, system: String) -> Vec<Message> {
    let mut messages = vec![Message::system("system", system)];
    messages.extend(state.standing().cloned());
    if state.need_previous_context == Some(true) {
        messages.extend(state.previous_turn());
    }
    messages.extend(question(&state.messages).cloned());
    if !state.tool_history.is_empty() {
        messages.extend(calls_and_results(&state.tool_history.iter().collect::<Vec<_>>()));
    }
    messages
}

/// The names of the documents. Whoever wrote a document wrote its name, so they are material and no words of a prompt.
fn named(documents: &[String], language: Language) -> Option<Message> {
    let heading = language.pick("[계약서 목록]", "[The contracts]").to_owned();
    let names = documents.iter().map(|name| format!("- {name}")).collect::<Vec<_>>().join("\n");
    let parts = vec![
        Part::Text { text: heading, origin: Origin::Program },
        Part::Text { text: names, origin: Origin::Document },
    ];
    let message = Message { id: MessageId::new("documents"), role: Role::System, parts };
    (!documents.is_empty()).then_some(message)
}

fn calls_and_results(runs: &[&ToolRun]) -> [Message; 2] {
    let calls = runs.iter().map(|run| Part::ToolCall(run.call.clone())).collect();
    let results = runs.iter().map(|run| ToolResult {
        call: run.call.id.clone(),
        name: run.call.name.clone(),
        text: run.text.clone(),
        failed: run.failed,
        origin: run.origin,
    });
    [
        Message { id: MessageId::new("calls"), role: Role::Assistant, parts: calls },
        Message::tool_output("results", results),
    ]
}

/// What has to be said beside the places: that nothing was found, or what those who looked noted.
fn beside_places(state: &ContractState, language: Language) -> Option<Message> {
    let mut notes: Vec<String> = Vec::new();
    for note in state.tool_history.iter().flat_map(|run| &run.notes).map(|note| format!("{NOTED}{note}")) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let looked = state.tool_history.iter().any(|run| TOOLS.contains(&run.call.name.as_str()));
    let heading = language.pick("[찾아본 결과]", "[What was looked up]");
    let nothing = language.pick("찾은 조항이 없습니다.", "No article was found.");
    let text = match (state.collected_info.is_empty(), notes.is_empty()) {
        (true, true) if looked => format!("{heading}\n{nothing}"),
        (_, true) => return None,
        (_, false) => heading.to_owned(),
    };
    let mut parts = vec![Part::Text { text, origin: Origin::Program }];
    if !notes.is_empty() {
        // They hold names of documents.
        parts.push(Part::Text { text: format!("\n{}", notes.join("\n")), origin: Origin::Document });
    }
    Some(Message { id: MessageId::new("material"), role: Role::System, parts })
}

/// What was collected, the user's contract and the standard contract each under its own heading.
fn kept_apart(collected: &[Source], language: Language) -> Vec<Message> {
    let shelf = |kind: SourceKind, id: &str, ko: &str, en: &str| {
        let of_kind: Vec<&Source> = collected
            .iter()
            .filter(|source| (source.kind == SourceKind::Standard) == (kind == SourceKind::Standard))
            .collect();
        let heading = language.pick(ko, en);
        let titled = of_kind.iter().map(|source| {
            let mut material = source.material();
            material.title = format!("{heading} › {}", material.title);
            Part::Passage(material)
        });
        let mut parts = vec![Part::Text { text: format!("[{heading}]\n"), origin: Origin::Program }];
        parts.extend(titled);
        (!of_kind.is_empty()).then(|| Message { id: MessageId::new(id), role: Role::System, parts })
    };
    let user = shelf(SourceKind::User, "user", "사용자 계약서", "The user's contract");
    let standard = shelf(SourceKind::Standard, "standard", "표준계약서", "The standard contract");
    user.into_iter().chain(standard).collect()
}
