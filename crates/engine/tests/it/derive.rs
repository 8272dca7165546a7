//! What `#[derive(State)]` and `#[derive(Nodes)]` write, by what it does; `tests/ui` holds what they refuse.

use std::collections::BTreeMap;

use doran_engine::state::{ItemChanges, Keyed, Reduce};
use doran_engine::{Nodes, State};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct KeyedNote {
    id: String,
    text: String,
}

impl Keyed for KeyedNote {
    fn key(&self) -> &str {
        &self.id
    }
}

/// A list that does not look like one to a macro.
type KeyedNotes = Vec<KeyedNote>;

fn keyed_note(id: &str, text: &str) -> KeyedNote {
    KeyedNote { id: id.into(), text: text.into() }
}

/// Keeps the newest `N` lines.
struct Newest<const N: usize>;

impl<const N: usize> Reduce<Vec<String>> for Newest<N> {
    type Change = String;

    fn fold(field: &mut Vec<String>, change: String) {
        field.extend(change.lines().map(str::to_owned));
        field.drain(..field.len().saturating_sub(N));
    }

    fn join(earlier: &mut String, later: String) {
        earlier.push('\n');
        earlier.push_str(&later);
    }
}

/// Seconds, written with their unit.
mod seconds {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{value}s"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.trim_end_matches('s').parse().map_err(D::Error::custom)
    }
}

fn highest(field: &mut u32, change: u32) {
    *field = change.max(*field);
}

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EveryRuleState {
    title: String,
    #[reduce(last)]
    answer: Option<String>,
    #[reduce(append)]
    lines: Vec<String>,
    #[reduce(by_id)]
    notes: Vec<KeyedNote>,
    #[reduce(messages)]
    open_tasks: KeyedNotes,
    #[reduce(merge)]
    facts: BTreeMap<String, u32>,
    #[reduce(add)]
    tokens: u64,
    #[reduce(with = highest)]
    best: u32,
    #[reduce(with = Self::longer)]
    longest: String,
    #[reduce(rule = Newest<2>)]
    recent: Vec<String>,
    #[serde(with = "seconds")]
    #[reduce(add)]
    waited: u64,
    #[serde(rename = "kind", alias = "sort")]
    r#type: String,
}

impl EveryRuleState {
    fn longer(field: &mut String, change: String) {
        if change.len() > field.len() {
            *field = change;
        }
    }
}

/// One update that sets every field, most of them twice.
fn full_update() -> EveryRuleStateUpdate {
    EveryRuleState::update()
        .title("first")
        .title("second")
        .answer("yes".to_owned())
        .answer(None)
        .lines(["a".to_owned()])
        .lines(vec!["b".to_owned()])
        .notes(vec![keyed_note("1", "one"), keyed_note("2", "two")])
        .notes(keyed_note("1", "uno"))
        .notes(ItemChanges::remove(["2"]))
        .open_tasks(keyed_note("t", "task"))
        .facts([("x".to_owned(), 1), ("y".to_owned(), 2)])
        .facts([("x".to_owned(), 3)])
        .tokens(5)
        .tokens(7)
        .best(4)
        .best(3)
        .longest("long")
        .longest("no")
        .recent("1\n2")
        .recent("3")
        .waited(2)
        .waited(3)
        .r#type("chat")
}

#[test]
fn every_rule_folds_its_field() {
    let mut talk = EveryRuleState {
        title: "none".into(),
        answer: Some("old".into()),
        lines: vec!["0".into()],
        notes: vec![keyed_note("2", "two"), keyed_note("3", "three")],
        open_tasks: Vec::new(),
        facts: BTreeMap::from([("y".into(), 9), ("z".into(), 8)]),
        tokens: 100,
        best: 1,
        longest: "longer".into(),
        recent: vec!["0".into()],
        waited: 10,
        r#type: String::new(),
    };
    talk.apply(full_update());
    let expected = EveryRuleState {
        title: "second".into(),
        answer: None,
        lines: ["0", "a", "b"].map(String::from).into(),
        notes: vec![keyed_note("3", "three"), keyed_note("1", "uno")],
        open_tasks: vec![keyed_note("t", "task")],
        facts: [("x", 3), ("y", 2), ("z", 8)].map(|(key, value)| (key.to_owned(), value)).into(),
        tokens: 112,
        best: 4,
        longest: "longer".into(),
        recent: ["2", "3"].map(String::from).into(),
        waited: 15,
        r#type: "chat".into(),
    };
    assert_eq!(talk, expected);
}

#[test]
fn a_setter_joins_with_what_was_set_before() {
    let mut joined = EveryRuleState::default();
    joined.apply(full_update());

    let mut apart = EveryRuleState::default();
    for update in [
        EveryRuleState::update()
            .title("first")
            .answer("yes".to_owned())
            .lines(["a".to_owned()])
            .tokens(5)
            .best(4)
            .recent("1\n2"),
        EveryRuleState::update()
            .title("second")
            .answer(None)
            .lines(["b".to_owned()])
            .tokens(7)
            .best(3)
            .recent("3"),
        EveryRuleState::update()
            .notes(vec![keyed_note("1", "one"), keyed_note("2", "two")])
            .longest("long")
            .waited(2),
        EveryRuleState::update().notes(keyed_note("1", "uno")).longest("no").waited(3).r#type("chat"),
        EveryRuleState::update().notes(ItemChanges::remove(["2"])).open_tasks(keyed_note("t", "task")),
        EveryRuleState::update().facts([("x".to_owned(), 1), ("y".to_owned(), 2)]),
        EveryRuleState::update().facts([("x".to_owned(), 3)]),
    ] {
        apart.apply(update);
    }
    assert_eq!(joined, apart);
}

#[test]
fn a_field_that_is_not_set_stays_as_it_is() {
    let mut talk = EveryRuleState::default();
    talk.apply(full_update());
    let before = talk.clone();
    talk.apply(EveryRuleState::update());
    assert_eq!(talk, before);
}

#[test]
fn an_update_is_empty_until_something_is_set() {
    assert!(EveryRuleState::update().is_empty());
    assert!(!EveryRuleState::update().answer(None).is_empty());
    assert!(!EveryRuleState::update().lines([]).is_empty());
}

#[test]
fn the_json_of_an_update_holds_only_what_was_set() {
    check_json(&EveryRuleState::update(), json!({}));
    check_json(&EveryRuleState::update().tokens(1).title("t"), json!({ "title": "t", "tokens": 1 }));
    check_json(
        &EveryRuleState::update().notes(ItemChanges::remove(["2"]).put([keyed_note("1", "one")])),
        json!({ "notes": [{ "remove": "2" }, { "put": { "id": "1", "text": "one" } }] }),
    );
}

#[test]
fn an_update_is_named_and_written_like_its_state() {
    check_json(&EveryRuleState::update().r#type("chat"), json!({ "kind": "chat" }));
    check_json(&EveryRuleState::update().open_tasks(vec![]), json!({ "openTasks": [] }));
    check_json(&EveryRuleState::update().waited(3), json!({ "waited": "3s" }));
    let update: EveryRuleStateUpdate = serde_json::from_value(json!({ "sort": "old" })).unwrap();
    assert_eq!(update.r#type.as_deref(), Some("old"));
}

#[test]
fn none_is_a_change_also_after_it_was_written() {
    let text = serde_json::to_string(&EveryRuleState::update().answer(None)).unwrap();
    assert_eq!(text, r#"{"answer":null}"#);
    let mut talk = EveryRuleState { answer: Some("old".into()), ..EveryRuleState::default() };
    talk.apply(serde_json::from_str(&text).unwrap());
    assert_eq!(talk.answer, None);
}

#[test]
fn a_full_update_does_after_a_round_trip_what_it_did_before() {
    let text = serde_json::to_string(&full_update()).unwrap();
    let (mut fresh, mut replayed) = (EveryRuleState::default(), EveryRuleState::default());
    fresh.apply(full_update());
    replayed.apply(serde_json::from_str(&text).unwrap());
    assert_eq!(fresh, replayed);
}

#[test]
fn an_old_update_with_unknown_and_missing_fields_loads() {
    let old = json!({ "lines": ["kept"], "a_field_of_last_year": { "any": ["thing"] } });
    let mut talk = EveryRuleState::default();
    talk.apply(serde_json::from_value(old).unwrap());
    assert_eq!(talk, EveryRuleState { lines: vec!["kept".into()], ..EveryRuleState::default() });
}

#[test]
fn an_update_of_the_wrong_type_does_not_load() {
    let error = serde_json::from_value::<EveryRuleStateUpdate>(json!({ "title": null })).unwrap_err();
    assert!(error.to_string().contains("invalid type: null, expected a string"), "{error}");
}

#[derive(Nodes, Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Retrieve = 7,
    #[node(name = "callModel")]
    CallModel,
    CallHTTPTools,
}

#[test]
fn a_node_is_named_like_its_variant_unless_an_attribute_names_it() {
    let names: Vec<_> = Step::ALL.iter().map(|step| step.name()).collect();
    assert_eq!(names, ["retrieve", "callModel", "call_http_tools"]);
}

#[test]
fn the_index_of_a_node_is_its_place_whatever_its_discriminant() {
    assert_eq!(Step::ALL, [Step::Retrieve, Step::CallModel, Step::CallHTTPTools]);
    let indexes: Vec<_> = Step::ALL.iter().map(|step| step.index()).collect();
    assert_eq!(indexes, [0, 1, 2]);
}

#[test]
fn what_the_derives_refuse_is_told_in_sentences() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}

fn check_json(update: &EveryRuleStateUpdate, expected: serde_json::Value) {
    assert_eq!(serde_json::to_value(update).ok(), Some(expected));
}
