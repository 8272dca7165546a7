//! The sample documents: searched exactly while nothing else can be found, whichever process looks and however it began.
//! What a person once saw cited stays readable, because the program itself holds the texts.

use std::sync::Arc;
use std::time::Duration;

use doran_engine::Tenant;
use doran_retrieval::{Document, Filter, Index, Library, Listed};
use tokio_util::sync::CancellationToken;

use crate::output::{Both, both};

/// How often changes are looked at while there are many.
const PAUSE: Duration = Duration::from_millis(200);

/// What became of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Shown,
    Hidden,
}

impl Turn {
    /// What to tell about it.
    pub(crate) fn told(self) -> Both {
        match self {
            Self::Shown => both!(
                "찾을 수 있는 문서가 없어 다시 본보기 문서에서 답합니다",
                "there is no document left to search; answers come from the sample documents again"
            ),
            Self::Hidden => both!(
                "이제 넣은 문서에서만 답합니다. 본보기 문서는 더 찾지 않습니다",
                "answers come from your documents alone from now on; the sample documents are not searched any more"
            ),
        }
    }
}

/// All of them.
pub(crate) fn all() -> Vec<Document> {
    [doran_agents::samples::all(), doran_agents::samples::contracts()].concat()
}

/// Puts them into an index, whatever else is there.
pub(crate) async fn add(index: &dyn Index) -> anyhow::Result<()> {
    for document in all() {
        index.put(&tenant(), &document, &doran_retrieval::split(&document)).await?;
    }
    Ok(())
}

/// Takes them out of an index that lasts and may still have them; whether it had any.
pub(crate) async fn hide(index: &dyn Index) -> anyhow::Result<bool> {
    let all = all();
    let there = index.list(&tenant(), &Filter::default()).await?;
    let mut had = false;
    for listed in there.iter().filter(|listed| is_among(&all, listed)) {
        index.remove(&tenant(), &listed.id).await?;
        had = true;
    }
    Ok(had)
}

/// Brings the index to where it has to be: with the samples while there is nothing else, and without them otherwise.
pub(crate) async fn settle(index: &dyn Index) -> anyhow::Result<Option<Turn>> {
    let all = all();
    let there = index.list(&tenant(), &Filter::default()).await?;
    if there.iter().any(|listed| !is_among(&all, listed)) {
        return Ok(hide(index).await?.then_some(Turn::Hidden));
    }
    let missing: Vec<_> = all
        .iter()
        .map(|document| (document.clone(), doran_retrieval::split(document)))
        .filter(|(document, passages)| !there.contains(&Listed::of(document, passages.len())))
        .collect();
    index.put_all(&tenant(), &missing).await?;
    Ok((!missing.is_empty()).then_some(Turn::Shown))
}

/// Settles after every change of the library, until `stop`.
pub(crate) async fn follow(index: Arc<dyn Index>, library: Library, stop: CancellationToken) {
    let mut changes = library.watch();
    loop {
        match settle(index.as_ref()).await {
            Ok(Some(turn)) => tracing::info!(?turn, "the samples"),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the samples stay as they are"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

fn is_among(all: &[Document], listed: &Listed) -> bool {
    all.iter().any(|sample| sample.id == listed.id)
}

/// Whose they are: those of this machine, who needs no key.
fn tenant() -> doran_retrieval::Tenant {
    doran_retrieval::Tenant::new(Tenant::local().as_str())
}

#[cfg(test)]
mod tests {
    use doran_retrieval::{RamKeyword, split};

    use super::*;

    #[tokio::test]
    async fn samples_are_searched_exactly_while_nothing_else_can_be_found() {
        let index = RamKeyword::default();
        let count = async || index.list(&tenant(), &Filter::default()).await.expect("listed").len();
        assert_eq!(settle(&index).await.expect("settled"), Some(Turn::Shown));
        assert_eq!(count().await, all().len());
        assert_eq!(settle(&index).await.expect("settled"), None, "nothing changed");
        let own = Document::new("own", "점심", "점심시간은 12시부터이다.");
        index.put(&tenant(), &own, &split(&own)).await.expect("put");
        assert_eq!(settle(&index).await.expect("settled"), Some(Turn::Hidden));
        assert_eq!(count().await, 1);
        assert_eq!(settle(&index).await.expect("settled"), None);
        index.remove(&tenant(), &own.id).await.expect("removed");
        assert_eq!(settle(&index).await.expect("settled"), Some(Turn::Shown));
        assert!(hide(&index).await.expect("hidden") && !hide(&index).await.expect("hidden"));
        assert_eq!(count().await, 0);
    }
}
