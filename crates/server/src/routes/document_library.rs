//! The library of a caller, as routes reach it: whose documents are meant, where they are, and what its errors are over HTTP.

use doran_agents::attachments::attachment_tenant;
use doran_agents::retrieval::{
    Document, DocumentId, DocumentKind, DocumentTenant, Library, LibraryError, RetrieveError,
};
use doran_agents::samples;
use doran_engine::store::StoreError;

use crate::ServerApp;
use crate::agent_request;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};

/// A document of the caller's, with its text.
pub(crate) async fn find_document(
    app: &ServerApp,
    caller: &ApiCaller,
    id: &DocumentId,
) -> Result<Document, ApiError> {
    let document = find_stored_document(app, &retrieval_tenant(caller), id).await?;
    // The samples leave the index when there are documents of one's own; what cited them can still be opened.
    document.or_else(|| samples::document(id.as_str())).ok_or_else(|| ApiErrorCode::NotFound.into())
}

pub(super) async fn find_stored_document(
    app: &ServerApp,
    tenant: &DocumentTenant,
    id: &DocumentId,
) -> Result<Option<Document>, ApiError> {
    let stored = match &app.library {
        Some(library) => library.document(tenant, id).await.map_err(library_error)?,
        None => None,
    };
    // What was not handed in as a file, such as the samples, is in the index alone.
    match (stored, &app.index) {
        (Some(document), _) => Ok(Some(document)),
        (None, Some(index)) => index.document(tenant, id).await.map_err(index_error),
        (None, None) => Ok(None),
    }
}

/// The library, with what other replicas have changed.
pub(super) async fn current_library(app: &ServerApp) -> Result<&Library, ApiError> {
    let library = require_library(app)?;
    library.refresh().await.map_err(library_error)?;
    Ok(library)
}

pub(super) fn require_library(app: &ServerApp) -> Result<&Library, ApiError> {
    app.library.as_ref().ok_or_else(|| ApiErrorCode::NotFound.into())
}

/// The owner of the documents of the caller, or of those that are attached to a thread.
pub(super) fn document_tenant(caller: &ApiCaller, thread: Option<&str>) -> Result<DocumentTenant, ApiError> {
    Ok(match thread {
        Some(thread) => {
            let key = agent_request::thread_key_from_field(caller, "thread", thread)?;
            attachment_tenant(key.tenant.as_str(), key.thread.as_str())
        }
        None => retrieval_tenant(caller),
    })
}

/// The owner of the documents of the caller.
pub(crate) fn retrieval_tenant(caller: &ApiCaller) -> DocumentTenant {
    DocumentTenant::new(caller.tenant.as_str())
}

/// `general`, `contract`, or `standard:KIND`.
pub(super) fn parse_document_kind(kind: &str) -> Result<DocumentKind, ApiError> {
    match kind {
        "general" | "" => Ok(DocumentKind::General),
        "contract" => Ok(DocumentKind::Contract),
        other => match other.strip_prefix("standard:") {
            Some(kind) if !kind.trim().is_empty() && kind.len() <= 100 => {
                Ok(DocumentKind::Standard(kind.trim().to_owned()))
            }
            _ => Err(ApiError::for_parameter(
                "kind",
                "it is `general`, `contract`, `standard:KIND` or, for a new file, `auto`",
                "`general`, `contract`, `standard:종류`이거나, 새 파일이면 `auto`입니다",
            )),
        },
    }
}

#[allow(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
pub(super) fn library_error(error: LibraryError) -> ApiError {
    let code = match &error {
        LibraryError::Empty | LibraryError::BadName | LibraryError::BadCollection => ApiErrorCode::BadInput,
        LibraryError::TooLarge { .. } => ApiErrorCode::TooLarge,
        LibraryError::QueueFull(_) | LibraryError::BeingRemoved => ApiErrorCode::Overloaded,
        LibraryError::StorageFull(_) => ApiErrorCode::DiskFull,
        LibraryError::Unknown(_) => ApiErrorCode::NotFound,
        LibraryError::Disk { source, .. }
            if matches!(
                source.kind(),
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
            ) =>
        {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "cannot store a document: the disk is full"
            );
            return ApiErrorCode::DiskFull.into();
        }
        LibraryError::Database(cause) if matches!(cause.downcast_ref(), Some(StoreError::Newer { .. })) => {
            return ApiErrorCode::NewerFormat.into();
        }
        LibraryError::Disk { .. } | LibraryError::Database(_) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the document library returned an error"
            );
            return ApiErrorCode::Unavailable.into();
        }
        LibraryError::Index(_) => return ApiErrorCode::IndexUnavailable.into(),
    };
    ApiError::with_message(code, error.to_string(), error.message_ko())
}

#[allow(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
pub(super) fn index_error(error: RetrieveError) -> ApiError {
    tracing::error!(error = &error as &dyn std::error::Error, "the search index returned an error");
    ApiErrorCode::IndexUnavailable.into()
}
