//! Opens the models that the settings choose. Nothing is opened that was not chosen, and no key is sent to anybody else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use doran_llm::{
    ChatModel, ModelConfig, ModelId, OFFLINE_MODEL, OfflineModel, Priced, Prices, Recording, Replaying,
    Secret, Streaming, vendor,
};

use crate::config::Config;
use crate::output::{Both, both};

/// A file of answers: written, or read instead of asking anybody.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Tape {
    /// Write every answer of a model to this file · 모델의 답을 모두 이 파일에 적는다
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Answer from this file, and ask no model · 모델에 묻지 않고 이 파일에서 답한다
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
}

/// The models that agents are made with.
pub(super) struct Opened {
    pub(super) main: Arc<dyn ChatModel>,
    pub(super) small: Arc<dyn ChatModel>,
    /// Those that agents name, by what they call them.
    pub(super) named: BTreeMap<String, Arc<dyn ChatModel>>,
}

/// Opens all of them.
pub(super) fn open(config: &Config, tape: &Tape) -> Result<Opened, Both> {
    let agents = config.tables.agents();
    let names = agents.models();
    if let Some(path) = &tape.replay {
        let shown = path.display();
        let replaying = Replaying::from(path).map_err(|error| {
            both!("녹음 `{shown}`을(를) 읽을 수 없습니다", "cannot read the recording `{shown}`")
                .because(error)
        })?;
        let model: Arc<dyn ChatModel> = Arc::new(replaying);
        let named = names.into_iter().map(|name| (name.to_owned(), model.clone())).collect();
        return Ok(Opened { small: model.clone(), main: model, named });
    }
    let taped = |model: Arc<dyn ChatModel>| -> Result<Arc<dyn ChatModel>, Both> {
        let Some(path) = &tape.record else { return Ok(model) };
        let shown = path.display();
        let recording = Recording::to(model, path).map_err(|error| {
            both!("`{shown}`에 녹음할 수 없습니다", "cannot record to `{shown}`").because(error)
        })?;
        Ok(Arc::new(recording))
    };
    let prices = Arc::new(prices(config)?);
    let counted = |name: &str| -> Result<Arc<dyn ChatModel>, Both> {
        let model = taped(one(config, name)?)?;
        affordable(config, &prices, &model.about().name)?;
        Ok(Arc::new(Priced::new(model, prices.clone())))
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
    Ok(Opened { main, small, named })
}

/// What models cost: the prices that come with the program, and those of `[prices]` over them.
pub(crate) fn prices(config: &Config) -> Result<Prices, Both> {
    let built_in = Prices::built_in().map_err(|error| {
        both!("내장된 가격표를 읽을 수 없습니다", "the built-in prices cannot be read").because(error)
    })?;
    let own = &config.tables.prices;
    Ok(own.iter().fold(built_in, |prices, (name, price)| prices.with_price(name, *price)))
}

/// A limit on money is kept only where every model has a price.
fn affordable(config: &Config, prices: &Prices, name: &str) -> Result<(), Both> {
    if config.max_run_cost_micros.is_none() || prices.knows(name) {
        return Ok(());
    }
    Err(both!(
        "`{name}`의 가격을 몰라 `max_run_cost_cents`를 지킬 수 없습니다. `[prices.\"{name}\"]`에 `input`과 `output`(백만 토큰당 미국 달러)을 적거나, `max_run_tokens`를 쓰세요",
        "`max_run_cost_cents` cannot be kept: the price of `{name}` is not known. Write `input` and `output` (US dollars for a million tokens) into `[prices.\"{name}\"]`, or use `max_run_tokens`"
    ))
}

/// The model of this name.
pub(crate) fn one(config: &Config, name: &str) -> Result<Arc<dyn ChatModel>, Both> {
    if name == OFFLINE_MODEL {
        return Ok(Arc::new(OfflineModel));
    }
    let (how, secret) = reached(config, name)?;
    doran_llm::open(&how, secret).map_err(|error| {
        let (ko, en) = error.advice();
        both!("모델 `{name}`을(를) 열 수 없습니다. {ko}", "cannot open the model `{name}`. {en}")
            .because(error)
    })
}

/// How the model of this name is reached, and its key: the vendor's own variable, or the one the settings name.
pub(crate) fn reached(config: &Config, name: &str) -> Result<(ModelConfig, Secret), Both> {
    let table = config.tables.models.get(name);
    let id: ModelId =
        table.map_or(name, |table| &table.id).parse().map_err(|error: doran_llm::ModelIdError| {
            both!(
                "모델 `{name}`이(가) 없습니다. `doran models`가 쓸 수 있는 모델을 보여 줍니다",
                "there is no model `{name}`; `doran models` lists what can be used"
            )
            .because(error)
        })?;
    let usual = vendor(&id.provider).map_or("", |vendor| vendor.key_variable);
    let variable = table.and_then(|table| table.key_variable.as_deref()).unwrap_or(usual);
    let secret = config.secrets.get(variable).map_or_else(Secret::none, |key| Secret::new(key.reveal()));
    let mut how = ModelConfig::new(id);
    if let Some(table) = table {
        how.base_url.clone_from(&table.base_url);
        how.streaming = if table.whole { Streaming::Whole } else { Streaming::Pieces };
    }
    Ok((how, secret))
}
