//! From text to tokens: numbers as people write them, in either language.
//!
//! A number may have thousands separators (`1,234,567`, `1_000`), a decimal point, an exponent (`1.5e3`) and Korean
//! steps (`3만5천`, `1억 2천만`, `천만`, `2.5억`). Full-width characters read as their usual ones.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Zero};

use super::CalculatorError;
use super::number::power_of_ten;

/// A piece of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CalculatorToken {
    pub(super) kind: CalculatorTokenKind,
    /// Whether there is a space before it.
    pub(super) after_space: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum CalculatorTokenKind {
    Number(BigRational),
    Name(String),
    /// `+ - * / ^ % ! ( ) , √ °`, and `\` for whole division.
    Sign(char),
}

/// Whether a comma at this place separates arguments.
#[derive(Clone, Copy, PartialEq)]
enum CommaMeaning {
    Separate,
    Group,
}

/// The tokens of an expression. The names before a parenthesis decide what a comma means inside it: `max(1,234)` has two
/// arguments, `(1,234)` is one number.
pub(super) fn tokenize(text: &str) -> Result<Vec<CalculatorToken>, CalculatorError> {
    let chars: Vec<char> = text.chars().map(normalize_char).collect();
    let mut tokens: Vec<CalculatorToken> = Vec::new();
    let mut inside: Vec<CommaMeaning> = Vec::new();
    let mut at = 0;
    let mut apart = false;
    while let Some(&one) = chars.get(at) {
        if one.is_whitespace() {
            apart = true;
            at += 1;
            continue;
        }
        let commas = inside.last().copied().unwrap_or(CommaMeaning::Group);
        let kind = if one.is_ascii_digit()
            || (one == '.' && is_digit_at(&chars, at + 1))
            || korean_unit_exponent(one).is_some()
        {
            let (number, end) = parse_number(&chars, at, commas)?;
            at = end;
            CalculatorTokenKind::Number(number)
        } else if one.is_alphabetic() {
            let end = (at..chars.len())
                .find(|&i| !(chars[i].is_alphanumeric() || chars[i] == '_') || changes_script(&chars, at, i));
            let name: String =
                chars[at..end.unwrap_or(chars.len())].iter().collect::<String>().to_lowercase();
            at += name.chars().count().max(1);
            if name == "x" { CalculatorTokenKind::Sign('*') } else { CalculatorTokenKind::Name(name) }
        } else {
            at += 1;
            match one {
                '(' => {
                    let called =
                        matches!(tokens.last().map(|token| &token.kind), Some(CalculatorTokenKind::Name(_)));
                    inside.push(if called { CommaMeaning::Separate } else { CommaMeaning::Group });
                }
                ')' => {
                    inside.pop();
                }
                _ => {}
            }
            let doubled = matches!(one, '*' | '/') && chars.get(at) == Some(&one);
            at += usize::from(doubled);
            CalculatorTokenKind::Sign(match one {
                '*' if doubled => '^',
                '/' if doubled => '\\',
                '+' | '-' | '*' | '/' | '^' | '%' | '!' | '(' | ')' | ',' | '√' | '°' => one,
                '²' | '³' => {
                    tokens.push(CalculatorToken { kind: CalculatorTokenKind::Sign('^'), after_space: false });
                    let power = if one == '²' { 2 } else { 3 };
                    tokens.push(CalculatorToken {
                        kind: CalculatorTokenKind::Number(BigRational::from_integer(power.into())),
                        after_space: false,
                    });
                    continue;
                }
                '₩' => continue,
                '=' if chars[at..].iter().all(|rest| rest.is_whitespace() || *rest == '?') => break,
                other => return Err(CalculatorError::UnknownCharacter(other.to_string())),
            })
        };
        tokens.push(CalculatorToken { kind, after_space: apart });
        apart = false;
    }
    Ok(tokens)
}

/// A name of letters ends where the letters turn from Latin to Hangul or back: `pi원`.
fn changes_script(chars: &[char], start: usize, at: usize) -> bool {
    at > start && chars[at].is_alphabetic() && chars[at].is_ascii() != chars[start].is_ascii()
}

/// The usual form of a character.
fn normalize_char(one: char) -> char {
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

fn is_digit_at(chars: &[char], at: usize) -> bool {
    chars.get(at).is_some_and(char::is_ascii_digit)
}

/// The exponent of ten of a Korean step.
fn korean_unit_exponent(one: char) -> Option<u64> {
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
fn parse_number(
    chars: &[char],
    mut at: usize,
    commas: CommaMeaning,
) -> Result<(BigRational, usize), CalculatorError> {
    let mut total = BigRational::zero();
    // What has been read since the last large step: "2천" of "1억 2천만".
    let mut section = BigRational::zero();
    let mut open = false;
    let (mut last_large, mut last_small) = (u64::MAX, u64::MAX);
    let start = at;
    loop {
        let digits = if is_digit_at(chars, at) || chars.get(at) == Some(&'.') {
            let (value, end) = parse_decimal(chars, at, commas)?;
            at = end;
            Some(value)
        } else {
            None
        };
        match chars.get(at).copied().and_then(|one| korean_unit_exponent(one).map(|exponent| (one, exponent)))
        {
            Some((one, exponent)) => {
                at += 1;
                let ten = BigRational::from_integer(power_of_ten(exponent)?);
                if exponent < 4 {
                    if exponent >= last_small {
                        return Err(CalculatorError::KoreanUnitOrder(one));
                    }
                    last_small = exponent;
                    section += digits.unwrap_or_else(BigRational::one) * ten;
                    open = true;
                } else {
                    if exponent >= last_large {
                        return Err(CalculatorError::KoreanUnitOrder(one));
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
        let goes_on =
            is_digit_at(chars, next) || chars.get(next).copied().and_then(korean_unit_exponent).is_some();
        if !goes_on {
            return Ok((total + section, at));
        }
        at = next;
        if at - start > 200 {
            return Err(CalculatorError::TooLong);
        }
    }
}

fn parse_decimal(
    chars: &[char],
    start: usize,
    commas: CommaMeaning,
) -> Result<(BigRational, usize), CalculatorError> {
    let mut at = start;
    let mut digits = String::new();
    let mut decimals = 0u64;
    let run = |at: usize| (at..chars.len()).take_while(|&i| chars[i].is_ascii_digit()).count();
    let first = run(at);
    digits.extend(&chars[at..at + first]);
    at += first;
    loop {
        match chars.get(at) {
            Some('_') if is_digit_at(chars, at + 1) => {}
            Some(',') if commas == CommaMeaning::Group && is_digit_at(chars, at + 1) => {
                if run(at + 1) != 3 || first > 3 || first == 0 {
                    return Err(CalculatorError::Grouping);
                }
            }
            _ => break,
        }
        let count = run(at + 1);
        digits.extend(&chars[at + 1..=at + count]);
        at += 1 + count;
    }
    if chars.get(at) == Some(&'.') && (is_digit_at(chars, at + 1) || !digits.is_empty()) {
        let count = run(at + 1);
        digits.extend(&chars[at + 1..=at + count]);
        decimals = count as u64;
        at += 1 + count;
        if chars.get(at) == Some(&'.') {
            return Err(CalculatorError::UnknownCharacter(".".into()));
        }
    }
    let value = digits
        .parse::<BigInt>()
        .map_err(|_| CalculatorError::UnknownCharacter(digits.chars().take(20).collect()))?;
    let mut value = BigRational::new(value, power_of_ten(decimals)?);
    if matches!(chars.get(at), Some('e' | 'E')) {
        let sign = usize::from(matches!(chars.get(at + 1), Some('+' | '-')));
        let count = run(at + 1 + sign);
        if count > 0 {
            let text: String = chars[at + 1 + sign..at + 1 + sign + count].iter().collect();
            let ten = BigRational::from_integer(power_of_ten(
                text.parse().map_err(|_| CalculatorError::Overflow)?,
            )?);
            value = if chars[at + 1] == '-' { value / ten } else { value * ten };
            at += 1 + sign + count;
        }
    }
    Ok((value, at))
}
