//! Writes the features of every candidate for the questions of `evals/answers`, which `training/answers/fit.py` reads:
//!
//! `ANSWER_FEATURES=out.jsonl cargo test -p doran-offline features_for_fitting -- --ignored`

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use doran_agents::eval::AnswerQuestion;
use doran_retrieval::hit_postprocessing::add_neighbouring_passages;
use doran_retrieval::ingest::{ReadLimits, extract_text};
use doran_retrieval::{
    BuiltInEncoder, Document, DocumentIndex as _, DocumentTenant, LocalIndex, Retriever as _, SearchQuery,
    split_into_passages,
};
use serde_json::json;

use crate::quotes::quoted_words;
use crate::ranking::{AskedQuestion, FEATURES, UnitIndex};
use crate::units::{QuotableSource, QuotableSourceKind, SourceCitation};

#[tokio::test]
#[ignore = "writes a file for training/answers"]
async fn features_for_fitting() {
    let out = std::env::var("ANSWER_FEATURES").expect("ANSWER_FEATURES names the file to write");
    let limit: usize = std::env::var("ANSWER_PASSAGES").map_or(12, |text| text.parse().expect("a number"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../evals/answers");
    let questions = std::env::var("ANSWER_QUESTIONS").map_or_else(|_| folder.join("dev.jsonl"), Into::into);
    let documents = std::env::var("ANSWER_DOCUMENTS").map_or_else(|_| folder.join("documents"), Into::into);
    let text = std::fs::read_to_string(questions).expect("the questions");
    let questions = AnswerQuestion::from_json_lines(&text).expect("questions");
    let scratch = std::env::temp_dir().join(format!("doran-fitting-{}", std::process::id()));
    let encoder = BuiltInEncoder::open().expect("the encoder");
    let index = LocalIndex::open(&scratch, Some(Arc::new(encoder))).await.expect("an index");
    let tenant = DocumentTenant::new("fitting");
    let mut passages = BTreeMap::new();
    let mut paths: Vec<_> = std::fs::read_dir(&documents)
        .expect("the documents")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let found =
            extract_text(&name, &std::fs::read(&path).expect("bytes"), &ReadLimits::default()).expect("text");
        let title = found.title.unwrap_or_else(|| name.clone());
        let document = Document { pages: found.pages, ..Document::new(name, title, found.text) };
        let split = split_into_passages(&document);
        index.put(&tenant, &document, &split).await.expect("put");
        passages.insert(document.id.clone(), split);
    }
    while index.embed_some().await.expect("vectors") > 0 {}
    let mut file = std::fs::File::create(out).expect("a file");
    for question in questions {
        let before = question.before.last().map_or("", String::as_str);
        let asked = AskedQuestion { question: &question.ask, before };
        let text = format!("{before} {}", question.ask);
        let query = SearchQuery::new(tenant.clone(), text.clone(), limit);
        let hits = index.retrieve(&query).await.expect("hits");
        let best = &hits[..hits.len().min(3)];
        let room = best.iter().map(|hit| hit.passage.text.len()).sum::<usize>() + 2400;
        let beside = add_neighbouring_passages(best, &passages, 1, room);
        let mut all = hits.clone();
        for hit in beside {
            if !all.iter().any(|known| known.passage.id == hit.passage.id) {
                all.push(hit);
            }
        }
        let sources: Vec<QuotableSource<'_>> = all
            .iter()
            .zip(1..)
            .map(|(hit, number)| QuotableSource {
                title: &hit.passage.title,
                text: &hit.passage.text,
                kind: QuotableSourceKind::Document,
                cite: SourceCitation::Number(number),
            })
            .collect();
        let index = UnitIndex::new(&sources);
        let ranked = index.rank(asked);
        let order: Vec<_> = index.units().map(|unit| unit.text.as_ptr()).collect();
        let units: Vec<_> = ranked
            .iter()
            .map(|one| {
                json!({
                    "text": one.unit.text, "quoted": quoted_words(&one.unit, asked), "lead": one.unit.lead,
                    "title": sources[one.unit.source].title, "heading": one.unit.heading, "header": one.unit.header,
                    "source": one.unit.source, "block": one.unit.block, "kind": format!("{:?}", one.unit.kind),
                    "document": all[one.unit.source].passage.document.to_string(), "features": one.features,
                    "order": order.iter().position(|start| *start == one.unit.text.as_ptr()),
                })
            })
            .collect();
        let line = json!({
            "id": question.id, "before": before, "ask": question.ask, "must": question.must, "must_not": question.must_not,
            "answerable": question.answerable, "kind": question.kind, "answer_in": question.answer_in,
            "names": FEATURES, "units": units,
        });
        writeln!(file, "{line}").expect("written");
    }
    std::fs::remove_dir_all(scratch).ok();
}
