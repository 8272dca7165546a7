//! Tools of MCP servers, as tools like any other.
//!
//! A server is named in the settings, never by a request: its command or address is chosen by whoever runs the
//! program. What it says is not trusted. A tool is pinned by what it claims to be ([`pin`]), and one that has changed is
//! refused until a person approves it again; its description is cut and marked as foreign; its answers are capped; its
//! links are not followed; what it says about itself ([`Trust`]) counts only if the settings say so.
//!
//! A server gets nothing of this process: no environment but what is listed for it, no key but the headers that are
//! written for it. It is started when it is needed, started again after it ended, each time a little later, and its
//! end is an error of the call and of nothing else.

mod capped_lines;
mod connection;
mod http;
pub mod pin;
mod result_text;
mod stdio;
mod tool;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use pin::ToolPins;

use self::connection::McpConnection;
use self::tool::McpTool;
use super::{Tool, ToolSecret};

/// A server, as the settings name it.
#[derive(Clone, Debug)]
pub struct McpServer {
    /// What its tools are called by: `name__tool`. ASCII letters, digits and `-`, at most 24.
    pub name: String,
    /// How it is reached.
    pub reach: McpTransport,
    /// Whether what it says about its tools counts.
    pub trust: McpTrust,
    /// How much it may use.
    pub bounds: McpLimits,
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub enum McpTransport {
    /// A program that is started and spoken to through its standard streams.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// Its whole environment.
        environment: BTreeMap<String, ToolSecret>,
    },
    /// Streamable HTTP.
    Http {
        /// Its address, `http` or `https`.
        url: String,
        /// Headers of every request, such as `Authorization`. They are not sent anywhere else: redirects are refused.
        headers: BTreeMap<String, ToolSecret>,
    },
}

/// Whether a server is believed when it says what its tools do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum McpTrust {
    /// No: each tool counts as one that reaches out and must not be repeated.
    #[default]
    None,
    /// Yes: read-only, idempotent and closed-world hints count.
    Hints,
}

/// How much a server may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McpLimits {
    /// From its start to its list of tools.
    pub start: Duration,
    /// The longest a call may take.
    pub call: Duration,
    /// The most bytes of one message from it.
    pub message: usize,
    /// The most bytes of an answer that go on to the model.
    pub output: usize,
    /// The most tools that are taken from it.
    pub tools: usize,
}

impl Default for McpLimits {
    /// 30 seconds to start, 60 seconds a call, messages of 4 MiB, answers of 64 KiB, 64 tools.
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            call: Duration::from_secs(60),
            message: 4 << 20,
            output: 64 << 10,
            tools: 64,
        }
    }
}

/// What came of asking the servers for their tools.
#[derive(Default)]
pub struct McpDiscovery {
    /// Their tools, also those that are refused for now.
    pub tools: Vec<Arc<dyn Tool>>,
    /// What to remember: the pins that were given, and those of tools that were seen for the first time.
    pub pins: ToolPins,
    /// What people should know.
    pub problems: Vec<McpProblem>,
}

/// Something about a server that people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpProblem {
    /// Which server.
    pub server: String,
    /// What, in Korean.
    pub ko: String,
    /// The same in English.
    pub en: String,
}

/// Connects to every server, side by side, and takes their tools. A server that does not answer is a problem, not an
/// error: the others are there.
pub async fn connect_servers(servers: Vec<McpServer>, pins: &ToolPins) -> McpDiscovery {
    let mut found = McpDiscovery { pins: pins.clone(), ..McpDiscovery::default() };
    let asked = servers.into_iter().map(|server| async move {
        let name = server.name.clone();
        if !pin::is_server_name(&name) {
            return (name, Err(bad_server_name()));
        }
        let connection = Arc::new(McpConnection::new(server));
        let listed =
            connection.list_tools().await.map_err(|error| (error.korean_message(), error.english_message()));
        (name, listed.map(|tools| (connection, tools)))
    });
    for (server, answer) in futures_util::future::join_all(asked).await {
        match answer {
            Ok((connection, listed)) => add_server_tools(&mut found, &connection, listed),
            Err((ko, en)) => found.problems.push(McpProblem { server, ko, en }),
        }
    }
    found
}

fn bad_server_name() -> (String, String) {
    (
        "서버 이름은 영문자, 숫자, `-`로 24자 이하여야 합니다".to_string(),
        "the name of a server is at most 24 ASCII letters, digits and `-`".to_string(),
    )
}

fn add_server_tools(
    found: &mut McpDiscovery,
    connection: &Arc<McpConnection>,
    listed: Vec<rmcp::model::Tool>,
) {
    let server = connection.name().to_string();
    for tool in listed {
        let claim = pin::ToolClaim::from_tool(&tool);
        let remote = match McpTool::new(connection.clone(), &tool) {
            Ok(remote) => remote,
            Err((ko, en)) => {
                found.problems.push(McpProblem { server: server.clone(), ko, en });
                continue;
            }
        };
        let name = &remote.spec().name;
        if found.tools.iter().any(|known| known.info().spec.name == *name) {
            found.problems.push(McpProblem {
                server: server.clone(),
                ko: format!("`{name}` 도구가 둘이라 하나만 씁니다"),
                en: format!("there are two tools `{name}`; only the first is used"),
            });
            continue;
        }
        let remote = match found.pins.compare(name, &claim) {
            pin::PinVerdict::New => {
                found.pins.approve(name, &claim);
                remote
            }
            pin::PinVerdict::Same => remote,
            pin::PinVerdict::Changed => {
                found.problems.push(McpProblem {
                    server: server.clone(),
                    ko: format!("`{name}` 도구의 이름, 설명 또는 인자가 바뀌어, 다시 승인할 때까지 쓰지 않습니다"),
                    en: format!("`{name}` has changed its description or arguments; it is refused until it is approved again"),
                });
                remote.into_refused()
            }
        };
        found.tools.push(Arc::new(remote));
    }
}
