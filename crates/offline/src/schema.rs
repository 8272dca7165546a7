//! Fills the JSON that a request asks for: looks each property of the schema up by its name, so that `reason` and
//! `reasoning` mean the same. A required property that no rule knows is refused, not invented.

use doran_agents::agents::assistant::AssistantRoute;
use doran_agents::agents::docqa::QueryType;
use doran_llm::{ModelError, ResponseSchema};
use doran_retrieval::asks_or_requests;
use serde_json::{Map, Value, json};

use super::cues::Cue;
use super::ranking::question_terms;

/// A choice among names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleChoice {
    /// Where a question goes.
    Route(AssistantRoute),
    /// What the person wants.
    Query(QueryType),
}

impl RuleChoice {
    fn as_str(self) -> &'static str {
        match self {
            Self::Route(route) => route.as_str(),
            Self::Query(query) => query.as_str(),
        }
    }

    /// The choices that it is one of.
    fn family(self) -> &'static [Self] {
        match self {
            Self::Route(_) => &[Self::Route(AssistantRoute::Rag), Self::Route(AssistantRoute::Agent)],
            Self::Query(_) => &[
                Self::Query(QueryType::Question),
                Self::Query(QueryType::Summary),
                Self::Query(QueryType::Chitchat),
            ],
        }
    }

    /// What a property is called that takes it.
    fn property(self) -> &'static str {
        match self {
            Self::Route(_) => "route",
            Self::Query(_) => "type",
        }
    }

    /// Parts of names that mean it.
    fn meanings(self) -> &'static [&'static str] {
        match self {
            Self::Route(AssistantRoute::Rag) => &["rag", "retriev", "search", "document"],
            Self::Route(AssistantRoute::Agent) => &["agent", "general", "memory", "chat"],
            Self::Query(QueryType::Question) => &["question", "query", "qa"],
            Self::Query(QueryType::Summary) => &["summary", "summar"],
            Self::Query(QueryType::Chitchat) => {
                &["chitchat", "chit", "smalltalk", "small", "chat", "general", "other"]
            }
        }
    }
}

/// What the rules decided, whatever the properties are called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleDecision {
    /// The choice among names: a route, a type.
    pub(super) choice: Option<RuleChoice>,
    /// Whether the question is in scope.
    pub(super) in_scope: Option<bool>,
    /// Whether the turn before is needed.
    pub(super) previous: Option<bool>,
    /// Whether what was collected is enough.
    pub(super) sufficient: Option<bool>,
    /// What is missing.
    pub(super) missing: Option<String>,
    /// Other wordings.
    pub(super) queries: Vec<String>,
    /// Why, in the language of the question.
    pub(super) reason: String,
    /// What is decided about, for choices that only the schema knows.
    pub(super) question: String,
}

/// The decision as the JSON that a schema describes; without a schema in the usual names.
pub(super) fn fill_schema(
    decision: &RuleDecision,
    schema: Option<&ResponseSchema>,
) -> Result<String, ModelError> {
    let Some(schema) = schema else { return Ok(decision_without_schema(decision).to_string()) };
    let root = &schema.schema;
    let mut object = Map::new();
    let properties = resolved(root, root).get("properties").and_then(Value::as_object);
    let required: Vec<&str> = resolved(root, root)
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    for (name, property) in properties.into_iter().flatten() {
        let property = resolved(property, root);
        match value(name, property, root, decision) {
            Some(value) => {
                object.insert(name.clone(), value);
            }
            None if required.contains(&name.as_str()) => {
                let names = names(property, root);
                return Err(if names.is_empty() {
                    unknown_property_error(name)
                } else {
                    undecided_error(&names)
                });
            }
            None => {}
        }
    }
    Ok(Value::Object(object).to_string())
}

/// The error for a property that the rules cannot fill.
pub(super) fn unknown_property_error(name: &str) -> ModelError {
    ModelError::Rejected {
        reason: format!(
            "the offline model fills fixed properties only and does not know `{name}`; connect a language model with \
             `doran models use <provider:model>`"
        ),
    }
}

/// The error for a choice that the words of the question do not decide.
fn undecided_error(names: &[&str]) -> ModelError {
    let names = names.join("`, `");
    ModelError::Rejected {
        reason: format!(
            "the built-in model chooses by the words of the choices and cannot tell which of `{names}` is meant; connect a \
             language model with `doran models use <provider:model>`"
        ),
    }
}

fn decision_without_schema(decision: &RuleDecision) -> Value {
    let mut object = Map::new();
    if let Some(choice) = decision.choice {
        object.insert(choice.property().into(), json!(choice.as_str()));
    }
    if let Some(in_scope) = decision.in_scope {
        object.insert("in_scope".into(), json!(in_scope));
    }
    if let Some(previous) = decision.previous {
        object.insert("need_previous_context".into(), json!(previous));
    }
    if let Some(sufficient) = decision.sufficient {
        object.insert("is_sufficient".into(), json!(sufficient));
        object.insert("missing_info".into(), json!(decision.missing));
    }
    if !decision.queries.is_empty() {
        object.insert("queries".into(), json!(decision.queries));
    }
    let reason = if decision.sufficient.is_some() { "reasoning" } else { "reason" };
    if !decision.reason.is_empty() {
        object.insert(reason.into(), json!(decision.reason));
    }
    Value::Object(object)
}

fn value(name: &str, property: &Value, root: &Value, decision: &RuleDecision) -> Option<Value> {
    let key: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let has = |words: &[&str]| words.iter().any(|word| key.contains(word));
    if has(&["reason", "rationale", "explan", "why", "because"]) {
        return Some(json!(decision.reason));
    }
    if has(&["missing", "lacking"]) {
        return missing(property, root, decision);
    }
    if has(&["previous", "followup", "history"]) {
        return decision.previous.map(Value::Bool);
    }
    if has(&["outofscope", "offtopic"]) {
        return decision.in_scope.map(|in_scope| json!(!in_scope));
    }
    if has(&["scope", "related", "relevant", "valid"]) {
        return decision.in_scope.map(Value::Bool);
    }
    if has(&["sufficient", "enough", "complete"]) {
        return decision.sufficient.map(Value::Bool);
    }
    if has(&["queries", "variants", "rewrites", "questions"]) {
        return Some(json!(decision.queries)).filter(|_| !decision.queries.is_empty());
    }
    if let Some(choice) = decision.choice
        && has(&[
            "route",
            "type",
            "category",
            "intent",
            "class",
            "kind",
            "action",
            "decision",
            "destination",
            "label",
            "next",
            "choice",
        ])
    {
        return chosen(choice, &names(property, root), &decision.question);
    }
    if has(&["query", "rewrite"]) {
        return decision.queries.first().map(|query| json!(query));
    }
    None
}

fn missing(property: &Value, root: &Value, decision: &RuleDecision) -> Option<Value> {
    let list = has_type(property, root, "array") && !has_type(property, root, "string");
    match &decision.missing {
        Some(missing) if list => Some(json!([missing])),
        Some(missing) => Some(json!(missing)),
        None if has_type(property, root, "null") => Some(Value::Null),
        None if list => Some(json!([])),
        None => Some(json!("")),
    }
}

/// The name in the list that means the choice; the choice itself without a list. Names that somebody made up go by their words.
fn chosen(choice: RuleChoice, names: &[&str], question: &str) -> Option<Value> {
    if names.is_empty() {
        return Some(json!(choice.as_str()));
    }
    let squeezed = |name: &str| name.to_lowercase().replace(['_', '-', ' '], "");
    let is_any = |name: &str, words: &[&str]| words.iter().any(|word| squeezed(name).contains(word));
    let are_known = names.iter().all(|name| choice.family().iter().any(|one| is_any(name, one.meanings())));
    let meant = || {
        let named = |word: &&str| names.iter().copied().find(|name| squeezed(name).contains(word));
        choice.meanings().iter().find_map(named)
    };
    let own = || named_in_question(names, question);
    (if are_known { meant() } else { own() }).map(|name| json!(name))
}

/// The name that shares most words with a question; else the one for questions if it asks; else the one for the rest, or the only
/// one that is not for questions.
fn named_in_question<'a>(names: &[&'a str], question: &str) -> Option<&'a str> {
    let wanted = question_terms(question);
    let shared = |name: &&str| wanted.iter().filter(|term| term.is_named_in(name)).count();
    let nearest = names.iter().copied().rev().max_by_key(shared).filter(|name| shared(name) > 0);
    let (asking, others): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| Cue::NamesQuestion.is_in(name));
    let asks = asks_or_requests(question);
    let rest = others.iter().find(|name| Cue::NamesTheRest.is_in(name)).copied();
    let only = || if asks || others.len() != 1 || asking.is_empty() { None } else { others.first().copied() };
    nearest.or_else(|| asking.first().copied().filter(|_| asks)).or(rest).or_else(only)
}

/// The names that a property may take.
fn names<'a>(property: &'a Value, root: &'a Value) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for option in options(property, root) {
        names.extend(
            option.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str),
        );
        names.extend(option.get("const").and_then(Value::as_str));
    }
    names
}

/// Whether a property may be of this type.
pub(super) fn has_type(property: &Value, root: &Value, wanted: &str) -> bool {
    options(property, root).into_iter().any(|option| match option.get("type") {
        Some(Value::String(one)) => one == wanted,
        Some(Value::Array(many)) => many.iter().any(|one| one == wanted),
        _ => false,
    })
}

fn options<'a>(property: &'a Value, root: &'a Value) -> Vec<&'a Value> {
    let mut options = vec![property];
    for key in ["anyOf", "oneOf", "allOf"] {
        let inner = property.get(key).and_then(Value::as_array).into_iter().flatten();
        options.extend(inner.map(|option| resolved(option, root)));
    }
    options
}

/// The schema itself, or the one that its `$ref` within the same document names.
pub(super) fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
    target.and_then(|path| root.pointer(path)).unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(decision: &RuleDecision, schema: Value, expected: &str) {
        let schema = ResponseSchema { name: "shape".into(), schema };
        let told = fill_schema(decision, Some(&schema)).unwrap_or_else(|error| error.to_string());
        assert_eq!(told, expected);
    }

    #[test]
    fn properties_are_found_by_what_they_mean() {
        let route = RuleDecision {
            choice: Some(RuleChoice::Route(AssistantRoute::Rag)),
            reason: "문서".into(),
            ..RuleDecision::default()
        };
        let names = json!({"type": "string", "enum": ["RAG", "AGENT"]});
        check(
            &route,
            json!({"properties": {"route": names, "reasoning": {"type": "string"}}}),
            r#"{"reasoning":"문서","route":"RAG"}"#,
        );
        let refers = json!({"properties": {"next": {"$ref": "#/$defs/Route"}}, "$defs": {"Route": {"oneOf": [{"const": "agent"}, {"const": "rag"}]}}});
        check(&route, refers, r#"{"next":"rag"}"#);
        let enough = RuleDecision { sufficient: Some(true), ..RuleDecision::default() };
        let shape = json!({"properties": {"isSufficient": {"type": "boolean"}, "missingInfo": {"type": ["string", "null"]}}});
        check(&enough, shape, r#"{"isSufficient":true,"missingInfo":null}"#);
    }

    #[test]
    fn choices_of_others_go_by_their_names() {
        let names =
            json!({"properties": {"choice": {"type": "string", "enum": ["환불 문의", "배송 문의", "기타"]}}});
        for (question, expected) in
            [("환불은 언제 되나요?", "환불 문의"), ("배송이 늦어요", "배송 문의"), ("안녕", "기타")]
        {
            let decision = RuleDecision {
                choice: Some(RuleChoice::Query(QueryType::Question)),
                question: question.into(),
                ..RuleDecision::default()
            };
            check(&decision, names.clone(), &format!("{{\"choice\":\"{expected}\"}}"));
        }
    }

    #[test]
    fn a_choice_between_questions_and_others_goes_by_whether_it_asks() {
        let names = json!({"properties": {"choice": {"type": "string", "enum": ["question", "complaint"]}}, "required": ["choice"]});
        for (question, expected) in [
            ("I am angry, your service is terrible!", "complaint"),
            ("불만이 있어요. 서비스가 엉망입니다", "complaint"),
            ("I want to make a complaint. Who can help?", "complaint"),
            ("When must receipts be uploaded?", "question"),
            ("연차는 며칠인가요", "question"),
        ] {
            let decision = RuleDecision {
                choice: Some(RuleChoice::Query(QueryType::Question)),
                question: question.into(),
                ..RuleDecision::default()
            };
            check(&decision, names.clone(), &format!("{{\"choice\":\"{expected}\"}}"));
        }
        let names = json!({"properties": {"choice": {"type": "string", "enum": ["red", "blue"]}}, "required": ["choice"]});
        let decision = RuleDecision {
            choice: Some(RuleChoice::Query(QueryType::Question)),
            question: "When do you open?".into(),
            ..RuleDecision::default()
        };
        let schema = ResponseSchema { name: "shape".into(), schema: names };
        let error = fill_schema(&decision, Some(&schema)).expect_err("undecided").to_string();
        assert!(error.contains("cannot tell which of `red`, `blue` is meant"), "{error}");
    }

    #[test]
    fn an_unknown_property_is_refused_and_not_invented() {
        let route =
            RuleDecision { choice: Some(RuleChoice::Route(AssistantRoute::Rag)), ..RuleDecision::default() };
        let shape = |required: Value| json!({"properties": {"route": {"type": "string"}, "confidence": {"type": "number"}}, "required": required});
        check(&route, shape(json!(["route"])), r#"{"route":"rag"}"#);
        let schema = ResponseSchema { name: "shape".into(), schema: shape(json!(["confidence"])) };
        let error = fill_schema(&route, Some(&schema)).expect_err("refused");
        assert!(error.to_string().contains("`confidence`") && error.to_string().contains("doran models use"));
    }
}
