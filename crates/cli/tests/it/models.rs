//! `doran models` and `doran doctor`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use crate::program::{doran_command, fresh_directory, run_doran, utf8};

#[test]
fn a_key_in_the_environment_is_offered_and_not_used() {
    let here = fresh_directory("models");
    let run = |args: &[&str]| {
        doran_command(&here, args).env("OPENAI_API_KEY", "hunter2").output().expect("it runs")
    };
    let listed = run(&["models"]);
    let stdout = utf8(&listed.stdout);
    assert!(stdout.contains("answering now: offline-extractive-2 (default)"), "{stdout}");
    assert!(stdout.contains("OPENAI_API_KEY  OpenAI   to use it: doran models use openai:MODEL"), "{stdout}");
    let shown = run(&["config"]);
    let all = [listed.stdout, listed.stderr, shown.stdout.clone(), shown.stderr].concat();
    assert!(!utf8(&all).contains("hunter2"));
    assert!(utf8(&shown.stdout).contains("OPENAI_API_KEY  ***  env OPENAI_API_KEY"));
}

#[test]
fn a_choice_is_written_where_it_is_read_again() {
    let here = fresh_directory("choice");
    let refused = run_doran(&here, &["models", "use", "openai:gpt-4.1-mini", "--lang", "ko"], "");
    assert!(
        utf8(&refused.stderr).contains("환경 변수 `OPENAI_API_KEY`에 키를 넣으세요"),
        "{}",
        utf8(&refused.stderr)
    );
    let file = here.join(".local/share/doran/doran.toml");
    assert!(!file.exists());
    let chosen = run_doran(&here, &["models", "use", "ollama:qwen3:8b"], "");
    assert!(chosen.status.success(), "{}", utf8(&chosen.stderr));
    assert!(utf8(&chosen.stderr).contains(&format!("written to `{}`", file.display())));
    assert_eq!(fs::read_to_string(&file).expect("the file"), "model = \"ollama:qwen3:8b\"\n");
    let listed = utf8(&run_doran(&here, &["models", "--json"], "").stdout);
    assert!(listed.contains("\"model\": \"ollama:qwen3:8b\""), "{listed}");

    fs::write(here.join("doran.toml"), "# mine\nlog = \"info\"\n").expect("written");
    run_doran(&here, &["models", "use", "offline-extractive-2"], "");
    let text_now = fs::read_to_string(here.join("doran.toml")).expect("the file");
    assert_eq!(text_now, "model = \"offline-extractive-2\"\n# mine\nlog = \"info\"\n");
    let unknown = utf8(&run_doran(&here, &["models", "use", "gpt"], "").stderr);
    assert!(unknown.contains("there is no model `gpt`; `doran models` lists what can be used"), "{unknown}");
}

/// The cause stands in parentheses, once, and the advice behind it.
#[test]
fn an_error_of_a_provider_is_said_once() {
    let here = fresh_directory("models-errors");
    let error = |args: &[&str]| utf8(&run_doran(&here, &[args, &["--lang", "ko"]].concat(), "").stderr);
    let at = error(&["models", "--at", "http://127.0.0.1:1"]);
    assert!(at.contains("찾지 못했습니다 (") && at.trim_end().ends_with("맞는지 확인하세요."), "{at}");
    assert_eq!(at.matches("Connection refused").count(), 1, "{at}");
    let encoder = error(&["search", "휴가", "--encoder", "openai:text-embedding-3-small"]);
    assert!(encoder.contains("열 수 없습니다. `openai`에는 API 키가 필요합니다."), "{encoder}");
    assert_eq!(encoder.matches("OPENAI_API_KEY").count(), 1, "{encoder}");
}

#[test]
fn the_doctor_says_what_is_wrong_and_ends_accordingly() {
    let here = fresh_directory("doctor");
    let well = run_doran(&here, &["doctor", "--json"], "");
    let stdout = utf8(&well.stdout);
    for check in
        ["settings", "data", "disk", "database", "jail", "model", "servers", "encoder", "keys", "port"]
    {
        assert!(stdout.contains(&format!("\"check\":\"{check}\"")), "{stdout}");
    }
    assert_eq!(well.status.success(), !stdout.contains("\"health\":\"fail\""), "{stdout}");
    let ill =
        run_doran(&here, &["doctor", "--model", "openai:x", "--listen", "0.0.0.0:1", "--lang", "ko"], "");
    let stdout = utf8(&ill.stdout);
    assert_eq!(ill.status.code(), Some(1), "{stdout}");
    assert!(
        stdout.lines().any(|line| line.starts_with("fail  model") && line.contains("OPENAI_API_KEY")),
        "{stdout}"
    );
    assert!(
        stdout.lines().any(|line| line.starts_with("fail  keys") && line.contains("doran keys new")),
        "{stdout}"
    );
}

/// A llama.cpp server with a small model; `None`: skipped, in words.
fn start_llama_server() -> Option<(Child, String)> {
    let Some(python) = env::var_os("DORAN_TEST_LLAMA_PYTHON") else {
        let required = env::var("DORAN_REQUIRE_PARTS").as_deref() == Ok("1");
        assert!(!required, "a llama.cpp server is required (DORAN_REQUIRE_PARTS=1); run `./x test`");
        eprintln!("SKIPPED: no llama.cpp server, run `./x test` / llama.cpp 서버가 없어 건너뜀");
        return None;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../llm/tests/llama/serve.py");
    let mut command = Command::new(python);
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the server starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert!(line.starts_with("http://127.0.0.1:"), "the server did not start: {line:?}");
    Some((child, line.trim().to_owned()))
}

#[test]
fn a_llama_server_is_listed_chosen_and_explained() {
    let Some((mut child, address)) = start_llama_server() else { return };
    let here = fresh_directory("llama");
    let listed = utf8(&run_doran(&here, &["models", "--at", &address], "").stdout);
    let id = format!("llamacpp:{address}/v1#smollm2-135m");
    assert!(listed.contains(&format!("{id}   to use it: doran models use {id}")), "{listed}");
    let chosen = run_doran(&here, &["models", "use", &id], "");
    assert!(chosen.status.success(), "{}", utf8(&chosen.stderr));
    assert!(
        utf8(&chosen.stderr).contains("questions and passages do not leave it"),
        "{}",
        utf8(&chosen.stderr)
    );
    let doctor = utf8(&run_doran(&here, &["doctor"], "").stdout);
    assert!(doctor.contains(&format!("ok    model      {id}: reached")), "{doctor}");
    child.kill().expect("killed");
    child.wait().expect("gone");
    let doctor = utf8(&run_doran(&here, &["doctor", "--lang", "ko"], "").stdout);
    let line = doctor.lines().find(|line| line.starts_with("fail  model")).expect("it fails");
    assert!(line.contains("닿지 않음") && line.contains("서버가 켜져 있는지"), "{line}");
    let gone = run_doran(&here, &["models", "--at", &address], "");
    assert!(utf8(&gone.stderr).contains("no model server was found"), "{}", utf8(&gone.stderr));
}
