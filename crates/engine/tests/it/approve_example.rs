//! The example of the crate docs, killed in the middle and started again, as a reader would do it.

use std::path::PathBuf;
use std::process::{Command, Output};

fn approve_example_path() -> PathBuf {
    let mut path = std::env::current_exe().expect("this test");
    path.pop();
    path.pop();
    path.push("examples/approve");
    assert!(
        path.exists(),
        "run `cargo build -p doran-engine --examples` first: {} is missing",
        path.display()
    );
    path
}

fn run_example(folder: &std::path::Path, args: &[&str]) -> (Output, String) {
    let output =
        Command::new(approve_example_path()).args(args).current_dir(folder).output().expect("starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn killed_in_the_middle_it_goes_on_where_it_was() {
    let folder = std::env::temp_dir().join(format!("doran-approve-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (first, said) = run_example(&folder, &["--die"]);
    assert!(!first.status.success());
    assert_eq!(said, "writing draft 1\nwriting draft 2\nwriting draft 3\n");
    let (second, said) = run_example(&folder, &[]);
    assert!(second.status.success(), "{second:?}");
    // The third draft was recorded before the crash and is not written again.
    assert!(said.starts_with("Paused(") && said.contains(r#"send Some(\"draft 3\")?"#), "{said}");
    let (third, said) = run_example(&folder, &["yes"]);
    assert!(third.status.success(), "{third:?}");
    assert_eq!(
        said,
        "Finished(Letter { drafts: [\"draft 1\", \"draft 2\", \"draft 3\"], approved: Some(true) })\n"
    );
    std::fs::remove_dir_all(&folder).expect("cleared");
}

#[test]
fn it_has_forty_lines_of_code_at_most() {
    let lines = include_str!("../../examples/approve.rs").lines().map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count();
    assert!((30..=40).contains(&code), "{code} lines");
}
