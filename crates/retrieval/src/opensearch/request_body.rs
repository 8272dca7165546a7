//! Request bodies for the cluster. Names are hashed, and of a text only the computed terms are sent, so nothing that a
//! user writes is ever query syntax.

use doran_llm::EmbedderInfo;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::keyword::query::KeywordQuery;
use crate::keyword::{RankingParameters, article_numbers};
use crate::passage::{Document, DocumentId, DocumentKind, DocumentTenant, Passage};
use crate::retriever::DocumentFilter;
use crate::text_analysis::{self, ANALYSIS_VERSION, TermLayer};

/// The version of the index format.
const LAYOUT_VERSION: u32 = 1;
/// The maximum number of weighted terms in one query. A cluster accepts 1,024 by default.
const MAX_TERMS_PER_QUERY: usize = 768;

/// The fields of the two term layers.
pub(super) const LAYER_FIELDS: [(TermLayer, &str); 2] =
    [(TermLayer::Bigrams, "pairs"), (TermLayer::Stems, "stems")];

/// Identifies the analyser and the embedder that made an index.
pub(super) fn index_fingerprint(embedder: Option<&EmbedderInfo>) -> Value {
    json!({ "layout": LAYOUT_VERSION, "analysis": ANALYSIS_VERSION, "embedder": embedder })
}

/// Returns the settings and mappings of a new index.
pub(super) fn index_definition(embedder: Option<&EmbedderInfo>, ranking: &RankingParameters) -> Value {
    let words =
        json!({ "type": "text", "analyzer": "whitespace", "similarity": "words", "index_options": "freqs" });
    let name = json!({ "type": "keyword" });
    let mut fields = json!({
        "what": name, "tenant": name, "document": name, "collection": name, "kind": name, "generation": name,
        "articles": name, "pairs": words, "stems": words, "at": { "type": "long" }, "key": name,
        "passage": { "type": "object", "enabled": false },
        "whole": { "type": "object", "enabled": false },
    });
    let similarity = json!({ "words": { "type": "BM25", "k1": ranking.k1, "b": ranking.b } });
    let mut settings =
        json!({ "number_of_shards": 1, "auto_expand_replicas": "0-1", "similarity": similarity });
    if let Some(embedder) = embedder {
        fields["vector"] = json!({
            "type": "knn_vector", "dimension": embedder.dimension,
            "method": { "name": "hnsw", "engine": "lucene", "space_type": "innerproduct" },
        });
        settings["knn"] = json!(true);
    }
    json!({
        "settings": { "index": settings },
        "mappings": { "dynamic": false, "_meta": index_fingerprint(embedder), "properties": fields },
    })
}

/// Returns a hash of names, for exact comparison.
pub(super) fn hashed_key(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hex::encode(&hash.finalize()[..16])
}

/// Returns the key of the head entry of a document.
pub(super) fn head_key(tenant: &DocumentTenant, document: &DocumentId) -> String {
    hashed_key(&["head", tenant.as_str(), document.as_str()])
}

fn kind_key(kind: &DocumentKind) -> String {
    match kind {
        DocumentKind::General => hashed_key(&["general"]),
        DocumentKind::Contract => hashed_key(&["contract"]),
        DocumentKind::Standard(form) => hashed_key(&["standard", form]),
    }
}

/// Returns the fields of a document that filters compare.
fn document_keys(tenant: &DocumentTenant, document: &Document, generation: &str) -> Value {
    json!({
        "tenant": hashed_key(&[tenant.as_str()]), "document": hashed_key(&[document.id.as_str()]),
        "collection": hashed_key(&[&document.collection]), "kind": kind_key(&document.kind), "generation": generation,
    })
}

/// Returns the head entry that makes a generation of a document current.
pub(super) fn head_entry(
    tenant: &DocumentTenant,
    document: &Document,
    generation: &str,
    passages: usize,
) -> Value {
    let mut entry = document_keys(tenant, document, generation);
    entry["what"] = json!("head");
    entry["key"] = json!(head_key(tenant, &document.id));
    entry["whole"] = json!({ "tenant": tenant, "document": document, "passages": passages });
    entry
}

/// Returns the entry of a passage.
pub(super) fn passage_entry(
    tenant: &DocumentTenant,
    document: &Document,
    generation: &str,
    (at, passage): (usize, &Passage),
    vector: Option<&[f32]>,
) -> Value {
    let mut entry = document_keys(tenant, document, generation);
    for (wanted, field) in LAYER_FIELDS {
        let mut words = String::new();
        for text in [&passage.title, &passage.text] {
            text_analysis::for_each_term(text, |layer, term, _| {
                if layer == wanted {
                    words.push_str(term);
                    words.push(' ');
                }
            });
        }
        entry[field] = json!(words);
    }
    let articles: Vec<String> =
        article_numbers::article_of_passage(passage).into_iter().map(|number| number.to_string()).collect();
    entry["what"] = json!("passage");
    entry["articles"] = json!(articles);
    entry["at"] = json!(at);
    entry["key"] = json!(hashed_key(&[passage.id.as_str()]));
    entry["passage"] = json!({
        "head": head_key(tenant, &document.id), "name": crate::keyword::letters_and_digits(&document.title), "passage": passage,
    });
    if let Some(vector) = vector {
        entry["vector"] = json!(vector);
    }
    entry
}

/// Returns the filter clauses for entries of a tenant.
pub(super) fn filter_clauses(what: &str, tenant: &DocumentTenant, filter: &DocumentFilter) -> Vec<Value> {
    let mut all = vec![
        json!({ "term": { "what": what } }),
        json!({ "term": { "tenant": hashed_key(&[tenant.as_str()]) } }),
    ];
    if let Some(collection) = &filter.collection {
        all.push(json!({ "term": { "collection": hashed_key(&[collection]) } }));
    }
    if !filter.documents.is_empty() {
        let documents: Vec<String> = filter.documents.iter().map(|id| hashed_key(&[id.as_str()])).collect();
        all.push(json!({ "terms": { "document": documents } }));
    }
    if !filter.kinds.is_empty() {
        let kinds: Vec<String> = filter.kinds.iter().map(kind_key).collect();
        all.push(json!({ "terms": { "kind": kinds } }));
    }
    all
}

/// Returns the query for the terms of one layer.
pub(super) fn layer_query(
    query: &KeywordQuery,
    layer: TermLayer,
    field: &str,
    filter: &[Value],
    size: usize,
) -> Value {
    let terms: Vec<Value> = query
        .terms
        .iter()
        .filter(|wanted| wanted.layer == layer)
        .take(MAX_TERMS_PER_QUERY)
        .filter_map(|wanted| {
            let term = std::str::from_utf8(wanted.key.get(1..)?).ok()?;
            Some(json!({ "term": { field: { "value": term, "boost": wanted.weight } } }))
        })
        .collect();
    if terms.is_empty() {
        return search_body(&json!({ "match_none": {} }), size);
    }
    search_body(&json!({ "bool": { "filter": filter, "should": terms, "minimum_should_match": 1 } }), size)
}

/// Returns the query for articles by number.
pub(super) fn article_query(query: &KeywordQuery, filter: &[Value], size: usize) -> Value {
    let numbers: Vec<String> = query.articles.iter().map(ToString::to_string).collect();
    let mut all = filter.to_vec();
    all.push(json!({ "terms": { "articles": numbers } }));
    search_body(&json!({ "bool": { "filter": all } }), size)
}

/// Returns the query for the nearest vectors that pass the filter.
pub(super) fn vector_query(vector: &[f32], filter: &[Value], size: usize) -> Value {
    let knn = json!({ "vector": vector, "k": size, "filter": { "bool": { "filter": filter } } });
    search_body(&json!({ "knn": { "vector": knn } }), size)
}

fn search_body(query: &Value, size: usize) -> Value {
    json!({
        "size": size, "query": query, "track_total_hits": false, "_source": ["passage", "generation"],
        "sort": [{ "_score": "desc" }, { "key": "asc" }],
    })
}
