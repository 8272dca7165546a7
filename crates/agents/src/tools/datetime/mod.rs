//! `get_current_datetime`: what time it is somewhere, and counting with dates.
//!
//! The clock is the one of the call, so a replay tells the same time. A time that a clock change skips is the one as
//! long after the change as it was meant to be after the gap began (`02:30` becomes `03:30`); a time that comes twice
//! is the first. A leap second (`23:59:60`) is read as `23:59:59`. The answer mentions each of these.

mod holidays;
mod zones;

use std::time::Duration;

use async_trait::async_trait;
use doran_llm::{TextOrigin, ToolSpec};
use doran_retrieval::Language;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp, Unit, Zoned};
use serde::Deserialize;
use serde_json::{Value, json};

pub use self::holidays::HOLIDAY_NAMES;
use self::holidays::{Holiday, is_business_day};
use super::{Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolSideEffect, names};

/// The most business days that are counted.
const MAX_BUSINESS_DAYS: u64 = 3000;

/// The tool.
#[derive(Debug)]
pub struct GetCurrentDatetime {
    info: ToolInfo,
    home_timezone: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DatetimeArguments {
    timezone: Option<String>,
    date: Option<String>,
    add_years: Option<i64>,
    add_months: i64,
    add_weeks: i64,
    add_days: i64,
    add_hours: i64,
    add_minutes: i64,
    add_business_days: i64,
    weekday: Option<WeekdayName>,
    week: Option<i64>,
    nth_in_month: Option<i8>,
    until: Option<String>,
    holiday: Option<String>,
    holidays_of: Option<i16>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WeekdayName {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

impl WeekdayName {
    const NAMES: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

    fn weekday(self) -> Weekday {
        match self {
            Self::Monday => Weekday::Monday,
            Self::Tuesday => Weekday::Tuesday,
            Self::Wednesday => Weekday::Wednesday,
            Self::Thursday => Weekday::Thursday,
            Self::Friday => Weekday::Friday,
            Self::Saturday => Weekday::Saturday,
            Self::Sunday => Weekday::Sunday,
        }
    }
}

impl GetCurrentDatetime {
    /// One that gives the time of `home` when no zone is named, such as `Asia/Seoul`.
    pub fn new(home: impl Into<String>) -> Self {
        let home = home.into();
        let description = format!(
            "Tells the current date, time and weekday in a time zone (default {home}) and whether it is a Korean public holiday. \
             Counts with dates too: add_days and others move from `date` (default now; negative goes back), add_business_days \
             skips weekends and Korean holidays, `weekday` with `week` or `nth_in_month` finds a day such as the Friday of next week \
             or the last Monday of this month, `until` counts the days to another date, `holiday` finds the next Korean public \
             holiday of a name, holidays_of lists those of a year ({}–{}). Use it whenever the answer depends on today.",
            holidays::FIRST_YEAR,
            holidays::LAST_YEAR
        );
        let count = json!({ "type": "integer" });
        let parameters = json!({
            "type": "object",
            "properties": {
                "timezone": { "type": "string", "maxLength": 64, "description": "IANA name (Asia/Seoul) or a city in Korean or English (뉴욕, London)" },
                "date": { "type": "string", "maxLength": 40, "description": "YYYY-MM-DD, YYYY-MM-DDTHH:MM, or MM-DD of this year; only to start from another time than now" },
                "add_years": count,
                "add_months": count,
                "add_weeks": count,
                "add_days": count,
                "add_hours": count,
                "add_minutes": count,
                "add_business_days": count,
                "weekday": { "type": "string", "enum": WeekdayName::NAMES, "description": "the next such day, today included, unless `week` or `nth_in_month` says which" },
                "week": { "type": "integer", "description": "with `weekday`: 0 is this week, 1 next week; a week begins on Monday" },
                "nth_in_month": { "type": "integer", "minimum": -5, "maximum": 5, "description": "with `weekday`: 1 is the first in the month that is reached, -1 the last" },
                "until": { "type": "string", "maxLength": 40, "description": "YYYY-MM-DD, or MM-DD when it comes next" },
                "holiday": { "type": "string", "maxLength": 40, "description": "the name of a Korean public holiday in Korean or English (추석, Chuseok); with holidays_of or add_years in that year, else when it comes next" },
                "holidays_of": { "type": "integer", "minimum": holidays::FIRST_YEAR, "maximum": holidays::LAST_YEAR },
            },
            "additionalProperties": false,
        });
        let about = ToolInfo {
            spec: ToolSpec { name: names::GET_CURRENT_DATETIME.into(), description, parameters },
            ko: "지금 날짜와 시각, 요일, 한국 공휴일을 알려 주고 날짜를 계산합니다.".into(),
            en: "Tells date, time, weekday and Korean holidays, and counts with dates.".into(),
            side_effect: ToolSideEffect::ReadOnly,
            outward: false,
            origin: TextOrigin::Tool,
            timeout: Duration::from_secs(2),
            max_output_bytes: 4 * 1024,
        };
        Self { info: about, home_timezone: home }
    }
}

impl Default for GetCurrentDatetime {
    fn default() -> Self {
        Self::new("Asia/Seoul")
    }
}

#[async_trait]
impl Tool for GetCurrentDatetime {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let arguments: DatetimeArguments =
            serde_json::from_value(arguments).map_err(|error| ToolError::BadArguments(error.to_string()))?;
        datetime_output(&arguments, &self.home_timezone, call.now_ms, call.language)
    }
}

fn datetime_output(
    arguments: &DatetimeArguments,
    home: &str,
    now_ms: i64,
    language: Language,
) -> Result<ToolOutput, ToolError> {
    let (zone, zone_name) =
        zones::find_time_zone(arguments.timezone.as_deref().unwrap_or(home)).map_err(|near| {
            let (asked, near) = (arguments.timezone.as_deref().unwrap_or(home), near.join(", "));
            let asked: String = asked.chars().take(64).collect();
            ToolError::BadArguments(language.pick(
                format!("`{asked}` 시간대를 모릅니다. 비슷한 이름: {near}"),
                format!("unknown time zone `{asked}`; similar names: {near}"),
            ))
        })?;
    let mut notes = Vec::new();
    let now = Timestamp::from_millisecond(now_ms).map_err(|_| out_of_range_error(language))?;
    let now = now.to_zoned(zone.clone());
    let this_year = now.year();
    let start = match &arguments.date {
        None => now,
        Some(text) => parse_moment(&with_year(text, this_year), &zone, language, &mut notes)?,
    };
    let moved = move_to_weekday(&add_offsets(&start, arguments, language)?, arguments, language)?;
    let day = moved.date();
    if let Some(name) = &arguments.holiday {
        let year = arguments.holidays_of.or(arguments.add_years.map(|_| day.year()));
        return named_holiday_output(name, year, day, language);
    }
    let mut lines = vec![datetime_line(&moved, &zone_name, language)];
    lines.extend(holiday_line(day, language));
    if let Some(text) = &arguments.until {
        let mut to = parse_moment(&with_year(text, this_year), &zone, language, &mut notes)?.date();
        if to < day && has_no_year(text) {
            to = parse_moment(&with_year(text, this_year + 1), &zone, language, &mut notes)?.date();
        }
        lines.push(until_line(day, to, language)?);
    }
    if let Some(year) = arguments.holidays_of {
        lines.push(holiday_list(year, language)?);
    }
    lines.extend(notes);
    let data = json!({
        "datetime": moved.timestamp().to_string(), "local": moved.datetime().to_string(), "timezone": zone_name,
        "weekday": weekday_name(day.weekday(), Language::English), "weekday_ko": weekday_name(day.weekday(), Language::Korean),
        "business_day": is_business_day(day),
    });
    Ok(ToolOutput { text: lines.join("\n"), data, ..ToolOutput::default() })
}

/// `2026-11-15 (일요일) 18:22:39, Asia/Seoul (UTC+09:00)`
fn datetime_line(moment: &Zoned, zone: &str, language: Language) -> String {
    let (day, time) = (moment.date(), moment.time());
    let minutes = moment.offset().seconds() / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    let (hours, minutes) = (minutes.abs() / 60, minutes.abs() % 60);
    let weekday = weekday_name(day.weekday(), language);
    format!(
        "{day} ({weekday}) {:02}:{:02}:{:02}, {zone} (UTC{sign}{hours:02}:{minutes:02})",
        time.hour(),
        time.minute(),
        time.second()
    )
}

/// Moves to the weekday that is asked for.
fn move_to_weekday(
    from: &Zoned,
    arguments: &DatetimeArguments,
    language: Language,
) -> Result<Zoned, ToolError> {
    let Some(weekday) = arguments.weekday.map(WeekdayName::weekday) else { return Ok(from.clone()) };
    let out_of_range = |_| out_of_range_error(language);
    if let Some(nth) = arguments.nth_in_month {
        return from.nth_weekday_of_month(nth, weekday).map_err(|_| {
            ToolError::BadArguments(language.pick(
                format!("그달에 {nth}번째 {}은 없습니다", weekday_name(weekday, language)),
                format!("that month has no {} number {nth}", weekday_name(weekday, language)),
            ))
        });
    }
    let offset = weekday.to_monday_zero_offset() - from.weekday().to_monday_zero_offset();
    let days = match arguments.week {
        Some(week) => week.saturating_mul(7).saturating_add(i64::from(offset)),
        None => i64::from(offset.rem_euclid(7)),
    };
    from.checked_add(Span::new().try_days(days).map_err(out_of_range)?).map_err(out_of_range)
}

/// The days of a holiday of this name, in a year or when it comes next.
fn named_holiday_output(
    name: &str,
    year: Option<i16>,
    from: Date,
    language: Language,
) -> Result<ToolOutput, ToolError> {
    let key = holidays::key_of_name(name).ok_or_else(|| {
        let shown: String = name.chars().take(40).collect();
        ToolError::BadArguments(language.pick(
            format!("`{shown}`은(는) 아는 한국 공휴일이 아닙니다"),
            format!("`{shown}` is not a Korean public holiday that is known"),
        ))
    })?;
    let days_in = |year: i16| -> Option<Vec<(Date, Vec<Holiday>)>> {
        let days = holidays::holidays_of_year(year)?.into_iter();
        Some(days.filter(|(_, holidays)| holidays.iter().any(|one| one.ko.starts_with(key))).collect())
    };
    let first = days_in(year.unwrap_or(from.year())).ok_or_else(|| unknown_year_error(language))?;
    let is_over = year.is_none() && first.last().is_none_or(|(last, _)| *last < from);
    let days = match is_over {
        true => days_in(from.year() + 1).ok_or_else(|| unknown_year_error(language))?,
        false => first,
    };
    if days.is_empty() {
        return Err(ToolError::BadArguments(language.pick(
            format!("그해에 {key}은(는) 공휴일이 아닙니다"),
            format!("{key} is no public holiday in that year"),
        )));
    }
    let line = |(day, holidays): &(Date, Vec<Holiday>)| {
        let (weekday, names) = (weekday_name(day.weekday(), language), holiday_names(holidays, language));
        let left = from.until((Unit::Day, *day)).map_or(0, |left| left.get_days());
        let left = match left {
            1.. if year.is_none() => language.pick(format!(", {left}일 뒤"), format!(", in {left} days")),
            _ => String::new(),
        };
        format!("{day} ({weekday}) {names}{left}")
    };
    let data = json!({ "days": days.iter().map(|(day, _)| day.to_string()).collect::<Vec<_>>() });
    let text = days.iter().map(line).collect::<Vec<_>>().join("\n");
    Ok(ToolOutput { text, data, ..ToolOutput::default() })
}

fn holiday_names(names: &[Holiday], language: Language) -> String {
    let name = |one: &Holiday| match one.substitute {
        true => language.pick(format!("{} 대체공휴일", one.ko), format!("substitute for {}", one.en)),
        false => language.pick(one.ko, one.en).to_owned(),
    };
    names.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn holiday_line(day: Date, language: Language) -> Option<String> {
    let names = |names: &[Holiday]| holiday_names(names, language);
    let year = holidays::holidays_of_year(day.year())?;
    let today = match year.get(&day) {
        Some(today) => language.pick("한국 공휴일: ", "Korean public holiday: ").to_owned() + &names(today),
        None => language.pick("한국 공휴일 아님", "not a Korean public holiday").to_owned(),
    };
    let following = holidays::holidays_of_year(day.year() + 1).unwrap_or_default();
    let next = year.range(day..).find(|(date, _)| **date > day).or_else(|| following.iter().next());
    let next = next.map(|(date, holidays)| {
        language.pick("; 다음 공휴일 ", "; the next one is ").to_owned()
            + &format!("{date} {}", names(holidays))
    });
    Some(today + &next.unwrap_or_default())
}

fn until_line(from: Date, to: Date, language: Language) -> Result<String, ToolError> {
    let days = from.until((Unit::Day, to)).map_err(|_| out_of_range_error(language))?.get_days();
    let calendar = from.until((Unit::Year, to)).map_err(|_| out_of_range_error(language))?;
    let (years, months, rest) =
        (calendar.get_years().abs(), calendar.get_months().abs(), calendar.get_days().abs());
    let (weeks, over) = (days.abs() / 7, days.abs() % 7);
    let (ko, en) = match days {
        0 => (format!("{to}: 같은 날"), format!("{to}: the same day")),
        1.. => (format!("{from}부터 {to}까지 {days}일"), format!("from {from} to {to}: {days} days")),
        _ => (
            format!("{to}부터 {from}까지 {}일 지남", -days),
            format!("{to} was {} days before {from}", -days),
        ),
    };
    Ok(language.pick(
        format!("{ko} ({weeks}주 {over}일, {years}년 {months}개월 {rest}일)"),
        format!("{en} ({weeks} weeks {over} days; {years} years {months} months {rest} days)"),
    ))
}

fn holiday_list(year: i16, language: Language) -> Result<String, ToolError> {
    let days = holidays::holidays_of_year(year).ok_or_else(|| unknown_year_error(language))?;
    let mut lines = Vec::new();
    for (day, names) in days {
        for one in names {
            let name = language.pick(one.ko, one.en);
            let instead =
                if one.substitute { language.pick(" 대체공휴일", " (substitute)") } else { "" };
            lines.push(format!("{day} ({}) {name}{instead}", weekday_name(day.weekday(), language)));
        }
    }
    if year > holidays::LAST_DECLARED_YEAR {
        lines.push(
            language
                .pick(
                    "(선거일과 임시공휴일은 빠져 있을 수 있음)",
                    "(elections and declared days may be missing)",
                )
                .into(),
        );
    }
    Ok(lines.join("\n"))
}

fn add_offsets(start: &Zoned, arguments: &DatetimeArguments, language: Language) -> Result<Zoned, ToolError> {
    let span = || -> Result<Span, jiff::Error> {
        Span::new()
            .try_years(arguments.add_years.unwrap_or(0))?
            .try_months(arguments.add_months)?
            .try_weeks(arguments.add_weeks)?
            .try_days(arguments.add_days)?
            .try_hours(arguments.add_hours)?
            .try_minutes(arguments.add_minutes)
    };
    let moved = span().and_then(|span| start.checked_add(span)).map_err(|_| out_of_range_error(language))?;
    if arguments.add_business_days == 0 {
        return Ok(moved);
    }
    if arguments.add_business_days.unsigned_abs() > MAX_BUSINESS_DAYS {
        return Err(out_of_range_error(language));
    }
    let step = Span::new()
        .try_days(arguments.add_business_days.signum())
        .map_err(|_| out_of_range_error(language))?;
    let (mut moment, mut left) = (moved, arguments.add_business_days.unsigned_abs());
    while left > 0 {
        moment = moment.checked_add(step).map_err(|_| out_of_range_error(language))?;
        match is_business_day(moment.date()) {
            Some(true) => left -= 1,
            Some(false) => {}
            None => return Err(unknown_year_error(language)),
        }
    }
    Ok(moment)
}

/// The moment that `text` names: a date, or a date with a time, in `zone` unless it says otherwise.
fn parse_moment(
    text: &str,
    zone: &TimeZone,
    language: Language,
    notes: &mut Vec<String>,
) -> Result<Zoned, ToolError> {
    let text = &normalize_date(text);
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Ok(timestamp.to_zoned(zone.clone()));
    }
    let local = match text.parse::<Date>() {
        Ok(day) if !text.contains(':') => day.to_datetime(jiff::civil::Time::midnight()),
        _ => text.parse::<DateTime>().map_err(|error| bad_date_error(text, &error, language))?,
    };
    if text.contains(":60") {
        notes.push(
            language.pick(
                "윤초(60초)는 59초로 읽었습니다".into(),
                "the leap second (:60) was read as :59".into(),
            ),
        );
    }
    let ambiguous = zone.to_ambiguous_zoned(local);
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => {}
        AmbiguousOffset::Gap { .. } => notes.push(language.pick(
            format!("{local}은 시계가 건너뛰어 없는 시각이라, 그만큼 뒤로 옮겼습니다"),
            format!("{local} does not exist there (the clocks go forward), so it was moved on by the gap"),
        )),
        AmbiguousOffset::Fold { .. } => notes.push(language.pick(
            format!("{local}은 시계를 되돌려 두 번 있는 시각이라, 앞의 것을 골랐습니다"),
            format!("{local} comes twice there (the clocks go back); the first was taken"),
        )),
    }
    ambiguous.compatible().map_err(|_| out_of_range_error(language))
}

/// Whether a date is only a month and a day: `12-25`.
fn has_no_year(text: &str) -> bool {
    let text = text.trim();
    text.len() <= "12-25".len() && text.split('-').count() == 2
}

/// A date that is only a month and a day, with a year.
fn with_year(text: &str, year: i16) -> String {
    if has_no_year(text) { format!("{year}-{}", text.trim()) } else { text.to_owned() }
}

/// `2026년 3월 1일`, `2026.3.1` and `2026/3/1` as `2026-03-01`; anything else as it is.
fn normalize_date(text: &str) -> String {
    let text = text.trim();
    let (day, time) = match text.find([':', 'T']) {
        Some(_) => return text.to_owned(),
        None => (text, ""),
    };
    let parts: Vec<&str> =
        day.split(['년', '월', '일', '.', '/', '-']).map(str::trim).filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        [year, month, day] if parts.iter().all(|part| part.chars().all(|one| one.is_ascii_digit())) => {
            format!("{year:0>4}-{month:0>2}-{day:0>2}{time}")
        }
        _ => text.to_owned(),
    }
}

fn weekday_name(day: Weekday, language: Language) -> &'static str {
    let (ko, en) = match day {
        Weekday::Monday => ("월요일", "Monday"),
        Weekday::Tuesday => ("화요일", "Tuesday"),
        Weekday::Wednesday => ("수요일", "Wednesday"),
        Weekday::Thursday => ("목요일", "Thursday"),
        Weekday::Friday => ("금요일", "Friday"),
        Weekday::Saturday => ("토요일", "Saturday"),
        Weekday::Sunday => ("일요일", "Sunday"),
    };
    language.pick(ko, en)
}

fn bad_date_error(text: &str, error: &jiff::Error, language: Language) -> ToolError {
    let shown: String = text.chars().take(40).collect();
    ToolError::BadArguments(language.pick(
        format!("`{shown}`은(는) 날짜가 아닙니다 (2026-01-01 또는 2026-01-01T09:30): {error}"),
        format!("`{shown}` is not a date (2026-01-01 or 2026-01-01T09:30): {error}"),
    ))
}

fn out_of_range_error(language: Language) -> ToolError {
    ToolError::BadArguments(language.pick(
        "날짜가 범위를 벗어났습니다 (-9999년부터 9999년까지, 영업일은 3000일까지)".into(),
        "the date is out of range (years -9999 to 9999, up to 3000 business days)".into(),
    ))
}

fn unknown_year_error(language: Language) -> ToolError {
    let (first, last) = (holidays::FIRST_YEAR, holidays::LAST_YEAR);
    ToolError::BadArguments(language.pick(
        format!("한국 공휴일은 {first}년부터 {last}년까지만 압니다"),
        format!("Korean holidays are known from {first} to {last} only"),
    ))
}

#[cfg(test)]
mod tests;
