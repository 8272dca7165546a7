//! Cron expressions: which minutes of a calendar they name, and the next one after a time in a time zone. Plain functions.
//!
//! | field | values | |
//! |---|---|---|
//! | minute | 0–59 | each field: `*`, a number, `a-b`, `a,b,c`, and `/n` behind `*` or a range for each n-th |
//! | hour | 0–23 | |
//! | day of month | 1–31 | where both days are given, one of them has to fit |
//! | month | 1–12 or `jan`–`dec` | |
//! | day of week | 0–7 or `sun`–`sat` | 0 and 7 are Sunday |
//!
//! `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` stand for the usual ones.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};

/// How many days are looked at for the next time: 29 February may be eight years away.
const MAX_DAYS_AHEAD: u32 = 9 * 366;

/// A text that is no cron expression or no time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidCron(String);

/// A cron expression in a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cron {
    /// Bit n stands for the value n.
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// The day of the month was given, and the day of the week.
    both_days: bool,
    time_zone: TimeZone,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Cron {
    /// Reads an expression of five fields, and the name of a time zone such as `Asia/Seoul`.
    pub(crate) fn parse(expression: &str, time_zone: &str) -> Result<Self, InvalidCron> {
        let time_zone = TimeZone::get(time_zone).map_err(|_| {
            InvalidCron(format!("`{time_zone}` is not a time zone: use a name such as `Asia/Seoul`"))
        })?;
        let fields = match expression.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            fields => fields,
        };
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            let message = format!("`{expression}` has {} fields, not the five of cron", fields.len());
            return Err(InvalidCron(message));
        };
        let mut weekdays = parse_field("day of week", weekday, 0..=7, &WEEKDAYS, 0)?;
        weekdays |= weekdays >> 7 & 1;
        let cron = Self {
            minutes: parse_field("minute", minute, 0..=59, &[], 0)?,
            hours: parse_field("hour", hour, 0..=23, &[], 0)?,
            days: parse_field("day of month", day, 1..=31, &[], 0)?,
            months: parse_field("month", month, 1..=12, &MONTHS, 1)?,
            weekdays: weekdays & 0x7f,
            both_days: !day.starts_with('*') && !weekday.starts_with('*'),
            time_zone,
        };
        match cron.next_after(Timestamp::UNIX_EPOCH) {
            Some(_) => Ok(cron),
            None => Err(InvalidCron(format!("`{expression}` names no day of any year"))),
        }
    }

    /// The next time after this one. A time that a clock skips comes when it would have come; one that a clock shows twice
    /// comes the first time.
    pub(crate) fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        // A clock that is set back shows an earlier day again, so the search begins a day before.
        let first = after.to_zoned(self.time_zone.clone()).date().checked_sub(1.day()).ok()?;
        let mut date = first;
        for _ in 0..MAX_DAYS_AHEAD {
            if self.names_date(date)
                && let Some(found) = self.first_time_on(date, after)
            {
                return Some(found);
            }
            date = date.checked_add(Span::new().days(1)).ok()?;
        }
        None
    }

    fn first_time_on(&self, date: Date, after: Timestamp) -> Option<Timestamp> {
        let times =
            values(self.hours).flat_map(|hour| values(self.minutes).map(move |minute| (hour, minute)));
        let times = times.filter_map(|(hour, minute)| {
            let time = Time::new(hour, minute, 0, 0).ok()?;
            let zoned = date.to_datetime(time).to_zoned(self.time_zone.clone()).ok()?;
            Some(zoned.timestamp()).filter(|time| *time > after)
        });
        // Times that a clock skips may come after later ones.
        times.min()
    }

    fn names_date(&self, date: Date) -> bool {
        let has = |set: u64, value: i8| set >> value & 1 == 1;
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        has(self.months, date.month()) && if self.both_days { day || weekday } else { day && weekday }
    }
}

/// The values of a set, in order.
fn values(set: u64) -> impl Iterator<Item = i8> {
    (0..60).filter(move |value| set >> value & 1 == 1)
}

fn parse_field(
    what: &str,
    field: &str,
    range: std::ops::RangeInclusive<u8>,
    names: &[&str],
    first_name: u8,
) -> Result<u64, InvalidCron> {
    let bad = || InvalidCron(format!("`{field}` is not a {what}: use {} to {}", range.start(), range.end()));
    let value = |text: &str| {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let value = match named {
            Some(place) => u8::try_from(place).ok().map(|place| place + first_name),
            None => parse_number(text),
        };
        value.filter(|value| range.contains(value)).ok_or_else(bad)
    };
    let mut set = 0;
    for part in field.split(',') {
        let (part, step) = match part.split_once('/') {
            Some((part, step)) => (part, parse_number::<u8>(step).filter(|step| *step > 0).ok_or_else(bad)?),
            None => (part, 1),
        };
        let (first, last) = match part.split_once('-') {
            _ if part == "*" => (*range.start(), *range.end()),
            Some((first, last)) => (value(first)?, value(last)?),
            // `5/15` begins at 5 and goes on to the end.
            None if step > 1 => (value(part)?, *range.end()),
            None => (value(part)?, value(part)?),
        };
        if first > last {
            return Err(bad());
        }
        (first..=last).step_by(step.into()).for_each(|value| set |= 1 << value);
    }
    Ok(set)
}

/// A number of digits alone.
fn parse_number<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cron in {}", self.time_zone.iana_name().unwrap_or("UTC"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use super::*;

    /// The next times after `from`, as local times of the zone.
    fn next_times(expression: &str, zone: &str, from: &str, count: usize) -> String {
        let cron = Cron::parse(expression, zone).expect("an expression");
        let mut at: Timestamp = from.parse().expect("a time");
        let mut found = Vec::new();
        for _ in 0..count {
            at = cron.next_after(at).expect("a time");
            let local = at.to_zoned(cron.time_zone.clone());
            found.push(local.strftime("%m-%d %H:%M%:z").to_string());
        }
        found.join(", ")
    }

    #[test]
    fn fields_name_times() {
        let check = |expression, expected: &str| {
            assert_eq!(next_times(expression, "UTC", "2026-01-31T23:59:30Z", 3), expected, "{expression}");
        };
        check("*/20 * * * *", "02-01 00:00+00:00, 02-01 00:20+00:00, 02-01 00:40+00:00");
        check("5/30 9-10 * * *", "02-01 09:05+00:00, 02-01 09:35+00:00, 02-01 10:05+00:00");
        check("0 12 1,15 * *", "02-01 12:00+00:00, 02-15 12:00+00:00, 03-01 12:00+00:00");
        check("0 9 * * mon-FRI", "02-02 09:00+00:00, 02-03 09:00+00:00, 02-04 09:00+00:00");
        check("0 9 * * 7", "02-01 09:00+00:00, 02-08 09:00+00:00, 02-15 09:00+00:00");
        check("0 0 13 * 5", "02-06 00:00+00:00, 02-13 00:00+00:00, 02-20 00:00+00:00");
        check("0 0 */10 * *", "02-01 00:00+00:00, 02-11 00:00+00:00, 02-21 00:00+00:00");
        check("@monthly", "02-01 00:00+00:00, 03-01 00:00+00:00, 04-01 00:00+00:00");
        check("0 0 29 feb *", "02-29 00:00+00:00, 02-29 00:00+00:00, 02-29 00:00+00:00");
    }

    #[test]
    fn a_zone_has_its_own_midnight_and_its_clock_may_jump() {
        let seoul = next_times("0 9 * * *", "Asia/Seoul", "2026-05-01T00:00:00Z", 2);
        assert_eq!(seoul, "05-02 09:00+09:00, 05-03 09:00+09:00");
        // 02:30 does not exist on 29 March in Berlin.
        let skipped = next_times("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
        assert_eq!(skipped, "03-29 03:30+02:00, 03-30 02:30+02:00");
        let both = next_times("30 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
        assert_eq!(both, "03-29 03:30+02:00, 03-30 02:30+02:00", "one instant, once");
        // 02:30 comes twice on 25 October.
        let twice = next_times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
        assert_eq!(twice, "10-25 02:30+02:00, 10-26 02:30+01:00");
        let quarter = next_times("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:15:00Z", 3);
        assert_eq!(quarter, "10-25 02:30+02:00, 10-25 03:00+01:00, 10-25 03:30+01:00");
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for bad in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "5-1 * * * *",
            "*/0 * * * *",
            "+1 * * * *",
            "a * * * *",
            "1- * * * *",
            "* * 31 feb *",
            "@reboot",
            "1,,2 * * * *",
        ] {
            Cron::parse(bad, "UTC").expect_err(bad);
        }
        let zone = Cron::parse("* * * * *", "Mars/Olympus").expect_err("no zone");
        assert!(zone.to_string().contains("`Mars/Olympus` is not a time zone"));
    }
}
