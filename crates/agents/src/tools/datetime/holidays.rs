//! Korean public holidays of [`FIRST_YEAR`] to [`LAST_YEAR`], with substitute days.
//!
//! The days follow the rules of 관공서의 공휴일에 관한 규정 as they stood in each year: which days are holidays, and which
//! of them get another day when they fall on a weekend or on each other. The dates of the lunar calendar are a table;
//! it was compared with two independent calendars. Days that the government declares for one occasion, and days of
//! elections, are known up to [`LAST_DECLARED_YEAR`].

use std::collections::BTreeMap;

use jiff::civil::{Date, Weekday, date};

/// The first year that is known.
pub(crate) const FIRST_YEAR: i16 = 2020;
/// The last year that is known.
pub(crate) const LAST_YEAR: i16 = 2035;
/// The last year whose declared days and elections are in the table.
pub(crate) const LAST_DECLARED_YEAR: i16 = 2026;

/// A holiday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holiday {
    /// Its name in Korean.
    pub ko: &'static str,
    /// Its name in English.
    pub en: &'static str,
    /// Whether it is a day instead of one that fell on a day off.
    pub substitute: bool,
}

/// 설날, 부처님오신날 and 추석 of each year from [`FIRST_YEAR`], as month and day.
const LUNAR_HOLIDAYS: [[(i8, i8); 3]; 16] = [
    [(1, 25), (4, 30), (10, 1)],
    [(2, 12), (5, 19), (9, 21)],
    [(2, 1), (5, 8), (9, 10)],
    [(1, 22), (5, 27), (9, 29)],
    [(2, 10), (5, 15), (9, 17)],
    [(1, 29), (5, 5), (10, 6)],
    [(2, 17), (5, 24), (9, 25)],
    [(2, 7), (5, 13), (9, 15)],
    [(1, 27), (5, 2), (10, 3)],
    [(2, 13), (5, 20), (9, 22)],
    [(2, 3), (5, 9), (9, 12)],
    [(1, 23), (5, 28), (10, 1)],
    [(2, 11), (5, 16), (9, 19)],
    [(1, 31), (5, 6), (9, 8)],
    [(2, 19), (5, 25), (9, 27)],
    [(2, 8), (5, 15), (9, 16)],
];

/// Declared for one occasion, and elections.
const DECLARED_HOLIDAYS: [(i16, i8, i8, &str, &str); 10] = [
    (2020, 4, 15, "국회의원 선거일", "National Assembly election"),
    (2020, 8, 17, "임시공휴일", "temporary holiday"),
    (2022, 3, 9, "대통령 선거일", "presidential election"),
    (2022, 6, 1, "지방선거일", "local elections"),
    (2023, 10, 2, "임시공휴일", "temporary holiday"),
    (2024, 4, 10, "국회의원 선거일", "National Assembly election"),
    (2024, 10, 1, "임시공휴일(국군의 날)", "temporary holiday (Armed Forces Day)"),
    (2025, 1, 27, "임시공휴일", "temporary holiday"),
    (2025, 6, 3, "대통령 선거일", "presidential election"),
    (2026, 6, 3, "지방선거일", "local elections"),
];

/// What holidays are called in lower case, by the start of their Korean names: 설날 is 설날, 설날 전날 and 설날 다음날.
pub const HOLIDAY_NAMES: [(&str, &[&str]); 13] = [
    ("새해", &["새해 첫날", "새해", "신정", "new year's day", "new year"]),
    ("설날", &["설날", "설 연휴", "구정", "seollal", "lunar new year", "korean new year"]),
    ("삼일절", &["삼일절", "3.1절", "3·1절", "independence movement day", "march first"]),
    ("노동절", &["노동절", "근로자의 날", "labour day", "labor day"]),
    ("어린이날", &["어린이날", "children's day"]),
    ("부처님오신날", &["부처님오신날", "부처님 오신 날", "석가탄신일", "초파일", "buddha's birthday"]),
    ("현충일", &["현충일", "memorial day"]),
    ("제헌절", &["제헌절", "constitution day"]),
    ("광복절", &["광복절", "liberation day"]),
    ("추석", &["추석", "추석 연휴", "한가위", "chuseok"]),
    ("개천절", &["개천절", "national foundation day"]),
    ("한글날", &["한글날", "hangeul day", "hangul day"]),
    ("기독탄신일", &["기독탄신일", "성탄절", "크리스마스", "christmas", "christmas day"]),
];

/// The start of the Korean name of the holiday that is called so.
pub(crate) fn key_of_name(name: &str) -> Option<&'static str> {
    let squeeze = |name: &str| name.split_whitespace().collect::<String>().to_lowercase();
    let name = squeeze(name);
    let called = HOLIDAY_NAMES.iter().find(|(_, names)| names.iter().any(|known| squeeze(known) == name));
    called.map(|(key, _)| *key)
}

/// When a holiday gets another day.
#[derive(Clone, Copy, PartialEq)]
enum SubstituteRule {
    Never,
    /// When it falls on a Sunday or on another holiday.
    FromSunday,
    /// When it falls on a Saturday, a Sunday or another holiday.
    FromWeekend,
}

/// The holidays of a year, by date; `None` outside of the years that are known.
pub(crate) fn holidays_of_year(year: i16) -> Option<BTreeMap<Date, Vec<Holiday>>> {
    let lunar = LUNAR_HOLIDAYS.get(usize::try_from(year.checked_sub(FIRST_YEAR)?).ok()?)?;
    let mut days: Vec<(Date, Holiday, SubstituteRule)> = Vec::new();
    let mut add = |day: Date, ko: &'static str, en: &'static str, moves: SubstituteRule| {
        days.push((day, Holiday { ko, en, substitute: false }, moves));
    };
    let on = |(month, day): (i8, i8)| date(year, month, day);
    let since = |first: i16| if year >= first { SubstituteRule::FromWeekend } else { SubstituteRule::Never };
    let [seollal, buddha, chuseok] = lunar.map(on);

    add(on((1, 1)), "새해 첫날", "New Year's Day", SubstituteRule::Never);
    for (middle, names) in [
        (
            seollal,
            [
                ("설날 전날", "the day before Seollal"),
                ("설날", "Seollal"),
                ("설날 다음날", "the day after Seollal"),
            ],
        ),
        (
            chuseok,
            [
                ("추석 전날", "the day before Chuseok"),
                ("추석", "Chuseok"),
                ("추석 다음날", "the day after Chuseok"),
            ],
        ),
    ] {
        let around = [middle.yesterday().ok()?, middle, middle.tomorrow().ok()?];
        for (day, (ko, en)) in around.into_iter().zip(names) {
            add(day, ko, en, SubstituteRule::FromSunday);
        }
    }
    add(on((3, 1)), "삼일절", "Independence Movement Day", since(2022));
    if year >= 2026 {
        add(on((5, 1)), "노동절", "Labour Day", SubstituteRule::FromWeekend);
    }
    add(on((5, 5)), "어린이날", "Children's Day", SubstituteRule::FromWeekend);
    add(buddha, "부처님오신날", "Buddha's Birthday", since(2023));
    add(on((6, 6)), "현충일", "Memorial Day", SubstituteRule::Never);
    if year >= 2026 {
        add(on((7, 17)), "제헌절", "Constitution Day", SubstituteRule::FromWeekend);
    }
    add(on((8, 15)), "광복절", "Liberation Day", since(2021));
    add(on((10, 3)), "개천절", "National Foundation Day", since(2021));
    add(on((10, 9)), "한글날", "Hangeul Day", since(2021));
    add(on((12, 25)), "기독탄신일", "Christmas", since(2023));
    for (_, month, day, ko, en) in DECLARED_HOLIDAYS.into_iter().filter(|one| one.0 == year) {
        add(on((month, day)), ko, en, SubstituteRule::Never);
    }
    with_substitutes(days)
}

fn with_substitutes(mut days: Vec<(Date, Holiday, SubstituteRule)>) -> Option<BTreeMap<Date, Vec<Holiday>>> {
    days.sort_by_key(|(day, ..)| *day);
    let mut all: BTreeMap<Date, Vec<Holiday>> = BTreeMap::new();
    for (day, holiday, _) in &days {
        all.entry(*day).or_default().push(*holiday);
    }
    let mut met: Option<Date> = None;
    for (day, holiday, moves) in days {
        let on_another = met == Some(day) || all.get(&day).is_some_and(|names| names.len() > 1);
        let due = match (moves, day.weekday()) {
            (SubstituteRule::Never, _) => false,
            (SubstituteRule::FromWeekend, Weekday::Saturday) | (_, Weekday::Sunday) => true,
            _ => on_another,
        };
        // Two holidays on one day lose one day off, not two.
        if !due || met == Some(day) {
            continue;
        }
        met = Some(day);
        let mut instead = day.tomorrow().ok()?;
        while is_weekend(instead) || all.contains_key(&instead) {
            instead = instead.tomorrow().ok()?;
        }
        let [ko, en] = match holiday.ko.split(' ').next() {
            Some("설날") => ["설날", "Seollal"],
            Some("추석") => ["추석", "Chuseok"],
            _ => [holiday.ko, holiday.en],
        };
        all.insert(instead, vec![Holiday { ko, en, substitute: true }]);
    }
    Some(all)
}

/// Whether it is a Saturday or a Sunday.
pub(crate) fn is_weekend(day: Date) -> bool {
    matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday)
}

/// Whether people work on it in Korea; `None` outside of the years that are known.
pub(crate) fn is_business_day(day: Date) -> Option<bool> {
    Some(!is_weekend(day) && !holidays_of_year(day.year())?.contains_key(&day))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every holiday of every year as an independent calendar has it, less elections that are still to come.
    const EXPECTED_HOLIDAYS: &str = "\
2020: 01-01 01-24 01-25 01-26 01-27 03-01 04-15 04-30 05-05 06-06 08-15 08-17 09-30 10-01 10-02 10-03 10-09 12-25
2021: 01-01 02-11 02-12 02-13 03-01 05-05 05-19 06-06 08-15 08-16 09-20 09-21 09-22 10-03 10-04 10-09 10-11 12-25
2022: 01-01 01-31 02-01 02-02 03-01 03-09 05-05 05-08 06-01 06-06 08-15 09-09 09-10 09-11 09-12 10-03 10-09 10-10 12-25
2023: 01-01 01-21 01-22 01-23 01-24 03-01 05-05 05-27 05-29 06-06 08-15 09-28 09-29 09-30 10-02 10-03 10-09 12-25
2024: 01-01 02-09 02-10 02-11 02-12 03-01 04-10 05-05 05-06 05-15 06-06 08-15 09-16 09-17 09-18 10-01 10-03 10-09 12-25
2025: 01-01 01-27 01-28 01-29 01-30 03-01 03-03 05-05 05-06 06-03 06-06 08-15 10-03 10-05 10-06 10-07 10-08 10-09 12-25
2026: 01-01 02-16 02-17 02-18 03-01 03-02 05-01 05-05 05-24 05-25 06-03 06-06 07-17 08-15 08-17 09-24 09-25 09-26 10-03 10-05 10-09 12-25
2027: 01-01 02-06 02-07 02-08 02-09 03-01 05-01 05-03 05-05 05-13 06-06 07-17 07-19 08-15 08-16 09-14 09-15 09-16 10-03 10-04 10-09 10-11 12-25 12-27
2028: 01-01 01-26 01-27 01-28 03-01 05-01 05-02 05-05 06-06 07-17 08-15 10-02 10-03 10-04 10-05 10-09 12-25
2029: 01-01 02-12 02-13 02-14 03-01 05-01 05-05 05-07 05-20 05-21 06-06 07-17 08-15 09-21 09-22 09-23 09-24 10-03 10-09 12-25
2030: 01-01 02-02 02-03 02-04 02-05 03-01 05-01 05-05 05-06 05-09 06-06 07-17 08-15 09-11 09-12 09-13 10-03 10-09 12-25
2031: 01-01 01-22 01-23 01-24 03-01 03-03 05-01 05-05 05-28 06-06 07-17 08-15 09-30 10-01 10-02 10-03 10-09 12-25
2032: 01-01 02-10 02-11 02-12 03-01 05-01 05-03 05-05 05-16 05-17 06-06 07-17 07-19 08-15 08-16 09-18 09-19 09-20 09-21 10-03 10-04 10-09 10-11 12-25 12-27
2033: 01-01 01-30 01-31 02-01 02-02 03-01 05-01 05-02 05-05 05-06 06-06 07-17 07-18 08-15 09-07 09-08 09-09 10-03 10-09 10-10 12-25 12-26
2034: 01-01 02-18 02-19 02-20 02-21 03-01 05-01 05-05 05-25 06-06 07-17 08-15 09-26 09-27 09-28 10-03 10-09 12-25
2035: 01-01 02-07 02-08 02-09 03-01 05-01 05-05 05-07 05-15 06-06 07-17 08-15 09-15 09-16 09-17 09-18 10-03 10-09 12-25";

    #[test]
    fn the_holidays_are_those_of_an_independent_calendar() {
        for line in EXPECTED_HOLIDAYS.lines() {
            let (year, days) = line.split_once(": ").expect("year");
            let found = holidays_of_year(year.parse().expect("number")).expect("known");
            let found: Vec<String> =
                found.keys().map(|day| format!("{:02}-{:02}", day.month(), day.day())).collect();
            assert_eq!(found.join(" "), days, "{year}");
        }
        assert_eq!(EXPECTED_HOLIDAYS.lines().count(), LUNAR_HOLIDAYS.len());
    }

    #[test]
    fn a_day_that_falls_on_another_moves_once() {
        let year = holidays_of_year(2025).expect("known");
        let names = |month, day| -> Vec<(&str, bool)> {
            year.get(&date(2025, month, day))
                .into_iter()
                .flatten()
                .map(|one| (one.ko, one.substitute))
                .collect()
        };
        assert_eq!(names(5, 5), [("어린이날", false), ("부처님오신날", false)]);
        assert_eq!(names(5, 6), [("어린이날", true)]);
        assert_eq!(names(5, 7), []);
        assert_eq!(names(10, 8), [("추석", true)]);
    }

    #[test]
    fn outside_of_the_known_years_nothing_is_claimed() {
        assert_eq!(holidays_of_year(FIRST_YEAR - 1), None);
        assert_eq!(holidays_of_year(LAST_YEAR + 1), None);
        assert_eq!(is_business_day(date(2036, 3, 3)), None);
    }
}
