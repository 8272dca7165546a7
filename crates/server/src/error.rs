//! All errors of the API in one table: status, stable code, and a sentence in English and in Korean.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use doran_agents::failure::BUDGET_SPENT_CODE;
use doran_engine::store::StoreError;
use doran_engine::{EngineError, MisuseError, RunError};
use serde_json::json;

use crate::api::Problem;
use crate::error_detail::ErrorDetail;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct ApiErrorInfo {
    /// The status of the answer.
    pub status: u16,
    /// Stable, for programs.
    pub code: &'static str,
    /// For people.
    pub en: &'static str,
    /// The same in Korean.
    pub ko: &'static str,
}

macro_rules! table {
    ($($name:ident $status:literal $code:literal $en:literal $ko:literal)*) => {
        /// Everything that can go wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the table says what each is")]
        pub enum ApiErrorCode {
            $($name),*
        }

        impl ApiErrorCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its status, code and sentences.
            pub fn info(self) -> ApiErrorInfo {
                match self {
                    $(Self::$name => ApiErrorInfo { status: $status, code: $code, en: $en, ko: $ko }),*
                }
            }
        }
    };
}

table! {
    BadJson 400 "bad_json" "the body is not the JSON this route takes" "본문이 이 경로가 받는 JSON이 아닙니다"
    BadInput 400 "bad_input" "a value does not fit" "값이 맞지 않습니다"
    BadBody 400 "bad_body" "the body is not framed as its headers say, or was cut off" "본문이 헤더와 맞지 않거나 도중에 끊겼습니다"
    BadPath 400 "bad_path" "the path does not name a thing of this server" "경로가 이 서버의 것을 가리키지 않습니다"
    BadHeader 400 "bad_header" "a header does not fit" "헤더가 맞지 않습니다"
    NoHost 400 "no_host" "the request has no `Host` header" "요청에 `Host` 헤더가 없습니다"
    NoKey 401 "no_key" "this server requires an API key: send `Authorization: Bearer KEY`; `doran keys new` makes one" "이 서버는 API 키가 필요합니다. `Authorization: Bearer 키`를 보내세요. 키는 `doran keys new`로 만듭니다"
    WrongKey 401 "wrong_key" "there is no such key" "그런 키가 없습니다"
    BudgetSpent 402 "budget_spent" "the budget of this month is spent; `monthly_budget_cents` sets it" "이번 달 예산을 다 썼습니다. 예산은 `monthly_budget_cents`로 정합니다"
    HostNotAllowed 403 "host_not_allowed" "the `Host` header is not allowed; add it to `allowed_hosts`" "허용되지 않은 `Host` 헤더입니다. `allowed_hosts`에 추가하세요"
    OriginNotAllowed 403 "origin_not_allowed" "pages of other sites may not call this server; origins are allowed with `allowed_origins`" "다른 사이트의 페이지는 이 서버를 부를 수 없습니다. 오리진은 `allowed_origins`로 허용합니다"
    AdminOnly 403 "admin_only" "this takes a key of an administrator; `doran keys new NAME --admin` or `NAME:admin=KEY` in `DORAN_API_KEYS` makes one" "관리자 키가 필요합니다. `doran keys new 이름 --admin`이나 `DORAN_API_KEYS`의 `이름:admin=키`로 만듭니다"
    NotFound 404 "not_found" "not found" "찾을 수 없습니다"
    UnknownAgent 404 "unknown_agent" "there is no agent or model of that name" "그런 이름의 에이전트나 모델이 없습니다"
    MethodNotAllowed 405 "method_not_allowed" "this route does not take that method" "이 경로는 그 메서드를 받지 않습니다"
    TooSlow 408 "too_slow" "the body did not arrive in time" "본문이 제때 도착하지 않았습니다"
    Busy 409 "thread_busy" "the thread has a run under way" "이 대화에서 다른 실행이 진행 중입니다"
    Conflict 409 "conflict" "this cannot be done in the current state" "지금 상태에서는 할 수 없습니다"
    TooLarge 413 "too_large" "the body is too large" "본문이 너무 큽니다"
    NotJson 415 "not_json" "send `Content-Type: application/json` without an encoding" "인코딩 없이 `Content-Type: application/json`으로 보내세요"
    NotAFile 415 "not_a_file" "send the bytes of the file as the body, without a form around them or an encoding" "폼이나 인코딩 없이 파일의 바이트를 그대로 본문으로 보내세요"
    Invalid 422 "invalid_request" "the request does not fit this route" "요청이 이 경로에 맞지 않습니다"
    KeyReused 422 "key_reused" "the idempotency key was used for another request" "이 멱등성 키는 다른 요청에 쓰였습니다"
    TooMany 429 "too_many_requests" "this key sends too many requests; wait and retry" "이 키의 요청이 너무 많습니다. 잠시 뒤에 다시 요청하세요"
    Internal 500 "internal" "something went wrong inside" "내부에서 문제가 생겼습니다"
    RunFailed 502 "run_failed" "the run ended with an error" "실행이 오류로 끝났습니다"
    Overloaded 503 "overloaded" "the server is overloaded; retry later" "서버가 과부하 상태입니다. 잠시 뒤에 다시 요청하세요"
    IndexUnavailable 503 "index_unavailable" "the search index is unavailable; retry" "검색 색인을 쓸 수 없습니다. 다시 요청하세요"
    Unavailable 503 "unavailable" "the store cannot be reached; try again" "저장소에 닿지 않습니다. 다시 시도하세요"
    NewerFormat 503 "newer_format" "a newer version of Doran has migrated the database; this server writes nothing any more and stops" "더 새로운 버전의 도란이 데이터베이스의 형식을 바꿨습니다. 이 서버는 더 이상 기록하지 않고 멈춥니다"
    OutcomeUnknown 503 "outcome_unknown" "it is not known whether the write happened; retry with the same idempotency key" "기록되었는지 알 수 없습니다. 같은 멱등성 키로 다시 요청하세요"
    Stopping 503 "stopping" "the server is stopping; retry in a moment" "서버가 멈추는 중입니다. 잠시 뒤에 다시 요청하세요"
    NotFinished 504 "not_finished" "the run has started but not finished" "실행이 시작되었고 아직 끝나지 않았습니다"
    DiskFull 507 "disk_full" "the disk is full; nothing was written" "디스크가 가득 찼습니다. 아무것도 기록되지 않았습니다"
}

/// An answer that says what went wrong.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) code: ApiErrorCode,
    detail: Option<ErrorDetail>,
    retry_after: Option<Duration>,
    /// Whether what was requested has begun, so that a second request would begin another.
    is_run_started: bool,
    /// The parameter of the request that is wrong.
    parameter: Option<String>,
}

impl ApiError {
    /// With what is special this time, in English and in Korean.
    pub(crate) fn with_message(code: ApiErrorCode, en: impl Into<String>, ko: impl Into<String>) -> Self {
        Self::with_detail(code, ErrorDetail::new(en, ko))
    }

    pub(crate) fn with_detail(code: ApiErrorCode, why: impl Into<Option<ErrorDetail>>) -> Self {
        Self { code, detail: why.into(), retry_after: None, is_run_started: false, parameter: None }
    }

    /// This error, about a parameter if one is known to be wrong.
    pub(crate) fn about_parameter(self, parameter: Option<String>) -> Self {
        Self { parameter, ..self }
    }

    /// A parameter of the request that is wrong, and why.
    pub(crate) fn for_parameter(name: &str, en: impl Into<String>, ko: impl Into<String>) -> Self {
        let (en, ko) = (format!("`{name}`: {}", en.into()), format!("`{name}`: {}", ko.into()));
        Self { parameter: Some(name.to_owned()), ..Self::with_message(ApiErrorCode::BadInput, en, ko) }
    }

    /// The same under another code.
    pub(crate) fn under_code(self, code: ApiErrorCode) -> Self {
        Self { code, ..self }
    }

    /// With the time after which to ask again.
    pub(crate) fn with_retry_after(code: ApiErrorCode, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..Self::from(code) }
    }

    /// The same about a run that was begun on this thread. Clients ask again by themselves, many of them without a key
    /// that would lead back to the run, and would begin another: they are told not to. A 503
    /// here concerns the response alone: the run goes on.
    pub(crate) fn for_started_run(self, thread: &str) -> Self {
        let error = match self.code.info().status {
            503 => Self::not_finished(thread),
            _ => self,
        };
        Self { retry_after: None, is_run_started: true, ..error }
    }

    /// A run that goes on while nobody waits for it any more.
    pub(crate) fn not_finished(thread: &str) -> Self {
        Self::with_message(
            ApiErrorCode::NotFinished,
            format!("it goes on in the thread `{thread}`; look there instead of asking again"),
            format!("대화 `{thread}`에서 계속됩니다. 다시 묻지 말고 거기서 확인하세요"),
        )
    }

    /// The problem as JSON.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let ApiErrorInfo { status, code, en: title, ko: title_ko } = self.code.info();
        let (detail, detail_ko) = self.detail.clone().map(|ErrorDetail { en, ko }| (en, ko)).unzip();
        let parameter = self.parameter.clone();
        let (kind, code) = ("about:blank".into(), code.into());
        let (title, title_ko) = (title.into(), title_ko.into());
        json!(Problem { kind, status, code, title, title_ko, detail, detail_ko, parameter })
    }
}

impl From<ApiErrorCode> for ApiError {
    fn from(code: ApiErrorCode) -> Self {
        Self::with_detail(code, None)
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let code = match &error {
            EngineError::Store(store) => {
                return Self::with_detail(store_error_code(store), ErrorDetail::from_store_error(store));
            }
            EngineError::Misuse(MisuseError::NotAdmitted(failure)) if failure.code == BUDGET_SPENT_CODE => {
                return ApiErrorCode::BudgetSpent.into();
            }
            EngineError::Misuse(misuse) => match misuse {
                MisuseError::BadId(_) => ApiErrorCode::BadPath,
                MisuseError::UnknownGraph(_) => ApiErrorCode::UnknownAgent,
                MisuseError::BadInput { .. }
                | MisuseError::BadContext(_)
                | MisuseError::BadSchedule(_)
                | MisuseError::BadTimeZone(_)
                | MisuseError::InputForJoin { .. }
                | MisuseError::BadAnswer { .. }
                | MisuseError::UnknownNode { .. } => ApiErrorCode::BadInput,
                MisuseError::NotAdmitted(_)
                | MisuseError::NoOpenQuestion(_)
                | MisuseError::SeveralOpenQuestions { .. }
                | MisuseError::BadQuestionId(_)
                | MisuseError::GraphOfRunMissing(_) => ApiErrorCode::Conflict,
                MisuseError::GraphExists(_) => ApiErrorCode::Internal,
            },
            EngineError::Run(RunError::Cancelled | RunError::AskedWithoutStore { .. }) => {
                ApiErrorCode::Conflict
            }
            EngineError::Run(RunError::Left(_)) | EngineError::Stopped(_) => ApiErrorCode::Stopping,
            EngineError::Run(RunError::Failed(_)) | EngineError::StateMismatch { .. } => {
                ApiErrorCode::Internal
            }
        };
        if code == ApiErrorCode::Internal {
            tracing::error!(%error, "request failed with an unexpected error");
        }
        Self::with_detail(code, ErrorDetail::from_engine_error(&error))
    }
}

fn store_error_code(error: &StoreError) -> ApiErrorCode {
    match error {
        StoreError::Busy { .. } => ApiErrorCode::Busy,
        StoreError::Fenced | StoreError::Conflict(_) => ApiErrorCode::Conflict,
        StoreError::KeyReused(_) => ApiErrorCode::KeyReused,
        StoreError::NotFound { .. } => ApiErrorCode::NotFound,
        StoreError::Full(_) => ApiErrorCode::DiskFull,
        StoreError::Unavailable(_) => ApiErrorCode::Unavailable,
        StoreError::Unknown(_) => ApiErrorCode::OutcomeUnknown,
        StoreError::Newer { .. } => ApiErrorCode::NewerFormat,
        StoreError::Damaged(_) | StoreError::Rejected(_) | StoreError::Other(_) => ApiErrorCode::Internal,
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.code.info().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, self.to_json().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(wait) =
            self.retry_after.or((status == StatusCode::SERVICE_UNAVAILABLE).then_some(Duration::ZERO))
        {
            // Whole seconds, and never none.
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
        }
        // What may have happened must not be requested again without a key, and clients that retry by themselves have none.
        if self.is_run_started || self.code == ApiErrorCode::OutcomeUnknown {
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"doran\""));
        }
        if matches!(self.code, ApiErrorCode::TooLarge | ApiErrorCode::TooSlow | ApiErrorCode::BadBody) {
            // The rest of the body was not read and is not wanted.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_is_its_own_and_speaks_both_languages() {
        let codes: BTreeSet<&str> = ApiErrorCode::ALL.iter().map(|code| code.info().code).collect();
        assert_eq!(codes.len(), ApiErrorCode::ALL.len());
        for code in ApiErrorCode::ALL {
            let ApiErrorInfo { status, en, ko, .. } = code.info();
            assert!((400..600).contains(&status), "{code:?}");
            let hangul = |text: &str| text.contains(doran_agents::retrieval::is_hangul_syllable);
            assert!(!hangul(en) && hangul(ko) && !en.ends_with('.'), "{code:?}");
        }
    }
}
