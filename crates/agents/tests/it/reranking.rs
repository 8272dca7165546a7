//! Passages in a new order: by a chat model or by a reranker over HTTP, and what happens where neither gives one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use doran_agents::described::{AgentDescription, build_described_agent};
use doran_agents::protocol::{ModelCallNote, RerankingNote, StepNotes, notes_of_entry, request_digest};
use doran_agents::{AgentParts, AgentSettings, PassageReranking, RequestPurpose, Settings};
use doran_engine::Runtime;
use doran_engine::store::{RamStore, RunRow, RunStatus, RunUsage, Store};
use doran_llm::{
    ChatModel, ChatRequest, MessagePart, ModelApiKey, ModelConfig, ModelError, ModelId, ModelPrice,
    ModelRetryPolicy, NumberedPassage, PriceList, PricedModel, ReceivedHttpRequest, ScriptedBodyPiece,
    ScriptedHttpResponse, ScriptedModel, ScriptedReply, ScriptedServer, Usage, open_reranker,
};
use doran_offline::OfflineModel;
use doran_retrieval::{
    DistinctHitsIndex, Document, DocumentIndex, DocumentTenant, RamKeywordIndex, split_into_passages,
};
use expect_test::expect;
use serde_json::{Value, json};

use crate::agent_fixture::{
    AgentFixture, RequestDrivenModel, build_fixture, kill_at_every_commit, test_thread,
};

const QUESTION: &str = "연차 휴가는 며칠 전에 신청하나요?";

/// Thirty short rules that all share words with the question.
fn rules_index() -> Arc<dyn DocumentIndex> {
    let rule = |number: usize| {
        let text = format!("연차 휴가 신청 규칙 {number}. {}", "직원은 이를 지킨다. ".repeat(number));
        Document::new(format!("규칙{number}"), format!("규칙 {number}"), text)
    };
    let documents: Vec<Document> = (1..=30).map(rule).collect();
    let index = RamKeywordIndex::from_documents(&DocumentTenant::new("local"), &documents);
    Arc::new(DistinctHitsIndex::new(Arc::new(index)))
}

fn docqa_settings() -> Settings {
    let docqa = AgentSettings { passages: Some(3), neighbours: Some(0), ..AgentSettings::default() };
    Settings { agents: [("docqa".to_owned(), docqa)].into(), ..Settings::default() }
}

fn reranking_parts(model: Arc<dyn ChatModel>, reranking: PassageReranking) -> AgentParts {
    AgentParts { reranking, retries: SHORT_WAITS, ..AgentParts::new(model, rules_index()) }
}

const SHORT_WAITS: ModelRetryPolicy = ModelRetryPolicy {
    max_requests: 3,
    first_wait: Duration::from_millis(1),
    max_wait: Duration::from_millis(5),
    max_elapsed: Duration::from_secs(20),
};

fn docqa_fixture(model: impl ChatModel, reranking: PassageReranking) -> AgentFixture {
    let parts = reranking_parts(Arc::new(model), reranking);
    build_fixture("docqa", &docqa_settings(), &parts, Arc::new(RamStore::new()))
}

async fn ask(stage: &AgentFixture) -> RunRow {
    stage.start(QUESTION).await.wait().await.expect("an end")
}

fn question_type_reply() -> ScriptedReply {
    ScriptedReply::json(&json!({ "reason": "x", "type": "question" }))
}

fn order_reply(order: &[i64]) -> ScriptedReply {
    ScriptedReply::json(&json!({ "order": order }))
}

fn answer_reply() -> ScriptedReply {
    ScriptedReply::text("사흘 전입니다. [1]")
}

fn passages_of(request: &ChatRequest) -> Vec<NumberedPassage> {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let passage = |part: &MessagePart| match part {
        MessagePart::Passage(passage) => Some(passage.clone()),
        _ => None,
    };
    parts.filter_map(passage).collect()
}

/// The titles of the passages in the newest request for something.
fn titles_sent(model: &ScriptedModel, purpose: RequestPurpose) -> Vec<String> {
    let requests = model.requests();
    let request = requests.iter().rev().find(|request| request.purpose == purpose).expect("a request");
    passages_of(request).into_iter().map(|passage| passage.title).collect()
}

async fn notes(stage: &AgentFixture) -> Vec<StepNotes> {
    let entries = stage.runtime.entries(&test_thread(), 0, 1000).await.expect("entries");
    entries.iter().flat_map(|entry| notes_of_entry(&entry.body).expect("notes")).collect()
}

async fn reranking_note(stage: &AgentFixture) -> Option<RerankingNote> {
    notes(stage).await.into_iter().flat_map(|notes| notes.searches).find_map(|search| search.reranking)
}

/// What an answer is written from without a reranker.
async fn plain_titles() -> Vec<String> {
    let model = ScriptedModel::new([question_type_reply(), answer_reply()]);
    ask(&docqa_fixture(model.clone(), PassageReranking::Off)).await;
    titles_sent(&model, RequestPurpose::Answer)
}

#[tokio::test]
async fn a_model_chooses_among_twenty_passages_and_its_choice_is_what_is_answered_from() {
    let usage = Usage { input_tokens: 1000, output_tokens: 10, cost_micros: Some(7), ..Usage::default() };
    let model =
        ScriptedModel::new([question_type_reply(), order_reply(&[17, 2, 9]).usage(usage), answer_reply()]);
    let stage = docqa_fixture(model.clone(), PassageReranking::ByModel);
    let run = stage.start(QUESTION).await;
    let row = run.wait().await.expect("an end");
    let candidates = titles_sent(&model, RequestPurpose::Rerank);
    assert_eq!((candidates.len(), &candidates[..3]), (20, &plain_titles().await[..]));
    let chosen = [17, 2, 9].map(|number: usize| candidates[number - 1].clone());
    assert_eq!(titles_sent(&model, RequestPurpose::Answer), chosen);
    assert_eq!(model.remaining_replies(), 0);

    // It is counted, noted and shown like every other call.
    assert_eq!(stage.turn().await.model_calls, 3);
    let RunUsage { input_tokens, cost_micros, .. } = row.usage;
    assert!(input_tokens >= 1000 && cost_micros == 7, "{:?}", row.usage);
    let note = reranking_note(&stage).await.expect("a note");
    assert_eq!((&note.order[..4], note.order.len(), note.kept), (&[17, 2, 9, 1][..], 20, None));
    expect![[r#"
        classifyQuery · model×1
          ~ routing: 문서에서 답을 찾을 질문입니다
        retrieveDocs · model×1
          ~ searching: 문서를 찾고 있습니다
          ~ searching: 찾은 문단 20개를 질문에 맞는 순서로 다시 놓았습니다
        generateAnswer · model×1
          ~ generating: 답을 쓰고 있습니다
          + assistant 사흘 전입니다. [1]
    "#]]
    .assert_eq(&stage.trace(&run).await);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_gives_no_order_leaves_that_of_the_search() {
    let plain = plain_titles().await;
    let away = || ModelError::Unavailable { reason: "away".into(), retry_after: None, source: None };
    for (name, reply, reason) in [
        ("away", ScriptedReply::failure(away()), "away"),
        ("refused", ScriptedReply::failure(ModelError::Rejected { reason: "no".into() }), "no"),
        ("silent", ScriptedReply::text("{\"ord").then_hangs(), "no reply within 30 seconds"),
        ("cut", ScriptedReply::text("{\"order\": [1").then_stops_short(), "broke off"),
        ("prose", ScriptedReply::text("3번 문단이 가장 좋습니다."), "JSON"),
        ("another shape", ScriptedReply::json(&json!({ "order": { "a": 1 } })), "order"),
        ("words", ScriptedReply::json(&json!({ "order": ["three", "one"] })), "order"),
        ("nobody", order_reply(&[]), "names none of the passages"),
        ("unknown", order_reply(&[0, 21, -3, i64::MAX]), "names none of the passages"),
        ("a tool call", ScriptedReply::call("calculator", json!({})), ""),
        ("oversized", ScriptedReply::text(format!("{{\"order\": [{}1]}}", "1,".repeat(100_000))), "bytes"),
    ] {
        let model = ScriptedModel::new([question_type_reply(), reply, answer_reply()]);
        let stage = docqa_fixture(model.clone(), PassageReranking::ByModel);
        let output = stage.ask(QUESTION).await;
        assert!(output.contains("검색한 순서 그대로 씁니다"), "{name}: {output}");
        assert!(output.contains("= 사흘 전입니다."), "{name}: {output}");
        assert_eq!(titles_sent(&model, RequestPurpose::Answer), plain, "{name}");
        assert_eq!(model.remaining_replies(), 0, "{name}: asked once and not again");
        let note = reranking_note(&stage).await.expect("a note");
        let kept = note.kept.expect("a reason");
        assert!(note.order.is_empty() && kept.contains(reason), "{name}: {kept}");
    }
}

#[tokio::test]
async fn an_order_with_gaps_and_repeats_puts_what_it_names_first() {
    let plain = plain_titles().await;
    for (order, expected) in [
        (&[20_i64][..], [20, 1, 2]),
        (&[5, 5, 5, 4], [5, 4, 1]),
        (&[0, 99, -7, 6, i64::MIN, 6, 1], [6, 1, 2]),
    ] {
        let model = ScriptedModel::new([question_type_reply(), order_reply(order), answer_reply()]);
        ask(&docqa_fixture(model.clone(), PassageReranking::ByModel)).await;
        let candidates = titles_sent(&model, RequestPurpose::Rerank);
        let expected = expected.map(|number: usize| candidates[number - 1].clone());
        assert_eq!(titles_sent(&model, RequestPurpose::Answer), expected, "{order:?}");
        assert_eq!(candidates[..3], plain[..]);
    }
}

#[tokio::test]
async fn the_built_in_model_is_not_asked_and_the_search_is_as_it_was() {
    for reranking in [PassageReranking::Off, PassageReranking::ByModel] {
        let is_on = !matches!(reranking, PassageReranking::Off);
        let stage = docqa_fixture(OfflineModel, reranking);
        assert_eq!(ask(&stage).await.status, RunStatus::Finished);
        let notes = notes(&stage).await;
        let search = notes.iter().find_map(|notes| notes.searches.first()).expect("a search");
        let titles: Vec<&str> = search.hits.iter().map(|hit| hit.title.as_str()).collect();
        assert_eq!(titles, plain_titles().await);
        let kept = search.reranking.as_ref().and_then(|note| note.kept.as_deref());
        assert_eq!(kept.is_some_and(|kept| kept.contains("built-in model cannot")), is_on, "{kept:?}");
        assert_eq!(notes.iter().map(StepNotes::request_count).sum::<u32>(), 2, "to classify and to answer");
    }
}

#[tokio::test]
async fn every_agent_that_looks_documents_up_reranks() {
    let route = ScriptedReply::json(&json!({ "route": "rag", "reason": "규정" }));
    let model = ScriptedModel::new([route, order_reply(&[11]), answer_reply()]);
    let parts = reranking_parts(Arc::new(model.clone()), PassageReranking::ByModel);
    let assistant = build_fixture("assistant", &Settings::default(), &parts, Arc::new(RamStore::new()));
    ask(&assistant).await;
    let candidates = titles_sent(&model, RequestPurpose::Rerank);
    assert_eq!(titles_sent(&model, RequestPurpose::Answer)[0], candidates[10]);

    let described = r#"
        name = "finder"
        start = "search"
        [[node]]
        name = "search"
        use = "retrieve"
        most = 2
        then = "answer"
        [[node]]
        name = "answer"
        use = "respond"
        prompt = "Answer from the documents."
        then = "end"
    "#;
    let model = ScriptedModel::new([order_reply(&[14]), answer_reply()]);
    let parts = reranking_parts(Arc::new(model.clone()), PassageReranking::ByModel);
    let description = AgentDescription::from_toml(described).expect("a description");
    let agent = build_described_agent(&description, &[], &parts).expect("sound");
    let runtime = Runtime::new(Arc::new(RamStore::new()));
    agent.register(&runtime).expect("registered");
    let stage = AgentFixture { agent, runtime };
    ask(&stage).await;
    assert_eq!(titles_sent(&model, RequestPurpose::Answer)[0], candidates[13]);
}

#[tokio::test]
async fn who_looks_into_the_step_sees_the_request_that_was_sent() {
    let model = ScriptedModel::new([question_type_reply(), order_reply(&[3]), answer_reply()]);
    let stage = docqa_fixture(model.clone(), PassageReranking::ByModel);
    ask(&stage).await;
    let explained = stage.agent.explain("retrieveDocs", &stage.state().await, &test_thread()).await;
    let explained = explained.expect("a request");
    assert_eq!(explained.len(), 1);
    let noted = notes(&stage).await.into_iter().flat_map(|notes| notes.models);
    let digest = noted.into_iter().find_map(|note| match note {
        ModelCallNote::Asked(asked) if asked.purpose == RequestPurpose::Rerank => asked.request,
        _ => None,
    });
    assert_eq!(digest, Some(request_digest(&explained[0])));
}

/// A reranker over HTTP that likes long rules, and counts how often it is asked.
struct LongRulesReranker {
    server: ScriptedServer,
    asked: Arc<AtomicUsize>,
}

impl LongRulesReranker {
    async fn start() -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let rule = move |heard: &ReceivedHttpRequest| {
            count.fetch_add(1, Ordering::SeqCst);
            ScriptedHttpResponse::json(200, length_scores(&heard.body).to_string())
        };
        Self { server: ScriptedServer::start_with_responder(rule).await.expect("server"), asked }
    }

    fn open(&self) -> PassageReranking {
        open_at(&self.server)
    }
}

fn length_scores(body: &Value) -> Value {
    let documents = body["documents"].as_array().expect("documents").iter().enumerate();
    let score = |text: &Value| text.as_str().map_or(0, str::len);
    let rows = documents.map(|(index, text)| json!({ "index": index, "relevance_score": score(text) }));
    json!({ "results": rows.collect::<Vec<_>>(), "usage": { "total_tokens": 500 } })
}

fn open_at(server: &ScriptedServer) -> PassageReranking {
    let id = ModelId::parse_reranker("cohere:r").expect("an id");
    let config = ModelConfig { base_url: Some(server.url()), ..ModelConfig::new(id) };
    let reranker = open_reranker(&config, ModelApiKey::new("secret-key")).expect("a reranker");
    let price = ModelPrice { input: 2.0, ..ModelPrice::FREE };
    let prices = PriceList::built_in().expect("prices").with_price("cohere:r", price);
    PassageReranking::ByReranker(Arc::new(PricedModel::new(reranker, Arc::new(prices))))
}

/// The number in the title of a rule.
fn rule_number(title: &str) -> usize {
    title.chars().filter(char::is_ascii_digit).collect::<String>().parse().expect("a number")
}

#[tokio::test]
async fn a_reranker_over_http_orders_what_the_index_found() {
    let reranker = LongRulesReranker::start().await;
    let model = ScriptedModel::new([question_type_reply(), answer_reply()]);
    let stage = docqa_fixture(model.clone(), reranker.open());
    let row = ask(&stage).await;
    let heard = &reranker.server.received_requests()[0];
    assert_eq!((heard.path.as_str(), heard.body["top_n"].as_u64()), ("/rerank", Some(20)));
    assert_eq!(heard.body["query"], QUESTION);
    let documents = heard.body["documents"].as_array().expect("documents").iter();
    let mut numbers: Vec<usize> = documents
        .map(|text| rule_number(text.as_str().and_then(|text| text.lines().next()).expect("a title")))
        .collect();
    numbers.sort_unstable_by(|left, right| right.cmp(left));
    let answered: Vec<usize> =
        titles_sent(&model, RequestPurpose::Answer).iter().map(|title| rule_number(title)).collect();
    assert_eq!(answered, numbers[..3], "the longest of those that were found");
    assert_eq!(row.usage.cost_micros, 1000, "500 tokens at two dollars a million");
    let note = reranking_note(&stage).await.expect("a note");
    assert_eq!((note.by.as_str(), note.kept), ("cohere:r", None));
    assert_eq!(stage.turn().await.model_calls, 3);
}

#[tokio::test]
async fn a_reranker_that_fails_or_answers_with_nonsense_leaves_the_order_of_the_search() {
    let plain = plain_titles().await;
    let row = |index: usize| json!({ "index": index, "relevance_score": 1.0 });
    let rows = |rows: Vec<Value>| json!({ "results": rows }).to_string();
    let busy = || ScriptedHttpResponse::json(503, "{}");
    let few = ScriptedHttpResponse::json(200, rows((0..19).map(row).collect()));
    let repeated = ScriptedHttpResponse::json(200, rows((0..20).map(|at| row(at / 2)).collect()));
    let refused = ScriptedHttpResponse::json(401, r#"{"message":"invalid key secret-key"}"#);
    let reset = ScriptedHttpResponse { pieces: vec![ScriptedBodyPiece::Reset], ..busy() };
    for (name, responses, requests) in [
        ("busy", vec![busy(), busy(), busy(), busy()], 3),
        ("reset", vec![reset.clone(), reset.clone(), reset], 3),
        ("a few scores", vec![few.clone(), few.clone(), few], 3),
        ("repeated scores", vec![repeated.clone(), repeated.clone(), repeated], 3),
        ("refused", vec![refused], 1),
        ("gone", vec![], 1),
    ] {
        let server = ScriptedServer::start_with_responses(responses).await.expect("server");
        let model = ScriptedModel::new([question_type_reply(), answer_reply()]);
        let stage = docqa_fixture(model.clone(), open_at(&server));
        let output = stage.ask(QUESTION).await;
        assert!(
            output.contains("검색한 순서 그대로 씁니다") && output.contains("= 사흘 전"),
            "{name}: {output}"
        );
        assert_eq!(titles_sent(&model, RequestPurpose::Answer), plain, "{name}");
        assert_eq!(server.received_requests().len(), requests, "{name}");
        let kept = reranking_note(&stage).await.and_then(|note| note.kept).expect("a reason");
        assert!(!kept.is_empty() && !kept.contains("secret-key"), "{name}: {kept}");
    }
}

#[tokio::test]
async fn a_reranker_that_is_busy_once_is_asked_again() {
    let numbers = (0..20).rev().map(|index| json!({ "index": index, "relevance_score": index }));
    let order = json!({ "results": numbers.collect::<Vec<_>>() }).to_string();
    let responses = [ScriptedHttpResponse::json(503, "{}"), ScriptedHttpResponse::json(200, order)];
    let server = ScriptedServer::start_with_responses(responses).await.expect("server");
    let model = ScriptedModel::new([question_type_reply(), answer_reply()]);
    let stage = docqa_fixture(model.clone(), open_at(&server));
    ask(&stage).await;
    let note = reranking_note(&stage).await.expect("a note");
    assert_eq!((note.order[0], note.kept), (20, None));
}

fn decide(request: &ChatRequest) -> ScriptedReply {
    match RequestPurpose::of(request).expect("a purpose of agents") {
        RequestPurpose::Classify => question_type_reply(),
        RequestPurpose::Rerank => order_reply(&[19, 8, 3]),
        _ => answer_reply(),
    }
}

#[tokio::test]
async fn a_kill_does_not_ask_for_the_order_again_once_it_is_recorded() {
    let http = LongRulesReranker::start().await;
    let mut table = String::new();
    for (name, reranking) in [("model", PassageReranking::ByModel), ("http", http.open())] {
        let (mut models, mut processes): (Vec<RequestDrivenModel>, usize) = (Vec::new(), 0);
        let mut http_counts = vec![http.asked.load(Ordering::SeqCst)];
        let turns = kill_at_every_commit(QUESTION, 6, |store: Arc<dyn Store>| {
            if processes % 2 == 0 {
                models.push(RequestDrivenModel::new(decide));
                http_counts.push(http.asked.load(Ordering::SeqCst));
            }
            processes += 1;
            let model = models.last().expect("a model").clone();
            let parts = reranking_parts(Arc::new(model), reranking.clone());
            build_fixture("docqa", &docqa_settings(), &parts, store)
        })
        .await;
        http_counts.push(http.asked.load(Ordering::SeqCst));
        let mut sources = Vec::new();
        for (at, ((dies, turn), model)) in turns.iter().zip(&models).enumerate() {
            let turn = turn.as_ref().expect("nothing to ask");
            assert_eq!((turn.response.as_str(), turn.model_calls), ("사흘 전입니다. [1]", 3), "{dies:?}");
            sources.push(turn.sources.iter().map(|source| source.passage.clone()).collect::<Vec<_>>());
            let asked = http_counts[at + 2] - http_counts[at + 1];
            let calls = model.call_count.load(Ordering::SeqCst);
            table.push_str(&format!("{name} {dies:?}: models {calls}, http {asked}\n"));
        }
        assert!(sources.iter().all(|source| *source == sources[0]), "the same after each kill: {sources:?}");
    }
    // A call is made again only where the death came before its record.
    expect![[r#"
        model Before(1): models 4, http 0
        model After(1): models 3, http 0
        model Before(2): models 3, http 0
        model After(2): models 3, http 0
        model Before(3): models 4, http 0
        model After(3): models 3, http 0
        model Before(4): models 3, http 0
        model After(4): models 3, http 0
        model Before(5): models 3, http 0
        model After(5): models 3, http 0
        model Before(6): models 4, http 0
        model After(6): models 3, http 0
        http Before(1): models 3, http 1
        http After(1): models 2, http 1
        http Before(2): models 2, http 1
        http After(2): models 2, http 1
        http Before(3): models 2, http 2
        http After(3): models 2, http 1
        http Before(4): models 2, http 1
        http After(4): models 2, http 1
        http Before(5): models 2, http 1
        http After(5): models 2, http 1
        http Before(6): models 3, http 1
        http After(6): models 2, http 1
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn nothing_of_another_tenant_is_sent_or_found() {
    let index = RamKeywordIndex::default();
    for (tenant, text) in [("local", "연차 휴가 신청"), ("other", "비밀 연차 휴가 신청 며칠 전")]
    {
        for number in 1..=8 {
            let text = format!("{text} 규칙 {number}.");
            let document = Document::new(format!("{tenant}{number}"), format!("{tenant} {number}"), text);
            let passages = split_into_passages(&document);
            index.put(&DocumentTenant::new(tenant), &document, &passages).await.expect("stored");
        }
    }
    let model = ScriptedModel::new([question_type_reply(), order_reply(&[12, 9, 5, 10]), answer_reply()]);
    let parts = AgentParts {
        index: Arc::new(index),
        ..reranking_parts(Arc::new(model.clone()), PassageReranking::ByModel)
    };
    let stage = build_fixture("docqa", &docqa_settings(), &parts, Arc::new(RamStore::new()));
    ask(&stage).await;
    let candidates = titles_sent(&model, RequestPurpose::Rerank);
    assert_eq!(candidates.len(), 8);
    for titles in [candidates, titles_sent(&model, RequestPurpose::Answer)] {
        assert!(!titles.is_empty() && titles.iter().all(|title| title.starts_with("local")), "{titles:?}");
    }
}
