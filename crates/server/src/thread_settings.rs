//! The settings of a chat: its model, its temperature and its instructions. They are stored with the thread and go into
//! every run that is started on it.

use doran_agents::AskOptions;
use doran_engine::store::ThreadRow;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::ServerApp;
use crate::error::{ApiError, ApiErrorCode};
use crate::error_detail::ErrorDetail;

/// The names under which a thread stores them.
pub(crate) const MODEL_METADATA: &str = "model";
pub(crate) const TEMPERATURE_METADATA: &str = "temperature";
pub(crate) const INSTRUCTIONS_METADATA: &str = "instructions";

/// The most characters of the instructions.
pub(crate) const MAX_INSTRUCTIONS_CHARS: usize = 8000;
const MAX_TEMPERATURE: f32 = 2.0;

/// Changes to the settings of a chat. `None` leaves a setting as it is, `Some(None)` takes it back.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadSettingsChange {
    pub(crate) model: Option<Option<String>>,
    pub(crate) temperature: Option<Option<f32>>,
    pub(crate) instructions: Option<Option<String>>,
}

/// Tells a field that is `null` from one that is left out.
pub(crate) fn present<'de, T, D>(from: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::<T>::deserialize(from).map(Some)
}

impl ThreadSettingsChange {
    /// Checks the changes and adds them to the metadata of a thread.
    pub(crate) fn add_to(&self, metadata: &mut Map<String, Value>, app: &ServerApp) -> Result<(), ApiError> {
        if let Some(model) = &self.model {
            if let Some(model) = model {
                check_model_option(app, model)?;
            }
            metadata.insert(MODEL_METADATA.into(), model.clone().into());
        }
        if let Some(temperature) = self.temperature {
            if temperature.is_some_and(|one| !(0.0..=MAX_TEMPERATURE).contains(&one)) {
                return Err(bad_input(
                    format!("`temperature` is between 0 and {MAX_TEMPERATURE}"),
                    format!("`temperature`는 0과 {MAX_TEMPERATURE} 사이입니다"),
                ));
            }
            metadata.insert(TEMPERATURE_METADATA.into(), temperature.into());
        }
        if let Some(instructions) = &self.instructions {
            let text = instructions.as_deref().unwrap_or_default().trim();
            if text.chars().count() > MAX_INSTRUCTIONS_CHARS || text.contains('\0') {
                return Err(bad_input(
                    format!("`instructions` has at most {MAX_INSTRUCTIONS_CHARS} characters and no NUL"),
                    format!("`instructions`는 NUL 없이 {MAX_INSTRUCTIONS_CHARS}자까지입니다"),
                ));
            }
            metadata.insert(INSTRUCTIONS_METADATA.into(), text.into());
        }
        Ok(())
    }
}

fn bad_input(en: String, ko: String) -> ApiError {
    ApiError::with_detail(ApiErrorCode::BadInput, ErrorDetail::new(en, ko))
}

/// Only models that an administrator allows can be chosen: a model id can name any server.
pub(crate) fn check_model_option(app: &ServerApp, model: &str) -> Result<(), ApiError> {
    let known =
        app.models.as_ref().is_some_and(|models| models.options().iter().any(|option| option.id == model));
    if known {
        return Ok(());
    }
    Err(bad_input(
        "`model` is not one of the models of this server; `GET /api/models` lists them".into(),
        "`model`이 이 서버의 모델이 아닙니다. `GET /api/models`가 목록을 줍니다".into(),
    ))
}

/// Adds the settings of a thread to a question on it. What comes with the question itself is not replaced.
pub fn apply_thread_settings(options: &mut AskOptions, thread: &ThreadRow) {
    let text = |key: &str| thread.metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    let chosen = &mut options.chosen;
    chosen.model = chosen.model.take().or_else(|| text(MODEL_METADATA));
    chosen.temperature = chosen.temperature.or_else(|| temperature_of(thread));
    options.instructions = options.instructions.take().or_else(|| text(INSTRUCTIONS_METADATA));
}

/// The temperature that a thread is set to.
#[allow(clippy::cast_possible_truncation, reason = "it was an `f32` when it was stored")]
pub(crate) fn temperature_of(thread: &ThreadRow) -> Option<f32> {
    thread.metadata.get(TEMPERATURE_METADATA).and_then(Value::as_f64).map(|value| value as f32)
}
