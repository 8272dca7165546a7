//! Documents: handed in, followed while they are read, looked at, removed; and what is found in them.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use doran_agents::retrieval::{
    DocumentFilter, DocumentId, DocumentKind, DocumentTenant, Library, LibraryError, NewDocument,
    RetrieveError, SearchQuery,
};
use doran_agents::samples;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::{ApiRoute, json_response, path_value, query_value};
use crate::ServerApp;
use crate::agent_request;
use crate::api;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::idempotency::IdempotentRequest;
use crate::openapi::{IdempotencyEffect, Operation, OperationTag};
use crate::request_body;

/// The most hits a search gives.
const MAX_SEARCH_HITS: usize = 50;
/// How long a file that has arrived may take to be on disk.
const ADD_DOCUMENT_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of a question.
const MAX_QUERY_BYTES: usize = 8 * 1024;

pub(super) fn routes() -> Vec<ApiRoute> {
    let operation = |id, summary| Operation::new(OperationTag::Documents, id, summary);
    vec![
        ApiRoute::get(
            "/api/documents",
            list_documents,
            operation("list_documents", "Lists the documents and their ingestion states.")
                .returns::<api::DocumentList>(200, "The documents.")
                .errors(&[ApiErrorCode::NotFound]),
        ),
        ApiRoute::post(
            "/api/documents",
            add_document,
            operation("add_document", "Uploads a file. The file is ingested after the response.")
                .description(
                    "The body is the file itself. A file with a known name replaces the document once it has been ingested; `replaced` says so.",
                )
                .query::<AddDocumentQuery>()
                .idempotent(IdempotencyEffect::SameResponse)
                .file_body()
                .returns::<api::AddedDocument>(202, "The document.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::get(
            "/api/documents/{document}",
            get_document,
            operation("get_document", "Returns a document.")
                .returns::<api::DocumentInfo>(200, "The document.")
                .errors(&[ApiErrorCode::NotFound]),
        ),
        ApiRoute::delete(
            "/api/documents/{document}",
            delete_document,
            operation("delete_document", "Deletes a document, its text and its passages.")
                .returns_nothing("The document was deleted.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::get(
            "/api/documents/{document}/text",
            document_text,
            operation("document_text", "Returns the text of a document.")
                .returns::<api::DocumentText>(200, "The text.")
                .errors(&[ApiErrorCode::NotFound]),
        ),
        ApiRoute::post(
            "/api/documents/{document}/{change}",
            change_document,
            operation("change_document", "Pauses, resumes, cancels or retries the ingestion of a document.")
                .idempotent(IdempotencyEffect::SameResponse)
                .ignored_body()
                .returns::<api::DocumentInfo>(200, "The document.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::get(
            "/api/search",
            search,
            operation("search", "Searches the documents for passages.")
                .query::<DocumentSearchQuery>()
                .returns::<api::SearchHitList>(200, "The passages.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::IndexUnavailable]),
        ),
    ]
}

/// What comes with a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AddDocumentQuery {
    /// The name of the file, without control characters.
    #[schemars(length(min = 1, max = 255))]
    name: String,
    /// The collection of the document.
    #[serde(default)]
    #[schemars(with = "api::CollectionName")]
    collection: String,
    /// The kind of document: `general`, `contract` or `standard:KIND`.
    kind: Option<String>,
    /// The path of the file on the machine that sends it. `doran ingest` sends it, so that a file keeps its name when it is
    /// uploaded again. It is never shown.
    origin: Option<String>,
}

/// `POST /api/documents?name=…`: takes a file, as the body of the request. It is on disk when this answers, and read
/// after that. Another file under a known name takes the place of the old one, and the answer says so.
async fn add_document(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    about: Result<Query<AddDocumentQuery>, QueryRejection>,
    once: IdempotentRequest,
    request: Request,
) -> Result<Response, ApiError> {
    let library = require_library(&app)?.clone();
    let AddDocumentQuery { name, collection, kind, origin } = query_value(about)?;
    let kind = parse_document_kind(kind.as_deref())?;
    agent_request::check_collection(Some(&collection))?;
    // A name is shown in lists and on terminals, where such a character would do something.
    if name.chars().any(char::is_control) {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "`name` holds a control character",
            "`name`에 제어 문자가 있습니다",
        ));
    }
    check_upload_headers(request.headers(), app.limits.max_document_bytes)?;
    let room = app.upload_slots.clone().try_acquire_owned().map_err(|_| ApiErrorCode::Overloaded)?;
    let reading = to_bytes(request.into_body(), app.limits.max_document_bytes);
    let bytes = timeout(app.limits.upload_timeout, reading)
        .await
        .map_err(|_| ApiErrorCode::TooSlow)?
        .map_err(|_| ApiErrorCode::TooLarge)?;
    once.with_body(&bytes)
        .respond_once(async move {
            let _room = room;
            let new = NewDocument {
                tenant: retrieval_tenant(&caller),
                name,
                collection,
                kind,
                bytes: bytes.into(),
            };
            let replaced = library.would_replace(&new);
            // One that is being removed has to be gone first; nobody keeps the room of others waiting for that.
            let adding = timeout(ADD_DOCUMENT_TIMEOUT, library.add_from(new, origin.as_deref())).await;
            let status = adding.map_err(|_| ApiErrorCode::Overloaded)?.map_err(library_error)?;
            let document = api::DocumentInfo::from_status(status);
            Ok((StatusCode::ACCEPTED, json!(api::AddedDocument { document, replaced })))
        })
        .await
}

/// `GET /api/documents`
async fn list_documents(State(app): State<ServerApp>, caller: ApiCaller) -> Result<Response, ApiError> {
    let documents = require_library(&app)?.list(&retrieval_tenant(&caller));
    // Who has handed in nothing is told what is searched instead.
    let samples = match &app.index {
        Some(index) if documents.is_empty() => {
            let there = index.list(&retrieval_tenant(&caller), &DocumentFilter::default()).await;
            Some(there.map_err(index_error)?.len())
        }
        Some(_) | None => None,
    };
    let documents = documents.into_iter().map(api::DocumentInfo::from_status).collect();
    Ok(json_response(api::DocumentList { documents, samples }))
}

/// `GET /api/documents/{document}`
async fn get_document(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let id = DocumentId::new(path_value(id)?);
    let status = require_library(&app)?.status(&retrieval_tenant(&caller), &id);
    Ok(json_response(api::DocumentInfo::from_status(status.ok_or(ApiErrorCode::NotFound)?)))
}

/// `GET /api/documents/{document}/text`: all of it, to show a quote in its place.
async fn document_text(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let id = DocumentId::new(path_value(id)?);
    let tenant = retrieval_tenant(&caller);
    let kept = match &app.library {
        Some(library) => library.document(&tenant, &id).await.map_err(library_error)?,
        None => None,
    };
    // What was not handed in as a file, such as the samples, is in the index alone.
    let document = match (kept, &app.index) {
        (Some(document), _) => Some(document),
        (None, Some(index)) => index.document(&tenant, &id).await.map_err(index_error)?,
        (None, None) => None,
    };
    // The samples leave the index when there are documents of one's own; what cited them can still be opened.
    let document = document.or_else(|| samples::document(id.as_str())).ok_or(ApiErrorCode::NotFound)?;
    // Words of strangers: whoever opens the address itself gets a file, and nothing is shown.
    let saved = [(header::CONTENT_DISPOSITION, "attachment; filename=\"document.json\"")];
    Ok((saved, json_response(api::DocumentText::from_document(document))).into_response())
}

/// `DELETE /api/documents/{document}`: removes the file, its text and what is found of it.
async fn delete_document(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let id = DocumentId::new(path_value(id)?);
    require_library(&app)?.remove(&retrieval_tenant(&caller), &id).await.map_err(library_error)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /api/documents/{document}/{change}`: pause, resume, cancel or retry.
async fn change_document(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    names: Result<Path<(String, String)>, PathRejection>,
    once: IdempotentRequest,
    request: Request,
) -> Result<Response, ApiError> {
    let (id, change) = path_value(names)?;
    let bytes = request_body::read_bytes(request, &app.limits).await?;
    let (library, tenant, id) =
        (require_library(&app)?.clone(), retrieval_tenant(&caller), DocumentId::new(id));
    once.with_body(&bytes)
        .respond_once(async move {
            let status = match change.as_str() {
                "pause" => library.pause(&tenant, &id).await,
                "resume" => library.resume(&tenant, &id).await,
                "cancel" => library.cancel(&tenant, &id).await,
                "retry" => library.retry(&tenant, &id).await,
                _ => return Err(ApiErrorCode::NotFound.into()),
            };
            Ok((StatusCode::OK, json!(api::DocumentInfo::from_status(status.map_err(library_error)?))))
        })
        .await
}

/// What may follow the path of a search. Documents and kinds may be given more than once.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<(String, String)>")]
#[schemars(!try_from)]
struct DocumentSearchQuery {
    /// The query.
    q: String,
    /// The maximum number of passages. The server returns at most 50.
    limit: Option<usize>,
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
    let kinds = kinds.iter().map(|kind| parse_document_kind(Some(kind))).collect::<Result<_, _>>()?;
    agent_request::check_collection(collection.as_deref())?;
    if q.len() > MAX_QUERY_BYTES {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            format!("`q` has more than {MAX_QUERY_BYTES} bytes"),
            format!("`q`가 {MAX_QUERY_BYTES}바이트를 넘습니다"),
        ));
    }
    let index = app.index.as_ref().ok_or(ApiErrorCode::NotFound)?;
    let mut question =
        SearchQuery::new(retrieval_tenant(&caller), q.clone(), limit.unwrap_or(10).clamp(1, MAX_SEARCH_HITS));
    question.filter = DocumentFilter { collection, documents, kinds };
    let hits = index.retrieve(&question).await.map_err(index_error)?;
    let hits = hits.into_iter().map(|hit| api::SearchHit::from_hit(&q, hit)).collect();
    Ok(json_response(api::SearchHitList { hits }))
}

/// A form around the file, or one that has to be unpacked first, would be kept as if it were the file.
fn check_upload_headers(headers: &HeaderMap, most: usize) -> Result<(), ApiError> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_form = text(header::CONTENT_TYPE).trim_start().to_ascii_lowercase().starts_with("multipart/");
    if is_form || headers.contains_key(header::CONTENT_ENCODING) {
        return Err(ApiError::with_message(
            ApiErrorCode::NotAFile,
            "`curl --data-binary @FILE` sends a file as it is",
            "`curl --data-binary @파일`은 파일을 그대로 보냅니다",
        ));
    }
    if text(header::CONTENT_LENGTH).parse::<usize>().is_ok_and(|length| length > most) {
        return Err(ApiErrorCode::TooLarge.into());
    }
    Ok(())
}

fn require_library(app: &ServerApp) -> Result<&Library, ApiError> {
    app.library.as_ref().ok_or_else(|| ApiErrorCode::NotFound.into())
}

fn retrieval_tenant(caller: &ApiCaller) -> DocumentTenant {
    DocumentTenant::new(caller.tenant.as_str())
}

/// `general`, `contract`, or `standard:KIND`.
fn parse_document_kind(kind: Option<&str>) -> Result<DocumentKind, ApiError> {
    match kind {
        None | Some("general" | "") => Ok(DocumentKind::General),
        Some("contract") => Ok(DocumentKind::Contract),
        Some(other) => match other.strip_prefix("standard:") {
            Some(kind) if !kind.trim().is_empty() && kind.len() <= 100 => {
                Ok(DocumentKind::Standard(kind.trim().to_owned()))
            }
            _ => Err(ApiError::with_message(
                ApiErrorCode::BadInput,
                "`kind` is `general`, `contract` or `standard:KIND`",
                "`kind`는 `general`, `contract`, `standard:종류` 가운데 하나입니다",
            )),
        },
    }
}

#[allow(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
fn library_error(error: LibraryError) -> ApiError {
    let code = match &error {
        LibraryError::Empty | LibraryError::BadName | LibraryError::BadCollection => ApiErrorCode::BadInput,
        LibraryError::TooLarge { .. } => ApiErrorCode::TooLarge,
        LibraryError::QueueFull(_) | LibraryError::BeingRemoved => ApiErrorCode::Overloaded,
        LibraryError::StorageFull(_) => ApiErrorCode::DiskFull,
        LibraryError::Unknown(_) => ApiErrorCode::NotFound,
        LibraryError::Disk { .. } => {
            tracing::error!(error = &error as &dyn std::error::Error, "the library failed a request");
            return ApiErrorCode::Unavailable.into();
        }
        LibraryError::Index(_) => return ApiErrorCode::IndexUnavailable.into(),
    };
    ApiError::with_message(code, error.to_string(), error.message_ko())
}

#[allow(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
fn index_error(error: RetrieveError) -> ApiError {
    tracing::error!(error = &error as &dyn std::error::Error, "the index failed a request");
    ApiErrorCode::IndexUnavailable.into()
}
