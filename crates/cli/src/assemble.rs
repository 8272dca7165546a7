//! Where concrete parts meet: settings become a store, a runtime and agents. Nothing else names them all.

use std::sync::Arc;

use doran_agents::{About, Agent, Parts, PersistenceMode, samples};
use doran_engine::{Limits, Runtime, RuntimeOptions, Tenant};
use doran_llm::{ChatModel, OfflineModel};
use doran_retrieval::RamKeyword;
use doran_server::App;
use doran_store::{Keeper, Opened};
use tokio_util::sync::CancellationToken;

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
    let (agents, model) = agents(config)?;
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
    Ok(House { runtime, tenant: Tenant::local(), agents, model: Arc::new(model), keeper, new, _held: held })
}

/// The agents, and what answers in them.
pub(crate) fn agents(config: &Config) -> anyhow::Result<(Vec<Agent>, About)> {
    let model = model(&config.model)?;
    let about = model.about();
    let index = Arc::new(RamKeyword::of(&doran_retrieval::Tenant::new("local"), &samples::all()));
    let parts = Parts::new(model, index);
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
        App {
            runtime: self.runtime.clone(),
            tenant: self.tenant.clone(),
            agents: self.agents.clone().into(),
            model: self.model.clone(),
            limits: doran_server::Limits::default(),
            draining: CancellationToken::new(),
        }
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
