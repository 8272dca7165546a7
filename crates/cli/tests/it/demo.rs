//! `doran demo`.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use crate::program::{fresh_directory, run_doran, utf8};

#[test]
fn the_demo_reads_files_answers_cites_calculates_and_ends() {
    let here = fresh_directory("demo");
    // The usual port may be taken by the test itself: the demo finds another. An image listens on every address; a demo
    // that ends needs no keys there.
    let _taken = TcpListener::bind("127.0.0.1:7979");
    let output = run_doran(&here, &["demo", "--once", "--lang", "ko", "--listen", "0.0.0.0:7979"], "");
    let (stdout, stderr) = (utf8(&output.stdout), utf8(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    let data = here.join(".local/share/doran/demo/doran.db");
    let head =
        format!("데이터: sqlite:{} (새로 만듦)   모델: offline-extractive-2 (내장, LLM 아님", data.display());
    for line in [
        head.as_str(),
        "[1/5] 문서 넣기  예시 규정과 계약서 ",
        "[2/5] assistant  Q: 육아휴직은 최대 얼마나 쓸 수 있나요?\n      router → rag → memory → agent\n",
        "육아휴직은 자녀 한 명당 1년 이내로 하며",
        "[1] 휴가 규정 › 육아휴직  (예시 문서)",
        "[3/5] docqa  Q: 모니터는 몇 년마다 교체하나요?",
        "6년",
        "[4/5] contract  Q: 계약을 해지하려면 며칠 전에 알려야 하나요?",
        "→ planner → executor → evaluator → respond",
        "② 갑은 30일 전에 서면으로 알리고 언제든지 계약을 해지할 수 있다.",
        "[5/5] react  Q: ",
        "      calculator(15 - 6.5) = 8.5\n      A: 계산 결과: 8.5",
        "실행 4번, ",
        "비용 0원",
    ] {
        assert!(stdout.contains(line), "{line}\n{stdout}");
    }
    if stdout.contains(" 12/12개") {
        assert!(stdout.contains("ko/휴가.md") && stdout.contains("ko/자산.pdf"), "{stdout}");
    } else {
        assert!(std::env::var_os("DORAN_REQUIRE_PARTS").is_none(), "no jail here: {stderr}");
        eprintln!("SKIPPED: no jail on this machine / 이 기계에서는 격리할 수 없음");
    }
    assert!(fs::metadata(&data).is_ok_and(|file| file.len() > 0));

    let place = data.parent().and_then(|path| path.to_str()).expect("a path");
    let listed = utf8(&run_doran(&here, &["runs", "--json", "--data-dir", place], "").stdout);
    assert_eq!(listed.matches("\"status\":\"finished\"").count(), 4, "{listed}");
    let threads = utf8(&run_doran(&here, &["threads", "--data-dir", place], "").stdout);
    assert!(
        threads.lines().count() == 4 && threads.lines().all(|line| line.starts_with("demo-")),
        "{threads}"
    );
    // None of it is among one's own threads and documents.
    for command in [&["threads"][..], &["documents", "list"]] {
        assert!(run_doran(&here, command, "").stdout.is_empty(), "{command:?}");
    }
}

#[test]
fn the_readmes_show_what_the_demo_prints() {
    for (readme, language) in [("README.md", "en"), ("README.ko.md", "ko")] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(readme))
            .expect(readme);
        let shown =
            text.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
        let output = run_doran(&fresh_directory(language), &["demo", "--once", "--lang", language], "");
        let printed = utf8(&output.stdout);
        // An ellipsis in the README stands for the rest of a line.
        for line in shown.lines().map(|line| line.split('…').next().unwrap_or_default()) {
            assert!(printed.contains(line), "{readme} shows\n{line}\nbut the demo prints\n{printed}");
        }
    }
}

#[test]
fn what_was_removed_is_reported() {
    let here = fresh_directory("gc");
    assert!(run_doran(&here, &["chat"], "안녕하세요\n").status.success());
    let swept = run_doran(&here, &["gc", "--lang", "ko"], "");
    assert!(
        swept.status.success() && utf8(&swept.stderr).contains("지웠습니다: 대화 0"),
        "{}",
        utf8(&swept.stderr)
    );
}

#[test]
fn an_agent_is_drawn_without_making_anything() {
    let here = fresh_directory("graph");
    let drawn = utf8(&run_doran(&here, &["graph", "assistant"], "").stdout);
    assert!(drawn.starts_with("flowchart") && drawn.contains("router"), "{drawn}");
    let svg = utf8(&run_doran(&here, &["graph", "assistant", "--format", "svg"], "").stdout);
    assert!(svg.starts_with("<svg") && svg.contains("router"), "{svg}");
    let unknown = run_doran(&here, &["graph", "nobody"], "");
    assert!(utf8(&unknown.stderr).contains("there is no agent `nobody`; there are: assistant"));
    assert_eq!((unknown.status.code(), fs::read_dir(&here).expect("here").count()), (Some(1), 0));
}
