//! `doran backup` and `doran restore`: under load, and with everything that can go wrong.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use sha2::Digest as _;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::program::{ServerProcess, doran_command, fresh_directory, run_doran, spawn_doran, utf8};

const RULES: &str = "# 휴가 규정\n\n제1조(연차) 한빛상사 직원은 한 해에 연차휴가 스물두 날을 쓴다.\n\n제2조(병가) 병가는 아흔 날까지 쓴다.\n";
const QUESTION: &str = "한빛상사 직원은 연차휴가를 며칠 쓰나요?";

fn data_dir(here: &Path) -> PathBuf {
    here.join(".local/share/doran")
}

/// Sends a request with an API key. Returns the status line and the body.
fn send(address: &str, key: &str, head: &str, content_type: &str, body: &[u8]) -> (String, String) {
    let mut socket = TcpStream::connect(address).expect("connected");
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {key}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).expect("sent");
    socket.write_all(body).expect("sent");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).ok();
    let answer = utf8(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

fn ask(address: &str, key: &str, thread: &str) -> Value {
    let body = json!({ "agent": "docqa", "message": QUESTION, "threadId": thread }).to_string();
    let (status, answer) = send(address, key, "POST /api/chat", "application/json", body.as_bytes());
    assert!(status.contains(" 200 "), "{status}: {answer}");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    json!({ "response": answer["response"], "sources": answer["sources"] })
}

fn get(address: &str, key: &str, path: &str) -> Value {
    let (status, body) = send(address, key, &format!("GET {path}"), "application/json", b"");
    assert!(status.contains(" 200 "), "{path}: {status}: {body}");
    serde_json::from_str(&body).unwrap_or(Value::String(body))
}

fn setting_value(listed: &Value, key: &str) -> Value {
    let line = listed.as_str().and_then(|text| text.lines().find(|line| line.starts_with(key)));
    line.and_then(|line| line.split_whitespace().nth(1)).expect("a value").into()
}

/// Everything a user sees of what was there before the backup.
fn visible_state(server: &ServerProcess, key: &str, here: &Path) -> BTreeMap<&'static str, Value> {
    let address = &server.address;
    let documents = get(address, key, "/api/documents");
    let rules = documents["documents"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["name"].as_str().is_some_and(|name| name.contains("규정"))))
        .unwrap_or_else(|| panic!("no rules in {documents}"));
    let id = rules["id"].as_str().expect("an id");
    let output_of = |args: &[&str]| {
        let output = run_doran(here, args, "");
        assert!(output.status.success(), "{}", utf8(&output.stderr));
        Value::String(utf8(&output.stdout))
    };
    BTreeMap::from([
        ("messages", get(address, key, "/api/threads/kept/messages")),
        ("document", rules.clone()),
        ("text", get(address, key, &format!("/api/documents/{id}/text"))),
        ("memory", output_of(&["memory", "list", "--json"])),
        ("keys", output_of(&["keys", "list", "--json"])),
        ("agents", output_of(&["agents"])),
        // The origin is another one afterwards: the settings file is in the data directory then.
        ("settings", setting_value(&output_of(&["config"]), "max_steps")),
    ])
}

#[test]
fn a_backup_under_load_restores_everything() {
    let here = fresh_directory("backup-load");
    fs::write(here.join("doran.toml"), "max_steps = 77\n\n[assistants.helper]\nagent = \"docqa\"\n")
        .expect("write");
    fs::write(here.join("규정.md"), RULES).expect("write");
    let key = utf8(&run_doran(&here, &["keys", "new", "laptop"], "").stdout).trim().to_owned();
    let server = ServerProcess::start(&here, None);
    let added = run_doran(&here, &["ingest", "규정.md"], "");
    assert!(added.status.success(), "{}", utf8(&added.stderr));
    assert!(run_doran(&here, &["ask", "내 생일은 5월 3일이라고 기억해줘"], "").status.success());
    let answer = ask(&server.address, &key, "kept");
    assert!(answer["response"].as_str().is_some_and(|text| text.contains("스물두")), "{answer}");
    assert_ne!(answer["sources"], json!([]));

    // Others talk and upload all the while. What was answered before the backup began must be in it.
    let (stop, acknowledged) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let archive = here.join("backup.zip");
    let before = std::thread::scope(|scope| {
        for worker in 0..2 {
            let (address, key, stop, acknowledged) = (&server.address, &key, &stop, &acknowledged);
            scope.spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let thread = format!("load-{worker}-{number}");
                    ask(address, key, &thread);
                    let text = format!("# 메모 {thread}\n\n{}", "잡담입니다. ".repeat(50));
                    let path = format!("POST /api/documents?name=memo-{worker}-{}.md", number % 3);
                    let (status, body) =
                        send(address, key, &path, "application/octet-stream", text.as_bytes());
                    assert!(status.contains(" 20"), "{status}: {body}");
                    acknowledged.lock().expect("lock").push(thread);
                }
            });
        }
        while acknowledged.lock().expect("lock").len() < 6 {
            std::thread::yield_now();
        }
        let before = acknowledged.lock().expect("lock").clone();
        let made = run_doran(&here, &["backup", "backup.zip"], "");
        stop.store(true, Ordering::Relaxed);
        assert!(made.status.success(), "{}", utf8(&made.stderr));
        before
    });
    let state = visible_state(&server, &key, &here);
    drop(server.stop());
    let again = run_doran(&here, &["backup", "backup.zip"], "");
    assert_eq!(again.status.code(), Some(1), "a backup replaces nothing");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&archive).expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "it contains conversations");
    }

    // A new machine: nothing is left but the archive.
    fs::remove_dir_all(data_dir(&here)).expect("wiped");
    fs::remove_file(here.join("doran.toml")).expect("wiped");
    let restored = run_doran(&here, &["restore", "backup.zip"], "");
    assert!(restored.status.success(), "{}", utf8(&restored.stderr));
    let server = ServerProcess::start(&here, None);
    let (open, _) = send(&server.address, "wrong", "GET /api/agents", "application/json", b"");
    assert!(open.contains(" 401 "), "{open}");
    assert_eq!(state["settings"], "77");
    assert_eq!(visible_state(&server, &key, &here), state);
    for thread in before {
        let messages = get(&server.address, &key, &format!("/api/threads/{thread}/messages"));
        assert!(messages.to_string().contains("스물두"), "{thread}: {messages}");
    }
    assert_eq!(ask(&server.address, &key, "after"), answer, "the same words and the same sources");
}

/// A data directory with a document and a conversation, and a backup of it.
fn small_backup(name: &str) -> (PathBuf, PathBuf) {
    let here = fresh_directory(name);
    fs::write(here.join("규정.md"), RULES).expect("write");
    for args in
        [&["ingest", "규정.md"][..], &["ask", QUESTION], &["keys", "new", "a"], &["backup", "backup.zip"]]
    {
        let output = run_doran(&here, args, "");
        assert!(output.status.success(), "{args:?}: {}", utf8(&output.stderr));
    }
    let archive = here.join("backup.zip");
    (here, archive)
}

#[test]
fn a_backup_of_nothing_is_refused() {
    let here = fresh_directory("backup-nothing");
    let output = run_doran(&here, &["backup", "backup.zip", "--lang", "ko"], "");
    let error = utf8(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("`--data-dir`을 확인하세요"), "{error}");
    assert_eq!(fs::read_dir(&here).expect("here").count(), 0, "nothing is left of it");
}

/// Restores into a directory that does not exist, and must not exist afterwards. Returns the error.
fn refused(here: &Path, archive: &Path) -> String {
    let to = here.join("empty");
    let output = run_doran(
        here,
        &["restore", archive.to_str().expect("UTF-8"), "--data-dir", to.to_str().expect("UTF-8")],
        "",
    );
    let error = utf8(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(!to.exists(), "{:?} after: {error}", fs::read_dir(&to).map(Iterator::count));
    error
}

#[test]
fn a_damaged_archive_is_refused_wherever_the_damage_is() {
    let (here, archive) = small_backup("backup-damaged");
    let whole = fs::read(&archive).expect("read");
    let broken = here.join("broken.zip");
    for at in (0..16).map(|part| whole.len() * part / 16 + 40) {
        let mut bytes = whole.clone();
        let Some(byte) = bytes.get_mut(at) else { continue };
        *byte ^= 0x55;
        fs::write(&broken, &bytes).expect("write");
        let to = here.join(format!("at-{at}"));
        let output =
            run_doran(&here, &["restore", "broken.zip", "--data-dir", to.to_str().expect("UTF-8")], "");
        // Not every byte of a zip means something. One that does must be noticed.
        if output.status.success() {
            let kept = |root: &Path| fs::read_to_string(root.join("keys.toml")).expect("keys");
            assert_eq!(kept(&to), kept(&data_dir(&here)));
        } else {
            assert!(utf8(&output.stderr).contains("is damaged"), "{at}: {}", utf8(&output.stderr));
        }
    }
    for length in [0, 10, whole.len() / 2, whole.len() - 1] {
        fs::write(&broken, &whole[..length]).expect("write");
        assert!(refused(&here, &broken).contains("is damaged"));
    }
    assert!(refused(&here, &here.join("none.zip")).contains("cannot read the backup"));
}

/// Writes the archive anew, with another list of files, and other bytes where `change` gives some.
fn rewrite(from: &Path, to: &Path, change: impl Fn(&str, Vec<u8>) -> Option<(String, Vec<u8>)>) {
    let mut old = ZipArchive::new(File::open(from).expect("open")).expect("a zip");
    let mut new = ZipWriter::new(File::create(to).expect("create"));
    for at in 0..old.len() {
        let mut entry = old.by_index(at).expect("an entry");
        let name = entry.name().expect("a name").into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("bytes");
        let Some((name, bytes)) = change(&name, bytes) else { continue };
        new.start_file(name, SimpleFileOptions::default()).expect("an entry");
        new.write_all(&bytes).expect("written");
    }
    new.finish().expect("a zip");
}

fn with_manifest(from: &Path, to: &Path, change: impl Fn(&mut Value)) {
    rewrite(from, to, |name, bytes| {
        if name != "manifest.json" {
            return Some((name.to_owned(), bytes));
        }
        let mut manifest: Value = serde_json::from_slice(&bytes).expect("JSON");
        change(&mut manifest);
        Some((name.to_owned(), manifest.to_string().into_bytes()))
    });
}

/// One page, as SQLite makes it for a file in which nothing was created.
fn database_without_tables() -> Vec<u8> {
    let mut page = vec![0; 4096];
    page[..24].copy_from_slice(b"SQLite format 3\0\x10\0\x01\x01\0\x40\x20\x20");
    page[27] = 1; // change counter
    page[31] = 1; // pages
    page[95] = 1; // valid for this change counter
    page[100] = 13; // a leaf of a table, without cells
    page[105] = 16; // its content begins at the end
    page
}

#[test]
fn a_database_that_this_program_could_not_restore_is_not_backed_up() {
    let (here, _) = small_backup("backup-newer");
    let database = data_dir(&here).join("doran.db");
    let sound = fs::read(&database).expect("the database");
    let refused_backup = || {
        let output = run_doran(&here, &["backup", "second.zip"], "");
        assert_eq!(output.status.code(), Some(78));
        assert!(!here.join("second.zip").exists());
        utf8(&output.stderr)
    };
    let mut newer = sound.clone();
    newer[60..64].copy_from_slice(&99_u32.to_be_bytes()); // the format, in the header of SQLite
    fs::write(&database, newer).expect("written");
    let error = refused_backup();
    assert!(error.contains("format 99") && error.contains("install the newer doran"), "{error}");
    fs::write(&database, sound).expect("written");
    let output = run_doran(&here, &["backup", "second.zip"], "");
    assert!(output.status.success(), "{}", utf8(&output.stderr));
}

#[test]
fn an_archive_that_does_not_fit_is_refused() {
    let (here, archive) = small_backup("backup-unfit");
    let changed = here.join("changed.zip");
    with_manifest(&archive, &changed, |manifest| manifest["version"] = "99.0.0".into());
    assert!(refused(&here, &changed).contains("newer doran 99.0.0"));
    with_manifest(&archive, &changed, |manifest| {
        *manifest = json!({ "format": 9, "version": env!("CARGO_PKG_VERSION"), "parts": [] });
    });
    let error = refused(&here, &changed);
    assert!(error.contains("has format 9, and this program") && !error.contains("newer doran"), "{error}");
    // A list without a database, a database without a byte, and one without a table.
    let is_database = |file: &Value| file["name"] == "database.sqlite";
    rewrite(&archive, &changed, |name, bytes| (name != "database.sqlite").then(|| (name.to_owned(), bytes)));
    let unlisted = here.join("unlisted.zip");
    with_manifest(&changed, &unlisted, |manifest| {
        manifest["files"].as_array_mut().expect("files").retain(|file| !is_database(file));
    });
    assert!(refused(&here, &unlisted).contains("has no database, or an empty one"));
    for (content, reason) in
        [(Vec::new(), "has no database, or an empty one"), (database_without_tables(), "cannot be used")]
    {
        rewrite(&archive, &changed, |name, bytes| {
            let bytes = if name == "database.sqlite" { content.clone() } else { bytes };
            Some((name.to_owned(), bytes))
        });
        let sum = hex::encode(sha2::Sha256::digest(&content));
        with_manifest(&changed, &unlisted, |manifest| {
            for file in
                manifest["files"].as_array_mut().expect("files").iter_mut().filter(|file| is_database(file))
            {
                file["bytes"] = content.len().into();
                file["sha256"] = sum.as_str().into();
            }
        });
        assert!(refused(&here, &unlisted).contains(reason));
    }
    with_manifest(&archive, &changed, |manifest| manifest["database"] = "postgres".into());
    assert!(refused(&here, &changed).contains("set `database` to `postgres://…`"));

    // Names that lead out of the data directory, or that no backup has.
    for name in
        ["data/../../evil", "/etc/evil", "data/lock", "data/server.json", "data/library/..", "data/other"]
    {
        let rename = |old: &str| if old == "data/keys.toml" { name.to_owned() } else { old.to_owned() };
        rewrite(&archive, &changed, |old, bytes| {
            if old != "manifest.json" {
                return Some((rename(old), bytes));
            }
            let text = utf8(&bytes).replace("data/keys.toml", name);
            Some((old.to_owned(), text.into_bytes()))
        });
        assert!(refused(&here, &changed).contains("is damaged"), "{name}");
    }
    // A file that the list does not have, or one that is missing, or with other bytes.
    with_manifest(&archive, &changed, |manifest| {
        drop(manifest["files"].as_array_mut().expect("files").pop());
    });
    assert!(refused(&here, &changed).contains("is damaged"));
    rewrite(&archive, &changed, |name, bytes| (name != "data/keys.toml").then(|| (name.to_owned(), bytes)));
    assert!(refused(&here, &changed).contains("is damaged"));
    rewrite(&archive, &changed, |name, mut bytes| {
        if name == "data/keys.toml" {
            bytes.extend(b"\n");
        }
        Some((name.to_owned(), bytes))
    });
    assert!(refused(&here, &changed).contains("checksum"));
}

#[test]
fn a_data_directory_that_is_not_empty_is_left_alone() {
    let (here, archive) = small_backup("backup-not-empty");
    let before = fs::read(data_dir(&here).join("doran.db")).expect("read");
    let output = run_doran(&here, &["restore", archive.to_str().expect("UTF-8")], "");
    let error = utf8(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("is not empty (doran.db"), "{error}");
    assert_eq!(fs::read(data_dir(&here).join("doran.db")).expect("read"), before);

    let server = ServerProcess::start(&here, None);
    let output = run_doran(&here, &["restore", archive.to_str().expect("UTF-8"), "--lang", "ko"], "");
    assert!(utf8(&output.stderr).contains("서버가 멈춘 동안에만"), "{}", utf8(&output.stderr));
    drop(server);
}

/// Mounts a small disk for one command, in a namespace of its own.
#[cfg(target_os = "linux")]
const MOUNT_COMMAND: &str = "mount -t tmpfs -o size=512k none \"$1\" && shift && exec \"$@\"";

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_nothing_behind() {
    use std::process::Command;

    let (here, _) = small_backup("backup-full");
    // Bytes that cannot be packed, so that neither the archive nor its content fits on the disk.
    let noise: Vec<u8> = (0..40_000).flat_map(|_| uuid::Uuid::new_v4().into_bytes()).collect();
    fs::create_dir_all(data_dir(&here).join("evals")).expect("create");
    fs::write(data_dir(&here).join("evals/noise"), noise).expect("write");
    let made = run_doran(&here, &["backup", "large.zip"], "");
    assert!(made.status.success(), "{}", utf8(&made.stderr));
    let disk = here.join("disk");
    fs::create_dir(&disk).expect("create");
    let program = env!("CARGO_BIN_EXE_doran");
    // What is left is listed inside the namespace: outside of it there is no such disk.
    let run = |line: &str| {
        let script = format!("{line}; code=$?; ls -A disk disk/data 2>/dev/null; exit $code");
        Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", MOUNT_COMMAND, "sh"])
            .arg(&disk)
            .args(["sh", "-c", &script])
            .current_dir(&here)
            .env_clear()
            .env("HOME", &here)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .output()
            .expect("unshare")
    };
    if !run("true").status.success() {
        assert!(std::env::var_os("DORAN_REQUIRE_PARTS").is_none(), "no file system can be mounted here");
        println!("SKIPPED: no file system can be mounted here / 여기서는 파일 시스템을 마운트할 수 없음");
        return;
    }
    let full = run(&format!("{program} backup disk/large.zip"));
    let error = utf8(&full.stderr);
    assert!(
        full.status.code() == Some(1)
            && error.contains("cannot back up")
            && error.matches("the disk with `disk` is full").count() == 1
            && !error.contains("ZipWriter")
            && error.lines().count() == 1,
        "{error}"
    );
    assert_eq!(utf8(&full.stdout).trim(), "disk:", "nothing is left of it");
    let full = run(&format!("{program} restore large.zip --data-dir disk/data"));
    let error = utf8(&full.stderr);
    assert!(
        full.status.code() == Some(1)
            && error.contains("nothing was changed")
            && error.contains("os error 28"),
        "{error}"
    );
    assert_eq!(utf8(&full.stdout).split_whitespace().collect::<Vec<_>>(), ["disk:"]);

    // The disk with the data is full, and no server has the database open.
    let database = data_dir(&here).join("doran.db");
    let fill = format!(
        "mkdir disk/data && cp {} disk/data && {{ dd if=/dev/zero of=disk/fill bs=1k 2>/dev/null; true; }}",
        database.display()
    );
    let full = run(&format!("{fill} && {program} backup other.zip --data-dir disk/data"));
    let error = utf8(&full.stderr);
    assert!(
        full.status.code() == Some(1)
            && error.contains("the disk with the data in")
            && error.lines().count() == 1,
        "{error}"
    );
    assert!(!here.join("other.zip").exists());
}

#[test]
fn a_restore_that_was_killed_is_noticed_and_can_be_repeated() {
    let here = fresh_directory("backup-killed-restore");
    fs::write(here.join("규정.md"), RULES).expect("write");
    assert!(run_doran(&here, &["ingest", "규정.md"], "").status.success());
    // So much that the restore takes a moment.
    let mut bytes = vec![0_u8; 48 << 20];
    let mut state = 1_u32;
    for byte in &mut bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 24) as u8;
    }
    fs::create_dir_all(data_dir(&here).join("evals")).expect("a directory");
    fs::write(data_dir(&here).join("evals/large.bin"), bytes).expect("write");
    let made = run_doran(&here, &["backup", "backup.zip"], "");
    assert!(made.status.success(), "{}", utf8(&made.stderr));
    fs::remove_dir_all(data_dir(&here)).expect("wiped");

    let mut restore = spawn_doran(&here, &["restore", "backup.zip"]);
    let marker = data_dir(&here).join("restore.unfinished");
    while !marker.exists() {
        assert!(restore.try_wait().expect("a status").is_none(), "it ended before it could be killed");
        std::thread::yield_now();
    }
    restore.kill().expect("killed");
    restore.wait().expect("ended");

    let doctor = run_doran(&here, &["doctor", "--lang", "en"], "");
    assert!(utf8(&doctor.stdout).contains("has only a part of a backup"), "{}", utf8(&doctor.stdout));
    for command in [&["ask", "안녕"][..], &["keys", "new", "laptop"], &["ingest", "규정.md"]] {
        let refused = run_doran(&here, &[command, &["--lang", "en"]].concat(), "");
        assert_eq!(refused.status.code(), Some(1), "{command:?}");
        let error = utf8(&refused.stderr);
        assert!(error.contains("run it again with the same backup"), "{command:?}: {error}");
    }

    let again = run_doran(&here, &["restore", "backup.zip"], "");
    assert!(again.status.success(), "{}", utf8(&again.stderr));
    assert!(!marker.exists() && !data_dir(&here).join("restore.new").exists());
    let listed = run_doran(&here, &["documents", "list", "--json"], "");
    assert!(utf8(&listed.stdout).contains("규정.md"), "{}", utf8(&listed.stdout));
}

/// A restore that was killed when everything was at its place, and its archive.
fn killed_before_its_end(name: &str) -> (PathBuf, PathBuf) {
    let here = fresh_directory(name);
    fs::create_dir_all(data_dir(&here).join("threads")).expect("create");
    // A database that does not exist at the time of the backup.
    let settings = "[agents.docqa]\ncheckpoint_db_path = \"threads/none.db\"\n";
    fs::write(data_dir(&here).join("doran.toml"), settings).expect("write");
    for args in [&["keys", "new", "a"][..], &["ask", QUESTION], &["backup", "backup.zip"]] {
        let output = run_doran(&here, args, "");
        assert!(output.status.success(), "{args:?}: {}", utf8(&output.stderr));
        fs::remove_file(data_dir(&here).join("threads/none.db")).ok();
    }
    fs::remove_dir_all(data_dir(&here)).expect("wiped");
    let mut restore = doran_command(&here, &["restore", "backup.zip"]);
    let killed = restore.env("DORAN_FAILPOINT", "restore.before_completed:1").output().expect("it starts");
    assert!(!killed.status.success() && data_dir(&here).join("doran.db").exists());
    let archive = here.join("backup.zip");
    (here, archive)
}

#[test]
fn a_restore_that_was_killed_at_its_end_can_be_repeated() {
    let (here, _) = killed_before_its_end("backup-killed-at-end");
    let again = run_doran(&here, &["restore", "backup.zip"], "");
    let told = utf8(&again.stderr);
    assert!(again.status.success() && !told.contains("is in force"), "{told}");
    assert!(!data_dir(&here).join("restore.unfinished").exists());
    let listed = run_doran(&here, &["threads", "--json"], "");
    assert!(utf8(&listed.stdout).contains(QUESTION), "{}{}", utf8(&listed.stdout), utf8(&listed.stderr));
}

#[test]
fn a_second_restore_that_fails_leaves_the_first_unfinished() {
    let (here, archive) = killed_before_its_end("backup-second-fails");
    let names = || {
        let entries = fs::read_dir(data_dir(&here)).expect("entries");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("entry").file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    // The list of files is whole, and the last file is not.
    let broken = here.join("broken.zip");
    rewrite(&archive, &broken, |name, mut bytes| {
        if name == "data/keys.toml" {
            bytes.extend(b"\n");
        }
        Some((name.to_owned(), bytes))
    });
    let again = run_doran(&here, &["restore", "broken.zip"], "");
    let error = utf8(&again.stderr);
    assert!(error.contains("checksum") && error.contains("Nothing was changed"), "{error}");
    assert_eq!(names(), before);
    let refused = run_doran(&here, &["ask", "안녕"], "");
    assert!(utf8(&refused.stderr).contains("run it again with the same backup"), "{}", utf8(&refused.stderr));
}

#[test]
fn an_unfinished_restore_is_not_backed_up() {
    let (here, _) = killed_before_its_end("backup-of-unfinished");
    for flags in [&[][..], &["--database", "postgres://u@127.0.0.1:1/d"]] {
        let output = run_doran(&here, &[&["backup", "other.zip", "--lang", "ko"], flags].concat(), "");
        let error = utf8(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains("끝나지 않아 일부만 있습니다"), "{error}");
        assert!(!here.join("other.zip").exists());
    }
}
