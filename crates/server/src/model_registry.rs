//! The models that chats can choose, and what an administrator may change about them. The program implements
//! [`ModelRegistry`]; this crate neither opens models nor stores keys.

use std::fmt;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::{ModelOffers, ModelOption, ModelTest};

/// The models of a server.
pub trait ModelRegistry: Send + Sync + 'static {
    /// The models that a chat can choose. The default comes first.
    fn options(&self) -> Vec<ModelOption>;

    /// Model servers on this machine and providers whose key is known.
    fn offers(&self) -> BoxFuture<'_, ModelOffers>;

    /// The ids of the models of a provider.
    fn provider_models<'a>(
        &'a self,
        provider: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, ModelRegistryError>>;

    /// Sends a short message to a model.
    fn test<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<ModelTest, ModelRegistryError>>;

    /// Lets chats choose a model.
    fn add(&self, model: &str) -> Result<(), ModelRegistryError>;

    /// Takes an added model away.
    fn remove(&self, model: &str) -> Result<(), ModelRegistryError>;

    /// Makes a model the default, now and after a restart.
    fn set_default(&self, model: &str) -> Result<(), ModelRegistryError>;

    /// Stores the key of a provider, encrypted.
    fn set_key(&self, provider: &str, key: &SubmittedModelKey) -> Result<(), ModelRegistryError>;

    /// Deletes the stored key of a provider.
    fn remove_key(&self, provider: &str) -> Result<(), ModelRegistryError>;
}

/// Why a model or a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRegistryError {
    /// In English.
    pub en: String,
    /// In Korean.
    pub ko: String,
}

/// The key of a provider, as a client sent it. It prints nothing.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SubmittedModelKey(#[schemars(length(min = 1, max = 1000))] String);

impl SubmittedModelKey {
    /// The key itself, for the one place that stores it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SubmittedModelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubmittedModelKey(…)")
    }
}
