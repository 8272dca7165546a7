//! One type name has one meaning in the whole workspace, so that a search for it finds one definition.

use std::collections::BTreeMap;

use super::{RepositoryFile, TidyFinding};

/// Names that may be defined more than once, each with the reason.
const ALLOWED: &[(&str, &str)] =
    &[("Step", "the nodes of a graph that a test or an example defines for itself")];

/// Files whose definitions do not count: sources that tests pass to the compiler.
const NOT_OURS: &str = "/tests/ui/";

/// Reports every type, trait or alias whose name is defined a second time. The first definition by path keeps the name.
pub fn check(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.path.contains(NOT_OURS)) {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(name) = defined_type(line) {
                places.entry(name).or_default().push(format!("{}:{}", file.path, index + 1));
            }
        }
    }
    let is_allowed = |name: &str| ALLOWED.iter().any(|(allowed, _)| *allowed == name);
    places
        .into_iter()
        .filter(|(name, places)| places.len() > 1 && !is_allowed(name))
        .flat_map(|(name, places)| {
            let first = places[0].clone();
            places.into_iter().skip(1).map(move |place| {
                TidyFinding::new(place, format!("the type name `{name}` is already used in {first}"))
            })
        })
        .collect()
}

/// The name of the type that this line defines. Associated types are not definitions.
fn defined_type(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let is_indented = code.len() < line.len();
    let code = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
        None => code,
    };
    let code = code.strip_prefix("unsafe ").unwrap_or(code);
    let (keyword, rest) = code.split_once(' ')?;
    let is_definition = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !is_indented,
        _ => false,
    };
    let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len());
    let name = &rest[..end];
    (is_definition && name.starts_with(char::is_uppercase)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_texts(texts: &[&str], expected: &[&str]) {
        let file = |(index, text): (usize, &&str)| RepositoryFile {
            path: format!("crates/a/src/f{index}.rs"),
            text: (*text).to_owned(),
        };
        let files: Vec<RepositoryFile> = texts.iter().enumerate().map(file).collect();
        let found: Vec<String> = check(&files).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_second_definition_of_a_name_is_found() {
        check_texts(
            &["pub struct Shelf;", "\npub(crate) enum Shelf {", "    trait Shelf<T> {"],
            &[
                "crates/a/src/f1.rs:2: the type name `Shelf` is already used in crates/a/src/f0.rs:1",
                "crates/a/src/f2.rs:1: the type name `Shelf` is already used in crates/a/src/f0.rs:1",
            ],
        );
        check_texts(
            &["type Rows = u8;", "unsafe trait Rows {}"],
            &["crates/a/src/f1.rs:1: the type name `Rows` is already used in crates/a/src/f0.rs:1"],
        );
    }

    #[test]
    fn associated_types_words_in_comments_and_allowed_names_are_left_alone() {
        check_texts(&["    type Output = u8;", "    type Output = u16;"], &[]);
        check_texts(&["// struct Shelf", "struct Shelf;"], &[]);
        check_texts(&["enum Step {", "enum Step {"], &[]);
    }
}
