//! Documents as tools and resources of the Model Context Protocol.

use std::num::NonZeroUsize;

use doran_agents::retrieval::{DocumentFilter, DocumentId};
use rmcp::ErrorData;
use rmcp::model::{ContentBlock, ListResourcesResult, Resource, ResourceContents, ResourceTemplate};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Called, McpEndpoint, protocol_error, result};
use crate::bulk_read::BulkRead;
use crate::error::{ApiError, ApiErrorCode};
use crate::routes::document_library::{find_document, retrieval_tenant};
use crate::routes::search::search_passages;
use crate::url_encoding::percent_encode;

/// The beginning of the address of a document.
const DOCUMENT_URI: &str = "doran://documents/";
/// Documents on a page of a list.
const PAGE_DOCUMENTS: usize = 100;
/// Passages of a search that names no limit.
const DEFAULT_PASSAGES: usize = 8;
/// The most characters of a document that a call reads at once.
const MAX_READ_CHARS: usize = 50_000;

/// The arguments of `search_documents`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchArguments {
    /// What to look for: a question or words, in the language of the documents.
    query: String,
    /// The most passages to return, from 1 to 50. 8 if left out.
    limit: Option<NonZeroUsize>,
    /// Search this collection only.
    collection: Option<String>,
}

/// The arguments of `read_document`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadArguments {
    /// The id of the document, as a search or a list of resources gives it.
    document: String,
    /// The character to begin at; 0 if left out.
    start: Option<usize>,
    /// The most characters to read, at most 50000.
    length: Option<usize>,
}

impl McpEndpoint {
    pub(super) async fn search_documents(&self, arguments: SearchArguments) -> Called {
        let SearchArguments { query, limit, collection } = arguments;
        let filter = DocumentFilter { collection, ..DocumentFilter::default() };
        let limit = limit.map_or(DEFAULT_PASSAGES, NonZeroUsize::get);
        let hits = search_passages(&self.app, &self.caller, &query, limit, filter).await?;
        if hits.is_empty() {
            return Ok(result(vec![ContentBlock::text("No passage was found.")], json!({ "passages": [] })));
        }
        let blocks = hits.iter().map(|hit| {
            let page = hit.page.map(|page| format!(", page {page}")).unwrap_or_default();
            ContentBlock::text(format!(
                "{} (document `{}`{page})\n{}",
                hit.title,
                hit.document.as_str(),
                hit.text
            ))
        });
        let passages: Vec<_> = hits
            .iter()
            .map(|hit| {
                json!({ "document": hit.document, "title": hit.title, "page": hit.page, "article": hit.article,
                    "score": hit.score, "text": hit.text })
            })
            .collect();
        Ok(result(blocks.collect(), json!({ "passages": passages })))
    }

    pub(super) async fn read_document(&self, arguments: ReadArguments) -> Called {
        let ReadArguments { document, start, length } = arguments;
        let _turn = BulkRead::acquire(&self.app, &self.caller).await?;
        let document = find_document(&self.app, &self.caller, &DocumentId::new(document)).await?;
        let (start, length) = (start.unwrap_or(0), length.unwrap_or(MAX_READ_CHARS).min(MAX_READ_CHARS));
        let total = document.text.chars().count();
        let part: String = document.text.chars().skip(start).take(length).collect();
        let end = start.saturating_add(length).min(total);
        let about = format!("{}: characters {} to {end} of {total}", document.title, start.min(total));
        let structured = json!({ "document": document.id, "title": document.title, "start": start.min(total),
            "end": end, "total": total, "text": part });
        Ok(result(vec![ContentBlock::text(about), ContentBlock::text(part)], structured))
    }

    /// The documents that can be searched, a page at a time.
    pub(super) async fn document_resources(
        &self,
        cursor: Option<&str>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let start = match cursor.map(str::parse::<usize>) {
            None => 0,
            Some(Ok(start)) => start,
            Some(Err(_)) => return Err(ErrorData::invalid_params("there is no such page", None)),
        };
        let Some(index) = &self.app.index else { return Ok(ListResourcesResult::default()) };
        let listed =
            BulkRead::acquire(&self.app, &self.caller).await.map_err(|error| protocol_error(&error))?;
        let documents = index.list(&retrieval_tenant(&self.caller), &DocumentFilter::default()).await;
        let documents = documents.map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "the search index returned an error");
            protocol_error(&ApiErrorCode::IndexUnavailable.into())
        })?;
        drop(listed);
        let end = start.saturating_add(PAGE_DOCUMENTS);
        let more = (end < documents.len()).then(|| end.to_string());
        let resources = documents.iter().skip(start).take(PAGE_DOCUMENTS).map(|document| {
            Resource::new(document_uri(document.id.as_str()), document.title.clone())
                .with_mime_type("text/plain")
        });
        let mut page = ListResourcesResult::with_all_items(resources.collect());
        page.next_cursor = more;
        Ok(page)
    }

    pub(super) async fn read_document_resource(&self, uri: &str) -> Result<ResourceContents, ErrorData> {
        let read = async {
            let id = uri.strip_prefix(DOCUMENT_URI).ok_or(ApiErrorCode::NotFound)?;
            let id = percent_encoding::percent_decode_str(id).decode_utf8();
            let id = DocumentId::new(id.map_err(|_| ApiErrorCode::NotFound)?.into_owned());
            let _turn = BulkRead::acquire(&self.app, &self.caller).await?;
            Ok(find_document(&self.app, &self.caller, &id).await?.text)
        };
        let text = read.await.map_err(|error: ApiError| protocol_error(&error))?;
        Ok(ResourceContents::text(text, uri))
    }
}

pub(super) fn document_uri(id: &str) -> String {
    format!("{DOCUMENT_URI}{}", percent_encode(id))
}

pub(super) fn resource_template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{DOCUMENT_URI}{{document}}"), "document")
        .with_description("The text of a document, by its id.")
        .with_mime_type("text/plain")
}
