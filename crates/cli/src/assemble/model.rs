//! Opens the models chosen in the settings. No other model is opened, and an API key is sent only to its own
//! provider.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use doran_llm::{
    ChatModel, ModelApiKey, ModelConfig, ModelId, ModelPrice, PriceList, PricedModel, RecordingModel,
    ReplayingModel, StreamingMode, find_vendor,
};
use doran_offline::{OFFLINE_MODEL, OfflineModel};

use crate::config::Config;
use crate::output::{BilingualMessage, bilingual};

/// A file of answers: written, or read instead of asking anybody.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RecordReplay {
    /// Record all model replies in this file · 모델의 모든 응답을 이 파일에 기록합니다
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Replay model replies from this file · 모델을 호출하지 않고 이 파일의 응답을 사용합니다
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
}

/// The models used by the agents.
pub(super) struct OpenedModels {
    pub(super) main: Arc<dyn ChatModel>,
    pub(super) small: Arc<dyn ChatModel>,
    /// Models that agents choose by name.
    pub(super) named: BTreeMap<String, Arc<dyn ChatModel>>,
}

/// Opens all models.
pub(super) fn open_models(config: &Config, tape: &RecordReplay) -> Result<OpenedModels, BilingualMessage> {
    let agents = config.tables.agent_settings();
    let names = agents.model_names();
    if let Some(path) = &tape.replay {
        let shown = path.display();
        let replaying = ReplayingModel::from_file(path).map_err(|error| {
            bilingual!("녹음 `{shown}`을(를) 읽을 수 없습니다", "cannot read the recording `{shown}`")
                .with_cause(error)
        })?;
        let model: Arc<dyn ChatModel> = Arc::new(replaying);
        let named = names.into_iter().map(|name| (name.to_owned(), model.clone())).collect();
        return Ok(OpenedModels { small: model.clone(), main: model, named });
    }
    let taped = |model: Arc<dyn ChatModel>| -> Result<Arc<dyn ChatModel>, BilingualMessage> {
        let Some(path) = &tape.record else { return Ok(model) };
        let shown = path.display();
        let recording = RecordingModel::append_to_file(model, path).map_err(|error| {
            bilingual!("`{shown}`에 녹음할 수 없습니다", "cannot record to `{shown}`").with_cause(error)
        })?;
        Ok(Arc::new(recording))
    };
    let prices = Arc::new(load_prices(config)?);
    let counted = |name: &str| -> Result<Arc<dyn ChatModel>, BilingualMessage> {
        let model = taped(open_model(config, name)?)?;
        check_price_is_known(config, &prices, &model.info().name)?;
        Ok(Arc::new(PricedModel::new(model, prices.clone())))
    };
    let main = counted(&config.model)?;
    let small = match &config.small_model {
        Some(name) => counted(name)?,
        None => main.clone(),
    };
    let mut named = BTreeMap::new();
    for name in names {
        named.insert(name.to_owned(), counted(name)?);
    }
    Ok(OpenedModels { main, small, named })
}

/// The price list: the built-in prices, overridden by `[prices]`.
pub(crate) fn load_prices(config: &Config) -> Result<PriceList, BilingualMessage> {
    let built_in = PriceList::built_in().map_err(|error| {
        bilingual!("내장된 가격표를 읽을 수 없습니다", "the built-in prices cannot be read").with_cause(error)
    })?;
    let own = &config.tables.prices;
    let prices = own.iter().fold(built_in, |prices, (name, price)| prices.with_price(name, *price));
    Ok(prices.with_price(OFFLINE_MODEL, ModelPrice::FREE))
}

/// A cost limit requires a price for every model.
fn check_price_is_known(config: &Config, prices: &PriceList, name: &str) -> Result<(), BilingualMessage> {
    if config.max_run_cost_micros.is_none() || prices.has_price_for(name) {
        return Ok(());
    }
    Err(bilingual!(
        "`{name}`의 가격을 몰라 `max_run_cost_cents`를 지킬 수 없습니다. `[prices.\"{name}\"]`에 `input`과 `output`(백만 토큰당 미국 달러)을 적거나, `max_run_tokens`를 쓰세요",
        "`max_run_cost_cents` cannot be kept: the price of `{name}` is not known. Write `input` and `output` (US dollars for a million tokens) into `[prices.\"{name}\"]`, or use `max_run_tokens`"
    ))
}

/// Opens the model with this name.
pub(crate) fn open_model(config: &Config, name: &str) -> Result<Arc<dyn ChatModel>, BilingualMessage> {
    if name == OFFLINE_MODEL {
        return Ok(Arc::new(OfflineModel));
    }
    let (how, secret) = model_config_and_key(config, name)?;
    doran_llm::open_model(&how, secret).map_err(|error| {
        let (ko, en) = error.advice();
        bilingual!("모델 `{name}`을(를) 열 수 없습니다. {ko}", "cannot open the model `{name}`. {en}")
            .with_cause(error)
    })
}

/// The connection settings of the model with this name, and its API key. The key comes from the provider's own
/// variable or from the one named in the settings.
pub(crate) fn model_config_and_key(
    config: &Config,
    name: &str,
) -> Result<(ModelConfig, ModelApiKey), BilingualMessage> {
    let table = config.tables.models.get(name);
    let id: ModelId =
        table.map_or(name, |table| &table.id).parse().map_err(|error: doran_llm::ModelIdError| {
            bilingual!(
                "모델 `{name}`이(가) 없습니다. `doran models`가 쓸 수 있는 모델을 보여 줍니다",
                "there is no model `{name}`; `doran models` lists what can be used"
            )
            .with_cause(error)
        })?;
    let usual = find_vendor(&id.provider).map_or("", |vendor| vendor.key_variable);
    let variable = table.and_then(|table| table.key_variable.as_deref()).unwrap_or(usual);
    let secret =
        config.secrets.get(variable).map_or_else(ModelApiKey::none, |key| ModelApiKey::new(key.reveal()));
    let mut how = ModelConfig::new(id);
    if let Some(table) = table {
        how.base_url.clone_from(&table.base_url);
        how.streaming = if table.whole { StreamingMode::Whole } else { StreamingMode::Streamed };
    }
    Ok((how, secret))
}
