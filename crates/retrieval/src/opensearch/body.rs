//! What is sent to the cluster. Names are hashed before they are compared, and of a text only our own terms are
//! sent, so nothing a person writes is ever query syntax.

use doran_llm::EmbedderAbout;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::keyword::query::Query;
use crate::keyword::{Ranking, article};
use crate::passage::{Document, DocumentId, DocumentKind, Passage, Tenant};
use crate::retriever::Filter;
use crate::text::{self, ANALYSIS, Layer};

/// The format of the index.
const LAYOUT: u32 = 1;
/// The most weighted terms that are sent in one question; a cluster takes 1,024 by default.
const MOST_TERMS: usize = 768;

/// The two layers of terms, as fields.
pub(super) const LAYERS: [(Layer, &str); 2] = [(Layer::Pairs, "pairs"), (Layer::Stems, "stems")];

/// What made an index.
pub(super) fn about(embedder: Option<&EmbedderAbout>) -> Value {
    json!({ "layout": LAYOUT, "analysis": ANALYSIS, "embedder": embedder })
}

/// Settings and fields of a new index.
pub(super) fn index(embedder: Option<&EmbedderAbout>, ranking: &Ranking) -> Value {
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
        "mappings": { "dynamic": false, "_meta": about(embedder), "properties": fields },
    })
}

/// A name as it is compared.
pub(super) fn key(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The name of the entry that says which generation of a document counts.
pub(super) fn head_key(tenant: &Tenant, document: &DocumentId) -> String {
    key(&["head", tenant.as_str(), document.as_str()])
}

fn kind_key(kind: &DocumentKind) -> String {
    match kind {
        DocumentKind::General => key(&["general"]),
        DocumentKind::Contract => key(&["contract"]),
        DocumentKind::Standard(form) => key(&["standard", form]),
    }
}

/// What is compared of a document.
fn names(tenant: &Tenant, document: &Document, generation: &str) -> Value {
    json!({
        "tenant": key(&[tenant.as_str()]), "document": key(&[document.id.as_str()]),
        "collection": key(&[&document.collection]), "kind": kind_key(&document.kind), "generation": generation,
    })
}

/// The entry that makes a generation of a document count.
pub(super) fn head(tenant: &Tenant, document: &Document, generation: &str, passages: usize) -> Value {
    let mut entry = names(tenant, document, generation);
    entry["what"] = json!("head");
    entry["key"] = json!(head_key(tenant, &document.id));
    entry["whole"] = json!({ "tenant": tenant, "document": document, "passages": passages });
    entry
}

/// The entry of a passage.
pub(super) fn passage(
    tenant: &Tenant,
    document: &Document,
    generation: &str,
    (at, passage): (usize, &Passage),
    vector: Option<&[f32]>,
) -> Value {
    let mut entry = names(tenant, document, generation);
    for (wanted, field) in LAYERS {
        let mut words = String::new();
        for text in [&passage.title, &passage.text] {
            text::terms(text, |layer, term, _| {
                if layer == wanted {
                    words.push_str(term);
                    words.push(' ');
                }
            });
        }
        entry[field] = json!(words);
    }
    let articles: Vec<String> =
        article::of_passage(passage).into_iter().map(|number| number.to_string()).collect();
    entry["what"] = json!("passage");
    entry["articles"] = json!(articles);
    entry["at"] = json!(at);
    entry["key"] = json!(key(&[passage.id.as_str()]));
    entry["passage"] = json!({
        "head": head_key(tenant, &document.id), "name": crate::keyword::bare(&document.title), "passage": passage,
    });
    if let Some(vector) = vector {
        entry["vector"] = json!(vector);
    }
    entry
}

/// Which entries of a tenant compete.
pub(super) fn filter(what: &str, tenant: &Tenant, filter: &Filter) -> Vec<Value> {
    let mut all =
        vec![json!({ "term": { "what": what } }), json!({ "term": { "tenant": key(&[tenant.as_str()]) } })];
    if let Some(collection) = &filter.collection {
        all.push(json!({ "term": { "collection": key(&[collection]) } }));
    }
    if !filter.documents.is_empty() {
        let documents: Vec<String> = filter.documents.iter().map(|id| key(&[id.as_str()])).collect();
        all.push(json!({ "terms": { "document": documents } }));
    }
    if !filter.kinds.is_empty() {
        let kinds: Vec<String> = filter.kinds.iter().map(kind_key).collect();
        all.push(json!({ "terms": { "kind": kinds } }));
    }
    all
}

/// Looks for the terms of one layer.
pub(super) fn words(query: &Query, layer: Layer, field: &str, filter: &[Value], size: usize) -> Value {
    let terms: Vec<Value> = query
        .terms
        .iter()
        .filter(|wanted| wanted.layer == layer)
        .take(MOST_TERMS)
        .filter_map(|wanted| {
            let term = std::str::from_utf8(wanted.key.get(1..)?).ok()?;
            Some(json!({ "term": { field: { "value": term, "boost": wanted.weight } } }))
        })
        .collect();
    if terms.is_empty() {
        return search(&json!({ "match_none": {} }), size);
    }
    search(&json!({ "bool": { "filter": filter, "should": terms, "minimum_should_match": 1 } }), size)
}

/// Looks for articles by number.
pub(super) fn articles(query: &Query, filter: &[Value], size: usize) -> Value {
    let numbers: Vec<String> = query.articles.iter().map(ToString::to_string).collect();
    let mut all = filter.to_vec();
    all.push(json!({ "terms": { "articles": numbers } }));
    search(&json!({ "bool": { "filter": all } }), size)
}

/// Looks for the nearest vectors among those that compete.
pub(super) fn near(vector: &[f32], filter: &[Value], size: usize) -> Value {
    let knn = json!({ "vector": vector, "k": size, "filter": { "bool": { "filter": filter } } });
    search(&json!({ "knn": { "vector": knn } }), size)
}

fn search(query: &Value, size: usize) -> Value {
    json!({
        "size": size, "query": query, "track_total_hits": false, "_source": ["passage", "generation"],
        "sort": [{ "_score": "desc" }, { "key": "asc" }],
    })
}
