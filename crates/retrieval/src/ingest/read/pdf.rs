//! PDF, page by page.

use pdf_oxide::PdfDocument;

use super::super::writer::Writer;
use super::super::{Extracted, Failure, FailureKind, Format, ReadLimits};

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
    let mut writer = Writer::new(limits);
    for page in 0..pages {
        let text = document.extract_text(page).map_err(|error| failure(bytes, &error))?;
        writer.page()?;
        for block in text.split("\n\n") {
            writer.paragraph(block)?;
        }
    }
    Ok(writer.finish(Format::Pdf))
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
