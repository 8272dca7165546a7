//! `doran memory`: what was kept in a conversation is seen and forgotten, beside a server and without one.

use crate::program::{ServerProcess, fresh_directory, run_doran, utf8};

fn list_memory(here: &std::path::Path, words: &[&str]) -> String {
    let output = run_doran(here, &[&["memory", "list"], words].concat(), "");
    assert!(output.status.success(), "{}", utf8(&output.stderr));
    utf8(&output.stdout)
}

#[test]
fn what_is_remembered_is_listed_and_forgotten() {
    let here = fresh_directory("memory");
    let empty = run_doran(&here, &["memory", "list", "--lang", "ko"], "");
    assert_eq!((utf8(&empty.stdout).as_str(), utf8(&empty.stderr).trim()), ("", "기억한 것이 없습니다"));
    for fact in ["내 생일은 5월 3일이라고 기억해줘", "나는 채식을 한다고 기억해줘"] {
        let answer = run_doran(&here, &["ask", fact], "");
        assert!(utf8(&answer.stdout).contains("기억했습니다"), "{}", utf8(&answer.stdout));
    }
    let all = list_memory(&here, &[]);
    assert_eq!(all.lines().count(), 2, "{all}");
    let found = list_memory(&here, &["생일"]);
    let (birthday, fact) = found.trim_end().split_once("  ").expect("an id and a fact");
    assert_eq!(fact, "내 생일은 5월 3일");
    let none = run_doran(&here, &["memory", "list", "잠수함", "--lang", "ko"], "");
    assert_eq!(utf8(&none.stdout), "");
    assert!(utf8(&none.stderr).contains("`잠수함`에 맞는 기억이 없습니다"), "{}", utf8(&none.stderr));

    // The same through the server that has the data directory.
    let server = ServerProcess::start(&here, None);
    assert_eq!(list_memory(&here, &[]), all);
    let diet = list_memory(&here, &["채식", "--json"]);
    let diet: serde_json::Value = serde_json::from_str(&diet).expect("JSON");
    assert_eq!(diet["text"], "나는 채식을 한다");
    let gone = run_doran(&here, &["memory", "forget", diet["id"].as_str().expect("an id")], "");
    assert!(gone.status.success(), "{}", utf8(&gone.stderr));
    let unknown = run_doran(&here, &["memory", "forget", "nothing", "--lang", "ko"], "");
    assert!(!unknown.status.success());
    assert!(
        utf8(&unknown.stderr).contains("`doran memory list`가 번호를 보여 줍니다"),
        "{}",
        utf8(&unknown.stderr)
    );
    drop(server);

    assert_eq!(list_memory(&here, &[]), found);
    assert!(!run_doran(&here, &["memory", "forget", birthday, "nothing"], "").status.success());
    assert_eq!(list_memory(&here, &[]), found, "nothing is forgotten where something is unknown");
    assert!(run_doran(&here, &["memory", "forget", birthday], "").status.success());
    assert_eq!(list_memory(&here, &[]), "");
    let answer = utf8(&run_doran(&here, &["ask", "내 생일이 언제라고 했지?"], "").stdout);
    assert!(!answer.contains("5월 3일"), "{answer}");
}
