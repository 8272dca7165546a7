//! Why a model gave no answer, sorted by what the reader can do about it.

use std::time::Duration;

/// What lies beneath an error.
pub type ModelErrorSource = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no answer, by remedy. No variant ever holds a key or the raw body of a vendor's answer.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Ask again later.
    #[error("the model cannot answer now: {reason}")]
    Unavailable {
        /// What was seen.
        reason: String,
        /// How long to wait, if the vendor says so.
        retry_after: Option<Duration>,
        /// What lies beneath.
        #[source]
        source: Option<ModelErrorSource>,
    },
    /// Start the server, or correct its address.
    #[error("the model cannot be reached: {reason}")]
    Unreachable {
        /// What was seen.
        reason: String,
        /// What lies beneath.
        #[source]
        source: Option<ModelErrorSource>,
    },
    /// Ask less often.
    #[error("the model is asked too often: {reason}")]
    RateLimited {
        /// What was seen.
        reason: String,
        /// How long to wait, if the vendor says so.
        retry_after: Option<Duration>,
    },
    /// Ask again: the answer broke off or could not be read.
    #[error("the answer of the model broke off: {reason}")]
    Broken {
        /// What was seen.
        reason: String,
    },
    /// Ask again, or ask differently: the answer had neither words nor tool calls.
    #[error("the answer of the model was empty: {reason}")]
    Empty {
        /// What was seen.
        reason: String,
    },
    /// Ask for less: the answer grew past what is taken in.
    #[error("the answer of the model went past a limit: {reason}")]
    LimitExceeded {
        /// Which limit.
        reason: String,
    },
    /// Set a key that is allowed to ask.
    #[error("the API key is missing or was refused: {reason}")]
    Unauthorized {
        /// What was seen.
        reason: String,
    },
    /// Pay the vendor, or choose another.
    #[error("the account at the model's vendor has run out: {reason}")]
    OutOfCredit {
        /// What was seen.
        reason: String,
    },
    /// Send less.
    #[error("the conversation is too long for the model: {reason}")]
    TooLong {
        /// What was seen.
        reason: String,
    },
    /// Say it differently: the vendor does not let this through.
    #[error("the model's vendor held the request back: {reason}")]
    Filtered {
        /// What was seen.
        reason: String,
    },
    /// Change the request or the settings; asking the same again gives the same.
    #[error("the model does not take the request: {reason}")]
    Rejected {
        /// What was seen.
        reason: String,
    },
    /// Record this request first.
    #[error("the recording has no answer to this request: {reason}")]
    NotRecorded {
        /// Which request.
        reason: String,
    },
}

/// What a person can do about an error, in both languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelErrorAdvice {
    /// In Korean.
    pub ko: &'static str,
    /// In English.
    pub en: &'static str,
}

macro_rules! model_error_kinds {
    ($($name:ident $code:literal $ko:literal $en:literal)*) => {
        /// The kind of a [`ModelError`], with its code and its words. The text is here and nowhere else; a program that
        /// shows an error that was kept looks them up by its code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is the kind of the error of its name")]
        pub enum ModelErrorKind {
            $($name),*
        }

        impl ModelErrorKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// A word for programs. It stays the same when the sentence changes.
            pub fn code(self) -> &'static str {
                match self { $(Self::$name => $code),* }
            }

            /// The code of a run that failed by it: the word after `model_`, so that it meets no other's.
            pub fn failure_code(self) -> &'static str {
                match self { $(Self::$name => concat!("model_", $code)),* }
            }

            /// What a person can do about it.
            pub fn advice(self) -> ModelErrorAdvice {
                match self { $(Self::$name => ModelErrorAdvice { ko: $ko, en: $en }),* }
            }
        }

        impl ModelError {
            /// Its kind.
            pub fn kind(&self) -> ModelErrorKind {
                match self { $(Self::$name { .. } => ModelErrorKind::$name),* }
            }
        }
    };
}

model_error_kinds! {
    Unavailable "unavailable"
        "모델 서버가 지금 응답하지 못합니다. 잠시 뒤 다시 시도하세요."
        "The model's server cannot answer now. Try again in a while."
    Unreachable "unreachable"
        "모델 서버에 연결하지 못했습니다. 서버가 켜져 있는지, 주소가 맞는지 확인하세요."
        "The model's server could not be reached. Check that it runs and that its address is right."
    RateLimited "rate_limited"
        "모델 요청 한도에 걸렸습니다. 잠시 뒤 다시 시도하거나 한도를 올리세요."
        "The vendor's rate limit was reached. Try again in a while, or raise the limit."
    Broken "truncated"
        "답이 중간에 끊겼습니다. 다시 시도하세요."
        "The answer broke off half-way. Try again."
    Empty "empty"
        "모델이 빈 답을 보냈습니다. 다시 시도하거나 다르게 물어보세요."
        "The model sent an empty answer. Try again or ask differently."
    LimitExceeded "limit_exceeded"
        "답이 정해진 한도를 넘어 멈췄습니다. 더 짧게 요청하세요."
        "The answer went past a limit and was stopped. Ask for something shorter."
    Unauthorized "unauthorized"
        "API 키가 없거나 거부되었습니다. 키를 확인하고 다시 설정하세요."
        "The API key is missing or was refused. Check the key and set it again."
    OutOfCredit "out_of_credit"
        "모델 제공자 계정의 잔액이나 사용 한도가 소진되었습니다. 결제 정보를 확인하세요."
        "The account at the vendor has no credit left. Check its billing page."
    TooLong "too_long"
        "대화가 모델이 읽을 수 있는 길이를 넘었습니다. 내용을 줄이거나 새 대화를 시작하세요."
        "The conversation is longer than the model can read. Shorten it or start a new one."
    Filtered "filtered"
        "모델 제공자의 안전 필터에 막혔습니다. 다르게 표현해 보세요."
        "The vendor's safety filter held it back. Put it differently."
    Rejected "rejected"
        "모델이 요청을 받아들이지 않았습니다. 모델 이름과 설정을 확인하세요."
        "The model did not take the request. Check the model's name and the settings."
    NotRecorded "not_recorded"
        "녹음 파일에 이 요청이 없습니다. `--record`로 다시 녹음하세요."
        "The recording does not hold this request. Record it again with `--record`."
}

impl ModelErrorKind {
    /// The kind of error that a run failed by, by the code it was kept with.
    pub fn from_failure_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.failure_code() == code)
    }
}

impl ModelError {
    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. }
            | Self::Unreachable { .. }
            | Self::RateLimited { .. }
            | Self::Broken { .. }
            | Self::Empty { .. } => true,
            Self::LimitExceeded { .. }
            | Self::Unauthorized { .. }
            | Self::OutOfCredit { .. }
            | Self::TooLong { .. }
            | Self::Filtered { .. }
            | Self::Rejected { .. }
            | Self::NotRecorded { .. } => false,
        }
    }

    /// How long to wait before the next request, if the vendor says so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } | Self::RateLimited { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// A word for programs. It stays the same when the sentence changes.
    pub fn code(&self) -> &'static str {
        self.kind().code()
    }

    /// What a person can do about it.
    pub fn advice(&self) -> ModelErrorAdvice {
        self.kind().advice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_do_not_change() {
        let reason = || "seen".to_owned();
        let errors = [
            ModelError::Unavailable { reason: reason(), retry_after: None, source: None },
            ModelError::Unreachable { reason: reason(), source: None },
            ModelError::RateLimited { reason: reason(), retry_after: None },
            ModelError::Broken { reason: reason() },
            ModelError::Empty { reason: reason() },
            ModelError::LimitExceeded { reason: reason() },
            ModelError::Unauthorized { reason: reason() },
            ModelError::OutOfCredit { reason: reason() },
            ModelError::TooLong { reason: reason() },
            ModelError::Filtered { reason: reason() },
            ModelError::Rejected { reason: reason() },
            ModelError::NotRecorded { reason: reason() },
        ];
        let lines: Vec<String> = errors
            .iter()
            .map(|error| format!("{}{}", error.code(), if error.is_transient() { " again" } else { "" }))
            .collect();
        assert_eq!(
            lines.join(", "),
            "unavailable again, unreachable again, rate_limited again, truncated again, empty again, \
             limit_exceeded, unauthorized, out_of_credit, too_long, filtered, rejected, not_recorded"
        );
        let faults: Vec<ModelErrorKind> = errors.iter().map(ModelError::kind).collect();
        assert_eq!(faults, ModelErrorKind::ALL);
        for error in &errors {
            let ModelErrorAdvice { ko, en } = error.advice();
            assert!(en.is_ascii() && en.ends_with('.'), "{en}");
            assert!(ko.chars().any(|char| ('가'..='힣').contains(&char)) && ko.ends_with('.'), "{ko}");
            assert_eq!(
                ModelErrorKind::from_failure_code(&format!("model_{}", error.code())),
                Some(error.kind())
            );
        }
        assert_eq!(ModelErrorKind::from_failure_code("limit_exceeded"), None);
    }
}
