//! Reads 한글 (HWP 5) documents: records in the streams of a compound file, as specified by Hancom.

use std::io::{Cursor, Read};

use cfb::CompoundFile;
use flate2::read::DeflateDecoder;

use super::super::document_text_builder::{DocumentTextBuilder, ParagraphRole};
use super::super::list_numbering::{ListLevel, ListNumberFormat, NumberedLists};
use super::super::{ExtractedText, FileFormat, IngestFailure, IngestFailureKind, ReadLimits};

/// The tags of the records that are read.
const TAG_DOCUMENT_PROPERTIES: u32 = 16;
const TAG_NUMBERING: u32 = 23;
const TAG_PARA_SHAPE: u32 = 25;
const TAG_PARA_HEADER: u32 = 66;
const TAG_PARA_TEXT: u32 = 67;
const TAG_CTRL_HEADER: u32 = 71;
const TAG_LIST_HEADER: u32 = 72;

/// The maximum nesting depth of paragraph lists.
const MAX_PARAGRAPH_LIST_DEPTH: usize = 32;

/// The maximum number of sections of a document.
const MAX_SECTIONS: usize = 1000;

/// Reads a HWP 5 document.
pub(in super::super) fn read_hwp(bytes: &[u8], limits: &ReadLimits) -> Result<ExtractedText, IngestFailure> {
    let mut file = CompoundFile::open(Cursor::new(bytes)).map_err(IngestFailure::corrupt)?;
    let header = read_stream(&mut file, "/FileHeader", HwpCompression::Uncompressed, 4096)?;
    let flags = read_u32(&header, 36).ok_or_else(|| IngestFailure::corrupt("a short file header"))?;
    if !header.starts_with(b"HWP Document File") {
        return Err(IngestFailure::corrupt("no HWP file header"));
    }
    if flags & 0b1_0010 != 0 {
        return Err(IngestFailure::new(IngestFailureKind::Encrypted, "a HWP with a password"));
    }
    if flags & 0b100 != 0 {
        return Err(IngestFailure::new(IngestFailureKind::Locked, "a HWP for distribution"));
    }
    let packed = if flags & 1 != 0 { HwpCompression::Deflate } else { HwpCompression::Uncompressed };
    let mut left = limits.unpacked;
    let mut part = |file: &mut CompoundFile<Cursor<&[u8]>>, path: &str| {
        let bytes = read_stream(file, path, packed, left)?;
        left -= bytes.len() as u64;
        Ok::<Vec<u8>, IngestFailure>(bytes)
    };
    let mut body = HwpBodyReader {
        out: DocumentTextBuilder::new(limits),
        heads: Vec::new(),
        lists: NumberedLists::default(),
    };
    let mut declared_sections = 0;
    if file.is_stream("/DocInfo") {
        let info = part(&mut file, "/DocInfo")?;
        declared_sections = body.read_info(&parse_records(&info)?);
    }
    for section in 0..section_count(&file, declared_sections)? {
        let path = format!("/BodyText/Section{section}");
        if !file.is_stream(&path) {
            return Err(IngestFailure::corrupt(format!("a HWP without its Section{section}")));
        }
        let bytes = part(&mut file, &path)?;
        body.read_paragraph_list(&parse_records(&bytes)?, 0)?;
    }
    body.out.finish(FileFormat::Hwp)
}

/// Returns the number of sections to read: at least as many as the document declares, and all that exist.
fn section_count(
    file: &CompoundFile<Cursor<&[u8]>>,
    declared_sections: usize,
) -> Result<usize, IngestFailure> {
    let parts = file.read_storage("/BodyText").map_err(IngestFailure::corrupt)?;
    let numbers = parts.filter_map(|part| part.name().strip_prefix("Section")?.parse::<usize>().ok());
    let sections = numbers.max().map_or(0, |last| last.saturating_add(1)).max(declared_sections);
    match sections {
        0 => Err(IngestFailure::corrupt("a HWP without sections")),
        1..=MAX_SECTIONS => Ok(sections),
        _ => Err(IngestFailure::new(IngestFailureKind::TooLarge, format!("{sections} sections in a HWP"))),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HwpCompression {
    Deflate,
    Uncompressed,
}

fn read_stream(
    file: &mut CompoundFile<Cursor<&[u8]>>,
    path: &str,
    packed: HwpCompression,
    limit: u64,
) -> Result<Vec<u8>, IngestFailure> {
    let stream = file.open_stream(path).map_err(IngestFailure::corrupt)?;
    let mut bytes = Vec::new();
    let read = match packed {
        HwpCompression::Deflate => DeflateDecoder::new(stream).take(limit + 1).read_to_end(&mut bytes),
        HwpCompression::Uncompressed => stream.take(limit + 1).read_to_end(&mut bytes),
    };
    read.map_err(IngestFailure::corrupt)?;
    if bytes.len() as u64 > limit {
        return Err(IngestFailure::new(
            IngestFailureKind::TooLarge,
            format!("{path} unpacks to more than {limit} bytes"),
        ));
    }
    Ok(bytes)
}

#[derive(Clone, Copy, Debug)]
struct HwpRecord<'a> {
    tag: u32,
    level: u32,
    bytes: &'a [u8],
}

fn parse_records(bytes: &[u8]) -> Result<Vec<HwpRecord<'_>>, IngestFailure> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(head) = read_u32(bytes, at) {
        at += 4;
        let mut size = (head >> 20) as usize;
        if size == 0xFFF {
            size = read_u32(bytes, at).ok_or_else(|| IngestFailure::corrupt("a record without its size"))?
                as usize;
            at += 4;
        }
        let end = at.checked_add(size).filter(|end| *end <= bytes.len());
        let Some(end) = end else { return Err(IngestFailure::corrupt("a record longer than its stream")) };
        found.push(HwpRecord { tag: head & 0x3FF, level: (head >> 10) & 0x3FF, bytes: &bytes[at..end] });
        at = end;
    }
    Ok(found)
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

/// The head of paragraphs with a shape: 1 outline, 2 number, 3 bullet.
#[derive(Clone, Copy, Debug, Default)]
struct HwpParagraphHead {
    kind: u32,
    level: usize,
    list: u16,
}

struct HwpBodyReader {
    out: DocumentTextBuilder,
    heads: Vec<HwpParagraphHead>,
    lists: NumberedLists,
}

impl HwpBodyReader {
    /// Reads the document information. Returns the number of sections that the document declares.
    fn read_info(&mut self, records: &[HwpRecord<'_>]) -> usize {
        let (mut numberings, mut sections) = (0, 0);
        for record in records {
            match record.tag {
                TAG_DOCUMENT_PROPERTIES => sections = read_u16(record.bytes, 0).map_or(0, usize::from),
                TAG_PARA_SHAPE => {
                    let flags = read_u32(record.bytes, 0).unwrap_or(0);
                    let list = read_u16(record.bytes, 30).unwrap_or(0);
                    self.heads.push(HwpParagraphHead {
                        kind: flags >> 23 & 3,
                        level: (flags >> 25 & 7) as usize,
                        list,
                    });
                }
                TAG_NUMBERING => {
                    numberings += 1;
                    self.lists.levels.insert(numberings.to_string(), parse_numbering_levels(record.bytes));
                }
                _ => {}
            }
        }
        sections
    }

    /// Reads a list of paragraphs: the records on the level of the first one. Deeper records belong to them.
    fn read_paragraph_list(&mut self, records: &[HwpRecord<'_>], depth: usize) -> Result<(), IngestFailure> {
        if depth > MAX_PARAGRAPH_LIST_DEPTH {
            return Err(IngestFailure::corrupt("paragraphs nested too deep"));
        }
        let Some(level) =
            records.iter().find(|record| record.tag == TAG_PARA_HEADER).map(|record| record.level)
        else {
            return Ok(());
        };
        let mut at = 0;
        while at < records.len() {
            let end = next_sibling(records, at, level);
            if records[at].tag == TAG_PARA_HEADER && records[at].level == level {
                self.read_paragraph(records[at], &records[at + 1..end], depth)?;
            }
            at = end;
        }
        Ok(())
    }

    fn read_paragraph(
        &mut self,
        header: HwpRecord<'_>,
        below: &[HwpRecord<'_>],
        depth: usize,
    ) -> Result<(), IngestFailure> {
        let text =
            below.iter().find(|record| record.tag == TAG_PARA_TEXT && record.level == header.level + 1);
        let words = text.map(|record| paragraph_text(record.bytes)).unwrap_or_default();
        if !words.trim().is_empty() {
            let head =
                read_u16(header.bytes, 8).and_then(|shape| self.heads.get(usize::from(shape)).copied());
            let head = head.unwrap_or_default();
            let mark = match head.kind {
                // An outline uses the first numbering if the shape names none.
                1 => self.lists.next_marker(&head.list.max(1).to_string(), head.level),
                2 => self.lists.next_marker(&head.list.to_string(), head.level),
                3 => "-".to_owned(),
                _ => String::new(),
            };
            let words = if mark.is_empty() { words } else { format!("{mark} {}", words.trim_start()) };
            let role = match head.kind {
                1 => ParagraphRole::Heading(head.level + 1),
                2 | 3 if !mark.starts_with('제') => ParagraphRole::Item,
                _ => ParagraphRole::Body,
            };
            self.out.add_paragraph(role, &words)?;
        }
        let mut at = 0;
        while at < below.len() {
            let end = next_sibling(below, at, below[at].level);
            if below[at].tag == TAG_CTRL_HEADER {
                self.read_control(below[at], &below[at + 1..end], depth)?;
            }
            at = end;
        }
        Ok(())
    }

    fn read_control(
        &mut self,
        header: HwpRecord<'_>,
        below: &[HwpRecord<'_>],
        depth: usize,
    ) -> Result<(), IngestFailure> {
        let id: Vec<u8> = header.bytes.iter().take(4).rev().copied().collect();
        match id.as_slice() {
            b"tbl " => self.read_table(below, header.level + 1, depth),
            // Page headers and footers would end up in the middle of sentences.
            b"head" | b"foot" | b"secd" | b"cold" => Ok(()),
            _ => {
                // Text boxes and notes contain a list of paragraphs at some deeper level.
                let first = below.iter().position(|record| record.tag == TAG_LIST_HEADER);
                match first {
                    Some(first) => self.read_paragraph_list(&below[first + 1..], depth + 1),
                    None => Ok(()),
                }
            }
        }
    }

    fn read_table(&mut self, below: &[HwpRecord<'_>], level: u32, depth: usize) -> Result<(), IngestFailure> {
        self.out.open_table()?;
        let cells: Vec<usize> = (0..below.len())
            .filter(|at| below[*at].tag == TAG_LIST_HEADER && below[*at].level == level)
            .collect();
        let mut row = None;
        for (nth, at) in cells.iter().enumerate() {
            let end = cells.get(nth + 1).copied().unwrap_or(below.len());
            let head = below[*at].bytes;
            // A caption is a list without a cell address.
            let address = read_u16(head, 8).zip(read_u16(head, 10)).filter(|_| head.len() >= 24);
            if let Some((column, at_row)) = address {
                if row != Some(at_row) {
                    row = Some(at_row);
                    self.out.start_row();
                }
                self.out.open_cell(Some(usize::from(column)));
            } else {
                self.out.start_row();
                self.out.open_cell(None);
            }
            self.read_paragraph_list(&below[at + 1..end], depth + 1)?;
            self.out.close_cell(1);
        }
        self.out.close_table()
    }
}

/// Returns the next record on this level or above.
fn next_sibling(records: &[HwpRecord<'_>], at: usize, level: u32) -> usize {
    let after = records[at + 1..].iter().position(|record| record.level <= level);
    after.map_or(records.len(), |more| at + 1 + more)
}

/// Returns the text of a paragraph. Control characters take one or eight code units.
fn paragraph_text(bytes: &[u8]) -> String {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while let Some(unit) = units.get(at) {
        let (keep, length) = match unit {
            9 => (Some(9), 8),
            10 => (Some(10), 1),
            24 => (Some(u16::from(b'-')), 1),
            30 | 31 => (Some(u16::from(b' ')), 1),
            0 | 13 | 25..=29 => (None, 1),
            1..=8 | 11 | 12 | 14..=23 => (None, 8),
            _ => (Some(*unit), 1),
        };
        kept.extend(keep);
        at += length;
    }
    String::from_utf16_lossy(&kept)
}

/// Parses the seven levels of a numbering: twelve bytes of layout, then the pattern with `^1` for the number.
fn parse_numbering_levels(bytes: &[u8]) -> Vec<ListLevel> {
    let mut found = Vec::new();
    let mut at = 0;
    while found.len() < 7 {
        let (Some(flags), Some(length)) = (read_u32(bytes, at), read_u16(bytes, at + 12)) else { break };
        let start = at + 14;
        let Some(text) = bytes.get(start..start + usize::from(length) * 2) else { break };
        let units: Vec<u16> =
            text.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let pattern = String::from_utf16_lossy(&units).replace('^', "%");
        found.push(ListLevel { start: 1, number_format: list_number_format(flags >> 5 & 0xF), pattern });
        at = start + text.len();
    }
    found
}

fn list_number_format(code: u32) -> ListNumberFormat {
    match code {
        1 => ListNumberFormat::Circled,
        2 => ListNumberFormat::RomanCapital,
        3 => ListNumberFormat::RomanSmall,
        4 | 6 => ListNumberFormat::LatinCapital,
        5 | 7 => ListNumberFormat::LatinSmall,
        8 | 9 => ListNumberFormat::Syllable,
        10 | 11 => ListNumberFormat::Consonant,
        12 => ListNumberFormat::HangulNumber,
        13 => ListNumberFormat::Hanja,
        _ => ListNumberFormat::Digit,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn record(tag: u32, level: u32, bytes: &[u8]) -> Vec<u8> {
        let head = tag | level << 10 | (bytes.len() as u32) << 20;
        [&head.to_le_bytes()[..], bytes].concat()
    }

    /// Reads an HWP file that declares `declared_sections` sections and contains these.
    fn read(declared_sections: u16, sections: &[usize]) -> Result<String, IngestFailureKind> {
        let mut file = CompoundFile::create(Cursor::new(Vec::new())).expect("a file");
        file.create_storage("/BodyText").expect("a storage");
        let mut put = |path: &str, bytes: &[u8]| {
            file.create_stream(path).expect("a stream").write_all(bytes).expect("written");
        };
        let mut header = vec![0; 256];
        header[..17].copy_from_slice(b"HWP Document File");
        put("/FileHeader", &header);
        put(
            "/DocInfo",
            &record(TAG_DOCUMENT_PROPERTIES, 0, &[&declared_sections.to_le_bytes()[..], &[0; 24]].concat()),
        );
        for section in sections {
            let words: Vec<u8> =
                format!("{section}번 구역").encode_utf16().flat_map(u16::to_le_bytes).collect();
            let text = [record(TAG_PARA_HEADER, 0, &[0; 24]), record(TAG_PARA_TEXT, 1, &words)].concat();
            put(&format!("/BodyText/Section{section}"), &text);
        }
        file.flush().expect("flushed");
        let bytes = file.into_inner().into_inner();
        let found = read_hwp(&bytes, &ReadLimits::default());
        found.map(|found| found.text).map_err(|failure| failure.kind)
    }

    #[test]
    fn a_hwp_that_lacks_a_section_is_broken() {
        let whole = Ok("0번 구역\n\n1번 구역\n\n2번 구역".to_owned());
        assert_eq!(read(3, &[0, 1, 2]), whole);
        assert_eq!(read(0, &[2, 0, 1]), whole, "what is there is read, whatever is said");
        for (declared_sections, there) in [(3, &[0, 1][..]), (3, &[0, 2]), (0, &[0, 2]), (1, &[]), (0, &[])] {
            assert_eq!(
                read(declared_sections, there),
                Err(IngestFailureKind::Corrupt),
                "{declared_sections} said, {there:?} there"
            );
        }
        assert_eq!(read(2000, &[0]), Err(IngestFailureKind::TooLarge));
    }
}
