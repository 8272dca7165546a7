//! Word documents: paragraphs with their styles and automatic numbers, tables, pages where Word noted them.

use std::collections::HashMap;

use super::super::archive::Archive;
use super::super::manuscript::{Manuscript, Role};
use super::super::numbering::{LEVELS, Level, Lists, Shape};
use super::super::xml::{Element, Piece, Xml};
use super::super::{Extracted, Failure, Format, ReadLimits};

/// Reads a Word document.
pub(in super::super) fn docx(bytes: &[u8], limits: &ReadLimits) -> Result<Extracted, Failure> {
    let mut archive = Archive::open(bytes, limits)?;
    let styles = match archive.optional_xml("word/styles.xml")? {
        Some(text) => styles(&text)?,
        None => HashMap::new(),
    };
    let lists = match archive.optional_xml("word/numbering.xml")? {
        Some(text) => lists(&text)?,
        None => Lists::default(),
    };
    let mut out = Manuscript::new(limits);
    if let Some(text) = archive.optional_xml("docProps/core.xml")? {
        title(&text, &mut out)?;
    }
    let text = archive.xml("word/document.xml")?;
    let mut notes = HashMap::new();
    for (part, kind) in [("word/footnotes.xml", "footnote"), ("word/endnotes.xml", "endnote")] {
        if let Some(text) = archive.optional_xml(part)? {
            read_notes(&text, kind, &mut notes)?;
        }
    }
    let mut body = Body { out, styles, lists, notes, paragraphs: Vec::new(), spans: Vec::new() };
    if text.contains("lastRenderedPageBreak") {
        body.out.page()?;
    }
    body.read(&text)?;
    body.out.finish(Format::Docx)
}

fn title(text: &str, out: &mut Manuscript) -> Result<(), Failure> {
    let mut xml = Xml::new(text);
    while let Some(piece) = xml.next()? {
        if let Piece::Start(element) = piece
            && element.name() == "title"
        {
            out.writer.title(&xml.inner_text()?);
        }
    }
    Ok(())
}

/// The words of the notes, each under its kind and id.
type Notes = HashMap<(&'static str, String), String>;

fn read_notes(text: &str, kind: &'static str, notes: &mut Notes) -> Result<(), Failure> {
    let mut open: Option<(String, String)> = None;
    let mut xml = Xml::new(text);
    while let Some(piece) = xml.next()? {
        match piece {
            Piece::Start(element) if element.name() == kind => {
                // Notes with a type are the lines between text and notes.
                let is_note = element.get("type").is_none_or(|kind| kind == "normal");
                open = element.get("id").filter(|_| is_note).map(|id| (id, String::new()));
            }
            Piece::Start(element) => match element.name() {
                "Fallback" | "del" | "moveFrom" | "instrText" => xml.skip()?,
                "t" => {
                    let words = xml.inner_text()?;
                    if let Some((_, note)) = &mut open {
                        note.push_str(&words);
                    }
                }
                _ => {}
            },
            Piece::End(name) if name == kind => {
                if let Some((id, note)) = open.take().filter(|(_, note)| !note.trim().is_empty()) {
                    notes.insert((kind, id), note.trim().to_owned());
                }
            }
            Piece::End(name) => {
                if let ("p", Some((_, note))) = (name.as_str(), &mut open) {
                    note.push(' ');
                }
            }
            Piece::Text(_) => {}
        }
    }
    Ok(())
}

#[derive(Clone, Debug, Default)]
struct Style {
    heading: Option<usize>,
    list: Option<String>,
    level: Option<usize>,
    base: Option<String>,
}

fn styles(text: &str) -> Result<HashMap<String, Style>, Failure> {
    let mut styles: HashMap<String, Style> = HashMap::new();
    let mut open: Option<(String, Style)> = None;
    let mut xml = Xml::new(text);
    while let Some(piece) = xml.next()? {
        match piece {
            Piece::Start(element) if element.name() == "style" => {
                open = element.get("styleId").map(|id| (id, Style::default()));
            }
            Piece::Start(element) => {
                let Some((_, style)) = &mut open else { continue };
                match element.name() {
                    "name" => {
                        style.heading =
                            style.heading.or(element.get("val").and_then(|name| heading_name(&name)));
                    }
                    "basedOn" => style.base = element.get("val"),
                    "outlineLvl" => {
                        style.heading =
                            element.number("val").filter(|level| *level < 9).map(|level| level + 1);
                    }
                    "numId" => style.list = element.get("val"),
                    "ilvl" => style.level = element.number("val"),
                    _ => {}
                }
            }
            Piece::End(name) if name == "style" => styles.extend(open.take()),
            Piece::End(_) | Piece::Text(_) => {}
        }
    }
    Ok(styles)
}

fn heading_name(name: &str) -> Option<usize> {
    let name = name.to_lowercase();
    if name == "title" || name == "제목" {
        return Some(1);
    }
    let level = name.strip_prefix("heading ").or_else(|| name.strip_prefix("제목 "))?;
    level.trim().parse().ok().filter(|level| (1..=9).contains(level))
}

fn lists(text: &str) -> Result<Lists, Failure> {
    let mut shapes: HashMap<String, Vec<Level>> = HashMap::new();
    let mut lists = Lists::default();
    let (mut shape, mut list, mut level) = (None, None::<String>, 0);
    let mut xml = Xml::new(text);
    while let Some(piece) = xml.next()? {
        let Piece::Start(element) = piece else { continue };
        match element.name() {
            "abstractNum" => {
                shape = element.get("abstractNumId");
                list = None;
            }
            "num" => list = element.get("numId"),
            "lvl" | "lvlOverride" => level = element.number("ilvl").unwrap_or(0).min(LEVELS - 1),
            "abstractNumId" => {
                if let (Some(list), Some(levels)) = (&list, element.get("val").and_then(|id| shapes.get(&id)))
                {
                    lists.levels.insert(list.clone(), levels.clone());
                }
            }
            name => {
                let levels = match (&list, &shape) {
                    (Some(list), _) => lists.levels.entry(list.clone()).or_default(),
                    (None, Some(shape)) => shapes.entry(shape.clone()).or_default(),
                    (None, None) => continue,
                };
                if levels.len() <= level {
                    levels.resize(level + 1, Level::default());
                }
                let value = element.get("val").unwrap_or_default();
                let Some(level) = levels.get_mut(level) else { continue };
                match name {
                    "start" | "startOverride" => level.start = value.parse().unwrap_or(1),
                    "numFmt" => level.shape = shape_of(&value),
                    "lvlText" => level.pattern = value,
                    _ => {}
                }
            }
        }
    }
    Ok(lists)
}

fn shape_of(name: &str) -> Shape {
    match name {
        "bullet" => Shape::Bullet,
        "none" => Shape::None,
        "decimalEnclosedCircle" | "decimalEnclosedCircleChinese" => Shape::Circled,
        "upperRoman" => Shape::RomanCapital,
        "lowerRoman" => Shape::RomanSmall,
        "upperLetter" => Shape::LatinCapital,
        "lowerLetter" => Shape::LatinSmall,
        "ganada" => Shape::Syllable,
        "chosung" => Shape::Consonant,
        "koreanDigital" | "koreanDigital2" | "koreanLegal" => Shape::HangulNumber,
        "ideographDigital" | "chineseCounting" | "japaneseCounting" | "taiwaneseCounting" => Shape::Hanja,
        _ => Shape::Digit,
    }
}

#[derive(Debug, Default)]
struct Paragraph {
    words: String,
    style: Option<String>,
    heading: Option<usize>,
    list: Option<String>,
    level: Option<usize>,
    new_page: bool,
}

struct Body {
    out: Manuscript,
    styles: HashMap<String, Style>,
    lists: Lists,
    /// Notes that were not put down yet.
    notes: Notes,
    /// The paragraphs open: text boxes stand inside paragraphs.
    paragraphs: Vec<Paragraph>,
    /// How many columns the open cells span.
    spans: Vec<usize>,
}

impl Body {
    fn read(&mut self, text: &str) -> Result<(), Failure> {
        let mut xml = Xml::new(text);
        while let Some(piece) = xml.next()? {
            match piece {
                Piece::Start(element) => self.start(&element, &mut xml)?,
                Piece::End(name) => self.end(&name)?,
                Piece::Text(_) => {}
            }
        }
        Ok(())
    }

    fn start(&mut self, element: &Element<'_>, xml: &mut Xml<'_>) -> Result<(), Failure> {
        let value = || element.get("val");
        match element.name() {
            // Word writes text boxes twice, the second time for readers of its past; deleted text is deleted.
            "Fallback" | "del" | "moveFrom" | "instrText" | "pPrChange" | "rPrChange" => return xml.skip(),
            "p" => self.paragraphs.push(Paragraph::default()),
            "tbl" => return self.out.open_table(),
            "tr" => self.out.row(),
            "tc" => {
                self.out.open_cell(None);
                self.spans.push(1);
            }
            "gridSpan" => {
                if let (Some(span), Some(wide)) = (self.spans.last_mut(), element.number("val")) {
                    *span = wide;
                }
            }
            "t" => {
                let words = xml.inner_text()?;
                self.push(&words);
            }
            "tab" if element.get("pos").is_none() => self.push("\t"),
            "br" | "cr" if element.get("type").as_deref() != Some("page") => self.push("\n"),
            "noBreakHyphen" => self.push("-"),
            "footnoteReference" | "endnoteReference" => {
                let kind = if element.name() == "footnoteReference" { "footnote" } else { "endnote" };
                if let Some(note) = element.get("id").and_then(|id| self.notes.remove(&(kind, id))) {
                    self.push(&format!(" ({note})"));
                }
            }
            "lastRenderedPageBreak" => {
                if let Some(paragraph) = self.paragraphs.last_mut() {
                    paragraph.new_page = true;
                }
            }
            name => {
                let Some(paragraph) = self.paragraphs.last_mut() else { return Ok(()) };
                match name {
                    "pStyle" => paragraph.style = value(),
                    "outlineLvl" => {
                        paragraph.heading =
                            element.number("val").filter(|level| *level < 9).map(|level| level + 1);
                    }
                    "numId" => paragraph.list = value(),
                    "ilvl" => paragraph.level = element.number("val"),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, name: &str) -> Result<(), Failure> {
        match name {
            "p" => {
                let Some(paragraph) = self.paragraphs.pop() else { return Ok(()) };
                self.paragraph(paragraph)
            }
            "tc" => {
                let span = self.spans.pop().unwrap_or(1);
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

    fn paragraph(&mut self, paragraph: Paragraph) -> Result<(), Failure> {
        let Paragraph { words, style, heading, list, level, new_page } = paragraph;
        if new_page {
            self.out.page()?;
        }
        let style = self.resolved(style.as_deref());
        let heading = heading.or(style.heading);
        let list = list.or(style.list).filter(|list| list != "0");
        if words.trim().is_empty() {
            return Ok(());
        }
        let mark = match &list {
            Some(list) => self.lists.mark(list, level.or(style.level).unwrap_or(0).min(LEVELS - 1)),
            None => String::new(),
        };
        let words = if mark.is_empty() { words } else { format!("{mark} {}", words.trim_start()) };
        let role = match (heading, mark.is_empty()) {
            (Some(level), _) => Role::Heading(level),
            // 제1조 is no line of a list but the head of an article.
            (None, false) if !mark.starts_with('제') => Role::Item,
            (None, _) => Role::Body,
        };
        self.out.paragraph(role, &words)
    }

    /// What a style says, with what it takes from the styles it is based on.
    fn resolved(&self, id: Option<&str>) -> Style {
        let mut found = Style::default();
        let mut next = id.map(str::to_owned);
        for _ in 0..10 {
            let Some(style) = next.as_ref().and_then(|id| self.styles.get(id)) else { break };
            found.heading = found.heading.or(style.heading);
            found.list = found.list.or_else(|| style.list.clone());
            found.level = found.level.or(style.level);
            next = style.base.clone();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::zipped;
    use super::*;

    #[test]
    fn notes_stand_where_the_text_refers_to_them() {
        let bytes = zipped(&[
            (
                "word/document.xml",
                "<w:document xmlns:w='w'><w:body><w:p><w:r><w:t>대금은 천만 원이다.</w:t></w:r>\
                 <w:r><w:footnoteReference w:id='2'/></w:r><w:r><w:t> 뒤에 낸다.</w:t></w:r>\
                 <w:r><w:endnoteReference w:id='2'/></w:r></w:p></w:body></w:document>",
            ),
            (
                "word/footnotes.xml",
                "<w:footnotes xmlns:w='w'><w:footnote w:type='separator' w:id='0'><w:p><w:r><w:t>--</w:t></w:r></w:p></w:footnote>\
                 <w:footnote w:id='2'><w:p><w:r><w:t>부가세는 따로이다.</w:t></w:r></w:p></w:footnote></w:footnotes>",
            ),
            (
                "word/endnotes.xml",
                "<w:endnotes xmlns:w='w'><w:endnote w:id='2'><w:p><w:r><w:t>말일까지.</w:t></w:r></w:p></w:endnote></w:endnotes>",
            ),
        ]);
        let found = docx(&bytes, &ReadLimits::default()).expect("docx");
        assert_eq!(found.text, "대금은 천만 원이다. (부가세는 따로이다.) 뒤에 낸다. (말일까지.)");
    }
}
