//! The blocks of a Markdown text: headings, paragraphs, tables, fenced code.

use std::ops::Range;

use super::short;

/// A block, as bytes of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    Heading { level: usize, words: Range<usize> },
    Paragraph(Range<usize>),
    Table(Range<usize>),
    Code(Range<usize>),
}

/// The blocks within a range: a heading line stands alone, lines with bars are a table, empty lines part the rest.
pub(super) fn blocks(text: &str, within: Range<usize>) -> Vec<Block> {
    let mut found = Found { blocks: Vec::new(), open: None };
    let mut start = within.start;
    let mut fence: Option<&str> = None;
    for line in text[within].split_inclusive('\n') {
        let words = line.trim();
        let begin = start + (line.len() - line.trim_start().len());
        let range = begin..begin + words.len();
        start += line.len();
        if let Some(mark) = fence {
            found.join(Kind::Code, range);
            if words.starts_with(mark) {
                fence = None;
                found.close();
            }
        } else if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| words.starts_with(mark)) {
            fence = Some(mark);
            found.close();
            found.join(Kind::Code, range);
        } else if words.is_empty() {
            found.close();
        } else if let Some((level, heading)) = heading(words) {
            found.close();
            let whole = range.end - heading.len()..range.end;
            let words = whole.start..whole.start + short(heading).len();
            let cut = words != whole;
            found.blocks.push(Block::Heading { level, words });
            // No word is lost: what does not fit into a title is a passage.
            found.blocks.extend(cut.then_some(Block::Paragraph(whole)));
        } else if words.starts_with('|') {
            found.join(Kind::Table, range);
        } else {
            found.join(Kind::Paragraph, range);
        }
    }
    found.close();
    found.blocks
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Paragraph,
    Table,
    Code,
}

struct Found {
    blocks: Vec<Block>,
    open: Option<(Kind, Range<usize>)>,
}

impl Found {
    fn join(&mut self, kind: Kind, line: Range<usize>) {
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
            Kind::Paragraph => Block::Paragraph(range),
            Kind::Table => Block::Table(range),
            Kind::Code => Block::Code(range),
        }));
    }
}

/// The level and the words of a heading line.
pub(super) fn heading(line: &str) -> Option<(usize, &str)> {
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
        let shown: Vec<String> = blocks(text, 0..text.len())
            .into_iter()
            .map(|block| match block {
                Block::Heading { level, words } => format!("h{level} {}", &text[words]),
                Block::Paragraph(range) => format!("p {}", &text[range]),
                Block::Table(range) => format!("t {}", text[range].replace('\n', "/")),
                Block::Code(range) => format!("c {}", text[range].replace('\n', "/")),
            })
            .collect();
        assert_eq!(shown, ["h1 제목", "p 글", "t | a |/| - |", "c ```/# not//| no |/```", "p 끝"]);
    }
}
