//! `doran eval agent`, `doran eval answers`, `doran agents export`, and Python in the shipped program.

use std::fs;

use serde_json::Value;

use crate::program::{ServerProcess, fresh_directory, run_doran, utf8};

#[test]
fn answers_are_graded_by_strings_of_the_documents() {
    let here = fresh_directory("eval-answers");
    fs::create_dir(here.join("documents")).expect("a folder");
    fs::write(here.join("documents/leave.md"), "# 휴가 규정\n\n연차휴가는 15일을 준다.\n").expect("written");
    let line = |id: &str, ask: &str, rest: &str| {
        format!(r#"{{"id":"{id}","ask":"{ask}","language":"ko","style":"plain","kind":"number",{rest}}}"#)
            + "\n"
    };
    let questions = [
        line("days", "연차휴가는 며칠인가요?", r#""must":[["15일"]],"answerable":true"#),
        line("other", "연차휴가는 며칠인가요?", r#""must":[["16일"]],"answerable":true"#),
        line("parking", "주차장은 어디인가요?", r#""answerable":false"#),
    ];
    fs::write(here.join("questions.jsonl"), questions.concat()).expect("written");
    let run =
        run_doran(&here, &["eval", "answers", "questions.jsonl", "--documents", "documents", "--json"], "");
    assert!(run.status.success(), "{}", utf8(&run.stderr));
    let lines: Vec<Value> =
        utf8(&run.stdout).lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let grades: Vec<&Value> = lines[..3].iter().map(|line| &line["grade"]).collect();
    assert_eq!(grades, ["right", "wrong", "right"], "{lines:?}");
    assert_eq!(lines[3]["answerable"], serde_json::json!({"right": 1, "withheld": 0, "wrong": 1}));
}

const EVAL_CASES: &str = r#"
documents = "samples"

[[case]]
id = "leave"
agent = "assistant"
ask = "연차휴가는 며칠인가요?"
expect = { route = "rag", sources = ["휴가 규정"], contains = ["15일"], model_calls = 2, most_cost = 0.0 }

[[case]]
id = "sum"
agent = "react"
ask = "6 * 7 계산해줘"
expect = { route = "tool", tools = ["calculator"], contains = ["42"] }
"#;

#[test]
fn agents_are_evaluated_and_compared_with_the_last_time() {
    let here = fresh_directory("eval");
    fs::write(here.join("cases.toml"), EVAL_CASES).expect("written");
    let first = run_doran(&here, &["eval", "agent", "cases.toml"], "");
    let shown = utf8(&first.stdout);
    assert!(first.status.success(), "{shown}{}", utf8(&first.stderr));
    assert!(shown.starts_with("ok     leave  rag "), "{shown}");
    assert!(
        shown.contains("2 of 2 held · model offline-extractive-2 · 4 model calls · $0.000000"),
        "{shown}"
    );
    assert!(shown.ends_with("there is no earlier report to compare with\n"), "{shown}");
    let again = run_doran(&here, &["eval", "agent", "cases.toml", "--lang", "ko"], "");
    let shown = utf8(&again.stdout);
    assert!(shown.ends_with("지난번(모델 offline-extractive-2)과 다른 것: 0\n"), "{shown}");

    // What does not hold is reported with what was seen, is a change, and is an exit code.
    fs::write(here.join("cases.toml"), EVAL_CASES.replace("\"42\"", "\"43\"")).expect("written");
    let broken = run_doran(&here, &["eval", "agent", "cases.toml"], "");
    let shown = utf8(&broken.stdout);
    assert_eq!(broken.status.code(), Some(1));
    assert!(shown.contains("FAIL   sum ") && shown.contains("\n      contains: 43 ≠ "), "{shown}");
    assert!(
        shown.ends_with(
            "changed since the last time (model offline-extractive-2): 1\n- sum: does not hold any more\n"
        ),
        "{shown}"
    );
    assert!(utf8(&broken.stderr).contains("1 did not hold"), "{}", utf8(&broken.stderr));

    let json = run_doran(&here, &["eval", "agent", "cases.toml", "--only", "leave", "--json"], "");
    let lines: Vec<Value> =
        utf8(&json.stdout).lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!((&lines[0]["id"], &lines[0]["observed"]["route"]), (&"leave".into(), &"rag".into()));
    assert_eq!((&lines[1]["passed"], &lines[1]["failed"]), (&1.into(), &0.into()));
    // Cases that did not run this time are not forgotten.
    let whole = run_doran(&here, &["eval", "agent", "cases.toml"], "");
    assert!(utf8(&whole.stdout).ends_with(": 0\n"), "{}", utf8(&whole.stdout));
}

#[test]
fn a_set_about_documents_that_a_server_uses_names_the_server_and_another_way() {
    let here = fresh_directory("eval-library");
    fs::write(here.join("cases.toml"), EVAL_CASES.replace("samples", "library")).expect("written");
    let server = ServerProcess::start_with(&here, &["--port", "0", "--data-dir", "data"]);
    let refused =
        run_doran(&here, &["eval", "agent", "cases.toml", "--data-dir", "data", "--lang", "en"], "");
    let why = utf8(&refused.stderr);
    assert!(!refused.status.success() && why.contains(&server.address), "{why}");
    assert!(why.contains("documents = \"library\"") && why.contains("on the page under Evaluation"), "{why}");
    drop(server);
    let asked = run_doran(&here, &["eval", "agent", "cases.toml", "--data-dir", "data"], "");
    assert!(utf8(&asked.stdout).contains("2 of 2 held"), "{}{}", utf8(&asked.stdout), utf8(&asked.stderr));
}

#[test]
fn what_was_taken_out_of_a_set_is_gone_once_and_two_sets_of_one_name_are_two() {
    let here = fresh_directory("eval-sets");
    let set = |folder: &str, cases: &str| {
        fs::create_dir_all(here.join(folder)).expect("a folder");
        fs::write(here.join(folder).join("q.toml"), cases).expect("written");
        let output = run_doran(&here, &["eval", "agent", &format!("{folder}/q.toml")], "");
        assert!(output.status.success(), "{}", utf8(&output.stderr));
        utf8(&output.stdout)
    };
    let (leave, sum) = EVAL_CASES.split_once("\n[[case]]\nid = \"sum\"").expect("two cases");
    let sum = format!("documents = \"samples\"\n[[case]]\nid = \"sum\"{sum}");
    set("a", EVAL_CASES);
    let other = set("b", &sum);
    assert!(other.ends_with("there is no earlier report to compare with\n"), "{other}");
    let fewer = set("a", leave);
    assert!(fewer.ends_with(": 1\n- sum: is gone\n"), "{fewer}");
    let again = set("a", leave);
    assert!(again.ends_with(": 0\n"), "{again}");
}

#[test]
fn nothing_that_a_set_has_agents_remember_is_left() {
    let here = fresh_directory("eval-memory");
    let case = "[[case]]\nid = \"keep\"\nagent = \"assistant\"\nask = \"나는 채식을 한다고 기억해줘\"\n\
                expect = { tools = [\"remember\"] }\n";
    fs::write(here.join("q.toml"), case).expect("written");
    let output = run_doran(&here, &["eval", "agent", "q.toml"], "");
    assert!(output.status.success(), "{}{}", utf8(&output.stdout), utf8(&output.stderr));
    assert_eq!(utf8(&run_doran(&here, &["memory", "list"], "").stdout), "");
}

#[test]
fn questions_that_cannot_be_read_are_reported_with_a_remedy() {
    let here = fresh_directory("eval-wrong");
    let check = |content: &str, expected: &str| {
        fs::write(here.join("cases.toml"), content).expect("written");
        let output = run_doran(&here, &["eval", "agent", "cases.toml"], "");
        assert_eq!(output.status.code(), Some(1));
        assert!(utf8(&output.stderr).contains(expected), "{}", utf8(&output.stderr));
    };
    check("", "there is no `[[case]]` in it");
    check("[[case]]\nid = \"a\"\n", "case `a`: it expects nothing");
    let nobody = EVAL_CASES.replace("agent = \"react\"", "agent = \"nobody\"");
    check(&nobody, "case `sum`: there is no agent `nobody`; there are: assistant, contract, react, docqa");
    let missing = run_doran(&here, &["eval", "agent", "nowhere.toml"], "");
    assert!(utf8(&missing.stderr).contains("nowhere.toml"), "{}", utf8(&missing.stderr));
}

#[test]
fn an_agent_that_was_exported_is_the_same_under_another_name() {
    let here = fresh_directory("export");
    let folder = here.join("data").join("agents");
    fs::create_dir_all(&folder).expect("a folder");
    let doran = |words: &[&str]| {
        let output = run_doran(&here, &[words, &["--data-dir", "data"]].concat(), "");
        assert!(output.status.success(), "{words:?}: {}", utf8(&output.stderr));
        utf8(&output.stdout)
    };
    let questions = [
        ("assistant", "toml", "123 * 456 계산해줘"),
        ("contract", "yaml", "지체상금은 얼마인가요?"),
        ("react", "yaml", "6 * 7 계산해줘"),
        ("docqa", "toml", "연차휴가는 며칠인가요?"),
    ];
    for (agent, format, _) in questions {
        let written = doran(&["agents", "export", agent, "--format", format]);
        assert!(written.starts_with(&format!("# The ready-made agent `{agent}`.")), "{written}");
        let name = |name: &str| {
            if format == "toml" { format!("name = \"{name}\"") } else { format!("name: {name}") }
        };
        let copy = format!("{agent}-copy");
        assert!(written.contains(&name(agent)), "{written}");
        fs::write(folder.join(format!("{agent}.{format}")), written.replacen(&name(agent), &name(&copy), 1))
            .expect("written");
    }
    // One thing is changed: it has no tool to compute with.
    let changed =
        doran(&["agents", "export", "react"]).replacen("name = \"react\"", "name = \"react-bare\"", 1);
    let changed =
        changed.replacen("\n[[node]]", "\n[settings]\ntools = [\"get_current_datetime\"]\n\n[[node]]", 1);
    fs::write(folder.join("react-bare.toml"), changed).expect("written");
    for (agent, _, question) in questions {
        let copy = format!("{agent}-copy");
        assert_eq!(doran(&["graph", agent]), doran(&["graph", &copy]), "{agent}");
        let ask = |agent: &str| {
            let answer = doran(&["ask", "--agent", agent, "--json", question]);
            let answer: Value = serde_json::from_str(&answer).expect("an object");
            ["response", "path", "toolsUsed", "modelCalls", "sources"].map(|field| answer[field].clone())
        };
        let (one, other) = (ask(agent), ask(&copy));
        assert!(one == other && one[0].is_string(), "{agent}: {one:?} and {other:?}");
    }
    let bare = doran(&["ask", "--agent", "react-bare", "6 * 7 계산해줘"]);
    assert!(!bare.contains("42"), "{bare}");
    // What was changed comes along when it is exported again, and what is fixed is refused with the way out.
    let again = doran(&["agents", "export", "react-bare"]);
    assert!(again.contains("[settings]") && again.contains("tools = [\"get_current_datetime\"]"), "{again}");
    fs::write(
        folder.join("react-bare.toml"),
        again.replacen("then = \"conditional\"", "then = \"response\"", 1),
    )
    .expect("written");
    let refused = run_doran(&here, &["agents", "--data-dir", "data"], "");
    assert!(utf8(&refused.stderr).contains("describe one of ready nodes"), "{}", utf8(&refused.stderr));
    fs::remove_file(folder.join("react-bare.toml")).expect("removed");
    let unknown = run_doran(&here, &["agents", "export", "nobody"], "");
    assert!(utf8(&unknown.stderr).contains("there is no agent `nobody`"), "{}", utf8(&unknown.stderr));
}

/// The program itself is the worker: nothing else has to be installed.
#[cfg(all(target_os = "linux", feature = "python"))]
#[test]
fn the_program_runs_python_and_keeps_its_variables_through_a_thread() {
    let here = fresh_directory("python");
    let ask = |question: &str| {
        let output = run_doran(&here, &["ask", "--agent", "react", "--thread", "t", "--json", question], "");
        assert!(output.status.success(), "{}", utf8(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an object");
        answer["response"].as_str().expect("words").to_owned()
    };
    let first = ask("실행해줘\n```python\ntotal = 40\nprint('합계', total)\n```");
    if first.contains("jail") || first.contains("격리") {
        assert!(std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"), "no jail here: {first}");
        println!("SKIPPED: Python needs a jail / Python에는 격리가 필요함: {first}");
        return;
    }
    assert!(first.contains("합계 40"), "{first}");
    // Another process, the same thread.
    let second = ask("실행해줘\n```python\ntotal + 2\n```");
    assert!(second.contains("42"), "{second}");
    let listed = utf8(&run_doran(&here, &["agents", "--tools"], "").stdout);
    assert!(listed.lines().any(|line| line.starts_with("python_repl") && line.contains("allow")), "{listed}");
}

/// Variables are signed, and a replica has a data directory of its own.
#[cfg(all(target_os = "linux", feature = "python"))]
#[test]
fn variables_of_python_move_to_a_replica_with_the_same_key() {
    let here = fresh_directory("python-replica");
    let ask = |folder: &str, key: &str, code: &str| {
        let question = format!("실행해줘\n```python\n{code}\n```");
        let words = ["ask", "--agent", "react", "--thread", "t", "--json", "--data-dir", folder, &question];
        let output = crate::program::doran_command(&here, &words).env("DORAN_SHARED_KEY", key).output();
        let output = output.expect("the program ends");
        assert!(output.status.success(), "{}", utf8(&output.stderr));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("an object");
        answer["response"].as_str().expect("words").to_owned()
    };
    let copy = |from: &str, to: &str| {
        fs::create_dir_all(here.join(to)).expect("a folder");
        for file in fs::read_dir(here.join(from)).expect("a folder").map(|file| file.expect("a file").path())
        {
            let name = file.file_name().expect("a name").to_owned();
            if file.is_file() && name.to_string_lossy().contains(".db") {
                fs::copy(&file, here.join(to).join(name)).expect("copied");
            }
        }
    };
    let (key, other) = ("the key that all replicas are given", "another key that is as long as it has to be");
    let first = ask("one", key, "total = 40\nprint(total)");
    if first.contains("jail") || first.contains("격리") {
        assert!(std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"), "no jail here: {first}");
        println!("SKIPPED: Python needs a jail / Python에는 격리가 필요함: {first}");
        return;
    }
    copy("one", "two");
    copy("one", "three");
    let taken = ask("two", key, "total + 2");
    assert!(taken.contains("42"), "{taken}");
    let lost = ask("three", other, "total + 2");
    assert!(!lost.contains("42"), "{lost}");
}
