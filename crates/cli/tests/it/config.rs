//! `doran config`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::program::{fresh_directory, run_doran, utf8};

/// Runs the program in an empty environment but for these variables.
fn run_with_environment(directory: &Path, variables: &[(&str, &str)], args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doran"));
    command.env_clear().env("HOME", directory).envs(variables.iter().copied());
    command.current_dir(directory).args(args).output().expect("the program starts")
}

#[test]
fn data_goes_to_stdout_and_the_rest_to_stderr() {
    let here = fresh_directory("streams");
    fs::write(here.join("doran.toml"), "max_steps = 7\n").expect("write");
    let output = run_with_environment(&here, &[("DORAN_LISTN", "x")], &["config"]);
    let (stdout, stderr) = (utf8(&output.stdout), utf8(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    let file = here.join("doran.toml");
    let row = stdout.lines().find(|line| line.starts_with("max_steps")).expect("a row");
    assert!(row.contains(" 7 ") && row.ends_with(&format!("file {}", file.display())), "{row}");
    assert!(stderr.contains(&format!("settings file: {}", file.display())), "{stderr}");
    assert!(stderr.contains("DORAN_LISTEN") && !stdout.contains("DORAN_LISTN"), "{stderr}");
    assert!(!stderr.contains('\u{1b}') && !stdout.contains('\u{1b}'), "colour without a terminal");
}

#[test]
fn the_locale_and_the_flag_choose_the_language() {
    let here = fresh_directory("language");
    let korean = run_with_environment(&here, &[("LANG", "ko_KR.UTF-8")], &["config"]);
    assert!(utf8(&korean.stderr).contains("설정 파일: 없음") && utf8(&korean.stdout).contains("기본값"));
    let english = run_with_environment(&here, &[("LANG", "ko_KR.UTF-8")], &["config", "--lang", "en"]);
    assert!(utf8(&english.stderr).contains("settings file: none"));
    let error = run_with_environment(&here, &[], &["config", "--lang", "ko", "--listen", "x"]);
    assert!(utf8(&error.stderr).starts_with("오류: `listen`의 값이 맞지 않습니다 (플래그 --listen)"));
}

#[test]
fn json_is_one_object_without_passwords() {
    let here = fresh_directory("json");
    let output =
        run_with_environment(&here, &[("DORAN_DATABASE", "postgres://u:hunter2@h/d")], &["config", "--json"]);
    let stdout = utf8(&output.stdout);
    let json: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    let settings = json["settings"].as_array().expect("settings");
    let database = settings.iter().find(|setting| setting["key"] == "database").expect("database");
    assert_eq!(database["value"], "postgres://u:***@h/d");
    assert_eq!(database["origin"]["from"], "DORAN_DATABASE");
    assert!(!(stdout + &utf8(&output.stderr)).contains("hunter2"));
}

#[test]
fn a_mistake_in_the_file_stops_the_program_and_names_the_line() {
    let here = fresh_directory("mistake");
    fs::write(here.join("doran.toml"), "log = \"info\"\nlistn = \"x\"\n").expect("write");
    let output = run_with_environment(&here, &[], &["config"]);
    let stderr = utf8(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(stderr.contains("line 2: there is no setting `listn`; the nearest is `listen`"), "{stderr}");
}

#[test]
fn a_server_of_tools_that_is_down_keeps_nothing_from_starting() {
    let here = fresh_directory("mcp-down");
    let settings = "[mcp.files]\ncommand = \"/nowhere/mcp-files\"\n\
                    [tools.policies]\nfiles__write = \"deny\"\n\
                    [agents.assistant]\ntools = [\"calculator\", \"files__read\"]\n";
    fs::write(here.join("doran.toml"), settings).expect("written");
    let answer = run_doran(&here, &["ask", "6 * 7 계산해줘"], "");
    let stderr = utf8(&answer.stderr);
    assert!(answer.status.success() && utf8(&answer.stdout).contains("42"), "{stderr}");
    assert!(stderr.contains("agent `assistant`: the tool `files__read` is not there now"), "{stderr}");
    assert!(stderr.contains("`files__write`: that tool is not there now"), "{stderr}");
    assert!(stderr.contains("the MCP server `files` cannot be started"), "{stderr}");
    assert_eq!(stderr.matches("MCP server").count(), 1, "{stderr}");
}

#[test]
fn a_key_that_replicas_share_is_known_long_enough_and_never_shown() {
    let here = fresh_directory("shared-key");
    let key = "0123456789abcdef0123456789hunter2";
    let shown = run_with_environment(&here, &[("DORAN_SHARED_KEY", key)], &["config"]);
    let both = utf8(&shown.stdout) + &utf8(&shown.stderr);
    assert!(shown.status.success() && both.contains("DORAN_SHARED_KEY"), "{both}");
    assert!(!both.contains("is no setting") && !both.contains("hunter2"), "{both}");
    let asked = run_with_environment(&here, &[("DORAN_SHARED_KEY", key)], &["ask", "6 * 7 계산해줘"]);
    assert!(asked.status.success(), "{}", utf8(&asked.stderr));
    let short = run_with_environment(&here, &[("DORAN_SHARED_KEY", "hunter2")], &["ask", "6 * 7 계산해줘"]);
    let stderr = utf8(&short.stderr);
    assert_eq!(short.status.code(), Some(1));
    assert!(stderr.contains("`DORAN_SHARED_KEY` is too short") && !stderr.contains("hunter2"), "{stderr}");
}

#[test]
fn the_log_goes_to_stderr_when_requested() {
    let here = fresh_directory("log");
    let output = run_with_environment(&here, &[], &["config", "--log", "debug"]);
    assert!(utf8(&output.stderr).contains("settings loaded"));
    assert!(!utf8(&output.stdout).contains("settings loaded"));
}

#[test]
fn reading_the_settings_makes_nothing() {
    let here = fresh_directory("nothing");
    assert!(run_with_environment(&here, &[], &["config"]).status.success());
    assert_eq!(fs::read_dir(&here).expect("directory").count(), 0);
}

#[test]
fn a_mistake_in_the_command_line_is_reported_in_korean_too() {
    let here = fresh_directory("misread");
    let korean = [("LANG", "ko_KR.UTF-8")];
    for (args, words, help) in [
        (&["ask", "--agnt", "x", "hi"][..], "그런 옵션은 없습니다: `--agnt`", "`doran ask --help`"),
        (&["sevre"], "그런 명령은 없습니다: `sevre`", "`doran --help`"),
        (&["serve", "--port", "99999"], "맞지 않는 값입니다: `99999`", "`doran serve --help`"),
        (&["--lang", "ko", "agents", "new"], "필요한 값이 없습니다: `<NAME>`", "`doran agents new --help`"),
        (&["agents", "nwe"], "그런 명령은 없습니다: `nwe`", "`doran agents --help`"),
    ] {
        let output = run_with_environment(&here, &korean, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            utf8(&output.stderr).starts_with("오류: ") && utf8(&output.stderr).contains(words),
            "{output:?}"
        );
        assert!(utf8(&output.stderr).contains(&format!("사용법은 {help}로")), "{output:?}");
        let args: Vec<&str> = args.iter().copied().filter(|arg| !matches!(*arg, "--lang" | "ko")).collect();
        let english = run_with_environment(&here, &[("LANG", "en_US.UTF-8")], &args);
        assert!(utf8(&english.stderr).starts_with("error: "), "{english:?}");
    }
    let help = run_with_environment(&here, &korean, &["--help"]);
    assert!(help.status.success() && help.stderr.is_empty() && utf8(&help.stdout).contains("사용법: doran"));
    let english = run_with_environment(&here, &korean, &["--lang", "en", "--help"]);
    assert!(utf8(&english.stdout).contains("Usage: doran") && !utf8(&english.stdout).contains("사용법"));
}

#[test]
fn the_program_alone_lists_its_commands_and_that_is_no_error() {
    let here = fresh_directory("alone");
    let alone = run_with_environment(&here, &[("LANG", "en_US.UTF-8")], &[]);
    let text = utf8(&alone.stdout);
    assert!(alone.status.success() && alone.stderr.is_empty(), "{alone:?}");
    assert!(["Usage: doran", "serve", "chat", "ingest"].iter().all(|word| text.contains(word)), "{text}");
    // A command that lacks its own command is a mistake.
    let half = run_with_environment(&here, &[("LANG", "en_US.UTF-8")], &["keys", "--wrong"]);
    assert_eq!(half.status.code(), Some(2), "{half:?}");
}

/// On a terminal there is a short screen instead of the whole help.
#[cfg(target_os = "linux")]
#[test]
fn the_program_alone_on_a_terminal_says_what_is_in_use_and_how_to_begin() {
    let here = fresh_directory("start-screen");
    let settings = "language = \"en\"\ndata_dir = \"papers\"\n";
    fs::write(here.join("doran.toml"), settings).expect("write");
    let Some(child) = crate::program::spawn_in_terminal(&here, "") else { return };
    let shown = child.wait_with_output().expect("it ends");
    let screen = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.success() && screen.lines().count() <= 12, "{screen}");
    let words = ["Doran 0.", "papers", "offline-extractive-2", "not running", "doran chat", "doran --help"];
    assert!(words.iter().all(|word| screen.contains(word)), "{screen}");
    assert!(!screen.contains("--database") && !here.join("papers").exists(), "{screen}");
}

#[test]
fn the_version_names_commit_features_and_target() {
    let here = fresh_directory("version");
    let version = run_with_environment(&here, &[], &["--version"]);
    let text = utf8(&version.stdout);
    let lines: Vec<&str> = text.lines().collect();
    let labels: Vec<&str> = lines.iter().filter_map(|line| line.split([' ', ':']).next()).collect();
    assert!(version.status.success() && labels == ["doran", "commit", "features", "target"], "{version:?}");
    assert!(lines[3].contains(std::env::consts::ARCH), "{lines:?}");
}

#[test]
fn a_directory_that_holds_what_the_program_stores_is_not_readable_by_tools() {
    let here = fresh_directory("read-roots");
    fs::create_dir_all(here.join("papers")).expect("a folder");
    let agents = "[agents.contract]\ncheckpoint_db_path = \"papers/contract.db\"\n";
    for (settings, place) in [
        ("[tools.read_roots]\nhome = \".\"\n".to_owned(), "doran"),
        ("[tools.read_roots]\ndata = \".local/share/doran/library\"\n".to_owned(), "doran"),
        (format!("[tools.read_roots]\npapers = \"papers\"\n{agents}"), "contract.db"),
        (
            "store = \"local\"\nindex_path = \"papers/index\"\n[tools.read_roots]\npapers = \"papers\"\n"
                .to_owned(),
            "index",
        ),
    ] {
        fs::create_dir_all(here.join(".local/share/doran/library")).expect("a folder");
        fs::write(here.join("doran.toml"), &settings).expect("settings");
        let output = run_doran(&here, &["ask", "안녕", "--lang", "en"], "");
        let stderr = utf8(&output.stderr);
        assert!(!output.status.success() && stderr.contains(place), "{settings}{stderr}");
    }
    fs::write(here.join("doran.toml"), "[tools.read_roots]\npapers = \"papers\"\n").expect("settings");
    let output = run_doran(&here, &["ask", "안녕"], "");
    assert!(output.status.success(), "{}", utf8(&output.stderr));
}

#[test]
fn a_value_that_does_not_fit_is_answered_with_those_that_do() {
    let here = fresh_directory("argument-values");
    for (args, ko, en) in [
        (&["search", "--kind", "foo", "x"][..], "general, contract, standard", "one of general, contract"),
        (&["ingest", "--kind", "foo", "x"], "auto, general, contract", "one of auto, general"),
        (&["runs", "--limit", "0"], "1 이상의 정수", "a whole number from 1"),
        (&["threads", "--limit", "foo"], "1 이상의 정수", "a whole number from 1"),
        (&["search", "--limit", "foo", "x"], "1 이상의 정수", "a whole number from 1"),
        (&["serve", "--port", "99999"], "0부터 65535까지의 정수", "up to 65535"),
        (&["graph", "assistant", "--format", "foo"], "mermaid, json, svg, ascii", "mermaid, json, svg"),
        (&["completions", "foo"], "bash, elvish, fish, powershell, zsh", "bash, elvish, fish"),
    ] {
        for (language, expected) in [("ko", format!("필요한 것: {ko}")), ("en", en.to_owned())] {
            let refused = run_doran(&here, &[args, &["--lang", language]].concat(), "");
            let error = utf8(&refused.stderr);
            assert!(refused.status.code() == Some(2) && error.contains(&expected), "{args:?}: {error}");
        }
    }
}
