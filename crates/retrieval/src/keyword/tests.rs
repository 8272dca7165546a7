//! Tests of the keyword index in memory.

use super::*;
use crate::conformance;

#[tokio::test]
async fn ram_keyword_keeps_the_contract() {
    conformance::check_retriever(async |documents: Vec<Document>| {
        RamKeywordIndex::from_documents(&conformance::tenant(), &documents)
    })
    .await;
    conformance::check_index(async || RamKeywordIndex::default()).await;
}

#[tokio::test]
async fn a_document_of_the_same_name_replaces_the_older_one() {
    let tenant = DocumentTenant::new("t");
    let older = Document::new("d", "t", "사과 하나.\n\n사과 둘.");
    let index = RamKeywordIndex::from_documents(&tenant, [&older, &Document::new("d", "t", "배 하나.")]);
    assert!(index.search(&SearchQuery::new(tenant, "사과", 5)).is_empty());
}

#[tokio::test]
async fn a_tenant_finds_nothing_of_another() {
    let index =
        RamKeywordIndex::from_documents(&DocumentTenant::new("a"), [&Document::new("d", "t", "사과 하나.")]);
    assert!(index.search(&SearchQuery::new(DocumentTenant::new("b"), "사과", 5)).is_empty());
    assert_eq!(index.list(&DocumentTenant::new("b"), &DocumentFilter::default()).await.expect("list"), []);
    assert_eq!(index.search(&SearchQuery::new(DocumentTenant::new("a"), "사과", 5)).len(), 1);
}

fn hit_ids_and_scores(index: &RamKeywordIndex, tenant: &DocumentTenant, text: &str) -> Vec<(String, String)> {
    let hits = index.search(&SearchQuery::new(tenant.clone(), text, 50));
    hits.iter().map(|hit| (hit.passage.id.to_string(), format!("{:.5}", hit.score))).collect()
}

fn numbered_documents(count: usize) -> Vec<Document> {
    let text = |n: usize| {
        format!("문서 {n}의 휴가는 {}일이다.\n\n출장비는 {n}만 원이다. Receipt number {n}.", n % 7)
    };
    (0..count).map(|n| Document::new(format!("d{n:03}"), format!("규정 {n}"), text(n))).collect()
}

#[test]
fn the_order_documents_came_in_does_not_matter() {
    let tenant = DocumentTenant::new("t");
    let documents = numbered_documents(90);
    let forth = RamKeywordIndex::from_documents(&tenant, &documents);
    let back = RamKeywordIndex::from_documents(&tenant, documents.iter().rev());
    // Documents that were added, changed, removed and added again.
    for document in documents.iter().step_by(3) {
        assert!(back.delete(&tenant, &document.id).expect("deleted"));
        back.insert(&tenant, &Document::new(document.id.as_str(), "x", "다른 휴가 글"), &[])
            .expect("inserted");
        back.insert(&tenant, document, &split_into_passages(document)).expect("inserted");
    }
    for question in ["휴가는 며칠", "receipt 13", "출장비 42만 원", "규정"] {
        assert_eq!(
            hit_ids_and_scores(&forth, &tenant, question),
            hit_ids_and_scores(&back, &tenant, question),
            "{question}"
        );
    }
}

#[test]
fn few_segments_hold_many_documents_and_removed_ones_leave() {
    let tenant = DocumentTenant::new("t");
    let documents = numbered_documents(200);
    let index = RamKeywordIndex::from_documents(&tenant, &documents);
    let parts = || {
        let tenant_index = index.tenant_index(&tenant).expect("a tenant index");
        let content = tenant_index.content.read().expect("lock");
        (content.segments.len(), content.segments.iter().map(|part| part.segment.slot_count()).sum::<usize>())
    };
    assert!(parts().0 <= 3 * SEGMENT_MERGE_FACTOR, "{} segments", parts().0);
    for document in &documents {
        assert!(index.delete(&tenant, &document.id).expect("deleted"));
    }
    assert!(!index.delete(&tenant, &documents[0].id).expect("deleted"));
    assert_eq!(parts(), (0, 0));
    assert!(index.search(&SearchQuery::new(tenant.clone(), "휴가", 5)).is_empty());
}

#[test]
fn a_filter_keeps_all_else_out() {
    let tenant = DocumentTenant::new("t");
    let mut documents = numbered_documents(20);
    documents[3].collection = "인사".to_owned();
    let index = RamKeywordIndex::from_documents(&tenant, &documents);
    let asked = |filter: DocumentFilter| {
        let question = SearchQuery { filter, ..SearchQuery::new(tenant.clone(), "휴가 출장비", 50) };
        index
            .search(&question)
            .iter()
            .map(|hit| hit.passage.document.to_string())
            .collect::<std::collections::BTreeSet<_>>()
    };
    let only = |names: &[&str]| {
        names.iter().map(|name| (*name).to_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(
        asked(DocumentFilter { collection: Some("인사".to_owned()), ..DocumentFilter::default() }),
        only(&["d003"])
    );
    let documents = vec![DocumentId::new("d005"), DocumentId::new("d007"), DocumentId::new("absent")];
    assert_eq!(asked(DocumentFilter { documents, ..DocumentFilter::default() }), only(&["d005", "d007"]));
    assert_eq!(
        asked(DocumentFilter { collection: Some("docs\"; --".to_owned()), ..DocumentFilter::default() }),
        only(&[])
    );
}

#[test]
fn what_a_person_types_is_words_and_never_syntax() {
    let tenant = DocumentTenant::new("t");
    let index = RamKeywordIndex::from_documents(&tenant, &numbered_documents(5));
    let long = "%_".repeat(500);
    for text in [
        "multi-agent",
        "don't",
        "\"",
        "*",
        "AND OR NOT",
        "ubuntu 20.04",
        "a OR",
        "*:*",
        "_exists_:x",
        "/.*.*.*a/",
        "(",
        "휴가 AND",
        "\u{0}",
        "ㅋㅋㅋ",
        "🙂",
        "제조",
        "제",
        "조의",
        "第",
        &long,
        &"가".repeat(100_000),
    ] {
        let hits = index.search(&SearchQuery::new(tenant.clone(), text, 5));
        assert!(hits.iter().all(|hit| hit.score.is_finite() && hit.score > 0.0), "{text:.20}");
    }
}

#[test]
fn the_number_of_an_article_is_no_typo_of_a_word() {
    let documents = [
        Document::new(
            "대출",
            "복리후생 규정",
            "주거 자금은 연 2퍼센트의 이자로 빌린다. 십이지장 검사비도 준다.",
        ),
        Document::new("계약", "용역계약서", "제12조(해지) 갑은 30일 전에 알리고 계약을 끝낼 수 있다."),
    ];
    let tenant = DocumentTenant::new("t");
    let index = RamKeywordIndex::from_documents(&tenant, &documents);
    let hits = index.search(&SearchQuery::new(tenant, "제십이조", 5));
    let found: Vec<&str> = hits.iter().map(|hit| hit.passage.document.as_str()).collect();
    assert_eq!(found.first(), Some(&"계약"), "{found:?}");
    assert!(hits.get(1).is_none_or(|second| second.score < hits[0].score), "{hits:?}");
}

#[test]
fn a_saved_segment_is_the_same_and_half_of_one_is_refused() {
    let documents = numbered_documents(3);
    let held: Vec<StoredDocument> = documents
        .iter()
        .map(|document| StoredDocument::new(document, &split_into_passages(document)))
        .collect();
    let segment = Segment::from_stored_documents(&held).expect("a segment");
    let saved = segment.bytes().to_vec();
    let opened = Segment::open_checked(saved.clone()).expect("sound");
    assert_eq!((opened.documents(), opened.slot_count()), (segment.documents(), segment.slot_count()));
    assert_eq!(opened.bytes(), saved);
    let merged = Segment::merge(&[&opened], |_, _| true).expect("a segment");
    assert_eq!(merged.bytes(), saved, "merging one changes nothing");
    for half in [saved[..saved.len() - 1].to_vec(), Vec::new()] {
        assert!(matches!(Segment::open_checked(half), Err(RetrieveError::Stale { .. })));
    }
}

#[test]
fn a_passage_outside_its_text_is_an_error_and_not_an_empty_passage() {
    let document = Document::new("d", "t", "사과 하나.");
    let held = StoredDocument::new(&document, &split_into_passages(&document));
    let damaged = held.with_text_at(Arc::new(b"x".to_vec()), 0..1);
    let error = Segment::from_stored_documents([&damaged]).expect_err("stale");
    assert_eq!(
        error.to_string(),
        "the index must be built again: passage 0 of document `d` is outside its text"
    );
}

#[test]
fn an_article_asked_for_by_number_comes_first_in_the_document_that_was_named() {
    let tenant = DocumentTenant::new("t");
    let index = RamKeywordIndex::default();
    for name in ["민법", "난민법", "상법"] {
        let passages = (1..=3).map(|number| Passage {
            id: crate::passage::PassageId::from_start(&DocumentId::new(format!("{name}-{number}")), 0),
            document: DocumentId::new(name),
            title: format!("{name} 제{number}조"),
            text: format!("{name}의 글 {number}. 이 법은 제2조를 여러 번 말한다. 제2조, 제2조."),
            ..Passage::default()
        });
        let document = Document::new(name, name, "");
        index.insert(&tenant, &document, &passages.collect::<Vec<_>>()).expect("inserted");
    }
    for (question, expected) in [
        ("민법 제2조", "민법-2#0"),
        ("난민법 2조 알려줘", "난민법-2#0"),
        ("상법제삼조", "상법-3#0"),
        ("민법 제 1 조가 뭐야", "민법-1#0"),
    ] {
        let hits = index.search(&SearchQuery::new(tenant.clone(), question, 3));
        assert_eq!(hits.first().map(|hit| hit.passage.id.as_str()), Some(expected), "{question}");
    }
}
