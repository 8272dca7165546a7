//! Every input changes the key, and nothing else does.

use super::*;

/// A folder for one test, gone at the end.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("doran-xtask-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("written");
        path
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A package `a` with a test program and a program it starts. It also reads `evals`.
fn key_in(folder: &TestFolder, name: &str, common: &str, paths: &[&str]) -> String {
    let shared = SharedInputs {
        common: common.as_bytes().to_vec(),
        list: || Ok(BTreeMap::new()),
        files: hash_listed(&folder.0, paths.iter().copied()).expect("hashed"),
    };
    let inputs = JobInputs {
        programs: vec![folder.0.join("it-1"), folder.0.join("doran")],
        folders: vec!["crates/a".to_owned(), "evals".to_owned()],
    };
    shared.key(name, &inputs).expect("a key")
}

#[test]
fn a_changed_byte_of_each_input_makes_another_key() {
    let folder = TestFolder::new("inputs");
    let paths = ["crates/a/tests/case.txt", "crates/ab/other.txt", "evals/set.jsonl", "README.md"];
    for path in ["it-1", "doran"].iter().chain(&paths) {
        folder.write(path, "1");
    }
    let key = || key_in(&folder, "a it", "variables", &paths);
    let first = key();
    assert_eq!(first, key(), "nothing changed");
    for path in ["it-1", "doran", "crates/a/tests/case.txt", "evals/set.jsonl"] {
        folder.write(path, "2");
        assert_ne!(first, key(), "{path}");
        folder.write(path, "1");
        assert_eq!(first, key(), "{path} is as it was");
    }
    for path in ["crates/ab/other.txt", "README.md"] {
        folder.write(path, "2");
        assert_eq!(first, key(), "{path} is read by others");
    }
    assert_ne!(first, key_in(&folder, "b it", "variables", &paths), "another job");
    assert_ne!(first, key_in(&folder, "a it", "other variables", &paths), "other variables");
}

#[test]
fn files_that_come_go_or_move_make_another_key() {
    let folder = TestFolder::new("moves");
    for path in ["it-1", "doran", "crates/a/one", "crates/a/two"] {
        folder.write(path, "1");
    }
    let key = |paths: &[&str]| key_in(&folder, "a it", "", paths);
    let both = key(&["crates/a/one", "crates/a/two"]);
    let one = key(&["crates/a/one"]);
    assert_ne!(both, one, "a file less");
    assert_ne!(one, key(&["crates/a/two"]), "the same bytes under another name");
    fs::remove_file(folder.0.join("crates/a/two")).expect("removed");
    let deleted = key(&["crates/a/one", "crates/a/two"]);
    assert_ne!(both, deleted, "deleted, and still tracked");
}

#[test]
fn the_order_of_programs_does_not_count() {
    let folder = TestFolder::new("order");
    let (one, two) = (folder.write("one", "1"), folder.write("two", "2"));
    let key = |programs: &[&PathBuf]| {
        let programs = programs.iter().map(|path| (*path).clone()).collect();
        SharedInputs::for_tests().key("a it", &JobInputs { programs, folders: Vec::new() }).expect("a key")
    };
    assert_eq!(key(&[&one, &two]), key(&[&two, &one]));
    assert_ne!(key(&[&one, &two]), key(&[&one]));
}

#[test]
fn a_program_that_is_gone_has_no_key() {
    let folder = TestFolder::new("gone");
    let shared = SharedInputs::for_tests();
    let inputs = JobInputs { programs: vec![folder.0.join("it-1")], folders: Vec::new() };
    assert!(shared.key("a it", &inputs).is_err());
}

#[test]
fn variables_that_select_parts_count_and_a_temporary_server_counts_by_its_version() {
    let chosen = |list: &[(&str, &str)]| {
        let all = list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        chosen_variables(all)
    };
    for name in ["DORAN_TEST_MCP_PYTHON", "DORAN_REQUIRE_PARTS", "CHROMIUM", "LC_ALL", "https_proxy", "PATH"]
    {
        assert_ne!(chosen(&[(name, "1")]), chosen(&[(name, "2")]), "{name}");
        assert_ne!(chosen(&[(name, "1")]), chosen(&[]), "{name}");
    }
    assert_eq!(chosen(&[("WINDOWID", "1")]), chosen(&[]));
    let server = |url: &str, version: &str| {
        chosen(&[("DORAN_TEST_POSTGRES", url), ("DORAN_TEST_POSTGRES_VERSION", version)])
    };
    assert_eq!(server("postgres://a:1", "15"), server("postgres://b:2", "15"));
    assert_ne!(server("postgres://a:1", "15"), server("postgres://a:1", "16"));
    assert_ne!(chosen(&[("DORAN_TEST_POSTGRES", "a")]), chosen(&[("DORAN_TEST_POSTGRES", "b")]));
}

/// Lines that name a file above the folder of a package, in code that reads it while it runs. What `include_str!` and
/// `#[path]` name is compiled in.
fn reads_above(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    (0..lines.len()).any(|at| {
        let near = lines[at..lines.len().min(at + 3)].join(" ");
        lines[at].contains("expect_file!") && near.contains("../../../")
            || lines[at].contains("CARGO_MANIFEST_DIR")
                && !lines[at].contains("include_")
                && (near.contains("\"..") || near.contains("/../"))
    })
}

#[test]
fn every_package_whose_tests_read_elsewhere_is_listed() {
    let mut found = 0;
    for path in repository_files().expect("a checkout").keys() {
        let mut parts = path.split('/');
        let (Some("crates"), Some(package), Some("src" | "tests")) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let Ok(text) = fs::read_to_string(root().join(path)) else { continue };
        if path.ends_with(".rs") && reads_above(&text) {
            found += 1;
            assert!(
                !read_elsewhere(package).is_empty(),
                "{path} reads files outside crates/{package}: name them in READ_ELSEWHERE"
            );
        }
    }
    assert!(found > 5, "only {found} files were found: the search is broken");
}

#[test]
fn what_is_listed_exists() {
    for (package, paths) in READ_ELSEWHERE {
        assert!(*package == "xtask" || root().join("crates").join(package).is_dir(), "{package}");
        for path in *paths {
            assert!(root().join(path).exists(), "{package} reads {path}");
        }
    }
}
