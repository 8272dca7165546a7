//! What rules propose to look up, and what of all proposals is really new.

use std::borrow::Cow;

use doran_llm::ToolCall;
use doran_retrieval::contract::references;
use serde_json::json;

use super::appendix::Attached;
use super::state::{ContractState, signature};

/// Most calls of one round.
const MOST_CALLS: usize = 8;

/// Bytes at either end of a question in which rules look for names. What is longer carries a text along, and its
/// question stands before or after that.
const LOOKED_AT: usize = 4 * 1024;

/// Calls that the question itself names: articles by number, articles by a quoted or known title. Each once, and no more
/// than one round takes.
pub(super) fn proposed(question: &str, titles: &[String]) -> Vec<ToolCall> {
    let ends = ends_of(question);
    let mut calls = Proposed::default();
    let (mut question, mut read) = (String::new(), 0);
    for (attached, range) in Attached::find_all(&ends) {
        calls.add("get_article_by_index", json!({ "article": attached.to_string() }));
        question.push_str(&ends[read..range.start]);
        question.push(' ');
        read = range.end;
    }
    question.push_str(&ends[read..]);
    for reference in references(&question).iter().filter(|reference| reference.law.is_none()) {
        calls.add("get_article_by_index", json!({ "article": reference.to_string() }));
    }
    for title in quoted(&question) {
        calls.add("get_article_by_title", json!({ "title": title }));
    }
    // Longer titles first, so that 손해배상의 예정 is not also taken for 손해배상.
    let mut known: Vec<&String> = titles.iter().filter(|title| title.chars().count() > 1).collect();
    known.sort_by_key(|title| std::cmp::Reverse(title.len()));
    let mut rest = squeezed(&question);
    for title in known {
        let bare = squeezed(title);
        if rest.contains(&bare) {
            rest = rest.replace(&bare, " ");
            calls.add("get_article_by_title", json!({ "title": title }));
        }
    }
    calls.calls
}

/// What rules look for articles in: all of a question, or both of its ends.
pub(super) fn ends_of(question: &str) -> Cow<'_, str> {
    if question.len() <= 2 * LOOKED_AT {
        return question.into();
    }
    let head = question.floor_char_boundary(LOOKED_AT);
    let tail = question.ceil_char_boundary(question.len() - LOOKED_AT);
    format!("{}\n{}", &question[..head], &question[tail..]).into()
}

/// Calls that rules propose.
#[derive(Default)]
struct Proposed {
    calls: Vec<ToolCall>,
    signs: Vec<String>,
}

impl Proposed {
    fn add(&mut self, name: &str, arguments: serde_json::Value) {
        if self.calls.len() >= MOST_CALLS {
            return;
        }
        let call = call(name, arguments);
        let sign = signature(&call);
        if !self.signs.contains(&sign) {
            self.signs.push(sign);
            self.calls.push(call);
        }
    }
}

fn call(name: &str, arguments: serde_json::Value) -> ToolCall {
    ToolCall { id: String::new(), name: name.into(), arguments }
}

/// What stands in quotation marks, if it is short enough to be a title.
fn quoted(question: &str) -> Vec<&str> {
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

fn squeezed(text: &str) -> String {
    text.chars().filter(|char| !char.is_whitespace()).collect()
}

/// The calls that are new, each once and with an id of its own.
pub(super) fn fresh(state: &ContractState, wanted: impl IntoIterator<Item = ToolCall>) -> Vec<ToolCall> {
    let mut seen = Vec::new();
    let mut calls = Vec::new();
    for mut call in wanted {
        let sign = signature(&call);
        if state.has_run(&call) || seen.contains(&sign) || calls.len() >= MOST_CALLS {
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
        let calls: Vec<String> = proposed(question, &titles).iter().map(signature).collect();
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
        assert_eq!(proposed(&text, &[]).len(), MOST_CALLS);
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
            call: call("get_article_by_index", json!({ "article": "제5조" })),
            text: String::new(),
            failed: false,
            origin: doran_llm::Origin::Document,
            notes: Vec::new(),
        };
        let state = ContractState { tool_history: vec![done], ..ContractState::default() };
        let wanted = ["5조", "제6조", "제 6 조", "제7조"]
            .map(|article| call("get_article_by_index", json!({ "article": article })));
        let calls = fresh(&state, wanted);
        let told: Vec<String> =
            calls.iter().map(|call| format!("{} {}", call.id, call.arguments["article"])).collect();
        assert_eq!(told, [r#"call-2-1 "제6조""#, r#"call-2-2 "제7조""#]);
    }
}
