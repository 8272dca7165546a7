//! Reads Excel workbooks: the cells that exist, as one table for each block of rows. The declared size of a sheet is
//! ignored.

mod number_format;

use std::collections::{BTreeSet, HashMap};

use super::super::markdown_writer::MarkdownWriter;
use super::super::xml_reader::{XmlEvent, XmlReader};
use super::super::zip_archive::LimitedZipArchive;
use super::super::{ExtractedText, FileFormat, IngestFailure, IngestFailureKind, ReadLimits};
use number_format::{CellNumberFormat, DateSystem, format_cell_number};

/// The maximum number of cells of a workbook.
const MAX_WORKBOOK_CELLS: usize = 2_000_000;

/// Reads a workbook.
pub(in super::super) fn read_xlsx(bytes: &[u8], limits: &ReadLimits) -> Result<ExtractedText, IngestFailure> {
    let mut archive = LimitedZipArchive::open(bytes, limits)?;
    let WorkbookContents { sheets, calendar } = read_workbook(&archive.read_xml("xl/workbook.xml")?)?;
    let targets = match archive.read_optional_xml("xl/_rels/workbook.xml.rels")? {
        Some(text) => read_relationships(&text)?,
        None => HashMap::new(),
    };
    let strings = match archive.read_optional_xml("xl/sharedStrings.xml")? {
        Some(text) => read_shared_strings(&text)?,
        None => Vec::new(),
    };
    let looks = match archive.read_optional_xml("xl/styles.xml")? {
        Some(text) => read_cell_formats(&text)?,
        None => Vec::new(),
    };
    let book = WorkbookContext { strings, cell_formats: looks, calendar };
    let mut writer = MarkdownWriter::new(limits);
    let mut left = MAX_WORKBOOK_CELLS;
    for WorkbookSheet { number, name, id } in sheets {
        let path = targets.get(&id).cloned().unwrap_or_else(|| format!("xl/worksheets/sheet{number}.xml"));
        // Part names are case-insensitive.
        let part = archive.part_names().iter().find(|part| part.eq_ignore_ascii_case(&path)).cloned();
        let part =
            part.ok_or_else(|| IngestFailure::corrupt(format!("a workbook without its sheet {number}")))?;
        let text = archive.read_xml(&part)?;
        let rows = book.read_rows(&text, &mut left)?;
        if rows.is_empty() {
            continue;
        }
        writer.write_heading(2, &name)?;
        for table in split_into_tables(rows) {
            writer.write_table(&table)?;
        }
    }
    Ok(writer.finish(FileFormat::Xlsx))
}

/// The content list of a workbook.
struct WorkbookContents {
    /// The visible sheets.
    sheets: Vec<WorkbookSheet>,
    calendar: DateSystem,
}

struct WorkbookSheet {
    /// Its position among all sheets, from 1.
    number: usize,
    name: String,
    /// The id of the relationship to its part.
    id: String,
}

fn read_workbook(text: &str) -> Result<WorkbookContents, IngestFailure> {
    let mut found = WorkbookContents { sheets: Vec::new(), calendar: DateSystem::default() };
    let mut number = 0;
    let mut xml = XmlReader::new(text);
    while let Some(piece) = xml.next_event()? {
        let XmlEvent::Start(element) = piece else { continue };
        match element.name() {
            "workbookPr"
                if element
                    .attribute("date1904")
                    .is_some_and(|workbook_xml| workbook_xml == "1" || workbook_xml == "true") =>
            {
                found.calendar = DateSystem::From1904;
            }
            "sheet" => {
                number += 1;
                if element.attribute("state").is_none_or(|state| state == "visible") {
                    let (name, id) = (element.attribute("name"), element.attribute("id"));
                    let (name, id) = (name.unwrap_or_default(), id.unwrap_or_default());
                    found.sheets.push(WorkbookSheet { number, name, id });
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

fn read_relationships(text: &str) -> Result<HashMap<String, String>, IngestFailure> {
    let mut found = HashMap::new();
    let mut xml = XmlReader::new(text);
    while let Some(piece) = xml.next_event()? {
        if let XmlEvent::Start(element) = piece
            && element.name() == "Relationship"
            && let (Some(id), Some(target)) = (element.attribute("Id"), element.attribute("Target"))
        {
            found.insert(id, resolve_part_path(&target));
        }
    }
    Ok(found)
}

/// Resolves the path of a part that the workbook refers to, relative to `xl`.
fn resolve_part_path(target: &str) -> String {
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

fn read_shared_strings(text: &str) -> Result<Vec<String>, IngestFailure> {
    let mut found = Vec::new();
    let mut open = String::new();
    let mut xml = XmlReader::new(text);
    while let Some(piece) = xml.next_event()? {
        match piece {
            XmlEvent::Start(element) => match element.name() {
                "si" => open.clear(),
                "t" => open.push_str(&xml.inner_text()?),
                // Phonetic guides are not part of the text.
                "rPh" => xml.skip_element()?,
                _ => {}
            },
            XmlEvent::End(name) if name == "si" => found.push(std::mem::take(&mut open)),
            XmlEvent::End(_) | XmlEvent::Text(_) => {}
        }
    }
    Ok(found)
}

fn read_cell_formats(text: &str) -> Result<Vec<CellNumberFormat>, IngestFailure> {
    let mut own: HashMap<usize, String> = HashMap::new();
    let mut found = Vec::new();
    let mut inside = false;
    let mut xml = XmlReader::new(text);
    while let Some(piece) = xml.next_event()? {
        match piece {
            XmlEvent::Start(element) => match element.name() {
                "numFmt" => {
                    if let (Some(id), Some(code)) =
                        (element.number_attribute("numFmtId"), element.attribute("formatCode"))
                    {
                        own.insert(id, code);
                    }
                }
                "cellXfs" => inside = true,
                "xf" if inside => {
                    let id = element.number_attribute("numFmtId").unwrap_or(0);
                    found.push(CellNumberFormat::new(id, own.get(&id).map(String::as_str)));
                }
                _ => {}
            },
            XmlEvent::End(name) if name == "cellXfs" => inside = false,
            XmlEvent::End(_) | XmlEvent::Text(_) => {}
        }
    }
    Ok(found)
}

type SheetRow = (usize, Vec<(usize, String)>);

/// The shared strings and styles that the cells of all sheets refer to.
struct WorkbookContext {
    strings: Vec<String>,
    cell_formats: Vec<CellNumberFormat>,
    calendar: DateSystem,
}

impl WorkbookContext {
    fn read_rows(&self, text: &str, left: &mut usize) -> Result<Vec<SheetRow>, IngestFailure> {
        let mut rows: Vec<SheetRow> = Vec::new();
        let (mut row, mut column) = (0, 0);
        let mut cell: Option<(String, CellNumberFormat)> = None;
        let mut words = String::new();
        let mut xml = XmlReader::new(text);
        while let Some(piece) = xml.next_event()? {
            match piece {
                XmlEvent::Start(element) => match element.name() {
                    "row" => {
                        row = element.number_attribute("r").unwrap_or(row + 1);
                        column = 0;
                    }
                    "c" => {
                        column =
                            element.attribute("r").and_then(|at| column_number(&at)).unwrap_or(column + 1);
                        let look = element
                            .number_attribute("s")
                            .and_then(|style| self.cell_formats.get(style).copied());
                        cell = Some((
                            element.attribute("t").unwrap_or_default(),
                            look.unwrap_or(CellNumberFormat::Plain),
                        ));
                        words.clear();
                    }
                    "v" | "t" if cell.is_some() => words.push_str(&xml.inner_text()?),
                    "f" | "rPh" => xml.skip_element()?,
                    _ => {}
                },
                XmlEvent::End(name) if name == "c" => {
                    let Some((kind, look)) = cell.take() else { continue };
                    let value = self.cell_text(&kind, look, &words)?;
                    if value.trim().is_empty() {
                        continue;
                    }
                    *left = left.checked_sub(1).ok_or_else(|| {
                        IngestFailure::new(
                            IngestFailureKind::TooLarge,
                            format!("more than {MAX_WORKBOOK_CELLS} cells"),
                        )
                    })?;
                    match rows.last_mut() {
                        Some((last, cells)) if *last == row => cells.push((column, value)),
                        Some(_) | None => rows.push((row, vec![(column, value)])),
                    }
                }
                XmlEvent::End(_) | XmlEvent::Text(_) => {}
            }
        }
        Ok(rows)
    }

    fn cell_text(&self, kind: &str, look: CellNumberFormat, words: &str) -> Result<String, IngestFailure> {
        Ok(match kind {
            "s" if words.trim().is_empty() => String::new(),
            "s" => {
                let text = words.trim().parse().ok().and_then(|at: usize| self.strings.get(at));
                text.cloned()
                    .ok_or_else(|| IngestFailure::corrupt("a cell whose text is not in the workbook"))?
            }
            "b" => if words.trim() == "1" { "TRUE" } else { "FALSE" }.to_owned(),
            "" | "n" => format_cell_number(words, look, self.calendar),
            _ => words.to_owned(),
        })
    }
}

/// Returns the column of a reference such as `BC12`, from 1.
fn column_number(at: &str) -> Option<usize> {
    let letters = at.bytes().take_while(u8::is_ascii_uppercase);
    let number = letters.take(4).fold(0, |sum, letter| sum * 26 + usize::from(letter - b'A') + 1);
    (number > 0).then_some(number)
}

/// Returns the blocks of consecutive rows, each with the columns it uses.
fn split_into_tables(rows: Vec<SheetRow>) -> Vec<Vec<Vec<String>>> {
    let mut blocks: Vec<Vec<SheetRow>> = Vec::new();
    for row in rows {
        match blocks.last_mut() {
            Some(block) if block.last().is_some_and(|(last, _)| row.0 == last + 1) => block.push(row),
            Some(_) | None => blocks.push(vec![row]),
        }
    }
    blocks.into_iter().map(|block| align_columns(&block)).collect()
}

fn align_columns(block: &[SheetRow]) -> Vec<Vec<String>> {
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
    use super::super::zip_of_parts;
    use super::*;

    /// Reads a workbook with this `workbook.xml` and these parts.
    fn read(workbook_xml: &str, parts: &[(&str, &str)]) -> Result<String, IngestFailureKind> {
        let workbook = format!("<workbook>{workbook_xml}</workbook>");
        let parts = [&[("xl/workbook.xml", workbook.as_str())][..], parts].concat();
        let found = read_xlsx(&zip_of_parts(&parts), &ReadLimits::default());
        found.map(|found| found.text).map_err(|failure| failure.kind)
    }

    fn sheet(cell: &str) -> String {
        format!("<worksheet><sheetData><row r='1'>{cell}</row></sheetData></worksheet>")
    }

    const THREE_SHEETS: &str = "<sheets><sheet name='가' id='a'/><sheet name='나' id='b' state='hidden'/><sheet name='다' id='c'/></sheets>";

    #[test]
    fn columns_are_counted_in_letters() {
        assert_eq!(
            (column_number("A1"), column_number("BC12"), column_number("XFD1048576"), column_number("12")),
            (Some(1), Some(55), Some(16384), None)
        );
    }

    #[test]
    fn a_workbook_that_lacks_a_sheet_it_names_is_broken() {
        let (one, three) = (sheet("<c><v>1</v></c>"), sheet("<c><v>3</v></c>"));
        let whole = "## 가\n\n| 1 |\n| --- |\n\n## 다\n\n| 3 |\n| --- |".to_owned();
        let first = ("xl/worksheets/sheet1.xml", one.as_str());
        assert_eq!(read(THREE_SHEETS, &[first]), Err(IngestFailureKind::Corrupt));
        assert_eq!(read(THREE_SHEETS, &[first, ("xl/worksheets/sheet3.xml", &three)]), Ok(whole.clone()));
        let relations = "<R><Relationship Id='a' Target='./worksheets/../worksheets/sheet1.xml'/>\
                         <Relationship Id='c' Target='/xl/worksheets/other.xml'/></R>";
        let relations = ("xl/_rels/workbook.xml.rels", relations);
        assert_eq!(read(THREE_SHEETS, &[relations, first, ("xl/Worksheets/Other.xml", &three)]), Ok(whole));
    }

    #[test]
    fn a_workbook_that_lacks_the_text_of_a_cell_is_broken() {
        let cells = sheet("<c t='s'><v>1</v></c><c t='s'/>");
        let parts = [
            ("xl/worksheets/sheet1.xml", cells.as_str()),
            ("xl/sharedStrings.xml", "<sst><si><t>가</t></si><si><t>나</t></si></sst>"),
        ];
        let workbook_xml = "<sheets><sheet name='표' id='a'/></sheets>";
        assert_eq!(read(workbook_xml, &parts), Ok("## 표\n\n| 나 |\n| --- |".to_owned()));
        assert_eq!(read(workbook_xml, &parts[..1]), Err(IngestFailureKind::Corrupt));
    }

    #[test]
    fn a_day_is_written_as_a_day_in_either_date_system() {
        let styles = "<styleSheet><numFmts><numFmt numFmtId='176' formatCode='m&quot;월&quot; d&quot;일&quot;'/></numFmts>\
                      <cellXfs><xf numFmtId='0'/><xf numFmtId='176'/></cellXfs></styleSheet>";
        for (workbook_xml, days) in [("", "46082"), ("<workbookPr date1904='1'/>", "44620")] {
            let cell = sheet(&format!("<c s='1'><v>{days}</v></c>"));
            let parts = [("xl/worksheets/sheet1.xml", cell.as_str()), ("xl/styles.xml", styles)];
            let found = read(&format!("{workbook_xml}<sheets><sheet name='표' id='a'/></sheets>"), &parts);
            assert_eq!(found, Ok("## 표\n\n| 2026-03-01 |\n| --- |".to_owned()), "{workbook_xml}");
        }
    }
}
