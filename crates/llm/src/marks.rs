//! The marks by which an answer cites its sources: `[1]` is the passage numbered 1, in this turn and in no other.

/// The text without `[1]` and the like. In code they are no marks, and a text that is nothing else stays as it is.
pub fn without_marks(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['[', '`']) {
        kept.push_str(&rest[..at]);
        let here = &rest[at..];
        let code = here.strip_prefix('`').and_then(|after| after.find('`')).map(|end| end + 2);
        let taken = match mark(here) {
            Some(length) => {
                kept.truncate(kept.trim_end_matches(' ').len());
                rest = &here[length..];
                continue;
            }
            None => code.unwrap_or(1),
        };
        kept.push_str(&here[..taken]);
        rest = &here[taken..];
    }
    kept.push_str(rest);
    if kept.trim().is_empty() { text.to_owned() } else { kept }
}

/// How long the mark is that a text begins with. `[1](…)` is a link.
fn mark(text: &str) -> Option<usize> {
    let (number, after) = text.strip_prefix('[')?.split_once(']')?;
    let is_number = (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !after.starts_with('(')).then_some(number.len() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_off_and_code_and_links_are_not() {
        for (text, bare) in [
            ("15일입니다. [1]", "15일입니다."),
            ("연차는 15일이고 [1], 병가는[2] 60일입니다. [12]", "연차는 15일이고, 병가는 60일입니다."),
            ("`a[1]`은 둘째입니다. [1]", "`a[1]`은 둘째입니다."),
            ("```\nx[0] = 1\n``` [1]", "```\nx[0] = 1\n```"),
            ("see [1](https://doran.dev) and [note] [1234]", "see [1](https://doran.dev) and [note] [1234]"),
            ("an open ` does not hide [1]", "an open ` does not hide"),
            ("[1]", "[1]"),
            ("[", "["),
        ] {
            assert_eq!(without_marks(text), bare, "{text}");
        }
    }
}
