//! Wishes about the world outside: the weather of a place, the time somewhere, the weekday of a date.

use std::sync::LazyLock;

use super::intent::QuestionIntent;
use super::text::{contains_any_cue, without_particle, words};

/// Wishes for the weather, a place each, or one without a place.
pub(super) fn weather_intents(prose: &str) -> Vec<QuestionIntent> {
    let lower = prose.to_lowercase();
    let cues = "날씨|기온|weather|forecast|비 와|비 오|비가 와|비가 오|눈이 오|눈 오|미세먼지";
    let outdoors = lower.contains("temperature") && (lower.contains(" in ") || lower.contains("outside"));
    if !contains_any_cue(&lower, cues) && !outdoors {
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
        let place = before.take_while(|word| !is_question_about_place(word)).find(|word| !is_time_word(word));
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

fn is_time_word(word: &str) -> bool {
    " 오늘 내일 모레 어제 지금 현재 이번 이번주 주말 주 아침 저녁 오전 오후 밖 요즘 주간 "
        .contains(&format!(" {word} "))
}

fn is_question_about_place(word: &str) -> bool {
    matches!(word, "어디" | "여기" | "이곳" | "우리" | "회사" | "안녕" | "그럼" | "그리고")
}

/// A wish for date, time, weekday or holidays.
pub(super) fn time_intent(prose: &str) -> Option<QuestionIntent> {
    const NOW: &str = "오늘|지금|현재|내일|모레|어제|이번 달|올해|today|tomorrow|now|current";
    const SURE: &str = "몇 시야|몇시야|몇 시예요|몇 시에요|몇 시인가요|몇시인가요|무슨 요일|무슨요일|오늘 날짜|현재 시각|\
        현재 시간|what time is it|what day is|today's date|what date|current time|current date|the time in|\
        day of the week";
    const ASKS: &str =
        "며칠|몇일|날짜|몇 시|몇시|요일|시각|공휴일|휴일|쉬는 날|date|time is|what time|weekday|holiday";
    let lower = prose.to_lowercase();
    let date = date_in(prose);
    let now = contains_any_cue(&lower, NOW);
    // "회의는 몇 시야?" asks about a meeting, not about now.
    let meeting = words(prose).iter().any(|word| {
        let topic = word.strip_suffix('은').or_else(|| word.strip_suffix('는'));
        topic.is_some_and(|topic| {
            !contains_any_cue(topic, NOW) && zone_of(topic).is_none() && topic != "여기" && !has_digit(topic)
        })
    });
    let matched = contains_any_cue(&lower, SURE) && (now || !meeting);
    let spoken = now && contains_any_cue(&lower, ASKS);
    let of_day = date.is_some() && contains_any_cue(&lower, "요일|공휴일|휴일|what day|weekday|holiday");
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
    let chars: Vec<char> = text.chars().collect();
    let number = |at: usize, most: usize| {
        let digits: String = chars[at..].iter().take_while(|c| c.is_ascii_digit()).take(most).collect();
        let value: u32 = digits.parse().ok()?;
        Some((value, at + digits.len()))
    };
    let past = |mut at: usize, marks: &[char]| {
        let mark = chars.get(at).filter(|char| marks.contains(char))?;
        at += 1;
        if !mark.is_ascii() || *mark == '.' {
            at += chars[at..].iter().take_while(|char| **char == ' ').count();
        }
        Some(at)
    };
    (0..chars.len()).filter(|at| chars[*at].is_ascii_digit()).find_map(|from| {
        let (year, at) = number(from, 5).filter(|(year, _)| (1900..2200).contains(year))?;
        let (month, at) =
            number(past(at, &['-', '/', '.', '년'])?, 2).filter(|(month, _)| (1..=12).contains(month))?;
        let (day, _) =
            number(past(at, &['-', '/', '.', '월'])?, 2).filter(|(day, _)| (1..=31).contains(day))?;
        Some(format!("{year:04}-{month:02}-{day:02}"))
    })
}

/// Cities with the zone of their clocks.
static CITIES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let rows = include_str!("data/cities.tsv").lines().filter_map(|row| row.split_once('\t'));
    rows.flat_map(|(zone, cities)| cities.split(',').map(move |city| (city, zone))).collect()
});
