//! The agents with the built-in model: real questions, no scripts.

use std::sync::Arc;

use crate::http_test_server::HttpTestServer;
use doran_agents::agents::AskOptions;
use doran_agents::tools::{Calculator, ToolPolicy, Toolbox};
use doran_agents::{AgentParts, Settings, samples};
use doran_engine::store::RamStore;
use doran_llm::{MessagePart, ScriptedModel, ScriptedReply};
use doran_offline::OfflineModel;
use doran_retrieval::{Document, DocumentTenant, Language, RamKeywordIndex};
use serde_json::json;

use crate::agent_fixture::{AgentFixture, agent_parts, build_fixture, fixture_with_model};
use crate::internet_tools::{internet_toolbox, wikipedia_reply};

fn library_fixture(documents: &[Document]) -> AgentFixture {
    let index = RamKeywordIndex::from_documents(&DocumentTenant::new("local"), documents);
    let parts = AgentParts::new(Arc::new(OfflineModel), Arc::new(index));
    build_fixture("docqa", &Settings::default(), &parts, Arc::new(RamStore::new()))
}

#[tokio::test]
async fn the_assistant_answers_from_documents_and_remembers_without_a_language_model() {
    let stage = fixture_with_model("assistant", OfflineModel, Toolbox::new());
    for (question, held) in [
        ("육아휴직은 최대 얼마나 쓸 수 있나요?", "육아휴직은 자녀 한 명당 1년 이내로 하며"),
        ("When must receipts be uploaded?", "Upload every receipt within seven days"),
    ] {
        stage.ask(question).await;
        let turn = stage.turn().await;
        assert!(turn.response.contains(held), "{}", turn.response);
        assert_eq!(turn.sources.len(), 1, "{turn:?}");
    }
    stage.ask("제 이름은 김도란입니다.").await;
    stage.ask("제 이름이 뭐라고 했죠?").await;
    assert!(stage.turn().await.response.contains("김도란"));
}

#[tokio::test]
async fn a_quote_without_the_words_of_the_question_is_not_stated_as_its_answer() {
    let documents: Vec<Document> =
        [samples::korean(), samples::english(), samples::contracts()].into_iter().flatten().collect();
    for question in [
        "월급날은 언제야?",
        "급여일이 언제인가요?",
        "휴가비는 얼마인가요?",
        "Who is the CEO?",
        "What is the ISO number?",
    ] {
        let stage = library_fixture(&documents);
        stage.ask(question).await;
        let response = stage.turn().await.response;
        assert!(
            !response.contains("이렇게 적혀 있습니다") && !response.contains(" says: "),
            "{question}: {response}"
        );
    }
    for (question, held) in [
        ("우리 회사 병가는 며칠까지 쓸 수 있어?", "문서에 이렇게 적혀 있습니다: \"병가는 1년에 60일까지"),
        ("점심시간은 언제야?", "문서에 이렇게 적혀 있습니다: \"점심시간은 12시부터"),
    ] {
        let stage = library_fixture(&documents);
        stage.ask(question).await;
        let response = stage.turn().await.response;
        assert!(response.contains(held), "{question}: {response}");
    }
}

#[tokio::test]
async fn a_row_is_found_by_the_name_of_a_person() {
    let text =
        "| 이름 | 부서 | 내선 |\n|---|---|---|\n| 김철수 | 인사팀 | 1190 |\n| 이영희 | 보안팀 | 1200 |";
    let stage = library_fixture(&[Document::new("연락처.csv", "연락처", text)]);
    for (question, held) in [("김철수 내선 번호가 뭐예요?", "1190"), ("이영희 내선 번호 알려 줘", "1200")]
    {
        stage.ask(question).await;
        let response = stage.turn().await.response;
        assert!(response.contains(held), "{question}: {response}");
    }
}

#[tokio::test]
async fn the_assistant_looks_for_a_person_in_documents_first() {
    let mut documents = samples::korean();
    documents.push(Document::new("회사.md", "회사 소개", "대표이사는 한지우이다.\n\n본사는 대전에 있다."));
    let index = RamKeywordIndex::from_documents(&DocumentTenant::new("local"), &documents);
    let test_server = HttpTestServer::start(wikipedia_reply);
    let tools = internet_toolbox(&test_server, false);
    let parts = AgentParts { tools, ..AgentParts::new(Arc::new(OfflineModel), Arc::new(index)) };
    let stage = build_fixture("assistant", &Settings::default(), &parts, Arc::new(RamStore::new()));
    for (question, held, requests) in [
        ("대표이사는 누구인가요?", "대표이사는 한지우이다.", 0),
        ("세종은 누구야?", "세종은 조선의 제4대 국왕이다.", 1),
    ] {
        stage.ask(question).await;
        let turn = stage.turn().await;
        assert_eq!(turn.route, "rag");
        assert!(turn.response.contains(held), "{}", turn.response);
        assert_eq!(test_server.requests().len(), requests, "{question}");
    }
}

#[tokio::test]
async fn a_question_without_words_is_answered_in_the_language_of_the_program() {
    for (language, answer) in [(Language::English, "Result: 56088"), (Language::Korean, "계산 결과: 56088")]
    {
        let mut tools = Toolbox::new();
        tools.add(Arc::new(Calculator::default()), ToolPolicy::Allow).expect("a tool");
        let parts = AgentParts { language, ..agent_parts(Arc::new(OfflineModel), tools) };
        let stage = build_fixture("react", &Settings::default(), &parts, Arc::new(RamStore::new()));
        stage.ask("123 * 456").await;
        assert_eq!(stage.turn().await.response, answer);
    }
}

#[tokio::test]
async fn an_amount_of_money_stays_one() {
    for (question, answer) in [
        ("240만원에서 12.5% 할인하면?", "계산 결과: 2,100,000원"),
        ("What is 15 percent of 30,000 won?", "Result: 4,500 won"),
    ] {
        let mut tools = Toolbox::new();
        tools.add(Arc::new(Calculator::default()), ToolPolicy::Allow).expect("a tool");
        let stage = fixture_with_model("assistant", OfflineModel, tools);
        stage.ask(question).await;
        assert_eq!(stage.turn().await.response, answer);
    }
}

#[tokio::test]
async fn a_text_that_is_given_along_is_asked_about_alone() {
    let options = AskOptions {
        document: Some("The Consultant pays a penalty of 0.5 percent.".into()),
        ..AskOptions::default()
    };
    for (agent, first) in [
        ("assistant", json!({ "route": "rag", "reason": "" })),
        ("docqa", json!({ "type": "question", "reason": "" })),
    ] {
        let model = ScriptedModel::new([ScriptedReply::json(&first), ScriptedReply::text("0.5 percent.")]);
        let stage = fixture_with_model(agent, model.clone(), Toolbox::new());
        stage.start_with("연차휴가는 며칠인가요?", &options).await.wait().await.expect("a rest");
        let requests = model.requests();
        let parts = || requests.last().into_iter().flat_map(|one| &one.messages).flat_map(|one| &one.parts);
        assert!(!parts().any(|part| matches!(part, MessagePart::Passage(_))), "{agent}");
        let told: String =
            requests.last().expect("a request").messages.iter().map(|one| one.text()).collect();
        assert!(told.contains("penalty of 0.5") && !told.contains("[참고 문서]"), "{agent}: {told}");
    }
}
