//! The manuscript of a word processor's document: paragraphs, and tables inside tables.

use super::writer::Writer;
use super::{Extracted, Failure, FailureKind, Format, ReadLimits};

/// How deep tables may stand in tables.
const DEPTH: usize = 16;

/// The most cells that one cell may span; what lies beyond is not believed.
const SPAN: usize = 200;

/// The most rows that one cell may span.
const TALL: usize = 2000;

/// What a paragraph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Body,
    Heading(usize),
    Item,
}

/// Where paragraphs go: to the text, or to the cell that is open.
#[derive(Debug)]
pub(super) struct Manuscript {
    pub(super) writer: Writer,
    tables: Vec<Table>,
}

#[derive(Debug, Default)]
struct Table {
    rows: Vec<Vec<String>>,
    cell: Option<String>,
    /// How many columns and rows the open cell spans.
    span: (usize, usize),
    /// For each column, how many rows below the current one a cell above reaches into.
    hanging: Vec<usize>,
    /// The columns of the current row that a cell above covers.
    covered: Vec<bool>,
}

impl Table {
    fn row(&mut self) {
        self.covered = self.hanging.iter().map(|rows| *rows > 0).collect();
        self.hanging.iter_mut().for_each(|rows| *rows = rows.saturating_sub(1));
        self.rows.push(Vec::new());
    }
}

impl Manuscript {
    pub(super) fn new(limits: &ReadLimits) -> Self {
        Self { writer: Writer::new(limits), tables: Vec::new() }
    }

    pub(super) fn paragraph(&mut self, role: Role, words: &str) -> Result<(), Failure> {
        if let Some(cell) = self.tables.last_mut().and_then(|table| table.cell.as_mut()) {
            if !words.trim().is_empty() {
                if !cell.is_empty() {
                    cell.push('\n');
                }
                cell.push_str(words.trim());
            }
            return Ok(());
        }
        match role {
            Role::Body => self.writer.paragraph(words),
            Role::Heading(level) => self.writer.heading(level, words),
            Role::Item => self.writer.item(words),
        }
    }

    pub(super) fn page(&mut self) -> Result<(), Failure> {
        if self.tables.is_empty() { self.writer.page() } else { Ok(()) }
    }

    pub(super) fn open_table(&mut self) -> Result<(), Failure> {
        if self.tables.len() >= DEPTH {
            return Err(Failure::new(FailureKind::TooLarge, "tables in tables in tables"));
        }
        self.tables.push(Table::default());
        Ok(())
    }

    pub(super) fn row(&mut self) {
        if let Some(table) = self.tables.last_mut() {
            table.row();
        }
    }

    /// Opens a cell, at a column where the source says so.
    pub(super) fn open_cell(&mut self, column: Option<usize>) {
        let Some(table) = self.tables.last_mut() else { return };
        if table.rows.is_empty() {
            table.row();
        }
        table.span = (1, 1);
        if let (Some(row), None) = (table.rows.last_mut(), column) {
            while table.covered.get(row.len()).is_some_and(|covered| *covered) {
                row.push(String::new());
            }
        }
        if let (Some(row), Some(column)) = (table.rows.last_mut(), column)
            && row.len() < column.min(SPAN)
        {
            row.resize(column.min(SPAN), String::new());
        }
        table.cell = Some(String::new());
    }

    /// Says how many columns and rows the open cell spans.
    pub(super) fn span(&mut self, columns: usize, rows: usize) {
        if let Some(table) = self.tables.last_mut() {
            table.span = (columns.clamp(1, SPAN), rows.clamp(1, TALL));
        }
    }

    /// Closes the cell that is open. A wide one is followed by empty ones, and a tall one leaves empty ones below it, so
    /// that columns stay straight.
    pub(super) fn close_cell(&mut self, span: usize) {
        let Some(table) = self.tables.last_mut() else { return };
        if let (Some(cell), Some(row)) = (table.cell.take(), table.rows.last_mut()) {
            let (columns, rows) = (span.clamp(1, SPAN).max(table.span.0), table.span.1);
            let from = row.len();
            row.push(cell);
            row.extend(std::iter::repeat_n(String::new(), columns - 1));
            if rows > 1 {
                table.hanging.resize(table.hanging.len().max(row.len()), 0);
                table.hanging[from..row.len()].fill(rows - 1);
            }
        }
    }

    pub(super) fn close_table(&mut self) -> Result<(), Failure> {
        self.close_cell(1);
        let Some(table) = self.tables.pop() else { return Ok(()) };
        let used = table.rows.iter().flatten().filter(|cell| !cell.is_empty()).count();
        let width = table.rows.iter().map(Vec::len).max().unwrap_or(0);
        // A table of one cell or column is a frame around paragraphs, and inside a cell there is room for words only.
        if used <= 1 || width <= 1 || !self.tables.is_empty() {
            for words in table.rows.iter().flatten().flat_map(|cell| cell.lines()) {
                self.paragraph(Role::Body, words)?;
            }
            return Ok(());
        }
        self.writer.table(&table.rows)
    }

    pub(super) fn finish(mut self, format: Format) -> Result<Extracted, Failure> {
        while !self.tables.is_empty() {
            self.close_table()?;
        }
        Ok(self.writer.finish(format))
    }
}
