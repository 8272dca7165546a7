//! Builds the application: turns the settings into a store, a runtime and agents. The only module that names every
//! part.

pub(crate) mod model;
mod model_registry;
pub(crate) mod samples;
pub(crate) mod search_index;
pub(crate) mod telemetry;
mod tools;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use doran_agents::memory::MemoryStore;
use doran_agents::tools::{ToolSecret, Toolbox};
use doran_agents::{
    Agent, AgentError, AgentParts, ModelCatalog, ModelInfo, ModelKind, QueryRewriting, Settings,
    ThreadStorage, described,
};
use doran_engine::store::{IdempotencyStore, RamStore, Store};
use doran_engine::{RunLimits, Runtime, RuntimeOptions, TenantId};
use doran_llm::Embedder;
use doran_retrieval::{
    DocumentFilter, DocumentId, DocumentIndex, Library, LibraryError, LibraryOptions, LockedLibrary,
    RerankingIndex,
};
use doran_server::{AllowedOrigin, ApiKeys, ModelRegistry, MonthlyBudget, ServerApp, Telemetry};
use doran_store::{FileStoreMaintenance, OpenedStore, StorePerGraph};
use tokio_util::sync::CancellationToken;

use self::search_index::OpenedIndex;
use crate::agent_files::{AgentFileBuilder, BuiltAgents, agent_folder};
use crate::commands::ingest::{progress_bar, show_vector_progress};
use crate::config::{Config, Database, SearchStore};
use crate::data_dir::{DataDirLock, ensure_private_dir, exposed_database_files, make_private};
use crate::exit::UnknownWriteOutcome;
use crate::output::{BilingualMessage, TerminalOutput, bilingual, pluralize};
use crate::replica::shared_models::SharedModels;
use crate::replica::{SharedLibraryDatabase, SharedValues, open_shared_values, shares_documents};

pub(crate) use model::RecordReplay;
use model_registry::ProgramModels;
pub(crate) use tools::{read_mcp_pins, shared_key_hash};

/// Up to so many passages get their vectors when a command starts: it takes less than a second.
const MAX_EMBEDDED_AT_START: usize = 256;

/// Whether building may write to the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataDirWrites {
    Allowed,
    Forbidden,
}

/// The agents and the parts they are built from.
pub(crate) struct Agents {
    pub(crate) agents: Vec<Agent>,
    files: AgentFileBuilder,
    pub(crate) model: ModelInfo,
    /// The models that chats choose.
    models: Arc<ProgramModels>,
    pub(crate) tools: Toolbox,
    memories: Option<Arc<dyn MemoryStore>>,
    /// Notices for the user that do not prevent a start.
    pub(crate) notes: Vec<BilingualMessage>,
}

/// Everything a command works with.
pub(crate) struct App {
    pub(crate) runtime: Runtime,
    /// Measures and traces its runs.
    pub(crate) telemetry: Telemetry,
    pub(crate) tenant: TenantId,
    pub(crate) agents: Vec<Agent>,
    /// Builds the agents that files describe.
    pub(crate) agent_files: AgentFileBuilder,
    pub(crate) model: Arc<ModelInfo>,
    /// The models that chats choose.
    models: Arc<ProgramModels>,
    budget: Option<MonthlyBudget>,
    krw_per_usd: Option<u64>,
    /// Notices for the user that do not prevent a start.
    pub(crate) notes: Vec<BilingualMessage>,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<AllowedOrigin>,
    /// The ingested documents and their index.
    pub(crate) library: Library,
    pub(crate) index: Arc<dyn DocumentIndex>,
    /// The encoder of the search.
    encoder: Option<Arc<dyn Embedder>>,
    /// Memories that agents keep across threads.
    memories: Option<Arc<dyn MemoryStore>>,
    /// The API keys of the HTTP server. If there are none, only this machine has access.
    pub(crate) keys: ApiKeys,
    /// The responses to HTTP requests with an idempotency key.
    idempotency: Arc<dyn IdempotencyStore>,
    /// The stores that are local files.
    file_maintenance: Vec<Arc<dyn FileStoreMaintenance>>,
    /// Whether the store was created by this start.
    pub(crate) store_is_new: bool,
    sample_policy: SampleDocumentPolicy,
    _data_dir_lock: Option<DataDirLock>,
}

/// The opened store and the lock on its data directory, without a runtime or agents.
pub(crate) struct LockedStore {
    pub(crate) store: Arc<dyn Store>,
    idempotency: Arc<dyn IdempotencyStore>,
    /// What replicas share, if they can.
    shared: Option<SharedValues>,
    /// The stores that are local files.
    file_maintenance: Vec<Arc<dyn FileStoreMaintenance>>,
    /// Whether the store was created by this start.
    is_new: bool,
    data_dir_lock: Option<DataDirLock>,
}

/// Locks the data directory and opens its store.
pub(crate) async fn open_locked_store(config: &Config) -> anyhow::Result<LockedStore> {
    let (held, new) = match &config.database {
        Database::Sqlite(path) => (Some(DataDirLock::acquire(&config.data_dir)?), !path.exists()),
        // Replicas share a database server. Their data directories are not locked here.
        Database::Postgres(_) => {
            ensure_private_dir(&config.data_dir)?;
            (None, false)
        }
    };
    let OpenedStore { store, mut idempotency, key_values: shared, file_maintenance } =
        open_database(&config.database).await?;
    let mut file_maintenance: Vec<_> = file_maintenance.into_iter().collect();
    let storage = agents_by_storage(config, &config.tables.agent_settings())?;
    if storage.is_empty() {
        return Ok(LockedStore {
            store,
            idempotency,
            shared,
            file_maintenance,
            is_new: new,
            data_dir_lock: held,
        });
    }
    let mut stores = StorePerGraph::new(store);
    for (file, agents) in storage {
        let Some(path) = file else {
            let store = Arc::new(RamStore::new());
            // The stored responses contain parts of threads.
            idempotency = store.clone();
            stores = stores.with_store(store, agents);
            continue;
        };
        let opened = open_database(&Database::Sqlite(path)).await?;
        file_maintenance.extend(opened.file_maintenance);
        stores = stores.with_store(opened.store, agents);
    }
    let store = Arc::new(stores);
    Ok(LockedStore { store, idempotency, shared, file_maintenance, is_new: new, data_dir_lock: held })
}

pub(crate) async fn open_database(database: &Database) -> anyhow::Result<OpenedStore> {
    make_private(&exposed_database_files(database));
    Ok(doran_store::open(&database.url()).await.map_err(|error| {
        bilingual!("저장소 `{database}`을(를) 열 수 없습니다", "cannot open the store `{database}`")
            .with_cause(error)
    })?)
}

/// The agents whose threads are not in `database`, by the file that has them, or by none if it is memory.
fn agents_by_storage(
    config: &Config,
    settings: &Settings,
) -> Result<BTreeMap<Option<PathBuf>, Vec<String>>, BilingualMessage> {
    let mut agents: BTreeMap<Option<PathBuf>, Vec<String>> = BTreeMap::new();
    for (name, settings) in settings.by_agent() {
        let file = match settings.thread_storage(name).map_err(agents_error)? {
            ThreadStorage::Shared => continue,
            ThreadStorage::Memory => None,
            ThreadStorage::File(path) => Some(config.resolve_settings_path(path)),
        };
        if file.as_ref().is_some_and(|path| config.database == Database::Sqlite(path.clone())) {
            continue;
        }
        agents.entry(file).or_default().push(name.to_owned());
    }
    Ok(agents)
}

/// Whether the sample documents are searchable while there are no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SampleDocumentPolicy {
    ShowWhileEmpty,
    Hide,
}

/// Whether queued documents are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingDocumentPolicy {
    /// Read queued documents as long as the application runs.
    ReadPending,
    /// Do not read them, because the command would end before it could read much.
    LeavePending,
}

/// Builds the application for a command that ends soon. Queued documents are not read.
pub(crate) async fn assemble_app(config: &Config, record_replay: &RecordReplay) -> anyhow::Result<App> {
    let mut app = build_app(
        config,
        record_replay,
        SampleDocumentPolicy::ShowWhileEmpty,
        PendingDocumentPolicy::LeavePending,
    )
    .await?;
    app.notes.extend(app.pending_documents_message());
    Ok(app)
}

/// Like [`assemble_app`], for a command that keeps running. Queued documents are read.
pub(crate) async fn assemble_app_reading_documents(
    config: &Config,
    record_replay: &RecordReplay,
) -> anyhow::Result<App> {
    build_app(config, record_replay, SampleDocumentPolicy::ShowWhileEmpty, PendingDocumentPolicy::ReadPending)
        .await
}

/// Like [`assemble_app_reading_documents`], without the sample documents.
pub(crate) async fn assemble_app_without_samples(
    config: &Config,
    record_replay: &RecordReplay,
) -> anyhow::Result<App> {
    build_app(config, record_replay, SampleDocumentPolicy::Hide, PendingDocumentPolicy::ReadPending).await
}

async fn build_app(
    config: &Config,
    record_replay: &RecordReplay,
    shown: SampleDocumentPolicy,
    reading: PendingDocumentPolicy,
) -> anyhow::Result<App> {
    let LockedStore { store, idempotency, shared, file_maintenance, is_new: new, data_dir_lock: held } =
        open_locked_store(config).await?;
    let run_limits = RunLimits {
        steps: config.max_steps,
        active: Some(config.run_timeout),
        tokens: config.max_run_tokens,
        cost_micros: config.max_run_cost_micros,
        ..RunLimits::default()
    };
    let telemetry = Telemetry::new(config.telemetry.clone());
    let options = RuntimeOptions {
        worker: Some(config.worker.clone()),
        lease: config.lease,
        limits: run_limits.clone(),
        observer: Some(Arc::new(telemetry.clone())),
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::with_options(store, options);
    let locked_library = lock_library(config).await?;
    let mut index_notes = telemetry::start_telemetry(&telemetry, &runtime, &config.telemetry);
    let OpenedIndex { index, encoder } = search_index::open_index(config, &mut index_notes).await?;
    let index: Arc<dyn DocumentIndex> = Arc::new(RerankingIndex::new(index));
    let library = open_library(config, locked_library, index.clone(), reading, shared.as_ref()).await?;
    match shown {
        SampleDocumentPolicy::ShowWhileEmpty => {
            if let removed @ 1.. = samples::remove_ingested_samples(&library).await? {
                let documents = pluralize(removed, "sample document");
                index_notes.push(bilingual!(
                    "예전 `doran demo`가 넣은 본보기 문서 {removed}개를 문서 목록에서 지웠습니다",
                    "removed {documents} that an earlier `doran demo` had added to your documents"
                ));
            }
            samples::update_samples(index.as_ref()).await?;
        }
        SampleDocumentPolicy::Hide => drop(samples::remove_samples(index.as_ref()).await?),
    }
    if index.passages_without_vectors() <= MAX_EMBEDDED_AT_START {
        embed_missing(index.as_ref(), |_| {}).await?;
    } else {
        index_notes.push(missing_vectors_message(index.passages_without_vectors(), reading));
    }
    let Agents { agents, files: agent_files, model, models, memories, mut notes, .. } =
        assemble_sharing_agents(
            config,
            record_replay,
            index.clone(),
            DataDirWrites::Allowed,
            shared.as_ref(),
        )
        .await?;
    notes.extend(index_notes);
    for agent in &agents {
        agent.register(&runtime)?;
    }
    let (tenant, model, keys) = (TenantId::local(), Arc::new(model), ApiKeys::default());
    let hosts = config.allowed_hosts.clone();
    Ok(App {
        runtime,
        telemetry,
        tenant,
        agents,
        agent_files,
        model,
        models,
        budget: config.monthly_budget_micros.map(|micros| MonthlyBudget::new(micros, run_limits)),
        krw_per_usd: config.krw_per_usd,
        notes,
        allowed_hosts: hosts,
        allowed_origins: config.allowed_origins.clone(),
        library,
        index,
        encoder,
        memories,
        keys,
        idempotency,
        file_maintenance,
        store_is_new: new,
        sample_policy: shown,
        _data_dir_lock: held,
    })
}

/// The message about passages that only a keyword search finds.
fn missing_vectors_message(count: usize, reading: PendingDocumentPolicy) -> BilingualMessage {
    let passages = pluralize(count, "passage");
    match reading {
        PendingDocumentPolicy::ReadPending => bilingual!(
            "문단 {count}개의 벡터를 백그라운드에서 계산합니다. 그동안 이 문단은 키워드로만 검색됩니다",
            "the vectors of {passages} are computed in the background; until then these are found by keywords only"
        ),
        PendingDocumentPolicy::LeavePending => bilingual!(
            "문단 {count}개에 아직 벡터가 없어 키워드로만 검색됩니다. `doran documents read`나 `doran serve`가 이어서 계산합니다",
            "{passages} have no vectors yet and are found by keywords only; `doran documents read` or `doran serve` computes the rest"
        ),
    }
}

/// Computes the vectors that an index lacks. `progress` gets the number of passages that are still without.
pub(crate) async fn embed_missing(
    index: &dyn DocumentIndex,
    progress: impl Fn(usize),
) -> Result<(), doran_retrieval::RetrieveError> {
    if index.passages_without_vectors() > 0 {
        progress(index.passages_without_vectors());
        loop {
            let left = index.embed_some().await?;
            progress(left);
            if left == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// Locks the library in the data directory. This is done before its index is opened or rebuilt, so that no other
/// process writes to the index. With a database server this is the only lock on the directory.
async fn lock_library(config: &Config) -> Result<LockedLibrary, BilingualMessage> {
    let path = config.data_dir.join("library");
    Library::lock_directory(&path).await.map_err(|error| library_open_error(&path, error))
}

/// Opens the locked library and syncs the index: adds ready documents that are missing, and removes documents that
/// were deleted while another index was in use. Queued documents are read after that.
async fn open_library(
    config: &Config,
    taken: LockedLibrary,
    index: Arc<dyn DocumentIndex>,
    reading: PendingDocumentPolicy,
    shared: Option<&SharedValues>,
) -> Result<Library, BilingualMessage> {
    let path = config.data_dir.join("library");
    let mut options = LibraryOptions::default();
    if reading == PendingDocumentPolicy::LeavePending {
        options.workers = 0;
    }
    if let Some(values) = shared.filter(|_| shares_documents(config)) {
        let database = Arc::new(SharedLibraryDatabase(values.clone()));
        let process = uuid::Uuid::new_v4().simple().to_string();
        let opened = Library::open_shared(taken, database, index, options, process).await;
        return opened.map_err(|error| library_open_error(&path, error));
    }
    let samples = samples::sample_documents();
    // A cluster may contain documents of other data directories.
    let shared = matches!(config.search.store, SearchStore::OpenSearch(_));
    let aside = |id: &DocumentId| shared || samples.iter().any(|sample| sample.id == *id);
    Library::open_synced(taken, index, options, aside).await.map_err(|error| library_open_error(&path, error))
}

fn library_open_error(path: &Path, error: LibraryError) -> BilingualMessage {
    let (shown, ko) = (path.display(), error.message_ko());
    bilingual!("문서 보관함 `{shown}`을(를) 열 수 없습니다: {ko}", "cannot open the library `{shown}`")
        .with_cause(error)
}

impl LockedStore {
    /// The library, if this process alone may change the data directory. Queued documents are not read.
    pub(crate) async fn open_library(
        &self,
        config: &Config,
        notes: &mut Vec<BilingualMessage>,
    ) -> anyhow::Result<Option<Library>> {
        if self.data_dir_lock.is_none() {
            return Ok(None);
        }
        let locked_library = lock_library(config).await?;
        let OpenedIndex { index, .. } = search_index::open_index(config, notes).await?;
        let (reading, shared) = (PendingDocumentPolicy::LeavePending, self.shared.as_ref());
        Ok(Some(open_library(config, locked_library, index, reading, shared).await?))
    }
}

/// Rebuilds the index from the library. Returns the number of documents and passages in it.
pub(crate) async fn rebuild_index_from_library(
    config: &Config,
    output: TerminalOutput,
) -> anyhow::Result<(usize, usize)> {
    let opened = open_locked_store(config).await?;
    let locked_library = lock_library(config).await?;
    let index = search_index::rebuild_index(config, output).await?;
    // Documents that replicas share are queued to be indexed, so that each of them is indexed once.
    let reading = match shares_documents(config) {
        true => PendingDocumentPolicy::ReadPending,
        false => PendingDocumentPolicy::LeavePending,
    };
    let library =
        open_library(config, locked_library, index.clone(), reading, opened.shared.as_ref()).await?;
    if reading == PendingDocumentPolicy::ReadPending {
        library.wait_until_idle().await;
        library.stop_workers().await;
    }
    let bar = progress_bar(0, output);
    embed_missing(index.as_ref(), |left| show_vector_progress(&bar, left)).await?;
    bar.finish_and_clear();
    let mut tenants: Vec<_> = library.tenants();
    let local = doran_retrieval::DocumentTenant::new(TenantId::local().as_str());
    if !tenants.contains(&local) {
        tenants.push(local);
    }
    let (mut documents, mut passages) = (0, 0);
    for tenant in tenants {
        let listed = index.list(&tenant, &DocumentFilter::default()).await?;
        documents += listed.len();
        passages += listed.iter().map(|listed| listed.passages).sum::<usize>();
    }
    Ok((documents, passages))
}

/// Builds the agents with their models and tools: the built-in ones as changed by the settings, those the settings
/// add, and those described by files in `agents/` of the data directory.
pub(crate) async fn assemble_agents(
    config: &Config,
    record_replay: &RecordReplay,
    index: Arc<dyn DocumentIndex>,
    keep: DataDirWrites,
) -> anyhow::Result<Agents> {
    assemble_sharing_agents(config, record_replay, index, keep, None).await
}

/// Like [`assemble_agents`], with what replicas share.
async fn assemble_sharing_agents(
    config: &Config,
    record_replay: &RecordReplay,
    index: Arc<dyn DocumentIndex>,
    keep: DataDirWrites,
    shared: Option<&SharedValues>,
) -> anyhow::Result<Agents> {
    let shared_models = match shared {
        Some(values) => Some(SharedModels::open(config, values).await?),
        None => None,
    };
    let model::OpenedModels { main, small, named, registry } =
        model::open_models(config, record_replay, shared_models)?;
    let about = main.info();
    let tools::AssembledTools { toolbox: tools, memories, mut notes } =
        tools::assemble_tools(config, keep, shared).await?;
    let rewriting = effective_rewriting(config, &small.info(), &mut notes);
    let catalog: Arc<dyn ModelCatalog> = registry.clone();
    let http = described::HttpCallParts {
        proxy: config.tables.tools.proxy.clone(),
        variable: Arc::new(|name| {
            std::env::var(name).ok().filter(|key| !key.is_empty()).map(ToolSecret::new)
        }),
    };
    let parts = AgentParts {
        small,
        tools: tools.clone(),
        named,
        rewriting,
        catalog: Some(catalog),
        http,
        ..AgentParts::new(main, index)
    };
    notes.extend(small_model_note(config));
    let settings = config.tables.agent_settings();
    let other_agents = doran_agents::build_agents(&settings, &parts).map_err(agents_error)?;
    let folder = agent_folder(&config.data_dir);
    let files = AgentFileBuilder { folder, parts, other_agents, graphs: settings.graphs };
    let BuiltAgents { agents, broken } = files.build();
    notes.extend(broken);
    Ok(Agents { agents, files, model: about, models: registry, tools, memories, notes })
}

/// Opens the memories of agents, for commands that list or delete them.
pub(crate) async fn open_memories(config: &Config) -> anyhow::Result<Arc<dyn MemoryStore>> {
    ensure_private_dir(&config.data_dir)?;
    let shared = open_shared_values(config).await?;
    let memories = tools::open_memory_store(config, DataDirWrites::Allowed, shared.as_ref()).await?;
    memories.ok_or_else(|| {
        bilingual!(
            "기억이 꺼져 있습니다. 설정의 `[tools]`에 `memory = true`를 적어 켜세요",
            "memory is switched off; switch it on with `memory = true` in `[tools]` of the settings"
        )
        .into()
    })
}

fn agents_error(error: AgentError) -> BilingualMessage {
    bilingual!(
        "에이전트를 만들 수 없습니다. 설정의 `[agents]`, `[assistants]`, `[[graphs]]`를 고치세요",
        "the agents cannot be made; correct `[agents]`, `[assistants]`, `[[graphs]]` in the settings"
    )
    .with_cause(error)
}

/// Says which model makes the short decisions, if nobody chose it.
fn small_model_note(config: &Config) -> Option<BilingualMessage> {
    let small = config.small_model.as_ref().filter(|_| config.small_model_is_default)?;
    Some(bilingual!(
        "짧은 판단에는 `{small}`을(를) 씁니다. 한 모델만 쓰려면 설정에 `small_model = \"same\"`을 적으세요",
        "`{small}` makes short decisions; to use one model only, set `small_model = \"same\"`"
    ))
}

/// The effective query rewriting. The built-in model cannot rewrite, so rewriting is turned off and a notice is
/// added.
fn effective_rewriting(
    config: &Config,
    small: &ModelInfo,
    notes: &mut Vec<BilingualMessage>,
) -> QueryRewriting {
    if config.search.rewriting == QueryRewriting::ByModel && small.kind == ModelKind::Extractive {
        notes.push(bilingual!(
            "`rewrite = \"on\"`이지만 내장 모델은 질문을 다른 말로 바꾸지 못하므로 그대로 찾습니다. `model`이나 `small_model`에 LLM을 고르세요",
            "`rewrite = \"on\"`, but the built-in model cannot put questions in other words; they are looked for as they are. Choose an LLM as `model` or `small_model`"
        ));
        return QueryRewriting::Off;
    }
    config.search.rewriting
}

impl App {
    /// The models that chats choose, and the default of now.
    pub(crate) fn models(&self) -> Arc<dyn ModelRegistry> {
        self.models.clone()
    }

    /// The ids of the models that a chat can choose.
    pub(crate) fn model_ids(&self) -> Vec<String> {
        self.models.options().into_iter().map(|option| option.id).collect()
    }

    /// A notice about documents that are not searchable yet, if there are any.
    pub(crate) fn pending_documents_message(&self) -> Option<BilingualMessage> {
        let waiting = self.library.pending_count(&doran_retrieval::DocumentTenant::new(self.tenant.as_str()));
        let documents = pluralize(waiting, "document");
        (waiting > 0).then(|| {
            bilingual!(
                "문서 {waiting}개를 아직 읽지 않아 찾을 수 없습니다. `doran documents read`나 `doran serve`가 이어서 읽습니다",
                "not read yet, and not to be found until then: {documents}; `doran documents read` or `doran serve` reads on"
            )
        })
    }

    /// A notice about passages without vectors, if there are any.
    pub(crate) fn missing_vectors_message(&self) -> Option<BilingualMessage> {
        let count = self.index.passages_without_vectors();
        (count > 0).then(|| missing_vectors_message(count, PendingDocumentPolicy::LeavePending))
    }

    /// Adds or removes the sample documents after a command changed the library. Returns what changed, if anything.
    pub(crate) async fn update_samples(&self) -> anyhow::Result<Option<samples::SamplesChange>> {
        match self.sample_policy {
            SampleDocumentPolicy::ShowWhileEmpty => samples::update_samples(self.index.as_ref()).await,
            SampleDocumentPolicy::Hide => Ok(None),
        }
    }

    /// Follows the models that other replicas change, until `stop`.
    pub(crate) fn keep_models_updated(&self, stop: CancellationToken) {
        tokio::spawn(self.models.clone().follow_shared(stop));
    }

    /// Adds or removes the sample documents whenever the library changes, until `stop`.
    pub(crate) fn keep_samples_updated(&self, stop: CancellationToken) {
        if self.sample_policy == SampleDocumentPolicy::ShowWhileEmpty {
            tokio::spawn(samples::keep_samples_updated(self.index.clone(), self.library.clone(), stop));
        }
    }

    /// The limits of a run that starts now, where a budget of the month sets them. An error if it is spent.
    pub(crate) async fn run_limits(&self) -> anyhow::Result<Option<RunLimits>> {
        let Some(budget) = &self.budget else { return Ok(None) };
        match budget.run_limits(&self.runtime, &self.tenant, None).await? {
            Some(limits) => Ok(Some(limits)),
            None => Err(bilingual!(
                "이번 달 예산을 다 썼습니다. 예산은 `monthly_budget_cents`로 정합니다",
                "the budget of this month is spent; `monthly_budget_cents` sets it"
            )
            .with_code("budget_spent")
            .into()),
        }
    }

    /// The parts the HTTP server needs.
    pub(crate) fn server_app(&self) -> ServerApp {
        let app = ServerApp::new(self.runtime.clone(), self.idempotency.clone(), self.agents.clone());
        let app = match &self.memories {
            Some(memories) => app.memories(memories.clone()),
            None => app,
        };
        let app = match &self.encoder {
            Some(encoder) => app.embedder(encoder.clone()),
            None => app,
        };
        let app = match &self.budget {
            Some(budget) => app.budget(budget.clone()),
            None => app,
        };
        let app = match self.krw_per_usd.and_then(|rate| u32::try_from(rate).ok()) {
            Some(rate) => app.krw_per_usd(rate.into()),
            None => app,
        };
        app.models(self.models.clone())
            .telemetry(&self.telemetry)
            .index(self.index.clone())
            .library(self.library.clone())
            .keys(self.keys.clone())
            .allowed_hosts(self.allowed_hosts.clone())
            .allowed_origins(self.allowed_origins.clone())
    }

    /// Returns when a write to the local file failed in a way that only a restart can resolve, with the reason. With
    /// a database server this never returns: the affected run is read again and continues.
    pub(crate) async fn wait_for_unknown_write(&self) -> UnknownWriteOutcome {
        let mut waiting = tokio::task::JoinSet::new();
        for file in &self.file_maintenance {
            let file = file.clone();
            waiting.spawn(async move { file.wait_for_fatal_error().await });
        }
        match waiting.join_next().await {
            Some(Ok(reason)) => UnknownWriteOutcome(reason.to_string()),
            Some(Err(error)) => UnknownWriteOutcome(error.to_string()),
            None => std::future::pending().await,
        }
    }
}
