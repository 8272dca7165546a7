//! The purposes of model requests. The built-in model goes by the purpose; a language model reads the prompt.

use doran_llm::{ChatRequest, RequestLabel};

/// What a request of an agent is for. Its name is the [`RequestLabel`] of the request, and is stored with the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestPurpose {
    /// Words for the person, or tool calls on the way there. Passages and tool results are the material.
    Answer,
    /// `{route: "rag"|"agent", reason}` for the question.
    Route,
    /// `{in_scope, need_previous_context, reason}`: is the question about contracts at all?
    Scope,
    /// `{need_previous_context, reason}`: does the question need the turn before it? That turn is in the messages.
    PreviousContext,
    /// Tool calls that would bring what is missing, or none. What was collected is there as tool results.
    Plan,
    /// `{is_sufficient, reasoning, missing_info}`: do the tool results hold an answer to the question?
    Sufficiency,
    /// `{reason, type: "question"|"summary"|"chitchat"}` for the question.
    Classify,
    /// A shorter text that keeps what matters of the messages, within `max_output_tokens`. An older summary to be
    /// carried on is the first message.
    Summarize,
    /// `{queries: […]}`: other wordings of the question to search with.
    Rewrite,
    /// `{order: […]}`: the numbers of the passages, from the one that helps most with the question on.
    Rerank,
}

impl RequestPurpose {
    /// Every purpose.
    pub const ALL: [Self; 10] = [
        Self::Answer,
        Self::Route,
        Self::Scope,
        Self::PreviousContext,
        Self::Plan,
        Self::Sufficiency,
        Self::Classify,
        Self::Summarize,
        Self::Rewrite,
        Self::Rerank,
    ];

    /// The purpose of a request; none if no agent makes such a request.
    pub fn of(request: &ChatRequest) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| request.purpose == *purpose)
    }

    /// The label that a request with this purpose carries.
    pub const fn label(self) -> RequestLabel {
        match self {
            Self::Answer => RequestLabel::ANSWER,
            Self::Route => RequestLabel::new("route"),
            Self::Scope => RequestLabel::new("scope"),
            Self::PreviousContext => RequestLabel::new("previous_context"),
            Self::Plan => RequestLabel::new("plan"),
            Self::Sufficiency => RequestLabel::new("sufficiency"),
            Self::Classify => RequestLabel::new("classify"),
            Self::Summarize => RequestLabel::new("summarize"),
            Self::Rewrite => RequestLabel::new("rewrite"),
            Self::Rerank => RequestLabel::new("rerank"),
        }
    }
}

impl From<RequestPurpose> for RequestLabel {
    fn from(purpose: RequestPurpose) -> Self {
        purpose.label()
    }
}

impl PartialEq<RequestPurpose> for RequestLabel {
    fn eq(&self, purpose: &RequestPurpose) -> bool {
        *self == purpose.label()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_tells_its_purpose() {
        for purpose in RequestPurpose::ALL {
            let request = ChatRequest { purpose: purpose.label(), ..ChatRequest::default() };
            assert_eq!(RequestPurpose::of(&request), Some(purpose));
        }
        assert_eq!(RequestPurpose::of(&ChatRequest::default()), Some(RequestPurpose::Answer));
        let foreign = ChatRequest { purpose: RequestLabel::new("title"), ..ChatRequest::default() };
        assert_eq!(RequestPurpose::of(&foreign), None);
    }
}
