//! Ctrl-C in the middle of an answer: who presses it wants no answer any more, also not at the next start. And an answer
//! that is cut off by others.

#[cfg(target_os = "linux")]
use std::io::Read;
use std::io::Write;
use std::path::Path;
use std::process::Command;

#[cfg(target_os = "linux")]
use crate::mock_vendor::VendorReplyFn;
use crate::mock_vendor::{MockVendorReply, MockVendorServer, VendorCallKind};
#[cfg(target_os = "linux")]
use crate::program::spawn_in_terminal;
use crate::program::{ServerProcess, doran_command, fresh_directory, run_doran, utf8};

/// A vendor that is in the middle of its first answer until its client is gone.
fn vendor_that_hangs(here: &Path) -> MockVendorServer {
    let far = MockVendorServer::start(|_| MockVendorReply::Text("다시 물으신 답입니다.".into()));
    let settings = format!("model = \"openai-compatible:http://{}/v1#m\"\n", far.address);
    std::fs::write(here.join("doran.toml"), settings).expect("settings");
    far.hold_call(Some((VendorCallKind::Model, 1)));
    far
}

/// A vendor that says what it is about to do, calculates, and answers.
fn vendor_that_calculates(here: &Path, policy: &str) -> MockVendorServer {
    let far = MockVendorServer::start(|asked| {
        let last = asked["messages"].as_array().and_then(|messages| messages.last());
        if last.is_some_and(|last| last["role"] == "tool") {
            return MockVendorReply::Text("모두 45입니다.".into());
        }
        MockVendorReply::TextAndToolCall(
            "계산해 볼게요.",
            "calculator",
            serde_json::json!({ "expression": "15 * 3" }),
        )
    });
    let settings = format!(
        "model = \"openai-compatible:http://{}/v1#m\"\n[tools.policies]\ncalculator = \"{policy}\"\n",
        far.address
    );
    std::fs::write(here.join("doran.toml"), settings).expect("settings");
    far
}

/// Reads on until these words are on the screen, and returns what was shown.
#[cfg(target_os = "linux")]
fn wait_for_screen_text(screen: &mut impl Read, words: &str) -> String {
    let (mut seen, mut bytes) = (Vec::new(), [0; 1024]);
    while !seen.windows(words.len()).any(|shown| shown == words.as_bytes()) {
        let read = screen.read(&mut bytes).expect("a screen");
        assert!(read > 0, "it ended without `{words}`: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&bytes[..read]);
        // After this the program waits for another question, and nothing more is shown.
        let screen = String::from_utf8_lossy(&seen);
        assert!(!screen.contains("실행이 계속 기다립니다"), "the run was left alone: {screen}");
    }
    String::from_utf8_lossy(&seen).into_owned()
}

/// Waits until these words are shown and the program reads a line after them, and returns what was shown. Before that, a
/// key like Ctrl-D means nothing.
#[cfg(target_os = "linux")]
fn wait_for_prompt_after(screen: &mut impl Read, words: &str) -> String {
    let (mut seen, mut bytes) = (String::new(), [0; 1024]);
    let mut pending = Vec::new();
    while !seen.split_once(words).is_some_and(|(_, after)| after.contains("\u{1b}[?2004h")) {
        let read = screen.read(&mut bytes).expect("a screen");
        assert!(read > 0, "it ended without `{words}` and a prompt: {seen}");
        pending.extend_from_slice(&bytes[..read]);
        seen = String::from_utf8_lossy(&pending).into_owned();
    }
    seen
}

fn run_statuses(here: &Path) -> String {
    let listed = utf8(&run_doran(here, &["runs", "--json"], "").stdout);
    let status = |line: &str| {
        let run: serde_json::Value = serde_json::from_str(line).expect("JSON");
        run["status"].as_str().expect("a status").to_owned()
    };
    listed.lines().map(status).collect::<Vec<_>>().join(" ")
}

#[cfg(unix)]
#[test]
fn a_question_that_is_stopped_by_hand_is_over_and_one_that_the_system_stops_is_not() {
    for (signal, status) in [("-INT", "cancelled"), ("-TERM", "running")] {
        let here = fresh_directory(&format!("stops{signal}"));
        let far = vendor_that_hangs(&here);
        let child = doran_command(&here, &["ask", "--agent", "react", "안녕?"]).spawn().expect("it starts");
        far.wait_for_held_call();
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
        let output = child.wait_with_output().expect("it ends");
        let stderr = utf8(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("stopped"), "{stderr}");
        assert_eq!(run_statuses(&here), status);
    }
}

/// In a terminal, which the program `script` plays.
#[cfg(target_os = "linux")]
#[test]
fn an_answer_is_stopped_and_the_talk_goes_on() {
    for with_server in [false, true] {
        let here = fresh_directory(&format!("stops-talk-{with_server}"));
        let far = vendor_that_hangs(&here);
        let server = with_server.then(|| ServerProcess::start(&here, None));
        let Some(mut child) = spawn_in_terminal(&here, "chat --agent react --lang ko") else { return };
        let mut keys = child.stdin.take().expect("a pipe");
        let mut screen = child.stdout.take().expect("a pipe");
        keys.write_all("안녕?\n".as_bytes()).expect("typed");
        far.wait_for_held_call();
        // Ctrl-C, another question, and Ctrl-D.
        keys.write_all("\u{3}".as_bytes()).expect("typed");
        wait_for_prompt_after(&mut screen, "멈추었습니다");
        keys.write_all("다시?\r".as_bytes()).expect("typed");
        wait_for_prompt_after(&mut screen, "다시 물으신 답입니다.");
        keys.write_all("\u{4}".as_bytes()).expect("typed");
        assert!(child.wait().expect("it ends").success());
        assert_eq!(run_statuses(&here), "finished cancelled");
        drop(server);
    }
}

/// A mark whose other half has not come is held back. A person who stops the answer sees it.
#[cfg(target_os = "linux")]
#[test]
fn what_was_held_back_of_a_stopped_answer_is_shown() {
    let answers: [(char, VendorReplyFn); 2] = [
        ('*', |_| MockVendorReply::Text(format!("휴가 *{}*", "열다섯 날".repeat(40)))),
        ('[', |_| MockVendorReply::Text(format!("휴가 [{}]", "열다섯 날".repeat(40)))),
    ];
    for (mark, answer) in answers {
        let here = fresh_directory("stops-held-back");
        let far = MockVendorServer::start(answer);
        let settings = format!("model = \"openai-compatible:http://{}/v1#m\"\n", far.address);
        std::fs::write(here.join("doran.toml"), settings).expect("settings");
        far.hold_call(Some((VendorCallKind::Model, 1)));
        let Some(mut child) = spawn_in_terminal(&here, "chat --agent react --lang ko") else { return };
        let mut keys = child.stdin.take().expect("a pipe");
        let mut screen = child.stdout.take().expect("a pipe");
        keys.write_all("며칠?\n".as_bytes()).expect("typed");
        // The mark comes in the same piece as these letters.
        let before = wait_for_screen_text(&mut screen, "휴가 ");
        keys.write_all("\u{3}".as_bytes()).expect("typed");
        let shown = before + &wait_for_prompt_after(&mut screen, "멈추었습니다");
        let (answer, _) = shown.split_once("\r\n멈추었습니다").expect("a line of its own");
        assert!(answer.replace("^C", "").contains(&format!("휴가 {mark}")), "{shown:?}");
        keys.write_all("\u{4}".as_bytes()).expect("typed");
        assert!(child.wait().expect("it ends").success());
    }
}

/// Which of those who listen hears the key first must not matter, so it is pressed more than once.
#[cfg(target_os = "linux")]
#[test]
fn at_a_question_ctrl_c_stops_the_run_every_time() {
    let here = fresh_directory("stops-question");
    let _far = vendor_that_calculates(&here, "ask");
    for round in 0..6 {
        let args = format!("chat --agent react --lang ko --thread t{round}");
        let Some(mut child) = spawn_in_terminal(&here, &args) else { return };
        let mut keys = child.stdin.take().expect("a pipe");
        let mut screen = child.stdout.take().expect("a pipe");
        keys.write_all("15 * 3은?\n".as_bytes()).expect("typed");
        wait_for_screen_text(&mut screen, "[예/아니요] ");
        keys.write_all("\u{3}".as_bytes()).expect("typed");
        wait_for_prompt_after(&mut screen, "멈추었습니다");
        keys.write_all("\u{4}".as_bytes()).expect("typed");
        assert!(child.wait().expect("it ends").success());
    }
    assert_eq!(run_statuses(&here), ["cancelled"; 6].join(" "));
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_of_an_earlier_time_that_was_taken_up_is_stopped_like_any_other() {
    let here = fresh_directory("stops-taken-up");
    let far = vendor_that_calculates(&here, "ask");
    let asked = run_doran(&here, &["ask", "--agent", "react", "--thread", "a", "15 * 3은?"], "");
    assert_eq!(asked.status.code(), Some(1), "{}", utf8(&asked.stderr));
    far.hold_call(Some((VendorCallKind::Model, 1)));
    let Some(mut child) = spawn_in_terminal(&here, "chat --agent react --lang ko --thread a") else { return };
    let mut keys = child.stdin.take().expect("a pipe");
    let mut screen = child.stdout.take().expect("a pipe");
    wait_for_screen_text(&mut screen, "[예/아니요] ");
    keys.write_all("예\n".as_bytes()).expect("typed");
    far.wait_for_held_call();
    keys.write_all("\u{3}".as_bytes()).expect("typed");
    wait_for_prompt_after(&mut screen, "멈추었습니다");
    keys.write_all("\u{4}".as_bytes()).expect("typed");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(run_statuses(&here), "cancelled");
}

#[test]
fn what_a_model_says_before_a_tool_and_after_it_is_shown_once() {
    let here = fresh_directory("stops-twice");
    let _far = vendor_that_calculates(&here, "allow");
    let output = run_doran(&here, &["chat", "--agent", "react"], "15 * 3은?\n");
    assert_eq!(utf8(&output.stdout), "계산해 볼게요.\n\n모두 45입니다.\n", "{}", utf8(&output.stderr));
}

#[test]
fn a_client_whose_server_dies_sees_that_the_run_goes_on() {
    let here = fresh_directory("stops-server");
    let far = vendor_that_hangs(&here);
    let mut server = ServerProcess::start(&here, None);
    let args = ["ask", "--agent", "react", "--thread", "a", "--lang", "ko", "--json", "안녕?"];
    let child = doran_command(&here, &args).spawn().expect("it starts");
    far.wait_for_held_call();
    server.child.kill().expect("killed");
    let output = child.wait_with_output().expect("it ends");
    let (stdout, stderr) = (utf8(&output.stdout), utf8(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let told_json: serde_json::Value = serde_json::from_str(&stdout).expect("one object");
    assert_eq!(told_json["errorCode"], "stopping", "{stdout}");
    assert!(stderr.contains("연결이 끊겼습니다") && stderr.contains("다음 시작에서 이어집니다"), "{stderr}");
    drop(server);
    let _server = ServerProcess::start(&here, None);
    let again = run_doran(&here, &["ask", "--agent", "react", "--thread", "b", "안녕?"], "");
    assert!(again.status.success(), "{}", utf8(&again.stderr));
    let runs = run_statuses(&here);
    assert!(!runs.contains("cancelled") && !runs.contains("failed"), "{runs}");
}

#[test]
fn what_is_piped_in_beside_words_is_quoted_to_the_model_as_a_document() {
    let here = fresh_directory("stops-pipe");
    let far = MockVendorServer::start(|asked| MockVendorReply::Text(asked["messages"].to_string()));
    let settings = format!("model = \"openai-compatible:http://{}/v1#m\"\n", far.address);
    std::fs::write(here.join("doran.toml"), settings).expect("settings");
    let asked = |words: &[&str], input: &str| {
        let output = run_doran(&here, &[&["ask", "--agent", "react"], words].concat(), input);
        assert!(output.status.success(), "{}", utf8(&output.stderr));
        utf8(&output.stdout)
    };
    let both = asked(&["위약금은", "얼마?", "-"], "제1조 위약금은 10퍼센트로 한다.\n");
    let (typed, piped) = both.split_once("<data origin=").expect("quoted");
    assert!(typed.contains("위약금은 얼마?") && piped.contains("제1조 위약금은"), "{both}");
    let alone = asked(&["-"], "제2조는?\n");
    assert!(alone.contains("제2조는?") && !alone.contains("<data origin="), "{alone}");
    // Without `-` what happens to lie on standard input is not read.
    let words = asked(&["제3조는?"], "남의 글");
    assert!(words.contains("제3조는?") && !words.contains("남의 글"), "{words}");
}
