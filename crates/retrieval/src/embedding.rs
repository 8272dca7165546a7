//! Calls an embedder for the vector indexes and checks its vectors. A vector of the wrong size, or one with a value
//! that is not finite, is an error and never reaches an index.

use doran_llm::{Embedder, EmbedderInfo, EmbeddingSide, ModelError};

use crate::passage::Passage;
use crate::retriever::RetrieveError;
use crate::text_analysis;

/// The number of texts that are embedded in one call.
const EMBEDDING_BATCH_TEXTS: usize = 64;
/// A query is cut to this many bytes before it is embedded.
const MAX_EMBEDDED_QUERY_BYTES: usize = 8 * 1024;

/// Returns whether a text contains any words. A text without words is not searched for, because its vector has no meaning.
pub(crate) fn has_terms(text: &str) -> bool {
    let mut some = false;
    text_analysis::for_each_term(&text[..text.floor_char_boundary(MAX_EMBEDDED_QUERY_BYTES)], |_, _, _| {
        some = true;
    });
    some
}

/// Describes an embedder for an error message.
pub(crate) fn describe_embedder(about: Option<&EmbedderInfo>) -> String {
    match about {
        Some(about) => format!("`{}` ({} numbers)", about.id, about.dimension),
        None => "no embedder".to_owned(),
    }
}

/// Embeds a query.
pub(crate) async fn embed_query(embedder: &dyn Embedder, text: &str) -> Result<Vec<f32>, RetrieveError> {
    let text = text[..text.floor_char_boundary(MAX_EMBEDDED_QUERY_BYTES)].to_owned();
    let mut vectors = embed_checked(embedder, &[text], EmbeddingSide::Query).await?;
    vectors.pop().ok_or_else(|| invalid_embedding_error("no vector"))
}

/// Embeds passages, each together with its title.
pub(crate) async fn embed_passages(
    embedder: &dyn Embedder,
    passages: &[&Passage],
) -> Result<Vec<Vec<f32>>, RetrieveError> {
    let mut vectors = Vec::with_capacity(passages.len());
    for some in passages.chunks(EMBEDDING_BATCH_TEXTS) {
        let texts: Vec<String> =
            some.iter().map(|passage| format!("{}\n{}", passage.title, passage.text)).collect();
        vectors.extend(embed_checked(embedder, &texts, EmbeddingSide::Passage).await?);
    }
    Ok(vectors)
}

async fn embed_checked(
    embedder: &dyn Embedder,
    texts: &[String],
    side: EmbeddingSide,
) -> Result<Vec<Vec<f32>>, RetrieveError> {
    let about = embedder.info();
    let vectors = embedder.embed(texts, side).await.map_err(|error| embedder_error(&about.id, error))?;
    if vectors.len() != texts.len() {
        return Err(invalid_embedding_error(&format!("{} vectors for {} texts", vectors.len(), texts.len())));
    }
    for vector in &vectors {
        if vector.len() != about.dimension {
            return Err(invalid_embedding_error(&format!(
                "a vector of {} numbers instead of {}",
                vector.len(),
                about.dimension
            )));
        }
        if vector.iter().any(|number| !number.is_finite()) {
            return Err(invalid_embedding_error("a vector with a number that is none"));
        }
    }
    Ok(vectors)
}

fn embedder_error(id: &str, error: ModelError) -> RetrieveError {
    RetrieveError::Unavailable {
        reason: format!("the embedder `{id}` does not answer"),
        source: Some(Box::new(error)),
    }
}

fn invalid_embedding_error(what: &str) -> RetrieveError {
    RetrieveError::Unavailable { reason: format!("the embedder gave {what}"), source: None }
}
