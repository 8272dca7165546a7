//! Everyday words and what laws, contracts and offices call the same thing: 월급 is 임금, 그만두다 is 퇴직.
//!
//! The table `everyday.tsv` is written by hand, one meaning a line: words of the street, a tab, words of the page.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::text::{self, Layer};

static TABLE: &str = include_str!("everyday.tsv");
static MEANINGS: LazyLock<Meanings> = LazyLock::new(Meanings::read);

struct Meanings {
    /// By the first stem of what is said: the stems that must follow, and what is meant.
    by_first: HashMap<String, Vec<(Vec<String>, Vec<String>)>>,
}

/// What is meant by a question with these stems: a word of the page, and the stems of the question that mean it.
pub(super) fn meant_by(stems: &[String]) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for (at, stem) in stems.iter().enumerate() {
        for (rest, meant) in MEANINGS.by_first.get(stem).into_iter().flatten() {
            let near = &stems[at + 1..stems.len().min(at + 2 + rest.len())];
            if !rest.iter().all(|stem| near.contains(stem)) {
                continue;
            }
            for word in meant {
                if !found.iter().any(|(known, _)| known == word) {
                    let said = std::iter::once(stem).chain(rest).cloned().collect();
                    found.push((word.clone(), said));
                }
            }
        }
    }
    found
}

impl Meanings {
    fn read() -> Self {
        let mut by_first: HashMap<String, Vec<(Vec<String>, Vec<String>)>> = HashMap::new();
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let Some((said, meant)) = line.split_once('\t') else { continue };
            let meant: Vec<String> = meant.split(',').map(|word| word.trim().to_owned()).collect();
            for said in said.split(',') {
                let mut stems = Vec::new();
                text::terms(said, |layer, term, _| {
                    if layer == Layer::Stems {
                        stems.push(term.to_owned());
                    }
                });
                if !stems.is_empty() {
                    let first = stems.remove(0);
                    by_first.entry(first).or_default().push((stems, meant.clone()));
                }
            }
        }
        Self { by_first }
    }
}
