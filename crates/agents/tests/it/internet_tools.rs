//! The tools that ask the internet, against far ends that speak as the real ones are documented to.

use std::sync::Arc;

use doran_agents::tools::{
    BuiltinToolsConfig, CompletedToolCall, Egress, EgressOptions, RunExposure, ToolAdmission,
    ToolCallContext, ToolSecret, Toolbox, builtin_tools,
};
use doran_llm::{TextOrigin, ToolCall};
use doran_retrieval::Language;
use serde_json::{Value, json};

use crate::http_test_server::{
    HttpTestReply, HttpTestRequest, HttpTestServer, http_json_reply as json_reply, http_reply,
};

const CANARY_KEY: &str = "canary-key";

pub fn internet_toolbox(test_server: &HttpTestServer, keys: bool) -> Toolbox {
    let base = test_server.url("");
    let key = keys.then(|| ToolSecret::new(CANARY_KEY));
    let config = BuiltinToolsConfig {
        egress: EgressOptions { test_server_address: Some(test_server.address), ..EgressOptions::default() },
        openweather_key: key.clone(),
        tavily_key: key,
        openweather: base.clone(),
        tavily: base.clone(),
        wikipedia: [format!("{base}/ko/"), format!("{base}/en/")],
        ..BuiltinToolsConfig::default()
    };
    Toolbox::with_tools(builtin_tools(config).expect("tools")).expect("toolbox")
}

async fn call_tool(toolbox: &Toolbox, name: &str, arguments: Value, language: Language) -> CompletedToolCall {
    let call = ToolCall { id: "1".into(), name: name.into(), arguments };
    match toolbox.admit(&call, &RunExposure::default(), None, language) {
        ToolAdmission::Run(permit) => {
            let who = ToolCallContext {
                tenant: "t",
                thread: "th",
                key: "k",
                language,
                session: None,
                now_ms: 0,
                taint: doran_agents::tools::Taint::default(),
            };
            permit.run(who).await
        }
        other => panic!("not admitted: {other:?}"),
    }
}

fn openweather_reply(asked: &HttpTestRequest) -> HttpTestReply {
    if asked.target.starts_with("/geo/1.0/direct") {
        let places = match asked.target.contains("q=Nowhere") {
            true => json!([]),
            false => json!([{
                "name": "Seoul", "local_names": { "ko": "서울특별시", "en": "Seoul" },
                "lat": 37.5666791, "lon": 126.9782914, "country": "KR"
            }]),
        };
        return json_reply(&places);
    }
    json_reply(&json!({
        "coord": { "lon": 126.9783, "lat": 37.5667 },
        "weather": [{ "id": 500, "main": "Rain", "description": "실 비", "icon": "10d" }],
        "base": "stations",
        "main": { "temp": 12.3, "feels_like": 11.5, "temp_min": 11.0, "temp_max": 13.0, "pressure": 1015, "humidity": 82 },
        "visibility": 10000, "wind": { "speed": 2.1, "deg": 200 }, "clouds": { "all": 90 }, "rain": { "1h": 0.4 },
        "dt": 1_794_734_559, "sys": { "type": 1, "id": 8105, "country": "KR", "sunrise": 1, "sunset": 2 },
        "timezone": 32400, "id": 1_835_848, "name": "Seoul", "cod": 200
    }))
}

#[tokio::test]
async fn the_weather_has_place_time_and_source() {
    let test_server = HttpTestServer::start(openweather_reply);
    let toolbox = internet_toolbox(&test_server, true);
    let done = call_tool(&toolbox, "get_weather", json!({ "city": "서울" }), Language::Korean).await;
    assert_eq!(
        done.result.text,
        "서울특별시(KR) 2026-11-15 18:22 현재: 실 비, 기온 12.3°C(체감 11.5°C), 습도 82%, 바람 2.1m/s, 구름 90%, 비 0.4mm/시간 (출처: OpenWeather)"
    );
    assert_eq!((done.result.origin, done.data["temperature"].as_f64()), (TextOrigin::Web, Some(12.3)));
    let targets: Vec<String> = test_server.requests().into_iter().map(|asked| asked.target).collect();
    assert_eq!(
        targets,
        [
            "/geo/1.0/direct?q=%EC%84%9C%EC%9A%B8&limit=1&appid=canary-key",
            "/data/2.5/weather?lat=37.5666791&lon=126.9782914&units=metric&lang=kr&appid=canary-key",
        ]
    );
    let nowhere = call_tool(&toolbox, "get_weather", json!({ "city": "Nowhere" }), Language::English).await;
    assert_eq!(
        nowhere.result.text,
        "Error: there is no city `Nowhere`; try another spelling or add the country (Seoul,KR)"
    );
}

#[tokio::test]
async fn without_a_key_the_error_says_how_to_get_one_and_nothing_is_requested() {
    let test_server = HttpTestServer::start(openweather_reply);
    let toolbox = internet_toolbox(&test_server, false);
    for (name, arguments, setting) in [
        ("get_weather", json!({ "city": "서울" }), "OPENWEATHER_API_KEY"),
        ("web_search", json!({ "query": "환율" }), "TAVILY_API_KEY"),
    ] {
        for language in [Language::Korean, Language::English] {
            let done = call_tool(&toolbox, name, arguments.clone(), language).await;
            assert!(done.result.failed && done.result.text.contains(setting), "{}", done.result.text);
        }
    }
    assert_eq!(test_server.requests().len(), 0);
}

#[tokio::test]
async fn a_wrong_key_is_reported_and_not_shown() {
    let test_server = HttpTestServer::start(|_| {
        http_reply("401 Unauthorized", "", br#"{"cod":401,"message":"Invalid API key canary-key"}"#)
    });
    let toolbox = internet_toolbox(&test_server, true);
    for (name, arguments) in
        [("get_weather", json!({ "city": "서울" })), ("web_search", json!({ "query": "x" }))]
    {
        let done = call_tool(&toolbox, name, arguments, Language::English).await;
        assert!(done.result.text.contains("does not accept the API key"), "{}", done.result.text);
        assert!(!format!("{done:?}").contains(CANARY_KEY), "{done:?}");
    }
}

#[tokio::test]
async fn a_city_is_data_whatever_it_says() {
    for city in [
        "London&appid=X#",
        "../../admin",
        "x\r\nX-Injected: 1",
        "a?b=c&appid=",
        "%26appid%3DX",
        "서울 {{key}}",
    ] {
        let test_server = HttpTestServer::start(openweather_reply);
        call_tool(
            &internet_toolbox(&test_server, true),
            "get_weather",
            json!({ "city": city }),
            Language::Korean,
        )
        .await;
        for asked in test_server.requests() {
            let url = reqwest::Url::parse(&test_server.url(&asked.target)).expect("url");
            let keys: Vec<String> = url
                .query_pairs()
                .filter(|(name, _)| name == "appid")
                .map(|(_, value)| value.into_owned())
                .collect();
            assert_eq!(keys, [CANARY_KEY], "{city}: {}", asked.target);
            assert!(
                ["/geo/1.0/direct", "/data/2.5/weather"].contains(&url.path()),
                "{city}: {}",
                asked.target
            );
            assert_eq!(asked.header("x-injected"), None, "{city}");
        }
        assert_eq!(test_server.requests().len(), 2, "{city}");
    }
}

pub fn wikipedia_reply(asked: &HttpTestRequest) -> HttpTestReply {
    let page = |title: &str, index: i64, extract: &str, url: &str| {
        json!({ "pageid": index, "ns": 0, "title": title, "index": index, "extract": extract,
                "contentmodel": "wikitext", "pagelanguage": "ko", "fullurl": url, "canonicalurl": url })
    };
    let korean =
        asked.target.starts_with("/ko/w/api.php") && asked.target.contains("gsrsearch=%EC%84%B8%EC%A2%85");
    let pages = match (korean, asked.target.contains("Ferris")) {
        (true, _) => json!([
            page("한글", 2, "한글은 …", "https://ko.wikipedia.org/wiki/한글"),
            page("세종", 1, "세종은 조선의 제4대 국왕이다.", "https://ko.wikipedia.org/wiki/세종"),
        ]),
        (false, true) => {
            json!([page("Ferris", 1, "Ferris is a crab.", "https://en.wikipedia.org/wiki/Ferris")])
        }
        (false, false) => return json_reply(&json!({ "batchcomplete": true })),
    };
    json_reply(&json!({ "batchcomplete": true, "query": { "pages": pages } }))
}

#[tokio::test]
async fn wikipedia_is_asked_in_korean_first_and_best_articles_come_first() {
    let test_server = HttpTestServer::start(wikipedia_reply);
    let toolbox = internet_toolbox(&test_server, false);
    let done = call_tool(&toolbox, "search_wikipedia", json!({ "query": "세종" }), Language::Korean).await;
    assert_eq!(
        done.result.text,
        "# 세종\nhttps://ko.wikipedia.org/wiki/세종\n세종은 조선의 제4대 국왕이다.\n\n# 한글\nhttps://ko.wikipedia.org/wiki/한글\n한글은 …"
    );
    assert_eq!(test_server.requests().len(), 1);
    let asked = &test_server.requests()[0];
    assert_eq!(
        asked.target,
        "/ko/w/api.php?action=query&format=json&formatversion=2&redirects=1&generator=search&gsrsearch=%EC%84%B8%EC%A2%85&gsrlimit=3\
         &prop=extracts%7Cinfo&exintro=1&explaintext=1&exlimit=max&inprop=url"
    );
    assert!(asked.header("user-agent").is_some_and(|agent| agent.starts_with("doran/")));
    let none = call_tool(&toolbox, "search_wikipedia", json!({ "query": "없는 것" }), Language::Korean).await;
    assert_eq!(none.result.text, "위키백과에서 `없는 것`에 관한 문서를 찾지 못했습니다");
    let english = call_tool(
        &toolbox,
        "search_wikipedia",
        json!({ "query": "Ferris", "language": "en" }),
        Language::Korean,
    )
    .await;
    assert_eq!(english.result.text, "# Ferris\nhttps://en.wikipedia.org/wiki/Ferris\nFerris is a crab.");
    let places: Vec<String> =
        test_server.requests().iter().map(|asked| asked.target[..4].to_owned()).collect();
    assert_eq!(places, ["/ko/", "/ko/", "/en/", "/en/"], "found; not found, so English too; English only");
}

#[tokio::test]
async fn a_title_is_data_whatever_it_says() {
    let titles = ["A|B|C|".repeat(50), "../w/api.php?action=delete&title=x".into(), "x&action=edit#".into()];
    for title in titles {
        let test_server = HttpTestServer::start(wikipedia_reply);
        call_tool(
            &internet_toolbox(&test_server, false),
            "search_wikipedia",
            json!({ "query": title }),
            Language::Korean,
        )
        .await;
        for asked in test_server.requests() {
            let url = reqwest::Url::parse(&test_server.url(&asked.target)).expect("url");
            let actions: Vec<String> = url
                .query_pairs()
                .filter(|(name, _)| name == "action")
                .map(|(_, value)| value.into_owned())
                .collect();
            assert_eq!(
                (&url.path()[3..], actions.as_slice()),
                ("/w/api.php", ["query".to_owned()].as_slice()),
                "{title}"
            );
        }
    }
    let test_server = HttpTestServer::start(wikipedia_reply);
    let long = ToolCall {
        id: "1".into(),
        name: "search_wikipedia".into(),
        arguments: json!({ "query": "x".repeat(10_000) }),
    };
    let admission =
        internet_toolbox(&test_server, false).admit(&long, &RunExposure::default(), None, Language::Korean);
    assert!(matches!(admission, ToolAdmission::Refuse(_)), "{admission:?}");
}

#[tokio::test]
async fn what_the_web_says_is_cleaned_and_cut() {
    let test_server = HttpTestServer::start(|asked| {
        assert_eq!(asked.header("authorization"), Some("Bearer canary-key"));
        let body: Value = serde_json::from_str(&asked.body).expect("json");
        assert_eq!(
            (asked.target.as_str(), &body["query"], &body["max_results"]),
            ("/search", &json!("환율"), &json!(2))
        );
        let hidden: String = "obey".chars().filter_map(|one| char::from_u32(0xe0000 + one as u32)).collect();
        json_reply(&json!({
            "query": "환율", "answer": null, "images": [], "follow_up_questions": null, "response_time": 1.2, "request_id": "r",
            "results": [
                { "title": "환율\u{202e}gpj", "url": "https://a.example/", "content": format!("1달러는 1,300원\u{0}{hidden}"), "score": 0.9, "raw_content": null },
                { "title": "긴 글", "url": "https://b.example/", "content": "가".repeat(500_000), "score": 0.5 },
                { "title": "세 번째", "url": "https://c.example/", "content": "…", "score": 0.1 },
            ]
        }))
    });
    let done = call_tool(
        &internet_toolbox(&test_server, true),
        "web_search",
        json!({ "query": "환율", "max_results": 2 }),
        Language::Korean,
    )
    .await;
    let text = done.result.text;
    assert!(text.starts_with("[1] 환율gpj\nhttps://a.example/\n1달러는 1,300원\n\n[2] 긴 글"), "{text}");
    assert!(text.contains("전체 1500000바이트") && text.contains("보이지 않는 문자 6개"), "{text}");
    assert!(text.len() < 4000 && !text.contains("세 번째"), "{}", text.len());
}

#[tokio::test]
async fn answers_of_another_shape_are_reported_as_unreadable() {
    for body in ["[]", "{}", "null", "{\"results\": 7}", "<html>", "{\"query\":{\"pages\":{}}}", ""] {
        let test_server = HttpTestServer::start(move |_| http_reply("200 OK", "", body.as_bytes()));
        let toolbox = internet_toolbox(&test_server, true);
        let done = call_tool(&toolbox, "web_search", json!({ "query": "x" }), Language::English).await;
        assert!(
            done.result.text.starts_with("Error: the answer of Tavily cannot be read"),
            "{body}: {}",
            done.result.text
        );
        let done = call_tool(&toolbox, "get_weather", json!({ "city": "x" }), Language::English).await;
        assert!(done.result.failed, "{body}: {}", done.result.text);
    }
}

#[tokio::test]
async fn every_tool_is_bilingual_bounded_and_has_a_schema() {
    let memories: Arc<dyn doran_agents::memory::MemoryStore> =
        Arc::new(doran_agents::memory::RamMemoryStore::new());
    let tools =
        builtin_tools(BuiltinToolsConfig { memories: Some(memories), ..BuiltinToolsConfig::default() })
            .expect("tools");
    let names: Vec<&str> = tools.iter().map(|tool| tool.info().spec.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "calculator",
            "get_current_datetime",
            "get_weather",
            "search_wikipedia",
            "web_search",
            "read_file",
            "remember",
            "recall",
            "forget"
        ]
    );
    for tool in &tools {
        let about = tool.info();
        let name = &about.spec.name;
        assert!(about.ko.chars().any(|one| ('가'..='힣').contains(&one)), "{name}");
        assert!(about.en.is_ascii() && !about.en.is_empty(), "{name}");
        assert!(!about.timeout.is_zero() && about.max_output_bytes >= 1024, "{name}");
        assert_eq!(about.spec.parameters["type"], "object", "{name}");
        assert_eq!(about.spec.parameters["additionalProperties"], false, "{name}");
    }
    Toolbox::with_tools(tools).expect("toolbox");
    assert!(Egress::new(EgressOptions::default()).is_ok());
}
