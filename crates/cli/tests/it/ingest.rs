//! `doran ingest` and `doran search`.

use std::fs;
use std::path::Path;

use crate::program::{fresh, text, told};

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../agents/samples");

/// Whether the machine can read files in isolation. Without it nothing is read, and that is said.
fn has_jail(stdout: &str) -> bool {
    let missing = stdout.contains("\"failure\":\"no_jail\"");
    assert!(!missing || std::env::var_os("DORAN_REQUIRE_PARTS").is_none(), "no jail here");
    if missing {
        eprintln!("SKIPPED: no jail on this machine / 이 기계에서는 격리할 수 없음");
    }
    !missing
}

#[test]
fn files_are_taken_in_found_and_answered_from() {
    let here = fresh("ingest");
    let folder = here.join("규정");
    fs::create_dir_all(folder.join("안")).expect("a directory");
    fs::write(folder.join("주차.md"), "# 주차 규정\n\n방문 차량의 주차는 세 시간까지 무료이다.\n")
        .expect("a file");
    fs::copy(Path::new(SAMPLES).join("ko/복리후생.hwpx"), folder.join("안/복지.hwpx")).expect("a file");
    fs::write(folder.join("깨짐.docx"), "PK\u{3}\u{4}nothing").expect("a file");
    fs::write(folder.join(".숨김.md"), "숨은 글").expect("a file");

    let output = told(&here, &["ingest", "규정", "--json", "--lang", "ko"], "");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    if !has_jail(&stdout) {
        return;
    }
    assert!(output.status.success(), "{stdout}{stderr}");
    let line = |name: &str| {
        stdout.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {stdout}"))
    };
    assert!(
        line("주차.md").contains("\"state\":\"ready\"")
            && line("주차.md").contains("\"title\":\"주차 규정\""),
        "{stdout}"
    );
    assert!(line("안/복지.hwpx").contains("\"title\":\"복리후생 규정\""), "{stdout}");
    assert!(
        line("깨짐.docx").contains("\"failure\":\"corrupt\"") && line("깨짐.docx").contains("손상"),
        "{stdout}"
    );
    assert_eq!(stdout.lines().count(), 3, "{stdout}");
    assert!(stderr.contains("문서 2개를 찾을 수 있습니다") && stderr.contains("실패 1개"), "{stderr}");

    let found = text(&told(&here, &["search", "방문 차량 주차"], "").stdout);
    assert!(found.starts_with("1  ") && found.contains("주차 규정"), "{found}");
    assert!(found.contains("«방문» «차량»의 «주차»는 세 시간까지 무료이다."), "{found}");
    for store in ["local", "faiss", "memory"] {
        let same = text(&told(&here, &["search", "방문 차량 주차", "--store", store], "").stdout);
        assert_eq!(same, found, "{store}");
    }
    let anew = told(&here, &["reindex", "--lang", "en"], "");
    assert!(text(&anew.stderr).contains("made anew: 2 documents"), "{}", text(&anew.stderr));
    assert_eq!(text(&told(&here, &["search", "방문 차량 주차"], "").stdout), found, "after `reindex`");
    let missing = told(&here, &["search", "주차", "--encoder", "nowhere", "--lang", "ko"], "");
    assert!(
        text(&missing.stderr).contains("doran models install use-multilingual"),
        "{}",
        text(&missing.stderr)
    );
    let nowhere = told(&here, &["search", "주차", "--store", "opensearch", "--lang", "en"], "");
    assert!(text(&nowhere.stderr).contains("the address of OpenSearch is missing"));
    let answer = told(&here, &["chat"], "방문 차량은 주차가 몇 시간까지 무료인가요?\n");
    assert!(text(&answer.stdout).contains("세 시간까지 무료"), "{}", text(&answer.stdout));

    let nothing = told(&here, &["search", "xyzzy", "--lang", "en"], "");
    assert!(nothing.stdout.is_empty() && text(&nothing.stderr).contains("no passage fits `xyzzy`"));
    let missing = told(&here, &["ingest", "없는 파일", "--lang", "en"], "");
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("cannot read `없는 파일`"), "{}", text(&missing.stderr));
}
