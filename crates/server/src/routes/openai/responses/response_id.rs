//! The id of a response: of a run, and of the part of it that follows the tools its client ran.

use doran_engine::RunId;

/// What ids of responses begin with.
const RESPONSE_ID_PREFIX: &str = "resp_";

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponseId {
    pub(super) run: RunId,
    /// The number of the event after which the part begins; 0 for the first part.
    pub(super) after: u64,
}

impl ResponseId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(RESPONSE_ID_PREFIX)?;
        let (run, after) = match rest.split_once('_') {
            Some((run, after)) => (run, after.parse().ok()?),
            None => (rest, 0),
        };
        Some(Self { run: run.parse().ok()?, after })
    }
}

impl std::fmt::Display for ResponseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{RESPONSE_ID_PREFIX}{}", self.run.as_uuid().simple())?;
        if self.after > 0 { write!(f, "_{}", self.after) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        for after in [0, 7] {
            let id = ResponseId { run: RunId::random(), after };
            assert_eq!(ResponseId::parse(&id.to_string()), Some(id));
        }
        for other in ["", "resp_", "resp_x", "resp_1_2", "chatcmpl-1"] {
            assert_eq!(ResponseId::parse(other), None, "{other}");
        }
    }
}
