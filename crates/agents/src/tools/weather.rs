//! `get_weather`: the weather of a place now, from OpenWeather (geocoding, then current weather).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_llm::{TextOrigin, ToolSpec};
use doran_retrieval::Language;
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};

use super::egress::{Egress, EgressError, EgressRequest};
use super::{Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolSecret, ToolSideEffect, names};

/// Where OpenWeather is.
pub(crate) const OPENWEATHER_URL: &str = "https://api.openweathermap.org";
const SERVICE_NAME: &str = "OpenWeather";

/// The tool.
#[derive(Debug)]
pub struct GetWeather {
    info: ToolInfo,
    egress: Arc<Egress>,
    base: Url,
    key: Option<ToolSecret>,
}

#[derive(Debug, Deserialize)]
struct WeatherArguments {
    city: String,
}

/// One answer of `/geo/1.0/direct`.
#[derive(Debug, Deserialize)]
struct GeocodedPlace {
    name: String,
    #[serde(default)]
    local_names: std::collections::BTreeMap<String, String>,
    lat: f64,
    lon: f64,
    #[serde(default)]
    country: String,
}

/// The answer of `/data/2.5/weather`, as far as it is used.
#[derive(Debug, Deserialize)]
struct CurrentWeather {
    weather: Vec<WeatherCondition>,
    main: WeatherMeasurements,
    #[serde(default)]
    wind: WeatherWind,
    #[serde(default)]
    clouds: WeatherClouds,
    #[serde(default)]
    rain: WeatherPrecipitation,
    #[serde(default)]
    snow: WeatherPrecipitation,
    dt: i64,
    #[serde(default)]
    timezone: i32,
}

#[derive(Debug, Deserialize)]
struct WeatherCondition {
    description: String,
}

#[derive(Debug, Deserialize)]
struct WeatherMeasurements {
    temp: f64,
    feels_like: f64,
    humidity: f64,
}

#[derive(Debug, Default, Deserialize)]
struct WeatherWind {
    #[serde(default)]
    speed: f64,
}

#[derive(Debug, Default, Deserialize)]
struct WeatherClouds {
    #[serde(default)]
    all: f64,
}

#[derive(Debug, Default, Deserialize)]
struct WeatherPrecipitation {
    #[serde(rename = "1h", default)]
    hour: f64,
}

impl GetWeather {
    /// One that asks OpenWeather at `base` with `key`.
    pub fn new(egress: Arc<Egress>, base: Url, key: Option<ToolSecret>) -> Self {
        let description = "Tells the current weather of a city: temperature, humidity, wind, rain. Use it for questions about the \
            weather now.";
        let parameters = json!({
            "type": "object",
            "properties": { "city": { "type": "string", "minLength": 1, "maxLength": 100, "description": "A city in Korean or English, optionally with a country: 서울, Paris,FR" } },
            "required": ["city"],
            "additionalProperties": false,
        });
        let about = ToolInfo {
            spec: ToolSpec { name: names::GET_WEATHER.into(), description: description.into(), parameters },
            ko: "도시의 지금 날씨를 알려 줍니다 (OpenWeather).".into(),
            en: "Tells the weather of a city now (OpenWeather).".into(),
            side_effect: ToolSideEffect::ReadOnly,
            outward: true,
            origin: TextOrigin::Web,
            timeout: Duration::from_secs(20),
            max_output_bytes: 4 * 1024,
        };
        Self { info: about, egress, base, key }
    }

    async fn fetch_service<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T, EgressError> {
        let mut url = self.base.join(path).map_err(|_| EgressError::Blocked("not a URL"))?;
        let key = self.key.as_ref().map(ToolSecret::reveal).unwrap_or_default();
        url.query_pairs_mut().extend_pairs(query).append_pair("appid", key);
        let answer = self.egress.fetch_json(&EgressRequest::get(url)).await?;
        serde_json::from_value(answer).map_err(|_| EgressError::Unreadable("not of the documented shape"))
    }
}

#[async_trait]
impl Tool for GetWeather {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let WeatherArguments { city } =
            serde_json::from_value(arguments).map_err(|error| ToolError::BadArguments(error.to_string()))?;
        if self.key.is_none() {
            return Err(ToolError::NotConfigured(call.language.pick(
                "날씨를 보려면 OpenWeather 키가 필요합니다. https://openweathermap.org/api 에서 받아 환경 변수 OPENWEATHER_API_KEY에 넣으세요".into(),
                "the weather needs an OpenWeather key: get one at https://openweathermap.org/api and set it as OPENWEATHER_API_KEY".into(),
            )));
        }
        let tool_error = |error: EgressError| error.to_tool_error(SERVICE_NAME, call.language);
        let places: Vec<GeocodedPlace> = self
            .fetch_service("/geo/1.0/direct", &[("q", city.trim()), ("limit", "1")])
            .await
            .map_err(tool_error)?;
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
        let weather: CurrentWeather =
            self.fetch_service("/data/2.5/weather", &query).await.map_err(tool_error)?;
        Ok(weather_output(&place, &weather, call.language))
    }
}

fn weather_output(place: &GeocodedPlace, weather: &CurrentWeather, language: Language) -> ToolOutput {
    let local = place.local_names.get(language.pick("ko", "en")).unwrap_or(&place.name);
    let country = &place.country;
    let sky: Vec<&str> = weather.weather.iter().map(|sky| sky.description.as_str()).collect();
    let sky = sky.join(", ");
    let at = local_time(weather.dt, weather.timezone);
    let WeatherMeasurements { temp, feels_like, humidity } = weather.main;
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
    ToolOutput { text, data, ..ToolOutput::default() }
}

/// The time of the report where the place is.
fn local_time(seconds: i64, offset: i32) -> String {
    let local = jiff::Timestamp::from_second(seconds.saturating_add(i64::from(offset)));
    local.map_or_else(|_| "?".into(), |time| time.strftime("%Y-%m-%d %H:%M").to_string())
}
