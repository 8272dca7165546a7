//! The models of a running server: the default, which can be changed while it runs, and those that chats choose by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use doran_agents::ModelCatalog;
use doran_llm::{
    ChatModel, ChatRequest, DeltaStream, KeyRequirement, Message, ModelConfig, ModelError, ModelId,
    ModelInfo, ModelRole, Usage, VENDORS, collect_reply, find_vendor,
};
use doran_offline::OFFLINE_MODEL;
use doran_server::api::{
    ModelKeyOrigin, ModelOffers, ModelOption, ModelTest, ModelTestError, OfferedModelProvider,
    OfferedModelServer,
};
use doran_server::{ModelRegistry, ModelRegistryError, SubmittedModelKey};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::model::{ModelOpener, model_encryption_key, provider_key};
use crate::commands::models::write_model_setting;
use crate::output::{BilingualMessage, bilingual};
use crate::replica::shared_models::SharedModels;
use crate::secret::SecretText;
use crate::stored_models::StoredModels;

/// How long a model may take to answer a test. A local server may have to load it first.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);
/// The most tokens of the answer to a test. Reasoning counts.
const MAX_TEST_TOKENS: u64 = 200;
/// The most models listed of one provider or server.
const MAX_LISTED_MODELS: usize = 300;

/// The model that agents use when a chat chooses none. It can be replaced while runs go on: a request that was sent is
/// answered by the model it was sent to.
pub(super) struct DefaultModel(RwLock<(String, Arc<dyn ChatModel>)>);

impl DefaultModel {
    pub(super) fn new(name: &str, model: Arc<dyn ChatModel>) -> Self {
        Self(RwLock::new((name.to_owned(), model)))
    }

    fn current(&self) -> (String, Arc<dyn ChatModel>) {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, name: &str, model: Arc<dyn ChatModel>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = (name.to_owned(), model);
    }
}

impl ChatModel for DefaultModel {
    fn info(&self) -> ModelInfo {
        self.current().1.info()
    }

    fn info_for_role(&self, role: ModelRole) -> ModelInfo {
        self.current().1.info_for_role(role)
    }

    fn cost_micros(&self, role: ModelRole, usage: &Usage) -> Option<u64> {
        self.current().1.cost_micros(role, usage)
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        self.current().1.stream(request)
    }
}

/// The models of this program.
pub(crate) struct ProgramModels {
    opener: ModelOpener,
    default: Arc<DefaultModel>,
    /// Models that were opened by name.
    opened: Mutex<BTreeMap<String, Arc<dyn ChatModel>>>,
    /// Where replicas have their models in common.
    shared: Option<SharedModels>,
}

impl ProgramModels {
    pub(super) fn new(opener: ModelOpener, default: Arc<DefaultModel>, shared: Option<SharedModels>) -> Self {
        let models = Self { opener, default, opened: Mutex::default(), shared };
        models.adopt_shared_default();
        models
    }

    /// Changes the stored models, of all replicas if they have them in common.
    fn update_stored<T>(
        &self,
        change: impl Fn(&mut StoredModels) -> Result<T, BilingualMessage>,
    ) -> Result<T, BilingualMessage> {
        match &self.shared {
            None => StoredModels::update(&self.opener.config.data_dir, change),
            Some(shared) => tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(shared.update(change))
            }),
        }
    }

    /// Uses the default that was chosen on the page of any replica, unless the settings of this one name a model.
    fn adopt_shared_default(&self) {
        let (Some(_), None) = (&self.shared, &self.opener.config.model_override) else { return };
        let Some(name) = self.stored_or_warn().default_model else { return };
        if self.default.current().0 == name {
            return;
        }
        match self.opener.open(&name) {
            Ok(model) => self.default.replace(&name, model),
            Err(error) => {
                tracing::warn!(%error, "the default model that was chosen on another server cannot be opened");
            }
        }
    }

    /// Follows what other replicas change, until `stop`.
    pub(crate) async fn follow_shared(self: Arc<Self>, stop: CancellationToken) {
        if let Some(shared) = self.shared.clone() {
            let changed = move || {
                self.adopt_shared_default();
                self.reopen();
                tracing::info!("the models were changed on another server");
            };
            shared.follow(changed, stop).await;
        }
    }

    fn stored(&self) -> Result<StoredModels, BilingualMessage> {
        StoredModels::read(&self.opener.config.data_dir)
    }

    /// What was stored; nothing, and a warning, if that cannot be read.
    fn stored_or_warn(&self) -> StoredModels {
        self.stored().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the models and keys that were added; they are not used");
            StoredModels::default()
        })
    }

    /// The names that a chat can choose, the default first.
    fn names(&self) -> Vec<(String, bool)> {
        let added = self.stored_or_warn();
        let config = &self.opener.config;
        let own = [self.default.current().0, config.model.clone(), OFFLINE_MODEL.to_owned()];
        let mut names: Vec<(String, bool)> = Vec::new();
        let all = own.into_iter().chain(config.tables.models.keys().cloned()).map(|name| (name, false));
        for (name, is_added) in all.chain(added.models.into_iter().map(|name| (name, true))) {
            match names.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 |= is_added,
                None => names.push((name, is_added)),
            }
        }
        names
    }

    fn open_cached(&self, name: &str) -> Result<Arc<dyn ChatModel>, BilingualMessage> {
        let (default_name, default) = self.default.current();
        if name == default_name {
            return Ok(default);
        }
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = opened.get(name) {
            return Ok(model.clone());
        }
        let model = self.opener.open(name)?;
        opened.insert(name.to_owned(), model.clone());
        Ok(model)
    }

    /// Opens models again after a key changed.
    fn reopen(&self) {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let (name, _) = self.default.current();
        match self.opener.open(&name) {
            Ok(model) => self.default.replace(&name, model),
            Err(error) => {
                tracing::warn!(%error, "the default model cannot be opened with the new key; the old one stays in use");
            }
        }
    }

    fn check_provider(provider: &str) -> Result<(), BilingualMessage> {
        match find_vendor(provider) {
            Some(_) => Ok(()),
            None => {
                Err(bilingual!("`{provider}`라는 제공자가 없습니다", "there is no provider `{provider}`"))
            }
        }
    }

    fn set_provider_key(&self, provider: &str, key: &SubmittedModelKey) -> Result<(), BilingualMessage> {
        Self::check_provider(provider)?;
        let config = &self.opener.config;
        if let Some(shared) = &self.shared {
            shared.check_shared_key()?;
        }
        let (encryption_key, key) = (model_encryption_key(config)?, SecretText::new(key.reveal().trim()));
        self.update_stored(|stored| stored.set_key(provider, &key, &encryption_key))?;
        self.reopen();
        Ok(())
    }

    /// Without its key the default model could not be opened at the next start.
    fn check_key_is_unused(&self, provider: &str) -> Result<(), BilingualMessage> {
        let config = &self.opener.config;
        let (name, _) = self.default.current();
        let id = config.tables.models.get(&name).map_or(name.as_str(), |table| table.id.as_str());
        let is_used = id.parse::<ModelId>().is_ok_and(|id| id.provider == provider);
        let vendor = find_vendor(provider);
        let has_other = vendor.is_some_and(|vendor| config.secrets.get(vendor.key_variable).is_some());
        if !is_used || has_other {
            return Ok(());
        }
        Err(bilingual!(
            "기본 모델 `{name}`이(가) 이 키를 사용합니다. 먼저 다른 모델을 기본으로 고르세요",
            "the default model `{name}` uses this key; choose another default first"
        ))
    }

    fn change_default(&self, name: &str) -> Result<(), BilingualMessage> {
        let config = &self.opener.config;
        if let Some(variable) = &config.model_override {
            return Err(bilingual!(
                "모델이 `{variable}`(으)로 정해져 있습니다. 그것을 빼고 다시 시작하면 여기에서 고를 수 있습니다",
                "the model is set by `{variable}`; start without it to choose here"
            ));
        }
        let model = self.opener.open(name)?;
        write_model_setting(config, name)?;
        self.allow(name)?;
        if self.shared.is_some() {
            self.update_stored(|stored| {
                stored.default_model = Some(name.to_owned());
                Ok(())
            })?;
        }
        self.default.replace(name, model);
        Ok(())
    }

    /// Lets chats choose a model that can be opened.
    fn allow(&self, name: &str) -> Result<(), BilingualMessage> {
        self.opener.open(name)?;
        if name == OFFLINE_MODEL || self.opener.config.tables.models.contains_key(name) {
            return Ok(());
        }
        self.update_stored(|stored| {
            if !stored.models.iter().any(|known| known == name) {
                stored.models.push(name.to_owned());
            }
            Ok(())
        })
    }

    fn disallow(&self, name: &str) -> Result<(), BilingualMessage> {
        if self.default.current().0 == name {
            return Err(bilingual!(
                "기본 모델은 뺄 수 없습니다. 먼저 다른 모델을 기본으로 고르세요",
                "the default model cannot be removed; choose another default first"
            ));
        }
        self.update_stored(|stored| {
            let before = stored.models.len();
            stored.models.retain(|known| known != name);
            if stored.models.len() < before {
                return Ok(());
            }
            Err(bilingual!("`{name}`은(는) 추가된 모델이 아닙니다", "`{name}` is not a model that was added"))
        })
    }

    async fn list_provider(&self, provider: &str) -> Result<Vec<String>, BilingualMessage> {
        Self::check_provider(provider)?;
        let config = &self.opener.config;
        let id = ModelId { provider: provider.to_owned(), model: "-".into(), base_url: None };
        let names =
            doran_llm::list_models(&ModelConfig::new(id), provider_key(config, provider, None)?).await;
        let names = names.map_err(|error| {
            let (ko, en) = error.advice();
            bilingual!(
                "`{provider}`의 모델을 볼 수 없습니다. {ko}",
                "cannot list the models of `{provider}`. {en}"
            )
        })?;
        Ok(names.into_iter().take(MAX_LISTED_MODELS).map(|name| format!("{provider}:{name}")).collect())
    }

    async fn send_test(&self, name: &str) -> Result<ModelTest, BilingualMessage> {
        let model = super::model::open_model(&self.opener.config, name)?;
        let request = ChatRequest {
            max_output_tokens: Some(MAX_TEST_TOKENS),
            ..ChatRequest::new(vec![Message::user("test", "Reply with the single word OK.")])
        };
        let sent = Instant::now();
        let reply = tokio::time::timeout(TEST_TIMEOUT, collect_reply(model.stream(request))).await;
        let ms = u64::try_from(sent.elapsed().as_millis()).unwrap_or(u64::MAX);
        let error = match reply {
            Ok(Ok(reply)) => return Ok(ModelTest { ok: true, ms, text: Some(reply.text), error: None }),
            Ok(Err(error)) => error,
            Err(_) => {
                let reason = format!("no answer within {} seconds", TEST_TIMEOUT.as_secs());
                ModelError::Unavailable { reason, retry_after: None, source: None }
            }
        };
        let advice = error.advice();
        let error = ModelTestError {
            code: error.code().to_owned(),
            message: error.to_string(),
            en: advice.en.to_owned(),
            ko: advice.ko.to_owned(),
        };
        Ok(ModelTest { ok: false, ms, text: None, error: Some(error) })
    }
}

impl ModelCatalog for ProgramModels {
    fn open(&self, name: &str) -> Result<Arc<dyn ChatModel>, ModelError> {
        if !self.names().iter().any(|(known, _)| known == name) {
            let reason =
                format!("`{name}` is not a model of this server any more; choose another in the chat");
            return Err(ModelError::Rejected { reason });
        }
        self.open_cached(name).map_err(|error| ModelError::Rejected { reason: error.to_string() })
    }
}

impl ModelRegistry for ProgramModels {
    fn options(&self) -> Vec<ModelOption> {
        let default = self.default.current().0;
        let open = |(id, added): (String, bool)| match self.open_cached(&id) {
            Ok(model) => Some(ModelOption { is_default: id == default, id, model: model.info(), added }),
            Err(error) => {
                tracing::warn!(model = id, %error, "a model cannot be opened, and chats cannot choose it");
                None
            }
        };
        self.names().into_iter().filter_map(open).collect()
    }

    fn offers(&self) -> BoxFuture<'_, ModelOffers> {
        async {
            let found = doran_llm::discover_local_servers().await;
            let servers = found.iter().map(|server| OfferedModelServer {
                name: find_vendor(server.provider).map_or(server.provider, |vendor| vendor.name).to_owned(),
                base_url: server.base_url.clone(),
                models: server
                    .models
                    .iter()
                    .take(MAX_LISTED_MODELS)
                    .map(|name| server.model_id(name).to_string())
                    .collect(),
                loading: server.loading,
            });
            let stored = self.stored_or_warn();
            let secrets = &self.opener.config.secrets;
            let with_key = VENDORS.iter().filter(|vendor| {
                vendor.key_requirement == KeyRequirement::Required && !vendor.base_url.is_empty()
            });
            let providers = with_key.map(|vendor| OfferedModelProvider {
                id: vendor.id.to_owned(),
                name: vendor.name.to_owned(),
                variable: vendor.key_variable.to_owned(),
                key: match (stored.has_key(vendor.id), secrets.get(vendor.key_variable)) {
                    (true, _) => ModelKeyOrigin::Stored,
                    (false, Some(_)) => ModelKeyOrigin::Environment,
                    (false, None) => ModelKeyOrigin::None,
                },
            });
            ModelOffers { servers: servers.collect(), providers: providers.collect() }
        }
        .boxed()
    }

    fn provider_models<'a>(
        &'a self,
        provider: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, ModelRegistryError>> {
        async move { self.list_provider(provider).await.map_err(|error| registry_error(&error)) }.boxed()
    }

    fn test<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<ModelTest, ModelRegistryError>> {
        async move { self.send_test(model).await.map_err(|error| registry_error(&error)) }.boxed()
    }

    fn add(&self, model: &str) -> Result<(), ModelRegistryError> {
        self.allow(model).map_err(|error| registry_error(&error))
    }

    fn remove(&self, model: &str) -> Result<(), ModelRegistryError> {
        self.disallow(model).map_err(|error| registry_error(&error))
    }

    fn set_default(&self, model: &str) -> Result<(), ModelRegistryError> {
        self.change_default(model).map_err(|error| registry_error(&error))
    }

    fn set_key(&self, provider: &str, key: &SubmittedModelKey) -> Result<(), ModelRegistryError> {
        self.set_provider_key(provider, key).map_err(|error| registry_error(&error))
    }

    fn remove_key(&self, provider: &str) -> Result<(), ModelRegistryError> {
        self.check_key_is_unused(provider).map_err(|error| registry_error(&error))?;
        let removed = self.update_stored(|stored| Ok(stored.remove_key(provider)));
        if removed.map_err(|error| registry_error(&error))? {
            self.reopen();
        }
        Ok(())
    }
}

fn registry_error(error: &BilingualMessage) -> ModelRegistryError {
    ModelRegistryError {
        en: error.text(doran_retrieval::Language::English).to_owned(),
        ko: error.text(doran_retrieval::Language::Korean).to_owned(),
    }
}
