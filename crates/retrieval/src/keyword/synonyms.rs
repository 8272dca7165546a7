//! Synonyms: everyday words and the terms that laws, contracts and offices use for them, such as 월급 and 임금, or 그만두다
//! and 퇴직.
//!
//! The table `synonyms.tsv` is written by hand, one meaning a line: everyday words, a tab, formal terms.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::text_analysis::{self, TermLayer};

static SYNONYM_TABLE_TSV: &str = include_str!("synonyms.tsv");
static SYNONYMS: LazyLock<SynonymTable> = LazyLock::new(SynonymTable::parse);

struct SynonymTable {
    /// By the first stem of an everyday phrase: the stems that must follow it, and the formal terms.
    by_first_stem: HashMap<String, Vec<(Vec<String>, Vec<String>)>>,
}

/// Returns the formal terms for a query with these stems, each with the stems of the query that it stands for.
pub fn find_synonyms(stems: &[String]) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for (at, stem) in stems.iter().enumerate() {
        for (rest, meant) in SYNONYMS.by_first_stem.get(stem).into_iter().flatten() {
            let near = &stems[at + 1..stems.len().min(at + 2 + rest.len())];
            if !rest.iter().all(|stem| near.contains(stem)) {
                continue;
            }
            for word in meant {
                if !found.iter().any(|(known, _)| known == word) {
                    let phrase = std::iter::once(stem).chain(rest).cloned().collect();
                    found.push((word.clone(), phrase));
                }
            }
        }
    }
    found
}

impl SynonymTable {
    fn parse() -> Self {
        let mut by_first: HashMap<String, Vec<(Vec<String>, Vec<String>)>> = HashMap::new();
        for line in SYNONYM_TABLE_TSV.lines().filter(|line| !line.starts_with('#')) {
            let Some((phrase, meant)) = line.split_once('\t') else { continue };
            let meant: Vec<String> = meant.split(',').map(|word| word.trim().to_owned()).collect();
            for phrase in phrase.split(',') {
                let mut stems = Vec::new();
                text_analysis::for_each_term(phrase, |layer, term, _| {
                    if layer == TermLayer::Stems {
                        stems.push(term.to_owned());
                    }
                });
                if !stems.is_empty() {
                    let first = stems.remove(0);
                    by_first.entry(first).or_default().push((stems, meant.clone()));
                }
            }
        }
        Self { by_first_stem: by_first }
    }
}
