//! The vendor table: URLs, environment variables for keys, and the differences of each vendor from its dialect.
//!
//! A row follows the vendor's reference at the time it was written. A vendor that is compatible with OpenAI and not
//! listed here is used as `openai-compatible:URL#model`.

use serde::Serialize;

use super::ModelId;
use crate::pricing::PriceList;

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vendor {
    /// The first half of `provider:model`.
    pub id: &'static str,
    /// The name that is shown to people.
    pub name: &'static str,
    /// The base URL including the version; empty if every customer has their own.
    pub base_url: &'static str,
    /// The environment variable for its key; empty if it needs none.
    pub key_variable: &'static str,
    /// Whether it needs a key.
    pub key_requirement: KeyRequirement,
    /// Its model for short decisions; empty if it is not known.
    pub small_model: &'static str,
    /// Where the model runs, and so where the text is sent.
    pub location: ModelLocation,
    /// The dialect of its API.
    pub dialect: DialectKind,
    /// How it differs from the dialect.
    #[serde(skip)]
    pub(crate) quirks: VendorQuirks,
}

/// Whether a vendor needs a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyRequirement {
    /// A key is required.
    Required,
    /// A key is optional; the server may be configured to require one.
    Optional,
}

/// Where a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelLocation {
    /// On the vendor's servers: questions and passages leave this machine.
    Cloud,
    /// On a server of the user.
    Local,
}

/// The dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DialectKind {
    /// The OpenAI Chat Completions API and compatible ones.
    Chat,
    /// The OpenAI Responses API.
    Responses,
    /// The Anthropic Messages API.
    Messages,
    /// The Gemini `generateContent` API.
    Gemini,
}

/// How the key is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyHeader {
    /// `Authorization: Bearer …`
    Bearer,
    /// In a header with this name.
    Named(&'static str),
}

/// How a request asks for JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonOutputMode {
    /// With a schema in strict mode.
    Strict,
    /// With a schema.
    Schema,
    /// As any JSON object; the schema is in the prompt.
    Object,
    /// With a forced tool call whose arguments are the answer.
    Tool,
}

/// How a vendor differs from its dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VendorQuirks {
    pub(crate) key_header: KeyHeader,
    /// The field that limits the output tokens.
    pub(crate) limit_field: &'static str,
    pub(crate) json_output: JsonOutputMode,
    /// Whether `stream_options.include_usage` is accepted. Vendors without it send usage in the last event anyway, or
    /// never.
    pub(crate) sends_stream_options: bool,
    /// Whether `parallel_tool_calls` is accepted.
    pub(crate) sends_parallel_tool_calls: bool,
    /// The field for a seed; empty if there is none.
    pub(crate) seed_field: &'static str,
    /// Whether it supports tool calls.
    pub(crate) supports_tools: bool,
    /// Whether `prompt_cache_key` is accepted.
    pub(crate) sends_prompt_cache_key: bool,
    /// Whether system messages are accepted only at the start.
    pub(crate) system_messages_first_only: bool,
    /// Whether tools are described in as few words as possible: not at all where none may be called, and without the
    /// limits of their arguments. A small server reads every word again, and small models copy such words into their
    /// calls. Arguments are checked against the whole schema anyway.
    pub(crate) shortens_tools: bool,
    /// Whether a tool call written as text is accepted, as small models write it.
    pub(crate) accepts_calls_written_as_text: bool,
    /// Whether ids of tool calls must have nine letters and digits.
    pub(crate) nine_character_call_ids: bool,
    /// Whether reasoning is sent back with the tool calls it led to.
    pub(crate) resends_reasoning: bool,
    /// Whether the server may have to load a model before it answers.
    pub(crate) may_load_model_first: bool,
    /// Whether it has `/rerank` beside its chat models.
    pub(crate) reranks: bool,
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
    shortens_tools: false,
    accepts_calls_written_as_text: false,
    nine_character_call_ids: false,
    resends_reasoning: false,
    may_load_model_first: false,
    reranks: false,
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
    shortens_tools: true,
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
        key_requirement: KeyRequirement::Required,
        small_model: "",
        location: ModelLocation::Cloud,
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
        key_requirement: KeyRequirement::Optional,
        location: ModelLocation::Local,
        ..cloud_vendor(id, name, base_url, key_variable, LOCAL_SERVER_QUIRKS)
    }
}

const OPENAI_SMALL_MODEL: &str = "gpt-4.1-nano";

/// All vendors.
pub const VENDORS: &[Vendor] = &[
    Vendor {
        small_model: OPENAI_SMALL_MODEL,
        ..cloud_vendor("openai", "OpenAI", "https://api.openai.com/v1", "OPENAI_API_KEY", OPENAI_QUIRKS)
    },
    Vendor {
        small_model: OPENAI_SMALL_MODEL,
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
        small_model: "claude-haiku-5-5",
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
        small_model: "gemini-3.1-flash-lite",
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
        VendorQuirks { reranks: true, ..DEFAULT_QUIRKS },
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
        VendorQuirks { sends_stream_options: false, reranks: true, ..DEFAULT_QUIRKS },
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
    reranking(&local_vendor("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1", "LLAMA_API_KEY")),
    reranking(&local_vendor("vllm", "vLLM", "http://127.0.0.1:8000/v1", "VLLM_API_KEY")),
    reranking(&local_vendor("openai-compatible", "OpenAI-compatible", "", "OPENAI_COMPATIBLE_API_KEY")),
];

/// Vendors that are used as rerankers and not for chats.
pub const RERANK_ONLY_VENDORS: &[Vendor] = &[
    reranking(&cloud_vendor(
        "cohere",
        "Cohere",
        "https://api.cohere.com/v2",
        "COHERE_API_KEY",
        DEFAULT_QUIRKS,
    )),
    reranking(&cloud_vendor("jina", "Jina AI", "https://api.jina.ai/v1", "JINA_API_KEY", DEFAULT_QUIRKS)),
];

const fn reranking(vendor: &Vendor) -> Vendor {
    Vendor { quirks: VendorQuirks { reranks: true, ..vendor.quirks }, ..*vendor }
}

/// The model of the same vendor that makes short decisions for less money. `None` if the vendor's is not known, or if it
/// is not cheaper.
pub fn small_model_for(model: &ModelId, prices: &PriceList) -> Option<ModelId> {
    let name = find_vendor(&model.provider)?.small_model;
    let small = ModelId { model: name.to_owned(), ..model.clone() };
    let dollars = |id: &ModelId| prices.price_of(&id.to_string()).map(|price| price.input + price.output);
    let is_cheaper = match (dollars(&small), dollars(model)) {
        (Some(small), Some(main)) => small < main,
        // A model without a known price is a new one, or one of the customer's own.
        _ => true,
    };
    (!name.is_empty() && is_cheaper && small != *model).then_some(small)
}

/// Returns the vendor with this id.
pub fn find_vendor(id: &str) -> Option<&'static Vendor> {
    VENDORS.iter().find(|vendor| vendor.id == id)
}

fn rerank_vendors() -> impl Iterator<Item = &'static Vendor> {
    VENDORS.iter().chain(RERANK_ONLY_VENDORS).filter(|vendor| vendor.quirks.reranks)
}

/// Returns the vendor with this id, if it reranks.
pub fn find_rerank_vendor(id: &str) -> Option<&'static Vendor> {
    rerank_vendors().find(|vendor| vendor.id == id)
}

/// Returns the ids of the vendors that rerank.
pub(super) fn rerank_vendor_ids() -> Vec<&'static str> {
    rerank_vendors().map(|vendor| vendor.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_model_is_of_the_same_vendor_and_cheaper() {
        let prices = PriceList::built_in().expect("prices");
        let check = |model: &str, expected: Option<&str>| {
            let small = small_model_for(&model.parse().expect("a model"), &prices);
            assert_eq!(small.map(|id| id.to_string()).as_deref(), expected, "{model}");
        };
        check("openai:gpt-5.5", Some("openai:gpt-4.1-nano"));
        check("openai-responses:gpt-5.5", Some("openai-responses:gpt-4.1-nano"));
        check("openai:not-priced", Some("openai:gpt-4.1-nano"));
        check("openai:gpt-4.1-nano", None);
        check("openai:gpt-5-nano", None);
        check("ollama:qwen3:8b", None);
        for row in VENDORS.iter().filter(|row| !row.small_model.is_empty()) {
            let name = format!("{}:{}", row.id, row.small_model);
            assert!(prices.has_price_for(&name), "`{name}` has no price");
        }
    }

    #[test]
    fn every_row_can_be_used() {
        let rows: Vec<&Vendor> = VENDORS.iter().chain(RERANK_ONLY_VENDORS).collect();
        for (at, row) in rows.iter().enumerate() {
            assert!(!rows[..at].iter().any(|other| other.id == row.id), "`{}` stands twice", row.id);
            assert!(row.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", row.id);
            assert!(
                row.key_requirement == KeyRequirement::Optional || !row.key_variable.is_empty(),
                "{}",
                row.id
            );
            let scheme = if row.location == ModelLocation::Cloud { "https://" } else { "http://127.0.0.1:" };
            assert!(row.base_url.is_empty() || row.base_url.starts_with(scheme), "{}", row.id);
            assert!(!row.base_url.ends_with('/'), "{}", row.id);
        }
    }

    #[test]
    fn rerankers_are_found_among_all_vendors_and_chats_only_among_those_that_have_them() {
        let known = "openrouter together llamacpp vllm openai-compatible cohere jina";
        assert_eq!(rerank_vendor_ids().join(" "), known);
        assert!(find_vendor("cohere").is_none() && find_rerank_vendor("openai").is_none());
    }
}
