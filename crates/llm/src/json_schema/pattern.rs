//! SchemaPatterns are written in the dialect of JavaScript; what differs is rewritten for `regex`, which takes time that grows
//! with the length of the text and nothing else.

use regex::{Regex, RegexBuilder};

/// The most bytes of a compiled pattern, and the most patterns of a schema.
const MAX_COMPILED_BYTES: usize = 128 << 10;
const MAX_PATTERNS: usize = 64;

/// Compiles the patterns of one schema and counts them.
#[derive(Debug, Default)]
pub(super) struct SchemaPatterns(usize);

impl SchemaPatterns {
    /// Compiles a pattern; otherwise why it cannot be used.
    pub(super) fn compile(&mut self, pattern: &str) -> Result<Regex, String> {
        self.0 += 1;
        if self.0 > MAX_PATTERNS {
            return Err(format!("there are more than {MAX_PATTERNS} patterns"));
        }
        compile(pattern)
    }
}

fn compile(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(&rewrite(pattern)).size_limit(MAX_COMPILED_BYTES).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the pattern is too large".to_owned(),
        _ => "the pattern cannot be read; look-around and back-references are not supported".to_owned(),
    })
}

/// In JavaScript `\d` and `\w` are ASCII, and inside of brackets only `\`, `]`, `^` and `-` mean something.
fn rewrite(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('/') => out.push('/'),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            '[' if in_class => out.push_str("\\["),
            '&' | '~' if in_class => out.extend(['\\', char]),
            '[' => {
                in_class = true;
                out.push('[');
                if chars.peek() == Some(&'^') {
                    out.extend(chars.next());
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            _ => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: bool) {
        assert_eq!(compile(pattern).expect("a pattern").is_match(text), expected, "{pattern} {text}");
    }

    #[test]
    fn patterns_mean_what_they_mean_in_javascript() {
        check(r"^\d{4}$", "2026", true);
        check(r"^\d{4}$", "２０２６", false);
        check(r"^[\w-]+$", "a-b_c", true);
        check(r"^[[&&]+$", "[&&", true);
        check(r"^a\/b$", "a/b", true);
        check(r"^\p{L}+$", "가나다", true);
        check("^a$", "a\n", false);
        check("b", "abc", true);
    }

    #[test]
    fn patterns_that_cost_too_much_are_refused() {
        assert!(compile("(a{0,999}){0,999}").is_err());
        assert!(compile(r"^(?=a)").is_err());
        assert!(compile(r"(a)\1").is_err());
        assert!(compile(&"(".repeat(5000)).is_err());
    }
}
