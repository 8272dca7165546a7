//! `doran serve`: killed in the middle, stopped by a signal, refused an address.

use crate::program::{ServerProcess, fresh_directory, run_doran, utf8};

const QUESTION_BODY: &str = r#"{"agent":"assistant","message":"연차휴가는 며칠인가요?"}"#;

/// The path of the events that an answer names.
fn events_path(answer: &str) -> String {
    let line = answer.lines().find_map(|line| line.strip_prefix("location: "));
    line.unwrap_or_else(|| panic!("no place in {answer}")).to_owned()
}

#[test]
fn a_run_that_was_killed_is_finished_by_the_next_start() {
    let here = fresh_directory("killed");
    // The process ends, without a word, when the second node is about to start: the first one is on disk.
    let mut server = ServerProcess::start(&here, Some("node.before_start:2"));
    let answer = server.request("POST /api/threads/t/runs", QUESTION_BODY);
    assert!(!server.child.wait().expect("it died").success());
    assert!(!answer.contains("event: finished"), "{answer}");

    // It may have died before it sent the answer, so the run is looked up.
    let server = ServerProcess::start(&here, None);
    let runs = server.request("GET /api/threads/t/runs", "");
    let id = runs.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let id = id.unwrap_or_else(|| panic!("no run in {runs}"));
    let events = server.request(&format!("GET /api/threads/t/runs/{id}/events?after=1"), "");
    for (n, kind) in [(2, "step"), (3, "restarted"), (4, "step"), (5, "step"), (6, "step"), (7, "finished")] {
        assert!(events.contains(&format!("id: {n}\nevent: {kind}\n")), "{n} {kind}\n{events}");
    }
    assert!(events.contains("연차휴가 15일을 준다."), "{events}");
    assert!(!events.contains("id: 8\n") && !events.contains("id: 1\n"), "{events}");
}

#[test]
fn a_server_that_gets_a_stop_signal_ends_well_and_remembers() {
    let here = fresh_directory("stop");
    let server = ServerProcess::start(&here, None);
    let answer = server.request("POST /api/threads/t/runs", QUESTION_BODY);
    assert!(answer.contains("event: finished"), "{answer}");
    let (status, stderr) = server.stop();
    assert!(status.success(), "{stderr}");
    let server = ServerProcess::start(&here, None);
    let events = server.request(&format!("GET {}", events_path(&answer)), "");
    assert!(events.contains("id: 6\nevent: finished"), "{events}");
}

/// People copy it before they read on.
#[test]
fn the_first_call_of_the_readmes_is_answered_from_documents() {
    let here = fresh_directory("readme");
    let server = ServerProcess::start(&here, None);
    for (name, words) in [("README.md", "seven days"), ("README.ko.md", "15일")] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        let readme = std::fs::read_to_string(path).expect("read");
        let call = readme.lines().find(|line| line.contains("/api/chat ")).expect("a call");
        let body = call.split('\'').rev().nth(1).expect("a body");
        let answer = server.request("POST /api/chat", body);
        assert!(answer.contains(words) && answer.contains("\"sources\":[{"), "{name}: {answer}");
    }
}

#[test]
fn every_question_that_an_agent_proposes_is_answered() {
    let here = fresh_directory("starters");
    let server = ServerProcess::start(&here, None);
    let body = |answer: &str| -> serde_json::Value {
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    };
    let listed = body(&server.request("GET /api/agents", ""));
    let mut asked = 0;
    for agent in listed["agents"].as_array().expect("agents") {
        for (language, strange) in [("ko", ["찾지 못했", "본보기"]), ("en", ["did not find", "made-up"])]
        {
            for question in agent["starters"][language].as_array().expect("questions") {
                let ask = serde_json::json!({ "agent": agent["id"], "message": question });
                let answer = body(&server.request("POST /api/chat", &ask.to_string()));
                let words = answer["response"].as_str().unwrap_or_default();
                assert!(!words.is_empty() && answer.get("error").is_none(), "{ask}: {answer}");
                assert!(!strange.iter().any(|strange| words.contains(strange)), "{ask}: {words}");
                asked += 1;
            }
        }
    }
    assert!(asked >= 16, "{asked}");
}

/// The questions that the page proposes only while the samples are searched.
const SAMPLE_QUESTIONS_JSON: &str = include_str!("../../../server/ui/src/sample-questions.json");

#[test]
fn the_page_knows_which_proposed_questions_are_about_the_samples() {
    let here = fresh_directory("starters-own");
    let server = ServerProcess::start(&here, None);
    let body = |answer: &str| -> serde_json::Value {
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    };
    let about: serde_json::Value = serde_json::from_str(SAMPLE_QUESTIONS_JSON).expect("JSON");
    let listed = body(&server.request("GET /api/agents", ""));
    for language in ["ko", "en"] {
        let mut known: Vec<&str> =
            about[language].as_array().expect("questions").iter().filter_map(|one| one.as_str()).collect();
        for agent in listed["agents"].as_array().expect("agents") {
            for question in agent["starters"][language].as_array().expect("questions") {
                let ask = serde_json::json!({ "agent": agent["id"], "message": question });
                let answer = body(&server.request("POST /api/chat", &ask.to_string()));
                let cites = answer["sources"].as_array().is_some_and(|sources| !sources.is_empty());
                let is_known = about[language].as_array().is_some_and(|all| all.contains(question));
                assert_eq!(
                    cites, is_known,
                    "{ask}: put it into `sample-questions.json` of the page, or take it out"
                );
                known.retain(|one| *one != question);
            }
        }
        assert!(known.is_empty(), "nobody proposes {known:?}");
    }
}

#[test]
fn an_address_that_others_can_reach_is_refused_in_both_languages() {
    let here = fresh_directory("address");
    let english = run_doran(&here, &["serve", "--listen", "0.0.0.0:0"], "");
    assert_eq!(english.status.code(), Some(1));
    assert!(utf8(&english.stderr).contains("other machines can reach `0.0.0.0:0`"));
    let korean = run_doran(&here, &["serve", "--listen", "0.0.0.0:0", "--lang", "ko"], "");
    assert!(utf8(&korean.stderr).contains("다른 컴퓨터도 닿을 수 있는데"));
    assert!(!here.join(".local").exists(), "a mistake in the address makes no database");
}

#[cfg(unix)]
#[test]
fn a_server_that_may_open_few_files_makes_clients_wait_and_goes_on() {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    let here = fresh_directory("files");
    let program = env!("CARGO_BIN_EXE_doran");
    let server =
        ServerProcess::start_by_shell(&here, &format!("ulimit -n 64 && exec {program} serve --port 0"));
    // Many more than fit. The system takes them in; the server does not, and does not fall over.
    let crowd: Vec<TcpStream> =
        (0..120).map(|_| TcpStream::connect(&server.address).expect("connected")).collect();
    let mut waits = TcpStream::connect(&server.address).expect("connected");
    waits.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    waits.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    drop(crowd);
    let mut answer = String::new();
    waits.read_to_string(&mut answer).expect("its turn comes");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let asked = server.request("POST /api/threads/t/runs", QUESTION_BODY);
    assert!(asked.contains("event: finished"), "{asked}");
    let (status, stderr) = server.stop();
    assert!(status.success(), "{stderr}");
}

/// The jail limits address space, so it tells the workers' allocator to set none aside. This one listens.
#[cfg(target_os = "linux")]
#[test]
fn the_allocator_of_a_worker_sets_no_address_space_aside() {
    let here = fresh_directory("address-space");
    let size = |reserve: &str| {
        let line = format!("exec env {reserve} '{}' serve --port 0", env!("CARGO_BIN_EXE_doran"));
        let server = ServerProcess::start_by_shell(&here, &line);
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).expect("status");
        let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a size");
        let kilobytes = size.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
        drop(server);
        kilobytes
    };
    let (small, usual) = (size("MIMALLOC_ARENA_RESERVE=0"), size(""));
    assert!(small + 500_000 < usual, "{small} kB when told, {usual} kB otherwise");
}

#[test]
fn a_second_server_of_a_directory_is_told_where_the_first_one_is() {
    let here = fresh_directory("second-server");
    let first = ServerProcess::start(&here, None);
    let port = first.address.rsplit_once(':').expect("a port").1;
    for flags in [&["--port", port][..], &["--port", "0"]] {
        let second = run_doran(&here, &[&["serve", "--lang", "en"], flags].concat(), "");
        let error = utf8(&second.stderr);
        let told = format!("runs already at http://{}", first.address);
        assert!(second.status.code() == Some(1) && error.contains(&told), "{error}");
        assert!(!error.contains("another program"), "{error}");
    }
}
