//! `doran doctor --ready`: asks the running server alone whether it is ready. Containers without a shell use it as their
//! health check.

use serde_json::Value;

use crate::agent_client;
use crate::client::ServerHttpClient;
use crate::config::Config;

/// Returns an error with the reason if the server is not ready, or if there is none at `listen`.
pub(super) async fn check_server_is_ready(config: &Config) -> anyhow::Result<()> {
    let server = agent_client::running_server(config);
    let server = server.unwrap_or_else(|| ServerHttpClient::new(config.listen, None));
    server.get::<Value>("/readyz").await.map(drop)
}
