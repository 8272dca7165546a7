//! Files in, text out: HWPX, HWP 5, PDF, DOCX, XLSX, CSV, HTML, Markdown and plain text.
//!
//! [`extract`] reads bytes in this process. Files of strangers are read by a [`Reader`], which does the same in a child
//! that can reach nothing, with limits on time, memory and output; the program gives the child its life by calling
//! [`worker_main`] first thing when its first argument is [`WORKER`]. What a file is is told by its bytes, not by its
//! name. What becomes of the text is left to the [`Library`](crate::Library).

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

/// The most letters of a title.
pub(crate) const MAX_TITLE_CHARS: usize = 200;

/// What a file was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// 한글, the open format: a zip of XML.
    Hwpx,
    /// 한글 5.
    Hwp,
    /// PDF.
    Pdf,
    /// Word.
    Docx,
    /// Excel.
    Xlsx,
    /// Values with commas, semicolons or tabs between them.
    Csv,
    /// A web page.
    Html,
    /// Markdown.
    Markdown,
    /// Plain text in UTF-8, UTF-16 or CP949.
    Text,
}

/// What was read from a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractedText {
    /// What the file was.
    pub format: FileFormat,
    /// The title it gives itself.
    pub title: Option<String>,
    /// Its words: headings, lists and tables as in Markdown.
    pub text: String,
    /// Where each page starts in `text`, in bytes, for files that have pages.
    pub pages: Vec<usize>,
    /// How many invisible characters were left out: marks of direction, zero-width and tag characters, in which
    /// orders to a model can hide.
    pub hidden: usize,
}

impl ExtractedText {
    /// The same with a title that a list can show: a heading may go on for megabytes.
    pub(crate) fn with_short_title(mut self) -> Self {
        if let Some(title) = &mut self.title
            && let Some((end, _)) = title.char_indices().nth(MAX_TITLE_CHARS)
        {
            title.truncate(end);
        }
        self
    }
}

/// How much a reader takes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadLimits {
    /// The most bytes of a file.
    pub input: usize,
    /// The most bytes of its text.
    pub text: usize,
    /// The most bytes inside a compressed file, unpacked.
    pub unpacked: u64,
    /// The most parts of a compressed file.
    pub entries: usize,
    /// The most bytes of one part for each byte it takes packed, beyond the first megabyte.
    pub ratio: u64,
    /// The most pages.
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

/// Reads a file in this process. For files that can be trusted to be what they seem; others go through a [`Reader`].
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
