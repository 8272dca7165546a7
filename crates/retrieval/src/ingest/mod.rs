//! Files in, text out: HWPX, HWP 5, PDF, DOCX, XLSX, CSV, HTML, Markdown and plain text.
//!
//! [`extract`] reads bytes in this process. Files of strangers are read by a [`Reader`], which does the same in a child
//! that can reach nothing, with limits on time, memory and output; the program gives the child its life by calling
//! [`worker_main`] first thing when its first argument is [`WORKER`]. What a file is is told by its bytes, not by its
//! name. What becomes of the text is left to the [`Library`](crate::Library).

mod archive;
mod failure;
mod manuscript;
mod numbering;
mod read;
mod sniff;
mod words;
mod worker;
mod writer;
mod xml;

use serde::{Deserialize, Serialize};

pub use failure::{Failure, FailureKind};
pub use worker::{Reader, WORKER, worker_main};

use sniff::sniff;

/// The most letters of a title.
pub(crate) const TITLE: usize = 200;

/// What a file was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
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
pub struct Extracted {
    /// What the file was.
    pub format: Format,
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

impl Extracted {
    /// The same with a title that a list can show: a heading may go on for megabytes.
    pub(crate) fn with_short_title(mut self) -> Self {
        if let Some(title) = &mut self.title
            && let Some((end, _)) = title.char_indices().nth(TITLE)
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
pub fn extract(name: &str, bytes: &[u8], limits: &ReadLimits) -> Result<Extracted, Failure> {
    if bytes.is_empty() {
        return Err(Failure::new(FailureKind::Empty, "0 bytes"));
    }
    if bytes.len() > limits.input {
        return Err(Failure::new(
            FailureKind::TooLarge,
            format!("{} bytes, at most {}", bytes.len(), limits.input),
        ));
    }
    let format = sniff(name, bytes)?;
    let extracted = match format {
        Format::Hwpx => read::hwpx(bytes, limits),
        Format::Hwp => read::hwp(bytes, limits),
        #[cfg(feature = "pdf")]
        Format::Pdf => read::pdf(bytes, limits),
        #[cfg(not(feature = "pdf"))]
        Format::Pdf => Err(Failure::new(FailureKind::Unsupported, "built without PDF")),
        Format::Docx => read::docx(bytes, limits),
        Format::Xlsx => read::xlsx(bytes, limits),
        Format::Csv => read::csv(bytes, limits),
        Format::Html => read::html(bytes, limits),
        Format::Markdown => read::plain(Format::Markdown, bytes, limits),
        Format::Text => read::plain(Format::Text, bytes, limits),
    }?;
    if extracted.text.trim().is_empty() {
        return Err(Failure::new(FailureKind::NoText, format!("{format:?}")));
    }
    Ok(extracted.with_short_title())
}
