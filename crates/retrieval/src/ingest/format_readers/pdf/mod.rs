//! Reads PDF, page by page. The parser returns characters with positions. Lines, headings, paragraphs and tables are
//! found here, because heuristics made for Latin text join Korean words wrongly.

mod layout;
mod word_breaks;

use pdf_oxide::PdfDocument;

use super::super::markdown_writer::MarkdownWriter;
use super::super::{ExtractedText, FileFormat, IngestFailure, IngestFailureKind, ReadLimits};
use layout::{FontSizes, PdfBlock, PdfGlyph, PdfLine};
use word_breaks::WordBreaks;

/// Extracts the text of every page.
pub(in super::super) fn read_pdf(bytes: &[u8], limits: &ReadLimits) -> Result<ExtractedText, IngestFailure> {
    let document = PdfDocument::from_bytes(bytes.to_vec()).map_err(|error| pdf_failure(bytes, &error))?;
    if document.is_encrypted() && !document.authenticate(b"").unwrap_or(false) {
        return Err(IngestFailure::new(IngestFailureKind::Encrypted, "a PDF with a password"));
    }
    let pages = document.page_count().map_err(|error| pdf_failure(bytes, &error))?;
    if pages == 0 {
        return Err(IngestFailure::corrupt("a PDF without pages"));
    }
    if pages > limits.pages {
        return Err(IngestFailure::new(IngestFailureKind::TooLarge, format!("{pages} pages")));
    }
    // The parser also accepts half a file, and the half would be taken for the whole document.
    let tail = &bytes[bytes.len().saturating_sub(64 << 10)..];
    if !tail.windows(5).any(|window| window == b"%%EOF") {
        return Err(IngestFailure::corrupt("a PDF without its end"));
    }
    let (mut sizes, mut breaks) = (FontSizes::default(), WordBreaks::default());
    let mut found_on = Vec::new();
    let mut length = 0;
    for page in 0..pages {
        let found = page_lines(&document, page).map_err(|error| pdf_failure(bytes, &error))?;
        length += found.iter().map(PdfLine::len).sum::<usize>();
        if length > limits.text {
            return Err(IngestFailure::new(
                IngestFailureKind::TooLarge,
                format!("more than {} bytes of text", limits.text),
            ));
        }
        found.iter().for_each(|line| sizes.add_line(line));
        found.iter().filter_map(PdfLine::single_text).for_each(|words| breaks.learn_words(words));
        found_on.push(found);
    }
    let mut writer = MarkdownWriter::new(limits);
    for found in found_on {
        writer.start_page()?;
        for block in layout::group_into_blocks(found, &sizes, &breaks) {
            match block {
                PdfBlock::Heading(level, words) => {
                    if level == 1 {
                        writer.set_title(&words);
                    }
                    writer.write_heading(level, &words)?;
                }
                PdfBlock::Paragraph(words) => writer.write_paragraph(&words)?,
                PdfBlock::Table(rows) => writer.write_table(&rows)?,
            }
        }
    }
    Ok(writer.finish(FileFormat::Pdf))
}

/// Returns the lines of a page. A page that cannot be decompressed is an error: the parser would return an empty page,
/// and the rest of the file would be taken for the whole document.
fn page_lines(document: &PdfDocument, page: usize) -> Result<Vec<PdfLine>, pdf_oxide::Error> {
    document.get_page_content_data(page)?;
    let mut turned: [Vec<PdfGlyph>; 4] = Default::default();
    for char in document.extract_chars(page)? {
        let Some(turns) = quarter_turns(char.rotation_degrees) else { continue };
        let (x, y) = (char.origin_x, char.origin_y);
        let (x, y) = [(x, y), (y, -x), (-x, -y), (-y, x)][turns];
        // The parser measures along the page, where a rotated character has no width.
        let width =
            if turns % 2 == 0 { char.advance_width } else { typical_char_width(char.char) * char.font_size };
        let glyph = PdfGlyph { char: char.char, x, y, width, size: char.font_size };
        if x.is_finite() && y.is_finite() && glyph.size > 0.1 {
            turned[turns].push(glyph);
        }
    }
    let all: usize = turned.iter().map(Vec::len).sum();
    // A stamp along the edge is not part of the text, but a rotated page or table is.
    let mut turned: Vec<Vec<PdfGlyph>> = turned.into_iter().filter(|some| some.len() * 5 >= all).collect();
    turned.sort_by_key(|some| std::cmp::Reverse(some.len()));
    Ok(turned.into_iter().flat_map(layout::group_into_lines).collect())
}

/// Returns the typical width of a character, relative to its height.
fn typical_char_width(char: char) -> f32 {
    match char {
        'i' | 'j' | 'l' | 'f' | 't' | 'r' | 'I' | '.' | ',' | ':' | ';' | '\'' | '!' | '|' | '(' | ')' => 0.3,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.85,
        'A'..='Z' => 0.67,
        _ if char.is_ascii() => 0.55,
        _ => 0.95,
    }
}

/// Returns the rotation of a character in quarter turns to the left, or `None` for other angles, such as watermarks.
fn quarter_turns(degrees: f32) -> Option<usize> {
    let turns = (degrees / 90.0).round();
    let straight = (degrees - turns * 90.0).abs() < 5.0;
    straight.then(|| (turns as i64).rem_euclid(4) as usize)
}

fn pdf_failure(bytes: &[u8], error: &pdf_oxide::Error) -> IngestFailure {
    let words = error.to_string();
    let tail = &bytes[bytes.len().saturating_sub(4096)..];
    let locked = tail.windows(8).any(|window| window == b"/Encrypt");
    let kind = if locked || words.to_lowercase().contains("encrypt") || words.contains("assword") {
        IngestFailureKind::Encrypted
    } else {
        IngestFailureKind::Corrupt
    };
    IngestFailure::new(kind, words)
}
