//! Images that come with a message: which are taken, and which models can look at them.

use doran_agents::llm::{ImageReference, TextOrigin};
use doran_agents::{Agent, AskOptions, ModelKind};
use doran_engine::ThreadKey;

use crate::ServerApp;
use crate::error::{ApiError, ApiErrorCode};
use crate::thread_settings::apply_thread_settings;

/// The most images of a message.
pub(crate) const MAX_IMAGES: usize = 4;

/// What all vendors can read.
pub(crate) const MEDIA_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// An image as a client sent it.
pub(crate) fn image_reference(url: &str) -> ImageReference {
    let media_type = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let media_type = media_type.map(|(media_type, _)| media_type.to_owned()).unwrap_or_default();
    ImageReference { url: url.to_owned(), media_type, origin: TextOrigin::User }
}

/// Checks the images of a message, and that the agent and the model of the chat look at images.
pub(crate) async fn check_images(
    app: &ServerApp,
    thread: &ThreadKey,
    agent: &Agent,
    options: &AskOptions,
) -> Result<(), ApiError> {
    let images = &options.images;
    if images.is_empty() {
        return Ok(());
    }
    let bytes: usize = images.iter().map(|image| image.url.len()).sum();
    let max_bytes = app.limits.max_message_bytes;
    if images.len() > MAX_IMAGES || bytes > max_bytes {
        return Err(refused(
            format!("a message has at most {MAX_IMAGES} images with {max_bytes} bytes together, as text"),
            format!(
                "메시지 하나에는 이미지가 {MAX_IMAGES}개까지이고, 글로 바꾼 크기의 합이 {max_bytes}바이트까지입니다"
            ),
        ));
    }
    if !images.iter().all(|image| is_image_data(&image.url)) {
        return Err(refused(
            format!("an image is `data:TYPE;base64,DATA` with one of {}", MEDIA_TYPES.join(", ")),
            format!(
                "이미지는 `data:형식;base64,데이터`이고 형식은 {} 가운데 하나입니다",
                MEDIA_TYPES.join(", ")
            ),
        ));
    }
    if !agent.accepts_turn_requests {
        return Err(refused(
            format!("the agent `{}` does not look at images; ask another agent", agent.name),
            format!("에이전트 `{}`은(는) 이미지를 보지 않습니다. 다른 에이전트에게 물으세요", agent.name),
        ));
    }
    let mut options = options.clone();
    if let Some(row) = app.runtime.find_thread_row(thread).await? {
        apply_thread_settings(&mut options, &row);
    }
    let chosen = options.chosen.model.as_ref().and_then(|id| {
        let models = app.models.as_ref()?.options();
        models.into_iter().find(|option| option.id == *id).map(|option| option.model)
    });
    match chosen.or_else(|| agent.model()) {
        Some(model) if model.kind == ModelKind::Extractive => Err(refused(
            format!("the built-in model `{}` cannot look at images; choose a language model", model.name),
            format!("내장 모델 `{}`은(는) 이미지를 볼 수 없습니다. 언어 모델을 고르세요", model.name),
        )),
        _ => Ok(()),
    }
}

/// Whether a URL is the data of an image that all vendors can read.
pub(crate) fn is_image_data(url: &str) -> bool {
    let parts = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    parts.is_some_and(|(media_type, data)| {
        MEDIA_TYPES.contains(&media_type) && !data.is_empty() && data.bytes().all(is_base64)
    })
}

fn refused(en: String, ko: String) -> ApiError {
    ApiError::with_message(ApiErrorCode::BadInput, en, ko)
}
