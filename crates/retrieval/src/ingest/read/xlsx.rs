//! Excel workbooks: the cells that are there, a table for each block of rows. What a sheet declares about its size is
//! not believed.

use std::collections::{BTreeSet, HashMap};

use super::super::archive::Archive;
use super::super::writer::Writer;
use super::super::xml::{Piece, Xml};
use super::super::{Extracted, Failure, FailureKind, Format, ReadLimits};

/// The most cells of a workbook.
const CELLS: usize = 2_000_000;

/// Reads a workbook.
pub(in super::super) fn xlsx(bytes: &[u8], limits: &ReadLimits) -> Result<Extracted, Failure> {
    let mut archive = Archive::open(bytes, limits)?;
    let sheets = sheets(&archive.xml("xl/workbook.xml")?)?;
    let targets = match archive.optional_xml("xl/_rels/workbook.xml.rels")? {
        Some(text) => targets(&text)?,
        None => HashMap::new(),
    };
    let strings = match archive.optional_xml("xl/sharedStrings.xml")? {
        Some(text) => strings(&text)?,
        None => Vec::new(),
    };
    let dates = match archive.optional_xml("xl/styles.xml")? {
        Some(text) => looks(&text)?,
        None => Vec::new(),
    };
    let mut writer = Writer::new(limits);
    let mut left = CELLS;
    for (at, (name, id)) in sheets.iter().enumerate() {
        let path = targets.get(id).cloned().unwrap_or_else(|| format!("xl/worksheets/sheet{}.xml", at + 1));
        if !archive.has(&path) {
            continue;
        }
        let text = archive.xml(&path)?;
        let rows = rows(&text, &strings, &dates, &mut left)?;
        if rows.is_empty() {
            continue;
        }
        writer.heading(2, name)?;
        for table in tables(rows) {
            writer.table(&table)?;
        }
    }
    Ok(writer.finish(Format::Xlsx))
}

/// The visible sheets: name and relation.
fn sheets(text: &str) -> Result<Vec<(String, String)>, Failure> {
    let mut found = Vec::new();
    let mut xml = Xml::new(text);
    while let Some(piece) = xml.next()? {
        if let Piece::Start(element) = piece
            && element.name() == "sheet"
            && element.get("state").is_none_or(|state| state == "visible")
        {
            found.push((element.get("name").unwrap_or_default(), element.get("id").unwrap_or_default()));
        }
    }
    Ok(found)
}

fn targets(text: &str) -> Result<HashMap<String, String>, Failure> {
    let mut found = HashMap::new();
    let mut xml = Xml::new(text);
    while let Some(piece) = xml.next()? {
        if let Piece::Start(element) = piece
            && element.name() == "Relationship"
            && let (Some(id), Some(target)) = (element.get("Id"), element.get("Target"))
        {
            let path = target.strip_prefix('/').map_or_else(|| format!("xl/{target}"), str::to_owned);
            found.insert(id, path);
        }
    }
    Ok(found)
}

fn strings(text: &str) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    let mut open = String::new();
    let mut xml = Xml::new(text);
    while let Some(piece) = xml.next()? {
        match piece {
            Piece::Start(element) => match element.name() {
                "si" => open.clear(),
                "t" => open.push_str(&xml.inner_text()?),
                // How to pronounce a word is no part of it.
                "rPh" => xml.skip()?,
                _ => {}
            },
            Piece::End(name) if name == "si" => found.push(std::mem::take(&mut open)),
            Piece::End(_) | Piece::Text(_) => {}
        }
    }
    Ok(found)
}

/// How the numbers of a style are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Plain,
    Percent,
    Date,
    /// A time of day, or how long something took.
    Time,
}

fn looks(text: &str) -> Result<Vec<Look>, Failure> {
    let mut own: HashMap<usize, String> = HashMap::new();
    let mut found = Vec::new();
    let mut inside = false;
    let mut xml = Xml::new(text);
    while let Some(piece) = xml.next()? {
        match piece {
            Piece::Start(element) => match element.name() {
                "numFmt" => {
                    if let (Some(id), Some(code)) = (element.number("numFmtId"), element.get("formatCode")) {
                        own.insert(id, code);
                    }
                }
                "cellXfs" => inside = true,
                "xf" if inside => {
                    let id = element.number("numFmtId").unwrap_or(0);
                    found.push(look(id, own.get(&id).map(String::as_str)));
                }
                _ => {}
            },
            Piece::End(name) if name == "cellXfs" => inside = false,
            Piece::End(_) | Piece::Text(_) => {}
        }
    }
    Ok(found)
}

fn look(id: usize, code: Option<&str>) -> Look {
    match (id, code) {
        (9 | 10, _) => Look::Percent,
        (14..=17 | 22 | 27..=31 | 36 | 50..=58, _) => Look::Date,
        (18..=21 | 45..=47, _) => Look::Time,
        (_, Some(code)) => {
            // Words in quotes and colours in brackets are not about the number.
            let mut bare = String::new();
            let mut hidden = None;
            for char in code.chars() {
                match (hidden, char) {
                    (Some(end), char) if char == end => hidden = None,
                    (None, '"') => hidden = Some('"'),
                    (None, '[') => hidden = Some(']'),
                    (None, char) => bare.push(char.to_ascii_lowercase()),
                    (Some(_), _) => {}
                }
            }
            let has = |char| bare.contains(char);
            let clock = has(':') && (has('h') || has('m') || has('s')) || has('h') && has('m');
            match () {
                () if clock && !has('y') && !has('d') => Look::Time,
                () if bare.contains('y') && (bare.contains('m') || bare.contains('d')) => Look::Date,
                () if bare.contains('%') => Look::Percent,
                () => Look::Plain,
            }
        }
        (_, None) => Look::Plain,
    }
}

type Row = (usize, Vec<(usize, String)>);

fn rows(text: &str, strings: &[String], looks: &[Look], left: &mut usize) -> Result<Vec<Row>, Failure> {
    let mut rows: Vec<Row> = Vec::new();
    let (mut row, mut column) = (0, 0);
    let mut cell: Option<(String, Look)> = None;
    let mut words = String::new();
    let mut xml = Xml::new(text);
    while let Some(piece) = xml.next()? {
        match piece {
            Piece::Start(element) => match element.name() {
                "row" => {
                    row = element.number("r").unwrap_or(row + 1);
                    column = 0;
                }
                "c" => {
                    column = element.get("r").and_then(|at| column_of(&at)).unwrap_or(column + 1);
                    let look = element.number("s").and_then(|style| looks.get(style).copied());
                    cell = Some((element.get("t").unwrap_or_default(), look.unwrap_or(Look::Plain)));
                    words.clear();
                }
                "v" | "t" if cell.is_some() => words.push_str(&xml.inner_text()?),
                "f" | "rPh" => xml.skip()?,
                _ => {}
            },
            Piece::End(name) if name == "c" => {
                let Some((kind, look)) = cell.take() else { continue };
                let value = value(&kind, look, &words, strings);
                if value.trim().is_empty() {
                    continue;
                }
                *left = left
                    .checked_sub(1)
                    .ok_or_else(|| Failure::new(FailureKind::TooLarge, format!("more than {CELLS} cells")))?;
                match rows.last_mut() {
                    Some((last, cells)) if *last == row => cells.push((column, value)),
                    Some(_) | None => rows.push((row, vec![(column, value)])),
                }
            }
            Piece::End(_) | Piece::Text(_) => {}
        }
    }
    Ok(rows)
}

fn value(kind: &str, look: Look, words: &str, strings: &[String]) -> String {
    match kind {
        "s" => words.trim().parse().ok().and_then(|at: usize| strings.get(at).cloned()).unwrap_or_default(),
        "b" => if words.trim() == "1" { "TRUE" } else { "FALSE" }.to_owned(),
        "" | "n" => match (look, words.trim().parse::<f64>()) {
            (Look::Date, Ok(days)) => date(days).unwrap_or_else(|| words.to_owned()),
            (Look::Time, Ok(days)) => time(days).unwrap_or_else(|| words.to_owned()),
            (Look::Percent, Ok(share)) => format!("{}%", rounded(share * 100.0)),
            (Look::Plain, Ok(number)) if words.len() > 15 => rounded(number),
            (_, _) => words.to_owned(),
        },
        _ => words.to_owned(),
    }
}

/// A number as a person wrote it, without the dust of binary fractions.
fn rounded(number: f64) -> String {
    let text = format!("{number:.10}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The time that a share of a day stands for. More than a day is how long something took.
fn time(days: f64) -> Option<String> {
    if !(0.0..1000.0).contains(&days) {
        return None;
    }
    let seconds = (days * 86_400.0).round() as u64;
    let minutes = format!("{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
    Some(if seconds.is_multiple_of(60) { minutes } else { format!("{minutes}:{:02}", seconds % 60) })
}

/// The day that a number of days since the last day of 1899 stands for. Excel believes that 1900 was a leap year.
fn date(days: f64) -> Option<String> {
    if !(61.0..2_958_466.0).contains(&days) {
        return None;
    }
    let whole = days.floor() as i64;
    // Days since 0000-03-01, after the usual algorithm for the civil calendar.
    let from_march = whole - 25_569 + 719_468;
    let era = from_march.div_euclid(146_097);
    let day_of_era = from_march.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let minutes = ((days - days.floor()) * 1440.0).round() as i64;
    let day = format!("{year:04}-{month:02}-{day:02}");
    Some(if minutes > 0 && minutes < 1440 {
        format!("{day} {:02}:{:02}", minutes / 60, minutes % 60)
    } else {
        day
    })
}

/// The column of `BC12`, from 1.
fn column_of(at: &str) -> Option<usize> {
    let letters = at.bytes().take_while(u8::is_ascii_uppercase);
    let number = letters.take(4).fold(0, |sum, letter| sum * 26 + usize::from(letter - b'A') + 1);
    (number > 0).then_some(number)
}

/// Blocks of rows without a gap, each with the columns it uses.
fn tables(rows: Vec<Row>) -> Vec<Vec<Vec<String>>> {
    let mut blocks: Vec<Vec<Row>> = Vec::new();
    for row in rows {
        match blocks.last_mut() {
            Some(block) if block.last().is_some_and(|(last, _)| row.0 == last + 1) => block.push(row),
            Some(_) | None => blocks.push(vec![row]),
        }
    }
    blocks.into_iter().map(|block| straight(&block)).collect()
}

fn straight(block: &[Row]) -> Vec<Vec<String>> {
    let columns: BTreeSet<usize> =
        block.iter().flat_map(|(_, cells)| cells.iter().map(|(column, _)| *column)).collect();
    let places: HashMap<usize, usize> =
        columns.iter().enumerate().map(|(place, column)| (*column, place)).collect();
    let mut table = Vec::new();
    for (_, cells) in block {
        let last = cells.iter().filter_map(|(column, _)| places.get(column)).max().map_or(0, |last| last + 1);
        let mut row = vec![String::new(); last];
        for (column, words) in cells {
            if let Some(cell) = places.get(column).and_then(|place| row.get_mut(*place)) {
                cell.clone_from(words);
            }
        }
        table.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_excel_does() {
        for (days, expected) in [
            (61.0, "1900-03-01"),
            (45658.0, "2025-01-01"),
            (46341.5, "2026-11-15 12:00"),
            (46082.0, "2026-03-01"),
        ] {
            assert_eq!(date(days).as_deref(), Some(expected));
        }
        assert_eq!(date(-5.0), None);
    }

    #[test]
    fn columns_and_looks_are_read() {
        assert_eq!(
            (column_of("A1"), column_of("BC12"), column_of("XFD1048576"), column_of("12")),
            (Some(1), Some(55), Some(16384), None)
        );
        assert_eq!(
            (
                look(14, None),
                look(164, Some("yyyy\\-mm\\-dd")),
                look(165, Some("[Red]0.0%")),
                look(166, Some("\"day\"0"))
            ),
            (Look::Date, Look::Date, Look::Percent, Look::Plain)
        );
        assert_eq!(value("n", Look::Percent, "0.07", &[]), "7%");
        for code in ["h:mm", "[h]:mm", "h\"시\" mm\"분\"", "mm:ss"] {
            assert_eq!(look(166, Some(code)), Look::Time, "{code}");
        }
        assert_eq!((look(20, None), look(22, None)), (Look::Time, Look::Date));
        for (share, expected) in
            [("0.3958333333333333", "09:30"), ("1.25", "30:00"), ("0.5000115740740741", "12:00:01")]
        {
            assert_eq!(value("n", Look::Time, share, &[]), expected);
        }
    }
}
