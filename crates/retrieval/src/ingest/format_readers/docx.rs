//! Reads Word documents: paragraphs with styles and automatic numbers, tables, and the page breaks that Word recorded.

use std::collections::HashMap;

use super::super::document_text_builder::{DocumentTextBuilder, ParagraphRole};
use super::super::list_numbering::{ListLevel, ListNumberFormat, MAX_LIST_LEVELS, NumberedLists};
use super::super::xml_reader::{XmlElement, XmlEvent, XmlReader};
use super::super::zip_archive::LimitedZipArchive;
use super::super::{ExtractedText, FileFormat, IngestFailure, ReadLimits};

/// Reads a Word document.
pub(in super::super) fn read_docx(bytes: &[u8], limits: &ReadLimits) -> Result<ExtractedText, IngestFailure> {
    let mut archive = LimitedZipArchive::open(bytes, limits)?;
    let styles = match archive.read_optional_xml("word/styles.xml")? {
        Some(text) => read_styles(&text)?,
        None => HashMap::new(),
    };
    let lists = match archive.read_optional_xml("word/numbering.xml")? {
        Some(text) => read_numbering(&text)?,
        None => NumberedLists::default(),
    };
    let mut out = DocumentTextBuilder::new(limits);
    if let Some(text) = archive.read_optional_xml("docProps/core.xml")? {
        read_title(&text, &mut out)?;
    }
    let text = archive.read_xml("word/document.xml")?;
    let mut notes = HashMap::new();
    for (part, kind) in [("word/footnotes.xml", "footnote"), ("word/endnotes.xml", "endnote")] {
        if let Some(text) = archive.read_optional_xml(part)? {
            read_notes(&text, kind, &mut notes)?;
        }
    }
    let mut body = DocxBodyReader { out, styles, lists, notes, paragraphs: Vec::new(), spans: Vec::new() };
    if text.contains("lastRenderedPageBreak") {
        body.out.start_page()?;
    }
    body.read(&text)?;
    body.out.finish(FileFormat::Docx)
}

fn read_title(text: &str, out: &mut DocumentTextBuilder) -> Result<(), IngestFailure> {
    let mut xml = XmlReader::new(text);
    while let Some(piece) = xml.next_event()? {
        if let XmlEvent::Start(element) = piece
            && element.name() == "title"
        {
            out.writer.set_title(&xml.inner_text()?);
        }
    }
    Ok(())
}

/// The texts of footnotes and endnotes, by kind and id.
type DocxNotes = HashMap<(&'static str, String), String>;

fn read_notes(text: &str, kind: &'static str, notes: &mut DocxNotes) -> Result<(), IngestFailure> {
    let mut open: Option<(String, String)> = None;
    let mut xml = XmlReader::new(text);
    while let Some(piece) = xml.next_event()? {
        match piece {
            XmlEvent::Start(element) if element.name() == kind => {
                // Notes with a type are separator lines between text and notes.
                let is_note = element.attribute("type").is_none_or(|kind| kind == "normal");
                open = element.attribute("id").filter(|_| is_note).map(|id| (id, String::new()));
            }
            XmlEvent::Start(element) => match element.name() {
                "Fallback" | "del" | "moveFrom" | "instrText" => xml.skip_element()?,
                "t" => {
                    let words = xml.inner_text()?;
                    if let Some((_, note)) = &mut open {
                        note.push_str(&words);
                    }
                }
                _ => {}
            },
            XmlEvent::End(name) if name == kind => {
                if let Some((id, note)) = open.take().filter(|(_, note)| !note.trim().is_empty()) {
                    notes.insert((kind, id), note.trim().to_owned());
                }
            }
            XmlEvent::End(name) => {
                if let ("p", Some((_, note))) = (name.as_str(), &mut open) {
                    note.push(' ');
                }
            }
            XmlEvent::Text(_) => {}
        }
    }
    Ok(())
}

#[derive(Clone, Debug, Default)]
struct DocxStyle {
    heading: Option<usize>,
    list: Option<String>,
    level: Option<usize>,
    base: Option<String>,
}

fn read_styles(text: &str) -> Result<HashMap<String, DocxStyle>, IngestFailure> {
    let mut styles: HashMap<String, DocxStyle> = HashMap::new();
    let mut open: Option<(String, DocxStyle)> = None;
    let mut xml = XmlReader::new(text);
    while let Some(piece) = xml.next_event()? {
        match piece {
            XmlEvent::Start(element) if element.name() == "style" => {
                open = element.attribute("styleId").map(|id| (id, DocxStyle::default()));
            }
            XmlEvent::Start(element) => {
                let Some((_, style)) = &mut open else { continue };
                match element.name() {
                    "name" => {
                        style.heading = style
                            .heading
                            .or(element.attribute("val").and_then(|name| heading_level_of_style_name(&name)));
                    }
                    "basedOn" => style.base = element.attribute("val"),
                    "outlineLvl" => {
                        style.heading =
                            element.number_attribute("val").filter(|level| *level < 9).map(|level| level + 1);
                    }
                    "numId" => style.list = element.attribute("val"),
                    "ilvl" => style.level = element.number_attribute("val"),
                    _ => {}
                }
            }
            XmlEvent::End(name) if name == "style" => styles.extend(open.take()),
            XmlEvent::End(_) | XmlEvent::Text(_) => {}
        }
    }
    Ok(styles)
}

fn heading_level_of_style_name(name: &str) -> Option<usize> {
    let name = name.to_lowercase();
    if name == "title" || name == "제목" {
        return Some(1);
    }
    let level = name.strip_prefix("heading ").or_else(|| name.strip_prefix("제목 "))?;
    level.trim().parse().ok().filter(|level| (1..=9).contains(level))
}

fn read_numbering(text: &str) -> Result<NumberedLists, IngestFailure> {
    let mut shapes: HashMap<String, Vec<ListLevel>> = HashMap::new();
    let mut lists = NumberedLists::default();
    let (mut shape, mut list, mut level) = (None, None::<String>, 0);
    let mut xml = XmlReader::new(text);
    while let Some(piece) = xml.next_event()? {
        let XmlEvent::Start(element) = piece else { continue };
        match element.name() {
            "abstractNum" => {
                shape = element.attribute("abstractNumId");
                list = None;
            }
            "num" => list = element.attribute("numId"),
            "lvl" | "lvlOverride" => {
                level = element.number_attribute("ilvl").unwrap_or(0).min(MAX_LIST_LEVELS - 1);
            }
            "abstractNumId" => {
                if let (Some(list), Some(levels)) =
                    (&list, element.attribute("val").and_then(|id| shapes.get(&id)))
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
                    levels.resize(level + 1, ListLevel::default());
                }
                let value = element.attribute("val").unwrap_or_default();
                let Some(level) = levels.get_mut(level) else { continue };
                match name {
                    "start" | "startOverride" => level.start = value.parse().unwrap_or(1),
                    "numFmt" => level.number_format = list_number_format(&value),
                    "lvlText" => level.pattern = value,
                    _ => {}
                }
            }
        }
    }
    Ok(lists)
}

fn list_number_format(name: &str) -> ListNumberFormat {
    match name {
        "bullet" => ListNumberFormat::Bullet,
        "none" => ListNumberFormat::None,
        "decimalEnclosedCircle" | "decimalEnclosedCircleChinese" => ListNumberFormat::Circled,
        "upperRoman" => ListNumberFormat::RomanCapital,
        "lowerRoman" => ListNumberFormat::RomanSmall,
        "upperLetter" => ListNumberFormat::LatinCapital,
        "lowerLetter" => ListNumberFormat::LatinSmall,
        "ganada" => ListNumberFormat::Syllable,
        "chosung" => ListNumberFormat::Consonant,
        "koreanDigital" | "koreanDigital2" | "koreanLegal" => ListNumberFormat::HangulNumber,
        "ideographDigital" | "chineseCounting" | "japaneseCounting" | "taiwaneseCounting" => {
            ListNumberFormat::Hanja
        }
        _ => ListNumberFormat::Digit,
    }
}

#[derive(Debug, Default)]
struct DocxParagraph {
    words: String,
    style: Option<String>,
    heading: Option<usize>,
    list: Option<String>,
    level: Option<usize>,
    new_page: bool,
}

struct DocxBodyReader {
    out: DocumentTextBuilder,
    styles: HashMap<String, DocxStyle>,
    lists: NumberedLists,
    /// Notes that have not been written yet.
    notes: DocxNotes,
    /// The open paragraphs. There are several because text boxes are inside paragraphs.
    paragraphs: Vec<DocxParagraph>,
    /// The column spans of the open cells.
    spans: Vec<usize>,
}

impl DocxBodyReader {
    fn read(&mut self, text: &str) -> Result<(), IngestFailure> {
        let mut xml = XmlReader::new(text);
        while let Some(piece) = xml.next_event()? {
            match piece {
                XmlEvent::Start(element) => self.start_element(&element, &mut xml)?,
                XmlEvent::End(name) => self.end_element(&name)?,
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
        let value = || element.attribute("val");
        match element.name() {
            // Word writes text boxes twice, the second time as a fallback for older readers. Deleted text is skipped
            // too.
            "Fallback" | "del" | "moveFrom" | "instrText" | "pPrChange" | "rPrChange" => {
                return xml.skip_element();
            }
            "p" => self.paragraphs.push(DocxParagraph::default()),
            "tbl" => return self.out.open_table(),
            "tr" => self.out.start_row(),
            "tc" => {
                self.out.open_cell(None);
                self.spans.push(1);
            }
            "gridSpan" => {
                if let (Some(span), Some(wide)) = (self.spans.last_mut(), element.number_attribute("val")) {
                    *span = wide;
                }
            }
            "t" => {
                let words = xml.inner_text()?;
                self.push_text(&words);
            }
            "tab" if element.attribute("pos").is_none() => self.push_text("\t"),
            "br" | "cr" if element.attribute("type").as_deref() != Some("page") => self.push_text("\n"),
            "noBreakHyphen" => self.push_text("-"),
            "footnoteReference" | "endnoteReference" => {
                let kind = if element.name() == "footnoteReference" { "footnote" } else { "endnote" };
                if let Some(note) = element.attribute("id").and_then(|id| self.notes.remove(&(kind, id))) {
                    self.push_text(&format!(" ({note})"));
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
                            element.number_attribute("val").filter(|level| *level < 9).map(|level| level + 1);
                    }
                    "numId" => paragraph.list = value(),
                    "ilvl" => paragraph.level = element.number_attribute("val"),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn end_element(&mut self, name: &str) -> Result<(), IngestFailure> {
        match name {
            "p" => {
                let Some(paragraph) = self.paragraphs.pop() else { return Ok(()) };
                self.finish_paragraph(paragraph)
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

    fn push_text(&mut self, words: &str) {
        if let Some(paragraph) = self.paragraphs.last_mut() {
            paragraph.words.push_str(words);
        }
    }

    fn finish_paragraph(&mut self, paragraph: DocxParagraph) -> Result<(), IngestFailure> {
        let DocxParagraph { words, style, heading, list, level, new_page } = paragraph;
        if new_page {
            self.out.start_page()?;
        }
        let style = self.resolve_style(style.as_deref());
        let heading = heading.or(style.heading);
        let list = list.or(style.list).filter(|list| list != "0");
        if words.trim().is_empty() {
            return Ok(());
        }
        let mark = match &list {
            Some(list) => {
                self.lists.next_marker(list, level.or(style.level).unwrap_or(0).min(MAX_LIST_LEVELS - 1))
            }
            None => String::new(),
        };
        let words = if mark.is_empty() { words } else { format!("{mark} {}", words.trim_start()) };
        let role = match (heading, mark.is_empty()) {
            (Some(level), _) => ParagraphRole::Heading(level),
            // 제1조 is the heading of an article, not a list item.
            (None, false) if !mark.starts_with('제') => ParagraphRole::Item,
            (None, _) => ParagraphRole::Body,
        };
        self.out.add_paragraph(role, &words)
    }

    /// Returns a style merged with the styles it is based on.
    fn resolve_style(&self, id: Option<&str>) -> DocxStyle {
        let mut found = DocxStyle::default();
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
    use super::super::zip_of_parts;
    use super::*;

    #[test]
    fn notes_stand_where_the_text_refers_to_them() {
        let bytes = zip_of_parts(&[
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
        let found = read_docx(&bytes, &ReadLimits::default()).expect("docx");
        assert_eq!(found.text, "대금은 천만 원이다. (부가세는 따로이다.) 뒤에 낸다. (말일까지.)");
    }
}
