//! Finds the signatures below the last article of a contract that has no closing statement: a date, and who signs.

use std::sync::LazyLock;

use regex::Regex;

use super::clause_marker::parse_clause_marker;

/// A longer line is text.
const MAX_SIGNATURE_LINE_BYTES: usize = 300;

/// How many lines say who signs, at least. A contract has two parties; rules have one who issues them.
const MIN_SIGNATORIES: usize = 2;

/// How the parties of a contract are called.
const PARTIES: &str = "갑|을|병|정|임대인|임차인|매도인|매수인|도급인|수급인|위탁자|수탁자|위탁사|수탁사|위임인|수임인|발주자|수주자|발주사|수주사|\
    공급자|수요자|구매자|판매자|의뢰인|의뢰자|사용자|사업주|근로자|대여인|차용인|채권자|채무자|보증인|연대보증인|양도인|양수인|제공자|이용자|회사|직원|\
    party [a-d]|client|consultant|customer|provider|supplier|contractor|company|employer|employee|licensor|licensee|\
    landlord|tenant|lessor|lessee|seller|buyer|lender|borrower|by";

struct SignaturePatterns {
    date: Regex,
    /// A line that begins with the name of a party.
    party: Regex,
    /// A place for a seal, or somebody who represents a company.
    seal: Regex,
}

#[allow(clippy::expect_used, reason = "the patterns are constant, and every test reads them")]
static PATTERNS: LazyLock<SignaturePatterns> = LazyLock::new(|| {
    let pattern = |text: &str| Regex::new(&format!("(?i){text}")).expect("a pattern");
    SignaturePatterns {
        date: pattern(
            r"^\W*(?:(?:계약 ?체결일|계약일|체결일|작성일|날짜|일자|dated?)\s*[:：]?\s*)?(?:(?:\d{2,4})?\s*년\s*\d{0,2}\s*월\s*\d{0,2}\s*일|\d{4}\s*[.\-/]\s*\d{1,2}\s*[.\-/]\s*\d{1,2}|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d{1,2},? \d{4})\W*$",
        ),
        party: pattern(&format!(r#"^[\s*_>\-]*["“'‘(\[（「]?(?:{PARTIES})["”'’)\]）」]?(?:\s*[:：]|\s|$)"#)),
        seal: pattern(
            r"[(\[（]\s*(?:인|印|서명|날인|서명 ?또는 ?날인|seal|signature|signed)\s*[)\]）]|대표(?:이사|자)?(?:\s|[:：])",
        ),
    }
});

#[derive(Clone, Copy, PartialEq, Eq)]
enum SignatureLine {
    Date,
    /// How many sign. `is_sealed` if the line has a seal or somebody who represents a company.
    Signatory {
        count: usize,
        is_sealed: bool,
    },
    /// A blank line, an address: part of the signatures if it stands among them.
    Detail,
    Text,
}

/// Returns where the signatures begin at the end of the text of an article. They begin with the last date that stands alone
/// above those who sign, or without one with the first who signs, if there are seals.
pub(super) fn find_signatures(body: &str) -> Option<usize> {
    let mut end = body.len();
    let mut lines: Vec<(usize, SignatureLine)> = Vec::new();
    for line in body.split_inclusive('\n').rev() {
        end -= line.len();
        match classify_line(line) {
            SignatureLine::Text => break,
            kind => lines.push((end, kind)),
        }
    }
    let is_signatory = |(_, kind): &&(usize, SignatureLine)| matches!(kind, SignatureLine::Signatory { .. });
    // The lines are in reverse order.
    let date = lines.iter().position(|(_, kind)| *kind == SignatureLine::Date);
    let count = |lines: &[(usize, SignatureLine)]| -> usize {
        let counts = lines.iter().map(|(_, kind)| match kind {
            SignatureLine::Signatory { count, .. } => *count,
            SignatureLine::Date | SignatureLine::Detail | SignatureLine::Text => 0,
        });
        counts.sum()
    };
    let below = date.map_or(0, |at| count(&lines[..at]));
    let is_sealed =
        lines.iter().any(|(_, kind)| matches!(kind, SignatureLine::Signatory { is_sealed: true, .. }));
    let start = match date {
        Some(at) if below >= MIN_SIGNATORIES => lines[at].0,
        _ if is_sealed && count(&lines) >= MIN_SIGNATORIES => lines.iter().rfind(is_signatory)?.0,
        _ => return None,
    };
    // An article of nothing else lists the parties.
    (!body[..start].trim().is_empty()).then_some(start)
}

fn classify_line(line: &str) -> SignatureLine {
    let words = line.trim().trim_end_matches(['*', '_']);
    let SignaturePatterns { date, party, seal } = &*PATTERNS;
    if words.len() > MAX_SIGNATURE_LINE_BYTES || words.starts_with('#') {
        SignatureLine::Text
    } else if let Some(row) = words.strip_prefix('|') {
        classify_row(row)
    } else if words.is_empty() {
        SignatureLine::Detail
    } else if date.is_match(words) {
        SignatureLine::Date
    } else if words.ends_with("다.") || words.ends_with(';') || parse_clause_marker(words).is_some() {
        SignatureLine::Text
    } else {
        let is_sealed = seal.is_match(words);
        match is_sealed || party.is_match(words) {
            true => SignatureLine::Signatory { count: 1, is_sealed },
            false if words.ends_with(['.', '?', '!']) => SignatureLine::Text,
            false => SignatureLine::Detail,
        }
    }
}

/// A row of a table is what its cells are: who signs, if any of them says so, and a date, if they say nothing else.
fn classify_row(row: &str) -> SignatureLine {
    let cells: Vec<SignatureLine> =
        row.split('|').filter(|cell| !cell.trim().is_empty()).map(classify_line).collect();
    let (mut signatories, mut sealed) = (0, false);
    for cell in &cells {
        if let SignatureLine::Signatory { count, is_sealed } = cell {
            signatories += count;
            sealed |= is_sealed;
        }
    }
    match signatories {
        0 if cells.contains(&SignatureLine::Text) => SignatureLine::Text,
        0 if !cells.is_empty() && cells.iter().all(|cell| *cell == SignatureLine::Date) => {
            SignatureLine::Date
        }
        0 => SignatureLine::Detail,
        count => SignatureLine::Signatory { count, is_sealed: sealed },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the part after `‖` is found; without it, that nothing is.
    fn check(marked: &str) {
        let body = marked.replace('‖', "");
        assert_eq!(find_signatures(&body), marked.find('‖'), "{marked}");
    }

    #[test]
    fn signatures_begin_with_a_date_or_a_party() {
        check(
            "법원은 대전으로 한다.\n\n‖2026년 2월 24일\n\n갑: 주식회사 온길 대표이사 하정민\n을: 주식회사 두레 대표이사 권태오\n",
        );
        check(
            "법원은 대전으로 한다.\n‖2026. 2. 24.\n발주자 한빛소프트 대표 김하나\n주소 서울시 중구\n수주자 두레시스템 대표 이두리",
        );
        check(
            "따로 정한다.\n‖계약일: 2026-02-24\n임대인: 노경자 (인)\n주소: 서울\n임차인: 최가람 (인)\n전화: 02-000-0000",
        );
        check(
            "따로 정한다.\n\n‖20  년   월   일\n\n(갑) 온길\n대표이사      (인)\n\n(을) 두레\n대표이사      (인)",
        );
        check(
            "따로 정한다.\n\n‖\"갑\" 온길 대표이사 하정민 (인)\n\"을\" 두레 대표이사 권태오 (인)\n2026년 2월 24일",
        );
        check("Courts of Seoul.\n\n‖February 24, 2026\n\nClient: Ongil Inc.\nConsultant: Dure Ltd.");
        check(
            "따로 정한다.\n\n‖| 수요자 | 공급자 |\n|---|---|\n| 상호: 푸른솔 | 상호: 든든가구 |\n| 대표: 한지우 (인) | 대표: 문태일 (인) |\n",
        );
        check("따로 정한다. |\n\n‖| 2026년 2월 24일 | |\n|---|---|\n| 갑 | 온길 |\n| 을 | 두레 |");
        check("기간은 다음과 같다.\n2026년 1월 1일\n\n‖2026년 2월 24일\n갑: 온길\n을: 두레");
    }

    #[test]
    fn what_an_article_says_is_no_signature() {
        for body in [
            "",
            "법원은 대전으로 한다.",
            "2026년 2월 24일",
            "시행일은 다음과 같다.\n2026년 2월 24일",
            "통지는 다음 주소로 한다.\n갑: 서울시 중구\n을: 부산시 동구",
            "갑: 주식회사 온길 대표이사 하정민\n을: 주식회사 두레 대표이사 권태오",
            "2026년 2월 24일부터 시행한다.\n갑: 온길\n을: 두레이다.",
            "대금은 다음과 같다.\n\n| 갑 | 을 |\n|---|---|\n| 착수금 | 30일 안에 낸다. |",
            "기한은 다음과 같다.\n\n| 날짜 | 할 일 |\n|---|---|\n| 2026년 2월 24일 | 납품 |",
            "규칙은 게시한다.\n2026년 2월 24일\n주식회사 온길 대표이사 하정민",
            "다음과 같다.\n2026년 2월 24일\n1. 갑: 온길\n2. 을: 두레",
            "갑과 을은 협의한다.\n2026년 2월 24일\n갑: 온길\n을: 두레\n다툼은 법원에서 푼다.",
        ] {
            check(body);
        }
    }
}
