//! The definitions of all top-level settings, with their documentation.

use std::net::SocketAddr;

use doran_offline::OFFLINE_MODEL;
use doran_server::{AllowedOrigin, is_valid_host};

use super::{SettingOrigin, split_comma_list};
use crate::output::{BilingualMessage, bilingual};

/// A setting, with its documentation in both languages.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The key in `doran.toml`.
    pub(crate) key: &'static str,
    /// The environment variable.
    pub(crate) env: &'static str,
    /// The command-line flag, if there is one.
    pub(crate) flag: Option<&'static str>,
    /// The allowed values.
    pub(crate) kind: SettingKind,
    /// The default value.
    pub(crate) default: &'static str,
    /// Whether the value may contain a password.
    pub(crate) secret: bool,
    /// The documentation in English.
    pub(crate) en: &'static str,
    /// The documentation in Korean.
    pub(crate) ko: &'static str,
}

/// The allowed values of a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SettingKind {
    /// Any text that is not empty.
    Text,
    /// An address and a port.
    Address,
    /// `sqlite`, `sqlite:PATH` or a PostgreSQL URL.
    Database,
    /// `none` or the URL of a cluster.
    OpenSearchUrl,
    /// `none` or hosts with or without a port, separated by commas.
    Hosts,
    /// `none` or origins of pages, separated by commas.
    Origins,
    /// A log filter.
    LogFilter,
    /// A whole number within bounds.
    Integer { min: u32, max: u32 },
    /// The name of a model.
    Model,
    /// `off`, `on` or the name of a reranker.
    Reranker,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// What is wrong with a value. Does not contain a value that may be a password.
#[derive(Debug)]
pub(crate) struct InvalidSetting(BilingualMessage);

/// Other names of settings in `doran.toml`, with the key that they mean.
pub(crate) const SETTING_ALIASES: [(&str, &str); 1] = [("opensearch_url", "opensearch")];

/// All settings, in display order.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        key: "data_dir",
        env: "DORAN_DATA_DIR",
        flag: Some("--data-dir"),
        kind: SettingKind::Text,
        default: "auto",
        secret: false,
        en: "The directory for Doran's data: database, documents, search index, API keys. Only one process at a time can use it. `auto` means `$XDG_DATA_HOME/doran`, or `~/.local/share/doran` if that variable is not set.",
        ko: "도란의 데이터(데이터베이스, 문서, 검색 색인, API 키)를 두는 디렉터리입니다. 한 번에 한 프로세스만 사용할 수 있습니다. `auto`는 `$XDG_DATA_HOME/doran`이고, 이 변수가 없으면 `~/.local/share/doran`입니다.",
    },
    Setting {
        key: "database",
        env: "DORAN_DATABASE",
        flag: Some("--database"),
        kind: SettingKind::Database,
        default: "sqlite",
        secret: true,
        en: "The database for threads and runs: `sqlite` (`doran.db` in the data directory), `sqlite:PATH`, or a `postgres://` URL. For TLS to PostgreSQL, add `?sslmode=verify-full`, and `&sslrootcert=FILE` for your own root certificates.",
        ko: "스레드와 실행을 저장하는 데이터베이스입니다: `sqlite`(데이터 디렉터리의 `doran.db`), `sqlite:경로`, `postgres://` URL. PostgreSQL에 TLS로 연결하려면 `?sslmode=verify-full`을 붙이고, 루트 인증서는 `&sslrootcert=파일`로 지정합니다.",
    },
    Setting {
        key: "listen",
        env: "DORAN_LISTEN",
        flag: Some("--listen"),
        kind: SettingKind::Address,
        default: "127.0.0.1:7979",
        secret: false,
        en: "Address and port of the HTTP server. An address that other machines can reach requires API keys (`doran keys new`). List the host names that they use in `allowed_hosts`.",
        ko: "HTTP 서버의 주소와 포트입니다. 다른 컴퓨터가 접속할 수 있는 주소를 쓰려면 API 키(`doran keys new`)가 있어야 합니다. 접속에 쓸 호스트 이름은 `allowed_hosts`에 적습니다.",
    },
    Setting {
        key: "language",
        env: "DORAN_LANGUAGE",
        flag: Some("--lang"),
        kind: SettingKind::OneOf(&["auto", "ko", "en"]),
        default: "auto",
        secret: false,
        en: "Language of Doran's own messages. `auto` follows `LC_ALL`, `LC_MESSAGES` and `LANG`.",
        ko: "도란이 출력하는 메시지의 언어입니다. `auto`는 `LC_ALL`, `LC_MESSAGES`, `LANG`을 따릅니다.",
    },
    Setting {
        key: "log",
        env: "DORAN_LOG",
        flag: Some("--log"),
        kind: SettingKind::LogFilter,
        default: "warn",
        secret: false,
        en: "Log level on stderr: `off`, `error`, `warn`, `info`, `debug` or `trace`, or a filter by module such as `warn,doran_engine=debug`. Unless it is set, `doran ask` and `doran chat` log only errors, and warnings about settings and data.",
        ko: "표준 오류에 출력할 로그 수준입니다: `off`, `error`, `warn`, `info`, `debug`, `trace`. `warn,doran_engine=debug`처럼 모듈별로 지정할 수도 있습니다. 지정하지 않으면 `doran ask`와 `doran chat`은 오류와, 설정과 데이터에 관한 경고만 출력합니다.",
    },
    Setting {
        key: "log_format",
        env: "DORAN_LOG_FORMAT",
        flag: None,
        kind: SettingKind::OneOf(&["text", "json"]),
        default: "text",
        secret: false,
        en: "Log format: `text` for people, `json` for programs (one object per line). With `log = \"info\"`, each request is logged with its id.",
        ko: "로그 형식입니다. `text`는 사람이 읽는 형식이고, `json`은 한 줄에 객체 하나를 출력합니다. `log = \"info\"`이면 요청마다 id와 함께 한 줄을 남깁니다.",
    },
    Setting {
        key: "model",
        env: "DORAN_MODEL",
        flag: Some("--model"),
        kind: SettingKind::Model,
        default: OFFLINE_MODEL,
        secret: false,
        en: "The model that answers: `provider:model`, for example `ollama:qwen3:8b` or `openai:gpt-4.1-mini`, or a name from `[models]`. `offline-extractive-2` is built in. It needs no API key and is not an LLM: it quotes documents. Doran uses an API key from the environment only for models that you choose.",
        ko: "답하는 모델입니다. `ollama:qwen3:8b`나 `openai:gpt-4.1-mini` 같은 `provider:model`, 또는 `[models]`에 적은 이름을 씁니다. `offline-extractive-2`는 내장 모델입니다. API 키가 필요 없으며, LLM이 아니라 문서를 인용합니다. 환경 변수의 API 키는 직접 고른 모델에만 사용합니다.",
    },
    Setting {
        key: "small_model",
        env: "DORAN_SMALL_MODEL",
        flag: None,
        kind: SettingKind::Model,
        default: "auto",
        secret: false,
        en: "The model for short decisions, such as routing a question. `auto` means the small model of the vendor of `model`, if Doran knows one that costs less (`openai:gpt-4.1-nano`, `anthropic:claude-haiku-5-5`, `gemini:gemini-3.1-flash-lite`), and `model` itself otherwise. `same` always means `model`.",
        ko: "질문의 경로 선택 같은 짧은 판단에 쓰는 모델입니다. `auto`는 `model`과 같은 제공자의 더 저렴한 소형 모델(`openai:gpt-4.1-nano`, `anthropic:claude-haiku-5-5`, `gemini:gemini-3.1-flash-lite`)을 쓰고, 아는 모델이 없으면 `model`을 그대로 씁니다. `same`은 언제나 `model`을 씁니다.",
    },
    Setting {
        key: "store",
        env: "DORAN_STORE",
        flag: Some("--store"),
        kind: SettingKind::OneOf(&["local", "faiss", "memory", "opensearch"]),
        default: "local",
        secret: false,
        en: "The search index: `local` (files in the data directory; `faiss` is another name for it), `memory` (keyword search only, rebuilt at every start) or `opensearch` (your own cluster). `local` and `opensearch` also do semantic search, with the `encoder`.",
        ko: "검색 색인을 두는 곳입니다: `local`(데이터 디렉터리의 파일. `faiss`라고 써도 같습니다), `memory`(키워드 검색만 하며 시작할 때마다 새로 만듭니다), `opensearch`(직접 운영하는 클러스터). `local`과 `opensearch`는 `encoder`로 의미 검색도 합니다.",
    },
    Setting {
        key: "index_path",
        env: "DORAN_INDEX_PATH",
        flag: None,
        kind: SettingKind::Text,
        default: "auto",
        secret: false,
        en: "The directory of the index for `store = \"local\"` (or `faiss`). `auto` means `search` in the data directory.",
        ko: "`store = \"local\"`(또는 `faiss`)일 때 색인을 두는 디렉터리입니다. `auto`는 데이터 디렉터리의 `search`입니다.",
    },
    Setting {
        key: "encoder",
        env: "DORAN_ENCODER",
        flag: Some("--encoder"),
        kind: SettingKind::Text,
        default: "built-in",
        secret: false,
        en: "The sentence encoder for semantic search: `built-in` (compiled in, Korean and English), `none` (keyword search only), `use-multilingual` (install it first with `doran models install use-multilingual`), `PROVIDER:MODEL` for a model behind an embeddings endpoint, such as `ollama:bge-m3`, or a directory with the files of an encoder. After a change, the vectors of a local index are computed again in the background; an OpenSearch index is rebuilt with `doran reindex`.",
        ko: "의미 검색에 쓰는 문장 인코더입니다: `built-in`(프로그램에 들어 있으며 한국어와 영어를 지원합니다), `none`(키워드 검색만 합니다), `use-multilingual`(먼저 `doran models install use-multilingual`로 설치합니다), 임베딩 엔드포인트의 모델이면 `ollama:bge-m3`처럼 `PROVIDER:MODEL`, 또는 인코더 파일이 있는 디렉터리. 값을 바꾸면 로컬 색인의 벡터는 백그라운드에서 다시 계산합니다. OpenSearch 색인은 `doran reindex`로 다시 만듭니다.",
    },
    Setting {
        key: "rewrite",
        env: "DORAN_REWRITE",
        flag: None,
        kind: SettingKind::OneOf(&["off", "on"]),
        default: "off",
        secret: false,
        en: "Whether agents ask `small_model` to rephrase a question before they search documents: `off` or `on`. It finds more for everyday questions about formal documents and costs one short model call per question.",
        ko: "에이전트가 문서를 검색하기 전에 `small_model`로 질문을 바꿔 쓸지 정합니다: `off` 또는 `on`. 일상적인 말로 물을 때 격식 있는 문서를 더 잘 찾지만, 질문마다 모델을 짧게 한 번 더 호출합니다.",
    },
    Setting {
        key: "rerank",
        env: "DORAN_RERANK",
        flag: None,
        kind: SettingKind::Reranker,
        default: "off",
        secret: false,
        en: "Whether agents put the best 20 passages of a search in a new order before they take the first ones: `off`, `on` (`small_model` orders them, with one more model call per question), or `PROVIDER:MODEL` for a reranker behind a `/rerank` endpoint, such as `cohere:rerank-v4.0-pro` or `vllm:BAAI/bge-reranker-v2-m3`.",
        ko: "에이전트가 검색에서 가장 잘 맞은 문단 20개의 순서를 다시 정한 뒤 앞의 것을 쓸지 정합니다: `off`, `on`(`small_model`이 순서를 정하며, 질문마다 모델을 한 번 더 호출합니다), 또는 `/rerank` 엔드포인트의 리랭커이면 `cohere:rerank-v4.0-pro`나 `vllm:BAAI/bge-reranker-v2-m3`처럼 `PROVIDER:MODEL`.",
    },
    Setting {
        key: "opensearch",
        env: "DORAN_OPENSEARCH",
        flag: Some("--opensearch"),
        kind: SettingKind::OpenSearchUrl,
        default: "none",
        secret: true,
        en: "Address of the OpenSearch cluster for `store = \"opensearch\"`, such as `https://name:password@host:9200`. A path sets the name of the index (`https://host:9200/team`); the default is `doran`. In `doran.toml` the key may also be `opensearch_url`.",
        ko: "`store = \"opensearch\"`일 때 사용할 OpenSearch 주소입니다. 예: `https://name:password@host:9200`. 경로를 붙이면 색인 이름이 됩니다(`https://host:9200/team`). 기본 이름은 `doran`입니다. `doran.toml`에서는 `opensearch_url`이라는 이름으로도 쓸 수 있습니다.",
    },
    Setting {
        key: "allowed_hosts",
        env: "DORAN_ALLOWED_HOSTS",
        flag: None,
        kind: SettingKind::Hosts,
        default: "none",
        secret: false,
        en: "Host names that other machines use to reach the server, separated by commas, such as `doran.example.com`. Doran rejects requests for any other host. `none` allows this machine only.",
        ko: "다른 컴퓨터가 서버에 접속할 때 쓰는 호스트 이름입니다. `doran.example.com`처럼 적고 쉼표로 구분합니다. 다른 호스트 이름으로 온 요청은 거부합니다. `none`이면 이 컴퓨터에서만 접속할 수 있습니다.",
    },
    Setting {
        key: "allowed_origins",
        env: "DORAN_ALLOWED_ORIGINS",
        flag: None,
        kind: SettingKind::Origins,
        default: "none",
        secret: false,
        en: "Origins of web pages that may call the server from a browser (CORS), separated by commas, such as `https://app.example.com,http://localhost:3000`. `vscode-webview://*` allows every origin of a scheme other than http and https. With API keys, such a page must send one. Without keys, it can do everything that this machine can do. `none` allows only the pages of this server.",
        ko: "브라우저에서 서버를 호출할 수 있는 웹 페이지의 오리진입니다(CORS). `https://app.example.com,http://localhost:3000`처럼 적고 쉼표로 구분합니다. `vscode-webview://*`는 http와 https가 아닌 스킴의 모든 오리진을 허용합니다. API 키가 있으면 그 페이지도 키를 보내야 합니다. 키가 없으면 그 페이지는 이 컴퓨터가 할 수 있는 일을 모두 할 수 있습니다. `none`이면 이 서버의 페이지만 호출할 수 있습니다.",
    },
    Setting {
        key: "max_body_memory_mib",
        env: "DORAN_MAX_BODY_MEMORY_MIB",
        flag: None,
        kind: SettingKind::Integer { min: 16, max: 1_048_576 },
        default: "512",
        secret: false,
        en: "Maximum memory, in MiB, for bodies of HTTP requests and responses, of all clients together. One tenant can use at most half of it. Requests that need more get 503.",
        ko: "모든 클라이언트의 HTTP 요청과 응답 본문에 쓰는 최대 메모리(MiB)입니다. 한 테넌트는 그 절반까지 쓸 수 있습니다. 넘는 요청에는 503으로 답합니다.",
    },
    Setting {
        key: "worker",
        env: "DORAN_WORKER",
        flag: None,
        kind: SettingKind::Text,
        default: "auto",
        secret: false,
        en: "Name of this process in leases and in the run history. Each replica needs a name of its own. `auto` uses the host name and the process id.",
        ko: "리스와 실행 기록에 남는 이 프로세스의 이름입니다. 레플리카마다 달라야 합니다. `auto`는 호스트 이름과 프로세스 ID를 씁니다.",
    },
    Setting {
        key: "lease_seconds",
        env: "DORAN_LEASE_SECONDS",
        flag: None,
        kind: SettingKind::Integer { min: 2, max: 3600 },
        default: "10",
        secret: false,
        en: "Seconds without a sign of life after which another replica takes over the runs of a process.",
        ko: "프로세스가 응답하지 않을 때 다른 레플리카가 그 실행을 인계받기까지의 시간(초)입니다.",
    },
    Setting {
        key: "max_steps",
        env: "DORAN_MAX_STEPS",
        flag: None,
        kind: SettingKind::Integer { min: 1, max: 1_000_000 },
        default: "100",
        secret: false,
        en: "Maximum number of steps of one run. A run that needs more fails with an error.",
        ko: "한 실행이 거칠 수 있는 최대 단계 수입니다. 넘으면 실행이 오류로 끝납니다.",
    },
    Setting {
        key: "run_timeout_seconds",
        env: "DORAN_RUN_TIMEOUT_SECONDS",
        flag: None,
        kind: SettingKind::Integer { min: 1, max: 604_800 },
        default: "600",
        secret: false,
        en: "Maximum number of seconds one run may work. Time spent waiting for a person does not count.",
        ko: "한 실행이 작업할 수 있는 최대 시간(초)입니다. 사람의 응답을 기다리는 시간은 세지 않습니다.",
    },
    Setting {
        key: "max_run_tokens",
        env: "DORAN_MAX_RUN_TOKENS",
        flag: None,
        kind: SettingKind::Integer { min: 0, max: u32::MAX },
        default: "0",
        secret: false,
        en: "Maximum number of tokens, input and output together, that the models of one run may use. A run that exceeds the limit fails with an error. `0` means no limit.",
        ko: "한 실행의 모델이 사용할 수 있는 최대 토큰 수입니다. 입력과 출력을 합쳐서 셉니다. 넘으면 실행이 오류로 끝납니다. `0`이면 제한이 없습니다.",
    },
    Setting {
        key: "max_run_cost_cents",
        env: "DORAN_MAX_RUN_COST_CENTS",
        flag: None,
        kind: SettingKind::Integer { min: 0, max: 1_000_000 },
        default: "0",
        secret: false,
        en: "Maximum cost of the models of one run, in US cents. A run that exceeds the limit fails with an error. Every model must then have a price, built in or in `[prices]`. `0` means no limit.",
        ko: "한 실행의 모델 비용 한도(미국 센트)입니다. 넘으면 실행이 오류로 끝납니다. 한도를 두려면 모든 모델의 가격이 내장되어 있거나 `[prices]`에 있어야 합니다. `0`이면 제한이 없습니다.",
    },
    Setting {
        key: "monthly_budget_cents",
        env: "DORAN_MONTHLY_BUDGET_CENTS",
        flag: None,
        kind: SettingKind::Integer { min: 0, max: 100_000_000 },
        default: "0",
        secret: false,
        en: "Maximum cost of the runs and evaluations of one tenant in a calendar month (UTC), in US cents. What deleted runs cost stays counted. When nothing is left, no run begins or goes on, also none that waited in a queue; a run under way can still finish what costs nothing. What is left is looked at before each step, so runs that work at the same time can each go over the budget by the model calls of one step. A call that was under way when the server was killed is not counted. Every model must then have a price, built in or in `[prices]`. `0` means no limit.",
        ko: "한 테넌트의 실행과 평가가 한 달(UTC) 동안 쓸 수 있는 비용 한도(미국 센트)입니다. 삭제한 실행의 비용도 그대로 셉니다. 남은 것이 없으면 대기열에 있던 것을 포함해 어떤 실행도 시작하거나 이어 가지 않고, 진행 중인 실행은 비용이 들지 않는 일만 마칠 수 있습니다. 남은 금액은 단계마다 확인하므로, 동시에 진행하는 실행은 저마다 한 단계의 모델 호출만큼 예산을 넘길 수 있습니다. 서버가 강제로 종료될 때 진행 중이던 호출은 세지 않습니다. 한도를 두려면 모든 모델의 가격이 내장되어 있거나 `[prices]`에 있어야 합니다. `0`이면 제한이 없습니다.",
    },
    Setting {
        key: "krw_per_usd",
        env: "DORAN_KRW_PER_USD",
        flag: None,
        kind: SettingKind::Integer { min: 0, max: 100_000 },
        default: "0",
        secret: false,
        en: "Won for a US dollar. With a rate, the page shows costs in won as well. Doran does not look it up. `0` means that costs are shown in dollars only.",
        ko: "1달러의 원화 환율입니다. 정하면 웹 화면이 비용을 원화로도 표시합니다. 환율을 인터넷에서 찾지 않습니다. `0`이면 달러로만 표시합니다.",
    },
    Setting {
        key: "retention_days",
        env: "DORAN_RETENTION_DAYS",
        flag: None,
        kind: SettingKind::Integer { min: 0, max: 36_500 },
        default: "0",
        secret: false,
        en: "Days after which Doran removes steps that the newest state of a thread does not need. `0` keeps all steps. Short threads and the newest steps of long threads are kept; see `conversation_days`.",
        ko: "스레드의 최신 상태에 필요하지 않은 단계를 삭제하기까지의 일수입니다. `0`이면 모든 단계를 보관합니다. 짧은 스레드와 긴 스레드의 최근 단계는 삭제하지 않습니다. `conversation_days`도 참고하세요.",
    },
    Setting {
        key: "conversation_days",
        env: "DORAN_CONVERSATION_DAYS",
        flag: None,
        kind: SettingKind::Integer { min: 0, max: 36_500 },
        default: "0",
        secret: false,
        en: "Days without activity after which Doran removes a thread with all its runs. `0` keeps threads forever.",
        ko: "활동이 없는 스레드를 모든 실행과 함께 삭제하기까지의 일수입니다. `0`이면 삭제하지 않습니다.",
    },
];

impl Setting {
    /// Checks a value.
    pub(crate) fn validate(&self, text: &str) -> Result<(), InvalidSetting> {
        let fits = match self.kind {
            // Whether the model exists is checked after the tables are read.
            SettingKind::Text | SettingKind::Model | SettingKind::Reranker => !text.trim().is_empty(),
            SettingKind::Address => text.parse::<SocketAddr>().is_ok(),
            SettingKind::Database => {
                let path = text.strip_prefix("sqlite:");
                let server = ["postgres://", "postgresql://"].iter().any(|start| text.starts_with(start));
                text == "sqlite"
                    || server
                    || path.is_some_and(|path| !path.is_empty() && !path.starts_with("//"))
            }
            SettingKind::OpenSearchUrl => {
                let rest = ["http://", "https://"].iter().find_map(|start| text.strip_prefix(start));
                text == "none" || rest.is_some_and(|rest| !rest.trim_matches('/').is_empty())
            }
            SettingKind::Hosts => {
                let hosts = split_comma_list(text);
                if let Some(wrong) = hosts.iter().find(|host| !is_valid_host(host)) {
                    let BilingualMessage { ko, en, .. } = self.kind.expected_description();
                    return Err(InvalidSetting(bilingual!(
                        "{ko}. `{wrong}`은(는) 맞지 않습니다",
                        "{en}; `{wrong}` is not one"
                    )));
                }
                !text.trim().is_empty()
            }
            SettingKind::Origins => {
                !text.trim().is_empty()
                    && split_comma_list(text).iter().all(|origin| AllowedOrigin::parse(origin).is_ok())
            }
            SettingKind::LogFilter => text.parse::<tracing_subscriber::filter::Targets>().is_ok(),
            SettingKind::Integer { min, max } => {
                text.parse().is_ok_and(|number| (min..=max).contains(&number))
            }
            SettingKind::OneOf(words) => words.contains(&text),
        };
        if fits { Ok(()) } else { Err(InvalidSetting(self.kind.expected_description())) }
    }
}

impl SettingKind {
    /// Describes the allowed values.
    pub(crate) fn expected_description(self) -> BilingualMessage {
        match self {
            Self::Text => bilingual!("비어 있지 않은 문자열", "text that is not empty"),
            Self::Address => {
                bilingual!(
                    "`127.0.0.1:7979` 같은 주소와 포트",
                    "an address and port such as `127.0.0.1:7979`"
                )
            }
            Self::Database => bilingual!(
                "`sqlite`, `sqlite:경로`, `postgres://…` 가운데 하나",
                "one of `sqlite`, `sqlite:PATH`, `postgres://…`"
            ),
            Self::OpenSearchUrl => bilingual!(
                "`none`이나 `https://host:9200` 같은 주소",
                "`none` or an address such as `https://host:9200`"
            ),
            Self::Hosts => bilingual!(
                "`none`이나 `doran.example.com,192.168.0.5:7979` 같은 호스트 이름과 IP 주소 목록(포트는 붙여도 됨)",
                "`none` or host names and IP addresses such as `doran.example.com,192.168.0.5:7979`, with or without a port"
            ),
            Self::Origins => bilingual!(
                "`none`이나 `https://app.example.com,http://localhost:3000` 같은 오리진 목록",
                "`none` or origins such as `https://app.example.com,http://localhost:3000`"
            ),
            Self::LogFilter => bilingual!(
                "`warn`이나 `warn,doran_engine=debug` 같은 로그 필터",
                "a log filter such as `warn` or `warn,doran_engine=debug`"
            ),
            Self::Integer { min, max } => {
                bilingual!("{min}부터 {max}까지의 정수", "a whole number from {min} to {max}")
            }
            Self::Model => bilingual!(
                "`offline-extractive-2`, `ollama:qwen3:8b` 같은 `provider:model`, `[models]`의 이름 가운데 하나",
                "one of `offline-extractive-2`, `provider:model` such as `ollama:qwen3:8b`, a name of `[models]`"
            ),
            Self::Reranker => bilingual!(
                "`off`, `on`, `cohere:rerank-v4.0-pro` 같은 `provider:model`, `[models]`의 이름 가운데 하나",
                "one of `off`, `on`, `provider:model` such as `cohere:rerank-v4.0-pro`, a name of `[models]`"
            ),
            Self::OneOf(words) => {
                let words = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
                bilingual!("다음 가운데 하나: {words}", "one of {words}")
            }
        }
    }

    /// Whether `doran.toml` has it as a number.
    pub(crate) fn is_number(self) -> bool {
        match self {
            Self::Integer { .. } => true,
            Self::Text
            | Self::Address
            | Self::Database
            | Self::OpenSearchUrl
            | Self::Hosts
            | Self::Origins
            | Self::LogFilter
            | Self::Model
            | Self::Reranker
            | Self::OneOf(_) => false,
        }
    }
}

/// The error for an unknown model. Model names are not secret, so the message contains the name.
pub(super) fn unknown_model_error(key: &str, name: &str, origin: &SettingOrigin) -> BilingualMessage {
    let from = origin.description();
    let (ko_from, en_from) = (from.ko, from.en);
    let BilingualMessage { ko, en, .. } = SettingKind::Model.expected_description();
    let why = name.parse::<doran_llm::ModelId>().err().map(|error| error.to_string()).unwrap_or_default();
    bilingual!(
        "`{key}`의 값이 맞지 않습니다 ({ko_from}). 필요한 것: {ko}. `doran models`가 쓸 수 있는 모델을 보여 줍니다: {why}",
        "the value of `{key}` ({en_from}) does not fit; it must be {en}. `doran models` lists what can be used: {why}"
    )
}

/// The error for a reranker that does not exist.
pub(super) fn unknown_reranker_error(name: &str, why: &str, origin: &SettingOrigin) -> BilingualMessage {
    let from = origin.description();
    let (ko_from, en_from) = (from.ko, from.en);
    let BilingualMessage { ko, en, .. } = SettingKind::Reranker.expected_description();
    bilingual!(
        "`rerank`의 값 `{name}`이(가) 맞지 않습니다 ({ko_from}). 필요한 것: {ko}: {why}",
        "the value `{name}` of `rerank` ({en_from}) does not fit; it must be {en}: {why}"
    )
}

impl InvalidSetting {
    /// The error for a value from this origin.
    pub(crate) fn message_with_origin(self, setting: &Setting, origin: &SettingOrigin) -> BilingualMessage {
        let key = setting.key;
        let from = origin.description();
        let (ko_from, en_from) = (from.ko, from.en);
        let BilingualMessage { ko, en, .. } = self.0;
        bilingual!(
            "`{key}`의 값이 맞지 않습니다 ({ko_from}). 필요한 것: {ko}",
            "the value of `{key}` ({en_from}) does not fit; it must be {en}"
        )
    }

    /// The error for a value on a line of the settings file.
    pub(super) fn message_with_line(self, setting: &Setting, path: &str, line: usize) -> BilingualMessage {
        let key = setting.key;
        let BilingualMessage { ko, en, .. } = self.0;
        bilingual!(
            "{path} {line}번째 줄: `{key}`의 값이 맞지 않습니다. 필요한 것: {ko}",
            "{path} line {line}: the value of `{key}` does not fit; it must be {en}"
        )
    }
}
