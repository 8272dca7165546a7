//! Writes extracted content as Markdown: headings, paragraphs, lists, tables, pages.

use super::text_cleaning::{clean_text, to_single_line};
use super::{ExtractedText, FileFormat, IngestFailure, IngestFailureKind, MAX_TITLE_CHARS, ReadLimits};

/// The maximum number of columns of a table; further ones are dropped. A sheet can have 16,384.
const MAX_TABLE_COLUMNS: usize = 200;

/// The text written so far.
#[derive(Debug)]
pub(super) struct MarkdownWriter {
    text: String,
    pages: Vec<usize>,
    hidden: usize,
    title: Option<String>,
    last: LastBlock,
    max_text_bytes: usize,
    max_pages: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastBlock {
    Nothing,
    Block,
    Item,
}

impl MarkdownWriter {
    pub(super) fn new(limits: &ReadLimits) -> Self {
        Self {
            text: String::new(),
            pages: Vec::new(),
            hidden: 0,
            title: None,
            last: LastBlock::Nothing,
            max_text_bytes: limits.text,
            max_pages: limits.pages,
        }
    }

    /// Sets the title that the file declares. Only the first call has an effect.
    pub(super) fn set_title(&mut self, title: &str) {
        let title = to_single_line(&clean_text(title).0);
        if self.title.is_none() && !title.is_empty() {
            self.title = Some(title.chars().take(MAX_TITLE_CHARS).collect());
        }
    }

    pub(super) fn write_heading(&mut self, level: usize, words: &str) -> Result<(), IngestFailure> {
        let words = to_single_line(words);
        if words.is_empty() {
            return Ok(());
        }
        let marks = "#".repeat(level.clamp(1, 6));
        self.write_block(&format!("{marks} {words}"), LastBlock::Block)
    }

    pub(super) fn write_paragraph(&mut self, words: &str) -> Result<(), IngestFailure> {
        let words = words.trim();
        if words.is_empty() { Ok(()) } else { self.write_block(words, LastBlock::Block) }
    }

    /// Writes a list item. Consecutive items form one list.
    pub(super) fn write_list_item(&mut self, words: &str) -> Result<(), IngestFailure> {
        let words = words.trim_end();
        if words.trim().is_empty() { Ok(()) } else { self.write_block(words, LastBlock::Item) }
    }

    /// Writes a table whose first row is its head. Empty rows are left out.
    pub(super) fn write_table(&mut self, rows: &[Vec<String>]) -> Result<(), IngestFailure> {
        let rows: Vec<&Vec<String>> =
            rows.iter().filter(|row| row.iter().any(|cell| !cell.trim().is_empty())).collect();
        let width = rows.iter().map(|row| row.len()).max().unwrap_or(0).min(MAX_TABLE_COLUMNS);
        if width == 0 {
            return Ok(());
        }
        self.separate_blocks();
        for (at, row) in rows.iter().enumerate() {
            let mut line = String::from("|");
            for column in 0..width {
                let cell = row.get(column).map(String::as_str).unwrap_or_default();
                line.push(' ');
                line.push_str(&to_single_line(cell).replace('|', "\\|"));
                line.push_str(" |");
            }
            if at > 0 {
                self.text.push('\n');
            }
            self.push_text(&line)?;
            if at == 0 {
                self.push_text(&format!("\n|{}", " --- |".repeat(width)))?;
            }
        }
        self.last = LastBlock::Block;
        Ok(())
    }

    /// Starts a page at the next block.
    pub(super) fn start_page(&mut self) -> Result<(), IngestFailure> {
        if self.pages.len() >= self.max_pages {
            return Err(IngestFailure::new(
                IngestFailureKind::TooLarge,
                format!("more than {} pages", self.max_pages),
            ));
        }
        self.separate_blocks();
        self.last = LastBlock::Nothing;
        self.pages.push(self.text.len());
        Ok(())
    }

    pub(super) fn finish(mut self, format: FileFormat) -> ExtractedText {
        self.text.truncate(self.text.trim_end().len());
        let end = self.text.len();
        self.pages.iter_mut().for_each(|start| *start = (*start).min(end));
        ExtractedText { format, title: self.title, text: self.text, pages: self.pages, hidden: self.hidden }
    }

    fn write_block(&mut self, words: &str, kind: LastBlock) -> Result<(), IngestFailure> {
        if self.last == LastBlock::Item && kind == LastBlock::Item {
            self.text.push('\n');
        } else {
            self.separate_blocks();
        }
        self.last = kind;
        self.push_text(words)
    }

    fn separate_blocks(&mut self) {
        if self.last != LastBlock::Nothing && !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
    }

    fn push_text(&mut self, words: &str) -> Result<(), IngestFailure> {
        let (words, hidden) = clean_text(words);
        if self.text.len() + words.len() > self.max_text_bytes {
            return Err(IngestFailure::new(
                IngestFailureKind::TooLarge,
                format!("more than {} bytes of text", self.max_text_bytes),
            ));
        }
        self.hidden += hidden;
        self.text.push_str(&words);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer() -> MarkdownWriter {
        MarkdownWriter::new(&ReadLimits { text: 200, pages: 2, ..ReadLimits::default() })
    }

    #[test]
    fn blocks_are_parted_and_lists_stay_together() {
        let mut writer = writer();
        writer.start_page().expect("page");
        writer.write_heading(2, " 휴가 \n 규정 ").expect("heading");
        writer.write_list_item("1. 하나").expect("item");
        writer.write_list_item("2. 둘").expect("item");
        writer.start_page().expect("page");
        writer.write_table(&[vec!["a|b".into(), "c".into()], vec![], vec!["d\ne".into()]]).expect("table");
        let found = writer.finish(FileFormat::Docx);
        assert_eq!(found.text, "## 휴가 규정\n\n1. 하나\n2. 둘\n\n| a\\|b | c |\n| --- | --- |\n| d e |  |");
        assert_eq!(found.pages, [0, found.text.find("| a").expect("table")]);
    }

    #[test]
    fn a_text_that_grows_too_long_is_refused() {
        let mut writer = writer();
        assert!(writer.write_paragraph(&"x".repeat(150)).is_ok());
        assert_eq!(
            writer.write_paragraph(&"x".repeat(150)).map_err(|error| error.kind),
            Err(IngestFailureKind::TooLarge)
        );
    }
}
