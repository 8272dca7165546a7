//! Everything that was accepted can be read again: arbitrary JSON, in every place where a value enters the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_engine::log::StateEditedEntry;
use doran_engine::runtime::StateEdit;
use doran_engine::store::{
    EntryKind, HistoryStore, NewEntry, RamStore, Store, StoreError, ThreadMaintenance,
};
use doran_engine::stored_json::MAX_DEPTH;
use doran_engine::{
    Cx, EngineError, Graph, GraphHandle, MisuseError, NodeError, RunError, Runtime, Snap, State, To, node,
};
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use crate::support::local_thread;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct AnyJsonState {
    #[reduce(append)]
    values: Vec<Value>,
    place: String,
    value: Value,
}

/// Puts the value of the state in the place that the state names.
async fn put_value(state: Snap<AnyJsonState>, cx: Cx) -> Result<AnyJsonStateUpdate, NodeError> {
    let value = state.value.clone();
    match state.place.as_str() {
        "update" => return Ok(AnyJsonState::update().values(vec![Value::from(vec![value])])),
        "effect" => drop(cx.effect("read", async { Ok::<_, NodeError>(json!({ "read": [value] })) }).await?),
        "once" => drop(
            cx.effect_at_most_once_with_details("pay", about(&value), |_| async {
                Err::<Value, _>(NodeError::permanent("the line was cut"))
            })
            .await?,
        ),
        "note" => cx.note("about", json!([[value]])),
        "question" => drop(cx.ask::<Value, _>(json!({ "what": [value] })).await?),
        "answer" => drop(cx.ask::<Value, _>("?").await?),
        _ => {}
    }
    Ok(AnyJsonState::update())
}

fn about(value: &Value) -> Map<String, Value> {
    Map::from_iter([("about".to_owned(), value.clone())])
}

fn graph() -> Graph<AnyJsonState> {
    Graph::named()
        .node(
            "put",
            node(put_value).branch_or_end(["each"], |state: &AnyJsonState| match state.place.as_str() {
                "item" => To::Each("each".to_owned(), vec![json!([[state.value]])]),
                _ => To::End,
            }),
        )
        .node("each", node(put_value).end())
        .start("put")
        .build()
        .expect("a sound graph")
}

fn register_on(store: &Arc<RamStore>) -> GraphHandle<AnyJsonState> {
    Runtime::new(store.clone()).register_graph("any", &graph()).expect("registered")
}

fn nested_lists(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!([inner]))
}

/// Pseudo-random JSON: the same seed gives the same value.
pub(crate) struct JsonGenerator(pub(crate) u64);

impl JsonGenerator {
    pub(crate) fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    pub(crate) fn value(&mut self, depth: u64) -> Value {
        let texts = ["", "null", "\u{0}", "가나다", "{\"[\\", "\u{1f600}\n", "__proto__"];
        match self.next(if depth == 0 { 7 } else { 12 }) {
            0 => Value::Null,
            1 => self.next(2).eq(&0).into(),
            2 => self.next(u64::MAX).into(),
            3 => i64::from_ne_bytes(self.next(u64::MAX).to_ne_bytes()).into(),
            4 => f64::from_bits(self.next(u64::MAX)).into(),
            5 | 6 => texts[self.next(7) as usize].into(),
            7..=9 => (0..self.next(3) + 1).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let fields = (0..self.next(3) + 1)
                    .map(|nth| (format!("{}{nth}", texts[self.next(7) as usize]), self.value(depth - 1)));
                Value::Object(fields.collect())
            }
        }
    }

    /// A small value below so many levels.
    pub(crate) fn deep_value(&mut self) -> Value {
        let inner = self.value(4);
        (0..self.next(140)).fold(inner, |inner, _| match self.next(2) {
            0 => json!([inner]),
            _ => json!({ "a": inner }),
        })
    }
}

/// Everything of the thread can be read by a process that starts now, and it can go on.
async fn check_readable(store: &Arc<RamStore>, name: &str) {
    let (thread, bot) = (local_thread(name), register_on(store));
    let row = bot.runtime().thread_row(&thread).await.expect("the thread");
    bot.runtime().entries(&thread, 0, 1000).await.expect("readable entries");
    for seq in 0..=row.head {
        bot.state_at(&thread, Some(seq)).await.expect("a readable state");
    }
    bot.runtime().open_questions(&thread).await.expect("readable questions");
    if let Some(run) = row.active {
        bot.runtime().cancel(&thread.run(run)).await.expect("cancelled");
    }
    bot.run(&thread, AnyJsonState::update().place("")).await.expect("it goes on");
}

#[tokio::test]
async fn whatever_is_accepted_can_be_read_again() {
    let seed = 0x5eed_u64;
    let mut made = JsonGenerator(seed);
    let store = Arc::new(RamStore::new());
    let places = ["input", "update", "effect", "once", "note", "question", "answer", "item", "edit", "whole"];
    for nth in 0..600 {
        let (name, place) = (format!("t{nth}"), places[nth % places.len()]);
        let (thread, value) = (local_thread(&name), made.deep_value());
        let bot = register_on(&store);
        bot.run(&thread, AnyJsonState::update()).await.expect("runs");
        let input = AnyJsonState::update().place(place).value(value.clone());
        match place {
            "edit" | "whole" => {
                let state = json!({ "value": [value] });
                let edit = match place {
                    "edit" => StateEdit { update: Some(state), ..StateEdit::default() },
                    _ => StateEdit { state: Some(state), ..StateEdit::default() },
                };
                drop(bot.runtime().edit("any", &thread, None, &edit).await);
            }
            "answer" => {
                let run = bot.start(&thread, input.value(Value::Null)).await.expect("started");
                drop(bot.wait_for_outcome(&run).await.expect("paused"));
                let asked = bot.runtime().open_questions(&thread).await.expect("questions");
                let answers = BTreeMap::from([(asked[0].1.id.clone(), value)]);
                if let Ok(run) = bot.runtime().answer(&run.key(), &answers).await {
                    bot.wait_for_outcome(&run).await.expect("finished");
                }
            }
            _ => drop(bot.run(&thread, input).await),
        }
        check_readable(&store, &name).await;
    }
}

async fn failure_code(bot: &GraphHandle<AnyJsonState>, place: &str, value: Value) -> String {
    let input = AnyJsonState::update().place(place).value(value);
    match bot.run(&local_thread(place), input).await {
        Err(EngineError::Run(RunError::Failed(failure))) => failure.code,
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_value_that_is_too_deep_is_refused_where_it_enters() {
    let store = Arc::new(RamStore::new());
    let bot = register_on(&store);
    for place in ["update", "effect", "note", "question", "item"] {
        // The input has one level around the value, these places have two.
        assert_eq!(failure_code(&bot, place, nested_lists(MAX_DEPTH - 1)).await, "not_storable", "{place}");
        check_readable(&store, place).await;
    }
    let input =
        bot.start(&local_thread("input"), AnyJsonState::update().value(nested_lists(MAX_DEPTH))).await;
    assert!(matches!(input, Err(EngineError::Misuse(MisuseError::BadInput { .. }))), "{input:?}");
    let whole =
        StateEdit { state: Some(json!({ "value": nested_lists(MAX_DEPTH) })), ..StateEdit::default() };
    let edited = bot.runtime().edit("any", &local_thread("update"), None, &whole).await;
    assert!(matches!(edited, Err(EngineError::Misuse(MisuseError::BadInput { .. }))), "{edited:?}");
    let thread = local_thread("answer");
    let run = bot.start(&thread, AnyJsonState::update().place("answer")).await.expect("started");
    bot.wait_for_outcome(&run).await.expect("paused");
    let asked = bot.runtime().open_questions(&thread).await.expect("questions");
    let answers = BTreeMap::from([(asked[0].1.id.clone(), nested_lists(MAX_DEPTH + 1))]);
    let answered = bot.runtime().answer(&run.key(), &answers).await;
    assert!(matches!(answered, Err(EngineError::Misuse(MisuseError::BadAnswer { .. }))), "{answered:?}");
    let metadata = about(&nested_lists(MAX_DEPTH + 1));
    let kept = store.put_thread(&thread, &metadata).await;
    assert!(matches!(kept, Err(StoreError::Conflict(_))), "{kept:?}");
}

#[tokio::test]
async fn a_thread_with_deeper_values_of_an_older_program_goes_on() {
    let store = Arc::new(RamStore::new());
    let bot = register_on(&store);
    let thread = local_thread("hurt");
    bot.run(&thread, AnyJsonState::update()).await.expect("runs");
    let head = store.thread(&thread).await.expect("a thread").head;
    let update = to_raw_value(&AnyJsonState::update().values(vec![nested_lists(200)])).expect("JSON");
    let edited = StateEditedEntry { update: Some(update), ..StateEditedEntry::default() };
    let body = serde_json::to_vec(&edited).expect("JSON");
    let entry = NewEntry { kind: EntryKind::Edited, body, parent: None, base: 0, snapshot: None };
    store.append_entry(&thread, head, entry).await.expect("written");
    check_readable(&store, "hurt").await;
    let state = register_on(&store).state(&thread).await.expect("readable");
    assert_eq!(state.values, [nested_lists(200)]);
    // So does a snapshot of such a state.
    let page = json!("page".repeat(100_000));
    for _ in 0..4 {
        bot.run(&thread, AnyJsonState::update().value(page.clone())).await.expect("runs");
    }
    assert!(store.load(&thread, None).await.expect("loaded").snapshot.is_some(), "there is a snapshot");
    check_readable(&store, "hurt").await;
}

/// Writes a number and reads a text.
#[derive(Clone, Debug, Default)]
struct OneWay(u64);

impl Serialize for OneWay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for OneWay {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.len() as u64))
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct OneWayState {
    calls: bool,
    number: OneWay,
}

#[tokio::test]
async fn what_its_own_type_cannot_read_is_not_written() {
    let work = |state: Snap<OneWayState>, cx: Cx| async move {
        if state.calls {
            cx.effect("number", async { Ok::<_, NodeError>(OneWay(7)) }).await?;
        }
        Ok::<_, NodeError>(OneWayState::update().number(OneWay(7)))
    };
    let graph = Graph::named().node("work", node(work).end()).start("work").build().expect("sound");
    let store: Arc<dyn Store> = Arc::new(RamStore::new());
    let bot = Runtime::new(store.clone()).register_graph("one_way", &graph).expect("registered");
    for calls in [false, true] {
        let thread = local_thread(&format!("calls-{calls}"));
        let ended = bot.run(&thread, OneWayState::update().calls(calls)).await;
        let Err(EngineError::Run(RunError::Failed(failure))) = ended else { panic!("{ended:?}") };
        assert_eq!(failure.code, "not_storable", "{}", failure.message);
        let again = Runtime::new(store.clone()).register_graph("one_way", &graph).expect("registered");
        again.state(&thread).await.expect("the thread stays readable");
    }
}
