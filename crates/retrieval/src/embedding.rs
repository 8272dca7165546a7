//! What indexes with vectors ask of an embedder, checked: a vector of the wrong size, or with a number that is none,
//! never reaches an index.

use doran_llm::{Embedder, EmbedderAbout, ModelError, Side};

use crate::passage::Passage;
use crate::retriever::RetrieveError;
use crate::text;
use crate::vector::Rows;

/// So many texts are embedded in one call.
const BATCH: usize = 64;
/// No question is embedded beyond so many bytes.
const LONGEST: usize = 8 * 1024;

/// Whether a text has words at all. One without is not looked for: every vector would be as near as any other.
pub(crate) fn says_something(text: &str) -> bool {
    let mut some = false;
    text::terms(&text[..text.floor_char_boundary(LONGEST)], |_, _, _| some = true);
    some
}

/// An embedder as an error names it.
pub(crate) fn named(about: Option<&EmbedderAbout>) -> String {
    match about {
        Some(about) => format!("`{}` ({} numbers)", about.id, about.dimension),
        None => "no embedder".to_owned(),
    }
}

/// The vector of a question.
pub(crate) async fn question(embedder: &dyn Embedder, text: &str) -> Result<Vec<f32>, RetrieveError> {
    let text = text[..text.floor_char_boundary(LONGEST)].to_owned();
    let mut vectors = embed(embedder, &[text], Side::Query).await?;
    vectors.pop().ok_or_else(|| odd("no vector"))
}

/// The vectors of passages, each with its title.
pub(crate) async fn passages(
    embedder: &dyn Embedder,
    passages: &[&Passage],
) -> Result<Vec<Vec<f32>>, RetrieveError> {
    let mut vectors = Vec::with_capacity(passages.len());
    for some in passages.chunks(BATCH) {
        let texts: Vec<String> =
            some.iter().map(|passage| format!("{}\n{}", passage.title, passage.text)).collect();
        vectors.extend(embed(embedder, &texts, Side::Passage).await?);
    }
    Ok(vectors)
}

/// The vectors of passages as the bytes of rows.
pub(crate) async fn rows(embedder: &dyn Embedder, passages: &[&Passage]) -> Result<Vec<u8>, RetrieveError> {
    let vectors = self::passages(embedder, passages).await?;
    Rows::write(embedder.about().dimension, vectors.iter().map(Vec::as_slice))
        .ok_or_else(|| odd("odd vectors"))
}

async fn embed(
    embedder: &dyn Embedder,
    texts: &[String],
    side: Side,
) -> Result<Vec<Vec<f32>>, RetrieveError> {
    let about = embedder.about();
    let vectors = embedder.embed(texts, side).await.map_err(|error| failed(&about.id, error))?;
    if vectors.len() != texts.len() {
        return Err(odd(&format!("{} vectors for {} texts", vectors.len(), texts.len())));
    }
    for vector in &vectors {
        if vector.len() != about.dimension {
            return Err(odd(&format!("a vector of {} numbers instead of {}", vector.len(), about.dimension)));
        }
        if vector.iter().any(|number| !number.is_finite()) {
            return Err(odd("a vector with a number that is none"));
        }
    }
    Ok(vectors)
}

fn failed(id: &str, error: ModelError) -> RetrieveError {
    RetrieveError::Unavailable {
        reason: format!("the embedder `{id}` does not answer"),
        source: Some(Box::new(error)),
    }
}

fn odd(what: &str) -> RetrieveError {
    RetrieveError::Unavailable { reason: format!("the embedder gave {what}"), source: None }
}
