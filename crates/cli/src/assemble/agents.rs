//! The agents of the settings and of files, with their models and tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_agents::memory::MemoryStore;
use doran_agents::tools::{ToolSecret, Toolbox};
use doran_agents::{
    Agent, AgentError, AgentParts, ModelCatalog, ModelInfo, ModelKind, PassageReranking, QueryRewriting,
    described,
};
use doran_retrieval::DocumentIndex;

use super::model::{self, RecordReplay};
use super::model_registry::ProgramModels;
use super::tools;
use crate::agent_files::{AgentFileBuilder, BuiltAgents, FolderVersion, agent_folder};
use crate::config::Config;
use crate::data_dir::ensure_private_dir;
use crate::output::{BilingualMessage, bilingual};
use crate::replica::shared_models::SharedModels;
use crate::replica::{SharedValues, open_shared_values};

/// Whether building may write to the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataDirWrites {
    Allowed,
    Forbidden,
}

/// The agents and the parts they are built from.
pub(crate) struct Agents {
    pub(crate) agents: Vec<Agent>,
    pub(super) files: AgentFileBuilder,
    pub(crate) model: ModelInfo,
    /// The models that chats choose.
    pub(super) models: Arc<ProgramModels>,
    pub(crate) tools: Toolbox,
    pub(super) memories: Option<Arc<dyn MemoryStore>>,
    /// Notices for the user that do not prevent a start.
    pub(crate) notes: Vec<BilingualMessage>,
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
pub(super) async fn assemble_sharing_agents(
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
    let model::OpenedModels { main, small, named, reranking, registry } =
        model::open_models(config, record_replay, shared_models)?;
    let about = main.info();
    let tools::AssembledTools { toolbox: tools, memories, mut notes } =
        tools::assemble_tools(config, keep, shared).await?;
    let rewriting = effective_rewriting(config, &small.info(), &mut notes);
    notes.extend(missing_reranker_note(&reranking, &small.info()));
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
        reranking,
        catalog: Some(catalog),
        http,
        language: config.language,
        ..AgentParts::new(main, index)
    };
    notes.extend(small_model_note(config));
    let settings = config.tables.agent_settings();
    let other_agents = doran_agents::build_agents(&settings, &parts).map_err(agents_error)?;
    let folder = agent_folder(&config.data_dir);
    let graphs = settings.graphs;
    let (good, read_version) = (BTreeMap::new(), FolderVersion::default());
    let mut files = AgentFileBuilder { folder, parts, other_agents, graphs, good, read_version };
    let BuiltAgents { agents, broken } = files.build().await?;
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

pub(super) fn agents_error(error: AgentError) -> BilingualMessage {
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

/// Says that the built-in model puts no passages in a new order. A chat that chooses another model still has them so.
fn missing_reranker_note(reranking: &PassageReranking, small: &ModelInfo) -> Option<BilingualMessage> {
    let nobody = matches!(reranking, PassageReranking::ByModel) && small.kind == ModelKind::Extractive;
    nobody.then(|| {
        bilingual!(
            "`rerank = \"on\"`이지만 내장 모델은 문단의 순서를 다시 정하지 못하므로 검색한 순서 그대로 씁니다. `model`이나 `small_model`에 LLM을 고르거나, `rerank`에 리랭커를 적으세요",
            "`rerank = \"on\"`, but the built-in model cannot put passages in a new order; they keep the order of the search. Choose an LLM as `model` or `small_model`, or set `rerank` to a reranker"
        )
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
