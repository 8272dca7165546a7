//! Reads 한글 documents in the open format (HWPX, KS X 6101): sections of paragraphs with outline levels, automatic
//! numbers and tables.

use std::collections::HashMap;

use super::super::document_text_builder::{DocumentTextBuilder, ParagraphRole};
use super::super::list_numbering::{ListLevel, ListNumberFormat, MAX_LIST_LEVELS, NumberedLists};
use super::super::xml_reader::{XmlElement, XmlEvent, XmlReader};
use super::super::zip_archive::LimitedZipArchive;
use super::super::{ExtractedText, FileFormat, IngestFailure, IngestFailureKind, ReadLimits};

/// Reads a HWPX document.
pub(in super::super) fn read_hwpx(bytes: &[u8], limits: &ReadLimits) -> Result<ExtractedText, IngestFailure> {
    let mut archive = LimitedZipArchive::open(bytes, limits)?;
    if let Some(manifest) = archive.read_optional_xml("META-INF/manifest.xml")?
        && manifest.contains("encryption-data")
    {
        return Err(IngestFailure::new(IngestFailureKind::Encrypted, "a HWPX with a password"));
    }
    let mut out = DocumentTextBuilder::new(limits);
    if let Some(text) = archive.read_optional_xml("Contents/content.hpf")? {
        read_package_manifest(&text, &mut out, archive.part_names())?;
    }
    let (heads, lists) = match archive.read_optional_xml("Contents/header.xml")? {
        Some(text) => read_header(&text)?,
        None => (HwpxParagraphHeads::default(), NumberedLists::default()),
    };
    let mut body = HwpxBodyReader { out, heads, lists, paragraphs: Vec::new(), open_cell_spans: Vec::new() };
    let sections = section_names(archive.part_names());
    if sections.is_empty() {
        return Err(IngestFailure::corrupt("a HWPX without sections"));
    }
    for section in sections {
        let text = archive.read_xml(&section)?;
        body.read(&text)?;
    }
    body.out.finish(FileFormat::Hwpx)
}

/// Returns the sections in order: section10 comes after section9.
fn section_names(names: &[String]) -> Vec<String> {
    let mut found: Vec<(u32, String)> = names
        .iter()
        .filter_map(|name| {
            let number = name.strip_prefix("Contents/section")?.strip_suffix(".xml")?;
            Some((number.parse().ok()?, name.clone()))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

/// Reads the title, and checks that no section is missing that the document declares.
fn read_package_manifest(
    text: &str,
    out: &mut DocumentTextBuilder,
    names: &[String],
) -> Result<(), IngestFailure> {
    let mut xml = XmlReader::new(text);
    while let Some(piece) = xml.next_event()? {
        let XmlEvent::Start(element) = piece else { continue };
        match element.name() {
            "title" => out.writer.set_title(&xml.inner_text()?),
            "item" => {
                let href = element.attribute("href").unwrap_or_default();
                let file = href.rsplit('/').next().unwrap_or_default();
                let numbered = file.strip_prefix("section").and_then(|rest| rest.strip_suffix(".xml"));
                let section = numbered.is_some_and(|number| number.parse::<u32>().is_ok());
                if section && !names.contains(&format!("Contents/{file}")) {
                    return Err(IngestFailure::corrupt(format!("a HWPX without its {file}")));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The head of paragraphs with a shape.
#[derive(Clone, Debug)]
struct HwpxParagraphHead {
    kind: String,
    list: String,
    level: usize,
}

#[derive(Debug, Default)]
struct HwpxParagraphHeads {
    shapes: HashMap<String, HwpxParagraphHead>,
    /// The shape of each style, for paragraphs that only name a style.
    styles: HashMap<String, String>,
}

fn read_header(text: &str) -> Result<(HwpxParagraphHeads, NumberedLists), IngestFailure> {
    let (mut heads, mut lists) = (HwpxParagraphHeads::default(), NumberedLists::default());
    let (mut shape, mut list) = (None::<String>, None::<String>);
    let mut xml = XmlReader::new(text);
    while let Some(piece) = xml.next_event()? {
        let XmlEvent::Start(element) = piece else { continue };
        match element.name() {
            "paraPr" => shape = element.attribute("id"),
            "heading" => {
                let head = HwpxParagraphHead {
                    kind: element.attribute("type").unwrap_or_default(),
                    list: element.attribute("idRef").unwrap_or_default(),
                    level: element.number_attribute("level").unwrap_or(0).min(MAX_LIST_LEVELS - 1),
                };
                if let Some(shape) = &shape {
                    heads.shapes.insert(shape.clone(), head);
                }
            }
            "numbering" => list = element.attribute("id"),
            "paraHead" => {
                let Some(list) = &list else { continue };
                let at = element.number_attribute("level").unwrap_or(1).clamp(1, MAX_LIST_LEVELS) - 1;
                let level = ListLevel {
                    start: element
                        .number_attribute("start")
                        .and_then(|start| u32::try_from(start).ok())
                        .unwrap_or(1),
                    number_format: list_number_format(&element.attribute("numFormat").unwrap_or_default()),
                    pattern: xml.inner_text()?.replace('^', "%"),
                };
                let levels = lists.levels.entry(list.clone()).or_default();
                if levels.len() <= at {
                    levels.resize(at + 1, ListLevel::default());
                }
                levels[at] = level;
            }
            "style" => {
                if let (Some(id), Some(shape)) = (element.attribute("id"), element.attribute("paraPrIDRef")) {
                    heads.styles.insert(id, shape);
                }
            }
            _ => {}
        }
    }
    Ok((heads, lists))
}

fn list_number_format(name: &str) -> ListNumberFormat {
    match name {
        "CIRCLED_DIGIT" => ListNumberFormat::Circled,
        "ROMAN_CAPITAL" => ListNumberFormat::RomanCapital,
        "ROMAN_SMALL" => ListNumberFormat::RomanSmall,
        "LATIN_CAPITAL" | "CIRCLED_LATIN_CAPITAL" => ListNumberFormat::LatinCapital,
        "LATIN_SMALL" | "CIRCLED_LATIN_SMALL" => ListNumberFormat::LatinSmall,
        "HANGUL_SYLLABLE" | "CIRCLED_HANGUL_SYLLABLE" => ListNumberFormat::Syllable,
        "HANGUL_JAMO" | "CIRCLED_HANGUL_JAMO" => ListNumberFormat::Consonant,
        "HANGUL_PHONETIC" => ListNumberFormat::HangulNumber,
        "IDEOGRAPH" => ListNumberFormat::Hanja,
        _ => ListNumberFormat::Digit,
    }
}

#[derive(Debug, Default)]
struct HwpxParagraph {
    words: String,
    shape: String,
    style: String,
}

struct HwpxBodyReader {
    out: DocumentTextBuilder,
    heads: HwpxParagraphHeads,
    lists: NumberedLists,
    paragraphs: Vec<HwpxParagraph>,
    /// The column span of each open cell. The address of a cell comes after its text, so only the span is used.
    open_cell_spans: Vec<usize>,
}

impl HwpxBodyReader {
    fn read(&mut self, text: &str) -> Result<(), IngestFailure> {
        let mut xml = XmlReader::new(text);
        let mut in_words = 0usize;
        while let Some(piece) = xml.next_event()? {
            match piece {
                XmlEvent::Start(element) => {
                    if element.name() == "t" {
                        in_words += 1;
                    }
                    self.start_element(&element, &mut xml)?;
                }
                XmlEvent::End(name) => {
                    if name == "t" {
                        in_words = in_words.saturating_sub(1);
                    }
                    self.end_element(&name)?;
                }
                XmlEvent::Text(words) if in_words > 0 => self.push_text(&words),
                XmlEvent::Text(_) => {}
            }
        }
        Ok(())
    }

    fn start_element(
        &mut self,
        element: &XmlElement<'_>,
        xml: &mut XmlReader<'_>,
    ) -> Result<(), IngestFailure> {
        match element.name() {
            // Page headers and footers would end up in the middle of sentences.
            "header" | "footer" | "secPr" | "linesegarray" | "shapeComment" | "fieldBegin"
            | "deleteBegin" => return xml.skip_element(),
            "p" => self.paragraphs.push(HwpxParagraph {
                words: String::new(),
                shape: element.attribute("paraPrIDRef").unwrap_or_default(),
                style: element.attribute("styleIDRef").unwrap_or_default(),
            }),
            "tbl" => {
                // The text before a table is written first.
                self.flush_paragraph()?;
                self.out.open_table()?;
            }
            "tr" => self.out.start_row(),
            "tc" => {
                self.out.open_cell(None);
                self.open_cell_spans.push(1);
            }
            "cellSpan" => {
                let wide = element.number_attribute("colSpan").unwrap_or(1);
                if let Some(span) = self.open_cell_spans.last_mut() {
                    *span = wide;
                    self.out.set_cell_span(wide, element.number_attribute("rowSpan").unwrap_or(1));
                }
            }
            "tab" => self.push_text("\t"),
            "lineBreak" => self.push_text("\n"),
            "nbSpace" | "fwSpace" => self.push_text(" "),
            "hyphen" => self.push_text("-"),
            "footNote" | "endNote" => self.push_text(" "),
            "script" => {
                let words = xml.inner_text()?;
                self.push_text(&words);
            }
            _ => {}
        }
        Ok(())
    }

    fn end_element(&mut self, name: &str) -> Result<(), IngestFailure> {
        match name {
            "p" => {
                self.flush_paragraph()?;
                self.paragraphs.pop();
                Ok(())
            }
            "tc" => {
                let span = self.open_cell_spans.pop().unwrap_or(1);
                self.out.close_cell(span);
                Ok(())
            }
            "tbl" => self.out.close_table(),
            _ => Ok(()),
        }
    }

    fn push_text(&mut self, words: &str) {
        if let Some(paragraph) = self.paragraphs.last_mut() {
            paragraph.words.push_str(words);
        }
    }

    /// Writes the text so far of the innermost paragraph.
    fn flush_paragraph(&mut self) -> Result<(), IngestFailure> {
        let Some(paragraph) = self.paragraphs.last_mut() else { return Ok(()) };
        let words = std::mem::take(&mut paragraph.words);
        if words.trim().is_empty() {
            return Ok(());
        }
        let shape = if paragraph.shape.is_empty() {
            self.heads.styles.get(&paragraph.style).cloned().unwrap_or_default()
        } else {
            paragraph.shape.clone()
        };
        let Some(head) = self.heads.shapes.get(&shape).cloned() else {
            return self.out.add_paragraph(ParagraphRole::Body, &words);
        };
        let mark = match head.kind.as_str() {
            "NUMBER" => self.lists.next_marker(&head.list, head.level),
            // An outline uses the first numbering if the section names none.
            "OUTLINE" if self.lists.levels.contains_key(&head.list) => {
                self.lists.next_marker(&head.list, head.level)
            }
            "OUTLINE" => self.lists.next_marker("1", head.level),
            "BULLET" => "-".to_owned(),
            _ => String::new(),
        };
        let words = if mark.is_empty() { words } else { format!("{mark} {}", words.trim_start()) };
        let role = match head.kind.as_str() {
            "OUTLINE" => ParagraphRole::Heading(head.level + 1),
            "NUMBER" | "BULLET" if !mark.starts_with('제') => ParagraphRole::Item,
            _ => ParagraphRole::Body,
        };
        self.out.add_paragraph(role, &words)
    }
}

#[cfg(test)]
mod tests {
    use super::super::zip_of_parts;
    use super::*;

    #[test]
    fn a_cell_over_several_rows_leaves_its_place_empty() {
        let cell = |words: &str, columns: usize, rows: usize| {
            format!(
                "<hp:tc><hp:subList><hp:p><hp:run><hp:t>{words}</hp:t></hp:run></hp:p></hp:subList>\
                 <hp:cellSpan colSpan='{columns}' rowSpan='{rows}'/></hp:tc>"
            )
        };
        let row = |cells: &[String]| format!("<hp:tr>{}</hp:tr>", cells.concat());
        let table = [
            row(&[cell("구분", 1, 1), cell("금액", 1, 1)]),
            row(&[cell("식비", 1, 2), cell("4만", 1, 1)]),
            row(&[cell("5만", 1, 1)]),
        ]
        .concat();
        let section = format!(
            "<hs:sec xmlns:hs='s' xmlns:hp='p'><hp:p><hp:run><hp:tbl>{table}</hp:tbl></hp:run></hp:p></hs:sec>"
        );
        let bytes = zip_of_parts(&[("Contents/section0.xml", &section)]);
        let found = read_hwpx(&bytes, &ReadLimits::default()).expect("hwpx");
        assert_eq!(found.text, "| 구분 | 금액 |\n| --- | --- |\n| 식비 | 4만 |\n|  | 5만 |");
    }
}
