//! The `docqa` agent: a session that is remembered, and a context that is made small whatever its sizes are.

use std::sync::Arc;

use doran_agents::agents::docqa::{DocqaState, estimate_conversation_tokens};
use doran_agents::tools::Toolbox;
use doran_agents::{RequestPurpose, Settings, history};
use doran_engine::StartOptions;
use doran_engine::store::RamStore;
use doran_llm::{ChatModel, ChatRequest, Message, ModelError, Role, ScriptedModel, ScriptedReply};
use doran_offline::OfflineModel;
use expect_test::{Expect, expect};
use serde_json::json;

use crate::agent_fixture::{
    AgentFixture, RequestDrivenModel, agent_parts, build_fixture, estimate_request_tokens,
    fixture_with_model, kill_at_every_commit, repeat_last_answer, test_thread,
};

fn query_type_reply(kind: &str) -> ScriptedReply {
    ScriptedReply::json(&json!({ "reason": "x", "type": kind }))
}

async fn check(question: &str, script: Vec<ScriptedReply>, expected: Expect) {
    let model = ScriptedModel::new(script);
    let stage = fixture_with_model("docqa", model.clone(), Toolbox::new());
    expected.assert_eq(&stage.ask(question).await);
    assert_eq!(model.remaining_replies(), 0, "every reply was asked for");
}

#[tokio::test]
async fn a_question_is_looked_up_and_small_talk_is_not() {
    check(
        "연차휴가는 며칠인가요?",
        vec![query_type_reply("question"), ScriptedReply::text("15일입니다. [1]")],
        expect![[r#"
        classifyQuery · model×1
          ~ routing: 문서에서 답을 찾을 질문입니다
        retrieveDocs
          ~ searching: 문서를 찾고 있습니다
        generateAnswer · model×1
          ~ generating: 답을 쓰고 있습니다
          + assistant 15일입니다. [1]
        = 15일입니다. [1]
          [1] 휴가 규정 › 연차휴가
        models 2 · path classifyQuery retrieveDocs generateAnswer
    "#]],
    )
    .await;
    check(
        "고마워",
        vec![query_type_reply("chitchat"), ScriptedReply::text("천만에요!")],
        expect![[r#"
        classifyQuery · model×1
          ~ routing: 문서 없이 답할 이야기입니다
        generateAnswer · model×1
          ~ generating: 답을 쓰고 있습니다
          + assistant 천만에요!
        = 천만에요!
        models 2 · path classifyQuery generateAnswer
    "#]],
    )
    .await;
    check(
        "지금까지 이야기를 요약해줘",
        vec![query_type_reply("summary"), ScriptedReply::text("아직 나눈 이야기가 없습니다.")],
        expect![[r#"
            classifyQuery · model×1
              ~ routing: 문서에서 답을 찾을 질문입니다
            retrieveDocs
              ~ searching: 문서를 찾고 있습니다
            generateAnswer · model×1
              ~ generating: 답을 쓰고 있습니다
              + assistant 아직 나눈 이야기가 없습니다.
            = 아직 나눈 이야기가 없습니다.
            models 2 · path classifyQuery retrieveDocs generateAnswer
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_summary_of_nothing_says_that_no_document_was_found() {
    let sent = async |before: &[&str], question: &str| {
        let script = before
            .iter()
            .flat_map(|_| [query_type_reply("question"), ScriptedReply::text("15일입니다. [1]")]);
        let model =
            ScriptedModel::new(script.chain([query_type_reply("summary"), ScriptedReply::text("없습니다.")]));
        let stage = fixture_with_model("docqa", model.clone(), Toolbox::new());
        for earlier in before {
            stage.ask(earlier).await;
        }
        stage.ask(question).await;
        let sent = model.requests().pop().expect("asked").messages;
        sent.iter().map(Message::text).collect::<Vec<_>>().join("\n")
    };
    assert!(sent(&[], "그걸 요약해줘").await.contains("찾은 문서가 없습니다."));
    assert!(sent(&[], "Sum up what you said earlier").await.contains("Nothing was found."));
    let of_documents = sent(&[], "연차휴가 규정을 요약해줘").await;
    assert!(of_documents.contains("[참고 문서]") && !of_documents.contains("찾은 문서가 없습니다."));
    // There is something to sum up.
    assert!(!sent(&["연차휴가는 며칠인가요?"], "요약해줘").await.contains("[참고 문서]"));

    let stage = fixture_with_model("docqa", OfflineModel, Toolbox::new());
    stage.ask("그 책을 요약해줘").await;
    let turn = stage.turn().await;
    assert_eq!(
        (turn.response.as_str(), turn.path.join(" ")),
        ("문서에서 찾지 못했습니다.", "classifyQuery generateAnswer".to_owned())
    );
    // A document that is to be summed up is looked up.
    let stage = fixture_with_model("docqa", OfflineModel, Toolbox::new());
    stage.ask("휴가 규정을 요약해줘").await;
    assert!(!stage.turn().await.sources.is_empty());
}

#[tokio::test]
async fn a_type_that_does_not_fit_twice_is_taken_for_a_question() {
    let script = vec![
        ScriptedReply::text("몰라요"),
        query_type_reply("riddle"),
        ScriptedReply::text("15일입니다. [1]"),
    ];
    check(
        "연차휴가는 며칠인가요?",
        script,
        expect![[r#"
        classifyQuery · model×2
          ~ routing: 문서에서 답을 찾을 질문입니다
        retrieveDocs
          ~ searching: 문서를 찾고 있습니다
        generateAnswer · model×1
          ~ generating: 답을 쓰고 있습니다
          + assistant 15일입니다. [1]
        = 15일입니다. [1]
          [1] 휴가 규정 › 연차휴가
        models 3 · path classifyQuery retrieveDocs generateAnswer
    "#]],
    )
    .await;
}

#[tokio::test]
async fn tc_cb_009_a_second_question_of_the_session_sees_the_first() {
    let model = ScriptedModel::new([
        query_type_reply("question"),
        ScriptedReply::text("15일입니다. [1]"),
        query_type_reply("question"),
        ScriptedReply::text("네, 15일입니다."),
    ]);
    let stage = fixture_with_model("docqa", model.clone(), Toolbox::new());
    stage.ask("연차휴가는 며칠인가요?").await;
    stage.ask("정말요?").await;
    let sent = model.requests().pop().expect("asked").messages;
    let texts: Vec<String> =
        sent.iter().filter(|message| message.role != Role::System).map(Message::text).collect();
    assert_eq!(texts, ["연차휴가는 며칠인가요?", "15일입니다.", "정말요?"]);
}

/// A context of 1,000 tokens: sums up above 700 and keeps at most 100.
fn small_context_settings() -> Settings {
    toml::from_str("[agents.docqa]\ncontextLength = 1000").expect("settings")
}

async fn history_tokens(stage: &AgentFixture) -> usize {
    let state: DocqaState = serde_json::from_value(stage.state().await).expect("a state");
    estimate_conversation_tokens(state.summary.0.last().map_or("", String::as_str), &state.messages)
}

#[tokio::test]
async fn tc_cb_010_above_seventy_percent_the_conversation_is_condensed_to_ten() {
    let model = ScriptedModel::new([]);
    let parts = agent_parts(Arc::new(model.clone()), Toolbox::new());
    let store = Arc::new(RamStore::new());
    let stage = build_fixture("docqa", &small_context_settings(), &parts, store.clone());
    // Each turn is about 180 tokens: the fourth passes 700.
    for turn in 1..=3 {
        model.push(query_type_reply("chitchat"));
        model.push(ScriptedReply::text(format!("{turn} {}", "대답 ".repeat(60))));
        stage.ask(&format!("{turn} {}", "질문 ".repeat(15))).await;
        assert!(history_tokens(&stage).await <= 700);
    }
    for reply in [
        query_type_reply("chitchat"),
        ScriptedReply::text(format!("4 {}", "대답 ".repeat(60))),
        ScriptedReply::text("사용자가 네 번 물었다."),
    ] {
        model.push(reply);
    }
    let trace = stage.ask("질문 질문 질문 질문 질문 질문 질문 질문 질문 질문 질문 질문 질문 질문 질문").await;
    assert!(trace.contains("summarizeHistory · model×1"), "{trace}");
    assert!(history_tokens(&stage).await <= 100, "{}", history_tokens(&stage).await);
    let state: DocqaState = serde_json::from_value(stage.state().await).expect("a state");
    assert_eq!(state.messages.len(), 2);
    let compressed = state.compressed.expect("it was condensed");
    assert!(compressed.tokens_before > 700 && compressed.tokens_after <= 100, "{compressed:?}");
    // The person sees the whole answer, and the history keeps every word.
    let answer = format!("4 {}", "대답 ".repeat(60));
    assert_eq!(stage.turn().await.response, answer);
    let messages = history::read_history(&stage.runtime, &test_thread(), &[]).await.expect("a history");
    assert_eq!((messages.len(), messages[7].message.text()), (8, answer));
}

/// A model that writes as much as it likes, whatever the limit, and reads no more than its context.
struct OverlongReplyModel {
    summary: String,
    context_length: usize,
}

impl ChatModel for OverlongReplyModel {
    fn info(&self) -> doran_llm::ModelInfo {
        ScriptedModel::new([]).info()
    }

    fn stream(&self, request: ChatRequest) -> doran_llm::DeltaStream {
        let reply = match RequestPurpose::of(&request).expect("a purpose of agents") {
            _ if estimate_request_tokens(&request) > self.context_length => {
                ScriptedReply::failure(ModelError::TooLong { reason: "context_length_exceeded".into() })
            }
            RequestPurpose::Classify => query_type_reply("chitchat"),
            RequestPurpose::Summarize => ScriptedReply::text(&self.summary),
            _ => ScriptedReply::text("네."),
        };
        ScriptedModel::new([reply]).stream(request)
    }
}

#[tokio::test]
async fn hostile_sizes_end_at_ten_percent_whatever_the_model_does() {
    let huge = "아주 긴 문장이 이어집니다. ".repeat(400_000 / "아주 긴 문장이 이어집니다. ".len());
    let endless = "끝나지않는".repeat(10_000);
    for (length, summary) in [
        (128_000, "짧은 요약."),
        (128_000, huge.as_str()),
        (128_000, endless.as_str()),
        (1_000, endless.as_str()),
        (100, "짧은 요약."),
    ] {
        let settings: Settings =
            toml::from_str(&format!("[agents.docqa]\ncontext_length = {length}")).expect("settings");
        // One message of 400 KB.
        // No model can be so small that it cannot read the prompts.
        let model = OverlongReplyModel { summary: summary.into(), context_length: length.max(500) };
        let parts = agent_parts(Arc::new(model), Toolbox::new());
        let one = build_fixture("docqa", &settings, &parts, Arc::new(RamStore::new()));
        let trace = one.ask(&huge).await;
        assert!(!trace.contains("(failed)"), "{trace}");
        assert!(
            history_tokens(&one).await <= length / 10,
            "one message: {} of {length}",
            history_tokens(&one).await
        );
        assert!(one.turn().await.path.contains(&"summarizeHistory".to_owned()), "{length}");
        one.ask("안녕하세요").await;
        assert_eq!(one.turn().await.response, "네.");
        // A thousand small ones.
        let many = build_fixture("docqa", &settings, &parts, Arc::new(RamStore::new()));
        let filler = "가".repeat(length / 1000 + 1);
        let messages: Vec<serde_json::Value> =
            (0..1000).map(|nth| json!({ "put": Message::user(format!("m{nth}"), &filler) })).collect();
        let mut input = many.agent.input("이제 그만", &doran_agents::AskOptions::default());
        input["messages"].as_array_mut().expect("messages").splice(0..0, messages);
        let run = many
            .runtime
            .start("docqa", &test_thread(), Some(&input), StartOptions::default())
            .await
            .expect("started");
        run.wait().await.expect("a rest");
        assert!(many.turn().await.path.contains(&"summarizeHistory".to_owned()), "{length}");
        assert!(
            history_tokens(&many).await <= length / 10,
            "many: {} of {length}",
            history_tokens(&many).await
        );
    }
}

#[tokio::test]
async fn the_built_in_model_condenses_to_ten_percent_and_still_knows_what_was_said() {
    let parts = agent_parts(Arc::new(OfflineModel), Toolbox::new());
    let stage = build_fixture("docqa", &small_context_settings(), &parts, Arc::new(RamStore::new()));
    stage.ask("제 이름은 김도란입니다.").await;
    let mut condensed = 0;
    for _ in 0..14 {
        for question in ["연차휴가는 며칠인가요?", "영수증은 언제까지 올려야 하나요?"]
        {
            stage.ask(question).await;
            if stage.turn().await.path.last().is_some_and(|node| node == "summarizeHistory") {
                condensed += 1;
                assert!(history_tokens(&stage).await <= 100, "{}", history_tokens(&stage).await);
            }
            assert!(history_tokens(&stage).await <= 700, "{}", history_tokens(&stage).await);
        }
    }
    assert!(condensed > 1, "{condensed}");
    stage.ask("제 이름이 뭐라고 했죠?").await;
    assert!(stage.turn().await.response.contains("김도란"), "{}", stage.turn().await.response);
}

#[tokio::test]
async fn an_answer_that_is_said_again_does_not_cite_what_was_found_for_another_question() {
    let model =
        RequestDrivenModel::new(|request| match RequestPurpose::of(request).expect("a purpose of agents") {
            RequestPurpose::Classify => query_type_reply("question"),
            _ => repeat_last_answer(request, "연차휴가는 15일입니다. [1]"),
        });
    let stage = fixture_with_model("docqa", model, Toolbox::new());
    stage.ask("연차휴가는 며칠인가요?").await;
    assert_eq!(stage.turn().await.sources.len(), 1);
    stage.ask("영수증은 언제까지 올려야 하나요?").await;
    let turn = stage.turn().await;
    assert_eq!((turn.response.as_str(), turn.sources.len()), ("연차휴가는 15일입니다.", 0));
}

#[tokio::test]
async fn a_summary_that_is_too_long_is_asked_for_again_and_then_cut_at_a_sentence() {
    let long = "중요한 문장입니다. ".repeat(40);
    let model = ScriptedModel::new([
        query_type_reply("chitchat"),
        ScriptedReply::text("네."),
        ScriptedReply::text(&long),
        ScriptedReply::text(&long),
    ]);
    let parts = agent_parts(Arc::new(model.clone()), Toolbox::new());
    let stage = build_fixture("docqa", &small_context_settings(), &parts, Arc::new(RamStore::new()));
    stage.ask(&"물어볼 것이 많습니다. ".repeat(72)).await;
    let asked: Vec<ChatRequest> =
        model.requests().into_iter().filter(|request| request.purpose == RequestPurpose::Summarize).collect();
    assert_eq!(asked.len(), 2);
    assert!(asked[1].max_output_tokens < asked[0].max_output_tokens);
    let state: DocqaState = serde_json::from_value(stage.state().await).expect("a state");
    let summary = state.summary.0.last().expect("a summary");
    assert!(summary.ends_with("문장입니다."), "{summary}");
    assert!(history_tokens(&stage).await <= 100);
    let question = state.messages[0].text();
    assert!(question.contains("전체 글은 기록의 메시지"), "{question}");
}

#[tokio::test]
async fn a_kill_anywhere_condenses_once_and_to_the_same() {
    let question = "물어볼 것이 많습니다. ".repeat(100);
    fn decide(request: &ChatRequest) -> ScriptedReply {
        match RequestPurpose::of(request).expect("a purpose of agents") {
            RequestPurpose::Classify => query_type_reply("chitchat"),
            RequestPurpose::Summarize => ScriptedReply::text("요약."),
            _ => ScriptedReply::text("네."),
        }
    }
    let turns = kill_at_every_commit(&question, 8, |store| {
        build_fixture(
            "docqa",
            &small_context_settings(),
            &agent_parts(Arc::new(RequestDrivenModel::new(decide)), Toolbox::new()),
            store,
        )
    })
    .await;
    for (dies, turn) in turns {
        let turn = turn.expect("nothing to ask");
        assert_eq!((turn.response.as_str(), turn.summary.as_deref()), ("네.", Some("요약.")), "{dies:?}");
    }
}
