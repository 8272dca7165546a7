//! Builds the text of a word-processor document: paragraphs and nested tables.

use super::markdown_writer::MarkdownWriter;
use super::{ExtractedText, FileFormat, IngestFailure, IngestFailureKind, ReadLimits};

/// The maximum nesting depth of tables.
const MAX_TABLE_DEPTH: usize = 16;

/// The maximum column span of a cell. Larger values are cut.
const MAX_COLUMN_SPAN: usize = 200;

/// The maximum row span of a cell.
const MAX_ROW_SPAN: usize = 2000;

/// The role of a paragraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParagraphRole {
    Body,
    Heading(usize),
    Item,
}

/// Collects paragraphs, either into the text or into the open cell.
#[derive(Debug)]
pub(super) struct DocumentTextBuilder {
    pub(super) writer: MarkdownWriter,
    tables: Vec<TableBuilder>,
}

#[derive(Debug, Default)]
struct TableBuilder {
    rows: Vec<Vec<String>>,
    cell: Option<String>,
    /// The column span and row span of the open cell.
    span: (usize, usize),
    /// For each column, the number of further rows that a cell above still covers.
    remaining_row_spans: Vec<usize>,
    /// The columns of the current row that a cell above covers.
    covered_columns: Vec<bool>,
}

impl TableBuilder {
    fn start_row(&mut self) {
        self.covered_columns = self.remaining_row_spans.iter().map(|rows| *rows > 0).collect();
        self.remaining_row_spans.iter_mut().for_each(|rows| *rows = rows.saturating_sub(1));
        self.rows.push(Vec::new());
    }
}

impl DocumentTextBuilder {
    pub(super) fn new(limits: &ReadLimits) -> Self {
        Self { writer: MarkdownWriter::new(limits), tables: Vec::new() }
    }

    pub(super) fn add_paragraph(&mut self, role: ParagraphRole, words: &str) -> Result<(), IngestFailure> {
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
            ParagraphRole::Body => self.writer.write_paragraph(words),
            ParagraphRole::Heading(level) => self.writer.write_heading(level, words),
            ParagraphRole::Item => self.writer.write_list_item(words),
        }
    }

    pub(super) fn start_page(&mut self) -> Result<(), IngestFailure> {
        if self.tables.is_empty() { self.writer.start_page() } else { Ok(()) }
    }

    pub(super) fn open_table(&mut self) -> Result<(), IngestFailure> {
        if self.tables.len() >= MAX_TABLE_DEPTH {
            return Err(IngestFailure::new(IngestFailureKind::TooLarge, "tables in tables in tables"));
        }
        self.tables.push(TableBuilder::default());
        Ok(())
    }

    pub(super) fn start_row(&mut self) {
        if let Some(table) = self.tables.last_mut() {
            table.start_row();
        }
    }

    /// Opens a cell, at the given column if the source names one.
    pub(super) fn open_cell(&mut self, column: Option<usize>) {
        let Some(table) = self.tables.last_mut() else { return };
        if table.rows.is_empty() {
            table.start_row();
        }
        table.span = (1, 1);
        if let (Some(row), None) = (table.rows.last_mut(), column) {
            while table.covered_columns.get(row.len()).is_some_and(|covered| *covered) {
                row.push(String::new());
            }
        }
        if let (Some(row), Some(column)) = (table.rows.last_mut(), column)
            && row.len() < column.min(MAX_COLUMN_SPAN)
        {
            row.resize(column.min(MAX_COLUMN_SPAN), String::new());
        }
        table.cell = Some(String::new());
    }

    /// Sets the column span and row span of the open cell.
    pub(super) fn set_cell_span(&mut self, columns: usize, rows: usize) {
        if let Some(table) = self.tables.last_mut() {
            table.span = (columns.clamp(1, MAX_COLUMN_SPAN), rows.clamp(1, MAX_ROW_SPAN));
        }
    }

    /// Closes the open cell. Empty cells follow a wide cell and are left below a tall one, so that columns stay
    /// aligned.
    pub(super) fn close_cell(&mut self, span: usize) {
        let Some(table) = self.tables.last_mut() else { return };
        if let (Some(cell), Some(row)) = (table.cell.take(), table.rows.last_mut()) {
            let (columns, rows) = (span.clamp(1, MAX_COLUMN_SPAN).max(table.span.0), table.span.1);
            let from = row.len();
            row.push(cell);
            row.extend(std::iter::repeat_n(String::new(), columns - 1));
            if rows > 1 {
                table.remaining_row_spans.resize(table.remaining_row_spans.len().max(row.len()), 0);
                table.remaining_row_spans[from..row.len()].fill(rows - 1);
            }
        }
    }

    pub(super) fn close_table(&mut self) -> Result<(), IngestFailure> {
        self.close_cell(1);
        let Some(table) = self.tables.pop() else { return Ok(()) };
        let used = table.rows.iter().flatten().filter(|cell| !cell.is_empty()).count();
        let width = table.rows.iter().map(Vec::len).max().unwrap_or(0);
        // A table with one cell or column is a frame around paragraphs. A table inside a cell is written as plain text.
        if used <= 1 || width <= 1 || !self.tables.is_empty() {
            for words in table.rows.iter().flatten().flat_map(|cell| cell.lines()) {
                self.add_paragraph(ParagraphRole::Body, words)?;
            }
            return Ok(());
        }
        self.writer.write_table(&table.rows)
    }

    pub(super) fn finish(mut self, format: FileFormat) -> Result<ExtractedText, IngestFailure> {
        while !self.tables.is_empty() {
            self.close_table()?;
        }
        Ok(self.writer.finish(format))
    }
}
