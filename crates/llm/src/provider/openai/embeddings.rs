//! Embeddings from any server with the OpenAI `/embeddings` API.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::embed::{Embedder, EmbedderInfo, EmbeddingSide};
use crate::error::ModelError;
use crate::http::{ModelApiKey, ModelHttpClient, ModelHttpRequest};
use crate::provider::{DialectKind, ModelConfig, OpenModelError, ResolvedProvider};
use crate::retry::ModelRetryPolicy;

/// The number of texts in one request, which most servers allow.
const MAX_TEXTS_PER_REQUEST: usize = 64;

/// An embedder behind HTTP.
#[derive(Debug)]
pub struct HttpEmbedder {
    http: ModelHttpClient,
    url: String,
    model: String,
    about: EmbedderInfo,
    prefixes: EmbeddingPrefixes,
    retries: ModelRetryPolicy,
}

/// The prefixes that a model expects before a query and before a passage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct EmbeddingPrefixes {
    query: &'static str,
    passage: &'static str,
}

impl HttpEmbedder {
    /// Opens an embedder and sends one request to learn the dimension of its vectors.
    pub async fn open(
        config: &ModelConfig,
        secret: ModelApiKey,
        retries: ModelRetryPolicy,
    ) -> Result<Self, OpenModelError> {
        let reached = ResolvedProvider::resolve(config, secret)?;
        if reached.vendor.dialect != DialectKind::Chat {
            let reason = format!("`{}` has no embeddings in OpenAI's dialect", config.id.provider);
            return Err(ModelError::Rejected { reason }.into());
        }
        let model = config.id.model.clone();
        let mut embedder = Self {
            http: reached.http_client(config)?,
            url: format!("{}/embeddings", reached.base_url),
            about: EmbedderInfo { id: config.id.to_string(), dimension: 0, multilingual: true },
            prefixes: EmbeddingPrefixes::for_model(&model),
            model,
            retries,
        };
        let probe = embedder.embed_batch_with_retries(&["차원".to_owned()]).await?;
        embedder.about.dimension = probe[0].len();
        Ok(embedder)
    }

    /// Sends one request and retries it while that may help.
    async fn embed_batch_with_retries(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        let began = Instant::now();
        let mut sent = 0_u32;
        loop {
            sent += 1;
            let error = match self.embed_batch(texts).await {
                Ok(vectors) => return Ok(vectors),
                Err(error) => error,
            };
            let Some(wait) = self.retries.wait_before_next(sent, began.elapsed(), &error) else {
                return Err(error);
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn embed_batch(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        let body = json!({ "model": self.model, "input": texts, "encoding_format": "float" })
            .to_string()
            .into_bytes();
        let mut answer = self.http.post(ModelHttpRequest { url: self.url.clone(), body }).await?;
        let body = answer.read_body(self.http.limits.body_bytes).await?;
        let wire: EmbeddingsResponse = serde_json::from_slice(&body)
            .map_err(|_| ModelError::Broken { reason: "the vectors could not be read".into() })?;
        normalized_vectors(wire, texts.len(), self.about.dimension)
    }
}

#[async_trait]
impl Embedder for HttpEmbedder {
    fn info(&self) -> EmbedderInfo {
        self.about.clone()
    }

    async fn embed(&self, texts: &[String], side: EmbeddingSide) -> Result<Vec<Vec<f32>>, ModelError> {
        let prefix = match side {
            EmbeddingSide::Query => self.prefixes.query,
            EmbeddingSide::Passage => self.prefixes.passage,
        };
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(MAX_TEXTS_PER_REQUEST) {
            // Servers reject an empty text, so a space is sent instead.
            let batch: Vec<String> = batch
                .iter()
                .map(|text| if text.trim().is_empty() { " ".to_owned() } else { format!("{prefix}{text}") })
                .collect();
            vectors.extend(self.embed_batch_with_retries(&batch).await?);
        }
        Ok(vectors)
    }
}

impl EmbeddingPrefixes {
    /// Returns the prefixes that the authors of a model family specify.
    fn for_model(model: &str) -> Self {
        let model = model.to_ascii_lowercase();
        if model.contains("e5-") && !model.contains("instruct") {
            Self { query: "query: ", passage: "passage: " }
        } else if model.contains("nomic-embed-text") {
            Self { query: "search_query: ", passage: "search_document: " }
        } else {
            Self::default()
        }
    }
}

#[derive(Deserialize)]
struct EmbeddingsResponse {
    data: Vec<EmbeddingsResponseRow>,
}

#[derive(Deserialize)]
struct EmbeddingsResponseRow {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// Returns the vectors in the order of their texts, each of length 1. A dimension of 0 means that it is not known yet.
fn normalized_vectors(
    wire: EmbeddingsResponse,
    wanted: usize,
    dimension: usize,
) -> Result<Vec<Vec<f32>>, ModelError> {
    let broken = |reason: String| Err(ModelError::Broken { reason });
    let mut rows = wire.data;
    if rows.len() != wanted {
        return broken(format!("{} vectors came for {wanted} texts", rows.len()));
    }
    if rows.iter().all(|row| row.index.is_some()) {
        rows.sort_by_key(|row| row.index);
    }
    let first = if dimension == 0 { rows.first().map_or(0, |row| row.embedding.len()) } else { dimension };
    let mut vectors = Vec::with_capacity(rows.len());
    for mut row in rows {
        if row.embedding.len() != first || first == 0 {
            let reason = format!("a vector has {} numbers instead of {first}", row.embedding.len());
            return Err(ModelError::Rejected { reason });
        }
        let length = row.embedding.iter().map(|number| number * number).sum::<f32>().sqrt();
        if !length.is_finite() || length == 0.0 {
            return broken("a vector has no direction".into());
        }
        row.embedding.iter_mut().for_each(|number| *number /= length);
        vectors.push(row.embedding);
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_vectors(json: &str, wanted: usize, dimension: usize, expected: &str) {
        let wire: EmbeddingsResponse = serde_json::from_str(json).expect("json");
        let outcome = match normalized_vectors(wire, wanted, dimension) {
            Ok(vectors) => format!("{vectors:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn vectors_come_in_order_and_of_length_one() {
        check_vectors(
            r#"{"data":[{"index":1,"embedding":[0,2]},{"index":0,"embedding":[3,4]}]}"#,
            2,
            2,
            "[[0.6, 0.8], [0.0, 1.0]]",
        );
    }

    #[test]
    fn vectors_that_cannot_be_used_are_refused() {
        let broke = "the answer of the model broke off: ";
        check_vectors(r#"{"data":[{"embedding":[1]}]}"#, 2, 1, &format!("{broke}1 vectors came for 2 texts"));
        check_vectors(
            r#"{"data":[{"embedding":[0,0]}]}"#,
            1,
            2,
            &format!("{broke}a vector has no direction"),
        );
        let refused = "the model does not take the request: a vector has 1 numbers instead of 2";
        check_vectors(r#"{"data":[{"embedding":[1]}]}"#, 1, 2, refused);
    }
}
