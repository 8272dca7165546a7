//! `doran demo`.

use std::fs;
use std::net::TcpListener;

use crate::program::{fresh, text, told};

#[test]
fn the_demo_answers_cites_recalls_and_ends() {
    let here = fresh("demo");
    // The usual port may be taken by the test itself: the demo finds another.
    let _taken = TcpListener::bind("127.0.0.1:7979");
    let output = told(&here, &["demo", "--once", "--lang", "en"], "");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    let steady: Vec<&str> = stdout.lines().filter(|line| !line.contains(" ms")).collect();
    let steady = steady.join("\n");
    let data = here.join(".local/share/doran/doran.db");
    let head =
        format!("data: sqlite:{} (new)   model: offline-extractive-1 (built in, NOT an LLM", data.display());
    assert!(steady.contains(&head), "{steady}");
    for line in [
        "[1/4] Q: 육아휴직은 최대 얼마나 쓸 수 있나요?",
        "육아휴직은 자녀 한 명당 1년 이내로 하며",
        "[1] 휴가 규정 › 육아휴직  (samples/ko/휴가.md)",
        "[2/4] Q: When must receipts be uploaded?",
        "Upload every receipt within seven days of paying.",
        "(samples/en/handbook.md)",
        "A: 김도란입니다.",
        "4 runs, 8 steps, about ",
    ] {
        assert!(steady.contains(line), "{line}\n{steady}");
    }
    assert_eq!(
        stdout.lines().filter(|line| line.contains("retrieve ") && line.contains(" → call_model ")).count(),
        4
    );
    assert!(fs::metadata(&data).is_ok_and(|file| file.len() > 0));

    let listed = text(&told(&here, &["runs", "--json"], "").stdout);
    assert_eq!(listed.matches("\"status\":\"finished\"").count(), 4, "{listed}");
    let threads = text(&told(&here, &["threads"], "").stdout);
    assert!(threads.starts_with("demo-") && threads.lines().count() == 1, "{threads}");
}

#[test]
fn a_copy_of_the_database_is_a_database() {
    let here = fresh("backup");
    assert!(told(&here, &["chat"], "내 이름은 철수야.\n").status.success());
    let output = told(&here, &["backup", "copy.db"], "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let again = told(&here, &["backup", "copy.db"], "");
    assert_eq!(again.status.code(), Some(1), "a backup never replaces a file");
    let args = ["chat", "--database", "sqlite:copy.db", "--data-dir", "elsewhere"];
    let answer = told(&here, &args, "내 이름이 뭐야?\n");
    assert!(text(&answer.stdout).contains("철수입니다"), "{}", text(&answer.stderr));
    let swept = told(&here, &["gc", "--lang", "ko"], "");
    assert!(
        swept.status.success() && text(&swept.stderr).contains("지웠습니다: 대화 0"),
        "{}",
        text(&swept.stderr)
    );
}

#[test]
fn an_agent_is_drawn_without_making_anything() {
    let here = fresh("graph");
    let drawn = text(&told(&here, &["graph", "assistant"], "").stdout);
    assert!(drawn.starts_with("flowchart") && drawn.contains("[\"call_model\"]"), "{drawn}");
    let svg = text(&told(&here, &["graph", "assistant", "--format", "svg"], "").stdout);
    assert!(svg.starts_with("<svg") && svg.contains("call_model"), "{svg}");
    let unknown = told(&here, &["graph", "nobody"], "");
    assert!(text(&unknown.stderr).contains("there is no agent `nobody`; there are: assistant"));
    assert_eq!((unknown.status.code(), fs::read_dir(&here).expect("here").count()), (Some(1), 0));
}
