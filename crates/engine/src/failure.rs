//! Codes of runs that the engine itself ended, each with its words for people. A node that fails may bring a code of
//! its own ([`NodeError::with_code`](crate::NodeError::with_code)); whoever chose it has the words for it.

/// What a person can do about a run that failed, in both languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureAdvice {
    /// In Korean.
    pub ko: &'static str,
    /// In English.
    pub en: &'static str,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $code:literal $en:literal $ko:literal)*) => {
        $($(#[$doc])* pub const $name: &str = $code;)*

        /// Every code of the engine with its words.
        pub const ADVICE: &[(&str, FailureAdvice)] = &[$(($name, FailureAdvice { ko: $ko, en: $en })),*];
    };
}

codes! {
    /// A node failed and did not say more.
    NODE_FAILED "node_failed"
        "A step failed and the run ended. The conversation is intact; try again."
        "한 단계가 실패해 실행이 끝났습니다. 대화는 그대로 있으니 다시 시도하세요."
    /// A limit of the run was reached.
    LIMIT_EXCEEDED "limit_exceeded"
        "The run reached one of its limits and was ended. Ask for less, or raise the limit in the settings."
        "실행이 정해진 한도에 닿아 끝났습니다. 범위를 좁혀 묻거나 설정에서 한도를 올리세요."
    /// A node took too long.
    TIMEOUT "timeout"
        "A step took too long and was ended. Try again."
        "한 단계가 너무 오래 걸려 멈췄습니다. 다시 시도하세요."
    /// A node, a reducer or a branch panicked.
    PANIC "panic"
        "Something broke inside. The conversation is intact; try again."
        "내부에서 오류가 났습니다. 대화는 그대로 있으니 다시 시도하세요."
    /// The process ended in the same step over and over.
    CRASH_LOOP "crash_loop"
        "The program ended in the same step again and again, so the run was given up. Look into its log, then try again."
        "프로그램이 같은 단계에서 거듭 끝나 실행을 그만두었습니다. 로그를 살펴보고 다시 시도하세요."
    /// The graph is not the one that the thread stopped in.
    GRAPH_CHANGED "graph_changed"
        "The agent has changed since this conversation stopped here. Begin a new conversation."
        "이 대화가 멈춘 뒤에 에이전트가 바뀌었습니다. 새 대화를 시작하세요."
    /// What is stored does not fit the state.
    STATE_MISMATCH "state_mismatch"
        "This conversation belongs to another agent, or to an older form of this one. Begin a new conversation."
        "다른 에이전트나 이전 버전의 대화입니다. 새 대화를 시작하세요."
    /// A part of the thread's log is gone or damaged.
    LOG_MISSING "log_missing"
        "A part of this conversation is gone or damaged, so it cannot go on. Restore a backup, or begin a new conversation."
        "이 대화의 일부가 없어졌거나 손상되어 이어 갈 수 없습니다. 백업을 되돌리거나 새 대화를 시작하세요."
    /// What a node gave cannot be written down.
    NOT_STORABLE "not_storable"
        "A step gave something that cannot be kept. This is a fault of the agent; report it."
        "한 단계가 저장할 수 없는 결과를 냈습니다. 에이전트의 결함이니 알려 주세요."
    /// The store cannot take what the run wants to write.
    STORE_REJECTED "store_rejected"
        "The store cannot take what this step wants to write, for example because it is too large. Ask for less."
        "이 단계가 쓰려는 것을 저장소가 받을 수 없습니다. 너무 큰 경우가 그렇습니다. 범위를 좁혀 다시 물어보세요."
    /// A branch led where it had not said it would.
    UNDECLARED_TARGET "undeclared_target"
        "The agent took a way that it does not have. This is a fault of the agent; report it."
        "에이전트가 있지 않은 길로 갔습니다. 에이전트의 결함이니 알려 주세요."
    /// A join waits for a node that will not come.
    STUCK_JOIN "stuck_join"
        "The agent waits for a step that will not come. This is a fault of the agent; report it."
        "에이전트가 오지 않을 단계를 기다립니다. 에이전트의 결함이니 알려 주세요."
    /// A task was stopped from outside the engine.
    ABORTED "aborted"
        "The run was cut off from outside. The conversation is intact; try again."
        "실행이 밖에서 끊겼습니다. 대화는 그대로 있으니 다시 시도하세요."
}

/// What a person can do about a run that failed with this code; none if it is no code of the engine.
pub fn failure_advice(code: &str) -> Option<FailureAdvice> {
    ADVICE.iter().find(|(known, _)| *known == code).map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_is_its_own_and_speaks_both_languages() {
        let codes: BTreeSet<&str> = ADVICE.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes.len(), ADVICE.len());
        for (code, FailureAdvice { ko, en }) in ADVICE {
            assert!(en.is_ascii() && en.ends_with('.'), "{en}");
            assert!(ko.chars().any(|char| ('가'..='힣').contains(&char)) && ko.ends_with('.'), "{ko}");
            assert_eq!(failure_advice(code).map(|advice| advice.en), Some(*en));
        }
        assert_eq!(failure_advice("model_empty"), None);
    }
}
