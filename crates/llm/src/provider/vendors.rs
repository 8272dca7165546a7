//! Who can be asked: addresses, the variables that hold their keys, and how each differs from its dialect.
//!
//! A row says what its vendor's own reference said when the row was written. A vendor that speaks OpenAI's dialect and
//! is not here is reached as `openai-compatible:URL#model`.

use serde::Serialize;

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vendor {
    /// The first half of `provider:model`.
    pub id: &'static str,
    /// What a person calls it.
    pub name: &'static str,
    /// Where it is, up to the version; empty where everybody has an address of their own.
    pub base_url: &'static str,
    /// The environment variable that holds its key; empty where none is needed.
    pub key_variable: &'static str,
    /// Whether it answers without a key.
    pub key: KeyNeed,
    /// Where the words go.
    pub place: Place,
    /// How it is spoken to.
    pub dialect: DialectKind,
    /// How it differs.
    #[serde(skip)]
    pub(crate) quirks: Quirks,
}

/// Whether a vendor answers without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyNeed {
    /// It does not.
    Required,
    /// It may ask for one, if it was set up so.
    Optional,
}

/// Where a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// At the vendor's: questions and passages leave the house.
    Cloud,
    /// On a server that is one's own.
    Local,
}

/// The dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DialectKind {
    /// OpenAI's chat completions and all that speak like it.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
    /// Google's generateContent.
    Gemini,
}

/// How the key is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyHeader {
    /// `Authorization: Bearer …`
    Bearer,
    /// A header of its own.
    Named(&'static str),
}

/// How a request asks for JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    /// By schema, strictly kept.
    Strict,
    /// By schema.
    Schema,
    /// JSON of any shape; the schema is in the prompt.
    Object,
    /// A tool that must be called, whose arguments are the answer.
    Tool,
}

/// How a vendor differs from its dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quirks {
    pub(crate) key_header: KeyHeader,
    /// The field that limits the answer.
    pub(crate) limit_field: &'static str,
    pub(crate) json: Json,
    /// Whether `stream_options.include_usage` is taken. Vendors without it count in the last event anyway or not at all.
    pub(crate) stream_usage: bool,
    /// Whether `parallel_tool_calls` is taken.
    pub(crate) parallel_flag: bool,
    /// The field for a seed; empty where there is none.
    pub(crate) seed_field: &'static str,
    /// Whether it can call tools at all.
    pub(crate) tools: bool,
    /// Whether `prompt_cache_key` is taken.
    pub(crate) cache_key: bool,
    /// Whether only the first messages may be the system's.
    pub(crate) early_system: bool,
    /// Whether a tool call written as text counts, as small models write it.
    pub(crate) written_calls: bool,
    /// Whether ids of tool calls are nine letters and digits.
    pub(crate) short_ids: bool,
    /// Whether thoughts go back with the tool calls they led to.
    pub(crate) thoughts_back: bool,
    /// Whether a model may have to be loaded before it says anything.
    pub(crate) loads: bool,
}

const USUAL: Quirks = Quirks {
    key_header: KeyHeader::Bearer,
    limit_field: "max_tokens",
    json: Json::Schema,
    stream_usage: true,
    parallel_flag: false,
    seed_field: "seed",
    tools: true,
    cache_key: false,
    early_system: false,
    written_calls: false,
    short_ids: false,
    thoughts_back: false,
    loads: false,
};

const OPENAI: Quirks = Quirks {
    limit_field: "max_completion_tokens",
    json: Json::Strict,
    parallel_flag: true,
    cache_key: true,
    ..USUAL
};

const OWN: Quirks = Quirks { early_system: true, written_calls: true, loads: true, ..USUAL };

const fn cloud(
    id: &'static str,
    name: &'static str,
    base_url: &'static str,
    key_variable: &'static str,
    quirks: Quirks,
) -> Vendor {
    Vendor {
        id,
        name,
        base_url,
        key_variable,
        key: KeyNeed::Required,
        place: Place::Cloud,
        dialect: DialectKind::Chat,
        quirks,
    }
}

const fn local(
    id: &'static str,
    name: &'static str,
    base_url: &'static str,
    key_variable: &'static str,
) -> Vendor {
    Vendor { key: KeyNeed::Optional, place: Place::Local, ..cloud(id, name, base_url, key_variable, OWN) }
}

/// Every vendor that can be named.
pub const VENDORS: &[Vendor] = &[
    cloud("openai", "OpenAI", "https://api.openai.com/v1", "OPENAI_API_KEY", OPENAI),
    Vendor {
        dialect: DialectKind::Responses,
        ..cloud("openai-responses", "OpenAI Responses", "https://api.openai.com/v1", "OPENAI_API_KEY", OPENAI)
    },
    Vendor {
        dialect: DialectKind::Messages,
        ..cloud(
            "anthropic",
            "Anthropic",
            "https://api.anthropic.com/v1",
            "ANTHROPIC_API_KEY",
            Quirks { key_header: KeyHeader::Named("x-api-key"), ..USUAL },
        )
    },
    Vendor {
        dialect: DialectKind::Gemini,
        ..cloud(
            "gemini",
            "Google Gemini",
            "https://generativelanguage.googleapis.com/v1beta",
            "GEMINI_API_KEY",
            Quirks { key_header: KeyHeader::Named("x-goog-api-key"), ..USUAL },
        )
    },
    cloud(
        "azure",
        "Azure OpenAI",
        "",
        "AZURE_OPENAI_API_KEY",
        Quirks { key_header: KeyHeader::Named("api-key"), cache_key: false, ..OPENAI },
    ),
    cloud(
        "upstage",
        "Upstage Solar",
        "https://api.upstage.ai/v1",
        "UPSTAGE_API_KEY",
        Quirks { seed_field: "", ..USUAL },
    ),
    cloud(
        "clova",
        "Naver HyperCLOVA X",
        "https://clovastudio.stream.ntruss.com/v1/openai",
        "CLOVASTUDIO_API_KEY",
        Quirks { json: Json::Tool, ..USUAL },
    ),
    cloud(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        Quirks { limit_field: "max_completion_tokens", json: Json::Tool, parallel_flag: true, ..USUAL },
    ),
    cloud("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", USUAL),
    cloud(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        Quirks { json: Json::Object, seed_field: "", thoughts_back: true, ..USUAL },
    ),
    cloud(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        Quirks {
            stream_usage: false,
            seed_field: "random_seed",
            short_ids: true,
            early_system: true,
            ..USUAL
        },
    ),
    cloud(
        "together",
        "Together",
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        Quirks { stream_usage: false, ..USUAL },
    ),
    cloud(
        "xai",
        "xAI Grok",
        "https://api.x.ai/v1",
        "XAI_API_KEY",
        Quirks { limit_field: "max_completion_tokens", parallel_flag: true, ..USUAL },
    ),
    cloud(
        "fireworks",
        "Fireworks",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        Quirks { stream_usage: false, seed_field: "", ..USUAL },
    ),
    cloud(
        "cerebras",
        "Cerebras",
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        Quirks { limit_field: "max_completion_tokens", json: Json::Strict, parallel_flag: true, ..USUAL },
    ),
    cloud(
        "perplexity",
        "Perplexity",
        "https://api.perplexity.ai",
        "PERPLEXITY_API_KEY",
        Quirks { stream_usage: false, seed_field: "", tools: false, early_system: true, ..USUAL },
    ),
    local("ollama", "Ollama", "http://127.0.0.1:11434/v1", ""),
    local("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", ""),
    local("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1", "LLAMA_API_KEY"),
    local("vllm", "vLLM", "http://127.0.0.1:8000/v1", "VLLM_API_KEY"),
    local("openai-compatible", "OpenAI-compatible", "", "OPENAI_COMPATIBLE_API_KEY"),
];

/// The vendor with this id.
pub fn vendor(id: &str) -> Option<&'static Vendor> {
    VENDORS.iter().find(|vendor| vendor.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_used() {
        for (at, row) in VENDORS.iter().enumerate() {
            assert!(!VENDORS[..at].iter().any(|other| other.id == row.id), "`{}` stands twice", row.id);
            assert!(row.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", row.id);
            assert!(row.key == KeyNeed::Optional || !row.key_variable.is_empty(), "{}", row.id);
            let scheme = if row.place == Place::Cloud { "https://" } else { "http://127.0.0.1:" };
            assert!(row.base_url.is_empty() || row.base_url.starts_with(scheme), "{}", row.id);
            assert!(!row.base_url.ends_with('/'), "{}", row.id);
        }
    }
}
