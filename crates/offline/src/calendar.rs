//! What a question asks the calendar: the time here or elsewhere, a day so many days or months from another ("오늘부터 100일 뒤",
//! "3 weeks from now"), a weekday of a week or month, the days until a date, holidays. The words are in `data/calendar.tsv`;
//! the names of holidays are those that the tool knows.

use std::ops::Range;
use std::sync::LazyLock;

use doran_agents::tools::HOLIDAY_NAMES;
use doran_retrieval::{is_question_word, text_stems};
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use super::cues::Cue;
use super::weather::cities_in;

/// Arguments for the tool that knows the calendar, by their names there.
pub(super) type CalendarArguments = Map<String, Value>;

struct CalendarWords {
    /// The kind, the value and the pattern of each row.
    rows: Vec<(&'static str, &'static str, Regex)>,
    /// A number with a unit and a direction.
    shift: Regex,
    /// A public holiday by its name.
    named_holiday: Regex,
}

#[allow(clippy::expect_used, reason = "the file is compiled in, and every test reads it")]
static WORDS: LazyLock<CalendarWords> = LazyLock::new(|| {
    let lines = include_str!("data/calendar.tsv").lines().filter(|line| !line.starts_with('#'));
    let cells: Vec<Vec<&'static str>> = lines.map(|line| line.split('\t').collect()).collect();
    let pattern = |pattern: &str| Regex::new(&format!("(?i){pattern}")).expect("a pattern");
    let of_kind = |kind: &str| {
        let rows = cells.iter().filter(|row| row[0] == kind);
        rows.map(|row| row[2]).collect::<Vec<_>>().join("|")
    };
    let units = cells.iter().filter(|row| row[0] == "unit");
    let units: Vec<String> = units.map(|row| format!("(?P<{}>{})", row[1], row[2])).collect();
    let amount = format!(
        r"(?P<working>영업일\s*(?:기준\s*)?(?:으로|로)?\s*)?(?:(?P<number>\d[\d,]*|{})\s*(?:{})|(?P<days>{}))",
        of_kind("number"),
        units.join("|"),
        of_kind("days")
    );
    let ahead = amount.replace("(?P<", "(?P<in_");
    let shift =
        format!(r"(?:^|[\s,(]|부터|에서)(?:{amount}\s*(?P<direction>{})|in {ahead}\b)", of_kind("direction"));
    // Longer names first, and with or without their spaces.
    let mut names: Vec<&str> = HOLIDAY_NAMES.iter().flat_map(|(_, names)| *names).copied().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let written = |name: &&str| match name.is_ascii() {
        true => format!(r"\b{}\b", regex::escape(name)),
        false => regex::escape(name).replace(' ', " ?"),
    };
    let names: Vec<String> = names.iter().map(written).collect();
    let word = |text: &str| if text.is_ascii() { format!(r"\b(?:{text})\b") } else { text.to_owned() };
    CalendarWords {
        rows: cells.iter().map(|row| (row[0], row[1], pattern(&word(row[2])))).collect(),
        shift: pattern(&shift),
        named_holiday: pattern(&names.join("|")),
    }
});

/// What a question asks the calendar. One that speaks of anything else asks about that: "회의는 몇 시야?" about a meeting.
pub(super) fn calendar_question(prose: &str) -> Option<CalendarArguments> {
    let mut arguments = CalendarArguments::new();
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut put = |name: &str, value: Option<Value>| {
        value.map(|value| arguments.insert(name.to_owned(), value));
    };
    for (zone, range) in cities_in(prose) {
        put("timezone", Some(json!(zone)));
        spans.push(range);
    }
    let (from, until) = dates(prose, &mut spans);
    let has = [from.is_some(), until.is_some()];
    put("date", from.map(Value::String));
    put("until", until.map(Value::String));
    let overlaps = |range: &Range<usize>, spans: &[Range<usize>]| {
        spans.iter().any(|span| span.start < range.end && range.start < span.end)
    };
    let shift = WORDS.shift.captures_iter(prose).find_map(|found| {
        let range = found.get(0)?.range();
        (!overlaps(&range, &spans)).then(|| Some((shift(&found)?, range)))?
    });
    if let Some(((unit, count), range)) = shift.clone() {
        put(unit, Some(json!(count)));
        spans.push(range);
    }
    let day =
        of_kind("day").find_map(|(days, pattern)| Some((days.parse::<i64>().ok()?, pattern.find(prose)?)));
    if let Some((days @ (1.. | ..=-1), _)) = day {
        let further =
            shift.as_ref().filter(|((unit, _), _)| *unit == "add_days").map_or(0, |((_, count), _)| *count);
        put("add_days", Some(json!(days + further)));
    }
    let marked = |kind: &str, spans: &mut Vec<Range<usize>>| {
        let (value, found) =
            of_kind(kind).find_map(|(value, pattern)| Some((value, pattern.find(prose)?)))?;
        spans.push(found.range());
        Some(value)
    };
    let number = |value: &str| value.parse::<i64>().ok().map(Value::from);
    let has_day = has != [false; 2] || day.is_some();
    let weekdays = of_kind("weekday").filter(|(_, pattern)| pattern.is_match(prose)).count();
    let weekday = marked("weekday", &mut spans).filter(|_| weekdays == 1);
    // "내일은 금요일이야?" asks about tomorrow.
    let weekday = weekday.filter(|_| !has_day);
    let mut is_placed = false;
    if weekday.is_some() {
        put("weekday", weekday.map(|weekday| json!(weekday)));
        let month = marked("month", &mut spans);
        let nth = month.and_then(|_| marked("nth", &mut spans));
        let week = if nth.is_none() { marked("week", &mut spans) } else { None };
        is_placed = nth.or(week).is_some();
        put("add_months", month.filter(|month| *month != "0").and_then(number));
        put("nth_in_month", nth.and_then(number));
        put("week", week.and_then(number));
    }
    let holiday_name = WORDS.named_holiday.find(prose);
    if let Some(name) = holiday_name {
        put("holiday", Some(json!(name.as_str())));
        spans.push(name.range());
        put("add_years", marked("year", &mut spans).and_then(number));
    }
    let find = |kind: &str, spans: &mut Vec<Range<usize>>| {
        let found =
            of_kind(kind).flat_map(|(_, pattern)| pattern.find_iter(prose)).map(|found| found.range());
        let before = spans.len();
        spans.extend(found);
        spans.len() > before
    };
    let now = find("day", &mut spans);
    let (clock, holiday) = (find("clock", &mut spans), find("holiday", &mut spans));
    let asks = find("asks", &mut spans) || clock;
    find("other", &mut spans);
    let about_holidays = holiday || holiday_name.is_some();
    if let Some(year) = Cue::Year.captures(prose).filter(|_| about_holidays && has == [false; 2]) {
        put("holidays_of", year[1].parse::<i64>().ok().map(Value::from));
        spans.extend(year.get(0).map(|year| year.range()));
    }
    let [has_date, has_end] = has;
    let named = now || has_date;
    let is_found_by_name = weekday.is_some() && (is_placed || asks) || holiday_name.is_some() && asks;
    let wanted = shift.is_some() && (named || asks)
        || has_end
        || holiday
        || is_found_by_name
        || asks && named
        || clock;
    let is_other = |(stem, range): &(String, Range<usize>)| {
        stem.chars().any(char::is_alphabetic) && !is_question_word(stem) && !overlaps(range, &spans)
    };
    let speaks_of_more = text_stems(prose).iter().any(is_other);
    (wanted && (!speaks_of_more || clock && now)).then_some(arguments)
}

fn of_kind(kind: &str) -> impl Iterator<Item = (&'static str, &'static Regex)> {
    WORDS.rows.iter().filter(move |row| row.0 == kind).map(|(_, value, pattern)| (*value, pattern))
}

/// The argument of a move, and how far it goes.
fn shift(found: &Captures<'_>) -> Option<(&'static str, i64)> {
    let group = |name: &str| {
        found.name(name).or_else(|| found.name(&format!("in_{name}"))).map(|text| text.as_str().trim())
    };
    let value = |kind: &str, text: &str| {
        let is_whole = |pattern: &Regex| pattern.find(text).is_some_and(|word| word.as_str() == text);
        of_kind(kind).find(|(_, pattern)| is_whole(pattern)).and_then(|(value, _)| value.parse::<i64>().ok())
    };
    let direction = group("direction").map_or(Some(1), |text| value("direction", text))?;
    let Some(number) = group("number") else {
        return Some(("add_days", direction * value("days", group("days")?)?));
    };
    let number = number.replace(',', "").parse().ok().or_else(|| value("number", number))?;
    let (unit, _) = of_kind("unit").find(|(unit, _)| group(unit).is_some())?;
    let unit = if group("working").is_some() && unit == "add_days" { "add_business_days" } else { unit };
    Some((unit, direction * number))
}

/// The day to start from and the day to count to, as `YYYY-MM-DD`, or `MM-DD` where no year is said.
fn dates(prose: &str, spans: &mut Vec<Range<usize>>) -> (Option<String>, Option<String>) {
    let (mut from, mut until) = (None, None);
    let is_end = |range: &Range<usize>| {
        Cue::EndsAtDate.is_in(&format!("{}\u{1}{}", &prose[..range.start], &prose[range.end..]))
    };
    for found in Cue::Date.all(prose) {
        let number = |at: usize| found[at].parse::<u32>().unwrap_or_default();
        let (year, month, day) = (number(1), number(2), number(3));
        let range = found.get(0).map(|whole| whole.range()).unwrap_or_default();
        if (1900..2200).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day) {
            *(if is_end(&range) { &mut until } else { &mut from }) =
                Some(format!("{year:04}-{month:02}-{day:02}"));
            spans.push(range);
        }
    }
    let of_year = Cue::DateOfYear.all(prose).filter_map(|found| {
        let number = |at: usize| found[at].parse::<u32>().ok();
        Some((number(1)?, number(2)?, found.get(0)?.range()))
    });
    let in_english = of_kind("date_month").filter_map(|(month, pattern)| {
        let found = pattern.captures(prose)?;
        Some((month.parse::<u32>().ok()?, found[1].parse::<u32>().ok()?, found.get(0)?.range()))
    });
    for (month, day, range) in of_year.chain(in_english).collect::<Vec<_>>() {
        let is_free = spans.iter().all(|span| span.end <= range.start || range.end <= span.start);
        if is_free && (1..=12).contains(&month) && (1..=31).contains(&day) {
            let side = if is_end(&range) { &mut until } else { &mut from };
            *side = Some(format!("{month:02}-{day:02}"));
            spans.push(range);
        }
    }
    (from, until)
}
