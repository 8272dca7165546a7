//! What is printed: a table for people, or one JSON object a line.

use serde_json::{Value, json};

/// One finding. `ratio` above 1 is in our favour, whether more or less is better.
pub struct Row {
    pub case: String,
    pub unit: &'static str,
    pub doran: f64,
    pub peer: Option<(String, f64)>,
    pub better: Better,
    pub target: Option<Target>,
}

/// Which way is better.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Better {
    More,
    Less,
}

/// What was asked for.
#[derive(Clone, Copy)]
pub enum Target {
    Ratio(f64),
    AtLeast(f64),
    AtMost(f64),
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        let (_, peer) = self.peer.as_ref()?;
        let (over, under) = match self.better {
            Better::More => (self.doran, *peer),
            Better::Less => (*peer, self.doran),
        };
        (under > 0.0).then(|| over / under)
    }

    fn met(&self) -> Option<bool> {
        match self.target? {
            Target::Ratio(least) => Some(self.ratio()? >= least),
            Target::AtLeast(least) => Some(self.doran >= least),
            Target::AtMost(most) => Some(self.doran <= most),
        }
    }

    fn target(&self) -> Option<String> {
        self.target.map(|target| match target {
            Target::Ratio(least) => format!("≥ {least}×"),
            Target::AtLeast(least) => format!("≥ {least}"),
            Target::AtMost(most) => format!("≤ {most}"),
        })
    }

    pub fn json(&self) -> Value {
        json!({
            "bench": "search", "case": self.case, "doran": rounded(self.doran),
            "peer": self.peer.as_ref().map(|(_, value)| rounded(*value)),
            "peer_name": self.peer.as_ref().map(|(name, _)| name),
            "unit": self.unit, "ratio": self.ratio().map(rounded), "target": self.target(), "met": self.met(),
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
            self.peer.as_ref().map(|(_, value)| figure(*value)).unwrap_or_default(),
            self.unit.to_owned(),
            self.peer.as_ref().map(|(name, _)| name.clone()).unwrap_or_default(),
            self.ratio().map(|ratio| format!("{}×", figure(ratio))).unwrap_or_default(),
            self.target().unwrap_or_default(),
            met.to_owned(),
        ]
    }
}

/// A table that reads well as it is and as Markdown.
pub fn table(rows: &[Row]) -> String {
    let head = ["case", "Doran", "beside", "unit", "beside what", "ratio", "target", "met"];
    let mut lines: Vec<[String; 8]> = vec![head.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let widths: [usize; 8] = std::array::from_fn(|column| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    });
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            let space = " ".repeat(width - cell.chars().count());
            let right = matches!(column, 1 | 2 | 5);
            let padded = if right { format!("{space}{cell}") } else { format!("{cell}{space}") };
            text.push_str(&format!("| {padded} "));
        }
        text.push_str("|\n");
        if number == 0 {
            for (column, width) in widths.into_iter().enumerate() {
                let end = if matches!(column, 1 | 2 | 5) { ":" } else { " " };
                text.push_str(&format!("| {}{end}", "-".repeat(width)));
            }
            text.push_str("|\n");
        }
    }
    let targets: Vec<&Row> = rows.iter().filter(|row| row.met().is_some()).collect();
    let missed: Vec<&str> =
        targets.iter().filter(|row| row.met() == Some(false)).map(|row| row.case.as_str()).collect();
    let met = targets.len() - missed.len();
    text.push_str(&format!("\n{met} of {} targets met", targets.len()));
    if !missed.is_empty() {
        text.push_str(&format!("; MISSED: {}", missed.join(", ")));
    }
    text.push('\n');
    text
}

fn rounded(value: f64) -> f64 {
    format!("{value:.4}").parse().unwrap_or(value)
}

fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
