//! The sample documents, asked through the keyword index and the built-in model as a person would ask.

use doran_agents::samples;
use doran_llm::{ChatModel, ChatRequest, Message, NumberedPassage, collect_reply};
use doran_offline::OfflineModel;
use doran_retrieval::contract::{ArticleReference, Contract, compare_contracts};
use doran_retrieval::{ArticleNumber, RamKeywordIndex, Retriever};

async fn ask_offline_model(question: &str) -> String {
    let index = RamKeywordIndex::from_documents(
        &doran_retrieval::DocumentTenant::new("local"),
        &samples::rule_books(),
    );
    let hits = index
        .retrieve(&doran_retrieval::SearchQuery::new(
            doran_retrieval::DocumentTenant::new("local"),
            question,
            4,
        ))
        .await
        .expect("hits");
    let passages = hits.into_iter().zip(1..).map(|(hit, number)| NumberedPassage {
        number,
        title: hit.passage.title,
        text: hit.passage.text,
        ..NumberedPassage::default()
    });
    let messages = vec![Message::passages("p", passages), Message::user("m", question)];
    collect_reply(OfflineModel.stream(ChatRequest::new(messages))).await.expect("answer").text
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
        ("종합 건강검진은 한 해에 몇 번 받나요?", "한 해에 한 번 종합 건강검진을 받는다."),
        ("업무용 컴퓨터 교체 주기는?", "4년"),
        ("승진은 언제 하나요?", "승진은 해마다 3월 1일에 한다."),
        ("영수증은 언제까지 올려야 하나요?", "7일 안에 영수증을"),
        ("How many days of annual leave do I have?", "Every employee has 15 days of annual leave"),
        ("When must receipts be uploaded?", "Upload every receipt within seven days"),
        ("Who do I tell about a lost laptop?", "Report a lost laptop to the security team"),
        ("Can I fly business class?", "may be booked in business class."),
    ] {
        let answer = ask_offline_model(question).await;
        if !(answer.contains(held) && answer.ends_with(']')) {
            wrong.push(format!("{question}\n  {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_sample_can_be_read_and_has_its_title() {
    let files = samples::files();
    let documents = [samples::rule_books(), samples::contracts()].concat();
    assert_eq!(documents.len(), files.len());
    for (file, document) in files.iter().zip(&documents) {
        assert_eq!(document.id.as_str(), format!("samples/{}", file.name));
        assert!(document.text.contains(file.title), "{}: {}", file.name, document.text);
    }
}

#[test]
fn the_sample_contract_differs_from_its_standard_as_it_was_written_to() {
    let contracts = samples::contracts();
    let by =
        |name: &str| contracts.iter().find(|document| document.id.as_str().ends_with(name)).expect("there");
    for (own, standard, articles, missing, extra) in [
        ("용역계약서.docx", "표준용역계약서.hwpx", 15, "제3조 제8조 제13조", ""),
        ("service-agreement.md", "standard-service-agreement.md", 7, "제6조 제8조", "제7조"),
    ] {
        let (own, standard) = (by(&format!("/{own}")), by(&format!("/{standard}")));
        let (left, right) = (Contract::parse(own), Contract::parse(standard));
        assert_eq!(left.articles.len(), articles, "{}", own.text);
        let found = compare_contracts((&right, standard), (&left, own));
        let shown =
            |numbers: &[ArticleNumber]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(
            (shown(&found.missing).as_str(), shown(&found.extra).as_str()),
            (missing, extra),
            "{:#?}",
            found.matched
        );
    }
    let own = by("/용역계약서.docx");
    let contract = Contract::parse(own);
    let (article, place) =
        contract.locate(&ArticleReference::parse("제6조제2항").expect("a reference")).expect("a place");
    assert_eq!(article.heading(), "제6조(대금의 지급)");
    assert_eq!(&own.text[place], "② 갑은 을의 청구를 받은 날부터 60일 안에 대금을 지급한다.");
    assert_eq!(
        contract.articles_by_title("손해 배상").first().map(|(article, _)| article.number.number),
        Some(13)
    );
}

#[tokio::test]
async fn what_the_documents_do_not_say_is_not_answered() {
    for question in ["사장님 생일은 언제인가요?", "구내식당 메뉴 알려줘", "What is the capital of France?"]
    {
        let answer = ask_offline_model(question).await;
        let honest = [
            "문서에서 찾지 못했습니다",
            "did not find it",
            "언어 모델(LLM)이 아니라",
            "not a language model",
        ];
        assert!(honest.iter().any(|words| answer.contains(words)), "{question}\n{answer}");
    }
}
