//! Where concrete parts meet: settings become a store, a runtime and agents. Nothing else names them all.

use std::sync::Arc;

use doran_agents::{About, Agent, Parts, PersistenceMode};
use doran_engine::{Limits, Runtime, RuntimeOptions, Tenant};
use doran_llm::{ChatModel, OfflineModel};
use doran_retrieval::{Index, Library, LibraryOptions, RamKeyword};
use doran_server::{App, Keys};
use doran_store::{Keeper, Opened};

use crate::config::{Config, Database};
use crate::data_dir::DataDir;
use crate::exit::Trouble;
use crate::output::both;

/// Everything a command works with.
pub(crate) struct House {
    pub(crate) runtime: Runtime,
    pub(crate) tenant: Tenant,
    pub(crate) agents: Vec<Agent>,
    pub(crate) model: Arc<About>,
    /// What was handed in, and where it is found.
    pub(crate) library: Library,
    pub(crate) index: Arc<dyn Index>,
    /// Who may ask over HTTP; empty lets this machine in.
    pub(crate) keys: Keys,
    /// For a store whose file is ours.
    pub(crate) keeper: Option<Arc<dyn Keeper>>,
    /// Whether the store was made just now.
    pub(crate) new: bool,
    _held: Option<DataDir>,
}

/// Builds the house that the settings describe.
pub(crate) async fn house(config: &Config) -> anyhow::Result<House> {
    let (held, new) = match &config.database {
        Database::Sqlite(path) => (Some(DataDir::hold(&config.data_dir)?), !path.exists()),
        // Replicas share a server; each brings its own process and no directory.
        Database::Postgres(_) => (None, false),
    };
    let database = &config.database;
    let Opened { store, keeper } = doran_store::open(&database.url()).await.map_err(|error| {
        both!("저장소 `{database}`을(를) 열 수 없습니다", "cannot open the store `{database}`").because(error)
    })?;
    let limits = Limits { steps: config.max_steps, active: Some(config.run_timeout), ..Limits::default() };
    let options = RuntimeOptions {
        worker: Some(config.worker.clone()),
        lease: config.lease,
        limits,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::with(store, options);
    let index = samples();
    let library = library(config, index.clone()).await?;
    let (agents, model) = agents(config, index.clone())?;
    for agent in &agents {
        let name = &agent.name;
        if agent.persistence != PersistenceMode::Store {
            return Err(both!(
                "에이전트 `{name}`: 이 프로그램은 모든 대화를 한 저장소에 둡니다. `persistence_mode = \"store\"`만 쓸 수 있습니다",
                "agent `{name}`: this program keeps all threads in one store; only `persistence_mode = \"store\"` works"
            )
            .into());
        }
        agent.register(&runtime)?;
    }
    let (tenant, model, keys) = (Tenant::local(), Arc::new(model), Keys::default());
    Ok(House { runtime, tenant, agents, model, library, index, keys, keeper, new, _held: held })
}

/// An index with the sample documents in it.
pub(crate) fn samples() -> Arc<RamKeyword> {
    let tenant = doran_retrieval::Tenant::new(Tenant::local().as_str());
    let documents = [doran_agents::samples::all(), doran_agents::samples::contracts()].concat();
    Arc::new(RamKeyword::of(&tenant, &documents))
}

/// The library in the data directory, with all that is ready in it put into the index.
async fn library(config: &Config, index: Arc<RamKeyword>) -> anyhow::Result<Library> {
    let path = config.data_dir.join("library");
    let library = Library::open(&path, index.clone(), LibraryOptions::default()).await.map_err(|error| {
        let (shown, ko) = (path.display(), error.ko());
        both!("문서 보관함 `{shown}`을(를) 열 수 없습니다: {ko}", "cannot open the library `{shown}`")
            .because(error)
    })?;
    library.rebuild(index.as_ref()).await?;
    Ok(library)
}

/// The agents, and what answers in them.
pub(crate) fn agents(config: &Config, retriever: Arc<RamKeyword>) -> anyhow::Result<(Vec<Agent>, About)> {
    let model = model(&config.model)?;
    let about = model.about();
    let parts = Parts::new(model, retriever);
    Ok((doran_agents::all(&parts)?, about))
}

fn model(name: &str) -> anyhow::Result<Arc<dyn ChatModel>> {
    match name {
        doran_llm::OFFLINE_MODEL => Ok(Arc::new(OfflineModel)),
        _ => Err(both!("모델 `{name}`을(를) 모릅니다", "there is no model `{name}`").into()),
    }
}

impl House {
    /// What the server works with.
    pub(crate) fn app(&self) -> App {
        App::new(self.runtime.clone(), self.agents.clone())
            .index(self.index.clone())
            .library(self.library.clone())
            .keys(self.keys.clone())
    }

    /// Ends when a write to our file failed in a way that only a new start can settle, with the reason. A database
    /// server settles that by itself: the run concerned is read again and goes on.
    pub(crate) async fn trouble(&self) -> Trouble {
        match &self.keeper {
            Some(keeper) => Trouble(keeper.failed().await.to_string()),
            None => std::future::pending().await,
        }
    }
}
