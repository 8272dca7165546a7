//! Why a request to the internet failed, by what can be done about it.

use doran_retrieval::Language;

use super::super::ToolError;

/// Why something could not be fetched. Never holds a URL, a key or text of the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// The address is not one that may be reached.
    #[error("not allowed: {0}")]
    Blocked(&'static str),
    /// The server redirects too often.
    #[error("redirected too often")]
    Redirects,
    /// The answer is larger than what is read.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// It took too long.
    #[error("no answer within {0} s")]
    TooSlow(u64),
    /// The server could not be reached, or the connection broke.
    #[error("not reachable: {0}")]
    Unreachable(String),
    /// The server refused.
    #[error("status {status}")]
    Status {
        /// The status of HTTP.
        status: u16,
        /// How many seconds it asks to wait.
        retry_after: Option<u64>,
    },
    /// The answer is not what it should be.
    #[error("the answer cannot be read: {0}")]
    Unreadable(&'static str),
}

impl EgressError {
    /// Whether another try may help.
    pub(super) fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Status { status, .. } => matches!(status, 429 | 502..=504),
            Self::Blocked(_)
            | Self::Redirects
            | Self::TooLarge(_)
            | Self::TooSlow(_)
            | Self::Unreadable(_) => false,
        }
    }

    /// The message for the model when `who` could not be reached.
    pub(crate) fn to_tool_error(&self, who: &str, language: Language) -> ToolError {
        let (ko, en) = match self {
            Self::Blocked(why) => (
                format!("{who}: 갈 수 없는 주소입니다 ({why})"),
                format!("{who}: this address may not be reached ({why})"),
            ),
            Self::Redirects => {
                (format!("{who}: 다른 곳으로 너무 여러 번 보냅니다"), format!("{who}: redirected too often"))
            }
            Self::TooLarge(limit) => (
                format!("{who}: 답이 너무 큽니다 ({limit}바이트 넘음)"),
                format!("{who}: the answer is larger than {limit} bytes"),
            ),
            Self::TooSlow(seconds) => (
                format!("{who}: {seconds}초 안에 답이 없습니다"),
                format!("{who}: no answer within {seconds} s"),
            ),
            Self::Unreachable(why) => {
                (format!("{who}에 닿을 수 없습니다 ({why})"), format!("{who} cannot be reached ({why})"))
            }
            Self::Status { status: 401 | 403, .. } => (
                format!("{who}이(가) API 키를 받아들이지 않습니다. 설정한 키를 확인하세요"),
                format!("{who} does not accept the API key; check the one that is set"),
            ),
            Self::Status { status: 429, retry_after } => {
                let (ko, en) = retry_after.map_or((String::new(), String::new()), |seconds| {
                    (format!(" ({seconds}초 뒤)"), format!(" (in {seconds} s)"))
                });
                (
                    format!("{who}의 사용 한도에 걸렸습니다. 나중에 다시 하세요{ko}"),
                    format!("{who} limits how often it is asked; try again later{en}"),
                )
            }
            Self::Status { status, .. } => (
                format!("{who}이(가) {status}(으)로 답했습니다"),
                format!("{who} answered with status {status}"),
            ),
            Self::Unreadable(why) => (
                format!("{who}의 답을 읽을 수 없습니다 ({why})"),
                format!("the answer of {who} cannot be read ({why})"),
            ),
        };
        let words = language.pick(ko, en);
        match self {
            Self::Blocked(_) => ToolError::Denied(words),
            Self::TooSlow(_) => ToolError::OutcomeUnknown(words),
            Self::Status { status: 401 | 403, .. } => ToolError::NotConfigured(words),
            Self::Unreachable(_) | Self::Status { status: 429 | 500..=599, .. } => {
                ToolError::Unavailable(words)
            }
            Self::Redirects | Self::TooLarge(_) | Self::Status { .. } | Self::Unreadable(_) => {
                ToolError::Failed(words)
            }
        }
    }
}
