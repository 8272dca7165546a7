//! Tool calls that rules propose, and the removal of calls that were already made.

use std::borrow::Cow;

use doran_llm::ToolCall;
use doran_retrieval::contract::find_article_references;
use serde_json::json;

use super::appendix::AppendixName;
use super::state::{ContractState, call_signature};
use crate::tools::names;

/// Most calls of one round.
const MAX_CALLS_PER_ROUND: usize = 8;

/// Bytes at either end of a question in which rules look for names. What is longer carries a text along, and its
/// question stands before or after that.
const MAX_QUESTION_END_BYTES: usize = 4 * 1024;

/// Bytes between 표준 and 계약서 in which the kind of the contract is named.
const MAX_CONTRACT_KIND_BYTES: usize = 40;

/// Calls that the question itself names: articles by number, articles by a quoted or known title. Each once, and no more
/// than one round takes.
pub(super) fn propose_calls(question: &str, titles: &[String]) -> Vec<ToolCall> {
    let ends = question_ends(question);
    let mut calls = CallProposals::default();
    let (mut question, mut read) = (String::new(), 0);
    for (attached, range) in AppendixName::find_all(&ends) {
        calls.add(names::GET_ARTICLE_BY_INDEX, json!({ "article": attached.to_string() }));
        question.push_str(&ends[read..range.start]);
        question.push(' ');
        read = range.end;
    }
    question.push_str(&ends[read..]);
    let (mut of_standard, mut end) = (false, 0);
    for reference in find_article_references(&question).iter().filter(|reference| reference.law.is_none()) {
        let between = &question[end..reference.range.start];
        // 표준계약서 제10조와 제12조: what is joined on belongs to the same contract.
        of_standard = (of_standard && is_conjunction(between))
            || is_of_standard(between, &question[reference.range.end..]);
        end = reference.range.end;
        if of_standard {
            calls.add(names::LOOKUP_STANDARD_CONTRACT, json!({ "query": reference.to_string() }));
        } else {
            calls.add(names::GET_ARTICLE_BY_INDEX, json!({ "article": reference.to_string() }));
        }
    }
    for title in quoted_titles(&question) {
        calls.add(names::GET_ARTICLE_BY_TITLE, json!({ "title": title }));
    }
    // Longer titles first, so that 손해배상의 예정 is not also taken for 손해배상.
    let mut known: Vec<&String> = titles.iter().filter(|title| title.chars().count() > 1).collect();
    known.sort_by_key(|title| std::cmp::Reverse(title.len()));
    let mut rest = without_whitespace(&question);
    for title in known {
        let bare = without_whitespace(title);
        if let Some(at) = rest.find(&bare) {
            if ends_with_standard(&rest[..at]) {
                calls.add(names::LOOKUP_STANDARD_CONTRACT, json!({ "query": title }));
            } else {
                calls.add(names::GET_ARTICLE_BY_TITLE, json!({ "title": title }));
            }
            rest = rest.replace(&bare, " ");
        }
    }
    calls.calls
}

/// Whether an article that is named between two texts is one of the standard contract.
pub fn is_of_standard(before: &str, after: &str) -> bool {
    ends_with_standard(before) || follows_of_standard(after)
}

/// Whether a text ends by naming the standard contract: 표준계약서의, 표준 용역계약서에서, the standard contract's.
fn ends_with_standard(text: &str) -> bool {
    const PARTICLES: [&str; 7] = ["의", "에서", "에서는", "에", "에는", "상", "'s"];
    let mut text = text.trim_end().trim_end_matches(',').to_lowercase();
    text.retain(|char| !char.is_whitespace());
    let bare = PARTICLES.iter().find_map(|particle| text.strip_suffix(particle)).unwrap_or(&text);
    let named =
        ["계약서", "계약", "약관", "contract", "agreement"].iter().find_map(|name| bare.strip_suffix(name));
    let Some(before) = named else { return bare.ends_with("표준안") };
    // The kind of contract may stand between: 표준 소프트웨어 용역 계약서.
    let tail = &before[before.ceil_char_boundary(before.len().saturating_sub(MAX_CONTRACT_KIND_BYTES))..];
    let is_kind = |kind: &str| !kind.contains("계약") && !kind.contains("약관");
    tail.rsplit_once("표준").is_some_and(|(_, kind)| is_kind(kind)) || tail.ends_with("standard")
}

/// Whether a text begins by naming the standard contract: of the standard contract.
fn follows_of_standard(text: &str) -> bool {
    let text = text.trim_start().to_lowercase();
    ["of the standard", "in the standard"].iter().any(|words| text.starts_with(words))
}

/// Whether a text only joins what stands on either side of it.
fn is_conjunction(text: &str) -> bool {
    ["와", "과", "하고", "랑", "이랑", "및", ",", "·", "ㆍ", "and", ""].contains(&text.trim())
}

/// What rules look for articles in: all of a question, or both of its ends.
pub(super) fn question_ends(question: &str) -> Cow<'_, str> {
    if question.len() <= 2 * MAX_QUESTION_END_BYTES {
        return question.into();
    }
    let head = question.floor_char_boundary(MAX_QUESTION_END_BYTES);
    let tail = question.ceil_char_boundary(question.len() - MAX_QUESTION_END_BYTES);
    format!("{}\n{}", &question[..head], &question[tail..]).into()
}

/// Calls that rules propose.
#[derive(Default)]
struct CallProposals {
    calls: Vec<ToolCall>,
    signatures: Vec<String>,
}

impl CallProposals {
    fn add(&mut self, name: &str, arguments: serde_json::Value) {
        if self.calls.len() >= MAX_CALLS_PER_ROUND {
            return;
        }
        let call = call_without_id(name, arguments);
        let sign = call_signature(&call);
        if !self.signatures.contains(&sign) {
            self.signatures.push(sign);
            self.calls.push(call);
        }
    }
}

fn call_without_id(name: &str, arguments: serde_json::Value) -> ToolCall {
    ToolCall { id: String::new(), name: name.into(), arguments }
}

/// What stands in quotation marks, if it is short enough to be a title.
fn quoted_titles(question: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (open, close) in [('"', '"'), ('“', '”'), ('\'', '\''), ('‘', '’')] {
        let mut rest = question;
        while let Some(start) = rest.find(open) {
            let after = &rest[start + open.len_utf8()..];
            let Some(end) = after.find(close) else { break };
            let title = after[..end].trim();
            if (2..=40).contains(&title.chars().count()) && !found.contains(&title) {
                found.push(title);
            }
            rest = &after[end + close.len_utf8()..];
        }
    }
    found
}

fn without_whitespace(text: &str) -> String {
    text.chars().filter(|char| !char.is_whitespace()).collect()
}

/// The calls that are new, each once and with an id of its own.
pub(super) fn new_calls_only(
    state: &ContractState,
    wanted: impl IntoIterator<Item = ToolCall>,
) -> Vec<ToolCall> {
    let mut seen = Vec::new();
    let mut calls = Vec::new();
    for mut call in wanted {
        let sign = call_signature(&call);
        if state.has_run(&call) || seen.contains(&sign) || calls.len() >= MAX_CALLS_PER_ROUND {
            continue;
        }
        seen.push(sign);
        call.id = format!("call-{}-{}", state.tool_history.len() + 1, calls.len() + 1);
        calls.push(call);
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::contract::ToolRun;

    fn check(question: &str, titles: &[&str], expected: &[&str]) {
        let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
        let calls: Vec<String> = propose_calls(question, &titles).iter().map(call_signature).collect();
        assert_eq!(calls, expected, "{question}");
    }

    #[test]
    fn rules_propose_what_the_question_names() {
        check("제5조 내용이 뭐야?", &[], &[r#"get_article_by_index({"article":"제5조"})"#]);
        check(
            "제 십 조의2와 제3조를 비교해줘",
            &[],
            &[
                r#"get_article_by_index({"article":"제10조의2"})"#,
                r#"get_article_by_index({"article":"제3조"})"#,
            ],
        );
        check("「민법」 제750조는?", &[], &[]);
        check("\"손해배상\" 조항 보여줘", &[], &[r#"get_article_by_title({"title":"손해배상"})"#]);
        check(
            "비밀 유지는 언제까지야?",
            &["비밀유지", "목적"],
            &[r#"get_article_by_title({"title":"비밀유지"})"#],
        );
        check(
            "손해배상의 예정은?",
            &["손해배상", "손해배상의 예정"],
            &[r#"get_article_by_title({"title":"손해배상의 예정"})"#],
        );
        check("안녕하세요", &["목적"], &[]);
        let standard = |query: &str| format!(r#"lookup_standard_contract({{"query":"{query}"}})"#);
        check("표준계약서 제10조 보여줘", &[], &[&standard("제10조")]);
        check("표준 용역 계약서의 제10조와 제12조는?", &[], &[&standard("제10조"), &standard("제12조")]);
        check("Show Article 10 of the standard contract", &[], &[&standard("제10조")]);
        check("표준계약서 손해배상 조항은?", &["손해배상"], &[&standard("손해배상")]);
        check(
            "제5조를 표준계약서 제5조와 비교해줘",
            &[],
            &[r#"get_article_by_index({"article":"제5조"})"#, &standard("제5조")],
        );
        check(
            "표준계약서와 내 계약서 제5조를 비교해줘",
            &[],
            &[r#"get_article_by_index({"article":"제5조"})"#],
        );
        let own = |article: &str| format!(r#"get_article_by_index({{"article":"{article}"}})"#);
        check("제7조부터 제29조까지 보여줘", &[], &[&own("제7조부터 제29조까지")]);
        check("표준계약서 제2조~제4조는?", &[], &[&standard("제2조부터 제4조까지")]);
        check("별지 1 보여줘", &[], &[r#"get_article_by_index({"article":"별지 1"})"#]);
        check(
            "부칙 제1조와 제3조는?",
            &[],
            &[
                r#"get_article_by_index({"article":"부칙 제1조"})"#,
                r#"get_article_by_index({"article":"제3조"})"#,
            ],
        );
    }

    #[test]
    fn however_long_a_question_is_no_more_is_proposed_than_a_round_takes() {
        let text = "별지 ".repeat(74_000);
        check(&text, &[], &[r#"get_article_by_index({"article":"별지"})"#]);
        let text: String = (1..2_000).map(|number| format!("제{number}조 별지 {} ", number % 1000)).collect();
        assert_eq!(propose_calls(&text, &[]).len(), MAX_CALLS_PER_ROUND);
        let text = format!("제5조와 {}\n위 글은 제7조와 맞아?", "가나다라 ".repeat(40_000));
        check(
            &text,
            &[],
            &[r#"get_article_by_index({"article":"제5조"})"#, r#"get_article_by_index({"article":"제7조"})"#],
        );
    }

    #[test]
    fn only_new_calls_are_left_each_once() {
        let done = ToolRun {
            iteration: 0,
            call: call_without_id("get_article_by_index", json!({ "article": "제5조" })),
            text: String::new(),
            failed: false,
            origin: doran_llm::TextOrigin::Document,
            notes: Vec::new(),
        };
        let state = ContractState { tool_history: vec![done], ..ContractState::default() };
        let wanted = ["5조", "제6조", "제 6 조", "제7조"]
            .map(|article| call_without_id("get_article_by_index", json!({ "article": article })));
        let calls = new_calls_only(&state, wanted);
        let lines: Vec<String> =
            calls.iter().map(|call| format!("{} {}", call.id, call.arguments["article"])).collect();
        assert_eq!(lines, [r#"call-2-1 "제6조""#, r#"call-2-2 "제7조""#]);
    }
}
