//! `doran mcp`: speaks the Model Context Protocol on standard input and output.
//!
//! The messages go to the server that has the data directory. Where there is none, this process starts one, so that several
//! MCP hosts and other commands can use the same data directory at a time.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};

use doran_agents::tools::{ToolSecret, mcp};
use tokio::sync::mpsc;

use super::serve::{RunningServer, bind_listener};
use crate::agent_client::running_server;
use crate::api_key_file::ApiKeyWatcher;
use crate::assemble::{self, RecordReplay};
use crate::client::ServerHttpClient;
use crate::config::Config;
use crate::exit;
use crate::output::{TerminalOutput, bilingual};

/// Lines of the host that wait to be passed on.
const MAX_WAITING_LINES: usize = 16;

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran mcp
  claude mcp add doran -- doran mcp        add Doran to Claude Code · Claude Code에 도란 추가
  npx @modelcontextprotocol/inspector doran mcp")]
pub(crate) struct McpArgs {
    #[command(flatten)]
    record_replay: RecordReplay,
}

/// Serves a host until it closes standard input.
pub(crate) async fn run(args: &McpArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    if let Some(client) = running_server(config) {
        return relay_to(&client).await;
    }
    let key_watcher = ApiKeyWatcher::open(config).await?;
    let listener = bind_listener(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &key_watcher.keys).await?;
    let mut app = assemble::assemble_app_reading_documents(config, &args.record_replay).await?;
    app.notes.iter().for_each(|note| output.print_message(note));
    let serving = RunningServer::start(&mut app, listener, config, key_watcher).await?;
    let ended = tokio::select! {
        ended = relay_to(&serving.client) => ended,
        stopped = exit::wait_for_stop_signal() => stopped.map(drop),
        error = app.wait_for_fatal_error() => Err(error.into()),
    };
    serving.shut_down(&app).await?;
    ended
}

/// Passes messages between the host and a server, until the host ends.
async fn relay_to(client: &ServerHttpClient) -> anyhow::Result<()> {
    let (lines, waiting) = mpsc::channel(MAX_WAITING_LINES);
    // A thread of its own: nothing waits for it when the program ends.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if !line.trim().is_empty() && lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    let write_line = |line: &str| {
        let mut output = std::io::stdout().lock();
        output.write_all(line.as_bytes())?;
        output.write_all(b"\n")?;
        output.flush()
    };
    let headers = client.key().map(|key| ("Authorization".to_owned(), bearer(key)));
    let headers: BTreeMap<String, ToolSecret> = headers.into_iter().collect();
    let url = format!("http://{}/mcp", client.address);
    mcp::relay(waiting, write_line, &url, &headers).await.map_err(|error| {
        bilingual!("MCP 연결이 끝났습니다", "the MCP connection ended").with_cause(error).into()
    })
}

fn bearer(key: &str) -> ToolSecret {
    ToolSecret::new(format!("Bearer {key}"))
}
