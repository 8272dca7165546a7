//! Parses the blocks of a Markdown text: headings, paragraphs, tables, fenced code.

use std::ops::Range;

use super::truncate_heading;

/// A block, as a byte range of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MarkdownBlock {
    Heading { level: usize, words: Range<usize> },
    Paragraph(Range<usize>),
    Table(Range<usize>),
    Code(Range<usize>),
}

/// Returns the blocks within a range. A heading line is a block, lines with bars are a table, and empty lines separate
/// paragraphs.
pub(super) fn parse_markdown_blocks(text: &str, within: Range<usize>) -> Vec<MarkdownBlock> {
    let mut found = MarkdownBlockCollector { blocks: Vec::new(), open: None };
    let mut start = within.start;
    let mut fence: Option<&str> = None;
    for line in text[within].split_inclusive('\n') {
        let words = line.trim();
        let begin = start + (line.len() - line.trim_start().len());
        let range = begin..begin + words.len();
        start += line.len();
        if let Some(mark) = fence {
            found.extend_or_open(MarkdownBlockKind::Code, range);
            if words.starts_with(mark) {
                fence = None;
                found.close();
            }
        } else if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| words.starts_with(mark)) {
            fence = Some(mark);
            found.close();
            found.extend_or_open(MarkdownBlockKind::Code, range);
        } else if words.is_empty() {
            found.close();
        } else if let Some((level, heading)) = parse_heading_line(words) {
            found.close();
            let whole = range.end - heading.len()..range.end;
            let words = whole.start..whole.start + truncate_heading(heading).len();
            let cut = words != whole;
            found.blocks.push(MarkdownBlock::Heading { level, words });
            // A heading that does not fit into a title is also a passage, so that no word is lost.
            found.blocks.extend(cut.then_some(MarkdownBlock::Paragraph(whole)));
        } else if words.starts_with('|') {
            found.extend_or_open(MarkdownBlockKind::Table, range);
        } else {
            found.extend_or_open(MarkdownBlockKind::Paragraph, range);
        }
    }
    found.close();
    found.blocks
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MarkdownBlockKind {
    Paragraph,
    Table,
    Code,
}

struct MarkdownBlockCollector {
    blocks: Vec<MarkdownBlock>,
    open: Option<(MarkdownBlockKind, Range<usize>)>,
}

impl MarkdownBlockCollector {
    fn extend_or_open(&mut self, kind: MarkdownBlockKind, line: Range<usize>) {
        match &mut self.open {
            Some((open, range)) if *open == kind => range.end = line.end.max(range.end),
            Some(_) => {
                self.close();
                self.open = Some((kind, line));
            }
            None => self.open = Some((kind, line)),
        }
    }

    fn close(&mut self) {
        self.blocks.extend(self.open.take().map(|(kind, range)| match kind {
            MarkdownBlockKind::Paragraph => MarkdownBlock::Paragraph(range),
            MarkdownBlockKind::Table => MarkdownBlock::Table(range),
            MarkdownBlockKind::Code => MarkdownBlock::Code(range),
        }));
    }
}

/// Returns the level and the text of a heading line.
pub(super) fn parse_heading_line(line: &str) -> Option<(usize, &str)> {
    let words = line.trim_start_matches('#');
    let level = line.len() - words.len();
    ((1..=6).contains(&level) && words.starts_with(' ')).then(|| (level, words.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_hides_headings_and_bars() {
        let text = "# 제목\n글\n| a |\n| - |\n```\n# not\n\n| no |\n```\n끝";
        let shown: Vec<String> = parse_markdown_blocks(text, 0..text.len())
            .into_iter()
            .map(|block| match block {
                MarkdownBlock::Heading { level, words } => format!("h{level} {}", &text[words]),
                MarkdownBlock::Paragraph(range) => format!("p {}", &text[range]),
                MarkdownBlock::Table(range) => format!("t {}", text[range].replace('\n', "/")),
                MarkdownBlock::Code(range) => format!("c {}", text[range].replace('\n', "/")),
            })
            .collect();
        assert_eq!(shown, ["h1 제목", "p 글", "t | a |/| - |", "c ```/# not//| no |/```", "p 끝"]);
    }
}
