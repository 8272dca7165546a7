//! What is printed: a table for people, or one JSON object a line.

use serde_json::{Value, json};

/// One finding.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub case: String,
    pub unit: &'static str,
    pub doran: f64,
    better: Better,
    pub peer: Option<Beside>,
    /// How many times better than the peer; below 1 it is worse.
    pub ratio: Option<f64>,
    pub best: Option<(f64, Option<f64>)>,
    pub target: Option<Target>,
}

#[derive(Clone, Copy, Debug)]
enum Better {
    More,
    Less,
}

/// What a figure stands beside.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    pub name: String,
    pub value: f64,
}

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    RatioAtLeast(f64),
    ValueAtMost(f64),
}

impl Row {
    /// A figure of which more is better.
    pub(crate) fn more(case: String, unit: &'static str, doran: f64) -> Self {
        Self { case, unit, doran, better: Better::More, peer: None, ratio: None, best: None, target: None }
    }

    /// A figure of which less is better.
    pub(crate) fn less(case: String, unit: &'static str, doran: f64) -> Self {
        Self { better: Better::Less, ..Self::more(case, unit, doran) }
    }

    /// Beside somebody who does the same work.
    pub(crate) fn peer(mut self, name: &str, value: Option<f64>) -> Self {
        if let Some(value) = value {
            let (better, worse) = match self.better {
                Better::More => (self.doran, value),
                Better::Less => (value, self.doran),
            };
            self.ratio = (worse > 0.0).then(|| better / worse);
            self.peer = Some(Beside { name: name.to_owned(), value });
        }
        self
    }

    pub(crate) fn best(mut self, doran: f64, peer: Option<f64>) -> Self {
        self.best = Some((doran, peer));
        self
    }

    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// `None` when there is no target or nothing to compare with.
    pub(crate) fn met(&self) -> Option<bool> {
        match self.target? {
            Target::RatioAtLeast(least) => Some(self.ratio? >= least),
            Target::ValueAtMost(most) => Some(self.doran <= most),
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "bench": "server",
            "case": self.case,
            "doran": rounded(self.doran),
            "peer": self.peer.as_ref().map(|peer| rounded(peer.value)),
            "peer_name": self.peer.as_ref().map(|peer| &peer.name),
            "unit": self.unit,
            "ratio": self.ratio.map(rounded),
            "target": self.target.map(|target| target.to_string()),
            "met": self.met(),
        })
    }

    fn cells(&self) -> [String; 9] {
        let met = match (self.met(), self.target) {
            (Some(true), _) => "yes",
            (Some(false), _) => "**NO**",
            (None, Some(_)) => "not measured",
            (None, None) => "",
        };
        [
            self.case.clone(),
            figure(self.doran),
            self.peer.as_ref().map(|peer| figure(peer.value)).unwrap_or_default(),
            self.unit.to_owned(),
            self.peer.as_ref().map(|peer| peer.name.clone()).unwrap_or_default(),
            self.ratio.map(|ratio| format!("{}×", figure(ratio))).unwrap_or_default(),
            self.target.map(|target| target.to_string()).unwrap_or_default(),
            met.to_owned(),
            self.best
                .map(|(doran, peer)| match peer {
                    Some(peer) => format!("{} / {}", figure(doran), figure(peer)),
                    None => figure(doran),
                })
                .unwrap_or_default(),
        ]
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RatioAtLeast(least) => write!(f, "≥ {least}×"),
            Self::ValueAtMost(most) => write!(f, "≤ {most}"),
        }
    }
}

/// A table that reads well as it is and as Markdown.
pub(crate) fn table(rows: &[Row]) -> String {
    let head = ["case", "Doran", "beside", "unit", "beside what", "ratio", "target", "met", "best"];
    let mut lines: Vec<[String; 9]> = vec![head.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let widths: [usize; 9] = std::array::from_fn(|column| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    });
    let numbers = [false, true, true, false, false, true, false, false, false];
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for ((cell, width), right) in line.iter().zip(widths).zip(numbers) {
            let space = " ".repeat(width - cell.chars().count());
            let padded = if right { format!("{space}{cell}") } else { format!("{cell}{space}") };
            text.push_str(&format!("| {padded} "));
        }
        text.push_str("|\n");
        if number == 0 {
            for (width, right) in widths.into_iter().zip(numbers) {
                let (dashes, end) = ("-".repeat(width), if right { ":" } else { " " });
                text.push_str(&format!("| {dashes}{end}"));
            }
            text.push_str("|\n");
        }
    }
    text
}

/// Three digits that matter, whole numbers with commas.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => with_commas(value.round()),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn with_commas(whole: f64) -> String {
    let digits = format!("{whole:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// As exact as it was measured: four digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    if scale >= 1.0 { (value * scale).round() / scale } else { value.round() }
}
