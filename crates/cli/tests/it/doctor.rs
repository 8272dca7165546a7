//! `doran doctor` over a data directory in which something is damaged or in use.

use std::fs;
use std::path::Path;

use crate::program::{ServerProcess, fresh_directory, run_doran, utf8};

/// The line of a check, and whether the command succeeded.
fn doctor_line(here: &Path, check: &str, more: &[&str]) -> (String, bool) {
    let output = run_doran(here, &[&["doctor", "--lang", "en"], more].concat(), "");
    let stdout = utf8(&output.stdout);
    let line = stdout.lines().find(|line| line.split_whitespace().nth(1) == Some(check));
    (line.unwrap_or(&stdout).to_owned(), output.status.success())
}

#[test]
fn damaged_files_beside_the_database_are_found() {
    let here = fresh_directory("doctor-files");
    let data = here.join(".local/share/doran");
    let output = run_doran(&here, &["ask", "안녕하세요"], "");
    assert!(output.status.success(), "{}", utf8(&output.stderr));
    let (line, _) = doctor_line(&here, "files", &[]);
    assert!(line.starts_with("ok "), "{line}");
    let check = |name: &str, damage: &dyn Fn(&Path), reason: &str| {
        let (path, aside) = (data.join(name), data.join("aside"));
        let existed = path.exists();
        if existed {
            fs::rename(&path, &aside).expect("moved");
        }
        damage(&path);
        let (line, succeeded) = doctor_line(&here, "files", &[]);
        assert!(line.starts_with("fail ") && line.contains(name) && line.contains(reason), "{name}: {line}");
        assert!(!succeeded);
        if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) }.expect("removed");
        if existed {
            fs::rename(&aside, &path).expect("moved back");
        }
    };
    let write = |bytes: &'static str| move |path: &Path| fs::write(path, bytes).expect("written");
    let make_directory = |path: &Path| fs::create_dir(path).expect("made");
    check("memory.log", &write("broken\nlines\n"), "damaged at line 1");
    check("memory.log", &make_directory, "cannot be read");
    check("marks.key", &write("short"), "5 bytes instead of 32");
    check("python.key", &make_directory, "cannot read");
    check("library", &write("a file"), "cannot be read");
    let (line, _) = doctor_line(&here, "files", &[]);
    assert!(line.starts_with("ok "), "{line}");
}

#[test]
fn a_database_that_another_data_directory_uses_is_found() {
    let here = fresh_directory("doctor-database");
    let server = ServerProcess::start_with(&here, &["--port", "0", "--data-dir", "one"]);
    let other = ["--data-dir", "two", "--database", "sqlite:one/doran.db"];
    let (line, succeeded) = doctor_line(&here, "database", &other);
    assert!(line.starts_with("fail ") && line.contains("another data directory"), "{line}");
    assert!(!succeeded);
    drop(server);
}

#[test]
fn a_settings_file_that_is_no_file_is_an_error() {
    let here = fresh_directory("settings-directory");
    fs::create_dir_all(here.join(".local/share/doran/doran.toml")).expect("made");
    for command in [&["doctor"][..], &["serve", "--port", "0"], &["ask", "안녕?"]] {
        let output = run_doran(&here, &[command, &["--lang", "en"]].concat(), "");
        let error = utf8(&output.stderr);
        assert!(
            !output.status.success() && error.contains("doran.toml` is not a file"),
            "{command:?}: {error}"
        );
    }
}
