//! Formats numbers as a workbook shows them. Dates are stored as numbers, and only the format of a cell tells them
//! apart.

/// How the numbers of a style are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellNumberFormat {
    Plain,
    Percent,
    Date,
    /// A time of day or a duration.
    Time,
}

/// The day from which a workbook counts dates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DateSystem {
    #[default]
    From1900,
    /// Counted from 1904, as old versions of Excel for Macintosh did.
    From1904,
}

impl CellNumberFormat {
    /// Returns the kind of a format: from its code if it has one, else from its built-in id, with the Korean meaning
    /// where that differs.
    pub(super) fn new(id: usize, code: Option<&str>) -> Self {
        match (id, code) {
            (_, Some(code)) => Self::from_format_code(code),
            (9 | 10, None) => Self::Percent,
            (14..=17 | 22 | 27..=31 | 34..=36 | 50..=58, None) => Self::Date,
            (18..=21 | 32 | 33 | 45..=47, None) => Self::Time,
            (_, None) => Self::Plain,
        }
    }

    fn from_format_code(code: &str) -> Self {
        let StrippedFormatCode { code, elapsed } = StrippedFormatCode::new(code);
        // A run of other letters is a word, such as `General`.
        let runs = code.split(|char: char| !char.is_ascii_alphabetic());
        let parts: String = runs.filter(|run| run.chars().all(|char| "ymdhsaegbp".contains(char))).collect();
        let has = |char: char| parts.contains(char);
        let (clock, day) = (elapsed || has('h') || has('s'), has('y') || has('d'));
        // In a format with digit placeholders a letter is an unquoted unit.
        let counts = code.contains(['0', '#', '?']);
        match (clock, day) {
            (true, true) => Self::Date,
            (true, false) => Self::Time,
            // `m` means minutes beside hours or seconds, and a month otherwise.
            (false, day) if (day || has('m')) && !counts => Self::Date,
            (false, _) if code.contains('%') => Self::Percent,
            (false, _) => Self::Plain,
        }
    }
}

/// A format code in lower case without what does not concern the number: quoted words, literal and padding characters,
/// colours and languages in brackets.
struct StrippedFormatCode {
    code: String,
    /// Whether it counts hours, minutes or seconds past a day, as `[h]` does.
    elapsed: bool,
}

impl StrippedFormatCode {
    fn new(code: &str) -> Self {
        let mut bare = Self { code: String::new(), elapsed: false };
        let mut chars = code.chars();
        while let Some(char) = chars.next() {
            match char {
                '"' => {
                    chars.by_ref().take_while(|char| *char != '"').for_each(drop);
                    bare.code.push(' ');
                }
                '[' => {
                    let inside: String = chars.by_ref().take_while(|char| *char != ']').collect();
                    let counted = inside.chars().all(|char| "hHmMsS".contains(char));
                    bare.elapsed |= counted && !inside.is_empty();
                }
                '\\' | '_' | '*' => {
                    chars.next();
                    bare.code.push(' ');
                }
                char => bare.code.push(char.to_ascii_lowercase()),
            }
        }
        bare
    }
}

/// Formats a number approximately as its cell shows it, so that it can be searched.
pub(super) fn format_cell_number(words: &str, look: CellNumberFormat, calendar: DateSystem) -> String {
    let shown = match (look, words.trim().parse::<f64>()) {
        (CellNumberFormat::Date, Ok(days)) => format_date(days, calendar),
        // A date of which only the hour is shown is written whole.
        (CellNumberFormat::Time, Ok(days)) => format_time(days).or_else(|| format_date(days, calendar)),
        (CellNumberFormat::Percent, Ok(share)) => Some(format!("{}%", format_rounded(share * 100.0))),
        (CellNumberFormat::Plain, Ok(number)) if words.len() > 15 => Some(format_rounded(number)),
        (CellNumberFormat::Plain, Ok(_)) | (_, Err(_)) => None,
    };
    shown.unwrap_or_else(|| words.to_owned())
}

/// Formats a number without binary rounding noise.
fn format_rounded(number: f64) -> String {
    let text = format!("{number:.10}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a fraction of a day as a time. More than a day is a duration.
fn format_time(days: f64) -> Option<String> {
    if !(0.0..1000.0).contains(&days) {
        return None;
    }
    let seconds = (days * 86_400.0).round() as u64;
    let minutes = format!("{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
    Some(if seconds.is_multiple_of(60) { minutes } else { format!("{minutes}:{:02}", seconds % 60) })
}

/// Formats a day number as a date. In the 1900 system day 0 is the last day of 1899 and 1900 counts as a leap year; in
/// the 1904 system day 0 is its first day.
fn format_date(days: f64, calendar: DateSystem) -> Option<String> {
    let days = match calendar {
        DateSystem::From1900 => days,
        DateSystem::From1904 if days < 0.0 => return None,
        DateSystem::From1904 => days + 1462.0,
    };
    if !(61.0..2_958_466.0).contains(&days) {
        return None;
    }
    let whole = days.floor() as i64;
    // Days since 0000-03-01, after the usual algorithm for the civil calendar.
    let from_march = whole - 25_569 + 719_468;
    let era = from_march.div_euclid(146_097);
    let day_of_era = from_march.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let minutes = ((days - days.floor()) * 1440.0).round() as i64;
    let day = format!("{year:04}-{month:02}-{day:02}");
    Some(if minutes > 0 && minutes < 1440 {
        format!("{day} {:02}:{:02}", minutes / 60, minutes % 60)
    } else {
        day
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str, look: CellNumberFormat, expected: &str) {
        assert_eq!(format_cell_number(words, look, DateSystem::From1900), expected);
    }

    #[test]
    fn days_are_counted_as_excel_does() {
        check("61", CellNumberFormat::Date, "1900-03-01");
        check("45658", CellNumberFormat::Date, "2025-01-01");
        check("46341.5", CellNumberFormat::Date, "2026-11-15 12:00");
        check("46082", CellNumberFormat::Date, "2026-03-01");
        check("-5", CellNumberFormat::Date, "-5");
        check("15", CellNumberFormat::Date, "15");
        for (days, expected) in [("44620", "2026-03-01"), ("0", "1904-01-01"), ("-1", "-1")] {
            assert_eq!(format_cell_number(days, CellNumberFormat::Date, DateSystem::From1904), expected);
        }
    }

    #[test]
    fn shares_and_times_are_written_as_they_are_shown() {
        check("0.07", CellNumberFormat::Percent, "7%");
        check("0.3958333333333333", CellNumberFormat::Time, "09:30");
        check("1.25", CellNumberFormat::Time, "30:00");
        check("0.5000115740740741", CellNumberFormat::Time, "12:00:01");
        check("46082.5", CellNumberFormat::Time, "2026-03-01 12:00");
    }

    #[test]
    fn a_format_is_known_by_its_code_and_else_by_its_number() {
        let looks = [
            (14, CellNumberFormat::Date),
            (22, CellNumberFormat::Date),
            (34, CellNumberFormat::Date),
            (20, CellNumberFormat::Time),
            (32, CellNumberFormat::Time),
        ];
        for (id, look) in
            looks.into_iter().chain([(9, CellNumberFormat::Percent), (3, CellNumberFormat::Plain)])
        {
            assert_eq!(CellNumberFormat::new(id, None), look, "{id}");
        }
        for (look, codes) in [
            (
                CellNumberFormat::Date,
                &[
                    "yyyy\\-mm\\-dd",
                    "m\"월\" d\"일\"",
                    "m/d",
                    "mm-dd",
                    "d-mmm",
                    "mm\"월\"",
                    "yyyy",
                    "[$-412]yyyy\"년\" m\"월\" d\"일\" dddd",
                    "m/d h:mm",
                    "yyyymmdd",
                    "yyyy-mm-dd hh:mm:ss.000",
                ][..],
            ),
            (
                CellNumberFormat::Time,
                &["h:mm", "[h]:mm", "[h]\"시간\"", "h\"시\" mm\"분\"", "mm:ss.0", "h AM/PM"],
            ),
            (CellNumberFormat::Percent, &["[Red]0.0%", "0%"]),
            (
                CellNumberFormat::Plain,
                &[
                    "General",
                    "\"day\"0",
                    "#,##0\"원\"",
                    "0.0\\m",
                    "0 m",
                    "_-* #,##0_-",
                    "0.00E+00",
                    "@",
                    "Standard",
                ],
            ),
        ] {
            for code in codes {
                assert_eq!(CellNumberFormat::new(166, Some(code)), look, "{code}");
            }
        }
    }
}
