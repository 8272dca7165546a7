//! Doran's own encoder, whose weights are compiled in, as an embedder for the indexes.

use async_trait::async_trait;
use doran_encoder::{EncoderFileError, TextEncoder, TextSide};
use doran_llm::{Embedder, EmbedderInfo, EmbeddingSide, ModelError};

use crate::score_fusion::BUILT_IN_PROVIDER;

/// The encoder that is compiled in. It needs no server, no key and no download.
///
/// The methods compute on the calling thread, a few milliseconds a text. As an [`Embedder`] it computes on a thread for
/// blocking work.
#[derive(Clone, Copy)]
pub struct BuiltInEncoder(&'static TextEncoder);

impl BuiltInEncoder {
    /// Returns the encoder. The first call reads the weights.
    pub fn open() -> Result<Self, &'static EncoderFileError> {
        TextEncoder::built_in().map(Self)
    }

    /// Returns the vector of a question. Its length is 1.
    pub fn embed_query(&self, text: &str) -> Vec<f32> {
        self.0.encode(text, TextSide::Query)
    }

    /// Returns the vectors of texts that are searched, in order. The dot product with the vector of a question says how
    /// near they are in meaning.
    pub fn embed_passages<T: AsRef<str>>(&self, texts: &[T]) -> Vec<Vec<f32>> {
        self.0.encode_all(texts, TextSide::Passage)
    }
}

#[async_trait]
impl Embedder for BuiltInEncoder {
    fn info(&self) -> EmbedderInfo {
        // Other weights give other vectors, so their hash is part of the name.
        let id = format!("{BUILT_IN_PROVIDER}:{}", self.0.weights_hash());
        EmbedderInfo { id, dimension: self.0.dimension(), multilingual: true }
    }

    async fn embed(&self, texts: &[String], side: EmbeddingSide) -> Result<Vec<Vec<f32>>, ModelError> {
        let (encoder, texts) = (*self, texts.to_vec());
        let side = match side {
            EmbeddingSide::Query => TextSide::Query,
            EmbeddingSide::Passage => TextSide::Passage,
        };
        tokio::task::spawn_blocking(move || encoder.0.encode_all(&texts, side))
            .await
            .map_err(|error| ModelError::Broken { reason: format!("the encoder stopped: {error}") })
    }
}
