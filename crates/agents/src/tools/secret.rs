//! A key that prints nothing.

/// A key that is sent to those it is meant for and printed nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct ToolSecret(String);

impl ToolSecret {
    /// The key `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The key itself, for the one place that sends it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for ToolSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}
