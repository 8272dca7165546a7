//! What a backup holds of agents with a database of their own, and where the settings lead after a restore.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use zip::ZipArchive;

use crate::program::{ServerProcess, doran_command, fresh_directory, run_doran, utf8};

/// Runs a command that has to succeed, and returns what it printed and what it told.
fn done(here: &Path, args: &[&str]) -> (String, String) {
    let output = run_doran(here, args, "");
    let (stdout, stderr) = (utf8(&output.stdout), utf8(&output.stderr));
    assert!(output.status.success(), "{args:?}: {stderr}");
    (stdout, stderr)
}

fn threads(here: &Path, flags: &[&str]) -> Vec<String> {
    let (listed, _) = done(here, &[&["threads", "--json"], flags].concat());
    let mut names: Vec<String> = listed
        .lines()
        .flat_map(|line| match serde_json::from_str(line).expect("JSON") {
            Value::Array(all) => all,
            one => vec![one],
        })
        .map(|one| one["thread"].as_str().or(one["id"].as_str()).expect("a name").to_owned())
        .collect();
    names.sort();
    names
}

fn manifest(archive: &Path) -> Value {
    let mut zip = ZipArchive::new(File::open(archive).expect("open")).expect("a zip");
    let mut text = String::new();
    zip.by_name("manifest.json").expect("a list").read_to_string(&mut text).expect("text");
    serde_json::from_str(&text).expect("JSON")
}

/// An installation whose settings lead to many places, with a thread in each of its three databases, and a backup of it
/// that was made while its server ran.
fn scattered_installation(name: &str) -> std::path::PathBuf {
    let here = fresh_directory(name);
    let place = here.join("production");
    fs::create_dir_all(place.join("far")).expect("create");
    fs::create_dir_all(place.join("papers")).expect("create");
    let at = place.display();
    fs::write(
        place.join("doran.toml"),
        format!(
            "# our settings\nmax_steps = 77\ndata_dir = \"data\"\ndatabase = \"sqlite:{at}/far/main.db\" # fast disk\nindex_path = \"{at}/far/index\"\n\n[agents.docqa]\ncheckpoint_db_path = \"data/docqa.db\"\n\n[agents.react]\ncheckpoint_db_path = \"far/react.db\"\n\n[tools.read_roots]\npapers = \"papers\"\n"
        ),
    )
    .expect("write");
    let config = place.join("doran.toml");
    let config = config.to_str().expect("UTF-8");
    let server = ServerProcess::start_with(&here, &["--config", config, "--port", "0"]);
    for (agent, thread) in [("assistant", "main"), ("docqa", "inside"), ("react", "outside")] {
        done(&here, &["ask", "--config", config, "--agent", agent, "--thread", thread, "안녕하세요"]);
    }
    done(&here, &["backup", "backup.zip", "--config", config]);
    drop(server);
    here
}

#[test]
fn threads_of_agents_with_their_own_database_are_in_the_backup() {
    let here = scattered_installation("backup-threads");
    let listed = manifest(&here.join("backup.zip"));
    let hashed = |name: &str| {
        let files = listed["files"].as_array().expect("files");
        files
            .iter()
            .any(|file| file["name"] == name && file["sha256"].as_str().is_some_and(|sum| sum.len() == 64))
    };
    for name in ["database.sqlite", "thread-databases/docqa.db", "thread-databases/threads/react.db"] {
        assert!(hashed(name), "{name}: {listed:#}");
    }
    fs::rename(here.join("production"), here.join("gone")).expect("moved");
    let (_, told) = done(&here, &["restore", "backup.zip"]);
    assert!(told.contains("`agents.react.checkpoint_db_path` was `far/react.db`"), "{told}");
    let data = here.join(".local/share/doran");
    assert!(data.join("docqa.db").exists() && data.join("threads/react.db").exists());
    assert_eq!(threads(&here, &[]), ["inside", "main", "outside"]);
    // A second backup, of the restored installation, has everything at its new place.
    done(&here, &["backup", "again.zip"]);
    done(&here, &["restore", "again.zip", "--data-dir", "second"]);
    assert_eq!(threads(&here, &["--data-dir", "second"]), ["inside", "main", "outside"]);
}

#[test]
fn a_restored_directory_leads_nowhere_else() {
    let here = scattered_installation("backup-leads-nowhere");
    fs::rename(here.join("production"), here.join("gone")).expect("moved");
    let (_, told) = done(&here, &["restore", "backup.zip", "--data-dir", "look"]);
    for words in
        ["`database` was `sqlite:", "`index_path` was", "`tools.read_roots.papers`", "is a comment now"]
    {
        assert!(told.contains(words), "{words}: {told}");
    }
    let text = fs::read_to_string(here.join("look/doran.toml")).expect("settings");
    assert!(
        text.starts_with(
            "# our settings\nmax_steps = 77\ndata_dir = \".\"\ndatabase = \"sqlite\" # fast disk\n"
        ) && text.contains("\n# papers = \"papers\"\n"),
        "{text}"
    );
    let config = ["--config", "look/doran.toml"];
    for flags in [&["--data-dir", "look"][..], &config] {
        assert_eq!(threads(&here, flags), ["inside", "main", "outside"]);
        for agent in ["assistant", "docqa", "react"] {
            done(&here, &[&["ask", "--agent", agent, "안녕하세요"], flags].concat());
        }
        assert!(!here.join("production").exists() && !here.join(".local").exists(), "it wrote outside");
        fs::remove_dir_all(here.join("look")).expect("removed");
        done(&here, &["restore", "backup.zip", "--data-dir", "look"]);
    }
}

#[test]
fn settings_in_force_that_lead_elsewhere_are_named() {
    let here = scattered_installation("backup-in-force");
    fs::copy(here.join("production/doran.toml"), here.join("doran.toml")).expect("copied");
    let refused = run_doran(&here, &["restore", "backup.zip", "--data-dir", "look"], "");
    let error = utf8(&refused.stderr);
    assert!(!refused.status.success() && error.contains("add `--database sqlite`"), "{error}");
    let (_, told) = done(&here, &["restore", "backup.zip", "--data-dir", "look", "--database", "sqlite"]);
    let file = here.join("doran.toml");
    for words in [
        format!("the settings file `{}` is in force", file.display()),
        format!("add `--config {}`", here.join("look/doran.toml").display()),
        "`index_path` of the settings in force".to_owned(),
        "`agents.react.checkpoint_db_path` of the settings in force".to_owned(),
    ] {
        assert!(told.contains(&words), "{words}: {told}");
    }
    assert_eq!(threads(&here, &["--config", "look/doran.toml"]), ["inside", "main", "outside"]);
}

#[test]
fn servers_that_restored_settings_name_are_told() {
    let here = fresh_directory("backup-postgres");
    let data = here.join(".local/share/doran");
    fs::create_dir_all(&data).expect("create");
    fs::write(data.join("keys.toml"), "").expect("write");
    let settings = here.join("postgres.toml");
    fs::write(&settings, "database = \"postgres://u:hunter2@127.0.0.1:1/d?schema=x\"\n").expect("write");
    let settings = settings.to_str().expect("UTF-8");
    let (_, told) = done(&here, &["backup", "b.zip", "--config", settings]);
    assert!(told.contains("the PostgreSQL database is not in this backup"), "{told}");
    fs::remove_dir_all(&data).expect("removed");
    let with_address = ["--database", "postgres://u:hunter2@127.0.0.1:1/d"];
    let (_, told) = done(&here, &[&["restore", "b.zip"][..], &with_address].concat());
    for words in ["was not restored", "pg_restore", "still use `postgres://u:***@127.0.0.1:1/d"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(!told.contains("hunter2"), "{told}");
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("entries");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Starts a backup that takes long, and sends it a signal when it has begun to write. Returns its exit code.
#[cfg(unix)]
fn signalled_backup(here: &Path, signal: &str) -> (Option<i32>, String) {
    let mut child = doran_command(here, &["backup", "out/b.zip"]).spawn().expect("it starts");
    let has_begun = || {
        names(&here.join("out")).iter().any(|name| here.join("out").join(name).join("archive.zip").exists())
    };
    while !has_begun() {
        assert!(child.try_wait().expect("status").is_none(), "it ended before it was stopped");
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), utf8(&output.stderr))
}

#[cfg(unix)]
#[test]
fn an_interrupted_backup_leaves_nothing_for_long() {
    let here = fresh_directory("backup-interrupted");
    done(&here, &["ask", "안녕하세요"]);
    fs::create_dir(here.join("out")).expect("create");
    let evals = here.join(".local/share/doran/evals");
    fs::create_dir_all(&evals).expect("create");
    // Without any blocks on the disk, and long enough.
    File::create(evals.join("long")).and_then(|file| file.set_len(64 << 30)).expect("a sparse file");
    for signal in ["-TERM", "-INT"] {
        let (code, error) = signalled_backup(&here, signal);
        assert!(code == Some(1) && error.contains("the backup was stopped"), "{code:?} {error}");
        assert_eq!(names(&here.join("out")), [""; 0], "{signal}");
    }
    let (code, _) = signalled_backup(&here, "-KILL");
    assert_eq!((code, names(&here.join("out")).len()), (None, 1));
    fs::remove_file(evals.join("long")).expect("removed");
    done(&here, &["backup", "out/b.zip"]);
    assert_eq!(names(&here.join("out")), ["b.zip"]);
}
