//! `./x bench search [--quick] [--json]`: what searching costs, beside bm25s, Whoosh and faiss on the same passages.
//!
//! Passages are made up, with words as frequent as in real text; vectors are made up too, in clusters, as those of real
//! texts are. The peers are asked by `bench/peer/search.py`, which reads the same files.

#![allow(clippy::expect_used, reason = "a measurement that cannot go on has nothing to say")]

mod corpus;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use doran_retrieval::vector::{Rows, nearest};
use doran_retrieval::{Index, LocalIndex, Question, RamKeyword, Tenant};
use serde_json::{Value, json};

use corpus::Corpus;

/// How many hits are asked for.
const WANTED: usize = 10;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let (quick, as_json) = (args.iter().any(|arg| arg == "--quick"), args.iter().any(|arg| arg == "--json"));
    let sizes: &[usize] = if quick { &[10_000] } else { &[10_000, 100_000] };
    let lasting = Duration::from_secs(if quick { 1 } else { 4 });
    let mut rows = Vec::new();
    for size in sizes {
        let folder = std::env::temp_dir().join(format!("doran-bench-search-{}-{size}", std::process::id()));
        let corpus = Corpus::make(*size);
        corpus.write(&folder).expect("files for the peers");
        let peers = peers(&folder, lasting);
        words(&corpus, &folder, lasting, &peers, &mut rows);
        vectors(&corpus, lasting, &peers, &mut rows);
        std::fs::remove_dir_all(&folder).ok();
    }
    for row in rows {
        if as_json {
            println!("{row}");
        } else {
            let name = row["case"].as_str().unwrap_or_default();
            let unit = row["unit"].as_str().unwrap_or_default();
            print!("{name:<28} {:>12.3} {unit:<6}", row["doran"].as_f64().unwrap_or(f64::NAN));
            for (peer, value) in row["peers"].as_object().into_iter().flatten() {
                print!("   {peer} {:.3}", value.as_f64().unwrap_or(f64::NAN));
            }
            println!();
        }
    }
}

fn row(case: String, unit: &str, doran: f64, peers: &Value, key: &str) -> Value {
    let mut beside = serde_json::Map::new();
    for (peer, figures) in peers.as_object().into_iter().flatten() {
        if let Some(value) = figures.get(key).filter(|value| value.is_number()) {
            beside.insert(peer.clone(), value.clone());
        }
    }
    json!({ "bench": "search", "case": case, "unit": unit, "doran": doran, "peers": beside })
}

/// Words: in memory and in a directory.
fn words(corpus: &Corpus, folder: &Path, lasting: Duration, peers: &Value, rows: &mut Vec<Value>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (size, tenant) = (corpus.documents.len(), Tenant::new("bench"));
    let before = resident();
    let started = Instant::now();
    let memory = RamKeyword::default();
    runtime.block_on(fill(&memory, &tenant, corpus));
    rows.push(row(
        format!("words{size}/memory-build"),
        "s",
        started.elapsed().as_secs_f64(),
        peers,
        "words_build_s",
    ));
    rows.push(row(format!("words{size}/memory-rss"), "MB", resident() - before, peers, "words_rss_mb"));
    let directory = folder.join("local");
    let started = Instant::now();
    let local = runtime.block_on(LocalIndex::open(&directory, None)).expect("an index");
    runtime.block_on(fill(&local, &tenant, corpus));
    rows.push(row(
        format!("words{size}/local-build"),
        "s",
        started.elapsed().as_secs_f64(),
        peers,
        "words_build_s",
    ));
    rows.push(row(format!("words{size}/local-disk"), "MB", disk(&directory), peers, "words_disk_mb"));
    for threads in [1, 16] {
        for (name, index) in [("memory", &memory as &dyn Index), ("local", &local)] {
            let (qps, p99) = run(threads, lasting, |at| {
                let text = &corpus.questions[at % corpus.questions.len()];
                let question = Question::new(tenant.clone(), text.clone(), WANTED);
                runtime.block_on(index.retrieve(&question)).expect("hits").len()
            });
            rows.push(row(
                format!("words{size}/{name}-qps{threads}"),
                "1/s",
                qps,
                peers,
                &format!("words_qps{threads}"),
            ));
            rows.push(row(
                format!("words{size}/{name}-p99-{threads}"),
                "ms",
                p99,
                peers,
                &format!("words_p99_{threads}"),
            ));
        }
    }
}

async fn fill(index: &dyn Index, tenant: &Tenant, corpus: &Corpus) {
    for some in corpus.documents.chunks(1000) {
        index.put_all(tenant, some).await.expect("put");
    }
}

/// Vectors alone: the scan.
fn vectors(corpus: &Corpus, lasting: Duration, peers: &Value, rows: &mut Vec<Value>) {
    let size = corpus.vectors.len();
    let started = Instant::now();
    let bytes = Rows::write(corpus::DIMENSION, corpus.vectors.iter().map(Vec::as_slice)).expect("numbers");
    let all = Rows::open(bytes).expect("rows");
    rows.push(row(
        format!("vectors{size}/build"),
        "s",
        started.elapsed().as_secs_f64(),
        peers,
        "vectors_build_s",
    ));
    let admits = |_: usize, _: usize| true;
    let mut right = 0;
    for asked in &corpus.asked {
        let found = nearest(&[&all], asked, WANTED, &admits);
        let mut truth: Vec<(f32, usize)> = (0..size).map(|at| (all.dot(at, asked), at)).collect();
        truth.sort_by(|left, right| right.0.total_cmp(&left.0));
        right += truth[..WANTED].iter().filter(|(_, at)| found.iter().any(|near| near.row == *at)).count();
    }
    let recall = right as f64 / (corpus.asked.len() * WANTED) as f64;
    rows.push(row(format!("vectors{size}/recall10"), "", recall, peers, "vectors_recall"));
    for threads in [1, 16] {
        let (qps, p99) = run(threads, lasting, |at| {
            nearest(&[&all], &corpus.asked[at % corpus.asked.len()], WANTED, &admits).len()
        });
        rows.push(row(
            format!("vectors{size}/qps{threads}"),
            "1/s",
            qps,
            peers,
            &format!("vectors_qps{threads}"),
        ));
        rows.push(row(
            format!("vectors{size}/p99-{threads}"),
            "ms",
            p99,
            peers,
            &format!("vectors_p99_{threads}"),
        ));
    }
}

/// Asks from several threads for a while. Gives questions a second, and the milliseconds all but a hundredth stay below.
fn run(threads: usize, lasting: Duration, ask: impl Fn(usize) -> usize + Sync) -> (f64, f64) {
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut times = Vec::new();
                    while started.elapsed() < lasting {
                        let begun = Instant::now();
                        assert!(
                            ask(next.fetch_add(1, Ordering::Relaxed)) > 0,
                            "every question has an answer"
                        );
                        times.push(begun.elapsed().as_secs_f64() * 1e3);
                    }
                    times
                })
            })
            .collect();
        all.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    let qps = times.len() as f64 / started.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    (qps, times[(times.len() - 1) * 99 / 100])
}

/// What the peers measured, by name. Nothing where Python or a package is missing, and that is said.
fn peers(folder: &Path, lasting: Duration) -> Value {
    let Some(python) = std::env::var_os("DORAN_BENCH_PYTHON").filter(|python| !python.is_empty()) else {
        eprintln!("bench: no Python with the peers, so they are left out / 비교 대상이 없어 뺍니다");
        return json!({});
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peer/search.py");
    let asked = Command::new(python)
        .arg(script)
        .arg(folder)
        .arg(lasting.as_secs().to_string())
        .stderr(Stdio::inherit())
        .output();
    match asked.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()) {
        Some(figures) => figures,
        None => {
            eprintln!("bench: the peers gave no figures / 비교 대상이 결과를 내지 않았습니다");
            json!({})
        }
    }
}

/// The memory of this process, in MB; 0 where the system does not tell.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

fn disk(folder: &Path) -> f64 {
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => disk(&entry.path()),
        Ok(about) => about.len() as f64 / 1e6,
        Err(_) => 0.0,
    };
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(size).sum()
}
