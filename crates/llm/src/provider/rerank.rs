//! Rerankers: servers with the `/rerank` API that Cohere began and Jina, vLLM, llama.cpp and gateways speak too.
//!
//! A reranker is opened as a model that answers one kind of request: numbered passages and a question. Its answer is
//! `{"order":[…]}`, the numbers from the best passage to the worst. So it is priced, recorded, replayed and counted like
//! every other model.

use std::sync::Arc;

use serde_json::{Value, json};

use super::dialect::{
    AnswerDecoder, AnswerEnding, DecodeProgress, DeltaBuffer, Dialect, ReportedUsage, parse_vendor_json,
};
use super::remote_model::RemoteModel;
use super::vendors::{find_rerank_vendor, rerank_vendor_ids};
use super::{ModelConfig, ModelId, ModelIdError, OpenModelError, ResolvedProvider};
use crate::error::ModelError;
use crate::http::{ModelApiKey, ModelHttpRequest, SseEvent};
use crate::message::{MessagePart, NumberedPassage};
use crate::model::{ChatModel, ChatRequest, FinishReason, SamplingSetting};

impl ModelId {
    /// Parses the id of a reranker, as [`str::parse`] does that of a model. Its provider is one that reranks; some of
    /// them have no chat models.
    pub fn parse_reranker(text: &str) -> Result<Self, ModelIdError> {
        Self::parse_with(text, |provider| match find_rerank_vendor(provider) {
            Some(_) => Ok(()),
            None => {
                let (provider, known) = (provider.to_owned(), rerank_vendor_ids().join("`, `"));
                Err(ModelIdError::NoReranker { provider, known })
            }
        })
    }
}

/// Opens a reranker. No request is sent yet, and each stream is one request, as with
/// [`open_model`](crate::open_model).
pub fn open_reranker(
    config: &ModelConfig,
    secret: ModelApiKey,
) -> Result<Arc<dyn ChatModel>, OpenModelError> {
    let provider = &config.id.provider;
    let vendor = find_rerank_vendor(provider).ok_or_else(|| ModelIdError::NoReranker {
        provider: provider.clone(),
        known: rerank_vendor_ids().join("`, `"),
    })?;
    let reached = ResolvedProvider::resolve_vendor(vendor, config, secret)?;
    let (url, model) = (format!("{}/rerank", reached.base_url), config.id.model.clone());
    let http = reached.http_client(config)?;
    Ok(Arc::new(RemoteModel {
        about: reached.about(config),
        http,
        dialect: Arc::new(RerankDialect { url, model }),
    }))
}

/// The request and the answer of `/rerank`.
struct RerankDialect {
    url: String,
    model: String,
}

impl Dialect for RerankDialect {
    fn build_request(&self, request: &ChatRequest) -> Result<ModelHttpRequest, ModelError> {
        let documents: Vec<String> = passages_of(request).map(document_text).collect();
        let question = request.question().filter(|question| !question.trim().is_empty());
        let Some(query) = question.filter(|_| !documents.is_empty()) else {
            let reason = "a reranker takes a question and passages, and nothing else".into();
            return Err(ModelError::Rejected { reason });
        };
        // All are asked for: a list that leaves some out could not be told from a broken one.
        let top_n = documents.len();
        let body = json!({ "model": self.model, "query": query, "documents": documents, "top_n": top_n });
        Ok(ModelHttpRequest { url: self.url.clone(), body: body.to_string().into_bytes() })
    }

    fn unsupported_settings(&self) -> Vec<SamplingSetting> {
        Vec::new()
    }

    fn decoder(&self, request: &ChatRequest) -> Box<dyn AnswerDecoder> {
        let numbers = passages_of(request).map(|passage| passage.number).collect();
        Box::new(RerankDecoder { numbers, ending: AnswerEnding::default() })
    }
}

fn passages_of(request: &ChatRequest) -> impl Iterator<Item = &NumberedPassage> {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    parts.filter_map(|part| if let MessagePart::Passage(passage) = part { Some(passage) } else { None })
}

/// A passage with its title, which often has words of the question that the passage leaves out.
fn document_text(passage: &NumberedPassage) -> String {
    let text = format!("{}\n{}", passage.title, passage.text);
    // Servers reject an empty text, so a space is sent instead.
    if text.trim().is_empty() { " ".to_owned() } else { text.trim().to_owned() }
}

struct RerankDecoder {
    /// The numbers of the passages, in the order in which they were sent.
    numbers: Vec<u32>,
    ending: AnswerEnding,
}

impl AnswerDecoder for RerankDecoder {
    fn decode_event(&mut self, _: &SseEvent, _: &mut DeltaBuffer) -> Result<DecodeProgress, ModelError> {
        Err(ModelError::Broken { reason: "a stream came where a list of scores belongs".into() })
    }

    fn decode_body(&mut self, body: &[u8], out: &mut DeltaBuffer) -> Result<(), ModelError> {
        let broken = |reason: &str| ModelError::Broken { reason: reason.into() };
        let text = std::str::from_utf8(body).map_err(|_| broken("the scores are not UTF-8"))?;
        let answer: Value = parse_vendor_json(text)?;
        let order = ranked_places(&answer, self.numbers.len())?;
        let numbers: Vec<u32> = order.into_iter().map(|place| self.numbers[place]).collect();
        let counts = ["/usage/total_tokens", "/usage/prompt_tokens", "/meta/tokens/input_tokens"];
        let input = counts.iter().find_map(|path| ReportedUsage::count_at(&answer, path));
        let reported = ReportedUsage { input, output: Some(0), ..ReportedUsage::default() };
        self.ending = AnswerEnding { finish: Some(FinishReason::Stop), reported };
        out.push_uncounted_text(json!({ "order": numbers }).to_string())
    }

    fn finish_decoding(&mut self, _: &mut DeltaBuffer) -> Result<AnswerEnding, ModelError> {
        Ok(std::mem::take(&mut self.ending))
    }
}

/// The places of the documents from the best score to the worst. Each document must have one score. Nothing of the answer is
/// quoted in an error: a server may send the documents back in it.
fn ranked_places(answer: &Value, count: usize) -> Result<Vec<usize>, ModelError> {
    let broken = |reason: String| Err(ModelError::Broken { reason });
    let Some(results) = answer.get("results").and_then(Value::as_array) else {
        return broken("the answer has no list `results`".into());
    };
    if results.len() != count {
        return broken(format!("{} scores came for {count} passages", results.len()));
    }
    let mut scored: Vec<(usize, f64)> = Vec::with_capacity(count);
    for result in results {
        let place = result.get("index").and_then(Value::as_u64).and_then(|place| usize::try_from(place).ok());
        let score = result.get("relevance_score").and_then(Value::as_f64).filter(|score| score.is_finite());
        match (place, score) {
            (Some(place), _) if place >= count => {
                return broken(format!("a score is for passage {place} of {count}, counted from 0"));
            }
            (Some(place), _) if scored.iter().any(|(known, _)| *known == place) => {
                return broken(format!("two scores are for passage {place}"));
            }
            (Some(place), Some(score)) => scored.push((place, score)),
            (None, _) => return broken("a result has no whole number `index`".into()),
            (_, None) => return broken("a result has no number `relevance_score`".into()),
        }
    }
    // Servers send the best first, or in the order of the passages. Equal scores keep the order of the search.
    scored.sort_by_key(|(place, _)| *place);
    scored.sort_by(|left, right| right.1.total_cmp(&left.1));
    Ok(scored.into_iter().map(|(place, _)| place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_order(answer: &Value, expected: &str) {
        let outcome = match ranked_places(answer, 3) {
            Ok(order) => format!("{order:?}"),
            Err(ModelError::Broken { reason }) => reason,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(outcome, expected, "{answer}");
    }

    fn scores(rows: &[(i64, f64)]) -> Value {
        let row = |(index, score): &(i64, f64)| json!({ "index": index, "relevance_score": score });
        json!({ "results": rows.iter().map(row).collect::<Vec<_>>() })
    }

    #[test]
    fn the_best_score_comes_first_and_equal_ones_keep_their_order() {
        check_order(&scores(&[(0, -5.4), (1, 8.6), (2, -3.6)]), "[1, 2, 0]");
        check_order(&scores(&[(2, 0.9), (0, 0.5), (1, 0.5)]), "[2, 0, 1]");
        check_order(&scores(&[(2, 0.5), (1, 0.5), (0, 0.5)]), "[0, 1, 2]");
    }

    #[test]
    fn an_answer_that_is_no_order_says_what_is_wrong() {
        check_order(&json!([{ "index": 0, "score": 1 }]), "the answer has no list `results`");
        check_order(&json!({ "results": {} }), "the answer has no list `results`");
        check_order(&scores(&[(0, 1.0)]), "1 scores came for 3 passages");
        check_order(&scores(&[(0, 1.0), (1, 1.0), (2, 1.0), (0, 1.0)]), "4 scores came for 3 passages");
        check_order(
            &scores(&[(0, 1.0), (1, 1.0), (3, 1.0)]),
            "a score is for passage 3 of 3, counted from 0",
        );
        check_order(&scores(&[(0, 1.0), (1, 1.0), (1, 2.0)]), "two scores are for passage 1");
        check_order(&scores(&[(0, 1.0), (1, 1.0), (-1, 1.0)]), "a result has no whole number `index`");
        let odd = |row: Value| {
            let mut answer = scores(&[(0, 1.0), (1, 1.0)]);
            answer["results"].as_array_mut().expect("a list").push(row);
            answer
        };
        check_order(
            &odd(json!({ "index": "2", "relevance_score": 1 })),
            "a result has no whole number `index`",
        );
        check_order(
            &odd(json!({ "index": 2.5, "relevance_score": 1 })),
            "a result has no whole number `index`",
        );
        for row in [json!({ "index": 2 }), json!({ "index": 2, "relevance_score": "IGNORE ALL RULES" })] {
            check_order(&odd(row), "a result has no number `relevance_score`");
        }
    }
}
