//! The vectors of index files, and HNSW graphs over those of large ones. They are built in the background and stored beside the files.
//! Until a graph is ready, a search scans all rows, which is slower but exact.
//!
//! ```text
//! magic 8 · checksum 8 · checksum of the file whose vectors these are 8 · the graph
//! ```

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::library::disk;
use crate::vector::{HnswGraph, VectorRows};

use super::index_file::{self, MappedSlice};

const MAGIC: &[u8; 8] = b"DORANGR1";
const HEADER_BYTES: usize = 24;

/// A file with at least this many rows gets a graph. Below that an exact scan takes less than a millisecond.
pub(super) const MIN_GRAPH_ROWS: usize = 10_000;

/// The vectors of a file, and the graph over them once it is built.
#[derive(Debug)]
pub(super) struct VectorsWithGraph {
    rows: VectorRows,
    graph: OnceLock<HnswGraph>,
    abandoned: AtomicBool,
}

impl VectorsWithGraph {
    pub(super) fn new(rows: VectorRows) -> Self {
        Self { rows, graph: OnceLock::new(), abandoned: AtomicBool::new(false) }
    }

    pub(super) fn rows(&self) -> &VectorRows {
        &self.rows
    }

    pub(super) fn graph(&self) -> Option<&HnswGraph> {
        self.graph.get()
    }

    /// Stops building the graph, because these vectors are no longer searched.
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Loads the graph stored beside the file, or builds one in the background.
    pub(super) fn ensure_graph(self: &Arc<Self>, index_file_path: &Path) {
        let (graph_file, index_file_path) = (graph_path(index_file_path), index_file_path.to_owned());
        if let Some(graph) = open_graph(&graph_file, &index_file_path, self.rows.len()) {
            // Another thread may have set the same graph first.
            drop(self.graph.set(graph));
            return;
        }
        let own = Arc::clone(self);
        let work = move || own.build_graph(&graph_file, &index_file_path);
        if let Err(error) = std::thread::Builder::new().name("graph".to_owned()).spawn(work) {
            tracing::warn!(%error, "no graph is made; all vectors are looked at");
        }
    }

    fn build_graph(&self, graph_file: &Path, index_file_path: &Path) {
        // Half of the processors, so that searches and writes continue meanwhile.
        let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
        let Some(graph) = HnswGraph::write(&self.rows, threads, &self.abandoned) else { return };
        let Some(index_checksum) = index_file::stored_checksum(index_file_path) else { return };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + graph.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&index_checksum);
        bytes.extend_from_slice(&graph);
        let checksum = index_file::checksum(&[&bytes[16..]]);
        bytes[8..16].copy_from_slice(&checksum);
        if self.abandoned.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = disk::write_file_atomically(graph_file, &bytes) {
            tracing::warn!(%error, "a graph could not be written; it is made again at the next start");
        }
        drop(bytes);
        let mapped = open_graph(graph_file, index_file_path, self.rows.len());
        if let Some(graph) = mapped.or_else(|| HnswGraph::open(graph, self.rows.len())) {
            drop(self.graph.set(graph));
        }
    }
}

/// Returns the path of the graph of a file.
pub(super) fn graph_path(index_file_path: &Path) -> PathBuf {
    index_file_path.with_extension("graph")
}

/// Reads the graph of a file. Returns `None` if it is missing, damaged or made for other vectors.
fn open_graph(graph_file: &Path, index_file_path: &Path, rows: usize) -> Option<HnswGraph> {
    let map = index_file::map_file(&File::open(graph_file).ok()?).ok()?;
    let sound = map.len() >= HEADER_BYTES
        && map[..8] == MAGIC[..]
        && index_file::checksum(&[&map[16..]])[..] == map[8..16]
        && index_file::stored_checksum(index_file_path)
            .is_some_and(|index_checksum| map[16..HEADER_BYTES] == index_checksum);
    let range = HEADER_BYTES..map.len();
    sound.then(|| HnswGraph::open(MappedSlice::new(Arc::new(map), range), rows)).flatten()
}
