//! The directory layout of an index, and which generation in it is the current one.
//!
//! ```text
//! lock                held by the process that has the index open
//! current             the name of the current generation
//! g1/manifest         the files of the index, and the deleted documents in them
//! g1/00000001.part    documents, keyword segment, vectors once they are computed
//! g1/00000001.graph   a graph over the vectors, if there are many; rebuilt when it is missing
//! g1/computed-vectors vectors that are not in a file yet, while they are computed
//! ```
//!
//! The manifest is the source of truth. It is replaced atomically, after the files it lists are on disk. Files that it
//! does not list were never acknowledged or are no longer needed, and are removed when the index is opened.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use doran_llm::EmbedderInfo;
use serde::{Deserialize, Serialize};

use crate::library::disk;
use crate::retriever::RetrieveError;
use crate::text_analysis::ANALYSIS_VERSION;

use super::computed_vectors::COMPUTED_VECTORS_FILE;
use super::{background_graph, index_file, io_error};

/// The version of the directory layout.
const LAYOUT_VERSION: u32 = 3;

/// Identifies the analyser and the embedder that made an index. Terms and vectors of others cannot be compared with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexFingerprint {
    layout: u32,
    analysis: u32,
    pub(super) embedder: Option<EmbedderInfo>,
}

impl IndexFingerprint {
    pub(super) fn for_embedder(embedder: Option<EmbedderInfo>) -> Self {
        Self { layout: LAYOUT_VERSION, analysis: ANALYSIS_VERSION, embedder }
    }

    /// Returns an error if an index with this fingerprint cannot be used as `wanted`. Another embedder is no error: the
    /// vectors of its files are replaced, and until then the words in them can be searched.
    fn check_compatible(&self, wanted: &Self, root: &Path) -> Result<(), RetrieveError> {
        let stale = |why: String| RetrieveError::Stale { reason: format!("`{}`: {why}", root.display()) };
        if self.layout != wanted.layout {
            return Err(stale(format!(
                "it has layout {} and this version writes {}",
                self.layout, wanted.layout
            )));
        }
        if self.analysis != wanted.analysis {
            return Err(stale(format!(
                "its words were cut by rules {} and are now cut by {}",
                self.analysis, wanted.analysis
            )));
        }
        Ok(())
    }
}

/// The files of an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexManifest {
    pub(super) about: IndexFingerprint,
    /// The number of the next file.
    pub(super) next: u64,
    pub(super) parts: Vec<IndexFileEntry>,
}

/// A file of the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexFileEntry {
    pub(super) tenant: String,
    pub(super) file: u64,
    /// The positions of its deleted documents.
    pub(super) dead: Vec<u32>,
    /// The identifier of the embedder that made its vectors. In older manifests it is the embedder of the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) embedder: Option<String>,
}

impl IndexManifest {
    pub(super) fn new(about: IndexFingerprint) -> Self {
        Self { about, next: 1, parts: Vec::new() }
    }

    /// Replaces the manifest atomically and durably.
    pub(super) fn save(&self, directory: &Path) -> io::Result<()> {
        let json = serde_json::to_vec(self)?;
        let sum = hex::encode(index_file::checksum(&[&json]));
        disk::write_file_atomically(&directory.join("manifest"), &[sum.as_bytes(), b"\n", &json].concat())
    }

    /// Reads the manifest of an index.
    pub(super) fn load(directory: &Path) -> Result<Self, RetrieveError> {
        let path = directory.join("manifest");
        let damaged = |what: &str| RetrieveError::Stale { reason: format!("`{}` {what}", path.display()) };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(damaged("is missing")),
            Err(error) => return Err(io_error(format!("`{}` cannot be read", path.display()), error)),
        };
        let (sum, json) = bytes.split_at_checked(17).ok_or_else(|| damaged("is cut short"))?;
        let expected: String = hex::encode(index_file::checksum(&[json]));
        if sum != format!("{expected}\n").as_bytes() {
            return Err(damaged("is damaged"));
        }
        serde_json::from_slice(json).map_err(|_| damaged("has another format"))
    }

    /// Changes the embedder of the index. Its files remember whose vectors they have.
    pub(super) fn set_embedder(&mut self, embedder: Option<EmbedderInfo>) {
        if self.about.embedder == embedder {
            return;
        }
        let before = self.about.embedder.take().map(|before| before.id);
        for entry in self.parts.iter_mut().filter(|entry| entry.embedder.is_none()) {
            entry.embedder.clone_from(&before);
        }
        self.about.embedder = embedder;
    }

    /// Returns the embedder of the index if it made the vectors of this file.
    pub(super) fn embedder_of_file(&self, entry: &IndexFileEntry) -> Option<&EmbedderInfo> {
        let current = self.about.embedder.as_ref()?;
        (entry.embedder.as_ref().is_none_or(|made| *made == current.id)).then_some(current)
    }

    /// Returns an error if the index was made by another analyser.
    pub(super) fn check_compatible(
        &self,
        wanted: &IndexFingerprint,
        root: &Path,
    ) -> Result<(), RetrieveError> {
        self.about.check_compatible(wanted, root)
    }

    /// Removes files that the manifest does not list.
    pub(super) fn remove_unreferenced_files(&self, directory: &Path) -> io::Result<()> {
        let parts = self.parts.iter().map(|entry| part_path(directory, entry.file));
        let named: HashSet<PathBuf> =
            parts.flat_map(|part| [background_graph::graph_path(&part), part]).collect();
        let kept = [directory.join("manifest"), directory.join(COMPUTED_VECTORS_FILE)];
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if !kept.contains(&path) && !named.contains(&path) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Returns the path of a file of the index.
pub(super) fn part_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:08}.part"))
}

/// Returns the number of the current generation below a root, if there is one.
pub(super) fn current_generation(root: &Path) -> Result<Option<u64>, RetrieveError> {
    let path = root.join("current");
    match fs::read_to_string(&path) {
        Ok(text) => match text.trim().strip_prefix('g').and_then(|number| number.parse().ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(RetrieveError::Stale { reason: format!("`{}` names no index", path.display()) }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(format!("`{}` cannot be read", path.display()), error)),
    }
}

/// Makes a generation the current one, and removes all others.
pub(super) fn switch_generation(root: &Path, number: u64) -> io::Result<()> {
    disk::write_file_atomically(&root.join("current"), format!("g{number}\n").as_bytes())?;
    remove_other_generations(root, number)
}

/// Removes all generations but one.
pub(super) fn remove_other_generations(root: &Path, number: u64) -> io::Result<()> {
    let others: Vec<u64> = generation_numbers(root)?.into_iter().filter(|other| *other != number).collect();
    if !others.is_empty() {
        // A process that was killed may have switched without syncing the directory.
        disk::sync_directory(root)?;
    }
    others.into_iter().try_for_each(|other| fs::remove_dir_all(generation_directory(root, other)))
}

/// Returns the highest generation number below a root, or 0.
pub(super) fn highest_generation(root: &Path) -> io::Result<u64> {
    Ok(generation_numbers(root)?.into_iter().max().unwrap_or(0))
}

fn generation_numbers(root: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix('g')?.parse().ok());
        if let Some(number) = number.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

/// Returns the directory of a generation below a root.
pub(super) fn generation_directory(root: &Path, number: u64) -> PathBuf {
    root.join(format!("g{number}"))
}
