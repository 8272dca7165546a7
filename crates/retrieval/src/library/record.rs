//! The stored record of a document: its identity, its state and its ready version.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ingest::{FileFormat, IngestFailure};
use crate::passage::{DocumentId, DocumentKind, DocumentTenant};

/// How often the process may end while reading a file before the file is considered the cause.
pub(super) const MAX_READ_ATTEMPTS: u32 = 5;

/// The ingestion state of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IngestState {
    /// It waits in the queue.
    Queued,
    /// Its text is being extracted.
    Reading,
    /// Its passages are being stored in the index.
    Indexing,
    /// It is searchable.
    Ready,
    /// Ingestion failed; the failure says why.
    Failed,
    /// It waits until it is resumed.
    Paused,
    /// Its ingestion was cancelled.
    Cancelled,
    /// It is being removed.
    Removing,
}

impl IngestState {
    /// The stable name, for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Reading => "reading",
            Self::Indexing => "indexing",
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
            Self::Removing => "removing",
        }
    }

    /// Returns whether it is queued or being processed.
    pub fn is_pending(self) -> bool {
        matches!(self, Self::Queued | Self::Reading | Self::Indexing)
    }

    /// Returns the progress from 0 to 1.
    pub fn progress(self) -> f32 {
        match self {
            Self::Queued | Self::Paused | Self::Cancelled => 0.0,
            Self::Reading => 0.2,
            Self::Indexing => 0.8,
            Self::Ready | Self::Failed | Self::Removing => 1.0,
        }
    }
}

/// The status of a document in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DocumentStatus {
    /// Its opaque identifier.
    pub id: DocumentId,
    /// The name of the file.
    pub name: String,
    /// The title from the file once it has been read, otherwise the file name.
    pub title: String,
    /// Its collection.
    pub collection: String,
    /// Its kind.
    pub kind: DocumentKind,
    /// Its ingestion state.
    pub state: IngestState,
    /// The progress from 0 to 1.
    pub progress: f32,
    /// Why it failed.
    pub failure: Option<IngestFailure>,
    /// The format of the file, once it has been read.
    pub format: Option<FileFormat>,
    /// The number of searchable passages.
    pub passages: usize,
    /// The number of pages; 0 for files without pages.
    pub pages: usize,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The searchable version; empty before the first one is ready.
    pub version: String,
    /// The number of invisible characters that were removed from its text.
    pub hidden: usize,
    /// The path it was added from, if it is a file of this machine. It is private and never sent to a client.
    #[serde(skip)]
    pub origin: Option<String>,
    /// When it was added, in seconds since 1970.
    pub added_at: u64,
    /// When it last changed, in seconds since 1970.
    pub changed_at: u64,
}

/// The key of a document. The identifier is unique within a tenant; the collection is part of the path on disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct DocumentKey {
    pub(super) tenant: DocumentTenant,
    pub(super) id: DocumentId,
    pub(super) collection: String,
}

impl DocumentKey {
    /// Returns the key of a file. The same name in the same collection of the same tenant is the same document.
    pub(super) fn for_file(tenant: &DocumentTenant, collection: &str, name: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [tenant.as_str(), collection, name] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let id = hex::encode(&hash.finalize()[..16]);
        Self { tenant: tenant.clone(), id: DocumentId::new(id), collection: collection.to_owned() }
    }

    /// Returns a key without the collection. It is valid for lookups, not for paths.
    pub(super) fn for_id(tenant: &DocumentTenant, id: &DocumentId) -> Self {
        Self { tenant: tenant.clone(), id: id.clone(), collection: String::new() }
    }
}

/// An uploaded version that is not ready yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IncomingVersion {
    pub(super) hash: String,
    pub(super) bytes: u64,
}

/// The searchable version of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReadyVersion {
    pub(super) hash: String,
    pub(super) bytes: u64,
    pub(super) version: String,
    pub(super) title: String,
    pub(super) format: FileFormat,
    pub(super) passages: usize,
    pub(super) pages: usize,
    pub(super) hidden: usize,
    pub(super) kind: DocumentKind,
    /// The version of the split rules that were used.
    #[serde(default)]
    pub(super) cut: u32,
    /// Whether the index has lost it and is to get it again, in a library that several processes share.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_lost: bool,
}

/// The content of a record file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DocumentRecord {
    /// The version of the record format.
    pub(super) layout: u32,
    pub(super) tenant: DocumentTenant,
    pub(super) id: DocumentId,
    pub(super) collection: String,
    pub(super) name: String,
    pub(super) kind: DocumentKind,
    /// Whether the kind is decided when the text is read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) recognises_kind: bool,
    pub(super) state: IngestState,
    pub(super) incoming: Option<IncomingVersion>,
    pub(super) ready: Option<ReadyVersion>,
    pub(super) failure: Option<IngestFailure>,
    pub(super) attempts: u32,
    /// The job that works on the document, in a library that several processes share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) worker: Option<String>,
    /// Versions that were replaced while that job may be indexing them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) overtaken: Vec<String>,
    /// The path that the file was added from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<String>,
    pub(super) added_at: u64,
    pub(super) changed_at: u64,
}

/// The record format that this program writes.
pub(super) const RECORD_LAYOUT_VERSION: u32 = 1;

impl DocumentRecord {
    pub(super) fn new(
        key: &DocumentKey,
        name: String,
        kind: Option<DocumentKind>,
        incoming: IncomingVersion,
    ) -> Self {
        let now = unix_seconds_now();
        Self {
            layout: RECORD_LAYOUT_VERSION,
            tenant: key.tenant.clone(),
            id: key.id.clone(),
            collection: key.collection.clone(),
            name,
            recognises_kind: kind.is_none(),
            kind: kind.unwrap_or(DocumentKind::General),
            state: IngestState::Queued,
            incoming: Some(incoming),
            ready: None,
            failure: None,
            attempts: 0,
            worker: None,
            overtaken: Vec::new(),
            origin: None,
            added_at: now,
            changed_at: now,
        }
    }

    pub(super) fn key(&self) -> DocumentKey {
        DocumentKey { tenant: self.tenant.clone(), id: self.id.clone(), collection: self.collection.clone() }
    }

    /// Returns whether the record refers to a version.
    pub(super) fn has_version(&self, hash: &str) -> bool {
        self.incoming.as_ref().is_some_and(|new| new.hash == hash)
            || self.ready.as_ref().is_some_and(|ready| ready.hash == hash)
    }

    /// Returns the ready version if the index is to get it again and no newer one is on its way there.
    pub(super) fn version_to_restore(&self) -> Option<IncomingVersion> {
        let is_at_rest =
            matches!(self.state, IngestState::Failed | IngestState::Paused | IngestState::Cancelled);
        let lost = self.ready.as_ref().filter(|ready| is_at_rest && ready.is_lost)?;
        Some(IncomingVersion { hash: lost.hash.clone(), bytes: lost.bytes })
    }

    /// Returns whether there is work left that ends by itself.
    pub(super) fn is_pending(&self) -> bool {
        self.state.is_pending() || self.version_to_restore().is_some()
    }

    /// Returns the record as it is to be loaded after the process that worked on it was killed.
    pub(super) fn after_interruption(mut self) -> Self {
        if self.state.is_pending() {
            self.state = IngestState::Queued;
            if self.attempts >= MAX_READ_ATTEMPTS {
                self.state = IngestState::Failed;
                self.failure = Some(IngestFailure::new(
                    crate::ingest::IngestFailureKind::Crashed,
                    "reading it was cut short again and again",
                ));
            }
        }
        self
    }

    pub(super) fn status(&self) -> DocumentStatus {
        let ready = self.ready.as_ref();
        let incoming = self.incoming.as_ref();
        DocumentStatus {
            id: self.id.clone(),
            name: self.name.clone(),
            title: ready.map_or_else(|| title_from_file_name(&self.name), |ready| ready.title.clone()),
            collection: self.collection.clone(),
            kind: self.kind.clone(),
            state: self.state,
            progress: self.state.progress(),
            failure: self.failure.clone(),
            format: ready.map(|ready| ready.format),
            passages: ready.map_or(0, |ready| ready.passages),
            pages: ready.map_or(0, |ready| ready.pages),
            bytes: incoming.map(|incoming| incoming.bytes).or(ready.map(|ready| ready.bytes)).unwrap_or(0),
            version: ready.map(|ready| ready.version.clone()).unwrap_or_default(),
            hidden: ready.map_or(0, |ready| ready.hidden),
            origin: self.origin.clone(),
            added_at: self.added_at,
            changed_at: self.changed_at,
        }
    }

    /// Reads the bytes of a record. One of a newer layout is an error.
    pub(super) fn from_bytes(bytes: &[u8]) -> std::io::Result<Self> {
        let record: Self = serde_json::from_slice(bytes).map_err(std::io::Error::other)?;
        match record.layout {
            0..=RECORD_LAYOUT_VERSION => Ok(record),
            _ => Err(std::io::Error::other("it is of a newer doran")),
        }
    }

    pub(super) fn to_bytes(&self) -> std::io::Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(std::io::Error::other)
    }
}

/// Makes a title from a file name, without directories and extension.
pub(super) fn title_from_file_name(name: &str) -> String {
    use unicode_normalization::UnicodeNormalization;
    let file = name.rsplit(['/', '\\']).find(|part| !part.trim().is_empty()).unwrap_or(name);
    let named = |stem: &&str| !stem.trim_matches('.').is_empty();
    let stem = file.rsplit_once('.').map(|(stem, _)| stem).filter(named).unwrap_or(file);
    let shown = stem.chars().filter(|char| !char.is_control()).take(200).collect::<String>();
    shown.trim().nfc().collect()
}

pub(super) fn unix_seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_its_tenant_collection_and_name() {
        let key = |tenant: &str, collection: &str, name: &str| {
            DocumentKey::for_file(&DocumentTenant::new(tenant), collection, name).id
        };
        let one = key("a", "", "x.pdf");
        assert_eq!(one, key("a", "", "x.pdf"));
        for other in
            [key("b", "", "x.pdf"), key("a", "c", "x.pdf"), key("a", "", "y.pdf"), key("a", "x", ".pdf")]
        {
            assert_ne!(one, other);
        }
        assert!(one.as_str().len() == 32 && one.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn a_title_is_the_name_without_its_path_and_ending() {
        for (name, expected) in [
            ("규정/휴가.hwpx", "휴가"),
            ("..\\x.js", "x"),
            (".env", ".env"),
            ("a\r\nb.md", "ab"),
            ("../..", ".."),
        ] {
            assert_eq!(title_from_file_name(name), expected, "{name:?}");
        }
    }
}
