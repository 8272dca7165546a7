//! Items that all threads of a tenant share.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::fixture::*;
use crate::store::*;

fn namespace(names: &str) -> ItemNamespace {
    ItemNamespace::new(names.split('/')).expect("a namespace")
}

fn prefix(names: &str) -> NamespacePrefix {
    NamespacePrefix::new(names.split('/').filter(|name| !name.is_empty())).expect("a prefix")
}

fn key(name: &str) -> ItemKey {
    ItemKey::new(name).expect("a key")
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is not an object"),
    }
}

impl<S: Store> StoreFixture<S> {
    async fn put(&self, names: &str, name: &str, value: Value) -> SharedItem {
        let put =
            self.store.put_item(&self.tenant, &namespace(names), &key(name), &fields(value), None).await;
        put.expect("put")
    }

    async fn get(&self, names: &str, name: &str) -> Option<SharedItem> {
        self.store.item(&self.tenant, &namespace(names), &key(name)).await.expect("read")
    }

    async fn delete(&self, names: &str, name: &str) -> bool {
        self.store.delete_item(&self.tenant, &namespace(names), &key(name)).await.expect("delete")
    }

    /// What is found, as `namespace:key` separated by blanks.
    async fn search(&self, search: ItemSearch) -> String {
        let found = self.store.search_items(&self.tenant, &search).await.expect("search");
        let names: Vec<String> =
            found.iter().map(|item| format!("{}:{}", item.namespace, item.key)).collect();
        names.join(" ")
    }

    async fn search_prefix(&self, names: &str) -> String {
        self.search(ItemSearch { prefix: prefix(names), ..ItemSearch::default() }).await
    }

    async fn namespaces(&self, search: NamespaceSearch) -> String {
        let found = self.store.item_namespaces(&self.tenant, &search).await.expect("list");
        found.iter().map(ToString::to_string).collect::<Vec<String>>().join(" ")
    }
}

pub(super) async fn an_item_comes_back<S: Store>(b: StoreFixture<S>) {
    assert_eq!(b.get("users/kim", "food").await, None);
    let put = b.put("users/kim", "food", json!({"likes": ["김치", 1.5, null]})).await;
    assert_eq!((put.namespace.clone(), put.key.clone()), (namespace("users/kim"), key("food")));
    assert_eq!(put.value, fields(json!({"likes": ["김치", 1.5, null]})));
    assert_eq!(put.created_at, put.updated_at);
    assert_eq!(b.get("users/kim", "food").await, Some(put));
    assert_eq!(b.get("users", "food").await, None);
    assert_eq!(b.get("users/kim", "Food").await, None);
}

pub(super) async fn an_item_put_again_is_replaced<S: Store>(b: StoreFixture<S>) {
    let first = b.put("a", "k", json!({"old": 1})).await;
    sleep_millis(5).await;
    let second = b.put("a", "k", json!({"new": 2})).await;
    assert_eq!(second.value, fields(json!({"new": 2})), "nothing is merged");
    assert_eq!(second.created_at, first.created_at);
    assert!(second.updated_at > first.updated_at);
    assert_eq!(b.get("a", "k").await, Some(second));
    assert_eq!(b.search_prefix("").await, "a:k");
}

pub(super) async fn items_are_found_by_the_beginning_of_their_namespace<S: Store>(b: StoreFixture<S>) {
    for (names, name) in [("a/b", "2"), ("a", "1"), ("ab", "3"), ("a/b/c", "4"), ("b", "5"), ("a/b", "1")] {
        b.put(names, name, json!({})).await;
    }
    assert_eq!(b.search_prefix("").await, "a:1 a/b:1 a/b:2 a/b/c:4 ab:3 b:5");
    assert_eq!(b.search_prefix("a").await, "a:1 a/b:1 a/b:2 a/b/c:4");
    assert_eq!(b.search_prefix("a/b").await, "a/b:1 a/b:2 a/b/c:4");
    assert_eq!(b.search_prefix("c").await, "");
}

pub(super) async fn items_are_found_by_their_fields<S: Store>(b: StoreFixture<S>) {
    b.put("n", "1", json!({"kind": "fact", "score": 1})).await;
    b.put("n", "2", json!({"kind": "fact", "score": 2.5})).await;
    b.put("n", "3", json!({"kind": "rule", "score": 3, "x": {"y": 1}})).await;
    b.put("other", "1", json!({"kind": "fact", "score": 9})).await;
    let search = async |conditions: Vec<(&str, ItemComparison, Value)>| {
        let conditions = conditions
            .into_iter()
            .map(|(field, comparison, with)| ItemCondition { field: field.into(), comparison, with })
            .collect();
        b.search(ItemSearch { prefix: prefix("n"), conditions, ..ItemSearch::default() }).await
    };
    assert_eq!(search(vec![("kind", ItemComparison::Equal, json!("fact"))]).await, "n:1 n:2");
    assert_eq!(search(vec![("score", ItemComparison::Greater, json!(1))]).await, "n:2 n:3");
    assert_eq!(search(vec![("x", ItemComparison::Equal, json!({"y": 1}))]).await, "n:3");
    assert_eq!(search(vec![("x", ItemComparison::NotEqual, json!({"y": 1}))]).await, "n:1 n:2");
    let both = vec![
        ("kind", ItemComparison::Equal, json!("fact")),
        ("score", ItemComparison::GreaterOrEqual, json!(2.5)),
    ];
    assert_eq!(search(both).await, "n:2");
    // A field is data, whatever it is called.
    b.put("n", "4", json!({"') OR 1=1 --": "x"})).await;
    assert_eq!(search(vec![("') OR 1=1 --", ItemComparison::Equal, json!("x"))]).await, "n:4");
}

pub(super) async fn items_are_paged<S: Store>(b: StoreFixture<S>) {
    for number in 0..7 {
        b.put("n", &number.to_string(), json!({"even": number % 2 == 0})).await;
    }
    let page = async |offset, limit, conditions| {
        b.search(ItemSearch { prefix: prefix("n"), conditions, offset, limit }).await
    };
    assert_eq!(page(0, 3, vec![]).await, "n:0 n:1 n:2");
    assert_eq!(page(6, 3, vec![]).await, "n:6");
    assert_eq!(page(7, 3, vec![]).await, "");
    assert_eq!(page(0, 0, vec![]).await, "");
    let even = ItemCondition { field: "even".into(), comparison: ItemComparison::Equal, with: json!(true) };
    assert_eq!(page(1, 2, vec![even]).await, "n:2 n:4");
    assert_eq!(page(0, usize::MAX, vec![]).await.split(' ').count(), 7);
    assert_eq!(page(usize::MAX, usize::MAX, vec![]).await, "");
}

pub(super) async fn a_deleted_item_is_gone<S: Store>(b: StoreFixture<S>) {
    let first = b.put("a", "k", json!({})).await;
    b.put("a", "kept", json!({})).await;
    assert!(b.delete("a", "k").await);
    assert!(!b.delete("a", "k").await && !b.delete("a/b", "kept").await);
    assert_eq!((b.get("a", "k").await, b.search_prefix("").await), (None, "a:kept".to_owned()));
    sleep_millis(5).await;
    assert!(b.put("a", "k", json!({})).await.created_at > first.created_at, "another item of this name");
}

pub(super) async fn an_expired_item_is_gone<S: Store>(b: StoreFixture<S>) {
    let put = async |name: &str, lifetime| {
        let put = b.store.put_item(&b.tenant, &namespace("a"), &key(name), &Map::new(), Some(lifetime)).await;
        put.expect("put")
    };
    let old = put("short", Duration::from_millis(1)).await;
    put("long", Duration::from_secs(600)).await;
    put("longest", Duration::MAX).await;
    sleep_millis(15).await;
    assert_eq!(b.get("a", "short").await, None);
    assert_eq!(b.search_prefix("a").await, "a:long a:longest");
    assert!(!b.delete("a", "short").await);
    put("b", Duration::from_millis(1)).await;
    let again = put("short", Duration::from_secs(600)).await;
    assert!(again.created_at > old.created_at, "an expired item leaves its name free");
    sleep_millis(15).await;
    let cleared = b.store.gc(&Retention::default()).await.expect("gc");
    assert!(cleared.items >= 1, "{cleared:?}");
    assert_eq!(b.search_prefix("a").await, "a:long a:longest a:short");
    // What is put without a lifetime stays.
    b.put("a", "short", json!({})).await;
    assert_eq!(b.store.gc(&Retention::default()).await.expect("gc").items, 0);
    assert!(b.get("a", "short").await.is_some());
}

pub(super) async fn namespaces_are_listed<S: Store>(b: StoreFixture<S>) {
    for (names, name) in [("a/x", "1"), ("a/x", "2"), ("a/y/z", "1"), ("b/x", "1"), ("ab", "1")] {
        b.put(names, name, json!({})).await;
    }
    let short =
        b.store.put_item(&b.tenant, &namespace("gone"), &key("k"), &Map::new(), Some(Duration::ZERO)).await;
    short.expect("put");
    let list = async |search: NamespaceSearch| b.namespaces(search).await;
    let all = NamespaceSearch::default();
    assert_eq!(list(all.clone()).await, "a/x a/y/z ab b/x");
    assert_eq!(list(NamespaceSearch { prefix: prefix("a"), ..all.clone() }).await, "a/x a/y/z");
    assert_eq!(list(NamespaceSearch { suffix: prefix("x"), ..all.clone() }).await, "a/x b/x");
    assert_eq!(list(NamespaceSearch { max_depth: Some(1), ..all.clone() }).await, "a ab b");
    assert_eq!(list(NamespaceSearch { max_depth: Some(1), offset: 1, limit: 1, ..all.clone() }).await, "ab");
    assert_eq!(list(NamespaceSearch { offset: 3, ..all }).await, "b/x");
}

pub(super) async fn any_text_survives_in_an_item<S: Store>(b: StoreFixture<S>) {
    let text = "\0 ' \" \\ \u{1f} 가🙂 %_";
    let value = json!({ text: [text, 0.1, 1e300, -7, u64::MAX, {"deep": [[]]}] });
    b.put("여기/a'b", "k'; DROP TABLE items; --", value.clone()).await;
    let got = b.get("여기/a'b", "k'; DROP TABLE items; --").await.expect("there");
    assert_eq!(got.value, fields(value));
    let found = b.store.search_items(&b.tenant, &ItemSearch::default()).await.expect("search");
    assert_eq!(found, [got]);
}

pub(super) async fn a_large_item_is_refused<S: Store>(b: StoreFixture<S>) {
    let largest = json!({ "t": "x".repeat(MAX_ITEM_BYTES - 8) });
    b.put("a", "k", largest.clone()).await;
    assert_eq!(b.get("a", "k").await.expect("there").value, fields(largest));
    let larger = fields(json!({ "t": "x".repeat(MAX_ITEM_BYTES) }));
    let refused = b.store.put_item(&b.tenant, &namespace("a"), &key("l"), &larger, None).await;
    assert!(matches!(refused, Err(StoreError::Rejected(_))), "{refused:?}");
    let mut deep = json!(0);
    for _ in 0..=crate::stored_json::MAX_DEPTH {
        deep = json!([deep]);
    }
    let refused =
        b.store.put_item(&b.tenant, &namespace("a"), &key("l"), &fields(json!({ "d": deep })), None).await;
    assert!(matches!(refused, Err(StoreError::Rejected(_))), "{refused:?}");
    assert_eq!(b.get("a", "l").await, None);
    let longest = ItemNamespace::new(["n".repeat(MAX_NAMESPACE_BYTES)]).expect("namespace");
    let name = key(&"k".repeat(MAX_ITEM_KEY_BYTES));
    b.store.put_item(&b.tenant, &longest, &name, &Map::new(), None).await.expect("the longest names");
    assert!(b.store.item(&b.tenant, &longest, &name).await.expect("read").is_some());
}

pub(super) async fn items_belong_to_a_tenant<S: Store>(b: StoreFixture<S>) {
    let other = b.with_other_tenant();
    b.put("a", "k", json!({"ours": true})).await;
    assert_eq!((other.get("a", "k").await, other.search_prefix("").await), (None, String::new()));
    assert_eq!(other.namespaces(NamespaceSearch::default()).await, "");
    assert!(!other.delete("a", "k").await);
    other.put("a", "k", json!({"theirs": true})).await;
    assert_eq!(b.get("a", "k").await.expect("there").value, fields(json!({"ours": true})));
}

pub(super) async fn items_put_at_once_are_all_there<S: Store>(b: StoreFixture<S>) {
    let puts = (0..24).map(|number| {
        let b = b.clone();
        tokio::spawn(async move {
            b.put("n", &format!("{:02}", number / 2), json!({ "n": number })).await;
            b.put("gone", &number.to_string(), json!({})).await;
            assert!(b.delete("gone", &number.to_string()).await);
        })
    });
    for put in puts.collect::<Vec<_>>() {
        put.await.expect("put");
    }
    assert_eq!(b.search_prefix("").await.split(' ').count(), 12);
}
