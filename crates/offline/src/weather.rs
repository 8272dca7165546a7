//! Wishes for the weather of a place, and the cities of the world.

use std::ops::Range;
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

/// The cities that a text names: the zones of their clocks, and where the names stand.
pub(super) fn cities_in(text: &str) -> Vec<(&'static str, Range<usize>)> {
    let lower = text.to_lowercase();
    let at = |city: &str| {
        let city = city.to_lowercase();
        let start = lower.match_indices(&city).map(|(start, _)| start).find(|start| {
            !lower[..*start].ends_with(char::is_alphanumeric)
                && !lower[start + city.len()..].starts_with(|next: char| next.is_ascii_alphanumeric())
        });
        start.map(|start| start..start + city.len())
    };
    CITIES.iter().filter_map(|(city, zone)| Some((*zone, at(city)?))).collect()
}

/// Cities with the zone of their clocks.
static CITIES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let rows = include_str!("data/cities.tsv").lines().filter_map(|row| row.split_once('\t'));
    rows.flat_map(|(zone, cities)| cities.split(',').map(move |city| (city, zone))).collect()
});
