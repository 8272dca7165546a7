//! Searches the cluster: one query for each term layer, for articles and for vectors. The results are ranked here.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Method;
use serde_json::{Value, json};

use crate::embedding;
use crate::keyword::ARTICLE_NUMBER_BOOST;
use crate::keyword::query::KeywordQuery;
use crate::passage::Passage;
use crate::retriever::{Hit, RetrieveError, Retriever, SearchQuery};
use crate::score_fusion::fuse_hits;

use super::http_client::unavailable_error;
use super::{OpenSearchIndex, parse_entry, request_body};

/// The number of hits of each search that are fused, however few are requested.
const FUSION_DEPTH: usize = 100;
/// This many more are fetched, because some may belong to an outdated generation.
const EXTRA_PASSAGES: usize = 100;
/// The maximum number of hits that a cluster returns at once by default.
const MAX_RESULT_WINDOW: usize = 10_000;
/// How long a person waits for a search, retries included. A node that hangs keeps its connections open.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a search is repeated if a document changed during it.
const MAX_SEARCH_ATTEMPTS: usize = 4;

/// A passage that one of the queries found.
struct OpenSearchCandidate {
    entry_id: String,
    passage: Passage,
    head_key: String,
    normalized_title: String,
    generation: String,
    /// The scores of the two layers, of the article query and of the vector query.
    scores: [f64; 4],
}

const ARTICLE_SCORE: usize = 2;
const VECTOR_SCORE: usize = 3;

#[async_trait]
impl Retriever for OpenSearchIndex {
    async fn retrieve(&self, question: &SearchQuery) -> Result<Vec<Hit>, RetrieveError> {
        if question.limit == 0 || !embedding::has_terms(&question.text) {
            return Ok(Vec::new());
        }
        let vector = match &self.embedder {
            Some(embedder) => Some(embedding::embed_query(&**embedder, &question.text).await?),
            None => None,
        };
        let found = tokio::time::timeout(SEARCH_TIMEOUT, self.search(question, vector)).await;
        found.unwrap_or_else(|_| Err(unavailable_error("OpenSearch did not answer a search in time")))
    }
}

impl OpenSearchIndex {
    async fn search(
        &self,
        question: &SearchQuery,
        vector: Option<Vec<f32>>,
    ) -> Result<Vec<Hit>, RetrieveError> {
        let query = KeywordQuery::parse(&question.text, self.ranking.synonym_weight);
        let depth = question.limit.max(FUSION_DEPTH);
        let mut size = (depth + EXTRA_PASSAGES).min(MAX_RESULT_WINDOW);
        for attempt in 1.. {
            let (mut seen, full) = self.multi_search(question, &query, vector.as_deref(), size).await?;
            let counts = self.current_generations(&seen).await?;
            let current = |seen: &OpenSearchCandidate| counts.get(&seen.head_key) == Some(&seen.generation);
            let known: HashSet<&str> =
                seen.iter().filter(|seen| current(seen)).map(|seen| seen.head_key.as_str()).collect();
            // Its new passages were searchable before its head was updated, so the next attempt sees them.
            let changed = seen
                .iter()
                .any(|seen| counts.contains_key(&seen.head_key) && !known.contains(seen.head_key.as_str()));
            let before = seen.len();
            seen.retain(|seen| current(seen));
            let short = full && seen.len() < depth.min(before) && size < MAX_RESULT_WINDOW;
            if attempt < MAX_SEARCH_ATTEMPTS && (changed || short) {
                size = (size * 2).min(MAX_RESULT_WINDOW);
                continue;
            }
            return self.rank(question, &query, vector.as_deref(), seen, depth).await;
        }
        Err(unavailable_error("OpenSearch was never asked"))
    }

    /// Runs all queries and returns what they found, and whether there may be more.
    async fn multi_search(
        &self,
        question: &SearchQuery,
        query: &KeywordQuery,
        vector: Option<&[f32]>,
        size: usize,
    ) -> Result<(Vec<OpenSearchCandidate>, bool), RetrieveError> {
        let filter = request_body::filter_clauses("passage", &question.tenant, &question.filter);
        let mut searches: Vec<(usize, Value)> = Vec::new();
        for (at, (layer, field)) in request_body::LAYER_FIELDS.into_iter().enumerate() {
            searches.push((at, request_body::layer_query(query, layer, field, &filter, size)));
        }
        if !query.articles.is_empty() {
            searches.push((ARTICLE_SCORE, request_body::article_query(query, &filter, size)));
        }
        if let Some(vector) = vector {
            searches.push((VECTOR_SCORE, request_body::vector_query(vector, &filter, size)));
        }
        let lines: String = searches.iter().map(|(_, search)| format!("{{}}\n{search}\n")).collect();
        let answer = self
            .http
            .send_ndjson(&format!("/{}/_msearch", self.target), lines.into_bytes())
            .await?
            .into_success_body()?;
        let mut seen: BTreeMap<String, OpenSearchCandidate> = BTreeMap::new();
        let mut full = false;
        let answers = list_at(&answer, "/responses")?;
        if answers.len() != searches.len() {
            let (found, wanted) = (answers.len(), searches.len());
            return Err(unavailable_error(format!("OpenSearch gave {found} answers to {wanted} searches")));
        }
        for (answer, (way, _)) in answers.iter().zip(&searches) {
            if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
                return Err(unavailable_error(format!("OpenSearch could not search: {}", error["reason"])));
            }
            let hits = list_at(answer, "/hits/hits")?;
            full |= hits.len() >= size;
            for hit in hits {
                add_candidate(&mut seen, hit, *way)?;
            }
        }
        Ok((seen.into_values().collect(), full))
    }

    /// Returns the current generation of each document.
    async fn current_generations(
        &self,
        seen: &[OpenSearchCandidate],
    ) -> Result<HashMap<String, String>, RetrieveError> {
        let heads: HashSet<&str> = seen.iter().map(|seen| seen.head_key.as_str()).collect();
        if heads.is_empty() {
            return Ok(HashMap::new());
        }
        let wanted: Vec<Value> =
            heads.iter().map(|head| json!({ "_id": head, "_source": ["generation"] })).collect();
        let body = json!({ "docs": wanted });
        let answer = self
            .http
            .send_json_expecting_success(Method::POST, &format!("/{}/_mget", self.target), Some(&body))
            .await?;
        let found = list_at(&answer, "/docs")?.iter().filter(|head| head["found"] == json!(true));
        found.map(|head| Ok((text_at(head, "/_id")?, text_at(head, "/_source/generation")?))).collect()
    }

    /// Ranks like every index: each layer scaled to its best hit, articles boosted, vectors fused.
    async fn rank(
        &self,
        question: &SearchQuery,
        query: &KeywordQuery,
        vector: Option<&[f32]>,
        seen: Vec<OpenSearchCandidate>,
        depth: usize,
    ) -> Result<Vec<Hit>, RetrieveError> {
        let highest = |way: usize| seen.iter().map(|seen| seen.scores[way]).fold(0.0, f64::max);
        let scale = |way: usize, weight: f64| if highest(way) > 0.0 { weight / highest(way) } else { 0.0 };
        let (pairs, stems) = (scale(0, 1.0), scale(1, f64::from(self.ranking.stem_layer_weight)));
        let mut sums: Vec<f64> =
            seen.iter().map(|seen| seen.scores[0] * pairs + seen.scores[1] * stems).collect();
        for number in &query.articles {
            let named = |seen: &OpenSearchCandidate| {
                if query.letters_and_digits.contains(&seen.normalized_title) {
                    seen.normalized_title.len()
                } else {
                    0
                }
            };
            let asked = |seen: &OpenSearchCandidate| {
                seen.scores[ARTICLE_SCORE] > 0.0
                    && crate::keyword::article_numbers::article_of_passage(&seen.passage) == Some(*number)
            };
            let longest = seen.iter().filter(|seen| asked(seen)).map(named).max().unwrap_or(0);
            for (sum, seen) in sums.iter_mut().zip(&seen) {
                if asked(seen) && named(seen) == longest {
                    *sum += f64::from(ARTICLE_NUMBER_BOOST);
                }
            }
        }
        let mut words: Vec<(f64, &OpenSearchCandidate)> =
            sums.into_iter().zip(&seen).filter(|(sum, _)| *sum > 0.0).collect();
        words.sort_by(|left, right| {
            right.0.total_cmp(&left.0).then_with(|| {
                let order =
                    |seen: &OpenSearchCandidate| (seen.passage.document.clone(), seen.passage.range.start);
                order(left.1).cmp(&order(right.1))
            })
        });
        words.truncate(depth);
        let keyword: Vec<Hit> =
            words.iter().map(|(score, seen)| Hit { passage: seen.passage.clone(), score: *score }).collect();
        let Some(vector) = vector else {
            return Ok(keyword.into_iter().take(question.limit).collect());
        };
        let mut near: Vec<(f64, &OpenSearchCandidate)> = seen
            .iter()
            .filter(|seen| seen.scores[VECTOR_SCORE] > 0.0)
            .map(|seen| (dot_product_from_score(seen.scores[VECTOR_SCORE]), seen))
            .collect();
        near.sort_by(|left, right| {
            right.0.total_cmp(&left.0).then_with(|| left.1.passage.id.cmp(&right.1.passage.id))
        });
        near.truncate(depth);
        let missing: Vec<&OpenSearchCandidate> =
            words.iter().map(|(_, seen)| *seen).filter(|seen| seen.scores[VECTOR_SCORE] == 0.0).collect();
        near.extend(self.vector_scores(vector, &missing).await?);
        let near: Vec<Hit> =
            near.into_iter().map(|(score, seen)| Hit { passage: seen.passage.clone(), score }).collect();
        Ok(fuse_hits(&question.text, &keyword, &near, &self.weights, question.limit))
    }

    /// Returns the vector scores of passages that only the keyword queries found.
    async fn vector_scores<'a>(
        &self,
        vector: &[f32],
        seen: &[&'a OpenSearchCandidate],
    ) -> Result<Vec<(f64, &'a OpenSearchCandidate)>, RetrieveError> {
        if seen.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<&str> = seen.iter().map(|seen| seen.entry_id.as_str()).collect();
        let mut search =
            request_body::vector_query(vector, &[json!({ "ids": { "values": ids } })], seen.len());
        search["_source"] = json!(false);
        let answer = self
            .http
            .send_json_expecting_success(Method::POST, &format!("/{}/_search", self.target), Some(&search))
            .await?;
        let mut found = Vec::new();
        for hit in list_at(&answer, "/hits/hits")? {
            if let Some(seen) = seen.iter().find(|seen| hit["_id"].as_str() == Some(seen.entry_id.as_str())) {
                found.push((dot_product_from_score(hit["_score"].as_f64().unwrap_or(0.0)), *seen));
            }
        }
        Ok(found)
    }
}

/// Returns the dot product behind a score: a cluster returns 1 + product, or 1 / (1 − product) below zero.
fn dot_product_from_score(score: f64) -> f64 {
    if score >= 1.0 { score - 1.0 } else { 1.0 - 1.0 / score.max(1e-9) }
}

/// The list at a JSON pointer. A response without it is an error, not an empty result.
fn list_at<'a>(response: &'a Value, pointer: &str) -> Result<&'a [Value], RetrieveError> {
    let list = response.pointer(pointer).and_then(Value::as_array);
    list.map(Vec::as_slice).ok_or_else(|| missing_field_error(pointer))
}

fn text_at(entry: &Value, pointer: &str) -> Result<String, RetrieveError> {
    let text = entry.pointer(pointer).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| missing_field_error(pointer))
}

fn missing_field_error(pointer: &str) -> RetrieveError {
    unavailable_error(format!("the response of OpenSearch has no `{pointer}`"))
}

fn add_candidate(
    seen: &mut BTreeMap<String, OpenSearchCandidate>,
    hit: &Value,
    way: usize,
) -> Result<(), RetrieveError> {
    let entry = text_at(hit, "/_id")?;
    let score = if way == ARTICLE_SCORE { 1.0 } else { hit["_score"].as_f64().unwrap_or(0.0) };
    if let Some(known) = seen.get_mut(&entry) {
        known.scores[way] = score;
        return Ok(());
    }
    let kept = &hit["_source"]["passage"];
    let mut scores = [0.0; 4];
    scores[way] = score;
    let new = OpenSearchCandidate {
        entry_id: entry.clone(),
        passage: parse_entry(&kept["passage"])?,
        head_key: text_at(kept, "/head")?,
        normalized_title: text_at(kept, "/name")?,
        generation: text_at(hit, "/_source/generation")?,
        scores,
    };
    seen.insert(entry, new);
    Ok(())
}
