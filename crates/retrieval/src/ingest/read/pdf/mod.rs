//! PDF, page by page. The parser gives characters and where they stand; lines, headings, paragraphs and tables are
//! made from that here, because Korean words stick together when lines are joined by guesses about Latin ones.

mod layout;

use pdf_oxide::PdfDocument;

use super::super::writer::Writer;
use super::super::{Extracted, Failure, FailureKind, Format, ReadLimits};
use layout::{Block, Glyph, Sizes};

/// Reads the text of every page.
pub(in super::super) fn pdf(bytes: &[u8], limits: &ReadLimits) -> Result<Extracted, Failure> {
    let document = PdfDocument::from_bytes(bytes.to_vec()).map_err(|error| failure(bytes, &error))?;
    if document.is_encrypted() && !document.authenticate(b"").unwrap_or(false) {
        return Err(Failure::new(FailureKind::Encrypted, "a PDF with a password"));
    }
    let pages = document.page_count().map_err(|error| failure(bytes, &error))?;
    if pages == 0 {
        return Err(Failure::corrupt("a PDF without pages"));
    }
    if pages > limits.pages {
        return Err(Failure::new(FailureKind::TooLarge, format!("{pages} pages")));
    }
    // A reader that finds its way in half a file would pass off the half as the whole.
    let tail = &bytes[bytes.len().saturating_sub(64 << 10)..];
    if !tail.windows(5).any(|window| window == b"%%EOF") {
        return Err(Failure::corrupt("a PDF without its end"));
    }
    let mut sizes = Sizes::default();
    let mut lines = Vec::new();
    let mut length = 0;
    for page in 0..pages {
        let found = layout::lines(glyphs(&document, page).map_err(|error| failure(bytes, &error))?);
        length += found.iter().map(layout::Line::len).sum::<usize>();
        if length > limits.text {
            return Err(Failure::new(
                FailureKind::TooLarge,
                format!("more than {} bytes of text", limits.text),
            ));
        }
        found.iter().for_each(|line| sizes.count(line));
        lines.push(found);
    }
    let mut writer = Writer::new(limits);
    for found in lines {
        writer.page()?;
        for block in layout::blocks(found, &sizes) {
            match block {
                Block::Heading(level, words) => {
                    if level == 1 {
                        writer.title(&words);
                    }
                    writer.heading(level, &words)?;
                }
                Block::Paragraph(words) => writer.paragraph(&words)?,
                Block::Table(rows) => writer.table(&rows)?,
            }
        }
    }
    Ok(writer.finish(Format::Pdf))
}

fn glyphs(document: &PdfDocument, page: usize) -> Result<Vec<Glyph>, pdf_oxide::Error> {
    let chars = document.extract_chars(page)?;
    let upright = |degrees: f32| degrees.abs() < 5.0 || (degrees.abs() - 360.0).abs() < 5.0;
    let glyphs = chars.into_iter().filter(|char| upright(char.rotation_degrees)).map(|char| Glyph {
        char: char.char,
        x: char.origin_x,
        y: char.origin_y,
        width: char.advance_width,
        size: char.font_size,
    });
    Ok(glyphs.filter(|glyph| glyph.x.is_finite() && glyph.y.is_finite() && glyph.size > 0.1).collect())
}

fn failure(bytes: &[u8], error: &pdf_oxide::Error) -> Failure {
    let words = error.to_string();
    let tail = &bytes[bytes.len().saturating_sub(4096)..];
    let locked = tail.windows(8).any(|window| window == b"/Encrypt");
    let kind = if locked || words.to_lowercase().contains("encrypt") || words.contains("assword") {
        FailureKind::Encrypted
    } else {
        FailureKind::Corrupt
    };
    Failure::new(kind, words)
}
