//! Messages for people when there is no answer.

use doran_retrieval::Language;

use super::state::ReactErrorCode;

/// A friendly sentence that says the way out.
pub(super) fn error_message(code: ReactErrorCode, language: Language) -> &'static str {
    match code {
        ReactErrorCode::EmptyInput => language.pick(
            "질문이 비어 있습니다. 무엇이 궁금한지 적어 주세요.",
            "There is no question in your message. Please write what you would like to know.",
        ),
        ReactErrorCode::MaxIterationsExceeded => language.pick(
            "요청이 너무 복잡합니다. 질문을 더 작게 나누어 다시 물어봐 주세요.",
            "The request is too complex. Please ask again in smaller parts.",
        ),
        ReactErrorCode::ModelUnavailable => language.pick(
            "지금은 모델이 답하지 못합니다. 잠시 뒤에 다시 시도해 주세요.",
            "The model cannot answer right now. Please try again in a moment.",
        ),
        ReactErrorCode::ModelUnauthorized => language.pick(
            "모델이 키를 받아들이지 않았습니다. 관리자에게 모델 키를 확인해 달라고 해 주세요.",
            "The model did not accept the key. Please have an administrator check the model key.",
        ),
        ReactErrorCode::ModelOutOfCredit => language.pick(
            "모델 제공자 계정의 잔액이 다 되었습니다. 관리자에게 결제 정보를 확인해 달라고 해 주세요.",
            "The account at the model's vendor has run out. Please have an administrator check its billing.",
        ),
        ReactErrorCode::ModelFiltered => language.pick(
            "모델 제공자의 안전 필터에 막혔습니다. 질문을 다르게 표현해 주세요.",
            "The vendor's safety filter held it back. Please put the question differently.",
        ),
        ReactErrorCode::ModelContextTooLong => language.pick(
            "대화가 모델에게 너무 깁니다. 질문을 줄이거나 새 대화를 시작해 주세요.",
            "The conversation is too long for the model. Please shorten the question or start a new conversation.",
        ),
        ReactErrorCode::ModelRejected => language.pick(
            "모델이 이 요청을 받아들이지 않았습니다. 질문을 바꾸어 다시 물어봐 주세요.",
            "The model did not accept this request. Please ask in another way.",
        ),
        ReactErrorCode::Internal => language.pick(
            "처리하는 가운데 문제가 생겼습니다. 다시 시도해 주세요.",
            "Something went wrong on our side. Please try again.",
        ),
    }
}

/// The note for the model about calls that were never run.
pub(super) fn call_not_run_message(language: Language) -> &'static str {
    language.pick("Error: 반복 횟수를 넘어 실행하지 않았습니다", "Error: not run, there were too many rounds")
}
