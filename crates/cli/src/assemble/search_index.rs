//! Opens the search index and the encoder chosen in the settings.

use std::path::Path;
use std::sync::Arc;

use doran_agents::FairIndex;
use doran_llm::Embedder;
use doran_llm::embed::UniversalEmbedder;
use doran_llm::{HttpEmbedder, ModelRetryPolicy};
use doran_retrieval::{
    BuiltInEncoder, DocumentIndex, LocalIndex, OpenSearchIndex, RamKeywordIndex, RetrieveError,
};
use tempfile::TempDir;

use super::model::{model_config_and_key, with_cause_and_advice};
use crate::config::{Config, EncoderChoice, INSTALLED_ENCODER, SearchStore};
use crate::output::{BilingualMessage, TerminalOutput, bilingual};
use crate::secret::SecretText;

/// The index name in a cluster if the URL names none.
const DEFAULT_OPENSEARCH_INDEX: &str = "doran";

/// Opens the index that the settings describe. A local index made by an older text analyser is rebuilt. The vectors of
/// another encoder in a local index are computed again later. An OpenSearch index made by another encoder is rejected;
/// one without vectors is searched by keywords.
pub(crate) async fn open_index(
    config: &Config,
    notes: &mut Vec<BilingualMessage>,
) -> anyhow::Result<OpenedIndex> {
    let encoder = open_encoder(config).await?;
    let mut index = open_index_with(config, encoder.clone(), notes).await?;
    if !matches!(config.search.store, SearchStore::OpenSearch(_))
        && !matches!(config.search.encoder, EncoderChoice::Endpoint(_))
    {
        index = Arc::new(FairIndex::new(index));
    }
    Ok(OpenedIndex { index, encoder })
}

/// An index, and the encoder that its vectors are of.
pub(crate) struct OpenedIndex {
    pub(crate) index: Arc<dyn DocumentIndex>,
    pub(crate) encoder: Option<Arc<dyn Embedder>>,
}

async fn open_index_with(
    config: &Config,
    encoder: Option<Arc<dyn Embedder>>,
    notes: &mut Vec<BilingualMessage>,
) -> anyhow::Result<Arc<dyn DocumentIndex>> {
    let opened: Result<Arc<dyn DocumentIndex>, RetrieveError> = match &config.search.store {
        SearchStore::Memory => return Ok(Arc::new(RamKeywordIndex::default())),
        SearchStore::Local(directory) => match LocalIndex::open(directory, encoder.clone()).await {
            Err(RetrieveError::Stale { reason }) => {
                notes.push(bilingual!(
                    "색인을 다시 만들었습니다: {reason}",
                    "the index was made anew: {reason}"
                ));
                rebuild_or_recreate_index(directory, encoder).await.map(into_arc_index)
            }
            opened => opened.map(into_arc_index),
        },
        SearchStore::OpenSearch(address) => {
            let (address, name) = opensearch_address_and_index(address.as_ref())?;
            let index = OpenSearchIndex::open(&address, &name, encoder.clone()).await;
            if index.as_ref().is_ok_and(|index| index.embedder().is_none()) && encoder.is_some() {
                notes.push(bilingual!(
                    "OpenSearch 색인에 벡터가 없어 키워드로만 검색합니다. `doran reindex`로 벡터를 추가하세요",
                    "the OpenSearch index has no vectors and is searched by keywords; add them with `doran reindex`"
                ));
            }
            index.map(into_arc_index)
        }
    };
    opened.map_err(|error| index_error_message(error).into())
}

/// Rebuilds the index next to the old one, then replaces the old one.
pub(crate) async fn rebuild_index(
    config: &Config,
    output: TerminalOutput,
) -> anyhow::Result<Arc<dyn DocumentIndex>> {
    let encoder = open_encoder(config).await?;
    let made: Result<Arc<dyn DocumentIndex>, RetrieveError> = match &config.search.store {
        SearchStore::Memory => {
            output.print_message(&bilingual!(
                "`memory` 저장소는 시작할 때마다 새로 만들므로 할 일이 없습니다",
                "the store `memory` is made anew at every start; there is nothing to do"
            ));
            return Ok(Arc::new(RamKeywordIndex::default()));
        }
        SearchStore::Local(directory) => {
            rebuild_or_recreate_index(directory, encoder).await.map(into_arc_index)
        }
        SearchStore::OpenSearch(address) => {
            let (address, name) = opensearch_address_and_index(address.as_ref())?;
            OpenSearchIndex::rebuild(&address, &name, encoder).await.map(into_arc_index)
        }
    };
    made.map_err(|error| index_error_message(error).into())
}

/// Creates a temporary index for one evaluation. Its name is random, and a leftover index is never reused, because
/// its content would affect the result.
pub(crate) async fn open_evaluation_index(config: &Config) -> anyhow::Result<EvaluationIndex> {
    let encoder = open_encoder(config).await?;
    Ok(match &config.search.store {
        SearchStore::Memory => EvaluationIndex::Memory(RamKeywordIndex::default()),
        SearchStore::Local(_) => {
            let folder = tempfile::Builder::new().prefix("doran-eval-").tempdir()?;
            EvaluationIndex::Local(
                Box::new(LocalIndex::open(folder.path(), encoder).await.map_err(index_error_message)?),
                folder,
            )
        }
        SearchStore::OpenSearch(address) => {
            let (address, _) = opensearch_address_and_index(address.as_ref())?;
            let name = format!("doran-eval-{}", uuid::Uuid::new_v4().simple());
            EvaluationIndex::OpenSearch(
                OpenSearchIndex::create_new(&address, &name, encoder).await.map_err(index_error_message)?,
            )
        }
    })
}

/// Creates a local index with the configured encoder in a temporary folder, which is removed when it is dropped.
pub(crate) async fn open_temporary_index(
    config: &Config,
) -> anyhow::Result<(Arc<dyn DocumentIndex>, TempDir)> {
    let folder = tempfile::Builder::new().prefix("doran-eval-").tempdir()?;
    let encoder = open_encoder(config).await?;
    let index = LocalIndex::open(folder.path(), encoder).await.map_err(index_error_message)?;
    Ok((into_arc_index(index), folder))
}

/// A temporary index for one evaluation.
pub(crate) enum EvaluationIndex {
    Memory(RamKeywordIndex),
    Local(Box<LocalIndex>, TempDir),
    OpenSearch(OpenSearchIndex),
}

impl EvaluationIndex {
    pub(crate) fn index(&self) -> &dyn DocumentIndex {
        match self {
            Self::Memory(index) => index,
            Self::Local(index, _) => index.as_ref(),
            Self::OpenSearch(index) => index,
        }
    }

    /// Removes the index.
    pub(crate) async fn remove(self) -> anyhow::Result<()> {
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

/// Checks that the OpenSearch cluster of the settings answers.
pub(crate) async fn check_opensearch(config: &Config) -> anyhow::Result<()> {
    let SearchStore::OpenSearch(address) = &config.search.store else { return Ok(()) };
    let (address, _) = opensearch_address_and_index(address.as_ref())?;
    Ok(OpenSearchIndex::ping(&address).await.map_err(index_error_message)?)
}

fn into_arc_index(index: impl DocumentIndex) -> Arc<dyn DocumentIndex> {
    Arc::new(index)
}

/// Rebuilds the index from its own documents. If they can no longer be read, creates an empty one.
async fn rebuild_or_recreate_index(
    directory: &Path,
    encoder: Option<Arc<dyn Embedder>>,
) -> Result<LocalIndex, RetrieveError> {
    match LocalIndex::rebuild(directory, encoder.clone()).await {
        Err(RetrieveError::Stale { .. }) => LocalIndex::reset(directory, encoder).await,
        rebuilt => rebuilt,
    }
}

/// Opens the encoder named in the settings.
async fn open_encoder(config: &Config) -> Result<Option<Arc<dyn Embedder>>, BilingualMessage> {
    let choice = &config.search.encoder;
    if config.search.store == SearchStore::Memory {
        return match choice {
            // The default. This store has no use for it.
            EncoderChoice::Off | EncoderChoice::BuiltIn => Ok(None),
            EncoderChoice::Directory(_) | EncoderChoice::Endpoint(_) => Err(bilingual!(
                "`memory` 저장소는 키워드로만 검색합니다. `store`를 `local`로 바꾸거나 `encoder`를 `none`으로 두세요",
                "the store `memory` searches by keywords only; set `store` to `local`, or `encoder` to `none`"
            )),
        };
    }
    match choice {
        EncoderChoice::Off => Ok(None),
        EncoderChoice::BuiltIn => {
            let encoder = BuiltInEncoder::open().map_err(|error| {
                bilingual!(
                    "내장 인코더를 읽을 수 없습니다. Doran을 다시 설치하거나 `encoder`를 `none`으로 두세요",
                    "the built-in encoder cannot be read; install Doran again, or set `encoder` to `none`"
                )
                .with_cause(error)
            })?;
            Ok(Some(Arc::new(encoder)))
        }
        EncoderChoice::Directory(folder) => open_encoder_directory(folder).map(Some),
        EncoderChoice::Endpoint(name) => {
            let (how, key) = model_config_and_key(config, name)?;
            let opened = HttpEmbedder::open(&how, key, ModelRetryPolicy::default()).await;
            let encoder = opened.map_err(|error| {
                let failed =
                    bilingual!("인코더 `{name}`을(를) 열 수 없습니다", "cannot open the encoder `{name}`");
                with_cause_and_advice(failed, error)
            })?;
            Ok(Some(Arc::new(encoder)))
        }
    }
}

fn open_encoder_directory(folder: &Path) -> Result<Arc<dyn Embedder>, BilingualMessage> {
    // A published sentence transformer has this file. The universal encoder does not.
    if folder.join("config.json").is_file() {
        return transformer(folder);
    }
    let opened = UniversalEmbedder::open(folder).map_err(|error| {
        let shown = folder.display();
        bilingual!(
            "`{shown}`의 문장 인코더를 열 수 없습니다. `doran models install {INSTALLED_ENCODER}`로 설치하고 `encoder`를 `{INSTALLED_ENCODER}`로 두거나, `built-in`으로 두세요",
            "the sentence encoder in `{shown}` cannot be opened; install it with `doran models install {INSTALLED_ENCODER}` and set `encoder` to `{INSTALLED_ENCODER}`, or set it to `built-in`"
        )
        .with_cause(error)
    })?;
    Ok(Arc::new(opened))
}

/// Opens a sentence transformer from a directory.
#[cfg(feature = "sentence-transformer")]
fn transformer(folder: &Path) -> Result<Arc<dyn Embedder>, BilingualMessage> {
    let shown = folder.display();
    let opened = doran_llm::embed::SentenceTransformer::open(folder).map_err(|error| {
        bilingual!(
            "`{shown}`의 문장 인코더를 열 수 없습니다. BERT와 WordPiece로 된 것만 읽습니다",
            "the sentence encoder in `{shown}` cannot be opened; BERT encoders with WordPiece are read"
        )
        .with_cause(error)
    })?;
    Ok(Arc::new(opened))
}

#[cfg(not(feature = "sentence-transformer"))]
fn transformer(folder: &Path) -> Result<Arc<dyn Embedder>, BilingualMessage> {
    let shown = folder.display();
    Err(bilingual!(
        "`{shown}`은(는) sentence transformer입니다. 그것을 읽으려면 `--features sentence-transformer`로 빌드한 doran이 필요합니다",
        "`{shown}` is a sentence transformer; a doran built with `--features sentence-transformer` reads it"
    ))
}

/// The base URL of the cluster and the index name.
fn opensearch_address_and_index(address: Option<&SecretText>) -> Result<(String, String), BilingualMessage> {
    let address = address.ok_or_else(|| {
        bilingual!(
            "OpenSearch의 주소가 없습니다. `opensearch = \"https://host:9200\"`처럼 적으세요",
            "the address of OpenSearch is missing; write it as `opensearch = \"https://host:9200\"`"
        )
    })?;
    let text = address.reveal().trim_end_matches('/');
    let host = text.find("://").map_or(0, |at| at + 3);
    Ok(match text[host..].find('/') {
        Some(at) => (text[..host + at].to_owned(), text[host + at + 1..].to_owned()),
        None => (text.to_owned(), DEFAULT_OPENSEARCH_INDEX.to_owned()),
    })
}

/// The message for the user if an index cannot be used.
fn index_error_message(error: RetrieveError) -> BilingualMessage {
    match &error {
        RetrieveError::OtherEmbedder { made, wanted } => bilingual!(
            "색인을 만든 인코더는 {made}, 설정된 인코더는 {wanted}입니다. `encoder`를 되돌리거나 `doran reindex`로 색인을 다시 만드세요",
            "the index was made with {made}, and the settings say {wanted}; set `encoder` back, or make the index anew with `doran reindex`"
        ),
        RetrieveError::Stale { .. } => bilingual!(
            "색인을 이대로 쓸 수 없습니다. `doran reindex`로 다시 만드세요",
            "the index cannot be used as it is; make it anew with `doran reindex`"
        )
        .with_cause(error),
        RetrieveError::NameTaken { index, foreign } => bilingual!(
            "OpenSearch에 이름이 `{index}`인 색인이 있어 같은 이름의 별칭을 만들 수 없습니다. 그 안의 항목 {foreign}개는 Doran의 것이 아닙니다. 필요 없으면 OpenSearch에 `DELETE /{index}`를 보내 지우고, 필요하면 `opensearch = \"https://host:9200/이름\"`처럼 다른 이름을 정하세요",
            "OpenSearch has an index called `{index}`, so the alias of that name cannot be made; {foreign} entries in it are not Doran's. If nobody needs it, send `DELETE /{index}` to OpenSearch; otherwise choose another name, such as `opensearch = \"https://host:9200/NAME\"`"
        ),
        RetrieveError::Unavailable { .. } | RetrieveError::Missing { .. } => bilingual!(
            "색인을 열 수 없습니다. `store`와 `opensearch` 설정을 보세요",
            "the index cannot be opened; see the settings `store` and `opensearch`"
        )
        .with_cause(error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use doran_retrieval::{Document, DocumentFilter, DocumentTenant, split_into_passages};

    use super::*;
    use crate::config;
    use crate::environment::Environment;

    #[tokio::test]
    async fn every_measurement_has_an_index_of_its_own() {
        let environment = Environment::for_test("/nowhere", &[("HOME", "/nowhere")]);
        let config = config::load(&BTreeMap::new(), None, &environment).expect("settings").config;
        let (tenant, document) = (DocumentTenant::new("eval"), Document::new("d", "t", "사과 하나."));
        let first = open_evaluation_index(&config).await.expect("an index");
        first.index().put(&tenant, &document, &split_into_passages(&document)).await.expect("put");
        let second = open_evaluation_index(&config).await.expect("another");
        assert!(second.index().list(&tenant, &DocumentFilter::default()).await.expect("listed").is_empty());
        let folders = [&first, &second].map(|scratch| match scratch {
            EvaluationIndex::Local(_, folder) => folder.path().to_owned(),
            EvaluationIndex::Memory(_) | EvaluationIndex::OpenSearch(_) => {
                panic!("the usual store is a folder")
            }
        });
        assert!(folders.iter().all(|folder| folder.is_dir()));
        first.remove().await.expect("removed");
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
            let (host, name) =
                opensearch_address_and_index(Some(&SecretText::new(address))).expect("an address");
            assert_eq!((host.as_str(), name.as_str()), expected);
        }
        assert!(opensearch_address_and_index(None).is_err());
    }
}
