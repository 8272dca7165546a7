//! Tests of references, by spelling.

use super::*;

fn check(text: &str, expected: Option<&str>) {
    let shown = ArticleReference::parse(text).map(|reference| reference.to_string());
    assert_eq!(shown.as_deref(), expected, "{text}");
}

#[test]
fn one_number_has_many_spellings() {
    for text in [
        "제5조",
        "제 5 조",
        "5조",
        "제오조",
        "第五條",
        "제５조",
        " 「제5조」".trim_matches(['「', '」', ' ']),
        "Article 5",
        "article V",
        "Section 5",
        "§ 5",
        "5",
        "5.",
    ] {
        check(text, Some("제5조"));
    }
    check("제십조의2", Some("제10조의2"));
    check("제10조의 2", Some("제10조의2"));
    check("제10-2조", Some("제10조의2"));
    check("10의2조", Some("제10조의2"));
    check("부칙 제1조", Some("부칙 제1조"));
    check("부칙", None);
    check("제5조제2항", Some("제5조 제2항"));
    check("제5조 ②", Some("제5조 제2항"));
    check("제 5 조 제 2 항 제 1 호", Some("제5조 제2항 제1호"));
    check("Section 5.2", Some("제5조 제2항"));
    assert_eq!(ArticleNumber::parse("제20조의3"), Some(ArticleNumber { number: 20, branch: 3 }));
    for text in ["", "제조", "조", "다섯", "제5장", "5조 원", "계약 제5조"] {
        check(text, None);
    }
}

fn check_references(text: &str, expected: &str) {
    let shown: Vec<String> = find_article_references(text)
        .iter()
        .map(|reference| {
            assert!(text.get(reference.range.clone()).is_some(), "{reference:?}");
            reference.law.as_ref().map_or(reference.to_string(), |law| format!("{law}:{reference}"))
        })
        .collect();
    assert_eq!(shown.join(", "), expected, "{text}");
}

#[test]
fn references_are_found_in_sentences() {
    check_references("제5조와 제 7 조의2를 비교해 줘", "제5조, 제7조의2");
    check_references("5조 내용이 뭐야?", "제5조");
    check_references("제5조의 이행에 관하여 제6조의 3개월", "제5조, 제6조");
    check_references("제10조 제1항 및 제3항에 따라", "제10조 제1항, 제10조 제3항");
    check_references("제3조부터 제5조까지 보여줘", "제3조부터 제5조까지");
    check_references("제3조에서 제5조까지는?", "제3조부터 제5조까지");
    check_references("제3조에서 제5조를 인용한다", "제3조, 제5조");
    check_references("제14조의2 내지 제20조와 제22조", "제14조의2부터 제20조까지, 제22조");
    check_references("Articles 3 to Article 5", "제3조부터 제5조까지");
    check_references(
        "「민법」 제750조 또는 근로기준법 제23조, 이 계약 제2조",
        "민법:제750조, 근로기준법:제23조, 제2조",
    );
    check_references("See Section 5.2 and Article IV.", "제5조 제2항, 제4조");
    check_references("제3~5조와 7조", "제3조부터 제5조까지, 제7조");
    check_references("부칙 제1조와 제1조", "부칙 제1조, 제1조");
    check_references("제3조의 2항", "제3조 제2항");
    check_references("10조 2항 1호", "제10조 제2항 제1호");
    check_references("art. 10(2)", "제10조 제2항");
}

#[test]
fn every_reader_of_articles_reads_the_same_spellings() {
    for line in include_str!("../article_number_spellings.tsv").lines() {
        let (text, expected) = line.split_once('\t').expect("two columns");
        let read: Vec<String> = find_article_references(text)
            .iter()
            .flat_map(ArticleReference::counted_articles)
            .map(|article| article.to_string())
            .collect();
        assert_eq!(read.join(" "), expected, "{text}");
    }
}

#[test]
fn sums_of_money_and_other_words_are_no_articles() {
    for text in [
        "5조 원",
        "1.5조",
        "3조 2천억 원",
        "제3조직",
        "제 이 조건",
        "조 5",
        "articles of faith",
        "제5장",
        "12조원",
        "10-20조 원",
        "3조각",
        "5조별로",
    ] {
        check_references(text, "");
    }
}

#[test]
fn a_statute_is_looked_for_close_before_its_article_only() {
    let found = find_article_references(&"법제1조".repeat(20_000));
    assert_eq!(found.len(), 20_000);
    let longest = found.iter().filter_map(|reference| reference.law.as_ref()).map(String::len).max();
    assert!(longest.is_none_or(|longest| longest <= MAX_STATUTE_NAME_BYTES), "{longest:?}");
    let named = find_article_references("「하도급거래 공정화에 관한 법률」 제3조");
    assert_eq!(named[0].law.as_deref(), Some("하도급거래 공정화에 관한 법률"));
}

#[test]
fn a_range_includes_the_articles_with_branches_that_lie_within_it() {
    let range = ArticleReference::parse("제3조부터 제20조까지").expect("a range");
    let includes = |text: &str| range.includes(ArticleNumber::parse(text).expect(text));
    assert!(["제3조", "제14조의2", "제20조"].into_iter().all(includes));
    assert!(!["제2조", "제2조의2", "제20조의2", "제21조"].into_iter().any(includes));
    assert_eq!(range.counted_articles().count(), 18);
    let huge = ArticleReference::parse("제1조~제9000조").expect("a range");
    assert_eq!(huge.counted_articles().count(), 64);
}
