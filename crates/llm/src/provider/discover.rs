//! Looks for models on this machine, at the ports where their servers usually listen.

use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::Value;

use super::vendors::{VENDORS, Vendor, vendor};
use super::{ModelConfig, ModelId, Reached};
use crate::error::ModelError;
use crate::http::{Http, Limits, Secret, Timeouts};

/// A server that answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The vendor whose port it listens on.
    pub provider: &'static str,
    /// Where it is.
    pub base_url: String,
    /// The models it offers, by name.
    pub models: Vec<String>,
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

/// Asks one address whether a server of this vendor is there.
async fn ask(vendor: &'static Vendor, base_url: String) -> Option<Found> {
    let timeouts = Timeouts { connect: PATIENCE, first_byte: PATIENCE, idle: PATIENCE };
    let limits = Limits { body_bytes: 1 << 20, ..Limits::default() };
    let http = Http::new(&base_url, Secret::none(), &[], &[], timeouts, limits).ok()?;
    let models = listed(&http, &base_url).await.ok()?;
    Some(Found { provider: vendor.id, base_url, models })
}

/// The models that a server offers, by name. For `openai-compatible` and Azure the address is in the settings.
pub async fn list_models(config: &ModelConfig, secret: Secret) -> Result<Vec<String>, super::OpenError> {
    let reached = Reached::by(config, secret)?;
    let http = reached.http(config)?;
    Ok(listed(&http, &reached.base_url).await?)
}

async fn listed(http: &Http, base_url: &str) -> Result<Vec<String>, ModelError> {
    let body = http.get(format!("{base_url}/models")).await?.whole(1 << 20).await?;
    names(&body).ok_or_else(|| ModelError::Rejected { reason: "the server has no list of models".into() })
}

/// The names in a list of models: under `data` as OpenAI has it, under `models` as Google has it. A list of our own
/// agents is not one: this program speaks the same dialect, and would find itself.
fn names(body: &[u8]) -> Option<Vec<String>> {
    let listing: Value = serde_json::from_slice(body).ok()?;
    let rows = listing.get("data").or_else(|| listing.get("models"))?.as_array()?;
    if rows.iter().any(|row| row.get("owned_by").and_then(Value::as_str) == Some("doran")) {
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
    Some(names)
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
        let read = |text: &str| names(text.as_bytes());
        let both = r#"{"models":[{"name":"x"}],"object":"list","data":[{"id":"b"},{"id":"a"}]}"#;
        assert_eq!(read(both), Some(vec!["a".into(), "b".into()]));
        assert_eq!(read(r#"{"models":[{"name":"models/gemini-x"}]}"#), Some(vec!["gemini-x".into()]));
        assert_eq!(read(r#"{"data":[{"id":"assistant","owned_by":"doran"}]}"#), None);
        assert_eq!(read("<html>"), None);
    }
}
