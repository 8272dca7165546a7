//! The `assistant`: its runs as printed traces, what it remembers, and what it costs to crash in the middle.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use doran_agents::{ChatState, ChatStateUpdate, Parts, all, samples};
use doran_engine::log::{Step, TaskDone};
use doran_engine::runtime::Piece;
use doran_engine::store::{EntryKind, RamStore, Store};
use doran_engine::{Bot, Event, Outcome, RunHandle, Runtime, ThreadKey, Until};
use doran_llm::{About, ChatModel, ChatRequest, Delta, DeltaStream, ModelError, OfflineModel};
use doran_retrieval::RamKeyword;
use expect_test::{Expect, expect};
use futures_util::{StreamExt, stream};
use tokio::sync::Notify;

use crate::dying::{Dies, DyingStore};

fn assistant(store: Arc<dyn Store>, model: Arc<dyn ChatModel>) -> Bot<ChatState> {
    let parts = Parts {
        model,
        retriever: Arc::new(RamKeyword::of(&doran_retrieval::Tenant::new("local"), &samples::all())),
    };
    let agents = all(&parts).expect("sound graphs");
    let agent = agents.iter().find(|agent| agent.name == "assistant").expect("in the list");
    Runtime::new(store).graph(agent.name, &agent.graph).expect("registered")
}

fn thread() -> ThreadKey {
    ThreadKey::local("대화").expect("a name")
}

async fn ask(bot: &Bot<ChatState>, text: &str) -> RunHandle {
    bot.start(&thread(), ChatStateUpdate::asked(text)).await.expect("started")
}

/// The entries of a run, one a line.
async fn trace(bot: &Bot<ChatState>, run: &RunHandle) -> String {
    let mut watch = bot.runtime().watch(&run.key(), 0, Until::End).await.expect("watch");
    let mut lines = String::new();
    while let Some(event) = watch.next().await.expect("event") {
        let Event::Entry(n, entry) = event else { continue };
        let kind = format!("{:?}", entry.kind).to_lowercase();
        if entry.kind != EntryKind::Step {
            writeln!(lines, "{n} {kind}").expect("text");
            continue;
        }
        let step: Step = serde_json::from_slice(&entry.body).expect("a step");
        for task in &step.tasks {
            writeln!(lines, "{n} {} {}", task.node, told(task)).expect("text");
        }
    }
    lines
}

fn told(task: &TaskDone) -> String {
    let update: ChatStateUpdate = serde_json::from_str(task.update.get()).expect("an update");
    let mut state = ChatState::default();
    doran_engine::State::apply(&mut state, update);
    if task.node == "retrieve" {
        return format!("found {}", state.passages.len());
    }
    let answer = state.messages.first().expect("an answer");
    let mut text = format!("says {}", answer.text());
    for citation in state.citations.get(answer.id.as_str()).into_iter().flatten() {
        write!(text, "\n  [{}] {}", citation.number, citation.title).expect("text");
    }
    text
}

async fn check(question: &str, expected: Expect) {
    let bot = assistant(Arc::new(RamStore::new()), Arc::new(OfflineModel));
    let run = ask(&bot, question).await;
    expected.assert_eq(&trace(&bot, &run).await);
}

#[tokio::test]
async fn a_korean_question_is_answered_with_a_quote_and_its_place() {
    check("육아휴직은 최대 얼마나 쓸 수 있나요?", expect![[r#"
        1 started
        2 retrieve found 4
        3 call_model says 문서에 이렇게 적혀 있습니다: "육아휴직은 자녀 한 명당 1년 이내로 하며, 두 번까지 나누어 쓸 수 있다." [1]
          [1] 휴가 규정 › 육아휴직
        4 finished
    "#]]).await;
}

#[tokio::test]
async fn an_english_question_is_answered_with_a_quote_and_its_place() {
    check(
        "When must receipts be uploaded?",
        expect![[r#"
        1 started
        2 retrieve found 4
        3 call_model says The document says: "Upload every receipt within seven days of paying." [2]
          [2] Employee handbook › Expenses
        4 finished
    "#]],
    )
    .await;
}

#[tokio::test]
async fn what_nobody_wrote_is_not_made_up() {
    check("What is the capital of France?", expect![[r#"
        1 started
        2 retrieve found 4
        3 call_model says I did not find it in the documents. Nearest headings: Employee handbook › Leave [1], Employee handbook › Leave [2], Employee handbook › Leave [3]
          [1] Employee handbook › Leave
          [2] Employee handbook › Leave
          [3] Employee handbook › Leave
        4 finished
    "#]]).await;
}

#[tokio::test]
async fn a_fact_is_recalled_after_a_restart() {
    let store = RamStore::new();
    let first = assistant(Arc::new(store.clone()), Arc::new(OfflineModel));
    let run = ask(&first, "내 이름은 김도란이야.").await;
    trace(&first, &run).await;
    drop(first);
    let second = assistant(Arc::new(store), Arc::new(OfflineModel));
    let run = ask(&second, "내 이름이 뭐라고 했지?").await;
    expect![[r#"
        1 started
        2 retrieve found 0
        3 call_model says 김도란입니다. 이 대화에서 "내 이름은 김도란이야." 하고 말씀하셨습니다.
        4 finished
    "#]]
    .assert_eq(&trace(&second, &run).await);
}

#[tokio::test]
async fn an_answer_keeps_its_id_and_its_sources() {
    let bot = assistant(Arc::new(RamStore::new()), Arc::new(OfflineModel));
    for question in ["연차휴가는 며칠인가요?", "Can I fly business class?", "안녕?"] {
        let run = ask(&bot, question).await;
        assert!(matches!(bot.outcome(&run).await, Ok(Outcome::Finished(_))));
    }
    let state = bot.state(&thread()).await.expect("state");
    assert_eq!(state.messages.len(), 6);
    let cited: Vec<&str> = state
        .messages
        .iter()
        .filter(|m| state.citations.contains_key(m.id.as_str()))
        .map(|m| m.id.as_str())
        .collect();
    assert_eq!(cited, [state.messages[1].id.as_str(), state.messages[3].id.as_str()]);
    for citation in state.citations.values().flatten() {
        let answer = state.messages.iter().map(|m| m.text()).find(|text| {
            let quoted = text.split('"').nth(1).unwrap_or("");
            !quoted.is_empty() && citation.text.contains(quoted)
        });
        assert!(answer.is_some(), "no answer quotes {}", citation.text);
    }
}

/// Says two words and waits for leave between them.
struct Halting(Arc<Notify>);

impl ChatModel for Halting {
    fn about(&self) -> About {
        OfflineModel.about()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let leave = self.0.clone();
        let words = stream::once(async { text("하나 ") }).chain(stream::once(async move {
            leave.notified().await;
            text("둘")
        }));
        let end = OfflineModel.stream(request).filter(|delta| {
            let done = matches!(delta, Ok(Delta::Done { .. }));
            async move { done }
        });
        words.chain(end).boxed()
    }
}

fn text(text: &str) -> Result<Delta, ModelError> {
    Ok(Delta::Text { text: text.into() })
}

#[tokio::test]
async fn words_are_shown_before_the_answer_is_whole() {
    let leave = Arc::new(Notify::new());
    let bot = assistant(Arc::new(RamStore::new()), Arc::new(Halting(leave.clone())));
    let run = ask(&bot, "세어 봐").await;
    let mut watch = run.watch().await.expect("watch");
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await.expect("event") {
        match event {
            Event::Delta(delta) => {
                let Piece::Data(piece) = &delta.piece else { panic!("no retry here") };
                seen.push(format!("{} {piece}", delta.node));
                leave.notify_one();
            }
            Event::Entry(_, entry) => seen.push(format!("{:?}", entry.kind)),
        }
    }
    let first = seen.iter().position(|one| one == "call_model \"하나 \"").expect("shown early");
    let answered = seen.iter().rposition(|one| one == "Step").expect("a step");
    assert!(first < answered, "{seen:?}");
    let state = bot.state(&thread()).await.expect("state");
    assert_eq!(state.messages.last().expect("an answer").text(), "하나 둘");
}

/// The built-in model, with its calls counted.
struct Counted(Arc<AtomicU32>);

impl ChatModel for Counted {
    fn about(&self) -> About {
        OfflineModel.about()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        self.0.fetch_add(1, Ordering::SeqCst);
        OfflineModel.stream(request)
    }
}

/// Lets the process die, starts another on the same store, and tells how often the model was called in both.
async fn calls_when_it(dies: Dies) -> (u32, String) {
    let (calls, now) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicI64::new(1)));
    let clock = now.clone();
    let store = RamStore::with_clock(Arc::new(move || clock.load(Ordering::SeqCst)));
    let model = Arc::new(Counted(calls.clone()));
    let dying = assistant(Arc::new(DyingStore::new(store.clone(), dies)), model.clone());
    let run = ask(&dying, "연차휴가는 며칠인가요?").await;
    // The second process may take over once the lease of the first has run out.
    drop(dying.outcome(&run).await);
    now.fetch_add(3_600_000, Ordering::SeqCst);
    let next = assistant(Arc::new(store), model);
    next.runtime().work().await.expect("takes over");
    let run = next.runtime().run(&run.key()).await.expect("known");
    assert!(matches!(next.outcome(&run).await, Ok(Outcome::Finished(_))), "{dies:?}");
    let state = next.state(&thread()).await.expect("state");
    assert_eq!(state.messages.len(), 2, "{dies:?}");
    (calls.load(Ordering::SeqCst), state.messages[1].id.to_string())
}

#[tokio::test]
async fn a_crash_repeats_the_model_call_only_while_it_is_in_flight() {
    let mut table = String::new();
    for commit in 1..=5 {
        for dies in [Dies::Before(commit), Dies::After(commit)] {
            let (calls, _) = calls_when_it(dies).await;
            writeln!(table, "{dies:?}: {calls}").expect("text");
        }
    }
    expect![[r#"
        Before(1): 1
        After(1): 1
        Before(2): 1
        After(2): 1
        Before(3): 2
        After(3): 1
        Before(4): 1
        After(4): 1
        Before(5): 1
        After(5): 1
    "#]]
    .assert_eq(&table);
}
