//! The details of an error, in both languages: converts errors of the engine, the store and the library to text for people.
//! Internal causes go to the log only.

use doran_engine::store::StoreError;
use doran_engine::{EngineError, MisuseError, RunError, StateMismatchReason};

use crate::api::{ModelErrorAdvice, advice};

/// A sentence in both languages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorDetail {
    pub(crate) en: String,
    pub(crate) ko: String,
}

impl ErrorDetail {
    pub(crate) fn new(en: impl Into<String>, ko: impl Into<String>) -> Self {
        Self { en: en.into(), ko: ko.into() }
    }

    /// A body that is not the JSON of its route.
    pub(crate) fn from_json_error(error: &serde_json::Error) -> Self {
        let what = match error.classify() {
            serde_json::error::Category::Io => "읽지 못했습니다",
            serde_json::error::Category::Syntax => "JSON 문법에 맞지 않습니다",
            serde_json::error::Category::Data => "값이 이 경로의 것과 맞지 않습니다",
            serde_json::error::Category::Eof => "JSON이 도중에 끝났습니다",
        };
        let ko = format!("{}번째 줄 {}번째 글자: {what} ({error})", error.line(), error.column());
        Self::new(error.to_string(), ko)
    }

    pub(crate) fn from_engine_error(error: &EngineError) -> Option<Self> {
        let ko = match error {
            EngineError::Store(store) => return Self::from_store_error(store),
            EngineError::Misuse(misuse) => misuse_message_ko(misuse),
            EngineError::Run(run) => match run {
                RunError::Failed(failure) => {
                    let ModelErrorAdvice { ko, .. } = advice(&failure.code);
                    format!("{ko} ({}: {})", failure.code, failure.message)
                }
                RunError::Cancelled => "실행이 취소되었습니다".to_owned(),
                RunError::Left(_) => "실행이 이 프로세스를 떠났습니다. 다른 곳에서 이어집니다".to_owned(),
                RunError::AskedWithoutStore { node } => {
                    format!("`{node}` 노드가 질문했지만 답을 기다릴 저장소가 없습니다")
                }
            },
            EngineError::StateMismatch { seq, reason } => {
                let Self { ko, .. } = Self::from_state_mismatch(reason);
                format!("대화의 {seq}번 기록이 이 에이전트의 상태에 맞지 않습니다: {ko}")
            }
            EngineError::Stopped(_) => "실행기가 멈췄습니다. 다시 시작하면 이어집니다".to_owned(),
        };
        Some(Self::new(error.to_string(), ko))
    }

    /// Why a state or an update is not one of the graph.
    pub(crate) fn from_state_mismatch(reason: &StateMismatchReason) -> Self {
        let ko = match reason {
            StateMismatchReason::UnknownField(field) => format!("상태에 `{field}` 필드가 없습니다"),
            StateMismatchReason::Unreadable(message) => message.clone(),
        };
        Self::new(reason.to_string(), ko)
    }

    /// What a client may see of it. Words of a database are for the log.
    pub(crate) fn from_store_error(error: &StoreError) -> Option<Self> {
        let ko = match error {
            StoreError::Busy { thread, run } => format!("대화 `{thread}`에서 실행 `{run}`이 진행 중입니다"),
            StoreError::Fenced => "다른 작업자가 실행을 가져갔거나, 실행이 끝났거나 지워졌습니다".to_owned(),
            StoreError::Conflict(reason) => format!("요청이 지금 상태에 맞지 않습니다 ({reason})"),
            StoreError::KeyReused(key) => format!("멱등성 키 `{key}`은(는) 다른 요청에 쓰였습니다"),
            StoreError::NotFound { what, id } => {
                let what = match *what {
                    "thread" => "대화",
                    "run" => "실행",
                    "entry" => "기록",
                    other => other,
                };
                format!("{what} `{id}`: 없습니다")
            }
            StoreError::Newer { found, known } => {
                format!(
                    "데이터베이스의 형식은 {found}이고 이 서버는 {known}까지 압니다. 새 버전의 서버에 요청하세요"
                )
            }
            StoreError::Full(_)
            | StoreError::Unavailable(_)
            | StoreError::Unknown(_)
            | StoreError::Damaged(_)
            | StoreError::Rejected(_)
            | StoreError::Other(_) => {
                tracing::error!(error = error as &dyn std::error::Error, "the store returned an error");
                return None;
            }
        };
        let en = match error {
            StoreError::Newer { found, known } => format!(
                "the database has format {found}, and this server knows up to {known}; ask a server of the new version"
            ),
            error => error.to_string(),
        };
        Some(Self::new(en, ko))
    }
}

/// What is wrong with a call, in Korean.
fn misuse_message_ko(misuse: &MisuseError) -> String {
    match misuse {
        MisuseError::BadId(bad) => format!("이름이 규칙에 맞지 않습니다 ({bad})"),
        MisuseError::UnknownGraph(name) => format!("`{name}`: 그런 에이전트가 없습니다"),
        MisuseError::GraphOfRunMissing(name) => {
            format!(
                "이 실행의 에이전트 `{name}`이(가) 서버에 없습니다. 에이전트를 다시 추가하거나 실행을 취소하세요"
            )
        }
        MisuseError::GraphExists(name) => format!("`{name}`: 그런 에이전트가 이미 있습니다"),
        MisuseError::UnknownNode { graph, node } => {
            format!("에이전트 `{graph}`에는 `{node}` 노드가 없습니다")
        }
        MisuseError::BadInput { graph, source } => {
            format!("입력이 에이전트 `{graph}`의 상태에 맞지 않습니다 ({source})")
        }
        MisuseError::BadAnswer { question, source } => {
            format!("`{question}`에 대한 답을 저장할 수 없습니다 ({source})")
        }
        MisuseError::BadContext(why) => format!("실행의 컨텍스트를 저장할 수 없습니다 ({why})"),
        MisuseError::NotAdmitted(failure) => {
            format!("지금은 실행을 시작할 수 없습니다 ({})", failure.message)
        }
        MisuseError::InputForJoin { node } => {
            format!("노드 `{node}`은(는) 다른 노드를 기다렸다가 한 번 실행되므로 자체 입력을 받지 않습니다")
        }
        MisuseError::BadTimeZone(name) => format!("`{name}`: 그런 시간대가 없습니다. 예: `Asia/Seoul`"),
        MisuseError::BadSchedule(why) => format!("예약을 저장할 수 없습니다 ({why})"),
        MisuseError::NoOpenQuestion(_)
        | MisuseError::SeveralOpenQuestions { .. }
        | MisuseError::BadQuestionId(_) => format!("그 답을 기다리는 물음이 없습니다 ({misuse})"),
    }
}
