//! Every scenario of the descriptions with the process killed at every write, on SQLite that is closed and opened again:
//! the same trace, the same answer, and no model or tool call that was recorded is made again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use doran_agents::{AgentParts, AskOptions, RequestPurpose, Settings};
use doran_engine::StartOptions;
use doran_engine::store::{RunStatus, Store};
use doran_llm::{ChatRequest, Role, ScriptedReply};
use doran_retrieval::{DocumentTenant, RamKeywordIndex};
use doran_store::sqlite::SqliteStore;
use serde_json::json;

use crate::agent_fixture::{
    AgentFixture, RequestDrivenModel, agent_parts, build_fixture, counting_tools, has_tool_results,
    render_turn, test_thread,
};
use crate::dying_store::{CrashPoint, DyingStore};

/// A turn that is played to its end, and then once for every crash point.
struct CrashScenario {
    name: &'static str,
    agent: &'static str,
    settings: &'static str,
    /// Turns before it, which nobody disturbs.
    earlier_questions: &'static [&'static str],
    question: &'static str,
    /// The model. It answers by what it is asked, so a call that is made again is answered the same.
    decide: fn(&ChatRequest) -> ScriptedReply,
}

/// How often things were really done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallCounts {
    models: u32,
    calculator: u32,
    order: u32,
}

/// A process: an agent on an open file, and what it did.
struct AgentProcess {
    fixture: AgentFixture,
    store: Arc<DyingStore>,
    models: Arc<AtomicU32>,
    calculator: Arc<AtomicU32>,
    order: Arc<AtomicU32>,
}

impl AgentProcess {
    /// Starts a process on the file. The one before it must have let go of it.
    async fn start(scenario: &CrashScenario, file: &Path, crash_point: CrashPoint) -> Self {
        let mut tries = 0;
        let sqlite: Arc<dyn Store> = loop {
            match SqliteStore::open(file) {
                Ok(store) => break Arc::new(store),
                // The lock is the last thing that is let go.
                Err(error) => {
                    tries += 1;
                    assert!(tries < 3000, "{}: {error}", scenario.name);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        };
        let store = Arc::new(DyingStore::new(sqlite, crash_point));
        let model = RequestDrivenModel::new(scenario.decide);
        let models = model.call_count.clone();
        #[cfg_attr(not(feature = "python"), allow(unused_mut, reason = "Python is added to them"))]
        let mut used = counting_tools();
        #[cfg(feature = "python")]
        used.toolbox
            .add(Arc::new(crate::agent_fixture::python_tool()), doran_agents::tools::ToolPolicy::Allow)
            .expect("Python");
        let parts: AgentParts = match scenario.agent {
            // Document names count as private text, so an order would need approval; an empty index avoids that.
            "contract" if scenario.settings.contains("order") => {
                let empty = RamKeywordIndex::from_documents(&DocumentTenant::new("local"), []);
                AgentParts { tools: used.toolbox, ..AgentParts::new(Arc::new(model), Arc::new(empty)) }
            }
            "contract" => AgentParts { tools: used.toolbox, ..crate::contract::contract_parts(model) },
            _ => agent_parts(Arc::new(model), used.toolbox),
        };
        let settings: Settings = toml::from_str(scenario.settings).expect("settings");
        let fixture = build_fixture(scenario.agent, &settings, &parts, store.clone());
        Self { fixture, store, models, calculator: used.calculator, order: used.order }
    }

    fn call_counts(&self) -> CallCounts {
        let count = |count: &AtomicU32| count.load(Ordering::SeqCst);
        CallCounts {
            models: count(&self.models),
            calculator: count(&self.calculator),
            order: count(&self.order),
        }
    }
}

/// Waits until nobody has the file open any more: SQLite then takes its log away, and the file alone is all of it.
async fn wait_until_closed(file: &Path) {
    let log = file.with_extension("db-wal");
    for _ in 0..6000 {
        if !log.exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{} is still open", file.display());
}

impl CrashScenario {
    /// Plays it whole, then killed at every write.
    async fn check(&self) {
        let place = tempfile::tempdir().expect("a directory");
        let start = place.path().join("start.db");
        let process = AgentProcess::start(self, &start, CrashPoint::Never).await;
        for words in self.earlier_questions {
            process.fixture.ask(words).await;
        }
        drop(process);
        let copy = |name: &str| {
            let to = place.path().join(name);
            std::fs::copy(&start, &to).expect("a copy");
            to
        };
        wait_until_closed(&start).await;
        let process = AgentProcess::start(self, &copy("whole.db"), CrashPoint::Never).await;
        let whole = process.fixture.ask(self.question).await;
        let (commits, counts) = (process.store.commits(), process.call_counts());
        println!("{}: {commits} writes, {counts:?}\n{whole}", self.name);
        assert!(commits > 0);
        drop(process);
        for write in 1..=commits {
            for crash_point in [CrashPoint::Before(write), CrashPoint::After(write)] {
                let file = copy(&format!("{crash_point:?}.db"));
                self.check_crash(&file, crash_point, &whole, counts).await;
            }
        }
    }

    async fn check_crash(&self, file: &Path, crash_point: CrashPoint, whole: &str, expected: CallCounts) {
        let at = format!("{} {crash_point:?}", self.name);
        let first = AgentProcess::start(self, file, crash_point).await;
        let input = first.fixture.agent.input(self.question, &AskOptions::default());
        let here = test_thread();
        let started = first.fixture.runtime.start(self.agent, &here, Some(&input), StartOptions::default());
        let run = started.await.expect("accepted before it dies");
        drop(run.wait().await);
        let (key, done) = (run.key(), first.call_counts());
        drop(run);
        drop(first);
        wait_until_closed(file).await;
        let second = AgentProcess::start(self, file, CrashPoint::Never).await;
        second.fixture.runtime.start_worker().await.expect("takes over");
        let run = second.fixture.runtime.run_handle(&key).await.expect("known");
        let row = run.wait().await.expect("a rest");
        let again = second.call_counts();
        let sum = |what: fn(&CallCounts) -> u32| what(&done) + what(&again);
        let made = CallCounts {
            models: sum(|c| c.models),
            calculator: sum(|c| c.calculator),
            order: sum(|c| c.order),
        };
        assert!(made.order <= 1, "{at}: ordered {} times", made.order);
        if row.status == RunStatus::Paused {
            // It died between the wish to order and the record of it: a person is asked instead of ordering again.
            assert_eq!(expected.order, 1, "{at}");
            return;
        }
        assert_eq!(row.status, RunStatus::Finished, "{at}: {:?}", row.error);
        let trace = second.fixture.trace(&run).await;
        let seen = format!("{trace}{}", render_turn(&second.fixture.turn().await));
        assert_eq!(seen, whole, "{at}");
        match crash_point {
            // Whatever was written down is not done again.
            CrashPoint::After(_) | CrashPoint::Never => assert_eq!(made, expected, "{at}"),
            // Only what was on its way to be written down may be, once.
            CrashPoint::Before(_) => {
                let more = |made: u32, expected: u32| (expected..=expected + 1).contains(&made);
                let fits = more(made.models, expected.models) && more(made.calculator, expected.calculator);
                assert!(fits && made.order == expected.order, "{at}: {made:?} beside {expected:?}");
                let extra = made.models + made.calculator - expected.models - expected.calculator;
                assert!(extra <= 1, "{at}: {made:?} beside {expected:?}");
            }
        }
    }
}

fn route_or(request: &ChatRequest, route: &str, then: impl FnOnce() -> ScriptedReply) -> ScriptedReply {
    match RequestPurpose::of(request).expect("a purpose of agents") {
        RequestPurpose::Route => ScriptedReply::json(&json!({ "route": route, "reason": "시험" })),
        RequestPurpose::Summarize => ScriptedReply::text("사용자 이름: 철수"),
        _ => then(),
    }
}

fn newest_user_text(request: &ChatRequest) -> String {
    let question = request.messages.iter().rev().find(|message| message.role == Role::User);
    question.map(|message| message.text()).unwrap_or_default()
}

fn tool_result_count(request: &ChatRequest) -> usize {
    request.messages.iter().flat_map(|message| message.tool_results()).count()
}

fn calculator_call(expression: &str) -> ScriptedReply {
    ScriptedReply::call("calculator", json!({ "expression": expression }))
}

macro_rules! scenario {
    ($test_name:ident, $scenario:expr) => {
        #[tokio::test]
        async fn $test_name() {
            let mut scenario: CrashScenario = $scenario;
            scenario.name = stringify!($test_name);
            scenario.check().await;
        }
    };
}

const ASSISTANT: CrashScenario = CrashScenario {
    name: "",
    agent: "assistant",
    settings: "",
    earlier_questions: &[],
    question: "안녕하세요",
    decide: |request| {
        route_or(request, "agent", || {
            ScriptedReply::text(format!("{}에 답합니다.", newest_user_text(request)))
        })
    },
};

scenario!(assistant_1_small_talk, ASSISTANT);

scenario!(
    assistant_2_a_tool,
    CrashScenario {
        question: "123 * 456 계산해줘",
        decide: |request| route_or(request, "agent", || match has_tool_results(request) {
            true => ScriptedReply::text("56088입니다."),
            false => calculator_call("123 * 456"),
        }),
        ..ASSISTANT
    }
);

scenario!(
    assistant_3_documents,
    CrashScenario {
        question: "연차휴가는 며칠인가요?",
        decide: |request| route_or(request, "rag", || ScriptedReply::text("15일입니다. [1]")),
        ..ASSISTANT
    }
);

scenario!(
    assistant_4_a_long_conversation,
    CrashScenario {
        earlier_questions: &["하나", "둘", "셋", "넷", "다섯"],
        question: "내 이름이 뭐라고 했지?",
        ..ASSISTANT
    }
);

scenario!(
    assistant_5_a_second_turn,
    CrashScenario {
        earlier_questions: &["내 이름은 철수야"], question: "내 이름은?", ..ASSISTANT
    }
);

scenario!(
    assistant_documents_and_a_tool,
    CrashScenario {
        question: "연차휴가는 며칠이고 1 + 1은?",
        decide: |request| route_or(request, "rag", || match has_tool_results(request) {
            true => ScriptedReply::text("15일이고 [1] 2입니다."),
            false => calculator_call("1 + 1"),
        }),
        ..ASSISTANT
    }
);

scenario!(
    assistant_a_failed_tool,
    CrashScenario {
        question: "잘못된 계산식",
        decide: |request| route_or(request, "agent", || match has_tool_results(request) {
            true => ScriptedReply::text("계산식이 올바르지 않습니다."),
            false => calculator_call("abc"),
        }),
        ..ASSISTANT
    }
);

scenario!(
    assistant_tools_side_by_side,
    CrashScenario {
        question: "지금 시각과 1 + 1",
        decide: |request| route_or(request, "agent", || match has_tool_results(request) {
            true => ScriptedReply::text("됐습니다."),
            false => calculator_call("1 + 1").and_call("get_current_datetime", json!({})),
        }),
        ..ASSISTANT
    }
);

/// Two described agents: one asks the other a question of its own, behind the answer.
const DESCRIBED: CrashScenario = CrashScenario {
    name: "",
    agent: "outer",
    settings: r#"
[[graphs]]
name = "outer"
start = "expert"

[[graphs.node]]
name = "expert"
use = "subgraph"
graph = "inner"
input = { question = "{{ question }}", values = { level = 3 } }
result = { said = "{{ answer }}", level = "{{ values.level }}" }
then = "answer"

[[graphs.node]]
name = "answer"
use = "respond"
prompt = "The expert says {{ values.expert.said }} at level {{ values.expert.level }}."
then = "end"

[[graphs]]
name = "inner"
start = "think"

[[graphs.node]]
name = "think"
use = "call_model"
prompt = "Think."
tools = ["calculator"]
branch = { to = { tools = "run", answer = "end" } }

[[graphs.node]]
name = "run"
use = "call_tools"
then = "think"
"#,
    earlier_questions: &[],
    question: "6 곱하기 7은?",
    decide: |request| match (request.messages[0].text(), has_tool_results(request)) {
        (system, _) if system.starts_with("The expert says 42 at level 3") => {
            ScriptedReply::text("42입니다.")
        }
        (_, true) => ScriptedReply::text("42"),
        (_, false) => calculator_call("6 * 7"),
    },
};

scenario!(a_described_agent_that_asks_another_one, DESCRIBED);

const CONTRACT: CrashScenario = CrashScenario {
    name: "",
    agent: "contract",
    settings: "[agents.contract]\nenable_cache = false",
    earlier_questions: &[],
    question: "제5조 내용이 뭐야?",
    decide: |request| match RequestPurpose::of(request).expect("a purpose of agents") {
        RequestPurpose::Plan => ScriptedReply::text("더 볼 것이 없습니다."),
        RequestPurpose::Sufficiency => ScriptedReply::json(
            &json!({ "is_sufficient": true, "reasoning": "찾았다", "missing_info": null }),
        ),
        _ => ScriptedReply::text("30일 전입니다. [1]"),
    },
};

fn insufficient_reply(missing: &str) -> ScriptedReply {
    ScriptedReply::json(&json!({ "is_sufficient": false, "reasoning": "부족하다", "missing_info": missing }))
}

scenario!(contract_one_article, CONTRACT);

scenario!(contract_two_side_by_side, CrashScenario { question: "제5조와 제7조 내용이 뭐야?", ..CONTRACT });

scenario!(
    contract_what_is_missing_is_looked_up,
    CrashScenario {
        decide: |request| match RequestPurpose::of(request).expect("a purpose of agents") {
            RequestPurpose::Plan if tool_result_count(request) == 0 =>
                ScriptedReply::text("더 볼 것이 없습니다."),
            RequestPurpose::Plan =>
                ScriptedReply::call("get_article_by_index", json!({ "article": "제7조" })),
            RequestPurpose::Sufficiency if tool_result_count(request) == 1 => insufficient_reply("위약금"),
            _ => (CONTRACT.decide)(request),
        },
        ..CONTRACT
    }
);

scenario!(
    contract_a_call_that_was_run_before,
    CrashScenario {
        decide: |request| match RequestPurpose::of(request).expect("a purpose of agents") {
            RequestPurpose::Plan => ScriptedReply::call("get_article_by_index", json!({ "article": "5조" })),
            RequestPurpose::Sufficiency if request.messages[0].text().contains("제7조") =>
                insufficient_reply("더"),
            _ => (CONTRACT.decide)(request),
        },
        ..CONTRACT
    }
);

scenario!(
    contract_four_rounds,
    CrashScenario {
        decide: |request| match RequestPurpose::of(request).expect("a purpose of agents") {
            RequestPurpose::Plan if tool_result_count(request) == 0 =>
                ScriptedReply::text("더 볼 것이 없습니다."),
            RequestPurpose::Plan => {
                ScriptedReply::call(
                    "hybrid_search",
                    json!({ "query": format!("위약금 {}", tool_result_count(request)) }),
                )
            }
            RequestPurpose::Sufficiency => insufficient_reply("아직"),
            _ => ScriptedReply::text("찾은 만큼 답합니다. [1]"),
        },
        ..CONTRACT
    }
);

scenario!(
    contract_the_example_of_the_description,
    CrashScenario {
        earlier_questions: &["제5조 내용이 뭐야?"],
        question: "그 참조항목들 내용 정리해서 보여줘봐",
        ..CONTRACT
    }
);

scenario!(
    contract_tools_of_others_in_turn,
    CrashScenario {
        settings: "[agents.contract]\nenable_cache = false\ntools = [\"calculator\", \"order\"]",
        decide: |request| match RequestPurpose::of(request).expect("a purpose of agents") {
            RequestPurpose::Plan if tool_result_count(request) == 0 =>
                calculator_call("123 * 456").and_call("order", json!({})),
            _ => (CONTRACT.decide)(request),
        },
        ..CONTRACT
    }
);

scenario!(contract_out_of_scope, CrashScenario { question: "오늘 서울 날씨 어때?", ..CONTRACT });

scenario!(
    contract_scope_by_a_model,
    CrashScenario {
        question: "삼성전자 사장이 누구야?",
        decide: |_| ScriptedReply::json(
            &json!({ "in_scope": false, "need_previous_context": false, "reason": "밖" })
        ),
        ..CONTRACT
    }
);

const REACT: CrashScenario = CrashScenario {
    name: "",
    agent: "react",
    settings: "",
    earlier_questions: &[],
    question: "안녕",
    decide: |_| ScriptedReply::text("안녕하세요!"),
};

scenario!(react_an_answer, REACT);

scenario!(
    react_a_tool,
    CrashScenario {
        question: "123 * 456 계산해줘",
        decide: |request| match has_tool_results(request) {
            true => ScriptedReply::text("56088입니다."),
            false => calculator_call("123 * 456"),
        },
        ..REACT
    }
);

scenario!(
    react_a_failed_tool,
    CrashScenario {
        decide: |request| match has_tool_results(request) {
            true => ScriptedReply::text("식이 잘못되었습니다."),
            false => calculator_call("abc"),
        },
        ..REACT
    }
);

/// The code of the newest message, to be run.
fn run_newest_code(request: &ChatRequest) -> ScriptedReply {
    match has_tool_results(request) {
        true => ScriptedReply::text("실행했습니다."),
        false => ScriptedReply::call("python_repl", json!({ "code": newest_user_text(request) })),
    }
}

#[tokio::test]
async fn react_python_variables_survive_every_crash() {
    if !crate::agent_fixture::has_python().await {
        println!("SKIPPED: Python needs a jail / Python에는 격리가 필요함");
        return;
    }
    let scenario = CrashScenario {
        name: "react_python_variables_survive_every_crash",
        earlier_questions: &["total = 40\ndef add(n):\n    return total + n", "total += 1"],
        question: "print('합계')\nadd(1)",
        decide: run_newest_code,
        ..REACT
    };
    scenario.check().await;
    let place = tempfile::tempdir().expect("a directory");
    let process = AgentProcess::start(&scenario, &place.path().join("one.db"), CrashPoint::Never).await;
    for words in scenario.earlier_questions {
        process.fixture.ask(words).await;
    }
    let trace = process.fixture.ask(scenario.question).await;
    assert!(trace.contains("~ gave 합계\n42\n"), "{trace}");
}

scenario!(react_empty_input, CrashScenario { question: "  ", ..REACT });

scenario!(react_too_many_rounds, CrashScenario { decide: |_| calculator_call("1 + 1"), ..REACT });

scenario!(
    react_an_order_is_placed_once,
    CrashScenario {
        question: "주문해줘",
        decide: |request| match has_tool_results(request) {
            true => ScriptedReply::text("주문했습니다."),
            false => ScriptedReply::call("order", json!({})),
        },
        ..REACT
    }
);

const DOCQA: CrashScenario = CrashScenario {
    name: "",
    agent: "docqa",
    settings: "",
    earlier_questions: &[],
    question: "연차휴가는 며칠인가요?",
    decide: |request| match RequestPurpose::of(request).expect("a purpose of agents") {
        RequestPurpose::Classify => ScriptedReply::json(&json!({ "reason": "x", "type": "question" })),
        RequestPurpose::Summarize => ScriptedReply::text("요약."),
        _ => ScriptedReply::text("15일입니다. [1]"),
    },
};

scenario!(docqa_a_question, DOCQA);

scenario!(docqa_tc_cb_009_a_second_question, CrashScenario { earlier_questions: &["병가는?"], ..DOCQA });

scenario!(
    docqa_small_talk,
    CrashScenario {
        question: "고마워",
        decide: |request| match RequestPurpose::of(request).expect("a purpose of agents") {
            RequestPurpose::Classify => ScriptedReply::json(&json!({ "reason": "x", "type": "chitchat" })),
            _ => ScriptedReply::text("천만에요!"),
        },
        ..DOCQA
    }
);

scenario!(
    docqa_tools_within_an_answer,
    CrashScenario {
        settings: "[agents.docqa]\ntools = [\"calculator\"]",
        decide: |request| match RequestPurpose::of(request).expect("a purpose of agents") {
            RequestPurpose::Classify => ScriptedReply::json(&json!({ "reason": "x", "type": "question" })),
            _ if has_tool_results(request) => ScriptedReply::text("15일이고 [1] 56088입니다."),
            _ => calculator_call("123 * 456"),
        },
        ..DOCQA
    }
);

scenario!(
    docqa_tc_cb_010_a_context_that_is_too_long,
    CrashScenario {
        settings: "[agents.docqa]\ncontextLength = 100",
        earlier_questions: &["하나", "둘"],
        ..DOCQA
    }
);
