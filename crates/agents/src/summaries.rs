//! The last few summaries of a conversation. A new summary pushes out the oldest.

use serde::{Deserialize, Deserializer, Serialize};

/// Summaries, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Summaries(pub Vec<String>);

impl Summaries {
    /// What stands between summaries where they are shown as one text.
    pub const SEPARATOR: &'static str = "\n---SUMMARY_BREAK---\n";

    /// The window with a new summary, at most so many in all.
    #[must_use]
    pub(crate) fn push_summary(&self, new: impl Into<String>, max_summaries: usize) -> Self {
        let mut all = self.0.clone();
        all.push(new.into());
        Self(all.split_off(all.len().saturating_sub(max_summaries.max(1))))
    }

    /// All of them as one text, for clients; nothing where there are none.
    pub(crate) fn joined_text(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join(Self::SEPARATOR))
    }
}

impl<'de> Deserialize<'de> for Summaries {
    /// Reads a list, or the one text that clients are shown.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum SummariesRepr {
            List(Vec<String>),
            Joined(String),
        }
        Ok(match Option::<SummariesRepr>::deserialize(deserializer)? {
            Some(SummariesRepr::List(list)) => Self(list),
            Some(SummariesRepr::Joined(text)) if !text.is_empty() => {
                Self(text.split(Self::SEPARATOR).map(str::to_owned).collect())
            }
            Some(SummariesRepr::Joined(_)) | None => Self::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides_from_the_first_to_the_fourth() {
        let mut window = Summaries::default();
        let mut shown = Vec::new();
        for nth in 1..=4 {
            window = window.push_summary(format!("요약{nth}"), 3);
            shown.push(window.joined_text().expect("some").replace(Summaries::SEPARATOR, " | "));
        }
        assert_eq!(shown, ["요약1", "요약1 | 요약2", "요약1 | 요약2 | 요약3", "요약2 | 요약3 | 요약4"]);
    }

    #[test]
    fn a_list_and_the_joined_text_read_alike() {
        let window = Summaries(vec!["하나".into(), "둘".into()]);
        let list = serde_json::to_string(&window).expect("JSON");
        assert_eq!(list, r#"["하나","둘"]"#);
        let joined = serde_json::to_string(&window.joined_text()).expect("JSON");
        for text in [list, joined] {
            assert_eq!(serde_json::from_str::<Summaries>(&text).expect("read"), window);
        }
        assert_eq!(serde_json::from_str::<Summaries>("null").expect("read"), Summaries::default());
    }
}
