//! The marks that agents put into their requests: message ids, headings, prefixes. The built-in model looks for these marks; a
//! language model reads the words.

use doran_retrieval::{HEADING_SEPARATOR, Language};

/// The id of a message that holds what was looked up in documents.
pub const MATERIAL_MESSAGE_ID: &str = "material";

/// The id of a message that holds a summary of earlier turns.
pub const SUMMARY_MESSAGE_ID: &str = "summary";

/// Stands before a note: a line of the program about a search or a call that is no part of its result.
pub const NOTE_PREFIX: &str = "※ ";

/// Stands before a message of the user, in a conversation that is written as text.
pub fn user_line_prefix(language: Language) -> &'static str {
    language.pick("사용자: ", "User: ")
}

/// Stands before an answer, in a conversation that is written as text.
pub fn answer_line_prefix(language: Language) -> &'static str {
    language.pick("답변: ", "Answer: ")
}

/// The heading above what was found in the user's contract.
pub(crate) fn user_contract_heading(language: Language) -> &'static str {
    language.pick("사용자 계약서", "The user's contract")
}

/// The heading above what was found in the standard contract.
pub(crate) fn standard_contract_heading(language: Language) -> &'static str {
    language.pick("표준계약서", "The standard contract")
}

/// The title of a passage without the heading of its side, under which the contract agent shows it.
pub fn without_side_heading(title: &str) -> &str {
    let headings = [Language::Korean, Language::English]
        .map(|language| [user_contract_heading(language), standard_contract_heading(language)]);
    match title.split_once(HEADING_SEPARATOR) {
        Some((side, rest)) if headings.as_flattened().contains(&side) => rest,
        _ => title,
    }
}

/// Whether a line of a prompt is a heading, and if so whether a summary of earlier turns follows it. Prompts may be
/// written anew, so a heading is known by its words: `[이전 대화 요약]`, `[Conversation record 1]`, `# Summary`.
pub fn opens_summary(line: &str) -> Option<bool> {
    const BRACKETED: [&str; 4] = ["요약", "대화 기록", "summar", "conversation record"];
    if let Some(title) = line.strip_prefix('#') {
        let title = title.to_lowercase();
        return Some(title.contains("요약") || title.contains("summary"));
    }
    let inner = line.strip_prefix('[')?.strip_suffix(']')?.to_lowercase();
    Some(BRACKETED.iter().any(|word| inner.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_summaries_are_distinguished_from_others() {
        for heading in ["[이전 대화 요약]", "[Conversation record 1]", "# Summary"] {
            assert_eq!(opens_summary(heading), Some(true), "{heading}");
        }
        for other in ["[참고 문서]", "[Reference documents]", "[찾아본 결과]", "# 규정"] {
            assert_eq!(opens_summary(other), Some(false), "{other}");
        }
        assert_eq!(opens_summary("사용자: 요약해 줘"), None);
    }
}
