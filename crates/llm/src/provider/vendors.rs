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
    pub key: KeyRequirement,
    /// Where the words go.
    pub place: ModelLocation,
    /// How it is spoken to.
    pub dialect: DialectKind,
    /// How it differs.
    #[serde(skip)]
    pub(crate) quirks: VendorQuirks,
}

/// Whether a vendor answers without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyRequirement {
    /// It does not.
    Required,
    /// It may ask for one, if it was set up so.
    Optional,
}

/// Where a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelLocation {
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
pub(crate) enum JsonOutputMode {
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
pub(crate) struct VendorQuirks {
    pub(crate) key_header: KeyHeader,
    /// The field that limits the answer.
    pub(crate) limit_field: &'static str,
    pub(crate) json_output: JsonOutputMode,
    /// Whether `stream_options.include_usage` is taken. Vendors without it count in the last event anyway or not at all.
    pub(crate) sends_stream_options: bool,
    /// Whether `parallel_tool_calls` is taken.
    pub(crate) sends_parallel_tool_calls: bool,
    /// The field for a seed; empty where there is none.
    pub(crate) seed_field: &'static str,
    /// Whether it can call tools at all.
    pub(crate) supports_tools: bool,
    /// Whether `prompt_cache_key` is taken.
    pub(crate) sends_prompt_cache_key: bool,
    /// Whether only the first messages may be the system's.
    pub(crate) system_messages_first_only: bool,
    /// Whether a tool call written as text counts, as small models write it.
    pub(crate) accepts_calls_written_as_text: bool,
    /// Whether ids of tool calls are nine letters and digits.
    pub(crate) nine_character_call_ids: bool,
    /// Whether thoughts go back with the tool calls they led to.
    pub(crate) resends_reasoning: bool,
    /// Whether a model may have to be loaded before it says anything.
    pub(crate) may_load_model_first: bool,
}

const DEFAULT_QUIRKS: VendorQuirks = VendorQuirks {
    key_header: KeyHeader::Bearer,
    limit_field: "max_tokens",
    json_output: JsonOutputMode::Schema,
    sends_stream_options: true,
    sends_parallel_tool_calls: false,
    seed_field: "seed",
    supports_tools: true,
    sends_prompt_cache_key: false,
    system_messages_first_only: false,
    accepts_calls_written_as_text: false,
    nine_character_call_ids: false,
    resends_reasoning: false,
    may_load_model_first: false,
};

const OPENAI_QUIRKS: VendorQuirks = VendorQuirks {
    limit_field: "max_completion_tokens",
    json_output: JsonOutputMode::Strict,
    sends_parallel_tool_calls: true,
    sends_prompt_cache_key: true,
    ..DEFAULT_QUIRKS
};

const LOCAL_SERVER_QUIRKS: VendorQuirks = VendorQuirks {
    system_messages_first_only: true,
    accepts_calls_written_as_text: true,
    may_load_model_first: true,
    ..DEFAULT_QUIRKS
};

const fn cloud_vendor(
    id: &'static str,
    name: &'static str,
    base_url: &'static str,
    key_variable: &'static str,
    quirks: VendorQuirks,
) -> Vendor {
    Vendor {
        id,
        name,
        base_url,
        key_variable,
        key: KeyRequirement::Required,
        place: ModelLocation::Cloud,
        dialect: DialectKind::Chat,
        quirks,
    }
}

const fn local_vendor(
    id: &'static str,
    name: &'static str,
    base_url: &'static str,
    key_variable: &'static str,
) -> Vendor {
    Vendor {
        key: KeyRequirement::Optional,
        place: ModelLocation::Local,
        ..cloud_vendor(id, name, base_url, key_variable, LOCAL_SERVER_QUIRKS)
    }
}

/// Every vendor that can be named.
pub const VENDORS: &[Vendor] = &[
    cloud_vendor("openai", "OpenAI", "https://api.openai.com/v1", "OPENAI_API_KEY", OPENAI_QUIRKS),
    Vendor {
        dialect: DialectKind::Responses,
        ..cloud_vendor(
            "openai-responses",
            "OpenAI Responses",
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
            OPENAI_QUIRKS,
        )
    },
    Vendor {
        dialect: DialectKind::Messages,
        ..cloud_vendor(
            "anthropic",
            "Anthropic",
            "https://api.anthropic.com/v1",
            "ANTHROPIC_API_KEY",
            VendorQuirks { key_header: KeyHeader::Named("x-api-key"), ..DEFAULT_QUIRKS },
        )
    },
    Vendor {
        dialect: DialectKind::Gemini,
        ..cloud_vendor(
            "gemini",
            "Google Gemini",
            "https://generativelanguage.googleapis.com/v1beta",
            "GEMINI_API_KEY",
            VendorQuirks { key_header: KeyHeader::Named("x-goog-api-key"), ..DEFAULT_QUIRKS },
        )
    },
    cloud_vendor(
        "azure",
        "Azure OpenAI",
        "",
        "AZURE_OPENAI_API_KEY",
        VendorQuirks {
            key_header: KeyHeader::Named("api-key"),
            sends_prompt_cache_key: false,
            ..OPENAI_QUIRKS
        },
    ),
    cloud_vendor(
        "upstage",
        "Upstage Solar",
        "https://api.upstage.ai/v1",
        "UPSTAGE_API_KEY",
        VendorQuirks { seed_field: "", ..DEFAULT_QUIRKS },
    ),
    cloud_vendor(
        "clova",
        "Naver HyperCLOVA X",
        "https://clovastudio.stream.ntruss.com/v1/openai",
        "CLOVASTUDIO_API_KEY",
        VendorQuirks { json_output: JsonOutputMode::Tool, ..DEFAULT_QUIRKS },
    ),
    cloud_vendor(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        VendorQuirks {
            limit_field: "max_completion_tokens",
            json_output: JsonOutputMode::Tool,
            sends_parallel_tool_calls: true,
            ..DEFAULT_QUIRKS
        },
    ),
    cloud_vendor(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        DEFAULT_QUIRKS,
    ),
    cloud_vendor(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        VendorQuirks {
            json_output: JsonOutputMode::Object,
            seed_field: "",
            resends_reasoning: true,
            ..DEFAULT_QUIRKS
        },
    ),
    cloud_vendor(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        VendorQuirks {
            sends_stream_options: false,
            seed_field: "random_seed",
            nine_character_call_ids: true,
            system_messages_first_only: true,
            ..DEFAULT_QUIRKS
        },
    ),
    cloud_vendor(
        "together",
        "Together",
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        VendorQuirks { sends_stream_options: false, ..DEFAULT_QUIRKS },
    ),
    cloud_vendor(
        "xai",
        "xAI Grok",
        "https://api.x.ai/v1",
        "XAI_API_KEY",
        VendorQuirks {
            limit_field: "max_completion_tokens",
            sends_parallel_tool_calls: true,
            ..DEFAULT_QUIRKS
        },
    ),
    cloud_vendor(
        "fireworks",
        "Fireworks",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        VendorQuirks { sends_stream_options: false, seed_field: "", ..DEFAULT_QUIRKS },
    ),
    cloud_vendor(
        "cerebras",
        "Cerebras",
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        VendorQuirks {
            limit_field: "max_completion_tokens",
            json_output: JsonOutputMode::Strict,
            sends_parallel_tool_calls: true,
            ..DEFAULT_QUIRKS
        },
    ),
    cloud_vendor(
        "perplexity",
        "Perplexity",
        "https://api.perplexity.ai",
        "PERPLEXITY_API_KEY",
        VendorQuirks {
            sends_stream_options: false,
            seed_field: "",
            supports_tools: false,
            system_messages_first_only: true,
            ..DEFAULT_QUIRKS
        },
    ),
    local_vendor("ollama", "Ollama", "http://127.0.0.1:11434/v1", ""),
    local_vendor("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", ""),
    local_vendor("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1", "LLAMA_API_KEY"),
    local_vendor("vllm", "vLLM", "http://127.0.0.1:8000/v1", "VLLM_API_KEY"),
    local_vendor("openai-compatible", "OpenAI-compatible", "", "OPENAI_COMPATIBLE_API_KEY"),
];

/// The vendor with this id.
pub fn find_vendor(id: &str) -> Option<&'static Vendor> {
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
            assert!(row.key == KeyRequirement::Optional || !row.key_variable.is_empty(), "{}", row.id);
            let scheme = if row.place == ModelLocation::Cloud { "https://" } else { "http://127.0.0.1:" };
            assert!(row.base_url.is_empty() || row.base_url.starts_with(scheme), "{}", row.id);
            assert!(!row.base_url.ends_with('/'), "{}", row.id);
        }
    }
}
