//! Embeddings: texts as vectors, by the encoder that the search uses.

use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use doran_agents::llm::{Embedder, EmbeddingSide, estimate_tokens};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::request_fields::{EMBEDDING_FIELDS, RequestFields};
use crate::ServerApp;
use crate::api::{OpenAiEmbedding, OpenAiEmbeddingList, OpenAiEmbeddingUsage, OpenAiEmbeddingVector};
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::request_body;
use crate::routes::json_response;

/// The most texts of one request.
const MAX_TEXTS: usize = 2048;

/// A request for embeddings. A parameter of OpenAI's API that is not here is rejected with `400`.
#[derive(Debug, JsonSchema)]
pub(super) struct EmbeddingBody {
    /// The name of the encoder. `built-in` is enough for the built-in one.
    model: String,
    /// A text or a list of texts. Lists of tokens are not supported.
    input: EmbeddingInput,
    /// The format of the vectors. The default is `float`.
    encoding_format: Option<EncodingFormat>,
    /// How many numbers a vector has. It must be what the encoder gives.
    #[schemars(range(min = 1))]
    dimensions: Option<usize>,
}

/// One text or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
enum EmbeddingInput {
    One(String),
    Several(Vec<String>),
}

/// The format of a vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EncodingFormat {
    /// A list of numbers.
    #[default]
    Float,
    /// 32-bit numbers, the lowest byte first, in base64.
    Base64,
}

/// `POST /v1/embeddings`
pub(super) async fn openai_embeddings(
    State(app): State<ServerApp>,
    _: ApiCaller,
    request: Request,
) -> Result<Response, ApiError> {
    let (body, _) = request_body::read_json::<Map<String, Value>>(request, &app.limits).await?;
    let mut fields = RequestFields::check(body, EMBEDDING_FIELDS)?;
    let body = EmbeddingBody {
        model: fields.require("model")?,
        input: fields.require("input")?,
        encoding_format: fields.take("encoding_format")?,
        dimensions: fields.take("dimensions")?,
    };
    let embedder = find_embedder(&app, &body.model)?;
    let info = embedder.info();
    if body.dimensions.is_some_and(|wanted| wanted != info.dimension) {
        let dimension = info.dimension;
        return Err(ApiError::for_parameter(
            "dimensions",
            format!("vectors of this encoder have {dimension} numbers"),
            format!("이 인코더의 벡터는 숫자 {dimension}개입니다"),
        ));
    }
    let texts = match body.input {
        EmbeddingInput::One(text) => vec![text],
        EmbeddingInput::Several(texts) => texts,
    };
    check_texts(&texts, app.limits.max_message_bytes)?;
    let vectors = embedder.embed(&texts, EmbeddingSide::Passage).await.map_err(|error| {
        tracing::warn!(%error, "the encoder failed");
        let ko = format!("인코더가 실패했습니다 ({error})");
        ApiError::with_message(ApiErrorCode::IndexUnavailable, format!("the encoder failed: {error}"), ko)
    })?;
    let format = body.encoding_format.unwrap_or_default();
    let data = vectors.into_iter().enumerate().map(|(index, vector)| OpenAiEmbedding {
        object: "embedding",
        index,
        embedding: match format {
            EncodingFormat::Float => OpenAiEmbeddingVector::Numbers(vector),
            EncodingFormat::Base64 => {
                let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
                OpenAiEmbeddingVector::Base64(STANDARD.encode(bytes))
            }
        },
    });
    let tokens = texts.iter().map(|text| estimate_tokens(text)).sum();
    Ok(json_response(OpenAiEmbeddingList {
        object: "list",
        data: data.collect(),
        model: info.id,
        usage: OpenAiEmbeddingUsage { prompt_tokens: tokens, total_tokens: tokens },
    }))
}

/// The encoder of this name. The built-in one has the hash of its weights in its name, which nobody needs to know.
fn find_embedder<'a>(app: &'a ServerApp, name: &str) -> Result<&'a dyn Embedder, ApiError> {
    let Some(embedder) = &app.embedder else {
        return Err(ApiError::with_message(
            ApiErrorCode::UnknownAgent,
            "this server has no encoder; set `encoder`",
            "이 서버에는 인코더가 없습니다. `encoder`를 설정하세요",
        ));
    };
    let id = embedder.info().id;
    let is_built_in = name == "built-in" && id.starts_with("built-in:");
    if id == name || is_built_in {
        return Ok(embedder.as_ref());
    }
    let id = if id.starts_with("built-in:") { "built-in" } else { &id };
    Err(ApiError::with_message(
        ApiErrorCode::UnknownAgent,
        format!("the encoder is `{id}`"),
        format!("인코더는 `{id}`입니다"),
    ))
}

fn check_texts(texts: &[String], max_bytes: usize) -> Result<(), ApiError> {
    let bad = |en: String, ko: String| Err(ApiError::for_parameter("input", en, ko));
    if texts.is_empty() || texts.len() > MAX_TEXTS {
        return bad(format!("there are 1 to {MAX_TEXTS} texts"), format!("글은 1~{MAX_TEXTS}개입니다"));
    }
    if texts.iter().map(String::len).sum::<usize>() > max_bytes {
        return bad(
            format!("there are more than {max_bytes} bytes"),
            format!("{max_bytes}바이트를 넘습니다"),
        );
    }
    if texts.iter().any(String::is_empty) {
        return bad("a text is empty".into(), "빈 글이 있습니다".into());
    }
    Ok(())
}
