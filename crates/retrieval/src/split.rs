//! Cuts a document into passages: one a paragraph, each under its headings. Long paragraphs are cut between
//! sentences.

use std::ops::Range;

use crate::passage::{Document, Passage, PassageId};

/// The most bytes of a passage, about 400 Korean syllables: a few sentences, so that a citation points somewhere.
const MOST: usize = 1200;

/// The passages of a document, in order. Headings name the passages below them and are not passages themselves.
pub fn split(document: &Document) -> Vec<Passage> {
    let mut headings: Vec<(usize, &str)> = Vec::new();
    let mut passages = Vec::new();
    for block in blocks(&document.text) {
        let text = &document.text[block.clone()];
        if let Some((level, heading)) = heading(text) {
            headings.retain(|(above, _)| *above < level);
            headings.push((level, heading));
            continue;
        }
        for range in pieces(&document.text, block) {
            passages.push(passage(document, &headings, range));
        }
    }
    passages
}

fn passage(document: &Document, headings: &[(usize, &str)], range: Range<usize>) -> Passage {
    let mut title = vec![document.title.as_str()];
    // Many documents repeat their title as their first heading.
    title.extend(headings.iter().map(|(_, heading)| *heading).filter(|heading| *heading != document.title));
    Passage {
        id: PassageId::at(&document.id, range.start),
        document: document.id.clone(),
        version: document.version.clone(),
        kind: document.kind.clone(),
        title: title.join(" › "),
        text: document.text[range.clone()].to_owned(),
        range,
        page: None,
        article: None,
    }
}

/// Paragraphs and headings: a heading line stands alone, empty lines part the rest.
fn blocks(text: &str) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut open: Option<Range<usize>> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let words = line.trim();
        let begin = start + (line.len() - line.trim_start().len());
        let range = begin..begin + words.len();
        start += line.len();
        if words.is_empty() {
            blocks.extend(open.take());
        } else if heading(words).is_some() {
            blocks.extend(open.take());
            blocks.push(range);
        } else {
            open = Some(open.map_or(range.start, |paragraph| paragraph.start)..range.end);
        }
    }
    blocks.extend(open);
    blocks
}

fn heading(block: &str) -> Option<(usize, &str)> {
    let words = block.trim_start_matches('#');
    let level = block.len() - words.len();
    let is_heading = (1..=6).contains(&level) && words.starts_with(' ') && !block.contains('\n');
    is_heading.then(|| (level, words.trim()))
}

/// A paragraph whole if it is short, else cut after the last sentence, space or character that fits.
fn pieces(text: &str, block: Range<usize>) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut start = block.start;
    while block.end - start > MOST {
        let window = &text[start..text.floor_char_boundary(start + MOST)];
        let sentence = [". ", "! ", "? ", ".\n"].iter().filter_map(|end| window.rfind(end)).max();
        let cut =
            sentence.map(|at| at + 1).or_else(|| window.rfind(char::is_whitespace)).unwrap_or(window.len());
        let end = start + cut.max(1);
        pieces.push(start..end);
        let rest = &text[end..block.end];
        start = end + (rest.len() - rest.trim_start().len());
    }
    if start < block.end {
        pieces.push(start..block.end);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let document = Document::new("d", "규정", text);
        let passages = split(&document);
        for passage in &passages {
            assert_eq!(document.text[passage.range.clone()], passage.text, "a passage is its range");
        }
        let shown: Vec<String> = passages.iter().map(|p| format!("{} | {}", p.title, p.text)).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_paragraph_is_a_passage_under_its_headings() {
        check(
            "# 규정\n\n머리말\n이어짐\n## 휴가\n15일.\n\n반차.\r\n\r\n### 병가\n60일.\n## 경비\n영수증.",
            &[
                "규정 | 머리말\n이어짐",
                "규정 › 휴가 | 15일.",
                "규정 › 휴가 | 반차.",
                "규정 › 휴가 › 병가 | 60일.",
                "규정 › 경비 | 영수증.",
            ],
        );
        check("", &[]);
        check("#tag is no heading\n", &["규정 | #tag is no heading"]);
    }

    #[test]
    fn nothing_is_lost_when_a_long_paragraph_is_cut() {
        for text in ["가나다라 마바사. ".repeat(300), "x".repeat(5000), "한".repeat(3000), "한 ".repeat(2000)]
        {
            let document = Document::new("d", "t", text.clone());
            let passages = split(&document);
            assert!(
                passages.len() > 1 && passages.iter().all(|p| p.text.len() <= MOST && !p.text.is_empty())
            );
            let joined: String = passages.iter().map(|p| p.text.as_str()).collect();
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            assert_eq!(bare(&joined), bare(&text));
        }
    }
}
