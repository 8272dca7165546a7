//! Whether a call may be made: a pure decision, the same for every tool and every agent.
//!
//! Words from documents and from the web may be written by somebody who wants the model to act for them. They cannot
//! be told from honest words, so the defence does not read them: it looks at what a run has in front of it and at what
//! the call could do. A run that has read such words ([`Taint::untrusted`])
//!
//! - changes nothing outside Doran, and nothing that cannot be repeated, without a person's approval;
//! - changes what Doran stores only in words that the person typed;
//! - and if it has also read what is private ([`Taint::private`]), tells the outside nothing but words that the person
//!   typed, not even in a search.
//!
//! An approval is bound to the exact call ([`approval_key`]): the tool as it is now, and its arguments. A person may allow a
//! tool whose policy asks for the rest of a thread; what was read is still looked at. Words in a conversation that say
//! "approved" are words.

use std::collections::{BTreeMap, BTreeSet};

use doran_llm::{Message, MessagePart, TextOrigin, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{ToolInfo, ToolSideEffect, names};

/// Tools whose answers hold nothing private: what anybody can look up, and what follows from the arguments alone.
const TOOLS_WITH_PUBLIC_RESULTS: [&str; 8] = [
    names::CALCULATOR,
    names::GET_CURRENT_DATETIME,
    names::GET_WEATHER,
    names::SEARCH_WIKIPEDIA,
    names::WEB_SEARCH,
    names::PYTHON_REPL,
    names::REMEMBER,
    names::FORGET,
];

/// What is done with the calls of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolPolicy {
    /// They are made, unless the run has read too much to be trusted with this one.
    #[default]
    Allow,
    /// A person is asked, every time until one allows the tool for the thread.
    Ask,
    /// They are refused.
    Deny,
}

/// What a run has read. It only grows, and is kept with the thread: messages may be summarised, what was read was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Taint {
    /// Words that somebody outside may have written.
    pub untrusted: bool,
    /// Words that are not for everybody: documents, files, memories.
    pub private: bool,
}

impl Taint {
    /// What these messages put before the model.
    pub fn of_messages(messages: &[Message]) -> Self {
        let parts = messages.iter().flat_map(|message| &message.parts);
        parts.map(Self::of_part).fold(Self::default(), Self::union)
    }

    /// The taint of text with this origin. Documents are both: private, and written by anybody. For the result of a tool,
    /// [`Taint::of_result`] knows more.
    pub(crate) fn from_origin(origin: TextOrigin) -> Self {
        match origin {
            TextOrigin::Document => Self { untrusted: true, private: true },
            TextOrigin::Web => Self { untrusted: true, private: false },
            TextOrigin::Program | TextOrigin::User | TextOrigin::Tool | TextOrigin::Model => Self::default(),
        }
    }

    /// What a tool gave back. It is private, unless the tool is known to tell only what anybody may know, or the
    /// program itself refused.
    pub fn of_result(result: &ToolResult) -> Self {
        let known =
            TOOLS_WITH_PUBLIC_RESULTS.contains(&result.name.as_str()) || result.origin == TextOrigin::Program;
        Self::from_origin(result.origin).union(Self { untrusted: false, private: !known })
    }

    fn of_part(part: &MessagePart) -> Self {
        match part {
            MessagePart::ToolResult(result) => Self::of_result(result),
            MessagePart::Text { .. }
            | MessagePart::Passage(_)
            | MessagePart::ToolCall(_)
            | MessagePart::Image(_)
            | MessagePart::Reasoning { .. } => Self::from_origin(part.origin()),
        }
    }

    /// Both together.
    pub fn union(self, other: Self) -> Self {
        Self { untrusted: self.untrusted || other.untrusted, private: self.private || other.private }
    }
}

/// What a run has in front of it when it calls a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunExposure {
    /// What it has read.
    pub taint: Taint,
    typed_words: BTreeMap<String, usize>,
    /// The keys of the tools that a person allowed for the rest of the thread.
    allowed_tools: BTreeSet<String>,
}

impl RunExposure {
    /// What is in `messages`, with what the thread had read before (`earlier`).
    pub fn from_messages(messages: &[Message], earlier: Taint) -> Self {
        let mut typed = BTreeMap::new();
        for part in messages.iter().flat_map(|message| &message.parts) {
            if let MessagePart::Text { text, origin: TextOrigin::User } = part {
                for word in lowercase_words(text) {
                    *typed.entry(word).or_default() += 1;
                }
            }
        }
        let taint = Taint::of_messages(messages).union(earlier);
        Self { taint, typed_words: typed, allowed_tools: BTreeSet::new() }
    }

    /// With the tools that a person allowed for the rest of the thread, by their [`tool_key`].
    #[must_use]
    pub(crate) fn with_allowed_tools(mut self, keys: impl IntoIterator<Item = String>) -> Self {
        self.allowed_tools.extend(keys);
        self
    }

    /// Whether `arguments` say only what the person typed: each word (or the beginning of one, for Korean words end in
    /// particles), no more often than it was typed. Choices out of a short list that the schema gives are free.
    fn is_typed_by_person(&self, arguments: &Value, schema: &Value) -> bool {
        let mut left = self.typed_words.clone();
        let Some(fields) = arguments.as_object() else { return consume_value_words(&mut left, arguments) };
        fields.iter().all(|(name, value)| match schema.get("properties").and_then(|known| known.get(name)) {
            Some(known) => is_limited_choice(known, value) || consume_value_words(&mut left, value),
            None => consume_words(&mut left, name) && consume_value_words(&mut left, value),
        })
    }
}

/// A person's answer to the question whether a call may be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolApproval {
    /// The id of the call it was given for: of two calls that are alike, each needs its own.
    pub call: String,
    /// What that call was: its `approval_key`.
    pub key: String,
    /// Whether it may be made.
    pub approved: bool,
}

/// What is to be done with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolCallDecision {
    /// It is made.
    Run,
    /// A person is asked first.
    Ask(ToolCallReason),
    /// It is refused.
    Deny(ToolCallReason),
}

/// Why a call is not simply made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallReason {
    /// The tool's policy says so.
    Policy,
    /// The run has read untrusted text.
    Injection,
    /// A person refused.
    Refused,
}

/// Decides about a call of the tool `about` with `arguments`.
///
/// An approval counts for exactly the call it was given for; any other is as good as none.
pub(crate) fn decide_tool_call(
    policy: ToolPolicy,
    about: &ToolInfo,
    arguments: &Value,
    seen: &RunExposure,
    approval: Option<&ToolApproval>,
) -> ToolCallDecision {
    if policy == ToolPolicy::Deny {
        return ToolCallDecision::Deny(ToolCallReason::Policy);
    }
    if let Some(approval) = approval.filter(|one| one.key == approval_key(about, arguments)) {
        return if approval.approved {
            ToolCallDecision::Run
        } else {
            ToolCallDecision::Deny(ToolCallReason::Refused)
        };
    }
    if policy == ToolPolicy::Ask && !seen.allowed_tools.contains(&tool_key(about)) {
        return ToolCallDecision::Ask(ToolCallReason::Policy);
    }
    let Taint { untrusted, private } = seen.taint;
    let changes = about.side_effect != ToolSideEffect::ReadOnly;
    let is_irreversible_or_outward = about.side_effect == ToolSideEffect::Once || about.outward;
    let needs_a_person = untrusted
        && ((changes && is_irreversible_or_outward)
            || ((changes || (about.outward && private))
                && !seen.is_typed_by_person(arguments, &about.spec.parameters)));
    if needs_a_person { ToolCallDecision::Ask(ToolCallReason::Injection) } else { ToolCallDecision::Run }
}

/// Names a tool exactly: changes when its name, description, schema, side effect or reach changes.
pub(crate) fn tool_key(about: &ToolInfo) -> String {
    approval_key(about, &Value::Null)
}

/// Names a call exactly: changes when the tool (name, description, schema, side effect, reach) or any argument changes, and
/// does not depend on the order in which an object's fields are written.
pub(crate) fn approval_key(about: &ToolInfo, arguments: &Value) -> String {
    let call = json!({
        "tool": { "spec": about.spec, "class": about.side_effect, "outward": about.outward },
        "arguments": arguments,
    });
    let mut text = String::new();
    write_canonical(&call, &mut text);
    hex::encode(Sha256::digest(text.as_bytes()))
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            text.push('{');
            for (name, value) in sorted {
                *text += &Value::from(name.as_str()).to_string();
                text.push(':');
                write_canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => *text += &value.to_string(),
    }
}

/// A value that can say little: one of a list in the schema, a truth, or a number of at most 20.
fn is_limited_choice(schema: &Value, value: &Value) -> bool {
    const MOST_CHOICES: usize = 32;
    match value {
        Value::Null | Value::Bool(_) => true,
        Value::String(_) => {
            let listed = schema.get("enum").and_then(Value::as_array);
            listed.is_some_and(|list| list.len() <= MOST_CHOICES && list.contains(value))
        }
        Value::Number(number) => {
            schema.get("maximum").and_then(Value::as_u64).is_some_and(|maximum| maximum <= 20)
                && number.as_u64().is_some_and(|number| number <= 20)
        }
        Value::Array(_) | Value::Object(_) => false,
    }
}

fn consume_value_words(left: &mut BTreeMap<String, usize>, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        Value::Number(number) => consume_words(left, &number.to_string()),
        Value::String(text) => consume_words(left, text),
        Value::Array(items) => items.iter().all(|item| consume_value_words(left, item)),
        Value::Object(fields) => {
            fields.iter().all(|(name, value)| consume_words(left, name) && consume_value_words(left, value))
        }
    }
}

/// Takes the words of `text` out of `left`; false if one of them is not there.
fn consume_words(left: &mut BTreeMap<String, usize>, text: &str) -> bool {
    lowercase_words(text).all(|word| {
        let exact = left.get(&word).is_some_and(|count| *count > 0).then(|| word.clone());
        let found = exact.or_else(|| {
            let begins = |(typed, count): &(&String, &usize)| **count > 0 && typed.starts_with(&word);
            (word.chars().count() >= 2).then(|| {
                left.range(word.clone()..)
                    .take_while(|(typed, _)| typed.starts_with(&word))
                    .find(begins)
                    .map(|(typed, _)| typed.clone())
            })?
        });
        match found.and_then(|typed| left.get_mut(&typed)) {
            Some(count) => {
                *count -= 1;
                true
            }
            None => false,
        }
    })
}

fn lowercase_words(text: &str) -> impl Iterator<Item = String> {
    text.split(|one: char| !one.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

#[cfg(test)]
#[path = "call_decision_tests.rs"]
mod tests;
