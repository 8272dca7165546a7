//! Minimum retrieval quality on development sets that are not part of the repository.

use std::path::PathBuf;
use std::sync::Arc;

use doran_llm::embed::{UNIVERSAL_WHEEL, UniversalEmbedder, install_encoder_wheel};

use super::RetrievalEvalSet;
use crate::LocalIndex;
use crate::keyword::RamKeywordIndex;
use crate::passage::DocumentTenant;

/// A set, and the minimum nDCG@10 of keyword search over all queries and over one type of them. The values are a little
/// below what was measured, and never below what is promised. The sets small enough for an unoptimised build come
/// first.
const KEYWORD_NDCG_FLOORS: &[(&str, f64, &[(&str, f64)])] = &[
    ("ko-contract", 0.846, &[("lookup", 0.98)]),
    ("ko-docs", 0.93, &[]),
    ("ko-law", 0.665, &[("lookup", 0.98)]),
    ("ko-wiki", 0.96, &[]),
    ("en-contract", 0.52, &[]),
    ("en-sci", 0.73, &[]),
];
const SMALL_SET_COUNT: usize = 4;

/// The directory of the evaluation sets.
fn eval_data_directory() -> Option<PathBuf> {
    let data = std::env::var_os("DORAN_EVAL_DATA").map(PathBuf::from).filter(|data| data.is_dir());
    if data.is_none() {
        eprintln!(
            "SKIPPED: no evaluation sets; set DORAN_EVAL_DATA / 평가 자료가 없음: DORAN_EVAL_DATA를 지정하세요"
        );
    }
    data
}

/// The multilingual sentence encoder, from the wheel that `./x test` downloads.
fn universal_encoder() -> Option<Arc<UniversalEmbedder>> {
    let given = std::env::var_os("DORAN_TEST_UNIVERSAL").map(PathBuf::from);
    let usual = std::env::home_dir().map(|home| home.join(".cache/doran/parts").join(UNIVERSAL_WHEEL));
    let Some(wheel) = given.or(usual).filter(|path| path.is_file()) else {
        let required = std::env::var("DORAN_REQUIRE_PARTS").as_deref() == Ok("1");
        assert!(!required, "the wheel of the encoder is required (DORAN_REQUIRE_PARTS=1)");
        eprintln!("SKIPPED: no wheel of the sentence encoder / 문장 인코더의 휠이 없어 건너뜀");
        return None;
    };
    let folder = tempfile::tempdir().expect("a directory");
    install_encoder_wheel(folder.path(), &std::fs::read(wheel).expect("the wheel")).expect("installed");
    Some(Arc::new(UniversalEmbedder::open(folder.path()).expect("it opens")))
}

/// The larger sets take too long in an unoptimised build. An optimised build evaluates all of them.
fn sets_for_this_build<T>(sets: &[T], small: usize) -> &[T] {
    let whole = !cfg!(debug_assertions) || std::env::var_os("DORAN_EVAL_ALL").is_some();
    if whole { sets } else { &sets[..small] }
}

#[tokio::test]
async fn search_by_words_keeps_its_quality() {
    let Some(data) = eval_data_directory() else { return };
    let tenant = DocumentTenant::new("eval");
    for (name, floor, sorts) in sets_for_this_build(KEYWORD_NDCG_FLOORS, SMALL_SET_COUNT) {
        let set = RetrievalEvalSet::read(
            &data.join(name).join("passages.jsonl"),
            &data.join(name).join("queries.jsonl"),
        )
        .expect("a set");
        let index = RamKeywordIndex::default();
        set.fill_index(&index, &tenant).await.expect("filled");
        let report = set.evaluate(&index, &tenant).await.expect("measured");
        assert!(report.all.ndcg >= *floor, "{name}: nDCG@10 {:.4} fell below {floor}", report.all.ndcg);
        for (sort, floor) in *sorts {
            assert!(
                report.types[*sort].ndcg >= *floor,
                "{name}, {sort}: {:.4} fell below {floor}",
                report.types[*sort].ndcg
            );
        }
    }
}

/// Sets on which vectors are added to keywords, and the minimum nDCG@10 with both. The small sets come first.
const HYBRID_NDCG_FLOORS: &[(&str, f64)] = &[
    ("ko-contract", 0.846),
    ("xl-k8s", 0.77),
    ("ko-docs", 0.93),
    ("ko-wiki", 0.96),
    ("ko-law", 0.665),
    ("en-sci", 0.73),
    ("en-contract", 0.52),
];
const SMALL_HYBRID_SET_COUNT: usize = 2;

#[tokio::test]
async fn meaning_never_costs_what_words_find() {
    let Some(data) = eval_data_directory() else { return };
    let Some(encoder) = universal_encoder() else { return };
    let tenant = DocumentTenant::new("eval");
    for (name, floor) in sets_for_this_build(HYBRID_NDCG_FLOORS, SMALL_HYBRID_SET_COUNT) {
        let set = RetrievalEvalSet::read(
            &data.join(name).join("passages.jsonl"),
            &data.join(name).join("queries.jsonl"),
        )
        .expect("a set");
        let words = RamKeywordIndex::default();
        set.fill_index(&words, &tenant).await.expect("filled");
        let words = set.evaluate(&words, &tenant).await.expect("measured").all;
        let directory = tempfile::tempdir().expect("a directory");
        let both = LocalIndex::open(directory.path(), Some(encoder.clone())).await.expect("an index");
        set.fill_index(&both, &tenant).await.expect("filled");
        let report = set.evaluate(&both, &tenant).await.expect("measured");
        let both = report.all;
        println!(
            "{name}: words {:.4}, words and meaning {:.4} (recall@5 {:.4}, MRR {:.4})",
            words.ndcg, both.ndcg, both.recall, both.mrr
        );
        for (sort, measures) in report.types {
            println!("    {sort}: {:.4}", measures.ndcg);
        }
        assert!(both.ndcg >= *floor, "{name}: {:.4} fell below {floor}", both.ndcg);
        assert!(both.ndcg >= words.ndcg, "{name}: {:.4} with meaning, {:.4} without", both.ndcg, words.ndcg);
    }
}
