//! One file of the index: some documents of one tenant, a keyword segment over their passages, and their vectors.
//!
//! A file is written once and never changed, so it can stay memory-mapped while it is read.
//!
//! ```text
//! magic 8 · checksum 8 · bytes of documents, of texts, of words, of vectors 4 × u64
//! documents, a line of JSON each · their texts · a keyword segment · rows of vectors, if the index has an embedder
//! ```

use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use sha2::{Digest, Sha256};

use crate::keyword::{Segment, SharedBytes, StoredDocument, StoredDocumentRecord};
use crate::library::disk;
use crate::retriever::RetrieveError;
use crate::vector::VectorRows;

use super::io_error;

const MAGIC: &[u8; 8] = b"DORANLS2";
const HEADER_BYTES: usize = 48;
/// Checksums are computed in pieces of this size. Reading does not keep the pages in memory, unlike mapping.
const CHECKSUM_BUFFER_BYTES: usize = 1 << 20;

/// The content of a file.
#[derive(Debug)]
pub(super) struct IndexFileContent {
    pub(super) documents: Vec<Arc<StoredDocument>>,
    pub(super) segment: Segment,
    pub(super) rows: Option<VectorRows>,
}

/// Writes a file and returns its content. `rows` are the bytes of the vectors, one row for each slot of the segment.
pub(super) fn write_index_file(
    path: &Path,
    held: &[Arc<StoredDocument>],
    segment: Segment,
    rows: &[u8],
) -> Result<IndexFileContent, RetrieveError> {
    let unwritten = |error| io_error("the index cannot be written", error);
    let mut lines = Vec::new();
    for held in held {
        serde_json::to_writer(&mut lines, &held.to_record()).map_err(|error| unwritten(error.into()))?;
        lines.push(b'\n');
    }
    let texts: usize = held.iter().map(|held| held.text_bytes().len()).sum();
    let sizes = [lines.len(), texts, segment.bytes().len(), rows.len()];
    let mut bytes = Vec::with_capacity(HEADER_BYTES + lines.len() + texts);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[0; 8]);
    for size in sizes {
        bytes.extend_from_slice(&(size as u64).to_le_bytes());
    }
    bytes.extend_from_slice(&lines);
    drop(lines);
    let mut places = Vec::with_capacity(held.len());
    for held in held {
        places.push(bytes.len()..bytes.len() + held.text_bytes().len());
        bytes.extend_from_slice(held.text_bytes());
    }
    let sum = checksum(&[&bytes[16..], segment.bytes(), rows]);
    bytes[8..16].copy_from_slice(&sum);
    disk::write_pieces_atomically(path, &[&bytes, segment.bytes(), rows]).map_err(unwritten)?;
    drop(bytes);
    let (_, map) = map_path(path)?;
    let [_, _, words, rows] = section_ranges(path, &map)?;
    let kept: SharedBytes = map.clone();
    let moved =
        held.iter().zip(places).map(|(held, place)| Arc::new(held.with_text_at(Arc::clone(&kept), place)));
    // From here on the segment uses the mapped file instead of its own memory.
    let segment = segment.with_bytes_at(MappedSlice::new(Arc::clone(&map), words));
    check_content(path, map, moved.collect(), segment, rows)
}

/// Opens a file and verifies its checksum.
pub(super) fn open_index_file(path: &Path) -> Result<IndexFileContent, RetrieveError> {
    let (map, [documents, texts, words, rows]) = map_checked(path)?;
    let held = parse_documents(path, &map, documents, texts)?;
    let segment = Segment::open_checked(MappedSlice::new(Arc::clone(&map), words))?;
    check_content(path, map, held, segment, rows)
}

fn check_content(
    path: &Path,
    map: Arc<Mmap>,
    held: Vec<Arc<StoredDocument>>,
    segment: Segment,
    rows: Range<usize>,
) -> Result<IndexFileContent, RetrieveError> {
    let rows = match rows.is_empty() {
        true => None,
        false => Some(
            VectorRows::open(MappedSlice::new(map, rows))
                .ok_or_else(|| stale_file_error(path, "has odd vectors"))?,
        ),
    };
    let fits =
        segment.documents().len() == held.len()
            && segment.documents().iter().zip(&held).all(|(listed, held)| {
                listed.id == held.metadata().id && listed.passages as usize == held.len()
            })
            && rows.as_ref().is_none_or(|rows| rows.len() == segment.slot_count());
    if fits {
        Ok(IndexFileContent { documents: held, segment, rows })
    } else {
        Err(stale_file_error(path, "contradicts itself"))
    }
}

/// Reads the documents of a file, whatever analyser and embedder it was made with.
pub(super) fn read_documents(path: &Path) -> Result<Vec<Arc<StoredDocument>>, RetrieveError> {
    let (map, [documents, texts, _, _]) = map_checked(path)?;
    parse_documents(path, &map, documents, texts)
}

fn parse_documents(
    path: &Path,
    map: &Arc<Mmap>,
    lines: Range<usize>,
    texts: Range<usize>,
) -> Result<Vec<Arc<StoredDocument>>, RetrieveError> {
    let odd = || stale_file_error(path, "has an odd document");
    let kept: SharedBytes = Arc::<Mmap>::clone(map);
    let mut all = Vec::new();
    let mut start = texts.start;
    for line in map[lines].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line: StoredDocumentRecord<'_> = serde_json::from_slice(line).map_err(|_| odd())?;
        let end = start.checked_add(line.length).filter(|end| *end <= texts.end).ok_or_else(odd)?;
        let held = StoredDocument::from_record(line, Arc::clone(&kept), start..end).ok_or_else(odd)?;
        all.push(Arc::new(held));
        start = end;
    }
    if start == texts.end { Ok(all) } else { Err(odd()) }
}

/// Maps a file of the index into memory.
#[allow(unsafe_code, reason = "mapping a file has no safe form")]
pub(super) fn map_file(file: &File) -> io::Result<Mmap> {
    // SAFETY: the file does not change while it is mapped. It is written elsewhere and renamed, then only read and at
    // last unlinked. The index holds the lock of its directory, so no other process of this program writes to it.
    unsafe { Mmap::map(file) }
}

/// Reads the checksum in the header of a file.
pub(super) fn stored_checksum(path: &Path) -> Option<[u8; 8]> {
    let mut head = [0; 16];
    File::open(path).ok()?.read_exact(&mut head).ok()?;
    Some(std::array::from_fn(|at| head[8 + at]))
}

/// Maps a file after its checksum was verified.
fn map_checked(path: &Path) -> Result<(Arc<Mmap>, [Range<usize>; 4]), RetrieveError> {
    let (mut file, map) = map_path(path)?;
    let ranges = section_ranges(path, &map)?;
    let mut hasher = Sha256::new();
    let mut some = vec![0; CHECKSUM_BUFFER_BYTES.min(map.len())];
    let mut sum = || -> io::Result<[u8; 8]> {
        file.seek(io::SeekFrom::Start(16))?;
        loop {
            match file.read(&mut some)? {
                0 => break,
                count => hasher.update(&some[..count]),
            }
        }
        let digest = hasher.finalize_reset();
        Ok(std::array::from_fn(|at| digest[at]))
    };
    let sum = sum().map_err(|source| io_error(format!("`{}` cannot be read", path.display()), source))?;
    if sum[..] != map[8..16] { Err(stale_file_error(path, "is damaged")) } else { Ok((map, ranges)) }
}

fn map_path(path: &Path) -> Result<(File, Arc<Mmap>), RetrieveError> {
    let unreadable = |source| io_error(format!("`{}` cannot be read", path.display()), source);
    let file = File::open(path).map_err(|error| match error.kind() {
        // A missing file, like a damaged one, is repaired by rebuilding the index.
        io::ErrorKind::NotFound => stale_file_error(path, "is missing"),
        _ => unreadable(error),
    })?;
    let map = map_file(&file).map_err(unreadable)?;
    Ok((file, Arc::new(map)))
}

/// Returns the byte ranges of the sections of a file.
fn section_ranges(path: &Path, map: &Mmap) -> Result<[Range<usize>; 4], RetrieveError> {
    if map.len() < HEADER_BYTES || map[..8] != MAGIC[..] {
        return Err(stale_file_error(path, "has another format"));
    }
    let mut start = HEADER_BYTES;
    let ranges = [16, 24, 32, 40].map(|at| {
        let size = u64::from_le_bytes(std::array::from_fn(|byte| map[at + byte]));
        let end = usize::try_from(size).ok().and_then(|size| start.checked_add(size)).unwrap_or(usize::MAX);
        std::mem::replace(&mut start, end)..end
    });
    // A size that is too large makes the last section end beyond the file.
    if start != map.len() { Err(stale_file_error(path, "contradicts itself")) } else { Ok(ranges) }
}

fn stale_file_error(path: &Path, what: &str) -> RetrieveError {
    RetrieveError::Stale { reason: format!("`{}` {what}", path.display()) }
}

/// Returns the checksum of several pieces.
pub(super) fn checksum(pieces: &[&[u8]]) -> [u8; 8] {
    let mut hasher = Sha256::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    let digest = hasher.finalize();
    std::array::from_fn(|at| digest[at])
}

/// A range of a mapped file.
pub(super) struct MappedSlice {
    map: Arc<Mmap>,
    range: Range<usize>,
}

impl MappedSlice {
    pub(super) fn new(map: Arc<Mmap>, range: Range<usize>) -> Self {
        Self { map, range }
    }
}

impl AsRef<[u8]> for MappedSlice {
    fn as_ref(&self) -> &[u8] {
        &self.map[self.range.clone()]
    }
}
