//! Reproducible synthetic passages, queries and vectors that resemble real ones.

use std::io::{BufWriter, Write};
use std::path::Path;

use doran_retrieval::{Document, Passage, split_into_passages};

const VOCABULARY_SIZE: usize = 30_000;
const WORDS_PER_DOCUMENT: usize = 60;
const QUESTION_COUNT: usize = 200;
/// Vectors of real texts vary in far fewer directions than they have dimensions.
const DIRECTION_COUNT: usize = 24;
const NOISE: f32 = 0.3;

/// Texts and queries.
pub struct SyntheticCorpus {
    pub documents: Vec<(Document, Vec<Passage>)>,
    pub questions: Vec<String>,
}

/// Vectors and query vectors.
pub struct SyntheticVectors {
    pub dimension: usize,
    pub rows: Vec<Vec<f32>>,
    pub query_vectors: Vec<Vec<f32>>,
}

struct CorpusRandom(u64);

impl CorpusRandom {
    fn next_unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.next_unit() * end as f64) as usize).min(end - 1)
    }

    /// Returns a rank by Zipf's law: small ones often, large ones rarely.
    fn zipf_rank(&mut self) -> usize {
        ((VOCABULARY_SIZE as f64).powf(self.next_unit()) as usize).min(VOCABULARY_SIZE) - 1
    }

    /// Returns numbers around zero, most of them small.
    fn next_numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| (self.next_unit() + self.next_unit() + self.next_unit() - 1.5) as f32).collect()
    }
}

impl SyntheticCorpus {
    /// Generates passages, each in its own document.
    pub fn generate(size: usize) -> Self {
        let mut dice = CorpusRandom(7);
        let words: Vec<String> = (0..VOCABULARY_SIZE)
            .map(|_| {
                let syllables = 2 + dice.below(2);
                (0..syllables).filter_map(|_| char::from_u32(0xAC00 + dice.below(2350) as u32 * 4)).collect()
            })
            .collect();
        let particles = ["은", "는", "이", "가", "을", "를", "에서", "으로", ""];
        let sentence = |dice: &mut CorpusRandom, length: usize| {
            let word = |_| format!("{}{}", words[dice.zipf_rank()], particles[dice.below(particles.len())]);
            (0..length).map(word).collect::<Vec<_>>().join(" ")
        };
        let documents = (0..size)
            .map(|at| {
                let document = Document::new(
                    format!("{at}"),
                    format!("문서 {at}"),
                    sentence(&mut dice, WORDS_PER_DOCUMENT),
                );
                let passages = split_into_passages(&document);
                (document, passages)
            })
            .collect();
        let questions = (0..QUESTION_COUNT).map(|_| sentence(&mut dice, 5)).collect();
        Self { documents, questions }
    }

    /// The size of all texts in MB.
    pub fn megabytes(&self) -> f64 {
        self.documents.iter().map(|(document, _)| document.text.len() as f64).sum::<f64>() / 1e6
    }

    /// Writes files for the peers, one text on each line.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        let passages = self.documents.iter().map(|(document, _)| &document.text);
        write_lines(&folder.join("passages.txt"), passages)?;
        write_lines(&folder.join("questions.txt"), self.questions.iter())
    }
}

impl SyntheticVectors {
    /// Generates vectors of length 1.
    pub fn generate(size: usize, dimension: usize) -> Self {
        let mut dice = CorpusRandom(11);
        let directions: Vec<Vec<f32>> = (0..DIRECTION_COUNT).map(|_| dice.next_numbers(dimension)).collect();
        let mut make = |_| {
            let mut vector: Vec<f32> =
                dice.next_numbers(dimension).into_iter().map(|number| number * NOISE).collect();
            for (share, direction) in dice.next_numbers(DIRECTION_COUNT).into_iter().zip(&directions) {
                vector.iter_mut().zip(direction).for_each(|(sum, number)| *sum += share * number);
            }
            let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
            vector.iter_mut().for_each(|number| *number /= length);
            vector
        };
        let rows = (0..size).map(&mut make).collect();
        let asked = (0..QUESTION_COUNT).map(&mut make).collect();
        Self { dimension, rows, query_vectors: asked }
    }

    /// Writes files for the peers, as f32 values.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        for (name, rows) in [("vectors.f32", &self.rows), ("asked.f32", &self.query_vectors)] {
            let mut file = BufWriter::new(std::fs::File::create(folder.join(name))?);
            for number in rows.iter().flatten() {
                file.write_all(&number.to_le_bytes())?;
            }
            file.flush()?;
        }
        std::fs::write(folder.join("dimension.txt"), self.dimension.to_string())
    }
}

fn write_lines<'a>(path: &Path, lines: impl Iterator<Item = &'a String>) -> std::io::Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    for line in lines {
        writeln!(file, "{line}")?;
    }
    file.flush()
}
