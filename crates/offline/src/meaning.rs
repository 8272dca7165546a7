//! How near texts are to a question in meaning, and how well they answer it. The vector of a passage is kept for the next
//! question.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use doran_encoder::{AnswerCandidate, AnswerScorer};
use doran_retrieval::BuiltInEncoder;

/// The most vectors that are kept, about 6 MB with their texts.
const MAX_KEPT_VECTORS: usize = 4096;

/// Longer texts are not kept.
const MAX_KEPT_TEXT_BYTES: usize = 2048;

/// Vectors by their texts. A vector depends on nothing else, so it does not matter whose text it was.
static KEPT: Mutex<Option<HashMap<String, Vec<f32>>>> = Mutex::new(None);

/// How near each text is to the question, at most 1. Without the encoder, which is compiled in, all are as near.
pub(super) fn nearness(question: &str, texts: Vec<String>) -> Vec<f64> {
    let Ok(encoder) = BuiltInEncoder::open() else { return vec![0.0; texts.len()] };
    let asked = encoder.embed_query(question);
    let near =
        |vector: &[f32]| vector.iter().zip(&asked).map(|(left, right)| f64::from(left * right)).sum::<f64>();
    let mut found: Vec<Option<f64>> = {
        let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let vector = |text: &String| kept.as_ref().and_then(|kept| kept.get(text)).map(|vector| near(vector));
        texts.iter().map(vector).collect()
    };
    let (places, missing): (Vec<usize>, Vec<String>) =
        texts.into_iter().enumerate().filter(|(at, _)| found[*at].is_none()).unzip();
    // The lock is not held while the encoder works.
    let vectors = encoder.embed_passages(&missing);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_default();
    for ((at, text), vector) in places.into_iter().zip(missing).zip(vectors) {
        found[at] = Some(near(&vector));
        if kept.len() >= MAX_KEPT_VECTORS {
            kept.clear();
        }
        if text.len() <= MAX_KEPT_TEXT_BYTES {
            kept.insert(text, vector);
        }
    }
    found.into_iter().map(Option::unwrap_or_default).collect()
}

/// How well each candidate answers the question. Without the scorer, which is compiled in, there are no scores.
pub(super) fn answer_scores(question: &str, candidates: &[AnswerCandidate<'_>]) -> Vec<f64> {
    let Ok(scorer) = AnswerScorer::built_in() else { return Vec::new() };
    scorer.score(question, candidates).into_iter().map(f64::from).collect()
}
