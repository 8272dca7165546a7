//! Numbers and titles of articles in a question: "제5조", "제 5 조의 2", "제십조", "5조", "Article 5", "비밀유지 조항".

use doran_retrieval::ArticleNumber;

use super::intent::quoted;
use super::text::without_particle;

/// The articles that a text names, in order, each once. Those of a supplement (부칙 제1조) have numbers of their own and
/// are not among them.
pub(super) fn articles(text: &str) -> Vec<ArticleNumber> {
    let chars: Vec<char> = text.chars().collect();
    each_once(article_positions(&chars).into_iter().filter(|(start, _, _)| !is_supplement(&chars[..*start])))
}

/// The articles that a text names, those of a supplement among them.
pub(super) fn articles_with_supplements(text: &str) -> Vec<ArticleNumber> {
    let chars: Vec<char> = text.chars().collect();
    each_once(article_positions(&chars).into_iter())
}

/// The articles that a text names, and the text without them.
pub(super) fn cut_out(text: &str) -> (Vec<ArticleNumber>, String) {
    let chars: Vec<char> = text.chars().collect();
    let mut rest = String::new();
    let mut from = 0;
    for (start, end, _) in article_positions(&chars) {
        if start >= from && !is_supplement(&chars[..start]) {
            rest.extend(&chars[from..start]);
            rest.push(' ');
            // The particle that joins it to the next word goes with it.
            let particle = matches!(
                chars.get(end),
                Some('의' | '은' | '는' | '이' | '가' | '을' | '를' | '와' | '과' | '도' | '에')
            );
            let alone =
                chars.get(end + 1).is_none_or(|next| next.is_whitespace() || matches!(next, '?' | '.'));
            from = if particle && alone { end + 1 } else { end };
        }
    }
    rest.extend(&chars[from..]);
    (articles(text), rest)
}

fn each_once(found: impl Iterator<Item = (usize, usize, ArticleNumber)>) -> Vec<ArticleNumber> {
    let mut articles = Vec::new();
    for (_, _, article) in found {
        if !articles.contains(&article) {
            articles.push(article);
        }
    }
    articles
}

/// Where articles are named: from, to, and which.
fn article_positions(chars: &[char]) -> Vec<(usize, usize, ArticleNumber)> {
    let found = (0..chars.len()).flat_map(|at| match chars[at] {
        '조' | '條' | '条' => {
            korean(chars, at).map_or_else(Vec::new, |found| expand_article_range(chars, found))
        }
        'a' | 'A' | 'c' | 'C' | 's' | 'S' | '§' => english(chars, at).into_iter().collect(),
        _ => Vec::new(),
    });
    found.collect()
}

/// An article with those before it in a row: `제3~5조` is three.
fn expand_article_range(
    chars: &[char],
    last: (usize, usize, ArticleNumber),
) -> Vec<(usize, usize, ArticleNumber)> {
    const MAX_ARTICLE_RANGE: u32 = 30;
    let (start, end, article) = last;
    let joined = start > 0 && matches!(chars[start - 1], '~' | '∼' | '〜' | '～');
    let number = |at: &usize| chars[*at].is_ascii_digit();
    let first = (0..start.saturating_sub(1)).rev().take_while(number).last().filter(|_| joined);
    let from = first.and_then(|first| Some((first, value(&chars[first..start - 1])?)));
    match from {
        Some((first, from))
            if article.branch == 0 && from < article.number && article.number - from <= MAX_ARTICLE_RANGE =>
        {
            let start = mark_before(chars, first).unwrap_or(first);
            (from..=article.number).map(|number| (start, end, ArticleNumber { number, branch: 0 })).collect()
        }
        _ => vec![last],
    }
}

/// Where 제 stands before a number.
fn mark_before(chars: &[char], number: usize) -> Option<usize> {
    (0..number).rev().find(|at| chars[*at] != ' ').filter(|at| matches!(chars[*at], '제' | '第'))
}

/// Whether what stands before an article names the supplement that it belongs to.
fn is_supplement(before: &[char]) -> bool {
    let last = before.iter().rposition(|char| !matches!(char, ' ' | '›' | '의'));
    last.is_some_and(|last| before[..=last].ends_with(&['부', '칙']))
}

/// Reads back from the syllable 조.
fn korean(chars: &[char], jo: usize) -> Option<(usize, usize, ArticleNumber)> {
    let end = (0..jo).rev().find(|at| chars[*at] != ' ').map(|at| at + 1)?;
    let digit = |char: &char| char.is_ascii_digit() || word_digit(*char).is_some();
    let start = (0..end).rev().take_while(|at| digit(&chars[*at])).last()?;
    if let Some(article) = joined(chars, start, end, jo) {
        return article;
    }
    let mark = mark_before(chars, start);
    let marked = mark.is_some();
    let plain = chars[start..end].iter().all(char::is_ascii_digit);
    let next = chars.get(jo + 1);
    // "5조" is an article, "5조 원" and "5조원" are money, and words such as "사조" are neither.
    let money = is_money(&chars[jo + 1..]);
    let spaced = end != jo;
    if !marked && (!plain || money || spaced || next.is_some_and(|next| matches!(next, '각' | '합' | '건')))
    {
        return None;
    }
    let number = value(&chars[start..end])?;
    let (branch, end) = branch(chars, jo).unwrap_or((0, jo + 1));
    Some((mark.unwrap_or(start), end, ArticleNumber { number, branch }))
}

/// Whether what follows makes an amount of it: `5조 원`, `2조 5천억`, `2조 5`; or a team, as in `4조 3교대`. But `10조 2항`
/// goes on with a clause, and `60조 1년 미만` with a time.
fn is_money(after: &[char]) -> bool {
    const UNITS: [&str; 12] =
        ["원", "달러", "엔", "유로", "위안", "여", "억", "천", "백", "십", "만", "교대"];
    let blanks = |chars: &[char]| chars.iter().take_while(|char| **char == ' ').count();
    let rest = &after[blanks(after)..];
    let digits = rest.iter().take_while(|char| char.is_ascii_digit()).count();
    let next = &rest[digits..];
    match next.first() {
        next if digits == 0 => next == Some(&'원'),
        Some(char) if char.is_alphabetic() => {
            let text: String = next.iter().take(2).collect();
            UNITS.iter().any(|unit| text.starts_with(unit))
        }
        Some(_) | None => !matches!(next.get(blanks(next)), Some('항' | '호' | '목')),
    }
}

/// A branch that is written before the syllable: `10-2조`, `제10의2조`. Where something is joined to the number and is no
/// branch, the number alone would name another article, so nothing is read.
fn joined(
    chars: &[char],
    start: usize,
    end: usize,
    jo: usize,
) -> Option<Option<(usize, usize, ArticleNumber)>> {
    let joint = start.checked_sub(1).map(|at| chars[at])?;
    let number = |at: &usize| chars[*at].is_ascii_digit();
    let first = (0..start - 1).rev().take_while(number).last();
    let dash = matches!(joint, '-' | '‐' | '‑' | '–');
    let joins = dash || (matches!(joint, '의' | '之') && first.is_some());
    if !joins {
        return None;
    }
    let read = || {
        let first = first?;
        let before = first.checked_sub(1).map(|at| chars[at]);
        if matches!(before, Some('-' | '–' | '.'))
            || end != jo
            || !chars[start..end].iter().all(char::is_ascii_digit)
        {
            return None;
        }
        let mark = mark_before(chars, first);
        if mark.is_none() && is_money(&chars[jo + 1..]) {
            return None;
        }
        let article =
            ArticleNumber { number: value(&chars[first..start - 1])?, branch: value(&chars[start..end])? };
        Some((mark.unwrap_or(first), jo + 1, article))
    };
    Some(read())
}

/// The branch after the syllable, and where it ends.
fn branch(chars: &[char], jo: usize) -> Option<(u32, usize)> {
    let mut at = jo + 1;
    at += chars.get(at..)?.iter().take_while(|char| **char == ' ').count();
    if !matches!(chars.get(at), Some('의' | '之')) {
        return None;
    }
    at += 1;
    let blanks = chars.get(at..)?.iter().take_while(|char| **char == ' ').count();
    at += blanks;
    let number = |char: &&char| char.is_ascii_digit() || word_digit(**char).is_some();
    let digits: Vec<char> = chars.get(at..)?.iter().take_while(number).copied().collect();
    // "제5조의 이행" speaks of something else: a numeral in Hangul stands close and ends its word.
    let hangul = |char: &char| ('가'..='힣').contains(char);
    let goes_on = chars.get(at + digits.len()).is_some_and(hangul);
    if digits.iter().any(hangul) && (goes_on || blanks > 0) {
        return None;
    }
    // "제5조의 2항" names a clause, not a branch.
    if matches!(chars.get(at + digits.len()), Some('항' | '호' | '배' | '%' | '개')) {
        return None;
    }
    Some((value(&digits)?, at + digits.len()))
}

fn english(chars: &[char], at: usize) -> Option<(usize, usize, ArticleNumber)> {
    if at > 0 && chars[at - 1].is_alphanumeric() {
        return None;
    }
    let rest: String = chars[at..].iter().take(24).collect();
    let lower = rest.to_lowercase();
    let words = ["article ", "section ", "clause ", "art. ", "art.", "§ ", "§"];
    let length = words.iter().find(|word| lower.starts_with(*word))?.chars().count();
    let digits: Vec<char> = rest.chars().skip(length).take_while(char::is_ascii_digit).collect();
    let end = at + length + digits.len();
    Some((at, end, ArticleNumber { number: value(&digits)?, branch: 0 }))
}

/// A number in digits or in words (십이, 十二); at most four digits.
fn value(chars: &[char]) -> Option<u32> {
    if chars.is_empty() || chars.len() > 6 {
        return None;
    }
    if chars.iter().all(char::is_ascii_digit) {
        let text: String = chars.iter().collect();
        return text.parse().ok().filter(|number| (1..=9999).contains(number));
    }
    // Digit by digit: 二三 is 23.
    if chars.len() > 1 && chars.iter().all(|char| word_digit(*char).is_some_and(|value| value < 10)) {
        let digits = chars.iter().filter_map(|char| word_digit(*char));
        return Some(digits.fold(0, |total, digit| total * 10 + digit)).filter(|number| *number <= 9999);
    }
    let (mut total, mut digit) = (0, None);
    for char in chars {
        match word_digit(*char)? {
            unit @ (10 | 100) => total += digit.take().unwrap_or(1) * unit,
            value => {
                if digit.replace(value).is_some() {
                    return None;
                }
            }
        }
    }
    Some(total + digit.unwrap_or(0)).filter(|number| *number > 0)
}

fn word_digit(char: char) -> Option<u32> {
    let value = match char {
        '일' | '一' | '壹' | '壱' => 1,
        '이' | '二' | '貳' | '弐' => 2,
        '삼' | '三' | '參' => 3,
        '사' | '四' => 4,
        '오' | '五' => 5,
        '육' | '六' => 6,
        '칠' | '七' => 7,
        '팔' | '八' => 8,
        '구' | '九' => 9,
        '십' | '十' | '拾' => 10,
        '백' | '百' => 100,
        _ => return None,
    };
    Some(value)
}

/// Titles of articles that a question names: in quotation marks, or before "조항", "조의 내용" or "clause".
pub(super) fn titles(text: &str) -> Vec<String> {
    let mut titles: Vec<String> = Vec::new();
    let lower = text.to_lowercase();
    let about = ["조항", "조문", "계약", "조의", "조 내용", "제목", "clause", "article", "contract"];
    if about.iter().any(|word| lower.contains(word)) {
        let quoted =
            quoted(text).into_iter().filter(|title| articles(title).is_empty() && !title.contains('.'));
        titles.extend(quoted);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    for pair in words.windows(2) {
        let korean = pair[1].starts_with("조항") || pair[1].starts_with("조문");
        let english = pair[1].to_lowercase().trim_end_matches(['?', '.', ',', 's']) == "clause";
        let title = pair[0].trim_matches(|char: char| !char.is_alphanumeric());
        let title = if korean { title.strip_suffix('의').unwrap_or(title) } else { title };
        if (korean || english)
            && !is_pointing(title)
            && articles(title).is_empty()
            && !titles.iter().any(|t| t.contains(title))
        {
            titles.push(title.to_owned());
        }
    }
    titles.retain(|title| title.chars().count() >= 2);
    titles
}

/// Words before "조항" that point or ask instead of naming.
fn is_pointing(word: &str) -> bool {
    let words = [
        "그",
        "이",
        "저",
        "해당",
        "위",
        "아래",
        "다음",
        "관련",
        "어떤",
        "무슨",
        "모든",
        "각",
        "몇",
        "다른",
        "불리한",
        "중요한",
        "참조",
        "있는",
        "없는",
        "계약",
        "계약서",
        "표준계약서",
        "the",
        "this",
        "that",
        "which",
        "any",
        "each",
        "a",
        "한",
        "된",
        "하는",
        "독소",
        "주요",
    ];
    words.contains(&word.to_lowercase().as_str())
        || words.contains(&without_particle(word))
        || word.ends_with("관한")
        || word.ends_with("대한")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found: Vec<String> = articles(text).iter().map(ArticleNumber::to_string).collect();
        assert_eq!(found.join(" "), expected, "{text}");
    }

    #[test]
    fn numbers_are_read_however_they_are_written() {
        check("제5조 내용이 뭐야?", "제5조");
        check("제 5 조와 제12조의2", "제5조 제12조의2");
        check("제십조랑 제이십삼조", "제10조 제23조");
        check("第五條", "제5조");
        check("5조는?", "제5조");
        check("제5조의 2항", "제5조");
        check("Article 7 and section 12", "제7조 제12조");
        check("제5조, 제5조", "제5조");
        check("10-2조와 제10의2조", "제10조의2");
        check("제 10-2조 2항", "제10조의2");
        check("2026-10-2조", "");
        check("-3조", "");
        check("부칙 제1조와 제4조", "제4조");
    }

    #[test]
    fn every_reader_of_articles_reads_the_same_spellings() {
        for line in include_str!("../../retrieval/src/contract/article_number_spellings.tsv").lines() {
            let (text, expected) = line.split_once('\t').expect("two columns");
            check(text, expected);
        }
    }

    #[test]
    fn other_uses_of_the_syllable_are_no_articles() {
        for text in [
            "예산 5조원",
            "5조 원",
            "협조",
            "조항",
            "제조업",
            "사조",
            "조",
            "제조",
            "particle 5",
            "제99999조",
        ] {
            check(text, "");
        }
    }

    #[test]
    fn titles_are_named_and_not_pointed_at() {
        assert_eq!(titles("비밀유지 조항이 있어?"), ["비밀유지"]);
        assert_eq!(titles("\"손해배상\" 조항 보여줘"), ["손해배상"]);
        assert_eq!(titles("Is there a confidentiality clause?"), ["confidentiality"]);
        assert_eq!(titles("그 조항 다시 보여줘"), [""; 0]);
        assert_eq!(titles("연차는 며칠이야?"), [""; 0]);
    }
}
