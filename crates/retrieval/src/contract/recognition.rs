//! Tells contracts from other documents that are written in articles, such as regulations and laws.

use super::Contract;
use crate::passage::Document;

/// A contract refers to itself in at least one of so many articles. Of the articles of laws about contracts, at most one in
/// ten speaks of "this contract".
const ARTICLES_PER_SELF_REFERENCE: usize = 5;
/// How far the verb may be from the word for a contract, in characters.
const MAX_VERB_DISTANCE: usize = 12;

const KOREAN_SELF_REFERENCES: [&str; 4] = ["이 계약", "본 계약", "이계약", "본계약"];
const ENGLISH_SELF_REFERENCES: [&str; 2] = ["this agreement", "this contract"];

/// Returns whether a document is a contract by its structure: it has at least two articles, and it is signed (it has a
/// closing statement), or the parties enter into it before the first article, or its articles call it a contract.
///
/// A standard contract is not recognised: only the user knows for which kind of contract it is the standard.
pub(crate) fn is_contract(document: &Document) -> bool {
    let contract = Contract::parse(document);
    if contract.articles.len() < 2 || is_standard_form(&document.title) {
        return false;
    }
    let preamble = &document.text[contract.preamble.clone()];
    contract.closing.is_some() || enters_into_contract(preamble) || refers_to_itself(document, &contract)
}

fn is_standard_form(title: &str) -> bool {
    title.contains("표준") || title.to_lowercase().contains("standard")
}

/// "… 다음과 같이 계약을 체결한다", "This Agreement is made between …".
fn enters_into_contract(preamble: &str) -> bool {
    let korean = preamble.match_indices("계약").any(|(at, word)| {
        let after: String = preamble[at + word.len()..].chars().take(MAX_VERB_DISTANCE).collect();
        after.contains("체결")
            || after.contains("맺")
            || ["한다", "합니다"].iter().any(|end| after.starts_with(end))
    });
    let english = preamble.to_lowercase();
    let names_itself = ENGLISH_SELF_REFERENCES.iter().any(|name| english.contains(name))
        || english.contains("agreement") && english.contains("entered into");
    korean || names_itself && (english.contains("between") || english.contains("by and among"))
}

fn refers_to_itself(document: &Document, contract: &Contract) -> bool {
    let count = contract
        .articles
        .iter()
        .filter(|article| {
            let text = &document.text[article.range.clone()];
            let lower = text.to_lowercase();
            KOREAN_SELF_REFERENCES.iter().any(|name| text.contains(name))
                || ENGLISH_SELF_REFERENCES.iter().any(|name| lower.contains(name))
        })
        .count();
    count >= 2 && count * ARTICLES_PER_SELF_REFERENCE >= contract.articles.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(title: &str, text: &str, expected: bool) {
        let document = Document { title: title.to_owned(), text: text.to_owned(), ..Document::default() };
        assert_eq!(is_contract(&document), expected, "{title}");
    }

    #[test]
    fn a_contract_has_parties_who_enter_into_it_and_articles() {
        check(
            "상가 임대차",
            "임대인 노경자와 임차인 빈센트제과는 임대차 계약을 맺는다.\n\n제1조(보증금)\n5,000만 원으로 한다.\n\n제2조(기간)\n2년으로 한다.",
            true,
        );
        check(
            "물류 용역",
            "가온(이하 \"갑\")과 나래(이하 \"을\")는 다음과 같이 계약한다.\n\n## 제1조(대금)\n\n8천만 원으로 한다.\n\n## 제7조(검수)\n\n7일로 한다.",
            true,
        );
        check(
            "데이터 제공",
            "제1조(목적) 본 계약은 제공자가 이용자에게 데이터를 제공함을 목적으로 한다.\n\n제2조(정의) 본 계약에서 쓰는 말은 다음과 같다.\n\n제3조(기간) 1년으로 한다.",
            true,
        );
        check(
            "용역",
            "제1조(대금) 대금은 100만 원이다.\n\n제2조(기간) 1년이다.\n\n이 계약을 증명하기 위하여 서명한다.",
            true,
        );
        check(
            "Consulting",
            "This Agreement is made between A (\"Client\") and B (\"Consultant\").\n\n## 1. Services\n\nB works.\n\n## 2. Fees\n\nA pays.",
            true,
        );
    }

    #[test]
    fn rules_laws_forms_and_texts_about_contracts_are_not_contracts() {
        check(
            "취업규칙",
            "제1조(목적) 이 규칙은 회사(이하 \"회사\"라 한다)와 직원(이하 \"직원\"이라 한다)의 근로조건을 정한다.\n\n제2조(근로계약) 회사는 직원과 근로계약을 체결한다.\n\n제3조(휴가) 15일을 준다.",
            false,
        );
        let law: String = (1..=30)
            .map(|number| {
                format!(
                    "제{number}조(계약) 당사자는 {} 해지할 수 있다.\n\n",
                    if number < 3 { "이 계약을" } else { "이를" }
                )
            })
            .collect();
        check("민법", &law, false);
        check(
            "표준 용역계약서",
            "갑과 을은 계약을 체결한다.\n\n제1조(목적) 본 계약은.\n\n제2조(대금) 본 계약의.",
            false,
        );
        check("안내", "갑과 을은 계약을 체결한다. 이 계약은 1년이다.", false);
        check("Manual", "Agreement between parts.\n\n## 1. Start\n\nPush.\n\n## 2. Stop\n\nPull.", false);
    }
}
