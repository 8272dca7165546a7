//! `async-openai`'s side of `./x bench llm`: one JSON object a line on stdin, one answer a request on stdout. The
//! requests are told in `bench/README.md`.

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::types::chat::CreateChatCompletionRequest;
use futures_util::StreamExt;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

type PeerError = Box<dyn std::error::Error + Send + Sync>;

/// The first pieces of a stream come while others connect, and are not counted.
const WARM_UP: usize = 3;

#[tokio::main]
async fn main() -> Result<(), PeerError> {
    println!("{}", json!({ "ready": true, "name": "async-openai 0.43.0" }));
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let answer = match measured(&request).await {
            Ok(answer) => answer,
            Err(error) => json!({ "error": error.to_string() }),
        };
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

async fn measured(request: &Value) -> Result<Value, PeerError> {
    let url = request["url"].as_str().ok_or("no url")?;
    let model = request["model"].as_str().ok_or("no model")?.to_owned();
    let count = request["count"].as_u64().ok_or("no count")? as usize;
    let client = Client::with_config(OpenAIConfig::new().with_api_base(url).with_api_key("none"));
    match request["case"].as_str() {
        Some("calls") => calls(&client, &model, count).await,
        Some("streams") => streams(&client, &model, count).await,
        other => Err(format!("no such case: {other:?}").into()),
    }
}

fn asked(model: &str) -> Result<CreateChatCompletionRequest, PeerError> {
    let messages = json!([{ "role": "user", "content": "안녕하세요?" }]);
    Ok(serde_json::from_value(json!({ "model": model, "messages": messages }))?)
}

async fn calls(client: &Client<OpenAIConfig>, model: &str, count: usize) -> Result<Value, PeerError> {
    for _ in 0..20 {
        client.chat().create(asked(model)?).await?;
    }
    let (before, mut waits) = (clock(ClockId::ProcessCPUTime), Vec::new());
    for _ in 0..count {
        let begun = Instant::now();
        let reply = client.chat().create(asked(model)?).await?;
        if reply.choices[0].message.content.is_none() {
            return Err("an empty answer".into());
        }
        waits.push(begun.elapsed());
    }
    Ok(answer(clock(ClockId::ProcessCPUTime) - before, waits, count))
}

async fn streams(client: &Client<OpenAIConfig>, model: &str, count: usize) -> Result<Value, PeerError> {
    let before = clock(ClockId::ProcessCPUTime);
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let (client, model) = (client.clone(), model.to_owned());
            tokio::spawn(async move {
                let mut stream = client.chat().create_stream(asked(&model)?).await?;
                let mut waits = Vec::new();
                while let Some(chunk) = stream.next().await {
                    let chunk = chunk?;
                    let text = chunk.choices.first().and_then(|choice| choice.delta.content.as_deref());
                    for stamp in text.unwrap_or_default().split_whitespace() {
                        let sent = Duration::from_nanos(stamp.parse()?);
                        waits.push(clock(ClockId::Monotonic).saturating_sub(sent));
                    }
                }
                Ok::<_, PeerError>(waits)
            })
        })
        .collect();
    let (mut all, mut chunks) = (Vec::new(), 0);
    for task in tasks {
        let waits = task.await??;
        chunks += waits.len();
        all.extend(waits.into_iter().skip(WARM_UP));
    }
    Ok(answer(clock(ClockId::ProcessCPUTime) - before, all, chunks))
}

fn answer(cpu: Duration, mut waits: Vec<Duration>, units: usize) -> Value {
    waits.sort();
    let micros = |wait: Duration| wait.as_secs_f64() * 1e6;
    let at = |share: f64| waits.get(((waits.len() as f64 * share) as usize).min(waits.len().saturating_sub(1)));
    json!({
        "units": units,
        "p50_us": at(0.5).copied().map(micros),
        "p99_us": at(0.99).copied().map(micros),
        "cpu_us": micros(cpu) / units.max(1) as f64,
    })
}

fn clock(id: ClockId) -> Duration {
    let now = clock_gettime(id);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}
