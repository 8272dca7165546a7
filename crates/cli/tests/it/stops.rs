//! Ctrl-C in the middle of an answer: who presses it wants no answer any more, also not at the next start.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::far_end::{FarEnd, Kind, Reply};
#[cfg(target_os = "linux")]
use crate::program::in_terminal;
use crate::program::{Server, doran, fresh, text, told};

/// A vendor that is in the middle of its first answer until whoever asked is gone.
fn halting(here: &Path) -> FarEnd {
    let far = FarEnd::start(|_| Reply::Words("다시 물으신 답입니다.".into()));
    let settings = format!("model = \"openai-compatible:http://{}/v1#m\"\n", far.address);
    std::fs::write(here.join("doran.toml"), settings).expect("settings");
    far.hold(Some((Kind::Model, 1)));
    far
}

fn statuses(here: &Path) -> String {
    let listed = text(&told(here, &["runs", "--json"], "").stdout);
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
        let here = fresh(&format!("stops{signal}"));
        let far = halting(&here);
        let child = doran(&here, &["ask", "--agent", "react", "안녕?"]).spawn().expect("it starts");
        far.wait_for_held();
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
        let output = child.wait_with_output().expect("it ends");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("stopped"), "{stderr}");
        assert_eq!(statuses(&here), status);
    }
}

/// In a terminal, which the program `script` plays.
#[cfg(target_os = "linux")]
#[test]
fn an_answer_is_stopped_and_the_talk_goes_on() {
    for with_server in [false, true] {
        let here = fresh(&format!("stops-talk-{with_server}"));
        let far = halting(&here);
        let server = with_server.then(|| Server::start(&here, None));
        let Some(mut child) = in_terminal(&here, "chat --agent react --lang ko") else { return };
        let mut keys = child.stdin.take().expect("a pipe");
        keys.write_all("안녕?\n".as_bytes()).expect("typed");
        far.wait_for_held();
        // Ctrl-C, another question, and Ctrl-D.
        keys.write_all("\u{3}".as_bytes()).expect("typed");
        keys.write_all("다시?\n\u{4}".as_bytes()).expect("typed");
        let shown = child.wait_with_output().expect("it ends");
        let screen = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.status.success(), "{}\n{screen}", shown.status);
        assert!(screen.contains("멈추었습니다") && screen.contains("다시 물으신 답입니다."), "{screen}");
        assert_eq!(statuses(&here), "finished cancelled", "{screen}");
        drop(server);
    }
}

#[test]
fn what_is_piped_in_beside_words_is_quoted_to_the_model_as_a_document() {
    let here = fresh("stops-pipe");
    let far = FarEnd::start(|asked| Reply::Words(asked["messages"].to_string()));
    let settings = format!("model = \"openai-compatible:http://{}/v1#m\"\n", far.address);
    std::fs::write(here.join("doran.toml"), settings).expect("settings");
    let asked = |words: &[&str], input: &str| {
        let output = told(&here, &[&["ask", "--agent", "react"], words].concat(), input);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
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
