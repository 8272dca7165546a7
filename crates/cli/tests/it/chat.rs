//! `doran chat` through a pipe, and in a terminal.

use std::io::{BufRead, BufReader, Read, Write};

#[cfg(target_os = "linux")]
use crate::mock_vendor::{MockVendorReply, MockVendorServer, VendorCallKind};
#[cfg(target_os = "linux")]
use crate::program::spawn_in_terminal;
use crate::program::{ServerProcess, doran_command, fresh_directory, run_doran, utf8};

#[test]
fn the_next_process_remembers() {
    let here = fresh_directory("chat");
    let first = run_doran(&here, &["chat"], "내 이름은 김도란이야.\n연차휴가는 며칠인가요?\n");
    let stdout = utf8(&first.stdout);
    assert!(first.status.success(), "{}", utf8(&first.stderr));
    assert!(stdout.contains("이 대화에 적어 두었습니다: 이름 = 김도란.\n"), "{stdout}");
    let (answer, sources) = stdout.split_once("\n  [1] ").expect("sources after the answer");
    assert!(answer.contains("연차휴가 15일을 준다.\" [1]"), "{stdout}");
    assert!(sources.starts_with("휴가 규정 › 연차휴가  (samples/ko/휴가.md, sample document)\n"), "{stdout}");
    let second = utf8(&run_doran(&here, &["chat"], "\n내 이름이 뭐라고 했지?\n").stdout);
    assert!(second.starts_with("김도란입니다.") && second.matches("김도란입니다.").count() == 1, "{second}");
    let other =
        utf8(&run_doran(&here, &["chat", "--thread", "다른 대화"], "내 이름이 뭐라고 했지?\n").stdout);
    assert!(!other.contains("김도란"), "{other}");
}

#[test]
fn a_second_process_asks_the_server_that_has_the_data() {
    let here = fresh_directory("second");
    let server = ServerProcess::start(&here, None);
    let output = run_doran(&here, &["chat"], "15 * 3\n/agent react\n7 * 8\n");
    let (stdout, stderr) = (utf8(&output.stdout), utf8(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains(&format!("the server http://{} has the data directory", server.address)),
        "{stderr}"
    );
    assert!(stdout.contains("45") && stdout.contains("56"), "{stdout}");
    assert!(stderr.contains("calculator(15 * 3) = 45") && stderr.contains("asking react"), "{stderr}");
    let threads = utf8(&run_doran(&here, &["threads"], "").stdout);
    assert!(threads.contains("main") && threads.contains("main-react"), "{threads}");
    assert_eq!(utf8(&run_doran(&here, &["threads", "list"], "").stdout), threads);
    let newest = utf8(&run_doran(&here, &["threads", "list", "--limit", "1", "--json"], "").stdout);
    assert!(newest.lines().count() == 1 && newest.starts_with('{'), "{newest}");
    let runs = utf8(&run_doran(&here, &["runs", "--json"], "").stdout);
    assert_eq!(utf8(&run_doran(&here, &["runs", "list", "--json"], "").stdout), runs);
    let of_thread = utf8(&run_doran(&here, &["runs", "--json", "list", "--thread", "main"], "").stdout);
    assert!(of_thread.lines().count() == 1 && of_thread.contains("\"thread\":\"main\""), "{of_thread}");
    assert_eq!(runs.matches("\"status\":\"finished\"").count(), 2, "{runs}");
    // A file can be attached before the first question, here too.
    std::fs::write(here.join("메모.md"), "# 메모\n\n제주 워크숍의 참가비는 한 사람당 73,500원이다.\n")
        .expect("a file");
    let lines = "/attach 메모.md\n제주 워크숍 참가비는 한 사람당 얼마인가요?\n";
    let attached = run_doran(&here, &["chat", "--thread", "new"], lines);
    assert!(utf8(&attached.stdout).contains("73,500원"), "{}", utf8(&attached.stderr));
    // A server gives long lists page by page.
    for _ in 0..201 {
        server.request("POST /api/threads", "{}");
    }
    let all = utf8(&run_doran(&here, &["threads", "list", "--limit", "203"], "").stdout);
    assert_eq!(all.lines().count(), 203);
    // What has no way over HTTP still says who has the data.
    let refused = run_doran(&here, &["gc"], "");
    let stderr = utf8(&refused.stderr);
    let who = format!("the server http://{} is using the data directory", server.address);
    assert!(stderr.contains(&who) && !stderr.contains("kill"), "{stderr}");
}

#[test]
fn commands_ask_again_show_what_an_answer_rests_on_and_export_it() {
    let here = fresh_directory("chat-commands");
    std::fs::write(here.join("메모.md"), "# 메모\n\n제주 워크숍의 참가비는 한 사람당 73,500원이다.\n")
        .expect("a file");
    std::fs::write(here.join("깨짐.pdf"), "%PDF-1.7 broken").expect("a file");
    let lines = "/sources\n/attach 메모.md\n/attach 깨짐.pdf\n/attach 없음.md\n/attach /dev/zero\n제주 워크숍 참가비는 한 사람당 얼마인가요?\n법인카드 영수증은 언제까지 올려야 하나요?\n/sources\n/steps\n/edit 육아휴직은 얼마나 쓸 수 있나요?\n/model nobody\n/model\n/model offline-extractive-2\n/export chat.md\n/export chat.md\n/export chat.json\n";
    let output = run_doran(&here, &["chat"], lines);
    let (stdout, stderr) = (utf8(&output.stdout), utf8(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("ask something first"), "{stderr}");
    assert!(stdout.contains("\n  \"") && stdout.contains("영수증을 경비 시스템에 올린다"), "{stdout}");
    assert!(stdout.contains("육아휴직"), "{stdout}");
    assert!(
        stdout.contains("offline-extractive-2\n") && stderr.contains("`nobody` cannot be chosen"),
        "{stderr}"
    );
    // A file can be attached before the first question, and is quoted.
    assert!(stderr.contains("`메모.md` is attached") && stderr.contains("cannot read `없음.md`"), "{stderr}");
    assert!(stderr.contains("`/dev/zero` is not a file"), "{stderr}");
    assert!(stderr.contains("`깨짐.pdf` could not be read."), "{stderr}");
    assert!(stdout.contains("73,500원"), "{stdout}");
    // The edited question takes the place of the one before it.
    let exported = std::fs::read_to_string(here.join("chat.md")).expect("a file");
    assert!(exported.contains("육아휴직은 얼마나") && !exported.contains("법인카드"), "{exported}");
    assert!(stderr.contains("the file `chat.md` exists and was left as it is"), "{stderr}");
    // A name that ends so gets what `threads export` gives.
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(here.join("chat.json")).expect("a file")).expect("JSON");
    let given = run_doran(&here, &["threads", "export", "main", "--format", "json"], "");
    let given: serde_json::Value = serde_json::from_slice(&given.stdout).expect("JSON");
    assert_eq!((&json["id"], &json["agent"]), (&"main".into(), &"assistant".into()), "{json}");
    assert!(json["messages"].as_array().is_some_and(|messages| messages.len() >= 4), "{json}");
    assert_eq!(json["messages"], given["messages"]);
    let shown = utf8(&run_doran(&here, &["threads", "show", "main"], "").stdout);
    assert!(shown.starts_with("> 제주 워크숍") && shown.contains("> 육아휴직은 얼마나"), "{shown}");
    assert!(run_doran(&here, &["threads", "rename", "main", "휴가", "질문"], "").status.success());
    assert!(utf8(&run_doran(&here, &["threads"], "").stdout).contains("휴가 질문"));
    let runs = utf8(&run_doran(&here, &["runs"], "").stdout);
    let newest = runs.split_whitespace().next().expect("a run");
    let run = run_doran(&here, &["runs", "show", newest], "");
    assert!(
        utf8(&run.stdout).contains("육아휴직") && utf8(&run.stderr).contains("· "),
        "{}",
        utf8(&run.stderr)
    );
    let fork = utf8(&run_doran(&here, &["runs", "fork", newest, "--title", "다시"], "").stdout);
    assert!(utf8(&run_doran(&here, &["threads"], "").stdout).contains(fork.trim()));
    assert!(run_doran(&here, &["threads", "delete", "main"], "").status.success());
    assert!(!run_doran(&here, &["threads", "delete", "main"], "").status.success());
    let graph = utf8(&run_doran(&here, &["graph", "assistant", "--format", "ascii"], "").stdout);
    assert!(graph.contains("start --> router\nrouter ..> rag | memory\n"), "{graph}");
}

/// Lists say when, by the clock of the place, in columns that stay straight with Hangul; the same from a server.
#[test]
fn lists_show_local_times_in_straight_columns() {
    let here = fresh_directory("list-times");
    for (thread, agent) in [("a", "assistant"), ("휴가 질문", "react")] {
        let asked = run_doran(&here, &["ask", "--thread", thread, "--agent", agent, "15 * 3"], "");
        assert!(asked.status.success(), "{}", utf8(&asked.stderr));
    }
    let rows = |args: &[&str]| -> Vec<serde_json::Value> {
        let listed = utf8(&run_doran(&here, &[args, &["--json"]].concat(), "").stdout);
        listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let listed = |args: &[&str], zone: &str| {
        let listed = doran_command(&here, args).env("TZ", zone).output().expect("it ends");
        assert!(listed.status.success(), "{}", utf8(&listed.stderr));
        utf8(&listed.stdout)
    };
    // In the zones of the test, an hour and a minute of the day are enough to tell.
    let clock = |row: &serde_json::Value, field: &str, hours_east: i64| {
        let minutes = row[field].as_i64().expect("a time") / 60_000 + hours_east * 60;
        format!(" {:02}:{:02}", minutes / 60 % 24, minutes % 60)
    };
    let check = || {
        let (threads, runs) = (rows(&["threads"]), rows(&["runs"]));
        assert_eq!((threads.len(), runs.len()), (2, 2));
        // The newest first, and as many as are wanted.
        for list in ["threads", "runs"] {
            let newest = rows(&[list, "list", "--limit", "1"]);
            assert_eq!((newest.len(), &newest[0]["thread"]), (1, &"휴가 질문".into()), "{list}");
            assert_eq!(rows(&[list, "--limit", "1", "list"]), newest);
        }
        let of_thread = rows(&["runs", "list", "--thread", "a"]);
        assert_eq!((of_thread.len(), &of_thread[0]["agent"]), (1, &"assistant".into()));
        for (zone, hours_east) in [("UTC", 0), ("Asia/Seoul", 9)] {
            for (args, rows, field) in [("threads", &threads, "updated_at"), ("runs", &runs, "created_at")] {
                let lines = listed(&[args, "list"], zone);
                assert_eq!(listed(&[args], zone), lines);
                assert_eq!(lines.lines().count(), 2, "{lines}");
                for (line, row) in lines.lines().zip(rows) {
                    let time = clock(row, field, hours_east);
                    assert!(line.contains(&time), "no `{time}` in {line}");
                }
            }
        }
        let threads = listed(&["threads"], "UTC");
        // Nine columns hold the wider name: four syllables and a space.
        assert!(threads.contains("휴가 질문  20") && threads.contains("a          20"), "{threads}");
        let runs = listed(&["runs"], "UTC");
        assert!(runs.contains("  react      휴가 질문\n") && runs.contains("  assistant  a\n"), "{runs}");
    };
    check();
    let _server = ServerProcess::start(&here, None);
    check();
}

#[test]
fn an_agent_that_does_not_exist_is_named() {
    let here = fresh_directory("agent");
    let output = run_doran(&here, &["chat", "--agent", "nobody"], "안녕?\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(utf8(&output.stderr).contains("`nobody`"), "{}", utf8(&output.stderr));
}

#[test]
fn an_agent_is_chosen_by_its_name_and_a_wrong_one_changes_nothing() {
    let here = fresh_directory("chat-agent");
    let lines = "15 * 3\n/agent\n/agent nobody\n/help\n/agent react\n";
    let output = run_doran(&here, &["chat"], lines);
    let (stdout, stderr) = (utf8(&output.stdout), utf8(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains("assistant\n") && stdout.contains("\nreact\n"), "{stdout}");
    assert!(stderr.contains("there is no agent `nobody`") && !stderr.contains("``"), "{stderr}");
    assert!(stderr.contains("go to the conversation with another agent; now assistant"), "{stderr}");
    assert!(stderr.contains("asking react; conversation: main-react"), "{stderr}");
    // The turn before is not shown again.
    assert_eq!(stdout.matches("45").count(), 1, "{stdout}");
}

/// The server of a chat dies in the middle of an answer, and starts again at another address.
#[test]
fn an_answer_that_a_server_cut_off_is_shown_when_it_is_back() {
    let here = fresh_directory("chat-cut-off");
    let mut server = ServerProcess::start(&here, Some("commit.after_publish:1"));
    let mut chat = doran_command(&here, &["chat", "--quiet"]).spawn().expect("the program starts");
    let mut stdin = chat.stdin.take().expect("a pipe");
    stdin.write_all("15 * 3\n".as_bytes()).expect("written");
    let mut stderr = BufReader::new(chat.stderr.take().expect("a pipe"));
    let mut told = String::new();
    while !told.contains("broke off") {
        assert!(stderr.read_line(&mut told).expect("a line") > 0, "{told}");
    }
    server.child.wait().expect("ended");
    let again = ServerProcess::start(&here, None);
    assert_ne!(again.address, server.address);
    stdin.write_all("7 * 8\n".as_bytes()).expect("written");
    drop(stdin);
    let output = chat.wait_with_output().expect("it ends");
    stderr.read_to_string(&mut told).expect("text");
    let stdout = utf8(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("> 15 * 3") && stdout.contains("45") && stdout.contains("56"), "{stdout}{told}");
}

#[test]
fn a_person_is_asked_before_a_tool_and_a_failure_does_not_end_the_talk() {
    let here = fresh_directory("approval");
    std::fs::write(here.join("doran.toml"), "[tools.policies]\ncalculator = \"ask\"\n").expect("written");
    let yes = run_doran(&here, &["chat"], "15 * 3\ny\n");
    assert!(utf8(&yes.stdout).contains("45"), "{}", utf8(&yes.stdout));
    assert!(utf8(&yes.stderr).contains("May `calculator` be run with these arguments?\n  calculator {"));
    let no = run_doran(&here, &["chat", "--thread", "no"], "15 * 3\nn\n연차휴가는 며칠인가요?\n");
    let stdout = utf8(&no.stdout);
    assert!(!stdout.contains("45") && stdout.contains("연차휴가 15일을 준다."), "{stdout}");
    let told_json = run_doran(&here, &["ask", "--json", "15 * 4"], "");
    let json: serde_json::Value = serde_json::from_slice(&told_json.stdout).expect("one object");
    assert_eq!(json["errorCode"], "waits_for_approval", "{json}");
    assert_eq!(told_json.status.code(), Some(1));
}

#[test]
fn a_question_of_a_run_is_answered_by_a_later_process() {
    let here = fresh_directory("later");
    std::fs::write(here.join("doran.toml"), "[tools.policies]\ncalculator = \"ask\"\n").expect("written");
    let asked = run_doran(&here, &["ask", "--thread", "a", "15 * 3"], "");
    assert_eq!(asked.status.code(), Some(1));
    let stderr = utf8(&asked.stderr);
    assert!(stderr.contains("answer it with `doran chat --agent assistant --thread 'a'`"), "{stderr}");
    // Nobody answers: nothing is decided.
    let nobody = run_doran(&here, &["chat", "--thread", "a"], "");
    assert_eq!(nobody.status.code(), Some(1));
    assert!(utf8(&nobody.stderr).contains("the run goes on waiting"), "{}", utf8(&nobody.stderr));
    let yes = run_doran(&here, &["chat", "--thread", "a"], "y\n");
    let (stdout, stderr) = (utf8(&yes.stdout), utf8(&yes.stderr));
    assert!(yes.status.success() && stdout.contains("45"), "{stdout}{stderr}");
    assert!(stderr.contains("May `calculator` be run with these arguments?\n  calculator {"), "{stderr}");
    // The same through a server.
    run_doran(&here, &["ask", "--thread", "b", "15 * 4"], "");
    let _server = ServerProcess::start(&here, None);
    let yes = run_doran(&here, &["chat", "--thread", "b"], "y\n");
    assert!(utf8(&yes.stdout).contains("60"), "{}{}", utf8(&yes.stdout), utf8(&yes.stderr));
}

/// Reads what a program shows until it has shown these words so many times.
#[cfg(target_os = "linux")]
fn read_screen_until(stdout: &mut impl std::io::Read, screen: &mut Vec<u8>, words: &str, times: usize) {
    let mut piece = [0; 4096];
    while String::from_utf8_lossy(screen).matches(words).count() < times {
        let length = stdout.read(&mut piece).expect("output");
        assert!(length > 0, "no `{words}` in {}", String::from_utf8_lossy(screen));
        screen.extend_from_slice(&piece[..length]);
    }
}

/// In a terminal, which the program `script` plays, there is a prompt, and colours where they are wanted.
#[cfg(target_os = "linux")]
#[test]
fn in_a_terminal_it_greets_answers_and_ends_with_the_input() {
    use std::io::Read;
    // What the line editor sends before it reads a line: it tells pasted lines from typed ones.
    const PROMPT: &str = "\u{1b}[?2004h";
    let here = fresh_directory("terminal");
    let Some(mut child) = spawn_in_terminal(&here, "chat --lang ko") else { return };
    let (mut keys, mut stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let mut screen = Vec::new();
    read_screen_until(&mut stdout, &mut screen, PROMPT, 1);
    // A Hangul syllable too many is taken back.
    keys.write_all("육아휴직은 최대 얼마나 쓸 수 있나요요\u{7f}?\r".as_bytes()).expect("typed");
    read_screen_until(&mut stdout, &mut screen, PROMPT, 2);
    keys.write_all(b"/help\r").expect("typed");
    read_screen_until(&mut stdout, &mut screen, PROMPT, 3);
    // The last key is Ctrl-D.
    keys.write_all(b"\x04").expect("typed");
    stdout.read_to_end(&mut screen).ok();
    let status = child.wait().expect("it ends");
    let screen = String::from_utf8_lossy(&screen).into_owned();
    assert!(status.success(), "{screen}");
    assert!(screen.contains("> ") && screen.contains("육아휴직은 자녀 한 명당 1년 이내로 하며"), "{screen}");
    assert!(screen.contains("[1]\r\n· agent "), "a step stands on a line of its own: {screen}");
    assert!(screen.contains("/agent 이름") && screen.contains("지금은 assistant"), "{screen}");
    assert!(!screen.contains("panicked") && !screen.contains("tracing-subscriber"), "{screen}");
}

/// Text that is typed during an answer is at the next prompt: whole lines are answered one by one, and half a line
/// can be ended.
#[cfg(target_os = "linux")]
#[test]
fn what_is_typed_ahead_is_kept() {
    use std::io::Read;
    // What the line editor sends before it reads a line, and when it has one.
    const PROMPT: &str = "\u{1b}[?2004h";
    const HAS_LINE: &str = "\u{1b}[?2004l";
    let here = fresh_directory("typed-ahead");
    let Some(mut child) = spawn_in_terminal(&here, "chat --lang ko") else { return };
    let (mut keys, mut stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    // A program that lost a line waits for ever, so it is ended.
    let (ended, waits) = std::sync::mpsc::channel::<()>();
    let pid = child.id().to_string();
    let watchdog = std::thread::spawn(move || {
        if waits.recv_timeout(std::time::Duration::from_secs(180)).is_err() {
            std::process::Command::new("kill").arg(pid).status().ok();
        }
    });
    let mut screen = Vec::new();
    read_screen_until(&mut stdout, &mut screen, PROMPT, 1);
    // Both lines are there when the first one is read.
    keys.write_all("육아휴직은 최대 얼마나 쓸 수 있나요?\r/help\r".as_bytes()).expect("typed");
    read_screen_until(&mut stdout, &mut screen, HAS_LINE, 1);
    // The terminal itself keeps these, because nobody reads a line now.
    keys.write_all("법인카드 영수증은 언제까지 올려야 하나요?\r/qu".as_bytes()).expect("typed");
    read_screen_until(&mut stdout, &mut screen, PROMPT, 4);
    keys.write_all(b"it\r").expect("typed");
    stdout.read_to_end(&mut screen).ok();
    let status = child.wait().expect("it ends");
    ended.send(()).ok();
    watchdog.join().expect("no panic");
    let screen = String::from_utf8_lossy(&screen).into_owned();
    assert!(status.success(), "{screen}");
    for words in ["육아휴직은 자녀 한 명당 1년 이내로 하며", "/agent 이름", "영수증을 경비 시스템에 올린다"]
    {
        assert!(screen.contains(words), "no `{words}` in {screen}");
    }
}

/// Who starts a conversation again sees where it was, and the commands about the last turn work.
#[cfg(target_os = "linux")]
#[test]
fn a_conversation_that_is_started_again_shows_its_last_turn() {
    use std::io::Read;
    const PROMPT: &str = "\u{1b}[?2004h";
    let here = fresh_directory("started-again");
    let asked = run_doran(&here, &["chat"], "육아휴직은 최대 얼마나 쓸 수 있나요?\n");
    assert!(utf8(&asked.stdout).contains("자녀 한 명당 1년 이내로"), "{}", utf8(&asked.stdout));
    let piped = run_doran(&here, &["chat"], "");
    assert!(piped.status.success() && piped.stdout.is_empty(), "a pipe gets only new answers");

    let Some(mut child) = spawn_in_terminal(&here, "chat --lang ko") else { return };
    let (mut keys, mut stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let mut screen = Vec::new();
    read_screen_until(&mut stdout, &mut screen, PROMPT, 1);
    let before = screen.len();
    keys.write_all(b"/sources\r").expect("typed");
    read_screen_until(&mut stdout, &mut screen, PROMPT, 2);
    keys.write_all(b"\x04").expect("typed");
    stdout.read_to_end(&mut screen).ok();
    assert!(child.wait().expect("it ends").success());
    let (shown, sources) = screen.split_at(before);
    let (shown, sources) = (String::from_utf8_lossy(shown), String::from_utf8_lossy(sources));
    assert!(
        shown.contains("> 육아휴직은 최대 얼마나") && shown.contains("자녀 한 명당 1년 이내로"),
        "{shown}"
    );
    assert!(sources.contains("휴가 규정 › 육아휴직"), "{sources}");
}

/// The program is killed while the model answers. Started again, it shows the question and the whole answer.
#[cfg(target_os = "linux")]
#[test]
fn a_conversation_whose_program_was_killed_goes_on_when_it_is_started_again() {
    use std::io::Read;
    const PROMPT: &str = "\u{1b}[?2004h";
    let here = fresh_directory("killed-while-answering");
    let far = MockVendorServer::start(|_| MockVendorReply::Text("연차는 한 해에 열닷새입니다.".into()));
    let settings = format!("model = \"openai-compatible:http://{}/v1#m\"\n", far.address);
    std::fs::write(here.join("doran.toml"), settings).expect("settings");
    far.hold_call(Some((VendorCallKind::Model, 1)));
    let mut child = doran_command(&here, &["chat", "--agent", "react"]).spawn().expect("it starts");
    child.stdin.as_mut().expect("a pipe").write_all("연차는 며칠인가요?\n".as_bytes()).expect("typed");
    far.wait_for_held_call();
    child.kill().expect("killed");
    child.wait().expect("gone");

    let Some(mut child) = spawn_in_terminal(&here, "chat --agent react --lang ko") else { return };
    let (mut keys, mut stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let mut screen = Vec::new();
    read_screen_until(&mut stdout, &mut screen, PROMPT, 1);
    keys.write_all(b"\x04").expect("typed");
    stdout.read_to_end(&mut screen).ok();
    let screen = String::from_utf8_lossy(&screen).into_owned();
    assert!(child.wait().expect("it ends").success(), "{screen}");
    let (question, answer) =
        (screen.find("> 연차는 며칠인가요?"), screen.find("연차는 한 해에 열닷새입니다."));
    assert!(question.is_some() && question < answer, "{screen}");
}

/// What the model of the next test says, four letters at a time: the blank line after the heading comes in two pieces.
#[cfg(target_os = "linux")]
const MARKDOWN_ANSWER: &str = "## 휴가 답\n\n**연차**는 `15`일\u{1b}]52;c;aGk=\u{7}입니다.\n\n- 하나\n- 둘\n\n| 가 | 나 |\n|---|---|\n| 1 | 2 |\n\n```rust\nlet x = 1;\n```\n\n끝입니다.";

/// A terminal shows what the marks of Markdown mean, and every blank line. A pipe gets the words.
#[cfg(target_os = "linux")]
#[test]
fn markdown_is_rendered_on_a_terminal_only() {
    use std::io::Read;
    const PROMPT: &str = "\u{1b}[?2004h";
    let here = fresh_directory("markdown");
    let far = MockVendorServer::start(|_| MockVendorReply::Text(MARKDOWN_ANSWER.into()));
    let settings = format!("model = \"openai-compatible:http://{}/v1#m\"\n", far.address);
    std::fs::write(here.join("doran.toml"), settings).expect("settings");
    let rendered = "\u{1b}[1m휴가 답\u{1b}[0m\n\n\u{1b}[1m연차\u{1b}[0m는 \u{1b}[36m15\u{1b}[0m일]52;c;aGk=입니다.\n\n• 하나\n• 둘\n\n| 가 | 나 |\n\u{1b}[2m|───|───|\u{1b}[0m\n| 1 | 2 |\n\n  \u{1b}[2mlet x = 1;\u{1b}[0m\n\n끝입니다.";
    let rendered = rendered.replace('\n', "\r\n");

    let Some(child) = spawn_in_terminal(&here, "ask --agent react hello") else { return };
    let shown = child.wait_with_output().expect("it ends");
    let screen = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.success() && screen.contains(&rendered), "{screen:?}");

    let mut child = spawn_in_terminal(&here, "chat --agent react").expect("it was there before");
    let (mut keys, mut stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let mut screen = Vec::new();
    read_screen_until(&mut stdout, &mut screen, PROMPT, 1);
    keys.write_all(b"hello\r").expect("typed");
    read_screen_until(&mut stdout, &mut screen, PROMPT, 2);
    keys.write_all(b"\x04").expect("typed");
    stdout.read_to_end(&mut screen).ok();
    let screen = String::from_utf8_lossy(&screen).into_owned();
    assert!(child.wait().expect("it ends").success() && screen.contains(&rendered), "{screen:?}");

    // An earlier chat is shown as it was, between its question and its model.
    let child = spawn_in_terminal(&here, "threads show main").expect("it was there before");
    let shown = child.wait_with_output().expect("it ends");
    let screen = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.status.success() && screen.contains(&format!("> hello\r\n\r\n{rendered}\r\n")),
        "{screen:?}"
    );
    let piped = utf8(&run_doran(&here, &["threads", "show", "main"], "").stdout);
    assert!(piped.starts_with(&format!("> hello\n\n{MARKDOWN_ANSWER}\n")), "{piped:?}");

    let piped = utf8(&run_doran(&here, &["ask", "--agent", "react", "hello"], "").stdout);
    assert_eq!(piped.trim_end(), MARKDOWN_ANSWER);
    let piped = utf8(&run_doran(&here, &["chat", "--agent", "react", "--thread", "b"], "hello\n").stdout);
    assert_eq!(piped.trim_end(), MARKDOWN_ANSWER);

    // Its router gets no JSON from this model. That is a line of the log, which a conversation shows only if it is wanted.
    let shown = |args: &[&str]| utf8(&run_doran(&here, args, "").stderr);
    assert!(!shown(&["ask", "hello"]).contains(" WARN "), "{}", shown(&["ask", "hello"]));
    assert!(shown(&["ask", "hello", "--log", "warn"]).contains(" WARN "));
}
