//! `doran chat` through a pipe, and in a terminal.

use std::io::Write;

#[cfg(target_os = "linux")]
use crate::program::in_terminal;
use crate::program::{Server, fresh, text, told};

#[test]
fn the_next_process_remembers() {
    let here = fresh("chat");
    let first = told(&here, &["chat"], "내 이름은 김도란이야.\n연차휴가는 며칠인가요?\n");
    let stdout = text(&first.stdout);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(stdout.contains("이 대화에 적어 두었습니다: 이름 = 김도란.\n"), "{stdout}");
    assert!(
        stdout.contains("연차휴가 15일을 준다.\" [1]\n  [1] 휴가 규정 › 연차휴가  (samples/ko/휴가.md)\n"),
        "{stdout}"
    );
    let second = text(&told(&here, &["chat"], "\n내 이름이 뭐라고 했지?\n").stdout);
    assert!(second.starts_with("김도란입니다.") && second.matches("김도란입니다.").count() == 1, "{second}");
    let other = text(&told(&here, &["chat", "--thread", "다른 대화"], "내 이름이 뭐라고 했지?\n").stdout);
    assert!(!other.contains("김도란"), "{other}");
}

#[test]
fn a_second_process_asks_the_server_that_has_the_data() {
    let here = fresh("second");
    let server = Server::start(&here, None);
    let output = told(&here, &["chat"], "15 * 3\n/agent react\n7 * 8\n");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains(&format!("the server http://{} has the data directory", server.address)),
        "{stderr}"
    );
    assert!(stdout.contains("45") && stdout.contains("56"), "{stdout}");
    assert!(stderr.contains("calculator(15 * 3) = 45") && stderr.contains("asking react"), "{stderr}");
    let threads = text(&told(&here, &["threads"], "").stdout);
    assert!(threads.contains("main") && threads.contains("main-react"), "{threads}");
    let runs = text(&told(&here, &["runs", "--json"], "").stdout);
    assert_eq!(runs.matches("\"status\":\"finished\"").count(), 2, "{runs}");
    // What has no way over HTTP still says who has the data.
    let refused = told(&here, &["gc"], "");
    let stderr = text(&refused.stderr);
    let who = format!("the server http://{} is using the data directory", server.address);
    assert!(stderr.contains(&who) && !stderr.contains("kill"), "{stderr}");
}

#[test]
fn an_agent_that_does_not_exist_is_named() {
    let here = fresh("agent");
    let output = told(&here, &["chat", "--agent", "nobody"], "안녕?\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("`nobody`"), "{}", text(&output.stderr));
}

#[test]
fn a_person_is_asked_before_a_tool_and_a_failure_does_not_end_the_talk() {
    let here = fresh("approval");
    std::fs::write(here.join("doran.toml"), "[tools.policies]\ncalculator = \"ask\"\n").expect("written");
    let yes = told(&here, &["chat"], "15 * 3\ny\n");
    assert!(text(&yes.stdout).contains("45"), "{}", text(&yes.stdout));
    assert!(text(&yes.stderr).contains("May `calculator` be run with these arguments?\n  calculator {"));
    let no = told(&here, &["chat", "--thread", "no"], "15 * 3\nn\n연차휴가는 며칠인가요?\n");
    let stdout = text(&no.stdout);
    assert!(!stdout.contains("45") && stdout.contains("연차휴가 15일을 준다."), "{stdout}");
    let told_json = told(&here, &["ask", "--json", "15 * 4"], "");
    let json: serde_json::Value = serde_json::from_slice(&told_json.stdout).expect("one object");
    assert_eq!(json["errorCode"], "waits_for_approval", "{json}");
    assert_eq!(told_json.status.code(), Some(1));
}

#[test]
fn a_question_of_a_run_is_answered_by_a_later_process() {
    let here = fresh("later");
    std::fs::write(here.join("doran.toml"), "[tools.policies]\ncalculator = \"ask\"\n").expect("written");
    let asked = told(&here, &["ask", "--thread", "a", "15 * 3"], "");
    assert_eq!(asked.status.code(), Some(1));
    let stderr = text(&asked.stderr);
    assert!(stderr.contains("answer it with `doran chat --agent assistant --thread 'a'`"), "{stderr}");
    // Nobody answers: nothing is decided.
    let nobody = told(&here, &["chat", "--thread", "a"], "");
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains("the run goes on waiting"), "{}", text(&nobody.stderr));
    let yes = told(&here, &["chat", "--thread", "a"], "y\n");
    let (stdout, stderr) = (text(&yes.stdout), text(&yes.stderr));
    assert!(yes.status.success() && stdout.contains("45"), "{stdout}{stderr}");
    assert!(stderr.contains("May `calculator` be run with these arguments?\n  calculator {"), "{stderr}");
    // The same through a server.
    told(&here, &["ask", "--thread", "b", "15 * 4"], "");
    let _server = Server::start(&here, None);
    let yes = told(&here, &["chat", "--thread", "b"], "y\n");
    assert!(text(&yes.stdout).contains("60"), "{}{}", text(&yes.stdout), text(&yes.stderr));
}

/// In a terminal, which the program `script` plays, there is a prompt, and colours where they are wanted.
#[cfg(target_os = "linux")]
#[test]
fn in_a_terminal_it_greets_answers_and_ends_with_the_input() {
    let here = fresh("terminal");
    let Some(mut child) = in_terminal(&here, "chat --lang ko") else { return };
    let mut keys = child.stdin.take().expect("a pipe");
    // What is typed early waits in the terminal; the last key is Ctrl-D.
    keys.write_all("연차휴가는 며칠인가요?\n/help\n\u{4}".as_bytes()).expect("typed");
    let shown = child.wait_with_output().expect("it ends");
    let screen = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.success(), "{screen}");
    assert!(screen.contains("> ") && screen.contains("연차휴가 15일을 준다."), "{screen}");
    assert!(screen.contains("[1]\r\n· agent "), "a step stands on a line of its own: {screen}");
    assert!(screen.contains("/agent 이름") && screen.contains("지금은 assistant"), "{screen}");
    assert!(!screen.contains("panicked") && !screen.contains("tracing-subscriber"), "{screen}");
}
