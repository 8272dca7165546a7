//! Tests of the classification of lines.

use super::*;

fn check(line: &str, style: ArticleNumberingStyle, expected: &str) {
    let shown = match classify_line(line, style) {
        ContractLine::Chapter { number, title } => format!("chapter {number} `{}`", &line[title]),
        ContractLine::Article { number, title, body, .. } => {
            format!("{number} `{}` + `{}`", title.map_or("-", |title| &line[title]), &line[body..])
        }
        ContractLine::Appendix { label, title } => format!("appendix `{}` `{}`", &line[label], &line[title]),
        ContractLine::Closing => "closing".into(),
        ContractLine::Other => "other".into(),
    };
    assert_eq!(shown, expected, "{line}");
}

#[test]
fn an_article_may_be_headed_in_any_usual_bracket() {
    for line in [
        "제5조(손해배상)",
        "제 5 조 【손해배상】",
        "## 제5조 [손해배상]",
        "**제5조〈손해배상〉**",
        "제5조 손해배상",
        "제5조（손해배상）",
        "第五條 (손해배상)",
    ] {
        check(line, ArticleNumberingStyle::Korean, "제5조 `손해배상` + ``");
    }
    check("제1조(목적) 이 계약은 …", ArticleNumberingStyle::Korean, "제1조 `목적` + `이 계약은 …`");
    check("제10조의2(비밀유지) ① 갑은", ArticleNumberingStyle::Korean, "제10조의2 `비밀유지` + `① 갑은`");
    check(
        "제3조 ① 갑은 을에게 돈을 준다.",
        ArticleNumberingStyle::Korean,
        "제3조 `-` + `① 갑은 을에게 돈을 준다.`",
    );
    check("제7조", ArticleNumberingStyle::Korean, "제7조 `-` + ``");
}

#[test]
fn a_heading_may_begin_with_any_syllable_and_a_text_with_a_reference() {
    for title in ["가격", "을의 의무", "과업의 범위", "부가가치세", "내용의 변경", "은행 계좌", "에너지 절약"]
    {
        check(&format!("제2조 {title}"), ArticleNumberingStyle::Korean, &format!("제2조 `{title}` + ``"));
    }
    check("제8조 을은 갑에게 알린다.", ArticleNumberingStyle::Korean, "제8조 `-` + `을은 갑에게 알린다.`");
    check("제8조(의무)을은 알린다.", ArticleNumberingStyle::Korean, "제8조 `의무` + `을은 알린다.`");
    check(
        "제4조(해지) 제3조에 따라 해지된",
        ArticleNumberingStyle::Korean,
        "제4조 `해지` + `제3조에 따라 해지된`",
    );
    check(
        "제21조(준용) 제10조의2 제2항은",
        ArticleNumberingStyle::Korean,
        "제21조 `준용` + `제10조의2 제2항은`",
    );
    check("특 약 사 항", ArticleNumberingStyle::Korean, "appendix `특 약 사 항` ``");
    check("[특약사항]", ArticleNumberingStyle::Korean, "appendix `특약사항` ``");
    check("특약사항은 따로 정한다", ArticleNumberingStyle::Korean, "other");
}

#[test]
fn a_mention_at_the_start_of_a_line_is_no_article() {
    for line in [
        "제5조에 따라 배상한다.",
        "제5조(손해배상)에 따라",
        "제5조 제2항에 따른 통지는",
        "제5조, 제6조",
        "제5조 및 제6조",
        "제5조(목적) 및 제6조(정의)",
        "제5조(목적)까지의 규정",
        "제5조 의 규정에 따라",
        "제1조(목적) ........ 3",
        "[별지1]에 기재된 것을 말한다.",
        "별지에 따른다.",
        "첨부 파일을 보낸다.",
        "Article 5 of the Act",
        "Section 5.2 Renewal",
    ] {
        check(line, ArticleNumberingStyle::Korean, "other");
    }
    check("Article 5 of the Act", ArticleNumberingStyle::Article, "other");
    check("Section 5.2 Renewal", ArticleNumberingStyle::Section, "other");
}

#[test]
fn chapters_appendices_and_english_headings_are_read() {
    check("제2장 용역의 수행", ArticleNumberingStyle::Korean, "chapter 2 `용역의 수행`");
    check("# 제 1 장 총칙", ArticleNumberingStyle::Korean, "chapter 1 `총칙`");
    check("[별지1] 대상데이터", ArticleNumberingStyle::Korean, "appendix `별지1` `대상데이터`");
    check("<별지 제1호 서식>", ArticleNumberingStyle::Korean, "appendix `별지 제1호 서식` ``");
    check("부   칙", ArticleNumberingStyle::Korean, "appendix `부   칙` ``");
    check("ARTICLE V – TERM", ArticleNumberingStyle::Article, "제5조 `TERM` + ``");
    check(
        "Section 3. Fees. The Client pays.",
        ArticleNumberingStyle::Section,
        "제3조 `Fees` + `The Client pays.`",
    );
    check("5. Term", ArticleNumberingStyle::Numbered, "제5조 `Term` + ``");
    check("Exhibit A – Services", ArticleNumberingStyle::Numbered, "appendix `Exhibit A` `Services`");
    check("IN WITNESS WHEREOF, the parties", ArticleNumberingStyle::Numbered, "closing");
}
