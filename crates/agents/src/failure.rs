//! Sentences for people about a run that failed, by its error code. Each part of an agent has the sentences for its own codes;
//! here they are looked up, so that old runs have them too.

use doran_engine::{NodeError, failure};
pub use doran_llm::ModelErrorAdvice;
use doran_llm::ModelErrorKind;

use crate::engine_failure_advice::engine_failure_advice;
use crate::retrieval::RetrieveError;

/// The code of a run that was given no question.
const NO_QUESTION_CODE: &str = "nothing_asked";
/// The code of a run that may spend no more, because its tenant has spent the budget of the month.
pub const BUDGET_SPENT_CODE: &str = "budget_spent";

/// What a person can do about a run that failed with this code. An unknown code gets a general sentence.
pub fn advice(code: &str) -> ModelErrorAdvice {
    ModelErrorKind::from_failure_code(code)
        .map(ModelErrorKind::advice)
        .or_else(|| RetrieveError::advice(code))
        .or_else(|| agent_advice(code))
        .or_else(|| engine_failure_advice(code))
        .or_else(|| engine_failure_advice(failure::NODE_FAILED))
        .unwrap_or(ModelErrorAdvice { ko: "실행이 실패했습니다.", en: "The run failed." })
}

fn agent_advice(code: &str) -> Option<ModelErrorAdvice> {
    Some(match code {
        NO_QUESTION_CODE => ModelErrorAdvice {
            ko: "질문이 없습니다. 물어볼 말을 적어 보내세요.",
            en: "Nothing was asked. Write a question and send it.",
        },
        BUDGET_SPENT_CODE => ModelErrorAdvice {
            ko: "이번 달 예산을 다 썼습니다. 예산은 `monthly_budget_cents`로 정합니다.",
            en: "The budget of this month is spent; `monthly_budget_cents` sets it.",
        },
        _ => return None,
    })
}

/// The error of a node that finds no question.
pub(crate) fn no_question_error() -> NodeError {
    NodeError::permanent("nothing was asked").with_code(NO_QUESTION_CODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_code_has_a_plain_message() {
        let plain = advice(failure::NODE_FAILED);
        assert_eq!(advice("of_a_later_version"), plain);
        assert_eq!(advice(""), plain);
        for known in ["model_empty", "index_stale", NO_QUESTION_CODE, BUDGET_SPENT_CODE, failure::TIMEOUT] {
            assert_ne!(advice(known), plain, "{known}");
        }
        // A limit of the run and a limit of an answer are two things.
        assert_ne!(advice("limit_exceeded"), advice("model_limit_exceeded"));
    }
}
