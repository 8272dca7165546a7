//! Where concrete parts meet: settings become a store, a runtime and agents. Nothing else names them all.

pub(crate) mod model;
pub(crate) mod samples;
pub(crate) mod search;
mod tools;

use std::path::Path;
use std::sync::Arc;

use doran_agents::memory::Memories;
use doran_agents::tools::Toolbox;
use doran_agents::{About, Agent, ModelKind, Parts, PersistenceMode, Rewriting, described};
use doran_engine::{Limits, Runtime, RuntimeOptions, Tenant};
use doran_retrieval::{
    DocumentId, Filter, Index, Library, LibraryError, LibraryOptions, Refined, TakenLibrary,
};
use doran_server::{App, Keys};
use doran_store::{Keeper, Opened};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Database, SearchStore};
use crate::data_dir::DataDir;
use crate::exit::Trouble;
use crate::output::{Both, Output, both, counted};

pub(crate) use model::Tape;

/// Whether building may write to the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    InDataDir,
    Nothing,
}

/// The agents with what they are made of.
pub(crate) struct Staff {
    pub(crate) agents: Vec<Agent>,
    pub(crate) model: About,
    pub(crate) tools: Toolbox,
    memories: Option<Arc<dyn Memories>>,
    /// What a person should know and need not stop for.
    pub(crate) notes: Vec<Both>,
}

/// Everything a command works with.
pub(crate) struct House {
    pub(crate) runtime: Runtime,
    pub(crate) tenant: Tenant,
    pub(crate) agents: Vec<Agent>,
    pub(crate) model: Arc<About>,
    /// What a person should know and need not stop for.
    pub(crate) notes: Vec<Both>,
    hosts: Vec<String>,
    /// What was handed in, and where it is found.
    pub(crate) library: Library,
    pub(crate) index: Arc<dyn Index>,
    /// What agents remember across threads.
    memories: Option<Arc<dyn Memories>>,
    /// Who may ask over HTTP; empty lets this machine in.
    pub(crate) keys: Keys,
    /// For a store whose file is ours.
    pub(crate) keeper: Option<Arc<dyn Keeper>>,
    /// Whether the store was made just now.
    pub(crate) new: bool,
    samples: Samples,
    _held: Option<DataDir>,
}

/// What is on disk, without anybody who works with it.
pub(crate) struct Records {
    pub(crate) store: Arc<dyn doran_engine::store::Store>,
    /// For a store whose file is ours.
    keeper: Option<Arc<dyn Keeper>>,
    /// Whether the store was made just now.
    new: bool,
    held: Option<DataDir>,
}

/// Takes the data directory and opens the store in it.
pub(crate) async fn records(config: &Config) -> anyhow::Result<Records> {
    let (held, new) = match &config.database {
        Database::Sqlite(path) => (Some(DataDir::hold(&config.data_dir)?), !path.exists()),
        // Replicas share a server; each brings its own process and no directory.
        Database::Postgres(_) => (None, false),
    };
    let database = &config.database;
    let Opened { store, keeper } = doran_store::open(&database.url()).await.map_err(|error| {
        both!("저장소 `{database}`을(를) 열 수 없습니다", "cannot open the store `{database}`").because(error)
    })?;
    Ok(Records { store, keeper, new, held })
}

/// Whether the texts of the samples are there when there is nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Samples {
    WhileEmpty,
    LeftOut,
}

/// Whether documents that wait are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// As long as the house stands.
    GoesOn,
    /// Not by a command that ends before much could be read: it would only break off what it began.
    Waits,
}

/// Builds the house that the settings describe, for a command that is soon over: documents that wait go on waiting.
pub(crate) async fn house(config: &Config, tape: &Tape) -> anyhow::Result<House> {
    let mut house = built(config, tape, Samples::WhileEmpty, Reading::Waits).await?;
    house.notes.extend(house.waiting());
    Ok(house)
}

/// The same for one that stays: documents that wait are read.
pub(crate) async fn reading_house(config: &Config, tape: &Tape) -> anyhow::Result<House> {
    built(config, tape, Samples::WhileEmpty, Reading::GoesOn).await
}

/// The same, without the samples.
pub(crate) async fn empty_house(config: &Config, tape: &Tape) -> anyhow::Result<House> {
    built(config, tape, Samples::LeftOut, Reading::GoesOn).await
}

async fn built(config: &Config, tape: &Tape, shown: Samples, reading: Reading) -> anyhow::Result<House> {
    let Records { store, keeper, new, held } = records(config).await?;
    let limits = Limits {
        steps: config.max_steps,
        active: Some(config.run_timeout),
        tokens: config.max_run_tokens,
        cost_micros: config.max_run_cost_micros,
    };
    let options = RuntimeOptions {
        worker: Some(config.worker.clone()),
        lease: config.lease,
        limits,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::with(store, options);
    let taken = take_library(config).await?;
    let mut told = Vec::new();
    let index: Arc<dyn Index> = Arc::new(Refined::new(search::index(config, &mut told).await?));
    let library = library(config, taken, index.clone(), reading).await?;
    match shown {
        Samples::WhileEmpty => drop(samples::settle(index.as_ref()).await?),
        Samples::LeftOut => drop(samples::hide(index.as_ref()).await?),
    }
    let Staff { agents, model, memories, mut notes, .. } =
        staff(config, tape, index.clone(), Keep::InDataDir).await?;
    notes.extend(told);
    for agent in &agents {
        in_the_store(agent)?;
        agent.register(&runtime)?;
    }
    let (tenant, model, keys) = (Tenant::local(), Arc::new(model), Keys::default());
    let hosts = config.allowed_hosts.clone();
    Ok(House {
        runtime,
        tenant,
        agents,
        model,
        notes,
        hosts,
        library,
        index,
        memories,
        keys,
        keeper,
        new,
        samples: shown,
        _held: held,
    })
}

/// Refuses an agent whose threads are to be anywhere else than in the store, with the way to have that.
fn in_the_store(agent: &Agent) -> Result<(), Both> {
    let name = &agent.name;
    let path = agent.checkpoint_db_path.as_deref().unwrap_or("PATH");
    match agent.persistence {
        PersistenceMode::Store => Ok(()),
        PersistenceMode::Memory => Err(both!(
            "에이전트 `{name}`: 대화는 모두 한 저장소에 두며 언제나 남습니다. `persistence_mode`를 지우세요. 남기지 않을 대화라면 `--data-dir`로 임시 디렉터리를 주고, 끝난 뒤에 지우세요",
            "agent `{name}`: all threads are in one store and always kept; remove `persistence_mode`. For conversations that nobody keeps, give a directory of their own with `--data-dir` and remove it afterwards"
        )),
        PersistenceMode::File => Err(both!(
            "에이전트 `{name}`: 대화는 모두 한 저장소에 둡니다. `persistence_mode`와 `checkpoint_db_path`를 지우고, 파일을 정하려면 `database = \"sqlite:{path}\"`를 적으세요",
            "agent `{name}`: all threads are in one store; remove `persistence_mode` and `checkpoint_db_path`, and to choose the file write `database = \"sqlite:{path}\"`"
        )),
    }
}

/// Takes the library in the data directory, before its index is opened or made anew: nobody else puts into that then. With
/// a database server this is the only lock on the directory.
async fn take_library(config: &Config) -> Result<TakenLibrary, Both> {
    let path = config.data_dir.join("library");
    Library::take(&path).await.map_err(|error| not_opened(&path, error))
}

/// Opens the library that was taken. What is ready in it and missing from the index is put there, and what was removed
/// from it while another index was in use is removed; only then documents that wait are read.
async fn library(
    config: &Config,
    taken: TakenLibrary,
    index: Arc<dyn Index>,
    reading: Reading,
) -> Result<Library, Both> {
    let path = config.data_dir.join("library");
    let mut options = LibraryOptions::default();
    if reading == Reading::Waits {
        options.workers = 0;
    }
    let samples = samples::all();
    // A cluster may hold documents of other data directories.
    let shared = matches!(config.search.store, SearchStore::OpenSearch(_));
    let aside = |id: &DocumentId| shared || samples.iter().any(|sample| sample.id == *id);
    Library::open_in_step(taken, index, options, aside).await.map_err(|error| not_opened(&path, error))
}

fn not_opened(path: &Path, error: LibraryError) -> Both {
    let (shown, ko) = (path.display(), error.ko());
    both!("문서 보관함 `{shown}`을(를) 열 수 없습니다: {ko}", "cannot open the library `{shown}`")
        .because(error)
}

/// Makes the index anew, with all that is ready in the library. Gives how many documents and passages are in it.
pub(crate) async fn reindex(config: &Config, output: Output) -> anyhow::Result<(usize, usize)> {
    let _records = records(config).await?;
    let taken = take_library(config).await?;
    let index = search::anew(config, output).await?;
    let library = library(config, taken, index.clone(), Reading::Waits).await?;
    let mut tenants: Vec<_> = library.tenants();
    let local = doran_retrieval::Tenant::new(Tenant::local().as_str());
    if !tenants.contains(&local) {
        tenants.push(local);
    }
    let (mut documents, mut passages) = (0, 0);
    for tenant in tenants {
        let listed = index.list(&tenant, &Filter::default()).await?;
        documents += listed.len();
        passages += listed.iter().map(|listed| listed.passages).sum::<usize>();
    }
    Ok((documents, passages))
}

/// The agents, what answers in them and what they may use: the ready-made ones as the settings change them, those that
/// the settings add, and those that files in `agents/` of the data directory describe.
pub(crate) async fn staff(
    config: &Config,
    tape: &Tape,
    index: Arc<dyn Index>,
    keep: Keep,
) -> anyhow::Result<Staff> {
    let model::Opened { main, small, named } = model::open(config, tape)?;
    let about = main.about();
    let tools::Tools { toolbox: tools, memories, mut notes } = tools::toolbox(config, keep).await?;
    let rewriting = rewriting(config, &small.about(), &mut notes);
    let parts = Parts { model: main, small, index, tools: tools.clone(), named, rewriting };
    let mut settings = config.tables.agents();
    settings.graphs.extend(descriptions(config)?);
    let agents = doran_agents::build(&settings, &parts).map_err(|error| {
        both!(
            "에이전트를 만들 수 없습니다. 설정의 `[agents]`, `[assistants]`, `[[graphs]]`와 `agents/`의 파일을 고치세요",
            "the agents cannot be made; correct `[agents]`, `[assistants]`, `[[graphs]]` in the settings and the files in `agents/`"
        )
        .because(error)
    })?;
    Ok(Staff { agents, model: about, tools, memories, notes })
}

/// What agents remember, for whoever wants to see it or have it forgotten.
pub(crate) fn memories(config: &Config) -> anyhow::Result<Arc<dyn Memories>> {
    crate::data_dir::ensure(&config.data_dir)?;
    tools::memories(config, Keep::InDataDir)?.ok_or_else(|| {
        both!(
            "기억이 꺼져 있습니다. 설정의 `[tools]`에 `memory = true`를 적어 켜세요",
            "memory is switched off; switch it on with `memory = true` in `[tools]` of the settings"
        )
        .into()
    })
}

/// Whether questions are put in other words. The built-in model cannot do that, and says so instead of pretending.
fn rewriting(config: &Config, small: &About, notes: &mut Vec<Both>) -> Rewriting {
    if config.search.rewriting == Rewriting::ByModel && small.kind == ModelKind::Extractive {
        notes.push(both!(
            "`rewrite = \"on\"`이지만 내장 모델은 질문을 다른 말로 바꾸지 못하므로 그대로 찾습니다. `model`이나 `small_model`에 LLM을 고르세요",
            "`rewrite = \"on\"`, but the built-in model cannot put questions in other words; they are looked for as they are. Choose an LLM as `model` or `small_model`"
        ));
        return Rewriting::Off;
    }
    config.search.rewriting
}

/// The agents that files describe, by the names of the files.
fn descriptions(config: &Config) -> anyhow::Result<Vec<described::Description>> {
    let folder = config.data_dir.join("agents");
    let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let format = |path: &std::path::Path| described::Format::of_file(path.file_name()?.to_str()?);
    files.retain(|path| format(path).is_some());
    files.sort();
    let read = |path: &std::path::PathBuf| -> anyhow::Result<described::Description> {
        let shown = path.display();
        let wrong = || {
            both!("에이전트 파일 `{shown}`을(를) 읽을 수 없습니다", "cannot read the agent file `{shown}`")
        };
        let text = std::fs::read_to_string(path).map_err(|error| wrong().because(error))?;
        let format = format(path).unwrap_or(described::Format::Toml);
        Ok(described::Description::read(&text, format).map_err(|error| wrong().because(error))?)
    };
    files.iter().map(read).collect()
}

impl House {
    /// What to tell about documents that cannot be found yet, if there are any.
    pub(crate) fn waiting(&self) -> Option<Both> {
        let waiting = self.library.pending(&doran_retrieval::Tenant::new(self.tenant.as_str()));
        let documents = counted(waiting, "document");
        (waiting > 0).then(|| {
            both!(
                "문서 {waiting}개를 아직 읽지 않아 찾을 수 없습니다. `doran documents read`나 `doran serve`가 이어서 읽습니다",
                "not read yet, and not to be found until then: {documents}; `doran documents read` or `doran serve` reads on"
            )
        })
    }

    /// Lets the samples come or go with what the command did; what became of them, if something did.
    pub(crate) async fn settle_samples(&self) -> anyhow::Result<Option<samples::Turn>> {
        match self.samples {
            Samples::WhileEmpty => samples::settle(self.index.as_ref()).await,
            Samples::LeftOut => Ok(None),
        }
    }

    /// Lets them come and go as long as the house is open, until `stop`.
    pub(crate) fn follow_samples(&self, stop: CancellationToken) {
        if self.samples == Samples::WhileEmpty {
            tokio::spawn(samples::follow(self.index.clone(), self.library.clone(), stop));
        }
    }

    /// What the server works with.
    pub(crate) fn app(&self) -> App {
        let app = App::new(self.runtime.clone(), self.agents.clone());
        let app = match &self.memories {
            Some(memories) => app.memories(memories.clone()),
            None => app,
        };
        app.index(self.index.clone())
            .library(self.library.clone())
            .keys(self.keys.clone())
            .hosts(self.hosts.clone())
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
