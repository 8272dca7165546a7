//! Prints results as a table, or as one JSON object per line.

use serde_json::{Value, json};

/// One result.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    case: String,
    unit: &'static str,
    doran: f64,
    better: Better,
    beside: Option<(String, f64)>,
    ratio: Option<f64>,
    best: Option<(f64, Option<f64>)>,
    target: Option<Target>,
}

/// Whether a higher or a lower value is better.
#[derive(Clone, Copy, Debug)]
enum Better {
    More,
    Less,
}

/// The target of a result.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    RatioAtLeast(f64),
    RatioAtMost(f64),
    ValueAtLeast(f64),
    ValueAtMost(f64),
}

impl Row {
    /// A value where more is better.
    pub(crate) fn more(case: impl Into<String>, unit: &'static str, doran: f64) -> Self {
        let case = case.into();
        Self { case, unit, doran, better: Better::More, beside: None, ratio: None, best: None, target: None }
    }

    /// A value where less is better.
    pub(crate) fn less(case: impl Into<String>, unit: &'static str, doran: f64) -> Self {
        Self { better: Better::Less, ..Self::more(case, unit, doran) }
    }

    /// Adds a peer that does the same work, if it was measured. The ratio says how many times better Doran is. Below
    /// 1, Doran is worse.
    pub(crate) fn peer(mut self, name: &str, value: Option<f64>) -> Self {
        if let Some(value) = value {
            let (better, worse) = match self.better {
                Better::More => (self.doran, value),
                Better::Less => (value, self.doran),
            };
            self.ratio = (worse > 0.0).then(|| better / worse);
            self.beside = Some((name.to_owned(), value));
        }
        self
    }

    /// Adds a lower bound that cannot be beaten. The ratio says how many times as much Doran takes. 1 would be
    /// perfect.
    pub(crate) fn floor(mut self, name: &str, value: f64) -> Self {
        self.ratio = (value > 0.0).then(|| self.doran / value);
        self.beside = Some((name.to_owned(), value));
        self
    }

    /// Adds the best run of Doran and of the peer.
    pub(crate) fn best(mut self, doran: f64, other: Option<f64>) -> Self {
        self.best = Some((doran, other));
        self
    }

    pub(crate) fn target(mut self, target: impl Into<Option<Target>>) -> Self {
        self.target = target.into();
        self
    }

    /// Whether the target was met. `None` if there is no target or nothing to compare with.
    pub(crate) fn met(&self) -> Option<bool> {
        match self.target? {
            Target::RatioAtLeast(least) => Some(self.ratio? >= least),
            Target::RatioAtMost(most) => Some(self.ratio? <= most),
            Target::ValueAtLeast(least) => Some(self.doran >= least),
            Target::ValueAtMost(most) => Some(self.doran <= most),
        }
    }

    pub(crate) fn json(&self, bench: &str) -> Value {
        json!({
            "bench": bench,
            "case": self.case,
            "doran": rounded(self.doran),
            "peer": self.beside.as_ref().map(|(_, value)| rounded(*value)),
            "peer_name": self.beside.as_ref().map(|(name, _)| name),
            "unit": self.unit,
            "ratio": self.ratio.map(rounded),
            "target": self.target.map(|target| target.to_string()),
            "met": self.met(),
        })
    }

    fn cells(&self) -> [String; COLUMNS] {
        let met = match (self.met(), self.target) {
            (Some(true), _) => "yes",
            (Some(false), _) => "**NO**",
            (None, Some(_)) => "not measured",
            (None, None) => "",
        };
        let (name, beside) = self.beside.clone().unzip();
        let best = |(doran, other): (f64, Option<f64>)| match other {
            Some(other) => format!("{} / {}", figure(doran), figure(other)),
            None => figure(doran),
        };
        [
            self.case.clone(),
            figure(self.doran),
            beside.map(figure).unwrap_or_default(),
            self.unit.to_owned(),
            name.unwrap_or_default(),
            self.ratio.map(|ratio| format!("{}×", figure(ratio))).unwrap_or_default(),
            self.target.map(|target| target.to_string()).unwrap_or_default(),
            met.to_owned(),
            self.best.map(best).unwrap_or_default(),
        ]
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RatioAtLeast(least) => write!(f, "≥ {least}×"),
            Self::RatioAtMost(most) => write!(f, "≤ {most}×"),
            Self::ValueAtLeast(least) => write!(f, "≥ {}", figure(*least)),
            Self::ValueAtMost(most) => write!(f, "≤ {}", figure(*most)),
        }
    }
}

/// The results of a benchmark, printed in the requested format.
pub(crate) struct Report {
    bench: &'static str,
    json: bool,
    rows: Vec<Row>,
}

impl Report {
    /// Starts a report and prints what is measured and where.
    pub(crate) fn begin(bench: &'static str, json: bool, about: &str) -> Self {
        if json {
            eprintln!("{about}");
        } else {
            println!("{about}\n");
        }
        Self { bench, json, rows: Vec::new() }
    }

    /// Adds a result. In JSON format it is printed at once.
    pub(crate) fn push(&mut self, row: Row) {
        if self.json {
            println!("{}", row.json(self.bench));
        }
        self.rows.push(row);
    }

    /// Prints the table and the targets that were met.
    pub(crate) fn end(&self) {
        let verdict = verdict(&self.rows);
        if self.json {
            eprintln!("bench: {verdict}");
        } else {
            println!("{}\n{verdict}", table(&self.rows));
        }
    }
}

const COLUMNS: usize = 9;
const HEAD: [&str; COLUMNS] =
    ["case", "Doran", "beside", "unit", "beside what", "ratio", "target", "met", "best"];
const IS_NUMBER: [bool; COLUMNS] = [false, true, true, false, false, true, false, false, false];

/// Formats a table that is readable as text and valid as Markdown. The last column is printed only if a row has a
/// value in it.
pub(crate) fn table(rows: &[Row]) -> String {
    let columns = if rows.iter().any(|row| row.best.is_some()) { COLUMNS } else { COLUMNS - 1 };
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default()
    });
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for column in 0..columns {
            let cell = &line[column];
            let space = " ".repeat(widths[column] - cell.chars().count());
            let padded = if IS_NUMBER[column] { format!("{space}{cell}") } else { format!("{cell}{space}") };
            text.push_str(&format!("| {padded} "));
        }
        text.push_str("|\n");
        if number == 0 {
            for column in 0..columns {
                let (dashes, end) = ("-".repeat(widths[column]), if IS_NUMBER[column] { ":" } else { " " });
                text.push_str(&format!("| {dashes}{end}"));
            }
            text.push_str("|\n");
        }
    }
    text
}

/// How many targets were met, and which were missed.
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

/// Formats a number with three significant digits, or as a whole number with commas.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => with_commas(value.round()),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn with_commas(whole: f64) -> String {
    let digits = format!("{:.0}", whole.abs());
    let mut text = String::from(if whole < 0.0 { "-" } else { "" });
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Rounds to four significant digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    if scale >= 1.0 { (value * scale).round() / scale } else { value.round() }
}
