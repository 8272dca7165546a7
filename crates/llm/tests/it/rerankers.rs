//! Rerankers over HTTP: what is sent, what is read of the answer, and what is refused.

use std::time::Duration;

use doran_llm::{
    ChatRequest, Message, MessagePart, ModelApiKey, ModelError, ModelId, ModelPrice, ModelReply,
    NumberedPassage, PassageKind, PriceList, PricedModel, ReceivedHttpRequest, Role, ScriptedBodyPiece,
    ScriptedHttpResponse, ScriptedServer, TokenCountSource, collect_reply, open_reranker,
};
use serde_json::{Value, json};

use crate::{TEST_API_KEY, test_model_config};

/// A request with three passages, numbered from 7.
fn rerank_request() -> ChatRequest {
    let passage = |number: u32, text: &str| {
        MessagePart::Passage(NumberedPassage {
            number,
            title: "규정".into(),
            text: text.into(),
            kind: PassageKind::default(),
        })
    };
    let parts = vec![passage(7, "급여는 25일에 준다."), passage(8, "연차는 15일이다."), passage(9, "")];
    ChatRequest::new(vec![Message::new("m", Role::System, parts), Message::user("q", "연차는 며칠?")])
}

/// Scores the documents that share a word with the query, in the form of Cohere.
fn score_documents(heard: &ReceivedHttpRequest) -> ScriptedHttpResponse {
    let documents = heard.body["documents"].as_array().expect("documents").iter().enumerate();
    let rows = documents.map(|(index, document)| {
        let fits = document.as_str().is_some_and(|text| text.contains("연차"));
        json!({ "index": index, "relevance_score": if fits { 0.9 } else { 0.1 } })
    });
    let answer = json!({ "results": rows.collect::<Vec<Value>>(), "usage": { "total_tokens": 40 } });
    ScriptedHttpResponse::json(200, answer.to_string())
}

async fn ask(server: &ScriptedServer, request: ChatRequest) -> Result<ModelReply, ModelError> {
    let config = test_model_config("cohere", "rerank-v4.0", server.url());
    let reranker = open_reranker(&config, ModelApiKey::new(TEST_API_KEY)).expect("a reranker");
    collect_reply(reranker.stream(request)).await
}

#[tokio::test]
async fn passages_come_back_by_their_numbers_in_a_new_order() {
    let server = ScriptedServer::start_with_responder(score_documents).await.expect("server");
    let reply = ask(&server, rerank_request()).await.expect("an order");
    assert_eq!(reply.text, r#"{"order":[8,7,9]}"#);
    let usage = reply.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (40, 0), "what the server counted");
    assert_eq!(usage.counted, TokenCountSource::Reported);
    let heard = &server.received_requests()[0];
    assert_eq!(heard.path, "/rerank");
    assert_eq!(heard.header("authorization"), Some(format!("Bearer {TEST_API_KEY}").as_str()));
    let documents = ["규정\n급여는 25일에 준다.", "규정\n연차는 15일이다.", "규정"];
    let expected =
        json!({ "model": "rerank-v4.0", "query": "연차는 며칠?", "documents": documents, "top_n": 3 });
    assert_eq!(heard.body, expected);
}

#[tokio::test]
async fn the_scripted_server_rejects_what_the_real_ones_reject() {
    let server = ScriptedServer::start_with_responder(score_documents).await.expect("server");
    let send = async |body: Value| post_without_client(&server, &body).await;
    let good = json!({ "model": "m", "query": "q", "documents": ["d"], "top_n": 1 });
    assert_eq!(send(good.clone()).await.0, 200);
    for (name, value, reason) in [
        ("texts", json!(["d"]), "unknown field 'texts'"),
        ("top_k", json!(1), "unknown field 'top_k'"),
        ("query", json!(" "), "query must be a string"),
        ("query", json!(["q"]), "query must be a string"),
        ("model", json!(null), "model must be a string"),
        ("documents", json!([]), "list of documents must not be empty"),
        ("documents", json!("d"), "list of documents must not be empty"),
        ("documents", json!([""]), "each document must be a string"),
        ("documents", json!([{ "text": "d" }]), "each document must be a string"),
        ("top_n", json!(0), "top_n must be an integer"),
        ("top_n", json!("1"), "top_n must be an integer"),
    ] {
        let mut body = good.clone();
        body[name] = value;
        let (status, text) = send(body).await;
        assert!(status == 400 && text.contains(reason), "{name}: {status} {text}");
    }
}

/// Sends a body without the client under test.
async fn post_without_client(server: &ScriptedServer, body: &Value) -> (u16, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = server.url().replace("http://", "");
    let mut stream = tokio::net::TcpStream::connect(&address).await.expect("a connection");
    let body = body.to_string();
    let head = format!("POST /v1/rerank HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    (answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), answer)
}

#[tokio::test]
async fn an_answer_that_is_no_order_is_an_error_that_quotes_nothing() {
    let rows = |rows: Value| json!({ "results": rows }).to_string();
    let row = |index: i64| json!({ "index": index, "relevance_score": 1.0, "document": "연차는 15일이다." });
    for (body, reason) in [
        ("{".to_owned(), "could not be read: eof"),
        ("[]".to_owned(), "has no list `results`"),
        (json!([{ "index": 0, "score": 1.0 }]).to_string(), "has no list `results`"),
        (rows(json!([row(0), row(1)])), "2 scores came for 3 passages"),
        (rows(json!([row(0), row(1), row(1)])), "two scores are for passage 1"),
        (rows(json!([row(0), row(1), row(3)])), "a score is for passage 3 of 3"),
        (rows(json!([row(0), row(1), { "index": 2, "relevance_score": null }])), "no number"),
        (rows(json!([row(0), row(1), { "index": "2", "relevance_score": 1 }])), "no whole number"),
        (rows(json!([row(0), row(1), "연차는 15일이다."])), "no whole number"),
    ] {
        let server = ScriptedServer::start_with_responses([ScriptedHttpResponse::json(200, &body)])
            .await
            .expect("server");
        let error = ask(&server, rerank_request()).await.expect_err("no order").to_string();
        assert!(error.contains(reason) && !error.contains("15일"), "{body}: {error}");
    }
    let endless = ScriptedHttpResponse::json(200, "{\"results\":[")
        .then_piece(ScriptedBodyPiece::Forever(vec![b' '; 64 * 1024]));
    let stream = ScriptedHttpResponse::events(["data: {}\n\n"]);
    let page = ScriptedHttpResponse::json(200, "<html>").header("content-type", "text/html");
    let refused = ScriptedHttpResponse::json(401, format!("{{\"message\":\"bad key {TEST_API_KEY}\"}}"));
    for (response, code) in
        [(endless, "limit_exceeded"), (stream, "truncated"), (page, "unreachable"), (refused, "unauthorized")]
    {
        let server = ScriptedServer::start_with_responses([response]).await.expect("server");
        let error = ask(&server, rerank_request()).await.expect_err("no order");
        assert_eq!(error.code(), code, "{error}");
        assert!(!error.to_string().contains(TEST_API_KEY), "{error}");
    }
}

#[tokio::test]
async fn a_silent_server_is_not_waited_for_for_ever() {
    let stalled = ScriptedHttpResponse::json(200, "{").then_piece(ScriptedBodyPiece::Stall);
    let server = ScriptedServer::start_with_responses([stalled]).await.expect("server");
    let mut config = test_model_config("vllm", "bge-reranker", server.url());
    let timeouts = config.timeouts.as_mut().expect("timeouts");
    (timeouts.first_byte, timeouts.idle) = (Duration::from_millis(300), Duration::from_millis(300));
    let reranker = open_reranker(&config, ModelApiKey::none()).expect("a reranker");
    let error = collect_reply(reranker.stream(rerank_request())).await.expect_err("silence");
    assert!(error.is_transient(), "{error}");
}

#[tokio::test]
async fn a_reranker_takes_passages_and_a_question_only() {
    let server = ScriptedServer::start_with_responder(score_documents).await.expect("server");
    for messages in [
        vec![Message::user("q", "안녕하세요?")],
        rerank_request().messages[..1].to_vec(),
        vec![rerank_request().messages[0].clone(), Message::user("q", " ")],
    ] {
        let error = ask(&server, ChatRequest::new(messages)).await.expect_err("no request");
        assert_eq!(error.code(), "rejected", "{error}");
    }
    assert!(server.received_requests().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn a_priced_reranker_says_what_it_cost() {
    let server = ScriptedServer::start_with_responder(score_documents).await.expect("server");
    let config = test_model_config("jina", "r", server.url());
    let reranker = open_reranker(&config, ModelApiKey::new(TEST_API_KEY)).expect("a reranker");
    let price = ModelPrice { input: 2.0, ..ModelPrice::FREE };
    let prices = PriceList::built_in().expect("prices").with_price("jina:r", price);
    let priced = PricedModel::new(reranker, prices.into());
    let reply =
        collect_reply(doran_llm::ChatModel::stream(&priced, rerank_request())).await.expect("an order");
    assert_eq!(reply.usage.cost_micros, Some(80));
}

#[test]
fn a_provider_that_does_not_rerank_is_named() {
    let parse = |text: &str| ModelId::parse_reranker(text).map_err(|error| error.to_string());
    for name in ["cohere:rerank-v4.0", "jina:m", "vllm:m", "openai-compatible:http://10.0.0.5/v1#m"] {
        assert_eq!(parse(name).expect("a reranker").to_string(), name);
    }
    assert!("cohere:command-r".parse::<ModelId>().is_err(), "no chat model");
    assert!(parse("ollama:bge-m3").expect_err("no").starts_with("`ollama` does not rerank; these do: `"));
    assert!(parse("cohere:").expect_err("no").contains("is not `provider:model`"));
    let config = test_model_config("anthropic", "m", "http://127.0.0.1:9".into());
    let error = open_reranker(&config, ModelApiKey::new(TEST_API_KEY)).err().expect("no reranker");
    assert!(error.to_string().contains("does not rerank"), "{error}");
    let config = doran_llm::ModelConfig::new(ModelId::parse_reranker("cohere:m").expect("a name"));
    let error = open_reranker(&config, ModelApiKey::none()).err().expect("no key");
    assert_eq!(error.to_string(), "`cohere` needs a key; set `COHERE_API_KEY`");
}
