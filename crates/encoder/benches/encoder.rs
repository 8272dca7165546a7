//! Milliseconds for texts of several lengths, alone and in a batch, on one thread: the best and the median of many rounds,
//! and on Linux the time that the thread had the processor, which other programs change less.

#![allow(clippy::expect_used, reason = "a benchmark stops at the first surprise")]

use std::time::Instant;

use doran_encoder::{TextEncoder, TextSide};

const ROUNDS: usize = 40;

fn main() {
    let started = Instant::now();
    let encoder = TextEncoder::built_in().expect("the weights that are compiled in can be read");
    println!("read the weights: {:.1} ms", milliseconds(started));
    for (name, pieces) in [("8 pieces", 7), ("32 pieces", 31), ("128 pieces", 127), ("256 pieces", 255)] {
        // Every word is one piece.
        let texts = vec!["계약 ".repeat(pieces); 8];
        let alone = measure(|| drop(std::hint::black_box(encoder.encode(&texts[0], TextSide::Passage))), 1);
        let batch = measure(
            || drop(std::hint::black_box(encoder.encode_all(&texts, TextSide::Passage))),
            texts.len(),
        );
        println!("{name}: alone {alone}; in a batch {batch}");
    }
    if let Some(kilobytes) = peak_memory() {
        println!("peak memory: {:.1} MB", kilobytes as f64 / 1e3);
    }
}

/// The milliseconds of a text: the best and the median round, and what the processor spent on average.
fn measure(mut work: impl FnMut(), texts: usize) -> String {
    let used = processor_time();
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            work();
            milliseconds(started) / texts as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let mut text = format!("best {:.2} ms, median {:.2} ms", times[0], times[ROUNDS / 2]);
    if let (Some(before), Some(after)) = (used, processor_time()) {
        let mean = (after - before) as f64 / 1e6 / (ROUNDS * texts) as f64;
        text.push_str(&format!(", processor {mean:.2} ms"));
    }
    text
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// The nanoseconds that this thread had the processor, where Linux tells it.
fn processor_time() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

/// The most memory that this process had, in kilobytes, where Linux tells it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
}
