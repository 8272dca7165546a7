//! `./x bench search [--quick] [--json]`: what searching costs, beside bm25s, Whoosh and faiss on the same passages.
//!
//! Passages are made up, with words as frequent as in real text; vectors are made up too and vary in few directions, as
//! those of real texts do. The peers are asked by `bench/peer/search.py`, which reads the same files.

#![allow(clippy::expect_used, reason = "a measurement that cannot go on has nothing to say")]

mod corpus;
mod table;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use doran_retrieval::vector::{Field, Graph, Rows, nearest};
use doran_retrieval::{Index, LocalIndex, Question, Retriever, Tenant};
use serde_json::Value;

use corpus::{Texts, Vectors};
use table::{Better, Row, Target};

/// How many hits are asked for.
const WANTED: usize = 10;
/// Numbers in a vector: as many as the built-in encoder gives, and fewer for the largest set.
const WIDE: usize = 512;
const NARROW: usize = 128;

struct Bench {
    lasting: Duration,
    folder: std::path::PathBuf,
    rows: Vec<Row>,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let (quick, as_json) = (has("--quick"), has("--json"));
    let folder = std::env::temp_dir().join(format!("doran-bench-search-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the peers");
    let lasting = Duration::from_millis(if quick { 700 } else { 3000 });
    let mut bench = Bench { lasting, folder, rows: Vec::new() };
    // Small enough to try the program itself without optimisation.
    let tiny = has("--tiny");
    let sizes: &[usize] = match (tiny, quick) {
        (true, _) => &[500],
        (false, true) => &[10_000],
        (false, false) => &[10_000, 100_000],
    };
    for size in sizes {
        bench.words(*size);
        bench.vectors(*size, WIDE);
    }
    if !quick && !tiny {
        bench.vectors(1_000_000, NARROW);
    }
    std::fs::remove_dir_all(&bench.folder).ok();
    if as_json {
        bench.rows.iter().for_each(|row| println!("{}", row.json()));
    } else {
        print!("{}", table::table(&bench.rows));
    }
}

impl Bench {
    /// A row for each peer that has the figure, or one alone.
    fn row(
        &mut self,
        case: String,
        unit: &'static str,
        better: Better,
        doran: f64,
        peers: &[(String, Value)],
        key: &str,
        target: impl Fn(&str) -> Option<Target>,
    ) {
        let mut alone = true;
        for (name, figures) in peers {
            if let Some(value) = figures[key].as_f64() {
                alone = false;
                let (case, target) = (case.clone(), target(name));
                self.rows.push(Row { case, unit, doran, peer: Some((name.clone(), value)), better, target });
            }
        }
        if alone {
            self.rows.push(Row { case, unit, doran, peer: None, better, target: target("") });
        }
    }

    /// Words, in a directory.
    fn words(&mut self, size: usize) {
        let texts = Texts::make(size);
        texts.write(&self.folder).expect("files for the peers");
        let peers = self.peers(&["bm25s", "whoosh"]);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let tenant = Tenant::new("bench");
        let directory = self.folder.join("local");
        let before = resident();
        let index = runtime.block_on(LocalIndex::open(&directory, None)).expect("an index");
        let started = Instant::now();
        // Two at once, as the library does.
        runtime.block_on(async {
            let (front, back) = texts.documents.split_at(size / 2);
            let fill = async |some: &[(_, _)]| {
                for batch in some.chunks(2000) {
                    index.put_all(&tenant, batch).await.expect("put");
                }
            };
            tokio::join!(fill(front), fill(back));
        });
        let seconds = started.elapsed().as_secs_f64();
        let no = |_: &str| None;
        self.row(format!("words{size}/build"), "s", Better::Less, seconds, &peers, "build_s", no);
        let speed = texts.megabytes() / seconds;
        self.row(format!("words{size}/ingest"), "MB/s", Better::More, speed, &[], "", |_| {
            Some(Target::AtLeast(20.0))
        });
        let memory = resident() - before;
        self.row(format!("words{size}/memory"), "MB", Better::Less, memory, &peers, "rss_mb", no);
        self.row(format!("words{size}/disk"), "MB", Better::Less, disk(&directory), &peers, "disk_mb", no);
        for threads in [1, 16] {
            let (qps, p99) = run(threads, self.lasting, |at| {
                let text = &texts.questions[at % texts.questions.len()];
                let question = Question::new(tenant.clone(), text.clone(), WANTED);
                runtime.block_on(index.retrieve(&question)).expect("hits").len()
            });
            let target = |name: &str| match name.split(' ').next() {
                Some("whoosh") => Some(Target::Ratio(10.0)),
                Some("bm25s") => Some(Target::Ratio(1.0)),
                _ => None,
            };
            let case = |what: &str| format!("words{size}/{what}-{threads}");
            self.row(case("qps"), "1/s", Better::More, qps, &peers, &format!("qps{threads}"), target);
            let target = |_: &str| (threads == 1).then_some(Target::AtMost(5.0));
            self.row(case("p99"), "ms", Better::Less, p99, &peers, &format!("p99_{threads}"), target);
        }
        drop(index);
        std::fs::remove_dir_all(&directory).ok();
    }

    /// Vectors alone, looked at all and along a graph.
    fn vectors(&mut self, size: usize, dimension: usize) {
        let vectors = Vectors::make(size, dimension);
        vectors.write(&self.folder).expect("files for the peers");
        let peers = self.peers(&["flat", "hnsw"]);
        let before = resident();
        let started = Instant::now();
        let bytes = Rows::write(dimension, vectors.rows.iter().map(Vec::as_slice)).expect("numbers");
        let written = bytes.len() as f64 / 1e6;
        let rows = Rows::open(bytes).expect("rows");
        let flat_build = started.elapsed().as_secs_f64();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let graph = Graph::write(&rows, cores, &AtomicBool::new(false)).expect("a graph");
        let build = started.elapsed().as_secs_f64();
        let disk = written + graph.len() as f64 / 1e6;
        let graph = Graph::open(graph, rows.len()).expect("a graph");
        let memory = resident() - before;
        let truth: Vec<Vec<usize>> =
            vectors.asked.iter().take(100).map(|asked| truth(&rows, asked)).collect();
        for (way, graph, build, disk) in
            [("flat", None, flat_build, written), ("graph", Some(&graph), build, disk)]
        {
            let peers: Vec<(String, Value)> = peers
                .iter()
                .filter(|(name, _)| name.contains(if way == "flat" { "flat" } else { "hnsw" }))
                .cloned()
                .collect();
            let field = [Field { rows: &rows, graph }];
            let case = |what: &str| format!("vectors{size}x{dimension}/{way}-{what}");
            let no = |_: &str| None;
            let found = |asked: &[f32]| nearest(&field, asked, WANTED, &|_, _| true);
            let right: usize = vectors
                .asked
                .iter()
                .zip(&truth)
                .map(|(asked, truth)| found(asked).iter().filter(|near| truth.contains(&near.row)).count())
                .sum();
            let recall = right as f64 / (truth.len() * WANTED) as f64;
            self.row(case("build"), "s", Better::Less, build, &peers, "build_s", no);
            self.row(case("disk"), "MB", Better::Less, disk, &peers, "disk_mb", no);
            if way == "graph" {
                self.row(case("memory"), "MB", Better::Less, memory, &peers, "rss_mb", no);
            }
            self.row(case("recall"), "of 1", Better::More, recall, &peers, "recall", |_| {
                Some(Target::AtLeast(0.95))
            });
            for threads in [1, 16] {
                let (qps, p99) =
                    run(threads, self.lasting, |at| found(&vectors.asked[at % vectors.asked.len()]).len());
                let name = case(&format!("qps-{threads}"));
                let target = |name: &str| (way == "graph" && !name.is_empty()).then_some(Target::Ratio(1.0));
                self.row(name, "1/s", Better::More, qps, &peers, &format!("qps{threads}"), target);
                let name = case(&format!("p99-{threads}"));
                self.row(name, "ms", Better::Less, p99, &peers, &format!("p99_{threads}"), no);
            }
        }
    }

    /// What peers measured, each in a process of its own. Those that are missing are left out, and that is said.
    fn peers(&self, names: &[&str]) -> Vec<(String, Value)> {
        let Some(python) = std::env::var_os("DORAN_BENCH_PYTHON").filter(|python| !python.is_empty()) else {
            eprintln!("bench: no Python with the peers, so they are left out / 비교 대상이 없어 뺍니다");
            return Vec::new();
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peer/search.py");
        let mut all = Vec::new();
        for name in names {
            let asked = Command::new(&python)
                .arg(&script)
                .arg(name)
                .arg(&self.folder)
                .arg(self.lasting.as_secs_f64().to_string())
                .stderr(Stdio::inherit())
                .output();
            let told = asked.ok().and_then(|output| serde_json::from_slice::<Value>(&output.stdout).ok());
            match told {
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

/// The rows that exact arithmetic finds.
fn truth(rows: &Rows, asked: &[f32]) -> Vec<usize> {
    let mut all: Vec<(f32, usize)> = (0..rows.len()).map(|row| (rows.dot(row, asked), row)).collect();
    all.select_nth_unstable_by(WANTED - 1, |left, right| right.0.total_cmp(&left.0));
    all.truncate(WANTED);
    all.into_iter().map(|(_, row)| row).collect()
}

/// Asks from several threads for a while. Gives questions a second, and the milliseconds all but a hundredth stay below.
fn run(threads: usize, lasting: Duration, ask: impl Fn(usize) -> usize + Sync) -> (f64, f64) {
    let next = AtomicUsize::new(0);
    (0..20).for_each(|at| assert!(ask(at) > 0, "every question has an answer"));
    let started = Instant::now();
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut times = Vec::new();
                    while started.elapsed() < lasting {
                        let begun = Instant::now();
                        ask(next.fetch_add(1, Ordering::Relaxed));
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
