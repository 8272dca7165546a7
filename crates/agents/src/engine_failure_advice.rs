//! Sentences for people about runs that the engine itself ended, by code.

use doran_engine::failure;
use doran_llm::ModelErrorAdvice;

/// What a person can do about a run that ended with this code of the engine.
pub(crate) fn engine_failure_advice(code: &str) -> Option<ModelErrorAdvice> {
    let (en, ko) = match code {
        failure::NODE_FAILED => (
            "A step failed and the run ended. The conversation is intact; try again.",
            "한 단계가 실패해 실행이 끝났습니다. 대화는 그대로 있으니 다시 시도하세요.",
        ),
        failure::LIMIT_EXCEEDED => (
            "The run reached one of its limits and was ended. Ask for less, or raise the limit in the settings.",
            "실행이 정해진 한도에 닿아 끝났습니다. 범위를 좁혀 묻거나 설정에서 한도를 올리세요.",
        ),
        failure::TIMEOUT => (
            "A step took too long and was ended. Try again.",
            "한 단계가 너무 오래 걸려 멈췄습니다. 다시 시도하세요.",
        ),
        failure::PANIC => (
            "Something broke inside. The conversation is intact; try again.",
            "내부에서 오류가 났습니다. 대화는 그대로 있으니 다시 시도하세요.",
        ),
        failure::CRASH_LOOP => (
            "The program ended in the same step again and again, so the run was given up. Look into its log, then try again.",
            "프로그램이 같은 단계에서 거듭 끝나 실행을 그만두었습니다. 로그를 살펴보고 다시 시도하세요.",
        ),
        failure::GRAPH_CHANGED => (
            "The agent has changed since this conversation stopped here. Begin a new conversation.",
            "이 대화가 멈춘 뒤에 에이전트가 바뀌었습니다. 새 대화를 시작하세요.",
        ),
        failure::STATE_MISMATCH => (
            "This conversation belongs to another agent, or to an older form of this one. Begin a new conversation.",
            "다른 에이전트나 이전 버전의 대화입니다. 새 대화를 시작하세요.",
        ),
        failure::LOG_MISSING => (
            "A part of this conversation is gone or damaged, so it cannot go on. Restore a backup, or begin a new conversation.",
            "이 대화의 일부가 없어졌거나 손상되어 이어 갈 수 없습니다. 백업을 되돌리거나 새 대화를 시작하세요.",
        ),
        failure::NOT_STORABLE => (
            "A step gave something that cannot be stored. This is a fault of the agent; report it.",
            "한 단계가 저장할 수 없는 결과를 냈습니다. 에이전트의 결함이니 알려 주세요.",
        ),
        failure::STORE_REJECTED => (
            "The store cannot take what this step wants to write, for example because it is too large. Ask for less.",
            "이 단계가 쓰려는 것을 저장소가 받을 수 없습니다. 너무 큰 경우가 그렇습니다. 범위를 좁혀 다시 물어보세요.",
        ),
        failure::UNDECLARED_TARGET => (
            "The agent jumped to a node it does not declare. This is a fault of the agent; report it.",
            "에이전트가 선언하지 않은 노드로 이동했습니다. 에이전트의 결함이니 알려 주세요.",
        ),
        failure::STUCK_JOIN => (
            "A join waits for a node that never runs. This is a fault of the agent; report it.",
            "실행되지 않을 노드를 기다리는 조인이 있습니다. 에이전트의 결함이니 알려 주세요.",
        ),
        failure::ABORTED => (
            "The run was cut off from outside. The conversation is intact; try again.",
            "실행이 밖에서 끊겼습니다. 대화는 그대로 있으니 다시 시도하세요.",
        ),
        _ => return None,
    };
    Some(ModelErrorAdvice { ko, en })
}

#[cfg(test)]
mod tests {
    use doran_retrieval::is_hangul_syllable;

    use super::*;

    #[test]
    fn every_code_of_the_engine_has_a_sentence_in_both_languages() {
        for code in failure::CODES {
            let ModelErrorAdvice { ko, en } = engine_failure_advice(code).expect(code);
            assert!(ko.contains(is_hangul_syllable) && ko.ends_with('.'), "{ko}");
            assert!(!en.contains(is_hangul_syllable) && en.ends_with('.'), "{en}");
        }
        assert_eq!(engine_failure_advice("of_a_later_version"), None);
    }
}
