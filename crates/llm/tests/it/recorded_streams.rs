//! Streams in the shape that vendors really send, ugly ones among them. Each `NAME.sse` lies beside `NAME.txt`, which
//! says what it means; cutting it at any byte changes nothing.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use doran_llm::{
    ChatModel, ChatRequest, Delta, ModelApiKey, ScriptedHttpResponse, ScriptedServer, ToolSpec, open_model,
};
use futures_util::StreamExt;
use serde_json::json;

use crate::{greeting_request, test_model_config};

/// Directories are named after providers; the model decides little else.
fn model_of(provider: &str) -> &'static str {
    match provider {
        "openai" => "gpt-4.1-mini",
        "openai-responses" => "gpt-5.4-mini",
        "anthropic" => "claude-haiku-4-5",
        "gemini" => "gemini-2.5-flash",
        _ => "m",
    }
}

fn request() -> ChatRequest {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    ChatRequest { tools: vec![tool("get_weather"), tool("calculator")], ..greeting_request() }
}

/// What came, in lines: words and thoughts joined, calls and the end as they were.
async fn describe_deltas(model: &dyn ChatModel) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut deltas = model.stream(request());
    while let Some(delta) = deltas.next().await {
        let line = match delta {
            Ok(Delta::Text { text }) => format!("text {text:?}"),
            Ok(Delta::Reasoning { text, signature: None }) => format!("thought {text:?}"),
            Ok(Delta::Reasoning { text, signature: Some(signature) }) => {
                format!("signed {text:?} {signature}")
            }
            Ok(Delta::ToolCall(call)) => {
                // An id that the vendor did not give is made up afresh.
                let id = if call.id.starts_with("call-") { "(new)" } else { call.id.as_str() };
                format!("call {id} {} {}", call.name, call.arguments)
            }
            Ok(Delta::Done { usage, finish }) => {
                let counted = if usage.counted == doran_llm::TokenCountSource::Reported {
                    "reported"
                } else {
                    "estimated"
                };
                format!(
                    "done {finish:?} in={} cached={} out={} thought={} {counted}",
                    usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens
                )
            }
            Err(error) => format!("error {} {error}", error.code()),
        };
        lines.push(line);
    }
    let mut text = String::new();
    for line in lines {
        writeln!(text, "{line}").expect("memory");
    }
    text
}

fn fixture_streams() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut found = Vec::new();
    for directory in std::fs::read_dir(root).expect("fixtures").flatten() {
        let provider = directory.file_name().to_string_lossy().into_owned();
        for file in std::fs::read_dir(directory.path()).expect("directory").flatten() {
            if file.path().extension().is_some_and(|extension| extension == "sse") {
                found.push((provider.clone(), file.path()));
            }
        }
    }
    found.sort();
    assert!(found.len() >= 12, "the fixtures are gone");
    found
}

async fn describe_answer(provider: &str, turn: ScriptedHttpResponse) -> String {
    let server = ScriptedServer::start_with_responder(move |_| turn.clone()).await.expect("server");
    let config = test_model_config(provider, model_of(provider), server.url());
    let model = open_model(&config, ModelApiKey::new("k")).expect("open");
    describe_deltas(model.as_ref()).await
}

#[tokio::test]
async fn recorded_streams_mean_what_they_meant() {
    for (provider, path) in fixture_streams() {
        let bytes = std::fs::read(&path).expect("stream");
        let text = describe_answer(&provider, ScriptedHttpResponse::events([&bytes])).await;
        let beside = path.with_extension("txt");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&beside, &text).expect("write");
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(text, expected, "{}", path.display());
        assert_eq!(
            describe_answer(&provider, ScriptedHttpResponse::events([&bytes]).split_into_bytes()).await,
            expected,
            "{}: byte by byte",
            path.display()
        );
    }
}

#[tokio::test]
async fn a_stream_cut_anywhere_is_whole_or_an_error() {
    for (provider, path) in fixture_streams() {
        let bytes = std::fs::read(&path).expect("stream");
        let whole = std::fs::read_to_string(path.with_extension("txt")).expect("beside");
        let (words, _) = split_off_last_line(&whole);
        // Every end of an event, and a few bytes around the last.
        let is_end = |at: &usize| {
            bytes[..*at].ends_with(b"\n\n") || bytes[..*at].ends_with(b"\n\r\n") || *at + 5 > bytes.len()
        };
        let ends: Vec<usize> = (1..bytes.len()).filter(is_end).collect();
        for cut in ends {
            let text = describe_answer(&provider, ScriptedHttpResponse::events([&bytes[..cut]])).await;
            let (some, end) = split_off_last_line(&text);
            if end.starts_with("done") {
                assert_eq!(some, words, "{} cut at {cut} passes for whole", path.display());
            } else {
                assert!(end.starts_with("error"), "{} cut at {cut}: {text}", path.display());
                assert!(
                    words.starts_with(&some) || whole.contains("error"),
                    "{} cut at {cut}: {text}",
                    path.display()
                );
            }
        }
    }
}

/// All lines but the last, and the last.
fn split_off_last_line(text: &str) -> (String, String) {
    let mut lines: Vec<&str> = text.lines().collect();
    let last = lines.pop().unwrap_or_default().to_owned();
    (lines.join("\n"), last)
}
