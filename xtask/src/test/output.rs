//! What test programs print: the results of their tests, and which lines of it a person wants to read.

use std::collections::BTreeSet;
use std::time::Duration;

/// The summed results of test programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestTally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests that did not run because something is missing, or that are ignored.
    pub skipped: u64,
    /// Tests that did not run because they passed earlier with the same inputs.
    pub unchanged: u64,
}

impl TestTally {
    /// Adds the results of `more`.
    pub fn add(&mut self, more: &Self) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.skipped += more.skipped;
        self.unchanged += more.unchanged;
    }

    /// The counts, such as `3 passed, 0 failed, 1 skipped`.
    pub fn counts(&self) -> String {
        let unchanged =
            if self.unchanged == 0 { String::new() } else { format!(", {} unchanged", self.unchanged) };
        format!("{} passed, {} failed, {} skipped{unchanged}", self.passed, self.failed, self.skipped)
    }

    /// The last line of a run.
    pub fn closing_line(&self, took: Duration) -> String {
        format!("{} ({:.1} min)", self.counts(), took.as_secs_f64() / 60.0)
    }
}

/// Whether a line of output is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineVisibility {
    Shown,
    Hidden,
}

/// Parses the output of test programs line by line.
#[derive(Debug, Default)]
pub struct TestOutputCounter {
    pub tally: TestTally,
    /// Inside the output of passed tests, which is requested only to find skipped ones.
    in_successes: bool,
    /// How often the current program printed `successes:` and `failures:`. It prints each twice, first before what tests
    /// printed and then before their names.
    headings: (u64, u64),
    /// Tests of the current program that printed that they were skipped.
    announced_skips: u64,
    /// Lines that name a failed test.
    pub failed_lines: u64,
    /// The names of failed tests.
    pub failed_names: BTreeSet<String>,
    /// Whether a program failed without naming all its failed tests.
    pub programs_died: bool,
    /// Lines with the result of a program.
    pub result_lines: u64,
}

impl TestOutputCounter {
    pub fn read_line(&mut self, line: &str) -> LineVisibility {
        if line == "successes:" {
            self.in_successes = true;
            self.headings.0 += 1;
            return LineVisibility::Hidden;
        }
        if line == "failures:" {
            self.in_successes = false;
            self.headings.1 += 1;
        }
        if let Some(name) = parse_failed_test(line) {
            self.failed_lines += 1;
            self.failed_names.insert(name.to_owned());
        }
        if let Some(found) = parse_result_line(line) {
            // A test may start a test program and print what that printed.
            if self.headings.0 % 2 == 1 || self.headings.1 % 2 == 1 {
                return if self.in_successes { LineVisibility::Hidden } else { LineVisibility::Shown };
            }
            let skipped = self.announced_skips.min(found.passed);
            self.tally.add(&TestTally {
                passed: found.passed - skipped,
                skipped: found.skipped + skipped,
                ..found
            });
            self.in_successes = false;
            self.announced_skips = 0;
            self.headings = (0, 0);
            self.result_lines += 1;
            return LineVisibility::Shown;
        }
        if is_passed_test(line) || (self.in_successes && !line.starts_with("SKIPPED:")) {
            return LineVisibility::Hidden;
        }
        if !self.in_successes {
            return LineVisibility::Shown;
        }
        self.announced_skips += 1;
        LineVisibility::Shown
    }
}

/// Whether a line names a passed test. Thousands of such lines would hide the one that matters.
fn is_passed_test(line: &str) -> bool {
    line.is_empty() || (line.starts_with("test ") && line.ends_with(" ... ok"))
}

/// Parses `test postgres::a_law ... FAILED`.
fn parse_failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Parses `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s`.
fn parse_result_line(line: &str) -> Option<TestTally> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut tally = TestTally::default();
    for part in counts.split("; ") {
        match part.split_once(' ') {
            Some((count, "passed")) => tally.passed = count.parse().ok()?,
            Some((count, "failed")) => tally.failed = count.parse().ok()?,
            Some((count, "ignored")) => tally.skipped = count.parse().ok()?,
            _ => {}
        }
    }
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: &str =
        "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";

    fn check(output: &str, expected: &str, shown: &str) {
        let mut sum = TestOutputCounter::default();
        let seen: Vec<&str> =
            output.lines().filter(|line| sum.read_line(line) == LineVisibility::Shown).collect();
        let TestTally { passed, failed, skipped, .. } = sum.tally;
        assert_eq!(format!("{passed} {failed} {skipped}"), expected);
        assert_eq!(seen.join("\n"), shown);
    }

    #[test]
    fn programs_are_summed() {
        let output = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s\n\
                      test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        check(output, "4 2 1", output);
    }

    #[test]
    fn a_test_that_says_it_was_skipped_did_not_pass() {
        let output = format!(
            "test a ... ok\nsuccesses:\n---- a stdout ----\nSKIPPED: no PostgreSQL\nchatter\nsuccesses:\n    a\n{END}"
        );
        check(&output, "1 0 1", &format!("SKIPPED: no PostgreSQL\n{END}"));
    }

    #[test]
    fn a_program_that_a_test_starts_is_not_counted() {
        let inner = END.replace("2 passed", "7 passed");
        let output = format!("successes:\n---- a stdout ----\n{inner}\nchatter\nsuccesses:\n    a\n{END}");
        check(&output, "2 0 0", END);
        let output = format!("failures:\n---- a stdout ----\n{inner}\nfailures:\n    a\n{END}");
        check(&output, "2 0 0", &output);
    }

    #[test]
    fn what_a_failed_test_prints_is_shown() {
        let output = "successes:\nchatter\nfailures:\n---- b stdout ----\nSKIPPED: not counted here";
        check(output, "0 0 0", "failures:\n---- b stdout ----\nSKIPPED: not counted here");
    }

    #[test]
    fn failed_tests_are_named_for_the_second_run() {
        let mut sum = TestOutputCounter::default();
        for line in
            ["test a::law ... ok", "test b::law ... FAILED", "test c ... ignored", "failures:", "    b::law"]
        {
            sum.read_line(line);
        }
        assert_eq!(
            (sum.failed_lines, sum.failed_names.into_iter().collect::<Vec<_>>()),
            (1, vec!["b::law".to_owned()])
        );
    }

    #[test]
    fn the_closing_line_counts_minutes_and_names_what_did_not_run() {
        let tally = TestTally { passed: 12, skipped: 1, ..TestTally::default() };
        assert_eq!(tally.closing_line(Duration::from_secs(90)), "12 passed, 0 failed, 1 skipped (1.5 min)");
        let tally = TestTally { unchanged: 7, ..tally };
        assert_eq!(
            tally.closing_line(Duration::from_secs(90)),
            "12 passed, 0 failed, 1 skipped, 7 unchanged (1.5 min)"
        );
    }
}
