//! Discovers model servers on this machine, at their usual ports.

use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::Value;

use super::vendors::{VENDORS, Vendor, find_vendor};
use super::{ModelConfig, ModelId, ResolvedProvider};
use crate::error::ModelError;
use crate::http::{ModelApiKey, ModelHttpClient, ModelResponseLimits, ModelTimeouts, parse_server_url};

/// A server that answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiscoveredServer {
    /// The vendor whose port it listens on.
    pub provider: &'static str,
    /// Its URL.
    pub base_url: String,
    /// The names of its models.
    pub models: Vec<String>,
    /// Whether it is still loading its model and cannot answer yet.
    pub loading: bool,
}

/// A local server answers at once or not at all.
const PROBE_TIMEOUT: Duration = Duration::from_millis(400);

/// Probes every usual port on `127.0.0.1` and `::1` in parallel. A server that does not answer quickly is left out.
pub async fn discover_local_servers() -> Vec<DiscoveredServer> {
    let places = VENDORS.iter().filter(|vendor| vendor.base_url.starts_with("http://127.0.0.1:"));
    let lookups = places.flat_map(|vendor| {
        let six = vendor.base_url.replace("127.0.0.1", "[::1]");
        [vendor.base_url.to_owned(), six].map(|base_url| probe_vendor(vendor, base_url))
    });
    let mut found: Vec<DiscoveredServer> = join_all(lookups).await.into_iter().flatten().collect();
    // The same server usually listens on both addresses.
    found.dedup_by(|second, first| first.provider == second.provider && first.models == second.models);
    found
}

/// Probes a URL that a person named, such as `http://127.0.0.1:9000`. The vendor is taken from the server's answer.
pub async fn discover_server_at(base_url: &str) -> Result<DiscoveredServer, super::OpenModelError> {
    let base_url = base_url.trim_end_matches('/');
    let bare = parse_server_url(base_url)?.path() == "/";
    let base_url = if bare { format!("{base_url}/v1") } else { base_url.to_owned() };
    let timeouts =
        ModelTimeouts { connect: 5 * PROBE_TIMEOUT, first_byte: 5 * PROBE_TIMEOUT, idle: 5 * PROBE_TIMEOUT };
    Ok(probe_server("openai-compatible", base_url, timeouts).await?)
}

/// Probes a URL for a server of this vendor.
async fn probe_vendor(vendor: &'static Vendor, base_url: String) -> Option<DiscoveredServer> {
    let timeouts = ModelTimeouts { connect: PROBE_TIMEOUT, first_byte: PROBE_TIMEOUT, idle: PROBE_TIMEOUT };
    probe_server(vendor.id, base_url, timeouts).await.ok()
}

async fn probe_server(
    provider: &'static str,
    base_url: String,
    timeouts: ModelTimeouts,
) -> Result<DiscoveredServer, ModelError> {
    let limits = ModelResponseLimits { body_bytes: 1 << 20, ..ModelResponseLimits::default() };
    let http = ModelHttpClient::new(&base_url, ModelApiKey::none(), &[], &[], timeouts, limits)?;
    match fetch_model_listing(&http, &base_url).await {
        Ok(ModelListing { names, owner }) => {
            let provider = owner.as_deref().and_then(provider_of_owner).unwrap_or(provider);
            Ok(DiscoveredServer { provider, base_url, models: names, loading: false })
        }
        // llama.cpp returns this until its model is loaded.
        Err(ModelError::Unavailable { reason, .. }) if reason.contains("Loading model") => {
            Ok(DiscoveredServer { provider: "llamacpp", base_url, models: Vec::new(), loading: true })
        }
        Err(error) => Err(error),
    }
}

/// Returns the vendor whose servers write this into `owned_by`.
fn provider_of_owner(owner: &str) -> Option<&'static str> {
    match owner {
        "llamacpp" => Some("llamacpp"),
        "vllm" => Some("vllm"),
        "library" => Some("ollama"),
        "organization_owner" => Some("lmstudio"),
        _ => None,
    }
}

/// Lists the models of a server by name. For `openai-compatible` and Azure the URL is in the settings.
pub async fn list_models(
    config: &ModelConfig,
    secret: ModelApiKey,
) -> Result<Vec<String>, super::OpenModelError> {
    let reached = ResolvedProvider::resolve(config, secret)?;
    let http = reached.http_client(config)?;
    Ok(fetch_model_listing(&http, &reached.base_url).await?.names)
}

/// The model list of a server.
#[derive(Debug, PartialEq, Eq)]
struct ModelListing {
    names: Vec<String>,
    /// The owner of the first model.
    owner: Option<String>,
}

async fn fetch_model_listing(http: &ModelHttpClient, base_url: &str) -> Result<ModelListing, ModelError> {
    let body = http.get(format!("{base_url}/models")).await?.read_body(1 << 20).await?;
    parse_model_listing(&body)
        .ok_or_else(|| ModelError::Rejected { reason: "the server has no list of models".into() })
}

/// Parses a model list: names under `data` as OpenAI does it, or under `models` as Google does. The agent list of this
/// program is rejected: it uses the same format, and the program would discover itself.
fn parse_model_listing(body: &[u8]) -> Option<ModelListing> {
    let listing: Value = serde_json::from_slice(body).ok()?;
    let rows = listing.get("data").or_else(|| listing.get("models"))?.as_array()?;
    let owner = |row: &Value| row.get("owned_by").and_then(Value::as_str).map(str::to_owned);
    if rows.iter().any(|row| owner(row).as_deref() == Some("doran")) {
        return None;
    }
    let name = |row: &Value| row.get("id").or_else(|| row.get("name"))?.as_str().map(str::to_owned);
    let mut names: Vec<String> = rows.iter().filter_map(name).take(1_000).collect();
    names.iter_mut().for_each(|name| {
        if let Some(bare) = name.strip_prefix("models/") {
            *name = bare.to_owned();
        }
    });
    names.sort();
    Some(ModelListing { names, owner: rows.first().and_then(owner) })
}

impl DiscoveredServer {
    /// Returns the id of one of its models.
    pub fn model_id(&self, model: &str) -> ModelId {
        let usual = find_vendor(self.provider).is_some_and(|vendor| vendor.base_url == self.base_url);
        ModelId {
            provider: self.provider.to_owned(),
            model: model.to_owned(),
            base_url: (!usual).then(|| self.base_url.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_models_are_read_as_servers_write_them() {
        let read = |text: &str| parse_model_listing(text.as_bytes()).map(|listing| listing.names);
        let both = r#"{"models":[{"name":"x"}],"object":"list","data":[{"id":"b"},{"id":"a"}]}"#;
        assert_eq!(read(both), Some(vec!["a".into(), "b".into()]));
        assert_eq!(read(r#"{"models":[{"name":"models/gemini-x"}]}"#), Some(vec!["gemini-x".into()]));
        assert_eq!(read(r#"{"data":[{"id":"assistant","owned_by":"doran"}]}"#), None);
        assert_eq!(read("<html>"), None);
    }
}
