//! Finds references in text: how people and contracts refer to an article, its clause and its item.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::numeral::{
    parse_circled_number, parse_digits, parse_digits_or_hanja, parse_numeral, parse_roman_numeral,
};
use crate::language::is_hangul_syllable;
use crate::passage::ArticleNumber;

/// The maximum number of articles that a range such as `제3조부터 제9조까지` counts up. It includes all that lie within it.
const MAX_COUNTED_ARTICLES: u32 = 64;

/// The appendix of rules whose articles are numbered from 1 again.
const SUPPLEMENTARY_PROVISIONS: &str = "부칙";

/// A reference to a part of a contract: `제5조 제2항 제1호`, `Section 5.2`, `제3조부터 제9조까지`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArticleReference {
    /// The article, or the first one of a range.
    pub article: ArticleNumber,
    /// The last article of a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<ArticleNumber>,
    /// The clause (항).
    pub clause: Option<u32>,
    /// The item (호).
    pub item: Option<u32>,
    /// The appendix with its own article numbers, if the article belongs to one: `부칙 제1조`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appendix: Option<String>,
    /// The statute it belongs to, if it is not an article of this text: `「민법」 제750조`.
    pub law: Option<String>,
    /// Its byte range in the text.
    pub range: Range<usize>,
}

impl ArticleReference {
    /// Parses a text that is nothing but a reference, in any spelling: `제 5 조`, `제십조의2`, `5조`, `第五條`, `제5조제2항`,
    /// `Article V`, `Section 5.2`, `5`, `제3조부터 제9조까지`.
    pub fn parse(text: &str) -> Option<Self> {
        let trimmed = text.trim().trim_matches(|char: char| "\"'“”‘’[]()<>".contains(char)).trim();
        if let [range @ Self { last: Some(_), .. }] = find_article_references(trimmed).as_slice()
            && range.range == (0..trimmed.len())
        {
            return Some(Self { range: 0..text.len(), ..range.clone() });
        }
        if let Some(inner) = trimmed
            .strip_prefix(SUPPLEMENTARY_PROVISIONS)
            .map(|rest| rest.trim_start_matches('의').trim_start())
            && inner.len() < trimmed.len()
            && !inner.starts_with(SUPPLEMENTARY_PROVISIONS)
        {
            let appendix = Some(SUPPLEMENTARY_PROVISIONS.to_owned());
            return Self::parse(inner).map(|inner| Self { appendix, range: 0..text.len(), ..inner });
        }
        let whole = |(reference, end): (Self, usize)| {
            trimmed[end..]
                .trim_matches(|char: char| char == '.' || char.is_whitespace())
                .is_empty()
                .then_some(reference)
        };
        let korean = parse_korean_reference(trimmed, 0, ReferenceContext::WholeText).and_then(whole);
        let found = korean
            .or_else(|| parse_english_reference(trimmed, 0).and_then(whole))
            .or_else(|| parse_bare_number(trimmed).and_then(whole));
        found.map(|reference| Self { range: 0..text.len(), ..reference })
    }

    /// Returns a reference to a whole article, which stands at this place.
    fn of_article(article: ArticleNumber, range: Range<usize>) -> Self {
        Self { article, last: None, clause: None, item: None, appendix: None, law: None, range }
    }

    /// Returns whether an article is the one that is meant, or lies within the range.
    pub fn includes(&self, article: ArticleNumber) -> bool {
        (self.article..=self.last.unwrap_or(self.article)).contains(&article)
    }

    /// Returns the articles that the reference counts up: of a range those without a branch, and its ends.
    pub fn counted_articles(&self) -> impl Iterator<Item = ArticleNumber> + use<> {
        let last = self.last.filter(|last| *last > self.article);
        let between = self.article.number + 1..last.map_or(0, |last| last.number);
        let between = between.map(|number| ArticleNumber { number, branch: 0 });
        std::iter::once(self.article).chain(between).chain(last).take(MAX_COUNTED_ARTICLES as usize)
    }
}

impl ArticleNumber {
    /// Parses an article number in any usual spelling. A clause and an item after it are ignored.
    pub fn parse(text: &str) -> Option<Self> {
        ArticleReference::parse(text).map(|reference| reference.article)
    }
}

impl fmt::Display for ArticleReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(appendix) = &self.appendix {
            write!(f, "{appendix} ")?;
        }
        write!(f, "{}", self.article)?;
        if let Some(last) = self.last {
            write!(f, "부터 {last}까지")?;
        }
        if let Some(clause) = self.clause {
            write!(f, " 제{clause}항")?;
        }
        if let Some(item) = self.item {
            write!(f, " 제{item}호")?;
        }
        Ok(())
    }
}

/// Returns the articles and ranges of articles that a text refers to, in order. Amounts such as `5조 원` are skipped.
/// References to articles of a named statute carry its name.
pub fn find_article_references(text: &str) -> Vec<ArticleReference> {
    let mut found: Vec<ArticleReference> = Vec::new();
    let mut at = 0;
    while let Some(char) = text[at..].chars().next() {
        let numbered = matches!(char, '제' | '第')
            || matches!(char, '0'..='9' | '０'..='９') && !continues_number(&text[..at]);
        if let Some((range, end)) = numbered.then(|| parse_article_range(text, at)).flatten() {
            found.push(range);
            at = end;
            continue;
        }
        let starts = match char {
            _ if numbered => parse_korean_reference(text, at, ReferenceContext::InSentence),
            'A' | 'a' | 'S' | 's' | 'C' | 'c' | '§' if !continues_word(&text[..at]) => {
                parse_english_reference(text, at)
            }
            _ => None,
        };
        let Some((mut reference, end)) = starts else {
            at += char.len_utf8();
            continue;
        };
        reference.law = statute_name_before(&text[..at]);
        reference.appendix = text[..at]
            .trim_end()
            .ends_with(SUPPLEMENTARY_PROVISIONS)
            .then(|| SUPPLEMENTARY_PROVISIONS.to_owned());
        at = end;
        match join_article_range(text, &mut found, &reference) {
            Some(end) => at = end,
            None => {
                found.push(reference);
                at = parse_more_clauses(text, at, &mut found);
            }
        }
    }
    found
}

/// Whether a reference must be the whole text or may be part of a sentence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReferenceContext {
    WholeText,
    InSentence,
}

/// Parses `제5조의2 제3항 제1호` at a position. Returns the reference and its end.
fn parse_korean_reference(
    text: &str,
    start: usize,
    spelling: ReferenceContext,
) -> Option<(ArticleReference, usize)> {
    let mut at = start;
    let ordinal = consume_any(text, &mut at, &["제", "第"]);
    skip_blanks(text, &mut at);
    let number = if ordinal || spelling == ReferenceContext::WholeText {
        parse_numeral(&text[at..])
    } else {
        parse_digits(&text[at..])
    };
    let (number, length) = number.filter(|(number, _)| *number > 0)?;
    let spelled = parse_digits(&text[at..]).is_none();
    at += length;
    let inner = parse_inner_branch_number(text, &mut at);
    skip_blanks(text, &mut at);
    if !consume_any(text, &mut at, &["조", "條", "条"]) {
        return None;
    }
    let after = &text[at..];
    if spelling == ReferenceContext::InSentence
        && (!ordinal && (is_money_amount(after) || !can_follow_article(after))
            || begins_other_word(after, spelled))
    {
        return None;
    }
    let branch = if inner > 0 { inner } else { parse_branch_number(text, &mut at, spelling) };
    let clause =
        parse_numbered_part(text, &mut at, &["항", "項"]).or_else(|| parse_circled_clause(text, &mut at));
    let item = parse_numbered_part(text, &mut at, &["호", "號"]);
    let article = ArticleNumber { number, branch };
    Some((ArticleReference { clause, item, ..ArticleReference::of_article(article, start..at) }, at))
}

/// Parses `의2`. In a sentence `제5조의 이행` has no branch number, so Hangul numerals count only where nothing else can
/// follow.
fn parse_branch_number(text: &str, at: &mut usize, spelling: ReferenceContext) -> u32 {
    let mut after = *at;
    skip_blanks(text, &mut after);
    if !consume_any(text, &mut after, &["의", "之"]) {
        return 0;
    }
    let close = after;
    skip_blanks(text, &mut after);
    let found = match spelling {
        ReferenceContext::WholeText => parse_numeral(&text[after..]),
        ReferenceContext::InSentence => parse_digits_or_hanja(&text[after..]).or_else(|| {
            // `제10조의이 알려줘`: no space before it, and the end of its word.
            let ends = |length: usize| !text[after + length..].starts_with(is_hangul_syllable);
            parse_numeral(&text[after..]).filter(|(_, length)| after == close && ends(*length))
        }),
    };
    let Some((branch, length)) = found else { return 0 };
    let next = text[after + length..].trim_start();
    if next.starts_with(['항', '호', '項', '號']) {
        // `제5조의 2항` refers to a clause.
        *at = close;
        return 0;
    }
    // `제5조의 3개월` is a number of months.
    if next.starts_with("가지")
        || text[after + length..].starts_with(|char| "개년월일회명인원차배분".contains(char))
    {
        return 0;
    }
    *at = after + length;
    branch
}

/// Parses `-2` or `의2` between the number and 조, as in 제10-2조 and 10의2조. Returns 0 if there is none.
fn parse_inner_branch_number(text: &str, at: &mut usize) -> u32 {
    let mut after = *at;
    if !consume_any(text, &mut after, &["-", "‐", "–", "의", "之"]) {
        return 0;
    }
    skip_blanks(text, &mut after);
    let Some((branch, length)) = parse_digits(&text[after..]) else { return 0 };
    after += length;
    let mut sign = after;
    skip_blanks(text, &mut sign);
    if !consume_any(text, &mut sign, &["조", "條", "条"]) {
        return 0;
    }
    *at = after;
    branch
}

/// Parses a range such as `제3~5조` at a position. Returns it and its end.
fn parse_article_range(text: &str, start: usize) -> Option<(ArticleReference, usize)> {
    let mut at = start;
    let ordinal = consume_any(text, &mut at, &["제", "第"]);
    skip_blanks(text, &mut at);
    let (from, length) = parse_digits(&text[at..])?;
    at += length;
    skip_blanks(text, &mut at);
    if !consume_any(text, &mut at, &["~", "∼", "～"]) {
        return None;
    }
    skip_blanks(text, &mut at);
    let (to, length) = parse_digits(&text[at..])?;
    at += length;
    skip_blanks(text, &mut at);
    if !consume_any(text, &mut at, &["조", "條", "条"]) || from >= to {
        return None;
    }
    let after = &text[at..];
    if !ordinal && (is_money_amount(after) || !can_follow_article(after)) || begins_other_word(after, false) {
        return None;
    }
    let number = |number| ArticleNumber { number, branch: 0 };
    let range = ArticleReference {
        last: Some(number(to)),
        law: statute_name_before(&text[..start]),
        ..ArticleReference::of_article(number(from), start..at)
    };
    Some((range, at))
}

/// Parses ` 제2항`, with or without 제 and spaces.
fn parse_numbered_part(text: &str, at: &mut usize, units: &[&str]) -> Option<u32> {
    let mut after = *at;
    skip_blanks(text, &mut after);
    let ordinal = consume_any(text, &mut after, &["제", "第"]);
    skip_blanks(text, &mut after);
    let (number, length) =
        if ordinal { parse_numeral(&text[after..]) } else { parse_digits(&text[after..]) }?;
    after += length;
    skip_blanks(text, &mut after);
    if !consume_any(text, &mut after, units) {
        return None;
    }
    *at = after;
    Some(number)
}

fn parse_circled_clause(text: &str, at: &mut usize) -> Option<u32> {
    let mut after = *at;
    skip_blanks(text, &mut after);
    let char = text[after..].chars().next()?;
    let number = parse_circled_number(char)?;
    *at = after + char.len_utf8();
    Some(number)
}

/// Parses `Article V`, `Section 5.2`, `§ 5` or `Clause 5.2(a)` at a position.
fn parse_english_reference(text: &str, start: usize) -> Option<(ArticleReference, usize)> {
    const WORDS: [&str; 8] =
        ["articles", "article", "art.", "sections", "section", "sec.", "clauses", "clause"];
    let mut at = start;
    let rest = &text[at..];
    if rest.starts_with('§') {
        at += '§'.len_utf8();
    } else {
        let word = WORDS
            .iter()
            .find(|word| rest.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word)))?;
        at += word.len();
        if !word.ends_with('.') && !text[at..].starts_with([' ', '\u{a0}']) {
            return None;
        }
    }
    skip_blanks(text, &mut at);
    let (number, length) = parse_digits(&text[at..]).or_else(|| {
        let length = text[at..].find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(text.len() - at);
        parse_roman_numeral(&text[at..at + length]).map(|value| (value, length))
    })?;
    at += length;
    if number == 0 || text[at..].starts_with(|char: char| char.is_ascii_alphanumeric()) {
        return None;
    }
    let clause = text[at..].strip_prefix('.').and_then(parse_digits).map(|(clause, length)| {
        at += 1 + length;
        clause
    });
    // `Article 10(2)`, but not `Section 5(a)`.
    let bracketed = text[at..]
        .strip_prefix('(')
        .and_then(parse_digits)
        .filter(|(_, length)| clause.is_none() && text[at + 1 + length..].starts_with(')'));
    at += bracketed.map_or(0, |(_, length)| length + 2);
    let clause = clause.or(bracketed.map(|(clause, _)| clause));
    let article = ArticleNumber { number, branch: 0 };
    Some((ArticleReference { clause, ..ArticleReference::of_article(article, start..at) }, at))
}

/// Parses `5` or `5.2`, which is a reference only if it is the whole text.
fn parse_bare_number(text: &str) -> Option<(ArticleReference, usize)> {
    let (number, mut at) = parse_digits(text)?;
    let clause = text[at..].strip_prefix('.').and_then(parse_digits).map(|(clause, length)| {
        at += 1 + length;
        clause
    });
    let article = ArticleNumber { number, branch: 0 };
    Some((ArticleReference { clause, ..ArticleReference::of_article(article, 0..at) }, at))
}

/// Makes the last reference a range up to this one if the text says `부터`, `내지` or `to` between them. Returns its end.
fn join_article_range(text: &str, found: &mut [ArticleReference], next: &ArticleReference) -> Option<usize> {
    let first = found.last_mut()?;
    let between = text[first.range.end..next.range.start].trim();
    // `제3조에서 제5조를 인용한` names two articles.
    let joined = ["부터", "내지", "~", "∼", "-", "–", "to", "through"].contains(&between)
        || between == "에서" && text[next.range.end..].starts_with("까지");
    if !joined || first.clause.is_some() || first.last.is_some() || next.article <= first.article {
        return None;
    }
    let mut end = next.range.end;
    consume_any(text, &mut end, &["까지"]);
    first.last = Some(next.article);
    first.range.end = end;
    Some(end)
}

/// Adds ` 및 제3항` as further clauses of the article just found. Returns where parsing continues.
fn parse_more_clauses(text: &str, mut at: usize, found: &mut Vec<ArticleReference>) -> usize {
    while let Some(last) = found.last().filter(|last| last.clause.is_some()).cloned() {
        let mut after = at;
        skip_blanks(text, &mut after);
        if !consume_any(text, &mut after, &[",", "및", "또는", "와", "과", "ㆍ", "·", "내지"]) {
            break;
        }
        let Some(clause) = parse_numbered_part(text, &mut after, &["항", "項"]) else { break };
        found.push(ArticleReference { clause: Some(clause), item: None, range: at..after, ..last });
        at = after;
    }
    at
}

/// The maximum length of a statute name, in bytes.
const MAX_STATUTE_NAME_BYTES: usize = 256;

/// Returns the statute named right before a reference.
fn statute_name_before(before: &str) -> Option<String> {
    let before =
        before[before.ceil_char_boundary(before.len().saturating_sub(MAX_STATUTE_NAME_BYTES))..].trim_end();
    if let Some(quoted) = before.strip_suffix('」').or_else(|| before.strip_suffix('｣')) {
        return quoted.rsplit_once(['「', '｢']).map(|(_, name)| name.trim().to_owned());
    }
    let word = before.rsplit(|char: char| char.is_whitespace() || "(「『“\"".contains(char)).next()?;
    let is_law = ["법", "법률", "시행령", "시행규칙", "조례"].iter().any(|end| word.ends_with(end));
    let is_common = ["방법", "위법", "적법", "불법", "합법", "문법"].iter().any(|end| word.ends_with(end));
    (is_law && !is_common).then(|| word.to_owned())
}

/// Returns whether `조` after a number means 10¹², as in `5조 원`, `3조 5천억`, `2조 5`, or a team, as in `4조 3교대`.
fn is_money_amount(after: &str) -> bool {
    const UNITS: [&str; 9] = ["원", "달러", "엔", "유로", "위안", "여", "억", "천", "교대"];
    let counts = |text: &str| UNITS.iter().any(|unit| text.starts_with(unit));
    let rest = after.trim_start();
    let Some((_, length)) = parse_digits(rest) else { return counts(rest) };
    let next = &rest[length..];
    match next.chars().next() {
        // `10조 2항` continues with a clause and `60조 1년 미만` with a period of time.
        Some(char) if char.is_alphabetic() => counts(next) || matches!(char, '만' | '백' | '십'),
        Some(_) | None => !next.trim_start().starts_with(['항', '호', '목', '項', '號']),
    }
}

/// Returns whether the text right after `5조` allows it to be an article: `3조각` and `5조별` are other words.
fn can_follow_article(after: &str) -> bool {
    const PARTICLES: &str = "의는은이가를을에와과도만로까부및란나라제";
    const WORDS: [&str; 14] = [
        "내용", "본문", "단서", "중", "상", "규정", "전문", "각호", "관련", "위반", "해석", "설명", "항목",
        "전체",
    ];
    let Some(next) = after.chars().next().filter(|char| char.is_alphabetic()) else { return true };
    PARTICLES.contains(next) || WORDS.iter().any(|word| after.starts_with(word))
}

/// Returns whether `조` begins another word, as in `제 이 조건`. After a spelled numeral only a particle may follow.
fn begins_other_word(after: &str, spelled: bool) -> bool {
    const PARTICLES: &str = "의에를을은는가이와과로및제까부만도";
    const WORDS: &str = "직건합정치율항";
    let Some(next) = after.chars().next().filter(|char| is_hangul_syllable(*char)) else { return false };
    if spelled { !PARTICLES.contains(next) } else { WORDS.contains(next) }
}

/// Returns whether a number continues what precedes it: `1.5조`, `A5조`, and the last number of `10-2조`.
fn continues_number(before: &str) -> bool {
    let mut back = before.chars().rev();
    match back.next() {
        Some('-' | '‐' | '–' | '~' | '∼' | '의' | '之') => {
            back.next().is_some_and(|char| char.is_ascii_digit())
        }
        Some('제' | '第' | ',' | '.') => true,
        Some(char) => char.is_ascii_alphanumeric() || char.is_numeric(),
        None => false,
    }
}

fn continues_word(before: &str) -> bool {
    before.chars().next_back().is_some_and(char::is_alphanumeric)
}

fn consume_any(text: &str, at: &mut usize, words: &[&str]) -> bool {
    let found = words.iter().find(|word| text[*at..].starts_with(**word));
    *at += found.map_or(0, |word| word.len());
    found.is_some()
}

/// Skips at most a few blanks: a number on the next page does not belong to the reference.
fn skip_blanks(text: &str, at: &mut usize) {
    let blanks =
        text[*at..].chars().take(3).take_while(|char| matches!(char, ' ' | '\u{a0}' | '\u{3000}' | '\t'));
    *at += blanks.map(char::len_utf8).sum::<usize>();
}

#[cfg(test)]
mod tests;
