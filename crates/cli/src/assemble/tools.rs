//! Builds the tools of the agents: the built-in ones, Python, memory, and the tools of MCP servers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use doran_agents::ThreadStorage;
use doran_agents::memory::{FileMemoryStore, MemoryStore, RamMemoryStore, SharedMemoryStore};
use doran_agents::tools::python::SessionSigningKey;
use doran_agents::tools::{
    self, BuiltinToolsConfig, DocumentTextReader, ReadableRoot, ToolPolicy, Toolbox, mcp,
};
use doran_retrieval::Language;
use doran_retrieval::ingest::{JailedFileReader, ReadLimits};
use sha2::{Digest, Sha256};

use super::DataDirWrites;
use crate::agent_files::{AgentFiles, agent_folder};
use crate::config::{
    Config, Database, OPENWEATHER_KEY_VARIABLE, SHARED_KEY_VARIABLE, SearchStore, TAVILY_KEY_VARIABLE,
};
use crate::output::{BilingualMessage, bilingual};
use crate::replica::registration::short_hash;
use crate::replica::{SharedValues, shared_mcp_pins};
use crate::secret::SecretText;

/// The shortest key that replicas may share.
const MIN_SHARED_KEY_BYTES: usize = 32;

/// Notices about the tools that do not prevent a start.
pub(super) type ToolNotices = Vec<BilingualMessage>;

/// The tools, and the parts they share with others.
pub(super) struct AssembledTools {
    pub(super) toolbox: Toolbox,
    pub(super) memories: Option<Arc<dyn MemoryStore>>,
    pub(super) notes: ToolNotices,
}

/// Builds all tools with their policies.
pub(super) async fn assemble_tools(
    config: &Config,
    keep: DataDirWrites,
    shared: Option<&SharedValues>,
) -> anyhow::Result<AssembledTools> {
    let builtin = builtin_tools_config(config, keep, shared).await?;
    let memories = builtin.memories.clone();
    let own = tools::builtin_tools(builtin).map_err(|error| {
        bilingual!(
            "도구를 준비할 수 없습니다. 설정의 `[tools]`를 고치세요",
            "the tools cannot be made; correct `[tools]` in the settings"
        )
        .with_cause(error)
    })?;
    let mut toolbox = Toolbox::with_tools(own)?;
    let mut notes = ToolNotices::new();
    notes.extend(missing_shared_key_notice(config, toolbox.get("python_repl").is_some()));
    connect_mcp_servers(config, keep, shared, &mut toolbox, &mut notes).await?;
    for (name, policy) in &config.tables.tools.policies {
        if !toolbox.set_policy(name, *policy) {
            let known = toolbox.joined_names();
            // A server that is unreachable today must not prevent the start.
            if toolbox.is_of_absent_server(name) {
                notes.push(bilingual!(
                    "`[tools.policies]`의 `{name}`: 그 도구가 지금 없습니다",
                    "`[tools.policies]` `{name}`: that tool is not there now"
                ));
                continue;
            }
            return Err(bilingual!(
                "`[tools.policies]`: `{name}`(이)라는 도구는 없습니다. 있는 것: {known}",
                "`[tools.policies]`: there is no tool `{name}`; there are: {known}"
            )
            .into());
        }
    }
    let mut agents = config.tables.agent_settings();
    let files = AgentFiles::read(agent_folder(&config.data_dir)).await?;
    agents.graphs.extend(files.descriptions().cloned());
    for (agent, name) in agents.tool_names().into_iter().filter(|(_, name)| toolbox.is_of_absent_server(name))
    {
        notes.push(bilingual!(
            "에이전트 `{agent}`: 도구 `{name}`이(가) 지금 없어 그것 없이 일합니다",
            "agent `{agent}`: the tool `{name}` is not there now, and it works without it"
        ));
    }
    Ok(AssembledTools { toolbox, memories, notes })
}

/// A notice for replicas that share a database but not the key that signs Python variables.
fn missing_shared_key_notice(config: &Config, has_python: bool) -> Option<BilingualMessage> {
    let shares =
        matches!(config.database, Database::Postgres(_)) && config.secrets.get(SHARED_KEY_VARIABLE).is_none();
    (shares && has_python).then(|| {
        bilingual!(
            "PostgreSQL을 함께 쓰는 서버가 여럿이면 모두에 같은 `{SHARED_KEY_VARIABLE}`를 주세요. 그러지 않으면 다른 서버가 대화를 넘겨받을 때 `python_repl`의 변수가 사라집니다",
            "where several servers share PostgreSQL, give all of them the same `{SHARED_KEY_VARIABLE}`; without it the variables of `python_repl` are lost when another one takes a thread over"
        )
    })
}

/// The places that no tool reads: the data directory, the settings, and what the settings put elsewhere.
fn private_paths(config: &Config) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = vec![config.data_dir.clone()];
    if let Database::Sqlite(path) = &config.database {
        paths.push(path.clone());
    }
    if let SearchStore::Local(directory) = &config.search.store {
        paths.push(directory.clone());
    }
    for (name, settings) in config.tables.agent_settings().by_agent() {
        if let ThreadStorage::File(path) = settings.thread_storage(name)? {
            paths.push(config.resolve_settings_path(path));
        }
    }
    paths.extend(config.file.clone());
    Ok(paths)
}

async fn builtin_tools_config(
    config: &Config,
    keep: DataDirWrites,
    shared: Option<&SharedValues>,
) -> anyhow::Result<BuiltinToolsConfig> {
    let tools = &config.tables.tools;
    let key = |name| config.secrets.get(name).map(|key: &SecretText| tools::ToolSecret::new(key.reveal()));
    let roots = tools.read_roots.iter();
    let roots = roots.map(|(name, path)| ReadableRoot {
        name: name.clone(),
        path: config.resolve_settings_path(path),
        tenant: None,
    });
    let forbidden = private_paths(config)?;
    let mut builtin = BuiltinToolsConfig {
        openweather_key: key(OPENWEATHER_KEY_VARIABLE),
        tavily_key: key(TAVILY_KEY_VARIABLE),
        roots: roots.collect(),
        forbidden,
        documents: Some(Arc::new(JailedDocumentReader(JailedFileReader::new(ReadLimits::default(), 1)))),
        memories: open_memory_store(config, keep, shared).await?,
        python: python(config, keep)?,
        ..BuiltinToolsConfig::default()
    };
    if keep == DataDirWrites::Allowed {
        // A process that opens a second data directory keeps the key of the first.
        if !doran_llm::set_mark_key(derive_key(config, MARKS_KEY)?) {
            tracing::warn!("this process already uses the key of another data directory to mark quoted text");
        }
    }
    builtin.egress.proxy.clone_from(&tools.proxy);
    if let Some(zone) = &tools.time_zone {
        builtin.home_timezone.clone_from(zone);
    }
    Ok(builtin)
}

pub(super) async fn open_memory_store(
    config: &Config,
    keep: DataDirWrites,
    shared: Option<&SharedValues>,
) -> anyhow::Result<Option<Arc<dyn MemoryStore>>> {
    if !config.tables.tools.memory.unwrap_or(true) {
        return Ok(None);
    }
    if keep == DataDirWrites::Forbidden {
        return Ok(Some(Arc::new(RamMemoryStore::default())));
    }
    let path = config.data_dir.join("memory.log");
    let shown = path.display();
    let open_file = || {
        FileMemoryStore::open(&path).map_err(|error| {
            bilingual!("기억 `{shown}`을(를) 열 수 없습니다", "cannot open the memories `{shown}`")
                .with_cause(error)
        })
    };
    let Some(values) = shared else { return Ok(Some(Arc::new(open_file()?))) };
    let memories = SharedMemoryStore::new(values.clone());
    if path.exists() {
        let facts = memories.import(&open_file()?).await?;
        fs::rename(&path, config.data_dir.join("memory.log.imported"))?;
        tracing::warn!(
            facts,
            "the memories were moved from the file into the database; the file is kept as `memory.log.imported`"
        );
    }
    Ok(Some(Arc::new(memories)))
}

/// A hash that is the same for servers with the same shared key; none without one.
pub(crate) fn shared_key_hash(config: &Config) -> Result<Option<String>, BilingualMessage> {
    match config.secrets.get(SHARED_KEY_VARIABLE) {
        Some(_) => Ok(Some(short_hash(&derive_key(config, "replica check")?))),
        None => Ok(None),
    }
}

#[cfg(feature = "python")]
fn python(config: &Config, keep: DataDirWrites) -> anyhow::Result<Option<SessionSigningKey>> {
    if config.tables.tools.python == Some(false) {
        return Ok(None);
    }
    Ok(Some(match keep {
        DataDirWrites::Forbidden => SessionSigningKey::random(),
        DataDirWrites::Allowed => SessionSigningKey::new(derive_key(config, PYTHON_KEY)?),
    }))
}

/// Derives a secret key for one use: signing Python variables, or marking quoted material. Replicas that share a
/// database get it from a variable. Otherwise it belongs to the data directory.
pub(super) fn derive_key(config: &Config, usage: &str) -> Result<[u8; 32], BilingualMessage> {
    let Some(shared) = config.secrets.get(SHARED_KEY_VARIABLE) else {
        return load_or_create_key(&config.data_dir.join(format!("{usage}.key")));
    };
    if shared.reveal().len() < MIN_SHARED_KEY_BYTES {
        return Err(bilingual!(
            "환경 변수 `{SHARED_KEY_VARIABLE}`가 너무 짧습니다. {MIN_SHARED_KEY_BYTES}자 이상으로 정하세요. 예: `openssl rand -hex 32`",
            "the variable `{SHARED_KEY_VARIABLE}` is too short; give it at least {MIN_SHARED_KEY_BYTES} characters, such as `openssl rand -hex 32`"
        ));
    }
    Ok(Sha256::digest(format!("doran {usage}\0{}", shared.reveal())).into())
}

/// The uses that a data directory has a key for.
const KEY_USAGES: [&str; 3] = [MARKS_KEY, PYTHON_KEY, MODELS_KEY];
/// Marks quoted material.
const MARKS_KEY: &str = "marks";
/// Signs Python variables.
const PYTHON_KEY: &str = "python";
/// Encrypts the keys of model providers.
pub(super) const MODELS_KEY: &str = "models";

/// Whether the keys that the data directory has can be read.
pub(crate) fn check_stored_keys(data_dir: &Path) -> Result<(), BilingualMessage> {
    KEY_USAGES.iter().try_for_each(|usage| read_key(&data_dir.join(format!("{usage}.key"))).map(drop))
}

/// Reads the secret key of this data directory, or creates it.
fn load_or_create_key(path: &Path) -> Result<[u8; 32], BilingualMessage> {
    if let Some(key) = read_key(path)? {
        return Ok(key);
    }
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    bytes[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    crate::data_dir::write_private_file(path, &bytes).map_err(|error| {
        let shown = path.display();
        bilingual!("`{shown}`을(를) 쓸 수 없습니다", "cannot write `{shown}`").with_cause(error)
    })?;
    Ok(bytes)
}

/// The secret key in a file, if there is one.
fn read_key(path: &Path) -> Result<Option<[u8; 32]>, BilingualMessage> {
    let shown = path.display();
    match fs::read(path) {
        Ok(bytes) => match <[u8; 32]>::try_from(bytes) {
            Ok(key) => Ok(Some(key)),
            Err(bytes) => {
                let length = bytes.len();
                Err(bilingual!(
                    "`{shown}`이(가) 손상되었습니다. 32바이트여야 하는데 {length}바이트입니다. 백업에서 되살리세요",
                    "`{shown}` is damaged: it has {length} bytes instead of 32; restore it from a backup"
                ))
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(bilingual!("`{shown}`을(를) 읽을 수 없습니다", "cannot read `{shown}`").with_cause(error))
        }
    }
}

#[cfg(not(feature = "python"))]
fn python(config: &Config, _keep: DataDirWrites) -> anyhow::Result<Option<SessionSigningKey>> {
    if config.tables.tools.python == Some(true) {
        return Err(bilingual!(
            "이 doran은 Python 없이 만들어졌습니다. `--features python`으로 다시 만들거나 `[tools] python`을 지우세요",
            "this doran was built without Python; build it with `--features python`, or remove `[tools] python`"
        )
        .into());
    }
    Ok(None)
}

/// Connects to the MCP servers in the settings. One that is unreachable adds a notice.
async fn connect_mcp_servers(
    config: &Config,
    keep: DataDirWrites,
    shared: Option<&SharedValues>,
    toolbox: &mut Toolbox,
    notes: &mut ToolNotices,
) -> anyhow::Result<()> {
    let mut servers = Vec::new();
    for (name, table) in &config.tables.mcp {
        toolbox.register_server(name.as_str());
        let hidden = |values: &std::collections::BTreeMap<String, SecretText>| {
            let one = |(key, value): (&String, &SecretText)| {
                Ok((key.clone(), tools::ToolSecret::new(config.secrets.resolve(value)?.reveal())))
            };
            values.iter().map(one).collect::<Result<_, BilingualMessage>>()
        };
        let reach = match (&table.command, &table.url) {
            (Some(command), _) => mcp::McpTransport::Stdio {
                command: command.clone(),
                arguments: table.args.clone(),
                inherited: config.program_environment.clone(),
                environment: hidden(&table.env)?,
            },
            (None, url) => mcp::McpTransport::Http {
                url: url.clone().unwrap_or_default(),
                headers: hidden(&table.headers)?,
            },
        };
        let trust = if table.trust_hints { mcp::McpTrust::Hints } else { mcp::McpTrust::None };
        let images = if table.images { mcp::McpImages::Pass } else { mcp::McpImages::Describe };
        let bounds = mcp::McpLimits::default();
        servers.push(mcp::McpServer { name: name.clone(), reach, trust, images, bounds });
    }
    if servers.is_empty() {
        return Ok(());
    }
    let policies = config.tables.mcp.iter().filter_map(|(name, table)| Some((name.clone(), table.policy?)));
    let path = config.data_dir.join("mcp-pins.json");
    let pins = match shared {
        Some(values) => shared_mcp_pins::open(values, &path).await?,
        None => read_mcp_pins(&path)?,
    };
    let mut found = mcp::connect_servers(servers, &pins).await;
    let unreached = std::mem::take(&mut found.unreached);
    let pins = McpPins { path, pins, keep, shared: shared.cloned() };
    let mut intake = McpToolIntake { toolbox: toolbox.clone(), policies: policies.collect(), pins };
    notes.extend(intake.take_in(found)?);
    if let Some(values) = shared {
        shared_mcp_pins::add(values, &intake.pins.pins).await?;
    }
    // A command that writes nothing ends soon.
    if keep == DataDirWrites::Allowed && !unreached.is_empty() {
        let intake = Arc::new(Mutex::new(intake));
        for server in unreached {
            tokio::spawn(take_in_late_server(server, intake.clone()));
        }
    }
    Ok(())
}

/// Waits for an MCP server that was not there at the start, and adds its tools.
async fn take_in_late_server(server: mcp::UnreachedMcpServer, intake: Arc<Mutex<McpToolIntake>>) {
    let name = server.name().to_owned();
    let reached = server.reach().await;
    let shared = {
        let mut intake = intake.lock().unwrap_or_else(PoisonError::into_inner);
        let found = reached.discover(&intake.pins.pins);
        let tools = found.tools.len();
        match intake.take_in(found) {
            Ok(notes) => {
                tracing::info!(server = name, tools, "the MCP server is there now");
                notes.iter().for_each(|note| tracing::warn!("{}", note.en));
            }
            Err(error) => tracing::error!(server = name, "{}", error.en),
        }
        intake.pins.shared.clone().map(|values| (values, intake.pins.pins.clone()))
    };
    if let Some((values, pins)) = shared
        && let Err(error) = shared_mcp_pins::add(&values, &pins).await
    {
        tracing::error!(server = name, "{}", error.en);
    }
}

/// Takes the tools of MCP servers into the toolbox of the agents.
struct McpToolIntake {
    toolbox: Toolbox,
    /// By server. A server without one has `ask`.
    policies: BTreeMap<String, ToolPolicy>,
    pins: McpPins,
}

/// The approved descriptions of MCP tools and where they are stored.
struct McpPins {
    path: PathBuf,
    pins: mcp::ToolPins,
    keep: DataDirWrites,
    /// The database that has them instead of the file.
    shared: Option<SharedValues>,
}

impl McpToolIntake {
    fn take_in(&mut self, found: mcp::McpDiscovery) -> Result<ToolNotices, BilingualMessage> {
        self.pins.update(found.pins)?;
        let mut notes = ToolNotices::new();
        for mcp::McpProblem { ko, en } in found.problems {
            notes.push(BilingualMessage::new(ko, en));
        }
        for tool in found.tools {
            let server = tool.info().spec.name.split("__").next().unwrap_or_default().to_owned();
            let policy = self.policies.get(&server).copied().unwrap_or(ToolPolicy::Ask);
            // What a server of somebody else offers does not keep the program from starting.
            if let Err(error) = self.toolbox.add_server_tool(tool, policy) {
                notes.push(bilingual!(
                    "MCP 서버 `{server}`: 도구를 쓸 수 없습니다: {error}",
                    "MCP server `{server}`: a tool cannot be used: {error}"
                ));
            }
        }
        Ok(notes)
    }
}

impl McpPins {
    fn update(&mut self, pins: mcp::ToolPins) -> Result<(), BilingualMessage> {
        if self.keep == DataDirWrites::Allowed && self.shared.is_none() && pins != self.pins {
            let shown = self.path.display();
            let cannot = || bilingual!("`{shown}`에 쓸 수 없습니다", "cannot write `{shown}`");
            let text = serde_json::to_vec_pretty(&pins).map_err(|error| cannot().with_cause(error))?;
            crate::data_dir::write_private_file(&self.path, &text)
                .map_err(|error| cannot().with_cause(error))?;
        }
        self.pins = pins;
        Ok(())
    }
}

/// The descriptions of MCP tools as they were first seen.
pub(crate) fn read_mcp_pins(path: &Path) -> Result<mcp::ToolPins, BilingualMessage> {
    let shown = path.display();
    let damaged = || {
        bilingual!(
            "`{shown}`을(를) 읽을 수 없습니다. MCP 도구를 다시 승인하려면 이 파일을 지우세요",
            "cannot read `{shown}`; remove it to approve the MCP tools anew"
        )
    };
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| damaged().with_cause(error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(mcp::ToolPins::default()),
        Err(error) => Err(damaged().with_cause(error)),
    }
}

/// Reads documents for `read_file` in an isolated child process, as ingest does.
struct JailedDocumentReader(JailedFileReader);

#[async_trait]
impl DocumentTextReader for JailedDocumentReader {
    fn can_read(&self, name: &str) -> bool {
        let end = name.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
        matches!(end.as_str(), "hwpx" | "hwp" | "pdf" | "docx" | "xlsx")
    }

    async fn read(&self, name: &str, bytes: Vec<u8>, language: Language) -> Result<String, String> {
        match self.0.read(name, &bytes).await {
            Ok(found) => Ok(found.text),
            Err(failure) => {
                Err(language.pick(failure.kind.message_ko(), failure.kind.message_en()).to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;
    use crate::environment::Environment;
    use crate::test_directory::TestDirectory;

    fn load_test_config(home: &Path, variables: &[(&str, &str)]) -> Config {
        let home = home.to_str().expect("UTF-8");
        let variables = [variables, &[("HOME", home), ("DORAN_DATA_DIR", home)]].concat();
        load(&Default::default(), None, &Environment::for_test("/nowhere", &variables))
            .expect("settings")
            .config
    }

    #[test]
    fn replicas_with_one_shared_key_sign_alike_and_those_without_do_not() {
        let (one, two) = (TestDirectory::new(), TestDirectory::new());
        let key = |home: &TestDirectory, shared: &[(&str, &str)], usage: &str| {
            derive_key(&load_test_config(home.path(), shared), usage).expect("a key")
        };
        let shared = [(SHARED_KEY_VARIABLE, "the key that all replicas are given")];
        assert_eq!(key(&one, &shared, "python"), key(&two, &shared, "python"));
        assert_ne!(key(&one, &shared, "python"), key(&one, &shared, "marks"));
        assert_ne!(key(&one, &[], "python"), key(&two, &[], "python"));
        assert_eq!(key(&one, &[], "python"), key(&one, &[], "python"), "it is kept");
        assert!(
            derive_key(&load_test_config(one.path(), &[(SHARED_KEY_VARIABLE, "short")]), "python").is_err()
        );
    }

    #[test]
    fn only_replicas_that_lose_variables_get_the_warning() {
        let home = TestDirectory::new();
        let postgres = ("DORAN_DATABASE", "postgres://u@h/d");
        let errors = |variables: &[(&str, &str)], has_python: bool| {
            missing_shared_key_notice(&load_test_config(home.path(), variables), has_python).is_some()
        };
        assert!(errors(&[postgres], true));
        assert!(!errors(&[postgres], false) && !errors(&[], true));
        assert!(!errors(&[postgres, (SHARED_KEY_VARIABLE, "the key that all replicas are given")], true));
    }
}
