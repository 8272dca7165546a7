//! The tables of `doran.toml`: tools, MCP servers, models and agents. Top-level settings are in
//! `setting_definitions`.

use std::collections::{BTreeMap, BTreeSet};

use doran_agents::described::AgentDescription;
use doran_agents::tools::ToolPolicy;
use doran_agents::{AgentSettings, Settings};
use doran_llm::ModelPrice;
use serde::Deserialize;

use crate::environment::Environment;
use crate::output::{BilingualMessage, bilingual};
use crate::secret::SecretText;

/// The names of the tables in the file.
pub(crate) const TABLE_NAMES: [&str; 8] =
    ["tools", "mcp", "models", "prices", "agents", "assistants", "graphs", "chatbot"];

/// The environment variables with the API keys of tools.
pub(crate) const OPENWEATHER_KEY_VARIABLE: &str = "OPENWEATHER_API_KEY";
pub(crate) const TAVILY_KEY_VARIABLE: &str = "TAVILY_API_KEY";
/// The environment variable with the key that replicas share.
pub(crate) const SHARED_KEY_VARIABLE: &str = "DORAN_SHARED_KEY";

/// The variable with API keys that the HTTP server accepts besides those of `doran keys`.
pub(crate) const API_KEYS_VARIABLE: &str = "DORAN_API_KEYS";

/// All tables.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ConfigTables {
    pub(crate) tools: ToolsTable,
    pub(crate) mcp: BTreeMap<String, McpServerTable>,
    pub(crate) models: BTreeMap<String, ModelTable>,
    /// Model prices by `provider:model` that override the built-in ones.
    pub(crate) prices: BTreeMap<String, ModelPrice>,
    agents: BTreeMap<String, AgentSettings>,
    assistants: BTreeMap<String, AgentSettings>,
    graphs: Vec<AgentDescription>,
    chatbot: ChatbotTable,
}

/// `[chatbot.llm]` and `[chatbot.context]`: other names of settings of `docqa`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ChatbotTable {
    llm: ChatbotModelTable,
    context: ChatbotContextTable,
}

/// `[chatbot.llm]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ChatbotModelTable {
    context_length: Option<usize>,
}

/// `[chatbot.context]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ChatbotContextTable {
    compression_threshold: Option<f64>,
    compression_target: Option<f64>,
}

/// `[tools]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ToolsTable {
    /// Directories that `read_file` may read, by the name used in paths.
    pub(crate) read_roots: BTreeMap<String, String>,
    /// Whether memories are kept across threads. Default: if only one process uses the data directory.
    pub(crate) memory: Option<bool>,
    /// Whether the Python tool is available. Default: if it was compiled in.
    pub(crate) python: Option<bool>,
    /// The default time zone.
    pub(crate) time_zone: Option<String>,
    /// A proxy for outgoing requests.
    pub(crate) proxy: Option<String>,
    /// `allow`, `ask` or `deny`, by tool name.
    pub(crate) policies: BTreeMap<String, ToolPolicy>,
}

/// `[mcp.NAME]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct McpServerTable {
    /// The program to start, for a server on standard input and output.
    pub(crate) command: Option<String>,
    pub(crate) args: Vec<String>,
    /// The environment of the program, beside `PATH` and `HOME`. `$NAME` is replaced by the value of a variable.
    pub(crate) env: BTreeMap<String, SecretText>,
    /// The URL, for a server on HTTP.
    pub(crate) url: Option<String>,
    /// Headers of every request. `$NAME` is replaced by the value of a variable.
    pub(crate) headers: BTreeMap<String, SecretText>,
    /// Whether the server's hints about its tools are trusted.
    pub(crate) trust_hints: bool,
    /// Whether images in its results go to the model.
    pub(crate) images: bool,
    /// The policy of its tools. Default: `ask`.
    pub(crate) policy: Option<ToolPolicy>,
}

/// `[models.NAME]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ModelTable {
    /// `provider:model`
    pub(crate) id: String,
    /// A URL that replaces the provider's default.
    pub(crate) base_url: Option<String>,
    /// An environment variable that replaces the provider's default.
    pub(crate) key_variable: Option<String>,
    /// Whether answers are requested without streaming.
    pub(crate) whole: bool,
}

impl ConfigTables {
    /// Parses the tables. An error has the position in the text and the reason, without values of tables that may
    /// contain secrets.
    pub(super) fn parse(text: &str) -> Result<Self, (usize, BilingualMessage)> {
        let mut tables: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let reason = error.message();
            (
                at,
                if is_in_mcp_table(text, at) {
                    mcp_table_help()
                } else {
                    bilingual!("맞지 않습니다: {reason}", "it does not fit: {reason}")
                },
            )
        })?;
        tables.apply_chatbot_table().map_err(|key| {
            let at = text.find("[chatbot").unwrap_or(0);
            (
                at,
                bilingual!(
                    "`{key}`을(를) `[chatbot]`과 `[agents.docqa]`에 모두 적었습니다. 하나만 남기세요",
                    "`{key}` is set in `[chatbot]` and in `[agents.docqa]`; keep one of them"
                ),
            )
        })?;
        for (name, server) in &tables.mcp {
            let at = text.find(&format!("[mcp.{name}")).unwrap_or(0);
            if server.command.is_some() == server.url.is_some() {
                return Err((at, mcp_table_help()));
            }
        }
        for (name, model) in &tables.models {
            if let Err(error) = model.id.parse::<doran_llm::ModelId>() {
                let at = text.find(&format!("[models.{name}")).unwrap_or(0);
                return Err((at, bilingual!("모델 `{name}`: {error}", "model `{name}`: {error}")));
            }
        }
        for (name, price) in &tables.prices {
            let at = text.find(&format!("[prices.\"{name}")).unwrap_or(0);
            if let Err(error) = name.parse::<doran_llm::ModelId>() {
                return Err((at, bilingual!("가격 `{name}`: {error}", "price `{name}`: {error}")));
            }
            if !price.is_valid() {
                return Err((
                    at,
                    bilingual!(
                        "가격 `{name}`: 0 이상의 수여야 합니다",
                        "price `{name}`: it must not be below 0"
                    ),
                ));
            }
        }
        Ok(tables)
    }

    /// Makes `[chatbot]` settings of `docqa`. The error is a key that is set in both.
    fn apply_chatbot_table(&mut self) -> Result<(), &'static str> {
        let ChatbotTable { llm, context } = std::mem::take(&mut self.chatbot);
        let given = (llm.context_length, context.compression_threshold, context.compression_target);
        if given == (None, None, None) {
            return Ok(());
        }
        let docqa = self.agents.entry("docqa".to_owned()).or_default();
        set_once("contextLength", &mut docqa.context_length, llm.context_length)?;
        set_once("compressionThreshold", &mut docqa.compression_threshold, context.compression_threshold)?;
        set_once("compressionTarget", &mut docqa.compression_target, context.compression_target)
    }

    /// The settings of agents.
    pub(crate) fn agent_settings(&self) -> Settings {
        let (agents, assistants) = (self.agents.clone(), self.assistants.clone());
        Settings { agents, assistants, graphs: self.graphs.clone() }
    }

    /// The environment variables that the tables refer to.
    pub(super) fn referenced_variables(&self) -> BTreeSet<&str> {
        let servers = self.mcp.values().flat_map(|server| server.env.values().chain(server.headers.values()));
        let named = servers.filter_map(|value| value.reveal().strip_prefix('$'));
        named.chain(self.models.values().filter_map(|model| model.key_variable.as_deref())).collect()
    }

    /// The names of the tables that are present, for a list: `mcp.files`, `models.local`.
    pub(crate) fn table_names(&self) -> Vec<String> {
        let named = |table: &'static str, names: Vec<&String>| {
            names.into_iter().map(move |name| format!("{table}.{name}")).collect::<Vec<_>>()
        };
        let tools = (self.tools != ToolsTable::default()).then(|| "tools".to_owned());
        tools
            .into_iter()
            .chain(named("mcp", self.mcp.keys().collect()))
            .chain(named("models", self.models.keys().collect()))
            .chain(named("prices", self.prices.keys().collect()))
            .chain(named("agents", self.agents.keys().collect()))
            .chain(named("assistants", self.assistants.keys().collect()))
            .chain(named("graphs", self.graphs.iter().map(|graph| &graph.name).collect()))
            .collect()
    }
}

fn set_once<T>(key: &'static str, setting: &mut Option<T>, value: Option<T>) -> Result<(), &'static str> {
    match value {
        Some(_) if setting.is_some() => Err(key),
        Some(value) => {
            *setting = Some(value);
            Ok(())
        }
        None => Ok(()),
    }
}

fn mcp_table_help() -> BilingualMessage {
    bilingual!(
        "MCP 서버에는 `command`(와 `args`, `env`)나 `url`(과 `headers`) 가운데 하나, 그리고 `trust_hints`, `images`, `policy`를 적습니다. 값은 따옴표로 묶은 문자열입니다",
        "an MCP server takes `command` (with `args`, `env`) or `url` (with `headers`), and `trust_hints`, `images`, `policy`; values are text in quotes"
    )
}

/// Whether this position is inside a table of an MCP server.
fn is_in_mcp_table(text: &str, at: usize) -> bool {
    let before = &text[..text.floor_char_boundary(at.saturating_add(4))];
    let head = before.lines().rev().find(|line| line.trim_start().starts_with('['));
    head.is_none_or(|line| line.trim_start().starts_with("[mcp"))
}

/// API keys from the environment, by variable name. They are never printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EnvironmentSecrets(BTreeMap<String, SecretText>);

impl EnvironmentSecrets {
    /// Collects the keys of providers and tools, and those that the tables refer to.
    pub(super) fn from_environment(
        environment: &Environment,
        tables: &ConfigTables,
    ) -> Result<Self, BilingualMessage> {
        let vendors = doran_llm::VENDORS.iter().chain(doran_llm::RERANK_ONLY_VENDORS);
        let vendors = vendors.map(|vendor| vendor.key_variable);
        let names: BTreeSet<&str> = vendors
            .filter(|name| !name.is_empty())
            .chain([OPENWEATHER_KEY_VARIABLE, TAVILY_KEY_VARIABLE, SHARED_KEY_VARIABLE, API_KEYS_VARIABLE])
            .chain(tables.referenced_variables())
            .collect();
        names.iter().try_for_each(|name| environment.check_readable(name))?;
        let found = names
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), SecretText::new(environment.get(name)?.trim()))));
        Ok(Self(found.collect()))
    }

    /// The key in a variable.
    pub(crate) fn get(&self, variable: &str) -> Option<&SecretText> {
        self.0.get(variable)
    }

    /// The names of the variables that are set.
    pub(crate) fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The value itself, or the value of the variable that it names.
    pub(crate) fn resolve(&self, value: &SecretText) -> Result<SecretText, BilingualMessage> {
        let Some(name) = value.reveal().strip_prefix('$') else { return Ok(value.clone()) };
        self.get(name).cloned().ok_or_else(|| {
            bilingual!(
                "환경 변수 `{name}`이(가) 비어 있습니다. 값을 넣고 다시 시작하세요",
                "the variable `{name}` is not set; set it and start again"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let message = match ConfigTables::parse(text) {
            Ok(tables) => tables.table_names().join(" "),
            Err((_, both)) => {
                assert!(!both.ko.contains("hunter2"), "{}", both.ko);
                both.en
            }
        };
        assert!(message.contains(expected) && !message.contains("hunter2"), "{message}");
    }

    #[test]
    fn tables_are_read_beside_the_flat_settings() {
        check(
            "log = \"info\"\n[tools.policies]\nweb_search = \"ask\"\n[mcp.files]\ncommand = \"x\"",
            "tools mcp.files",
        );
        check(
            "[models.local]\nid = \"ollama:qwen3:8b\"\n[agents.react]\nmodel = \"local\"",
            "models.local agents.react",
        );
        check("[assistants.hr]\nko = \"인사\"", "assistants.hr");
        check("[prices.\"openai:new\"]\ninput = 1\noutput = 2.5", "prices.openai:new");
    }

    #[test]
    fn the_chatbot_table_is_that_of_docqa() {
        let tables = ConfigTables::parse(
            "[chatbot.llm]\ncontextLength = 1000\n[chatbot.context]\ncompressionThreshold = 0.5\ncompressionTarget = 0.2",
        )
        .expect("tables");
        let docqa = &tables.agent_settings().agents["docqa"];
        assert_eq!(docqa.context_length, Some(1000));
        assert_eq!((docqa.compression_threshold, docqa.compression_target), (Some(0.5), Some(0.2)));
        check("[chatbot.llm]\ncontextLenght = 1", "unknown field `contextLenght`");
        check(
            "[chatbot.llm]\ncontextLength = 1\n[agents.docqa]\ncontext_length = 2",
            "`contextLength` is set in `[chatbot]` and in `[agents.docqa]`",
        );
    }

    #[test]
    fn a_mistake_is_reported_without_a_secret() {
        check("[tools]\nmemry = true", "unknown field `memry`");
        check("[tools.policies]\nx = \"perhaps\"", "unknown variant `perhaps`");
        check("[mcp.a]\nurl = \"http://h\"\nheaders = \"Bearer hunter2\"", "an MCP server takes");
        check("[mcp.a]\nurl = \"http://h\"\ncommand = \"x\"", "an MCP server takes");
        check("mcp.a.headers.x = 1\n[mcp.b]\nenv = { KEY = [\"hunter2\"] }", "expected a string");
        check("[models.m]\nid = \"gpt\"", "is not `provider:model`");
        check("[prices.gpt]\ninput = 1\noutput = 2", "is not `provider:model`");
        check("[prices.\"openai:x\"]\ninput = -1\noutput = 2", "must not be below 0");
        check("[prices.\"openai:x\"]\ninptu = 1\noutput = 2", "unknown field `inptu`");
    }

    #[test]
    fn keys_come_from_the_environment_and_print_nothing() {
        let tables = ConfigTables::parse("[mcp.a]\nurl = \"http://h\"\nheaders = { x = \"$MY_TOKEN\" }")
            .expect("tables");
        let environment = Environment::for_test(
            "/",
            &[("MY_TOKEN", "hunter2"), ("OPENAI_API_KEY", "hunter2"), ("OTHER", "x")],
        );
        let secrets = EnvironmentSecrets::from_environment(&environment, &tables).expect("readable");
        assert_eq!(secrets.variable_names().collect::<Vec<_>>(), ["MY_TOKEN", "OPENAI_API_KEY"]);
        assert_eq!(secrets.resolve(&SecretText::new("$MY_TOKEN")).expect("set").reveal(), "hunter2");
        assert!(secrets.resolve(&SecretText::new("$GONE")).is_err());
        assert!(!format!("{secrets:?} {tables:?}").contains("hunter2"));
    }
}
