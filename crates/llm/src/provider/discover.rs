//! Looks for models on this machine, at the ports where their servers usually listen.

use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::Value;

use super::vendors::{VENDORS, Vendor, vendor};
use super::{ModelConfig, ModelId, Reached};
use crate::error::ModelError;
use crate::http::{Http, Limits, Secret, Timeouts, address};

/// A server that answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The vendor whose port it listens on.
    pub provider: &'static str,
    /// Where it is.
    pub base_url: String,
    /// The models it offers, by name.
    pub models: Vec<String>,
    /// Whether it is still loading its model and cannot answer yet.
    pub loading: bool,
}

/// A server on this machine answers at once or not at all.
const PATIENCE: Duration = Duration::from_millis(400);

/// Asks every usual port on `127.0.0.1` and `::1`, all at once. What does not answer quickly is not there.
pub async fn discover() -> Vec<Found> {
    let places = VENDORS.iter().filter(|vendor| vendor.base_url.starts_with("http://127.0.0.1:"));
    let asked = places.flat_map(|vendor| {
        let six = vendor.base_url.replace("127.0.0.1", "[::1]");
        [vendor.base_url.to_owned(), six].map(|base_url| ask(vendor, base_url))
    });
    let mut found: Vec<Found> = join_all(asked).await.into_iter().flatten().collect();
    // The same server usually listens on both.
    found.dedup_by(|second, first| first.provider == second.provider && first.models == second.models);
    found
}

/// Asks an address that a person named, such as `http://127.0.0.1:9000`. Whose server it is, the server tells.
pub async fn discover_at(base_url: &str) -> Result<Found, super::OpenError> {
    let base_url = base_url.trim_end_matches('/');
    let bare = address(base_url)?.path() == "/";
    let base_url = if bare { format!("{base_url}/v1") } else { base_url.to_owned() };
    let timeouts = Timeouts { connect: 5 * PATIENCE, first_byte: 5 * PATIENCE, idle: 5 * PATIENCE };
    Ok(found("openai-compatible", base_url, timeouts).await?)
}

/// Asks one address whether a server of this vendor is there.
async fn ask(vendor: &'static Vendor, base_url: String) -> Option<Found> {
    let timeouts = Timeouts { connect: PATIENCE, first_byte: PATIENCE, idle: PATIENCE };
    found(vendor.id, base_url, timeouts).await.ok()
}

async fn found(provider: &'static str, base_url: String, timeouts: Timeouts) -> Result<Found, ModelError> {
    let limits = Limits { body_bytes: 1 << 20, ..Limits::default() };
    let http = Http::new(&base_url, Secret::none(), &[], &[], timeouts, limits)?;
    match listed(&http, &base_url).await {
        Ok(Listing { names, owner }) => {
            let provider = owner.as_deref().and_then(of_owner).unwrap_or(provider);
            Ok(Found { provider, base_url, models: names, loading: false })
        }
        // What llama.cpp says until its model is in memory.
        Err(ModelError::Unavailable { reason, .. }) if reason.contains("Loading model") => {
            Ok(Found { provider: "llamacpp", base_url, models: Vec::new(), loading: true })
        }
        Err(error) => Err(error),
    }
}

/// Whose server writes this into `owned_by`.
fn of_owner(owner: &str) -> Option<&'static str> {
    match owner {
        "llamacpp" => Some("llamacpp"),
        "vllm" => Some("vllm"),
        "library" => Some("ollama"),
        "organization_owner" => Some("lmstudio"),
        _ => None,
    }
}

/// The models that a server offers, by name. For `openai-compatible` and Azure the address is in the settings.
pub async fn list_models(config: &ModelConfig, secret: Secret) -> Result<Vec<String>, super::OpenError> {
    let reached = Reached::by(config, secret)?;
    let http = reached.http(config)?;
    Ok(listed(&http, &reached.base_url).await?.names)
}

/// What a server says about its models.
#[derive(Debug, PartialEq, Eq)]
struct Listing {
    names: Vec<String>,
    /// Who owns the first of them.
    owner: Option<String>,
}

async fn listed(http: &Http, base_url: &str) -> Result<Listing, ModelError> {
    let body = http.get(format!("{base_url}/models")).await?.whole(1 << 20).await?;
    listing(&body).ok_or_else(|| ModelError::Rejected { reason: "the server has no list of models".into() })
}

/// A list of models: names under `data` as OpenAI has it, under `models` as Google has it. A list of our own
/// agents is not one: this program speaks the same dialect, and would find itself.
fn listing(body: &[u8]) -> Option<Listing> {
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
    Some(Listing { names, owner: rows.first().and_then(owner) })
}

impl Found {
    /// The name of one of its models.
    pub fn id(&self, model: &str) -> ModelId {
        let usual = vendor(self.provider).is_some_and(|vendor| vendor.base_url == self.base_url);
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
        let read = |text: &str| listing(text.as_bytes()).map(|listing| listing.names);
        let both = r#"{"models":[{"name":"x"}],"object":"list","data":[{"id":"b"},{"id":"a"}]}"#;
        assert_eq!(read(both), Some(vec!["a".into(), "b".into()]));
        assert_eq!(read(r#"{"models":[{"name":"models/gemini-x"}]}"#), Some(vec!["gemini-x".into()]));
        assert_eq!(read(r#"{"data":[{"id":"assistant","owned_by":"doran"}]}"#), None);
        assert_eq!(read("<html>"), None);
    }
}
