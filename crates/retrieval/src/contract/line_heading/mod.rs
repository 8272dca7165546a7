//! Classifies a line of a contract: whether it begins a chapter, an article, an appendix or the closing statement.

use std::ops::Range;

use super::numeral::{
    parse_circled_number, parse_digits, parse_digits_or_hanja, parse_numeral, parse_roman_numeral,
};
use crate::language::is_hangul_syllable;
use crate::passage::ArticleNumber;

/// The maximum size of a title, or of a line that is only a heading.
const MAX_HEADING_BYTES: usize = 160;

/// The kind of a line. Ranges are byte ranges of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ContractLine {
    Chapter { number: u32, title: Range<usize> },
    Article { number: ArticleNumber, title: Option<Range<usize>>, body: usize, is_certain: bool },
    Appendix { label: Range<usize>, title: Range<usize> },
    Closing,
    Other,
}

/// How a contract numbers its articles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArticleNumberingStyle {
    /// 제1조
    Korean,
    /// Article 1
    Article,
    /// Section 1
    Section,
    /// 1. Term
    Numbered,
}

/// Returns where the text of a line begins, after whitespace and the marks of headings, lists, quotes and emphasis.
pub(super) fn heading_text_start(line: &str) -> usize {
    let rest = line.trim_start_matches(|char: char| char.is_whitespace() || "#*>_\u{feff}".contains(char));
    line.len() - rest.len()
}

/// Classifies a line of a contract with this numbering style.
pub(super) fn classify_line(line: &str, style: ArticleNumberingStyle) -> ContractLine {
    let start = heading_text_start(line);
    let words = &line[start..];
    if words.is_empty() {
        return ContractLine::Other;
    }
    let shifted = match style {
        ArticleNumberingStyle::Korean => {
            parse_chapter_heading(words).or_else(|| parse_korean_article_heading(words))
        }
        ArticleNumberingStyle::Article => parse_english_article_heading(words, "article"),
        ArticleNumberingStyle::Section => parse_english_article_heading(words, "section"),
        ArticleNumberingStyle::Numbered => parse_numbered_article_heading(words),
    };
    let line = shifted
        .or_else(|| parse_appendix_heading(words))
        .or_else(|| is_closing_statement(words).then_some(ContractLine::Closing));
    line.map_or(ContractLine::Other, |line| shift_ranges(line, start))
}

fn shift_ranges(line: ContractLine, by: usize) -> ContractLine {
    let moved = |range: Range<usize>| range.start + by..range.end + by;
    match line {
        ContractLine::Chapter { number, title } => ContractLine::Chapter { number, title: moved(title) },
        ContractLine::Article { number, title, body, is_certain: sure } => {
            ContractLine::Article { number, title: title.map(moved), body: body + by, is_certain: sure }
        }
        ContractLine::Appendix { label, title } => {
            ContractLine::Appendix { label: moved(label), title: moved(title) }
        }
        ContractLine::Closing | ContractLine::Other => line,
    }
}

fn parse_chapter_heading(words: &str) -> Option<ContractLine> {
    let mut at = 0;
    let number = parse_ordinal(words, &mut at)?;
    let after = words[at..].strip_prefix('장').or_else(|| words[at..].strip_prefix('章'))?;
    let title = after.trim_matches(is_heading_punctuation);
    let heading =
        after.is_empty() || after.starts_with(|char: char| char.is_whitespace() || is_opening_bracket(char));
    if !heading || words.len() > MAX_HEADING_BYTES || ends_sentence(words) || is_table_of_contents_line(words)
    {
        return None;
    }
    Some(ContractLine::Chapter { number, title: subslice_range(words, title) })
}

/// Parses `제 5 `, up to the unit.
fn parse_ordinal(words: &str, at: &mut usize) -> Option<u32> {
    let after = words.strip_prefix('제').or_else(|| words.strip_prefix('第'))?;
    let after = after.trim_start_matches([' ', '\u{a0}', '\u{3000}']);
    let (number, length) = parse_numeral(after)?;
    let rest = after[length..].trim_start_matches([' ', '\u{a0}', '\u{3000}']);
    *at = words.len() - rest.len();
    Some(number)
}

fn parse_korean_article_heading(words: &str) -> Option<ContractLine> {
    let mut at = 0;
    let number = parse_ordinal(words, &mut at)?;
    let mut rest = words[at..].strip_prefix('조').or_else(|| words[at..].strip_prefix('條'))?;
    let mut branch = 0;
    if let Some(after) = rest.trim_start().strip_prefix('의')
        && let Some((value, length)) = parse_digits_or_hanja(after.trim_start())
    {
        branch = value;
        rest = &after.trim_start()[length..];
    }
    let number = ArticleNumber { number, branch };
    if is_table_of_contents_line(words) {
        return None;
    }
    let tail = rest.trim_start_matches(|char: char| char.is_whitespace() || "*_".contains(char));
    let tight = tail.len() == rest.len();
    if let Some((title, after)) = split_bracketed_title(tail) {
        if continues_with_particle(after) || is_followed_by_list_word(after) {
            return None;
        }
        let body = words.len()
            - after.trim_start_matches(|char: char| char.is_whitespace() || "*_:.|".contains(char)).len();
        // `제5조(목적) 제2항에 따른` is a reference, unless this article is the next one.
        let sure = !is_followed_by_clause_reference(after);
        return Some(ContractLine::Article {
            number,
            title: Some(subslice_range(words, title)),
            body,
            is_certain: sure,
        });
    }
    if tail.is_empty() {
        return Some(ContractLine::Article { number, title: None, body: words.len(), is_certain: true });
    }
    if let Some(cells) = tail.strip_prefix('|') {
        let body = words.len() - cells.trim_start().len();
        return Some(ContractLine::Article { number, title: None, body, is_certain: true });
    }
    // `제5조에 따라` continues with a particle; a heading is followed by a space, a dot or a circled number.
    let parted = !tight
        || tail.starts_with(|char: char| ".:-–·".contains(char) || parse_circled_number(char).is_some());
    if !parted
        || is_followed_by_list_word(tail)
        || is_followed_by_clause_reference(tail)
        || strip_ordinal(tail).is_some_and(|rest| rest.starts_with('조'))
    {
        return None;
    }
    let tail = tail.trim_start_matches(|char: char| ".:-–· ".contains(char));
    if tail.len() <= MAX_HEADING_BYTES / 2
        && !ends_sentence(tail)
        && !tail.starts_with(|char| parse_circled_number(char).is_some())
    {
        let title = tail.trim_matches(is_heading_punctuation);
        return Some(ContractLine::Article {
            number,
            title: Some(subslice_range(words, title)),
            body: words.len(),
            is_certain: false,
        });
    }
    Some(ContractLine::Article { number, title: None, body: words.len() - tail.len(), is_certain: false })
}

/// Returns whether the text right after an article's title makes it a reference: `제5조(목적)에 따라`. The text of the
/// article may begin there too, with a word whose first syllable is a particle: `제5조(의무)을은`, `제6조(대금)가격은`.
fn continues_with_particle(after: &str) -> bool {
    const PARTICLES: [&str; 14] =
        ["의", "을", "를", "와", "과", "은", "는", "가", "이", "로", "와의", "과의", "만", "도"];
    const PARTICLE_PREFIXES: [&str; 8] = ["에", "으로", "로서", "로써", "까지", "부터", "및", "또는"];
    let length = after.find(|char: char| !is_hangul_syllable(char)).unwrap_or(after.len());
    let word = &after[..length];
    PARTICLES.contains(&word) || PARTICLE_PREFIXES.iter().any(|start| word.starts_with(start))
}

/// Returns whether the text after an article makes it part of a list of references: `제5조 및 제6조`, `제5조 의 규정`.
fn is_followed_by_list_word(after: &str) -> bool {
    const WORDS: [&str; 9] = ["및 ", "또는 ", "내지 ", "부터 ", "에 ", "의 ", "를 ", "는 ", "~"];
    let rest = after.trim_start();
    rest.starts_with(',') || WORDS.iter().any(|word| rest.starts_with(word))
}

/// Returns whether the text after an article names a part of it: `제2항에 따른`, `각 호의`.
fn is_followed_by_clause_reference(after: &str) -> bool {
    let rest = after.trim_start();
    strip_ordinal(rest).is_some_and(|rest| rest.starts_with(['항', '호']))
        || rest.starts_with("각 호")
        || rest.starts_with("각호")
}

/// Returns the text after `제2` at the start of a text.
fn strip_ordinal(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('제')?.trim_start();
    parse_digits_or_hanja(rest).map(|(_, length)| rest[length..].trim_start())
}

fn parse_english_article_heading(words: &str, word: &str) -> Option<ContractLine> {
    let rest = words
        .get(..word.len())
        .filter(|head| head.eq_ignore_ascii_case(word))
        .map(|_| &words[word.len()..])?;
    let after = rest.trim_start_matches([' ', '\u{a0}']);
    if after.len() == rest.len() || is_table_of_contents_line(words) {
        return None;
    }
    let (number, length) = parse_digits(after).or_else(|| {
        let length = after.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(after.len());
        parse_roman_numeral(&after[..length]).map(|value| (value, length))
    })?;
    let tail = &after[length..];
    // `Section 5.2` is a clause, `Article 5 of the Act` a reference.
    if tail.strip_prefix('.').is_some_and(|tail| tail.starts_with(|char: char| char.is_ascii_digit())) {
        return None;
    }
    parse_english_heading(words, tail, ArticleNumber { number, branch: 0 })
}

fn parse_numbered_article_heading(words: &str) -> Option<ContractLine> {
    let (number, length) = parse_digits(words)?;
    let tail = words[length..].strip_prefix('.')?;
    if !tail.starts_with([' ', '\t', '\u{a0}']) || is_table_of_contents_line(words) {
        return None;
    }
    let line = parse_english_heading(words, tail, ArticleNumber { number, branch: 0 })?;
    matches!(line, ContractLine::Article { title: Some(_), .. }).then_some(line)
}

fn parse_english_heading(words: &str, tail: &str, number: ArticleNumber) -> Option<ContractLine> {
    let rest = tail.trim_start_matches(|char: char| char.is_whitespace() || ".:-–—*_".contains(char));
    if rest.is_empty() {
        return Some(ContractLine::Article { number, title: None, body: words.len(), is_certain: true });
    }
    if rest.starts_with(|char: char| char.is_lowercase() || char == ',' || char == ';') {
        return None;
    }
    let stop = rest.find(['.', ':', ';']).unwrap_or(rest.len());
    let title = rest[..stop].trim_matches(is_heading_punctuation);
    let is_title = !title.is_empty() && title.len() <= 80 && title.split_whitespace().count() <= 10;
    if !is_title || split_bracketed_title(rest).is_some() {
        let body = words.len() - rest.len();
        return Some(ContractLine::Article { number, title: None, body, is_certain: false });
    }
    let after = rest[stop..].trim_start_matches(|char: char| char.is_whitespace() || ".:;*_".contains(char));
    Some(ContractLine::Article {
        number,
        title: Some(subslice_range(words, title)),
        body: words.len() - after.len(),
        is_certain: true,
    })
}

fn parse_appendix_heading(words: &str) -> Option<ContractLine> {
    const KOREAN: [&str; 6] = ["별지", "별표", "별첨", "붙임", "부속서", "첨부"];
    const SPECIAL: [&str; 5] = ["특약사항", "특약", "특기사항", "특별약관", "특수조건"];
    const ENGLISH: [&str; 5] = ["appendix", "exhibit", "schedule", "annex", "attachment"];
    if words.len() > MAX_HEADING_BYTES || ends_sentence(words) || is_table_of_contents_line(words) {
        return None;
    }
    let inner = words.trim_start_matches(|char: char| is_opening_bracket(char) || char.is_whitespace());
    let opened = inner.len() < words.len();
    let alone = inner.trim_end_matches(|char: char| is_heading_punctuation(char) || is_closing_bracket(char));
    if alone.len() <= 40 && SPECIAL.contains(&alone.split_whitespace().collect::<String>().as_str()) {
        return Some(appendix_line(words, inner, alone.len(), ""));
    }
    let squeezed: String = inner.chars().filter(|char| !char.is_whitespace()).take(3).collect();
    if squeezed.starts_with("부칙") {
        let length = inner.find('칙')? + '칙'.len_utf8();
        let after = &inner[length..];
        let heading = after.is_empty()
            || after.starts_with(|char: char| {
                char.is_whitespace() || is_opening_bracket(char) || is_closing_bracket(char)
            });
        return heading.then(|| appendix_line(words, inner, length, after));
    }
    let english = ENGLISH
        .iter()
        .find(|word| inner.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word)));
    if let Some(word) = KOREAN.iter().find(|word| inner.starts_with(**word)) {
        let length = word.len() + korean_appendix_label_len(&inner[word.len()..]);
        let after = &inner[length..];
        let free = after.is_empty()
            || after.starts_with(|char: char| {
                char.is_whitespace() || is_closing_bracket(char) || ".:-".contains(char)
            });
        let numbered = length > word.len();
        let closed = after.trim_start_matches(is_closing_bracket);
        let mention = opened && closed.starts_with(is_hangul_syllable);
        return (free && !mention && (numbered || opened || after.is_empty()))
            .then(|| appendix_line(words, inner, length, after));
    }
    let word = english?;
    let rest = &inner[word.len()..];
    let label = rest.trim_start();
    let letters = label.find(|char: char| !char.is_alphanumeric()).unwrap_or(label.len());
    let capital = inner.starts_with(|char: char| char.is_uppercase());
    if !capital
        || letters == 0
        || letters > 4
        || label.len() == rest.len()
        || label.starts_with(char::is_lowercase)
    {
        return None;
    }
    let length = inner.len() - label.len() + letters;
    let after = &inner[length..];
    let free = after.is_empty() || after.trim_start().starts_with(|char: char| !char.is_lowercase());
    free.then(|| appendix_line(words, inner, length, after))
}

/// Returns how much of ` 제1호 서식` after 별지 belongs to its label.
fn korean_appendix_label_len(rest: &str) -> usize {
    let mut tail = rest.trim_start_matches([' ', '\u{a0}']);
    tail = tail.strip_prefix('제').unwrap_or(tail).trim_start();
    let Some((_, length)) = parse_digits(tail) else { return 0 };
    tail = &tail[length..];
    tail = tail.strip_prefix('호').unwrap_or(tail);
    if let Some(after) =
        tail.strip_prefix("의").and_then(|after| parse_digits(after).map(|(_, n)| &after[n..]))
    {
        tail = after;
    }
    let form = tail.trim_start().strip_prefix("서식");
    rest.len() - form.unwrap_or(tail).len()
}

fn appendix_line(words: &str, inner: &str, length: usize, after: &str) -> ContractLine {
    let label = subslice_range(words, &inner[..length]);
    let title = after.trim_matches(|char: char| is_heading_punctuation(char) || is_closing_bracket(char));
    ContractLine::Appendix { label, title: subslice_range(words, title) }
}

/// Returns whether a line is the closing statement after the last article, before the signatures.
fn is_closing_statement(words: &str) -> bool {
    const WORDS: [&str; 9] = [
        "이 계약을 증명하기",
        "본 계약을 증명하기",
        "이 계약의 성립을 증명",
        "본 계약의 성립을 증명",
        "이상의 계약을 증명",
        "위와 같이 계약을 체결",
        "계약 당사자는 본 계약서",
        "IN WITNESS WHEREOF",
        "In witness whereof",
    ];
    WORDS.iter().any(|start| words.starts_with(start))
}

fn split_bracketed_title(text: &str) -> Option<(&str, &str)> {
    const PAIRS: [(char, char); 10] = [
        ('(', ')'),
        ('（', '）'),
        ('【', '】'),
        ('[', ']'),
        ('［', '］'),
        ('〔', '〕'),
        ('〈', '〉'),
        ('<', '>'),
        ('《', '》'),
        ('「', '」'),
    ];
    let open = text.chars().next()?;
    let (_, close) = PAIRS.iter().find(|(left, _)| *left == open)?;
    let inner = &text[open.len_utf8()..];
    let mut depth = 0;
    for (at, char) in inner.char_indices().take_while(|(at, _)| *at <= MAX_HEADING_BYTES) {
        if char == open {
            depth += 1;
        } else if char == *close && depth > 0 {
            depth -= 1;
        } else if char == *close {
            let title = inner[..at].trim();
            return (!title.is_empty()).then(|| (title, &inner[at + char.len_utf8()..]));
        }
    }
    None
}

fn is_opening_bracket(char: char) -> bool {
    "(（【[［〔〈<《「『".contains(char)
}

fn is_closing_bracket(char: char) -> bool {
    ")）】]］〕〉>》」』".contains(char)
}

fn is_heading_punctuation(char: char) -> bool {
    char.is_whitespace() || "*_:.-–—#".contains(char)
}

fn ends_sentence(words: &str) -> bool {
    let words = words.trim_end_matches(|char: char| char.is_whitespace() || "*_".contains(char));
    words.ends_with("다.") || words.ends_with("다") && words.len() > 60 || words.ends_with(';')
}

/// Returns whether a line belongs to a table of contents: dots or a tab, then the page number.
fn is_table_of_contents_line(words: &str) -> bool {
    let bare = words.trim_end().trim_end_matches(|char: char| char.is_ascii_digit());
    let numbered = bare.len() < words.trim_end().len();
    let led =
        ["....", "· · ·", "····", "……", "‥‥", ". . ."].iter().any(|dots| bare.trim_end().ends_with(dots));
    numbered && (led || bare.ends_with('\t'))
}

fn subslice_range(outer: &str, inner: &str) -> Range<usize> {
    let start = (inner.as_ptr() as usize).saturating_sub(outer.as_ptr() as usize);
    start..start + inner.len()
}

#[cfg(test)]
mod tests;
