//! Why a run failed, in words for people. The log keeps the code and the message of whoever failed; both languages are
//! made of them when they are shown, so that runs of the past are told as well.

/// A sentence in both languages. It says the way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// In English.
    pub en: &'static str,
    /// In Korean.
    pub ko: &'static str,
}

/// What a message holds, and what it means. The first row that fits is taken.
const BY_MESSAGE: &[(&str, Words)] = &[
    (
        "the model cannot answer now",
        Words {
            en: "The model cannot answer just now. Try again in a moment.",
            ko: "모델이 지금은 답하지 못합니다. 잠시 뒤에 다시 시도하세요.",
        },
    ),
    (
        "the model cannot be reached",
        Words {
            en: "The model cannot be reached. Start its server, or correct its address in the settings.",
            ko: "모델에 연결할 수 없습니다. 모델 서버를 켜거나 설정의 주소를 바로잡으세요.",
        },
    ),
    (
        "the model is asked too often",
        Words {
            en: "The model's vendor lets us ask only so often. Wait a moment and try again.",
            ko: "모델 업체의 요청 한도에 걸렸습니다. 잠시 기다렸다가 다시 시도하세요.",
        },
    ),
    (
        "the answer of the model broke off",
        Words {
            en: "The model's answer broke off in the middle. Try again.",
            ko: "모델의 답이 도중에 끊겼습니다. 다시 시도하세요.",
        },
    ),
    (
        "the answer of the model was empty",
        Words {
            en: "The model gave an empty answer. Try again, or ask differently.",
            ko: "모델이 빈 답을 보냈습니다. 다시 시도하거나 다르게 물어보세요.",
        },
    ),
    (
        "the answer of the model went past a limit",
        Words {
            en: "The model's answer grew too long and was cut off. Ask for less.",
            ko: "모델의 답이 너무 길어져 멈췄습니다. 범위를 좁혀 물어보세요.",
        },
    ),
    (
        "the model refused the key",
        Words {
            en: "The model's vendor refused the key. Set one that is allowed to ask.",
            ko: "모델 업체가 키를 거부했습니다. 쓸 수 있는 키를 설정하세요.",
        },
    ),
    (
        "the account at the model's vendor has run out",
        Words {
            en: "The account at the model's vendor has run out. Pay the vendor, or choose another model.",
            ko: "모델 업체 계정의 잔액이 떨어졌습니다. 충전하거나 다른 모델을 고르세요.",
        },
    ),
    (
        "the conversation is too long for the model",
        Words {
            en: "The conversation is too long for the model. Begin a new one, or ask with less text.",
            ko: "대화가 모델이 받을 수 있는 길이를 넘었습니다. 새 대화를 시작하거나 글을 줄여 물어보세요.",
        },
    ),
    (
        "the model's vendor held the request back",
        Words {
            en: "The model's vendor held the request back. Say it differently.",
            ko: "모델 업체가 요청을 막았습니다. 다르게 표현해 보세요.",
        },
    ),
    (
        "the model does not take the request",
        Words {
            en: "The model does not take this request. Asking the same again gives the same: change the question or the settings.",
            ko: "모델이 이 요청을 받지 않습니다. 다시 해도 같으니 질문이나 설정을 바꾸세요.",
        },
    ),
    (
        "the recording has no answer to this request",
        Words {
            en: "The recording has no answer to this question. Record it first.",
            ko: "녹음된 답에 이 질문이 없습니다. 먼저 녹음하세요.",
        },
    ),
];

/// What a code means.
const BY_CODE: &[(&str, Words)] = &[
    (
        "limit_exceeded",
        Words {
            en: "The run reached one of its limits and was ended. Ask for less, or raise the limit in the settings.",
            ko: "실행이 정해진 한도에 닿아 끝났습니다. 범위를 좁혀 묻거나 설정에서 한도를 올리세요.",
        },
    ),
    (
        "timeout",
        Words {
            en: "A step took too long and was ended. Try again.",
            ko: "한 단계가 너무 오래 걸려 멈췄습니다. 다시 시도하세요.",
        },
    ),
    (
        "graph_changed",
        Words {
            en: "The agent has changed since this conversation stopped here. Begin a new conversation.",
            ko: "이 대화가 멈춘 뒤에 에이전트가 바뀌었습니다. 새 대화를 시작하세요.",
        },
    ),
    (
        "state_mismatch",
        Words {
            en: "This conversation belongs to another agent, or to an older form of this one. Begin a new conversation.",
            ko: "다른 에이전트나 이전 버전의 대화입니다. 새 대화를 시작하세요.",
        },
    ),
    (
        "panic",
        Words {
            en: "Something broke inside. The conversation is intact; try again.",
            ko: "내부에서 오류가 났습니다. 대화는 그대로 있으니 다시 시도하세요.",
        },
    ),
];

const OTHER: Words = Words {
    en: "A step failed and the run ended. The conversation is intact; try again.",
    ko: "한 단계가 실패해 실행이 끝났습니다. 대화는 그대로 있으니 다시 시도하세요.",
};

/// What to tell people about a run that ended with this code and message.
pub fn words(code: &str, message: &str) -> Words {
    let by_message = BY_MESSAGE.iter().find(|(part, _)| message.contains(part));
    let by_code = || BY_CODE.iter().find(|(known, _)| *known == code);
    by_message.or_else(by_code).map_or(OTHER, |(_, words)| *words)
}

#[cfg(test)]
mod tests {
    use doran_llm::ModelError;

    use super::*;

    #[test]
    fn every_error_of_a_model_is_told_in_its_own_words() {
        let reason = || "429".to_owned();
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
        assert_eq!(errors.len(), BY_MESSAGE.len());
        for (error, (_, expected)) in errors.iter().zip(BY_MESSAGE) {
            assert_eq!(words("node_failed", &format!("node `agent`: {error}")), *expected, "{error}");
        }
    }

    #[test]
    fn whatever_failed_is_told_in_both_languages() {
        assert_eq!(words("stuck_join", "join `a` still waits"), OTHER);
        let all = BY_MESSAGE.iter().chain(BY_CODE).map(|(_, words)| words).chain([&OTHER]);
        for Words { en, ko } in all {
            assert!(en.is_ascii() && en.ends_with('.'), "{en}");
            assert!(ko.chars().any(|char| ('가'..='힣').contains(&char)) && ko.ends_with('.'), "{ko}");
        }
    }
}
