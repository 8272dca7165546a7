//! 한글 documents in the open format (KS X 6101): sections of paragraphs, with outline levels, automatic numbers and
//! tables.

use std::collections::HashMap;

use super::super::archive::Archive;
use super::super::manuscript::{Manuscript, Role};
use super::super::numbering::{LEVELS, Level, Lists, Shape};
use super::super::xml::{Element, Piece, Xml};
use super::super::{Extracted, Failure, FailureKind, Format, ReadLimits};

/// Reads a HWPX document.
pub(in super::super) fn hwpx(bytes: &[u8], limits: &ReadLimits) -> Result<Extracted, Failure> {
    let mut archive = Archive::open(bytes, limits)?;
    if let Some(manifest) = archive.optional_xml("META-INF/manifest.xml")?
        && manifest.contains("encryption-data")
    {
        return Err(Failure::new(FailureKind::Encrypted, "a HWPX with a password"));
    }
    let mut out = Manuscript::new(limits);
    if let Some(text) = archive.optional_xml("Contents/content.hpf")? {
        contents(&text, &mut out, archive.names())?;
    }
    let (heads, lists) = match archive.optional_xml("Contents/header.xml")? {
        Some(text) => header(&text)?,
        None => (Heads::default(), Lists::default()),
    };
    let mut body = Body { out, heads, lists, paragraphs: Vec::new(), cells: Vec::new() };
    let sections = sections(archive.names());
    if sections.is_empty() {
        return Err(Failure::corrupt("a HWPX without sections"));
    }
    for section in sections {
        let text = archive.xml(&section)?;
        body.read(&text)?;
    }
    body.out.finish(Format::Hwpx)
}

/// The sections in their order: section10 comes after section9.
fn sections(names: &[String]) -> Vec<String> {
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

/// Reads the title, and sees to it that no section is missing that the document says it has.
fn contents(text: &str, out: &mut Manuscript, names: &[String]) -> Result<(), Failure> {
    let mut xml = Xml::new(text);
    while let Some(piece) = xml.next()? {
        let Piece::Start(element) = piece else { continue };
        match element.name() {
            "title" => out.writer.title(&xml.inner_text()?),
            "item" => {
                let href = element.get("href").unwrap_or_default();
                let file = href.rsplit('/').next().unwrap_or_default();
                let numbered = file.strip_prefix("section").and_then(|rest| rest.strip_suffix(".xml"));
                let section = numbered.is_some_and(|number| number.parse::<u32>().is_ok());
                if section && !names.contains(&format!("Contents/{file}")) {
                    return Err(Failure::corrupt(format!("a HWPX without its {file}")));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// What stands before the paragraphs of a shape.
#[derive(Clone, Debug)]
struct Head {
    kind: String,
    list: String,
    level: usize,
}

#[derive(Debug, Default)]
struct Heads {
    shapes: HashMap<String, Head>,
    /// The shape of each style, for paragraphs that name only a style.
    styles: HashMap<String, String>,
}

fn header(text: &str) -> Result<(Heads, Lists), Failure> {
    let (mut heads, mut lists) = (Heads::default(), Lists::default());
    let (mut shape, mut list) = (None::<String>, None::<String>);
    let mut xml = Xml::new(text);
    while let Some(piece) = xml.next()? {
        let Piece::Start(element) = piece else { continue };
        match element.name() {
            "paraPr" => shape = element.get("id"),
            "heading" => {
                let head = Head {
                    kind: element.get("type").unwrap_or_default(),
                    list: element.get("idRef").unwrap_or_default(),
                    level: element.number("level").unwrap_or(0).min(LEVELS - 1),
                };
                if let Some(shape) = &shape {
                    heads.shapes.insert(shape.clone(), head);
                }
            }
            "numbering" => list = element.get("id"),
            "paraHead" => {
                let Some(list) = &list else { continue };
                let at = element.number("level").unwrap_or(1).clamp(1, LEVELS) - 1;
                let level = Level {
                    start: element.number("start").and_then(|start| u32::try_from(start).ok()).unwrap_or(1),
                    shape: shape_of(&element.get("numFormat").unwrap_or_default()),
                    pattern: xml.inner_text()?.replace('^', "%"),
                };
                let levels = lists.levels.entry(list.clone()).or_default();
                if levels.len() <= at {
                    levels.resize(at + 1, Level::default());
                }
                levels[at] = level;
            }
            "style" => {
                if let (Some(id), Some(shape)) = (element.get("id"), element.get("paraPrIDRef")) {
                    heads.styles.insert(id, shape);
                }
            }
            _ => {}
        }
    }
    Ok((heads, lists))
}

fn shape_of(name: &str) -> Shape {
    match name {
        "CIRCLED_DIGIT" => Shape::Circled,
        "ROMAN_CAPITAL" => Shape::RomanCapital,
        "ROMAN_SMALL" => Shape::RomanSmall,
        "LATIN_CAPITAL" | "CIRCLED_LATIN_CAPITAL" => Shape::LatinCapital,
        "LATIN_SMALL" | "CIRCLED_LATIN_SMALL" => Shape::LatinSmall,
        "HANGUL_SYLLABLE" | "CIRCLED_HANGUL_SYLLABLE" => Shape::Syllable,
        "HANGUL_JAMO" | "CIRCLED_HANGUL_JAMO" => Shape::Consonant,
        "HANGUL_PHONETIC" => Shape::HangulNumber,
        "IDEOGRAPH" => Shape::Hanja,
        _ => Shape::Digit,
    }
}

#[derive(Debug, Default)]
struct Paragraph {
    words: String,
    shape: String,
    style: String,
}

struct Body {
    out: Manuscript,
    heads: Heads,
    lists: Lists,
    paragraphs: Vec<Paragraph>,
    /// How many columns each open cell spans. Its place comes after its words, so only the span is used.
    cells: Vec<usize>,
}

impl Body {
    fn read(&mut self, text: &str) -> Result<(), Failure> {
        let mut xml = Xml::new(text);
        let mut in_words = 0usize;
        while let Some(piece) = xml.next()? {
            match piece {
                Piece::Start(element) => {
                    if element.name() == "t" {
                        in_words += 1;
                    }
                    self.start(&element, &mut xml)?;
                }
                Piece::End(name) => {
                    if name == "t" {
                        in_words = in_words.saturating_sub(1);
                    }
                    self.end(&name)?;
                }
                Piece::Text(words) if in_words > 0 => self.push(&words),
                Piece::Text(_) => {}
            }
        }
        Ok(())
    }

    fn start(&mut self, element: &Element<'_>, xml: &mut Xml<'_>) -> Result<(), Failure> {
        match element.name() {
            // Running heads and feet would stand in the middle of sentences.
            "header" | "footer" | "secPr" | "linesegarray" | "shapeComment" | "fieldBegin"
            | "deleteBegin" => return xml.skip(),
            "p" => self.paragraphs.push(Paragraph {
                words: String::new(),
                shape: element.get("paraPrIDRef").unwrap_or_default(),
                style: element.get("styleIDRef").unwrap_or_default(),
            }),
            "tbl" => {
                // The words before a table come before it.
                self.flush()?;
                self.out.open_table()?;
            }
            "tr" => self.out.row(),
            "tc" => {
                self.out.open_cell(None);
                self.cells.push(1);
            }
            "cellSpan" => {
                let wide = element.number("colSpan").unwrap_or(1);
                if let Some(span) = self.cells.last_mut() {
                    *span = wide;
                    self.out.span(wide, element.number("rowSpan").unwrap_or(1));
                }
            }
            "tab" => self.push("\t"),
            "lineBreak" => self.push("\n"),
            "nbSpace" | "fwSpace" => self.push(" "),
            "hyphen" => self.push("-"),
            "footNote" | "endNote" => self.push(" "),
            "script" => {
                let words = xml.inner_text()?;
                self.push(&words);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, name: &str) -> Result<(), Failure> {
        match name {
            "p" => {
                self.flush()?;
                self.paragraphs.pop();
                Ok(())
            }
            "tc" => {
                let span = self.cells.pop().unwrap_or(1);
                self.out.close_cell(span);
                Ok(())
            }
            "tbl" => self.out.close_table(),
            _ => Ok(()),
        }
    }

    fn push(&mut self, words: &str) {
        if let Some(paragraph) = self.paragraphs.last_mut() {
            paragraph.words.push_str(words);
        }
    }

    /// Puts down the words of the innermost paragraph so far.
    fn flush(&mut self) -> Result<(), Failure> {
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
            return self.out.paragraph(Role::Body, &words);
        };
        let mark = match head.kind.as_str() {
            "NUMBER" => self.lists.mark(&head.list, head.level),
            // An outline counts with the first numbering, where the section names none.
            "OUTLINE" if self.lists.levels.contains_key(&head.list) => {
                self.lists.mark(&head.list, head.level)
            }
            "OUTLINE" => self.lists.mark("1", head.level),
            "BULLET" => "-".to_owned(),
            _ => String::new(),
        };
        let words = if mark.is_empty() { words } else { format!("{mark} {}", words.trim_start()) };
        let role = match head.kind.as_str() {
            "OUTLINE" => Role::Heading(head.level + 1),
            "NUMBER" | "BULLET" if !mark.starts_with('제') => Role::Item,
            _ => Role::Body,
        };
        self.out.paragraph(role, &words)
    }
}

#[cfg(test)]
mod tests {
    use super::super::zipped;
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
        let bytes = zipped(&[("Contents/section0.xml", &section)]);
        let found = hwpx(&bytes, &ReadLimits::default()).expect("hwpx");
        assert_eq!(found.text, "| 구분 | 금액 |\n| --- | --- |\n| 식비 | 4만 |\n|  | 5만 |");
    }
}
