//! What is printed: a table for people, or one JSON object a line.

use serde_json::{Value, json};

use crate::peer::Peer;

/// One finding.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    case: String,
    unit: &'static str,
    doran: f64,
    beside: Option<(String, f64)>,
    ratio: Option<f64>,
    target: Option<Target>,
}

/// What was asked of a ratio.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Row {
    /// A figure of which less is better: the ratio is the peer's over ours.
    pub(crate) fn less(case: String, unit: &'static str, doran: f64, beside: Option<(String, f64)>) -> Self {
        let ratio = beside.as_ref().filter(|_| doran > 0.0).map(|(_, value)| value / doran);
        Self { case, unit, doran, beside, ratio, target: None }
    }

    /// A figure of which more is better: the ratio is ours over the peer's.
    pub(crate) fn more(case: String, unit: &'static str, doran: f64, beside: Option<(String, f64)>) -> Self {
        Self::floor(case, unit, doran, beside)
    }

    /// Beside what it should not be above: the ratio is ours over that.
    pub(crate) fn floor(case: String, unit: &'static str, doran: f64, beside: Option<(String, f64)>) -> Self {
        let ratio = beside.as_ref().filter(|(_, value)| *value > 0.0).map(|(_, value)| doran / value);
        Self { case, unit, doran, beside, ratio, target: None }
    }

    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// `None` when there is no target or nothing to compare with.
    fn met(&self) -> Option<bool> {
        match self.target? {
            Target::AtLeast(least) => Some(self.ratio? >= least),
            Target::AtMost(most) => Some(self.ratio? <= most),
        }
    }

    fn wanted(&self) -> Option<String> {
        Some(match self.target? {
            Target::AtLeast(least) => format!("≥ {least}×"),
            Target::AtMost(most) => format!("≤ {most}×"),
        })
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "bench": "agents",
            "case": self.case,
            "doran": rounded(self.doran),
            "peer": self.beside.as_ref().map(|(_, value)| rounded(*value)),
            "peer_name": self.beside.as_ref().map(|(name, _)| name),
            "unit": self.unit,
            "ratio": self.ratio.map(rounded),
            "target": self.wanted(),
            "met": self.met(),
        })
    }

    fn cells(&self) -> [String; 8] {
        let met = match (self.met(), self.target) {
            (Some(true), _) => "yes",
            (Some(false), _) => "**NO**",
            (None, Some(_)) => "not measured",
            (None, None) => "",
        };
        [
            self.case.clone(),
            figure(self.doran),
            self.beside.as_ref().map(|(_, value)| figure(*value)).unwrap_or_default(),
            self.unit.to_owned(),
            self.beside.as_ref().map(|(name, _)| name.clone()).unwrap_or_default(),
            self.ratio.map(|ratio| format!("{}×", figure(ratio))).unwrap_or_default(),
            self.wanted().unwrap_or_default(),
            met.to_owned(),
        ]
    }
}

/// What ran where and when.
pub(crate) fn about(peer: Option<&Peer>) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown").to_owned();
    let other = match peer {
        Some(peer) => format!("{} on Python {}", peer.name, peer.python),
        None => "no LangGraph".to_owned(),
    };
    format!(
        "doran {}, {other} · {cores} cores, {}, load {load}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS
    )
}

/// A table that reads well as it is and as Markdown.
pub(crate) fn table(rows: &[Row]) -> String {
    let head = ["case", "Doran", "beside", "unit", "beside what", "ratio", "target", "met"];
    let mut lines: Vec<[String; 8]> = vec![head.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let widths: [usize; 8] = std::array::from_fn(|column| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    });
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(widths) {
            let space = " ".repeat(width - cell.chars().count());
            text.push_str(&format!("| {cell}{space} "));
        }
        text.push_str("|\n");
        if number == 0 {
            text.extend(widths.iter().map(|width| format!("| {} ", "-".repeat(*width))));
            text.push_str("|\n");
        }
    }
    text
}

/// How many targets were met, and which were not.
pub(crate) fn verdict(rows: &[Row]) -> String {
    let targets = rows.iter().filter(|row| row.target.is_some()).count();
    let missed: Vec<&str> =
        rows.iter().filter(|row| row.met() == Some(false)).map(|row| row.case.as_str()).collect();
    let unknown = rows.iter().filter(|row| row.target.is_some() && row.met().is_none()).count();
    let mut text = format!("{} of {targets} targets met", targets - missed.len() - unknown);
    if !missed.is_empty() {
        text.push_str(&format!("; MISSED: {}", missed.join(", ")));
    }
    if unknown > 0 {
        text.push_str(&format!("; {unknown} not measured"));
    }
    text
}

/// Three digits that matter.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// As exact as it was measured: four digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    if scale >= 1.0 { (value * scale).round() / scale } else { value.round() }
}
