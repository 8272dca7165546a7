//! Passages, questions and vectors that look like real ones to an index and are the same every time.

use std::io::{BufWriter, Write};
use std::path::Path;

use doran_retrieval::{Document, Passage, split};

const VOCABULARY: usize = 30_000;
const WORDS: usize = 60;
const QUESTIONS: usize = 200;
/// Vectors of real texts vary in far fewer directions than they have numbers.
const DIRECTIONS: usize = 24;
const NOISE: f32 = 0.3;

/// Texts, and what is asked of them.
pub struct Texts {
    pub documents: Vec<(Document, Vec<Passage>)>,
    pub questions: Vec<String>,
}

/// Vectors, and those that are looked for.
pub struct Vectors {
    pub dimension: usize,
    pub rows: Vec<Vec<f32>>,
    pub asked: Vec<Vec<f32>>,
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.roll() * end as f64) as usize).min(end - 1)
    }

    /// A rank of Zipf's law: small ones often, large ones seldom.
    fn rank(&mut self) -> usize {
        ((VOCABULARY as f64).powf(self.roll()) as usize).min(VOCABULARY) - 1
    }

    /// Numbers around zero, most of them small.
    fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| (self.roll() + self.roll() + self.roll() - 1.5) as f32).collect()
    }
}

impl Texts {
    /// So many passages, each a document of its own.
    pub fn make(size: usize) -> Self {
        let mut dice = Dice(7);
        let words: Vec<String> = (0..VOCABULARY)
            .map(|_| {
                let syllables = 2 + dice.below(2);
                (0..syllables).filter_map(|_| char::from_u32(0xAC00 + dice.below(2350) as u32 * 4)).collect()
            })
            .collect();
        let particles = ["은", "는", "이", "가", "을", "를", "에서", "으로", ""];
        let sentence = |dice: &mut Dice, length: usize| {
            let word = |_| format!("{}{}", words[dice.rank()], particles[dice.below(particles.len())]);
            (0..length).map(word).collect::<Vec<_>>().join(" ")
        };
        let documents = (0..size)
            .map(|at| {
                let document =
                    Document::new(format!("{at}"), format!("문서 {at}"), sentence(&mut dice, WORDS));
                let passages = split(&document);
                (document, passages)
            })
            .collect();
        let questions = (0..QUESTIONS).map(|_| sentence(&mut dice, 5)).collect();
        Self { documents, questions }
    }

    /// The bytes of all texts, in millions.
    pub fn megabytes(&self) -> f64 {
        self.documents.iter().map(|(document, _)| document.text.len() as f64).sum::<f64>() / 1e6
    }

    /// Files for the peers, a text a line.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        let passages = self.documents.iter().map(|(document, _)| &document.text);
        lines(&folder.join("passages.txt"), passages)?;
        lines(&folder.join("questions.txt"), self.questions.iter())
    }
}

impl Vectors {
    /// So many vectors of length 1.
    pub fn make(size: usize, dimension: usize) -> Self {
        let mut dice = Dice(11);
        let directions: Vec<Vec<f32>> = (0..DIRECTIONS).map(|_| dice.numbers(dimension)).collect();
        let mut make = |_| {
            let mut vector: Vec<f32> =
                dice.numbers(dimension).into_iter().map(|number| number * NOISE).collect();
            for (share, direction) in dice.numbers(DIRECTIONS).into_iter().zip(&directions) {
                vector.iter_mut().zip(direction).for_each(|(sum, number)| *sum += share * number);
            }
            let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
            vector.iter_mut().for_each(|number| *number /= length);
            vector
        };
        let rows = (0..size).map(&mut make).collect();
        let asked = (0..QUESTIONS).map(&mut make).collect();
        Self { dimension, rows, asked }
    }

    /// Files for the peers, numbers of four bytes.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        for (name, rows) in [("vectors.f32", &self.rows), ("asked.f32", &self.asked)] {
            let mut file = BufWriter::new(std::fs::File::create(folder.join(name))?);
            for number in rows.iter().flatten() {
                file.write_all(&number.to_le_bytes())?;
            }
            file.flush()?;
        }
        std::fs::write(folder.join("dimension.txt"), self.dimension.to_string())
    }
}

fn lines<'a>(path: &Path, lines: impl Iterator<Item = &'a String>) -> std::io::Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    for line in lines {
        writeln!(file, "{line}")?;
    }
    file.flush()
}
