//! Documents: upload, status, text and deletion.

use std::time::Duration;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use doran_agents::retrieval::{DocumentFilter, DocumentId, NewDocument};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};
use tokio::time::timeout;

use super::document_library::{
    current_library, document_tenant, find_document, find_stored_document, index_error, library_error,
    parse_document_kind, require_library,
};
use super::{ApiRoute, json_response, path_value, query_value};
use crate::ServerApp;
use crate::agent_request;
use crate::api;
use crate::authentication::ApiCaller;
use crate::bulk_read::BulkRead;
use crate::error::{ApiError, ApiErrorCode};
use crate::idempotency::IdempotentRequest;
use crate::openapi::{IdempotencyEffect, Operation, OperationTag};
use crate::request_body;
use crate::url_encoding::percent_encode;

/// How long a file that has arrived may take to be on disk.
const ADD_DOCUMENT_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn routes() -> Vec<ApiRoute> {
    let operation = |id, summary| Operation::new(OperationTag::Documents, id, summary);
    vec![
        ApiRoute::get(
            "/api/documents",
            list_documents,
            operation("list_documents", "Lists the documents and their ingestion states.")
                .query::<DocumentThreadQuery>()
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
                .query::<DocumentThreadQuery>()
                .returns::<api::DocumentInfo>(200, "The document.")
                .errors(&[ApiErrorCode::NotFound]),
        ),
        ApiRoute::delete(
            "/api/documents/{document}",
            delete_document,
            operation("delete_document", "Deletes a document, its text and its passages.")
                .query::<DocumentThreadQuery>()
                .returns_nothing("The document was deleted.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::DiskFull]),
        ),
        ApiRoute::get(
            "/api/documents/{document}/text",
            document_text,
            operation("document_text", "Returns the text of a document and its outline.")
                .query::<DocumentThreadQuery>()
                .returns::<api::DocumentText>(200, "The text.")
                .errors(&[ApiErrorCode::NotFound]),
        ),
        ApiRoute::get(
            "/api/documents/{document}/file",
            original_file,
            operation("original_file", "Returns the file as it was uploaded.")
                .query::<DocumentThreadQuery>()
                .returns_text("application/octet-stream", "The file.")
                .errors(&[ApiErrorCode::NotFound]),
        ),
        ApiRoute::patch(
            "/api/documents/{document}",
            update_document,
            operation("update_document", "Changes the kind or the collection of a document.")
                .description(
                    "The file is ingested again. In another collection the document has another id, which the response contains.",
                )
                .body::<UpdateDocumentBody>()
                .returns::<api::DocumentInfo>(200, "The document.")
                .errors(&[ApiErrorCode::NotFound, ApiErrorCode::Conflict, ApiErrorCode::DiskFull]),
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
    /// The kind of document: `general`, `contract`, `standard:KIND` or `auto`. `auto` is the default: a contract is
    /// recognised by its articles and parties, a new version of a file keeps its kind, and everything else is `general`.
    kind: Option<String>,
    /// The thread that the document is attached to. Only this thread finds it, and it is deleted with the thread. A
    /// thread that does not exist is created.
    #[schemars(length(min = 1, max = 128))]
    thread: Option<String>,
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
    let AddDocumentQuery { name, collection, kind, thread, origin } = query_value(about)?;
    let tenant = document_tenant(&caller, thread.as_deref())?;
    let thread = thread.map(|name| agent_request::thread_key(&caller, &name)).transpose()?;
    let kind = match kind.as_deref() {
        None | Some("" | "auto") => None,
        Some(kind) => Some(parse_document_kind(kind)?),
    };
    agent_request::check_collection(Some(&collection))?;
    // A name is shown in lists and on terminals, where such a character would do something.
    if name.chars().any(char::is_control) {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            "`name` holds a control character",
            "`name`에 제어 문자가 있습니다",
        ));
    }
    let max_bytes = app.limits.max_document_bytes.min(library.max_file_bytes());
    check_upload_headers(request.headers(), max_bytes)?;
    let room = app.shares.uploads.try_acquire(caller.tenant.as_str(), 1);
    let room = room.map_err(|_| {
        app.metrics.count_request_shed();
        ApiErrorCode::Overloaded
    })?;
    let bytes = request_body::read_counted(request, max_bytes, app.limits.upload_timeout).await?;
    once.with_body(&bytes)
        .respond_once(async move {
            let _room = room;
            let new = NewDocument { tenant, name, collection, kind, bytes: bytes.into() };
            // A file that is refused leaves no empty thread.
            library.check(&new).map_err(library_error)?;
            // A document that no thread owns would never be deleted.
            if let Some(thread) = &thread
                && app.runtime.find_thread_row(thread).await?.is_none()
            {
                app.runtime.put_thread(thread, &Map::new()).await?;
            }
            library.refresh().await.map_err(library_error)?;
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
async fn list_documents(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    of: Result<Query<DocumentThreadQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let DocumentThreadQuery { thread } = query_value(of)?;
    let tenant = document_tenant(&caller, thread.as_deref())?;
    let documents = current_library(&app).await?.list(&tenant);
    // A tenant without documents sees what is searched instead.
    let samples = match &app.index {
        Some(index) if documents.is_empty() && thread.is_none() => {
            let there = index.list(&tenant, &DocumentFilter::default()).await;
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
    of: Result<Query<DocumentThreadQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let id = DocumentId::new(path_value(id)?);
    let tenant = document_tenant(&caller, query_value(of)?.thread.as_deref())?;
    let status = current_library(&app).await?.status(&tenant, &id);
    Ok(json_response(api::DocumentInfo::from_status(status.ok_or(ApiErrorCode::NotFound)?)))
}

/// `GET /api/documents/{document}/text`: all of it, to show a quote in its place.
async fn document_text(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    id: Result<Path<String>, PathRejection>,
    of: Result<Query<DocumentThreadQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let id = DocumentId::new(path_value(id)?);
    let thread = query_value(of)?.thread;
    // A chat cites its attachments and the library alike.
    let attached = match thread.as_deref() {
        Some(thread) => find_stored_document(&app, &document_tenant(&caller, Some(thread))?, &id).await?,
        None => None,
    };
    let document = match attached {
        Some(document) => document,
        None => find_document(&app, &caller, &id).await?,
    };
    // Text of strangers: a browser that opens the address gets a file to save, and shows nothing.
    let saved = [(header::CONTENT_DISPOSITION, "attachment; filename=\"document.json\"")];
    Ok((saved, json_response(api::DocumentText::from_document(document))).into_response())
}

/// `DELETE /api/documents/{document}`: removes the file, its text and what is found of it.
async fn delete_document(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    id: Result<Path<String>, PathRejection>,
    of: Result<Query<DocumentThreadQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let id = DocumentId::new(path_value(id)?);
    let tenant = document_tenant(&caller, query_value(of)?.thread.as_deref())?;
    require_library(&app)?.remove(&tenant, &id).await.map_err(library_error)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /api/documents/{document}/file`
async fn original_file(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    id: Result<Path<String>, PathRejection>,
    of: Result<Query<DocumentThreadQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let id = DocumentId::new(path_value(id)?);
    let tenant = document_tenant(&caller, query_value(of)?.thread.as_deref())?;
    let library = current_library(&app).await?;
    let status = library.status(&tenant, &id).ok_or(ApiErrorCode::NotFound)?;
    let bytes = library.original(&tenant, &id).await.map_err(library_error)?.ok_or(ApiErrorCode::NotFound)?;
    // Words of strangers: the browser saves the file and shows nothing of it.
    let saved = format!("attachment; filename*=UTF-8''{}", percent_encode(&status.name));
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, saved),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, bytes).into_response())
}

/// Changes to a document. What is left out stays as it is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateDocumentBody {
    /// The kind of document: `general`, `contract` or `standard:KIND`.
    kind: Option<String>,
    /// The collection of the document.
    #[schemars(with = "Option<api::CollectionName>")]
    collection: Option<String>,
}

/// `PATCH /api/documents/{document}`: the file is taken in again. In another collection it is another document, and the old
/// one goes once the new one is on disk.
async fn update_document(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    _permit: BulkRead,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let id = DocumentId::new(path_value(id)?);
    let (UpdateDocumentBody { kind, collection }, _) = request_body::read_json(request, &app.limits).await?;
    agent_request::check_collection(collection.as_deref())?;
    let (library, tenant) = (current_library(&app).await?, document_tenant(&caller, None)?);
    let status = library.status(&tenant, &id).ok_or(ApiErrorCode::NotFound)?;
    let kind = match kind {
        Some(kind) => parse_document_kind(&kind)?,
        None => status.kind.clone(),
    };
    let collection = collection.unwrap_or_else(|| status.collection.clone());
    if collection == status.collection {
        let changed = library.change_kind(&tenant, &id, kind).await.map_err(library_error)?;
        return Ok(json_response(api::DocumentInfo::from_status(changed)));
    }
    let kind = Some(kind);
    let bytes = library.original(&tenant, &id).await.map_err(library_error)?.ok_or(ApiErrorCode::NotFound)?;
    let new = NewDocument { tenant: tenant.clone(), name: status.name.clone(), collection, kind, bytes };
    if library.would_replace(&new) {
        let NewDocument { name, collection, .. } = &new;
        return Err(ApiError::with_message(
            ApiErrorCode::Conflict,
            format!(
                "the collection `{collection}` has another document called `{name}`; remove one of them first"
            ),
            format!(
                "컬렉션 `{collection}`에 이름이 `{name}`인 다른 문서가 있습니다. 둘 가운데 하나를 먼저 삭제하세요"
            ),
        ));
    }
    let added = timeout(ADD_DOCUMENT_TIMEOUT, library.add(new)).await;
    let added = added.map_err(|_| ApiErrorCode::Overloaded)?.map_err(library_error)?;
    if added.id != id {
        library.remove(&tenant, &id).await.map_err(library_error)?;
    }
    Ok(json_response(api::DocumentInfo::from_status(added)))
}

/// Deletes the documents that are attached to a thread.
pub(super) async fn delete_attachments(
    app: &ServerApp,
    caller: &ApiCaller,
    thread: &str,
) -> Result<(), ApiError> {
    let Some(library) = &app.library else { return Ok(()) };
    let tenant = document_tenant(caller, Some(thread))?;
    library.refresh().await.map_err(library_error)?;
    for attached in library.list(&tenant) {
        library.remove(&tenant, &attached.id).await.map_err(library_error)?;
    }
    Ok(())
}

/// Whose documents are meant.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DocumentThreadQuery {
    /// The thread that the document is attached to.
    #[schemars(length(min = 1, max = 128))]
    thread: Option<String>,
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
        (require_library(&app)?.clone(), document_tenant(&caller, None)?, DocumentId::new(id));
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

/// A form around the file, or one that has to be unpacked first, would be kept as if it were the file.
fn check_upload_headers(headers: &HeaderMap, max_bytes: usize) -> Result<(), ApiError> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_form = text(header::CONTENT_TYPE).trim_start().to_ascii_lowercase().starts_with("multipart/");
    if is_form || headers.contains_key(header::CONTENT_ENCODING) {
        return Err(ApiError::with_message(
            ApiErrorCode::NotAFile,
            "`curl --data-binary @FILE` sends a file as it is",
            "`curl --data-binary @파일`은 파일을 그대로 보냅니다",
        ));
    }
    if text(header::CONTENT_LENGTH).parse::<usize>().is_ok_and(|length| length > max_bytes) {
        return Err(ApiErrorCode::TooLarge.into());
    }
    Ok(())
}
