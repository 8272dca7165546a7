//! What people are told about a run that failed, by the code it was kept with. Each part of an agent has the words for
//! its own codes; here they are only looked up, so that runs of the past are told as well.

use doran_engine::{NodeError, failure};
pub use doran_llm::Advice;
use doran_llm::Fault;

use crate::retrieval::RetrieveError;

/// The code of a run that was given no question.
const NOTHING_ASKED: &str = "nothing_asked";

/// What a person can do about a run that failed with this code. A code that nobody knows is told plainly.
pub fn advice(code: &str) -> Advice {
    let of_engine = |code| failure::advice(code).map(|failure::Advice { ko, en }| Advice { ko, en });
    Fault::of_failure(code)
        .map(Fault::advice)
        .or_else(|| RetrieveError::advice(code))
        .or_else(|| own(code))
        .or_else(|| of_engine(code))
        .or_else(|| of_engine(failure::NODE_FAILED))
        .unwrap_or(Advice { ko: "실행이 실패했습니다.", en: "The run failed." })
}

fn own(code: &str) -> Option<Advice> {
    (code == NOTHING_ASKED).then_some(Advice {
        ko: "질문이 없습니다. 물어볼 말을 적어 보내세요.",
        en: "Nothing was asked. Write a question and send it.",
    })
}

/// The error of a node that finds no question.
pub(crate) fn nothing_asked() -> NodeError {
    NodeError::permanent("nothing was asked").with_code(NOTHING_ASKED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_nobody_knows_is_told_plainly() {
        let plain = advice(failure::NODE_FAILED);
        assert_eq!(advice("of_a_later_version"), plain);
        assert_eq!(advice(""), plain);
        for known in ["model_empty", "index_stale", NOTHING_ASKED, failure::TIMEOUT] {
            assert_ne!(advice(known), plain, "{known}");
        }
        // A limit of the run and a limit of an answer are two things.
        assert_ne!(advice("limit_exceeded"), advice("model_limit_exceeded"));
    }
}
