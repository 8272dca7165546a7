//! Agents described by files in `agents/` of the data directory. A broken file is reported and skipped, and changes nothing
//! for the others. A running server reads the files again when one changes, and keeps the last good version of a file that
//! is broken now.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use doran_agents::described::{self, AgentDescription, DescriptionFormat};
use doran_agents::{Agent, AgentParts, ThreadStorage};
use doran_engine::Runtime;
use doran_server::ServerAgents;
use tokio_util::sync::CancellationToken;

use crate::output::{BilingualMessage, bilingual};
use crate::replica::registration::short_hash;

/// How often a server looks for changed files.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The files, as far as they can be read.
pub(crate) struct AgentFiles {
    described: Vec<(PathBuf, AgentDescription)>,
    /// The others, and why not.
    broken: Vec<(PathBuf, String)>,
}

/// A version of a file that could be used, and the agent that it gave.
#[derive(Clone)]
pub(crate) struct GoodAgentFile {
    description: AgentDescription,
    agent: Agent,
}

/// Which files there are, and in which version.
type FileVersions = Vec<(PathBuf, Option<SystemTime>, u64)>;

/// Builds the agents of the files, with the parts of the other agents.
#[derive(Clone)]
pub(crate) struct AgentFileBuilder {
    pub(crate) folder: PathBuf,
    pub(crate) parts: AgentParts,
    /// The agents that are not described by files.
    pub(crate) other_agents: Vec<Agent>,
    /// The graphs in the settings, which files may run as subgraphs.
    pub(crate) graphs: Vec<AgentDescription>,
    /// The last good version of each file that is there.
    pub(crate) good: BTreeMap<PathBuf, GoodAgentFile>,
}

/// All agents, and what is wrong with files.
pub(crate) struct BuiltAgents {
    pub(crate) agents: Vec<Agent>,
    pub(crate) broken: Vec<BilingualMessage>,
}

/// The folder of the files.
pub(crate) fn agent_folder(data_dir: &Path) -> PathBuf {
    data_dir.join("agents")
}

fn format(path: &Path) -> Option<DescriptionFormat> {
    DescriptionFormat::of_file(path.file_name()?.to_str()?)
}

/// The paths of the files, sorted.
fn list_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // Reading a pipe or a device may never end.
    files.retain(|path| format(path).is_some() && path.is_file());
    files.sort();
    files
}

/// A hash of the names and contents of the files. Servers with the same files have the same one.
pub(crate) fn hash_files(folder: &Path) -> String {
    let mut bytes = Vec::new();
    for path in list_files(folder) {
        for part in [
            path.file_name().unwrap_or_default().as_encoded_bytes(),
            &std::fs::read(&path).unwrap_or_default(),
        ] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part);
        }
    }
    short_hash(&bytes)
}

fn file_versions(folder: &Path) -> FileVersions {
    let version = |path: PathBuf| {
        let about = std::fs::metadata(&path).ok();
        let changed = about.as_ref().and_then(|about| about.modified().ok());
        (path, changed, about.map_or(0, |about| about.len()))
    };
    list_files(folder).into_iter().map(version).collect()
}

fn broken_file(path: &Path, error: &str, is_kept: bool) -> BilingualMessage {
    let shown = path.display();
    if is_kept {
        return bilingual!(
            "에이전트 파일 `{shown}`을(를) 쓸 수 없어 마지막으로 쓸 수 있던 내용으로 계속합니다: {error}",
            "the agent file `{shown}` cannot be used, and its last good version stays in service: {error}"
        );
    }
    bilingual!(
        "에이전트 파일 `{shown}`을(를) 쓸 수 없어 건너뜁니다: {error}",
        "the agent file `{shown}` cannot be used and is skipped: {error}"
    )
}

/// Whether the threads of an agent would be stored elsewhere than in the database. Stores are opened at the start, and files
/// come and go.
fn has_own_storage(description: &AgentDescription) -> bool {
    let settings = description.settings.as_ref();
    settings.is_some_and(|settings| {
        !matches!(settings.thread_storage(&description.name), Ok(ThreadStorage::Shared))
    })
}

impl AgentFiles {
    /// Reads the files in the order of their names.
    pub(crate) fn read(folder: &Path) -> Self {
        let mut files = Self { described: Vec::new(), broken: Vec::new() };
        for path in list_files(folder) {
            let format = format(&path).unwrap_or(DescriptionFormat::Toml);
            let read = std::fs::read_to_string(&path)
                .map_err(|error| error.to_string())
                .and_then(|text| AgentDescription::read(&text, format).map_err(|error| error.to_string()));
            match read {
                Ok(description) => files.described.push((path, description)),
                Err(error) => files.broken.push((path, error)),
            }
        }
        files
    }

    /// What the readable files say.
    pub(crate) fn descriptions(&self) -> impl Iterator<Item = &AgentDescription> {
        self.described.iter().map(|(_, description)| description)
    }
}

impl AgentFileBuilder {
    /// All agents, those of the files last. A file that is broken now keeps the agent of its last good version.
    pub(crate) fn build(&mut self) -> BuiltAgents {
        let AgentFiles { described, mut broken } = AgentFiles::read(&self.folder);
        let kept = broken.iter().filter_map(|(path, _)| self.good.get(path)).map(|good| &good.description);
        let read = described.iter().map(|(_, description)| description);
        let known: Vec<AgentDescription> = self.graphs.iter().chain(read).chain(kept).cloned().collect();
        let mut good = BTreeMap::new();
        for (path, description) in described {
            match self.build_file(&description, &known, &good) {
                Ok(agent) => {
                    good.insert(path, GoodAgentFile { description, agent });
                }
                Err(error) => broken.push((path, error)),
            }
        }
        let mut messages = Vec::new();
        for (path, error) in broken {
            let last = self.good.get(&path).filter(|last| !self.has_agent(&last.agent.name, &good)).cloned();
            messages.push(broken_file(&path, &error, last.is_some()));
            if let Some(last) = last {
                good.insert(path, last);
            }
        }
        self.good = good;
        let of_files = self.good.values().map(|good| &good.agent);
        BuiltAgents { agents: self.other_agents.iter().chain(of_files).cloned().collect(), broken: messages }
    }

    /// The agent of a file, beside those of the files before it.
    fn build_file(
        &self,
        description: &AgentDescription,
        known: &[AgentDescription],
        before: &BTreeMap<PathBuf, GoodAgentFile>,
    ) -> Result<Agent, String> {
        let name = &description.name;
        if self.has_agent(name, before) {
            return Err(format!(
                "another agent is called `{name}` · 이름이 `{name}`인 다른 에이전트가 있습니다"
            ));
        }
        let agent = described::build_described_agent(description, known, &self.parts)
            .map_err(|error| error.to_string())?;
        if has_own_storage(description) {
            return Err("`persistence_mode` and `checkpoint_db_path` are for agents in `doran.toml` · `persistence_mode`와 `checkpoint_db_path`는 `doran.toml`의 에이전트에만 쓸 수 있습니다".to_owned());
        }
        Ok(agent)
    }

    /// Whether an agent has this name.
    fn has_agent(&self, name: &str, of_files: &BTreeMap<PathBuf, GoodAgentFile>) -> bool {
        let of_files = of_files.values().map(|good| &good.agent);
        self.other_agents.iter().chain(of_files).any(|agent| agent.name == name)
    }

    /// Builds the agents again whenever a file changes, until `stop`.
    pub(crate) async fn keep_updated(
        mut self,
        agents: ServerAgents,
        runtime: Runtime,
        stop: CancellationToken,
    ) {
        let mut seen = file_versions(&self.folder);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            let now = file_versions(&self.folder);
            if now == seen {
                continue;
            }
            seen = now;
            let BuiltAgents { agents: built, broken } = self.build();
            for agent in &built[self.other_agents.len()..] {
                agent.replace_in(&runtime);
            }
            tracing::info!(agents = built.len(), "the agent files were read again");
            broken.iter().for_each(|message| tracing::warn!("{}", message.en));
            agents.replace(built);
        }
    }
}
