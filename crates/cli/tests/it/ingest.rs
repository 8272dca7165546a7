//! `doran ingest` and `doran search`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{doran_command, fresh_directory, run_doran, utf8};

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../agents/samples");

/// Whether the machine can read files in isolation. Without it nothing is read, and a line says so.
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
    let here = fresh_directory("ingest");
    let folder = here.join("규정");
    fs::create_dir_all(folder.join("안")).expect("a directory");
    fs::write(folder.join("주차.md"), "# 주차 규정\n\n방문 차량의 주차는 세 시간까지 무료이다.\n")
        .expect("a file");
    fs::copy(Path::new(SAMPLES).join("ko/복리후생.hwpx"), folder.join("안/복지.hwpx")).expect("a file");
    fs::write(folder.join("깨짐.docx"), "PK\u{3}\u{4}nothing").expect("a file");
    fs::write(folder.join(".숨김.md"), "숨은 글").expect("a file");
    fs::write(folder.join("~$보고서.docx"), "\u{6}Kim").expect("a file");

    let output = run_doran(&here, &["ingest", "규정", "--json", "--lang", "ko"], "");
    let (stdout, stderr) = (utf8(&output.stdout), utf8(&output.stderr));
    if !has_jail(&stdout) {
        return;
    }
    assert_eq!(output.status.code(), Some(1), "one file could not be read: {stdout}{stderr}");
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
    assert!(stderr.contains("임시 파일이라 건너뛰었습니다") && stderr.contains("규정/.숨김.md"), "{stderr}");
    assert!(stderr.contains("규정/~$보고서.docx"), "{stderr}");
    assert!(stderr.contains("예시 문서는 더 찾지 않습니다"), "{stderr}");

    let found = utf8(&run_doran(&here, &["search", "방문 차량 주차"], "").stdout);
    assert!(found.starts_with("1  ") && found.contains("주차 규정"), "{found}");
    assert!(found.contains("«방문» «차량»의 «주차»는 세 시간까지 무료이다."), "{found}");
    for store in ["local", "faiss", "memory"] {
        let same = utf8(&run_doran(&here, &["search", "방문 차량 주차", "--store", store], "").stdout);
        // The scores differ: the store `memory` has no vectors.
        let without_scores = |text: &str| -> Vec<String> {
            text.lines().filter_map(|line| line.rsplit("  ").next()).map(str::to_owned).collect()
        };
        assert_eq!(without_scores(&same), without_scores(&found), "{store}");
    }
    let anew = run_doran(&here, &["reindex", "--lang", "en"], "");
    assert!(utf8(&anew.stderr).contains("made anew: 2 documents"), "{}", utf8(&anew.stderr));
    assert_eq!(utf8(&run_doran(&here, &["search", "방문 차량 주차"], "").stdout), found, "after `reindex`");
    let missing = run_doran(&here, &["search", "주차", "--encoder", "nowhere", "--lang", "ko"], "");
    assert!(
        utf8(&missing.stderr).contains("doran models install use-multilingual"),
        "{}",
        utf8(&missing.stderr)
    );
    let nowhere = run_doran(&here, &["search", "주차", "--store", "opensearch", "--lang", "en"], "");
    assert!(utf8(&nowhere.stderr).contains("the address of OpenSearch is missing"));
    let answer = run_doran(&here, &["chat"], "방문 차량은 주차가 몇 시간까지 무료인가요?\n");
    assert!(utf8(&answer.stdout).contains("세 시간까지 무료"), "{}", utf8(&answer.stdout));

    let nothing = run_doran(&here, &["search", "xyzzy", "--lang", "en"], "");
    assert!(nothing.stdout.is_empty() && utf8(&nothing.stderr).contains("no passage fits `xyzzy`"));
    for (filter, value, why) in [
        ("--document", "no-id", "there is no document `no-id`"),
        ("--collection", "nowhere", "there is no collection `nowhere`"),
        ("--limit", "0", "invalid value '0' for '--limit <N>'"),
    ] {
        let refused = run_doran(&here, &["search", "주차", filter, value, "--lang", "en"], "");
        assert!(
            !refused.status.success() && utf8(&refused.stderr).contains(why),
            "{}",
            utf8(&refused.stderr)
        );
    }
    let empty = run_doran(&here, &["search", " ", "--lang", "en"], "");
    assert!(utf8(&empty.stderr).contains("the search query is empty"), "{}", utf8(&empty.stderr));
    let missing = run_doran(&here, &["ingest", "없는 파일", "--lang", "en"], "");
    assert_eq!(missing.status.code(), Some(1));
    assert!(utf8(&missing.stderr).contains("cannot read `없는 파일`"), "{}", utf8(&missing.stderr));
}

fn write_file(path: &Path, words: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, words).expect("a file");
}

/// The names of what the library holds, with the state of each.
fn list_documents(here: &Path) -> Vec<String> {
    let output = run_doran(here, &["documents", "list", "--json"], "");
    assert!(output.status.success(), "{}", utf8(&output.stderr));
    let line = |line: &str| {
        let about: serde_json::Value = serde_json::from_str(line).expect("JSON");
        format!("{} {}", about["name"].as_str().expect("a name"), about["state"].as_str().expect("a state"))
    };
    let mut all: Vec<String> = utf8(&output.stdout).lines().map(line).collect();
    all.sort();
    all
}

#[test]
fn two_files_of_one_name_are_two_documents_and_one_file_is_one() {
    let here = fresh_directory("ingest-names");
    write_file(&here.join("가/규정.md"), "알파팀은 여름에 닷새를 쉰다.");
    write_file(&here.join("나/규정.md"), "베타팀은 여름에 이틀을 쉰다.");
    write_file(&here.join("나/깊은 곳/표.md"), "표는 여기에 있다.");
    let output = run_doran(&here, &["ingest", "가", "나", "--json", "--lang", "ko"], "");
    if !has_jail(&utf8(&output.stdout)) {
        return;
    }
    assert!(utf8(&output.stderr).contains("문서 3개를 찾을 수 있습니다"), "{}", utf8(&output.stderr));
    let all = ["가/규정.md ready", "깊은 곳/표.md ready", "나/규정.md ready"];
    assert_eq!(list_documents(&here), all);
    for team in ["알파팀", "베타팀"] {
        let found = utf8(&run_doran(&here, &["search", team, "여름"], "").stdout);
        assert!(found.contains(team), "several words are one question: {found}");
    }
    // However a file is pointed at, it is the document it was.
    for paths in [["나/깊은 곳", "가/규정.md"], ["나/깊은 곳/표.md", "."], ["나", "가"]] {
        assert!(run_doran(&here, &[&["ingest"], &paths[..]].concat(), "").status.success());
        assert_eq!(list_documents(&here), all, "{paths:?}");
    }
    // A file by itself keeps its short name, and one that comes later leaves it alone.
    write_file(&here.join("2025/표준.md"), "표준은 하나다.");
    write_file(&here.join("2026/표준.md"), "표준은 둘이다.");
    run_doran(&here, &["ingest", "2025/표준.md"], "");
    run_doran(&here, &["ingest", "2026/표준.md"], "");
    let names = list_documents(&here);
    assert!(
        names.contains(&"표준.md ready".into()) && names.contains(&"2026/표준.md ready".into()),
        "{names:?}"
    );
    // One that was moved is the same document.
    fs::rename(here.join("2025"), here.join("보관")).expect("moved");
    run_doran(&here, &["ingest", "보관"], "");
    assert_eq!(list_documents(&here), names);
}

#[test]
fn what_is_gone_from_a_folder_is_listed_and_can_be_deleted() {
    let here = fresh_directory("ingest-gone");
    write_file(&here.join("규정/남음.md"), "남는 규정이다.");
    write_file(&here.join("규정/폐지.md"), "폐지될 규정이다.");
    let output = run_doran(&here, &["ingest", "규정", "--json", "--kind", "contract"], "");
    if !has_jail(&utf8(&output.stdout)) {
        return;
    }
    fs::remove_file(here.join("규정/폐지.md")).expect("removed");
    for (language, words) in [("ko", "이제 그 폴더에 없지만"), ("en", "is not in its folder any more")]
    {
        let lines =
            utf8(&run_doran(&here, &["ingest", "규정", "--kind", "contract", "--lang", language], "").stderr);
        let line = lines.lines().find(|line| line.contains("폐지.md")).unwrap_or_default().to_owned();
        assert!(line.contains(words) && line.contains("doran documents delete "), "{lines}");
    }
    let search =
        |flags: &[&str]| utf8(&run_doran(&here, &[&["search", "규정이다"], flags].concat(), "").stdout);
    assert!(search(&["--kind", "general"]).is_empty());
    assert!(search(&["--kind", "contract"]).contains("폐지"));
    assert!(search(&["--document", "0000"]).is_empty());

    let unknown = run_doran(&here, &["documents", "delete", "폐지.md", "없음.md", "--lang", "en"], "");
    assert_eq!(unknown.status.code(), Some(1));
    assert!(utf8(&unknown.stderr).contains("there is no document `없음.md`"), "{}", utf8(&unknown.stderr));
    assert_eq!(list_documents(&here).len(), 2, "nothing is done where something is unknown");
    for change in ["pause", "cancel"] {
        let ready = run_doran(&here, &["documents", change, "폐지.md", "--lang", "en"], "");
        let error = utf8(&ready.stderr);
        assert!(ready.status.code() == Some(1) && error.contains("`폐지.md` is ready"), "{change}: {error}");
        assert!(ready.stdout.is_empty(), "{}", utf8(&ready.stdout));
    }
    let deleted = run_doran(&here, &["documents", "delete", "폐지.md", "--lang", "ko"], "");
    assert!(utf8(&deleted.stderr).contains("지웠습니다: 폐지.md"), "{}", utf8(&deleted.stderr));
    assert_eq!(list_documents(&here), ["남음.md ready"]);
    assert!(!search(&[]).contains("폐지"));
    let quiet = utf8(&run_doran(&here, &["ingest", "규정"], "").stderr);
    assert!(!quiet.contains("폐지.md"), "{quiet}");
}

#[test]
fn one_file_that_cannot_be_read_stops_nobody() {
    let here = fresh_directory("ingest-unreadable");
    write_file(&here.join("글/하나.md"), "하나를 적는다.");
    write_file(&here.join("글/빈.md"), "");
    let large = fs::File::create(here.join("글/큰.md")).expect("a file");
    large.set_len(8 << 30).expect("a long file that takes no room");
    let output =
        run_doran(&here, &["ingest", "글", "/proc/self/mem", "없음.md", "--json", "--lang", "en"], "");
    let (stdout, stderr) = (utf8(&output.stdout), utf8(&output.stderr));
    if !has_jail(&stdout) {
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stdout.lines().count() == 1 && stdout.contains("\"state\":\"ready\""), "{stdout}");
    for wrong in [
        "cannot read `없음.md`",
        "cannot read `/proc/self/mem`",
        "빈.md` was not taken",
        "큰.md` was not taken: the file has 8589934592 bytes",
    ] {
        assert!(stderr.contains(wrong), "{wrong}: {stderr}");
    }
    assert!(stderr.contains("1 document can be found (1 passage), 4 failed"), "{stderr}");
}

/// Waits until a search finds these words, or finds them no more: a server lets the samples go beside its other work.
fn wait_until_found(here: &Path, words: &str, is_found: bool) {
    let since = std::time::Instant::now();
    while utf8(&run_doran(here, &["search", words], "").stdout).contains(words) != is_found {
        assert!(since.elapsed().as_secs() < 60, "the samples did not follow");
    }
}

#[test]
fn documents_are_taken_in_listed_and_found_through_a_running_server() {
    let here = fresh_directory("ingest-served");
    write_file(
        &here.join("가/규정.md"),
        "# 주차 규정\n\n제1조(요금) 방문 차량의 주차는 세 시간까지 무료이다.\n",
    );
    write_file(&here.join("나/규정.md"), "# 식당 규정\n\n점심은 열두 시에 먹는다.\n");
    write_file(&here.join("나/빈.md"), "");
    let server = crate::program::ServerProcess::start(&here, None);
    let first = run_doran(&here, &["ingest", "가/규정.md", "--kind", "contract", "--json"], "");
    let stdout = utf8(&first.stdout);
    if !has_jail(&stdout) {
        return;
    }
    assert!(first.status.success(), "{stdout}{}", utf8(&first.stderr));
    assert!(stdout.contains("\"state\":\"ready\"") && stdout.lines().count() == 1, "{stdout}");
    let second = run_doran(&here, &["ingest", "나", "--lang", "en"], "");
    let stderr = utf8(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("빈.md` was not taken") && stderr.contains("1 document can be found"),
        "{stderr}"
    );
    // Another file of the name does not take the place of the first; the same file keeps the name it has.
    for paths in [&["나/규정.md"][..], &["가", "--kind", "contract"]] {
        let again = run_doran(&here, &[&["ingest"], paths].concat(), "");
        assert!(again.status.success(), "{}", utf8(&again.stderr));
    }
    wait_until_found(&here, "육아휴직", false);
    let mut listed = list_documents(&here);
    listed.sort();
    assert_eq!(listed, ["규정.md ready", "나/규정.md ready"]);

    let flags: [&[&str]; 5] =
        [&[], &["--json"], &["--kind", "contract"], &["--kind", "general"], &["--document", "0000"]];
    let search = |words: &str| {
        flags.map(|flags| utf8(&run_doran(&here, &[&["search", words], flags].concat(), "").stdout))
    };
    let by_server = search("제1조 방문 차량 점심");
    assert!(by_server[0].contains("주차 규정") && by_server[0].contains("식당 규정"), "{by_server:?}");
    assert!(by_server[2].contains("주차") && !by_server[2].contains("식당"), "{by_server:?}");
    assert!(by_server[3].contains("식당") && !by_server[3].contains("주차") && by_server[4].is_empty());
    drop(server);
    assert_eq!(search("제1조 방문 차량 점심"), by_server, "a server finds what is found without one");
}

#[test]
fn samples_go_when_the_first_document_is_there_and_a_restart_changes_nothing() {
    let here = fresh_directory("ingest-samples");
    write_file(&here.join("점심.md"), "# 점심 규정\n\n점심시간은 열두 시부터이다.\n");
    let server = crate::program::ServerProcess::start(&here, None);
    let found = || utf8(&run_doran(&here, &["search", "육아휴직", "--lang", "en"], "").stdout);
    assert!(found().contains("육아휴직"));
    let taken = run_doran(&here, &["ingest", "점심.md", "--json"], "");
    if !has_jail(&utf8(&taken.stdout)) {
        return;
    }
    wait_until_found(&here, "육아휴직", false);
    drop(server);
    assert!(!found().contains("육아휴직"), "without the server it is the same");
    let server = crate::program::ServerProcess::start(&here, None);
    assert!(!found().contains("육아휴직"), "after a restart it is the same");
    run_doran(&here, &["documents", "delete", "점심.md"], "");
    wait_until_found(&here, "육아휴직", true);
    drop(server);
    let alone = run_doran(&here, &["ingest", "점심.md", "--lang", "en"], "");
    assert!(
        utf8(&alone.stderr).contains("the sample documents are not searched any more"),
        "{}",
        utf8(&alone.stderr)
    );
    let deleted = run_doran(&here, &["documents", "delete", "점심.md", "--lang", "en"], "");
    assert!(utf8(&deleted.stderr).contains("from the sample documents again"), "{}", utf8(&deleted.stderr));
}

#[test]
#[cfg(unix)]
fn links_in_a_folder_are_left_out_and_named() {
    let here = fresh_directory("ingest-links");
    write_file(&here.join("글/하나.md"), "하나를 적는다.");
    write_file(&here.join("밖.md"), "밖에 있다.");
    std::os::unix::fs::symlink(here.join("밖.md"), here.join("글/링크.md")).expect("a link");
    let output = run_doran(&here, &["ingest", "글", "--json", "--lang", "en"], "");
    if !has_jail(&utf8(&output.stdout)) {
        return;
    }
    assert!(output.status.success(), "{}", utf8(&output.stderr));
    assert!(
        utf8(&output.stderr).contains("left out, because links; name one itself to take it in: `글/링크.md`")
    );
    assert_eq!(utf8(&output.stdout).lines().count(), 1);
}

#[test]
#[cfg(target_os = "linux")]
fn the_name_of_a_file_commands_no_terminal() {
    let here = fresh_directory("ingest-escapes");
    write_file(&here.join("글/a\u{1b}]0;제목\u{7}\u{1b}[2Jb.md"), "하나를 적는다.");
    let output = run_doran(&here, &["ingest", "글", "--json"], "");
    if !has_jail(&utf8(&output.stdout)) {
        return;
    }
    assert!(output.status.success(), "{}", utf8(&output.stderr));
    let Some(child) = crate::program::spawn_in_terminal(&here, "documents list") else { return };
    let shown = child.wait_with_output().expect("it ends");
    let screen = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(screen.contains("a]0;제목[2Jb.md"), "{screen:?}");
    assert!(!screen.contains('\u{1b}') && !screen.contains('\u{7}'), "{screen:?}");
    let piped = utf8(&run_doran(&here, &["documents", "list"], "").stdout);
    assert!(piped.contains("\u{1b}[2J"), "a program gets the name as it is: {piped:?}");
}

/// The record of the only document.
fn find_record_file(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    entries.into_iter().find_map(|path| match path.is_dir() {
        true => find_record_file(&path),
        false => path.file_name().is_some_and(|name| name == "record.json").then_some(path),
    })
}

#[test]
fn short_commands_leave_what_waits_as_it_is_and_say_so() {
    let here = fresh_directory("ingest-waits");
    write_file(&here.join("글.md"), "펭귄은 남쪽에 산다.");
    let data = here.join("data");
    let at = ["--data-dir", data.to_str().expect("a path")];
    let first = run_doran(&here, &[&["ingest", "글.md", "--json"], &at[..]].concat(), "");
    if !has_jail(&utf8(&first.stdout)) {
        return;
    }
    // As a kill in mid reading leaves it.
    let path = find_record_file(&data).expect("a record");
    let mut kept: serde_json::Value = serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
    kept["incoming"] = serde_json::json!({ "hash": kept["ready"]["hash"], "bytes": kept["ready"]["bytes"] });
    kept["state"] = "reading".into();
    kept["attempts"] = 1.into();
    kept["ready"] = serde_json::Value::Null;
    fs::write(&path, kept.to_string()).expect("written");
    let left = fs::read(&path).expect("read");
    for round in 0..6 {
        let command: &[&str] =
            if round % 2 == 0 { &["search", "펭귄"] } else { &["ask", "펭귄은 어디에 사나요?"] };
        let output = run_doran(&here, &[command, &at[..], &["--lang", "ko"]].concat(), "");
        assert!(utf8(&output.stderr).contains("문서 1개를 아직 읽지 않아"), "{}", utf8(&output.stderr));
        assert_eq!(fs::read(&path).expect("read"), left, "{command:?} changed what is kept of it");
    }
    let read = run_doran(&here, &[&["documents", "read", "--lang", "en"], &at[..]].concat(), "");
    assert!(utf8(&read.stderr).contains("1 document can be found"), "{}", utf8(&read.stderr));
    let found = doran_command(&here, &[&["search", "펭귄", "--lang", "en"], &at[..]].concat())
        .output()
        .expect("it ends");
    assert!(utf8(&found.stdout).contains("남쪽") && !utf8(&found.stderr).contains("not read yet"));
}

#[test]
fn a_missing_file_of_the_index_heals_by_itself() {
    let here = fresh_directory("ingest-part");
    write_file(&here.join("글.md"), "펭귄은 남쪽에 산다.");
    let data = here.join("data");
    let at = ["--data-dir", data.to_str().expect("a path")];
    let first = run_doran(&here, &[&["ingest", "글.md", "--json"], &at[..]].concat(), "");
    if !has_jail(&utf8(&first.stdout)) {
        return;
    }
    let parts = |entry: std::io::Result<fs::DirEntry>| {
        Some(entry.ok()?.path()).filter(|path| path.extension().is_some_and(|end| end == "part"))
    };
    let inside =
        fs::read_dir(data.join("search")).expect("an index").filter_map(|entry| Some(entry.ok()?.path()));
    let all: Vec<PathBuf> = inside
        .filter(|path| path.is_dir())
        .flat_map(|folder| fs::read_dir(folder).expect("a folder"))
        .filter_map(parts)
        .collect();
    assert!(!all.is_empty());
    all.iter().for_each(|path| fs::remove_file(path).expect("removed"));
    let found = run_doran(&here, &[&["search", "펭귄"], &at[..]].concat(), "");
    assert!(utf8(&found.stdout).contains("남쪽"), "{}", utf8(&found.stderr));
}

/// A contract, and a rule book that is written in articles too.
const LEASE: &str = "# 상가 임대차\n\n임대인 노경자와 임차인 빈센트제과는 임대차 계약을 맺는다.\n\n제1조(보증금)\n보증금은 5,000만 원으로 한다.\n\n제5조(수리)\n지붕의 수리는 임대인이 한다.\n";
const RULES: &str = "# 출장 규정\n\n제1조(목적)\n이 규정은 출장에 필요한 사항을 정한다.\n\n제5조(숙박)\n숙박비는 하루 9만 원이다.\n";

#[test]
fn a_contract_is_recognised_and_a_wrong_kind_is_explained_and_can_be_changed() {
    let here = fresh_directory("ingest-kinds");
    write_file(&here.join("임대차.md"), LEASE);
    write_file(&here.join("출장.md"), RULES);
    let taken = run_doran(&here, &["ingest", "임대차.md", "출장.md", "--json"], "");
    let stdout = utf8(&taken.stdout);
    if !has_jail(&stdout) {
        return;
    }
    let kind_of = |name: &str| {
        let listed = utf8(&run_doran(&here, &["documents", "list", "--json"], "").stdout);
        let row = listed.lines().find(|line| line.contains(name)).expect(name).to_owned();
        let row: serde_json::Value = serde_json::from_str(&row).expect("JSON");
        (row["kind"].to_string(), row["id"].as_str().expect("an id").to_owned())
    };
    assert_eq!(kind_of("임대차.md").0, "\"contract\"");
    assert_eq!(kind_of("출장.md").0, "\"general\"");
    let ask = || {
        let answer =
            run_doran(&here, &["ask", "--agent", "contract", "제5조 내용이 뭐야?", "--lang", "ko"], "");
        utf8(&answer.stdout)
    };
    assert!(ask().contains("지붕의 수리는 임대인이 한다"), "{}", ask());

    // Somebody says that it is something else. The agent says why it finds nothing and what to do.
    let changed = run_doran(&here, &["documents", "kind", "general", "임대차.md"], "");
    assert!(changed.status.success(), "{}", utf8(&changed.stderr));
    let (kind, id) = kind_of("임대차.md");
    assert_eq!(kind, "\"general\"");
    let answer = ask();
    assert!(!answer.contains("지붕의 수리"), "{answer}");
    assert!(answer.contains(&id) && answer.contains("doran documents kind contract"), "{answer}");
    // What was chosen stays when the file is ingested again.
    run_doran(&here, &["ingest", "임대차.md"], "");
    assert_eq!(kind_of("임대차.md").0, "\"general\"");

    // The way it names works, here through a server.
    let server = crate::program::ServerProcess::start(&here, None);
    let patched = server.request(&format!("PATCH /api/documents/{id}"), "{\"kind\":\"contract\"}");
    assert!(patched.starts_with("HTTP/1.1 200"), "{patched}");
    let unknown = server.request(&format!("PATCH /api/documents/{id}"), "{\"kind\":\"poem\"}");
    assert!(unknown.starts_with("HTTP/1.1 400"), "{unknown}");
    wait_until_kind(&server, &id, "contract");
    drop(server);
    assert!(ask().contains("지붕의 수리는 임대인이 한다"), "{}", ask());
}

/// Waits until a document is ready as one of this kind.
fn wait_until_kind(server: &crate::program::ServerProcess, id: &str, kind: &str) {
    for _ in 0..600 {
        let shown = server.request(&format!("GET /api/documents/{id}"), "");
        if shown.contains("\"ready\"") && shown.contains(&format!("\"kind\":\"{kind}\"")) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("{id} did not become a {kind}");
}

#[test]
fn samples_are_marked_and_those_of_an_earlier_demo_leave() {
    let here = fresh_directory("samples-marked");
    for (language, mark) in [("ko", "(예시 문서)"), ("en", "(sample document)")] {
        let found = utf8(&run_doran(&here, &["search", "육아휴직", "--lang", language], "").stdout);
        assert!(found.lines().next().is_some_and(|line| line.contains(mark)), "{found}");
    }
    let asked = run_doran(&here, &["ask", "육아휴직은 최대 얼마나 쓸 수 있나요?", "--lang", "ko"], "");
    let answer = utf8(&asked.stdout) + &utf8(&asked.stderr);
    assert!(answer.contains("예시 문서"), "{answer}");

    // Earlier versions of the demo ingested the samples like files of the user.
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../agents/samples/ko/휴가.md");
    write_file(&here.join("ko/휴가.md"), &fs::read_to_string(sample).expect("a sample"));
    write_file(&here.join("own.md"), "# 휴가 규정\n\n우리 회사의 육아휴직은 3년이다.\n");
    let server = crate::program::ServerProcess::start(&here, None);
    let body = fs::read_to_string(sample).expect("a sample");
    let added =
        server.request("POST /api/documents?name=ko%2F%ED%9C%B4%EA%B0%80.md&collection=samples", &body);
    assert!(added.starts_with("HTTP/1.1 202"), "{added}");
    drop(server);
    let text = utf8(&run_doran(&here, &["ask", "hello", "--lang", "en"], "").stderr);
    assert!(text.contains("removed 1 sample document that"), "{text}");
    let taken = run_doran(&here, &["ingest", "own.md", "--json", "--lang", "en"], "");
    if !has_jail(&utf8(&taken.stdout)) {
        return;
    }
    assert_eq!(list_documents(&here), ["own.md ready"]);
    let found = utf8(&run_doran(&here, &["search", "육아휴직", "--lang", "ko"], "").stdout);
    assert!(found.contains("3년이다") && !found.contains("예시 문서"), "{found}");
}
