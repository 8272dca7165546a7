//! Every rule of a state and every kind of field: what a run left is what a process that starts later reads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use doran_engine::state::{ItemChange, ItemChanges, Reduce};
use doran_engine::store::{HistoryStore, RamStore};
use doran_engine::{Graph, GraphHandle, Keyed, NodeError, Runtime, Snap, State, node};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::readable_values::JsonGenerator;
use crate::support::local_thread;

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EveryFieldState {
    last_value: Value,
    #[serde(alias = "older")]
    renamed: Option<u8>,
    #[reduce(append)]
    list: Vec<Value>,
    #[reduce(by_id)]
    items: Vec<StoredItem>,
    #[reduce(merge)]
    values_by_name: BTreeMap<String, Value>,
    #[reduce(merge)]
    pairs_by_number: BTreeMap<i64, (u128, Option<char>)>,
    #[reduce(add)]
    sum: i64,
    #[reduce(with = keep_longer)]
    longest: String,
    #[reduce(rule = NewestThree)]
    newest: Vec<u64>,
    float: f64,
    single: f32,
    kind: StoredKind,
    set: BTreeSet<String>,
    nothing: (),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredItem {
    id: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    value: Value,
}

impl Keyed for StoredItem {
    fn key(&self) -> &str {
        &self.id
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
enum StoredKind {
    #[default]
    Unit,
    Newtype(Value),
    Tuple(i8, String),
    Struct {
        inner: Box<Option<StoredKind>>,
    },
}

fn keep_longer(kept: &mut String, new: String) {
    if new.len() > kept.len() {
        *kept = new;
    }
}

/// The last three numbers.
struct NewestThree;

impl Reduce<Vec<u64>> for NewestThree {
    type Change = Vec<u64>;

    fn fold(field: &mut Vec<u64>, change: Vec<u64>) {
        field.extend(change);
        field.drain(..field.len().saturating_sub(3));
    }

    fn join(earlier: &mut Vec<u64>, later: Vec<u64>) {
        earlier.extend(later);
    }
}

/// Any finite float, by its bits: long fractions, very large and very small ones, both zeros.
fn random_float(made: &mut JsonGenerator) -> f64 {
    loop {
        let float = f64::from_bits(made.next(1 << 32) << 32 | made.next(1 << 32));
        if float.is_finite() {
            return float;
        }
    }
}

fn with_random_floats(value: Value, made: &mut JsonGenerator) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => random_float(made).into(),
        Value::Array(items) => items.into_iter().map(|item| with_random_floats(item, made)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, field)| (name, with_random_floats(field, made))).collect()
        }
        other => other,
    }
}

fn random_value(made: &mut JsonGenerator, depth: u64) -> Value {
    let value = made.value(depth);
    with_random_floats(value, made)
}

fn random_kind(made: &mut JsonGenerator, depth: u64) -> StoredKind {
    match made.next(if depth == 0 { 3 } else { 5 }) {
        0 => StoredKind::Unit,
        1 => StoredKind::Newtype(random_value(made, 2)),
        2 => StoredKind::Tuple(made.next(256) as u8 as i8, random_value(made, 0).to_string()),
        3 => StoredKind::Struct { inner: Box::new(None) },
        _ => StoredKind::Struct { inner: Box::new(Some(random_kind(made, depth - 1))) },
    }
}

fn random_items(made: &mut JsonGenerator) -> ItemChanges<StoredItem> {
    let changes = (0..made.next(6)).map(|_| {
        let id = made.next(60).to_string();
        match made.next(40) {
            0 => ItemChange::Clear,
            1..6 => ItemChange::Remove(id),
            _ => ItemChange::Put(StoredItem { id, value: random_value(made, 2) }),
        }
    });
    ItemChanges(changes.collect())
}

fn deep_value(made: &mut JsonGenerator) -> Value {
    let value = made.deep_value();
    with_random_floats(value, made)
}

fn random_update(made: &mut JsonGenerator) -> EveryFieldStateUpdate {
    let mut update = EveryFieldState::update();
    for _ in 0..made.next(5) + 1 {
        update = match made.next(15) {
            0 => update.last_value(deep_value(made)),
            1 => update.last_value(json!("page".repeat(made.next(10_000) as usize))),
            2 => update.renamed([None, Some(made.next(256) as u8)][made.next(2) as usize]),
            3 => update.list((0..made.next(3)).map(|_| random_value(made, 3)).collect::<Vec<_>>()),
            4 | 5 => update.items(random_items(made)),
            6 => update
                .values_by_name(BTreeMap::from([(random_value(made, 0).to_string(), random_value(made, 3))])),
            7 => {
                let pair =
                    (u128::from(made.next(u64::MAX)) << 64, char::from_u32(made.next(0x11_0000) as u32));
                update.pairs_by_number(BTreeMap::from([(made.next(u64::MAX) as i64, pair)]))
            }
            8 => update.sum(made.next(1 << 40) as i64 - (1 << 39)),
            9 => update.longest(random_value(made, 1).to_string()),
            10 => update.newest((0..made.next(5)).map(|_| made.next(u64::MAX)).collect::<Vec<_>>()),
            11 => update.float(random_float(made)),
            12 => update.single(random_float(made).clamp(f32::MIN.into(), f32::MAX.into()) as f32),
            13 => update.kind(random_kind(made, 3)),
            _ => update.set(BTreeSet::from([random_value(made, 1).to_string()])),
        };
    }
    update
}

type PlannedUpdates = Arc<Mutex<VecDeque<EveryFieldStateUpdate>>>;

/// Two nodes that propose what was planned.
fn graph(planned: &PlannedUpdates) -> Graph<EveryFieldState> {
    let propose = |planned: PlannedUpdates| {
        node(move |_: Snap<EveryFieldState>| {
            let next = planned.lock().expect("no panic").pop_front().unwrap_or_default();
            async move { Ok::<_, NodeError>(next) }
        })
    };
    Graph::named()
        .node("first", propose(planned.clone()).then("second"))
        .node("second", propose(planned.clone()).end())
        .start("first")
        .build()
        .expect("a sound graph")
}

fn handle_on(store: &Arc<RamStore>, planned: &PlannedUpdates) -> GraphHandle<EveryFieldState> {
    Runtime::new(store.clone()).register_graph("every", &graph(planned)).expect("registered")
}

#[tokio::test]
async fn what_a_run_left_is_what_is_read_later() {
    for seed in 1..=4 {
        let mut made = JsonGenerator(0x5eed_u64.wrapping_mul(seed));
        let (store, planned) = (Arc::new(RamStore::new()), PlannedUpdates::default());
        let (live, thread) = (handle_on(&store, &planned), local_thread("t"));
        let mut states = Vec::new();
        for nth in 0..120 {
            planned.lock().expect("no panic").extend([random_update(&mut made), random_update(&mut made)]);
            // What cannot be stored is refused and leaves the thread as it was.
            let ended = live.run(&thread, random_update(&mut made)).await;
            planned.lock().expect("no panic").clear();
            let read = handle_on(&store, &planned).state(&thread).await.expect("readable");
            if let Ok(outcome) = ended {
                let state = outcome.finished().expect("finished");
                assert_eq!(*read, *state, "after run {nth} of seed {seed}");
                let head = store.thread(&thread).await.expect("a thread").head;
                states.push((head, state));
            }
        }
        assert!(states.len() > 60, "most runs are accepted, not {}", states.len());
        let later = handle_on(&store, &planned);
        for (seq, state) in states {
            assert_eq!(
                *later.state_at(&thread, Some(seq)).await.expect("readable"),
                *state,
                "at entry {seq}"
            );
        }
        let loaded = store.load(&thread, None).await.expect("loaded");
        assert!(loaded.snapshot.is_some(), "snapshots are read too");
    }
}
