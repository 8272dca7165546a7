//! Agents described by files in `agents/` of the data directory. A broken file is reported and skipped, and changes nothing
//! for the others. A running server reads the files again when one changes, and keeps the last good version of a file that
//! is broken now. All reading and building is done on threads that may block.

use std::collections::BTreeMap;
use std::io;
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
    /// The files that cannot be used, and why.
    broken: Vec<(PathBuf, String)>,
    /// Why the folder itself cannot be read.
    folder_error: Option<String>,
}

/// What the folder holds.
#[derive(Default)]
struct FolderListing {
    /// The paths of the files, sorted.
    files: Vec<PathBuf>,
    /// What is named like a file and cannot be read, and why not.
    broken: Vec<(PathBuf, String)>,
    /// Why the folder itself cannot be read.
    folder_error: Option<String>,
}

/// A version of a file that could be used, and the agent that it gave.
#[derive(Clone)]
pub(crate) struct GoodAgentFile {
    description: AgentDescription,
    agent: Agent,
}

/// Which files there are and in which version, and what cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FolderVersion {
    files: Vec<(PathBuf, Option<SystemTime>, u64)>,
    broken: Vec<(PathBuf, String)>,
    folder_error: Option<String>,
}

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
    /// The version of the folder that was read last.
    pub(crate) read_version: FolderVersion,
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

/// Runs work that may block on a thread for it.
async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    Ok(tokio::task::spawn_blocking(work).await?)
}

/// Lists the files. Without the folder there are none.
fn list_files(folder: &Path) -> FolderListing {
    let mut listing = FolderListing::default();
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            listing.folder_error = (error.kind() != io::ErrorKind::NotFound).then(|| error.to_string());
            return listing;
        }
    };
    for entry in entries {
        let path = match entry {
            Ok(entry) => entry.path(),
            Err(error) => {
                listing.folder_error = Some(error.to_string());
                continue;
            }
        };
        if format(&path).is_none() {
            continue;
        }
        match std::fs::metadata(&path) {
            Ok(about) if about.is_file() => listing.files.push(path),
            // Reading a pipe or a device may never end.
            Ok(_) => listing.broken.push((path, "it is not a file · 파일이 아닙니다".to_owned())),
            Err(error) => listing.broken.push((path, error.to_string())),
        }
    }
    listing.files.sort();
    listing.broken.sort();
    listing
}

/// A hash of the names and contents of the files. Servers with the same files have the same one.
pub(crate) async fn hash_files(folder: PathBuf) -> anyhow::Result<String> {
    on_blocking_thread(move || hash_listed_files(&folder)).await
}

fn hash_listed_files(folder: &Path) -> String {
    let mut bytes = Vec::new();
    for path in list_files(folder).files {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        bytes.extend((name.len() as u64).to_le_bytes());
        bytes.extend(name);
        match std::fs::read(&path) {
            Ok(text) => {
                bytes.extend((text.len() as u64).to_le_bytes());
                bytes.extend(text);
            }
            // No file is so long, so it is the same as none that can be read.
            Err(_) => bytes.extend(u64::MAX.to_le_bytes()),
        }
    }
    short_hash(&bytes)
}

fn folder_version(folder: &Path) -> FolderVersion {
    let FolderListing { files, broken, folder_error } = list_files(folder);
    let version = |path: PathBuf| {
        let about = std::fs::metadata(&path).ok();
        let changed = about.as_ref().and_then(|about| about.modified().ok());
        (path, changed, about.map_or(0, |about| about.len()))
    };
    FolderVersion { files: files.into_iter().map(version).collect(), broken, folder_error }
}

fn unreadable_folder(folder: &Path, error: &str) -> BilingualMessage {
    let shown = folder.display();
    bilingual!(
        "에이전트 파일이 있는 `{shown}`을(를) 읽을 수 없습니다. 이미 읽은 에이전트는 그대로 둡니다: {error}",
        "the agent files in `{shown}` cannot be read; agents that were read before stay: {error}"
    )
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
    pub(crate) async fn read(folder: PathBuf) -> anyhow::Result<Self> {
        on_blocking_thread(move || Self::read_folder(&folder)).await
    }

    fn read_folder(folder: &Path) -> Self {
        let FolderListing { files: paths, broken, folder_error } = list_files(folder);
        let mut files = Self { described: Vec::new(), broken, folder_error };
        for path in paths {
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
    pub(crate) async fn build(&mut self) -> anyhow::Result<BuiltAgents> {
        let mut builder = self.clone();
        let (builder, built) = on_blocking_thread(move || {
            let built = builder.build_agents();
            (builder, built)
        })
        .await?;
        *self = builder;
        Ok(built)
    }

    fn build_agents(&mut self) -> BuiltAgents {
        self.read_version = folder_version(&self.folder);
        let AgentFiles { described, mut broken, folder_error } = AgentFiles::read_folder(&self.folder);
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
        if let Some(error) = folder_error {
            messages.push(unreadable_folder(&self.folder, &error));
            for (path, last) in &self.good {
                if !good.contains_key(path) && !self.has_agent(&last.agent.name, &good) {
                    good.insert(path.clone(), last.clone());
                }
            }
        }
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
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            match self.build_if_changed().await {
                Ok(None) => {}
                Ok(Some(BuiltAgents { agents: built, broken })) => {
                    for agent in &built[self.other_agents.len()..] {
                        agent.replace_in(&runtime);
                    }
                    tracing::info!(agents = built.len(), "the agent files were read again");
                    broken.iter().for_each(|message| tracing::warn!("{}", message.en));
                    agents.replace(built);
                }
                Err(error) => tracing::error!("the agent files could not be read again: {error:#}"),
            }
        }
    }

    /// All agents, if the folder is not as it was when it was read last.
    async fn build_if_changed(&mut self) -> anyhow::Result<Option<BuiltAgents>> {
        let folder = self.folder.clone();
        let version = on_blocking_thread(move || folder_version(&folder)).await?;
        if version == self.read_version {
            return Ok(None);
        }
        self.build().await.map(Some)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use std::fs;
    use std::sync::Arc;

    use doran_llm::ScriptedModel;
    use doran_retrieval::RamKeywordIndex;

    use super::*;
    use crate::test_directory::TestDirectory;

    fn builder(folder: &Path) -> AgentFileBuilder {
        let parts = AgentParts::new(Arc::new(ScriptedModel::new([])), Arc::new(RamKeywordIndex::default()));
        AgentFileBuilder {
            folder: folder.to_owned(),
            parts,
            other_agents: Vec::new(),
            graphs: Vec::new(),
            good: BTreeMap::new(),
            read_version: FolderVersion::default(),
        }
    }

    fn agent_text(name: &str) -> String {
        format!(
            "name = {name:?}\nstart = \"say\"\n[[node]]\nname = \"say\"\nuse = \"respond\"\ntext = \"hello\"\nthen = \"end\"\n"
        )
    }

    fn names(built: &BuiltAgents) -> Vec<&str> {
        built.agents.iter().map(|agent| agent.name.as_str()).collect()
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_read_is_reported_and_takes_no_agent_away() {
        let here = TestDirectory::new();
        let folder = here.path().join("agents");
        let mut builder = builder(&folder);
        let built = builder.build().await.expect("built");
        assert!(built.agents.is_empty() && built.broken.is_empty(), "without the folder there are no files");

        fs::create_dir(&folder).expect("a directory");
        fs::write(folder.join("one.toml"), agent_text("one")).expect("written");
        let built = builder.build_if_changed().await.expect("built").expect("it changed");
        assert_eq!((names(&built), built.broken.len()), (vec!["one"], 0));
        assert!(builder.build_if_changed().await.expect("read").is_none(), "nothing changed");

        fs::rename(&folder, here.path().join("elsewhere")).expect("renamed");
        fs::write(&folder, "no folder").expect("written");
        let built = builder.build_if_changed().await.expect("built").expect("it changed");
        assert_eq!(names(&built), ["one"]);
        assert!(
            built.broken[0].en.contains("cannot be read") && built.broken.len() == 1,
            "{:?}",
            built.broken
        );

        fs::remove_file(&folder).expect("removed");
        let built = builder.build_if_changed().await.expect("built").expect("it changed");
        assert!(built.agents.is_empty() && built.broken.is_empty(), "without the folder there are no files");
    }

    #[tokio::test]
    async fn what_only_looks_like_a_file_or_has_a_wrong_name_is_reported() {
        let here = TestDirectory::new();
        let mut builder = builder(here.path());
        fs::create_dir(here.path().join("folder.toml")).expect("a directory");
        fs::write(here.path().join("notes.txt"), "no agent").expect("written");
        fs::write(here.path().join("script.toml"), agent_text("<script>")).expect("written");
        fs::write(here.path().join("outside.toml"), agent_text("../../x")).expect("written");
        fs::write(here.path().join("long.toml"), agent_text(&"x".repeat(5000))).expect("written");
        fs::write(here.path().join("good.toml"), agent_text("good")).expect("written");
        let built = builder.build().await.expect("built");
        assert_eq!(names(&built), ["good"]);
        let messages: Vec<&str> = built.broken.iter().map(|message| message.en.as_str()).collect();
        for file in ["folder.toml", "script.toml", "outside.toml", "long.toml"] {
            assert!(
                messages.iter().any(|line| line.contains(file) && line.len() < 500),
                "{file}: {messages:?}"
            );
        }
        assert_eq!(messages.len(), 4, "{messages:?}");
    }
}
