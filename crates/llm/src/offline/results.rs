//! How the results of tools are told: their words as they stand, after a fixed lead.

use super::quotes::{self, Cite, Source, SourceKind};
use super::say::Say;
use super::text::content_words;
use super::turn::Turn;
use super::wish::Wish;
use crate::message::{Origin, ToolResult};

/// The most lines of a result that are shown.
const MOST_LINES: usize = 20;

/// The most sentences that are quoted of a page or file.
const MOST_SENTENCES: usize = 4;

/// The longest line in bytes.
const LONGEST: usize = 1200;

/// Whether a tool finds passages, so that its result is to be searched and not told whole.
pub(super) fn is_search(name: &str) -> bool {
    ["hybrid_search", "get_article_by_index", "get_article_by_title", "lookup_standard_contract"]
        .iter()
        .any(|search| name.ends_with(search))
}

/// Whether a person did not let the tool be run: nothing has failed then.
pub(super) fn is_refused(result: &ToolResult) -> bool {
    let said = ["사용자가 이 호출을 거절했습니다", "the person refused this call"];
    result.failed && result.origin == Origin::Program && said.iter().any(|words| result.text.ends_with(words))
}

/// Whether a result of this turn tells what a wish is for.
pub(super) fn tell(turn: &Turn<'_>, wish: &Wish) -> bool {
    let tool = match wish {
        Wish::Compute(_) | Wish::ComputeWhat => "calculator",
        Wish::Time { .. } => "get_current_datetime",
        Wish::Weather(_) | Wish::WeatherWhere => "get_weather",
        Wish::Encyclopedia(_) => "search_wikipedia",
        Wish::Web(_) => "web_search",
        Wish::File(_) => "read_file",
        Wish::Run(_) => "python_repl",
        Wish::Remember(_) => "remember",
        Wish::Recall(_) => "recall",
        Wish::Forget(_) => "forget",
        Wish::Article(_) | Wish::Title(_) | Wish::Standard => return false,
    };
    turn.results.iter().any(|result| result.name.ends_with(tool))
}

/// What is left of a question for documents to answer: a formula that was computed finds nothing there, nor do the words
/// that lead over to it.
pub(super) fn left_of(turn: &Turn<'_>, question: &str) -> String {
    if !turn.results.iter().any(|result| result.name.ends_with("calculator")) {
        return question.to_owned();
    }
    let computed = |word: &str| {
        word.chars().any(|char| char.is_ascii_digit())
            || !word.chars().any(char::is_alphabetic)
            || ["계산", "보고", "calculate", "compute"].iter().any(|cue| word.to_lowercase().starts_with(cue))
    };
    // "며칠인지" asks for days as "며칠" does.
    let plain =
        |word: &'_ str| if word.starts_with("며칠") { "며칠".to_owned() } else { word.to_owned() };
    let line = |line: &str| {
        let words = line.split_whitespace().filter(|word| !computed(word));
        words.map(plain).collect::<Vec<_>>().join(" ")
    };
    question.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The lines that tell a result.
pub(super) fn told(turn: &Turn<'_>, result: &ToolResult) -> Vec<String> {
    let name = result.name.as_str();
    let Some(first) = lines(&result.text).next() else {
        return vec![Say::ResultEmpty.with(turn.tongue, &[name])];
    };
    if is_refused(result) {
        return vec![Say::Refused.with(turn.tongue, &[name])];
    }
    if result.failed {
        return vec![match of_calculator(result) {
            Some((say, why)) => say.with(turn.tongue, &[why]),
            None => Say::Failed.with(turn.tongue, &[name, first]),
        }];
    }
    let is = |wanted: &str| name.ends_with(wanted);
    if is("search_wikipedia") {
        return sentences(turn, result, Say::Encyclopedia);
    }
    if is("web_search") {
        return sentences(turn, result, Say::Web);
    }
    if is("read_file") {
        return sentences(turn, result, Say::File);
    }
    // What these say is a sentence for the person already.
    if is("remember") || is("forget") || (is("recall") && !first.starts_with('[')) {
        return lines(&result.text).take(MOST_LINES).map(str::to_owned).collect();
    }
    let lead = if is("recall") {
        Say::Recalled
    } else if is("calculator") {
        Say::Computed
    } else if is("get_current_datetime") {
        Say::Time
    } else if is("get_weather") {
        Say::Weather
    } else if is("python_repl") {
        Say::Ran
    } else {
        Say::Result
    };
    whole(turn, result, lead)
}

/// The whole result, line by line, as far as it is shown.
fn whole(turn: &Turn<'_>, result: &ToolResult, lead: Say) -> Vec<String> {
    let mut told = Vec::new();
    for (at, line) in lines(&result.text).take(MOST_LINES).enumerate() {
        told.push(match (at, lead) {
            (0, Say::Result) => lead.with(turn.tongue, &[&result.name, line]),
            (0, _) => lead.with(turn.tongue, &[line]),
            _ => Say::ResultMore.with(turn.tongue, &[line]),
        });
    }
    if lines(&result.text).nth(MOST_LINES).is_some() {
        told.push(Say::ResultCut.with(turn.tongue, &[]));
    }
    told
}

/// The sentence that shares most with the question, or the first ones.
fn sentences(turn: &Turn<'_>, result: &ToolResult, lead: Say) -> Vec<String> {
    let source =
        Source { title: "", text: &result.text, kind: SourceKind::Own, cite: Cite::Tool(&result.name) };
    let asked = question_beyond_call(turn, result);
    if let Some(pick) = quotes::best(&asked, &[source]).filter(|_| !content_words(&asked).is_empty()) {
        return vec![lead.with(turn.tongue, &[pick.sentence])];
    }
    let mut first = quotes::quotable(&result.text);
    let mut told: Vec<String> =
        first.by_ref().take(MOST_SENTENCES).map(|sentence| lead.with(turn.tongue, &[sentence])).collect();
    if first.next().is_some() {
        told.push(Say::ResultCut.with(turn.tongue, &[]));
    }
    told
}

/// The question without what went into the call: its name of a file or person finds nothing within the result.
fn question_beyond_call(turn: &Turn<'_>, result: &ToolResult) -> String {
    let mut question = turn.question.clone();
    let arguments = turn.call_of(result).and_then(|call| call.arguments.as_object());
    for value in arguments.into_iter().flat_map(|object| object.values()).filter_map(|value| value.as_str()) {
        question = question.replace(value, " ");
    }
    let manner = ["읽어", "요약", "찾아", "알려", "검색", "위키", "인터넷", "누구", "보여", "정리", "내용"];
    let kept = question.split_whitespace().filter(|word| !manner.iter().any(|start| word.starts_with(start)));
    kept.collect::<Vec<_>>().join(" ")
}

/// The lines of a text that hold something, without control characters.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.split(|char: char| char.is_control() && char != '\t').map(str::trim_end);
    lines.filter(|line| !line.trim().is_empty()).map(|line| line[..line.floor_char_boundary(LONGEST)].trim())
}

/// Why a calculator gave no value, where it says so with a code: `Error: syntax: …`. The code is for programs.
pub(super) fn of_calculator(result: &ToolResult) -> Option<(Say, &str)> {
    let said = lines(&result.text).next()?.strip_prefix("Error: ")?;
    let (code, why) =
        said.split_once(": ").filter(|_| result.failed && result.name.ends_with("calculator"))?;
    let is_code = code.chars().all(|char| char.is_ascii_lowercase() || char == '_');
    let say =
        if matches!(code, "syntax" | "unknown" | "unknown_name") { Say::NoFormula } else { Say::NoValue };
    is_code.then_some((say, why))
}
