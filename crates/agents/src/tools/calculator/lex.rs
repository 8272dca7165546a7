//! From text to tokens: numbers as people write them, in either language.
//!
//! A number may have thousands separators (`1,234,567`, `1_000`), a decimal point, an exponent (`1.5e3`) and Korean
//! steps (`3만5천`, `1억 2천만`, `천만`, `2.5억`). Full-width characters read as their usual ones.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Zero};

use super::Trouble;
use super::number::power_of_ten;

/// A piece of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// Whether there is a space before it.
    pub(super) apart: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Number(BigRational),
    Name(String),
    /// `+ - * / ^ % ! ( ) , √ °`, and `\` for whole division.
    Sign(char),
}

/// Whether a comma at this place separates arguments.
#[derive(Clone, Copy, PartialEq)]
enum Commas {
    Separate,
    Group,
}

/// The tokens of an expression. The names before a parenthesis decide what a comma means inside it: `max(1,234)` has two
/// arguments, `(1,234)` is one number.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Trouble> {
    let chars: Vec<char> = text.chars().map(usual).collect();
    let mut tokens: Vec<Token> = Vec::new();
    let mut inside: Vec<Commas> = Vec::new();
    let mut at = 0;
    let mut apart = false;
    while let Some(&one) = chars.get(at) {
        if one.is_whitespace() {
            apart = true;
            at += 1;
            continue;
        }
        let commas = inside.last().copied().unwrap_or(Commas::Group);
        let kind = if one.is_ascii_digit() || (one == '.' && digit_at(&chars, at + 1)) || step(one).is_some()
        {
            let (number, end) = number(&chars, at, commas)?;
            at = end;
            Kind::Number(number)
        } else if one.is_alphabetic() {
            let end = (at..chars.len())
                .find(|&i| !(chars[i].is_alphanumeric() || chars[i] == '_') || stop(&chars, at, i));
            let name: String =
                chars[at..end.unwrap_or(chars.len())].iter().collect::<String>().to_lowercase();
            at += name.chars().count().max(1);
            if name == "x" { Kind::Sign('*') } else { Kind::Name(name) }
        } else {
            at += 1;
            match one {
                '(' => {
                    let called = matches!(tokens.last().map(|token| &token.kind), Some(Kind::Name(_)));
                    inside.push(if called { Commas::Separate } else { Commas::Group });
                }
                ')' => {
                    inside.pop();
                }
                _ => {}
            }
            let doubled = matches!(one, '*' | '/') && chars.get(at) == Some(&one);
            at += usize::from(doubled);
            Kind::Sign(match one {
                '*' if doubled => '^',
                '/' if doubled => '\\',
                '+' | '-' | '*' | '/' | '^' | '%' | '!' | '(' | ')' | ',' | '√' | '°' => one,
                '²' | '³' => {
                    tokens.push(Token { kind: Kind::Sign('^'), apart: false });
                    let power = if one == '²' { 2 } else { 3 };
                    tokens.push(Token {
                        kind: Kind::Number(BigRational::from_integer(power.into())),
                        apart: false,
                    });
                    continue;
                }
                '₩' => continue,
                '=' if chars[at..].iter().all(|rest| rest.is_whitespace() || *rest == '?') => break,
                other => return Err(Trouble::Unknown(other.to_string())),
            })
        };
        tokens.push(Token { kind, apart });
        apart = false;
    }
    Ok(tokens)
}

/// A name of letters ends where the letters turn from Latin to Hangul or back: `pi원`.
fn stop(chars: &[char], start: usize, at: usize) -> bool {
    at > start && chars[at].is_alphabetic() && chars[at].is_ascii() != chars[start].is_ascii()
}

/// The usual form of a character.
fn usual(one: char) -> char {
    match one {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(one as u32 - 0xfee0).unwrap_or(one),
        '\u{3000}' => ' ',
        '×' | '✕' | '⋅' | '∙' | '∗' => '*',
        '÷' | '∕' => '/',
        '−' | '–' => '-',
        '￦' => '₩',
        other => other,
    }
}

fn digit_at(chars: &[char], at: usize) -> bool {
    chars.get(at).is_some_and(char::is_ascii_digit)
}

/// The exponent of ten of a Korean step.
fn step(one: char) -> Option<u64> {
    Some(match one {
        '십' => 1,
        '백' => 2,
        '천' => 3,
        '만' => 4,
        '억' => 8,
        '조' => 12,
        '경' => 16,
        _ => return None,
    })
}

/// The number that begins at `at`, and where it ends.
fn number(chars: &[char], mut at: usize, commas: Commas) -> Result<(BigRational, usize), Trouble> {
    let mut total = BigRational::zero();
    // What has been read since the last large step: "2천" of "1억 2천만".
    let mut section = BigRational::zero();
    let mut open = false;
    let (mut last_large, mut last_small) = (u64::MAX, u64::MAX);
    let start = at;
    loop {
        let digits = if digit_at(chars, at) || chars.get(at) == Some(&'.') {
            let (value, end) = decimal(chars, at, commas)?;
            at = end;
            Some(value)
        } else {
            None
        };
        match chars.get(at).copied().and_then(|one| step(one).map(|exponent| (one, exponent))) {
            Some((one, exponent)) => {
                at += 1;
                let ten = BigRational::from_integer(power_of_ten(exponent)?);
                if exponent < 4 {
                    if exponent >= last_small {
                        return Err(Trouble::Steps(one));
                    }
                    last_small = exponent;
                    section += digits.unwrap_or_else(BigRational::one) * ten;
                    open = true;
                } else {
                    if exponent >= last_large {
                        return Err(Trouble::Steps(one));
                    }
                    (last_large, last_small) = (exponent, u64::MAX);
                    section += digits.clone().unwrap_or_else(BigRational::zero);
                    if !open && digits.is_none() {
                        section = BigRational::one();
                    }
                    total += std::mem::take(&mut section) * ten;
                    open = false;
                }
            }
            None => {
                section += digits.unwrap_or_else(BigRational::zero);
                return Ok((total + section, at));
            }
        }
        // After a step the number may go on, also after a space: "1억 2천만".
        let next = (at..chars.len()).find(|&i| !chars[i].is_whitespace()).unwrap_or(chars.len());
        let goes_on = digit_at(chars, next) || chars.get(next).copied().and_then(step).is_some();
        if !goes_on {
            return Ok((total + section, at));
        }
        at = next;
        if at - start > 200 {
            return Err(Trouble::TooLong);
        }
    }
}

fn decimal(chars: &[char], start: usize, commas: Commas) -> Result<(BigRational, usize), Trouble> {
    let mut at = start;
    let mut digits = String::new();
    let mut decimals = 0u64;
    let run = |at: usize| (at..chars.len()).take_while(|&i| chars[i].is_ascii_digit()).count();
    let first = run(at);
    digits.extend(&chars[at..at + first]);
    at += first;
    loop {
        match chars.get(at) {
            Some('_') if digit_at(chars, at + 1) => {}
            Some(',') if commas == Commas::Group && digit_at(chars, at + 1) => {
                if run(at + 1) != 3 || first > 3 || first == 0 {
                    return Err(Trouble::Grouping);
                }
            }
            _ => break,
        }
        let count = run(at + 1);
        digits.extend(&chars[at + 1..=at + count]);
        at += 1 + count;
    }
    if chars.get(at) == Some(&'.') && (digit_at(chars, at + 1) || !digits.is_empty()) {
        let count = run(at + 1);
        digits.extend(&chars[at + 1..=at + count]);
        decimals = count as u64;
        at += 1 + count;
        if chars.get(at) == Some(&'.') {
            return Err(Trouble::Unknown(".".into()));
        }
    }
    let value = digits.parse::<BigInt>().map_err(|_| Trouble::Unknown(digits.chars().take(20).collect()))?;
    let mut value = BigRational::new(value, power_of_ten(decimals)?);
    if matches!(chars.get(at), Some('e' | 'E')) {
        let sign = usize::from(matches!(chars.get(at + 1), Some('+' | '-')));
        let count = run(at + 1 + sign);
        if count > 0 {
            let text: String = chars[at + 1 + sign..at + 1 + sign + count].iter().collect();
            let ten = BigRational::from_integer(power_of_ten(text.parse().map_err(|_| Trouble::Overflow)?)?);
            value = if chars[at + 1] == '-' { value / ten } else { value * ten };
            at += 1 + sign + count;
        }
    }
    Ok((value, at))
}
