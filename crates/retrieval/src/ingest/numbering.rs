//! Numbers that a word processor writes by itself: `제1조`, `①`, `가.`. They are not in the text of the paragraph, yet
//! a contract without them has no articles.

use std::collections::HashMap;

/// The levels a list may have.
pub(super) const LEVELS: usize = 10;

/// How a number is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shape {
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
pub(super) struct Level {
    pub(super) start: u32,
    pub(super) shape: Shape,
    /// The text around the number, with `%1` for the number of the first level and so on.
    pub(super) pattern: String,
}

impl Default for Level {
    fn default() -> Self {
        Self { start: 1, shape: Shape::Digit, pattern: String::new() }
    }
}

/// The lists of a document and how far each has counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) levels: HashMap<String, Vec<Level>>,
    counts: HashMap<String, Vec<u32>>,
}

impl Lists {
    /// The mark of the next paragraph of a list; empty where the list shows none.
    pub(super) fn mark(&mut self, list: &str, level: usize) -> String {
        let Some(levels) = self.levels.get(list) else { return String::new() };
        let Some(own) = levels.get(level.min(LEVELS - 1)) else { return String::new() };
        let counts = self.counts.entry(list.to_owned()).or_default();
        if own.shape == Shape::Bullet {
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
            let shape = levels.get(at).map_or(Shape::Digit, |level| level.shape);
            mark = mark.replace(&format!("%{}", at + 1), &shown(shape, *count));
        }
        mark.trim().to_owned()
    }
}

/// A number in a shape.
pub(super) fn shown(shape: Shape, number: u32) -> String {
    let nth = |letters: &str| {
        let letters: Vec<char> = letters.chars().collect();
        let at = number.saturating_sub(1) as usize;
        letters[at % letters.len()].to_string().repeat(at / letters.len() + 1)
    };
    match shape {
        Shape::Digit => number.to_string(),
        Shape::Circled => circled(number),
        Shape::RomanCapital => roman(number),
        Shape::RomanSmall => roman(number).to_lowercase(),
        Shape::LatinCapital if number <= 260 => nth("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        Shape::LatinSmall if number <= 260 => nth("abcdefghijklmnopqrstuvwxyz"),
        Shape::Syllable if number <= 140 => nth("가나다라마바사아자차카타파하"),
        Shape::Consonant if number <= 140 => nth("ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ"),
        Shape::HangulNumber => spelled(number, "일이삼사오육칠팔구", ["", "십", "백", "천"]),
        Shape::Hanja => spelled(number, "一二三四五六七八九", ["", "十", "百", "千"]),
        Shape::LatinCapital | Shape::LatinSmall | Shape::Syllable | Shape::Consonant => number.to_string(),
        Shape::Bullet => "-".to_owned(),
        Shape::None => String::new(),
    }
}

fn circled(number: u32) -> String {
    let code = match number {
        1..=20 => 0x2460 + number - 1,
        21..=35 => 0x3251 + number - 21,
        36..=50 => 0x32B1 + number - 36,
        _ => return format!("({number})"),
    };
    char::from_u32(code).map_or_else(|| number.to_string(), String::from)
}

fn roman(mut number: u32) -> String {
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

fn spelled(number: u32, digits: &str, units: [&str; 4]) -> String {
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
            (Shape::Digit, 12, "12"),
            (Shape::Circled, 3, "③"),
            (Shape::Circled, 21, "㉑"),
            (Shape::RomanCapital, 14, "XIV"),
            (Shape::LatinSmall, 2, "b"),
            (Shape::Syllable, 14, "하"),
            (Shape::HangulNumber, 21, "이십일"),
            (Shape::Hanja, 10, "十"),
        ] {
            assert_eq!(shown(shape, number), expected);
        }
    }

    #[test]
    fn a_lower_level_starts_again_under_each_upper_one() {
        let level = |pattern: &str, shape| Level { start: 1, shape, pattern: pattern.into() };
        let levels =
            vec![level("제%1조", Shape::Digit), level("%2", Shape::Circled), level("%1.%3)", Shape::Digit)];
        let mut lists = Lists { levels: HashMap::from([("1".to_owned(), levels)]), ..Lists::default() };
        let marks: Vec<String> = [0, 1, 1, 0, 1, 2].into_iter().map(|level| lists.mark("1", level)).collect();
        assert_eq!(marks, ["제1조", "①", "②", "제2조", "①", "2.1)"]);
        assert_eq!(lists.mark("none", 0), "");
    }
}
