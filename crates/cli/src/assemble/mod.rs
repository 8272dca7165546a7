//! Builds the application: turns the settings into a store, a runtime and agents. The only module that names every
//! part.

mod agents;
mod document_library;
mod locked_store;
pub(crate) mod model;
mod model_registry;
pub(crate) mod samples;
pub(crate) mod search_index;
pub(crate) mod telemetry;
mod tools;

use std::sync::Arc;

use doran_agents::memory::MemoryStore;
use doran_agents::{Agent, ModelInfo};
use doran_engine::store::{IdempotencyStore, StoreError};
use doran_engine::{RunLimits, Runtime, RuntimeOptions, TenantId};
use doran_llm::Embedder;
use doran_retrieval::{DistinctHitsIndex, DocumentIndex, Library};
use doran_server::{AllowedOrigin, ApiKeys, ModelRegistry, MonthlyBudget, ServerApp, Telemetry};
use doran_store::{FileStoreMaintenance, SharedFormat};
use tokio_util::sync::CancellationToken;

use self::agents::assemble_sharing_agents;
use self::document_library::{PendingDocumentPolicy, lock_library, missing_vectors_message, open_library};
use self::locked_store::{LockedStore, lock_shared_store_directory};
use self::model_registry::ProgramModels;
use self::search_index::OpenedIndex;
use crate::agent_files::AgentFileBuilder;
use crate::config::Config;
use crate::data_dir::DataDirLock;
use crate::eval_files::{EvalFiles, EvalUsageFiles};
use crate::eval_folder::EvalFolder;
use crate::exit::UnknownWriteOutcome;
use crate::output::{BilingualMessage, bilingual, pluralize};
use crate::replica::SharedValues;
use crate::store_advice::newer_format_message;

pub(crate) use agents::{Agents, DataDirWrites, assemble_agents, open_memories};
pub(crate) use document_library::{embed_missing, rebuild_index_from_library};
pub(crate) use locked_store::{agents_by_storage, open_database, open_locked_store};
pub(crate) use model::RecordReplay;
pub(crate) use tools::{check_stored_keys, read_mcp_pins, shared_key_hash};

/// Up to so many passages get their vectors when a command starts: it takes less than a second.
const MAX_EMBEDDED_AT_START: usize = 256;

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
    /// The files of evaluations.
    evals: EvalFolder,
    /// What replicas share, if they can.
    shared: Option<SharedValues>,
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
    /// Tells when a newer program has migrated the store, if another one can.
    shared_format: Option<Arc<dyn SharedFormat>>,
    /// Whether the store was created by this start.
    pub(crate) store_is_new: bool,
    sample_policy: SampleDocumentPolicy,
    _data_dir_lock: Option<DataDirLock>,
}

/// Whether the sample documents are searchable while there are no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SampleDocumentPolicy {
    ShowWhileEmpty,
    Hide,
}

/// Builds the application for a command that ends soon. Queued documents are not read.
pub(crate) async fn assemble_app(config: &Config, record_replay: &RecordReplay) -> anyhow::Result<App> {
    let mut app = build_app(
        config,
        record_replay,
        SampleDocumentPolicy::ShowWhileEmpty,
        PendingDocumentPolicy::LeavePending,
        None,
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
    assemble_app_in_locked_directory(config, record_replay, None).await
}

/// Like [`assemble_app_reading_documents`], in a data directory that this process may hold already.
pub(crate) async fn assemble_app_in_locked_directory(
    config: &Config,
    record_replay: &RecordReplay,
    held: Option<DataDirLock>,
) -> anyhow::Result<App> {
    let (shown, reading) = (SampleDocumentPolicy::ShowWhileEmpty, PendingDocumentPolicy::ReadPending);
    build_app(config, record_replay, shown, reading, held).await
}

/// Like [`assemble_app_reading_documents`], without the sample documents.
pub(crate) async fn assemble_app_without_samples(
    config: &Config,
    record_replay: &RecordReplay,
) -> anyhow::Result<App> {
    let (shown, reading) = (SampleDocumentPolicy::Hide, PendingDocumentPolicy::ReadPending);
    build_app(config, record_replay, shown, reading, None).await
}

async fn build_app(
    config: &Config,
    record_replay: &RecordReplay,
    shown: SampleDocumentPolicy,
    reading: PendingDocumentPolicy,
    held: Option<DataDirLock>,
) -> anyhow::Result<App> {
    let held = lock_shared_store_directory(config, held)?;
    let LockedStore {
        store,
        idempotency,
        shared,
        file_maintenance,
        shared_format,
        is_new: new,
        data_dir_lock,
    } = open_locked_store(config).await?;
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
        limits: run_limits,
        observer: Some(Arc::new(telemetry.clone())),
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::with_options(store, options);
    let locked_library = lock_library(config).await?;
    let mut index_notes = telemetry::start_telemetry(&telemetry, &runtime, &config.telemetry);
    let OpenedIndex { index, encoder } = search_index::open_index(config, &mut index_notes).await?;
    let index: Arc<dyn DocumentIndex> = Arc::new(DistinctHitsIndex::new(index));
    let library = open_library(config, locked_library, index.clone(), reading, shared.as_ref()).await?;
    match shown {
        SampleDocumentPolicy::ShowWhileEmpty => {
            if let removed @ 1.. = samples::remove_ingested_samples(&library).await? {
                let documents = pluralize(removed, "sample document");
                index_notes.push(bilingual!(
                    "예전 `doran demo`가 넣은 예시 문서 {removed}개를 문서 목록에서 지웠습니다",
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
    let evals = EvalFolder::new(&config.data_dir, shared.as_ref());
    let budget = config
        .monthly_budget_micros
        .map(|micros| MonthlyBudget::new(micros).evals(Arc::new(EvalUsageFiles::new(evals.clone()))));
    if let Some(budget) = &budget {
        runtime.set_run_gate(Arc::new(budget.clone()));
    }
    Ok(App {
        runtime,
        telemetry,
        tenant,
        agents,
        agent_files,
        model,
        models,
        budget,
        evals,
        shared,
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
        shared_format,
        store_is_new: new,
        sample_policy: shown,
        _data_dir_lock: held.or(data_dir_lock),
    })
}

impl App {
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

    /// Evaluations, and what they used.
    pub(crate) fn evals(&self, config: &Config) -> (Arc<EvalFiles>, Arc<EvalUsageFiles>) {
        let (folder, models) = (self.evals.clone(), self.models.clone());
        let files = EvalFiles::new(config.clone(), folder.clone(), self.index.clone(), models);
        (Arc::new(files), Arc::new(EvalUsageFiles::new(folder)))
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
        let app = match &self.shared {
            Some(values) => app.shared_values(values.clone()),
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

    /// Returns when this process can only end, with the reason: a write to the local file failed in a way that only a
    /// restart can resolve, or a newer program has migrated the database.
    pub(crate) async fn wait_for_fatal_error(&self) -> BilingualMessage {
        tokio::select! {
            outcome = self.wait_for_unknown_write() => outcome.into_message(),
            error = self.wait_for_newer_format() => match error {
                StoreError::Newer { found, known } => newer_format_message(found, known).saying_cause(error),
                other => bilingual!("저장소를 더 쓸 수 없습니다", "the store cannot be used any more")
                    .with_cause(other),
            },
        }
    }

    /// With a database server this never returns: the affected run is read again and continues.
    async fn wait_for_unknown_write(&self) -> UnknownWriteOutcome {
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

    async fn wait_for_newer_format(&self) -> StoreError {
        match &self.shared_format {
            Some(format) => format.wait_for_newer_format().await,
            None => std::future::pending().await,
        }
    }
}
