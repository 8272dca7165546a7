//! Checks that Korean pages and the Korean strings of the web page use the words of the glossary and end their
//! sentences in 합니다체. Code is not checked.
//!
//! Only words that have no other meaning here are listed. The rest of the glossary is checked in review.

use super::{RepositoryFile, TidyFinding, prose};

/// Words to avoid, with the glossary words that replace them.
const REPLACED: &[(&str, &str)] = &[
    ("들여다보기", "인스펙터"),
    ("갈래", "경로` or `분기"),
    ("갈라 나가", "분기"),
    ("열쇠", "API 키"),
    ("구절", "문단"),
    ("견본", "예시"),
    ("샘플", "예시"),
    ("세입자", "테넌트"),
    ("감옥", "샌드박스"),
    ("실타래", "스레드"),
    ("인덱스", "색인"),
    ("규칙 모델", "내장 모델"),
    ("메트릭", "지표"),
    ("거절", "거부"),
    ("비정상 종료", "크래시"),
    ("멱등 키", "멱등성 키"),
    ("답변", "답"),
];

/// Characters that may follow a quoted sentence.
const QUOTES: &[char] = &['"', '\'', '”', '’', '」'];

/// Whether this rule applies to the file at `path`.
pub fn is_korean(path: &str) -> bool {
    path.ends_with(".ko.md") || path.starts_with("docs/src/ko/") || path.ends_with("/i18n/ko.json")
}

/// Checks Korean files.
pub fn check(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    files.iter().flat_map(check_file).collect()
}

fn check_file(file: &RepositoryFile) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (line, mut text) in prose(&file.text) {
        if file.path.ends_with(".json") {
            text = text.replace('"', " ");
        }
        let place = format!("{}:{line}", file.path);
        for (word, instead) in REPLACED.iter().filter(|(word, _)| text.contains(word)) {
            findings.push(TidyFinding::new(&place, format!("write `{instead}` instead of `{word}`")));
        }
        for ending in plain_endings(&text) {
            findings.push(TidyFinding::new(&place, format!("`{ending}` is plain style, write 합니다체")));
        }
    }
    findings
}

/// The last words of sentences that end in `다.`, except `니다.` and the particle `마다`. Quoted sentences are skipped.
fn plain_endings(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, ending) in text.match_indices("다.") {
        let (before, after) = (&text[..at], &text[at + ending.len()..]);
        let goes_on = after.starts_with(|next: char| next.is_alphanumeric() || QUOTES.contains(&next));
        let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
        if word.is_empty() || word.ends_with(['니', '마']) || goes_on {
            continue;
        }
        found.push(&text[at - word.len()..at + ending.len()]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(path: &str, text: &str, expected: &str) {
        let found = check(&[RepositoryFile { path: path.to_string(), text: text.to_string() }]);
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), expected);
    }

    #[test]
    fn a_concept_has_one_word() {
        let page = "docs/src/ko/a.md";
        check_text(page, "인스펙터를 엽니다.\n", "");
        check_text(page, "\n들여다보기\n", "docs/src/ko/a.md:2: write `인스펙터` instead of `들여다보기`");
        check_text("README.ko.md", "갈래", "README.ko.md:1: write `경로` or `분기` instead of `갈래`");
        check_text(page, "`갈래`는 이름입니다.\n```\n갈래\n```\n", "");
    }

    #[test]
    fn a_sentence_ends_in_the_polite_style() {
        let page = "docs/src/ko/a.md";
        check_text(page, "| 실행합니다. | 모듈마다. |\n", "");
        check_text(
            page,
            "값을 쓴다. 끝입니다.\n",
            "docs/src/ko/a.md:1: `쓴다.` is plain style, write 합니다체",
        );
        check_text(page, "(예시이다.)\n", "docs/src/ko/a.md:1: `(예시이다.` is plain style, write 합니다체");
        check_text(page, "답은 \"해지할 수 있다.\"입니다.\n", "");
        check_text(page, "`값을 쓴다.`\n```\n쓴다.\n```\n", "");
    }

    #[test]
    fn the_strings_of_the_web_page_are_read_too() {
        let strings = "crates/server/ui/src/i18n/ko.json";
        let broken = "crates/server/ui/src/i18n/ko.json:1: `찾는다.` is plain style, write 합니다체";
        check_text(strings, "  \"search\": \"문서에서 찾는다.\",\n", broken);
        check_text(strings, "  \"search\": \"문서에서 찾습니다.\",\n", "");
    }

    #[test]
    fn other_languages_are_left_alone() {
        for path in ["README.ko.md", "docs/src/ko/a.md", "crates/server/ui/src/i18n/ko.json"] {
            assert!(is_korean(path), "{path}");
        }
        for path in ["README.md", "docs/src/en/a.md", "crates/server/ui/src/i18n/en.json"] {
            assert!(!is_korean(path), "{path}");
        }
    }
}
