//! Searches with a question and with other wordings of it, usually written by a model, and merges the hits.
//!
//! The hits of the original question keep their priority: the better half of the results is theirs, whatever the other
//! wordings find. A wording is plain text, like any question; nothing in it is query syntax.

use std::collections::BTreeMap;

use crate::hit_postprocessing::remove_duplicate_hits;
use crate::passage::PassageId;
use crate::retriever::{Hit, RetrieveError, Retriever, SearchQuery};

/// The maximum number of other wordings that are searched. Further ones are ignored.
pub const MAX_REWORDINGS: usize = 3;
/// The best hit of a wording counts this much beside the best hit of the question.
const REWORDING_SCORE_SHARE: f64 = 0.9;

/// Returns the merged hits of a question and of other wordings of it. If no wording differs from the question, returns
/// the hits of the question alone.
pub async fn retrieve_with_rewordings(
    retriever: &dyn Retriever,
    question: &SearchQuery,
    wordings: &[String],
) -> Result<Vec<Hit>, RetrieveError> {
    let own = retriever.retrieve(question).await?;
    let mut texts = vec![question.text.trim()];
    for wording in wordings.iter().map(|wording| wording.trim()) {
        if !wording.is_empty() && !texts.contains(&wording) && texts.len() <= MAX_REWORDINGS {
            texts.push(wording);
        }
    }
    let mut lists = Vec::new();
    for text in &texts[1..] {
        lists.push(retriever.retrieve(&SearchQuery { text: (*text).to_owned(), ..question.clone() }).await?);
    }
    if lists.iter().all(Vec::is_empty) {
        return Ok(own);
    }
    Ok(merge_hits(own, lists, question.limit))
}

/// Merges hit lists. Scores are scaled to the best of each list, and added where several lists contain the same
/// passage.
fn merge_hits(own: Vec<Hit>, lists: Vec<Vec<Hit>>, limit: usize) -> Vec<Hit> {
    let kept = own.len().min(limit.div_ceil(2));
    let ahead: Vec<PassageId> = own[..kept].iter().map(|hit| hit.passage.id.clone()).collect();
    let unit = best_score(&own).unwrap_or(1.0);
    let mut others: BTreeMap<PassageId, Hit> = BTreeMap::new();
    for list in lists {
        let best = best_score(&list).unwrap_or(1.0);
        for hit in list {
            let share = hit.score / best;
            let known = others.entry(hit.passage.id.clone()).or_insert_with(|| Hit { score: 0.0, ..hit });
            known.score += share;
        }
    }
    let highest = others.values().map(|hit| hit.score).fold(f64::MIN_POSITIVE, f64::max);
    let mut all = own;
    for (id, hit) in others {
        let score = hit.score / highest * REWORDING_SCORE_SHARE * unit;
        match all.iter_mut().find(|known| known.passage.id == id) {
            Some(known) => known.score += score,
            None => all.push(Hit { score, ..hit }),
        }
    }
    // The sort is stable. Equal scores keep their order: hits of the original question first, then by identifier.
    all.sort_by(|left, right| right.score.total_cmp(&left.score));
    let mut all = remove_duplicate_hits(all);
    let mut room = limit - kept;
    all.retain(|hit| {
        let is_ahead = ahead.contains(&hit.passage.id);
        let fits = is_ahead || room > 0;
        room -= usize::from(fits && !is_ahead);
        fits
    });
    all
}

fn best_score(hits: &[Hit]) -> Option<f64> {
    hits.iter().map(|hit| hit.score).filter(|score| score.is_finite() && *score > 0.0).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;
    use crate::keyword::RamKeywordIndex;
    use crate::passage::Document;

    fn index() -> RamKeywordIndex {
        let documents = [
            Document::new("a", "t", "급여는 매월 25일에 지급한다."),
            Document::new("b", "t", "급여 명세서는 게시판에 올린다."),
            Document::new("c", "t", "급여 대장은 오 년 동안 둔다."),
            Document::new("d", "t", "사표는 한 달 전에 낸다."),
            Document::new("e", "t", "퇴직하려는 사람은 사직서를 낸다."),
        ];
        RamKeywordIndex::from_documents(&conformance::tenant(), &documents)
    }

    async fn found(text: &str, wordings: &[&str], limit: usize) -> String {
        let question = SearchQuery::new(conformance::tenant(), text, limit);
        let wordings: Vec<String> = wordings.iter().map(|&wording| wording.to_owned()).collect();
        let hits = retrieve_with_rewordings(&index(), &question, &wordings).await.expect("hits");
        assert!(hits.len() <= limit);
        assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "best first");
        assert!(hits.iter().all(|hit| hit.score > 0.0 && hit.score.is_finite()));
        hits.iter().map(|hit| hit.passage.document.as_str().to_owned()).collect::<Vec<_>>().join(" ")
    }

    #[tokio::test]
    async fn another_wording_finds_what_the_question_does_not() {
        assert_eq!(
            found("회사 관두려면", &[], 3).await,
            found("회사 관두려면", &[" ", "회사 관두려면"], 3).await
        );
        assert!(found("급여 지급", &["사표"], 3).await.contains('d'));
        assert!(
            found("zzz", &["사표"], 3).await.starts_with('d'),
            "nothing of its own leaves all places free"
        );
    }

    #[tokio::test]
    async fn what_several_wordings_find_stands_higher() {
        let order = found("zzz", &["사표", "사직서 사표", "사표 한 달"], 5).await;
        assert!(order.starts_with('d'), "{order}");
    }

    #[tokio::test]
    async fn wordings_take_at_most_half_of_the_places() {
        let own = found("급여", &[], 2).await;
        let best = own.split(' ').next().expect("a hit");
        let hostile = ["사표 사직서 퇴직", "사표 한 달 전", "사직서 퇴직"];
        let both = found("급여", &hostile, 2).await;
        assert!(both.split(' ').any(|document| document == best), "{best} is not in {both}");
        let four = found("급여", &hostile, 4).await;
        assert!(four.split(' ').filter(|document| "a b c".contains(document)).count() >= 2, "{four}");
        let endless: Vec<&str> = std::iter::repeat_n("사표", 1000).collect();
        assert!(found("급여", &endless, 4).await.split(' ').count() <= 4);
    }

    #[tokio::test]
    async fn a_wording_is_words_and_no_syntax() {
        for wording in ["*:*", "\"", "a OR b AND NOT (", "_exists_:x", "/.*/", "\u{0}", &"가".repeat(100_000)]
        {
            let order = found("급여 지급", &[wording], 3).await;
            assert!(order.starts_with('a'), "{order}");
        }
    }
}
