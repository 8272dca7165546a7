//! `get_weather`: the weather of a place now, from OpenWeather (geocoding, then current weather).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_llm::{Origin, ToolSpec};
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};

use super::egress::{Egress, EgressError, Outgoing};
use super::{About, Call, Class, Language, Output, Secret, Tool, ToolError};

/// Where OpenWeather is.
pub const OPENWEATHER: &str = "https://api.openweathermap.org";
const WHO: &str = "OpenWeather";

/// The tool.
#[derive(Debug)]
pub struct GetWeather {
    about: About,
    egress: Arc<Egress>,
    base: Url,
    key: Option<Secret>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    city: String,
}

/// One answer of `/geo/1.0/direct`.
#[derive(Debug, Deserialize)]
struct Place {
    name: String,
    #[serde(default)]
    local_names: std::collections::BTreeMap<String, String>,
    lat: f64,
    lon: f64,
    #[serde(default)]
    country: String,
}

/// The answer of `/data/2.5/weather`, as far as it is told on.
#[derive(Debug, Deserialize)]
struct Weather {
    weather: Vec<Sky>,
    main: Air,
    #[serde(default)]
    wind: Wind,
    #[serde(default)]
    clouds: Clouds,
    #[serde(default)]
    rain: Fall,
    #[serde(default)]
    snow: Fall,
    dt: i64,
    #[serde(default)]
    timezone: i32,
}

#[derive(Debug, Deserialize)]
struct Sky {
    description: String,
}

#[derive(Debug, Deserialize)]
struct Air {
    temp: f64,
    feels_like: f64,
    humidity: f64,
}

#[derive(Debug, Default, Deserialize)]
struct Wind {
    #[serde(default)]
    speed: f64,
}

#[derive(Debug, Default, Deserialize)]
struct Clouds {
    #[serde(default)]
    all: f64,
}

#[derive(Debug, Default, Deserialize)]
struct Fall {
    #[serde(rename = "1h", default)]
    hour: f64,
}

impl GetWeather {
    /// One that asks OpenWeather at `base` with `key`.
    pub fn new(egress: Arc<Egress>, base: Url, key: Option<Secret>) -> Self {
        let description = "Tells the current weather of a city: temperature, humidity, wind, rain. Use it for questions about the \
            weather now.";
        let parameters = json!({
            "type": "object",
            "properties": { "city": { "type": "string", "minLength": 1, "maxLength": 100, "description": "A city in Korean or English, optionally with a country: 서울, Paris,FR" } },
            "required": ["city"],
            "additionalProperties": false,
        });
        let about = About {
            spec: ToolSpec { name: "get_weather".into(), description: description.into(), parameters },
            ko: "도시의 지금 날씨를 알려 줍니다 (OpenWeather).".into(),
            en: "Tells the weather of a city now (OpenWeather).".into(),
            class: Class::ReadOnly,
            outward: true,
            origin: Origin::Web,
            time: Duration::from_secs(20),
            most_output: 4 * 1024,
        };
        Self { about, egress, base, key }
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T, EgressError> {
        let mut url = self.base.join(path).map_err(|_| EgressError::Blocked("not a URL"))?;
        let key = self.key.as_ref().map(Secret::reveal).unwrap_or_default();
        url.query_pairs_mut().extend_pairs(query).append_pair("appid", key);
        let answer = self.egress.fetch_json(&Outgoing::get(url)).await?;
        serde_json::from_value(answer).map_err(|_| EgressError::Unreadable("not of the documented shape"))
    }
}

#[async_trait]
impl Tool for GetWeather {
    fn about(&self) -> &About {
        &self.about
    }

    async fn call(&self, arguments: Value, call: Call<'_>) -> Result<Output, ToolError> {
        let Arguments { city } =
            serde_json::from_value(arguments).map_err(|error| ToolError::BadArguments(error.to_string()))?;
        if self.key.is_none() {
            return Err(ToolError::NotConfigured(call.language.pick(
                "날씨를 보려면 OpenWeather 키가 필요합니다. https://openweathermap.org/api 에서 받아 환경 변수 OPENWEATHER_API_KEY에 넣으세요".into(),
                "the weather needs an OpenWeather key: get one at https://openweathermap.org/api and set it as OPENWEATHER_API_KEY".into(),
            )));
        }
        let told = |error: EgressError| error.told(WHO, call.language);
        let places: Vec<Place> =
            self.ask("/geo/1.0/direct", &[("q", city.trim()), ("limit", "1")]).await.map_err(told)?;
        let Some(place) = places.into_iter().next() else {
            let shown: String = city.chars().take(60).collect();
            return Err(ToolError::BadArguments(call.language.pick(
                format!(
                    "`{shown}`(이)라는 도시를 찾지 못했습니다. 영어 이름이나 나라를 붙여 보세요 (Seoul,KR)"
                ),
                format!("there is no city `{shown}`; try another spelling or add the country (Seoul,KR)"),
            )));
        };
        let language = call.language.pick("kr", "en");
        let (lat, lon) = (place.lat.to_string(), place.lon.to_string());
        let query = [("lat", lat.as_str()), ("lon", lon.as_str()), ("units", "metric"), ("lang", language)];
        let weather: Weather = self.ask("/data/2.5/weather", &query).await.map_err(told)?;
        Ok(report(&place, &weather, call.language))
    }
}

fn report(place: &Place, weather: &Weather, language: Language) -> Output {
    let local = place.local_names.get(language.pick("ko", "en")).unwrap_or(&place.name);
    let country = &place.country;
    let sky: Vec<&str> = weather.weather.iter().map(|sky| sky.description.as_str()).collect();
    let sky = sky.join(", ");
    let at = at(weather.dt, weather.timezone);
    let Air { temp, feels_like, humidity } = weather.main;
    let (wind, clouds) = (weather.wind.speed, weather.clouds.all);
    let mut text = language.pick(
        format!("{local}({country}) {at} 현재: {sky}, 기온 {temp}°C(체감 {feels_like}°C), 습도 {humidity}%, 바람 {wind}m/s, 구름 {clouds}%"),
        format!("{local} ({country}) at {at}: {sky}, {temp}°C (feels like {feels_like}°C), humidity {humidity}%, wind {wind} m/s, clouds {clouds}%"),
    );
    for (fall, ko, en) in [(weather.rain.hour, "비", "rain"), (weather.snow.hour, "눈", "snow")] {
        if fall > 0.0 {
            text += &language.pick(format!(", {ko} {fall}mm/시간"), format!(", {en} {fall} mm/h"));
        }
    }
    text += language.pick(" (출처: OpenWeather)", " (source: OpenWeather)");
    let data = json!({
        "city": place.name, "country": country, "lat": place.lat, "lon": place.lon, "temperature": temp,
        "feels_like": feels_like, "humidity": humidity, "wind": wind, "clouds": clouds, "at": weather.dt,
    });
    Output { text, data, session: None }
}

/// The time of the report where the place is.
fn at(seconds: i64, offset: i32) -> String {
    let local = jiff::Timestamp::from_second(seconds.saturating_add(i64::from(offset)));
    local.map_or_else(|_| "?".into(), |time| time.strftime("%Y-%m-%d %H:%M").to_string())
}
