//! Reads the numbers of articles out of what people write: `제76조의2`, `제 5 조`, `5조`, `제십조의2`, `第十條`, `Article 5`.

use std::ops::Range;

use crate::passage::{ArticleNumber, Passage};
use crate::text::letters::{Letter, letters};

/// The articles a text names, with their places.
pub fn articles_named(text: &str) -> Vec<(ArticleNumber, Range<usize>)> {
    let letters = letters(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let read = korean(&letters, at).or_else(|| english(&letters, at));
        let Some((number, end)) = read else {
            at += 1;
            continue;
        };
        found.push((number, letters[at].start as usize..letters[end - 1].end as usize));
        at = end;
    }
    found
}

/// The article a passage is, from what its source knew or from the last heading above it.
pub(crate) fn of_passage(passage: &Passage) -> Option<ArticleNumber> {
    passage.article.or_else(|| last_named(&passage.title))
}

/// The last article a title names.
pub(crate) fn last_named(title: &str) -> Option<ArticleNumber> {
    articles_named(title).last().map(|(number, _)| *number)
}

/// The term under which an article is found.
pub(super) fn key(number: ArticleNumber) -> Vec<u8> {
    format!("a{}_{}", number.number, number.branch).into_bytes()
}

fn korean(letters: &[Letter], start: usize) -> Option<(ArticleNumber, usize)> {
    let ordinal = matches!(letters[start].char, '제' | '第');
    let before = start.checked_sub(1).map(|at| letters[at].char);
    let from = if ordinal { skip_spaces(letters, start + 1) } else { start };
    if !ordinal && before.is_some_and(|char| char.is_ascii_digit() || matches!(char, '.' | ',' | '제' | '第'))
    {
        return None;
    }
    let (number, end) = if ordinal { any_number(letters, from)? } else { digits(letters, from)? };
    let sign = skip_spaces(letters, end);
    if !matches!(letters.get(sign)?.char, '조' | '條' | '条') || number == 0 {
        return None;
    }
    let end = sign + 1;
    let (branch, after) = branch(letters, end).unwrap_or((0, end));
    if branch == 0 && !may_follow(letters, end, ordinal) {
        return None;
    }
    Some((ArticleNumber { number, branch }, after))
}

/// What follows 의 in 제10조의2; `제10조의 2항` names a clause instead.
fn branch(letters: &[Letter], end: usize) -> Option<(u32, usize)> {
    let at = skip_spaces(letters, end);
    if !matches!(letters.get(at)?.char, '의' | '之') {
        return None;
    }
    let from = skip_spaces(letters, at + 1);
    let (number, end) = any_number(letters, from)?;
    // `제5조의 이행` speaks of something else: a numeral in Hangul stands close and ends its word.
    let in_hangul = ('가'..='힣').contains(&letters[from].char);
    let goes_on = letters.get(end).is_some_and(|letter| ('가'..='힣').contains(&letter.char));
    if in_hangul && (goes_on || from > at + 1) {
        return None;
    }
    let next = letters.get(skip_spaces(letters, end)).map(|letter| letter.char);
    (!matches!(next, Some('항' | '호' | '명' | '개' | '가' | '년' | '일'))).then_some((number, end))
}

/// `5조 원` is money, `제1조정` another word.
fn may_follow(letters: &[Letter], end: usize, ordinal: bool) -> bool {
    let direct = letters.get(end).map(|letter| letter.char);
    if direct
        .is_some_and(|char| char.is_alphabetic() && !"의는은이가를을에와과도만로까부및란나라".contains(char))
    {
        return ordinal && direct.is_some_and(|char| char == '제' || char == '第');
    }
    let next = letters.get(skip_spaces(letters, end)).map(|letter| letter.char);
    ordinal || !next.is_some_and(|char| "원달엔위유억만천여각".contains(char) || char.is_ascii_digit())
}

fn english(letters: &[Letter], start: usize) -> Option<(ArticleNumber, usize)> {
    if start > 0 && letters[start - 1].char.is_alphanumeric() {
        return None;
    }
    let word = ["article", "section", "clause"].into_iter().find(|word| {
        word.chars()
            .enumerate()
            .all(|(at, char)| letters.get(start + at).is_some_and(|letter| letter.char == char))
    })?;
    let end = start + word.len();
    let at = skip_spaces(letters, end);
    let (number, end) = digits(letters, at)?;
    let direct = letters.get(end).is_some_and(|letter| letter.char.is_alphanumeric());
    (at > start + word.len() && !direct && number > 0).then_some((ArticleNumber { number, branch: 0 }, end))
}

fn skip_spaces(letters: &[Letter], mut at: usize) -> usize {
    while letters.get(at).is_some_and(|letter| letter.char.is_whitespace()) {
        at += 1;
    }
    at
}

fn any_number(letters: &[Letter], at: usize) -> Option<(u32, usize)> {
    digits(letters, at).or_else(|| words(letters, at))
}

fn digits(letters: &[Letter], at: usize) -> Option<(u32, usize)> {
    let count =
        letters[at.min(letters.len())..].iter().take_while(|letter| letter.char.is_ascii_digit()).count();
    if !(1..=5).contains(&count) {
        return None;
    }
    let digits: String = letters[at..at + count].iter().map(|letter| letter.char).collect();
    digits.parse().ok().map(|number| (number, at + count))
}

/// A number in words, Korean or Chinese, below ten thousand: 이십삼, 二十三, 二三.
fn words(letters: &[Letter], start: usize) -> Option<(u32, usize)> {
    let (mut total, mut digit, mut at) = (0_u32, None, start);
    while let Some(value) = letters.get(at).and_then(|letter| value(letter.char)).filter(|_| at - start < 8) {
        match value {
            10 | 100 | 1000 => total += digit.take().unwrap_or(1) * value,
            value => digit = Some(digit.unwrap_or(0) * 10 + value),
        }
        at += 1;
    }
    (at > start).then(|| (total + digit.unwrap_or(0), at))
}

fn value(char: char) -> Option<u32> {
    Some(match char {
        '영' | '공' | '零' | '〇' => 0,
        '일' | '一' | '壹' | '壱' => 1,
        '이' | '二' | '貳' | '弐' => 2,
        '삼' | '三' | '參' => 3,
        '사' | '四' => 4,
        '오' | '五' => 5,
        '육' | '륙' | '六' => 6,
        '칠' | '七' => 7,
        '팔' | '八' => 8,
        '구' | '九' => 9,
        '십' | '十' | '拾' => 10,
        '백' | '百' => 100,
        '천' | '千' => 1000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let named: Vec<String> = articles_named(text).iter().map(|(number, _)| number.to_string()).collect();
        assert_eq!(named.join(" "), expected, "{text}");
    }

    #[test]
    fn an_article_is_read_however_it_is_written() {
        check("민법 제750조", "제750조");
        check("근로기준법60조 전문 보여줘", "제60조");
        check("제 5 조 제2항과 제76조의 2", "제5조 제76조의2");
        check("제십조의2, 제이십삼조는?", "제10조의2 제23조");
        check("第十條, 第二三條", "제10조 제23조");
        check("제１０조", "제10조");
        check("see Article 5 and section 12", "제5조 제12조");
        check("제3조의 2항", "제3조");
        check("5조가 뭐야? 7조에서", "제5조 제7조");
    }

    #[test]
    fn every_reader_of_articles_reads_the_same_spellings() {
        for line in include_str!("../contract/spellings.tsv").lines() {
            let (text, expected) = line.split_once('\t').expect("two columns");
            check(text, expected);
        }
    }

    #[test]
    fn money_and_other_words_are_no_articles() {
        for text in [
            "5조 원",
            "3.4조 원 감소",
            "5조원",
            "제1조정위원회",
            "조건 3조각",
            "제조업",
            "articles 5",
            "2조 5천억",
            "이십조",
        ] {
            check(text, "");
        }
    }
}
