//! Puts down what a reader finds as Markdown: headings, paragraphs, lists, tables, pages.

use super::words::{clean, one_line};
use super::{Extracted, Failure, FailureKind, Format, ReadLimits, TITLE};

/// The most columns of a table. A sheet has 16,384; nobody reads them.
const COLUMNS: usize = 200;

/// The text so far.
#[derive(Debug)]
pub(super) struct Writer {
    text: String,
    pages: Vec<usize>,
    hidden: usize,
    title: Option<String>,
    last: Last,
    most: usize,
    most_pages: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Nothing,
    Block,
    Item,
}

impl Writer {
    pub(super) fn new(limits: &ReadLimits) -> Self {
        Self {
            text: String::new(),
            pages: Vec::new(),
            hidden: 0,
            title: None,
            last: Last::Nothing,
            most: limits.text,
            most_pages: limits.pages,
        }
    }

    /// The title the file gives itself; the first one counts.
    pub(super) fn title(&mut self, title: &str) {
        let title = one_line(&clean(title).0);
        if self.title.is_none() && !title.is_empty() {
            self.title = Some(title.chars().take(TITLE).collect());
        }
    }

    pub(super) fn heading(&mut self, level: usize, words: &str) -> Result<(), Failure> {
        let words = one_line(words);
        if words.is_empty() {
            return Ok(());
        }
        let marks = "#".repeat(level.clamp(1, 6));
        self.block(&format!("{marks} {words}"), Last::Block)
    }

    pub(super) fn paragraph(&mut self, words: &str) -> Result<(), Failure> {
        let words = words.trim();
        if words.is_empty() { Ok(()) } else { self.block(words, Last::Block) }
    }

    /// A line of a list. Lines of a list stay together.
    pub(super) fn item(&mut self, words: &str) -> Result<(), Failure> {
        let words = words.trim_end();
        if words.trim().is_empty() { Ok(()) } else { self.block(words, Last::Item) }
    }

    /// A table; the first row is its head. Empty rows are left out.
    pub(super) fn table(&mut self, rows: &[Vec<String>]) -> Result<(), Failure> {
        let rows: Vec<&Vec<String>> =
            rows.iter().filter(|row| row.iter().any(|cell| !cell.trim().is_empty())).collect();
        let width = rows.iter().map(|row| row.len()).max().unwrap_or(0).min(COLUMNS);
        if width == 0 {
            return Ok(());
        }
        self.part();
        for (at, row) in rows.iter().enumerate() {
            let mut line = String::from("|");
            for column in 0..width {
                let cell = row.get(column).map(String::as_str).unwrap_or_default();
                line.push(' ');
                line.push_str(&one_line(cell).replace('|', "\\|"));
                line.push_str(" |");
            }
            if at > 0 {
                self.text.push('\n');
            }
            self.push(&line)?;
            if at == 0 {
                self.push(&format!("\n|{}", " --- |".repeat(width)))?;
            }
        }
        self.last = Last::Block;
        Ok(())
    }

    /// The next block starts a page.
    pub(super) fn page(&mut self) -> Result<(), Failure> {
        if self.pages.len() >= self.most_pages {
            return Err(Failure::new(FailureKind::TooLarge, format!("more than {} pages", self.most_pages)));
        }
        self.part();
        self.last = Last::Nothing;
        self.pages.push(self.text.len());
        Ok(())
    }

    pub(super) fn finish(mut self, format: Format) -> Extracted {
        self.text.truncate(self.text.trim_end().len());
        let end = self.text.len();
        self.pages.iter_mut().for_each(|start| *start = (*start).min(end));
        Extracted { format, title: self.title, text: self.text, pages: self.pages, hidden: self.hidden }
    }

    fn block(&mut self, words: &str, kind: Last) -> Result<(), Failure> {
        if self.last == Last::Item && kind == Last::Item {
            self.text.push('\n');
        } else {
            self.part();
        }
        self.last = kind;
        self.push(words)
    }

    fn part(&mut self) {
        if self.last != Last::Nothing && !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
    }

    fn push(&mut self, words: &str) -> Result<(), Failure> {
        let (words, hidden) = clean(words);
        if self.text.len() + words.len() > self.most {
            return Err(Failure::new(
                FailureKind::TooLarge,
                format!("more than {} bytes of text", self.most),
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

    fn writer() -> Writer {
        Writer::new(&ReadLimits { text: 200, pages: 2, ..ReadLimits::default() })
    }

    #[test]
    fn blocks_are_parted_and_lists_stay_together() {
        let mut writer = writer();
        writer.page().expect("page");
        writer.heading(2, " 휴가 \n 규정 ").expect("heading");
        writer.item("1. 하나").expect("item");
        writer.item("2. 둘").expect("item");
        writer.page().expect("page");
        writer.table(&[vec!["a|b".into(), "c".into()], vec![], vec!["d\ne".into()]]).expect("table");
        let found = writer.finish(Format::Docx);
        assert_eq!(found.text, "## 휴가 규정\n\n1. 하나\n2. 둘\n\n| a\\|b | c |\n| --- | --- |\n| d e |  |");
        assert_eq!(found.pages, [0, found.text.find("| a").expect("table")]);
    }

    #[test]
    fn a_text_that_grows_too_long_is_refused() {
        let mut writer = writer();
        assert!(writer.paragraph(&"x".repeat(150)).is_ok());
        assert_eq!(
            writer.paragraph(&"x".repeat(150)).map_err(|error| error.kind),
            Err(FailureKind::TooLarge)
        );
    }
}
