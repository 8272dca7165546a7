//! Agents in files: a template, a broken file, and a server that reads them again.

use std::time::Duration;

use crate::program::{ServerProcess, fresh_directory, run_doran, utf8};

const DATA: [&str; 2] = ["--data-dir", "data"];

#[test]
fn a_template_is_an_agent_in_both_languages_and_is_not_overwritten() {
    let here = fresh_directory("agents-new");
    for (name, lang) in [("helpdesk", "en"), ("상담", "ko")] {
        let made = run_doran(&here, &[&DATA[..], &["agents", "new", name, "--lang", lang]].concat(), "");
        assert!(made.status.success(), "{}", utf8(&made.stderr));
    }
    let listed = run_doran(&here, &[&DATA[..], &["agents", "--json"]].concat(), "");
    let (listed, notes) = (utf8(&listed.stdout), utf8(&listed.stderr));
    assert!(listed.contains("\"helpdesk\"") && listed.contains("\"상담\""), "{listed}\n{notes}");
    assert!(!notes.contains("skipped"), "{notes}");
    // A branch whose targets are all nodes does not lead to the end.
    let drawn = utf8(
        &run_doran(&here, &[&DATA[..], &["graph", "helpdesk", "--format", "ascii"]].concat(), "").stdout,
    );
    assert!(drawn.contains("sort ..> person | search\n"), "{drawn}");
    let again = run_doran(&here, &[&DATA[..], &["agents", "new", "helpdesk"]].concat(), "");
    assert!(!again.status.success() && utf8(&again.stderr).contains("exists already"));
    let built_in =
        run_doran(&here, &[&DATA[..], &["agents", "new", "assistant", "--lang", "en"]].concat(), "");
    assert!(!built_in.status.success() && utf8(&built_in.stderr).contains("is an agent of the program"));
    let outside = run_doran(&here, &[&DATA[..], &["agents", "new", "../evil"]].concat(), "");
    assert!(!outside.status.success() && !here.join("data/evil.toml").exists());
    let schema = run_doran(&here, &["agents", "schema"], "");
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).expect("JSON");
    assert_eq!(schema["title"], "Agent of Doran");
}

#[test]
fn a_broken_file_is_reported_and_stops_nothing() {
    let here = fresh_directory("agents-broken");
    run_doran(&here, &[&DATA[..], &["agents", "new", "good"]].concat(), "");
    let folder = here.join("data/agents");
    std::fs::write(folder.join("unreadable.toml"), "name = ").expect("written");
    std::fs::write(folder.join("senseless.yaml"), "name: senseless\nstart: nowhere\nnode: []\n")
        .expect("written");
    std::fs::copy(folder.join("good.toml"), folder.join("twin.toml")).expect("copied");

    let listed = run_doran(&here, &[&DATA[..], &["agents", "--lang", "en"]].concat(), "");
    let (shown, notes) = (utf8(&listed.stdout), utf8(&listed.stderr));
    assert!(listed.status.success() && shown.contains("good"), "{shown}\n{notes}");
    for file in ["unreadable.toml", "senseless.yaml", "twin.toml"] {
        let line = notes.lines().find(|line| line.contains(file));
        assert!(line.is_some_and(|line| line.contains("is skipped")), "{file}: {notes}");
    }
    let asked = run_doran(&here, &[&DATA[..], &["ask", "--agent", "react", "15 * 4"]].concat(), "");
    assert!(asked.status.success() && utf8(&asked.stdout).contains("60"), "{}", utf8(&asked.stderr));
    let doctor = run_doran(&here, &[&DATA[..], &["doctor", "--json"]].concat(), "");
    let row = utf8(&doctor.stdout);
    let row = row.lines().find(|line| line.contains("\"agents\"")).expect("a row");
    assert!(row.contains("warn") && row.contains("unreadable.toml"), "{row}");
}

fn until(server: &ServerProcess, holds: impl Fn(&str) -> bool) {
    let mut agents = String::new();
    for _ in 0..600 {
        agents = server.request("GET /api/agents", "");
        if holds(&agents) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{agents}");
}

#[test]
fn a_server_reads_changed_files_again() {
    let here = fresh_directory("agents-reload");
    let server = ServerProcess::start_with(&here, &["--port", "0", "--data-dir", "data"]);
    let folder = here.join("data/agents");
    std::fs::create_dir_all(&folder).expect("a directory");
    let agent = |text: &str| {
        format!(
            "name = \"echo\"\nen = \"{text}\"\nko = \"메아리\"\nstart = \"say\"\n[[node]]\nname = \"say\"\nuse = \"respond\"\ntext = \"{text}: {{{{ question }}}}\"\nthen = \"end\"\n"
        )
    };
    std::fs::write(folder.join("echo.toml"), agent("first")).expect("written");
    until(&server, |agents| agents.contains("\"echo\""));
    let ask = |message: &str| {
        server.request("POST /api/chat", &format!(r#"{{"agent":"echo","message":"{message}"}}"#))
    };
    assert!(ask("a").contains("first: a"));
    std::fs::write(folder.join("echo.toml"), agent("the second")).expect("written");
    until(&server, |agents| agents.contains("the second"));
    assert!(ask("b").contains("the second: b"));
    // A version that cannot be read, or not be built, leaves the last good one in service. Once the file that was written
    // after it is there, it was read too.
    let other = |name: &str| agent("beside").replace("name = \"echo\"", &format!("name = \"{name}\""));
    for (nth, broken) in ["name = ".to_owned(), agent("x").replace("start = \"say\"", "start = \"nowhere\"")]
        .iter()
        .enumerate()
    {
        std::fs::write(folder.join("echo.toml"), broken).expect("written");
        let name = format!("beside-{nth}");
        std::fs::write(folder.join(format!("{name}.toml")), other(&name)).expect("written");
        until(&server, |agents| agents.contains(&format!("\"{name}\"")));
        assert!(ask("still").contains("the second: still"), "{broken}");
    }
    std::fs::write(folder.join("echo.toml"), agent("third")).expect("written");
    until(&server, |agents| agents.contains("third"));
    assert!(ask("c").contains("third: c"));
    // A file that is gone takes its agent along, and one that comes back broken does not bring it back.
    std::fs::remove_file(folder.join("echo.toml")).expect("removed");
    until(&server, |agents| !agents.contains("\"echo\"") && agents.contains("\"react\""));
    std::fs::write(folder.join("echo.toml"), "name = ").expect("written");
    std::fs::write(folder.join("last.toml"), other("last")).expect("written");
    until(&server, |agents| agents.contains("\"last\""));
    assert!(!server.request("GET /api/agents", "").contains("\"echo\""));
    let (_, log) = server.stop();
    let is_logged = |words: &str| log.lines().any(|line| line.contains("echo.toml") && line.contains(words));
    assert!(is_logged("its last good version stays in service: ") && is_logged("is skipped: "), "{log}");
}
