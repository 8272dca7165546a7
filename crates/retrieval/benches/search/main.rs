//! `./x bench search [--quick] [--json] [CASES]`: the cost of searching, beside bm25s, Whoosh and faiss on the same
//! passages.
//!
//! Passages are synthetic, with realistic word frequencies. Vectors are synthetic too and vary in few directions, as
//! those of real texts do. The peers are measured by `bench/peer/search.py`, which reads the same files.

#![allow(clippy::expect_used, reason = "a measurement that cannot go on has nothing to say")]

#[path = "../../../../bench/mod.rs"]
#[allow(dead_code, reason = "each bench uses a part")]
mod shared;

mod corpus;

use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use doran_llm::embed::UniversalEmbedder;
use doran_llm::{Embedder, EmbeddingSide};
use doran_retrieval::vector::{HnswGraph, VectorRows, VectorSearchTarget, nearest_rows};
use doran_retrieval::{
    BuiltInEncoder, Document, DocumentIndex, DocumentTenant, LocalIndex, Passage, Retriever, SearchQuery,
};
use serde_json::Value;

use crate::arguments::BenchArguments;
use crate::corpus::{SyntheticCorpus, SyntheticVectors};
use crate::shared::{arguments, machine, peer, table, times};
use crate::table::{Report, Row, Target};

/// The number of hits for each query.
const HITS_PER_QUERY: usize = 10;
/// The dimension of vectors: that of `use-multilingual`, and a smaller one for the largest set, which would otherwise
/// take longer to build than everything else together.
const WIDE_DIMENSION: usize = 512;
const NARROW_DIMENSION: usize = 64;
/// The size of text that is stored in one call, as in the library.
const BATCH_BYTES: usize = 4 << 20;
/// Whoosh is measured up to this many passages. It takes minutes to index more.
const MAX_WHOOSH_PASSAGES: usize = 10_000;

/// The measurements of peers, by name.
type PeerFigures = [(String, Value)];

struct SearchBench {
    duration: Duration,
    folder: std::path::PathBuf,
    report: Report,
}

fn main() -> ExitCode {
    arguments::start("search", &["--tiny"], async |asked: BenchArguments| {
        // The benches block on their own runtime, which is not allowed inside another one.
        tokio::task::spawn_blocking(move || run_benches(&asked)).await?;
        Ok(())
    })
}

fn run_benches(asked: &BenchArguments) {
    let folder = std::env::temp_dir().join(format!("doran-bench-search-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the peers");
    let lasting = Duration::from_millis(if asked.quick { 700 } else { 3000 });
    let report = Report::begin("search", asked.json, &machine::about(&[]));
    let mut bench = SearchBench { duration: lasting, folder, report };
    // Small enough to run the program itself without optimisation.
    let tiny = asked.has("--tiny");
    let sizes: &[usize] = match (tiny, asked.quick) {
        (true, _) => &[500],
        (false, true) => &[10_000],
        (false, false) => &[10_000, 100_000],
    };
    for size in sizes {
        if asked.wants(&format!("words{size}/")) {
            bench.bench_keyword_search(*size);
        }
        if asked.wants(&format!("vectors{size}x")) {
            bench.bench_vector_search(*size, WIDE_DIMENSION);
        }
    }
    let encoded = if tiny { 20 } else { 1000 };
    if asked.wants(&format!("encoder{encoded}/")) {
        bench.bench_encoder(encoded);
    }
    if !asked.quick && !tiny && asked.wants("vectors1000000x") {
        bench.bench_vector_search(1_000_000, NARROW_DIMENSION);
    }
    std::fs::remove_dir_all(&bench.folder).ok();
    bench.report.end();
}

impl SearchBench {
    /// Adds a row for each peer that has the figure `key`, or one without a peer.
    fn push_rows(
        &mut self,
        row: &Row,
        peers: &PeerFigures,
        key: &str,
        target: impl Fn(&str) -> Option<Target>,
    ) {
        let mut alone = true;
        for (name, figures) in peers {
            if let Some(value) = figures[key].as_f64() {
                alone = false;
                self.report.push(row.clone().peer(name, Some(value)).target(target(name)));
            }
        }
        if alone {
            self.report.push(row.clone().target(target("")));
        }
    }

    /// Keyword search in a directory.
    fn bench_keyword_search(&mut self, size: usize) {
        let texts = SyntheticCorpus::generate(size);
        texts.write(&self.folder).expect("files for the peers");
        let peers =
            self.run_peers(if size <= MAX_WHOOSH_PASSAGES { &["bm25s", "whoosh"] } else { &["bm25s"] });
        let runtime = tokio::runtime::Handle::current();
        let tenant = DocumentTenant::new("bench");
        let directory = self.folder.join("local");
        let before = resident_megabytes();
        let index = runtime.block_on(LocalIndex::open(&directory, None)).expect("an index");
        let (started, used) = (Instant::now(), cpu_seconds());
        // Two calls at once, as in the library.
        runtime.block_on(async {
            let (front, back) = texts.documents.split_at(size / 2);
            let fill = async |some: &[(Document, Vec<Passage>)]| {
                let length = some.first().map_or(1, |(document, _)| document.text.len().max(1));
                for batch in some.chunks(BATCH_BYTES.div_ceil(length)) {
                    index.put_all(&tenant, batch).await.expect("put");
                }
            };
            tokio::join!(fill(front), fill(back));
        });
        let seconds = started.elapsed().as_secs_f64();
        let used = cpu_seconds() - used;
        let memory = resident_megabytes() - before;
        let no = |_: &str| None;
        let case = |what: &str| format!("words{size}/{what}");
        self.push_rows(&Row::less(case("build"), "s", seconds), &peers, "build_s", no);
        self.push_rows(&Row::less(case("build-cpu"), "cpu s", used), &peers, "build_cpu_s", no);
        let ingest = Row::more(case("ingest"), "MB/s", texts.megabytes() / seconds);
        self.report.push(ingest.target(Target::ValueAtLeast(20.0)));
        let ingest = Row::more(case("ingest-cpu"), "MB/cpu s", texts.megabytes() / used);
        self.report.push(ingest.target(Target::ValueAtLeast(10.0)));
        self.push_rows(&Row::less(case("memory"), "MB", memory), &peers, "rss_mb", no);
        self.push_rows(&Row::less(case("disk"), "MB", disk_megabytes(&directory)), &peers, "disk_mb", no);
        for threads in [1, 16] {
            let (qps, p99, cpu) = measure_queries(threads, self.duration, |at| {
                let text = &texts.questions[at % texts.questions.len()];
                let question = SearchQuery::new(tenant.clone(), text.clone(), HITS_PER_QUERY);
                runtime.block_on(index.retrieve(&question)).expect("hits").len()
            });
            let target = |name: &str| match name.split(' ').next() {
                Some("whoosh") => Some(Target::RatioAtLeast(10.0)),
                Some("bm25s") => Some(Target::RatioAtLeast(1.0)),
                _ => None,
            };
            let case = |what: &str| case(&format!("{what}-{threads}"));
            self.push_rows(&Row::more(case("qps"), "1/s", qps), &peers, &format!("qps{threads}"), target);
            self.push_rows(
                &Row::less(case("cpu"), "cpu us", cpu),
                &peers,
                &format!("cpu_us{threads}"),
                target,
            );
            let target = |_: &str| (threads == 1).then_some(Target::ValueAtMost(5.0));
            self.push_rows(&Row::less(case("p99"), "ms", p99), &peers, &format!("p99_{threads}"), target);
        }
        drop(index);
        std::fs::remove_dir_all(&directory).ok();
    }

    /// The built-in encoder, beside `use-multilingual` if that is installed, and an index with its vectors.
    fn bench_encoder(&mut self, size: usize) {
        let texts = SyntheticCorpus::generate(size);
        let runtime = tokio::runtime::Handle::current();
        let case = |what: &str| format!("encoder{size}/{what}");
        let before = resident_megabytes();
        let encoder = BuiltInEncoder::open().expect("the encoder");
        let passages: Vec<String> =
            texts.documents.iter().map(|(document, _)| document.text.clone()).collect();
        // Milliseconds of processor time for a text.
        let measure = |embedder: &dyn Embedder, texts: &[String], side: EmbeddingSide| {
            let used = cpu_seconds();
            for some in texts.chunks(64) {
                runtime.block_on(embedder.embed(some, side)).expect("vectors");
            }
            (cpu_seconds() - used) * 1e3 / texts.len() as f64
        };
        let other = std::env::var_os("DORAN_BENCH_UNIVERSAL").map(|folder| {
            UniversalEmbedder::open(Path::new(&folder)).expect("the folder of `use-multilingual`")
        });
        for (what, texts, side, target) in [
            ("passage-cpu", &passages, EmbeddingSide::Passage, Some(Target::ValueAtMost(5.0))),
            ("question-cpu", &texts.questions, EmbeddingSide::Query, None),
        ] {
            let own = measure(&encoder, texts, side);
            let beside = other.as_ref().map(|other| measure(other, texts, side));
            let row = Row::less(case(what), "cpu ms", own).peer("use-multilingual", beside);
            self.report.push(row.target(target));
        }
        let memory = resident_megabytes() - before;
        if other.is_none() {
            self.report.push(Row::less(case("memory"), "MB", memory).target(Some(Target::ValueAtMost(60.0))));
        }
        let directory = self.folder.join("encoded");
        let index =
            runtime.block_on(LocalIndex::open(&directory, Some(Arc::new(encoder)))).expect("an index");
        let (started, used) = (Instant::now(), cpu_seconds());
        runtime.block_on(async {
            index.put_all(&DocumentTenant::new("bench"), &texts.documents).await.expect("put");
            while index.embed_some().await.expect("vectors") > 0 {}
        });
        let (seconds, used) = (started.elapsed().as_secs_f64(), cpu_seconds() - used);
        self.report.push(Row::more(case("ingest"), "MB/s", texts.megabytes() / seconds));
        self.report.push(Row::more(case("ingest-cpu"), "MB/cpu s", texts.megabytes() / used));
        self.report.push(Row::less(case("disk"), "MB", disk_megabytes(&directory)));
        drop(index);
        std::fs::remove_dir_all(&directory).ok();
    }

    /// Vector search alone, as an exact scan and with a graph.
    fn bench_vector_search(&mut self, size: usize, dimension: usize) {
        let vectors = SyntheticVectors::generate(size, dimension);
        vectors.write(&self.folder).expect("files for the peers");
        let peers = self.run_peers(&["flat", "hnsw"]);
        let before = resident_megabytes();
        let started = Instant::now();
        let bytes = VectorRows::write(dimension, vectors.rows.iter().map(Vec::as_slice)).expect("numbers");
        let written = bytes.len() as f64 / 1e6;
        let rows = VectorRows::open(bytes).expect("rows");
        let flat_build = started.elapsed().as_secs_f64();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let graph = HnswGraph::write(&rows, cores, &AtomicBool::new(false)).expect("a graph");
        let build = started.elapsed().as_secs_f64();
        let disk = written + graph.len() as f64 / 1e6;
        let graph = HnswGraph::open(graph, rows.len()).expect("a graph");
        let memory = resident_megabytes() - before;
        let truth: Vec<Vec<usize>> =
            vectors.query_vectors.iter().take(100).map(|asked| exact_nearest(&rows, asked)).collect();
        for (way, graph, build, disk) in
            [("flat", None, flat_build, written), ("graph", Some(&graph), build, disk)]
        {
            let peers: Vec<(String, Value)> = peers
                .iter()
                .filter(|(name, _)| name.contains(if way == "flat" { "flat" } else { "hnsw" }))
                .cloned()
                .collect();
            let field = [VectorSearchTarget { rows: &rows, graph }];
            let case = |what: &str| format!("vectors{size}x{dimension}/{way}-{what}");
            let no = |_: &str| None;
            let found = |asked: &[f32]| nearest_rows(&field, asked, HITS_PER_QUERY, &|_, _| true);
            let right: usize = vectors
                .query_vectors
                .iter()
                .zip(&truth)
                .map(|(asked, truth)| found(asked).iter().filter(|near| truth.contains(&near.row)).count())
                .sum();
            let recall = right as f64 / (truth.len() * HITS_PER_QUERY) as f64;
            self.push_rows(&Row::less(case("build"), "s", build), &peers, "build_s", no);
            self.push_rows(&Row::less(case("disk"), "MB", disk), &peers, "disk_mb", no);
            if way == "graph" {
                self.push_rows(&Row::less(case("memory"), "MB", memory), &peers, "rss_mb", no);
            }
            let target = |_: &str| Some(Target::ValueAtLeast(0.95));
            self.push_rows(&Row::more(case("recall"), "of 1", recall), &peers, "recall", target);
            for threads in [1, 16] {
                let (qps, p99, cpu) = measure_queries(threads, self.duration, |at| {
                    found(&vectors.query_vectors[at % vectors.query_vectors.len()]).len()
                });
                let case = |what: &str| case(&format!("{what}-{threads}"));
                let target =
                    |name: &str| (way == "graph" && !name.is_empty()).then_some(Target::RatioAtLeast(1.0));
                self.push_rows(&Row::more(case("qps"), "1/s", qps), &peers, &format!("qps{threads}"), target);
                self.push_rows(
                    &Row::less(case("cpu"), "cpu us", cpu),
                    &peers,
                    &format!("cpu_us{threads}"),
                    target,
                );
                self.push_rows(&Row::less(case("p99"), "ms", p99), &peers, &format!("p99_{threads}"), no);
            }
        }
    }

    /// Runs the peers, each in its own process. Missing ones are left out, with a message.
    fn run_peers(&self, names: &[&str]) -> Vec<(String, Value)> {
        let mut all = Vec::new();
        for name in names {
            let mut command = match peer::script("search") {
                Ok(command) => command,
                Err(error) => {
                    eprintln!("bench: THE PEERS ARE MISSING, their figures are left out: {error}");
                    eprintln!("bench: 비교 대상을 실행할 수 없어 그 수치는 비워 둡니다.");
                    return all;
                }
            };
            command.arg(name).arg(&self.folder).arg(self.duration.as_secs_f64().to_string());
            let asked = command.stderr(Stdio::inherit()).output();
            let response = asked.ok().and_then(|output| serde_json::from_slice::<Value>(&output.stdout).ok());
            match response {
                Some(figures) => {
                    let full = figures["name"].as_str().unwrap_or(name).to_owned();
                    all.push((full, figures));
                }
                None => eprintln!("bench: {name} gave no figures / {name}의 결과가 없습니다"),
            }
        }
        all
    }
}

/// Returns the exact nearest rows.
fn exact_nearest(rows: &VectorRows, asked: &[f32]) -> Vec<usize> {
    let mut all: Vec<(f32, usize)> = (0..rows.len()).map(|row| (rows.dot(row, asked), row)).collect();
    all.select_nth_unstable_by(HITS_PER_QUERY - 1, |left, right| right.0.total_cmp(&left.0));
    all.truncate(HITS_PER_QUERY);
    all.into_iter().map(|(_, row)| row).collect()
}

/// Runs queries from several threads for a while. Returns queries per second, the 99th percentile of the latency in
/// milliseconds, and the CPU time of a query in microseconds.
fn measure_queries(
    threads: usize,
    lasting: Duration,
    ask: impl Fn(usize) -> usize + Sync,
) -> (f64, f64, f64) {
    let next = AtomicUsize::new(0);
    (0..20).for_each(|at| assert!(ask(at) > 0, "every question has an answer"));
    let (started, used) = (Instant::now(), cpu_seconds());
    let times: Vec<f64> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut times = Vec::new();
                    while started.elapsed() < lasting {
                        let started = Instant::now();
                        ask(next.fetch_add(1, Ordering::Relaxed));
                        times.push(started.elapsed().as_secs_f64() * 1e3);
                    }
                    times
                })
            })
            .collect();
        all.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    let qps = times.len() as f64 / started.elapsed().as_secs_f64();
    let cpu = (cpu_seconds() - used) * 1e6 / times.len() as f64;
    (qps, times::at(&times, 0.99), cpu)
}

/// Returns the CPU time of this process in seconds, or 0 if the system does not report it.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(") ").next().unwrap_or_default();
    // User and system time are the 12th and 13th field after the name, in hundredths of a second.
    after.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Returns the resident memory of this process in MB, or 0 if the system does not report it.
fn resident_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

fn disk_megabytes(folder: &Path) -> f64 {
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => disk_megabytes(&entry.path()),
        Ok(about) => about.len() as f64 / 1e6,
        Err(_) => 0.0,
    };
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(size).sum()
}
