//! Lists the largest source files. A long file is not an error, but often covers more than one subject.

use super::RepositoryFile;

const LARGEST_FILES_LISTED: usize = 10;
const LONG_FILE_LINES: usize = 400;

/// The lines to print: the ten largest files, then a warning for each file that is too long.
pub fn report(files: &[RepositoryFile]) -> Vec<String> {
    let mut sizes: Vec<(usize, &str)> =
        files.iter().map(|file| (file.text.lines().count(), file.path.as_str())).collect();
    sizes.sort_by_key(|(lines, path)| (std::cmp::Reverse(*lines), *path));
    let largest = sizes.iter().take(LARGEST_FILES_LISTED).map(|(lines, path)| format!("{lines:>6} {path}"));
    let long = sizes.iter().filter(|(lines, _)| *lines > LONG_FILE_LINES);
    let warnings = long
        .map(|(lines, path)| format!("tidy: warning: {path} has {lines} lines: is there a second subject?"));
    largest.chain(warnings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_comes_first_and_long_ones_are_named() {
        let file =
            |path: &str, lines: usize| RepositoryFile { path: path.to_string(), text: "x\n".repeat(lines) };
        let report = report(&[file("a.rs", 400), file("b.rs", 401)]);
        assert_eq!(
            report,
            ["   401 b.rs", "   400 a.rs", "tidy: warning: b.rs has 401 lines: is there a second subject?"]
        );
    }
}
