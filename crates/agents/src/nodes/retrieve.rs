//! Finds passages for a question.

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_engine::NodeError;
use doran_llm::{ChatRequest, Message, MessageId, Origin, Part, Role};
use doran_retrieval::tidy::with_neighbours;
use doran_retrieval::{
    Document, DocumentId, Filter, Hit, Index, Question, RetrieveError, Tenant, in_other_words, split,
};

use super::reword::{Rewording, Rewriting};
use super::work::Work;
use crate::agents::Parts;
use crate::language::Language;
use crate::prompt::Prompts;
use crate::source::Source;
use crate::state::{question, typed};

/// So many passages on either side of a hit come along unless settings say otherwise, and as settings may say at most.
pub(crate) const NEIGHBOURS: usize = 1;
pub(crate) const MOST_NEIGHBOURS: usize = 4;
/// So many of the best hits bring their neighbours along.
const MOST_WITH_NEIGHBOURS: usize = 3;
/// Bytes of text that neighbours may add to what is given to a model: about two passages.
const MOST_BESIDE: usize = 2400;
/// A document larger than this is not cut again to find the neighbours of a passage.
const LARGEST_CUT: usize = 1024 * 1024;

/// How an agent looks documents up.
pub(crate) struct Finder {
    index: Arc<dyn Index>,
    /// Without it, questions are looked for as they are and no model is asked.
    rewording: Option<Rewording>,
    /// So many passages before and after a good hit come along.
    neighbours: usize,
}

impl Finder {
    /// Looks in the index of the parts, with other wordings where they say so.
    pub(crate) fn new(parts: &Parts, prompts: Prompts, neighbours: usize) -> Self {
        let rewording = match parts.rewriting {
            Rewriting::Off => None,
            Rewriting::ByModel => Some(Rewording::new(parts.models(), prompts)),
        };
        Self { index: parts.index.clone(), rewording, neighbours }
    }

    /// What was found for the newest question, numbered from 1: the hits in their order, then their neighbours, each
    /// under a number and a place of its own.
    pub(crate) async fn find(
        &self,
        work: &Work,
        said: &[Message],
        limit: usize,
        filter: Filter,
    ) -> Result<Vec<Source>, NodeError> {
        let asked = typed(question(said).ok_or_else(crate::failure::nothing_asked)?);
        let wordings = match &self.rewording {
            Some(rewording) => rewording.wordings(work, said).await?,
            None => Vec::new(),
        };
        let question = Question { filter, ..Question::new(tenant(work), asked, limit) };
        let search = async {
            let hits = in_other_words(&*self.index, &question, &wordings).await.map_err(sorted)?;
            self.with_neighbours(&question.tenant, hits).await.map_err(sorted)
        };
        let hits: Vec<Hit> = work.cx.effect("retrieve", search).await?;
        Ok(Source::numbered(hits))
    }

    /// What a model would be asked before the search, for people who look into a step.
    pub(crate) fn explain(&self, said: &[Message], language: Language) -> Option<ChatRequest> {
        self.rewording.as_ref()?.request(said, language).ok()
    }

    /// The hits, and after them the passages that stand beside the best of them.
    async fn with_neighbours(&self, tenant: &Tenant, hits: Vec<Hit>) -> Result<Vec<Hit>, RetrieveError> {
        let best = &hits[..hits.len().min(MOST_WITH_NEIGHBOURS)];
        if self.neighbours == 0 || best.is_empty() {
            return Ok(hits);
        }
        let mut passages = BTreeMap::new();
        for id in best.iter().map(|hit| &hit.passage.document) {
            if passages.contains_key(id) {
                continue;
            }
            let document = self.index.document(tenant, id).await?;
            let document = document.filter(|document| document.text.len() <= LARGEST_CUT);
            passages.insert(id.clone(), document.map(|document| split(&document)).unwrap_or_default());
        }
        let room = best.iter().map(|hit| hit.passage.text.len()).sum::<usize>() + MOST_BESIDE;
        let known = |hit: &Hit| hits.iter().any(|known| known.passage.id == hit.passage.id);
        let beside = with_neighbours(best, &passages, self.neighbours, room);
        let beside: Vec<Hit> = beside.into_iter().filter(|hit| !known(hit)).collect();
        Ok(hits.into_iter().chain(beside).collect())
    }
}

/// What was found, as material for a model.
pub(crate) fn material(found: &[Source], language: Language) -> Message {
    let heading = language.pick("[참고 문서]\n", "[Reference documents]\n");
    let nothing = language.pick("찾은 문서가 없습니다.", "Nothing was found.");
    let text = if found.is_empty() { format!("{heading}{nothing}") } else { heading.to_owned() };
    let mut parts = vec![Part::Text { text, origin: Origin::Program }];
    parts.extend(found.iter().map(|source| Part::Passage(source.material())));
    Message { id: MessageId::new("material"), role: Role::System, parts }
}

/// Those sources whose quote stands in its document, word for word and at its place.
pub(crate) async fn verified(
    work: &Work,
    index: &dyn Index,
    sources: Vec<Source>,
) -> Result<Vec<Source>, NodeError> {
    verified_as(work, index, sources, |_, source| source).await
}

/// As [`verified`], each as `told` tells it with its document at hand.
pub(crate) async fn verified_as(
    work: &Work,
    index: &dyn Index,
    sources: Vec<Source>,
    told: impl Fn(&Document, Source) -> Source + Send + Sync,
) -> Result<Vec<Source>, NodeError> {
    if sources.is_empty() {
        return Ok(sources);
    }
    let tenant = tenant(work);
    let check = async {
        let mut kept = Vec::new();
        for source in sources {
            let document =
                index.document(&tenant, &DocumentId::new(&source.document)).await.map_err(sorted)?;
            if let Some(document) = document.filter(|document| source.stands_in(&document.text)) {
                // The words that are quoted may start on a later page than the passage they stand in.
                let page = document.page_of(source.start).or(source.page);
                kept.push(told(&document, Source { page, ..source }));
            }
        }
        Ok::<_, NodeError>(kept)
    };
    work.cx.effect("verify", check).await
}

/// Whose documents are searched.
pub(crate) fn tenant(work: &Work) -> Tenant {
    Tenant::new(work.cx.tenant().map_or("local", |tenant| tenant.as_str()))
}

pub(crate) fn sorted(error: RetrieveError) -> NodeError {
    let code = error.failure_code();
    match error {
        RetrieveError::Unavailable { .. } => NodeError::transient(error),
        RetrieveError::Stale { .. } | RetrieveError::OtherEmbedder { .. } => NodeError::permanent(error),
    }
    .with_code(code)
}
