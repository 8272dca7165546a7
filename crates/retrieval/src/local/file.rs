//! One file of the index: some documents of one tenant, the words of their passages, and their vectors.
//!
//! A file is written once, whole, and never changed, so it can be mapped for as long as anybody reads it.
//!
//! ```text
//! magic 8 · checksum 8 · bytes of documents, of words, of vectors 3 × u64
//! documents, a line of JSON each · a keyword segment · rows of vectors, if the index has an embedder
//! ```

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use sha2::{Digest, Sha256};

use crate::keyword::{Held, Segment};
use crate::library::disk;
use crate::passage::{Document, Passage};
use crate::retriever::RetrieveError;
use crate::vector::Rows;

use super::broken;

const MAGIC: &[u8; 8] = b"DORANLS1";
const HEAD: usize = 40;

/// What a file holds.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) held: Vec<Arc<Held>>,
    pub(super) segment: Segment,
    pub(super) rows: Option<Rows>,
}

/// Writes a file. `rows` are the bytes of the vectors, one row for each slot of the segment.
pub(super) fn write(path: &Path, held: &[Arc<Held>], segment: &Segment, rows: &[u8]) -> io::Result<()> {
    let mut documents = Vec::new();
    for held in held {
        serde_json::to_writer(&mut documents, &lean(held))?;
        documents.push(b'\n');
    }
    let words = segment.bytes();
    let mut bytes = Vec::with_capacity(HEAD + documents.len() + words.len() + rows.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[0; 8]);
    for part in [&documents[..], words, rows] {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
    }
    for part in [&documents[..], words, rows] {
        bytes.extend_from_slice(part);
    }
    let sum = checksum(&bytes[16..]);
    bytes[8..16].copy_from_slice(&sum);
    disk::write(path, &bytes)
}

/// Opens a file, checking every byte.
pub(super) fn open(path: &Path) -> Result<Content, RetrieveError> {
    let (map, [documents, words, rows]) = map(path)?;
    let held = read(path, &map[documents])?;
    let segment = Segment::open(Slice::new(Arc::clone(&map), words))?;
    let rows = match rows.is_empty() {
        true => None,
        false => Some(Rows::open(Slice::new(map, rows)).ok_or_else(|| damaged(path, "has odd vectors"))?),
    };
    let fits = segment.documents().len() == held.len()
        && segment.documents().iter().zip(&held).all(|(listed, held)| {
            listed.id == held.document.id && listed.passages as usize == held.passages.len()
        })
        && rows.as_ref().is_none_or(|rows| rows.len() == segment.slots());
    if fits { Ok(Content { held, segment, rows }) } else { Err(damaged(path, "contradicts itself")) }
}

/// The documents of a file, whatever its words and vectors were made by.
pub(super) fn documents(path: &Path) -> Result<Vec<Arc<Held>>, RetrieveError> {
    let (map, [documents, _, _]) = map(path)?;
    read(path, &map[documents])
}

/// A document with its passages. The words of a passage are those of the document and are not kept twice.
fn lean(held: &Held) -> (&Document, Vec<Passage>) {
    let mut passages = held.passages.clone();
    for passage in &mut passages {
        if held.document.text.get(passage.range.clone()) == Some(passage.text.as_str()) {
            passage.text.clear();
        }
    }
    (&held.document, passages)
}

fn read(path: &Path, lines: &[u8]) -> Result<Vec<Arc<Held>>, RetrieveError> {
    let mut all = Vec::new();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let (document, mut passages): (Document, Vec<Passage>) =
            serde_json::from_slice(line).map_err(|_| damaged(path, "has an odd document"))?;
        for passage in passages.iter_mut().filter(|passage| passage.text.is_empty()) {
            let words = document.text.get(passage.range.clone());
            passage.text = words.ok_or_else(|| damaged(path, "has an odd passage"))?.to_owned();
        }
        all.push(Arc::new(Held::new(document, passages)));
    }
    Ok(all)
}

/// Maps a file of the index.
#[allow(unsafe_code, reason = "mapping a file has no safe form")]
pub(super) fn mapped(file: &File) -> io::Result<Mmap> {
    // SAFETY: nobody changes the file while it is mapped. It is written beside its place and renamed, then only read
    // and at last unlinked; the index holds the lock of its directory, so no other process of ours has it open.
    unsafe { Mmap::map(file) }
}

/// The checksum a file carries.
pub(super) fn sum(path: &Path) -> Option<[u8; 8]> {
    let mut head = [0; 16];
    File::open(path).ok()?.read_exact(&mut head).ok()?;
    Some(std::array::from_fn(|at| head[8 + at]))
}

fn map(path: &Path) -> Result<(Arc<Mmap>, [Range<usize>; 3]), RetrieveError> {
    let unreadable = |source| broken(format!("`{}` cannot be read", path.display()), source);
    let file = File::open(path).map_err(unreadable)?;
    let map = mapped(&file).map_err(unreadable)?;
    if map.len() < HEAD || map[..8] != MAGIC[..] {
        return Err(damaged(path, "has another format"));
    }
    if checksum(&map[16..])[..] != map[8..16] {
        return Err(damaged(path, "is damaged"));
    }
    let mut start = HEAD;
    let ranges = [16, 24, 32].map(|at| {
        let size = u64::from_le_bytes(std::array::from_fn(|byte| map[at + byte]));
        let end = usize::try_from(size).ok().and_then(|size| start.checked_add(size)).unwrap_or(usize::MAX);
        std::mem::replace(&mut start, end)..end
    });
    if start != map.len() { Err(damaged(path, "contradicts itself")) } else { Ok((Arc::new(map), ranges)) }
}

fn damaged(path: &Path, what: &str) -> RetrieveError {
    RetrieveError::Stale { reason: format!("`{}` {what}", path.display()) }
}

pub(super) fn checksum(bytes: &[u8]) -> [u8; 8] {
    let digest = Sha256::digest(bytes);
    std::array::from_fn(|at| digest[at])
}

/// Some bytes of a mapped file.
pub(super) struct Slice {
    map: Arc<Mmap>,
    range: Range<usize>,
}

impl Slice {
    pub(super) fn new(map: Arc<Mmap>, range: Range<usize>) -> Self {
        Self { map, range }
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        &self.map[self.range.clone()]
    }
}
