//! `doran memory`: what was kept in a conversation is seen and forgotten, beside a server and without one.

use crate::program::{Server, fresh, text, told};

fn listed(here: &std::path::Path, words: &[&str]) -> String {
    let output = told(here, &[&["memory", "list"], words].concat(), "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn what_is_remembered_is_listed_and_forgotten() {
    let here = fresh("memory");
    let empty = told(&here, &["memory", "list", "--lang", "ko"], "");
    assert_eq!((text(&empty.stdout).as_str(), text(&empty.stderr).trim()), ("", "기억한 것이 없습니다"));
    for fact in ["내 생일은 5월 3일이라고 기억해줘", "나는 채식을 한다고 기억해줘"] {
        let answer = told(&here, &["ask", fact], "");
        assert!(text(&answer.stdout).contains("기억했습니다"), "{}", text(&answer.stdout));
    }
    let all = listed(&here, &[]);
    assert_eq!(all.lines().count(), 2, "{all}");
    let found = listed(&here, &["생일"]);
    let (birthday, fact) = found.trim_end().split_once("  ").expect("an id and a fact");
    assert_eq!(fact, "내 생일은 5월 3일");

    // The same through the server that has the data directory.
    let server = Server::start(&here, None);
    assert_eq!(listed(&here, &[]), all);
    let diet = listed(&here, &["채식", "--json"]);
    let diet: serde_json::Value = serde_json::from_str(&diet).expect("JSON");
    assert_eq!(diet["text"], "나는 채식을 한다");
    let gone = told(&here, &["memory", "forget", diet["id"].as_str().expect("an id")], "");
    assert!(gone.status.success(), "{}", text(&gone.stderr));
    let unknown = told(&here, &["memory", "forget", "nothing", "--lang", "ko"], "");
    assert!(!unknown.status.success());
    assert!(
        text(&unknown.stderr).contains("`doran memory list`가 번호를 보여 줍니다"),
        "{}",
        text(&unknown.stderr)
    );
    drop(server);

    assert_eq!(listed(&here, &[]), found);
    assert!(!told(&here, &["memory", "forget", birthday, "nothing"], "").status.success());
    assert_eq!(listed(&here, &[]), found, "nothing is forgotten where something is unknown");
    assert!(told(&here, &["memory", "forget", birthday], "").status.success());
    assert_eq!(listed(&here, &[]), "");
    let answer = text(&told(&here, &["ask", "내 생일이 언제라고 했지?"], "").stdout);
    assert!(!answer.contains("5월 3일"), "{answer}");
}
