//! Items that all threads of a tenant share, as nodes and callers see them.

use std::sync::Arc;

use doran_engine::store::{
    ItemComparison, ItemCondition, ItemKey, ItemNamespace, ItemSearch, ItemStore, NamespacePrefix, SharedItem,
};
use doran_engine::{Cx, NodeError, Snap, StartOptions, TenantId};
use serde_json::{Map, Value, json};

use crate::support::{
    CallCounter, EngineTestState, EngineTestStateUpdate, graph_handle_on, local_thread, node_running,
    outcomes_despite_kills, ram_store, run_to_text, single_node_graph, update_saying,
};

fn namespace() -> ItemNamespace {
    ItemNamespace::new(["users", "kim"]).expect("a namespace")
}

fn key(name: &str) -> ItemKey {
    ItemKey::new(name).expect("a key")
}

fn fields(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

/// Reads how often it was here, counts one more, and says what a search finds.
async fn count_visit(_: Snap<EngineTestState>, cx: Cx) -> Result<EngineTestStateUpdate, NodeError> {
    let before = cx.item(&namespace(), &key("visits")).await?;
    let visits = before.and_then(|item| item.value["count"].as_u64()).unwrap_or(0) + 1;
    cx.put_item(&namespace(), &key("visits"), fields(json!({ "count": visits })), None).await?;
    cx.put_item(&namespace(), &key("draft"), fields(json!({})), None).await?;
    cx.delete_item(&namespace(), &key("draft")).await?;
    let many = ItemCondition { field: "count".into(), comparison: ItemComparison::Greater, with: json!(0) };
    let prefix = NamespacePrefix::new(["users"])?;
    let search = ItemSearch { prefix, conditions: vec![many], ..ItemSearch::default() };
    let found = cx.search_items(search).await?;
    Ok(update_saying(format!("visit {visits}, {} found", found.len())))
}

#[tokio::test]
async fn a_node_finds_what_another_thread_put() {
    let graph = single_node_graph("count", node_running(count_visit));
    let store = ram_store();
    let bot = graph_handle_on(Arc::new(store.clone()), &graph);
    for (name, said) in [("a", "visit 1, 1 found"), ("b", "visit 2, 1 found")] {
        let end = bot.run(&local_thread(name), EngineTestState::update()).await.expect("runs");
        assert_eq!(end.finished().expect("finished").said_text(), said);
    }
    let item = bot.runtime().item(&TenantId::local(), &namespace(), &key("visits")).await.expect("read");
    assert_eq!(item.expect("there").value, fields(json!({ "count": 2 })));
    let other = TenantId::new("other").expect("a name");
    assert_eq!(store.item(&other, &namespace(), &key("visits")).await.expect("read"), None);
}

#[tokio::test(start_paused = true)]
async fn a_killed_node_sees_the_items_that_it_saw_before() {
    // Every read and write is recorded, so the count that was read stays the count that is put.
    let graph = || single_node_graph("count", node_running(count_visit));
    let (outcomes, killed) = outcomes_despite_kills(graph, &StartOptions::default()).await;
    assert!(killed > 10, "{killed}");
    // A put whose record was not written is read again after the kill, and only then.
    assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), ["visit 1, 1 found"]);
}

#[tokio::test]
async fn an_item_that_cannot_be_stored_fails_the_node() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let graph = single_node_graph(
        "put",
        node_running(move |_, cx| {
            counted.increment();
            async move {
                let large = json!({ "text": "x".repeat(doran_engine::store::MAX_ITEM_BYTES) });
                cx.put_item(&namespace(), &key("large"), fields(large), None).await?;
                Ok(update_saying("put"))
            }
        }),
    );
    let bot = graph_handle_on(Arc::new(ram_store()), &graph);
    let end = run_to_text(&bot, EngineTestState::update()).await;
    assert!(end.starts_with("not_storable: node `put`: the item has"), "{end}");
    assert_eq!(calls.count(), 1, "trying again would not help");
}

#[tokio::test]
async fn a_run_without_a_store_has_no_items() {
    let graph = single_node_graph("count", node_running(count_visit));
    let error = graph.run(EngineTestState::update()).await.expect_err("no store");
    assert!(error.to_string().contains("a run without a store has no items"), "{error}");
}

#[test]
fn an_item_is_json_with_its_names() {
    let item = SharedItem {
        namespace: namespace(),
        key: key("k"),
        value: fields(json!({ "a": 1 })),
        created_at: 1,
        updated_at: 2,
    };
    let text = serde_json::to_value(&item).expect("JSON");
    assert_eq!(
        text,
        json!({"namespace": ["users", "kim"], "key": "k", "value": {"a": 1}, "created_at": 1, "updated_at": 2})
    );
    assert_eq!(serde_json::from_value::<SharedItem>(text).expect("an item"), item);
}
