//! The file format of a described agent: its nodes and edges.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::settings::AgentSettings;
use crate::tools::ToolPolicy;

/// An agent as a file describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Agent of Doran")]
pub struct AgentDescription {
    /// Its name.
    pub name: String,
    /// For the graph of a ready-made agent: which one. Its nodes are then those of that agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What it does, in Korean.
    pub ko: String,
    /// What it does, in English.
    pub en: String,
    /// Whether menus leave it out: an agent that others run as a subgraph. It can still be asked by its name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Tokens its model can take; 128,000 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_length: Option<usize>,
    /// The node where a turn begins.
    pub start: String,
    /// For the graph of a ready-made agent: what is different about this one, as `[agents.NAME]` would say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<AgentSettings>,
    /// Its own tools, which programs serve over HTTP. Nodes name them like all others.
    #[serde(rename = "tool", skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDescription>,
    /// Its nodes.
    #[serde(rename = "node")]
    pub nodes: Vec<NodeDescription>,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NodeDescription {
    /// Its name.
    pub name: String,
    /// What it does: one of the ready nodes. In the graph of a ready-made agent, `AGENT.NODE`.
    #[schemars(schema_with = "ready_node_schema")]
    pub r#use: String,
    /// The prompt of a node that asks a model; of a `map`, for each item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What a `route` or `classify` chooses from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The name under which what it found out is kept; its own name if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// The tools of a `call_model`. Without it, all there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Fixed words of a `respond`, instead of a model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The question of an `interrupt`, in Korean and in English: templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<BilingualText>,
    /// The described agent that a `subgraph` runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// What a `subgraph` asks that agent. Without it, that agent goes on with this conversation and its values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<SubgraphInputDescription>,
    /// What a `subgraph` with an `input` stores: JSON whose texts are templates, with the variables `answer` and `values` of
    /// that agent. `{{ answer }}` if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The call of an `http` node; of a `map`, for each item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpDescription>,
    /// The list that a `map` goes over: `{{ values.NAME }}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<String>,
    /// Numbers of a node: passages of `retrieve`, messages of `summarize`, rounds of `evaluate` and `call_tools`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<usize>,
    /// Messages that a `summarize` leaves as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<usize>,
    /// Where it leads: a node, or `end`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// Where it leads, by a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchDescription>,
}

/// A question for another agent, which sees nothing else of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SubgraphInputDescription {
    /// The question: a template.
    pub question: String,
    /// The values that it begins with. Each text in them is a template; one that is a single `{{ … }}` becomes that value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
}

/// A call over HTTP. The scheme, host and port of `url` are fixed; a template may fill its path and query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HttpDescription {
    /// Where to: a template. What fills it is percent-encoded.
    pub url: String,
    /// `GET`, `POST` (the default), `PUT`, `PATCH` or `DELETE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Further headers. Each value is a template; what fills it has ASCII characters and no line break.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The environment variable that holds the key of the service. It is sent as `Authorization: Bearer KEY`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_variable: Option<String>,
    /// The header that carries the key as it is, instead of `Authorization`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_header: Option<String>,
    /// The JSON to send. Each text in it is a template; one that is a single `{{ … }}` becomes that value. Without it, all
    /// variables are sent, and by a tool its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// What is kept of the response: JSON whose texts are templates, with `response` as a further variable. Without it,
    /// the whole response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The longest a call may take, from 1 to 600 seconds. 30 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// How often a call that failed for a while is made again, from 0 to 10. 2 if left out, 0 with `once`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Whether the call must never happen twice. If it is cut off, the run asks a person instead of repeating it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    /// Whether the address may be one of this machine or its network.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
}

/// A tool that a program serves over HTTP. Its templates use `arguments`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolDescription {
    /// Its name: ASCII letters, digits, `_` and `-`.
    pub name: String,
    /// What it does, in Korean, for people.
    pub ko: String,
    /// What it does, in English, for models and people.
    pub en: String,
    /// The JSON schema of its arguments, an object. None if left out.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub parameters: Value,
    /// The call.
    pub http: HttpDescription,
    /// `allow` (the default), `ask` or `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ToolPolicy>,
}

fn ready_node_schema(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "anyOf": [
            { "type": "string", "enum": super::validation::READY_NODE_NAMES },
            { "type": "string", "pattern": "^[a-z]+\\.[A-Za-z_]+$" },
        ]
    })
}

/// A text in both languages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BilingualText {
    /// In Korean.
    pub ko: String,
    /// In English.
    pub en: String,
}

/// Ways to go, by a value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BranchDescription {
    /// The value that decides; that of the node itself if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// A target for each value: a node, or `end`.
    pub to: BTreeMap<String, String>,
    /// The target for all other values.
    #[serde(rename = "else", skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<String>,
}

/// Why a description cannot be used. Each names the node it is about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentDescriptionError {
    /// It is not what the format wants.
    #[error("the description cannot be read: {0}")]
    Unreadable(String),
    /// The whole of it is wrong.
    #[error("agent `{agent}`: {reason}")]
    Agent {
        /// The agent.
        agent: String,
        /// Why.
        reason: String,
    },
    /// A node of it is wrong.
    #[error("agent `{agent}`, node `{node}`: {reason}")]
    Node {
        /// The agent.
        agent: String,
        /// The node.
        node: String,
        /// Why.
        reason: String,
    },
}

/// How a description is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptionFormat {
    /// TOML, in files that end in `.toml`.
    Toml,
    /// YAML, in files that end in `.yaml` or `.yml`.
    Yaml,
}

impl AgentDescription {
    /// The JSON Schema of the files, for editors.
    pub fn json_schema() -> Value {
        schemars::generate::SchemaSettings::draft07()
            .into_generator()
            .into_root_schema_for::<Self>()
            .to_value()
    }
}

impl DescriptionFormat {
    /// The format of a file, by the end of its name.
    pub fn of_file(name: &str) -> Option<Self> {
        match name.rsplit_once('.')?.1 {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

impl AgentDescription {
    /// Reads a description and checks the name of its agent.
    pub fn read(text: &str, format: DescriptionFormat) -> Result<Self, AgentDescriptionError> {
        let description = match format {
            DescriptionFormat::Toml => Self::from_toml(text)?,
            DescriptionFormat::Yaml => Self::from_yaml(text)?,
        };
        super::validation::check_agent_name(&description.name)?;
        Ok(description)
    }

    /// Writes it.
    pub fn write(&self, format: DescriptionFormat) -> Result<String, AgentDescriptionError> {
        match format {
            DescriptionFormat::Toml => self.to_toml(),
            DescriptionFormat::Yaml => self.to_yaml(),
        }
    }

    /// What stands above a written description of a ready-made agent, as comments of either format: what may be changed
    /// in it, and what is fixed. Nothing for one that is made of ready nodes, where all may be.
    pub fn header_comment(&self) -> String {
        let Some(agent) = &self.agent else { return String::new() };
        let lines = [
            format!("The ready-made agent `{agent}`. To have another like it, put this into `agents/` of the data directory."),
            "  May be changed: `name` (it must be), `ko`, `en`, and `settings`: prompts, models, tools, limits, as in".into(),
            format!("  `[agents.{agent}]` of the settings, e.g. `language = \"en\"`."),
            "  Fixed: `agent`, `start` and the nodes. For a graph of your own leave `agent` out and use ready nodes.".into(),
            format!("준비된 에이전트 `{agent}`입니다. 비슷한 것을 하나 더 두려면 데이터 디렉터리의 `agents/`에 넣으세요."),
            "  고칠 수 있는 것: `name`(꼭 바꿀 것), `ko`, `en`, 그리고 `settings`(프롬프트, 모델, 도구, 한도).".into(),
            format!("  설정의 `[agents.{agent}]`에 적는 것과 같습니다. 예: `language = \"ko\"`."),
            "  고칠 수 없는 것: `agent`, `start`, 노드. 그래프를 새로 짜려면 `agent`를 빼고 준비된 노드를 쓰세요.".into(),
        ];
        lines.iter().map(|line| format!("# {line}\n")).collect()
    }

    /// Reads a description in TOML.
    pub fn from_toml(text: &str) -> Result<Self, AgentDescriptionError> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map(|before| format!("line {}: ", before.matches('\n').count() + 1));
            let node = wrong_node(toml::from_str(text).ok(), error.message());
            let (line, node) = (line.unwrap_or_default(), node.unwrap_or_default());
            AgentDescriptionError::Unreadable(format!("{line}{node}{}", error.message()))
        })
    }

    /// Writes it in TOML.
    pub fn to_toml(&self) -> Result<String, AgentDescriptionError> {
        toml::to_string_pretty(self).map_err(|error| AgentDescriptionError::Unreadable(error.to_string()))
    }

    /// Reads a description in YAML. One that repeats a key, or grows without measure by its aliases, is refused.
    pub fn from_yaml(text: &str) -> Result<Self, AgentDescriptionError> {
        serde_saphyr::from_str(text).map_err(|error| {
            let reason = error.to_string();
            let node = wrong_node(serde_saphyr::from_str(text).ok(), &reason).unwrap_or_default();
            AgentDescriptionError::Unreadable(format!("{node}{reason}"))
        })
    }

    /// Writes it in YAML.
    pub fn to_yaml(&self) -> Result<String, AgentDescriptionError> {
        serde_saphyr::to_string(self).map_err(|error| AgentDescriptionError::Unreadable(error.to_string()))
    }
}

/// The node that this error is about, as the start of a message, if it has a name.
fn wrong_node(document: Option<Value>, message: &str) -> Option<String> {
    let document = document?;
    let nodes = document.get("node")?.as_array()?;
    let wrong = nodes.iter().find(|node| {
        // The formats list differently what they expected.
        let reason = NodeDescription::deserialize(*node).err().map(|error| error.to_string());
        let given = reason.as_deref().and_then(|reason| reason.split(", expected ").next());
        given.is_some_and(|given| message.contains(given))
    })?;
    Some(format!("node `{}`: ", wrong.get("name")?.as_str()?))
}
