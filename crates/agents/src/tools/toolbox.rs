//! The tools an agent may use: found by name, checked, decided about, and run within their bounds.
//!
//! A call is made in two steps, so that nothing is run that was not looked at: [`Toolbox::admit`] checks its arguments
//! and decides about it, and only an admitted call ([`Permit`]) can be run. Whatever a tool does, panic or never
//! return, the call ends as a result that the model can read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use doran_llm::{
    MAX_JSON_DEPTH, SchemaValidator, SchemaViolation, TextOrigin, ToolCall, ToolResult, ToolSpec,
};
use serde_json::Value;

use super::call_decision::{
    RunExposure, ToolApproval, ToolCallDecision, ToolCallReason, ToolPolicy, approval_key, decide_tool_call,
};
use super::text_cleaning::{strip_invisible, truncate_with_note};
use super::tool_permit::{ApprovalRequest, ToolPermit, refusal_result};
use super::{Tool, ToolError, ToolInfo, UserLanguage};

/// The most bytes of arguments that are looked at.
pub const MAX_ARGUMENT_BYTES: usize = 64 * 1024;
/// The most calls of one reply that are made.
pub const MAX_CALLS_PER_REPLY: usize = 16;
/// The most problems with arguments that are told at once, and the most bytes of each.
const MAX_SCHEMA_PROBLEMS: usize = 5;
const MAX_SCHEMA_PROBLEM_BYTES: usize = 300;

/// The tools an agent may use, each with its policy.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: BTreeMap<String, ToolboxEntry>,
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

/// What became of a call that was asked for.
#[derive(Debug)]
pub enum ToolAdmission {
    /// It may be run.
    Run(ToolPermit),
    /// A person is to be asked first.
    Ask(ApprovalRequest),
    /// It is not made; this is what the model is told.
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
        let spec = &tool.info().spec;
        let name = spec.name.clone();
        let fits_name = |one: char| one.is_ascii_alphanumeric() || one == '_' || one == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(fits_name) {
            return Err(ToolboxError::BadName(truncate_with_note(
                strip_invisible(&name).text,
                MAX_SCHEMA_PROBLEM_BYTES,
            )));
        }
        if self.tools.contains_key(&name) {
            return Err(ToolboxError::DuplicateName(name));
        }
        let fits = SchemaValidator::new(&spec.parameters).map_err(|error| ToolboxError::BadSchema {
            name: name.clone(),
            reason: truncate_with_note(strip_invisible(&error.to_string()).text, MAX_SCHEMA_PROBLEM_BYTES),
        })?;
        self.tools.insert(name, ToolboxEntry { tool, policy, arguments_validator: Arc::new(fits) });
        Ok(())
    }

    /// Sets the policy of a tool; false if there is no such tool.
    pub fn set_policy(&mut self, name: &str, policy: ToolPolicy) -> bool {
        self.tools.get_mut(name).map(|entry| entry.policy = policy).is_some()
    }

    /// Only the tools with these names.
    pub fn restricted_to(&self, names: &[&str]) -> Self {
        let kept = self.tools.iter().filter(|(name, _)| names.contains(&name.as_str()));
        let tools = kept.map(|(name, entry)| (name.clone(), entry.clone())).collect();
        Self { tools, servers: self.servers.clone() }
    }

    /// Makes it know a server. Its tools, `SERVER__TOOL`, may be named while they are not there.
    pub fn register_server(&mut self, name: impl Into<String>) {
        self.servers.insert(name.into());
    }

    /// Whether this is a tool of a server it knows, and not there: the server may not have answered today.
    pub fn is_of_absent_server(&self, name: &str) -> bool {
        !self.tools.contains_key(name)
            && name.split_once("__").is_some_and(|(server, _)| self.servers.contains(server))
    }

    /// These tools and those of another box; of two with one name, these.
    #[must_use]
    pub(crate) fn merged_with(mut self, more: &Self) -> Self {
        for (name, entry) in &more.tools {
            self.tools.entry(name.clone()).or_insert_with(|| entry.clone());
        }
        self
    }

    /// The tool with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|entry| &entry.tool)
    }

    /// Every tool and its policy, by name.
    pub fn list(&self) -> impl Iterator<Item = (&ToolInfo, ToolPolicy)> {
        self.tools.values().map(|entry| (entry.tool.info(), entry.policy))
    }

    /// What a model is told about the tools; those that are denied are not offered.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.list()
            .filter(|(_, policy)| *policy != ToolPolicy::Deny)
            .map(|(about, _)| about.spec.clone())
            .collect()
    }

    /// Whether `arguments` fit the tool's schema; otherwise what is wrong, for the model to read.
    pub fn check_arguments(
        &self,
        name: &str,
        arguments: &Value,
        language: UserLanguage,
    ) -> Result<(), ToolError> {
        let Some(entry) = self.tools.get(name) else {
            let names: Vec<&str> = self.tools.keys().map(String::as_str).collect();
            let (asked, names) = (truncate_with_note(strip_invisible(name).text, 100), names.join(", "));
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
        Err(ToolError::BadArguments(language.pick(
            format!("인자가 `{name}`의 스키마에 맞지 않습니다: {problems}"),
            format!("the arguments do not fit the schema of `{name}`: {problems}"),
        )))
    }

    /// Checks and decides about one call. `approval` is a person's answer to an earlier [`Ask`], if there was one.
    pub fn admit(
        &self,
        call: &ToolCall,
        seen: &RunExposure,
        approval: Option<&ToolApproval>,
        language: UserLanguage,
    ) -> ToolAdmission {
        if let Err(error) = self.check_arguments(&call.name, &call.arguments, language) {
            return ToolAdmission::Refuse(refusal_result(call, &error));
        }
        let Some(entry) = self.tools.get(&call.name) else {
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

    /// Admits the calls of one reply, in their order. A second call with the same id, and calls beyond [`MOST_CALLS`],
    /// are refused. Each of the `approvals` counts for the one call that it was given for.
    pub fn admit_all(
        &self,
        calls: &[ToolCall],
        seen: &RunExposure,
        approvals: &[ToolApproval],
        language: UserLanguage,
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
        f.debug_map().entries(self.tools.iter().map(|(name, entry)| (name, entry.policy))).finish()
    }
}

fn schema_problem(violation: &SchemaViolation) -> String {
    truncate_with_note(strip_invisible(&violation.to_string()).text, MAX_SCHEMA_PROBLEM_BYTES)
}

/// Whether a result says that a person refused the call. Then nothing has failed.
pub fn is_refused_by_person(result: &ToolResult) -> bool {
    let refusals =
        [UserLanguage::Ko, UserLanguage::En].map(|one| denial_message(ToolCallReason::Refused, one));
    result.failed
        && result.origin == TextOrigin::Program
        && refusals.iter().any(|refusal| result.text.ends_with(refusal))
}

fn denial_message(why: ToolCallReason, language: UserLanguage) -> String {
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
