//! What is emitted of a run, whatever was seen of it live.

use doran_llm::Message;
use serde_json::json;

use super::*;

/// What happens in a run.
#[derive(Clone)]
enum Happening {
    Text(&'static str),
    Tool,
    Again,
    RunAgain,
    Step(Vec<TaskTranscript>),
}
use Happening::{Again, RunAgain, Step, Text, Tool};

fn tool_call() -> AgentActivity {
    AgentActivity::ToolCall { call: "a".into(), name: "clock".into(), arguments: json!({}) }
}

fn task(update: &Value, events: &[AgentActivity]) -> TaskTranscript {
    let notes = [("events".to_owned(), json!(events))].into();
    TaskTranscript::new("agent", update, &notes, &TurnUpdate::default()).expect("a task")
}

/// A step of the node with nothing on record.
fn silent_step() -> Happening {
    Step(vec![task(&json!({}), &[])])
}

fn update_with(id: &str, reply: &str) -> Value {
    json!({ "messages": [{ "put": Message::assistant(id, reply) }] })
}

/// A step that puts this reply on record.
fn reply_step(id: &str, reply: &str) -> Happening {
    Step(vec![task(&update_with(id, reply), &[])])
}

/// A step that called a tool and puts this reply on record.
fn tool_and_reply_step(id: &str, reply: &str) -> Happening {
    Step(vec![task(&update_with(id, reply), &[tool_call()])])
}

fn step_of_another_node() -> Happening {
    let notes = BTreeMap::new();
    let task = TaskTranscript::new("tools", &json!({}), &notes, &TurnUpdate::default()).expect("a task");
    Step(vec![task])
}

fn changes(happenings: &[Happening]) -> (TranscriptReducer, Vec<TranscriptChange>) {
    let mut reducer = TranscriptReducer::default();
    let mut changes = Vec::new();
    for happening in happenings {
        changes.extend(match happening.clone() {
            Text(words) => reducer.add_text("agent", words),
            Tool => reducer.add_activity("agent", tool_call()),
            Again => reducer.restart_node("agent"),
            RunAgain => reducer.restart_run(),
            Step(tasks) => reducer.add_step(tasks, false),
        });
    }
    (reducer, changes)
}

/// What a listener has read in the end.
fn read_text(changes: &[TranscriptChange]) -> String {
    let mut words = String::new();
    for change in changes {
        match change {
            TranscriptChange::Text(more) => words.push_str(more),
            TranscriptChange::Reset { kept } => words.clone_from(kept),
            TranscriptChange::Activity(_) => {}
        }
    }
    words
}

fn reduced_text(happenings: &[Happening], response: &str) -> String {
    let (mut reducer, mut changed) = changes(happenings);
    changed.extend(reducer.finish(response));
    read_text(&changed)
}

#[test]
fn words_end_the_same_whatever_was_seen_live() {
    let whole = "연차는 15일입니다. [1]";
    for seen in [vec![], vec!["연차는 "], vec!["연차는 ", "15일입니다. ", "[1]"], vec!["다른 말"]]
    {
        let live: Vec<Happening> = seen.iter().copied().map(Text).collect();
        for step in [silent_step(), reply_step("m", whole)] {
            let happened = [live.clone(), vec![step]].concat();
            assert_eq!(reduced_text(&happened, whole), whole, "{seen:?}");
        }
    }
    let before_a_tool = [Text("찾아보겠습니다. "), silent_step(), Text(whole)];
    assert_eq!(reduced_text(&before_a_tool, whole), format!("찾아보겠습니다. {whole}"));
}

#[test]
fn a_reply_on_record_is_emitted_at_its_step_and_once() {
    for before in [&[][..], &["하나 "], &["하나 ", "둘"]] {
        let mut happened: Vec<Happening> = before.iter().copied().map(Text).collect();
        happened.push(reply_step("m", "하나 둘"));
        let (_, changed) = changes(&happened);
        assert_eq!(read_text(&changed), "하나 둘", "{before:?}");
    }
}

#[test]
fn text_before_and_after_a_tool_call_is_emitted_once_for_every_reader() {
    let (first, whole) = ("시간을 확인해 볼게요.", "지금은 세 시입니다. 늦지 마세요.");
    for seen in [&[][..], &["시간을 "], &["시간을 ", "확인해 볼게요."]] {
        for heard in [&[][..], &["지금은 세"], &["지금은 세", " 시입니다. 늦지 마세요."]] {
            let mut happened: Vec<Happening> = seen.iter().copied().map(Text).collect();
            happened.extend([tool_and_reply_step("a", first), step_of_another_node()]);
            happened.extend(heard.iter().copied().map(Text));
            // A step of somebody else in between tells nothing again.
            happened.push(reply_step("b", whole));
            let (mut reducer, mut changed) = changes(&happened);
            changed.extend(reducer.finish(whole));
            let is_reset = |change: &TranscriptChange| matches!(change, TranscriptChange::Reset { .. });
            assert!(!changed.iter().any(is_reset), "{seen:?} {heard:?}: {changed:?}");
            assert_eq!(read_text(&changed), format!("{first}\n\n{whole}"), "{seen:?} {heard:?}");
        }
    }
}

#[test]
fn replies_of_one_step_are_separated_by_the_tools_between_them() {
    let last = || tool_and_reply_step("m", "세 시.");
    for (happened, expected) in [
        (vec![Text("확인해"), last()], "확인해…\n\n세 시."),
        (vec![Text("확인해요."), Tool, last()], "확인해요.\n\n세 시."),
        (vec![Text("확인해요."), Tool, Text("세"), last()], "확인해요.\n\n세 시."),
    ] {
        assert_eq!(reduced_text(&happened, "세 시."), expected);
    }
    let happened = [Text("확인해요."), Tool, Text("두"), Again, Text("확인해요."), Tool, Text("세 시.")];
    assert_eq!(
        reduced_text(&happened, "세 시."),
        "확인해요.\n\n세 시.",
        "a try that is void is void with its tools"
    );
}

#[test]
fn a_node_that_records_all_its_replies_tells_none_of_them_twice() {
    let update = json!({ "messages": [
        { "put": Message::assistant("a", "확인해요.") },
        { "put": Message::assistant("b", "세 시.") },
    ] });
    let step = Step(vec![task(&update, &[tool_call()])]);
    for live in [vec![], vec![Text("확인해요."), Tool], vec![Text("확인해요."), Tool, Text("세 ")]] {
        let happened = [live, vec![step.clone()]].concat();
        assert_eq!(reduced_text(&happened, "세 시."), "확인해요.\n\n세 시.");
    }
}

#[test]
fn a_reply_that_begins_anew_does_not_unsay_the_one_before_it() {
    for again in [Again, RunAgain] {
        let happened = [
            Text("확인해 볼게요. "),
            reply_step("a", "확인해 볼게요. "),
            Text("지금은 세"),
            again,
            Text("지금은 네 시입니다."),
        ];
        let (_, changed) = changes(&happened);
        let reset = TranscriptChange::Reset { kept: "확인해 볼게요. ".into() };
        assert!(changed.contains(&reset), "{changed:?}");
        assert_eq!(reduced_text(&happened, "지금은 네 시입니다."), "확인해 볼게요. 지금은 네 시입니다.");
    }
}

#[test]
fn an_answer_that_is_shortened_for_later_turns_is_still_shown_whole() {
    let whole = "아주 긴 답 [1]";
    let happened = [reply_step("m", whole), reply_step("m", "아주 […]")];
    assert_eq!(reduced_text(&happened, whole), whole);
}

#[test]
fn an_update_that_only_rewrites_messages_says_nothing() {
    let turn = TurnUpdate { rewrites_messages: true, ..TurnUpdate::default() };
    let update = update_with("of an earlier turn", "예전 답 […]");
    let rewritten = TaskTranscript::new("agent", &update, &BTreeMap::new(), &turn).expect("a task");
    let happened = [reply_step("m", "새 답"), Step(vec![rewritten])];
    assert_eq!(reduced_text(&happened, "새 답"), "새 답");
}

#[test]
fn activities_are_emitted_once() {
    let step = |activity: &AgentActivity| Step(vec![task(&json!({}), std::slice::from_ref(activity))]);
    let told_of = |happened: &[Happening]| changes(happened).1;
    let expected = [TranscriptChange::Activity(tool_call())];
    assert_eq!(told_of(&[Tool]), expected);
    assert_eq!(told_of(&[Tool, step(&tool_call())]), expected);
    assert_eq!(told_of(&[step(&tool_call())]), expected);
    let later = AgentActivity::Unknown(json!({ "type": "of a later version" }));
    assert_eq!(told_of(&[step(&later)]), [TranscriptChange::Activity(later)]);
}

#[test]
fn notes_that_cannot_be_read_are_an_error_and_not_silence() {
    let notes = [("events".to_owned(), json!("no list"))].into();
    assert!(TaskTranscript::new("agent", &json!({}), &notes, &TurnUpdate::default()).is_err());
    let read = |update| TaskTranscript::new("agent", &update, &BTreeMap::new(), &TurnUpdate::default());
    let message = json!({ "id": "m", "role": "assistant", "parts": "no list" });
    assert!(read(json!({ "messages": [{ "put": message }] })).is_err());
    // A graph of somebody's own may call anything so.
    assert!(read(json!({ "messages": "no changes" })).is_ok_and(|task| task.replies.is_empty()));
}
