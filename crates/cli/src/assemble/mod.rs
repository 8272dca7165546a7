//! Builds the application: turns the settings into a store, a runtime and agents. The only module that names every
//! part.

pub(crate) mod model;
pub(crate) mod samples;
pub(crate) mod search_index;
mod tools;

use std::path::Path;
use std::sync::Arc;

use doran_agents::memory::MemoryStore;
use doran_agents::tools::Toolbox;
use doran_agents::{Agent, AgentParts, ModelInfo, ModelKind, PersistenceMode, QueryRewriting, described};
use doran_engine::{RunLimits, Runtime, RuntimeOptions, TenantId};
use doran_retrieval::{
    DocumentFilter, DocumentId, DocumentIndex, Library, LibraryError, LibraryOptions, LockedLibrary,
    RerankingIndex,
};
use doran_server::{ApiKeys, ServerApp};
use doran_store::{FileStoreMaintenance, OpenedStore};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Database, SearchStore};
use crate::data_dir::{DataDirLock, ensure_private_dir, exposed_database_files, make_private};
use crate::exit::UnknownWriteOutcome;
use crate::output::{BilingualMessage, TerminalOutput, bilingual, pluralize};

pub(crate) use model::RecordReplay;

/// Whether building may write to the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataDirWrites {
    Allowed,
    Forbidden,
}

/// The agents and the parts they are built from.
pub(crate) struct Agents {
    pub(crate) agents: Vec<Agent>,
    pub(crate) model: ModelInfo,
    pub(crate) tools: Toolbox,
    memories: Option<Arc<dyn MemoryStore>>,
    /// Notices for the user that do not prevent a start.
    pub(crate) notes: Vec<BilingualMessage>,
}

/// Everything a command works with.
pub(crate) struct App {
    pub(crate) runtime: Runtime,
    pub(crate) tenant: TenantId,
    pub(crate) agents: Vec<Agent>,
    pub(crate) model: Arc<ModelInfo>,
    /// Notices for the user that do not prevent a start.
    pub(crate) notes: Vec<BilingualMessage>,
    allowed_hosts: Vec<String>,
    /// The ingested documents and their index.
    pub(crate) library: Library,
    pub(crate) index: Arc<dyn DocumentIndex>,
    /// Memories that agents keep across threads.
    memories: Option<Arc<dyn MemoryStore>>,
    /// The API keys of the HTTP server. If there are none, only this machine has access.
    pub(crate) keys: ApiKeys,
    /// Set if the store is a local file.
    pub(crate) keeper: Option<Arc<dyn FileStoreMaintenance>>,
    /// Whether the store was created by this start.
    pub(crate) store_is_new: bool,
    sample_policy: SampleDocumentPolicy,
    _data_dir_lock: Option<DataDirLock>,
}

/// The opened store and the lock on its data directory, without a runtime or agents.
pub(crate) struct LockedStore {
    pub(crate) store: Arc<dyn doran_engine::store::Store>,
    /// Set if the store is a local file.
    keeper: Option<Arc<dyn FileStoreMaintenance>>,
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
    let database = &config.database;
    make_private(&exposed_database_files(database));
    let OpenedStore { store, file_maintenance: keeper } =
        doran_store::open(&database.url()).await.map_err(|error| {
            bilingual!("저장소 `{database}`을(를) 열 수 없습니다", "cannot open the store `{database}`")
                .with_cause(error)
        })?;
    Ok(LockedStore { store, keeper, is_new: new, data_dir_lock: held })
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
pub(crate) async fn assemble_app(config: &Config, tape: &RecordReplay) -> anyhow::Result<App> {
    let mut house =
        build_app(config, tape, SampleDocumentPolicy::ShowWhileEmpty, PendingDocumentPolicy::LeavePending)
            .await?;
    house.notes.extend(house.pending_documents_message());
    Ok(house)
}

/// Like [`assemble_app`], for a command that keeps running. Queued documents are read.
pub(crate) async fn assemble_app_reading_documents(
    config: &Config,
    tape: &RecordReplay,
) -> anyhow::Result<App> {
    build_app(config, tape, SampleDocumentPolicy::ShowWhileEmpty, PendingDocumentPolicy::ReadPending).await
}

/// Like [`assemble_app_reading_documents`], without the sample documents.
pub(crate) async fn assemble_app_without_samples(
    config: &Config,
    tape: &RecordReplay,
) -> anyhow::Result<App> {
    build_app(config, tape, SampleDocumentPolicy::Hide, PendingDocumentPolicy::ReadPending).await
}

async fn build_app(
    config: &Config,
    tape: &RecordReplay,
    shown: SampleDocumentPolicy,
    reading: PendingDocumentPolicy,
) -> anyhow::Result<App> {
    let LockedStore { store, keeper, is_new: new, data_dir_lock: held } = open_locked_store(config).await?;
    let limits = RunLimits {
        steps: config.max_steps,
        active: Some(config.run_timeout),
        tokens: config.max_run_tokens,
        cost_micros: config.max_run_cost_micros,
        ..RunLimits::default()
    };
    let options = RuntimeOptions {
        worker: Some(config.worker.clone()),
        lease: config.lease,
        limits,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::with_options(store, options);
    let taken = lock_library(config).await?;
    let mut told = Vec::new();
    let index: Arc<dyn DocumentIndex> =
        Arc::new(RerankingIndex::new(search_index::open_index(config, &mut told).await?));
    let library = open_library(config, taken, index.clone(), reading).await?;
    match shown {
        SampleDocumentPolicy::ShowWhileEmpty => drop(samples::update_samples(index.as_ref()).await?),
        SampleDocumentPolicy::Hide => drop(samples::remove_samples(index.as_ref()).await?),
    }
    let Agents { agents, model, memories, mut notes, .. } =
        assemble_agents(config, tape, index.clone(), DataDirWrites::Allowed).await?;
    notes.extend(told);
    for agent in &agents {
        check_persistence_mode(agent)?;
        agent.register(&runtime)?;
    }
    let (tenant, model, keys) = (TenantId::local(), Arc::new(model), ApiKeys::default());
    let hosts = config.allowed_hosts.clone();
    Ok(App {
        runtime,
        tenant,
        agents,
        model,
        notes,
        allowed_hosts: hosts,
        library,
        index,
        memories,
        keys,
        keeper,
        store_is_new: new,
        sample_policy: shown,
        _data_dir_lock: held,
    })
}

/// Rejects an agent that asks to store its threads outside the store. The error says what to do instead.
fn check_persistence_mode(agent: &Agent) -> Result<(), BilingualMessage> {
    let name = &agent.name;
    let path = agent.checkpoint_db_path.as_deref().unwrap_or("PATH");
    match agent.persistence {
        PersistenceMode::Store => Ok(()),
        PersistenceMode::Memory => Err(bilingual!(
            "에이전트 `{name}`: 대화는 모두 한 저장소에 두며 언제나 남습니다. `persistence_mode`를 지우세요. 남기지 않을 대화라면 `--data-dir`로 임시 디렉터리를 주고, 끝난 뒤에 지우세요",
            "agent `{name}`: all threads are in one store and always kept; remove `persistence_mode`. For conversations that nobody keeps, give a directory of their own with `--data-dir` and remove it afterwards"
        )),
        PersistenceMode::File => Err(bilingual!(
            "에이전트 `{name}`: 대화는 모두 한 저장소에 둡니다. `persistence_mode`와 `checkpoint_db_path`를 지우고, 파일을 정하려면 `database = \"sqlite:{path}\"`를 적으세요",
            "agent `{name}`: all threads are in one store; remove `persistence_mode` and `checkpoint_db_path`, and to choose the file write `database = \"sqlite:{path}\"`"
        )),
    }
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
) -> Result<Library, BilingualMessage> {
    let path = config.data_dir.join("library");
    let mut options = LibraryOptions::default();
    if reading == PendingDocumentPolicy::LeavePending {
        options.workers = 0;
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

/// Rebuilds the index from the library. Returns the number of documents and passages in it.
pub(crate) async fn rebuild_index_from_library(
    config: &Config,
    output: TerminalOutput,
) -> anyhow::Result<(usize, usize)> {
    let _records = open_locked_store(config).await?;
    let taken = lock_library(config).await?;
    let index = search_index::rebuild_index(config, output).await?;
    let library = open_library(config, taken, index.clone(), PendingDocumentPolicy::LeavePending).await?;
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
    tape: &RecordReplay,
    index: Arc<dyn DocumentIndex>,
    keep: DataDirWrites,
) -> anyhow::Result<Agents> {
    let model::OpenedModels { main, small, named } = model::open_models(config, tape)?;
    let about = main.info();
    let tools::AssembledTools { toolbox: tools, memories, mut notes } =
        tools::assemble_tools(config, keep).await?;
    let rewriting = effective_rewriting(config, &small.info(), &mut notes);
    let parts = AgentParts { small, tools: tools.clone(), named, rewriting, ..AgentParts::new(main, index) };
    let mut settings = config.tables.agent_settings();
    settings.graphs.extend(read_agent_files(config)?);
    let agents = doran_agents::build_agents(&settings, &parts).map_err(|error| {
        bilingual!(
            "에이전트를 만들 수 없습니다. 설정의 `[agents]`, `[assistants]`, `[[graphs]]`와 `agents/`의 파일을 고치세요",
            "the agents cannot be made; correct `[agents]`, `[assistants]`, `[[graphs]]` in the settings and the files in `agents/`"
        )
        .with_cause(error)
    })?;
    Ok(Agents { agents, model: about, tools, memories, notes })
}

/// Opens the memories of agents, for commands that list or delete them.
pub(crate) fn open_memories(config: &Config) -> anyhow::Result<Arc<dyn MemoryStore>> {
    ensure_private_dir(&config.data_dir)?;
    tools::open_memory_store(config, DataDirWrites::Allowed)?.ok_or_else(|| {
        bilingual!(
            "기억이 꺼져 있습니다. 설정의 `[tools]`에 `memory = true`를 적어 켜세요",
            "memory is switched off; switch it on with `memory = true` in `[tools]` of the settings"
        )
        .into()
    })
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

/// Reads the agents described by files, in the order of the file names.
fn read_agent_files(config: &Config) -> anyhow::Result<Vec<described::AgentDescription>> {
    let folder = config.data_dir.join("agents");
    let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let format = |path: &std::path::Path| described::DescriptionFormat::of_file(path.file_name()?.to_str()?);
    files.retain(|path| format(path).is_some());
    files.sort();
    let read = |path: &std::path::PathBuf| -> anyhow::Result<described::AgentDescription> {
        let shown = path.display();
        let wrong = || {
            bilingual!(
                "에이전트 파일 `{shown}`을(를) 읽을 수 없습니다",
                "cannot read the agent file `{shown}`"
            )
        };
        let text = std::fs::read_to_string(path).map_err(|error| wrong().with_cause(error))?;
        let format = format(path).unwrap_or(described::DescriptionFormat::Toml);
        Ok(described::AgentDescription::read(&text, format).map_err(|error| wrong().with_cause(error))?)
    };
    files.iter().map(read).collect()
}

impl App {
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

    /// Adds or removes the sample documents after a command changed the library. Returns what changed, if anything.
    pub(crate) async fn update_samples(&self) -> anyhow::Result<Option<samples::SamplesChange>> {
        match self.sample_policy {
            SampleDocumentPolicy::ShowWhileEmpty => samples::update_samples(self.index.as_ref()).await,
            SampleDocumentPolicy::Hide => Ok(None),
        }
    }

    /// Adds or removes the sample documents whenever the library changes, until `stop`.
    pub(crate) fn keep_samples_updated(&self, stop: CancellationToken) {
        if self.sample_policy == SampleDocumentPolicy::ShowWhileEmpty {
            tokio::spawn(samples::keep_samples_updated(self.index.clone(), self.library.clone(), stop));
        }
    }

    /// The parts the HTTP server needs.
    pub(crate) fn server_app(&self) -> ServerApp {
        let app = ServerApp::new(self.runtime.clone(), self.agents.clone());
        let app = match &self.memories {
            Some(memories) => app.memories(memories.clone()),
            None => app,
        };
        app.index(self.index.clone())
            .library(self.library.clone())
            .keys(self.keys.clone())
            .allowed_hosts(self.allowed_hosts.clone())
    }

    /// Returns when a write to the local file failed in a way that only a restart can resolve, with the reason. With
    /// a database server this never returns: the affected run is read again and continues.
    pub(crate) async fn wait_for_unknown_write(&self) -> UnknownWriteOutcome {
        match &self.keeper {
            Some(keeper) => UnknownWriteOutcome(keeper.wait_for_fatal_error().await.to_string()),
            None => std::future::pending().await,
        }
    }
}
