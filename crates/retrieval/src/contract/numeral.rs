//! Parses numbers as contracts write them: digits of any width, Hangul and Hanja numerals, circled and Roman numbers.

/// The largest accepted number of an article, clause or item.
const MAX_NUMERAL: u32 = 99_999;

/// Parses the digits at the start of a text. Returns the number and its length in bytes.
pub(super) fn parse_digits(text: &str) -> Option<(u32, usize)> {
    let mut value = 0u32;
    let mut length = 0;
    for char in text.chars() {
        let Some(digit) = digit_value(char) else { break };
        value = value.checked_mul(10)?.checked_add(digit)?;
        if value > MAX_NUMERAL {
            return None;
        }
        length += char.len_utf8();
    }
    (length > 0).then_some((value, length))
}

/// Parses a number at the start of a text in digits, Hanja (`十二`) or Hangul (`십이`).
pub(super) fn parse_numeral(text: &str) -> Option<(u32, usize)> {
    parse_digits(text)
        .or_else(|| parse_spelled_numeral(text, hanja_numeral_sign, true))
        .or_else(|| parse_spelled_numeral(text, hangul_numeral_sign, false))
}

/// Parses a number at the start of a text in digits or Hanja, where a Hangul numeral could be the start of a word.
pub(super) fn parse_digits_or_hanja(text: &str) -> Option<(u32, usize)> {
    parse_digits(text).or_else(|| parse_spelled_numeral(text, hanja_numeral_sign, true))
}

/// Returns the number of a circled number character, up to 50.
pub(crate) fn parse_circled_number(char: char) -> Option<u32> {
    let code = char as u32;
    match code {
        0x2460..=0x2473 => Some(code - 0x2460 + 1),
        0x3251..=0x325F => Some(code - 0x3251 + 21),
        0x32B1..=0x32BF => Some(code - 0x32B1 + 36),
        _ => None,
    }
}

/// Parses a text that is a Roman numeral in capitals.
pub(super) fn parse_roman_numeral(text: &str) -> Option<u32> {
    const TABLE: [(&str, u32); 9] =
        [("C", 100), ("XC", 90), ("L", 50), ("XL", 40), ("X", 10), ("IX", 9), ("V", 5), ("IV", 4), ("I", 1)];
    if text.is_empty() || text.len() > 12 {
        return None;
    }
    let mut rest = text;
    let mut value = 0;
    for (letters, worth) in TABLE {
        let mut repeats = 0;
        while let Some(after) = rest.strip_prefix(letters) {
            repeats += 1;
            if repeats > 3 || (letters.len() > 1 || worth % 10 == 5 || worth == 50) && repeats > 1 {
                return None;
            }
            (rest, value) = (after, value + worth);
        }
    }
    rest.is_empty().then_some(value)
}

/// Returns the position of a syllable in 가, 나, 다, …, 하, from 1.
pub(super) fn parse_ganada_letter(char: char) -> Option<u32> {
    "가나다라마바사아자차카타파하".chars().position(|known| known == char).map(|at| at as u32 + 1)
}

fn digit_value(char: char) -> Option<u32> {
    match char {
        '0'..='9' => Some(char as u32 - '0' as u32),
        '０'..='９' => Some(char as u32 - '０' as u32),
        _ => None,
    }
}

enum NumeralSign {
    Digit(u32),
    Unit(u32),
}

fn hangul_numeral_sign(char: char) -> Option<NumeralSign> {
    Some(match char {
        '일' => NumeralSign::Digit(1),
        '이' => NumeralSign::Digit(2),
        '삼' => NumeralSign::Digit(3),
        '사' => NumeralSign::Digit(4),
        '오' => NumeralSign::Digit(5),
        '육' | '륙' => NumeralSign::Digit(6),
        '칠' => NumeralSign::Digit(7),
        '팔' => NumeralSign::Digit(8),
        '구' => NumeralSign::Digit(9),
        '십' => NumeralSign::Unit(10),
        '백' => NumeralSign::Unit(100),
        '천' => NumeralSign::Unit(1000),
        _ => return None,
    })
}

fn hanja_numeral_sign(char: char) -> Option<NumeralSign> {
    Some(match char {
        '〇' | '零' => NumeralSign::Digit(0),
        '一' | '壹' | '壱' => NumeralSign::Digit(1),
        '二' | '貳' | '弐' => NumeralSign::Digit(2),
        '三' | '參' => NumeralSign::Digit(3),
        '四' => NumeralSign::Digit(4),
        '五' => NumeralSign::Digit(5),
        '六' => NumeralSign::Digit(6),
        '七' => NumeralSign::Digit(7),
        '八' => NumeralSign::Digit(8),
        '九' => NumeralSign::Digit(9),
        '十' | '拾' => NumeralSign::Unit(10),
        '百' => NumeralSign::Unit(100),
        '千' => NumeralSign::Unit(1000),
        _ => return None,
    })
}

/// Parses `이십삼`: a digit multiplies the unit after it, and units decrease. Digits are adjacent only in positional
/// notation, as in `二三`.
fn parse_spelled_numeral(
    text: &str,
    sign: fn(char) -> Option<NumeralSign>,
    by_place: bool,
) -> Option<(u32, usize)> {
    let (mut value, mut pending, mut below, mut length) = (0, None, u32::MAX, 0);
    for char in text.chars() {
        match sign(char) {
            Some(NumeralSign::Digit(digit)) if pending.is_none() => pending = Some(digit),
            Some(NumeralSign::Digit(digit)) if by_place && value == 0 && length < 12 => {
                pending = pending.map(|before| before * 10 + digit);
            }
            Some(NumeralSign::Unit(unit)) if unit < below => {
                value += pending.take().unwrap_or(1) * unit;
                below = unit;
            }
            Some(_) | None => break,
        }
        length += char.len_utf8();
    }
    value += pending.unwrap_or(0);
    (length > 0 && value > 0).then_some((value, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<u32>) {
        assert_eq!(parse_numeral(text).map(|(value, _)| value), expected, "{text}");
    }

    #[test]
    fn numbers_are_read_in_every_spelling() {
        check("5조", Some(5));
        check("１２조", Some(12));
        check("십조", Some(10));
        check("이십삼조", Some(23));
        check("백이조", Some(102));
        check("五條", Some(5));
        check("二十一條", Some(21));
        check("二三條", Some(23));
        check("一〇條", Some(10));
        check("일이조", Some(1));
        check("가조", None);
        check("9999999999999", None);
    }

    #[test]
    fn roman_numbers_are_read_strictly() {
        for (text, expected) in [
            ("I", Some(1)),
            ("IV", Some(4)),
            ("XIX", Some(19)),
            ("IIII", None),
            ("VV", None),
            ("IC", None),
            ("", None),
        ] {
            assert_eq!(parse_roman_numeral(text), expected, "{text}");
        }
    }

    #[test]
    fn circles_go_to_fifty() {
        for (char, expected) in
            [('①', Some(1)), ('⑳', Some(20)), ('㉑', Some(21)), ('㊿', Some(50)), ('1', None)]
        {
            assert_eq!(parse_circled_number(char), expected, "{char}");
        }
    }
}
