//! Reads comma-separated values as a table.

use super::super::markdown_writer::MarkdownWriter;
use super::super::{ExtractedText, FileFormat, IngestFailure, IngestFailureKind, ReadLimits};
use super::decode_text;

/// Reads values separated by comma, tab, semicolon or bar, whichever the first lines use most.
pub(in super::super) fn read_csv(bytes: &[u8], limits: &ReadLimits) -> Result<ExtractedText, IngestFailure> {
    let text = decode_text(bytes, None)
        .ok_or_else(|| IngestFailure::new(IngestFailureKind::Unsupported, "text in an unknown encoding"))?;
    let head: String = text.lines().take(10).collect::<Vec<_>>().join("\n");
    let count = |mark: char| head.matches(mark).count();
    let mark = [',', '\t', ';', '|'].into_iter().rev().max_by_key(|mark| count(*mark)).unwrap_or(',');
    let mut writer = MarkdownWriter::new(limits);
    writer.write_table(&parse_rows(&text, mark))?;
    Ok(writer.finish(FileFormat::Csv))
}

fn parse_rows(text: &str, mark: char) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.peek() == Some(&'"') => {
                cell.push('"');
                chars.next();
            }
            '"' if quoted => quoted = false,
            '"' if cell.is_empty() => quoted = true,
            '\n' | '\r' if !quoted => {
                if char == '\r' && chars.peek() == Some(&'\n') {
                    chars.next();
                }
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            char if char == mark && !quoted => row.push(std::mem::take(&mut cell)),
            char => cell.push(char),
        }
    }
    row.push(cell);
    rows.push(row);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_commas_and_line_ends_stay_in_their_cell() {
        let read = |text: &str| read_csv(text.as_bytes(), &ReadLimits::default()).expect("csv").text;
        assert_eq!(
            read("이름,값\r\n\"가, 나\",\"1\"\"2\n3\"\r\n"),
            "| 이름 | 값 |\n| --- | --- |\n| 가, 나 | 1\"2 3 |"
        );
        assert_eq!(read("a;b\n1,5;2"), "| a | b |\n| --- | --- |\n| 1,5 | 2 |");
        assert_eq!(read("a\tb"), "| a | b |\n| --- | --- |");
    }
}
