//! Graphs over the vectors of large files: made in the background, kept beside the files, and no loss when they are not
//! there. Until one is ready all rows are looked at, which is slower and finds the same or more.
//!
//! ```text
//! magic 8 · checksum 8 · checksum of the file whose vectors these are 8 · the graph
//! ```

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::library::disk;
use crate::vector::{Graph, Rows};

use super::file::{self, Slice};

const MAGIC: &[u8; 8] = b"DORANGR1";
const HEAD: usize = 24;

/// From so many rows on a file gets a graph. Below, looking at all rows takes less than a millisecond, and is exact.
pub(super) const FROM: usize = 10_000;

/// The vectors of a file, and the graph over them once there is one.
#[derive(Debug)]
pub(super) struct Vectors {
    rows: Rows,
    graph: OnceLock<Graph>,
    left: AtomicBool,
}

impl Vectors {
    pub(super) fn new(rows: Rows) -> Self {
        Self { rows, graph: OnceLock::new(), left: AtomicBool::new(false) }
    }

    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    pub(super) fn graph(&self) -> Option<&Graph> {
        self.graph.get()
    }

    /// Nobody searches these any more: a graph over them need not be finished.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Sees to it that there is a graph: reads the one beside the file, or makes one in the background.
    pub(super) fn grow(self: &Arc<Self>, part: &Path) {
        let (place, part) = (beside(part), part.to_owned());
        if let Some(graph) = open(&place, &part, self.rows.len()) {
            // Somebody else may have been quicker, which is as good.
            drop(self.graph.set(graph));
            return;
        }
        let own = Arc::clone(self);
        let work = move || own.make(&place, &part);
        if let Err(error) = std::thread::Builder::new().name("graph".to_owned()).spawn(work) {
            tracing::warn!(%error, "no graph is made; all vectors are looked at");
        }
    }

    fn make(&self, place: &Path, part: &Path) {
        // Half of the processors: searches and writes go on meanwhile.
        let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
        let Some(graph) = Graph::write(&self.rows, threads, &self.left) else { return };
        let Some(sum) = file::sum(part) else { return };
        let mut bytes = Vec::with_capacity(HEAD + graph.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&sum);
        bytes.extend_from_slice(&graph);
        let whole = file::checksum(&[&bytes[16..]]);
        bytes[8..16].copy_from_slice(&whole);
        if self.left.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = disk::write(place, &bytes) {
            tracing::warn!(%error, "a graph could not be written; it is made again at the next start");
        }
        drop(bytes);
        let mapped = open(place, part, self.rows.len());
        if let Some(graph) = mapped.or_else(|| Graph::open(graph, self.rows.len())) {
            drop(self.graph.set(graph));
        }
    }
}

/// Where the graph of a file is kept.
pub(super) fn beside(part: &Path) -> PathBuf {
    part.with_extension("graph")
}

/// Reads the graph of a file. `None` where there is none, or one of other vectors, or a damaged one.
fn open(place: &Path, part: &Path, rows: usize) -> Option<Graph> {
    let map = file::mapped(&File::open(place).ok()?).ok()?;
    let sound = map.len() >= HEAD
        && map[..8] == MAGIC[..]
        && file::checksum(&[&map[16..]])[..] == map[8..16]
        && file::sum(part).is_some_and(|sum| map[16..HEAD] == sum);
    let range = HEAD..map.len();
    sound.then(|| Graph::open(Slice::new(Arc::new(map), range), rows)).flatten()
}
