//! Every setting there is, with what it is for.

use std::net::SocketAddr;

use doran_offline::OFFLINE_MODEL;

use super::SettingOrigin;
use crate::output::{BilingualMessage, bilingual};

/// A setting. Its documentation, in both languages, is part of it.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Its name in `doran.toml`.
    pub(crate) key: &'static str,
    /// Its name in the environment.
    pub(crate) env: &'static str,
    /// Its name on the command line, if it has one.
    pub(crate) flag: Option<&'static str>,
    /// What may stand there.
    pub(crate) kind: SettingKind,
    /// The value when nobody sets it.
    pub(crate) default: &'static str,
    /// Whether the value may hold a password.
    pub(crate) secret: bool,
    /// What it is for.
    pub(crate) en: &'static str,
    /// The same in Korean.
    pub(crate) ko: &'static str,
}

/// What may stand in a setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SettingKind {
    /// Any text that is not empty.
    Text,
    /// An address and a port.
    Address,
    /// `sqlite`, `sqlite:PATH` or a PostgreSQL URL.
    Database,
    /// `none` or the address of a cluster.
    OpenSearchUrl,
    /// A filter of log lines.
    LogFilter,
    /// A whole number within bounds.
    Integer { min: u32, max: u32 },
    /// The name of a model.
    Model,
    /// One of a few words.
    OneOf(&'static [&'static str]),
}

/// What is wrong with a value, without the value: it may hold a password.
#[derive(Debug)]
pub(crate) struct InvalidSetting(BilingualMessage);

/// All settings, in the order they are shown.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        key: "data_dir",
        env: "DORAN_DATA_DIR",
        flag: Some("--data-dir"),
        kind: SettingKind::Text,
        default: "auto",
        secret: false,
        en: "Directory that holds the database and the lock; one process at a time uses it. `auto` is `$XDG_DATA_HOME/doran`, else `~/.local/share/doran`.",
        ko: "데이터베이스와 잠금 파일을 두는 디렉터리. 한 번에 한 프로세스만 쓴다. `auto`는 `$XDG_DATA_HOME/doran`, 없으면 `~/.local/share/doran`.",
    },
    Setting {
        key: "database",
        env: "DORAN_DATABASE",
        flag: Some("--database"),
        kind: SettingKind::Database,
        default: "sqlite",
        secret: true,
        en: "Where threads and runs are kept: `sqlite` (`doran.db` in the data directory), `sqlite:PATH`, or a `postgres://` URL (`?sslmode=verify-full` for TLS, `&sslrootcert=FILE` with roots of your own).",
        ko: "대화와 실행 기록을 두는 곳: `sqlite`(데이터 디렉터리의 `doran.db`), `sqlite:경로`, 또는 `postgres://` URL(`?sslmode=verify-full`이면 TLS, `&sslrootcert=파일`로 루트 인증서 지정).",
    },
    Setting {
        key: "listen",
        env: "DORAN_LISTEN",
        flag: Some("--listen"),
        kind: SettingKind::Address,
        default: "127.0.0.1:7979",
        secret: false,
        en: "Address and port of the HTTP server. One that other machines can reach is taken only when there are keys (`doran keys new`); `allowed_hosts` names it.",
        ko: "HTTP 서버의 주소와 포트. 다른 컴퓨터가 닿을 수 있는 주소는 키(`doran keys new`)가 있을 때만 받는다. 그 이름은 `allowed_hosts`에 적는다.",
    },
    Setting {
        key: "language",
        env: "DORAN_LANGUAGE",
        flag: Some("--lang"),
        kind: SettingKind::OneOf(&["auto", "ko", "en"]),
        default: "auto",
        secret: false,
        en: "Language of the program's own sentences. `auto` follows `LC_ALL`, `LC_MESSAGES`, `LANG`.",
        ko: "프로그램이 하는 말의 언어. `auto`는 `LC_ALL`, `LC_MESSAGES`, `LANG`을 따른다.",
    },
    Setting {
        key: "log",
        env: "DORAN_LOG",
        flag: Some("--log"),
        kind: SettingKind::LogFilter,
        default: "warn",
        secret: false,
        en: "Log lines shown on stderr: `off`, `error`, `warn`, `info`, `debug`, `trace`, or by module as in `warn,doran_engine=debug`.",
        ko: "표준 오류에 보일 로그: `off`, `error`, `warn`, `info`, `debug`, `trace`, 또는 `warn,doran_engine=debug`처럼 모듈마다.",
    },
    Setting {
        key: "log_format",
        env: "DORAN_LOG_FORMAT",
        flag: None,
        kind: SettingKind::OneOf(&["text", "json"]),
        default: "text",
        secret: false,
        en: "How log lines are written: `text` for people, `json` for programs, one object a line. With `log = \"info\"` every request is a line, with its id.",
        ko: "로그를 적는 꼴: `text`는 사람이 읽는 글, `json`은 프로그램이 읽는 한 줄에 객체 하나. `log = \"info\"`이면 요청마다 한 줄씩 그 id와 함께 적는다.",
    },
    Setting {
        key: "model",
        env: "DORAN_MODEL",
        flag: Some("--model"),
        kind: SettingKind::Model,
        default: OFFLINE_MODEL,
        secret: false,
        en: "Model that answers: `provider:model` such as `ollama:qwen3:8b` or `openai:gpt-4.1-mini`, or a name of `[models]`. `offline-extractive-1` is built in, needs no key and is not an LLM: it quotes documents. A key in the environment is used only for the model chosen here.",
        ko: "답하는 모델: `ollama:qwen3:8b`나 `openai:gpt-4.1-mini` 같은 `provider:model`, 또는 `[models]`의 이름. `offline-extractive-1`은 내장되어 있고 키가 필요 없으며, LLM이 아니라 문서를 인용한다. 환경 변수의 키는 여기에서 고른 모델에만 쓴다.",
    },
    Setting {
        key: "small_model",
        env: "DORAN_SMALL_MODEL",
        flag: None,
        kind: SettingKind::Model,
        default: "same",
        secret: false,
        en: "Model for quick decisions, such as where a question goes. `same` is the one that answers.",
        ko: "질문을 어디로 보낼지 같은 빠른 판단을 하는 모델. `same`은 답하는 모델과 같은 것.",
    },
    Setting {
        key: "store",
        env: "DORAN_STORE",
        flag: Some("--store"),
        kind: SettingKind::OneOf(&["local", "faiss", "memory", "opensearch"]),
        default: "local",
        secret: false,
        en: "Where documents are searched: `local` (files in the data directory, by words and, with an `encoder`, by meaning; `faiss` is another name for it), `memory` (by words, made anew at every start), `opensearch` (a cluster).",
        ko: "문서를 찾는 곳: `local`(데이터 디렉터리의 파일. 낱말로, `encoder`가 있으면 뜻으로도 찾는다. `faiss`는 같은 것의 다른 이름), `memory`(낱말로만. 시작할 때마다 새로 만든다), `opensearch`(클러스터).",
    },
    Setting {
        key: "encoder",
        env: "DORAN_ENCODER",
        flag: Some("--encoder"),
        kind: SettingKind::Text,
        default: "none",
        secret: false,
        en: "Sentence encoder that finds by meaning beside words: `none`, `use-multilingual` (once `doran models install use-multilingual` has put it into the data directory), or the folder of its files. An index remembers its encoder; after a change, `doran reindex` makes it anew.",
        ko: "낱말에 더해 뜻으로 찾게 하는 문장 인코더: `none`, `use-multilingual`(`doran models install use-multilingual`로 데이터 디렉터리에 넣은 뒤), 또는 그 파일이 있는 폴더. 색인은 자기 인코더를 기억한다. 바꾼 뒤에는 `doran reindex`로 다시 만든다.",
    },
    Setting {
        key: "rewrite",
        env: "DORAN_REWRITE",
        flag: None,
        kind: SettingKind::OneOf(&["off", "on"]),
        default: "off",
        secret: false,
        en: "Whether agents have `small_model` put a question in other words before they look documents up: `off` or `on`. It finds everyday questions in formal documents more often, and costs one short call of the model a question.",
        ko: "에이전트가 문서를 찾기 전에 `small_model`로 질문을 다른 말로도 바꿔 볼지: `off` 또는 `on`. 일상의 말로 물어도 격식 있는 문서를 더 잘 찾지만, 질문마다 모델을 짧게 한 번 더 부른다.",
    },
    Setting {
        key: "opensearch",
        env: "DORAN_OPENSEARCH",
        flag: Some("--opensearch"),
        kind: SettingKind::OpenSearchUrl,
        default: "none",
        secret: true,
        en: "Address of OpenSearch for `store = \"opensearch\"`, such as `https://name:password@host:9200`. A path names the index (`https://host:9200/team`), else it is `doran`.",
        ko: "`store = \"opensearch\"`일 때 OpenSearch의 주소. 보기: `https://name:password@host:9200`. 경로는 색인의 이름이며(`https://host:9200/team`) 없으면 `doran`이다.",
    },
    Setting {
        key: "allowed_hosts",
        env: "DORAN_ALLOWED_HOSTS",
        flag: None,
        kind: SettingKind::Text,
        default: "none",
        secret: false,
        en: "Names by which other machines reach the HTTP server, with commas between, such as `doran.example.com`. Requests to any other name are refused; `none` leaves only this machine.",
        ko: "다른 컴퓨터가 HTTP 서버에 닿을 때 쓰는 이름. `doran.example.com`처럼 적고 쉼표로 나눈다. 다른 이름으로 온 요청은 거절한다. `none`이면 이 컴퓨터만 쓴다.",
    },
    Setting {
        key: "worker",
        env: "DORAN_WORKER",
        flag: None,
        kind: SettingKind::Text,
        default: "auto",
        secret: false,
        en: "Name of this process in leases and run history; must differ between replicas. `auto` is host name and process number.",
        ko: "임대와 실행 기록에 남는 이 프로세스의 이름. 복제본마다 달라야 한다. `auto`는 호스트 이름과 프로세스 번호.",
    },
    Setting {
        key: "lease_seconds",
        env: "DORAN_LEASE_SECONDS",
        flag: None,
        kind: SettingKind::Integer { min: 2, max: 3600 },
        default: "10",
        secret: false,
        en: "Seconds after which another replica may take over the runs of a process that fell silent.",
        ko: "응답이 끊긴 프로세스의 실행을 다른 복제본이 이어받기까지의 초.",
    },
    Setting {
        key: "max_steps",
        env: "DORAN_MAX_STEPS",
        flag: None,
        kind: SettingKind::Integer { min: 1, max: 1_000_000 },
        default: "100",
        secret: false,
        en: "Most steps one run may take; a run that needs more is stopped with an error.",
        ko: "한 실행이 밟을 수 있는 단계의 최대 수. 넘으면 오류로 멈춘다.",
    },
    Setting {
        key: "run_timeout_seconds",
        env: "DORAN_RUN_TIMEOUT_SECONDS",
        flag: None,
        kind: SettingKind::Integer { min: 1, max: 604_800 },
        default: "600",
        secret: false,
        en: "Most seconds one run may work; waiting for a person does not count.",
        ko: "한 실행이 일할 수 있는 최대 초. 사람을 기다리는 시간은 세지 않는다.",
    },
    Setting {
        key: "max_run_tokens",
        env: "DORAN_MAX_RUN_TOKENS",
        flag: None,
        kind: SettingKind::Integer { min: 0, max: u32::MAX },
        default: "0",
        secret: false,
        en: "Most tokens the models of one run may read and write together; a run that goes past it is stopped with an error. `0` sets no limit.",
        ko: "한 실행에서 모델이 읽고 쓰는 토큰을 합친 최대 수. 넘으면 오류로 멈춘다. `0`이면 제한이 없다.",
    },
    Setting {
        key: "max_run_cost_cents",
        env: "DORAN_MAX_RUN_COST_CENTS",
        flag: None,
        kind: SettingKind::Integer { min: 0, max: 1_000_000 },
        default: "0",
        secret: false,
        en: "Most US cents the models of one run may cost; a run that goes past it is stopped with an error. Every model must then have a price: built in, or in `[prices]`. `0` sets no limit.",
        ko: "한 실행에서 모델에 쓸 수 있는 최대 비용(미국 센트). 넘으면 오류로 멈춘다. 그러려면 모든 모델의 가격을 알아야 한다: 내장된 것이거나 `[prices]`에 적은 것. `0`이면 제한이 없다.",
    },
    Setting {
        key: "retention_days",
        env: "DORAN_RETENTION_DAYS",
        flag: None,
        kind: SettingKind::Integer { min: 0, max: 36_500 },
        default: "0",
        secret: false,
        en: "Days after which steps that the newest state of their conversation does not need are removed; `0` keeps them for ever. Short conversations, and the newest steps of long ones, stay whole: see `conversation_days`.",
        ko: "대화의 지금 상태에 필요 없는 단계를 지우는 날수. `0`이면 지우지 않는다. 짧은 대화와 긴 대화의 최근 단계는 그대로 남는다: `conversation_days`를 보라.",
    },
    Setting {
        key: "conversation_days",
        env: "DORAN_CONVERSATION_DAYS",
        flag: None,
        kind: SettingKind::Integer { min: 0, max: 36_500 },
        default: "0",
        secret: false,
        en: "Days after which a conversation in which nothing happens any more is removed, with all its runs; `0` keeps conversations for ever.",
        ko: "더는 아무 일도 없는 대화를 그 실행과 함께 모두 지우는 날수. `0`이면 대화를 지우지 않는다.",
    },
];

impl Setting {
    /// Whether the text may stand here.
    pub(crate) fn validate(&self, text: &str) -> Result<(), InvalidSetting> {
        let fits = match self.kind {
            // Whether there is such a model is known once the tables are.
            SettingKind::Text | SettingKind::Model => !text.trim().is_empty(),
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
            SettingKind::LogFilter => text.parse::<tracing_subscriber::filter::Targets>().is_ok(),
            SettingKind::Integer { min: least, max: most } => {
                text.parse().is_ok_and(|number| (least..=most).contains(&number))
            }
            SettingKind::OneOf(words) => words.contains(&text),
        };
        if fits { Ok(()) } else { Err(InvalidSetting(self.kind.expected_description())) }
    }
}

impl SettingKind {
    /// What should stand there.
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
            Self::LogFilter => bilingual!(
                "`warn`이나 `warn,doran_engine=debug` 같은 로그 필터",
                "a log filter such as `warn` or `warn,doran_engine=debug`"
            ),
            Self::Integer { min: least, max: most } => {
                bilingual!("{least}부터 {most}까지의 정수", "a whole number from {least} to {most}")
            }
            Self::Model => bilingual!(
                "`offline-extractive-1`, `ollama:qwen3:8b` 같은 `provider:model`, `[models]`의 이름 가운데 하나",
                "one of `offline-extractive-1`, `provider:model` such as `ollama:qwen3:8b`, a name of `[models]`"
            ),
            Self::OneOf(words) => {
                let words = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
                bilingual!("다음 가운데 하나: {words}", "one of {words}")
            }
        }
    }

    /// Whether `doran.toml` writes it as a number.
    pub(crate) fn is_number(self) -> bool {
        match self {
            Self::Integer { .. } => true,
            Self::Text
            | Self::Address
            | Self::Database
            | Self::OpenSearchUrl
            | Self::LogFilter
            | Self::Model
            | Self::OneOf(_) => false,
        }
    }
}

/// The sentence for a model that there is not. Names of models are no secrets, and what is wrong with them helps.
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

impl InvalidSetting {
    /// The sentence for a value that came from here.
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

    /// The sentence for a value on a line of the settings file.
    pub(super) fn message_with_line(self, setting: &Setting, path: &str, line: usize) -> BilingualMessage {
        let key = setting.key;
        let BilingualMessage { ko, en, .. } = self.0;
        bilingual!(
            "{path} {line}번째 줄: `{key}`의 값이 맞지 않습니다. 필요한 것: {ko}",
            "{path} line {line}: the value of `{key}` does not fit; it must be {en}"
        )
    }
}
