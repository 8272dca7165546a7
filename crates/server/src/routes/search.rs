//! Search for passages of documents.

use std::num::NonZeroUsize;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use doran_agents::retrieval::{DocumentFilter, DocumentId, SearchQuery};
use schemars::JsonSchema;
use serde::Deserialize;

use super::document_library::{index_error, parse_document_kind, retrieval_tenant};
use super::{ApiRoute, check_query, json_response, query_value};
use crate::ServerApp;
use crate::agent_request;
use crate::api;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::openapi::{Operation, OperationTag};

/// The most hits a search gives.
const MAX_SEARCH_HITS: usize = 50;
/// The most characters of a question.
const MAX_QUERY_CHARS: usize = 2000;

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![ApiRoute::get(
        "/api/search",
        search,
        Operation::new(OperationTag::Documents, "search", "Searches the documents for passages.")
            .query::<DocumentSearchQuery>()
            .returns::<api::SearchHitList>(200, "The passages.")
            .errors(&[ApiErrorCode::NotFound, ApiErrorCode::IndexUnavailable]),
    )]
}

/// What may follow the path of a search. Documents and kinds may be given more than once.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<(String, String)>")]
#[schemars(!try_from)]
struct DocumentSearchQuery {
    /// The query.
    q: String,
    /// The maximum number of passages, at least 1. The server returns at most 50.
    limit: Option<NonZeroUsize>,
    /// Only documents of this collection.
    #[schemars(with = "Option<api::CollectionName>")]
    collection: Option<String>,
    /// Only this document. May be given more than once.
    #[schemars(rename = "document", default)]
    documents: Vec<DocumentId>,
    /// Only documents of this kind: `general`, `contract` or `standard:KIND`. May be given more than once.
    #[schemars(rename = "kind", default)]
    kinds: Vec<String>,
}

impl TryFrom<Vec<(String, String)>> for DocumentSearchQuery {
    type Error = String;

    fn try_from(pairs: Vec<(String, String)>) -> Result<Self, String> {
        let mut find = Self::default();
        let mut has_question = false;
        for (name, value) in pairs {
            let is_twice = match name.as_str() {
                "q" => has_question,
                "limit" => find.limit.is_some(),
                "collection" => find.collection.is_some(),
                _ => false,
            };
            if is_twice {
                return Err(format!("duplicate field `{name}`"));
            }
            match name.as_str() {
                "q" => (find.q, has_question) = (value, true),
                "limit" => find.limit = Some(value.parse().map_err(|error| format!("limit: {error}"))?),
                "collection" => find.collection = Some(value),
                "document" => find.documents.push(DocumentId::new(value)),
                "kind" => find.kinds.push(value),
                other => {
                    return Err(format!(
                        "unknown field `{other}`, expected one of `q`, `limit`, `collection`, `document`, `kind`"
                    ));
                }
            }
        }
        if has_question { Ok(find) } else { Err("missing field `q`".to_owned()) }
    }
}

/// `GET /api/search`: passages, best first, with the words of the question that each holds and where in its text.
async fn search(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    find: Result<Query<DocumentSearchQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let DocumentSearchQuery { q, limit, collection, documents, kinds } = query_value(find)?;
    let kinds = kinds.iter().map(|kind| parse_document_kind(kind)).collect::<Result<_, _>>()?;
    let filter = DocumentFilter { collection, documents, kinds };
    let hits = search_passages(&app, &caller, &q, limit.map_or(10, NonZeroUsize::get), filter).await?;
    Ok(json_response(api::SearchHitList { hits }))
}

/// The passages of the caller's documents that answer a query best.
pub(crate) async fn search_passages(
    app: &ServerApp,
    caller: &ApiCaller,
    query: &str,
    limit: usize,
    filter: DocumentFilter,
) -> Result<Vec<api::SearchHit>, ApiError> {
    agent_request::check_collection(filter.collection.as_deref())?;
    check_query(query, MAX_QUERY_CHARS)?;
    let index = app.index.as_ref().ok_or(ApiErrorCode::NotFound)?;
    let mut question = SearchQuery::new(retrieval_tenant(caller), query, limit.min(MAX_SEARCH_HITS));
    question.filter = filter;
    let hits = index.retrieve(&question).await.map_err(index_error)?;
    Ok(hits.into_iter().map(|hit| api::SearchHit::from_hit(query, hit)).collect())
}
