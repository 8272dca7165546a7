//! What is done around a search: the question put in other words, near copies left out, the best ranked again.
//!
//! [`Refined`] wraps any index. Without a [`Rewriter`] and a [`Reranker`] it only leaves out copies. Both are seams to
//! whoever can do it, such as a model; when one of them fails the search goes on without it, since a worse order is
//! better than no answer.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use crate::passage::{Document, DocumentId, Passage, PassageId, Tenant};
use crate::retriever::{Filter, Hit, Index, Listed, Question, RetrieveError, Retriever};
use crate::tidy::without_copies;

/// Puts a question in other words, as the documents may have it.
#[async_trait]
pub trait Rewriter: Send + Sync + 'static {
    /// Other wordings of a question, at most a few; none where the question is good as it is.
    async fn rewrite(&self, question: &str) -> Result<Vec<String>, RetrieveError>;
}

/// Ranks a short list again, with more care than a search over everything can take.
#[async_trait]
pub trait Reranker: Send + Sync + 'static {
    /// How well each passage answers the question, one number each, in order; larger is better.
    async fn scores(&self, question: &str, passages: &[&Passage]) -> Result<Vec<f64>, RetrieveError>;
}

/// So many other wordings are looked for.
const MOST_WORDINGS: usize = 3;
/// What a hit counts that only another wording found.
const REWORDED: f64 = 0.7;
/// So many times the wanted hits are asked for, so that enough are left without copies.
const SPARE: usize = 2;
/// So many of the best are ranked again.
const RERANKED: usize = 30;

/// An index with what is done around a search.
pub struct Refined {
    index: Arc<dyn Index>,
    rewriter: Option<Arc<dyn Rewriter>>,
    reranker: Option<Arc<dyn Reranker>>,
}

impl Refined {
    /// An index whose hits are no copies of each other.
    pub fn new(index: Arc<dyn Index>) -> Self {
        Self { index, rewriter: None, reranker: None }
    }

    /// Asks this one for other wordings.
    pub fn rewriter(self, rewriter: Arc<dyn Rewriter>) -> Self {
        Self { rewriter: Some(rewriter), ..self }
    }

    /// Lets this one rank the best again.
    pub fn reranker(self, reranker: Arc<dyn Reranker>) -> Self {
        Self { reranker: Some(reranker), ..self }
    }

    async fn wordings(&self, question: &str) -> Vec<String> {
        let Some(rewriter) = &self.rewriter else { return Vec::new() };
        match rewriter.rewrite(question).await {
            Ok(mut wordings) => {
                wordings.retain(|wording| wording != question && !wording.trim().is_empty());
                wordings.truncate(MOST_WORDINGS);
                wordings
            }
            Err(error) => {
                tracing::warn!(%error, "the question is searched as it is");
                Vec::new()
            }
        }
    }

    async fn reranked(&self, question: &str, hits: Vec<Hit>) -> Vec<Hit> {
        let Some(reranker) = &self.reranker else { return hits };
        let count = hits.len().min(RERANKED);
        let passages: Vec<&Passage> = hits[..count].iter().map(|hit| &hit.passage).collect();
        match reranker.scores(question, &passages).await {
            Ok(scores) if scores.len() == count && scores.iter().all(|score| score.is_finite()) => {
                let mut order: Vec<usize> = (0..count).collect();
                order.sort_by(|left, right| scores[*right].total_cmp(&scores[*left]));
                // A place keeps its score: what was ranked again stands above the rest as before.
                let places: Vec<f64> = hits[..count].iter().map(|hit| hit.score).collect();
                let moved =
                    order.into_iter().zip(places).map(|(at, score)| Hit { score, ..hits[at].clone() });
                moved.chain(hits[count..].iter().cloned()).collect()
            }
            Ok(scores) => {
                tracing::warn!(wanted = count, given = scores.len(), "odd scores; the order stays");
                hits
            }
            Err(error) => {
                tracing::warn!(%error, "the order stays as it was found");
                hits
            }
        }
    }
}

#[async_trait]
impl Retriever for Refined {
    async fn retrieve(&self, question: &Question) -> Result<Vec<Hit>, RetrieveError> {
        let limit = question.limit.saturating_mul(SPARE);
        let limit = if self.reranker.is_some() && question.limit > 0 { limit.max(RERANKED) } else { limit };
        let wider = Question { limit, ..question.clone() };
        let mut hits = self.index.retrieve(&wider).await?;
        for text in self.wordings(&question.text).await {
            let other = self.index.retrieve(&Question { text, ..wider.clone() }).await?;
            hits = joined(hits, other);
        }
        hits = self.reranked(&question.text, without_copies(hits)).await;
        hits.truncate(question.limit);
        Ok(hits)
    }
}

/// Both lists as one, each scaled to its best; what only the second has counts less.
fn joined(hits: Vec<Hit>, other: Vec<Hit>) -> Vec<Hit> {
    let best = |hits: &[Hit]| hits.first().map_or(1.0, |hit| hit.score).max(f64::MIN_POSITIVE);
    let scale = best(&hits) / best(&other);
    let mut places: HashMap<PassageId, usize> =
        hits.iter().enumerate().map(|(at, hit)| (hit.passage.id.clone(), at)).collect();
    let mut all = hits;
    for hit in other {
        let score = hit.score * scale * REWORDED;
        match places.get(&hit.passage.id) {
            Some(at) => all[*at].score = all[*at].score.max(score),
            None => {
                places.insert(hit.passage.id.clone(), all.len());
                all.push(Hit { score, ..hit });
            }
        }
    }
    all.sort_by(|left, right| right.score.total_cmp(&left.score));
    all
}

#[async_trait]
impl Index for Refined {
    async fn put(
        &self,
        tenant: &Tenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.index.put(tenant, document, passages).await
    }

    async fn put_all(
        &self,
        tenant: &Tenant,
        documents: &[(Document, Vec<Passage>)],
    ) -> Result<(), RetrieveError> {
        self.index.put_all(tenant, documents).await
    }

    async fn remove(&self, tenant: &Tenant, document: &DocumentId) -> Result<bool, RetrieveError> {
        self.index.remove(tenant, document).await
    }

    async fn list(&self, tenant: &Tenant, filter: &Filter) -> Result<Vec<Listed>, RetrieveError> {
        self.index.list(tenant, filter).await
    }

    async fn document(&self, tenant: &Tenant, id: &DocumentId) -> Result<Option<Document>, RetrieveError> {
        self.index.document(tenant, id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;
    use crate::keyword::RamKeyword;

    struct Words(Result<Vec<&'static str>, ()>);

    #[async_trait]
    impl Rewriter for Words {
        async fn rewrite(&self, _: &str) -> Result<Vec<String>, RetrieveError> {
            let away = |()| RetrieveError::Unavailable { reason: "away".to_owned(), source: None };
            self.0.clone().map(|words| words.into_iter().map(str::to_owned).collect()).map_err(away)
        }
    }

    /// Prefers passages that hold a word.
    struct Prefers(&'static str, bool);

    #[async_trait]
    impl Reranker for Prefers {
        async fn scores(&self, _: &str, passages: &[&Passage]) -> Result<Vec<f64>, RetrieveError> {
            let score = |passage: &&Passage| if passage.text.contains(self.0) { 1.0 } else { 0.0 };
            let scores: Vec<f64> = passages.iter().map(score).collect();
            Ok(if self.1 { scores } else { vec![f64::NAN] })
        }
    }

    fn index() -> Arc<RamKeyword> {
        let documents = [
            Document::new("a", "t", "급여는 매월 25일에 지급한다."),
            Document::new("b", "t", "급여는 매월 25일에 지급한다"),
            Document::new("c", "t", "급여 명세서는 게시판에 올린다."),
            Document::new("d", "t", "사표는 한 달 전에 낸다."),
        ];
        Arc::new(RamKeyword::of(&conformance::tenant(), &documents))
    }

    async fn found(refined: &Refined, text: &str, limit: usize) -> String {
        let hits = refined.retrieve(&Question::new(conformance::tenant(), text, limit)).await.expect("hits");
        assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "best first");
        hits.iter().map(|hit| hit.passage.document.as_str().to_owned()).collect::<Vec<_>>().join(" ")
    }

    #[tokio::test]
    async fn a_refined_index_keeps_the_contract() {
        conformance::check(async |documents: Vec<Document>| {
            Refined::new(Arc::new(RamKeyword::of(&conformance::tenant(), &documents)))
        })
        .await;
    }

    #[tokio::test]
    async fn copies_make_room_for_others() {
        assert_eq!(found(&Refined::new(index()), "급여 지급", 2).await, "a c");
    }

    #[tokio::test]
    async fn another_wording_adds_what_it_finds() {
        let plain = Refined::new(index());
        assert_eq!(found(&plain, "급여 지급", 5).await, "a c");
        let refined = plain.rewriter(Arc::new(Words(Ok(vec!["사표", "급여 지급", " "]))));
        assert_eq!(found(&refined, "급여 지급", 5).await, "a d c");
        let failing = Refined::new(index()).rewriter(Arc::new(Words(Err(()))));
        assert_eq!(found(&failing, "급여 지급", 5).await, "a c", "a rewriter that fails is left out");
    }

    #[tokio::test]
    async fn the_best_are_ranked_again() {
        let refined = |good| Refined::new(index()).reranker(Arc::new(Prefers("명세서", good)));
        assert_eq!(found(&refined(true), "급여 지급", 5).await, "c a");
        assert_eq!(found(&refined(true), "급여 지급", 1).await, "c", "more than wanted are looked at");
        assert_eq!(found(&refined(false), "급여 지급", 5).await, "a c", "odd scores change nothing");
    }
}
