//! Jobs are little shell commands here.

use super::*;

fn job(name: &str, script: &str, kind: JobKind) -> Job {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Job { name: name.to_owned(), command, kind, inputs: None, after: None }
}

fn test_program() -> JobKind {
    JobKind::TestProgram(TestProgram::for_tests())
}

const RESULT: &str = "0 ignored; 0 measured; 0 filtered out; finished in 0.01s";

fn check(script: &str, kind: JobKind, tally: &str, failure: Option<&str>, can_repeat: bool) {
    let (result, _) = run_job(job(&format!("check {}", script.len()), script, kind));
    assert_eq!(
        (result.tally.counts().as_str(), result.failure.as_deref(), result.can_repeat),
        (tally, failure, can_repeat),
        "{script}"
    );
}

#[test]
fn a_program_passes_only_with_a_result_of_its_own() {
    let ok = format!("echo 'test result: ok. 2 passed; 0 failed; {RESULT}'");
    check(&ok, test_program(), "2 passed, 0 failed, 0 skipped", None, false);
    let silent = Some("it printed no result (exit status: 0)");
    check("true", test_program(), "0 passed, 0 failed, 0 skipped", silent, false);
    check(
        &format!("{ok}; exit 3"),
        test_program(),
        "2 passed, 0 failed, 0 skipped",
        Some("failed (exit status: 3)"),
        false,
    );
}

#[test]
fn failed_tests_are_repeated_only_if_all_have_a_name() {
    let end = format!("echo 'test result: FAILED. 1 passed; 1 failed; {RESULT}'; exit 101");
    let named = format!("echo 'test a::law ... FAILED'; {end}");
    check(&named, test_program(), "1 passed, 1 failed, 0 skipped", Some("failed (exit status: 101)"), true);
    check(&end, test_program(), "1 passed, 1 failed, 0 skipped", Some("failed (exit status: 101)"), false);
    check(
        "echo 'test a::law ... FAILED'; kill -9 $$",
        test_program(),
        "0 passed, 0 failed, 0 skipped",
        Some("it printed no result (signal: 9 (SIGKILL))"),
        false,
    );
}

#[test]
fn the_last_line_of_the_page_is_counted() {
    check(
        "echo '31 passed, 0 failed, 1 skipped'",
        JobKind::Summary,
        "31 passed, 0 failed, 1 skipped",
        None,
        false,
    );
    let failed = "echo '31 passed, 2 failed, 0 skipped'; exit 1";
    check(failed, JobKind::Summary, "31 passed, 2 failed, 0 skipped", Some("failed (exit status: 1)"), false);
    for line in ["ok      provider stop", "31 passed", "x passed, 0 failed, 0 skipped"] {
        let unfinished = Some("it did not come to its end (exit status: 0)");
        check(
            &format!("echo '{line}'"),
            JobKind::Summary,
            "0 passed, 0 failed, 0 skipped",
            unfinished,
            false,
        );
    }
}

#[test]
fn what_misses_a_part_is_not_remembered() {
    let line = format!("echo 'SKIPPED: no PostgreSQL'; echo 'test result: ok. 2 passed; 0 failed; {RESULT}'");
    let (result, nothing_missing) = run_job(job("skips", &line, test_program()));
    assert!(result.failure.is_none() && !nothing_missing);
    let (result, nothing_missing) =
        run_job(job("plain", "echo 'ui: SKIPPED, no node'", JobKind::Plain { show: false }));
    assert!(result.failure.is_none() && !nothing_missing && result.shown().contains("SKIPPED"));
}

#[test]
fn a_job_waits_for_the_one_it_names_and_holds_up_no_other() {
    let folder = std::env::temp_dir().join(format!("doran-xtask-lanes-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let plain = |name: &str, script: &str| job(name, script, JobKind::Plain { show: false });
    let (began, mark) = (folder.join("began"), folder.join("mark"));
    let (began, mark) = (began.display(), mark.display());
    let mut last = plain("last", &format!("test -e {mark}"));
    last.after = Some("first");
    let other = plain("other", &format!("touch {began}"));
    let first = plain("first", &format!("while ! test -e {began}; do sleep 0.01; done; touch {mark}"));
    let results = run_lanes(vec![(1, vec![last, other]), (1, vec![first])], &None);
    fs::remove_dir_all(folder).expect("removed");
    let mut seen: Vec<(&str, bool)> =
        results.iter().map(|result| (result.name.as_str(), result.failure.is_none())).collect();
    assert_eq!(seen.pop(), Some(("last", true)));
    seen.sort_unstable();
    assert_eq!(seen, [("first", true), ("other", true)]);
}

#[test]
fn a_job_that_passed_runs_again_when_an_input_changed_and_not_before() {
    let folder = std::env::temp_dir().join(format!("doran-xtask-again-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (program, count) = (folder.join("program"), folder.join("count"));
    fs::write(&program, "1").expect("written");
    let run = |script: &str| {
        let earlier = Some((SharedInputs::for_tests(), PassedRuns::for_tests(folder.join("passed"))));
        let script = format!("echo x >> {}; {script}", count.display());
        let mut job = job("again", &script, test_program());
        job.inputs = Some(JobInputs { programs: vec![program.clone()], folders: Vec::new() });
        let result = run_lanes(vec![(1, vec![job])], &earlier).remove(0);
        let times = fs::read_to_string(&count).expect("it ran").lines().count();
        (times, result.tally.passed, result.tally.unchanged)
    };
    let pass = format!("echo 'test result: ok. 2 passed; 0 failed; {RESULT}'");
    let fail = format!("{pass}; exit 1");
    assert_eq!(run(&fail), (1, 2, 0));
    assert_eq!(run(&pass), (2, 2, 0), "a failure is not remembered");
    assert_eq!(run(&pass), (2, 0, 2), "nothing changed");
    fs::write(&program, "2").expect("written");
    assert_eq!(run(&pass), (3, 2, 0), "the program changed");
    let rewrite = format!("printf 3 > {}; {pass}", program.display());
    fs::write(&program, "4").expect("written");
    assert_eq!(run(&rewrite), (4, 2, 0));
    fs::write(&program, "4").expect("written");
    assert_eq!(run(&pass), (5, 2, 0), "it was replaced while it ran");
    fs::remove_dir_all(folder).expect("removed");
}
