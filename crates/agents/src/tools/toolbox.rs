//! The tools an agent may use: found by name, checked, decided about, and run within their bounds.
//!
//! A call is made in two steps, so that nothing is run that was not looked at: [`Toolbox::admit`] checks its arguments
//! and decides about it, and only an admitted call ([`ToolPermit`]) can be run. Whatever a tool does, panic or never
//! return, the call ends as a result that the model can read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use doran_llm::{
    MAX_JSON_DEPTH, SchemaValidator, SchemaViolation, TextOrigin, ToolCall, ToolResult, ToolSpec,
};
use doran_retrieval::Language;
use serde_json::Value;

use super::call_decision::{
    RunExposure, ToolApproval, ToolCallDecision, ToolCallReason, ToolPolicy, approval_key, decide_tool_call,
};
use super::text_cleaning::{strip_invisible, truncate_with_note};
use super::tool_permit::{ApprovalRequest, ToolPermit, refusal_result};
use super::{Tool, ToolError, ToolInfo};

/// The most bytes of arguments that are looked at.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 64 * 1024;
/// The most calls of one reply that are made.
pub(crate) const MAX_CALLS_PER_REPLY: usize = 16;
/// The most problems with arguments that are reported at once, and the most bytes of each.
const MAX_SCHEMA_PROBLEMS: usize = 5;
const MAX_SCHEMA_PROBLEM_BYTES: usize = 300;

/// The tools an agent may use, each with its policy.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: BTreeMap<String, ToolboxEntry>,
    /// Tools of servers, which may come and go. All boxes made from one share them.
    server_tools: Arc<RwLock<BTreeMap<String, ToolboxEntry>>>,
    /// The names it is restricted to; all if there is none.
    selected: Option<BTreeSet<String>>,
    /// Policies that differ from those the tools were added with.
    policies: BTreeMap<String, ToolPolicy>,
    /// Servers whose tools may be in it, now or at another time.
    servers: BTreeSet<String>,
}

#[derive(Clone)]
struct ToolboxEntry {
    tool: Arc<dyn Tool>,
    policy: ToolPolicy,
    arguments_validator: Arc<SchemaValidator>,
}

/// Why a tool cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolboxError {
    /// Give one of them another name.
    #[error("there are two tools named `{0}`")]
    DuplicateName(String),
    /// Correct its name: ASCII letters, digits, `_` and `-`, at most 64.
    #[error("`{0}` cannot be the name of a tool")]
    BadName(String),
    /// Correct its schema.
    #[error("the schema of `{name}` cannot be used: {reason}")]
    BadSchema {
        /// The tool.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The decision about a call.
#[derive(Debug)]
pub enum ToolAdmission {
    /// It may be run.
    Run(ToolPermit),
    /// A person is to be asked first.
    Ask(ApprovalRequest),
    /// It is not made; this is the result for the model.
    Refuse(ToolResult),
}

impl Toolbox {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// These tools, all allowed.
    pub fn with_tools(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, ToolboxError> {
        let mut toolbox = Self::new();
        for tool in tools {
            toolbox.add(tool, ToolPolicy::Allow)?;
        }
        Ok(toolbox)
    }

    /// Puts a tool in.
    pub fn add(&mut self, tool: Arc<dyn Tool>, policy: ToolPolicy) -> Result<(), ToolboxError> {
        let (name, entry) = ToolboxEntry::new(tool, policy)?;
        if self.entry(&name).is_some() {
            return Err(ToolboxError::DuplicateName(name));
        }
        self.tools.insert(name, entry);
        Ok(())
    }

    /// Puts a tool of a server in this box and in every box that was made from the same one, in place of an earlier
    /// tool of that name. Agents that were built before have it from now on.
    pub fn add_server_tool(&self, tool: Arc<dyn Tool>, policy: ToolPolicy) -> Result<(), ToolboxError> {
        let (name, entry) = ToolboxEntry::new(tool, policy)?;
        if self.tools.contains_key(&name) {
            return Err(ToolboxError::DuplicateName(name));
        }
        self.server_tools.write().unwrap_or_else(PoisonError::into_inner).insert(name, entry);
        Ok(())
    }

    /// Sets the policy of a tool; false if there is no such tool now. The policy of a tool of a server that is not there
    /// yet holds when it comes.
    pub fn set_policy(&mut self, name: &str, policy: ToolPolicy) -> bool {
        let is_there = self.entry(name).is_some();
        if is_there || self.is_of_absent_server(name) {
            self.policies.insert(name.to_owned(), policy);
        }
        is_there
    }

    /// Only the tools with these names.
    pub fn restricted_to(&self, names: &[&str]) -> Self {
        let fits = |name: &&str| self.selected.as_ref().is_none_or(|selected| selected.contains(*name));
        let selected = names.iter().filter(|name| fits(name)).map(|name| (*name).to_owned()).collect();
        Self { selected: Some(selected), ..self.clone() }
    }

    /// Makes it know a server. Its tools, `SERVER__TOOL`, may be named while they are not there.
    pub fn register_server(&mut self, name: impl Into<String>) {
        self.servers.insert(name.into());
    }

    /// Whether this is a tool of a server it knows, and not there: the server may not have answered today.
    pub fn is_of_absent_server(&self, name: &str) -> bool {
        self.entry(name).is_none()
            && name.split_once("__").is_some_and(|(server, _)| self.servers.contains(server))
    }

    /// These tools and those that another box has now; of two with one name, these.
    #[must_use]
    pub(crate) fn merged_with(self, more: &Self) -> Self {
        let mut tools = more.entries();
        tools.extend(self.entries());
        Self { tools, ..Self::default() }
    }

    /// The tool with this name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.entry(name).map(|entry| entry.tool)
    }

    /// Every tool there is now and its policy, by name.
    pub fn list(&self) -> impl Iterator<Item = (ToolInfo, ToolPolicy)> {
        self.entries().into_values().map(|entry| (entry.tool.info().clone(), entry.policy))
    }

    /// The names of all tools there are now, for a sentence.
    pub fn joined_names(&self) -> String {
        self.entries().into_keys().collect::<Vec<_>>().join(", ")
    }

    fn entry(&self, name: &str) -> Option<ToolboxEntry> {
        if self.selected.as_ref().is_some_and(|selected| !selected.contains(name)) {
            return None;
        }
        let found = self.tools.get(name).cloned().or_else(|| {
            self.server_tools.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
        })?;
        Some(self.with_policy(name, found))
    }

    fn entries(&self) -> BTreeMap<String, ToolboxEntry> {
        let mut entries = self.server_tools.read().unwrap_or_else(PoisonError::into_inner).clone();
        entries.extend(self.tools.iter().map(|(name, entry)| (name.clone(), entry.clone())));
        if let Some(selected) = &self.selected {
            entries.retain(|name, _| selected.contains(name));
        }
        entries.into_iter().map(|(name, entry)| (name.clone(), self.with_policy(&name, entry))).collect()
    }

    fn with_policy(&self, name: &str, entry: ToolboxEntry) -> ToolboxEntry {
        ToolboxEntry { policy: self.policies.get(name).copied().unwrap_or(entry.policy), ..entry }
    }

    /// The descriptions of the tools for a model; those that are denied are not offered.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.list().filter(|(_, policy)| *policy != ToolPolicy::Deny).map(|(about, _)| about.spec).collect()
    }

    /// Whether `arguments` fit the tool's schema; otherwise what is wrong, for the model to read.
    pub(crate) fn check_arguments(
        &self,
        name: &str,
        arguments: &Value,
        language: Language,
    ) -> Result<(), ToolError> {
        let Some(entry) = self.entry(name) else {
            let (asked, names) = (truncate_with_note(strip_invisible(name).text, 100), self.joined_names());
            return Err(ToolError::BadArguments(language.pick(
                format!("`{asked}`(이)라는 도구는 없습니다. 쓸 수 있는 도구: {names}"),
                format!("there is no tool `{asked}`; there are: {names}"),
            )));
        };
        let bytes = arguments.to_string().len();
        if bytes > MAX_ARGUMENT_BYTES {
            return Err(ToolError::BadArguments(language.pick(
                format!("인자가 너무 깁니다: {bytes}바이트 (최대 {MAX_ARGUMENT_BYTES})"),
                format!("the arguments are too long: {bytes} bytes (at most {MAX_ARGUMENT_BYTES})"),
            )));
        }
        if arguments.is_string() {
            return Err(ToolError::BadArguments(language.pick(
                format!("인자가 JSON 객체가 아니거나 {MAX_JSON_DEPTH}단계보다 깊게 중첩되어 있습니다"),
                format!(
                    "the arguments are not a JSON object, or are nested deeper than {MAX_JSON_DEPTH} levels"
                ),
            )));
        }
        let problems: Vec<String> = entry
            .arguments_validator
            .violations(arguments, MAX_SCHEMA_PROBLEMS)
            .iter()
            .map(schema_problem)
            .collect();
        if problems.is_empty() {
            return Ok(());
        }
        let problems = problems.join("; ");
        // Small models repeat a wrong call unless they are told the right one.
        let accepted = argument_names(&entry.tool.info().spec.parameters);
        Err(ToolError::BadArguments(language.pick(
            format!("인자가 `{name}`의 스키마에 맞지 않습니다: {problems}. 쓸 수 있는 인자: {accepted}"),
            format!("the arguments do not fit the schema of `{name}`: {problems}. It takes: {accepted}"),
        )))
    }

    /// The approval of a call with the arguments that a person gave it. None if there is no such tool.
    pub(crate) fn approval_of(&self, call: &ToolCall) -> Option<ToolApproval> {
        let tool = self.get(&call.name)?;
        let key = approval_key(tool.info(), &call.arguments);
        Some(ToolApproval { call: call.id.clone(), key, approved: true })
    }

    /// Checks and decides about one call. `approval` is a person's answer to an earlier [`ToolAdmission::Ask`], if there was one.
    pub fn admit(
        &self,
        call: &ToolCall,
        seen: &RunExposure,
        approval: Option<&ToolApproval>,
        language: Language,
    ) -> ToolAdmission {
        if let Err(error) = self.check_arguments(&call.name, &call.arguments, language) {
            return ToolAdmission::Refuse(refusal_result(call, &error));
        }
        let Some(entry) = self.entry(&call.name) else {
            return ToolAdmission::Refuse(refusal_result(call, &ToolError::BadArguments(call.name.clone())));
        };
        let about = entry.tool.info();
        let approval = approval.filter(|one| one.call == call.id);
        match decide_tool_call(entry.policy, about, &call.arguments, seen, approval) {
            ToolCallDecision::Run => ToolAdmission::Run(ToolPermit::new(call, entry.tool.clone())),
            ToolCallDecision::Ask(why) => ToolAdmission::Ask(ApprovalRequest {
                call: call.clone(),
                why,
                key: approval_key(about, &call.arguments),
            }),
            ToolCallDecision::Deny(why) => {
                ToolAdmission::Refuse(refusal_result(call, &ToolError::Denied(denial_message(why, language))))
            }
        }
    }

    /// Admits the calls of one reply, in their order. A second call with the same id, and calls beyond `MAX_CALLS_PER_REPLY`,
    /// are refused. Each of the `approvals` counts for the one call that it was given for.
    pub fn admit_all(
        &self,
        calls: &[ToolCall],
        seen: &RunExposure,
        approvals: &[ToolApproval],
        language: Language,
    ) -> Vec<ToolAdmission> {
        let mut ids = BTreeSet::new();
        let admit = |(place, call): (usize, &ToolCall)| {
            let refuse =
                |words: String| ToolAdmission::Refuse(refusal_result(call, &ToolError::Denied(words)));
            if place >= MAX_CALLS_PER_REPLY {
                return refuse(language.pick(
                    format!("한 번에 부를 수 있는 도구는 {MAX_CALLS_PER_REPLY}개까지입니다"),
                    format!("at most {MAX_CALLS_PER_REPLY} tools can be called at once"),
                ));
            }
            if !ids.insert(call.id.clone()) {
                return refuse(language.pick(
                    "같은 이름의 호출이 이미 있습니다".into(),
                    "there is already a call with this id".into(),
                ));
            }
            let approval = approvals.iter().find(|one| one.call == call.id);
            self.admit(call, seen, approval, language)
        };
        calls.iter().enumerate().map(admit).collect()
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.entries().into_iter().map(|(name, entry)| (name, entry.policy))).finish()
    }
}

impl ToolboxEntry {
    fn new(tool: Arc<dyn Tool>, policy: ToolPolicy) -> Result<(String, Self), ToolboxError> {
        let spec = &tool.info().spec;
        let name = spec.name.clone();
        let fits_name = |one: char| one.is_ascii_alphanumeric() || one == '_' || one == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(fits_name) {
            return Err(ToolboxError::BadName(truncate_with_note(
                strip_invisible(&name).text,
                MAX_SCHEMA_PROBLEM_BYTES,
            )));
        }
        let fits = SchemaValidator::new(&spec.parameters).map_err(|error| ToolboxError::BadSchema {
            name: name.clone(),
            reason: truncate_with_note(strip_invisible(&error.to_string()).text, MAX_SCHEMA_PROBLEM_BYTES),
        })?;
        Ok((name, Self { tool, policy, arguments_validator: Arc::new(fits) }))
    }
}

/// The names of the arguments in a schema; `-` where it names none.
fn argument_names(schema: &Value) -> String {
    let names = schema["properties"].as_object().map(|named| named.keys().cloned().collect::<Vec<_>>());
    names.filter(|names| !names.is_empty()).map_or_else(|| "-".to_owned(), |names| names.join(", "))
}

fn schema_problem(violation: &SchemaViolation) -> String {
    truncate_with_note(strip_invisible(&violation.to_string()).text, MAX_SCHEMA_PROBLEM_BYTES)
}

/// Whether a result says that a person refused the call. Then nothing has failed.
pub fn is_refused_by_person(result: &ToolResult) -> bool {
    let refusals =
        [Language::Korean, Language::English].map(|one| denial_message(ToolCallReason::Refused, one));
    result.failed
        && result.origin == TextOrigin::Program
        && refusals.iter().any(|refusal| result.text.ends_with(refusal))
}

fn denial_message(why: ToolCallReason, language: Language) -> String {
    match why {
        ToolCallReason::Policy => {
            language.pick("이 도구는 쓸 수 없게 설정되어 있습니다", "this tool is switched off by its policy")
        }
        ToolCallReason::Refused => {
            language.pick("사용자가 이 호출을 거절했습니다", "the person refused this call")
        }
        ToolCallReason::Injection => language.pick(
            "밖에서 온 글을 읽은 대화라 할 수 없습니다",
            "not in a conversation that has read text from outside",
        ),
    }
    .to_owned()
}

#[cfg(test)]
#[path = "toolbox_tests.rs"]
mod tests;
