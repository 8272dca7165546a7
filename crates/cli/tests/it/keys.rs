//! `doran keys`, and a server that follows them.

use std::time::{Duration, Instant};

use crate::program::{ServerProcess, doran_command, fresh_directory, run_doran, utf8};

/// The first line of the answer to a list of agents.
fn status_line(server: &ServerProcess, key: Option<&str>) -> String {
    use std::io::{Read, Write};
    let mut socket = std::net::TcpStream::connect(&server.address).expect("connected");
    let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    let request = format!("GET /api/agents HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{key}\r\n");
    socket.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).ok();
    utf8(&answer).lines().next().unwrap_or_default().to_owned()
}

fn wait_for_status(server: &ServerProcess, key: Option<&str>, expected: &str) {
    let started = Instant::now();
    while !status_line(server, key).contains(expected) {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{} is not {expected}",
            status_line(server, key)
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_server_follows_the_keys_and_never_opens_again() {
    let here = fresh_directory("keys");
    let server = ServerProcess::start(&here, None);
    assert!(status_line(&server, None).contains(" 200 "));
    let made = run_doran(&here, &["keys", "new", "laptop"], "");
    let key = utf8(&made.stdout).trim().to_owned();
    assert!(key.starts_with("doran_") && key.len() > 60, "{key}");
    let file = std::fs::read_to_string(here.join(".local/share/doran/keys.toml")).expect("the file");
    assert!(!file.contains(&key) && file.contains("laptop"), "{file}");
    wait_for_status(&server, None, " 401 ");
    wait_for_status(&server, Some(&key), " 200 ");
    let twice = run_doran(&here, &["keys", "new", "laptop"], "");
    assert!(utf8(&twice.stderr).contains("there is a key `laptop` already"));
    assert_eq!(utf8(&run_doran(&here, &["keys", "list"], "").stdout), "laptop  local\n");
    // The program itself still gets in.
    assert!(run_doran(&here, &["threads"], "").status.success());

    let revoked = run_doran(&here, &["keys", "revoke", "laptop"], "");
    assert!(revoked.status.success() && utf8(&revoked.stderr).contains("it was the last key"));
    wait_for_status(&server, Some(&key), " 401 ");
    let doctor = utf8(&run_doran(&here, &["doctor"], "").stdout);
    assert!(
        doctor.contains("answers only requests with a key") && !doctor.contains("only this machine may"),
        "{doctor}"
    );
    assert!(status_line(&server, None).contains(" 401 "), "without keys it does not open again");
    assert!(run_doran(&here, &["threads"], "").status.success());
}

#[test]
fn with_a_key_other_machines_may_be_served() {
    let here = fresh_directory("outward");
    assert!(run_doran(&here, &["keys", "new", "a", "--tenant", "sales"], "").status.success());
    let server = ServerProcess::start_with(&here, &["--listen", "0.0.0.0:0"]);
    assert!(status_line(&server, None).contains(" 401 "));
    let (_, stderr) = server.stop();
    assert!(stderr.contains("DORAN_ALLOWED_HOSTS") && stderr.contains("only this machine"), "{stderr}");
    let server = ServerProcess::start_by_shell(
        &here,
        &format!(
            "DORAN_ALLOWED_HOSTS=doran.lan exec {} serve --listen 0.0.0.0:0",
            env!("CARGO_BIN_EXE_doran")
        ),
    );
    let (_, stderr) = server.stop();
    assert!(!stderr.contains("only this machine"), "{stderr}");
}

#[test]
fn keys_come_from_the_environment_or_a_file_before_the_first_start() {
    let here = fresh_directory("given-keys");
    let key = "0123456789abcdef0123456789abcdef";
    std::fs::write(here.join("secret"), format!("gateway={key}\n")).expect("write");
    let program = env!("CARGO_BIN_EXE_doran");
    for variable in [format!("DORAN_API_KEYS=gateway={key}"), "DORAN_API_KEYS_FILE=secret".to_owned()] {
        let line =
            format!("{variable} DORAN_ALLOWED_HOSTS=doran.lan exec {program} serve --listen 0.0.0.0:0");
        let server = ServerProcess::start_by_shell(&here, &line);
        assert!(status_line(&server, None).contains(" 401 "));
        assert!(status_line(&server, Some(key)).contains(" 200 "));
        // The program itself gets in, and its own keys are valid besides.
        assert!(run_doran(&here, &["threads"], "").status.success());
        let own = utf8(&run_doran(&here, &["keys", "new", &format!("own-{}", variable.len())], "").stdout)
            .trim()
            .to_owned();
        wait_for_status(&server, Some(&own), " 200 ");
        assert!(status_line(&server, Some(key)).contains(" 200 "));
    }
    let refused = doran_command(&here, &["serve", "--port", "0"]).env("DORAN_API_KEYS", "a=hunter2").output();
    let refused = refused.expect("the program ends");
    let error = utf8(&refused.stderr);
    assert!(!refused.status.success() && error.contains("key 1 of `DORAN_API_KEYS`"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

/// The program asks its own server, whatever address that has.
#[cfg(target_os = "linux")]
#[test]
fn a_server_answers_the_program_on_any_address_of_this_machine() {
    let here = fresh_directory("addresses");
    let server = ServerProcess::start_with(&here, &["--listen", "127.0.0.2:0"]);
    let asked = run_doran(&here, &["ask", "연차휴가는 며칠인가요?"], "");
    assert!(utf8(&asked.stdout).contains("15일"), "{}", utf8(&asked.stderr));
    drop(server);
}

#[test]
fn a_key_in_an_address_opens_nothing_and_stands_in_no_log() {
    let here = fresh_directory("address-key");
    let made = run_doran(&here, &["keys", "new", "laptop"], "");
    let key = utf8(&made.stdout).trim().to_owned();
    let server =
        ServerProcess::start_with(&here, &["--port", "0", "--log", "warn,doran_server=trace,hyper=trace"]);
    for name in ["key", "api_key", "access_token"] {
        let answer = server.request(&format!("GET /api/agents?{name}={key}"), "");
        assert!(answer.starts_with("HTTP/1.1 401 ") && !answer.contains(&key), "{answer}");
    }
    wait_for_status(&server, Some(&key), " 200 ");
    let (_, log) = server.stop();
    assert!(log.contains("/api/agents"), "the log tells of requests: {log}");
    assert!(!log.contains(&key), "{log}");
}

#[test]
fn no_key_command_loses_what_another_did_at_the_same_time() {
    let here = fresh_directory("keys-at-once");
    for number in 0..25 {
        let made = run_doran(&here, &["keys", "new", &format!("old-{number}")], "");
        assert!(made.status.success(), "{}", utf8(&made.stderr));
    }
    // Fifty at once: each old key is taken away, and a new one is made beside it.
    let commands: Vec<std::process::Child> = (0..50)
        .map(|number| {
            let (verb, name) = if number % 2 == 0 {
                ("revoke", format!("old-{}", number / 2))
            } else {
                ("new", format!("new-{}", number / 2))
            };
            doran_command(&here, &["keys", verb, &name]).spawn().expect("the program starts")
        })
        .collect();
    for command in commands {
        let ended = command.wait_with_output().expect("it ends");
        assert!(ended.status.success(), "{}", utf8(&ended.stderr));
    }
    let listed = utf8(&run_doran(&here, &["keys", "list"], "").stdout);
    let mut names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    let mut expected: Vec<String> = (0..25).map(|number| format!("new-{number}")).collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn keys_of_the_environment_are_listed_where_the_variable_is_set() {
    let here = fresh_directory("listed-keys");
    assert!(run_doran(&here, &["keys", "new", "own"], "").status.success());
    let keys = |args: &[&str]| {
        let mut command = doran_command(&here, &[&["keys"], args].concat());
        let key = "0123456789abcdef0123456789abcdef";
        let output = command.env("DORAN_API_KEYS", format!("gateway@sales:admin={key}")).output();
        let output = output.expect("the program ends");
        (utf8(&output.stdout), utf8(&output.stderr))
    };
    let (listed, _) = keys(&["list"]);
    assert_eq!(listed, "own      local\ngateway  sales  admin  DORAN_API_KEYS\n");
    let (listed, _) = keys(&["list", "--json"]);
    let rows: Vec<serde_json::Value> =
        listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&rows[0]["variable"], &rows[1]["variable"]), (&().into(), &"DORAN_API_KEYS".into()));
    let (_, error) = keys(&["revoke", "gateway"]);
    assert!(error.contains("take it out of that variable"), "{error}");
    assert_eq!(utf8(&run_doran(&here, &["keys", "list"], "").stdout), "own  local\n");
    // Others than the last one are revoked without a warning.
    let (_, told) = keys(&["revoke", "own"]);
    assert!(told.contains("revoked") && !told.contains("last key"), "{told}");
}
