//! The examples, run as a reader would run them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn example_path(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().expect("this test");
    path.pop();
    path.pop();
    path.push(format!("examples/{name}"));
    assert!(
        path.exists(),
        "run `cargo build -p doran-engine --examples` first: {} is missing",
        path.display()
    );
    path
}

/// An empty folder, gone at the end.
struct ExampleFolder(PathBuf);

impl ExampleFolder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("doran-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for ExampleFolder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn run_example(name: &str, folder: &Path, args: &[&str]) -> (Output, String) {
    let output = Command::new(example_path(name)).args(args).current_dir(folder).output().expect("starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

/// Runs an example that ends well, and compares what it prints.
fn check_example(name: &str, args: &[&str], expected: &str) {
    let folder = ExampleFolder::new(name);
    let (output, text) = run_example(name, &folder.0, args);
    assert!(output.status.success(), "{name}: {output:?}");
    assert_eq!(text, expected, "{name}");
}

#[test]
fn a_graph_says_hello() {
    check_example("hello", &["Mina"], "Hello, Mina! (12 characters)\n");
}

#[test]
fn a_branch_leads_back_until_the_end() {
    check_example("branch_and_loop", &["6"], "6 3 10 5 16 8 4 2 1\n");
}

#[test]
fn items_are_worked_on_side_by_side_and_summed() {
    check_example("fan_out", &["a b c", "d e"], "5 words: 3 in \"a b c\", 2 in \"d e\"\n");
    check_example("fan_out", &[], "0 words: \n");
}

#[test]
fn a_subgraph_has_steps_of_its_own() {
    let expected = "step 1: accept\nstep 1: tax inside task 1.0\nstep 2: add inside task 1.0\nstep 2: taxes\nSome(110)\n";
    check_example("subgraph", &[], expected);
}

#[test]
fn a_node_is_tried_again_and_stopped_when_it_hangs() {
    let expected =
        "try 1\ntry 2\ntry 3\ngot <h1>It works</h1>\ntry 1\npage_missing: node `fetch`: 404 not found\n";
    check_example("retry_and_timeout", &[], expected);
}

#[test]
fn a_payment_of_unknown_outcome_is_asked_about_and_not_repeated() {
    let expected = "paying 42\nEffectUnknown: did `\"pay\"` happen?\nSome(\"receipt 7\")\n";
    check_example("at_most_once", &[], expected);
}

#[test]
fn a_watcher_sees_pieces_and_entries() {
    let expected = "1. Started\n   recite: \"Roses are red,\"\n   recite: \"violets are blue.\"\n\
        2. step 1: recite proposed {\"text\":\"Roses are red, violets are blue.\"}\n3. Finished\n3 entries\n";
    check_example("watch", &[], expected);
}

#[test]
fn the_past_can_be_read_rewound_and_forked() {
    let expected = "\
told:    A fox lived in a wood. It met a bear. They fought.
then:    A fox lived in a wood. It met a bear.
rewound: A fox lived in a wood. It met a bear. They became friends.
forked:  A fox lived in a wood. It met a bear. They fought. The bear won.
12 entries on the first thread
";
    check_example("time_travel", &[], expected);
}

#[test]
fn a_count_goes_on_after_a_kill() {
    let folder = ExampleFolder::new("kill_and_resume");
    let (first, stdout) = run_example("kill_and_resume", &folder.0, &["--die"]);
    assert!(!first.status.success());
    assert_eq!(stdout, "1\n2\n3\n");
    let (second, stdout) = run_example("kill_and_resume", &folder.0, &[]);
    assert!(second.status.success(), "{second:?}");
    assert_eq!(stdout, "4\n5\ncounted to 5\n", "3 was recorded and is not printed again");
}

#[test]
fn a_field_takes_changes_by_a_rule_of_its_own() {
    check_example("custom_reducer", &[], "highest 31, alarms {\"kitchen\"}\n");
}

#[test]
fn an_approval_is_waited_for_across_a_kill() {
    let folder = ExampleFolder::new("approve");
    let (first, stdout) = run_example("approve", &folder.0, &["--die"]);
    assert!(!first.status.success());
    assert_eq!(stdout, "writing draft 1\nwriting draft 2\nwriting draft 3\n");
    let (second, stdout) = run_example("approve", &folder.0, &[]);
    assert!(second.status.success(), "{second:?}");
    // The third draft was recorded before the crash and is not written again.
    assert!(stdout.starts_with("Paused(") && stdout.contains(r#"send Some(\"draft 3\")?"#), "{stdout}");
    let (third, stdout) = run_example("approve", &folder.0, &["yes"]);
    assert!(third.status.success(), "{third:?}");
    assert_eq!(
        stdout,
        "Finished(Letter { drafts: [\"draft 1\", \"draft 2\", \"draft 3\"], approved: Some(true) })\n"
    );
}

#[test]
fn the_example_of_the_crate_docs_has_forty_lines_of_code_at_most() {
    let lines = include_str!("../../examples/approve.rs").lines().map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count();
    assert!((30..=40).contains(&code), "{code} lines");
}

#[test]
fn every_example_is_short_and_says_how_to_run_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut names = Vec::new();
    for file in std::fs::read_dir(folder).expect("the examples") {
        let path = file.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("text");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        assert!(text.lines().count() < 80, "{name} is too long");
        assert!(text.starts_with("//! "), "{name} does not say what it shows");
        let ran = include_str!("examples.rs").contains(&format!("(\"{name}\""));
        assert!(ran, "no test runs {name}");
        names.push(name);
    }
    assert!(names.len() >= 10, "{names:?}");
}

#[test]
fn a_supervisor_sends_workers_until_it_is_content() {
    check_example("supervisor", &[], "research → research → write\nfact 1 about rust, fact 2 about rust\n");
}

#[test]
fn an_agent_hands_over_to_another() {
    let expected = "support: hello\nsupport: have you tried turning it off and on again?\nsupport: hello\n\
                    support: my colleague will help you\nbilling: about \"my invoice is wrong\"\n";
    check_example("handoff", &[], expected);
}
