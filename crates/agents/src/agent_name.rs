//! What agents may be called. A name stands in addresses, commands, logs and pages.

/// The most characters of a name.
pub const MAX_AGENT_NAME_CHARS: usize = 64;

/// The rule, in words.
pub(crate) const AGENT_NAME_RULE: &str =
    "a name has 1 to 64 letters, digits, `-`, `_` and `.`, and begins with a letter or a digit";

/// Whether an agent may have this name.
pub fn is_agent_name(name: &str) -> bool {
    name.chars().take(MAX_AGENT_NAME_CHARS + 1).count() <= MAX_AGENT_NAME_CHARS
        && name.starts_with(char::is_alphanumeric)
        && name.chars().all(|char| char.is_alphanumeric() || "-_.".contains(char))
}

/// A name that breaks the rule, as a message shows it: short, on one line.
pub(crate) fn shown_agent_name(name: &str) -> String {
    let mut shown: String = name.chars().take(MAX_AGENT_NAME_CHARS).flat_map(char::escape_debug).collect();
    if name.chars().nth(MAX_AGENT_NAME_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_words() {
        for name in ["a", "react", "상담-2", "v1.0_beta", &"x".repeat(MAX_AGENT_NAME_CHARS)] {
            assert!(is_agent_name(name), "{name}");
        }
        let long = "x".repeat(MAX_AGENT_NAME_CHARS + 1);
        for name in
            ["", ".", "..", "../../x", "-a", "_a", "a b", "a/b", "<script>", "a\n", "a\u{202e}", &long]
        {
            assert!(!is_agent_name(name), "{name}");
        }
        assert!(AGENT_NAME_RULE.contains(&MAX_AGENT_NAME_CHARS.to_string()));
    }

    #[test]
    fn a_wrong_name_is_shown_on_one_short_line() {
        assert_eq!(shown_agent_name("<b>\n\u{1b}[31m상담"), "<b>\\n\\u{1b}[31m상담");
        assert_eq!(shown_agent_name(&"x".repeat(5000)), format!("{}…", "x".repeat(MAX_AGENT_NAME_CHARS)));
    }
}
