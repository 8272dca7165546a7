//! Keyword search in an OpenSearch cluster, and vector search if there is an embedder and the k-NN plugin.
//!
//! Terms are computed here: each passage is indexed with the same syllable pairs and stems as in every other index, so
//! no Korean analysis plugin is needed. A document is replaced atomically although each of its passages is a separate
//! entry. Passages carry a generation, and a *head* entry says which generation is current. New passages are written
//! and made searchable first, then the head is updated, then the old passages are deleted. A search keeps only passages
//! of current generations. A crash in between leaves invisible entries, which the next `put` of the document removes.
//!
//! Typos are not corrected here, unlike in the other indexes, because that needs the list of terms of the index.

mod alias;
mod http_client;
mod rebuild;
mod request_body;
mod search;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use doran_llm::{Embedder, EmbedderInfo};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::embedding;
use crate::keyword::RankingParameters;
use crate::passage::{Document, DocumentId, DocumentTenant, Passage};
use crate::retriever::{DocumentFilter, DocumentIndex, DocumentPage, DocumentSummary, RetrieveError};
use crate::score_fusion::FusionWeights;

use http_client::{OpenSearchClient, unavailable_error};

/// The maximum size and number of entries of one bulk request.
const MAX_BULK_BYTES: usize = 4 << 20;
const MAX_BULK_ENTRIES: usize = 500;
/// How often bulk entries that the cluster was too busy for are sent.
const MAX_BULK_ATTEMPTS: usize = 6;
/// How often one write begins, if somebody deletes the index meanwhile.
const MAX_WRITE_ATTEMPTS: usize = 3;
/// What the embedder is asked for to see whether it answers.
const EMBEDDER_CHECK_TEXT: &str = "test";
/// The page size for reading all entries.
const ENTRIES_PER_PAGE: usize = 500;

/// An index in a cluster. `name` is an alias; the index behind it may change while it is in use.
pub struct OpenSearchIndex {
    http: OpenSearchClient,
    /// The alias that callers use.
    alias: String,
    /// The name in requests: the alias, or an index that is being built behind it.
    target: String,
    embedder: Option<Arc<dyn Embedder>>,
    weights: FusionWeights,
    ranking: RankingParameters,
}

/// A head entry as it is stored.
#[derive(Deserialize)]
struct DocumentHeadEntry {
    tenant: DocumentTenant,
    document: Document,
    passages: usize,
}

impl OpenSearchIndex {
    /// Opens the index of this name in the cluster at an address such as `https://name:password@host:9200`, or creates
    /// it. An index made by another analyser or embedder is rejected as stale. One made without an embedder is searched
    /// and written without.
    pub async fn open(
        address: &str,
        name: &str,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Self, RetrieveError> {
        let mut index = Self::from_client(OpenSearchClient::new(address)?, name, embedder)?;
        index.http.ping().await?;
        let behind = index.create_missing().await?;
        let mapping =
            index.http.send_json_expecting_success(Method::GET, &format!("/{behind}/_mapping"), None).await?;
        let made = &mapping[&behind]["mappings"]["_meta"];
        let embedder = index.embedder.as_ref().map(|embedder| embedder.info());
        let wanted = request_body::index_fingerprint(embedder.as_ref());
        if made["layout"] != wanted["layout"] || made["analysis"] != wanted["analysis"] {
            return Err(RetrieveError::Stale { reason: format!("`{name}` was made by another version") });
        }
        if made["embedder"].is_null() {
            index.embedder = None;
        } else if made["embedder"] != wanted["embedder"] {
            let made: Option<EmbedderInfo> = parse_entry(&made["embedder"])?;
            return Err(RetrieveError::OtherEmbedder {
                made: embedding::describe_embedder(made.as_ref()),
                wanted: embedding::describe_embedder(embedder.as_ref()),
            });
        }
        Ok(index)
    }

    /// Returns the embedder whose vectors the index contains.
    pub fn embedder(&self) -> Option<EmbedderInfo> {
        self.embedder.as_ref().map(|embedder| embedder.info())
    }

    /// Checks that a cluster that can be used answers at this address.
    pub async fn ping(address: &str) -> Result<(), RetrieveError> {
        OpenSearchClient::new(address)?.ping().await
    }

    /// Creates an index that must not exist yet. An existing index of this name is an error: its content is not ours.
    pub async fn create_new(
        address: &str,
        name: &str,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Self, RetrieveError> {
        let index = Self::from_client(OpenSearchClient::new(address)?, name, embedder)?;
        if index.index_behind_alias().await?.is_some() {
            return Err(unavailable_error(format!("there is an index `{name}` already")));
        }
        index.create(&format!("{name}-1"), Some(name)).await?;
        Ok(index)
    }

    /// Removes the index, its alias and its template.
    pub async fn destroy(self) -> Result<(), RetrieveError> {
        if let Some(behind) = self.index_behind_alias().await? {
            self.http.send_json_expecting_success(Method::DELETE, &format!("/{behind}"), None).await?;
        }
        self.http.send_json(Method::DELETE, &format!("/_index_template/{}", self.alias), None).await.map(drop)
    }

    fn from_client(
        http: OpenSearchClient,
        name: &str,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> Result<Self, RetrieveError> {
        let fits = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        if !fits || name.is_empty() || name.len() > 100 || name.starts_with('-') {
            return Err(unavailable_error("the name of the index must be small letters, digits and `-`"));
        }
        let weights = embedder
            .as_ref()
            .map_or_else(FusionWeights::default, |embedder| FusionWeights::for_embedder(&embedder.info()));
        let ranking = RankingParameters::default();
        Ok(Self { http, alias: name.to_owned(), target: name.to_owned(), embedder, weights, ranking })
    }

    /// Writes entries, each with its bulk action, and makes them searchable. Entries that the cluster was too busy for
    /// are sent again. Returns `false` if there is nothing behind the alias to write to.
    async fn bulk(&self, lines: &[Vec<u8>]) -> Result<bool, RetrieveError> {
        let mut rest = lines;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fit = rest.iter().take(MAX_BULK_ENTRIES).take_while(|line| {
                let before = bytes;
                bytes += line.len();
                before == 0 || bytes <= MAX_BULK_BYTES
            });
            let (now, later) = rest.split_at(fit.count().max(1));
            if !self.bulk_with_retries(now).await? {
                return Ok(false);
            }
            rest = later;
        }
        Ok(true)
    }

    async fn bulk_with_retries(&self, lines: &[Vec<u8>]) -> Result<bool, RetrieveError> {
        // Otherwise the cluster makes an index of the alias's name if somebody has deleted the one behind it.
        let requirement = if self.target == self.alias { "&require_alias=true" } else { "" };
        let path = format!("/{}/_bulk?refresh=true{requirement}", self.target);
        let mut left: Vec<&Vec<u8>> = lines.iter().collect();
        for attempt in 0..MAX_BULK_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(100 << attempt)).await;
            }
            let bytes: Vec<u8> = left.iter().flat_map(|line| line.iter().copied()).collect();
            let body = self.http.send_ndjson(&path, bytes).await?.into_success_body()?;
            let items = body["items"].as_array().cloned().unwrap_or_default();
            if items.len() != left.len() {
                return Err(unavailable_error("OpenSearch did not tell what became of every entry"));
            }
            let mut again = Vec::new();
            for (line, item) in left.into_iter().zip(&items) {
                match item["index"]["status"].as_u64().unwrap_or(0) {
                    // A conflict means that a later version has a head. This write is out of date and can be dropped.
                    200..=299 | 409 => {}
                    429 | 503 => again.push(line),
                    404 if item["index"]["error"]["type"] == "index_not_found_exception" => return Ok(false),
                    _ => {
                        return Err(unavailable_error(format!(
                            "OpenSearch refused an entry: {}",
                            item["index"]["error"]["reason"]
                        )));
                    }
                }
            }
            if again.is_empty() {
                return Ok(true);
            }
            left = again;
        }
        Err(unavailable_error("OpenSearch is too busy to take the passages"))
    }

    /// Returns every entry that matches a query, ordered by key.
    async fn search_all_entries(
        &self,
        index: &str,
        query: Value,
        fields: Value,
    ) -> Result<Vec<Value>, RetrieveError> {
        let mut found: Vec<Value> = Vec::new();
        let mut after = None;
        loop {
            let (page, next) = self.search_entries_after(index, &query, &fields, after.as_ref()).await?;
            found.extend(page);
            after = next;
            if after.is_none() {
                return Ok(found);
            }
        }
    }

    /// Returns a page of the entries that match a query, ordered by key, and what the next page comes after.
    async fn search_entries_after(
        &self,
        index: &str,
        query: &Value,
        fields: &Value,
        after: Option<&Value>,
    ) -> Result<(Vec<Value>, Option<Value>), RetrieveError> {
        let mut body = json!({
            "size": ENTRIES_PER_PAGE, "query": query, "_source": fields, "sort": [{ "key": "asc" }],
            "track_total_hits": false,
        });
        if let Some(after) = after {
            body["search_after"] = after.clone();
        }
        let path = format!("/{index}/_search");
        let mut answer = self.http.send_json_expecting_success(Method::POST, &path, Some(&body)).await?;
        let Value::Array(hits) = answer["hits"]["hits"].take() else { return Ok((Vec::new(), None)) };
        let next = hits.last().filter(|_| hits.len() == ENTRIES_PER_PAGE).map(|last| last["sort"].clone());
        Ok((hits, next))
    }

    /// Stores documents with different identifiers as a new generation. The generation is chosen when everything is
    /// ready to be written. It becomes current unless a later one exists.
    async fn put_generation(
        &self,
        tenant: &DocumentTenant,
        documents: &[&(Document, Vec<Passage>)],
        generation: impl FnOnce() -> (u64, String),
    ) -> Result<(), RetrieveError> {
        let all: Vec<&Passage> = documents.iter().flat_map(|(_, passages)| passages).collect();
        let vectors = match &self.embedder {
            Some(embedder) => Some(embedding::embed_passages(&**embedder, &all).await?),
            None => None,
        };
        let (time, generation) = generation();
        let (mut entries, mut heads, mut slot) = (Vec::new(), Vec::new(), 0);
        for (document, passages) in documents {
            let head = request_body::head_key(tenant, &document.id);
            for numbered in passages.iter().enumerate() {
                let vector = vectors.as_ref().map(|vectors| vectors[slot].as_slice());
                let entry = request_body::passage_entry(tenant, document, &generation, numbered, vector);
                let id = format!("{head}-{generation}-{}", numbered.0);
                entries.push(bulk_lines(&json!({ "index": { "_id": id } }), &entry));
                slot += 1;
            }
            let entry = request_body::head_entry(tenant, document, &generation, passages.len());
            // If two processes store the same document, the later generation wins, whichever finishes first.
            let action = json!({ "index": { "_id": head, "version": time, "version_type": "external_gte" } });
            heads.push(bulk_lines(&action, &entry));
        }
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let before = self.target_uuid().await?;
            if before.is_some()
                && self.bulk(&entries).await?
                && self.bulk(&heads).await?
                && self.target_uuid().await? == before
            {
                let ids: Vec<&DocumentId> = documents.iter().map(|(document, _)| &document.id).collect();
                return self.delete_older_passages(tenant, &ids, &generation).await;
            }
            // The index was deleted, and may be another one by now. What was written before is gone with it, so all of it is
            // written again.
            self.create_missing().await?;
        }
        Err(RetrieveError::Missing { index: self.target.clone() })
    }

    /// Deletes the passages of documents that are older than a generation.
    async fn delete_older_passages(
        &self,
        tenant: &DocumentTenant,
        documents: &[&DocumentId],
        before: &str,
    ) -> Result<(), RetrieveError> {
        let keys: Vec<String> = documents.iter().map(|id| request_body::hashed_key(&[id.as_str()])).collect();
        let query = json!({ "query": { "bool": {
            "filter": [
                { "term": { "what": "passage" } }, { "term": { "tenant": request_body::hashed_key(&[tenant.as_str()]) } },
                { "terms": { "document": keys } }, { "range": { "generation": { "lt": before } } },
            ],
        } } });
        // These entries are no longer visible, so the request does not wait for the deletion.
        let path = format!("/{}/_delete_by_query?conflicts=proceed", self.target);
        self.http.send_json_expecting_success(Method::POST, &path, Some(&query)).await.map(drop)
    }
}

#[async_trait]
impl DocumentIndex for OpenSearchIndex {
    async fn check_health(&self) -> Result<(), RetrieveError> {
        self.http.ping().await?;
        match self.index_behind_alias().await? {
            Some(_) => Ok(()),
            None => Err(RetrieveError::Missing { index: self.alias.clone() }),
        }
    }

    async fn check_embedder(&self) -> Result<(), RetrieveError> {
        match &self.embedder {
            Some(embedder) => embedding::embed_query(&**embedder, EMBEDDER_CHECK_TEXT).await.map(drop),
            None => Ok(()),
        }
    }

    async fn ensure_exists(&self) -> Result<Option<String>, RetrieveError> {
        let behind = self.create_missing().await?;
        self.index_uuid(&behind).await.map(Some)
    }

    async fn put(
        &self,
        tenant: &DocumentTenant,
        document: &Document,
        passages: &[Passage],
    ) -> Result<(), RetrieveError> {
        self.put_all(tenant, &[(document.clone(), passages.to_vec())]).await
    }

    async fn put_all(
        &self,
        tenant: &DocumentTenant,
        documents: &[(Document, Vec<Passage>)],
    ) -> Result<(), RetrieveError> {
        let last = |at: usize| documents[at + 1..].iter().all(|(later, _)| later.id != documents[at].0.id);
        let documents: Vec<&(Document, Vec<Passage>)> =
            (0..documents.len()).filter(|at| last(*at)).map(|at| &documents[at]).collect();
        if documents.is_empty() {
            return Ok(());
        }
        self.put_generation(tenant, &documents, next_generation).await
    }

    async fn remove(&self, tenant: &DocumentTenant, document: &DocumentId) -> Result<bool, RetrieveError> {
        let path = format!("/{}/_doc/{}?refresh=true", self.target, request_body::head_key(tenant, document));
        let answer = self.http.send_json(Method::DELETE, &path, None).await?;
        let was_there = answer.status != StatusCode::NOT_FOUND;
        if was_there {
            answer.into_success_body()?;
        }
        // An earlier attempt may have ended after the head was deleted and before the passages were.
        self.delete_older_passages(tenant, &[document], &next_generation().1).await?;
        Ok(was_there)
    }

    async fn tenants(&self) -> Result<Vec<DocumentTenant>, RetrieveError> {
        let heads = json!({ "term": { "what": "head" } });
        let mut tenants = BTreeSet::new();
        for entry in self.search_all_entries(&self.target, heads, json!(["whole.tenant"])).await? {
            tenants.insert(parse_entry::<DocumentTenant>(&entry["_source"]["whole"]["tenant"])?);
        }
        Ok(tenants.into_iter().collect())
    }

    async fn list(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
    ) -> Result<Vec<DocumentSummary>, RetrieveError> {
        let query = json!({ "bool": { "filter": request_body::filter_clauses("head", tenant, filter) } });
        let mut listed = Vec::new();
        for entry in self.search_all_entries(&self.target, query, summary_fields()).await? {
            listed.push(summary_of_head(entry)?.1);
        }
        listed.sort_by(|left, right| left.id.cmp(&right.id));
        Ok(listed)
    }

    async fn list_page(&self, after: Option<&str>) -> Result<DocumentPage, RetrieveError> {
        let heads = json!({ "term": { "what": "head" } });
        let after = after.map(|after| json!([after]));
        let (entries, next) =
            self.search_entries_after(&self.target, &heads, &summary_fields(), after.as_ref()).await?;
        let documents = entries.into_iter().map(summary_of_head).collect::<Result<_, _>>()?;
        let next = next.and_then(|next| next[0].as_str().map(str::to_owned));
        Ok(DocumentPage { documents, next })
    }

    async fn titles(
        &self,
        tenant: &DocumentTenant,
        filter: &DocumentFilter,
        limit: usize,
    ) -> Result<Vec<String>, RetrieveError> {
        let body = json!({
            "size": limit.min(ENTRIES_PER_PAGE), "_source": ["whole.document.title"], "sort": [{ "key": "asc" }],
            "query": { "bool": { "filter": request_body::filter_clauses("head", tenant, filter) } },
            "track_total_hits": false,
        });
        let path = format!("/{}/_search", self.target);
        let answer = self.http.send_json_expecting_success(Method::POST, &path, Some(&body)).await?;
        let hits = answer["hits"]["hits"].as_array().map(Vec::as_slice).unwrap_or_default();
        hits.iter().map(|hit| parse_entry(&hit["_source"]["whole"]["document"]["title"])).collect()
    }

    async fn document(
        &self,
        tenant: &DocumentTenant,
        id: &DocumentId,
    ) -> Result<Option<Document>, RetrieveError> {
        let path = format!("/{}/_doc/{}", self.target, request_body::head_key(tenant, id));
        let answer = self.http.send_json(Method::GET, &path, None).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let head: DocumentHeadEntry = parse_entry(&answer.into_success_body()?["_source"]["whole"])?;
        Ok(Some(head.document))
    }
}

/// Returns a time in microseconds and a unique name that starts with it. Names of later generations sort later.
fn next_generation() -> (u64, String) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let now = u64::try_from(now).unwrap_or(u64::MAX);
    let last = LAST.fetch_max(now, Ordering::Relaxed);
    let time = if last >= now { LAST.fetch_add(1, Ordering::Relaxed) + 1 } else { now };
    (time, format!("{time:016x}{:08x}", std::process::id()))
}

/// Returns a bulk action with its entry, as the cluster reads them.
fn bulk_lines(action: &Value, entry: &Value) -> Vec<u8> {
    format!("{action}\n{entry}\n").into_bytes()
}

/// The fields of a head entry without the text.
fn summary_fields() -> Value {
    json!({ "includes": ["whole"], "excludes": ["whole.document.text", "whole.document.pages"] })
}

/// Returns the document of a head entry that has the fields of [`summary_fields`].
fn summary_of_head(mut entry: Value) -> Result<(DocumentTenant, DocumentSummary), RetrieveError> {
    entry["_source"]["whole"]["document"]["text"] = json!("");
    let head: DocumentHeadEntry = parse_entry(&entry["_source"]["whole"])?;
    Ok((head.tenant, DocumentSummary::from_document(&head.document, head.passages)))
}

fn parse_entry<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, RetrieveError> {
    T::deserialize(value)
        .map_err(|_| RetrieveError::Stale { reason: "an entry in OpenSearch has another format".to_owned() })
}
