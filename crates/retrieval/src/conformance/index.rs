//! The contract of a [`DocumentIndex`]: stored documents are found, listed and read, atomically and by their tenant
//! only.

use std::collections::BTreeSet;

use crate::passage::{Document, DocumentId, DocumentKind, DocumentTenant};
use crate::retriever::{DocumentFilter, DocumentIndex, DocumentSummary, Hit, RetrieveError, SearchQuery};
use crate::split::split_into_passages;

use super::tenant;

/// Checks the whole contract on indexes that `fresh` creates empty.
pub async fn check_index<I: DocumentIndex>(fresh: impl AsyncFn() -> I) {
    what_was_put_is_found_listed_and_read(&fresh().await).await;
    a_new_version_takes_the_place_of_the_old(&fresh().await).await;
    a_search_never_sees_half_a_change(&fresh().await).await;
    what_was_removed_is_gone(&fresh().await).await;
    tenants_do_not_see_each_other(&fresh().await).await;
    filters_decide_who_competes(&fresh().await).await;
    no_text_is_query_syntax(&fresh().await).await;
    names_are_only_names(&fresh().await).await;
    a_document_without_words_is_still_there(&fresh().await).await;
    the_order_of_arrival_does_not_matter(&fresh().await, &fresh().await).await;
    many_at_once_are_as_one_by_one(&fresh().await, &fresh().await).await;
}

/// Checks the contract of a persistent index. `reopen` closes the index and opens it again.
pub async fn check_durable_index<I: DocumentIndex>(index: I, reopen: impl AsyncFn(I) -> I) {
    let rival = DocumentTenant::new("rival");
    for at in 0..30 {
        let kind = if at % 3 == 0 { DocumentKind::Contract } else { DocumentKind::General };
        put(
            &index,
            &tenant(),
            &document(&format!("{at}.md"), &format!("{at}층의 소화기는 {at}개다."), "", kind),
        )
        .await;
    }
    put(&index, &rival, &plain("3.md", "소화기는 없다.")).await;
    put(&index, &tenant(), &plain("7.md", "7층은 비었다.")).await;
    for gone in ["3.md", "4.md", "29.md"] {
        expect_ok(index.remove(&tenant(), &DocumentId::new(gone)).await);
    }
    let before = index_snapshot(&index).await;
    let index = reopen(index).await;
    assert_eq!(before, index_snapshot(&index).await, "a_reopened_index_finds_the_same");
    put(&index, &tenant(), &plain("9.md", "9층도 비었다.")).await;
    expect_ok(index.remove(&tenant(), &DocumentId::new("11.md")).await);
    let before = index_snapshot(&index).await;
    let index = reopen(index).await;
    assert_eq!(before, index_snapshot(&index).await, "a_reopened_index_can_be_changed");
}

/// Collects everything that can be observed of an index.
async fn index_snapshot(
    index: &impl DocumentIndex,
) -> (Vec<DocumentSummary>, Vec<Hit>, Vec<Hit>, Option<Document>, Vec<DocumentSummary>) {
    let contracts = DocumentFilter { kinds: vec![DocumentKind::Contract], ..DocumentFilter::default() };
    (
        list(index, &tenant(), &DocumentFilter::default()).await,
        ask(index, &tenant(), "소화기는 몇 층에 있나", &DocumentFilter::default(), 50).await,
        ask(index, &tenant(), "소화기", &contracts, 50).await,
        expect_ok(index.document(&tenant(), &DocumentId::new("7.md")).await),
        list(index, &DocumentTenant::new("rival"), &DocumentFilter::default()).await,
    )
}

async fn what_was_put_is_found_listed_and_read(index: &impl DocumentIndex) {
    let mut given = document(
        "rules.ko.md",
        "# 규칙\n\n연차휴가는 15일이다.\n\n식비는 4만 원이다.",
        "인사",
        DocumentKind::Standard("용역".to_owned()),
    );
    given.pages = vec![0, 12];
    put(index, &tenant(), &given).await;
    let hits = ask(index, &tenant(), "연차휴가는 며칠?", &DocumentFilter::default(), 5).await;
    let first = hits.first().map(|hit| &hit.passage);
    assert_eq!(
        first,
        split_into_passages(&given).iter().find(|passage| passage.text.contains("연차")),
        "what_was_put_is_found"
    );
    let listed = list(index, &tenant(), &DocumentFilter::default()).await;
    assert_eq!(
        listed,
        [DocumentSummary::from_document(&given, split_into_passages(&given).len())],
        "what_was_put_is_listed"
    );
    let read = expect_ok(index.document(&tenant(), &given.id).await);
    assert_eq!(read.as_ref(), Some(&given), "what_was_put_is_read");
    assert_eq!(
        expect_ok(index.document(&tenant(), &DocumentId::new("other")).await),
        None,
        "what_was_not_put_is_not_read"
    );
}

async fn a_new_version_takes_the_place_of_the_old(index: &impl DocumentIndex) {
    put(index, &tenant(), &plain("a", "점심은 열두 시다.\n\n저녁은 없다.")).await;
    put(index, &tenant(), &plain("b", "점심은 밖에서 먹는다.")).await;
    let new = plain("a", "아침은 일곱 시다.");
    put(index, &tenant(), &new).await;
    let texts = texts(&ask(index, &tenant(), "아침 점심 저녁", &DocumentFilter::default(), 10).await);
    let expected: BTreeSet<String> = ["아침은 일곱 시다.", "점심은 밖에서 먹는다."].map(str::to_owned).into();
    assert_eq!(texts, expected, "a_new_version_takes_the_place_of_the_old");
    let listed = list(index, &tenant(), &DocumentFilter::default()).await;
    let counts: Vec<usize> = listed.iter().map(|listed| listed.passages).collect();
    assert_eq!(counts, [1, 1], "a_new_version_takes_the_place_of_the_old: {listed:?}");
    assert_eq!(expect_ok(index.document(&tenant(), &new.id).await), Some(new), "a_new_version_is_read");
}

async fn a_search_never_sees_half_a_change(index: &impl DocumentIndex) {
    const ROUNDS: usize = 6;
    let version = |round: usize| {
        let words =
            format!("보안 규칙 {}판의 문장이다.\n\n", if round.is_multiple_of(2) { "가" } else { "나" });
        plain("a", &words.repeat(12))
    };
    put(index, &tenant(), &version(0)).await;
    let writes = async {
        for round in 1..=ROUNDS {
            put(index, &tenant(), &version(round)).await;
        }
    };
    let reads = async {
        for _ in 0..ROUNDS * 4 {
            let hits = ask(index, &tenant(), "보안 규칙", &DocumentFilter::default(), 50).await;
            let kinds = texts(&hits);
            assert!(kinds.len() <= 1, "a_search_never_sees_both_versions: {kinds:?}");
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(writes, reads);
    let hits = ask(index, &tenant(), "보안 규칙", &DocumentFilter::default(), 50).await;
    assert_eq!(
        hits.len(),
        split_into_passages(&version(ROUNDS)).len(),
        "a_search_sees_the_whole_new_version"
    );
}

async fn what_was_removed_is_gone(index: &impl DocumentIndex) {
    for at in 0..12 {
        put(index, &tenant(), &plain(&format!("{at}"), &format!("{at}번 창고의 열쇠."))).await;
    }
    let one = DocumentId::new("5");
    assert!(expect_ok(index.remove(&tenant(), &one).await), "removing_tells_that_there_was_one");
    assert!(!expect_ok(index.remove(&tenant(), &one).await), "removing_twice_tells_that_there_was_none");
    let hits = ask(index, &tenant(), "창고의 열쇠", &DocumentFilter::default(), 50).await;
    assert!(
        hits.len() == 11 && hits.iter().all(|hit| hit.passage.document != one),
        "what_was_removed_is_gone"
    );
    assert_eq!(
        list(index, &tenant(), &DocumentFilter::default()).await.len(),
        11,
        "what_was_removed_is_not_listed"
    );
    assert_eq!(expect_ok(index.document(&tenant(), &one).await), None, "what_was_removed_cannot_be_read");
    put(index, &tenant(), &plain("5", "5번 창고의 열쇠.")).await;
    assert_eq!(
        ask(index, &tenant(), "창고의 열쇠", &DocumentFilter::default(), 50).await.len(),
        12,
        "what_was_removed_may_return"
    );
}

async fn tenants_do_not_see_each_other(index: &impl DocumentIndex) {
    let other = DocumentTenant::new("conformance2");
    put(index, &tenant(), &plain("same", "우리의 비밀.")).await;
    put(index, &other, &plain("same", "그들의 비밀.")).await;
    for (who, own) in [(tenant(), "우리의 비밀."), (other.clone(), "그들의 비밀.")] {
        let hits = ask(index, &who, "비밀", &DocumentFilter::default(), 9).await;
        assert_eq!(texts(&hits), BTreeSet::from([own.to_owned()]), "tenants_do_not_see_each_other");
        let read =
            expect_ok(index.document(&who, &DocumentId::new("same")).await).map(|document| document.text);
        assert_eq!(read.as_deref(), Some(own), "tenants_do_not_read_each_other");
    }
    for stranger in ["", "*", "conformance*", "Conformance", "conformance\0", "conformance' OR '1'='1"] {
        let stranger = DocumentTenant::new(stranger);
        assert_eq!(
            ask(index, &stranger, "비밀", &DocumentFilter::default(), 9).await,
            [],
            "strangers_see_nothing"
        );
        assert_eq!(list(index, &stranger, &DocumentFilter::default()).await, [], "strangers_see_nothing");
        assert!(
            !expect_ok(index.remove(&stranger, &DocumentId::new("same")).await),
            "strangers_remove_nothing"
        );
    }
    assert!(expect_ok(index.remove(&other, &DocumentId::new("same")).await));
    assert_eq!(
        list(index, &tenant(), &DocumentFilter::default()).await.len(),
        1,
        "tenants_do_not_remove_each_others"
    );
}

async fn filters_decide_who_competes(index: &impl DocumentIndex) {
    let standard = |form: &str| DocumentKind::Standard(form.to_owned());
    for (id, collection, kind) in [
        ("a", "", DocumentKind::General),
        ("b", "인사", DocumentKind::General),
        ("c", "인사", DocumentKind::Contract),
        ("d", "법무", standard("용역")),
        ("e", "법무", standard("매매")),
    ] {
        put(index, &tenant(), &document(id, "비밀유지 의무를 진다.", collection, kind)).await;
    }
    let within = |collection: &str| DocumentFilter {
        collection: Some(collection.to_owned()),
        ..DocumentFilter::default()
    };
    let of = |kinds: &[DocumentKind]| DocumentFilter { kinds: kinds.to_vec(), ..DocumentFilter::default() };
    let only = |ids: &[&str]| DocumentFilter {
        documents: ids.iter().map(|id| DocumentId::new(*id)).collect(),
        ..DocumentFilter::default()
    };
    for (filter, expected) in [
        (DocumentFilter::default(), "a b c d e"),
        (within("인사"), "b c"),
        (within(""), "a"),
        (within("인*"), ""),
        (of(&[DocumentKind::Contract]), "c"),
        (of(&[standard("용역")]), "d"),
        (of(&[DocumentKind::General, standard("매매")]), "a b e"),
        (only(&["e", "a", "zz"]), "a e"),
        (only(&["*"]), ""),
        (DocumentFilter { kinds: vec![DocumentKind::Contract], ..within("법무") }, ""),
        (
            DocumentFilter {
                kinds: vec![DocumentKind::General],
                documents: only(&["b", "c"]).documents,
                ..within("인사")
            },
            "b",
        ),
    ] {
        let listed = list(index, &tenant(), &filter).await;
        let names: Vec<&str> = listed.iter().map(|listed| listed.id.as_str()).collect();
        assert_eq!(names.join(" "), expected, "filters_decide_what_is_listed, by name: {filter:?}");
        let hits = ask(index, &tenant(), "비밀유지 의무", &filter, 9).await;
        let names: BTreeSet<&str> = hits.iter().map(|hit| hit.passage.document.as_str()).collect();
        assert_eq!(
            names.into_iter().collect::<Vec<_>>().join(" "),
            expected,
            "filters_decide_who_competes: {filter:?}"
        );
    }
    let few = ask(index, &tenant(), "비밀유지 의무", &only(&["e"]), 1).await;
    assert_eq!(few.len(), 1, "filters_work_before_the_limit");
}

async fn no_text_is_query_syntax(index: &impl DocumentIndex) {
    put(index, &tenant(), &plain("a", "ubuntu 20.04 설치 안내, don't panic, multi-agent.")).await;
    put(index, &tenant(), &plain("b", "전혀 다른 글이다.")).await;
    let long = "%_ ".repeat(500);
    let endless = "가나다라".repeat(50_000);
    for marks in
        ["*:*", "*", "\"", "'", "\\", "(", "~", "^", ":", "\u{202e}", "\u{fffd}\u{feff}", "\0", "/.*/", &long]
    {
        let hits = ask(index, &tenant(), marks, &DocumentFilter::default(), 5).await;
        assert_eq!(
            hits,
            [],
            "marks_without_words_find_nothing: `{}`",
            &marks[..marks.floor_char_boundary(40)]
        );
    }
    for text in [
        "_exists_:text",
        "/.*.*.*a/",
        "AND OR NOT",
        "a OR",
        "[1 TO",
        "{\"match_all\":{}}",
        "title:ubuntu^9",
        "'; DROP TABLE passages; --",
        "${jndi:x}",
        &endless,
    ] {
        let hits = ask(index, &tenant(), text, &DocumentFilter::default(), 5).await;
        assert!(hits.len() <= 2, "no_text_is_query_syntax: `{}`", &text[..text.floor_char_boundary(40)]);
    }
    for text in ["multi-agent", "don't", "ubuntu 20.04", "*ubuntu", "title:ubuntu^9"] {
        let hits = ask(index, &tenant(), text, &DocumentFilter::default(), 5).await;
        let first = hits.first().map(|hit| hit.passage.document.as_str());
        assert_eq!(first, Some("a"), "marks_within_words_do_not_hide_them: `{text}`");
    }
}

async fn names_are_only_names(index: &impl DocumentIndex) {
    let long = "긴".repeat(20_000);
    let names = [
        "",
        "a.b",
        "../../etc/passwd",
        "docs\"; --",
        "*",
        "_all",
        "a/b?c#d%20",
        "줄\n바꿈",
        "nul\0",
        "\u{202e}x",
        &long,
    ];
    for (at, name) in names.iter().enumerate() {
        put(index, &tenant(), &document(name, &format!("{at}째 이름의 글."), name, DocumentKind::General))
            .await;
    }
    assert_eq!(
        list(index, &tenant(), &DocumentFilter::default()).await.len(),
        names.len(),
        "names_are_only_names"
    );
    for (at, name) in names.iter().enumerate() {
        let id = DocumentId::new(*name);
        let text = expect_ok(index.document(&tenant(), &id).await).map(|document| document.text);
        assert_eq!(text, Some(format!("{at}째 이름의 글.")), "names_are_only_names");
        let filter = DocumentFilter {
            collection: Some((*name).to_owned()),
            documents: vec![id],
            ..DocumentFilter::default()
        };
        assert_eq!(ask(index, &tenant(), "이름의 글", &filter, 50).await.len(), 1, "names_are_only_names");
    }
}

async fn a_document_without_words_is_still_there(index: &impl DocumentIndex) {
    let empty = plain("empty", "");
    put(index, &tenant(), &empty).await;
    for at in 0..20 {
        put(index, &tenant(), &plain(&format!("{at}"), "글.")).await;
    }
    assert_eq!(
        expect_ok(index.document(&tenant(), &empty.id).await),
        Some(empty.clone()),
        "a_document_without_words_is_still_there"
    );
    let listed = list(index, &tenant(), &DocumentFilter::default()).await;
    let found = listed.iter().find(|listed| listed.id == empty.id).map(|listed| listed.passages);
    assert_eq!(found, Some(0), "a_document_without_words_is_listed");
}

async fn the_order_of_arrival_does_not_matter(left: &impl DocumentIndex, right: &impl DocumentIndex) {
    let documents: Vec<Document> =
        (0..20).map(|at| plain(&format!("{at}"), &format!("비상구는 {}층에 있다.", at % 4))).collect();
    for document in &documents {
        put(left, &tenant(), document).await;
    }
    for document in documents.iter().rev() {
        put(right, &tenant(), document).await;
    }
    let asked = "비상구는 2층에 있나";
    let one = ask(left, &tenant(), asked, &DocumentFilter::default(), 20).await;
    let other = ask(right, &tenant(), asked, &DocumentFilter::default(), 20).await;
    assert_eq!(order(&one), order(&other), "the_order_of_arrival_does_not_matter");
}

async fn many_at_once_are_as_one_by_one(left: &impl DocumentIndex, right: &impl DocumentIndex) {
    let documents: Vec<(Document, Vec<_>)> = (0..20)
        .map(|at| plain(&format!("{}", at % 15), &format!("회의실 {at}호는 {}명이 쓴다.", at * 3)))
        .map(|document| (document.clone(), split_into_passages(&document)))
        .collect();
    for (document, _) in &documents {
        put(left, &tenant(), document).await;
    }
    expect_ok(right.put_all(&tenant(), &documents).await);
    let asked = "회의실 12호";
    let one = ask(left, &tenant(), asked, &DocumentFilter::default(), 20).await;
    let other = ask(right, &tenant(), asked, &DocumentFilter::default(), 20).await;
    assert_eq!(order(&one), order(&other), "many_at_once_are_as_one_by_one");
    assert_eq!(one.len(), 15, "many_at_once_are_as_one_by_one");
    let everything = DocumentFilter::default();
    assert_eq!(list(left, &tenant(), &everything).await, list(right, &tenant(), &everything).await);
}

fn document(id: &str, text: &str, collection: &str, kind: DocumentKind) -> Document {
    let title = format!("문서 {}", &id[..id.floor_char_boundary(20)]);
    let version = format!("v{}", text.len());
    Document { collection: collection.to_owned(), kind, version, ..Document::new(id, title, text) }
}

fn plain(id: &str, text: &str) -> Document {
    document(id, text, "", DocumentKind::General)
}

async fn put(index: &impl DocumentIndex, tenant: &DocumentTenant, document: &Document) {
    expect_ok(index.put(tenant, document, &split_into_passages(document)).await);
}

async fn ask(
    index: &impl DocumentIndex,
    tenant: &DocumentTenant,
    text: &str,
    filter: &DocumentFilter,
    limit: usize,
) -> Vec<Hit> {
    let question = SearchQuery { filter: filter.clone(), ..SearchQuery::new(tenant.clone(), text, limit) };
    expect_ok(index.retrieve(&question).await)
}

async fn list(
    index: &impl DocumentIndex,
    tenant: &DocumentTenant,
    filter: &DocumentFilter,
) -> Vec<DocumentSummary> {
    expect_ok(index.list(tenant, filter).await)
}

fn texts(hits: &[Hit]) -> BTreeSet<String> {
    hits.iter().map(|hit| hit.passage.text.clone()).collect()
}

fn order(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.passage.id.as_str()).collect()
}

fn expect_ok<T>(done: Result<T, RetrieveError>) -> T {
    match done {
        Ok(value) => value,
        Err(error) => panic!("the index failed: {error} ({error:?})"),
    }
}
