//! Milliseconds for a text of 128 pieces and for a question, on one thread: the median of many rounds.

#![allow(clippy::expect_used, reason = "a benchmark stops at the first surprise")]

use std::time::Instant;

use doran_encoder::{TextEncoder, TextSide};

fn main() {
    let started = Instant::now();
    let encoder = TextEncoder::built_in().expect("the weights that are compiled in can be read");
    println!("read the weights: {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    let word = "계약 ";
    for (name, pieces) in [("8 pieces", 7), ("32 pieces", 31), ("128 pieces", 127), ("256 pieces", 255)] {
        let text = word.repeat(pieces);
        let mut times: Vec<f64> = (0..200)
            .map(|_| {
                let started = Instant::now();
                std::hint::black_box(encoder.encode(&text, TextSide::Passage));
                started.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        println!("{name}: median {:.2} ms, best {:.2} ms", times[times.len() / 2], times[0]);
    }
}
