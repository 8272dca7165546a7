//! Tools of MCP servers, as tools like any other.
//!
//! A server is named in the settings, never by a request: its command or address is chosen by the operator of the
//! program. What it says is not trusted. A tool is pinned by what it claims to be ([`pin`]), and one that has changed is
//! refused until a person approves it again; its description is cut and marked as foreign; its answers are capped; its
//! links are not followed; what it says about itself ([`McpTrust`]) counts only if the settings say so.
//!
//! A server gets nothing of this process: no environment but what is listed for it, no key but the headers that are
//! written for it. It is started when it is needed, started again after it ended, each time a little later, and its
//! end is an error of the call and of nothing else. One that is late is tried again until it is there
//! ([`UnreachedMcpServer`]).

mod capped_lines;
mod connection;
mod http;
pub mod pin;
mod relay;
mod resources_and_prompts;
mod result_text;
mod stdio;
mod tool;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use pin::ToolPins;
pub use relay::{McpRelayError, relay};

use self::connection::{McpConnection, McpOffers, McpServerError};
use self::resources_and_prompts::{McpPrompts, McpResources};
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
    /// What becomes of images in its results.
    pub images: McpImages,
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
        /// Variables of this process that it gets: programs such as `npx` need `PATH` and `HOME`.
        inherited: BTreeMap<String, String>,
        /// The rest of its environment. Its values are taken out of what the program writes.
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

/// What becomes of images in the results of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum McpImages {
    /// The model gets a note that there was one. Many models reject a conversation that has an image.
    #[default]
    Describe,
    /// They go to the model.
    Pass,
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
    /// The servers that did not answer.
    pub unreached: Vec<UnreachedMcpServer>,
}

/// A server that did not answer yet.
pub struct UnreachedMcpServer {
    connection: Arc<McpConnection>,
}

/// A server that answers now, with what it has.
pub struct ReachedMcpServer {
    connection: Arc<McpConnection>,
    tools: Vec<rmcp::model::Tool>,
    offers: McpOffers,
}

/// Something about a server that people should know. The text names the server or its tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpProblem {
    /// What, in Korean.
    pub ko: String,
    /// The same in English.
    pub en: String,
}

/// Connects to every server, side by side, and takes their tools. A server that does not answer is a problem, not an
/// error: the others are there.
pub async fn connect_servers(servers: Vec<McpServer>, pins: &ToolPins) -> McpDiscovery {
    let mut found = McpDiscovery { pins: pins.clone(), ..McpDiscovery::default() };
    let connecting = servers.into_iter().map(|server| async move {
        if !pin::is_server_name(&server.name) {
            return Err((bad_server_name(&server.name), None));
        }
        let server = UnreachedMcpServer { connection: Arc::new(McpConnection::new(server)) };
        server.try_to_reach().await.map_err(|error| {
            (McpProblem { ko: error.korean_message(), en: error.english_message() }, Some(server))
        })
    });
    for answer in futures_util::future::join_all(connecting).await {
        match answer {
            Ok(reached) => reached.add_tools(&mut found),
            Err((problem, unreached)) => {
                found.problems.push(problem);
                found.unreached.extend(unreached);
            }
        }
    }
    found
}

impl UnreachedMcpServer {
    /// What the settings call it.
    pub fn name(&self) -> &str {
        self.connection.name()
    }

    /// Tries until the server answers, after an ever longer delay of at most a minute.
    pub async fn reach(self) -> ReachedMcpServer {
        loop {
            match self.try_to_reach().await {
                Ok(reached) => return reached,
                Err(McpServerError::LeftAlone { seconds, .. }) => {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                }
                Err(error) => {
                    tracing::debug!(server = self.name(), "{}", error.english_message());
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    async fn try_to_reach(&self) -> Result<ReachedMcpServer, McpServerError> {
        let (tools, offers) = self.connection.list_tools().await?;
        Ok(ReachedMcpServer { connection: self.connection.clone(), tools, offers })
    }
}

impl ReachedMcpServer {
    /// Its tools, compared with these pins.
    pub fn discover(self, pins: &ToolPins) -> McpDiscovery {
        let mut found = McpDiscovery { pins: pins.clone(), ..McpDiscovery::default() };
        self.add_tools(&mut found);
        found
    }

    fn add_tools(self, found: &mut McpDiscovery) {
        add_server_tools(found, &self.connection, self.tools);
        let mut more: Vec<Arc<dyn Tool>> = Vec::new();
        if self.offers.resources {
            more.push(Arc::new(McpResources::new(self.connection.clone())));
        }
        if self.offers.prompts {
            more.push(Arc::new(McpPrompts::new(self.connection.clone())));
        }
        // A tool of the server that has one of these names stays.
        let is_new = |tool: &Arc<dyn Tool>| {
            found.tools.iter().all(|known| known.info().spec.name != tool.info().spec.name)
        };
        more.retain(is_new);
        found.tools.extend(more);
    }
}

fn bad_server_name(name: &str) -> McpProblem {
    McpProblem {
        ko: format!("`{name}`: MCP 서버의 이름은 영문자, 숫자, `-`로 24자 이하여야 합니다"),
        en: format!("`{name}`: the name of an MCP server is at most 24 ASCII letters, digits and `-`"),
    }
}

fn add_server_tools(
    found: &mut McpDiscovery,
    connection: &Arc<McpConnection>,
    listed: Vec<rmcp::model::Tool>,
) {
    for tool in listed {
        let claim = pin::ToolClaim::from_tool(&tool);
        let remote = match McpTool::new(connection.clone(), &tool) {
            Ok(remote) => remote,
            Err((ko, en)) => {
                found.problems.push(McpProblem { ko, en });
                continue;
            }
        };
        let name = &remote.spec().name;
        if found.tools.iter().any(|known| known.info().spec.name == *name) {
            found.problems.push(McpProblem {
                ko: format!("MCP 도구 `{name}`이(가) 둘이라 하나만 씁니다"),
                en: format!("there are two MCP tools `{name}`; only the first is used"),
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
                    ko: format!("MCP 도구 `{name}`의 이름, 설명 또는 인자가 바뀌어, 다시 승인할 때까지 쓰지 않습니다"),
                    en: format!("the MCP tool `{name}` has changed its description or arguments; it is refused until it is approved again"),
                });
                remote.into_refused()
            }
        };
        found.tools.push(Arc::new(remote));
    }
}
