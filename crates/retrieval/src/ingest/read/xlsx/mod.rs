//! Excel workbooks: the cells that are there, a table for each block of rows. What a sheet declares about its size is
//! not believed.

mod number;

use std::collections::{BTreeSet, HashMap};

use super::super::archive::Archive;
use super::super::writer::Writer;
use super::super::xml::{Piece, Xml};
use super::super::{Extracted, Failure, FailureKind, Format, ReadLimits};
use number::{Calendar, Look, shown};

/// The most cells of a workbook.
const CELLS: usize = 2_000_000;

/// Reads a workbook.
pub(in super::super) fn xlsx(bytes: &[u8], limits: &ReadLimits) -> Result<Extracted, Failure> {
    let mut archive = Archive::open(bytes, limits)?;
    let Contents { sheets, calendar } = contents(&archive.xml("xl/workbook.xml")?)?;
    let targets = match archive.optional_xml("xl/_rels/workbook.xml.rels")? {
        Some(text) => targets(&text)?,
        None => HashMap::new(),
    };
    let strings = match archive.optional_xml("xl/sharedStrings.xml")? {
        Some(text) => strings(&text)?,
        None => Vec::new(),
    };
    let looks = match archive.optional_xml("xl/styles.xml")? {
        Some(text) => looks(&text)?,
        None => Vec::new(),
    };
    let book = Book { strings, looks, calendar };
    let mut writer = Writer::new(limits);
    let mut left = CELLS;
    for Sheet { number, name, id } in sheets {
        let path = targets.get(&id).cloned().unwrap_or_else(|| format!("xl/worksheets/sheet{number}.xml"));
        // The names of parts are the same in capitals and in small letters.
        let part = archive.names().iter().find(|part| part.eq_ignore_ascii_case(&path)).cloned();
        let part = part.ok_or_else(|| Failure::corrupt(format!("a workbook without its sheet {number}")))?;
        let text = archive.xml(&part)?;
        let rows = book.rows(&text, &mut left)?;
        if rows.is_empty() {
            continue;
        }
        writer.heading(2, &name)?;
        for table in tables(rows) {
            writer.table(&table)?;
        }
    }
    Ok(writer.finish(Format::Xlsx))
}

/// What a workbook says of itself.
struct Contents {
    /// Those that can be seen.
    sheets: Vec<Sheet>,
    calendar: Calendar,
}

struct Sheet {
    /// Its place among all sheets, from 1.
    number: usize,
    name: String,
    /// The relation that leads to its part.
    id: String,
}

fn contents(text: &str) -> Result<Contents, Failure> {
    let mut found = Contents { sheets: Vec::new(), calendar: Calendar::default() };
    let mut number = 0;
    let mut xml = Xml::new(text);
    while let Some(piece) = xml.next()? {
        let Piece::Start(element) = piece else { continue };
        match element.name() {
            "workbookPr" if element.get("date1904").is_some_and(|said| said == "1" || said == "true") => {
                found.calendar = Calendar::From1904;
            }
            "sheet" => {
                number += 1;
                if element.get("state").is_none_or(|state| state == "visible") {
                    let (name, id) = (element.get("name"), element.get("id"));
                    let (name, id) = (name.unwrap_or_default(), id.unwrap_or_default());
                    found.sheets.push(Sheet { number, name, id });
                }
            }
            _ => {}
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
            found.insert(id, path(&target));
        }
    }
    Ok(found)
}

/// Where a part is that the workbook names, which lies in `xl`.
fn path(target: &str) -> String {
    let whole = target.strip_prefix('/').map_or_else(|| format!("xl/{target}"), str::to_owned);
    let mut steps = Vec::new();
    for step in whole.split('/') {
        match step {
            "." => {}
            ".." => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    steps.join("/")
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
                    found.push(Look::new(id, own.get(&id).map(String::as_str)));
                }
                _ => {}
            },
            Piece::End(name) if name == "cellXfs" => inside = false,
            Piece::End(_) | Piece::Text(_) => {}
        }
    }
    Ok(found)
}

type Row = (usize, Vec<(usize, String)>);

/// What the cells of all sheets point at.
struct Book {
    strings: Vec<String>,
    looks: Vec<Look>,
    calendar: Calendar,
}

impl Book {
    fn rows(&self, text: &str, left: &mut usize) -> Result<Vec<Row>, Failure> {
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
                        let look = element.number("s").and_then(|style| self.looks.get(style).copied());
                        cell = Some((element.get("t").unwrap_or_default(), look.unwrap_or(Look::Plain)));
                        words.clear();
                    }
                    "v" | "t" if cell.is_some() => words.push_str(&xml.inner_text()?),
                    "f" | "rPh" => xml.skip()?,
                    _ => {}
                },
                Piece::End(name) if name == "c" => {
                    let Some((kind, look)) = cell.take() else { continue };
                    let value = self.value(&kind, look, &words)?;
                    if value.trim().is_empty() {
                        continue;
                    }
                    *left = left.checked_sub(1).ok_or_else(|| {
                        Failure::new(FailureKind::TooLarge, format!("more than {CELLS} cells"))
                    })?;
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

    fn value(&self, kind: &str, look: Look, words: &str) -> Result<String, Failure> {
        Ok(match kind {
            "s" if words.trim().is_empty() => String::new(),
            "s" => {
                let text = words.trim().parse().ok().and_then(|at: usize| self.strings.get(at));
                text.cloned().ok_or_else(|| Failure::corrupt("a cell whose text is not in the workbook"))?
            }
            "b" => if words.trim() == "1" { "TRUE" } else { "FALSE" }.to_owned(),
            "" | "n" => shown(words, look, self.calendar),
            _ => words.to_owned(),
        })
    }
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
    use super::super::zipped;
    use super::*;

    /// What is read of a workbook that says this of itself and has these parts.
    fn read(said: &str, parts: &[(&str, &str)]) -> Result<String, FailureKind> {
        let workbook = format!("<workbook>{said}</workbook>");
        let parts = [&[("xl/workbook.xml", workbook.as_str())][..], parts].concat();
        let found = xlsx(&zipped(&parts), &ReadLimits::default());
        found.map(|found| found.text).map_err(|failure| failure.kind)
    }

    fn sheet(cell: &str) -> String {
        format!("<worksheet><sheetData><row r='1'>{cell}</row></sheetData></worksheet>")
    }

    const THREE: &str = "<sheets><sheet name='가' id='a'/><sheet name='나' id='b' state='hidden'/><sheet name='다' id='c'/></sheets>";

    #[test]
    fn columns_are_counted_in_letters() {
        assert_eq!(
            (column_of("A1"), column_of("BC12"), column_of("XFD1048576"), column_of("12")),
            (Some(1), Some(55), Some(16384), None)
        );
    }

    #[test]
    fn a_workbook_that_lacks_a_sheet_it_names_is_broken() {
        let (one, three) = (sheet("<c><v>1</v></c>"), sheet("<c><v>3</v></c>"));
        let whole = "## 가\n\n| 1 |\n| --- |\n\n## 다\n\n| 3 |\n| --- |".to_owned();
        let first = ("xl/worksheets/sheet1.xml", one.as_str());
        assert_eq!(read(THREE, &[first]), Err(FailureKind::Corrupt));
        assert_eq!(read(THREE, &[first, ("xl/worksheets/sheet3.xml", &three)]), Ok(whole.clone()));
        let relations = "<R><Relationship Id='a' Target='./worksheets/../worksheets/sheet1.xml'/>\
                         <Relationship Id='c' Target='/xl/worksheets/other.xml'/></R>";
        let relations = ("xl/_rels/workbook.xml.rels", relations);
        assert_eq!(read(THREE, &[relations, first, ("xl/Worksheets/Other.xml", &three)]), Ok(whole));
    }

    #[test]
    fn a_workbook_that_lacks_the_text_of_a_cell_is_broken() {
        let cells = sheet("<c t='s'><v>1</v></c><c t='s'/>");
        let parts = [
            ("xl/worksheets/sheet1.xml", cells.as_str()),
            ("xl/sharedStrings.xml", "<sst><si><t>가</t></si><si><t>나</t></si></sst>"),
        ];
        let said = "<sheets><sheet name='표' id='a'/></sheets>";
        assert_eq!(read(said, &parts), Ok("## 표\n\n| 나 |\n| --- |".to_owned()));
        assert_eq!(read(said, &parts[..1]), Err(FailureKind::Corrupt));
    }

    #[test]
    fn a_day_is_told_as_a_day_from_wherever_it_is_counted() {
        let styles = "<styleSheet><numFmts><numFmt numFmtId='176' formatCode='m&quot;월&quot; d&quot;일&quot;'/></numFmts>\
                      <cellXfs><xf numFmtId='0'/><xf numFmtId='176'/></cellXfs></styleSheet>";
        for (said, days) in [("", "46082"), ("<workbookPr date1904='1'/>", "44620")] {
            let cell = sheet(&format!("<c s='1'><v>{days}</v></c>"));
            let parts = [("xl/worksheets/sheet1.xml", cell.as_str()), ("xl/styles.xml", styles)];
            let found = read(&format!("{said}<sheets><sheet name='표' id='a'/></sheets>"), &parts);
            assert_eq!(found, Ok("## 표\n\n| 2026-03-01 |\n| --- |".to_owned()), "{said}");
        }
    }
}
