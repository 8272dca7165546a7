//! Tests of parsing contracts.

use super::*;

/// Prints the structure, one line for each part, with the first and last words of its range.
fn render_structure(text: &str) -> String {
    let contract = parse_contract(text);
    let mut lines = Vec::new();
    let ends = |range: &Range<usize>| {
        let words = text[range.clone()].replace('\n', "/");
        let chars: Vec<char> = words.chars().collect();
        match chars.len() {
            0..=16 => words,
            _ => format!(
                "{}…{}",
                chars[..8].iter().collect::<String>(),
                chars[chars.len() - 6..].iter().collect::<String>()
            ),
        }
    };
    for chapter in &contract.chapters {
        lines.push(format!("장 {} {} [{}]", chapter.number, chapter.title, ends(&chapter.range)));
    }
    let article = |article: &ContractArticle, lines: &mut Vec<String>| {
        lines.push(format!("{} [{}]", article.heading(), ends(&article.range)));
        for clause in &article.clauses {
            lines.push(format!("  {} [{}]", clause.label, ends(&clause.range)));
            for item in &clause.items {
                lines.push(format!("    {} [{}]", item.label, ends(&item.range)));
                lines.extend(
                    item.items.iter().map(|item| format!("      {} [{}]", item.label, ends(&item.range))),
                );
            }
        }
    };
    contract.articles.iter().for_each(|one| article(one, &mut lines));
    if let Some(closing) = &contract.closing {
        lines.push(format!("끝 [{}]", ends(closing)));
    }
    for appendix in &contract.appendices {
        lines.push(format!("부 {} {} [{}]", appendix.label, appendix.title, ends(&appendix.range)));
        appendix.articles.iter().for_each(|one| article(one, &mut lines));
    }
    lines.join("\n")
}

#[test]
fn a_korean_contract_is_taken_apart() {
    let text = "# 용역계약서\n\n갑과 을은 다음과 같이 계약한다.\n\n제1장 총칙\n\n제1조(목적) 이 계약은 갑과 을의 권리를 정한다.\n\n\
                제2조【정의】\n① 말의 뜻은 다음과 같다.\n 1. \"자료\"란 문서를 말한다.\n   가. 종이\n   나. 파일\n 2. \"결과\"란 산출물이다.\n\
                ② 그 밖의 말은 제1항에 따른다.\n\n제2장 이행\n제3조 (기간) 1년으로 한다.\n제3조의2(연장) 1. 한 번\n2. 두 번\n\n\
                이 계약을 증명하기 위하여 서명한다.\n갑: (인)\n\n부칙\n제1조(시행일) 오늘부터.\n\n[별지1] 산출물\n| 제9조(표) | 값 |\n";
    assert_eq!(
        render_structure(text),
        "장 1 총칙 [제1장 총칙//…에 따른다.]\n장 2 이행 [제2장 이행/제…2. 두 번]\n\
         제1조(목적) [제1조(목적) …를 정한다.]\n제2조(정의) [제2조【정의】/…에 따른다.]\n  ① [① 말의 뜻은 …산출물이다.]\n    1. [1. \"자료\"란… 나. 파일]\n      가. [가. 종이]\n      나. [나. 파일]\n    2. [2. \"결과\"란 산출물이다.]\n  ② [② 그 밖의 말…에 따른다.]\n\
         제3조(기간) [제3조 (기간)…으로 한다.]\n제3조의2(연장) [제3조의2(연장…2. 두 번]\n  1. [1. 한 번]\n  2. [2. 두 번]\n\
         끝 [이 계약을 증명…갑: (인)]\n부 부칙  [부칙/제1조(시… 오늘부터.]\n제1조(시행일) [제1조(시행일) 오늘부터.]\n부 별지1 산출물 [[별지1] 산출… | 값 |]"
    );
}

#[test]
fn an_english_contract_is_taken_apart() {
    let text = "SERVICE AGREEMENT\n\n1. Services. The Provider works.\n1.1 It works well.\n1.2 It works (a) fast.\n\n2. Fees\n(a) Monthly.\n(b) In won.\n\n3. Term\nOne year.\n\nIN WITNESS WHEREOF, signed.\n\nExhibit A – Services\nList.";
    assert_eq!(
        render_structure(text),
        "제1조(Services) [1. Servi… fast.]\n  1.1 [1.1 It w… well.]\n  1.2 [1.2 It w… fast.]\n제2조(Fees) [2. Fees/…n won.]\n  (a) [(a) Monthly.]\n  (b) [(b) In won.]\n제3조(Term) [3. Term/… year.]\n끝 [IN WITNE…igned.]\n부 Exhibit A Services [Exhibit …/List.]"
    );
    let articles =
        render_structure("ARTICLE I – TERM\nOne year.\nSection 1.1 More.\n\nARTICLE II – FEES\nNone.");
    assert!(articles.starts_with("제1조(TERM)") && articles.contains("제2조(FEES)"), "{articles}");
}

fn article_texts(text: &str) -> Vec<String> {
    let words = |article: &ContractArticle| text[article.range.clone()].replace('\n', "/");
    parse_contract(text).articles.iter().map(|one| format!("{}: {}", one.number, words(one))).collect()
}

#[test]
fn no_article_is_lost_to_the_one_before() {
    let text = "제1조 목적\n정한다.\n제2조 가격\n100원이다.\n제3조 을의 의무\n을은 일한다.\n제4조 과업의 범위\n별지와 같다.\n\
                제5조 부가가치세\n따로 낸다.\n제6조 내용의 변경\n합의한다.\n제7조 은행 계좌\n따로 알린다.\n제8조 을은 갑에게 알린다.\n제9조 관할\n서울이다.";
    assert_eq!(parse_contract(text).articles.len(), 9, "{:?}", article_texts(text));
    let text = "제3조(해지) 해지한다.\n제4조(손해배상) 제3조에 따라 해지된 경우 배상한다.\n제5조(준용) 제1항은 준용한다.";
    assert_eq!(parse_contract(text).articles.len(), 3, "{:?}", article_texts(text));
    // A line that starts with a reference to a later article is not a heading.
    let text = "제3조(해지) 그때에는\n제9조(위약금) 제2항에 따른다.\n제4조(끝) 끝.";
    assert_eq!(article_texts(text).len(), 2, "{:?}", article_texts(text));
}

#[test]
fn a_heading_ends_an_article_that_stands_no_lower() {
    let text =
        "# 안내\n## 규정\n제1조(휴가) 쉰다.\n제2조(출장) 간다.\n## 주차\n지하에 세운다.\n# 끝\n끝이다.";
    assert_eq!(article_texts(text), ["제1조: 제1조(휴가) 쉰다.", "제2조: 제2조(출장) 간다."]);
    // Inside an article a lower heading is part of it; after the last article it is not.
    let text = "# 계약서\n제1조(대금) 다음과 같다.\n### 표\n1원\n제2조(끝) 끝.\n## 덧붙임\n따로.";
    assert_eq!(article_texts(text), ["제1조: 제1조(대금) 다음과 같다./### 표/1원", "제2조: 제2조(끝) 끝."]);
    let text = "## 제1조(대금)\n낸다.\n### 표\n1원\n## 제2조(끝)\n끝.\n\n특약사항\n고양이는 된다.";
    assert_eq!(article_texts(text), ["제1조: 제1조(대금)/낸다./### 표/1원", "제2조: 제2조(끝)/끝."]);
    assert_eq!(parse_contract(text).appendices[0].label, "특약사항");
}

#[test]
fn a_table_of_contents_is_not_the_contract() {
    let text = "제1조(목적)\n제2조(정의)\n\n제1조(목적) 정한다.\n제2조(정의) 뜻이다.\n";
    let contract = parse_contract(text);
    assert_eq!(contract.articles.len(), 2);
    assert!(text[contract.articles[0].range.clone()].ends_with("정한다."));
    // Two of them are not a contract either. Articles with text are, whatever list follows them.
    let list = "제1조(목적)\n제2조(정의)\n";
    let text = format!("{list}\n{list}\n제1조(목적) 정한다.\n제2조(정의)\n뜻이다.\n{list}");
    assert_eq!(
        article_texts(&text),
        ["제1조: 제1조(목적) 정한다.", "제2조: 제2조(정의)/뜻이다./제1조(목적)/제2조(정의)"]
    );
}

#[test]
fn a_mention_is_no_article_and_a_text_without_articles_has_none() {
    let text =
        "제1조(목적) 정한다.\n제2조(기간)\n제1조의 목적에 따라 다음\n제1조(목적) 에서 정한 바\n제3조(끝) 끝.";
    assert_eq!(parse_contract(text).articles.iter().map(|a| a.number.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(parse_contract("그냥 글이다.\n\n1. 하나\n").articles.is_empty());
    assert!(parse_contract("").articles.is_empty());
}

#[test]
fn signatures_without_a_closing_statement_are_not_part_of_the_last_article() {
    let signed = "2026년 2월 24일\n\n갑: 온길 대표 하정민\n을: 두레 대표 권태오";
    let articles = "제1장 총칙\n제1조(목적) 정한다.\n제2조(분쟁)\n① 협의한다.\n② 법원에서 푼다.";
    for rest in ["", "\n\n별지 1\n목록"] {
        let text = format!("{articles}\n\n{signed}{rest}\n");
        let contract = parse_contract(&text);
        assert_eq!(article_texts(&text)[1], "제2조: 제2조(분쟁)/① 협의한다./② 법원에서 푼다.");
        assert_eq!(&text[contract.articles[1].clauses[1].range.clone()], "② 법원에서 푼다.");
        assert_eq!(&text[contract.chapters[0].range.clone()], articles);
        assert_eq!(&text[contract.closing.expect("signed")], signed);
        assert_eq!(contract.appendices.len(), usize::from(!rest.is_empty()));
    }
}

#[test]
fn a_contract_may_be_a_table_whose_rows_are_its_articles() {
    let text = "# 납품 계약서\n\n| 계약명 | 의자 |\n|---|---|\n| 금액 | 10원 |\n\n\
        | 제1조(목적) | 정한다. |\n|---|---|\n| 제2조(대금) | ① 낸다. ② 선급금은 없다. |\n| 제3조 | 끝낸다. |\n\n\
        | 갑 | 을 |\n|---|---|\n| 대표: 한지우 (인) | 대표: 문태일 (인) |\n";
    assert_eq!(
        article_texts(text),
        [
            "제1조: 제1조(목적) | 정한다. |",
            "제2조: 제2조(대금) | ① 낸다. ② 선급금은 없다. |",
            "제3조: 제3조 | 끝낸다. |"
        ]
    );
    let contract = parse_contract(text);
    assert_eq!(contract.articles[1].title, "대금");
    assert_eq!(&text[contract.articles[2].body.clone()], "끝낸다. |");
    assert_eq!(contract.articles[1].clauses.len(), 2);
    assert!(text[contract.closing.expect("signed")].starts_with("| 갑 | 을 |"));
    // Rows that compare articles are none, nor are those of a table beside articles.
    for row in ["| 제5조(휴가) | 15일 | 20일 |", "| 제5조(휴가) 15일을 준다. | 제5조(휴가) 20일을 준다. |"]
    {
        let text = format!("| 조항 | 현행 | 개정 |\n|---|---|---|\n{row}\n{}", row.replace("제5조", "제9조"));
        assert!(parse_contract(&text).articles.is_empty(), "{text}");
    }
    let text = "제1조(목적) 정한다.\n제2조(변경) 다음과 같다.\n\n| 제3조(대금) | 10원 |\n|---|---|\n| 제4조(끝) | 끝 |";
    assert_eq!(parse_contract(text).articles.len(), 2);
}
