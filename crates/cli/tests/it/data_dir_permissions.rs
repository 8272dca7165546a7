//! What other users of the machine can read of the data directory: nothing.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::program::{ServerProcess, doran_command, fresh_directory, run_doran, utf8};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Everything below `path` that others than its owner have a right to.
fn exposed(path: &Path) -> Vec<PathBuf> {
    let about = fs::symlink_metadata(path).expect("there");
    let mut found = Vec::new();
    if about.permissions().mode() & 0o077 != 0 {
        found.push(path.to_owned());
    }
    if about.is_dir() {
        let entries = fs::read_dir(path).expect("entries");
        found.extend(entries.flat_map(|entry| exposed(&entry.expect("an entry").path())));
    }
    found
}

/// As a package or an administrator makes it, with the usual umask.
fn open_data_directory(name: &str) -> (PathBuf, PathBuf) {
    let here = fresh_directory(name);
    let data = here.join("data");
    fs::create_dir(&data).expect("made");
    set_mode(&data, 0o755);
    (here, data)
}

#[test]
fn a_directory_made_beforehand_ends_up_private_with_all_its_files() {
    let (here, data) = open_data_directory("modes-server");
    let written =
        fs::write(data.join("not-ours.txt"), "").map(|()| set_mode(&data.join("not-ours.txt"), 0o644));
    written.expect("written");
    let server = ServerProcess::start_with(&here, &["--port", "0", "--data-dir", "data"]);
    let answer = server.request("POST /api/documents?name=a.txt", "연차는 15일입니다.");
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    let answer =
        server.request("POST /api/chat", r#"{"message": "연차는 며칠인가요?", "agent": "assistant"}"#);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    for file in ["doran.db", "doran.db-wal", "memory.log"] {
        assert!(data.join(file).exists(), "{file}");
    }
    assert_eq!(exposed(&data), [data.join("not-ours.txt")], "what is not ours is left alone");
    drop(server);
}

#[test]
fn permissions_of_an_older_version_are_corrected_and_reported() {
    let (here, data) = open_data_directory("modes-older");
    let ask = ["ask", "연차는 며칠인가요?", "--data-dir", "data"];
    assert!(run_doran(&here, &ask, "").status.success());
    for name in ["doran.db", "memory.log", "library"] {
        set_mode(&data.join(name), if name == "library" { 0o755 } else { 0o644 });
    }
    let doctor = run_doran(&here, &["doctor", "--data-dir", "data"], "");
    let rows = utf8(&doctor.stdout);
    let row = rows.lines().find(|line| line.contains("  data ")).expect("a row");
    assert!(row.starts_with("fail") && row.contains("doran.db"), "{row}");
    let text = utf8(&run_doran(&here, &ask, "").stderr);
    assert!(text.contains("doran.db") && text.contains("other users could read this"), "{text}");
    assert_eq!(exposed(&data), [] as [PathBuf; 0]);
    let doctor = utf8(&run_doran(&here, &["doctor", "--data-dir", "data"], "").stdout);
    assert!(doctor.lines().any(|line| line.starts_with("ok    data")), "{doctor}");
}

#[test]
fn keys_and_backups_are_private_too() {
    let (here, data) = open_data_directory("modes-keys");
    assert!(run_doran(&here, &["keys", "new", "a", "--data-dir", "data"], "").status.success());
    assert_eq!(exposed(&data), [] as [PathBuf; 0]);
    assert!(run_doran(&here, &["ask", "연차는?", "--data-dir", "data"], "").status.success());
    let backup = run_doran(&here, &["backup", "copy.db", "--data-dir", "data"], "");
    assert!(backup.status.success(), "{}", utf8(&backup.stderr));
    assert_eq!(exposed(&here.join("copy.db")), [] as [PathBuf; 0]);
}

/// As Kubernetes mounts a volume with `fsGroup`. Only root can make such a directory.
#[test]
fn a_directory_of_another_user_is_used_with_a_warning() {
    use std::os::unix::process::CommandExt;

    const USER: u32 = 65_532;
    let here = fresh_directory("modes-volume");
    let data = here.join("data");
    fs::create_dir(&data).expect("made");
    if std::os::unix::fs::chown(&data, Some(0), Some(USER)).is_err() {
        return;
    }
    set_mode(&data, 0o2775);
    let run = |args: &[&str]| {
        let mut command = doran_command(&here, args);
        command.args(["--data-dir", "data", "--lang", "en"]).uid(USER).gid(USER);
        let output = command.output().expect("it ends");
        (output.status.success(), utf8(&output.stdout), utf8(&output.stderr))
    };
    let (ended_well, _, error) = run(&["threads", "list"]);
    assert!(ended_well && error.matches("belongs to another user").count() == 1, "{error}");
    let (_, checks, error) = run(&["doctor", "--json"]);
    let line = checks.lines().find(|line| line.contains(r#""check":"data""#)).expect("a check");
    assert!(line.contains(r#""warn""#) && line.contains("`data_dir`"), "{line} {error}");
    assert_eq!(exposed(&data), [data], "the files are private");
}

#[test]
fn keys_that_root_makes_belong_to_the_owner_of_the_data_directory() {
    let (here, data) = open_data_directory("owner");
    let other = 65_534;
    if std::os::unix::fs::chown(&data, Some(other), Some(other)).is_err() {
        println!("SKIPPED: only root can write in the directory of another user");
        return;
    }
    let made = run_doran(&here, &["keys", "new", "laptop", "--data-dir", "data"], "");
    assert!(made.status.success(), "{}", utf8(&made.stderr));
    for file in ["keys.toml", "keys.lock"] {
        let about = fs::metadata(data.join(file)).expect(file);
        assert_eq!((about.uid(), about.gid(), about.mode() & 0o777), (other, other, 0o600), "{file}");
    }
}
