//! Test suites for the contracts of [`Retriever`] and [`DocumentIndex`](crate::DocumentIndex).
//!
//! A retriever calls [`check_retriever`] in its tests with a function that builds it from documents. An index calls
//! [`check_index`] with a function that creates it empty, and a persistent index also calls [`check_durable_index`]. A
//! broken rule panics with its name.

mod index;

use std::collections::BTreeSet;

use crate::passage::{Document, DocumentTenant};
use crate::retriever::{Hit, Retriever, SearchQuery};

pub use index::{check_durable_index, check_index};

/// Checks the contract that every retriever must keep, however it searches.
pub async fn check_retriever<R: Retriever>(make: impl AsyncFn(Vec<Document>) -> R) {
    let documents = sample_documents();
    let full = make(documents.clone()).await;
    a_sentence_finds_its_own_passage(&full).await;
    hits_are_words_of_the_documents(&full, &documents).await;
    the_best_come_first_and_none_twice(&full).await;
    no_more_than_asked_for(&full).await;
    the_same_question_gives_the_same_hits(&full).await;
    nothing_to_find_is_no_error(&full, &make(Vec::new()).await).await;
}

/// The tenant whose documents the suite searches.
pub fn tenant() -> DocumentTenant {
    DocumentTenant::new("conformance")
}

fn sample_documents() -> Vec<Document> {
    let ko = "# 취업 규칙\n\n## 휴가\n연차휴가는 1년에 15일을 준다.\n\n육아휴직은 자녀 한 명당 1년 이내로 한다.\n\n\
              ## 경비\n출장 식비는 하루 4만 원까지 돌려준다.";
    let en = "# Handbook\n\nKeep every receipt for seven years.\n\nReport a lost laptop within one hour.";
    vec![Document::new("rules.ko.md", "취업 규칙", ko), Document::new("book.en.md", "Handbook", en)]
}

async fn ask(retriever: &impl Retriever, question: &str, limit: usize) -> Vec<Hit> {
    match retriever.retrieve(&SearchQuery::new(tenant(), question, limit)).await {
        Ok(hits) => hits,
        Err(error) => panic!("asking `{question}` failed: {error}"),
    }
}

async fn a_sentence_finds_its_own_passage(retriever: &impl Retriever) {
    for sentence in [
        "육아휴직은 자녀 한 명당 1년 이내로 한다.",
        "출장 식비는 하루 4만 원까지 돌려준다.",
        "Report a lost laptop within one hour.",
    ] {
        let hits = ask(retriever, sentence, 3).await;
        let first = hits.first().map(|hit| hit.passage.text.as_str());
        assert_eq!(first, Some(sentence), "a_sentence_finds_its_own_passage");
    }
}

async fn hits_are_words_of_the_documents(retriever: &impl Retriever, documents: &[Document]) {
    for hit in ask(retriever, "휴가 receipt", 10).await {
        let passage = hit.passage;
        let document = documents.iter().find(|document| document.id == passage.document);
        let words = document.and_then(|document| document.text.get(passage.range.clone()));
        assert_eq!(words, Some(passage.text.as_str()), "hits_are_words_of_the_documents: {}", passage.id);
    }
}

async fn the_best_come_first_and_none_twice(retriever: &impl Retriever) {
    let hits = ask(retriever, "연차휴가와 육아휴직은 1년에 며칠?", 10).await;
    assert!(hits.len() > 1, "the_best_come_first: too few hits to tell");
    assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "the_best_come_first: {hits:?}");
    assert!(hits.iter().all(|hit| hit.score > 0.0), "scores_are_above_zero: {hits:?}");
    let ids: BTreeSet<&str> = hits.iter().map(|hit| hit.passage.id.as_str()).collect();
    assert_eq!(ids.len(), hits.len(), "none_twice: {hits:?}");
}

async fn no_more_than_asked_for(retriever: &impl Retriever) {
    for limit in [0, 1, 2] {
        let hits = ask(retriever, "연차휴가와 육아휴직은 1년에 며칠?", limit).await;
        assert_eq!(hits.len(), limit, "no_more_than_asked_for");
    }
}

async fn the_same_question_gives_the_same_hits(retriever: &impl Retriever) {
    let first = ask(retriever, "1년 receipt", 10).await;
    assert_eq!(first, ask(retriever, "1년 receipt", 10).await, "the_same_question_gives_the_same_hits");
}

async fn nothing_to_find_is_no_error(full: &impl Retriever, empty: &impl Retriever) {
    for question in ["", " \n", "?!"] {
        assert_eq!(ask(full, question, 5).await, [], "nothing_to_find_is_no_error: `{question}`");
    }
    assert_eq!(ask(empty, "휴가", 5).await, [], "nothing_to_find_is_no_error: no documents");
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::keyword::RamKeywordIndex;
    use crate::retriever::RetrieveError;

    /// A correct retriever whose hits are then damaged in one way.
    struct FaultyRetriever(RamKeywordIndex, fn(&mut Vec<Hit>));

    #[async_trait]
    impl Retriever for FaultyRetriever {
        async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
            let mut hits = self.0.retrieve(question).await?;
            (self.1)(&mut hits);
            Ok(hits)
        }
    }

    fn broken_law(fault: fn(&mut Vec<Hit>)) -> String {
        let check = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
            runtime.block_on(check_retriever(async |documents: Vec<Document>| {
                FaultyRetriever(RamKeywordIndex::from_documents(&tenant(), &documents), fault)
            }));
        });
        let panic = check.join().expect_err("a broken law");
        let fixed = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        fixed.or_else(|| panic.downcast_ref::<String>().cloned()).expect("a message")
    }

    #[test]
    fn a_retriever_that_breaks_the_contract_is_caught() {
        for (fault, law) in [
            ((|hits| hits.clear()) as fn(&mut Vec<Hit>), "a_sentence_finds_its_own_passage"),
            (
                |hits| hits.iter_mut().for_each(|hit| hit.passage.range.start += 1),
                "hits_are_words_of_the_documents",
            ),
            (|hits| hits.iter_mut().for_each(|hit| hit.score = -hit.score), "the_best_come_first"),
            (|hits| hits.extend(hits.last().cloned()), "none_twice"),
        ] {
            let message = broken_law(fault);
            assert!(message.contains(law), "{law}: {message}");
        }
    }
}
