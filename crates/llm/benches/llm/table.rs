//! What is printed: a table for people, or one JSON object a line.

use serde_json::{Value, json};

/// One finding. Less is better everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) unit: &'static str,
    pub(crate) doran: f64,
    /// Who stands beside it, and with which figure.
    pub(crate) beside: Option<(String, f64)>,
    pub(crate) target: Option<Target>,
}

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// So many times less than the other.
    TimesLess(f64),
    /// At most this.
    AtMost(f64),
}

impl Row {
    /// The other's figure over ours.
    fn ratio(&self) -> Option<f64> {
        let (_, other) = self.beside.as_ref()?;
        (self.doran > 0.0).then(|| other / self.doran)
    }

    pub(crate) fn met(&self) -> Option<bool> {
        match self.target? {
            Target::TimesLess(times) => Some(self.ratio()? >= times),
            Target::AtMost(most) => Some(self.doran <= most),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let (name, other) = self.beside.clone().unzip();
        json!({
            "bench": "llm", "case": self.case, "doran": rounded(self.doran), "peer": other.map(rounded),
            "peer_name": name, "unit": self.unit, "ratio": self.ratio().map(rounded),
            "target": self.target.map(told), "met": self.met(),
        })
    }

    fn cells(&self) -> [String; 8] {
        let met = match (self.met(), self.target) {
            (Some(true), _) => "yes",
            (Some(false), _) => "**NO**",
            (None, Some(_)) => "not measured",
            (None, None) => "",
        };
        let (name, other) = self.beside.clone().unzip();
        [
            self.case.clone(),
            figure(self.doran),
            other.map(figure).unwrap_or_default(),
            self.unit.to_owned(),
            name.unwrap_or_default(),
            self.ratio().map(|ratio| format!("{}×", figure(ratio))).unwrap_or_default(),
            self.target.map(told).unwrap_or_default(),
            met.to_owned(),
        ]
    }
}

fn told(target: Target) -> String {
    match target {
        Target::TimesLess(times) => format!("≥ {times}×"),
        Target::AtMost(most) => format!("≤ {}", figure(most)),
    }
}

/// A table that reads well as it is and as Markdown.
pub(crate) fn table(rows: &[Row]) -> String {
    let head = ["case", "Doran", "beside", "unit", "beside what", "ratio", "target", "met"];
    let mut lines: Vec<[String; 8]> = vec![head.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let widths: [usize; 8] = std::array::from_fn(|column| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    });
    let numbers = [false, true, true, false, false, true, false, false];
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

/// Three digits that matter.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
