//! Tests of splitting, on small texts.

use super::*;
use crate::linear_cost::assert_cost_is_linear;
use crate::passage::DocumentKind;

fn check(text: &str, expected: &[&str]) {
    let document = Document::new("d", "규정", text);
    let shown: Vec<String> =
        split_and_check(&document).iter().map(|p| format!("{} | {}", p.title, p.text)).collect();
    assert_eq!(shown, expected);
}

/// Splits a document and checks what holds for every document.
fn split_and_check(document: &Document) -> Vec<Passage> {
    let passages = split_into_passages(document);
    let mut end = 0;
    for passage in &passages {
        assert_eq!(document.text[passage.range.clone()], passage.text, "a passage is its range");
        assert!(passage.range.start >= end, "passages do not overlap: {passage:?}");
        assert!(!passage.text.trim().is_empty(), "a passage says something: {passage:?}");
        end = passage.range.end;
    }
    passages
}

fn without_whitespace(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn a_paragraph_is_a_passage_under_its_headings() {
    check(
        "# 규정\n\n머리말\n이어짐\n## 휴가\n15일.\n\n반차.\r\n\r\n### 병가\n60일.\n## 경비\n영수증.",
        &[
            "규정 | 머리말\n이어짐",
            "규정 › 휴가 | 15일.",
            "규정 › 휴가 | 반차.",
            "규정 › 휴가 › 병가 | 60일.",
            "규정 › 경비 | 영수증.",
        ],
    );
    check("", &[]);
    check("#tag is no heading\n", &["규정 | #tag is no heading"]);
}

#[test]
fn an_article_is_a_passage_under_its_chapter() {
    let text = "# 취업규칙\n\n머리말.\n\n## 제1장 총칙\n\n### 제1조(목적)\n\n정한다.\n\n제2조(정의) ① 하나.\n② 둘.\n\n부칙\n제1조(시행일) 오늘.\n\n[별지1] 양식\n성명:";
    check(
        text,
        &[
            "규정 › 취업규칙 | 머리말.",
            "규정 › 제1장 총칙 › 제1조(목적) | 정한다.",
            "규정 › 제1장 총칙 › 제2조(정의) | 제2조(정의) ① 하나.\n② 둘.",
            "규정 › 부칙 | 부칙",
            "규정 › 부칙 › 제1조(시행일) | 제1조(시행일) 오늘.",
            "규정 › 별지1 양식 | [별지1] 양식\n성명:",
        ],
    );
    let articles: Vec<Option<u32>> = split_into_passages(&Document::new("d", "t", text))
        .iter()
        .map(|p| p.article.map(|a| a.number))
        .collect();
    assert_eq!(articles, [None, Some(1), Some(2), None, Some(1), None]);
}

#[test]
fn a_quoted_article_does_not_take_over_an_ordinary_document() {
    check(
        "# 규정\n\n## 휴가\n\n연차는 법을 따른다.\n\n제60조(연차 유급휴가) 사용자는 15일을 준다.\n\n## 출장\n\n미리 알린다.\n\n## 주차\n\n지하 2층에 세운다.",
        &[
            "규정 › 휴가 | 연차는 법을 따른다.",
            "규정 › 휴가 | 제60조(연차 유급휴가) 사용자는 15일을 준다.",
            "규정 › 출장 | 미리 알린다.",
            "규정 › 주차 | 지하 2층에 세운다.",
        ],
    );
    // A section written in articles ends at the next heading.
    check(
        "# 안내\n\n## 발췌\n\n제1조(목적) 정한다.\n\n제2조(휴가) 쉰다.\n\n## 주차\n\n지하 2층에 세운다.",
        &[
            "규정 › 제1조(목적) | 제1조(목적) 정한다.",
            "규정 › 제2조(휴가) | 제2조(휴가) 쉰다.",
            "규정 › 안내 › 주차 | 지하 2층에 세운다.",
        ],
    );
    // A single article that makes up the whole document is an article.
    check("# 규정\n제60조(휴가) 사용자는 준다.", &["규정 › 제60조(휴가) | 제60조(휴가) 사용자는 준다."]);
}

#[test]
fn the_signatures_of_a_contract_are_no_part_of_its_last_article() {
    check(
        "제1조(목적) 정한다.\n제2조(분쟁) 법원에서 푼다.\n\n2026년 2월 24일\n\n갑: 온길 대표 하정민\n을: 두레 대표 권태오",
        &[
            "규정 › 제1조(목적) | 제1조(목적) 정한다.",
            "규정 › 제2조(분쟁) | 제2조(분쟁) 법원에서 푼다.",
            "규정 | 2026년 2월 24일",
            "규정 | 갑: 온길 대표 하정민\n을: 두레 대표 권태오",
        ],
    );
}

#[test]
fn a_long_article_is_cut_between_clauses() {
    let clause = "가나다라마바사 아자차카타파하. ".repeat(14);
    let text = format!("제1조(목적) 짧다.\n제2조(긴 것)\n① {clause}\n② {clause}\n③ {clause}\n제3조(끝) 끝.");
    let document = Document::new("d", "t", text);
    let passages = split_and_check(&document);
    let starts: Vec<String> = passages.iter().map(|p| p.text.chars().take(4).collect()).collect();
    assert_eq!(starts, ["제1조(", "① 가나", "② 가나", "③ 가나", "제3조("]);
    assert!(passages.iter().all(|p| p.text.len() <= MAX_PASSAGE_BYTES && p.article.is_some()));
}

#[test]
fn numbered_headings_are_articles_in_contracts_only() {
    let text = "1. Term\nOne year.\n\n2. Fees\nTen won.";
    let general = Document::new("d", "t", text);
    let contract = Document { kind: DocumentKind::Contract, ..general.clone() };
    assert!(split_and_check(&general).iter().all(|p| p.article.is_none()));
    assert_eq!(split_and_check(&contract).iter().filter_map(|p| p.article).count(), 2);
}

#[test]
fn a_table_is_whole_unless_it_is_huge() {
    let table = |rows: usize| {
        let rows: String = (0..rows).map(|row| format!("| 항목 {row} | {row}원 |\n")).collect();
        format!("## 경비\n\n| 항목 | 금액 |\n| --- | --- |\n{rows}")
    };
    assert_eq!(split_and_check(&Document::new("d", "t", table(50))).len(), 1);
    let huge = split_and_check(&Document::new("d", "t", table(2000)));
    assert!(huge.len() > 5 && huge.iter().all(|p| p.title == "t › 경비 › 항목 | 금액"), "{}", huge.len());
    assert!(huge.iter().all(|p| p.text.starts_with('|') && p.text.ends_with('|')), "rows are not torn");
}

#[test]
fn a_passage_knows_its_page() {
    let text = "하나.\n\n둘.\n\n셋.";
    let document =
        Document { pages: vec![0, text.find('둘').expect("there")], ..Document::new("d", "t", text) };
    assert_eq!(
        split_into_passages(&document).iter().map(|p| p.page).collect::<Vec<_>>(),
        [Some(1), Some(2), Some(2)]
    );
}

#[test]
fn nothing_is_lost_when_a_long_paragraph_is_cut() {
    for text in ["가나다라 마바사. ".repeat(300), "x".repeat(5000), "한".repeat(3000), "한 ".repeat(2000)]
    {
        let document = Document::new("d", "t", text.clone());
        let passages = split_and_check(&document);
        assert!(passages.len() > 1 && passages.iter().all(|p| p.text.len() <= MAX_PASSAGE_BYTES));
        let joined: String = passages.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(without_whitespace(&joined), without_whitespace(&text));
    }
}

#[test]
fn a_heading_without_end_names_passages_shortly_and_loses_no_word() {
    let heading = "가나다라 ".repeat(8_000);
    let words = format!("{heading}\n\n{}", "글.\n\n".repeat(10_000));
    let passages = split_and_check(&Document::new("d", "규정", format!("# {words}")));
    let named = format!("규정 › {}", heading.chars().take(MAX_HEADING_CHARS).collect::<String>());
    assert!(passages.iter().all(|passage| passage.title == named), "{}", passages[0].title);
    assert_eq!(
        without_whitespace(&passages.iter().map(|passage| passage.text.as_str()).collect::<String>()),
        without_whitespace(&words)
    );
    let articles = format!("# {heading}\n제1조(목적) 정한다.\n제2조(끝) 끝.\n# {heading}\n## 주차\n글.");
    assert!(
        split_and_check(&Document::new("d", "규정", articles))
            .iter()
            .all(|p| p.title.len() <= MAX_PASSAGE_TITLE_BYTES)
    );
    // Many files use their first heading as a title, which is truncated in the same way.
    let title: String = heading.chars().take(ingest::MAX_TITLE_CHARS).collect();
    assert_eq!(split_and_check(&Document::new("d", &title, format!("# {heading}\n\n글.")))[0].title, title);
}

#[test]
fn of_headings_that_are_too_long_together_the_nearest_stay() {
    let long = |level: usize| format!("{level}{}", "가".repeat(MAX_HEADING_CHARS - 1));
    let text: String = (1..=6).map(|level| format!("{} {}\n\n", "#".repeat(level), long(level))).collect();
    let passages = split_and_check(&Document::new("d", "규정", format!("{text}글.")));
    assert_eq!(passages[0].title, format!("규정 › {} › {} › {}", long(4), long(5), long(6)));
}

#[test]
fn passages_that_take_too_much_memory_are_refused() {
    let document = Document::new("d", "t", "글.\n\n".repeat(100));
    let limit = 100 * (size_of::<Passage>() + "t글.".len());
    assert_eq!(split_within_bytes(&document, limit).map(|passages| passages.len()), Some(100));
    assert!(split_within_bytes(&document, limit - 1).is_none());
    assert_eq!(split_within_memory_limit(&document), Some(split_into_passages(&document)));
}

#[test]
fn a_text_of_eight_times_the_size_takes_about_eight_times_as_long() {
    let articles = |count: usize| (1..=count).map(|at| format!("제{at}조\n")).collect::<String>();
    let texts: [(&str, &dyn Fn(usize) -> String); 6] = [
        ("lines", &|size| "짧은 줄\n\n".repeat(size)),
        ("one word", &|size| "가".repeat(20 * size)),
        ("mentions", &|size| "제5조에 따라\n".repeat(size)),
        ("articles, and the first again and again", &|size| {
            format!("{}x\n제{}조\n{}", articles(size), size + 1, "제1조\n".repeat(size))
        }),
        ("a chapter to every article", &|size| {
            (1..=size).map(|at| format!("제{at}장\n제{at}조 글이다.\n")).collect()
        }),
        ("a heading to every article", &|size| {
            (1..=size).map(|at| format!("# 제{at}조\n글이다.\n# 덧붙임\n## 더\n글.\n")).collect()
        }),
    ];
    for (name, text) in texts {
        assert_cost_is_linear(name, |size| {
            let document = Document::new("d", "t", text(size));
            move || assert!(!split_into_passages(&document).is_empty())
        });
    }
}

#[test]
fn a_text_that_is_all_structure_is_refused_before_it_takes_memory() {
    let headings = Document::new("d", "규정", "#\n".repeat(MAX_DOCUMENT_LINES + 1));
    assert!(split_within_memory_limit(&headings).is_none());
    assert!(split_within_memory_limit(&Document::new("d", "규정", "# 제목\n\n글")).is_some());
}
