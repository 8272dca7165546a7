//! 한글 5 documents: records in the streams of a compound file, after the format that Hancom published.

use std::io::{Cursor, Read};

use cfb::CompoundFile;
use flate2::read::DeflateDecoder;

use super::super::manuscript::{Manuscript, Role};
use super::super::numbering::{Level, Lists, Shape};
use super::super::{Extracted, Failure, FailureKind, Format, ReadLimits};

/// The marks of records that are read.
const PROPERTIES: u32 = 16;
const NUMBERING: u32 = 23;
const PARA_SHAPE: u32 = 25;
const PARA_HEADER: u32 = 66;
const PARA_TEXT: u32 = 67;
const CTRL_HEADER: u32 = 71;
const LIST_HEADER: u32 = 72;

/// How deep lists of paragraphs may stand in each other.
const DEPTH: usize = 32;

/// The most sections of a document.
const SECTIONS: usize = 1000;

/// Reads a HWP 5 document.
pub(in super::super) fn hwp(bytes: &[u8], limits: &ReadLimits) -> Result<Extracted, Failure> {
    let mut file = CompoundFile::open(Cursor::new(bytes)).map_err(Failure::corrupt)?;
    let header = stream(&mut file, "/FileHeader", Packed::No, 4096)?;
    let flags = word(&header, 36).ok_or_else(|| Failure::corrupt("a short file header"))?;
    if !header.starts_with(b"HWP Document File") {
        return Err(Failure::corrupt("no HWP file header"));
    }
    if flags & 0b1_0010 != 0 {
        return Err(Failure::new(FailureKind::Encrypted, "a HWP with a password"));
    }
    if flags & 0b100 != 0 {
        return Err(Failure::new(FailureKind::Locked, "a HWP for distribution"));
    }
    let packed = if flags & 1 != 0 { Packed::Yes } else { Packed::No };
    let mut left = limits.unpacked;
    let mut part = |file: &mut CompoundFile<Cursor<&[u8]>>, path: &str| {
        let bytes = stream(file, path, packed, left)?;
        left -= bytes.len() as u64;
        Ok::<Vec<u8>, Failure>(bytes)
    };
    let mut body = Body { out: Manuscript::new(limits), heads: Vec::new(), lists: Lists::default() };
    let mut said = 0;
    if file.is_stream("/DocInfo") {
        let info = part(&mut file, "/DocInfo")?;
        said = body.read_info(&records(&info)?);
    }
    for section in 0..sections(&file, said)? {
        let path = format!("/BodyText/Section{section}");
        if !file.is_stream(&path) {
            return Err(Failure::corrupt(format!("a HWP without its Section{section}")));
        }
        let bytes = part(&mut file, &path)?;
        body.list(&records(&bytes)?, 0)?;
    }
    body.out.finish(Format::Hwp)
}

/// How many sections there are to read: as many as the document says it has, and all that are there.
fn sections(file: &CompoundFile<Cursor<&[u8]>>, said: usize) -> Result<usize, Failure> {
    let parts = file.read_storage("/BodyText").map_err(Failure::corrupt)?;
    let numbers = parts.filter_map(|part| part.name().strip_prefix("Section")?.parse::<usize>().ok());
    let sections = numbers.max().map_or(0, |last| last.saturating_add(1)).max(said);
    match sections {
        0 => Err(Failure::corrupt("a HWP without sections")),
        1..=SECTIONS => Ok(sections),
        _ => Err(Failure::new(FailureKind::TooLarge, format!("{sections} sections in a HWP"))),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Packed {
    Yes,
    No,
}

fn stream(
    file: &mut CompoundFile<Cursor<&[u8]>>,
    path: &str,
    packed: Packed,
    most: u64,
) -> Result<Vec<u8>, Failure> {
    let stream = file.open_stream(path).map_err(Failure::corrupt)?;
    let mut bytes = Vec::new();
    let read = match packed {
        Packed::Yes => DeflateDecoder::new(stream).take(most + 1).read_to_end(&mut bytes),
        Packed::No => stream.take(most + 1).read_to_end(&mut bytes),
    };
    read.map_err(Failure::corrupt)?;
    if bytes.len() as u64 > most {
        return Err(Failure::new(FailureKind::TooLarge, format!("{path} unpacks to more than {most} bytes")));
    }
    Ok(bytes)
}

#[derive(Clone, Copy, Debug)]
struct Record<'a> {
    tag: u32,
    level: u32,
    bytes: &'a [u8],
}

fn records(bytes: &[u8]) -> Result<Vec<Record<'_>>, Failure> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(head) = word(bytes, at) {
        at += 4;
        let mut size = (head >> 20) as usize;
        if size == 0xFFF {
            size = word(bytes, at).ok_or_else(|| Failure::corrupt("a record without its size"))? as usize;
            at += 4;
        }
        let end = at.checked_add(size).filter(|end| *end <= bytes.len());
        let Some(end) = end else { return Err(Failure::corrupt("a record longer than its stream")) };
        found.push(Record { tag: head & 0x3FF, level: (head >> 10) & 0x3FF, bytes: &bytes[at..end] });
        at = end;
    }
    Ok(found)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

/// What stands before the paragraphs of a shape: 1 outline, 2 number, 3 bullet.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    kind: u32,
    level: usize,
    list: u16,
}

struct Body {
    out: Manuscript,
    heads: Vec<Head>,
    lists: Lists,
}

impl Body {
    /// Reads what holds for all sections, and how many the document says it has.
    fn read_info(&mut self, records: &[Record<'_>]) -> usize {
        let (mut numberings, mut sections) = (0, 0);
        for record in records {
            match record.tag {
                PROPERTIES => sections = half(record.bytes, 0).map_or(0, usize::from),
                PARA_SHAPE => {
                    let flags = word(record.bytes, 0).unwrap_or(0);
                    let list = half(record.bytes, 30).unwrap_or(0);
                    self.heads.push(Head { kind: flags >> 23 & 3, level: (flags >> 25 & 7) as usize, list });
                }
                NUMBERING => {
                    numberings += 1;
                    self.lists.levels.insert(numberings.to_string(), levels(record.bytes));
                }
                _ => {}
            }
        }
        sections
    }

    /// Reads a list of paragraphs: those on the level of the first one. What hangs below belongs to them.
    fn list(&mut self, records: &[Record<'_>], depth: usize) -> Result<(), Failure> {
        if depth > DEPTH {
            return Err(Failure::corrupt("paragraphs nested too deep"));
        }
        let Some(level) = records.iter().find(|record| record.tag == PARA_HEADER).map(|record| record.level)
        else {
            return Ok(());
        };
        let mut at = 0;
        while at < records.len() {
            let end = next(records, at, level);
            if records[at].tag == PARA_HEADER && records[at].level == level {
                self.paragraph(records[at], &records[at + 1..end], depth)?;
            }
            at = end;
        }
        Ok(())
    }

    fn paragraph(&mut self, header: Record<'_>, below: &[Record<'_>], depth: usize) -> Result<(), Failure> {
        let text = below.iter().find(|record| record.tag == PARA_TEXT && record.level == header.level + 1);
        let words = text.map(|record| words(record.bytes)).unwrap_or_default();
        if !words.trim().is_empty() {
            let head = half(header.bytes, 8).and_then(|shape| self.heads.get(usize::from(shape)).copied());
            let head = head.unwrap_or_default();
            let mark = match head.kind {
                // An outline counts with the first numbering, where the shape names none.
                1 => self.lists.mark(&head.list.max(1).to_string(), head.level),
                2 => self.lists.mark(&head.list.to_string(), head.level),
                3 => "-".to_owned(),
                _ => String::new(),
            };
            let words = if mark.is_empty() { words } else { format!("{mark} {}", words.trim_start()) };
            let role = match head.kind {
                1 => Role::Heading(head.level + 1),
                2 | 3 if !mark.starts_with('제') => Role::Item,
                _ => Role::Body,
            };
            self.out.paragraph(role, &words)?;
        }
        let mut at = 0;
        while at < below.len() {
            let end = next(below, at, below[at].level);
            if below[at].tag == CTRL_HEADER {
                self.control(below[at], &below[at + 1..end], depth)?;
            }
            at = end;
        }
        Ok(())
    }

    fn control(&mut self, header: Record<'_>, below: &[Record<'_>], depth: usize) -> Result<(), Failure> {
        let id: Vec<u8> = header.bytes.iter().take(4).rev().copied().collect();
        match id.as_slice() {
            b"tbl " => self.table(below, header.level + 1, depth),
            // Running heads and feet would stand in the middle of sentences.
            b"head" | b"foot" | b"secd" | b"cold" => Ok(()),
            _ => {
                // Text boxes and notes: lists of paragraphs somewhere below.
                let first = below.iter().position(|record| record.tag == LIST_HEADER);
                match first {
                    Some(first) => self.list(&below[first + 1..], depth + 1),
                    None => Ok(()),
                }
            }
        }
    }

    fn table(&mut self, below: &[Record<'_>], level: u32, depth: usize) -> Result<(), Failure> {
        self.out.open_table()?;
        let cells: Vec<usize> = (0..below.len())
            .filter(|at| below[*at].tag == LIST_HEADER && below[*at].level == level)
            .collect();
        let mut row = None;
        for (nth, at) in cells.iter().enumerate() {
            let end = cells.get(nth + 1).copied().unwrap_or(below.len());
            let head = below[*at].bytes;
            // A caption is a list without the address of a cell.
            let address = half(head, 8).zip(half(head, 10)).filter(|_| head.len() >= 24);
            if let Some((column, at_row)) = address {
                if row != Some(at_row) {
                    row = Some(at_row);
                    self.out.row();
                }
                self.out.open_cell(Some(usize::from(column)));
            } else {
                self.out.row();
                self.out.open_cell(None);
            }
            self.list(&below[at + 1..end], depth + 1)?;
            self.out.close_cell(1);
        }
        self.out.close_table()
    }
}

/// The next record on this level or above.
fn next(records: &[Record<'_>], at: usize, level: u32) -> usize {
    let after = records[at + 1..].iter().position(|record| record.level <= level);
    after.map_or(records.len(), |more| at + 1 + more)
}

/// The words of a paragraph. Controls take one place or eight.
fn words(bytes: &[u8]) -> String {
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

/// The seven levels of a numbering: twelve bytes about its looks, then the pattern with `^1` for the number.
fn levels(bytes: &[u8]) -> Vec<Level> {
    let mut found = Vec::new();
    let mut at = 0;
    while found.len() < 7 {
        let (Some(flags), Some(length)) = (word(bytes, at), half(bytes, at + 12)) else { break };
        let start = at + 14;
        let Some(text) = bytes.get(start..start + usize::from(length) * 2) else { break };
        let units: Vec<u16> =
            text.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let pattern = String::from_utf16_lossy(&units).replace('^', "%");
        found.push(Level { start: 1, shape: shape_of(flags >> 5 & 0xF), pattern });
        at = start + text.len();
    }
    found
}

fn shape_of(code: u32) -> Shape {
    match code {
        1 => Shape::Circled,
        2 => Shape::RomanCapital,
        3 => Shape::RomanSmall,
        4 | 6 => Shape::LatinCapital,
        5 | 7 => Shape::LatinSmall,
        8 | 9 => Shape::Syllable,
        10 | 11 => Shape::Consonant,
        12 => Shape::HangulNumber,
        13 => Shape::Hanja,
        _ => Shape::Digit,
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

    /// What is read of a HWP that says it has so many sections and has these.
    fn read(said: u16, sections: &[usize]) -> Result<String, FailureKind> {
        let mut file = CompoundFile::create(Cursor::new(Vec::new())).expect("a file");
        file.create_storage("/BodyText").expect("a storage");
        let mut put = |path: &str, bytes: &[u8]| {
            file.create_stream(path).expect("a stream").write_all(bytes).expect("written");
        };
        let mut header = vec![0; 256];
        header[..17].copy_from_slice(b"HWP Document File");
        put("/FileHeader", &header);
        put("/DocInfo", &record(PROPERTIES, 0, &[&said.to_le_bytes()[..], &[0; 24]].concat()));
        for section in sections {
            let words: Vec<u8> =
                format!("{section}번 구역").encode_utf16().flat_map(u16::to_le_bytes).collect();
            let text = [record(PARA_HEADER, 0, &[0; 24]), record(PARA_TEXT, 1, &words)].concat();
            put(&format!("/BodyText/Section{section}"), &text);
        }
        file.flush().expect("flushed");
        let bytes = file.into_inner().into_inner();
        let found = hwp(&bytes, &ReadLimits::default());
        found.map(|found| found.text).map_err(|failure| failure.kind)
    }

    #[test]
    fn a_hwp_that_lacks_a_section_is_broken() {
        let whole = Ok("0번 구역\n\n1번 구역\n\n2번 구역".to_owned());
        assert_eq!(read(3, &[0, 1, 2]), whole);
        assert_eq!(read(0, &[2, 0, 1]), whole, "what is there is read, whatever is said");
        for (said, there) in [(3, &[0, 1][..]), (3, &[0, 2]), (0, &[0, 2]), (1, &[]), (0, &[])] {
            assert_eq!(read(said, there), Err(FailureKind::Corrupt), "{said} said, {there:?} there");
        }
        assert_eq!(read(2000, &[0]), Err(FailureKind::TooLarge));
    }
}
