//! Extracts text from files: HWPX, HWP 5, PDF, DOCX, XLSX, CSV, HTML, Markdown and plain text.
//!
//! [`extract_text`] reads a file in this process. Untrusted files are read by a [`JailedFileReader`], which does the
//! same in a sandboxed child process with limits on time, memory and output. For that the program calls
//! [`extract_worker_main`] first in `main` if its first argument is [`EXTRACT_WORKER_ARG`]. The format is detected from
//! the bytes; the name decides only among text formats. The [`Library`](crate::Library) stores the text.

mod document_text_builder;
mod extract_worker;
mod format_detection;
mod format_readers;
mod ingest_failure;
mod list_numbering;
mod markdown_writer;
mod text_cleaning;
mod xml_reader;
mod zip_archive;

use serde::{Deserialize, Serialize};

pub use extract_worker::{EXTRACT_WORKER_ARG, JailedFileReader, extract_worker_main};
pub use ingest_failure::{IngestFailure, IngestFailureKind};

use format_detection::detect_format;

/// The maximum length of a title in characters.
pub(crate) const MAX_TITLE_CHARS: usize = 200;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// 한글 in the open format, a zip of XML.
    Hwpx,
    /// 한글 5.
    Hwp,
    /// PDF.
    Pdf,
    /// Word.
    Docx,
    /// Excel.
    Xlsx,
    /// Values separated by commas, semicolons or tabs.
    Csv,
    /// A web page.
    Html,
    /// Markdown.
    Markdown,
    /// Plain text in UTF-8, UTF-16 or CP949.
    Text,
}

/// The text extracted from a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractedText {
    /// The format of the file.
    pub format: FileFormat,
    /// The title that the file declares.
    pub title: Option<String>,
    /// The text, with headings, lists and tables as Markdown.
    pub text: String,
    /// The byte offset in `text` at which each page starts, for files that have pages.
    pub pages: Vec<usize>,
    /// The number of invisible characters that were removed: direction marks, zero-width and tag characters, which can
    /// hide instructions to a model.
    pub hidden: usize,
}

impl ExtractedText {
    /// Truncates the title for lists. A heading in a file may be very long.
    pub(crate) fn with_short_title(mut self) -> Self {
        if let Some(title) = &mut self.title
            && let Some((end, _)) = title.char_indices().nth(MAX_TITLE_CHARS)
        {
            title.truncate(end);
        }
        self
    }
}

/// Limits on reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadLimits {
    /// The maximum size of a file in bytes.
    pub input: usize,
    /// The maximum size of its text in bytes.
    pub text: usize,
    /// The maximum decompressed size of a compressed file in bytes.
    pub unpacked: u64,
    /// The maximum number of parts in a compressed file.
    pub entries: usize,
    /// The maximum compression ratio of one part, beyond the first megabyte.
    pub ratio: u64,
    /// The maximum number of pages.
    pub pages: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            input: 50 << 20,
            text: 32 << 20,
            unpacked: 200 << 20,
            entries: 10_000,
            ratio: 100,
            pages: 5_000,
        }
    }
}

/// Extracts text in this process. Use it for trusted files only; a [`JailedFileReader`] reads the others.
pub fn extract_text(name: &str, bytes: &[u8], limits: &ReadLimits) -> Result<ExtractedText, IngestFailure> {
    if bytes.is_empty() {
        return Err(IngestFailure::new(IngestFailureKind::Empty, "0 bytes"));
    }
    if bytes.len() > limits.input {
        return Err(IngestFailure::new(
            IngestFailureKind::TooLarge,
            format!("{} bytes, at most {}", bytes.len(), limits.input),
        ));
    }
    let format = detect_format(name, bytes)?;
    let extracted = match format {
        FileFormat::Hwpx => format_readers::read_hwpx(bytes, limits),
        FileFormat::Hwp => format_readers::read_hwp(bytes, limits),
        #[cfg(feature = "pdf")]
        FileFormat::Pdf => format_readers::read_pdf(bytes, limits),
        #[cfg(not(feature = "pdf"))]
        FileFormat::Pdf => Err(IngestFailure::new(IngestFailureKind::Unsupported, "built without PDF")),
        FileFormat::Docx => format_readers::read_docx(bytes, limits),
        FileFormat::Xlsx => format_readers::read_xlsx(bytes, limits),
        FileFormat::Csv => format_readers::read_csv(bytes, limits),
        FileFormat::Html => format_readers::read_html(bytes, limits),
        FileFormat::Markdown => format_readers::read_plain_text(FileFormat::Markdown, bytes, limits),
        FileFormat::Text => format_readers::read_plain_text(FileFormat::Text, bytes, limits),
    }?;
    if extracted.text.trim().is_empty() {
        return Err(IngestFailure::new(IngestFailureKind::NoText, format!("{format:?}")));
    }
    Ok(extracted.with_short_title())
}
