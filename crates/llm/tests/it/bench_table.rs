//! The table that every benchmark prints: which way a ratio goes, and what counts as met.

use serde_json::json;

#[path = "../../../../bench/table.rs"]
#[allow(dead_code, reason = "the benchmarks use the rest")]
mod table;
#[path = "../../../../bench/times.rs"]
mod times;

use table::{Row, Target, table, verdict};

#[test]
fn a_ratio_above_one_is_in_our_favour_whichever_way_is_better() {
    let faster = Row::less("wait", "ms", 2.0).peer("other", Some(20.0));
    let more = Row::more("rate", "1/s", 20.0).peer("other", Some(2.0));
    let worse = Row::more("rate", "1/s", 2.0).peer("other", Some(20.0));
    let ratios = [faster, more, worse].map(|row| row.json("b")["ratio"].as_f64());
    assert_eq!(ratios, [Some(10.0), Some(10.0), Some(0.1)]);
}

#[test]
fn beside_a_floor_the_ratio_says_how_much_more_is_taken() {
    let row = Row::less("step", "us", 130.0).floor("bare", 100.0);
    assert_eq!(row.json("engine")["ratio"], 1.3);
    assert_eq!(row.clone().target(Target::RatioAtMost(1.3)).met(), Some(true));
    assert_eq!(row.target(Target::RatioAtMost(1.2)).met(), Some(false));
}

#[test]
fn a_row_is_one_object_with_these_names() {
    let row = Row::less("call", "us", 1.5).peer("other 1.0", Some(3.0)).target(Target::RatioAtLeast(2.0));
    let expected = json!({
        "bench": "llm", "case": "call", "doran": 1.5, "peer": 3.0, "peer_name": "other 1.0", "unit": "us",
        "ratio": 2.0, "target": "≥ 2×", "met": true,
    });
    assert_eq!(row.json("llm"), expected);
}

#[test]
fn the_column_of_the_best_is_there_only_when_something_is_in_it() {
    let plain = Row::more("rate", "1/s", 12345.0);
    let lean = table(std::slice::from_ref(&plain));
    assert!(!lean.contains("best") && lean.contains("12,345"), "{lean}");
    let full = table(&[plain.clone(), plain.best(9.0, Some(8.0))]);
    assert!(full.contains("best") && full.contains("9.00 / 8.00"), "{full}");
    let widths: Vec<usize> = full.lines().map(|line| line.chars().count()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{full}");
}

#[test]
fn what_was_not_measured_is_neither_met_nor_missed() {
    let rows = [
        Row::less("met", "ms", 1.0).target(Target::ValueAtMost(1.0)),
        Row::more("missed", "1/s", 1.0).target(Target::ValueAtLeast(2.0)),
        Row::less("alone", "ms", 1.0).peer("other", None).target(Target::RatioAtLeast(2.0)),
        Row::less("free", "ms", 1.0),
    ];
    assert_eq!(verdict(&rows), "1 of 3 targets met; MISSED: missed; 1 not measured");
}

#[test]
fn a_share_of_measurements_is_one_of_them() {
    let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
    assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| times::at(&values, share)), [1.0, 50.0, 99.0, 100.0]);
    assert_eq!((times::at(&[], 0.5), times::median(vec![])), (0.0, None));
    assert_eq!(times::median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
}
