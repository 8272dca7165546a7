//! Opens the models chosen in the settings. No other model is opened, and an API key is sent only to its own
//! provider.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use doran_agents::{FairModel, PassageReranking};
use doran_llm::{
    ChatModel, ModelApiKey, ModelConfig, ModelId, ModelIdError, ModelPrice, OpenModelError, PriceList,
    PricedModel, RecordingModel, ReplayingModel, StreamingMode, find_rerank_vendor, find_vendor,
};
use doran_offline::{OFFLINE_MODEL, OfflineModel, is_offline_model};

use super::model_registry::{DefaultModel, ProgramModels};
use crate::config::{Config, RerankChoice};
use crate::output::{BilingualMessage, bilingual};
use crate::replica::shared_models::SharedModels;
use crate::stored_models::StoredModels;

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
    /// Who puts the best passages of a search in a new order.
    pub(super) reranking: PassageReranking,
    /// Models that chats choose by name.
    pub(super) registry: Arc<ProgramModels>,
}

/// Opens all models.
pub(super) fn open_models(
    config: &Config,
    record_replay: &RecordReplay,
    shared: Option<SharedModels>,
) -> Result<OpenedModels, BilingualMessage> {
    let agents = config.tables.agent_settings();
    let opener = ModelOpener::new(config, record_replay)?;
    let default = Arc::new(DefaultModel::new(&config.model, opener.open(&config.model)?));
    let main: Arc<dyn ChatModel> = default.clone();
    let small = match &config.small_model {
        Some(name) => opener.open(name)?,
        None => main.clone(),
    };
    let mut named = BTreeMap::new();
    for name in agents.model_names() {
        named.insert(name.to_owned(), opener.open(name)?);
    }
    let reranking = opener.open_reranking()?;
    let registry = Arc::new(ProgramModels::new(opener, default, shared));
    Ok(OpenedModels { main, small, named, reranking, registry })
}

/// Opens what an evaluation of the search needs: who puts passages in a new order, and the model for short decisions. No
/// model is opened if nobody does.
pub(crate) fn open_evaluated_reranking(
    config: &Config,
) -> Result<(PassageReranking, Arc<dyn ChatModel>), BilingualMessage> {
    let opener = ModelOpener::new(config, &RecordReplay::default())?;
    let reranking = opener.open_reranking()?;
    let small = match &reranking {
        PassageReranking::Off => Arc::new(OfflineModel),
        PassageReranking::ByModel => opener.open(config.small_model.as_ref().unwrap_or(&config.model))?,
        PassageReranking::ByReranker(reranker) => reranker.clone(),
    };
    Ok((reranking, small))
}

/// Opens models by name, with their prices, and recorded or replayed where the settings say so.
pub(super) struct ModelOpener {
    pub(super) config: Config,
    record: Option<PathBuf>,
    /// Answers for every model.
    replay: Option<Arc<dyn ChatModel>>,
    prices: Arc<PriceList>,
}

impl ModelOpener {
    fn new(config: &Config, record_replay: &RecordReplay) -> Result<Self, BilingualMessage> {
        let replay = match &record_replay.replay {
            Some(path) => {
                let shown = path.display();
                let replaying = ReplayingModel::from_file(path).map_err(|error| {
                    bilingual!("녹음 `{shown}`을(를) 읽을 수 없습니다", "cannot read the recording `{shown}`")
                        .with_cause(error)
                })?;
                Some(Arc::new(replaying) as Arc<dyn ChatModel>)
            }
            None => None,
        };
        let prices = Arc::new(load_prices(config)?);
        Ok(Self { config: config.clone(), record: record_replay.record.clone(), replay, prices })
    }

    pub(super) fn open(&self, name: &str) -> Result<Arc<dyn ChatModel>, BilingualMessage> {
        self.open_with(|| open_model(&self.config, name))
    }

    /// Who puts the best passages in a new order, as the settings say.
    fn open_reranking(&self) -> Result<PassageReranking, BilingualMessage> {
        Ok(match &self.config.search.reranking {
            RerankChoice::Off => PassageReranking::Off,
            RerankChoice::SmallModel => PassageReranking::ByModel,
            RerankChoice::Reranker(name) => {
                PassageReranking::ByReranker(self.open_with(|| open_reranker(&self.config, name))?)
            }
        })
    }

    fn open_with(
        &self,
        open: impl FnOnce() -> Result<Arc<dyn ChatModel>, BilingualMessage>,
    ) -> Result<Arc<dyn ChatModel>, BilingualMessage> {
        if let Some(replay) = &self.replay {
            return Ok(replay.clone());
        }
        let mut model = open()?;
        if let Some(path) = &self.record {
            let shown = path.display();
            let recording = RecordingModel::append_to_file(model, path).map_err(|error| {
                bilingual!("`{shown}`에 녹음할 수 없습니다", "cannot record to `{shown}`").with_cause(error)
            })?;
            model = Arc::new(recording);
        }
        check_price_is_known(&self.config, &self.prices, &model.info().name)?;
        Ok(Arc::new(PricedModel::new(model, self.prices.clone())))
    }
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
    let setting = match (config.max_run_cost_micros, config.monthly_budget_micros) {
        (Some(_), _) => "max_run_cost_cents",
        (None, Some(_)) => "monthly_budget_cents",
        (None, None) => return Ok(()),
    };
    if prices.has_price_for(name) {
        return Ok(());
    }
    Err(bilingual!(
        "`{name}`의 가격을 몰라 `{setting}`를 지킬 수 없습니다. `[prices.\"{name}\"]`에 `input`과 `output`(백만 토큰당 미국 달러)을 적거나, `max_run_tokens`를 쓰세요",
        "`{setting}` cannot be kept: the price of `{name}` is not known. Write `input` and `output` (US dollars for a million tokens) into `[prices.\"{name}\"]`, or use `max_run_tokens`"
    ))
}

/// Opens the model with this name.
pub(crate) fn open_model(config: &Config, name: &str) -> Result<Arc<dyn ChatModel>, BilingualMessage> {
    if is_offline_model(name) {
        return Ok(Arc::new(FairModel::new(Arc::new(OfflineModel))));
    }
    let (how, secret) = model_config_and_key(config, name)?;
    doran_llm::open_model(&how, secret).map_err(|error| cannot_open(("모델", "model"), name, error))
}

/// Opens the reranker with this name.
pub(crate) fn open_reranker(config: &Config, name: &str) -> Result<Arc<dyn ChatModel>, BilingualMessage> {
    let (how, secret) = config_and_key(config, name, ModelId::parse_reranker)?;
    doran_llm::open_reranker(&how, secret).map_err(|error| cannot_open(("리랭커", "reranker"), name, error))
}

fn cannot_open((ko, en): (&str, &str), name: &str, error: OpenModelError) -> BilingualMessage {
    let failed = bilingual!("{ko} `{name}`을(를) 열 수 없습니다", "cannot open the {en} `{name}`");
    with_cause_and_advice(failed, error)
}

/// The sentence with its cause and what to do about it. The cause is left out where the advice says it too.
pub(crate) fn with_cause_and_advice(failed: BilingualMessage, error: OpenModelError) -> BilingualMessage {
    let BilingualMessage { ko, en, .. } = failed;
    let (advice_ko, advice_en) = error.advice();
    let cause = match &error {
        OpenModelError::NoKey { .. } | OpenModelError::NoAddress { .. } => String::new(),
        OpenModelError::Id(_) | OpenModelError::Setting(_) => format!(" ({error})"),
    };
    let (ko, en) = (format!("{ko}{cause}. {advice_ko}"), format!("{en}{cause}. {advice_en}"));
    BilingualMessage::new(ko, en).saying_cause(error)
}

/// The key with which stored keys of providers are encrypted.
pub(super) fn model_encryption_key(config: &Config) -> Result<[u8; 32], BilingualMessage> {
    super::tools::derive_key(config, super::tools::MODELS_KEY)
}

/// The key of a provider: from the variable that the settings name, else the stored one, else from the provider's own
/// variable.
pub(super) fn provider_key(
    config: &Config,
    provider: &str,
    variable: Option<&str>,
) -> Result<ModelApiKey, BilingualMessage> {
    let from_variable = |variable: &str| {
        config.secrets.get(variable).map_or_else(ModelApiKey::none, |key| ModelApiKey::new(key.reveal()))
    };
    if let Some(variable) = variable {
        return Ok(from_variable(variable));
    }
    let stored = StoredModels::read(&config.data_dir)?;
    if stored.has_key(provider)
        && let Some(key) = stored.key(provider, &model_encryption_key(config)?)
    {
        return Ok(ModelApiKey::new(key?.reveal()));
    }
    let vendor = find_vendor(provider).or_else(|| find_rerank_vendor(provider));
    Ok(from_variable(vendor.map_or("", |vendor| vendor.key_variable)))
}

/// The connection settings of the model with this name, and its API key.
pub(crate) fn model_config_and_key(
    config: &Config,
    name: &str,
) -> Result<(ModelConfig, ModelApiKey), BilingualMessage> {
    config_and_key(config, name, str::parse)
}

fn config_and_key(
    config: &Config,
    name: &str,
    parse: impl Fn(&str) -> Result<ModelId, ModelIdError>,
) -> Result<(ModelConfig, ModelApiKey), BilingualMessage> {
    let table = config.tables.models.get(name);
    let id = parse(table.map_or(name, |table| &table.id)).map_err(|error| {
        bilingual!(
            "모델 `{name}`이(가) 없습니다. `doran models`가 쓸 수 있는 모델을 보여 줍니다",
            "there is no model `{name}`; `doran models` lists what can be used"
        )
        .with_cause(error)
    })?;
    let variable = table.and_then(|table| table.key_variable.as_deref());
    let secret = provider_key(config, &id.provider, variable)?;
    let mut how = ModelConfig::new(id);
    if let Some(table) = table {
        how.base_url.clone_from(&table.base_url);
        how.streaming = if table.whole { StreamingMode::Whole } else { StreamingMode::Streamed };
    }
    Ok((how, secret))
}
