//! Where documents are looked for: the store and the encoder that the settings name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use doran_llm::Embedder;
use doran_llm::embed::UniversalEmbedder;
use doran_retrieval::{Index, LocalIndex, OpenSearchIndex, RamKeyword, RetrieveError};
use tempfile::TempDir;

use crate::config::{Config, INSTALLED_ENCODER, SearchStore};
use crate::output::{Both, Output, both};
use crate::secret::Secret;

/// The name of the index in a cluster when the address names none.
const USUAL_NAME: &str = "doran";

/// Opens the index that the settings describe. One in the data directory whose words were cut by an older version is
/// made anew; one of another encoder is refused.
pub(crate) async fn index(config: &Config, notes: &mut Vec<Both>) -> anyhow::Result<Arc<dyn Index>> {
    let encoder = encoder(config)?;
    let opened: Result<Arc<dyn Index>, RetrieveError> = match &config.search.store {
        SearchStore::Memory => return Ok(Arc::new(RamKeyword::default())),
        SearchStore::Local => match LocalIndex::open(directory(config), encoder.clone()).await {
            Err(RetrieveError::Stale { reason }) => {
                notes.push(both!("색인을 다시 만들었습니다: {reason}", "the index was made anew: {reason}"));
                renewed(&directory(config), encoder).await.map(shared)
            }
            opened => opened.map(shared),
        },
        SearchStore::OpenSearch(address) => {
            let (address, name) = place(address.as_ref())?;
            OpenSearchIndex::open(&address, &name, encoder).await.map(shared)
        }
    };
    opened.map_err(|error| refused(error).into())
}

/// Makes the index anew beside the old one, and lets it take its place.
pub(crate) async fn anew(config: &Config, output: Output) -> anyhow::Result<Arc<dyn Index>> {
    let encoder = encoder(config)?;
    let made: Result<Arc<dyn Index>, RetrieveError> = match &config.search.store {
        SearchStore::Memory => {
            output.tell(&both!(
                "`memory` 저장소는 시작할 때마다 새로 만들므로 할 일이 없습니다",
                "the store `memory` is made anew at every start; there is nothing to do"
            ));
            return Ok(Arc::new(RamKeyword::default()));
        }
        SearchStore::Local => renewed(&directory(config), encoder).await.map(shared),
        SearchStore::OpenSearch(address) => {
            let (address, name) = place(address.as_ref())?;
            OpenSearchIndex::rebuild(&address, &name, encoder).await.map(shared)
        }
    };
    made.map_err(|error| refused(error).into())
}

/// An index of its own for one measurement, and what removes it again. Nobody can guess its name, and one that was left
/// behind is never taken up: what is in it would be measured too.
pub(crate) async fn scratch(config: &Config) -> anyhow::Result<Scratch> {
    let encoder = encoder(config)?;
    Ok(match &config.search.store {
        SearchStore::Memory => Scratch::Memory(RamKeyword::default()),
        SearchStore::Local => {
            let folder = tempfile::Builder::new().prefix("doran-eval-").tempdir()?;
            Scratch::Local(LocalIndex::open(folder.path(), encoder).await.map_err(refused)?, folder)
        }
        SearchStore::OpenSearch(address) => {
            let (address, _) = place(address.as_ref())?;
            let name = format!("doran-eval-{}", uuid::Uuid::new_v4().simple());
            Scratch::OpenSearch(OpenSearchIndex::make(&address, &name, encoder).await.map_err(refused)?)
        }
    })
}

/// An index that is there for one measurement.
pub(crate) enum Scratch {
    Memory(RamKeyword),
    Local(LocalIndex, TempDir),
    OpenSearch(OpenSearchIndex),
}

impl Scratch {
    pub(crate) fn index(&self) -> &dyn Index {
        match self {
            Self::Memory(index) => index,
            Self::Local(index, _) => index,
            Self::OpenSearch(index) => index,
        }
    }

    /// Removes it.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Local(index, folder) => {
                drop(index);
                Ok(folder.close()?)
            }
            Self::OpenSearch(index) => Ok(index.destroy().await?),
        }
    }
}

fn shared(index: impl Index) -> Arc<dyn Index> {
    Arc::new(index)
}

fn directory(config: &Config) -> PathBuf {
    config.data_dir.join("search")
}

/// From its own documents, or, where those cannot be read any more, empty.
async fn renewed(directory: &Path, encoder: Option<Arc<dyn Embedder>>) -> Result<LocalIndex, RetrieveError> {
    match LocalIndex::rebuild(directory, encoder.clone()).await {
        Err(RetrieveError::Stale { .. }) => LocalIndex::renew(directory, encoder).await,
        rebuilt => rebuilt,
    }
}

/// The encoder that the settings name.
fn encoder(config: &Config) -> Result<Option<Arc<dyn Embedder>>, Both> {
    let Some(folder) = &config.search.encoder else { return Ok(None) };
    if config.search.store == SearchStore::Memory {
        return Err(both!(
            "`memory` 저장소는 낱말로만 찾습니다. `store`를 `local`로 바꾸거나 `encoder`를 `none`으로 두세요",
            "the store `memory` finds by words alone; set `store` to `local`, or `encoder` to `none`"
        ));
    }
    // A folder with this file is a sentence transformer as such are published; the encoder of ours has none.
    if folder.join("config.json").is_file() {
        return transformer(folder).map(Some);
    }
    let opened = UniversalEmbedder::open(folder).map_err(|error| {
        let shown = folder.display();
        both!(
            "`{shown}`의 문장 인코더를 열 수 없습니다. `doran models install {INSTALLED_ENCODER}`로 설치하고 `encoder`를 `{INSTALLED_ENCODER}`로 두거나, `none`으로 두세요",
            "the sentence encoder in `{shown}` cannot be opened; install it with `doran models install {INSTALLED_ENCODER}` and set `encoder` to `{INSTALLED_ENCODER}`, or set it to `none`"
        )
        .because(error)
    })?;
    Ok(Some(Arc::new(opened)))
}

/// A sentence transformer in a folder of one's own.
#[cfg(feature = "sentence-transformer")]
fn transformer(folder: &Path) -> Result<Arc<dyn Embedder>, Both> {
    let shown = folder.display();
    let opened = doran_llm::embed::SentenceTransformer::open(folder).map_err(|error| {
        both!(
            "`{shown}`의 문장 인코더를 열 수 없습니다. BERT와 WordPiece로 된 것만 읽습니다",
            "the sentence encoder in `{shown}` cannot be opened; BERT encoders with WordPiece are read"
        )
        .because(error)
    })?;
    Ok(Arc::new(opened))
}

#[cfg(not(feature = "sentence-transformer"))]
fn transformer(folder: &Path) -> Result<Arc<dyn Embedder>, Both> {
    let shown = folder.display();
    Err(both!(
        "`{shown}`은(는) sentence transformer입니다. 그것을 읽으려면 `--features sentence-transformer`로 빌드한 doran이 필요합니다",
        "`{shown}` is a sentence transformer; a doran built with `--features sentence-transformer` reads it"
    ))
}

/// The address of the cluster, and the name of the index in it.
fn place(address: Option<&Secret>) -> Result<(String, String), Both> {
    let address = address.ok_or_else(|| {
        both!(
            "OpenSearch의 주소가 없습니다. `opensearch = \"https://host:9200\"`처럼 적으세요",
            "the address of OpenSearch is missing; write it as `opensearch = \"https://host:9200\"`"
        )
    })?;
    let text = address.reveal().trim_end_matches('/');
    let host = text.find("://").map_or(0, |at| at + 3);
    Ok(match text[host..].find('/') {
        Some(at) => (text[..host + at].to_owned(), text[host + at + 1..].to_owned()),
        None => (text.to_owned(), USUAL_NAME.to_owned()),
    })
}

/// What a person reads when an index cannot be used.
fn refused(error: RetrieveError) -> Both {
    match &error {
        RetrieveError::OtherEmbedder { made, wanted } => both!(
            "색인을 만든 인코더는 {made}, 설정된 인코더는 {wanted}입니다. `encoder`를 되돌리거나 `doran reindex`로 색인을 다시 만드세요",
            "the index was made with {made}, and the settings say {wanted}; set `encoder` back, or make the index anew with `doran reindex`"
        ),
        RetrieveError::Stale { .. } => both!(
            "색인을 이대로 쓸 수 없습니다. `doran reindex`로 다시 만드세요",
            "the index cannot be used as it is; make it anew with `doran reindex`"
        )
        .because(error),
        RetrieveError::Unavailable { .. } => both!(
            "색인을 열 수 없습니다. `store`와 `opensearch` 설정을 보세요",
            "the index cannot be opened; see the settings `store` and `opensearch`"
        )
        .because(error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use doran_retrieval::{Document, Filter, Tenant, split};

    use super::*;
    use crate::config;
    use crate::environment::Environment;

    #[tokio::test]
    async fn every_measurement_has_an_index_of_its_own() {
        let environment = Environment::of("/nowhere", &[("HOME", "/nowhere")]);
        let config = config::load(&BTreeMap::new(), None, &environment).expect("settings").config;
        let (tenant, document) = (Tenant::new("eval"), Document::new("d", "t", "사과 하나."));
        let first = scratch(&config).await.expect("an index");
        first.index().put(&tenant, &document, &split(&document)).await.expect("put");
        let second = scratch(&config).await.expect("another");
        assert!(second.index().list(&tenant, &Filter::default()).await.expect("listed").is_empty());
        let folders = [&first, &second].map(|scratch| match scratch {
            Scratch::Local(_, folder) => folder.path().to_owned(),
            Scratch::Memory(_) | Scratch::OpenSearch(_) => panic!("the usual store is a folder"),
        });
        assert!(folders.iter().all(|folder| folder.is_dir()));
        first.end().await.expect("removed");
        drop(second);
        assert!(folders.iter().all(|folder| !folder.exists()), "also after a failure");
    }

    #[test]
    fn the_path_of_a_cluster_names_the_index() {
        for (address, expected) in [
            ("http://127.0.0.1:9200", ("http://127.0.0.1:9200", "doran")),
            ("http://127.0.0.1:9200/", ("http://127.0.0.1:9200", "doran")),
            ("https://u:p@h:9200/team", ("https://u:p@h:9200", "team")),
        ] {
            let (host, name) = place(Some(&Secret::new(address))).expect("an address");
            assert_eq!((host.as_str(), name.as_str()), expected);
        }
        assert!(place(None).is_err());
    }
}
