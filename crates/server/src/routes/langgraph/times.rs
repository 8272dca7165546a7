//! Times as LangGraph's clients write and read them.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use doran_engine::store::Millis;

/// A time as clients read it.
pub(super) fn time_text(at: Millis) -> String {
    let (seconds, millis) = (at.div_euclid(1000), at.rem_euclid(1000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}000+00:00")
}

/// Reads a time as clients write it: `2026-11-17T10:29:48`, with a fraction and an offset where they are given.
pub(super) fn parse_time(text: &str) -> Option<Millis> {
    let (date, rest) = text.split_once(['T', ' '])?;
    let [year, month, day] = numbers(date, '-')?;
    let offset_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (time, offset) = rest.split_at(offset_at);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':')?;
    if !(1..=9999).contains(&year) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    let is_number = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let millis: i64 = is_number.then(|| digits.parse().ok()).flatten()?;
    let offset = match offset {
        "" | "Z" | "z" => 0,
        _ => {
            let sign = if offset.starts_with('-') { -1 } else { 1 };
            let [hours, minutes] = numbers(&offset[1..], ':')?;
            (hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes))?
        }
    };
    let days = days_until(year, month, day);
    // A day that there is not, such as 31 April, is another one.
    (civil_date(days) == (year, month, day))
        .then_some((((days * 24 + hour) * 60 + minute - offset) * 60 + second) * 1000 + millis)
}

fn numbers<const N: usize>(text: &str, between: char) -> Option<[i64; N]> {
    let read = |part: &str| {
        let is_number = (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse().ok()).flatten()
    };
    text.split(between).map(read).collect::<Option<Vec<i64>>>()?.try_into().ok()
}

/// Days from 1970 to this one.
fn days_until(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a day since 1970, by the rules of the Gregorian calendar.
fn civil_date(days: i64) -> (i64, i64, i64) {
    // Counted from the first of March of the year 0, so that a leap day ends a year; eras have 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// When this process began to serve.
pub(super) fn server_start_text() -> String {
    static START: LazyLock<Millis> = LazyLock::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis::try_from(since.as_millis()).unwrap_or_default()
    });
    time_text(*START)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_the_calendar() {
        assert_eq!(time_text(0), "1970-01-01T00:00:00.000000+00:00");
        assert_eq!(time_text(951_782_400_123), "2000-02-29T00:00:00.123000+00:00");
        assert_eq!(time_text(1_794_911_388_954), "2026-11-17T10:29:48.954000+00:00");
        assert_eq!(time_text(-1), "1969-12-31T23:59:59.999000+00:00");
    }

    #[test]
    fn a_time_is_read_as_it_is_written() {
        for at in [0, 951_782_400_123, 1_794_911_388_954, -1, -62_135_596_800_000] {
            assert_eq!(parse_time(&time_text(at)), Some(at));
        }
        assert_eq!(parse_time("2026-11-17T10:29:48"), Some(1_794_911_388_000));
        assert_eq!(parse_time("2026-11-17T19:29:48.9+09:00"), Some(1_794_911_388_900));
        assert_eq!(parse_time("2026-11-17 05:29:48Z"), Some(1_794_893_388_000));
        for wrong in [
            "",
            "2026-11-17",
            "2026-04-31T00:00:00",
            "2026-13-01T00:00:00",
            "2026-11-17T24:00:00",
            "2026-11-17T10:29:48.x",
            "2026-11-17T10:29:48+9",
            "x-11-17T10:29:48",
            "99999-01-01T00:00:00",
            "2026-11-17T10:29:48+가:00",
        ] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }
}
