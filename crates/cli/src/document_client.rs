//! Where documents are kept and looked for: in the library of this process, or by the server that has the data directory
//! already.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use doran_retrieval::{
    DocumentFilter, DocumentId, DocumentKind, DocumentStatus, DocumentTenant, Hit, IngestState, Library,
    NewDocument, Passage, SearchQuery, find_article_numbers,
};
use doran_server::api::{DocumentInfo, DocumentList, SearchHit, SearchHitList};
use doran_server::percent_encode;
use serde_json::json;

use crate::agent_client;
use crate::assemble::{self, App, RecordReplay};
use crate::busy_server_retry::{BusyRetryDecision, BusyServerRetry};
use crate::client::ServerHttpClient;
use crate::config::Config;
use crate::output::{self, BilingualMessage, TerminalOutput, bilingual};
use crate::replica::{SharedLibraryDatabase, open_shared_values, shares_documents};

/// How long to wait before a request to a busy server is retried, and how often its progress is checked.
const SERVER_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The most that a server gives of a search.
const MAX_SEARCH_HITS: usize = 50;

/// Who has the documents.
pub(crate) enum DocumentClient {
    Local(Box<App>),
    Remote { server: ServerHttpClient },
}

/// What is done to one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DocumentChange {
    Delete,
    Kind(DocumentKind),
    Retry,
    Pause,
    Resume,
    Cancel,
}

impl DocumentChange {
    /// Whether a document that is in this state afterwards was neither paused nor cancelled, though it should be.
    pub(crate) fn is_without_effect(&self, state: IngestState) -> bool {
        match self {
            Self::Pause => state != IngestState::Paused,
            Self::Cancel => state != IngestState::Cancelled,
            Self::Delete | Self::Kind(_) | Self::Retry | Self::Resume => false,
        }
    }
}

/// A file to be added.
pub(crate) struct DocumentUpload<'a> {
    pub(crate) name: &'a str,
    pub(crate) collection: &'a str,
    /// `None` recognises it.
    pub(crate) kind: Option<&'a DocumentKind>,
    /// Where it lies on this machine.
    pub(crate) origin: &'a str,
    pub(crate) bytes: Vec<u8>,
}

/// The paths that documents were added from.
async fn document_origins(config: &Config) -> anyhow::Result<HashMap<DocumentId, String>> {
    match open_shared_values(config).await?.filter(|_| shares_documents(config)) {
        Some(values) => Ok(Library::shared_origins(&SharedLibraryDatabase(values)).await?),
        None => Ok(Library::origins(&config.data_dir.join("library"))?),
    }
}

impl DocumentClient {
    /// Finds out who has them. `reads` says whether what waits is to be read.
    pub(crate) async fn open(config: &Config, reads: bool) -> anyhow::Result<Self> {
        let record_replay = RecordReplay::default();
        Ok(match agent_client::running_server(config) {
            Some(server) => Self::Remote { server },
            None if reads => {
                Self::Local(Box::new(assemble::assemble_app_reading_documents(config, &record_replay).await?))
            }
            None => Self::Local(Box::new(assemble::assemble_app(config, &record_replay).await?)),
        })
    }

    /// All documents, the newest change first.
    pub(crate) async fn list(&self) -> anyhow::Result<Vec<DocumentStatus>> {
        match self {
            Self::Local(app) => {
                app.library.refresh().await?;
                Ok(app.library.list(&local_tenant(app)))
            }
            Self::Remote { server } => {
                let listed: DocumentList = server.get("/api/documents").await?;
                Ok(listed.documents.into_iter().map(|info| info.document).collect())
            }
        }
    }

    /// The documents of a collection, with the places they were taken from. A server tells those to nobody, but its
    /// library is read here.
    pub(crate) async fn list_with_origins(
        &self,
        config: &Config,
        collection: &str,
    ) -> anyhow::Result<Vec<DocumentStatus>> {
        let mut known = self.list().await?;
        known.retain(|status| status.collection == collection);
        if let Self::Remote { .. } = self {
            let mut origins = document_origins(config).await?;
            known.iter_mut().for_each(|status| status.origin = origins.remove(&status.id));
        }
        Ok(known)
    }

    /// The most bytes that a file may have, where that is known before it is read.
    pub(crate) fn max_document_bytes(&self) -> usize {
        match self {
            Self::Local(app) => app.library.max_file_bytes(),
            Self::Remote { .. } => doran_server::ServerLimits::default().max_document_bytes,
        }
    }

    /// Adds a file, once there is room for it to wait. An error that concerns this file alone is inside. A long wait for
    /// a server is reported to `tell`.
    pub(crate) async fn add(
        &self,
        file: DocumentUpload<'_>,
        retry: &mut BusyServerRetry,
        tell: impl Fn(&BilingualMessage),
    ) -> anyhow::Result<Result<DocumentStatus, BilingualMessage>> {
        let DocumentUpload { name, collection, kind, origin, bytes } = file;
        match self {
            Self::Local(app) => {
                let tenant = local_tenant(app);
                app.library.wait_for_room(&tenant).await;
                let (name, collection, kind) = (name.to_owned(), collection.to_owned(), kind.cloned());
                let new = NewDocument { tenant, name, collection, kind, bytes };
                let added = app.library.add_from(new, Some(origin)).await;
                Ok(added.map_err(|error| BilingualMessage::new(error.message_ko(), error.to_string())))
            }
            Self::Remote { server } => {
                let words = [
                    ("name", name),
                    ("collection", collection),
                    ("kind", &kind.map_or_else(|| "auto".to_owned(), document_kind_name)),
                    ("origin", origin),
                ];
                let path = format!("/api/documents?{}", encode_query(&words));
                loop {
                    let error = match server.upload(&path, bytes.clone()).await {
                        Ok(taken) => {
                            retry.reset();
                            return Ok(Ok(taken.document.document));
                        }
                        Err(error) => error,
                    };
                    match output::error_code(&error) {
                        Some("overloaded" | "too_many_requests") => {}
                        Some("bad_input" | "too_large" | "disk_full") => {
                            return Ok(Err(server_refusal_message(&error)));
                        }
                        Some(_) | None => return Err(error),
                    }
                    let BilingualMessage { ko, en, .. } = server_refusal_message(&error);
                    match retry.decide(Instant::now()) {
                        BusyRetryDecision::WaitSilently => {}
                        BusyRetryDecision::WaitAndNotify => tell(&bilingual!(
                            "서버가 파일을 더 받을 때까지 기다립니다: {ko}",
                            "waiting until the server takes more files: {en}"
                        )),
                        BusyRetryDecision::GiveUp => {
                            let minutes = retry.max_wait.as_secs() / 60;
                            return Ok(Err(bilingual!(
                                "서버가 {minutes}분 동안 아무 파일도 받지 않았습니다: {ko}",
                                "the server has taken no file for {minutes} minutes: {en}"
                            )));
                        }
                    }
                    tokio::time::sleep(SERVER_POLL_INTERVAL).await;
                }
            }
        }
    }

    /// Gives where these stand to `each`, now and after every change, until all have come to rest.
    pub(crate) async fn watch_until_processed(
        &self,
        ids: &[DocumentId],
        mut each: impl FnMut(&[DocumentStatus]),
    ) -> anyhow::Result<Vec<DocumentStatus>> {
        let mut changes = match self {
            Self::Local(app) => Some(app.library.watch()),
            Self::Remote { .. } => None,
        };
        loop {
            let now = self.statuses(ids).await?;
            each(&now);
            if now.iter().all(|status| !status.state.is_pending()) {
                return Ok(now);
            }
            match &mut changes {
                // A library that is gone tells nothing more.
                Some(changes) => match changes.changed().await {
                    Ok(()) => {}
                    Err(_) => return Ok(now),
                },
                None => tokio::time::sleep(SERVER_POLL_INTERVAL).await,
            }
        }
    }

    async fn statuses(&self, ids: &[DocumentId]) -> anyhow::Result<Vec<DocumentStatus>> {
        match self {
            Self::Local(app) => {
                let tenant = local_tenant(app);
                Ok(ids.iter().filter_map(|id| app.library.status(&tenant, id)).collect())
            }
            Self::Remote { .. } => {
                let listed = self.list().await?;
                let mut by_id: HashMap<DocumentId, DocumentStatus> =
                    listed.into_iter().map(|status| (status.id.clone(), status)).collect();
                Ok(ids.iter().filter_map(|id| by_id.remove(id)).collect())
            }
        }
    }

    /// Does it, and gives where the document stands then, if it is still there.
    pub(crate) async fn apply_change(
        &self,
        change: &DocumentChange,
        id: &DocumentId,
    ) -> anyhow::Result<Option<DocumentStatus>> {
        match self {
            Self::Local(app) => {
                let (library, tenant) = (&app.library, local_tenant(app));
                let changed = match change {
                    DocumentChange::Delete => library.remove(&tenant, id).await.map(|()| None),
                    DocumentChange::Kind(kind) => {
                        library.change_kind(&tenant, id, kind.clone()).await.map(Some)
                    }
                    DocumentChange::Retry => library.retry(&tenant, id).await.map(Some),
                    DocumentChange::Pause => library.pause(&tenant, id).await.map(Some),
                    DocumentChange::Resume => library.resume(&tenant, id).await.map(Some),
                    DocumentChange::Cancel => library.cancel(&tenant, id).await.map(Some),
                };
                Ok(changed.map_err(|error| BilingualMessage::new(error.message_ko(), error.to_string()))?)
            }
            Self::Remote { server } => {
                let path = format!("/api/documents/{}", percent_encode(id.as_str()));
                let change = match change {
                    DocumentChange::Delete => {
                        server.delete(&path).await?;
                        return Ok(None);
                    }
                    DocumentChange::Kind(kind) => {
                        let body = json!({ "kind": document_kind_name(kind) });
                        let changed: DocumentInfo = server.patch(&path, &body).await?;
                        return Ok(Some(changed.document));
                    }
                    DocumentChange::Retry => "retry",
                    DocumentChange::Pause => "pause",
                    DocumentChange::Resume => "resume",
                    DocumentChange::Cancel => "cancel",
                };
                let changed: DocumentInfo = server.post(&format!("{path}/{change}"), &json!({})).await?;
                Ok(Some(changed.document))
            }
        }
    }

    /// Tells what the changes mean for the samples.
    pub(crate) async fn report_samples_change(&self, output: TerminalOutput) -> anyhow::Result<()> {
        if let Self::Local(app) = self
            && let Some(turn) = app.update_samples().await?
        {
            output.print_message(&turn.message());
        }
        Ok(())
    }

    /// Looks for passages, best first.
    pub(crate) async fn retrieve(
        &self,
        words: &str,
        limit: usize,
        filter: DocumentFilter,
    ) -> anyhow::Result<Vec<Hit>> {
        match self {
            Self::Local(app) => {
                let mut question = SearchQuery::new(local_tenant(app), words, limit.min(100));
                question.filter = filter;
                Ok(app.index.retrieve(&question).await?)
            }
            Self::Remote { server } => {
                let limit = limit.clamp(1, MAX_SEARCH_HITS).to_string();
                let kinds: Vec<String> = filter.kinds.iter().map(document_kind_name).collect();
                let mut pairs = vec![("q", words), ("limit", &limit)];
                pairs.extend(filter.collection.as_deref().map(|name| ("collection", name)));
                pairs.extend(filter.documents.iter().map(|id| ("document", id.as_str())));
                pairs.extend(kinds.iter().map(|kind| ("kind", kind.as_str())));
                let found: SearchHitList =
                    server.get(&format!("/api/search?{}", encode_query(&pairs))).await?;
                Ok(found.hits.into_iter().map(hit_of_server).collect())
            }
        }
    }
}

/// Whose documents they are without keys.
fn local_tenant(app: &App) -> DocumentTenant {
    DocumentTenant::new(app.tenant.as_str())
}

/// Why the server does not take a file, without the words around it.
fn server_refusal_message(error: &anyhow::Error) -> BilingualMessage {
    let both = error.chain().filter_map(|cause| cause.downcast_ref::<BilingualMessage>()).last();
    both.map_or_else(
        || bilingual!("서버가 받지 않았습니다: {error}", "the server did not take it: {error}"),
        |both| BilingualMessage::new(both.ko.clone(), both.en.clone()),
    )
}

/// A kind as the server reads it.
pub(crate) fn document_kind_name(kind: &DocumentKind) -> String {
    match kind {
        DocumentKind::General => "general".into(),
        DocumentKind::Contract => "contract".into(),
        DocumentKind::Standard(of) => format!("standard:{of}"),
    }
}

fn encode_query(pairs: &[(&str, &str)]) -> String {
    pairs
        .iter()
        .map(|(name, value)| format!("{name}={}", percent_encode(value)))
        .collect::<Vec<_>>()
        .join("&")
}

/// A hit as an index gives it.
fn hit_of_server(hit: SearchHit) -> Hit {
    let article = hit.article.as_deref().and_then(|text| Some(find_article_numbers(text).first()?.0));
    let passage = Passage {
        id: hit.passage,
        document: hit.document,
        title: hit.title,
        text: hit.text,
        page: hit.page,
        range: hit.start..hit.end,
        article,
        ..Passage::default()
    };
    Hit { passage, score: hit.score }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use serde_json::Value;

    use super::*;

    /// A client of a server that gives these answers, one to each request.
    fn client_of_scripted_server(answers: &[(u16, Value)]) -> DocumentClient {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let answers = answers.to_vec();
        std::thread::spawn(move || {
            for (status, body) in answers {
                let (mut socket, _) = listener.accept().expect("a request");
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\nwords") {
                    let mut more = [0; 1024];
                    let length = socket.read(&mut more).expect("bytes");
                    request.extend_from_slice(&more[..length]);
                }
                let body = body.to_string();
                let length = body.len();
                let head =
                    format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
                socket.write_all(format!("{head}{body}").as_bytes()).expect("sent");
            }
        });
        DocumentClient::Remote { server: ServerHttpClient::new(address, None) }
    }

    async fn add_file(client: &DocumentClient, retry: &mut BusyServerRetry) -> Result<DocumentId, String> {
        let (kind, bytes) = (Some(&DocumentKind::General), b"words".to_vec());
        let file = DocumentUpload { name: "a.txt", collection: "", kind, origin: "/a.txt", bytes };
        let added = client.add(file, retry, |_| {}).await.expect("an error of this file alone");
        added.map(|status| status.id).map_err(|why| why.en)
    }

    fn problem_json(code: &str, detail: &str) -> Value {
        json!({
            "type": "about:blank", "status": 500, "code": code, "title": "no", "title_ko": "안 됨", "detail": detail,
            "detail_ko": detail,
        })
    }

    fn accepted_document_json() -> Value {
        json!({
            "id": "d", "name": "a.txt", "title": "a.txt", "collection": "", "kind": "general", "state": "queued",
            "progress": 0.0, "failure": null, "format": null, "passages": 0, "pages": 0, "bytes": 5, "version": "",
            "hidden": 0, "added_at": 0, "changed_at": 0, "status": "queued", "replaced": false,
        })
    }

    #[tokio::test]
    async fn a_file_for_which_there_is_no_room_does_not_stop_the_next() {
        let client = client_of_scripted_server(&[
            (507, problem_json("disk_full", "there is no room")),
            (202, accepted_document_json()),
        ]);
        let mut retry = BusyServerRetry::default();
        assert_eq!(add_file(&client, &mut retry).await, Err("there is no room".to_owned()));
        assert_eq!(add_file(&client, &mut retry).await, Ok(DocumentId::new("d")));
    }

    #[tokio::test]
    async fn a_busy_server_gets_the_request_again_but_not_for_ever() {
        let busy = (503, problem_json("overloaded", "9 documents are waiting already"));
        let client = client_of_scripted_server(&[busy.clone(), (202, accepted_document_json())]);
        assert_eq!(add_file(&client, &mut BusyServerRetry::default()).await, Ok(DocumentId::new("d")));
        let client = client_of_scripted_server(&[busy.clone(), busy]);
        let mut retry = BusyServerRetry::with_max_wait(Duration::ZERO);
        for _ in 0..2 {
            let why = add_file(&client, &mut retry).await.expect_err("nothing is taken");
            assert!(
                why.contains("has taken no file") && why.ends_with("9 documents are waiting already"),
                "{why}"
            );
        }
    }
}
