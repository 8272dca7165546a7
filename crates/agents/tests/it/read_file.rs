//! `read_file` from outside: what it reads, and that there is no way out of its roots.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use doran_agents::tools::{
    DocumentTextReader, ReadFile, ReadableRoot, ReadableRootError, Tool, ToolCallContext, ToolError,
    ToolOutput,
};
use doran_retrieval::Language;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use serde_json::{Value, json};

/// A directory that is gone at the end: `root` may be read, `outside` may not.
struct ReadFileDirectory(PathBuf);

impl ReadFileDirectory {
    fn new() -> Self {
        let place = std::env::temp_dir().join(format!("doran-read-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(place.join("root/docs")).expect("directory");
        std::fs::create_dir_all(place.join("outside")).expect("directory");
        std::fs::write(place.join("outside/passwd"), "SECRET").expect("file");
        std::fs::write(place.join("root/notes.txt"), "첫째 줄\n둘째 줄\n셋째 줄\n").expect("file");
        Self(place.canonicalize().expect("real"))
    }

    fn root(&self) -> ReadableRoot {
        ReadableRoot { name: "files".into(), path: self.0.join("root"), tenant: None }
    }

    fn tool(&self) -> ReadFile {
        ReadFile::new(vec![self.root()], &[], Some(Arc::new(FakePdfReader))).expect("tool")
    }
}

impl Drop for ReadFileDirectory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("remove");
    }
}

struct FakePdfReader;

#[async_trait]
impl DocumentTextReader for FakePdfReader {
    fn can_read(&self, name: &str) -> bool {
        name.ends_with(".pdf")
    }

    async fn read(&self, name: &str, bytes: Vec<u8>, language: Language) -> Result<String, String> {
        match bytes.starts_with(b"%PDF") {
            true => Ok(format!("{name}: {} bytes", bytes.len())),
            false => Err(language.pick("PDF가 아닙니다".into(), "not a PDF".into())),
        }
    }
}

async fn call_read_file(tool: &ReadFile, arguments: Value) -> Result<ToolOutput, ToolError> {
    call_read_file_as(tool, arguments, "t").await
}

async fn call_read_file_as(tool: &ReadFile, arguments: Value, tenant: &str) -> Result<ToolOutput, ToolError> {
    let call = ToolCallContext {
        tenant,
        thread: "th",
        key: "k",
        language: Language::English,
        session: None,
        now_ms: 0,
        taint: doran_agents::tools::Taint::default(),
    };
    tool.call(arguments, call).await
}

async fn read_file_text(tool: &ReadFile, path: &str) -> String {
    match call_read_file(tool, json!({ "path": path })).await {
        Ok(output) => output.text,
        Err(ToolError::Denied(_)) => "denied".into(),
        Err(ToolError::BadArguments(_)) => "bad path".into(),
        Err(ToolError::Failed(words)) if words.contains("no such file") => "not there".into(),
        Err(error) => format!("{error}"),
    }
}

#[tokio::test]
async fn files_are_read_whole_by_lines_and_as_documents_and_directories_are_listed() {
    let place = ReadFileDirectory::new();
    let tool = place.tool();
    std::fs::write(place.0.join("root/docs/a.pdf"), "%PDF-1.7").expect("file");
    std::fs::write(place.0.join("root/docs/b.pdf"), "no").expect("file");
    assert_eq!(read_file_text(&tool, "notes.txt").await, "첫째 줄\n둘째 줄\n셋째 줄\n");
    assert_eq!(read_file_text(&tool, "files/notes.txt").await, "첫째 줄\n둘째 줄\n셋째 줄\n");
    assert_eq!(read_file_text(&tool, "docs/../notes.txt").await, "첫째 줄\n둘째 줄\n셋째 줄\n");
    let part = call_read_file(&tool, json!({ "path": "notes.txt", "from_line": 2, "lines": 1 }))
        .await
        .expect("part");
    assert_eq!(part.text, "2: 둘째 줄\n");
    assert_eq!(read_file_text(&tool, "docs/a.pdf").await, "a.pdf: 8 bytes");
    assert_eq!(read_file_text(&tool, "docs/b.pdf").await, "not a PDF");
    assert_eq!(read_file_text(&tool, "").await, "docs/\nnotes.txt\t33");
    assert_eq!(read_file_text(&tool, "docs").await, "a.pdf\t8\nb.pdf\t2");
}

#[tokio::test]
async fn there_is_no_way_out_of_the_root() {
    let place = ReadFileDirectory::new();
    let outside = place.0.join("outside");
    let root = place.0.join("root");
    symlink(outside.join("passwd"), root.join("docs/link")).expect("link");
    symlink(&outside, root.join("docs/dirlink")).expect("link");
    symlink("/proc/self/fd/0", root.join("docs/magic")).expect("link");
    symlink("notes.txt", root.join("inner")).expect("link");
    std::fs::hard_link(outside.join("passwd"), root.join("docs/second-name")).expect("a hard link");
    mknodat(CWD, root.join("docs/pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("pipe");
    let socket = std::os::unix::net::UnixListener::bind(root.join("docs/socket")).expect("socket");
    let tool = place.tool();
    let cases = [
        ("../../../../etc/passwd", "denied"),
        ("../outside/passwd", "denied"),
        ("docs/../../outside/passwd", "denied"),
        ("..", "denied"),
        ("/etc/passwd", "denied"),
        ("/", "denied"),
        // taken as written
        ("%2e%2e%2fetc%2fpasswd", "not there"),
        ("..%252f..%252f", "not there"),
        ("..\\..\\win.ini", "not there"),
        ("docs/..\\..", "not there"),
        ("．．／．．／etc／passwd", "not there"),
        ("~/.ssh/id_rsa", "not there"),
        ("$HOME/x", "not there"),
        ("file:///etc/passwd", "not there"),
        ("docs/link", "denied"),
        ("docs/second-name", "denied"),
        ("docs/dirlink/passwd", "denied"),
        ("docs/dirlink", "denied"),
        ("inner", "denied"),
        ("docs/magic", "denied"),
        ("/proc/self/environ", "denied"),
        ("/dev/zero", "denied"),
        ("docs/pipe", "denied"),
        ("docs/socket", "denied"),
        ("notes.txt\0.png", "bad path"),
    ];
    for (path, expected) in cases {
        assert_eq!(read_file_text(&tool, path).await, expected, "{path}");
    }
    assert_eq!(read_file_text(&tool, &"a/".repeat(2500)).await, "bad path");
    assert_eq!(read_file_text(&tool, &"a".repeat(300)).await, "bad path");
    // What cannot be read is not listed either.
    assert_eq!(read_file_text(&tool, "docs").await, "(an empty directory)");
    drop(socket);
}

#[tokio::test]
async fn of_a_huge_file_the_beginning_is_read() {
    let place = ReadFileDirectory::new();
    let huge = std::fs::File::create(place.0.join("root/huge.txt")).expect("file");
    huge.set_len(10 << 30).expect("sparse");
    std::fs::write(place.0.join("root/long.txt"), "가나다라마바사\n".repeat(50_000)).expect("file");
    let tool = place.tool();
    assert!(read_file_text(&tool, "huge.txt").await.contains("not a text file (10737418240 bytes)"));
    let long = call_read_file(&tool, json!({ "path": "long.txt" })).await.expect("read");
    assert_eq!(
        long.data,
        json!({ "bytes": 1_100_000, "encoding": "UTF-8", "truncated": true, "broken": false })
    );
    assert!(long.text.len() <= 256 * 1024 + 200 && !long.text.contains('\u{fffd}'), "{}", long.text.len());
    let late = call_read_file(&tool, json!({ "path": "long.txt", "from_line": 49_999, "lines": 5 }))
        .await
        .expect("read");
    assert_eq!(late.text, "49999: 가나다라마바사\n50000: 가나다라마바사\n");
}

#[tokio::test]
async fn bytes_that_are_no_text_are_reported_as_such() {
    let place = ReadFileDirectory::new();
    let file =
        |name: &str, bytes: &[u8]| std::fs::write(place.0.join("root").join(name), bytes).expect("file");
    file("elf", b"\x7fELF\x02\x01\x01\0\0\0");
    file("broken.txt", b"abc\xff\xff def");
    file("cp949.txt", b"\xb0\xa1\xb3\xaa\xb4\xd9");
    file("utf16.txt", b"\xff\xfe\x00\xac\x98\xb0");
    let tool = place.tool();
    assert!(read_file_text(&tool, "elf").await.contains("not a text file"));
    assert!(
        read_file_text(&tool, "broken.txt")
            .await
            .starts_with("abc\u{fffd}\u{fffd} def\n(bytes that mean nothing")
    );
    assert_eq!(read_file_text(&tool, "cp949.txt").await, "가나다");
    assert_eq!(read_file_text(&tool, "utf16.txt").await, "가나");
}

#[tokio::test]
async fn the_root_of_another_tenant_is_not_there() {
    let place = ReadFileDirectory::new();
    let roots = ["a", "b"].map(|tenant| {
        let path = place.0.join(format!("root/{tenant}"));
        std::fs::create_dir(&path).expect("directory");
        std::fs::write(path.join("own.txt"), tenant).expect("file");
        ReadableRoot { name: format!("of-{tenant}"), path, tenant: Some(tenant.into()) }
    });
    let tool = ReadFile::new(roots.to_vec(), &[], None).expect("tool");
    let path = json!({ "path": "of-a/own.txt" });
    assert_eq!(call_read_file_as(&tool, path.clone(), "a").await.expect("own").text, "a");
    let foreign = call_read_file_as(&tool, path, "b").await.expect_err("foreign");
    let absent = call_read_file_as(&tool, json!({ "path": "of-x/own.txt" }), "b").await.expect_err("absent");
    assert_eq!(foreign.to_string().replace("of-a", "of-x"), absent.to_string());
    assert!(matches!(
        call_read_file_as(&tool, json!({ "path": "" }), "c").await,
        Err(ToolError::NotConfigured(_))
    ));
}

#[test]
fn a_root_that_holds_what_must_not_be_read_is_refused() {
    let place = ReadFileDirectory::new();
    let with = |path: PathBuf, forbidden: &[PathBuf]| {
        ReadFile::new(vec![ReadableRoot { name: "files".into(), path, tenant: None }], forbidden, None)
            .map(|_| ())
    };
    let root = place.0.join("root");
    assert!(matches!(with(root.clone(), &[root.join("doran.db")]), Err(ReadableRootError::Holds { .. })));
    assert!(matches!(
        with(root.clone(), &[root.join("not/yet/there/doran.toml")]),
        Err(ReadableRootError::Holds { .. })
    ));
    assert!(matches!(with(root.clone(), std::slice::from_ref(&root)), Err(ReadableRootError::Holds { .. })));
    let door = place.0.join("door");
    symlink(&root, &door).expect("link");
    assert!(matches!(with(door.clone(), &[root.join("doran.db")]), Err(ReadableRootError::Holds { .. })));
    assert!(matches!(with(root.clone(), &[door.join("doran.db")]), Err(ReadableRootError::Holds { .. })));
    assert!(matches!(
        with(root.join("docs"), std::slice::from_ref(&root)),
        Err(ReadableRootError::Inside { .. })
    ));
    assert!(matches!(with(PathBuf::from("/proc/self"), &[]), Err(ReadableRootError::CannotOpen { .. })));
    assert!(matches!(with(PathBuf::from("/"), &[]), Err(ReadableRootError::Everything)));
    assert!(matches!(with(place.0.join("nowhere"), &[]), Err(ReadableRootError::CannotOpen { .. })));
    assert!(with(root, &[place.0.join("outside/doran.db")]).is_ok());
}

#[tokio::test]
async fn a_path_that_changes_while_it_is_opened_gains_nothing() {
    let place = ReadFileDirectory::new();
    let (inside, door) = (place.0.join("root/swap"), place.0.join("root/door"));
    std::fs::create_dir(&inside).expect("directory");
    std::fs::write(inside.join("passwd"), "fine").expect("file");
    symlink(place.0.join("outside"), &door).expect("link");
    if renameat_with(CWD, &inside, CWD, &door, RenameFlags::EXCHANGE).is_err() {
        println!(
            "SKIPPED: this file system cannot exchange two names / 이 파일 시스템은 두 이름을 맞바꿀 수 없음"
        );
        return;
    }
    let tool = place.tool();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (stop, inside, door) = (stop.clone(), inside.clone(), door.clone());
        std::thread::spawn(move || {
            let mut swaps = 0u64;
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &inside, CWD, &door, RenameFlags::EXCHANGE).expect("swap");
                swaps += 1;
            }
            swaps
        })
    };
    let mut seen = [0u32; 2];
    for _ in 0..5_000 {
        match read_file_text(&tool, "swap/passwd").await.as_str() {
            "fine" => seen[0] += 1,
            "denied" | "not there" => seen[1] += 1,
            other => panic!("{other}"),
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapper.join().expect("swapper") > 0);
}
