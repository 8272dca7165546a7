//! Opens a disk image with the real library, index and memory, and compares it with what had been promised.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use doran_agents::memory::{FileMemoryStore, MemoryStore};
use doran_retrieval::{
    DocumentFilter, DocumentIndex, DocumentStatus, IngestState, Library, LocalIndex, Retriever, SearchQuery,
};

use crate::ledger::Violation;
use crate::power_loss::library_promises::LibraryPromises;
use crate::power_loss::library_victim::{
    describe, document_text, fact_owner, fact_text, marker_word, open_index, open_library, tenant, version_of,
};
use crate::power_loss::recording::ImageViolations;
use crate::power_loss::simulated_disk::DiskImage;

/// How long the documents of an image may take to be read.
const READ_TIMEOUT: Duration = Duration::from_secs(120);

/// Words that many documents have.
const COMMON_WORDS: [&str; 2] = ["문서의 판", "words of this version"];

const HITS: usize = 20;

/// Checks images, one after another, in a folder of its own.
pub struct LibraryCheck {
    folder: PathBuf,
    runtime: tokio::runtime::Runtime,
}

/// Says why an image breaks a promise.
type Broken = (Violation, String);

fn damaged(what: &str, error: &dyn std::error::Error) -> Broken {
    (Violation::Damaged, format!("{what}: {}", describe(error)))
}

impl LibraryCheck {
    pub fn new(folder: &Path) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Ok(Self { folder: folder.to_owned(), runtime: runtime.map_err(|error| error.to_string())? })
    }

    /// Looks at an image. Gives what is wrong.
    pub fn check(&self, image: &DiskImage, promises: &LibraryPromises) -> Result<ImageViolations, String> {
        image.write_to(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        let mut broken = Vec::new();
        self.runtime.block_on(async {
            if let Err(what) = self.check_facts(promises, &mut broken).await {
                broken.push(what);
            }
            if let Err(what) = self.check_library(promises, &mut broken).await {
                broken.push(what);
            }
        });
        Ok(broken)
    }

    async fn check_facts(
        &self,
        promises: &LibraryPromises,
        broken: &mut ImageViolations,
    ) -> Result<(), Broken> {
        let memory = FileMemoryStore::open(self.folder.join("memory.log"))
            .map_err(|error| damaged("the facts cannot be opened", &error))?;
        let facts = memory.list(&fact_owner()).await.map_err(|error| damaged("the facts", &error))?;
        let kept: BTreeMap<u64, &str> =
            facts.iter().filter_map(|fact| Some((fact.id.parse().ok()?, fact.text.as_str()))).collect();
        for (fact, allowed) in &promises.facts {
            if !allowed.contains(&kept.contains_key(fact)) {
                let found = if kept.contains_key(fact) { "is there again" } else { "is gone" };
                broken.push((Violation::Lost, format!("fact {fact} {found}")));
            }
        }
        for (fact, text) in kept {
            if text != fact_text(fact) {
                broken.push((Violation::Torn, format!("fact {fact} is `{text}`")));
            }
        }
        Ok(())
    }

    async fn check_library(
        &self,
        promises: &LibraryPromises,
        broken: &mut ImageViolations,
    ) -> Result<(), Broken> {
        // A damaged index would be built again from the library. It promises more than that.
        let index = open_index(&self.folder.join("search")).await;
        let index = Arc::new(index.map_err(|error| damaged("the index cannot be opened", &error))?);
        let folder = self.folder.join("documents");
        let open = async |workers| {
            let opened = open_library(&folder, index.clone(), workers).await;
            opened.map_err(|why| (Violation::Damaged, format!("the library cannot be opened: {why}")))
        };
        let library = open(0).await?;
        check_before_work(&library, &index, promises, broken).await?;
        library.close().await;
        let library = open(1).await?;
        if tokio::time::timeout(READ_TIMEOUT, library.wait_until_idle()).await.is_err() {
            return Err((Violation::Stuck, format!("documents are not read: {:?}", library.list(&tenant()))));
        }
        check_after_work(&library, &index, promises, broken).await?;
        let searched = self.check_search(&library, &index, promises, broken).await;
        library.close().await;
        searched
    }

    /// What is found equals what an index finds that is built anew.
    async fn check_search(
        &self,
        library: &Library,
        index: &LocalIndex,
        promises: &LibraryPromises,
        broken: &mut ImageViolations,
    ) -> Result<(), Broken> {
        let failed = |error: doran_retrieval::RetrieveError| damaged("a search", &error);
        let fresh = open_index(&self.folder.join("built-anew")).await.map_err(failed)?;
        library.rebuild_index(&fresh).await.map_err(|error| damaged("the index cannot be built", &error))?;
        for index in [index, &fresh] {
            while index.embed_some().await.map_err(failed)? > 0 {}
        }
        let markers = promises.versions.values().flatten().map(|version| marker_word(*version));
        for words in markers.chain(COMMON_WORDS.map(str::to_owned)) {
            let (found, expected) =
                (search(index, &words).await.map_err(failed)?, search(&fresh, &words).await.map_err(failed)?);
            if found != expected {
                let what =
                    format!("`{words}` finds {found:?}, and {expected:?} in an index that is built anew");
                broken.push((Violation::Torn, what));
            }
        }
        Ok(())
    }
}

/// What stands in the files alone, before any document is read or indexed again.
async fn check_before_work(
    library: &Library,
    index: &LocalIndex,
    promises: &LibraryPromises,
    broken: &mut ImageViolations,
) -> Result<(), Broken> {
    let listed = listed_documents(library);
    for (name, allowed) in &promises.documents {
        match listed.get(name) {
            None if !allowed.contains(&None) => {
                broken.push((Violation::Lost, format!("{name} is gone, and {allowed:?} was acknowledged")));
            }
            Some(status) if *allowed == [None].into() => {
                broken.push((Violation::Lost, format!("{name} was removed and is {:?}", status.state)));
            }
            _ => {}
        }
    }
    for (name, status) in &listed {
        let indexed = index.document(&tenant(), &status.id).await;
        match indexed.map_err(|error| damaged("the index", &error))? {
            None if status.state == IngestState::Ready => {
                broken.push((Violation::Lost, format!("{name} is ready, and the index does not have it")));
            }
            Some(document) if !is_version(promises, name, &document.text) => {
                let what = format!("the index has {name} as no version: `{}`", document.text);
                broken.push((Violation::Torn, what));
            }
            _ => {}
        }
    }
    let indexed = index.list(&tenant(), &DocumentFilter::default()).await;
    for document in indexed.map_err(|error| damaged("the index", &error))? {
        if !listed.values().any(|status| status.id == document.id) {
            let what = format!("the index has {}, which the library does not have", document.title);
            broken.push((Violation::Lost, what));
        }
    }
    Ok(())
}

/// Once everything is read: the versions that were acknowledged, whole.
async fn check_after_work(
    library: &Library,
    index: &LocalIndex,
    promises: &LibraryPromises,
    broken: &mut ImageViolations,
) -> Result<(), Broken> {
    let listed = listed_documents(library);
    for (name, allowed) in &promises.documents {
        let Some(status) = listed.get(name) else {
            if !allowed.contains(&None) {
                broken.push((Violation::Lost, format!("{name} is gone after the library was opened")));
            }
            continue;
        };
        if status.state != IngestState::Ready {
            let what = format!("{name} is {:?}: {:?}", status.state, status.failure);
            broken.push((Violation::Stuck, what));
            continue;
        }
        let original = library.original(&tenant(), &status.id).await;
        let original = original.map_err(|error| damaged(name, &error))?.unwrap_or_default();
        let version = version_of(&original);
        if !allowed.contains(&version) {
            let what = format!("{name} has version {version:?}, and {allowed:?} was acknowledged");
            broken.push((Violation::Lost, what));
        }
        let expected = document_text(name, version.unwrap_or_default());
        let document = library.document(&tenant(), &status.id).await;
        let document = document.map_err(|error| damaged(name, &error))?.map(|document| document.text);
        let indexed = index.document(&tenant(), &status.id).await;
        let indexed = indexed.map_err(|error| damaged(name, &error))?.map(|document| document.text);
        for (what, text) in
            [("original", String::from_utf8(original).ok()), ("text", document), ("index", indexed)]
        {
            if text.as_ref() != Some(&expected) {
                broken.push((Violation::Torn, format!("the {what} of {name} is {text:?}")));
            }
        }
    }
    Ok(())
}

fn listed_documents(library: &Library) -> BTreeMap<String, DocumentStatus> {
    library.list(&tenant()).into_iter().map(|status| (status.name.clone(), status)).collect()
}

fn is_version(promises: &LibraryPromises, name: &str, text: &str) -> bool {
    let versions = promises.versions.get(name).into_iter().flatten();
    versions.into_iter().any(|version| document_text(name, *version) == text)
}

/// The hits with their scores in thousandths, in an order that equal scores do not change.
async fn search(
    index: &LocalIndex,
    words: &str,
) -> Result<Vec<(u64, String)>, doran_retrieval::RetrieveError> {
    let hits = index.retrieve(&SearchQuery::new(tenant(), words, HITS)).await?;
    let mut found: Vec<(u64, String)> = hits
        .iter()
        .map(|hit| ((hit.score * 1000.0).round() as u64, format!("{:?}", hit.passage.id)))
        .collect();
    found.sort_by(|left, right| right.cmp(left));
    Ok(found)
}
