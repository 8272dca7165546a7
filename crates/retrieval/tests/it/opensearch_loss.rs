//! An index in a cluster that somebody deletes while servers run, and one that has other documents than the library.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use doran_retrieval::conformance::tenant;
use doran_retrieval::{
    Document, DocumentFilter, DocumentId, DocumentIndex, IngestState, Library, LibraryOptions,
    OpenSearchIndex, RetrieveError, Retriever, SearchQuery, split_into_passages,
};

use crate::fresh_directory;
use crate::library::{has_jail, new_document, options, search_texts};
use crate::opensearch::open_index;
use crate::opensearch_node::OpenSearchNode;
use crate::shared_library::RamLibraryDatabase;

/// How long something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_was_deleted_or_has_other_documents_is_made_to_agree_with_the_library() {
    if !has_jail().await {
        return;
    }
    let directory = fresh_directory("opensearch-loss");
    let Some(node) = OpenSearchNode::start(&directory) else { return };
    a_deleted_index_is_not_ready_and_the_next_write_makes_it(&node).await;
    a_document_is_whole_in_an_index_that_was_replaced_while_it_was_written(&node).await;
    an_index_with_the_name_of_the_alias_is_deleted_only_if_nothing_is_lost(&node).await;
    all_documents_are_listed_once_in_pages(&node).await;
    a_library_fills_an_index_that_was_deleted_under_it(&node).await;
    documents_that_the_library_does_not_have_are_not_found(&node).await;
    a_rebuilt_index_has_the_documents_of_the_library_alone(&node).await;
    drop(node);
    fs::remove_dir_all(directory).ok();
}

/// Sends a request to the node. Returns the status and the body.
fn send(node: &OpenSearchNode, head: &str, body: &str) -> (u16, String) {
    send_to(&node.address(), head, body)
}

fn send_to(address: &str, head: &str, body: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address.trim_start_matches("http://")).expect("a node");
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    socket.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    let status = answer.split_whitespace().nth(1).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    (status.expect("a status"), body.expect("a body"))
}

async fn put(index: &OpenSearchIndex, id: &str, text: &str) {
    let document = Document::new(id, id, text);
    index.put(&tenant(), &document, &split_into_passages(&document)).await.expect("put");
}

async fn ids(index: &dyn DocumentIndex) -> Vec<String> {
    let listed = index.list(&tenant(), &DocumentFilter::default()).await.expect("a list");
    listed.iter().map(|one| one.id.as_str().to_owned()).collect()
}

async fn a_deleted_index_is_not_ready_and_the_next_write_makes_it(node: &OpenSearchNode) {
    let index = open_index(node, "gone", None).await;
    put(&index, "a", "사과 하나.").await;
    index.check_health().await.expect("ready");
    assert_eq!(send(node, "DELETE /gone-1", "").0, 200);
    let missing = index.check_health().await.expect_err("it is gone");
    assert!(matches!(&missing, RetrieveError::Missing { index } if index == "gone"), "{missing:?}");
    assert!(index.list(&tenant(), &DocumentFilter::default()).await.is_err());
    put(&index, "b", "배 하나.").await;
    index.check_health().await.expect("ready again");
    assert_eq!(send(node, "GET /_alias/gone", "").0, 200, "`gone` is an alias and no index");
    assert_eq!(search_texts(&index, tenant().as_str(), "배").await, ["배 하나."]);
    // Deleting does not make an index either.
    assert_eq!(send(node, "DELETE /gone-1", "").0, 200);
    assert!(index.remove(&tenant(), &DocumentId::new("b")).await.is_err());
    assert_eq!(send(node, "GET /gone", "").0, 404);
}

async fn a_document_is_whole_in_an_index_that_was_replaced_while_it_was_written(node: &OpenSearchNode) {
    drop(open_index(node, "replaced", None).await);
    let address = node.address();
    let proxy = start_proxy(node.address(), move || {
        assert_eq!(send_to(&address, "DELETE /replaced-1", "").0, 200);
        assert_eq!(send_to(&address, "PUT /replaced-1", r#"{"aliases":{"replaced":{}}}"#).0, 200);
    });
    // Passages and heads are written by different requests.
    let index = OpenSearchIndex::open(&proxy, "replaced", None).await.expect("an index");
    put(&index, "a", "사과 하나.").await;
    assert_eq!(ids(&index).await, ["a"]);
    assert_eq!(search_texts(&index, tenant().as_str(), "사과").await, ["사과 하나."]);
}

/// Passes requests on to a node, one after the other, and calls `before_second_bulk` once. Returns its address.
fn start_proxy(node: String, before_second_bulk: impl FnOnce() + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let (mut bulks, mut before_second_bulk) = (0, Some(before_second_bulk));
        for client in listener.incoming() {
            let mut client = client.expect("a connection");
            let Some(request) = read_request(&mut client) else { continue };
            let first_line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
            bulks += usize::from(String::from_utf8_lossy(first_line).contains("/_bulk"));
            if let Some(call) = before_second_bulk.take_if(|_| bulks == 2) {
                call();
            }
            let mut socket = TcpStream::connect(node.trim_start_matches("http://")).expect("a node");
            let (line, rest) = request.split_at(first_line.len());
            socket.write_all(&[line, b"\r\nConnection: close", rest].concat()).expect("sent");
            let mut answer = Vec::new();
            socket.read_to_end(&mut answer).expect("an answer");
            client.write_all(&answer).ok();
        }
    });
    address
}

/// Reads a request with its body. `None` if the client has gone.
fn read_request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let head = request.windows(4).position(|end| end == b"\r\n\r\n");
        if let Some(head) = head {
            let lines = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
            let length = lines.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if request.len() >= head + 4 + length.unwrap_or(0) {
                return Some(request);
            }
        }
        match client.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(count) => request.extend_from_slice(&buffer[..count]),
        }
    }
}

async fn an_index_with_the_name_of_the_alias_is_deleted_only_if_nothing_is_lost(node: &OpenSearchNode) {
    // As a bulk request of this program left it, when it let the cluster make indexes.
    let entry = r#"{"what":"passage","key":"k","generation":"g","tenant":"t","passage":{"head":"h"}}"#;
    assert_eq!(send(node, "POST /stray/_doc?refresh=true", entry).0, 201);
    let index = open_index(node, "stray", None).await;
    put(&index, "a", "사과 하나.").await;
    assert_eq!(ids(&index).await, ["a"]);
    assert_eq!(send(node, "GET /_alias/stray", "").0, 200);
    // While a server runs, too.
    assert_eq!(send(node, "DELETE /stray-1", "").0, 200);
    assert_eq!(send(node, "POST /stray/_doc?refresh=true", entry).0, 201);
    put(&index, "b", "배 하나.").await;
    assert_eq!(ids(&index).await, ["b"]);

    assert_eq!(send(node, "POST /logs/_doc?refresh=true", r#"{"message":"of somebody else"}"#).0, 201);
    let address = node.address();
    let opened = OpenSearchIndex::open(&address, "logs", None).await.map(drop);
    let rebuilt = OpenSearchIndex::rebuild(&address, "logs", None).await.map(drop);
    for refused in [opened, rebuilt] {
        let error = refused.expect_err("the name is taken");
        assert!(
            matches!(&error, RetrieveError::NameTaken { index, foreign: 1 } if index == "logs"),
            "{error:?}"
        );
    }
    assert!(send(node, "GET /logs/_count", "").1.contains("\"count\":1"));
}

async fn all_documents_are_listed_once_in_pages(node: &OpenSearchNode) {
    /// More than one page.
    const DOCUMENTS: usize = 503;
    let index = open_index(node, "paged", None).await;
    let all: Vec<_> = (0..DOCUMENTS)
        .map(|at| {
            let document = Document::new(format!("{at}"), "t", format!("{at}번 문서다."));
            let passages = split_into_passages(&document);
            (document, passages)
        })
        .collect();
    index.put_all(&tenant(), &all).await.expect("put");
    let (mut listed, mut after, mut pages) = (BTreeSet::new(), None, 0);
    loop {
        let page = index.list_page(after.as_deref()).await.expect("a page");
        pages += 1;
        for (of, one) in page.documents {
            assert!(of == tenant() && listed.insert(one.id.clone()), "{one:?}");
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((listed.len(), pages), (DOCUMENTS, 2));
}

async fn open_library(
    root: &Path,
    database: &Arc<RamLibraryDatabase>,
    index: &Arc<OpenSearchIndex>,
    process: &str,
) -> Library {
    let taken = Library::lock_directory(root).await.expect("locked");
    let index_only = BTreeSet::from([DocumentId::new("samples/rules")]);
    let options = LibraryOptions { index_only, ..options() };
    let opened =
        Library::open_shared(taken, database.clone(), index.clone(), options, process.to_owned()).await;
    opened.expect("a library")
}

/// Adds a document and waits until it is ready. Returns its identifier.
async fn add(library: &Library, name: &str, text: &str) -> String {
    let added = library.add(new_document(tenant().as_str(), name, text)).await.expect("added");
    library.wait_until_idle().await;
    let status = library.status(&tenant(), &added.id).expect("there");
    assert_eq!(status.state, IngestState::Ready, "{:?}", status.failure);
    added.id.as_str().to_owned()
}

async fn a_library_fills_an_index_that_was_deleted_under_it(node: &OpenSearchNode) {
    let (root, database) = (fresh_directory("refilled"), Arc::<RamLibraryDatabase>::default());
    let index = Arc::new(open_index(node, "refilled", None).await);
    let library = open_library(&root, &database, &index, "one").await;
    add(&library, "rule.md", "휴가는 15일이다.").await;
    add(&library, "pay.md", "식비는 4만 원이다.").await;
    let all_found = async || {
        texts_if_there(&index, "휴가").await == ["휴가는 15일이다."]
            && texts_if_there(&index, "식비").await == ["식비는 4만 원이다."]
    };
    assert!(all_found().await);
    assert_eq!(send(node, "DELETE /refilled-1", "").0, 200);
    assert!(!all_found().await);
    let waiting = async {
        while !all_found().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("the library fills it");
    library.close().await;
    fs::remove_dir_all(root).ok();
}

/// The texts that a search finds; none if the index is away.
async fn texts_if_there(index: &OpenSearchIndex, question: &str) -> Vec<String> {
    let hits = index.retrieve(&SearchQuery::new(tenant(), question, 5)).await;
    hits.unwrap_or_default().into_iter().map(|hit| hit.passage.text).collect()
}

async fn documents_that_the_library_does_not_have_are_not_found(node: &OpenSearchNode) {
    let (root, database) = (fresh_directory("ghosts"), Arc::<RamLibraryDatabase>::default());
    let index = Arc::new(open_index(node, "ghosts", None).await);
    let library = open_library(&root, &database, &index, "one").await;
    let rule = add(&library, "rule.md", "휴가는 15일이다.").await;
    library.close().await;
    // What was added after the dump that is restored, and a newer version of what was there.
    put(&index, "late", "퇴근은 6시다.").await;
    put(&index, "samples/rules", "예시 규칙이다.").await;
    let newer = Document::new(rule.clone(), "rule", "휴가는 20일이다.");
    index.put(&tenant(), &newer, &split_into_passages(&newer)).await.expect("put");

    let library = open_library(&root, &database, &index, "two").await;
    library.wait_until_idle().await;
    let mut expected = vec![rule, "samples/rules".to_owned()];
    expected.sort();
    assert_eq!(ids(&*index).await, expected);
    assert_eq!(search_texts(&*index, tenant().as_str(), "퇴근").await, [""; 0]);
    assert_eq!(search_texts(&*index, tenant().as_str(), "휴가").await, ["휴가는 15일이다."]);
    assert_eq!(library.list(&tenant()).len(), 1);
    library.close().await;
    fs::remove_dir_all(root).ok();
}

async fn a_rebuilt_index_has_the_documents_of_the_library_alone(node: &OpenSearchNode) {
    let (root, database) = (fresh_directory("rebuilt"), Arc::<RamLibraryDatabase>::default());
    let index = Arc::new(open_index(node, "rebuilt", None).await);
    let library = open_library(&root, &database, &index, "one").await;
    let rule = add(&library, "rule.md", "휴가는 15일이다.").await;
    library.close().await;
    put(&index, "late", "퇴근은 6시다.").await;
    let index = OpenSearchIndex::rebuild(&node.address(), "rebuilt", None).await.expect("rebuilt");
    let index = Arc::new(index);
    let library = open_library(&root, &database, &index, "two").await;
    library.wait_until_idle().await;
    assert_eq!(ids(&*index).await, [rule]);
    // Also after both were deleted.
    library.close().await;
    assert_eq!(send(node, "DELETE /rebuilt-2", "").0, 200);
    let index = Arc::new(OpenSearchIndex::rebuild(&node.address(), "rebuilt", None).await.expect("made"));
    let library = open_library(&root, &database, &index, "three").await;
    library.wait_until_idle().await;
    assert_eq!(search_texts(&*index, tenant().as_str(), "휴가").await, ["휴가는 15일이다."]);
    library.close().await;
    fs::remove_dir_all(root).ok();
}
