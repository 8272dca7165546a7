//! Vectors that are computed and not yet part of an index file. A large document takes a while; if the process ends, the
//! next one goes on from here. The file is only appended to. A record that was cut off by a crash is noticed by its
//! checksum and computed again, so nothing waits for the disk.
//!
//! ```text
//! magic 8 · checksum of the embedder 8 · records: key 16, numbers dimension × f32, checksum 8
//! ```

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use doran_llm::EmbedderInfo;
use sha2::{Digest, Sha256};

use crate::passage::Passage;

use super::index_file::checksum;

/// The name of the file beside the manifest.
pub(super) const COMPUTED_VECTORS_FILE: &str = "computed-vectors";

const MAGIC: &[u8; 8] = b"DORANCV1";
const HEADER_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 8;

/// Identifies the text that a vector was computed from.
pub(super) type EmbeddedTextKey = [u8; 16];

/// Returns the key of the text that is embedded for a passage.
pub(super) fn embedded_text_key(passage: &Passage) -> EmbeddedTextKey {
    let mut hasher = Sha256::new();
    hasher.update((passage.title.len() as u64).to_le_bytes());
    hasher.update(&passage.title);
    hasher.update(&passage.text);
    let digest = hasher.finalize();
    std::array::from_fn(|at| digest[at])
}

/// The computed vectors, in memory and in their file.
pub(super) struct ComputedVectors {
    file: File,
    vectors: HashMap<EmbeddedTextKey, Vec<f32>>,
}

impl ComputedVectors {
    /// Opens the file in a directory. The vectors of another embedder, and everything from a damaged record on, are
    /// discarded.
    pub(super) fn open(directory: &Path, embedder: &EmbedderInfo) -> io::Result<Self> {
        let mut header = MAGIC.to_vec();
        header.extend(checksum(&[embedder.id.as_bytes(), &(embedder.dimension as u64).to_le_bytes()]));
        let path = directory.join(COMPUTED_VECTORS_FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut vectors = HashMap::new();
        let mut end = 0;
        if let Some(records) = bytes.strip_prefix(header.as_slice()) {
            end = HEADER_BYTES;
            for record in records.chunks_exact(record_bytes(embedder.dimension)) {
                let (content, sum) = record.split_at(record.len() - CHECKSUM_BYTES);
                if checksum(&[content]) != sum {
                    break;
                }
                end += record.len();
                let (key, numbers) = content.split_at(size_of::<EmbeddedTextKey>());
                let numbers = numbers.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
                vectors.insert(std::array::from_fn(|at| key[at]), numbers.collect());
            }
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        file.set_len(end as u64)?;
        if end == 0 {
            file.write_all(&header)?;
        }
        Ok(Self { file, vectors })
    }

    /// Returns the vector of a text, if it is known.
    pub(super) fn get(&self, key: &EmbeddedTextKey) -> Option<&Vec<f32>> {
        self.vectors.get(key)
    }

    /// Adds vectors.
    pub(super) fn add(&mut self, new: Vec<(EmbeddedTextKey, Vec<f32>)>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (key, vector) in &new {
            let start = bytes.len();
            bytes.extend_from_slice(key);
            bytes.extend(vector.iter().flat_map(|number| number.to_le_bytes()));
            let sum = checksum(&[&bytes[start..]]);
            bytes.extend_from_slice(&sum);
        }
        self.file.write_all(&bytes)?;
        self.vectors.extend(new);
        Ok(())
    }
}

/// Removes the file, because all vectors are in index files.
pub(super) fn remove_computed_vectors(directory: &Path) -> io::Result<()> {
    match std::fs::remove_file(directory.join(COMPUTED_VECTORS_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn record_bytes(dimension: usize) -> usize {
    size_of::<EmbeddedTextKey>() + 4 * dimension + CHECKSUM_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedder(id: &str) -> EmbedderInfo {
        EmbedderInfo { id: id.to_owned(), dimension: 2, multilingual: true }
    }

    #[test]
    fn whole_records_of_the_same_embedder_are_kept() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join(COMPUTED_VECTORS_FILE);
        let known = |embedder: &EmbedderInfo| {
            let opened = ComputedVectors::open(place.path(), embedder).expect("it opens");
            let mut known: Vec<(u8, Vec<f32>)> =
                opened.vectors.iter().map(|(key, vector)| (key[0], vector.clone())).collect();
            known.sort_by_key(|(key, _)| *key);
            known
        };
        let a = embedder("a");
        let mut first = ComputedVectors::open(place.path(), &a).expect("it opens");
        first.add(vec![([1; 16], vec![0.5, -0.5]), ([2; 16], vec![1.0, 0.0])]).expect("added");
        first.add(vec![([3; 16], vec![0.0, 1.0])]).expect("added");
        drop(first);
        assert_eq!(known(&a), [(1, vec![0.5, -0.5]), (2, vec![1.0, 0.0]), (3, vec![0.0, 1.0])]);

        let mut bytes = std::fs::read(&path).expect("read");
        bytes.truncate(bytes.len() - 1);
        std::fs::write(&path, &bytes).expect("written");
        assert_eq!(known(&a).len(), 2, "the last record is cut off");
        let mut second = ComputedVectors::open(place.path(), &a).expect("it opens");
        second.add(vec![([4; 16], vec![0.0, -1.0])]).expect("added");
        drop(second);
        assert_eq!(known(&a).len(), 3, "what is added after a cut can be read");

        let mut bytes = std::fs::read(&path).expect("read");
        bytes[HEADER_BYTES + 17] ^= 1;
        std::fs::write(&path, &bytes).expect("written");
        assert_eq!(known(&a), [], "a damaged record ends the file");
        assert_eq!(known(&embedder("b")), []);
        remove_computed_vectors(place.path()).expect("removed");
        remove_computed_vectors(place.path()).expect("nothing to remove");
    }
}
