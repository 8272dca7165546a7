//! Tool calls by grammar: what a question wishes, put into the arguments that the tools on offer name. Nothing is
//! guessed: a call whose required arguments the question does not hold is not made, and no call is made twice.

use doran_agents::agents::contract::StandardComparison;
use doran_agents::tools::names;
use doran_llm::{ChatRequest, ModelError, ToolCall, ToolChoice, ToolSpec};
use doran_retrieval::contract::ArticleReference;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::comparison;
use super::cues::Cue;
use super::decisions::{self, one_line};
use super::intent::{QuestionIntent, intents_of};
use super::memory;
use super::quotes;
use super::schema::{has_type, resolved};
use super::text::content_words;
use super::turn::OfflineTurn;

/// The calls that a request wants next; none when it is time to answer.
pub(super) fn next_tool_calls(
    turn: &OfflineTurn<'_>,
    request: &ChatRequest,
) -> Result<Vec<ToolCall>, ModelError> {
    match &request.tool_choice {
        ToolChoice::None => Ok(Vec::new()),
        ToolChoice::Auto => Ok(new_tool_calls(turn, planned_calls(turn, &request.tools))),
        ToolChoice::Required => {
            let calls = new_tool_calls(turn, planned_calls(turn, &request.tools));
            if !calls.is_empty() {
                return Ok(calls);
            }
            let any = request.tools.iter().find_map(|tool| by_question(turn, tool));
            any.map(|call| new_tool_calls(turn, vec![call]))
                .filter(|calls| !calls.is_empty())
                .ok_or_else(|| missing_arguments_error("any tool"))
        }
        ToolChoice::Named(name) => {
            let mut calls = planned_calls(turn, &request.tools);
            calls.retain(|(tool, _)| tool == name);
            if calls.is_empty() {
                let tool = request.tools.iter().find(|tool| tool.name == *name);
                calls.extend(tool.and_then(|tool| by_question(turn, tool)));
            }
            let calls = new_tool_calls(turn, calls);
            if calls.is_empty() { Err(missing_arguments_error(name)) } else { Ok(calls) }
        }
    }
}

type PlannedToolCall = (String, Value);

fn missing_arguments_error(tool: &str) -> ModelError {
    ModelError::Rejected {
        reason: format!(
            "the question does not hold the arguments that `{tool}` needs, and the offline model guesses none"
        ),
    }
}

/// What the question wants to be called, called already or not.
fn planned_calls(turn: &OfflineTurn<'_>, tools: &[ToolSpec]) -> Vec<PlannedToolCall> {
    let question = turn.question.as_str();
    let wished = intents_of(question);
    let mut calls: Vec<PlannedToolCall> = Vec::new();
    let compared = comparison_calls(turn, tools);
    if compared.iter().any(|call| !is_done(turn, call)) {
        let beside = quotes::beside_places(question).into_iter().filter(|part| intents_of(part).is_empty());
        let beside = beside.filter_map(|part| search_for(tools, &one_line(part)));
        return compared.into_iter().chain(beside).collect();
    }
    let compares = Cue::Compares.is_in(question);
    // "표준계약서 제3조" is not an article of the person's contract.
    let of_standard = Cue::AboutStandard.is_in(question)
        && !compares
        && tool_named(tools, names::LOOKUP_STANDARD_CONTRACT).is_some();
    for wish in &wished {
        let answered = match wish {
            QuestionIntent::Person(_) => is_found(turn),
            QuestionIntent::Article(_) | QuestionIntent::Title(_) => of_standard,
            _ => false,
        };
        if !answered {
            calls.extend(call_for_intent(wish, &wished, turn, tools));
        }
    }
    if wished.is_empty() {
        calls.extend(recall_call(turn, tools));
    }
    if compares && wished == [QuestionIntent::Standard] {
        // The person's own side of the comparison.
        calls.extend(search_for(tools, &one_line(&quotes::without_standard(question))));
    }
    let beside = quotes::beside_places(question).into_iter().filter(|part| intents_of(part).is_empty());
    calls.extend(beside.filter_map(|part| search_for(tools, &one_line(part))));
    let memory = wished.iter().any(|wish| {
        matches!(wish, QuestionIntent::Remember(_) | QuestionIntent::Recall(_) | QuestionIntent::Forget(_))
    });
    let remembers = memory && names::MEMORY_TOOLS.iter().any(|name| tool_named(tools, name).is_some());
    if !remembers && (calls.is_empty() || calls.iter().all(|call| is_done(turn, call))) {
        calls.extend(search(turn, tools));
    }
    let mut unique: Vec<PlannedToolCall> = Vec::new();
    for call in calls {
        if !unique.contains(&call) {
            unique.push(call);
        }
    }
    unique
}

/// Whether what is there holds a sentence for everything that was asked.
fn is_found(turn: &OfflineTurn<'_>) -> bool {
    let sources = decisions::sources(turn);
    let found = quotes::find_quotes(turn.asked(&turn.question), &sources);
    !found.picks.is_empty() && found.missing.is_empty()
}

fn call_for_intent(
    wish: &QuestionIntent,
    all: &[QuestionIntent],
    turn: &OfflineTurn<'_>,
    tools: &[ToolSpec],
) -> Option<PlannedToolCall> {
    let text = |tool: &str, names: &[&str], text: &str| {
        call_with_argument(tool_named(tools, tool)?, names, &ToolArgumentValue::Text(text))
    };
    match wish {
        QuestionIntent::Compute(formula) => {
            text(names::CALCULATOR, &["expression", "expr", "formula", "input"], formula)
        }
        QuestionIntent::Weather(place) => {
            text(names::GET_WEATHER, &["city", "location", "place", "q"], place)
        }
        QuestionIntent::Encyclopedia(query) | QuestionIntent::Person(query) => {
            text(names::SEARCH_WIKIPEDIA, &["query", "q", "title", "topic"], query)
        }
        QuestionIntent::Web(query) => text(names::WEB_SEARCH, &["query", "q"], query),
        QuestionIntent::File(path) => {
            text(names::READ_FILE, &["path", "file_path", "file", "filename", "name"], path)
        }
        QuestionIntent::Run(code) => text(names::PYTHON_REPL, &["code", "source", "program", "script"], code),
        QuestionIntent::Title(title) => text(names::GET_ARTICLE_BY_TITLE, &["title", "name", "query"], title),
        QuestionIntent::Time(arguments) => {
            let tool = tool_named(tools, names::GET_CURRENT_DATETIME)?;
            let known = |name: &String| property(tool, &[name]).is_some();
            arguments.keys().all(known).then(|| complete_call(tool, arguments.clone()))?
        }
        QuestionIntent::Article(article) => {
            by_article(tool_named(tools, names::GET_ARTICLE_BY_INDEX)?, article)
        }
        QuestionIntent::Standard => {
            let tool = tool_named(tools, names::LOOKUP_STANDARD_CONTRACT)?;
            let article = all.iter().find_map(|wish| match wish {
                QuestionIntent::Article(article) => Some(article),
                _ => None,
            });
            let indexed = article.filter(|_| property(tool, ARTICLE).is_some());
            if let Some(article) = indexed {
                return by_article(tool, article);
            }
            let title = all.iter().find_map(|wish| match wish {
                QuestionIntent::Title(title) => Some(title.clone()),
                _ => None,
            });
            let named = article.map(|article| article.to_string()).or(title);
            let subject = named.unwrap_or_else(|| query(turn));
            call_with_argument(tool, SUBJECT, &ToolArgumentValue::Text(&subject))
        }
        QuestionIntent::Remember(fact) => text(names::REMEMBER, &["fact", "text", "memory", "content"], fact),
        QuestionIntent::Recall(query) => text(names::RECALL, &["query", "q", "topic"], query),
        QuestionIntent::Forget(what) => forget_call(turn, tools, what),
        QuestionIntent::ComputeWhat | QuestionIntent::WeatherWhere => None,
    }
}

/// Lays contracts beside their standards with a tool that can compare them, a call for each subject.
fn comparison_calls(turn: &OfflineTurn<'_>, tools: &[ToolSpec]) -> Vec<PlannedToolCall> {
    let Some(wanted) = comparison::standard_comparison(&turn.question) else { return Vec::new() };
    let tool = tool_named(tools, names::LOOKUP_STANDARD_CONTRACT);
    let Some(tool) = tool.filter(|tool| property(tool, COMPARE).is_some()) else { return Vec::new() };
    let subjects = match wanted {
        StandardComparison::Same => comparison::compared_subjects(&turn.question),
        StandardComparison::Missing | StandardComparison::Extra | StandardComparison::All => {
            vec![query(turn)]
        }
    };
    let call = |subject: &String| {
        let (name, arguments) = call_with_argument(tool, SUBJECT, &ToolArgumentValue::Text(subject))?;
        Some((name, with_comparison(tool, arguments, wanted)))
    };
    subjects.iter().filter_map(call).collect()
}

fn with_comparison(tool: &ToolSpec, arguments: Value, how: StandardComparison) -> Value {
    let Value::Object(mut arguments) = arguments else { return arguments };
    put_argument(&mut arguments, tool, COMPARE, Some(how.as_str()));
    Value::Object(arguments)
}

const COMPARE: &[&str] = &["compare"];
const SUBJECT: &[&str] = &["query", "topic", "title", "question", "q"];

/// Looks up what may have been remembered.
fn recall_call(turn: &OfflineTurn<'_>, tools: &[ToolSpec]) -> Option<PlannedToolCall> {
    let tool = tool_named(tools, names::RECALL)?;
    let words = memory::words_to_recall(turn)?;
    call_with_argument(tool, &["query", "q", "topic"], &ToolArgumentValue::Text(&words))
}

/// Forgets a fact by its id; one that is only described is looked up first, and forgotten if it is the only one.
fn forget_call(turn: &OfflineTurn<'_>, tools: &[ToolSpec], what: &str) -> Option<PlannedToolCall> {
    let tool = tool_named(tools, names::FORGET)?;
    let named = what.strip_prefix('[').and_then(|id| id.strip_suffix(']'));
    let found = turn.results.iter().filter(|result| !result.failed && result.name.ends_with(names::RECALL));
    match named.or_else(|| found.clone().find_map(|result| memory::only_id(&result.text))) {
        Some(id) => call_with_argument(tool, &["id"], &ToolArgumentValue::Text(id)),
        None => call_with_argument(
            tool_named(tools, names::RECALL)?,
            &["query", "q", "topic"],
            &ToolArgumentValue::Text(what),
        ),
    }
}

const ARTICLE: &[&str] = &[
    "article_index",
    "index",
    "article_number",
    "article_no",
    "article",
    "number",
    "no",
    "jo",
    "article_id",
];

fn by_article(tool: &ToolSpec, article: &ArticleReference) -> Option<PlannedToolCall> {
    let mut wanted = call_with_argument(tool, ARTICLE, &ToolArgumentValue::Article(article))?;
    let branch = property(tool, &["branch", "sub", "sub_index", "article_branch"]);
    if let (Some((name, _)), Some(object), 1..) = (branch, wanted.1.as_object_mut(), article.article.branch) {
        object.insert(name.into(), json!(article.article.branch));
    }
    Some(wanted)
}

/// Searches for what is still missing: first in the words of the question, then in its content words.
fn search(turn: &OfflineTurn<'_>, tools: &[ToolSpec]) -> Option<PlannedToolCall> {
    let question = turn.question.as_str();
    let again = Cue::PointsBack.is_in(question)
        && (Cue::WantsSummary.is_in(question)
            || ["다시", "보여", "again"].iter().any(|cue| question.contains(cue)));
    if decisions::is_small_talk(question) || again || is_found(turn) {
        return None;
    }
    let queries = [one_line(question), query(turn)];
    let calls = queries.iter().filter_map(|query| search_for(tools, query));
    calls.into_iter().find(|call| !is_done(turn, call))
}

fn search_for(tools: &[ToolSpec], query: &str) -> Option<PlannedToolCall> {
    call_with_argument(
        tool_named(tools, names::HYBRID_SEARCH)?,
        &["query", "q", "question", "text"],
        &ToolArgumentValue::Text(query),
    )
}

/// A call of any tool that takes one text: with the question.
fn by_question(turn: &OfflineTurn<'_>, tool: &ToolSpec) -> Option<PlannedToolCall> {
    call_with_argument(
        tool,
        &["query", "q", "question", "text", "input", "title"],
        &ToolArgumentValue::Text(&one_line(&turn.question)),
    )
}

fn query(turn: &OfflineTurn<'_>) -> String {
    let words = content_words(&turn.question);
    if words.is_empty() {
        one_line(&turn.question)
    } else {
        words.into_iter().take(12).collect::<Vec<_>>().join(" ")
    }
}

/// The tool of this name, or one that another server offers under a longer name.
fn tool_named<'a>(tools: &'a [ToolSpec], name: &str) -> Option<&'a ToolSpec> {
    let exact = tools.iter().find(|tool| tool.name == name);
    exact.or_else(|| {
        tools
            .iter()
            .find(|tool| tool.name.strip_suffix(name).is_some_and(|front| front.ends_with(['_', '-'])))
    })
}

enum ToolArgumentValue<'a> {
    Text(&'a str),
    Article(&'a ArticleReference),
}

/// A call with this value in the property of one of these names, or in the only property there is.
fn call_with_argument(
    tool: &ToolSpec,
    names: &[&str],
    slot: &ToolArgumentValue<'_>,
) -> Option<PlannedToolCall> {
    let (name, schema) = property(tool, names).or_else(|| only_property(tool))?;
    let value = match slot {
        ToolArgumentValue::Text(text) => json!(text),
        ToolArgumentValue::Article(article)
            if has_type(schema, &tool.parameters, "integer")
                || has_type(schema, &tool.parameters, "number") =>
        {
            // A tool that takes a number has no ranges.
            json!(Some(article.article.number).filter(|_| article.last.is_none())?)
        }
        ToolArgumentValue::Article(article) => json!(article.to_string()),
    };
    let listed = has_type(schema, &tool.parameters, "array") && !has_type(schema, &tool.parameters, "string");
    let mut arguments = Map::new();
    arguments.insert(name.to_owned(), if listed { json!([value]) } else { value });
    complete_call(tool, arguments)
}

/// The call if every required argument is there or has a default.
fn complete_call(tool: &ToolSpec, mut arguments: Map<String, Value>) -> Option<PlannedToolCall> {
    let required = tool.parameters.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if arguments.contains_key(name) {
            continue;
        }
        let schema = tool.parameters.get("properties").and_then(|properties| properties.get(name))?;
        let schema = resolved(schema, &tool.parameters);
        let fixed = schema.get("default").or_else(|| schema.get("const"));
        arguments.insert(name.to_owned(), fixed?.clone());
    }
    Some((tool.name.clone(), Value::Object(arguments)))
}

fn put_argument(arguments: &mut Map<String, Value>, tool: &ToolSpec, names: &[&str], value: Option<&str>) {
    if let (Some((name, _)), Some(value)) = (property(tool, names), value) {
        arguments.insert(name.to_owned(), json!(value));
    }
}

fn property<'a>(tool: &'a ToolSpec, names: &[&str]) -> Option<(&'a str, &'a Value)> {
    let properties = tool.parameters.get("properties").and_then(Value::as_object)?;
    let found =
        names.iter().find_map(|wanted| properties.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)));
    found.map(|(name, schema)| (name.as_str(), resolved(schema, &tool.parameters)))
}

fn only_property(tool: &ToolSpec) -> Option<(&str, &Value)> {
    let properties = tool.parameters.get("properties").and_then(Value::as_object)?;
    let required: Vec<&str> = tool
        .parameters
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let name = match (required.as_slice(), properties.len()) {
        ([one], _) => *one,
        (_, 1) => properties.keys().next()?.as_str(),
        _ => return None,
    };
    let (name, schema) = properties.get_key_value(name)?;
    Some((name.as_str(), resolved(schema, &tool.parameters)))
}

fn is_done(turn: &OfflineTurn<'_>, (tool, arguments): &PlannedToolCall) -> bool {
    let called = turn.calls.iter().any(|call| call.name == *tool && call.arguments == *arguments);
    // A result whose call is not shown cannot be told from this one; calling again could go on for ever.
    let unknown = turn.results.iter().any(|result| result.name == *tool && turn.call_of(result).is_none());
    called || unknown
}

/// The calls not made yet, each with an id that the same question always gives.
fn new_tool_calls(turn: &OfflineTurn<'_>, calls: Vec<PlannedToolCall>) -> Vec<ToolCall> {
    let made = turn.calls.len();
    let fresh = calls.into_iter().filter(|call| !is_done(turn, call)).enumerate();
    fresh
        .map(|(at, (name, arguments))| {
            let seed = format!("{}\0{}\0{name}\0{arguments}", turn.id, made + at);
            let hash = Sha256::digest(seed.as_bytes());
            let id = format!("call_{}", hex::encode(&hash[..8]));
            ToolCall { id, name, arguments }
        })
        .collect()
}
