//! A sentence as numbers, signs and words.

use super::number::number;
use super::{AfterNumberWord, FormulaToken, SignCertainty};

const FUNCTIONS: [&str; 14] = [
    "sqrt",
    "sin",
    "cos",
    "tan",
    "log",
    "ln",
    "exp",
    "abs",
    "round",
    "floor",
    "ceil",
    "min",
    "max",
    "factorial",
];

/// Korean words for signs, and endings that join the two numbers before them.
const INFIX: [(&str, char); 12] = [
    ("더하기", '+'),
    ("플러스", '+'),
    ("plus", '+'),
    ("빼기", '-'),
    ("마이너스", '-'),
    ("minus", '-'),
    ("곱하기", '*'),
    ("times", '*'),
    ("multiplied", '*'),
    ("나누기", '/'),
    ("divided", '/'),
    ("over", '/'),
];

const VERBS: [(&str, char); 10] = [
    ("더하", '+'),
    ("더한", '+'),
    ("더해", '+'),
    ("빼", '-'),
    ("뺀", '-'),
    ("곱하", '*'),
    ("곱한", '*'),
    ("곱해", '*'),
    ("나누", '/'),
    ("나눈", '/'),
];

pub(super) fn tokens(question: &str) -> Option<Vec<FormulaToken>> {
    let chars: Vec<char> = question.chars().collect();
    let mut tokens: Vec<FormulaToken> = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let char = chars[at];
        if char.is_whitespace() {
            at += 1;
        } else if char.is_ascii_digit() {
            let (number, next) = number(&chars, at)?;
            tokens.push(FormulaToken::Number(number));
            at = unit(&chars, next + usize::from(is_money(&chars[next..])), &mut tokens);
        } else if let Some((sign, sure)) = sign(&chars, at) {
            tokens.push(FormulaToken::Sign(sign, sure));
            // `**` is a power in some languages.
            at += if char == '*' && chars.get(at + 1) == Some(&'*') { 2 } else { 1 };
            if char == '*' && chars.get(at - 1) == Some(&'*') && at >= 2 && chars.get(at - 2) == Some(&'*') {
                tokens.pop();
                tokens.push(FormulaToken::Sign('^', SignCertainty::Sure));
            }
        } else if char == '%' || char == '％' {
            tokens.push(FormulaToken::Percent);
            at += 1;
        } else if char == '(' {
            tokens.push(FormulaToken::Open);
            at += 1;
        } else if char == ')' {
            tokens.push(FormulaToken::Close);
            at += 1;
        } else if char == '√' {
            tokens.push(FormulaToken::Function("sqrt"));
            at += 1;
        } else if char.is_alphabetic() {
            let end = (at..chars.len()).find(|end| !chars[*end].is_alphabetic()).unwrap_or(chars.len());
            let word: String = chars[at..end].iter().collect::<String>().to_lowercase();
            tokens.push(word_token(&word, &tokens, chars.get(end)));
            at = end;
        } else if char == ',' && tokens.iter().any(|token| matches!(token, FormulaToken::Function(_))) {
            tokens.push(FormulaToken::Sign(',', SignCertainty::Sure));
            at += 1;
        } else {
            if !matches!(char, '=' | '?' | '.' | '!') {
                tokens.push(FormulaToken::Word);
            }
            at += 1;
        }
    }
    Some(tokens)
}

fn sign(chars: &[char], at: usize) -> Option<(char, SignCertainty)> {
    let sign = match chars[at] {
        '+' | '＋' => '+',
        '-' | '−' | '–' => '-',
        '*' | '×' | '✕' | '∗' => '*',
        '/' | '÷' => '/',
        '^' => '^',
        // "12 x 7": the letter stands for the sign only between digits.
        'x' | 'X' => {
            let before = chars[..at].iter().rev().find(|char| !char.is_whitespace());
            let after = chars[at + 1..].iter().find(|char| !char.is_whitespace());
            let digits = before.is_some_and(char::is_ascii_digit) && after.is_some_and(char::is_ascii_digit);
            if !digits {
                return None;
            }
            '*'
        }
        _ => return None,
    };
    let spaced =
        at > 0 && chars[at - 1].is_whitespace() && chars.get(at + 1).is_some_and(|c| c.is_whitespace());
    let doubtful = matches!(chars[at], '-' | '–' | '/') && !spaced;
    Some((sign, if doubtful { SignCertainty::Tight } else { SignCertainty::Sure }))
}

fn word_token(word: &str, before: &[FormulaToken], next: Option<&char>) -> FormulaToken {
    if let Some(name) = FUNCTIONS.iter().find(|name| **name == word && next == Some(&'(')) {
        return FormulaToken::Function(name);
    }
    if matches!(word, "루트" | "제곱근") && !matches!(before.last(), Some(FormulaToken::Of)) {
        return FormulaToken::Function("sqrt");
    }
    if let Some((_, sign)) = INFIX.iter().find(|(infix, _)| *infix == word) {
        return FormulaToken::Sign(*sign, SignCertainty::Sure);
    }
    // "divided by", "multiplied by": the sign was said already.
    if word == "by" && matches!(before.last(), Some(FormulaToken::Sign(..))) {
        return FormulaToken::Of;
    }
    if word == "of" && matches!(before.last(), Some(FormulaToken::Percent)) {
        return FormulaToken::Sign('*', SignCertainty::Sure);
    }
    if let Some((_, sign)) = VERBS.iter().find(|(verb, _)| word.starts_with(verb)) {
        return FormulaToken::Verb(*sign);
    }
    match word {
        word if word.starts_with("제곱근") => FormulaToken::After(AfterNumberWord::Root),
        word if word.starts_with("제곱") || word == "squared" => {
            FormulaToken::After(AfterNumberWord::Square)
        }
        word if word.starts_with("절반") => FormulaToken::After(AfterNumberWord::Half),
        _ => FormulaToken::Word,
    }
}

const PARTICLES: [&str; 13] =
    ["에서", "으로", "에다", "하고", "에", "을", "를", "로", "과", "와", "은", "는", "이"];

/// Particles that are only taken as such where nothing follows them: 도 also begins 도시.
const LAST_PARTICLES: [&str; 4] = ["도", "만", "랑", "까지"];

fn is_particle(written: &str) -> bool {
    PARTICLES.contains(&written) || LAST_PARTICLES.contains(&written)
}

/// Whether money follows after a space, as in "2천만 원의". Other counters stand close to their number, and other words
/// begin with the same syllable: 원칙.
fn is_money(after: &[char]) -> bool {
    let [' ', word @ ..] = after else { return false };
    let word: String = word.iter().take_while(|char| char.is_alphabetic()).collect();
    let rest = ["원", "달러", "won"].iter().find_map(|money| word.strip_prefix(money));
    rest.is_some_and(|rest| rest.is_empty() || rest == "의" || is_particle(rest))
}

/// Steps over what is written onto a number: counters and particles are left out, "의" and labels are told.
fn unit(chars: &[char], from: usize, tokens: &mut Vec<FormulaToken>) -> usize {
    const COUNTERS: [&str; 11] = ["원", "개", "명", "달러", "won", "시간", "킬로", "kg", "km", "배", "번"];
    let end = (from..chars.len()).find(|end| !chars[*end].is_alphabetic()).unwrap_or(chars.len());
    let written: String = chars[from..end].iter().collect();
    if written.is_empty() || sign(chars, from).is_some() {
        return from;
    }
    let rest = COUNTERS.iter().find_map(|counter| written.strip_prefix(counter)).unwrap_or(&written);
    if written.starts_with('배') {
        tokens.push(FormulaToken::After(AfterNumberWord::Times));
    }
    if let Some(after) = ["제곱", "승"].iter().find_map(|power| rest.strip_prefix(power)) {
        tokens.push(FormulaToken::After(AfterNumberWord::Power));
        return end - after.chars().count();
    }
    if rest.starts_with('의') {
        tokens.push(FormulaToken::Of);
    } else if !rest.is_empty()
        && !is_particle(rest)
        && !PARTICLES.iter().any(|particle| rest.starts_with(particle))
    {
        tokens.push(if INFIX.iter().chain(&VERBS).any(|(word, _)| rest.starts_with(word)) {
            return from + written.chars().count() - rest.chars().count();
        } else {
            FormulaToken::Label
        });
    }
    end
}
