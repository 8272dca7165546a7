//! Vectors over HTTP: in batches, in order, again after a failure.

use doran_llm::{
    Embedder, EmbeddingSide, HttpEmbedder, ModelApiKey, ReceivedHttpRequest, ScriptedHttpResponse,
    ScriptedServer,
};
use serde_json::{Value, json};

use crate::{TEST_API_KEY, TEST_RETRIES, test_model_config};

/// A vector that tells how long its text is, given in the reverse order.
fn vectors_response(heard: &ReceivedHttpRequest) -> ScriptedHttpResponse {
    let texts = heard.body["input"].as_array().cloned().unwrap_or_default();
    let rows =
        texts.iter().enumerate().rev().map(
            |(index, text)| json!({ "index": index, "embedding": [text.as_str().map_or(0, str::len), 1] }),
        );
    ScriptedHttpResponse::json(200, json!({ "data": rows.collect::<Vec<Value>>() }).to_string())
}

#[tokio::test]
async fn texts_become_vectors_in_batches_and_in_order() {
    let server = ScriptedServer::start_with_responder(vectors_response).await.expect("server");
    let embedder = HttpEmbedder::open(
        &test_model_config("openai", "e", server.url()),
        ModelApiKey::new(TEST_API_KEY),
        TEST_RETRIES,
    )
    .await
    .expect("open");
    assert_eq!((embedder.info().id.as_str(), embedder.info().dimension), ("openai:e", 2));
    let texts: Vec<String> = (0..150).map(|length| "x".repeat(length)).collect();
    let vectors = embedder.embed(&texts, EmbeddingSide::Passage).await.expect("vectors");
    assert_eq!(vectors.len(), 150);
    for (length, vector) in vectors.iter().enumerate().skip(1) {
        assert!((vector[0] / vector[1] - length as f32).abs() < 0.01, "{length}: {vector:?}");
        assert!((vector[0].hypot(vector[1]) - 1.0).abs() < 1e-5);
    }
    assert_eq!(server.received_requests().len(), 1 + 3, "one to learn the dimension, then 64 + 64 + 22");
}

#[tokio::test]
async fn a_failed_batch_is_requested_again() {
    let good = || ScriptedHttpResponse::json(200, r#"{"data":[{"index":0,"embedding":[1,0]}]}"#);
    let turns = [
        good(),
        ScriptedHttpResponse::json(429, "{}").header("retry-after", "0"),
        ScriptedHttpResponse::json(500, "{}"),
        good(),
    ];
    let server = ScriptedServer::start_with_responses(turns).await.expect("server");
    let embedder = HttpEmbedder::open(
        &test_model_config("ollama", "bge-m3", server.url()),
        ModelApiKey::none(),
        TEST_RETRIES,
    )
    .await
    .expect("open");
    let vectors = embedder.embed(&["질문".to_owned()], EmbeddingSide::Query).await.expect("vectors");
    assert_eq!((vectors, server.received_requests().len()), (vec![vec![1.0, 0.0]], 4));
}

#[tokio::test]
async fn a_vector_of_another_dimension_is_refused() {
    let turns = [r#"{"data":[{"embedding":[1,0]}]}"#, r#"{"data":[{"embedding":[1,0,0]}]}"#]
        .map(|body| ScriptedHttpResponse::json(200, body));
    let server = ScriptedServer::start_with_responses(turns).await.expect("server");
    let embedder = HttpEmbedder::open(
        &test_model_config("vllm", "e5-large", server.url()),
        ModelApiKey::none(),
        TEST_RETRIES,
    )
    .await
    .expect("open");
    let error = embedder.embed(&["질문".to_owned()], EmbeddingSide::Query).await.expect_err("other");
    assert_eq!(error.code(), "rejected");
    assert_eq!(
        server.received_requests()[1].body["input"],
        json!(["query: 질문"]),
        "what this family of models asks for"
    );
}

#[tokio::test]
async fn a_vendor_without_embeddings_says_so() {
    let error = HttpEmbedder::open(
        &test_model_config("anthropic", "e", "http://127.0.0.1:9".into()),
        ModelApiKey::new(TEST_API_KEY),
        TEST_RETRIES,
    )
    .await;
    assert!(error.expect_err("none").to_string().contains("no embeddings"));
}
