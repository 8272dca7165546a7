//! Detects the format of a file from its bytes. The name decides only among text formats, whose bytes look alike.

use std::io::Cursor;

use super::format_readers::looks_like_utf16;
use super::{FileFormat, IngestFailure, IngestFailureKind};

/// The magic bytes of a PDF.
const PDF_MAGIC: &[u8] = b"%PDF-";

/// The extensions of files that are never plain text in a legacy encoding.
const OFFICE_EXTENSIONS: [&str; 9] = ["hwp", "hwpx", "pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx"];

/// Returns the format of a file, or why it cannot be read.
pub(super) fn detect_format(name: &str, bytes: &[u8]) -> Result<FileFormat, IngestFailure> {
    let unsupported = |what: &str| Err(IngestFailure::new(IngestFailureKind::Unsupported, what));
    let head = &bytes[..bytes.len().min(1024)];
    if skip_bom_and_blanks(head).starts_with(PDF_MAGIC) {
        return Ok(FileFormat::Pdf);
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        return detect_zip_format(bytes);
    }
    if head.starts_with(b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1") {
        return detect_ole_format(bytes);
    }
    if head.starts_with(b"HWP Document File V") {
        return unsupported("HWP 3");
    }
    // Some programs write a few bytes before the magic of a PDF, and readers accept that.
    if head.windows(PDF_MAGIC.len()).any(|window| window == PDF_MAGIC)
        && (has_control_bytes(bytes) || ends_with_pdf_eof(bytes))
    {
        return Ok(FileFormat::Pdf);
    }
    let foreign: [(&[u8], &str); 13] = [
        (b"\x89PNG", "PNG"),
        (b"\xFF\xD8\xFF", "JPEG"),
        (b"GIF8", "GIF"),
        (b"II*\0", "TIFF"),
        (b"MM\0*", "TIFF"),
        (b"BM", "BMP"),
        (b"\x7FELF", "a program"),
        (b"MZ", "a program"),
        (b"\x1F\x8B", "gzip"),
        (b"7z\xBC\xAF", "7z"),
        (b"Rar!", "RAR"),
        (b"BZh", "bzip2"),
        (b"\xFD7zXZ", "xz"),
    ];
    if let Some((_, what)) =
        foreign.iter().find(|(mark, _)| head.starts_with(mark) && has_control_bytes(head))
    {
        return unsupported(what);
    }
    let start =
        String::from_utf8_lossy(head).trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
    if start.starts_with("{\\rtf") {
        return unsupported("RTF");
    }
    if start.starts_with("<!doctype html")
        || start.starts_with("<html")
        || start.contains("<html") && start.starts_with('<')
    {
        return Ok(FileFormat::Html);
    }
    if start.starts_with("<?xml") || start.starts_with("<svg") {
        return unsupported(if start.contains("<hwpml") { "HWPML" } else { "XML" });
    }
    if looks_binary(head) {
        return unsupported("not text");
    }
    let extension = extension(name);
    let marked = [&b"\xFF\xFE"[..], b"\xFE\xFF", b"\xEF\xBB\xBF"].iter().any(|mark| head.starts_with(mark));
    let plain = marked || std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0'));
    if !plain && OFFICE_EXTENSIONS.contains(&extension.as_str()) {
        // The rest of a truncated or overwritten file would otherwise be read as Chinese text.
        return Err(IngestFailure::corrupt(format!("no {} file, and no text", extension.to_uppercase())));
    }
    Ok(match extension.as_str() {
        "csv" | "tsv" => FileFormat::Csv,
        "htm" | "html" | "xhtml" => FileFormat::Html,
        "md" | "markdown" | "mkd" => FileFormat::Markdown,
        _ => FileFormat::Text,
    })
}

/// Skips a UTF-8 byte order mark and whitespace.
fn skip_bom_and_blanks(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start()
}

/// Returns whether the file ends with the end marker of a PDF. A text about PDF may quote it but goes on after it.
fn ends_with_pdf_eof(bytes: &[u8]) -> bool {
    bytes.trim_ascii_end().ends_with(b"%%EOF")
}

/// Returns the extension of a name in lower case.
fn extension(name: &str) -> String {
    name.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase()).unwrap_or_default()
}

fn detect_zip_format(bytes: &[u8]) -> Result<FileFormat, IngestFailure> {
    let zip = zip::ZipArchive::new(Cursor::new(bytes)).map_err(IngestFailure::corrupt)?;
    let has = |name: &str| zip.index_for_name(name).is_some();
    if has("word/document.xml") {
        return Ok(FileFormat::Docx);
    }
    if has("xl/workbook.xml") {
        return Ok(FileFormat::Xlsx);
    }
    if has("Contents/content.hpf") || has("Contents/header.xml") || has("Contents/section0.xml") {
        return Ok(FileFormat::Hwpx);
    }
    let what = if has("ppt/presentation.xml") { "PPTX" } else { "a zip of other things" };
    Err(IngestFailure::new(IngestFailureKind::Unsupported, what))
}

fn detect_ole_format(bytes: &[u8]) -> Result<FileFormat, IngestFailure> {
    let file = cfb::CompoundFile::open(Cursor::new(bytes)).map_err(IngestFailure::corrupt)?;
    if file.is_stream("/FileHeader") && (file.is_storage("/BodyText") || file.is_storage("/ViewText")) {
        return Ok(FileFormat::Hwp);
    }
    if file.is_stream("/EncryptedPackage") {
        return Err(IngestFailure::new(IngestFailureKind::Encrypted, "an encrypted Office document"));
    }
    let known =
        [("/WordDocument", "DOC"), ("/Workbook", "XLS"), ("/Book", "XLS"), ("/PowerPoint Document", "PPT")];
    let what =
        known.iter().find(|(stream, _)| file.is_stream(stream)).map_or("an OLE file", |(_, what)| what);
    Err(IngestFailure::new(IngestFailureKind::Unsupported, what))
}

/// Returns whether there is a byte that no Korean text encoding uses. Every program, image and archive has some near
/// its start, in a size, a version or a length.
fn has_control_bytes(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| *byte < 9)
}

/// Returns whether there are bytes that occur in no text except UTF-16.
fn looks_binary(head: &[u8]) -> bool {
    if head.starts_with(b"\xFF\xFE") || head.starts_with(b"\xFE\xFF") || looks_like_utf16(head) {
        return false;
    }
    let odd = head.iter().filter(|byte| matches!(byte, 1..=8 | 14..=26 | 28..=31)).count();
    let nulls = head.iter().filter(|byte| **byte == 0).count();
    odd * 20 > head.len() || nulls > 0 && nulls * 8 < head.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, bytes: &[u8], expected: Result<FileFormat, &str>) {
        let found = detect_format(name, bytes);
        match expected {
            Ok(format) => assert_eq!(found.map_err(|failure| failure.detail), Ok(format), "{name}"),
            Err(what) => assert_eq!(found.map_err(|failure| failure.detail), Err(what.to_owned()), "{name}"),
        }
    }

    #[test]
    fn wide_text_without_a_mark_is_distinguished_from_numbers() {
        let text = "제10조의2(비밀유지) 을은 업무상 알게 된 갑의 비밀을 제3자에게 누설하지 아니한다. 이 계약이 끝난 뒤에도 같다.";
        for units in [u16::to_le_bytes, u16::to_be_bytes] {
            let bytes: Vec<u8> = text.encode_utf16().flat_map(units).collect();
            check("a.txt", &bytes, Ok(FileFormat::Text));
            let read = crate::ingest::extract_text("a.txt", &bytes, &crate::ingest::ReadLimits::default());
            assert_eq!(read.map(|read| read.text), Ok(text.to_owned()));
        }
        let numbers: Vec<u8> = (0..400u16).flat_map(|number| (number % 30).to_le_bytes()).collect();
        check("a.txt", &numbers, Err("not text"));
    }

    #[test]
    fn words_that_begin_like_a_picture_or_a_program_are_words() {
        for words in [
            "MZ세대 근무 제도",
            "BM25 색인 안내",
            "BMW 코리아 계약서",
            "GIF89a 형식",
            "Rar! 압축",
            "BZh 형식",
        ] {
            check("a.txt", words.as_bytes(), Ok(FileFormat::Text));
            check("a.txt", &encoding_rs::EUC_KR.encode(words).0, Ok(FileFormat::Text));
        }
        check("a.txt", b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xFF\xFF", Err("a program"));
        check("a.txt", b"BM\x36\x24\x01\0\0\0\0\0\x36\0\0\0", Err("BMP"));
        check("a.txt", b"GIF89a\x20\x20\x20\x20\xF7\0\0", Err("GIF"));
    }

    #[test]
    fn a_page_about_pdf_is_no_pdf() {
        let page = "# PDF 읽기\n\n첫 줄은 `%PDF-1.7`이고 마지막 줄은 `%%EOF`이다.\n";
        check("a.md", page.as_bytes(), Ok(FileFormat::Markdown));
        check("a.md", &encoding_rs::EUC_KR.encode(page).0, Ok(FileFormat::Markdown));
        check("a.txt", b"\xEF\xBB\xBF\r\n%PDF-1.7\n", Ok(FileFormat::Pdf));
        check("a.pdf", b"HTTP/1.1 200 OK\r\n\r\n%PDF-1.4\n1 0 obj\nendobj\n%%EOF\r\n", Ok(FileFormat::Pdf));
        check("a.pdf", b"\x1b%-12345X@PJL\n%PDF-1.4\n1 0 obj\nstream\nx\x9c\x03\0\0", Ok(FileFormat::Pdf));
    }

    #[test]
    fn bytes_decide_and_names_only_among_texts() {
        check("a.txt", b"%PDF-1.7\n", Ok(FileFormat::Pdf));
        check("a.pdf", b"just text", Ok(FileFormat::Text));
        check("a.md", b"# head", Ok(FileFormat::Markdown));
        check("A.CSV", b"a,b\n1,2", Ok(FileFormat::Csv));
        check("a.txt", b"<!DOCTYPE html><p>x", Ok(FileFormat::Html));
        check("a.txt", b"\xFF\xFEa\0", Ok(FileFormat::Text));
        check("a.docx", b"\x89PNG\r\n\x1a\n\0\0", Err("PNG"));
        check("a.txt", b"BMW is a car", Ok(FileFormat::Text));
        check("a.txt", b"\x01\x02\x03\x04", Err("not text"));
        check("a.hwp", b"HWP Document File V3.00 \x1a", Err("HWP 3"));
        check("a.hwp", b"\xB0\xA1\xB3\xAA\xB4\xD9\xB6\xF3", Err("no HWP file, and no text"));
        check("a.docx", b"abc\0def\0", Err("no DOCX file, and no text"));
        check("a.txt", b"\xB0\xA1\xB3\xAA\xB4\xD9\xB6\xF3", Ok(FileFormat::Text));
        check("a.svg", b"<svg xmlns='x'><script/></svg>", Err("XML"));
    }
}
