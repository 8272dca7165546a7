//! How the results of tools are told: their words as they stand, after a fixed lead.

use doran_agents::request_format::NOTE_PREFIX;
use doran_agents::tools::{CalculatorFailure, is_refused_by_person, names};
use doran_llm::ToolResult;

use super::intent::QuestionIntent;
use super::memory;
use super::phrasing::FixedPhrase;
use super::quotes;
use super::text::content_words;
use super::turn::OfflineTurn;
use super::units::{QuotableSource, QuotableSourceKind, SourceCitation};

/// The most lines of a result that are shown.
const MAX_RESULT_LINES: usize = 20;

/// The most sentences that are quoted of a page or file.
const MAX_QUOTED_SENTENCES: usize = 4;

/// The longest line in bytes.
const MAX_RESULT_LINE_BYTES: usize = 1200;

/// Whether a tool finds passages, so that its result is to be searched and not told whole.
pub(super) fn is_search(name: &str) -> bool {
    names::CONTRACT_TOOLS.iter().any(|search| name.ends_with(search))
}

/// Whether a result of this turn tells what a wish is for.
pub(super) fn is_intent_answered(turn: &OfflineTurn<'_>, wish: &QuestionIntent) -> bool {
    let tool = match wish {
        QuestionIntent::Compute(_) | QuestionIntent::ComputeWhat => names::CALCULATOR,
        QuestionIntent::Time(_) => names::GET_CURRENT_DATETIME,
        QuestionIntent::Weather(_) | QuestionIntent::WeatherWhere => names::GET_WEATHER,
        QuestionIntent::Encyclopedia(_) | QuestionIntent::Person(_) => names::SEARCH_WIKIPEDIA,
        QuestionIntent::Web(_) => names::WEB_SEARCH,
        QuestionIntent::File(_) => names::READ_FILE,
        QuestionIntent::Run(_) => names::PYTHON_REPL,
        QuestionIntent::Remember(_) => names::REMEMBER,
        QuestionIntent::Recall(_) => names::RECALL,
        QuestionIntent::Forget(_) => names::FORGET,
        QuestionIntent::Article(_) | QuestionIntent::Title(_) | QuestionIntent::Standard => return false,
    };
    turn.results.iter().any(|result| result.name.ends_with(tool))
}

/// What is left of a question for documents to answer: a formula that was computed finds nothing there, nor do the words
/// that lead over to it.
pub(super) fn question_without_formula(turn: &OfflineTurn<'_>, question: &str) -> String {
    if !turn.results.iter().any(|result| result.name.ends_with(names::CALCULATOR)) {
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
pub(super) fn result_lines(turn: &OfflineTurn<'_>, result: &ToolResult) -> Vec<String> {
    let name = result.name.as_str();
    let Some(first) = lines(&result.text).next() else {
        return vec![FixedPhrase::ResultEmpty.filled(turn.language, &[name])];
    };
    if is_refused_by_person(result) {
        return vec![FixedPhrase::Refused.filled(turn.language, &[name])];
    }
    if result.failed {
        return vec![match calculator_failure(result) {
            Some((say, why)) => say.filled(turn.language, &[why]),
            None => FixedPhrase::Failed.filled(turn.language, &[name, first]),
        }];
    }
    let is = |wanted: &str| name.ends_with(wanted);
    if is(names::SEARCH_WIKIPEDIA) {
        return sentences(turn, result, FixedPhrase::Encyclopedia);
    }
    if is(names::WEB_SEARCH) {
        return sentences(turn, result, FixedPhrase::Web);
    }
    if is(names::READ_FILE) {
        return sentences(turn, result, FixedPhrase::File);
    }
    // What these say is a sentence for the person already.
    if is(names::REMEMBER) || is(names::FORGET) || memory::is_recall_of_nothing(result) {
        return lines(&result.text).take(MAX_RESULT_LINES).map(str::to_owned).collect();
    }
    if is(names::RECALL) {
        let lead = if memory::is_recall_of_all(turn, result) {
            FixedPhrase::RecalledAll
        } else {
            FixedPhrase::Recalled
        };
        return result_text_lines(turn, &result.name, &memory::facts_about(turn, result).join("\n"), lead);
    }
    let lead = if is(names::CALCULATOR) {
        FixedPhrase::Computed
    } else if is(names::GET_CURRENT_DATETIME) {
        FixedPhrase::Time
    } else if is(names::GET_WEATHER) {
        FixedPhrase::Weather
    } else if is(names::PYTHON_REPL) {
        FixedPhrase::Ran
    } else {
        FixedPhrase::Result
    };
    result_text_lines(turn, name, &result.text, lead)
}

/// What a tool told, line by line, as far as it is shown.
fn result_text_lines(turn: &OfflineTurn<'_>, tool: &str, text: &str, lead: FixedPhrase) -> Vec<String> {
    let mut lines_shown = Vec::new();
    for (at, line) in lines(text).take(MAX_RESULT_LINES).enumerate() {
        lines_shown.push(match (at, lead) {
            (0, FixedPhrase::Result) => lead.filled(turn.language, &[tool, line]),
            (0, _) => lead.filled(turn.language, &[line]),
            _ => FixedPhrase::ResultMore.filled(turn.language, &[line]),
        });
    }
    if lines(text).nth(MAX_RESULT_LINES).is_some() {
        lines_shown.push(FixedPhrase::ResultCut.filled(turn.language, &[]));
    }
    lines_shown
}

/// The sentence that shares most with the question, or the first ones.
fn sentences(turn: &OfflineTurn<'_>, result: &ToolResult, lead: FixedPhrase) -> Vec<String> {
    let source = QuotableSource {
        title: "",
        text: &result.text,
        kind: QuotableSourceKind::Document,
        cite: SourceCitation::Tool(&result.name),
    };
    let asked = question_beyond_call(turn, result);
    if let Some(said) = quotes::most_shared(&asked, &[source]).filter(|_| !content_words(&asked).is_empty()) {
        return vec![lead.filled(turn.language, &[said])];
    }
    let mut first = quotes::quotable(&source);
    let mut lines_shown: Vec<String> = first
        .by_ref()
        .take(MAX_QUOTED_SENTENCES)
        .map(|sentence| lead.filled(turn.language, &[&sentence]))
        .collect();
    if first.next().is_some() {
        lines_shown.push(FixedPhrase::ResultCut.filled(turn.language, &[]));
    }
    lines_shown
}

/// The question without what went into the call: its name of a file or person finds nothing within the result.
fn question_beyond_call(turn: &OfflineTurn<'_>, result: &ToolResult) -> String {
    let mut question = turn.question.clone();
    let arguments = turn.call_of(result).and_then(|call| call.arguments.as_object());
    for value in arguments.into_iter().flat_map(|object| object.values()).filter_map(|value| value.as_str()) {
        question = question.replace(value, " ");
    }
    let manner = ["읽어", "요약", "찾아", "알려", "검색", "위키", "인터넷", "누구", "보여", "정리", "내용"];
    let kept = question.split_whitespace().filter(|word| !manner.iter().any(|start| word.starts_with(start)));
    kept.collect::<Vec<_>>().join(" ")
}

/// The lines of a result that hold something, without control characters and without a note of the program at its head.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let note = text.starts_with(NOTE_PREFIX).then(|| text.find('\n')).flatten().unwrap_or(0);
    let lines = text[note..].split(|char: char| char.is_control() && char != '\t').map(str::trim_end);
    lines
        .filter(|line| !line.trim().is_empty())
        .map(|line| line[..line.floor_char_boundary(MAX_RESULT_LINE_BYTES)].trim())
}

/// Why a calculator gave no value, where it says so.
pub(super) fn calculator_failure(result: &ToolResult) -> Option<(FixedPhrase, &str)> {
    if !result.failed || !result.name.ends_with(names::CALCULATOR) {
        return None;
    }
    let failure = CalculatorFailure::parse(lines(&result.text).next()?)?;
    let say = if failure.is_syntax { FixedPhrase::NoFormula } else { FixedPhrase::NoValue };
    Some((say, failure.reason))
}
