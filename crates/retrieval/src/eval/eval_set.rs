//! An evaluation set of passages and queries, read from two JSON Lines files, and the evaluation of a retriever on it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::keyword::find_article_numbers;
use crate::passage::{ArticleNumber, Document, DocumentId, DocumentTenant, Passage, PassageId};
use crate::retriever::{DocumentFilter, DocumentIndex, RetrieveError, Retriever, SearchQuery};

use super::ranking_metrics::{RankingMetrics, compute_ranking_metrics};

/// The number of hits that are retrieved for each query: the depth of MRR.
const RETRIEVED_PASSAGES: usize = 100;
/// The number of documents that are stored in one call.
const DOCUMENTS_PER_BATCH: usize = 256;

/// Why a set could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RetrievalEvalSetError {
    /// A file cannot be read.
    #[error("`{path}` cannot be read")]
    Unreadable {
        /// Which file.
        path: String,
        /// The underlying error.
        #[source]
        source: std::io::Error,
    },
    /// A line is not valid.
    #[error("line {line} of `{path}` is not a line of such a file")]
    Malformed {
        /// Which file.
        path: String,
        /// Which line, from 1.
        line: usize,
        /// The underlying error.
        #[source]
        source: serde_json::Error,
    },
}

/// A query with the passages that answer it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetrievalEvalQuery {
    /// Its identifier.
    pub id: String,
    /// The text of the query.
    pub text: String,
    /// The names of the relevant passages.
    pub relevant: BTreeSet<String>,
    /// If set, only passages of this document are searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The type of the query, by which results are grouped.
    #[serde(default, rename = "type")]
    pub sort: String,
}

#[derive(Deserialize)]
struct EvalPassageRecord {
    id: String,
    #[serde(default)]
    title: String,
    text: String,
    #[serde(default)]
    doc: Option<String>,
    #[serde(default)]
    article: Option<String>,
}

/// Passages and questions.
#[derive(Debug, Default)]
pub struct RetrievalEvalSet {
    /// The documents with their passages.
    pub documents: Vec<(Document, Vec<Passage>)>,
    /// The questions.
    pub queries: Vec<RetrievalEvalQuery>,
    /// The name of each passage in the set.
    passage_names: BTreeMap<PassageId, String>,
}

/// The results of a retriever on a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RetrievalEvalReport {
    /// The number of queries.
    pub queries: usize,
    /// The metrics over all queries.
    #[serde(flatten)]
    pub all: RankingMetrics,
    /// The metrics by type of query.
    pub types: BTreeMap<String, RankingMetrics>,
}

impl RetrievalEvalSet {
    /// Reads a set from its two files.
    pub fn read(passages: &Path, queries: &Path) -> Result<Self, RetrievalEvalSetError> {
        let lines: Vec<EvalPassageRecord> = read_lines(passages)?;
        let mut set = Self { queries: read_lines(queries)?, ..Self::default() };
        let mut by_document: BTreeMap<String, Vec<EvalPassageRecord>> = BTreeMap::new();
        for line in lines {
            by_document.entry(line.doc.clone().unwrap_or_else(|| line.id.clone())).or_default().push(line);
        }
        for (name, lines) in by_document {
            set.add_document(name, lines);
        }
        Ok(set)
    }

    fn add_document(&mut self, name: String, lines: Vec<EvalPassageRecord>) {
        let title = common_title(&lines);
        let mut document = Document::new(name, title, String::new());
        let mut passages = Vec::new();
        for line in lines {
            let start = document.text.len();
            document.text.push_str(&line.text);
            let range = start..document.text.len();
            document.text.push_str("\n\n");
            let id = PassageId::from_start(&document.id, start);
            self.passage_names.insert(id.clone(), line.id);
            passages.push(Passage {
                id,
                document: document.id.clone(),
                title: line.title,
                text: line.text,
                range,
                article: line.article.as_deref().and_then(parse_article_number),
                ..Passage::default()
            });
        }
        self.documents.push((document, passages));
    }

    /// Stores all documents in an index and computes their vectors.
    pub async fn fill_index(
        &self,
        index: &dyn DocumentIndex,
        tenant: &DocumentTenant,
    ) -> Result<(), RetrieveError> {
        for some in self.documents.chunks(DOCUMENTS_PER_BATCH) {
            index.put_all(tenant, some).await?;
        }
        while index.embed_some().await? > 0 {}
        Ok(())
    }

    /// Returns the names of the passages that a retriever finds for a query, best first.
    pub(crate) async fn retrieve_passage_names(
        &self,
        retriever: &dyn Retriever,
        tenant: &DocumentTenant,
        query: &RetrievalEvalQuery,
    ) -> Result<Vec<&str>, RetrieveError> {
        let documents = query.scope.iter().map(DocumentId::new).collect();
        let filter = DocumentFilter { documents, ..DocumentFilter::default() };
        let question = SearchQuery {
            filter,
            ..SearchQuery::new(tenant.clone(), query.text.clone(), RETRIEVED_PASSAGES)
        };
        let hits = retriever.retrieve(&question).await?;
        Ok(hits
            .iter()
            .filter_map(|hit| self.passage_names.get(&hit.passage.id).map(String::as_str))
            .collect())
    }

    /// Runs every query and computes the metrics.
    pub async fn evaluate(
        &self,
        retriever: &dyn Retriever,
        tenant: &DocumentTenant,
    ) -> Result<RetrievalEvalReport, RetrieveError> {
        let mut all = Vec::new();
        let mut types: BTreeMap<String, Vec<RankingMetrics>> = BTreeMap::new();
        for query in &self.queries {
            let ranked = self.retrieve_passage_names(retriever, tenant, query).await?;
            let measures = compute_ranking_metrics(&ranked, &query.relevant);
            all.push(measures);
            types.entry(query.sort.clone()).or_default().push(measures);
        }
        let types =
            types.into_iter().map(|(sort, measures)| (sort, RankingMetrics::mean(&measures))).collect();
        Ok(RetrievalEvalReport { queries: all.len(), all: RankingMetrics::mean(&all), types })
    }
}

/// Returns the common start of the titles of all passages of a document, up to the article number.
fn common_title(lines: &[EvalPassageRecord]) -> String {
    let Some(first) = lines.first() else { return String::new() };
    let mut end = first.title.len();
    for line in lines {
        let same =
            first.title.bytes().zip(line.title.bytes()).take_while(|(left, right)| left == right).count();
        end = end.min(same);
    }
    let common = &first.title[..first.title.floor_char_boundary(end)];
    let cut = find_article_numbers(&first.title)
        .first()
        .map_or(common.len(), |(_, range)| range.start.min(common.len()));
    common[..common.floor_char_boundary(cut)].trim().trim_end_matches('제').trim().to_owned()
}

/// Parses `5`, `76_2`, `제5조` or `제76조의2`.
fn parse_article_number(text: &str) -> Option<ArticleNumber> {
    if let Some((number, _)) = find_article_numbers(text).first() {
        return Some(*number);
    }
    let (number, branch) = text.split_once(['_', '-']).unwrap_or((text, "0"));
    Some(ArticleNumber { number: number.parse().ok()?, branch: branch.parse().ok()? })
}

fn read_lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>, RetrievalEvalSetError> {
    let unreadable = |source| RetrievalEvalSetError::Unreadable { path: path.display().to_string(), source };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut lines = Vec::new();
    for (number, line) in std::io::BufReader::new(file).lines().enumerate() {
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        let malformed = |source| RetrievalEvalSetError::Malformed {
            path: path.display().to_string(),
            line: number + 1,
            source,
        };
        lines.push(serde_json::from_str(&line).map_err(malformed)?);
    }
    Ok(lines)
}
