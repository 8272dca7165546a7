//! The sample documents, asked through the keyword index and the built-in model as a person would ask.

use doran_agents::samples;
use doran_llm::{ChatModel, ChatRequest, Message, OfflineModel, Passage, collect};
use doran_retrieval::{RamKeyword, Retriever};

async fn ask(question: &str) -> String {
    let index = RamKeyword::of(&doran_retrieval::Tenant::new("local"), &samples::all());
    let hits = index
        .retrieve(&doran_retrieval::Question::new(doran_retrieval::Tenant::new("local"), question, 4))
        .await
        .expect("hits");
    let passages = hits.into_iter().zip(1..).map(|(hit, number)| Passage {
        number,
        title: hit.passage.title,
        text: hit.passage.text,
    });
    let messages = vec![Message::passages("p", passages), Message::user("m", question)];
    collect(OfflineModel.stream(ChatRequest::new(messages))).await.expect("answer").text
}

#[tokio::test]
async fn questions_are_answered_with_the_sentence_that_holds_the_answer() {
    let mut wrong = Vec::new();
    for (question, held) in [
        ("연차휴가는 며칠인가요?", "연차휴가 15일을 준다."),
        ("육아휴직은 최대 얼마나 쓸 수 있나요?", "육아휴직은 자녀 한 명당 1년 이내로 하며"),
        ("배우자가 출산하면 휴가를 며칠 주나요?", "20일의 휴가를 주며"),
        ("병가는 1년에 며칠까지 쓸 수 있어?", "병가는 1년에 60일까지"),
        ("재택근무는 일주일에 며칠 할 수 있나요?", "재택근무는 한 주에 이틀까지"),
        ("공통 근무 시간은 언제야?", "공통 근무 시간은 10시부터 16시까지이다."),
        ("노트북을 잃어버리면 어떻게 해야 하나요?", "1시간 안에 보안팀(내선 1190)에 알린다."),
        ("비밀번호는 몇 자 이상이어야 하나요?", "비밀번호는 12자 이상"),
        ("국내 출장 숙박비 한도는?", "숙박비는 하룻밤에 12만 원까지"),
        ("영수증은 언제까지 올려야 하나요?", "7일 안에 영수증을"),
        ("How many days of annual leave do I have?", "Every employee has 15 days of annual leave"),
        ("When must receipts be uploaded?", "Upload every receipt within seven days"),
        ("Who do I tell about a lost laptop?", "Report a lost laptop to the security team"),
        ("Can I fly business class?", "may be booked in business class."),
    ] {
        let answer = ask(question).await;
        if !(answer.contains(held) && answer.ends_with(']')) {
            wrong.push(format!("{question}\n  {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn what_the_documents_do_not_say_is_not_answered() {
    for question in ["사장님 생일은 언제인가요?", "구내식당 메뉴 알려줘", "What is the capital of France?"]
    {
        let answer = ask(question).await;
        let honest = [
            "문서에서 찾지 못했습니다",
            "did not find it",
            "언어 모델(LLM)이 아니라",
            "not a language model",
        ];
        assert!(honest.iter().any(|words| answer.contains(words)), "{question}\n{answer}");
    }
}
