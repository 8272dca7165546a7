//! Finds passages for a question.

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_engine::NodeError;
use doran_llm::{ChatRequest, Message, MessagePart, Role, TextOrigin};
use doran_retrieval::contract::{ArticleReference, find_article_references};
use doran_retrieval::hit_postprocessing::add_neighbouring_passages;
use doran_retrieval::{
    Document, DocumentFilter, DocumentId, DocumentIndex, DocumentTenant, Hit, Language, Passage,
    RetrieveError, SearchQuery, localize_article_numbers, retrieve_with_rewordings, search_wordings,
    split_into_passages, text_stems,
};
use tokio::time::Instant;

use super::ask_model::duration_millis;
use super::call_trace::CallTrace;
use super::node_work::NodeWork;
use super::query_rewriting::{QueryRewriter, QueryRewriting};
use super::reranking::{MAX_RERANKED_PASSAGES, PassageReranker, RerankOutcome};
use crate::agents::AgentParts;
use crate::anaphora::refers_to_previous_turn;
use crate::attachments::attachment_tenant;
use crate::compute_permits::compute_with_permit;
use crate::prompt::Prompts;
use crate::protocol::{CallNote, CallNoteKind, RerankingNote, SearchHitNote, SearchNote, ThinkingStep};
use crate::request_format::MATERIAL_MESSAGE_ID;
use crate::source::AnswerSource;
use crate::state::{TurnProgress, has_given_text, newest_question, typed_text};
use crate::tools::Taint;

/// So many passages on either side of a hit come along unless settings say otherwise, and as settings may say at most.
pub(crate) const DEFAULT_NEIGHBOURS: usize = 1;
pub(crate) const MAX_NEIGHBOURS: usize = 4;
/// So many of the best hits bring their neighbours along.
const MAX_HITS_WITH_NEIGHBOURS: usize = 3;
/// Bytes of text that neighbours may add to what is given to a model: about two passages.
const MAX_NEIGHBOUR_BYTES: usize = 2400;
/// A document larger than this is not cut again to find the neighbours of a passage.
const MAX_SPLIT_DOCUMENT_BYTES: usize = 1024 * 1024;

/// Bytes of text that the articles of a range add at most. A search gives some of them.
const MAX_RANGE_BYTES: usize = 48 * 1024;

/// So many titles of documents tell what a library is about, with so many bytes of each: together they are read with
/// every question.
const MAX_LIBRARY_TITLES: usize = 20;
const MAX_LIBRARY_TITLE_BYTES: usize = 90;

/// How an agent looks documents up.
pub(crate) struct DocumentFinder {
    index: Arc<dyn DocumentIndex>,
    /// Without it, questions are searched as they are and no model is called.
    rewriter: Option<QueryRewriter>,
    /// Without it, passages stay in the order of the search.
    reranker: Option<PassageReranker>,
    /// So many passages before and after a good hit come along.
    neighbours: usize,
}

/// What of the documents is searched.
pub(crate) struct SearchScope {
    /// How many passages are wanted.
    pub(crate) limit: usize,
    /// Only those of this collection.
    pub(crate) collection: Option<String>,
}

impl DocumentFinder {
    /// Looks in the index of the parts, with other wordings and in a new order where they say so.
    pub(crate) fn new(parts: &AgentParts, prompts: Prompts, neighbours: usize) -> Self {
        let prompts = Arc::new(prompts);
        let rewording = match parts.rewriting {
            QueryRewriting::Off => None,
            QueryRewriting::ByModel => Some(QueryRewriter::new(parts.models(), prompts.clone())),
        };
        let reranker = PassageReranker::new(&parts.reranking, parts.models(), prompts);
        Self { index: parts.searched_index(), rewriter: rewording, reranker, neighbours }
    }

    /// Searches for the newest question, in one collection or in all documents. Returns the passages, and the taint of the
    /// thread after it has read them. Whoever gives a text along asks about that one, so nothing is searched: the same words in
    /// another document would be a wrong answer.
    ///
    /// Passages are numbered from 1: the hits in their order, then their neighbours, each with a number and a place of its
    /// own.
    pub(crate) async fn find(
        &self,
        work: &NodeWork,
        messages: &[Message],
        scope: SearchScope,
        taint: Taint,
    ) -> Result<(Option<Vec<AnswerSource>>, Taint), NodeError> {
        let asked = newest_question(messages).ok_or_else(crate::failure::no_question_error)?;
        if has_given_text(asked) {
            return Ok((None, taint));
        }
        work.show_thinking(ThinkingStep::Searching, "문서를 찾고 있습니다", "looking documents up");
        let wordings = match &self.rewriter {
            Some(rewording) => rewording.rewrite_question(work, messages).await?,
            None => wordings_without_model(messages),
        };
        let question = search_query(asked, retrieval_tenant(work)?, scope);
        let (reranked, reranking) = match &self.reranker {
            Some(reranker) => self.reranked_hits(work, reranker, messages, &question, &wordings).await?,
            None => (None, None),
        };
        let hits: Vec<Hit> = match reranked {
            Some(hits) => hits,
            None => {
                let search = async {
                    let hits = retrieve_with_rewordings(&*self.index, &question, &wordings).await?;
                    self.with_neighbours(&question, hits).await
                };
                work.cx.effect("retrieve", noted_search(work, search)).await?
            }
        };
        let noted = hits.iter().zip(1..).map(|(hit, number)| SearchHitNote {
            number,
            document: hit.passage.document.to_string(),
            title: localize_article_numbers(&hit.passage.title, &hit.passage.title),
            passage: hit.passage.id.to_string(),
            score: hit.score,
        });
        let (query, hits_noted) = (question.text, noted.collect());
        work.note_search(SearchNote { query, wordings, reranking, hits: hits_noted });
        let found = AnswerSource::from_hits(hits);
        let taint = taint.union(Taint::of_messages(&[sources_message(&found, work.language)]));
        Ok((Some(found), taint))
    }

    /// Titles of documents that would be searched, for a model that decides whether to search. They are not recorded: only
    /// the request depends on them, and its reply is recorded.
    pub(crate) async fn library_titles(
        &self,
        tenant: &DocumentTenant,
        collection: Option<String>,
    ) -> Result<Vec<String>, NodeError> {
        let filter = DocumentFilter { collection, ..DocumentFilter::default() };
        let titles = self.index.titles(tenant, &filter, MAX_LIBRARY_TITLES).await;
        let mut titles = titles.map_err(retrieve_node_error)?;
        for title in &mut titles {
            title.truncate(title.floor_char_boundary(MAX_LIBRARY_TITLE_BYTES));
        }
        Ok(titles)
    }

    /// The hits in a new order with their neighbours; none where the order of the search stays, and then the search is as it
    /// is without a reranker.
    async fn reranked_hits(
        &self,
        work: &NodeWork,
        reranker: &PassageReranker,
        messages: &[Message],
        question: &SearchQuery,
        wordings: &[String],
    ) -> Result<(Option<Vec<Hit>>, Option<RerankingNote>), NodeError> {
        let model = match reranker.model(&work.chosen) {
            Ok(model) => model,
            Err(note) => return Ok((None, Some(note))),
        };
        let wide = rerank_candidates_query(question);
        let search = retrieve_with_rewordings(&*self.index, &wide, wordings);
        let found: Vec<Hit> = work.cx.effect("candidates", noted_search(work, search)).await?;
        let (mut order, mut reranking) = (Vec::new(), None);
        if found.len() > 1 {
            let text = follow_up_wording(messages).unwrap_or_else(|| question.text.clone());
            let RerankOutcome { order: new, note } = reranker.rerank(work, &model, &text, &found).await?;
            let Some(new) = new else { return Ok((None, Some(note))) };
            (order, reranking) = (new, Some(note));
        }
        order.extend(order.len()..found.len());
        let hits = order.into_iter().take(question.limit).map(|place| found[place].clone()).collect();
        let neighbours = async { self.with_neighbours(question, hits).await.map_err(retrieve_node_error) };
        Ok((Some(work.cx.effect("neighbours", neighbours).await?), reranking))
    }

    /// What models would be asked about the search, for people who look into a step. What a model finds in another wording is
    /// not known here, so that the order of passages is explained only where none writes any.
    pub(crate) async fn explain(
        &self,
        messages: &[Message],
        progress: &TurnProgress,
        tenant: &DocumentTenant,
        scope: SearchScope,
    ) -> Result<Vec<ChatRequest>, NodeError> {
        if let Some(rewriter) = &self.rewriter {
            return Ok(vec![rewriter.request(messages, progress.language)?]);
        }
        let asked = newest_question(messages).filter(|asked| !has_given_text(asked));
        let (Some(reranker), Some(asked)) = (&self.reranker, asked) else { return Ok(Vec::new()) };
        if reranker.model(&progress.chosen).is_err() {
            return Ok(Vec::new());
        }
        let question = search_query(asked, tenant.clone(), scope);
        let wordings = wordings_without_model(messages);
        let wide = rerank_candidates_query(&question);
        let found = retrieve_with_rewordings(&*self.index, &wide, &wordings).await;
        let found = found.map_err(retrieve_node_error)?;
        if found.len() < 2 {
            return Ok(Vec::new());
        }
        let text = follow_up_wording(messages).unwrap_or(question.text);
        Ok(vec![reranker.request(&text, &found, progress.language)?])
    }

    /// The hits, and after them the other articles of the ranges that the question names and the passages that stand beside
    /// the best hits.
    async fn with_neighbours(
        &self,
        question: &SearchQuery,
        hits: Vec<Hit>,
    ) -> Result<Vec<Hit>, RetrieveError> {
        let mut ranges = find_article_references(&question.text);
        ranges.retain(|reference| reference.last.is_some());
        let best = &hits[..hits.len().min(MAX_HITS_WITH_NEIGHBOURS)];
        if (self.neighbours == 0 && ranges.is_empty()) || best.is_empty() {
            return Ok(hits);
        }
        let mut passages = BTreeMap::new();
        for id in best.iter().map(|hit| &hit.passage.document) {
            if passages.contains_key(id) {
                continue;
            }
            let document = self.index.document(&question.tenant, id).await?;
            let document = document.filter(|document| document.text.len() <= MAX_SPLIT_DOCUMENT_BYTES);
            let split = match document {
                Some(document) => {
                    compute_with_permit(&question.tenant, move || split_into_passages(&document)).await
                }
                None => Vec::new(),
            };
            passages.insert(id.clone(), split);
        }
        let mut beside = articles_of_ranges(best, &passages, &ranges);
        if self.neighbours > 0 {
            let room = best.iter().map(|hit| hit.passage.text.len()).sum::<usize>() + MAX_NEIGHBOUR_BYTES;
            beside.extend(add_neighbouring_passages(best, &passages, self.neighbours, room));
        }
        let mut all = hits;
        for hit in beside {
            if all.iter().all(|known| known.passage.id != hit.passage.id) {
                all.push(hit);
            }
        }
        Ok(all)
    }
}

/// The passages of the articles within the ranges that a question names, in the documents of the best hits.
fn articles_of_ranges(
    best: &[Hit],
    passages: &BTreeMap<DocumentId, Vec<Passage>>,
    ranges: &[ArticleReference],
) -> Vec<Hit> {
    let mut found: Vec<Hit> = Vec::new();
    let mut room = MAX_RANGE_BYTES;
    for (at, hit) in best.iter().enumerate() {
        let document = &hit.passage.document;
        if best[..at].iter().any(|earlier| earlier.passage.document == *document) {
            continue;
        }
        let meant = passages.get(document).into_iter().flatten().filter(|passage| {
            passage.article.is_some_and(|article| ranges.iter().any(|range| range.includes(article)))
        });
        for passage in meant {
            let Some(left) = room.checked_sub(passage.text.len()) else { return found };
            room = left;
            found.push(Hit { passage: passage.clone(), score: hit.score });
        }
    }
    found
}

fn search_query(asked: &Message, tenant: DocumentTenant, scope: SearchScope) -> SearchQuery {
    let filter = DocumentFilter { collection: scope.collection, ..DocumentFilter::default() };
    let typed = typed_text(asked);
    SearchQuery { filter, ..SearchQuery::new(tenant, search_wordings(&typed).0, scope.limit) }
}

/// The search whose best passages are put in a new order.
fn rerank_candidates_query(question: &SearchQuery) -> SearchQuery {
    SearchQuery { limit: question.limit.max(MAX_RERANKED_PASSAGES), ..question.clone() }
}

/// A search with a note of how long it took.
async fn noted_search(
    work: &NodeWork,
    search: impl Future<Output = Result<Vec<Hit>, RetrieveError>>,
) -> Result<Vec<Hit>, NodeError> {
    let (trace, began) = (CallTrace::begin(&work.cx), Instant::now());
    let hits = search.await;
    let (name, ms, failed) = ("documents".to_owned(), duration_millis(began.elapsed()), hits.is_err());
    let (kind, at, span) = (CallNoteKind::Search, trace.at, trace.span);
    work.note_calls([CallNote { kind, name, call: None, at, ms, span, failed }]);
    hits.map_err(retrieve_node_error)
}

/// Other wordings of the newest question that need no model.
fn wordings_without_model(messages: &[Message]) -> Vec<String> {
    let follow_up = follow_up_wording(messages);
    let asked = newest_question(messages).map(typed_text);
    follow_up.into_iter().chain(asked.and_then(|asked| search_wordings(&asked).1)).collect()
}

/// A question with at most so many words of its own may be a follow-up: "그럼 A-300은요?", "And in Prague?".
const MAX_FOLLOW_UP_STEMS: usize = 4;

/// The newest question together with the one before it, where it is too short to stand alone or points back.
fn follow_up_wording(messages: &[Message]) -> Option<String> {
    let mut asked = messages.iter().rev().filter(|message| message.role == Role::User).map(typed_text);
    let (newest, before) = (asked.next()?, asked.next()?);
    let leans = text_stems(&newest).len() <= MAX_FOLLOW_UP_STEMS || refers_to_previous_turn(&newest);
    leans.then(|| format!("{before} {newest}"))
}

/// The heading above titles of documents that can be searched.
pub(crate) fn library_heading(language: Language) -> &'static str {
    language.pick("[저장된 문서]", "[Stored documents]")
}

/// Titles of documents under a heading; nothing where there are none. The author of a document wrote its title too, so they
/// are material and no words of a prompt.
pub(crate) fn titles_message(heading: &str, titles: &[String]) -> Option<Message> {
    let list = titles.iter().map(|title| format!("- {title}")).collect::<Vec<_>>().join("\n");
    let parts = vec![
        MessagePart::Text { text: heading.to_owned(), origin: TextOrigin::Program },
        MessagePart::Text { text: list, origin: TextOrigin::Document },
    ];
    (!titles.is_empty()).then(|| Message::new("documents", Role::System, parts))
}

/// What was found, as material for a model.
pub(crate) fn sources_message(found: &[AnswerSource], language: Language) -> Message {
    let heading = language.pick("[참고 문서]\n", "[Reference documents]\n");
    let nothing = language.pick("찾은 문서가 없습니다.", "Nothing was found.");
    let text = if found.is_empty() { format!("{heading}{nothing}") } else { heading.to_owned() };
    let mut parts = vec![MessagePart::Text { text, origin: TextOrigin::Program }];
    parts.extend(found.iter().map(|source| MessagePart::Passage(source.to_passage())));
    Message::new(MATERIAL_MESSAGE_ID, Role::System, parts)
}

/// Those sources whose quote stands in its document, word for word and at its place.
pub(crate) async fn verify_sources(
    work: &NodeWork,
    index: &dyn DocumentIndex,
    sources: Vec<AnswerSource>,
) -> Result<Vec<AnswerSource>, NodeError> {
    verify_sources_with(work, index, sources, |_, source| source).await
}

/// As [`verify_sources`], each as `describe` gives it with its document at hand.
pub(crate) async fn verify_sources_with(
    work: &NodeWork,
    index: &dyn DocumentIndex,
    sources: Vec<AnswerSource>,
    describe: impl Fn(&Document, AnswerSource) -> AnswerSource + Send + Sync,
) -> Result<Vec<AnswerSource>, NodeError> {
    if sources.is_empty() {
        return Ok(sources);
    }
    let tenant = retrieval_tenant(work)?;
    let check = async {
        let mut verified = Vec::new();
        for source in sources {
            let document = index
                .document(&tenant, &DocumentId::new(&source.document))
                .await
                .map_err(retrieve_node_error)?;
            let Some(document) = document.filter(|document| source.has_quote_at_its_place(&document.text))
            else {
                tracing::warn!(
                    document = source.document,
                    number = source.number,
                    "a source is dropped: its document does not contain the quote"
                );
                continue;
            };
            // The words that are quoted may start on a later page than the passage they stand in.
            let page = document.page_at(source.start).or(source.page);
            verified.push(describe(&document, AnswerSource { page, ..source }));
        }
        Ok::<_, NodeError>(verified)
    };
    work.cx.effect("verify", check).await
}

/// Whose documents are searched: those of the tenant, and those that are attached to the conversation.
pub(crate) fn retrieval_tenant(work: &NodeWork) -> Result<DocumentTenant, NodeError> {
    let tenant = work.cx.tenant();
    let tenant = tenant.ok_or_else(|| NodeError::permanent("a run without a tenant has no documents"))?;
    Ok(match work.cx.thread() {
        Some(thread) => attachment_tenant(tenant.as_str(), thread.as_str()),
        None => DocumentTenant::new(tenant.as_str()),
    })
}

pub(crate) fn retrieve_node_error(error: RetrieveError) -> NodeError {
    let code = error.failure_code();
    match error {
        RetrieveError::Unavailable { .. } | RetrieveError::Missing { .. } => NodeError::transient(error),
        RetrieveError::NameTaken { .. }
        | RetrieveError::Stale { .. }
        | RetrieveError::OtherEmbedder { .. } => NodeError::permanent(error),
    }
    .with_code(code)
}
