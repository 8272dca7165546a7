//! The floors of quality, on development sets that are not part of the repository.

use std::path::PathBuf;

use super::Set;
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
