//! Validates a description before it is built. Every error names the node and says how to fix it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::description::{AgentDescription, AgentDescriptionError, NodeDescription};
use super::http::{HttpCall, HttpCallParts};
use super::http_nodes::{MAP_VARIABLES, NODE_VARIABLES};
use super::http_tool::check_template as check_template_variables;
use super::nodes::{ReadyNode, ReadyNodeContext};
use super::subgraphs::{RESULT_VARIABLES as SUBGRAPH_RESULT_VARIABLES, SubgraphQuestion};
use crate::agent_name::{AGENT_NAME_RULE, is_agent_name, shown_agent_name};

/// What a node may do.
pub(super) const READY_NODE_NAMES: [&str; 12] = [
    "route",
    "classify",
    "retrieve",
    "call_model",
    "call_tools",
    "summarize",
    "evaluate",
    "interrupt",
    "subgraph",
    "http",
    "map",
    "respond",
];

pub(super) fn node_error(
    agent: &str,
    form: &NodeDescription,
    reason: impl Into<String>,
) -> AgentDescriptionError {
    AgentDescriptionError::Node { agent: agent.to_owned(), node: form.name.clone(), reason: reason.into() }
}

/// What a node does, with what it needs for it and nothing else.
pub(super) fn parse_node(
    agent: &str,
    form: &NodeDescription,
    calls: &HttpCallParts,
) -> Result<ReadyNode, AgentDescriptionError> {
    let into = form.into.clone().unwrap_or_else(|| form.name.clone());
    let kind = form.r#use.as_str();
    let accepted: &[&str] = match kind {
        "route" | "classify" => &["prompt", "choices", "into"],
        "retrieve" => &["most"],
        "call_model" => &["prompt", "tools", "most", "into"],
        "call_tools" => &[],
        "summarize" => &["most", "keep"],
        "evaluate" => &["prompt", "most", "into"],
        "interrupt" => &["ask", "into"],
        "subgraph" => &["graph", "input", "result", "into"],
        "http" => &["http", "into"],
        "map" => &["over", "http", "prompt", "into"],
        "respond" => &["prompt", "text"],
        "" => {
            return Err(node_error(
                agent,
                form,
                format!("it does not say what it does: `use = …`, one of {}", READY_NODE_NAMES.join(", ")),
            ));
        }
        other => {
            return Err(node_error(
                agent,
                form,
                format!("there is no ready node `{other}`; there are: {}", READY_NODE_NAMES.join(", ")),
            ));
        }
    };
    let given = [
        ("prompt", form.prompt.is_some()),
        ("choices", !form.choices.is_empty()),
        ("into", form.into.is_some()),
        ("tools", form.tools.is_some()),
        ("text", form.text.is_some()),
        ("ask", form.ask.is_some()),
        ("graph", form.graph.is_some()),
        ("input", form.input.is_some()),
        ("result", form.result.is_some()),
        ("http", form.http.is_some()),
        ("over", form.over.is_some()),
        ("most", form.most.is_some()),
        ("keep", form.keep.is_some()),
    ];
    if let Some((field, _)) = given.iter().find(|(field, given)| *given && !accepted.contains(field)) {
        let fields = if accepted.is_empty() { "nothing".to_owned() } else { accepted.join(", ") };
        return Err(node_error(agent, form, format!("`{kind}` does not take `{field}`; it takes: {fields}")));
    }
    if form.most == Some(0) {
        return Err(node_error(agent, form, "`most` must be at least 1"));
    }
    let prompt = || -> Result<String, AgentDescriptionError> {
        let text = form
            .prompt
            .clone()
            .ok_or_else(|| node_error(agent, form, format!("`{kind}` needs a `prompt`")))?;
        check_template(agent, form, "its prompt", &text)?;
        Ok(text)
    };
    Ok(match kind {
        "route" | "classify" => {
            if form.choices.len() < 2 {
                return Err(node_error(agent, form, format!("`{kind}` needs at least two `choices`")));
            }
            ReadyNode::Choose { prompt: prompt()?, choices: form.choices.clone(), into }
        }
        "retrieve" => ReadyNode::Retrieve { most: form.most.unwrap_or(4) },
        "call_model" => ReadyNode::CallModel {
            prompt: prompt()?,
            tools: form.tools.clone(),
            rounds: form.most.unwrap_or(8),
            into,
        },
        "call_tools" => ReadyNode::CallTools,
        "summarize" => {
            let (most, keep) = (form.most.unwrap_or(10), form.keep.unwrap_or(5));
            if keep > most || keep == 0 {
                return Err(node_error(
                    agent,
                    form,
                    format!("`keep` is {keep}; it must be from 1 to `most` ({most})"),
                ));
            }
            ReadyNode::Summarize { most, keep }
        }
        "evaluate" => ReadyNode::Evaluate { prompt: prompt()?, rounds: form.most.unwrap_or(4), into },
        "interrupt" => {
            let ask = form
                .ask
                .clone()
                .ok_or_else(|| node_error(agent, form, "`interrupt` needs `ask = { ko = …, en = … }`"))?;
            check_template(agent, form, "`ask.ko`", &ask.ko)?;
            check_template(agent, form, "`ask.en`", &ask.en)?;
            ReadyNode::Interrupt { ask, into }
        }
        "subgraph" => {
            let graph = form.graph.clone().ok_or_else(|| {
                node_error(agent, form, "`subgraph` needs a `graph`: the name of a described agent")
            })?;
            check_subgraph(agent, form)?;
            ReadyNode::Subgraph { graph, question: SubgraphQuestion::new(form) }
        }
        "http" => ReadyNode::Http { call: parse_http(agent, form, calls, &NODE_VARIABLES)?, into },
        "map" => {
            let over = form.over.clone().ok_or_else(|| {
                node_error(agent, form, "`map` needs a list to go over: `over = \"{{ values.NAME }}\"`")
            })?;
            check_variables(agent, form, "`over`", &Value::String(over.clone()), &NODE_VARIABLES)?;
            match (&form.http, &form.prompt) {
                (Some(_), None) => {
                    let call = parse_http(agent, form, calls, &MAP_VARIABLES)?;
                    ReadyNode::MapHttp { over, call, into }
                }
                (None, Some(prompt)) => {
                    check_variables(
                        agent,
                        form,
                        "its prompt",
                        &Value::String(prompt.clone()),
                        &MAP_VARIABLES,
                    )?;
                    ReadyNode::MapPrompt { over, prompt: prompt.clone(), into }
                }
                _ => return Err(node_error(agent, form, "`map` takes either `http` or a `prompt`")),
            }
        }
        _ => match (&form.text, &form.prompt) {
            (Some(text), None) => {
                check_template(agent, form, "`text`", text)?;
                ReadyNode::Say { text: text.clone() }
            }
            (None, Some(_)) => ReadyNode::Respond { prompt: prompt()? },
            (Some(_), Some(_)) => {
                return Err(node_error(agent, form, "`respond` takes a `prompt` or a `text`, not both"));
            }
            (None, None) => return Err(node_error(agent, form, "`respond` needs a `prompt` or a `text`")),
        },
    })
}

fn check_template(
    agent: &str,
    form: &NodeDescription,
    field: &str,
    text: &str,
) -> Result<(), AgentDescriptionError> {
    check_variables(agent, form, field, &Value::String(text.to_owned()), &NODE_VARIABLES)
}

/// The templates of a `subgraph`, and what only one with an `input` has.
fn check_subgraph(agent: &str, form: &NodeDescription) -> Result<(), AgentDescriptionError> {
    let Some(input) = &form.input else {
        return match (&form.result, &form.into) {
            (None, None) => Ok(()),
            (Some(_), _) => Err(node_error(agent, form, "`result` needs an `input`")),
            (None, Some(_)) => Err(node_error(
                agent,
                form,
                "`into` needs an `input`; without one, the values of the other agent are kept under their own names",
            )),
        };
    };
    if input.question.trim().is_empty() {
        return Err(node_error(
            agent,
            form,
            "`input` needs a `question`: `input = { question = \"{{ question }}\" }`",
        ));
    }
    let question = Value::String(input.question.clone());
    check_variables(agent, form, "`question`", &question, &NODE_VARIABLES)?;
    for (name, value) in &input.values {
        check_variables(agent, form, &format!("`values.{name}`"), value, &NODE_VARIABLES)?;
    }
    match &form.result {
        Some(result) => check_variables(agent, form, "`result`", result, &SUBGRAPH_RESULT_VARIABLES),
        None => Ok(()),
    }
}

/// The call of a node, whose templates use these variables.
fn parse_http(
    agent: &str,
    form: &NodeDescription,
    calls: &HttpCallParts,
    variables: &[&str],
) -> Result<HttpCall, AgentDescriptionError> {
    let wrong = |reason: String| node_error(agent, form, format!("`http`: {reason}"));
    let http = form
        .http
        .as_ref()
        .ok_or_else(|| node_error(agent, form, "`http` needs a call: `http = { url = \"https://…\" }`"))?;
    for (field, template) in HttpCall::templates(http) {
        check_variables(agent, form, &format!("`{field}`"), &template, variables)?;
    }
    if let Some(result) = &http.result {
        check_variables(agent, form, "`result`", result, &[variables, &["response"]].concat())?;
    }
    HttpCall::new(http, calls).map_err(wrong)
}

fn check_variables(
    agent: &str,
    form: &NodeDescription,
    field: &str,
    value: &Value,
    known: &[&str],
) -> Result<(), AgentDescriptionError> {
    check_template_variables(field, value, known).map_err(|reason| node_error(agent, form, reason))
}

/// That the agent may be called so.
pub(super) fn check_agent_name(name: &str) -> Result<(), AgentDescriptionError> {
    let reason = match name {
        "" => "it has no `name`",
        _ if is_agent_name(name) => return Ok(()),
        _ => AGENT_NAME_RULE,
    };
    Err(AgentDescriptionError::Agent { agent: shown_agent_name(name), reason: reason.to_owned() })
}

/// What holds for the graph as a whole.
pub(super) fn check_graph(
    description: &AgentDescription,
    node_context: &ReadyNodeContext,
) -> Result<(), AgentDescriptionError> {
    let agent = description.name.as_str();
    let about = |reason: String| AgentDescriptionError::Agent { agent: agent.to_owned(), reason };
    if description.settings.is_some() {
        return Err(about("`settings` are those of a ready-made agent; here nodes say what they do".into()));
    }
    if description.context_length == Some(0) {
        return Err(about("`context_length` must be at least 1".into()));
    }
    let names: BTreeSet<&str> = description.nodes.iter().map(|form| form.name.as_str()).collect();
    let listed = || names.iter().copied().collect::<Vec<_>>().join(", ");
    if !names.contains(description.start.as_str()) {
        return Err(about(format!(
            "it starts at `{}`, which is no node of it; there are: {}",
            description.start,
            listed()
        )));
    }
    for form in &description.nodes {
        if form.name.is_empty() || form.name == "end" {
            return Err(node_error(agent, form, "a node needs a name, and `end` is the end of every graph"));
        }
        let targets: Vec<&String> = match (&form.then, &form.branch) {
            (Some(_), Some(_)) => {
                return Err(node_error(agent, form, "it leads on by `then` or by `branch`, not by both"));
            }
            (None, None) => {
                return Err(node_error(
                    agent,
                    form,
                    "it leads nowhere: say `then = \"end\"` if it is the last",
                ));
            }
            (Some(then), None) => vec![then],
            (None, Some(branch)) => branch.to.values().chain(&branch.otherwise).collect(),
        };
        if let Some(unknown) =
            targets.iter().find(|target| *target != &"end" && !names.contains(target.as_str()))
        {
            return Err(node_error(
                agent,
                form,
                format!("it leads to `{unknown}`, which is no node; there are: {}, end", listed()),
            ));
        }
        check_branch_values(agent, form, description)?;
        for tool in form.tools.iter().flatten() {
            if node_context.tools.get(tool).is_none() && !node_context.tools.is_of_absent_server(tool) {
                return Err(node_error(
                    agent,
                    form,
                    format!("there is no tool `{tool}`; there are: {}", node_context.tools.joined_names()),
                ));
            }
        }
    }
    let ends = nodes_that_reach_end(description);
    match description.nodes.iter().find(|form| !ends.contains(form.name.as_str())) {
        Some(form) => Err(node_error(
            agent,
            form,
            "nothing leads from it to `end`: it would run until a limit stops it",
        )),
        None => Ok(()),
    }
}

/// The nodes from which any way leads to the end.
fn nodes_that_reach_end(description: &AgentDescription) -> BTreeSet<&str> {
    let mut led_from: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for form in &description.nodes {
        let branches = form.branch.iter().flat_map(|branch| branch.to.values().chain(&branch.otherwise));
        for target in form.then.iter().chain(branches) {
            led_from.entry(target).or_default().push(&form.name);
        }
    }
    let (mut found, mut next) = (BTreeSet::new(), vec!["end"]);
    while let Some(target) = next.pop() {
        for from in led_from.remove(target).unwrap_or_default() {
            if found.insert(from) {
                next.push(from);
            }
        }
    }
    found
}

/// Every value that a branch may meet has a way, and no way waits for a value that never comes.
fn check_branch_values(
    agent: &str,
    form: &NodeDescription,
    description: &AgentDescription,
) -> Result<(), AgentDescriptionError> {
    let Some(branch) = &form.branch else { return Ok(()) };
    let on = branch.on.as_ref().or(form.into.as_ref()).unwrap_or(&form.name);
    let source = description.nodes.iter().find(|node| node.into.as_ref().unwrap_or(&node.name) == on);
    let values: Vec<String> = match source.map(|node| node.r#use.as_str()) {
        Some("route" | "classify") => source.map(|node| node.choices.clone()).unwrap_or_default(),
        Some("call_model") => vec!["tools".into(), "answer".into()],
        Some("evaluate") => vec!["sufficient".into(), "insufficient".into()],
        Some("interrupt" | "http") => Vec::new(),
        Some("subgraph") if source.is_some_and(|node| node.input.is_some()) => Vec::new(),
        // The agent inside may leave any value behind.
        None if description.nodes.iter().any(|node| node.r#use == "subgraph" && node.input.is_none()) => {
            Vec::new()
        }
        Some(_) | None => {
            return Err(node_error(
                agent,
                form,
                format!("its branch goes by `{on}`, which no node leaves behind"),
            ));
        }
    };
    if values.is_empty() {
        return match branch.otherwise {
            Some(_) => Ok(()),
            None => {
                Err(node_error(agent, form, format!("`{on}` may be anything: the branch needs an `else`")))
            }
        };
    }
    if let Some(never) = branch.to.keys().find(|value| !values.contains(value)) {
        return Err(node_error(
            agent,
            form,
            format!("`{on}` is never `{never}`; it may be: {}", values.join(", ")),
        ));
    }
    match values.iter().find(|value| !branch.to.contains_key(*value)) {
        Some(open) if branch.otherwise.is_none() => Err(node_error(
            agent,
            form,
            format!("nothing is said for `{open}`: name a target for it or an `else`"),
        )),
        _ => Ok(()),
    }
}
