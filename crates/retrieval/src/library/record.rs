//! What is kept about a document: who it is, where it stands, what is ready of it.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ingest::{FileFormat, IngestFailure};
use crate::passage::{DocumentId, DocumentKind, DocumentTenant};

/// How often reading may be cut short by the end of the process before the file is held to be the cause.
const MAX_READ_ATTEMPTS: u32 = 5;

/// Where a document stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IngestState {
    /// It waits for its turn.
    Queued,
    /// Its text is being read.
    Reading,
    /// Its passages are being put into the index.
    Indexing,
    /// It can be found.
    Ready,
    /// It could not be read; the failure says why.
    Failed,
    /// It waits until somebody resumes it.
    Paused,
    /// Somebody gave up on it.
    Cancelled,
    /// It is going away.
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

    /// Whether it waits or is worked on.
    pub fn is_pending(self) -> bool {
        matches!(self, Self::Queued | Self::Reading | Self::Indexing)
    }

    /// How far it has come, from 0 to 1.
    pub fn progress(self) -> f32 {
        match self {
            Self::Queued | Self::Paused | Self::Cancelled => 0.0,
            Self::Reading => 0.2,
            Self::Indexing => 0.8,
            Self::Ready | Self::Failed | Self::Removing => 1.0,
        }
    }
}

/// A document as a list shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DocumentStatus {
    /// Its id: a name of letters and digits that says nothing.
    pub id: DocumentId,
    /// The name of the file.
    pub name: String,
    /// Its title: that of the file once it was read, else its name.
    pub title: String,
    /// Its collection.
    pub collection: String,
    /// What it is.
    pub kind: DocumentKind,
    /// Where it stands.
    pub state: IngestState,
    /// How far it has come, from 0 to 1.
    pub progress: f32,
    /// Why it failed.
    pub failure: Option<IngestFailure>,
    /// What the file is, once it was read.
    pub format: Option<FileFormat>,
    /// How many passages of it can be found.
    pub passages: usize,
    /// How many pages it has; 0 for files without pages.
    pub pages: usize,
    /// The bytes of the file.
    pub bytes: u64,
    /// The version that can be found; empty before the first.
    pub version: String,
    /// How many invisible characters were left out of its text.
    pub hidden: usize,
    /// Where the file lies on this machine, for one that was taken from there. Not for strangers, so it is never sent.
    #[serde(skip)]
    pub origin: Option<String>,
    /// When it was handed in, in seconds since 1970.
    pub added_at: u64,
    /// When it last changed, in seconds since 1970.
    pub changed_at: u64,
}

/// Which document. The id alone is enough within a tenant; the collection is part of the path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct DocumentKey {
    pub(super) tenant: DocumentTenant,
    pub(super) id: DocumentId,
    pub(super) collection: String,
}

impl DocumentKey {
    /// The key of a file: the same name in the same collection of the same tenant is the same document.
    pub(super) fn for_file(tenant: &DocumentTenant, collection: &str, name: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [tenant.as_str(), collection, name] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let id = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>();
        Self { tenant: tenant.clone(), id: DocumentId::new(id), collection: collection.to_owned() }
    }

    /// The key of a document whose collection is not at hand. Good for looking up, not for paths.
    pub(super) fn for_id(tenant: &DocumentTenant, id: &DocumentId) -> Self {
        Self { tenant: tenant.clone(), id: id.clone(), collection: String::new() }
    }
}

/// Bytes that were handed in and are not ready yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IncomingVersion {
    pub(super) hash: String,
    pub(super) bytes: u64,
}

/// What can be found of a document.
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
    /// By which rules it was cut into passages.
    #[serde(default)]
    pub(super) cut: u32,
}

/// What stands in the file of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DocumentRecord {
    /// Of this layout.
    pub(super) layout: u32,
    pub(super) tenant: DocumentTenant,
    pub(super) id: DocumentId,
    pub(super) collection: String,
    pub(super) name: String,
    pub(super) kind: DocumentKind,
    pub(super) state: IngestState,
    pub(super) incoming: Option<IncomingVersion>,
    pub(super) ready: Option<ReadyVersion>,
    pub(super) failure: Option<IngestFailure>,
    pub(super) attempts: u32,
    /// Where the file was taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<String>,
    pub(super) added_at: u64,
    pub(super) changed_at: u64,
}

/// The layout this program writes.
pub(super) const RECORD_LAYOUT_VERSION: u32 = 1;

impl DocumentRecord {
    pub(super) fn new(
        key: &DocumentKey,
        name: String,
        kind: DocumentKind,
        incoming: IncomingVersion,
    ) -> Self {
        let now = unix_seconds_now();
        Self {
            layout: RECORD_LAYOUT_VERSION,
            tenant: key.tenant.clone(),
            id: key.id.clone(),
            collection: key.collection.clone(),
            name,
            kind,
            state: IngestState::Queued,
            incoming: Some(incoming),
            ready: None,
            failure: None,
            attempts: 0,
            origin: None,
            added_at: now,
            changed_at: now,
        }
    }

    pub(super) fn key(&self) -> DocumentKey {
        DocumentKey { tenant: self.tenant.clone(), id: self.id.clone(), collection: self.collection.clone() }
    }

    /// Whether it speaks of a version.
    pub(super) fn has_version(&self, hash: &str) -> bool {
        self.incoming.as_ref().is_some_and(|new| new.hash == hash)
            || self.ready.as_ref().is_some_and(|ready| ready.hash == hash)
    }

    /// The record as it stands after the process that worked on it was killed.
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

    pub(super) fn to_bytes(&self) -> std::io::Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(std::io::Error::other)
    }
}

/// The name of a file without its directories and its ending, for a title.
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
