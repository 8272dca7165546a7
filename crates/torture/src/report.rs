//! Figures of a torture: a table for people, a line of JSON for programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::ledger::{TortureLedger, Violation};

/// What one torture found.
pub struct TortureReport {
    name: &'static str,
    seed: u64,
    violation_counts: BTreeMap<Violation, u64>,
    numbers: Vec<(String, Value)>,
    notes: Vec<String>,
    violations: Vec<String>,
    skipped: Option<String>,
}

impl TortureReport {
    pub fn new(name: &'static str, seed: u64) -> Self {
        Self {
            name,
            seed,
            violation_counts: BTreeMap::new(),
            numbers: Vec::new(),
            notes: Vec::new(),
            violations: Vec::new(),
            skipped: None,
        }
    }

    /// Figures of a torture that this machine cannot do.
    pub fn skipped(name: &'static str, seed: u64, why: String) -> Self {
        Self { skipped: Some(why), ..Self::new(name, seed) }
    }

    pub fn add_number(&mut self, name: &str, number: impl TryInto<u64>) {
        let number = number.try_into().unwrap_or(u64::MAX);
        match self.numbers.iter_mut().find(|(known, _)| known == name) {
            Some((_, value)) => *value = json!(value.as_u64().unwrap_or_default().saturating_add(number)),
            None => self.numbers.push((name.to_owned(), json!(number))),
        }
    }

    pub fn add_note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Counts what a ledger found wrong.
    pub fn take_violations(&mut self, ledger: &TortureLedger) {
        for (broken, what) in ledger.violations() {
            self.record_violation(broken, what);
        }
        let (seen, acknowledged) = ledger.observed_and_acknowledged_counts();
        self.add_number("acknowledged", acknowledged);
        self.add_number("calls", ledger.call_count());
        self.add_number("events_seen", seen);
    }

    pub fn record_violation(&mut self, broken: Violation, what: impl std::fmt::Display) {
        *self.violation_counts.entry(broken).or_default() += 1;
        self.violations.push(format!("{broken:?}: {what}"));
    }

    /// Nothing is broken.
    pub fn has_no_violations(&self) -> bool {
        self.violation_counts.is_empty()
    }

    pub fn is_skipped(&self) -> bool {
        self.skipped.is_some()
    }

    /// The first thing that is broken.
    pub fn first_violation(&self) -> Option<&str> {
        self.violations.first().map(String::as_str)
    }

    /// A number that was added, 0 if it never was.
    pub fn number(&self, name: &str) -> u64 {
        let found = self.numbers.iter().find(|(known, _)| known == name);
        found.and_then(|(_, number)| number.as_u64()).unwrap_or_default()
    }

    /// Every torture says how many processes it killed. What one that was skipped did not look at is `null`, not 0.
    pub fn render_json(&self) -> String {
        let mut line = Map::new();
        line.insert("torture".into(), json!(self.name));
        line.insert("seed".into(), json!(self.seed));
        line.insert("kills".into(), json!(self.number("kills")));
        if let Some(why) = &self.skipped {
            line.insert("skipped".into(), json!(why));
        }
        for (name, number) in &self.numbers {
            line.insert(name.clone(), number.clone());
        }
        for broken in ALL_VIOLATIONS {
            let name = format!("{broken:?}").to_lowercase();
            let count = self.violation_counts.get(&broken).copied().unwrap_or_default();
            line.insert(name, if self.is_skipped() { Value::Null } else { json!(count) });
        }
        Value::Object(line).to_string()
    }

    /// A few lines for people.
    pub fn render_table(&self) -> String {
        let mut text = format!("{:<9}", self.name);
        if let Some(why) = &self.skipped {
            return format!("{text} SKIPPED: {why}");
        }
        text.push_str(if self.has_no_violations() { " holds " } else { " BROKEN" });
        for (name, number) in &self.numbers {
            write!(text, "  {name} {number}").ok();
        }
        for broken in ALL_VIOLATIONS {
            let count = self.violation_counts.get(&broken).copied().unwrap_or_default();
            write!(text, "  {} {count}", format!("{broken:?}").to_lowercase()).ok();
        }
        for note in &self.notes {
            write!(text, "\n          {note}").ok();
        }
        for what in self.violations.iter().take(12) {
            write!(text, "\n          {what}").ok();
        }
        if !self.has_no_violations() {
            write!(text, "\n          the same operations again: --seed {}", self.seed).ok();
        }
        text
    }
}

const ALL_VIOLATIONS: [Violation; 7] = [
    Violation::Lost,
    Violation::Doubled,
    Violation::Stuck,
    Violation::Torn,
    Violation::Events,
    Violation::Ends,
    Violation::Damaged,
];
