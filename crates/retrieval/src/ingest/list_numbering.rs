//! Automatic numbers of a word processor: `제1조`, `①`, `가.`. They are not stored in the text of a paragraph, but without
//! them a contract has no articles.

use std::collections::HashMap;

/// The maximum number of levels in a list.
pub(super) const MAX_LIST_LEVELS: usize = 10;

/// The format of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ListNumberFormat {
    #[default]
    Digit,
    Circled,
    RomanCapital,
    RomanSmall,
    LatinCapital,
    LatinSmall,
    Syllable,
    Consonant,
    HangulNumber,
    Hanja,
    Bullet,
    None,
}

/// One level of a list.
#[derive(Clone, Debug)]
pub(super) struct ListLevel {
    pub(super) start: u32,
    pub(super) number_format: ListNumberFormat,
    /// The text around the number, with `%1` for the number of the first level and so on.
    pub(super) pattern: String,
}

impl Default for ListLevel {
    fn default() -> Self {
        Self { start: 1, number_format: ListNumberFormat::Digit, pattern: String::new() }
    }
}

/// The lists of a document and their counters.
#[derive(Clone, Debug, Default)]
pub(super) struct NumberedLists {
    pub(super) levels: HashMap<String, Vec<ListLevel>>,
    counts: HashMap<String, Vec<u32>>,
}

impl NumberedLists {
    /// Returns the marker of the next paragraph of a list; empty if the list shows none.
    pub(super) fn next_marker(&mut self, list: &str, level: usize) -> String {
        let Some(levels) = self.levels.get(list) else { return String::new() };
        let Some(own) = levels.get(level.min(MAX_LIST_LEVELS - 1)) else { return String::new() };
        let counts = self.counts.entry(list.to_owned()).or_default();
        if own.number_format == ListNumberFormat::Bullet {
            return "-".to_owned();
        }
        counts.truncate(level + 1);
        for above in counts.len()..level {
            counts.push(levels.get(above).map_or(1, |level| level.start));
        }
        match counts.get_mut(level) {
            Some(count) => *count = count.saturating_add(1),
            None => counts.push(own.start),
        }
        let mut mark = own.pattern.clone();
        for (at, count) in counts.iter().enumerate().rev() {
            let shape = levels.get(at).map_or(ListNumberFormat::Digit, |level| level.number_format);
            mark = mark.replace(&format!("%{}", at + 1), &format_number(shape, *count));
        }
        mark.trim().to_owned()
    }
}

/// Formats a number.
pub(super) fn format_number(shape: ListNumberFormat, number: u32) -> String {
    let nth = |letters: &str| {
        let letters: Vec<char> = letters.chars().collect();
        let at = number.saturating_sub(1) as usize;
        letters[at % letters.len()].to_string().repeat(at / letters.len() + 1)
    };
    match shape {
        ListNumberFormat::Digit => number.to_string(),
        ListNumberFormat::Circled => format_circled_number(number),
        ListNumberFormat::RomanCapital => format_roman_numeral(number),
        ListNumberFormat::RomanSmall => format_roman_numeral(number).to_lowercase(),
        ListNumberFormat::LatinCapital if number <= 260 => nth("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        ListNumberFormat::LatinSmall if number <= 260 => nth("abcdefghijklmnopqrstuvwxyz"),
        ListNumberFormat::Syllable if number <= 140 => nth("가나다라마바사아자차카타파하"),
        ListNumberFormat::Consonant if number <= 140 => nth("ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ"),
        ListNumberFormat::HangulNumber => {
            format_spelled_numeral(number, "일이삼사오육칠팔구", ["", "십", "백", "천"])
        }
        ListNumberFormat::Hanja => {
            format_spelled_numeral(number, "一二三四五六七八九", ["", "十", "百", "千"])
        }
        ListNumberFormat::LatinCapital
        | ListNumberFormat::LatinSmall
        | ListNumberFormat::Syllable
        | ListNumberFormat::Consonant => number.to_string(),
        ListNumberFormat::Bullet => "-".to_owned(),
        ListNumberFormat::None => String::new(),
    }
}

fn format_circled_number(number: u32) -> String {
    let code = match number {
        1..=20 => 0x2460 + number - 1,
        21..=35 => 0x3251 + number - 21,
        36..=50 => 0x32B1 + number - 36,
        _ => return format!("({number})"),
    };
    char::from_u32(code).map_or_else(|| number.to_string(), String::from)
}

fn format_roman_numeral(mut number: u32) -> String {
    const TABLE: [(u32, &str); 9] =
        [(100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")];
    if number == 0 || number > 399 {
        return number.to_string();
    }
    let mut text = String::new();
    for (worth, letters) in TABLE {
        while number >= worth {
            text.push_str(letters);
            number -= worth;
        }
    }
    text
}

fn format_spelled_numeral(number: u32, digits: &str, units: [&str; 4]) -> String {
    if number == 0 || number > 9999 {
        return number.to_string();
    }
    let mut text = String::new();
    for (power, unit) in units.iter().enumerate().rev() {
        let digit = number / 10u32.pow(power as u32) % 10;
        let word = digits.chars().nth((digit as usize).wrapping_sub(1));
        if let Some(word) = word.filter(|_| digit > 0) {
            if digit > 1 || power == 0 {
                text.push(word);
            }
            text.push_str(unit);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_every_shape() {
        for (shape, number, expected) in [
            (ListNumberFormat::Digit, 12, "12"),
            (ListNumberFormat::Circled, 3, "③"),
            (ListNumberFormat::Circled, 21, "㉑"),
            (ListNumberFormat::RomanCapital, 14, "XIV"),
            (ListNumberFormat::LatinSmall, 2, "b"),
            (ListNumberFormat::Syllable, 14, "하"),
            (ListNumberFormat::HangulNumber, 21, "이십일"),
            (ListNumberFormat::Hanja, 10, "十"),
        ] {
            assert_eq!(format_number(shape, number), expected);
        }
    }

    #[test]
    fn a_lower_level_starts_again_under_each_upper_one() {
        let level =
            |pattern: &str, shape| ListLevel { start: 1, number_format: shape, pattern: pattern.into() };
        let levels = vec![
            level("제%1조", ListNumberFormat::Digit),
            level("%2", ListNumberFormat::Circled),
            level("%1.%3)", ListNumberFormat::Digit),
        ];
        let mut lists =
            NumberedLists { levels: HashMap::from([("1".to_owned(), levels)]), ..NumberedLists::default() };
        let marks: Vec<String> =
            [0, 1, 1, 0, 1, 2].into_iter().map(|level| lists.next_marker("1", level)).collect();
        assert_eq!(marks, ["제1조", "①", "②", "제2조", "①", "2.1)"]);
        assert_eq!(lists.next_marker("none", 0), "");
    }
}
