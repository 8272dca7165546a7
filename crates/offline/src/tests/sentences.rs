//! A hundred sentences that people type, and what is decided about each: which way it goes in the assistant, its type
//! in the document agent, whether the contract agent takes it, whether it points back, and which tools are called.

use doran_agents::RequestPurpose;
use doran_llm::{ChatRequest, Message};

use super::{answer_text, call_text, tools};
use crate::{OfflineOutput, run_rules};

/// sentence | route | type | in scope | points back | tool calls
const TABLE: &str = "
안녕하세요 | agent | chitchat | in | - | -
안녕 | agent | chitchat | in | - | -
hello there | agent | chitchat | in | - | -
반갑습니다 | agent | chitchat | in | - | -
고마워! | agent | chitchat | in | - | -
정말 감사합니다 | agent | chitchat | in | - | -
Thanks a lot! | agent | chitchat | in | - | -
안녕히 계세요 | agent | chitchat | in | - | -
네 알겠습니다 | agent | chitchat | in | - | -
ㅋㅋㅋ | agent | chitchat | in | - | -
무엇을 할 수 있나요? | agent | chitchat | in | - | -
너는 누구야? | agent | chitchat | in | - | -
Are you an LLM? | agent | chitchat | in | - | -
Are you ChatGPT? | agent | chitchat | in | - | -
너 챗GPT야? | agent | chitchat | in | - | -
what can you do? | agent | chitchat | in | - | -
내 이름은 철수야 | agent | chitchat | in | - | -
제 부서는 개발팀입니다. | agent | chitchat | in | - | -
My name is Ann Lee. | agent | chitchat | in | - | -
내 이름이 뭐라고 했지? | agent | chitchat | in | - | -
내 이름 기억해? | agent | chitchat | in | - | -
What did I say my name was? | agent | chitchat | in | - | -
아까 말한 프로젝트 마감일이 언제라고 했지? | agent | chitchat | in | back | -
회사 휴가 정책이 뭐야? | rag | question | in | - | -
연차는 며칠이야? | rag | question | in | - | -
연차휴가 규정 알려줘 | rag | question | in | - | -
육아휴직은 최대 얼마나 쓸 수 있나요? | rag | question | in | - | -
국내 출장 숙박비 한도는? | rag | question | in | - | -
비밀번호는 몇 자 이상이어야 하나요? | rag | question | in | - | -
노트북을 잃어버리면 어떻게 해야 하나요? | rag | question | in | - | -
보안 담당자는 누구야? | rag | question | in | - | -
회의는 몇 시야? | rag | question | in | - | -
How many days of annual leave do I have? | rag | question | in | - | -
When must receipts be uploaded? | rag | question | in | - | -
What does the handbook say about remote work? | rag | question | in | - | -
May I paste a contract into ChatGPT? | rag | question | in | - | -
문서에서 연차 검색해줘 | rag | question | in | - | -
123 * 456 계산해줘 | agent | question | out | - | calculator(123 * 456)
what is 12*7 | agent | question | out | - | calculator(12 * 7)
2400000의 15%는? | agent | question | out | - | calculator(2400000 * 15 / 100)
3만 5천 곱하기 4 | agent | question | out | - | calculator(35000 * 4)
240만원의 3.3%는 얼마야? | agent | question | out | - | calculator(2400000원 * 3.3 / 100)
100에서 30을 빼면? | agent | question | out | - | calculator(100 - 30)
81의 제곱근은? | agent | question | out | - | calculator(sqrt(81))
15% of 80 | agent | question | out | - | calculator(15 / 100 * 80)
(1+2)*3 = ? | agent | question | out | - | calculator((1 + 2) * 3)
1/0 계산해줘 | agent | question | out | - | calculator(1 / 0)
계산해줘 | agent | question | out | - | -
오늘 며칠이야? | agent | question | out | - | get_current_datetime()
지금 몇 시야? | agent | question | out | - | get_current_datetime()
오늘 무슨 요일이야? | agent | question | out | - | get_current_datetime()
3만원의 15퍼센트는? | agent | question | out | - | calculator(30000원 * 15 / 100)
오늘부터 100일 뒤는 며칠인가요? | agent | question | out | - | get_current_datetime(100)
100 days from today | agent | question | out | - | get_current_datetime(100)
다음 공휴일은 언제야? | agent | question | out | - | get_current_datetime()
내일 공휴일이야? | agent | question | out | - | get_current_datetime(1)
뉴욕은 지금 몇 시야? | agent | question | out | - | get_current_datetime(America/New_York)
What time is it in London? | agent | question | out | - | get_current_datetime(Europe/London)
2026-10-03은 무슨 요일이야? | agent | question | out | - | get_current_datetime(2026-10-03)
서울 날씨 | agent | question | out | - | get_weather(서울)
오늘 부산 날씨 어때? | agent | question | out | - | get_weather(부산)
서울하고 부산 날씨 알려줘 | agent | question | out | - | get_weather(서울) + get_weather(부산)
What's the weather in Paris? | agent | question | out | - | get_weather(Paris)
오늘 날씨 어때? | agent | question | out | - | -
위키백과에서 세종대왕 찾아줘 | agent | question | out | - | search_wikipedia(세종대왕)
이순신은 누구야? | rag | question | in | - | search_wikipedia(이순신)
대표이사는 누구인가요? | rag | question | in | - | search_wikipedia(대표이사)
Who was Ada Lovelace? | rag | question | in | - | search_wikipedia(Ada Lovelace)
인터넷에서 최신 AI 뉴스 검색해줘 | agent | question | out | - | web_search(최신 AI 뉴스)
search the web for rust 2026 | agent | question | out | - | web_search(rust 2026)
\"분기 보고서.pdf\" 읽어줘 | agent | question | in | - | read_file(분기 보고서.pdf)
notes.txt 파일 내용 보여줘 | agent | question | in | - | read_file(notes.txt)
`print(2)` 실행해줘 | agent | question | in | - | python_repl(print(2))
서울 날씨랑 12*7 알려줘 | agent | question | out | - | calculator(12 * 7) + get_weather(서울)
시를 써 줘 | agent | question | out | - | -
이 문장을 영어로 번역해줘 | agent | question | out | - | -
Tell me a joke | agent | question | out | - | -
write a poem about autumn | agent | question | out | - | -
점심 메뉴 추천해줘 | agent | question | out | - | -
파리는 어느 나라의 수도인가요? | rag | question | in | - | -
What is the capital of France? | rag | question | out | - | -
지금까지 대화 요약해줘 | agent | summary | in | - | -
summarize our conversation | agent | summary | in | - | -
회의록 요약해줘 | rag | question | in | - | -
주간 회의록을 세 줄로 정리해 주세요 | rag | question | in | - | -
Summarize the meeting minutes | rag | question | in | - | -
위의 내용 요약해줘 | agent | summary | in | back | -
요약본 제출 기한은? | rag | question | in | - | -
이 계약서 요약해줘 | rag | question | in | - | -
제5조 내용이 뭐야? | rag | question | in | - | -
제 5 조와 제7조의2를 비교해줘 | rag | question | in | - | -
제십조는 뭐야? | rag | question | in | - | -
비밀유지 조항이 있어? | rag | question | in | - | -
\"손해배상\" 조항 보여줘 | rag | question | in | - | -
계약 기간은 얼마인가요? | rag | question | in | - | -
대금은 언제 지급하나요? | rag | question | in | - | -
표준계약서와 다른 점이 뭐야? | rag | question | in | - | -
위약금은 얼마야? | rag | question | in | - | -
갑의 의무는 무엇인가요? | rag | question | in | - | -
Can either party terminate early? | rag | question | in | - | -
What does article 7 say? | rag | question | in | - | -
Who pays for the delivery? | rag | question | in | - | -
그 참조항목들 내용 정리해서 보여줘봐 | agent | summary | in | back | -
그럼 해지는 어떻게 해? | rag | question | in | back | -
방금 말한 조항은 몇 조야? | agent | chitchat | in | back | -
그것은 누가 부담하나요? | rag | question | in | back | -
그러면 위약금은? | rag | question | in | back | -
What about that clause? | rag | question | in | back | -
그래프 보여줘 | rag | question | in | - | -
그룹 보험은 가입되나요? | rag | question | in | - | -
아까운 연차는 어떻게 하나요? | rag | question | in | - | -
그 밖의 비용은 누가 내나요? | rag | question | in | - | -
그림 저작권은 누구에게 있나요? | rag | question | in | - | -
발주가 취소되면 어떻게 되나요? | rag | question | in | - | -
단가수정은 누가 정해? | rag | question | in | - | -
업무 개시를 미루면 어떻게 돼? | rag | question | in | - | -
Who approves the Songdo site? | rag | question | in | - | -
그 내용을 영어로 번역해줘 | agent | question | in | back | -
그럼 오늘 날씨는? | agent | question | out | back | -
영화 추천해줘 | agent | question | out | - | -
";

fn decided(sentence: &str) -> String {
    let request = |purpose: RequestPurpose| ChatRequest {
        purpose: purpose.label(),
        ..ChatRequest::new(vec![Message::user("u", sentence)])
    };
    let field = |purpose, name: &str| {
        let json: serde_json::Value = serde_json::from_str(&answer_text(&request(purpose))).expect("json");
        json[name].clone()
    };
    let calls = ChatRequest { tools: tools(), ..request(RequestPurpose::Answer) };
    let calls = match run_rules(&calls).expect("given") {
        OfflineOutput::Calls(calls) => calls.iter().map(call_text).collect::<Vec<_>>().join(" + "),
        OfflineOutput::Text(_) => "-".into(),
    };
    let in_scope = if field(RequestPurpose::Scope, "in_scope") == true { "in" } else { "out" };
    let back = if field(RequestPurpose::Scope, "need_previous_context") == true { "back" } else { "-" };
    let (route, kind) = (field(RequestPurpose::Route, "route"), field(RequestPurpose::Classify, "type"));
    let text = |value: serde_json::Value| value.as_str().unwrap_or("?").to_owned();
    format!("{sentence} | {} | {} | {in_scope} | {back} | {calls}", text(route), text(kind))
}

#[test]
fn a_hundred_sentences_are_decided_as_the_table_says() {
    let rows: Vec<&str> = TABLE.lines().filter(|line| !line.is_empty()).collect();
    assert!(rows.len() >= 100, "{} rows", rows.len());
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let (sentence, _) = row.split_once(" | ").expect("a row");
            let decided = decided(sentence);
            (decided != *row).then(|| format!("want {row}\n got {decided}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
