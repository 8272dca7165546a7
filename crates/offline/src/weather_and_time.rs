//! Wishes about the world outside: the weather of a place, the time somewhere, the weekday of a date.

use std::sync::LazyLock;

use super::cues::Cue;
use super::intent::QuestionIntent;
use super::text::{without_particle, words};

/// Wishes for the weather, a place each, or one without a place.
pub(super) fn weather_intents(prose: &str) -> Vec<QuestionIntent> {
    if !Cue::AsksForWeather.is_in(prose) {
        return Vec::new();
    }
    let places = places(prose);
    if places.is_empty() {
        return vec![QuestionIntent::WeatherWhere];
    }
    places.into_iter().map(QuestionIntent::Weather).collect()
}

/// Places of a question about the weather: known cities anywhere, or the words before "날씨" and after "in".
fn places(prose: &str) -> Vec<String> {
    let words = words(prose);
    let mut places: Vec<String> = Vec::new();
    for word in &words {
        let bare = place_of(word);
        if CITIES.iter().any(|(city, _)| city.eq_ignore_ascii_case(bare)) && !places.iter().any(|p| p == bare)
        {
            places.push(bare.to_owned());
        }
    }
    if !places.is_empty() {
        return places;
    }
    if let Some(at) = words.iter().position(|word| word.starts_with("날씨") || word.starts_with("기온")) {
        let before = words[..at].iter().rev().map(|word| place_of(word));
        let place =
            before.take_while(|word| !Cue::IsNoPlace.is_in(word)).find(|word| !Cue::IsTimeWord.is_in(word));
        return place.map(str::to_owned).into_iter().collect();
    }
    let in_at =
        words.iter().position(|word| word.eq_ignore_ascii_case("in") || word.eq_ignore_ascii_case("for"));
    let after = in_at.map_or(&[][..], |at| &words[at + 1..]);
    let name: Vec<&str> = after
        .iter()
        .take_while(|word| word.chars().next().is_some_and(char::is_uppercase))
        .copied()
        .collect();
    if name.is_empty() { Vec::new() } else { vec![name.join(" ")] }
}

fn place_of(word: &str) -> &str {
    let joined = ["하고", "이랑", "랑", "과", "와"].iter().find_map(|end| word.strip_suffix(end));
    let known = |place: &str| CITIES.iter().any(|(city, _)| *city == place);
    if let Some(place) = joined.filter(|place| known(place)) {
        return place;
    }
    if known(word) { word } else { without_particle(word) }
}

/// A wish for date, time, weekday or holidays.
pub(super) fn time_intent(prose: &str) -> Option<QuestionIntent> {
    let date = date_in(prose);
    let now = Cue::SpeaksOfNow.is_in(prose);
    // "회의는 몇 시야?" asks about a meeting, not about now.
    let meeting = words(prose).iter().any(|word| {
        let topic = word.strip_suffix('은').or_else(|| word.strip_suffix('는'));
        topic.is_some_and(|topic| {
            !Cue::SpeaksOfNow.is_in(topic) && zone_of(topic).is_none() && topic != "여기" && !has_digit(topic)
        })
    });
    let matched = Cue::AsksForTimeNow.is_in(prose) && (now || !meeting);
    let spoken = now && Cue::AsksForTime.is_in(prose);
    let of_day = date.is_some() && Cue::AsksForWeekday.is_in(prose);
    let lower = prose.to_lowercase();
    let zone = words(prose).iter().find_map(|word| zone_of(place_of(word))).or_else(|| zone_of_words(&lower));
    (matched || spoken || of_day).then_some(QuestionIntent::Time { zone, date, days: days_away(&lower) })
}

/// How many days from now a question looks.
fn days_away(lower: &str) -> i32 {
    let days = [("모레", 2), ("내일", 1), ("tomorrow", 1), ("그제", -2), ("어제", -1), ("yesterday", -1)];
    days.iter().find(|(word, _)| lower.contains(word)).map_or(0, |(_, days)| *days)
}

fn has_digit(text: &str) -> bool {
    text.chars().any(|char| char.is_ascii_digit())
}

fn zone_of(place: &str) -> Option<&'static str> {
    CITIES.iter().find(|(city, _)| city.eq_ignore_ascii_case(place)).map(|(_, zone)| *zone)
}

/// The zone of a city whose name is several words.
fn zone_of_words(lower: &str) -> Option<&'static str> {
    let named = |city: &str| city.contains(' ') && lower.contains(&city.to_lowercase());
    CITIES.iter().find(|(city, _)| named(city)).map(|(_, zone)| *zone)
}

/// The first date as `YYYY-MM-DD`: written so, or as "2026년 10월 3일".
fn date_in(text: &str) -> Option<String> {
    let found = Cue::Date.captures(text)?;
    let number = |at: usize| found[at].parse::<u32>().ok();
    let (year, month, day) = (number(1)?, number(2)?, number(3)?);
    let is_date = (1900..2200).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    is_date.then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// Cities with the zone of their clocks.
static CITIES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let rows = include_str!("data/cities.tsv").lines().filter_map(|row| row.split_once('\t'));
    rows.flat_map(|(zone, cities)| cities.split(',').map(move |city| (city, zone))).collect()
});
