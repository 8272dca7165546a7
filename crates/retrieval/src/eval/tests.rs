//! The floors of quality, on development sets that are not part of the repository.

use std::path::PathBuf;
use std::sync::Arc;

use doran_llm::embed::UniversalEmbedder;

use super::Set;
use crate::LocalIndex;
use crate::keyword::RamKeyword;
use crate::passage::Tenant;

/// A set, and what nDCG@10 must not fall below, over all questions and for one sort of them. A little under what was
/// measured.
const FLOORS: &[(&str, f64, &[(&str, f64)])] = &[
    ("ko-contract", 0.843, &[("lookup", 0.98)]),
    ("ko-docs", 0.92, &[]),
    ("ko-law", 0.665, &[("lookup", 0.98)]),
    ("ko-wiki", 0.957, &[]),
    ("en-contract", 0.52, &[]),
    ("en-sci", 0.73, &[]),
];

#[tokio::test]
async fn search_by_words_keeps_its_quality() {
    let Some(data) = std::env::var_os("DORAN_EVAL_DATA").map(PathBuf::from).filter(|data| data.is_dir())
    else {
        eprintln!(
            "SKIPPED: no evaluation sets; set DORAN_EVAL_DATA / 평가 자료가 없음: DORAN_EVAL_DATA를 지정하세요"
        );
        return;
    };
    let tenant = Tenant::new("eval");
    // Without optimisation the larger sets take too long for a test; a build with it measures all of them.
    let sets = if cfg!(debug_assertions) { &FLOORS[..3] } else { FLOORS };
    for (name, floor, sorts) in sets {
        let set = Set::read(&data.join(name).join("passages.jsonl"), &data.join(name).join("queries.jsonl"))
            .expect("a set");
        let index = RamKeyword::default();
        set.fill(&index, &tenant).await.expect("filled");
        let report = set.measure(&index, &tenant).await.expect("measured");
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

/// Sets on which meaning is added to words, and what nDCG@10 must not fall below with both.
const WITH_MEANING: &[(&str, f64)] = &[
    ("ko-contract", 0.843),
    ("xl-k8s", 0.77),
    ("ko-docs", 0.92),
    ("ko-law", 0.665),
    ("ko-wiki", 0.957),
    ("en-sci", 0.73),
    ("en-contract", 0.52),
];

#[tokio::test]
async fn meaning_never_costs_what_words_find() {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_dir());
    let (Some(data), Some(encoder)) = (folder("DORAN_EVAL_DATA"), folder("DORAN_EVAL_ENCODER")) else {
        eprintln!(
            "SKIPPED: no evaluation sets or no encoder; set DORAN_EVAL_DATA and DORAN_EVAL_ENCODER / \
             평가 자료나 인코더가 없음: DORAN_EVAL_DATA와 DORAN_EVAL_ENCODER를 지정하세요"
        );
        return;
    };
    let encoder = Arc::new(UniversalEmbedder::open(&encoder).expect("an encoder"));
    let tenant = Tenant::new("eval");
    let whole = !cfg!(debug_assertions) || std::env::var_os("DORAN_EVAL_ALL").is_some();
    let sets = if whole { WITH_MEANING } else { &WITH_MEANING[..1] };
    for (name, floor) in sets {
        let set = Set::read(&data.join(name).join("passages.jsonl"), &data.join(name).join("queries.jsonl"))
            .expect("a set");
        let words = RamKeyword::default();
        set.fill(&words, &tenant).await.expect("filled");
        let words = set.measure(&words, &tenant).await.expect("measured").all;
        let directory = tempfile::tempdir().expect("a directory");
        let both = LocalIndex::open(directory.path(), Some(encoder.clone())).await.expect("an index");
        set.fill(&both, &tenant).await.expect("filled");
        let report = set.measure(&both, &tenant).await.expect("measured");
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
