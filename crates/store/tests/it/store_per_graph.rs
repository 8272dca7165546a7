//! Several stores behind one: each thread in the store of its graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_engine::store::{EntryKind, InputDurability};
use doran_engine::store::{
    HistoryStore, IfBusy, NewRun, NewRunEntry, RamStore, RunFilter, RunStore, StoreError, ThreadFilter,
    ThreadMaintenance, conformance,
};
use doran_engine::{RunId, TenantId, ThreadKey};
use doran_store::StorePerGraph;
use doran_store::sqlite::SqliteStore;
use serde_json::{Map, json};

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_is_kept_beside_stores_of_other_graphs() {
    // A thread that is made before its first run moves to the store of the graph and is made there anew, with another time
    // of creation. The suite calls its graph `chat`, so it uses the default store here.
    conformance::check(async || {
        StorePerGraph::new(Arc::new(RamStore::new()))
            .with_store(Arc::new(SqliteStore::in_memory().expect("open")), ["other".to_owned()])
    })
    .await;
}

fn new_run(thread: &ThreadKey, graph: &str) -> NewRun {
    NewRun {
        thread: thread.clone(),
        run: RunId::random(),
        graph: graph.to_owned(),
        fingerprint: "f".to_owned(),
        first: NewRunEntry { kind: EntryKind::Started, body: b"{}".to_vec(), parent: None },
        if_busy: IfBusy::Enqueue,
        idempotency: None,
        metadata: Map::new(),
        thread_metadata: Map::new(),
        options: Vec::new(),
        stop_body: b"{}".to_vec(),
        claim: None,
        durability: InputDurability::Now,
    }
}

#[tokio::test]
async fn a_thread_is_in_the_store_of_its_graph_and_in_no_other() {
    let (disk, memory) = (RamStore::new(), RamStore::new());
    let stores = StorePerGraph::new(Arc::new(disk.clone()))
        .with_store(Arc::new(memory.clone()), ["private".to_owned()]);
    let thread = |name: &str| ThreadKey::local(name).expect("a name");
    let (kept, private, made_before) = (thread("kept"), thread("private"), thread("made-before"));

    stores.submit(new_run(&kept, "chat")).await.expect("accepted");
    stores.submit(new_run(&private, "private")).await.expect("accepted");
    // A client may create a thread before it says which agent is to answer.
    let title = Map::from_iter([("title".to_owned(), json!("a secret"))]);
    stores.put_thread(&made_before, &title).await.expect("made");
    assert!(disk.thread(&made_before).await.is_ok());
    stores.submit(new_run(&made_before, "private")).await.expect("accepted");
    assert_eq!(stores.thread(&made_before).await.expect("a thread").metadata, title);

    // If it says so, the thread is nowhere else at any time.
    let named = thread("named");
    let about = Map::from_iter([("agent".to_owned(), json!("private"))]);
    stores.put_thread(&named, &about).await.expect("made");
    assert!(matches!(disk.thread(&named).await, Err(StoreError::NotFound { .. })));
    assert!(stores.delete_thread(&named).await.expect("deleted"));

    let names = |threads: Vec<doran_engine::store::ThreadRow>| {
        let mut names: Vec<String> = threads.iter().map(|row| row.key.thread.to_string()).collect();
        names.sort();
        names
    };
    let (tenant, all) = (TenantId::local(), ThreadFilter::default());
    assert_eq!(names(disk.threads(&tenant, &all).await.expect("listed")), ["kept"]);
    assert_eq!(names(memory.threads(&tenant, &all).await.expect("listed")), ["made-before", "private"]);
    assert_eq!(
        names(stores.threads(&tenant, &all).await.expect("listed")),
        ["kept", "made-before", "private"]
    );
    let runs = stores.runs(&tenant, &RunFilter::default()).await.expect("listed");
    assert!(runs.len() == 3 && runs.is_sorted_by(|left, right| left.run > right.run));

    for (thread, graph) in [(&kept, "private"), (&private, "chat")] {
        let refused = stores.submit(new_run(thread, graph)).await.expect_err("a thread in two stores");
        assert!(
            matches!(&refused, StoreError::Conflict(why) if why.contains("start a new thread")),
            "{refused}"
        );
    }
    assert!(stores.delete_thread(&private).await.expect("deleted"));
    assert!(matches!(stores.thread(&private).await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn pages_of_a_merged_list_have_every_thread_once() {
    let stores = StorePerGraph::new(Arc::new(RamStore::new()))
        .with_store(Arc::new(RamStore::new()), ["private".to_owned()]);
    for number in 0..10 {
        let thread = ThreadKey::local(&format!("t{number}")).expect("a name");
        let graph = if number % 3 == 0 { "private" } else { "chat" };
        stores.submit(new_run(&thread, graph)).await.expect("accepted");
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for offset in (0..12).step_by(4) {
        let page = ThreadFilter { offset, limit: 4, ..ThreadFilter::default() };
        for row in stores.threads(&TenantId::local(), &page).await.expect("listed") {
            *seen.entry(row.key.thread.to_string()).or_default() += 1;
        }
    }
    assert!(seen.len() == 10 && seen.values().all(|count| *count == 1), "{seen:?}");
}
