//! Reads web pages. Tokens are read in order, without building a tree that could grow deep. Headings, paragraphs, lists
//! and tables are kept; scripts, styles, comments and the head are not. Hidden elements are kept, because tabs and
//! folds hide their content until they are opened.

use std::cell::RefCell;

use encoding_rs::Encoding;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

use super::super::document_text_builder::{DocumentTextBuilder, ParagraphRole};
use super::super::{ExtractedText, FileFormat, IngestFailure, IngestFailureKind, ReadLimits};
use super::decode_text;

/// Reads a web page.
pub(in super::super) fn read_html(bytes: &[u8], limits: &ReadLimits) -> Result<ExtractedText, IngestFailure> {
    let text = decode_text(bytes, declared_encoding(bytes))
        .ok_or_else(|| IngestFailure::new(IngestFailureKind::Unsupported, "a page in an unknown encoding"))?;
    let sink = HtmlTokenSink(RefCell::new(HtmlPageReader {
        out: DocumentTextBuilder::new(limits),
        words: String::new(),
        role: ParagraphRole::Body,
        skipped: Vec::new(),
        lists: Vec::new(),
        in_title: false,
        pre: 0,
        failed: None,
    }));
    let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from(text.as_str()));
    while !matches!(tokenizer.feed(&queue), html5ever::TokenizerResult::Done) {}
    tokenizer.end();
    let mut page = tokenizer.sink.0.into_inner();
    page.finish();
    match page.failed {
        Some(failure) => Err(failure),
        None => page.out.finish(FileFormat::Html),
    }
}

/// Returns the encoding that a page declares.
fn declared_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(2048)]).to_ascii_lowercase();
    let after = head.split("charset=").nth(1)?.trim_start_matches(['"', '\'']);
    let label: String =
        after.chars().take_while(|char| char.is_ascii_alphanumeric() || "-_".contains(*char)).collect();
    Encoding::for_label(label.as_bytes())
}

struct HtmlTokenSink(RefCell<HtmlPageReader>);

struct HtmlPageReader {
    out: DocumentTextBuilder,
    words: String,
    role: ParagraphRole,
    /// The open elements that are skipped, outermost first.
    skipped: Vec<String>,
    /// The open lists: `None` for bullets, otherwise the next number.
    lists: Vec<Option<u32>>,
    in_title: bool,
    pre: usize,
    failed: Option<IngestFailure>,
}

impl TokenSink for HtmlTokenSink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut page = self.0.borrow_mut();
        if page.failed.is_some() {
            return TokenSinkResult::Continue;
        }
        match token {
            Token::TagToken(tag) => return page.on_tag(&tag),
            Token::CharacterTokens(words) => page.on_text(&words),
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }
}

impl HtmlPageReader {
    fn on_text(&mut self, words: &str) {
        if !self.in_title && !words.trim().is_empty() {
            self.leave_head();
        }
        if self.in_title {
            self.words.push_str(words);
        } else if !self.skipped.is_empty() {
            // Skipped.
        } else if self.pre > 0 {
            self.words.push_str(words);
        } else {
            for char in words.chars() {
                match char.is_whitespace() {
                    true if self.words.is_empty() || self.words.ends_with([' ', '\n']) => {}
                    true => self.words.push(' '),
                    false => self.words.push(char),
                }
            }
        }
    }

    fn on_tag(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        let start = tag.kind == TagKind::StartTag;
        if name == "title" && self.skipped.iter().all(|skipped| skipped != "svg") {
            if !start && self.in_title {
                let title = std::mem::take(&mut self.words);
                self.out.writer.set_title(&title);
            }
            self.in_title = start;
            return if start { TokenSinkResult::RawData(RawKind::Rcdata) } else { TokenSinkResult::Continue };
        }
        if start && !is_head_element(name) {
            self.leave_head();
        }
        if matches!(name, "script" | "style" | "noscript" | "template" | "svg" | "head" | "iframe" | "object")
        {
            if start && !tag.self_closing {
                self.skipped.push(name.to_owned());
            } else if let Some(at) = self.skipped.iter().rposition(|skipped| skipped == name) {
                self.skipped.truncate(at);
            }
            return match name {
                "script" if start => TokenSinkResult::RawData(RawKind::ScriptData),
                "style" | "noscript" | "iframe" if start => TokenSinkResult::RawData(RawKind::Rawtext),
                _ => TokenSinkResult::Continue,
            };
        }
        if name == "body" {
            self.skipped.clear();
        }
        if !self.skipped.is_empty() {
            return TokenSinkResult::Continue;
        }
        let done = match (name, start) {
            ("br", _) => {
                self.words.push('\n');
                Ok(())
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", true) => {
                self.start_block(ParagraphRole::Heading(usize::from(name.as_bytes()[1] - b'0')))
            }
            ("ul", true) => {
                let done = self.start_block(ParagraphRole::Body);
                self.lists.push(None);
                done
            }
            ("ol", true) => {
                let done = self.start_block(ParagraphRole::Body);
                self.lists.push(Some(1));
                done
            }
            ("ul" | "ol", false) => {
                let done = self.start_block(ParagraphRole::Body);
                self.lists.pop();
                done
            }
            ("li", true) => self.start_list_item(),
            ("table", true) => self.start_block(ParagraphRole::Body).and_then(|()| self.out.open_table()),
            ("tr", start) => {
                let done = self.start_block(ParagraphRole::Body);
                self.out.close_cell(1);
                if start {
                    self.out.start_row();
                }
                done
            }
            ("td" | "th", true) => {
                let done = self.start_block(ParagraphRole::Body);
                self.out.close_cell(1);
                self.out.open_cell(None);
                self.out.set_cell_span(number_attribute(tag, "colspan"), number_attribute(tag, "rowspan"));
                done
            }
            ("td" | "th", false) => {
                let done = self.start_block(ParagraphRole::Body);
                self.out.close_cell(1);
                done
            }
            ("table", false) => self.start_block(ParagraphRole::Body).and_then(|()| self.out.close_table()),
            ("pre", _) => {
                let done = self.start_block(ParagraphRole::Body);
                self.pre = if start { self.pre + 1 } else { self.pre.saturating_sub(1) };
                done
            }
            (name, _) if is_block_element(name) => self.start_block(ParagraphRole::Body),
            _ => Ok(()),
        };
        self.failed = done.err();
        TokenSinkResult::Continue
    }

    /// Ends the head at the first element that cannot be inside it: `</head>` and `<body>` are optional.
    fn leave_head(&mut self) {
        if self.skipped.last().is_some_and(|skipped| skipped == "head") {
            self.skipped.pop();
        }
    }

    /// Writes the text so far and starts a block.
    fn start_block(&mut self, next: ParagraphRole) -> Result<(), IngestFailure> {
        let words = std::mem::take(&mut self.words);
        let role = std::mem::replace(&mut self.role, next);
        self.out.add_paragraph(role, &words)
    }

    fn start_list_item(&mut self) -> Result<(), IngestFailure> {
        self.start_block(ParagraphRole::Item)?;
        let indent = "  ".repeat(self.lists.len().saturating_sub(1).min(10));
        match self.lists.last_mut() {
            Some(Some(number)) => {
                self.words = format!("{indent}{number}. ");
                *number += 1;
            }
            Some(None) | None => self.words = format!("{indent}- "),
        }
        Ok(())
    }

    fn finish(&mut self) {
        let done = self.start_block(ParagraphRole::Body);
        self.failed = self.failed.take().or(done.err());
    }
}

/// Returns a numeric attribute of a tag, or 1.
fn number_attribute(tag: &Tag, name: &str) -> usize {
    let attribute_found = tag.attrs.iter().find(|attribute| &*attribute.name.local == name);
    attribute_found.and_then(|attribute| attribute.value.trim().parse().ok()).unwrap_or(1)
}

/// Returns whether an element is metadata of the page and not part of its text.
fn is_head_element(name: &str) -> bool {
    const HEAD_ELEMENTS: [&str; 13] = [
        "base", "basefont", "bgsound", "head", "html", "link", "meta", "noframes", "noscript", "script",
        "style", "template", "title",
    ];
    HEAD_ELEMENTS.contains(&name)
}

fn is_block_element(name: &str) -> bool {
    const BLOCKS: [&str; 28] = [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "main",
        "nav",
        "section",
    ];
    BLOCKS.contains(&name) || matches!(name, "p" | "summary" | "li" | "option" | "select")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(page: &str, title: Option<&str>, text: &str) {
        let found = read_html(page.as_bytes(), &ReadLimits::default()).expect("html");
        assert_eq!((found.title.as_deref(), found.text.as_str()), (title, text));
    }

    #[test]
    fn a_page_becomes_markdown() {
        check(
            "<!DOCTYPE html><html><head><title>휴가 &amp; 근태</title><style>p{}</style></head><body><h1>휴가</h1><p>연차는\n <b>15일</b>이다.<br>반차도 있다.\
             <script>alert('<p>no')</script><ul><li>하나<li>둘<ol><li>안</ol></ul><table><tr><th>항목<th>값<tr><td>식비<td>4만</table>끝",
            Some("휴가 & 근태"),
            "# 휴가\n\n연차는 15일이다.\n반차도 있다.\n\n- 하나\n- 둘\n  1. 안\n\n| 항목 | 값 |\n| --- | --- |\n| 식비 | 4만 |\n\n끝",
        );
    }

    #[test]
    fn a_head_ends_where_the_words_begin() {
        let head =
            "<!doctype html><head><meta charset=utf-8><title>휴가</title><script>var p = '<p>no';</script>";
        for body in [
            "<p>연차는 15일",
            "<body><p>연차는 15일",
            "</head><p>연차는 15일",
            "\n연차는 <b>15일</b>",
            "<svg><title>그림</title><text>no</text></svg>연차는 15일",
            "<link rel=x><style>p{}</style><noscript><p>no</noscript><template><p>no</template>\n<p>연차는 15일",
        ] {
            check(&format!("{head}{body}"), Some("휴가"), "연차는 15일");
        }
    }

    #[test]
    fn a_cell_over_several_rows_or_columns_leaves_its_place_empty() {
        check(
            "<table><tr><th>구분<th>곳<th>금액<tr><td rowspan=2>식비<td>국내<td>4만<tr><td>해외<td>9만\
             <tr><td colspan='2'>합계<td>13만</table>",
            None,
            "| 구분 | 곳 | 금액 |\n| --- | --- | --- |\n| 식비 | 국내 | 4만 |\n|  | 해외 | 9만 |\n| 합계 |  | 13만 |",
        );
    }

    #[test]
    fn a_page_may_say_its_encoding() {
        let bytes = encoding_rs::EUC_KR.encode("<html><meta charset='euc-kr'><p>안녕").0.into_owned();
        assert_eq!(read_html(&bytes, &ReadLimits::default()).expect("html").text, "안녕");
    }

    #[test]
    fn depth_costs_nothing() {
        let found = read_html("<div>".repeat(200_000).as_bytes(), &ReadLimits::default()).expect("html");
        assert_eq!(found.text, "");
        let tables = read_html("<table><tr><td>".repeat(200).as_bytes(), &ReadLimits::default());
        assert_eq!(tables.map_err(|failure| failure.kind), Err(IngestFailureKind::TooLarge));
    }
}
