//! Passages, questions and vectors that look like real ones to an index and are the same every time.

use std::io::{BufWriter, Write};
use std::path::Path;

use doran_retrieval::{Document, Passage, split};

pub const DIMENSION: usize = 512;
const VOCABULARY: usize = 30_000;
const WORDS: usize = 60;
const QUESTIONS: usize = 200;
const CLUSTERS: usize = 500;

/// What is searched, and what for.
pub struct Corpus {
    pub documents: Vec<(Document, Vec<Passage>)>,
    pub questions: Vec<String>,
    pub vectors: Vec<Vec<f32>>,
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

    fn near(&mut self, middle: &[f32], spread: f32) -> Vec<f32> {
        let moved: Vec<f32> =
            middle.iter().map(|number| number + (self.roll() as f32 - 0.5) * spread).collect();
        let length = moved.iter().map(|number| number * number).sum::<f32>().sqrt();
        moved.into_iter().map(|number| number / length).collect()
    }
}

impl Corpus {
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
        let zero = vec![0.0; DIMENSION];
        let middles: Vec<Vec<f32>> = (0..CLUSTERS).map(|_| dice.near(&zero, 1.0)).collect();
        let somewhere = |dice: &mut Dice| {
            let middle = dice.below(CLUSTERS);
            dice.near(&middles[middle], 0.1)
        };
        let vectors = (0..size).map(|_| somewhere(&mut dice)).collect();
        let asked = (0..QUESTIONS / 2).map(|_| somewhere(&mut dice)).collect();
        Self { documents, questions, vectors, asked }
    }

    /// Files for the peers: texts a line each, vectors as numbers of four bytes.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let passages = self.documents.iter().map(|(document, _)| &document.text);
        for (name, lines) in [
            ("passages.txt", passages.collect::<Vec<_>>()),
            ("questions.txt", self.questions.iter().collect()),
        ] {
            let mut file = BufWriter::new(std::fs::File::create(folder.join(name))?);
            for line in lines {
                writeln!(file, "{line}")?;
            }
            file.flush()?;
        }
        for (name, rows) in [("vectors.f32", &self.vectors), ("asked.f32", &self.asked)] {
            let mut file = BufWriter::new(std::fs::File::create(folder.join(name))?);
            for number in rows.iter().flatten() {
                file.write_all(&number.to_le_bytes())?;
            }
            file.flush()?;
        }
        Ok(())
    }
}
