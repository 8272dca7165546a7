//! Models behind HTTP: parses model ids and opens models.

mod anthropic;
mod conversation_repair;
mod dialect;
mod gemini;
mod openai;
mod quoted_material;
mod remote_model;
mod rerank;
mod responses;
mod server_discovery;
mod vendors;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use self::dialect::Dialect;
pub use self::openai::HttpEmbedder;
pub use self::quoted_material::set_mark_key;
use self::remote_model::RemoteModel;
pub use self::rerank::open_reranker;
pub use self::server_discovery::{DiscoveredServer, discover_local_servers, discover_server_at, list_models};
use self::vendors::KeyHeader;
pub use self::vendors::{
    DialectKind, KeyRequirement, ModelLocation, RERANK_ONLY_VENDORS, VENDORS, Vendor, find_rerank_vendor,
    find_vendor, small_model_for,
};
use crate::error::ModelError;
use crate::http::{
    ModelApiKey, ModelHttpClient, ModelResponseLimits, ModelTimeouts, is_loopback, parse_server_url,
};
use crate::model::{ChatModel, ModelInfo, ModelKind};

/// The id of a model: `provider:model`, as in `openai:gpt-4.1-mini` or `ollama:qwen3:8b`.
///
/// `openai-compatible:https://host/v1#model` contains the URL of the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelId {
    /// The vendor's id.
    pub provider: String,
    /// The vendor's name of the model.
    pub model: String,
    /// The URL, if the id contains one.
    pub base_url: Option<String>,
}

/// Why a text is not a model id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelIdError {
    /// It has no colon, or one side of it is empty.
    #[error("`{0}` is not `provider:model`, as in `openai:gpt-4.1-mini`")]
    Shape(String),
    /// The vendor is not known.
    #[error(
        "there is no provider `{0}`; a server that speaks OpenAI's dialect is `openai-compatible:URL#model`"
    )]
    Provider(String),
    /// The vendor does not rerank, or is not known.
    #[error(
        "`{provider}` does not rerank; these do: `{known}`; any server with `/rerank` is `openai-compatible:URL#model`"
    )]
    NoReranker {
        /// What was named.
        provider: String,
        /// Those that rerank.
        known: String,
    },
}

impl FromStr for ModelId {
    type Err = ModelIdError;

    fn from_str(text: &str) -> Result<Self, ModelIdError> {
        Self::parse_with(text, |provider| match find_vendor(provider) {
            Some(_) => Ok(()),
            None => Err(ModelIdError::Provider(provider.to_owned())),
        })
    }
}

impl ModelId {
    fn parse_with(
        text: &str,
        check_provider: impl Fn(&str) -> Result<(), ModelIdError>,
    ) -> Result<Self, ModelIdError> {
        let shape = || ModelIdError::Shape(text.to_owned());
        let (provider, rest) = text.trim().split_once(':').ok_or_else(shape)?;
        check_provider(provider)?;
        let (base_url, model) = match rest.split_once('#') {
            Some((url, model)) if url.starts_with("http") => (Some(url.to_owned()), model),
            _ => (None, rest),
        };
        if model.is_empty() || model.starts_with("http://") || model.starts_with("https://") {
            return Err(shape());
        }
        Ok(Self { provider: provider.to_owned(), model: model.to_owned(), base_url })
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.base_url {
            Some(url) => write!(f, "{}:{url}#{}", self.provider, self.model),
            None => write!(f, "{}:{}", self.provider, self.model),
        }
    }
}

/// The configuration of a model. Everything but the id has a default.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// The model id.
    pub id: ModelId,
    /// A URL other than the vendor's own. Azure and `openai-compatible` have no default URL.
    pub base_url: Option<String>,
    /// The timeouts; `None` means the defaults of the vendor.
    pub timeouts: Option<ModelTimeouts>,
    /// The size limits of a response.
    pub limits: ModelResponseLimits,
    /// Whether answers are streamed. Some servers lose tool calls in streams.
    pub streaming: StreamingMode,
    /// Fields that are added to every request, for vendor options that this program does not know.
    pub extra: Map<String, Value>,
    /// Root certificates in PEM besides those of the system, for a proxy that inspects TLS.
    pub certificates: Vec<Vec<u8>>,
}

/// Whether answers are streamed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamingMode {
    /// Answers arrive as a stream.
    #[default]
    Streamed,
    /// Answers arrive as one document.
    Whole,
}

impl ModelConfig {
    /// Creates a configuration with the defaults of the vendor.
    pub fn new(id: ModelId) -> Self {
        Self {
            id,
            base_url: None,
            timeouts: None,
            limits: ModelResponseLimits::default(),
            streaming: StreamingMode::default(),
            extra: Map::new(),
            certificates: Vec::new(),
        }
    }
}

/// Why a model cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenModelError {
    /// The provider is not known.
    #[error(transparent)]
    Id(#[from] ModelIdError),
    /// The vendor needs a key and none was given.
    #[error("`{provider}` needs a key; set `{variable}`")]
    NoKey {
        /// The vendor.
        provider: String,
        /// The environment variable that usually contains it.
        variable: &'static str,
    },
    /// The vendor has no default URL, and none was given.
    #[error("`{provider}` has no address of its own; set `base_url`")]
    NoAddress {
        /// The vendor.
        provider: String,
    },
    /// Another setting is not valid.
    #[error(transparent)]
    Setting(#[from] ModelError),
}

impl OpenModelError {
    /// Returns what a person can do about it, in Korean and in English.
    pub fn advice(&self) -> (String, String) {
        match self {
            Self::Id(_) => (
                "모델 이름은 `provider:model` 꼴입니다. 예: `openai:gpt-4.1-mini`, `ollama:qwen3:8b`".into(),
                "A model's name is `provider:model`, such as `openai:gpt-4.1-mini` or `ollama:qwen3:8b`"
                    .into(),
            ),
            Self::NoKey { provider, variable } => (
                format!("`{provider}`에는 API 키가 필요합니다. 환경 변수 `{variable}`에 키를 넣으세요."),
                format!("`{provider}` needs an API key. Put it into the environment variable `{variable}`."),
            ),
            Self::NoAddress { provider } => (
                format!("`{provider}`는 서버 주소를 알려 주어야 합니다. 설정의 `base_url`에 적으세요."),
                format!(
                    "`{provider}` needs the address of its server. Write it into `base_url` in the settings."
                ),
            ),
            Self::Setting(error) => {
                let advice = error.advice();
                (advice.ko.into(), advice.en.into())
            }
        }
    }
}

/// Opens a model. No request is sent yet, so a wrong key is reported by the first request. Each stream is one request:
/// whether a failed one is sent again is decided by the caller, with a [`ModelRetryPolicy`](crate::ModelRetryPolicy).
pub fn open_model(config: &ModelConfig, secret: ModelApiKey) -> Result<Arc<dyn ChatModel>, OpenModelError> {
    let reached = ResolvedProvider::resolve(config, secret)?;
    let http = reached.http_client(config)?;
    let dialect = reached.dialect(config);
    let about = ModelInfo { unsupported_settings: dialect.unsupported_settings(), ..reached.about(config) };
    Ok(Arc::new(RemoteModel { about, http, dialect }))
}

/// A vendor with its URL and key.
struct ResolvedProvider {
    vendor: &'static Vendor,
    base_url: String,
    secret: ModelApiKey,
}

impl ResolvedProvider {
    fn resolve(config: &ModelConfig, secret: ModelApiKey) -> Result<Self, OpenModelError> {
        let provider = &config.id.provider;
        let vendor = find_vendor(provider).ok_or_else(|| ModelIdError::Provider(provider.clone()))?;
        Self::resolve_vendor(vendor, config, secret)
    }

    fn resolve_vendor(
        vendor: &'static Vendor,
        config: &ModelConfig,
        secret: ModelApiKey,
    ) -> Result<Self, OpenModelError> {
        let provider = &config.id.provider;
        let given = config.base_url.as_deref().or(config.id.base_url.as_deref());
        let base_url = given.unwrap_or(vendor.base_url).trim_end_matches('/');
        let base_url = base_url.strip_suffix("/chat/completions").unwrap_or(base_url).to_owned();
        if base_url.is_empty() {
            return Err(OpenModelError::NoAddress { provider: provider.clone() });
        }
        if vendor.key_requirement == KeyRequirement::Required && secret.is_empty() {
            return Err(OpenModelError::NoKey { provider: provider.clone(), variable: vendor.key_variable });
        }
        Ok(Self { vendor, base_url, secret })
    }

    fn http_client(&self, config: &ModelConfig) -> Result<ModelHttpClient, ModelError> {
        let mut headers = Vec::new();
        if !self.secret.is_empty() {
            headers.push(match self.vendor.quirks.key_header {
                KeyHeader::Bearer => ("authorization", format!("Bearer {}", self.secret.reveal())),
                KeyHeader::Named(name) => (name, self.secret.reveal().to_owned()),
            });
        }
        if self.vendor.dialect == DialectKind::Messages {
            headers.push(("anthropic-version", "2023-06-01".to_owned()));
        }
        let timeouts = config.timeouts.unwrap_or_else(|| self.default_timeouts(&config.id.model));
        ModelHttpClient::new(
            &self.base_url,
            self.secret.clone(),
            &headers,
            &config.certificates,
            timeouts,
            config.limits,
        )
    }

    /// Returns the default timeouts. A local server may load a model first, and a reasoning model may be silent for
    /// long.
    fn default_timeouts(&self, model: &str) -> ModelTimeouts {
        let usual = ModelTimeouts::default();
        if self.vendor.quirks.may_load_model_first {
            return ModelTimeouts { first_byte: Duration::from_secs(300), ..usual };
        }
        let openai = matches!(self.vendor.id, "openai" | "openai-responses" | "azure");
        if openai && openai::is_reasoning_model(model) {
            let patient = Duration::from_secs(180);
            return ModelTimeouts { first_byte: patient, idle: patient, ..usual };
        }
        usual
    }

    fn dialect(&self, config: &ModelConfig) -> Arc<dyn Dialect> {
        let (url, model) = (self.base_url.clone(), config.id.model.clone());
        let (extra, secret) = (config.extra.clone(), self.secret.clone());
        let streamed = config.streaming == StreamingMode::Streamed;
        let quirks = self.vendor.quirks;
        match self.vendor.dialect {
            DialectKind::Chat => {
                Arc::new(openai::ChatCompletionsDialect { url, model, quirks, streamed, extra, secret })
            }
            DialectKind::Responses => {
                Arc::new(responses::ResponsesDialect { url, model, streamed, extra, secret })
            }
            DialectKind::Messages => {
                Arc::new(anthropic::AnthropicDialect { url, model, streamed, extra, secret })
            }
            DialectKind::Gemini => Arc::new(gemini::GeminiDialect { url, model, streamed, extra, secret }),
        }
    }

    fn about(&self, config: &ModelConfig) -> ModelInfo {
        let (name, model) = (self.vendor.name, &config.id.model);
        let host = parse_server_url(&self.base_url).ok().and_then(|url| url.host_str().map(str::to_owned));
        let host = host.unwrap_or_default();
        let at_home = self.vendor.location == ModelLocation::Local && is_loopback(&host);
        let (ko, en) = if at_home {
            (
                format!("{name}의 {model}. 이 컴퓨터에서 실행되며 질문과 자료가 밖으로 나가지 않습니다."),
                format!(
                    "{model} on {name}. It runs on this machine; questions and passages do not leave it."
                ),
            )
        } else {
            (
                format!("{name}의 {model}. 질문과 자료가 {host} 서버로 전송됩니다."),
                format!("{model} of {name}. Questions and passages are sent to {host}."),
            )
        };
        let (name, kind) = (config.id.to_string(), ModelKind::Language);
        ModelInfo { name, kind, ko, en, unsupported_settings: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_model_id(text: &str) -> Result<ModelId, ModelIdError> {
        text.parse()
    }

    #[test]
    fn a_name_is_provider_and_model() {
        let named = parse_model_id("ollama:qwen3:8b").expect("name");
        assert_eq!((named.provider.as_str(), named.model.as_str()), ("ollama", "qwen3:8b"));
        let by_url = parse_model_id("openai-compatible:http://10.0.0.5:9000/v1#my/model").expect("name");
        assert_eq!(by_url.base_url.as_deref(), Some("http://10.0.0.5:9000/v1"));
        assert_eq!(by_url.model, "my/model");
        for text in ["ollama:qwen3:8b", "openai-compatible:http://10.0.0.5:9000/v1#my/model"] {
            assert_eq!(parse_model_id(text).expect("name").to_string(), text);
        }
        assert_eq!(parse_model_id("gpt-4o"), Err(ModelIdError::Shape("gpt-4o".into())));
        assert_eq!(parse_model_id("openai:"), Err(ModelIdError::Shape("openai:".into())));
        assert_eq!(parse_model_id("nobody:x"), Err(ModelIdError::Provider("nobody".into())));
        assert!(parse_model_id("openai-compatible:http://host/v1").is_err(), "which model?");
    }

    #[test]
    fn what_is_missing_is_named() {
        let open = |name: &str, key: ModelApiKey| match open_model(
            &ModelConfig::new(parse_model_id(name).expect("name")),
            key,
        ) {
            Ok(model) => model.info().name,
            Err(error) => error.to_string(),
        };
        assert_eq!(
            open("upstage:solar-pro", ModelApiKey::none()),
            "`upstage` needs a key; set `UPSTAGE_API_KEY`"
        );
        assert_eq!(
            open("azure:gpt", ModelApiKey::new("k")),
            "`azure` has no address of its own; set `base_url`"
        );
        assert_eq!(open("ollama:qwen3", ModelApiKey::none()), "ollama:qwen3");
        assert!(
            open("openai-compatible:ftp://x#m", ModelApiKey::none()).contains("not `provider:model`")
                || open("openai-compatible:ftp://x#m", ModelApiKey::none()).contains("address")
        );
    }

    #[test]
    fn a_model_says_where_the_words_go() {
        let about = |name: &str| {
            let config = ModelConfig::new(parse_model_id(name).expect("name"));
            ResolvedProvider::resolve(&config, ModelApiKey::new("k")).expect("reached").about(&config)
        };
        assert!(about("ollama:qwen3").en.contains("do not leave it"));
        assert!(about("openai:gpt-4.1").en.contains("sent to api.openai.com"));
        assert!(
            about("openai-compatible:http://gpu.example.com/v1#m").ko.contains("gpu.example.com 서버로 전송")
        );
    }
}
