//! Every scenario of the descriptions with the process killed at every write, on SQLite that is closed and opened again:
//! the same trace, the same answer, and no model or tool call that was recorded is made again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use doran_agents::{AskOptions, Parts, Settings};
use doran_engine::StartOptions;
use doran_engine::store::{Status, Store};
use doran_llm::{ChatRequest, Purpose, Role, Script};
use doran_retrieval::{RamKeyword, Tenant};
use doran_store::sqlite::SqliteStore;
use serde_json::json;

use crate::dying::{Dies, DyingStore};
use crate::stage::{ByRequest, Stage, has_results, parts, stage, thread, told, tools};

/// A turn that is played to its end, and then once for every way to die.
struct Scenario {
    name: &'static str,
    agent: &'static str,
    settings: &'static str,
    /// Turns before it, which nobody disturbs.
    before: &'static [&'static str],
    ask: &'static str,
    /// The model. It answers by what it is asked, so a call that is made again is answered the same.
    decide: fn(&ChatRequest) -> Script,
}

/// How often things were really done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    models: u32,
    calculator: u32,
    order: u32,
}

/// A process: an agent on an open file, and what it did.
struct Life {
    stage: Stage,
    store: Arc<DyingStore>,
    models: Arc<AtomicU32>,
    calculator: Arc<AtomicU32>,
    order: Arc<AtomicU32>,
}

impl Life {
    /// Starts a process on the file. The one before it must have let go of it.
    async fn start(scenario: &Scenario, file: &Path, dies: Dies) -> Self {
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
        let store = Arc::new(DyingStore::new(sqlite, dies));
        let model = ByRequest::new(scenario.decide);
        let models = model.asked.clone();
        #[cfg_attr(not(feature = "python"), allow(unused_mut, reason = "Python is added to them"))]
        let mut used = tools();
        #[cfg(feature = "python")]
        used.toolbox
            .add(Arc::new(crate::stage::python()), doran_agents::tools::Policy::Allow)
            .expect("Python");
        let parts: Parts = match scenario.agent {
            // Who was told the names of documents is asked before an order; where there is none, nobody is.
            "contract" if scenario.settings.contains("order") => {
                let empty = RamKeyword::of(&Tenant::new("local"), []);
                Parts { tools: used.toolbox, ..Parts::new(Arc::new(model), Arc::new(empty)) }
            }
            "contract" => Parts { tools: used.toolbox, ..crate::contract::parts(model) },
            _ => parts(Arc::new(model), used.toolbox),
        };
        let settings: Settings = toml::from_str(scenario.settings).expect("settings");
        let stage = stage(scenario.agent, &settings, &parts, store.clone());
        Self { stage, store, models, calculator: used.calculator, order: used.order }
    }

    fn counts(&self) -> Counts {
        let count = |count: &AtomicU32| count.load(Ordering::SeqCst);
        Counts { models: count(&self.models), calculator: count(&self.calculator), order: count(&self.order) }
    }
}

/// Waits until nobody has the file open any more: SQLite then takes its log away, and the file alone is all of it.
async fn closed(file: &Path) {
    let log = file.with_extension("db-wal");
    for _ in 0..6000 {
        if !log.exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{} is still open", file.display());
}

impl Scenario {
    /// Plays it whole, then killed at every write.
    async fn check(&self) {
        let place = tempfile::tempdir().expect("a directory");
        let start = place.path().join("start.db");
        let life = Life::start(self, &start, Dies::Never).await;
        for words in self.before {
            life.stage.ask(words).await;
        }
        drop(life);
        let copy = |name: &str| {
            let to = place.path().join(name);
            std::fs::copy(&start, &to).expect("a copy");
            to
        };
        closed(&start).await;
        let life = Life::start(self, &copy("whole.db"), Dies::Never).await;
        let whole = life.stage.ask(self.ask).await;
        let (commits, counts) = (life.store.commits(), life.counts());
        println!("{}: {commits} writes, {counts:?}\n{whole}", self.name);
        assert!(commits > 0);
        drop(life);
        for write in 1..=commits {
            for dies in [Dies::Before(write), Dies::After(write)] {
                let file = copy(&format!("{dies:?}.db"));
                self.killed(&file, dies, &whole, counts).await;
            }
        }
    }

    async fn killed(&self, file: &Path, dies: Dies, whole: &str, expected: Counts) {
        let at = format!("{} {dies:?}", self.name);
        let first = Life::start(self, file, dies).await;
        let input = first.stage.agent.input(self.ask, &AskOptions::default());
        let here = thread();
        let started = first.stage.runtime.start(self.agent, &here, Some(&input), StartOptions::default());
        let run = started.await.expect("accepted before it dies");
        drop(run.wait().await);
        let (key, done) = (run.key(), first.counts());
        drop(run);
        drop(first);
        closed(file).await;
        let second = Life::start(self, file, Dies::Never).await;
        second.stage.runtime.work().await.expect("takes over");
        let run = second.stage.runtime.run(&key).await.expect("known");
        let row = run.wait().await.expect("a rest");
        let again = second.counts();
        let sum = |what: fn(&Counts) -> u32| what(&done) + what(&again);
        let made =
            Counts { models: sum(|c| c.models), calculator: sum(|c| c.calculator), order: sum(|c| c.order) };
        assert!(made.order <= 1, "{at}: ordered {} times", made.order);
        if row.status == Status::Paused {
            // It died between the wish to order and the record of it: a person is asked instead of ordering again.
            assert_eq!(expected.order, 1, "{at}");
            return;
        }
        assert_eq!(row.status, Status::Finished, "{at}: {:?}", row.error);
        let trace = second.stage.trace(&run).await;
        let seen = format!("{trace}{}", told(&second.stage.turn().await));
        assert_eq!(seen, whole, "{at}");
        match dies {
            // Whatever was written down is not done again.
            Dies::After(_) | Dies::Never => assert_eq!(made, expected, "{at}"),
            // Only what was on its way to be written down may be, once.
            Dies::Before(_) => {
                let more = |made: u32, expected: u32| (expected..=expected + 1).contains(&made);
                let fits = more(made.models, expected.models) && more(made.calculator, expected.calculator);
                assert!(fits && made.order == expected.order, "{at}: {made:?} beside {expected:?}");
                let extra = made.models + made.calculator - expected.models - expected.calculator;
                assert!(extra <= 1, "{at}: {made:?} beside {expected:?}");
            }
        }
    }
}

fn routed(request: &ChatRequest, route: &str, then: impl FnOnce() -> Script) -> Script {
    match request.purpose {
        Purpose::Route => Script::json(&json!({ "route": route, "reason": "시험" })),
        Purpose::Summarize => Script::text("사용자 이름: 철수"),
        _ => then(),
    }
}

fn newest(request: &ChatRequest) -> String {
    let said = request.messages.iter().rev().find(|message| message.role == Role::User);
    said.map(|message| message.text()).unwrap_or_default()
}

fn results(request: &ChatRequest) -> usize {
    request.messages.iter().flat_map(|message| message.tool_results()).count()
}

fn calculate(expression: &str) -> Script {
    Script::call("calculator", json!({ "expression": expression }))
}

macro_rules! scenario {
    ($law:ident, $scenario:expr) => {
        #[tokio::test]
        async fn $law() {
            let mut scenario: Scenario = $scenario;
            scenario.name = stringify!($law);
            scenario.check().await;
        }
    };
}

const ASSISTANT: Scenario = Scenario {
    name: "",
    agent: "assistant",
    settings: "",
    before: &[],
    ask: "안녕하세요",
    decide: |request| routed(request, "agent", || Script::text(format!("{}에 답합니다.", newest(request)))),
};

scenario!(assistant_1_small_talk, ASSISTANT);

scenario!(
    assistant_2_a_tool,
    Scenario {
        ask: "123 * 456 계산해줘",
        decide: |request| routed(request, "agent", || match has_results(request) {
            true => Script::text("56088입니다."),
            false => calculate("123 * 456"),
        }),
        ..ASSISTANT
    }
);

scenario!(
    assistant_3_documents,
    Scenario {
        ask: "연차휴가는 며칠인가요?",
        decide: |request| routed(request, "rag", || Script::text("15일입니다. [1]")),
        ..ASSISTANT
    }
);

scenario!(
    assistant_4_a_long_conversation,
    Scenario {
        before: &["하나", "둘", "셋", "넷", "다섯"], ask: "내 이름이 뭐라고 했지?", ..ASSISTANT
    }
);

scenario!(
    assistant_5_a_second_turn,
    Scenario { before: &["내 이름은 철수야"], ask: "내 이름은?", ..ASSISTANT }
);

scenario!(
    assistant_documents_and_a_tool,
    Scenario {
        ask: "연차휴가는 며칠이고 1 + 1은?",
        decide: |request| routed(request, "rag", || match has_results(request) {
            true => Script::text("15일이고 [1] 2입니다."),
            false => calculate("1 + 1"),
        }),
        ..ASSISTANT
    }
);

scenario!(
    assistant_a_failed_tool,
    Scenario {
        ask: "잘못된 계산식",
        decide: |request| routed(request, "agent", || match has_results(request) {
            true => Script::text("계산식이 올바르지 않습니다."),
            false => calculate("abc"),
        }),
        ..ASSISTANT
    }
);

scenario!(
    assistant_tools_side_by_side,
    Scenario {
        ask: "지금 시각과 1 + 1",
        decide: |request| routed(request, "agent", || match has_results(request) {
            true => Script::text("됐습니다."),
            false => calculate("1 + 1").and_call("get_current_datetime", json!({})),
        }),
        ..ASSISTANT
    }
);

const CONTRACT: Scenario = Scenario {
    name: "",
    agent: "contract",
    settings: "[agents.contract]\nenable_cache = false",
    before: &[],
    ask: "제5조 내용이 뭐야?",
    decide: |request| match request.purpose {
        Purpose::Plan => Script::text("더 볼 것이 없습니다."),
        Purpose::Sufficiency => {
            Script::json(&json!({ "is_sufficient": true, "reasoning": "찾았다", "missing_info": null }))
        }
        _ => Script::text("30일 전입니다. [1]"),
    },
};

fn lacking(missing: &str) -> Script {
    Script::json(&json!({ "is_sufficient": false, "reasoning": "부족하다", "missing_info": missing }))
}

scenario!(contract_one_article, CONTRACT);

scenario!(contract_two_side_by_side, Scenario { ask: "제5조와 제7조 내용이 뭐야?", ..CONTRACT });

scenario!(
    contract_what_is_missing_is_looked_up,
    Scenario {
        decide: |request| match request.purpose {
            Purpose::Plan if results(request) == 0 => Script::text("더 볼 것이 없습니다."),
            Purpose::Plan => Script::call("get_article_by_index", json!({ "article": "제7조" })),
            Purpose::Sufficiency if results(request) == 1 => lacking("위약금"),
            _ => (CONTRACT.decide)(request),
        },
        ..CONTRACT
    }
);

scenario!(
    contract_a_call_that_was_run_before,
    Scenario {
        decide: |request| match request.purpose {
            Purpose::Plan => Script::call("get_article_by_index", json!({ "article": "5조" })),
            Purpose::Sufficiency if request.messages[0].text().contains("제7조") => lacking("더"),
            _ => (CONTRACT.decide)(request),
        },
        ..CONTRACT
    }
);

scenario!(
    contract_four_rounds,
    Scenario {
        decide: |request| match request.purpose {
            Purpose::Plan if results(request) == 0 => Script::text("더 볼 것이 없습니다."),
            Purpose::Plan => {
                Script::call("hybrid_search", json!({ "query": format!("위약금 {}", results(request)) }))
            }
            Purpose::Sufficiency => lacking("아직"),
            _ => Script::text("찾은 만큼 답합니다. [1]"),
        },
        ..CONTRACT
    }
);

scenario!(
    contract_the_example_of_the_description,
    Scenario {
        before: &["제5조 내용이 뭐야?"], ask: "그 참조항목들 내용 정리해서 보여줘봐", ..CONTRACT
    }
);

scenario!(
    contract_tools_of_others_in_turn,
    Scenario {
        settings: "[agents.contract]\nenable_cache = false\ntools = [\"calculator\", \"order\"]",
        decide: |request| match request.purpose {
            Purpose::Plan if results(request) == 0 => calculate("123 * 456").and_call("order", json!({})),
            _ => (CONTRACT.decide)(request),
        },
        ..CONTRACT
    }
);

scenario!(contract_out_of_scope, Scenario { ask: "오늘 서울 날씨 어때?", ..CONTRACT });

scenario!(
    contract_scope_by_a_model,
    Scenario {
        ask: "삼성전자 사장이 누구야?",
        decide: |_| Script::json(
            &json!({ "in_scope": false, "need_previous_context": false, "reason": "밖" })
        ),
        ..CONTRACT
    }
);

const REACT: Scenario = Scenario {
    name: "",
    agent: "react",
    settings: "",
    before: &[],
    ask: "안녕",
    decide: |_| Script::text("안녕하세요!"),
};

scenario!(react_an_answer, REACT);

scenario!(
    react_a_tool,
    Scenario {
        ask: "123 * 456 계산해줘",
        decide: |request| match has_results(request) {
            true => Script::text("56088입니다."),
            false => calculate("123 * 456"),
        },
        ..REACT
    }
);

scenario!(
    react_a_failed_tool,
    Scenario {
        decide: |request| match has_results(request) {
            true => Script::text("식이 잘못되었습니다."),
            false => calculate("abc"),
        },
        ..REACT
    }
);

/// The code of the newest message, to be run.
fn run_code(request: &ChatRequest) -> Script {
    match has_results(request) {
        true => Script::text("실행했습니다."),
        false => Script::call("python_repl", json!({ "code": newest(request) })),
    }
}

#[tokio::test]
async fn react_variables_of_python_live_through_every_death() {
    if !crate::stage::has_python().await {
        println!("SKIPPED: Python needs a jail / Python에는 격리가 필요함");
        return;
    }
    let scenario = Scenario {
        name: "react_variables_of_python_live_through_every_death",
        before: &["total = 40\ndef add(n):\n    return total + n", "total += 1"],
        ask: "print('합계')\nadd(1)",
        decide: run_code,
        ..REACT
    };
    scenario.check().await;
    let place = tempfile::tempdir().expect("a directory");
    let life = Life::start(&scenario, &place.path().join("one.db"), Dies::Never).await;
    for words in scenario.before {
        life.stage.ask(words).await;
    }
    let trace = life.stage.ask(scenario.ask).await;
    assert!(trace.contains("~ gave 합계\n42\n"), "{trace}");
}

scenario!(react_empty_input, Scenario { ask: "  ", ..REACT });

scenario!(react_too_many_rounds, Scenario { decide: |_| calculate("1 + 1"), ..REACT });

scenario!(
    react_an_order_is_placed_once,
    Scenario {
        ask: "주문해줘",
        decide: |request| match has_results(request) {
            true => Script::text("주문했습니다."),
            false => Script::call("order", json!({})),
        },
        ..REACT
    }
);

const DOCQA: Scenario = Scenario {
    name: "",
    agent: "docqa",
    settings: "",
    before: &[],
    ask: "연차휴가는 며칠인가요?",
    decide: |request| match request.purpose {
        Purpose::Classify => Script::json(&json!({ "type": "question" })),
        Purpose::Summarize => Script::text("요약."),
        _ => Script::text("15일입니다. [1]"),
    },
};

scenario!(docqa_a_question, DOCQA);

scenario!(docqa_tc_cb_009_a_second_question, Scenario { before: &["병가는?"], ..DOCQA });

scenario!(
    docqa_small_talk,
    Scenario {
        ask: "고마워",
        decide: |request| match request.purpose {
            Purpose::Classify => Script::json(&json!({ "type": "chitchat" })),
            _ => Script::text("천만에요!"),
        },
        ..DOCQA
    }
);

scenario!(
    docqa_tools_within_an_answer,
    Scenario {
        settings: "[agents.docqa]\ntools = [\"calculator\"]",
        decide: |request| match request.purpose {
            Purpose::Classify => Script::json(&json!({ "type": "question" })),
            _ if has_results(request) => Script::text("15일이고 [1] 56088입니다."),
            _ => calculate("123 * 456"),
        },
        ..DOCQA
    }
);

scenario!(
    docqa_tc_cb_010_a_context_that_is_too_long,
    Scenario { settings: "[agents.docqa]\ncontextLength = 100", before: &["하나", "둘"], ..DOCQA }
);
