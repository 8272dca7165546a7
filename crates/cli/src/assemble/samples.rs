//! The sample documents. They are searchable only while there are no other documents, in every process. A sample that
//! was cited stays readable, because its text is compiled in.

use std::sync::Arc;
use std::time::Duration;

use doran_agents::samples::{files, is_sample as is_sample_id};
use doran_engine::TenantId;
use doran_retrieval::{
    Document, DocumentFilter, DocumentIndex, DocumentStatus, DocumentSummary, IngestState, Library,
};
use tokio_util::sync::CancellationToken;

use crate::output::{BilingualMessage, bilingual};

/// The shortest time between two updates while the library changes.
const SAMPLE_UPDATE_INTERVAL: Duration = Duration::from_millis(200);

/// What happened to the sample documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SamplesChange {
    Shown,
    Hidden,
}

impl SamplesChange {
    /// The message for the user.
    pub(crate) fn message(self) -> BilingualMessage {
        match self {
            Self::Shown => bilingual!(
                "찾을 수 있는 문서가 없어 다시 예시 문서에서 답합니다",
                "there is no document left to search; answers come from the sample documents again"
            ),
            Self::Hidden => bilingual!(
                "이제 넣은 문서에서만 답합니다. 예시 문서는 더 찾지 않습니다",
                "answers come from your documents alone from now on; the sample documents are not searched any more"
            ),
        }
    }
}

/// All sample documents.
pub(crate) fn sample_documents() -> Vec<Document> {
    [doran_agents::samples::rule_books(), doran_agents::samples::contracts()].concat()
}

/// Adds the samples to an index, whatever else it contains.
pub(crate) async fn add_samples(index: &dyn DocumentIndex) -> anyhow::Result<()> {
    for document in sample_documents() {
        index.put(&samples_tenant(), &document, &doran_retrieval::split_into_passages(&document)).await?;
    }
    Ok(())
}

/// Removes the samples from a persistent index. Returns whether it had any.
pub(crate) async fn remove_samples(index: &dyn DocumentIndex) -> anyhow::Result<bool> {
    let all = sample_documents();
    let there = index.list(&samples_tenant(), &DocumentFilter::default()).await?;
    let mut had = false;
    for listed in there.iter().filter(|listed| is_sample(&all, listed)) {
        index.remove(&samples_tenant(), &listed.id).await?;
        had = true;
    }
    Ok(had)
}

/// Removes samples that were ingested as files of the user. Earlier versions of `doran demo` did that. Returns how many
/// there were.
pub(crate) async fn remove_ingested_samples(library: &Library) -> anyhow::Result<usize> {
    let mut removed = 0;
    for status in library.list(&samples_tenant()) {
        let Some(file) = files().into_iter().find(|file| file.name == status.name) else { continue };
        let is_unchanged = is_sample_id(status.id.as_str())
            && library.original(&samples_tenant(), &status.id).await?.as_deref() == Some(file.bytes);
        if is_unchanged {
            library.remove(&samples_tenant(), &status.id).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes the samples of `doran demo`, from the library and from the index, as soon as another document is searchable.
pub(crate) async fn remove_samples_beside_own_documents(index: Arc<dyn DocumentIndex>, library: Library) {
    let mut changes = library.watch();
    loop {
        let is_own =
            |status: &DocumentStatus| status.state == IngestState::Ready && !is_sample_id(status.id.as_str());
        if library.list(&samples_tenant()).iter().any(is_own) {
            let removed = async {
                remove_ingested_samples(&library).await?;
                remove_samples(index.as_ref()).await
            };
            match removed.await {
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot remove the sample documents; trying again after the next change");
                }
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Updates the index: adds the samples if there are no other documents, and removes them otherwise.
pub(crate) async fn update_samples(index: &dyn DocumentIndex) -> anyhow::Result<Option<SamplesChange>> {
    let all = sample_documents();
    let there = index.list(&samples_tenant(), &DocumentFilter::default()).await?;
    if there.iter().any(|listed| !is_sample(&all, listed)) {
        return Ok(remove_samples(index).await?.then_some(SamplesChange::Hidden));
    }
    let missing: Vec<_> = all
        .iter()
        .map(|document| (document.clone(), doran_retrieval::split_into_passages(document)))
        .filter(|(document, passages)| {
            !there.contains(&DocumentSummary::from_document(document, passages.len()))
        })
        .collect();
    index.put_all(&samples_tenant(), &missing).await?;
    Ok((!missing.is_empty()).then_some(SamplesChange::Shown))
}

/// Updates the index after every change of the library, until `stop`.
pub(crate) async fn keep_samples_updated(
    index: Arc<dyn DocumentIndex>,
    library: Library,
    stop: CancellationToken,
) {
    let mut changes = library.watch();
    loop {
        match update_samples(index.as_ref()).await {
            Ok(Some(turn)) => tracing::info!(?turn, "sample documents updated"),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot add or remove the sample documents; trying again after the next change");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(SAMPLE_UPDATE_INTERVAL) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

fn is_sample(all: &[Document], listed: &DocumentSummary) -> bool {
    all.iter().any(|sample| sample.id == listed.id)
}

/// The tenant of the samples: the local one, which needs no API key.
fn samples_tenant() -> doran_retrieval::DocumentTenant {
    doran_retrieval::DocumentTenant::new(TenantId::local().as_str())
}

#[cfg(test)]
mod tests {
    use doran_retrieval::{RamKeywordIndex, split_into_passages};

    use super::*;

    #[tokio::test]
    async fn samples_are_searched_exactly_while_nothing_else_can_be_found() {
        let index = RamKeywordIndex::default();
        let count =
            async || index.list(&samples_tenant(), &DocumentFilter::default()).await.expect("listed").len();
        assert_eq!(update_samples(&index).await.expect("settled"), Some(SamplesChange::Shown));
        assert_eq!(count().await, sample_documents().len());
        assert_eq!(update_samples(&index).await.expect("settled"), None, "nothing changed");
        let own = Document::new("own", "점심", "점심시간은 12시부터이다.");
        index.put(&samples_tenant(), &own, &split_into_passages(&own)).await.expect("put");
        assert_eq!(update_samples(&index).await.expect("settled"), Some(SamplesChange::Hidden));
        assert_eq!(count().await, 1);
        assert_eq!(update_samples(&index).await.expect("settled"), None);
        index.remove(&samples_tenant(), &own.id).await.expect("removed");
        assert_eq!(update_samples(&index).await.expect("settled"), Some(SamplesChange::Shown));
        assert!(
            remove_samples(&index).await.expect("hidden") && !remove_samples(&index).await.expect("hidden")
        );
        assert_eq!(count().await, 0);
    }
}
