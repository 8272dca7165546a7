//! What a request is for, as a name that its sender gives it. Models of vendors never see it.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A short name for what a request is for, such as `answer`. It is shown in traces and recordings. This crate knows
/// [`RequestLabel::ANSWER`] alone; what other labels mean is agreed between the sender and a model that reads them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct RequestLabel(Cow<'static, str>);

impl RequestLabel {
    /// Words for the person, or tool calls on the way there.
    pub const ANSWER: Self = Self::new("answer");

    /// The label with this name.
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for RequestLabel {
    fn default() -> Self {
        Self::ANSWER
    }
}

impl fmt::Display for RequestLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ChatRequest;

    #[test]
    fn a_label_is_its_name_in_a_recording() {
        let request = ChatRequest { purpose: RequestLabel::new("route"), ..ChatRequest::default() };
        let value = serde_json::to_value(&request).expect("JSON");
        assert_eq!(value["purpose"], "route");
        let read: ChatRequest = serde_json::from_value(value).expect("a request");
        assert_eq!(read, request);
        assert_eq!(serde_json::to_value(ChatRequest::default()).expect("JSON")["purpose"], "answer");
    }
}
