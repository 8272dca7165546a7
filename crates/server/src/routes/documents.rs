//! Documents: handed in, followed while they are read, looked at, removed; and what is found in them.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use doran_agents::retrieval::{
    DocumentId, DocumentKind, Filter, Library, LibraryError, NewDocument, Question, RetrieveError, Status,
    Tenant, highlights,
};
use doran_agents::samples;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{json, path, query};
use crate::App;
use crate::ask;
use crate::body;
use crate::error::{ApiError, Code};
use crate::identity::Caller;
use crate::once::Once;

/// The most hits a search gives.
const MOST_HITS: usize = 50;
/// How long a file that has arrived may take to be on disk.
const ADDING: Duration = Duration::from_secs(60);
/// The most bytes of a question.
const QUESTION: usize = 8 * 1024;

/// What comes with a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    name: String,
    #[serde(default)]
    collection: String,
    kind: Option<String>,
    /// Where the file lies on the machine of who sends it, so that it keeps its name when it comes again.
    origin: Option<String>,
}

/// `POST /api/documents?name=…`: takes a file, as the body of the request. It is on disk when this answers, and read
/// after that. Another file under a known name takes the place of the old one, and the answer says so.
pub(super) async fn add(
    State(app): State<App>,
    caller: Caller,
    about: Result<Query<About>, QueryRejection>,
    once: Once,
    request: Request,
) -> Result<Response, ApiError> {
    let library = library(&app)?.clone();
    let About { name, collection, kind, origin } = query(about)?;
    let kind = kind_of(kind.as_deref())?;
    ask::check_collection(Some(&collection))?;
    // A name is shown in lists and on terminals, where such a character would do something.
    if name.chars().any(char::is_control) {
        return Err(ApiError::because(
            Code::BadInput,
            "`name` holds a control character",
            "`name`에 제어 문자가 있습니다",
        ));
    }
    check_head(request.headers(), app.limits.document_bytes)?;
    let room = app.uploads.clone().try_acquire_owned().map_err(|_| Code::Overloaded)?;
    let reading = to_bytes(request.into_body(), app.limits.document_bytes);
    let bytes = timeout(app.limits.document_time, reading)
        .await
        .map_err(|_| Code::TooSlow)?
        .map_err(|_| Code::TooLarge)?;
    once.with(&bytes)
        .answer(async move {
            let _room = room;
            let new = NewDocument { tenant: tenant(&caller), name, collection, kind, bytes: bytes.into() };
            let replaced = library.would_replace(&new);
            // One that is being removed has to be gone first; nobody keeps the room of others waiting for that.
            let adding = timeout(ADDING, library.add_from(new, origin.as_deref())).await;
            let status = adding.map_err(|_| Code::Overloaded)?.map_err(sorted)?;
            let mut shown = shown(&status);
            shown["replaced"] = replaced.into();
            Ok((StatusCode::ACCEPTED, shown))
        })
        .await
}

/// `GET /api/documents`
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Response, ApiError> {
    let documents: Vec<Value> = library(&app)?.list(&tenant(&caller)).iter().map(shown).collect();
    let mut list = json!({ "documents": documents });
    // Who has handed in nothing is told what is searched instead.
    if let (true, Some(index)) = (documents.is_empty(), &app.index) {
        let there = index.list(&tenant(&caller), &Filter::default()).await.map_err(of_index)?;
        list["samples"] = there.len().into();
    }
    Ok(json(list))
}

/// `GET /api/documents/{document}`
pub(super) async fn one(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let id = DocumentId::new(path(id)?);
    let status = library(&app)?.status(&tenant(&caller), &id);
    Ok(json(shown(&status.ok_or(Code::NotFound)?)))
}

/// `GET /api/documents/{document}/text`: all of it, to show a quote in its place.
pub(super) async fn text(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let id = DocumentId::new(path(id)?);
    let tenant = tenant(&caller);
    let kept = match &app.library {
        Some(library) => library.document(&tenant, &id).await.map_err(sorted)?,
        None => None,
    };
    // What was not handed in as a file, such as the samples, is in the index alone.
    let document = match (kept, &app.index) {
        (Some(document), _) => Some(document),
        (None, Some(index)) => index.document(&tenant, &id).await.map_err(of_index)?,
        (None, None) => None,
    };
    // The samples leave the index when there are documents of one's own; what cited them can still be opened.
    let document = document.or_else(|| samples::document(id.as_str())).ok_or(Code::NotFound)?;
    // Words of strangers: whoever opens the address itself gets a file, and nothing is shown.
    let saved = [(header::CONTENT_DISPOSITION, "attachment; filename=\"document.json\"")];
    let shown = json(json!({
        "id": document.id,
        "title": document.title,
        "version": document.version,
        "pages": document.pages,
        "text": document.text,
    }));
    Ok((saved, shown).into_response())
}

/// `DELETE /api/documents/{document}`: removes the file, its text and what is found of it.
pub(super) async fn remove(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let id = DocumentId::new(path(id)?);
    library(&app)?.remove(&tenant(&caller), &id).await.map_err(sorted)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /api/documents/{document}/{change}`: pause, resume, cancel or retry.
pub(super) async fn change(
    State(app): State<App>,
    caller: Caller,
    names: Result<Path<(String, String)>, PathRejection>,
    once: Once,
    request: Request,
) -> Result<Response, ApiError> {
    let (id, change) = path(names)?;
    let bytes = body::bytes(request, &app.limits).await?;
    let (library, tenant, id) = (library(&app)?.clone(), tenant(&caller), DocumentId::new(id));
    once.with(&bytes)
        .answer(async move {
            let status = match change.as_str() {
                "pause" => library.pause(&tenant, &id).await,
                "resume" => library.resume(&tenant, &id).await,
                "cancel" => library.cancel(&tenant, &id).await,
                "retry" => library.retry(&tenant, &id).await,
                _ => return Err(Code::NotFound.into()),
            };
            Ok((StatusCode::OK, shown(&status.map_err(sorted)?)))
        })
        .await
}

/// What may follow the path of a search. Documents and kinds may be given more than once.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Vec<(String, String)>")]
pub(super) struct Find {
    q: String,
    limit: Option<usize>,
    collection: Option<String>,
    documents: Vec<DocumentId>,
    kinds: Vec<String>,
}

impl TryFrom<Vec<(String, String)>> for Find {
    type Error = String;

    fn try_from(pairs: Vec<(String, String)>) -> Result<Self, String> {
        let mut find = Self::default();
        let mut has_question = false;
        for (name, value) in pairs {
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
pub(super) async fn search(
    State(app): State<App>,
    caller: Caller,
    find: Result<Query<Find>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Find { q, limit, collection, documents, kinds } = query(find)?;
    let kinds = kinds.iter().map(|kind| kind_of(Some(kind))).collect::<Result<_, _>>()?;
    ask::check_collection(collection.as_deref())?;
    if q.len() > QUESTION {
        return Err(ApiError::because(
            Code::BadInput,
            format!("`q` has more than {QUESTION} bytes"),
            format!("`q`가 {QUESTION}바이트를 넘습니다"),
        ));
    }
    let index = app.index.as_ref().ok_or(Code::NotFound)?;
    let mut question = Question::new(tenant(&caller), q.clone(), limit.unwrap_or(10).clamp(1, MOST_HITS));
    question.filter = Filter { collection, documents, kinds };
    let hits = index.retrieve(&question).await.map_err(of_index)?;
    let hits: Vec<Value> = hits
        .iter()
        .map(|hit| {
            let passage = &hit.passage;
            json!({
                "passage": passage.id,
                "document": passage.document,
                "title": passage.title,
                "text": passage.text,
                "page": passage.page,
                "article": passage.article.map(|article| article.to_string()),
                "start": passage.range.start,
                "end": passage.range.end,
                "score": hit.score,
                "why": highlights(&q, &passage.text),
            })
        })
        .collect();
    Ok(json(json!({ "hits": hits })))
}

/// A form around the file, or one that has to be unpacked first, would be kept as if it were the file.
fn check_head(headers: &HeaderMap, most: usize) -> Result<(), ApiError> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_form = text(header::CONTENT_TYPE).trim_start().to_ascii_lowercase().starts_with("multipart/");
    if is_form || headers.contains_key(header::CONTENT_ENCODING) {
        return Err(ApiError::because(
            Code::NotAFile,
            "`curl --data-binary @FILE` sends a file as it is",
            "`curl --data-binary @파일`은 파일을 그대로 보냅니다",
        ));
    }
    if text(header::CONTENT_LENGTH).parse::<usize>().is_ok_and(|length| length > most) {
        return Err(Code::TooLarge.into());
    }
    Ok(())
}

fn library(app: &App) -> Result<&Library, ApiError> {
    app.library.as_ref().ok_or_else(|| Code::NotFound.into())
}

fn tenant(caller: &Caller) -> Tenant {
    Tenant::new(caller.tenant.as_str())
}

fn shown(status: &Status) -> Value {
    let mut shown = json!(status);
    shown["status"] = json!(status.state.as_str());
    if let Some(failure) = &status.failure {
        shown["reason"] = json!(failure.kind.as_str());
        shown["ko"] = json!(failure.kind.ko());
        shown["en"] = json!(failure.kind.en());
    }
    shown
}

/// `general`, `contract`, or `standard:KIND`.
fn kind_of(kind: Option<&str>) -> Result<DocumentKind, ApiError> {
    match kind {
        None | Some("general" | "") => Ok(DocumentKind::General),
        Some("contract") => Ok(DocumentKind::Contract),
        Some(other) => match other.strip_prefix("standard:") {
            Some(kind) if !kind.trim().is_empty() && kind.len() <= 100 => {
                Ok(DocumentKind::Standard(kind.trim().to_owned()))
            }
            _ => Err(ApiError::because(
                Code::BadInput,
                "`kind` is `general`, `contract` or `standard:KIND`",
                "`kind`는 `general`, `contract`, `standard:종류` 가운데 하나입니다",
            )),
        },
    }
}

#[allow(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
fn sorted(error: LibraryError) -> ApiError {
    let code = match &error {
        LibraryError::Empty | LibraryError::BadName | LibraryError::BadCollection => Code::BadInput,
        LibraryError::TooLarge { .. } => Code::TooLarge,
        LibraryError::Busy(_) | LibraryError::Leaving => Code::Overloaded,
        LibraryError::Full(_) => Code::DiskFull,
        LibraryError::Unknown(_) => Code::NotFound,
        LibraryError::Disk { .. } => {
            tracing::error!(error = &error as &dyn std::error::Error, "the library failed a request");
            return Code::Unavailable.into();
        }
        LibraryError::Index(_) => return Code::IndexUnavailable.into(),
    };
    ApiError::because(code, error.to_string(), error.ko())
}

#[allow(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
fn of_index(error: RetrieveError) -> ApiError {
    tracing::error!(error = &error as &dyn std::error::Error, "the index failed a request");
    Code::IndexUnavailable.into()
}
