//! The agents with the built-in model: real questions, no scripts.

use doran_offline::OfflineModel;

use crate::agent_fixture::fixture_with_model;
use doran_agents::tools::Toolbox;

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
