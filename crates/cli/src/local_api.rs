//! The HTTP API for one command: that of the server that has the data directory, or of one that is started on a free port of
//! this machine and stopped again.

use crate::agent_client;
use crate::api_key_file::ApiKeyWatcher;
use crate::assemble::{self, App, RecordReplay};
use crate::client::ServerHttpClient;
use crate::commands::serve::{RunningServer, bind_listener};
use crate::config::Config;

/// A server, and the application behind it if it was started here.
pub(crate) struct LocalApi {
    pub(crate) client: ServerHttpClient,
    started: Option<(RunningServer, App)>,
}

impl LocalApi {
    /// Finds the server, or starts one.
    pub(crate) async fn open(config: &Config) -> anyhow::Result<Self> {
        if let Some(client) = agent_client::running_server(config) {
            return Ok(Self { client, started: None });
        }
        let key_watcher = ApiKeyWatcher::open(config).await?;
        let listener = bind_listener(([127, 0, 0, 1], 0).into(), &key_watcher.keys).await?;
        let mut app = assemble::assemble_app(config, &RecordReplay::default()).await?;
        let server = RunningServer::start(&mut app, listener, config, key_watcher).await?;
        Ok(Self { client: server.client.clone(), started: Some((server, app)) })
    }

    /// Stops the server if it was started here.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        match self.started {
            Some((server, app)) => server.shut_down(&app).await,
            None => Ok(()),
        }
    }
}
