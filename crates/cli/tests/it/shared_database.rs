//! A server on PostgreSQL beside other processes: commands in its data directory, a second start, a newer version, and
//! databases that cannot be opened.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tokio_postgres::NoTls;

use crate::program::{ServerProcess, doran_command, fresh_directory, run_doran, utf8};
use crate::replicas::{Machine, fresh_database, send, wait_for};

/// Runs statements in the database of this URL.
fn execute(database: &str, sql: &str) -> Vec<String> {
    let (url, schema) = database.split_once("schema=").expect("a schema");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url.trim_end_matches(['?', '&']), NoTls).await.expect("connected");
        let connection = tokio::spawn(connection);
        let sql = sql.replace("SCHEMA", schema);
        let answers = client.simple_query(&sql).await.expect("executed");
        drop(client);
        connection.await.expect("it ends").expect("closed");
        let rows = answers.into_iter().filter_map(|answer| match answer {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        rows.collect()
    })
}

const MIGRATE: &str = "update SCHEMA.doran_meta set value = 99 where name = 'format'";
const FORMAT: &str = "select value from SCHEMA.doran_meta where name = 'format'";

/// The end of a server: its exit status and what it said.
fn wait_for_end(mut server: ServerProcess) -> (Option<i32>, String) {
    let mut status = None;
    wait_for("the end of the server", || {
        status = server.child.try_wait().expect("its status");
        status.is_some()
    });
    (status.and_then(|status| status.code()), server.rest_of_stderr())
}

#[test]
fn a_server_stops_writing_and_ends_when_a_newer_version_migrates_the_database() {
    let Some(database) = fresh_database("newer") else { return };
    let machine = Machine::new("newer", &[("DORAN_DATABASE", &database), ("DORAN_ENCODER", "none")]);
    let server = machine.serve();
    let make = |number: usize| {
        let body = format!(r#"{{"title":"대화 {number}"}}"#);
        send(&server, "POST /api/threads", "", "", &body).map(|answer| answer.status)
    };
    let ready = || send(&server, "GET /readyz", "", "", "");
    assert_eq!(make(0), Some(201));
    assert_eq!(ready().map(|answer| answer.status), Some(200));
    execute(&database, MIGRATE);
    // Until it notices it, it may write; after that nothing any more.
    let (mut number, mut made, mut refused) = (1, 1, BTreeSet::new());
    wait_for("the end of the server", || {
        match make(number) {
            Some(201) => {
                assert!(refused.is_empty(), "it writes on after {refused:?}");
                made += 1;
            }
            Some(status) => drop(refused.insert(status)),
            None => return true,
        }
        number += 1;
        ready().is_none_or(|answer| {
            assert!(refused.is_empty() || answer.status == 503, "{answer:?} after {refused:?}");
            false
        })
    });
    assert!(refused.iter().all(|status| *status == 503), "{refused:?}");
    let (status, text) = wait_for_end(server);
    assert_eq!(status, Some(78), "{text}");
    assert!(text.contains("format 99") && text.contains("install the newer doran"), "{text}");
    assert_eq!(execute(&database, "select count(*) from SCHEMA.threads"), [made.to_string()]);
    let refused = machine.command(&["serve", "--port", "0", "--lang", "ko"]).output().expect("it ends");
    let text = utf8(&refused.stderr);
    assert_eq!(refused.status.code(), Some(78), "{text}");
    assert!(text.contains("새 버전의 doran을 설치") && !text.contains("the store has"), "{text}");
}

#[test]
fn commands_go_through_the_server_that_has_the_data_directory() {
    let Some(database) = fresh_database("beside") else { return };
    let variables: [(&'static str, &str); 3] =
        [("DORAN_DATABASE", &database), ("DORAN_ENCODER", "none"), ("DORAN_LANGUAGE", "en")];
    let machine = Machine::new("beside", &variables);
    let (made, _, error) = machine.run(&["keys", "new", "client"]);
    assert!(made, "{error}");
    let server = machine.serve();
    fs::write(machine.here.join("leave.md"), "# 휴가\n\n병가는 1년에 60일까지 쓸 수 있다.\n")
        .expect("a file");
    let run = |args: &[&str]| {
        let (ended_well, text, error) = machine.run(args);
        assert!(ended_well, "{args:?}: {error}");
        text
    };
    run(&["ingest", "leave.md"]);
    assert!(run(&["documents", "list"]).contains("leave.md"));
    assert!(run(&["search", "병가"]).contains("60일"));
    assert!(run(&["ask", "병가는 며칠까지 쓸 수 있나요?"]).contains("60일"));
    assert!(!run(&["threads", "list"]).is_empty());
    for command in [&["reindex"][..], &["serve", "--port", "0"]] {
        let (ended_well, _, error) = machine.run(command);
        assert!(!ended_well && error.contains(&server.address), "{error}");
    }
    assert!(server.stop().0.success());
    run(&["reindex"]);
    assert!(run(&["search", "병가"]).contains("60일"), "and without a server");
}

#[test]
fn a_second_start_in_the_data_directory_leaves_the_first_server_its_lease() {
    let Some(database) = fresh_database("twice") else { return };
    let variables: [(&'static str, &str); 2] = [("DORAN_DATABASE", &database), ("DORAN_ENCODER", "none")];
    let [one, two] = ["one", "two"].map(|which| Machine::new(&format!("twice-{which}"), &variables));
    let first = one.serve();
    let (started, _, error) = one.run(&["serve", "--port", "0", "--lang", "en"]);
    assert!(!started && error.contains(&first.address), "{error}");
    let refused = two.command(&["serve", "--port", "0", "--lang", "en"]).output().expect("it ends");
    let error = utf8(&refused.stderr);
    assert!(refused.status.code() == Some(78) && error.contains("uses this database"), "{error}");
    assert!(first.request("GET /healthz", "").contains(" 200 "));
}

/// The line of a check in the output of `doran doctor --json`.
fn doctor_line(output: &str, check: &str) -> String {
    let name = format!("\"check\":\"{check}\"");
    output
        .lines()
        .find(|line| line.contains(&name))
        .unwrap_or_else(|| panic!("{check} in {output}"))
        .to_owned()
}

#[test]
fn doctor_changes_no_database_and_says_what_a_start_would_do() {
    let Some(database) = fresh_database("doctor") else { return };
    let machine = Machine::new("doctor-shared", &[("DORAN_DATABASE", &database), ("DORAN_ENCODER", "none")]);
    let doctor = || machine.run(&["doctor", "--json"]).1;
    let schemas = "select nspname from pg_namespace where nspname = 'SCHEMA'";
    assert!(doctor_line(&doctor(), "database").contains("still empty"));
    assert!(execute(&database, schemas).is_empty(), "nothing was made");
    assert!(machine.serve().stop().0.success());
    assert!(doctor_line(&doctor(), "database").contains("opens and is whole"));
    execute(&database, MIGRATE);
    let output = doctor();
    let line = doctor_line(&output, "database");
    assert!(line.contains("\"fail\"") && line.contains("install the newer doran"), "{line}");
    assert!(doctor_line(&output, "replicas").contains("not looked at"));
    assert_eq!(execute(&database, FORMAT), ["99"]);
}

#[test]
fn doctor_leaves_an_older_file_as_it_is() {
    let here = fresh_directory("doctor-older");
    let data = here.join("data");
    fs::create_dir(&data).expect("a directory");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/fixtures/sqlite");
    fs::copy(fixtures.join("v6.db"), data.join("doran.db")).expect("copied");
    let before = fs::read(data.join("doran.db")).expect("read");
    let output = utf8(&run_doran(&here, &["doctor", "--json", "--data-dir", "data"], "").stdout);
    let line = doctor_line(&output, "database");
    assert!(line.contains("format 6; the next start migrates it to 7"), "{line}");
    assert!(line.contains("형식 6") && line.contains("\"warn\""), "{line}");
    assert_eq!(fs::read(data.join("doran.db")).expect("read"), before);
    assert!(!data.join("doran.db.format-6").exists());
}

#[test]
fn a_database_that_cannot_be_opened_says_in_korean_what_to_do() {
    let here = fresh_directory("unopened");
    let check = |database: &str, words: &[&str]| {
        for args in [&["ask", "안녕?", "--lang", "ko"][..], &["doctor", "--lang", "ko"]] {
            let output =
                doran_command(&here, args).env("DORAN_DATABASE", database).output().expect("it ends");
            let text = utf8(&output.stderr) + &utf8(&output.stdout);
            assert!(!output.status.success(), "{args:?}: {text}");
            assert!(words.iter().all(|word| text.contains(word)), "{args:?}: {words:?} in {text}");
            assert!(!text.contains("the store") && !text.contains("백업에서"), "{args:?}: {text}");
        }
    };
    check("postgres://doran:pw@127.0.0.1:1/doran", &["PostgreSQL에 닿지 않습니다", "주소와 포트"]);
    let Some(database) = fresh_database("unopened") else { return };
    let (login, rest) = database.split_once('@').expect("a login");
    let (address, _) = rest.split_once('/').expect("a database");
    let missing = format!("{login}@{address}/no_such_database");
    check(&missing, &["그런 이름의 데이터베이스가 없습니다", "createdb"]);
    check(&format!("postgres://nobody:wrong@{rest}"), &["사용자나 비밀번호를 받아들이지 않습니다"]);
}

#[test]
fn a_damaged_file_says_in_korean_what_to_do() {
    let here = fresh_directory("damaged-file");
    fs::create_dir(here.join("data")).expect("a directory");
    fs::write(here.join("data/doran.db"), "not a database, but long enough to be looked at")
        .expect("written");
    for args in [&["ask", "안녕?"][..], &["doctor"]] {
        let args = [args, &["--data-dir", "data", "--lang", "ko"]].concat();
        let output = run_doran(&here, &args, "");
        let text = utf8(&output.stderr) + &utf8(&output.stdout);
        assert!(!output.status.success() && text.contains("doran restore"), "{args:?}: {text}");
        assert!(text.contains("파일이 손상되었습니다") && !text.contains("the store"), "{args:?}: {text}");
    }
}
