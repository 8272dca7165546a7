//! The tools that agents may use: those that come with the program, Python, memory, and those of MCP servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use doran_agents::memory::{FileMemories, Memories, RamMemories};
use doran_agents::tools::python::Key;
use doran_agents::tools::{self, Builtin, Policy, ReadsDocuments, Root, Toolbox, mcp};
use doran_retrieval::ingest::{ReadLimits, Reader};
use sha2::{Digest, Sha256};

use super::Keep;
use crate::config::{Config, Database, OPENWEATHER, SHARED_KEY, TAVILY};
use crate::output::{Both, both};
use crate::secret::Secret;

/// The fewest characters of a key that replicas share.
const LEAST_KEY: usize = 32;

/// What a person should know about the tools and need not stop for.
pub(super) type Notes = Vec<Both>;

/// The tools, and what they work with that others do too.
pub(super) struct Tools {
    pub(super) toolbox: Toolbox,
    pub(super) memories: Option<Arc<dyn Memories>>,
    pub(super) notes: Notes,
}

/// All tools, with their policies.
pub(super) async fn toolbox(config: &Config, keep: Keep) -> anyhow::Result<Tools> {
    let builtin = builtin(config, keep)?;
    let memories = builtin.memories.clone();
    let own = tools::builtin(builtin).map_err(|error| {
        both!(
            "도구를 준비할 수 없습니다. 설정의 `[tools]`를 고치세요",
            "the tools cannot be made; correct `[tools]` in the settings"
        )
        .because(error)
    })?;
    let mut toolbox = Toolbox::of(own)?;
    let mut notes = Notes::new();
    notes.extend(unshared(config, toolbox.get("python_repl").is_some()));
    servers(config, keep, &mut toolbox, &mut notes).await?;
    for (name, policy) in &config.tables.tools.policies {
        if !toolbox.set_policy(name, *policy) {
            let known: Vec<&str> = toolbox.list().map(|(about, _)| about.spec.name.as_str()).collect();
            let known = known.join(", ");
            // A server that did not answer today must not make the program refuse to start.
            if toolbox.is_away(name) {
                notes.push(both!(
                    "`[tools.policies]`의 `{name}`: 그 도구가 지금 없습니다",
                    "`[tools.policies]` `{name}`: that tool is not there now"
                ));
                continue;
            }
            return Err(both!(
                "`[tools.policies]`: `{name}`(이)라는 도구는 없습니다. 있는 것: {known}",
                "`[tools.policies]`: there is no tool `{name}`; there are: {known}"
            )
            .into());
        }
    }
    let mut agents = config.tables.agents();
    agents.graphs.extend(super::descriptions(config)?);
    for (agent, name) in agents.tools().into_iter().filter(|(_, name)| toolbox.is_away(name)) {
        notes.push(both!(
            "에이전트 `{agent}`: 도구 `{name}`이(가) 지금 없어 그것 없이 일합니다",
            "agent `{agent}`: the tool `{name}` is not there now, and it works without it"
        ));
    }
    Ok(Tools { toolbox, memories, notes })
}

/// What to tell where replicas that share a database do not share the key of Python's variables.
fn unshared(config: &Config, has_python: bool) -> Option<Both> {
    let shares = matches!(config.database, Database::Postgres(_)) && config.secrets.get(SHARED_KEY).is_none();
    (shares && has_python).then(|| {
        both!(
            "PostgreSQL을 함께 쓰는 서버가 여럿이면 모두에 같은 `{SHARED_KEY}`를 주세요. 그러지 않으면 다른 서버가 대화를 넘겨받을 때 `python_repl`의 변수가 사라집니다",
            "where several servers share PostgreSQL, give all of them the same `{SHARED_KEY}`; without it the variables of `python_repl` are lost when another one takes a thread over"
        )
    })
}

fn builtin(config: &Config, keep: Keep) -> anyhow::Result<Builtin> {
    let tools = &config.tables.tools;
    let key = |name| config.secrets.get(name).map(|key: &Secret| tools::Secret::new(key.reveal()));
    let roots = tools.read_roots.iter();
    let roots =
        roots.map(|(name, path)| Root { name: name.clone(), path: config.path_in_file(path), tenant: None });
    let mut forbidden: Vec<PathBuf> = vec![config.data_dir.clone()];
    if let Database::Sqlite(path) = &config.database {
        forbidden.push(path.clone());
    }
    forbidden.extend(config.file.clone());
    let mut builtin = Builtin {
        openweather_key: key(OPENWEATHER),
        tavily_key: key(TAVILY),
        roots: roots.collect(),
        forbidden,
        documents: Some(Arc::new(InJail(Reader::new(ReadLimits::default(), 1)))),
        memories: memories(config, keep)?,
        python: python(config, keep)?,
        ..Builtin::default()
    };
    if keep == Keep::InDataDir {
        doran_llm::mark_with(key_for(config, "marks")?);
    }
    builtin.egress.proxy.clone_from(&tools.proxy);
    if let Some(zone) = &tools.time_zone {
        builtin.home.clone_from(zone);
    }
    Ok(builtin)
}

pub(super) fn memories(config: &Config, keep: Keep) -> anyhow::Result<Option<Arc<dyn Memories>>> {
    // Replicas that share a database do not share a directory: they would each remember something else.
    let usual = matches!(config.database, Database::Sqlite(_));
    if !config.tables.tools.memory.unwrap_or(usual) {
        return Ok(None);
    }
    if keep == Keep::Nothing {
        return Ok(Some(Arc::new(RamMemories::default())));
    }
    let path = config.data_dir.join("memory.log");
    let shown = path.display();
    let memories = FileMemories::open(&path).map_err(|error| {
        both!("기억 `{shown}`을(를) 열 수 없습니다", "cannot open the memories `{shown}`").because(error)
    })?;
    Ok(Some(Arc::new(memories)))
}

#[cfg(feature = "python")]
fn python(config: &Config, keep: Keep) -> anyhow::Result<Option<Key>> {
    if config.tables.tools.python == Some(false) {
        return Ok(None);
    }
    Ok(Some(match keep {
        Keep::Nothing => Key::of_this_process(),
        Keep::InDataDir => Key::new(key_for(config, "python")?),
    }))
}

/// Secret bytes for one use: they sign variables of Python, and key the marks around quoted material. Replicas that share
/// a database share them by a variable; without it they are of this data directory.
fn key_for(config: &Config, usage: &str) -> Result<[u8; 32], Both> {
    let Some(shared) = config.secrets.get(SHARED_KEY) else {
        return kept_key(&config.data_dir.join(format!("{usage}.key")));
    };
    if shared.reveal().len() < LEAST_KEY {
        return Err(both!(
            "환경 변수 `{SHARED_KEY}`가 너무 짧습니다. {LEAST_KEY}자 이상으로 정하세요. 예: `openssl rand -hex 32`",
            "the variable `{SHARED_KEY}` is too short; give it at least {LEAST_KEY} characters, such as `openssl rand -hex 32`"
        ));
    }
    Ok(Sha256::digest(format!("doran {usage}\0{}", shared.reveal())).into())
}

/// Secret bytes of this data directory, made once.
fn kept_key(path: &Path) -> Result<[u8; 32], Both> {
    let shown = path.display();
    let cannot = || both!("`{shown}`을(를) 읽거나 쓸 수 없습니다", "cannot read or write `{shown}`");
    match fs::read(path) {
        Ok(bytes) => <[u8; 32]>::try_from(bytes).map_err(|_| cannot()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut bytes = [0; 32];
            bytes[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
            bytes[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
            crate::data_dir::write_private(path, &bytes).map_err(|error| cannot().because(error))?;
            Ok(bytes)
        }
        Err(error) => Err(cannot().because(error)),
    }
}

#[cfg(not(feature = "python"))]
fn python(config: &Config, _keep: Keep) -> anyhow::Result<Option<Key>> {
    if config.tables.tools.python == Some(true) {
        return Err(both!(
            "이 doran은 Python 없이 만들어졌습니다. `--features python`으로 다시 만들거나 `[tools] python`을 지우세요",
            "this doran was built without Python; build it with `--features python`, or remove `[tools] python`"
        )
        .into());
    }
    Ok(None)
}

/// Connects to the servers of the settings. One that does not answer is noted.
async fn servers(
    config: &Config,
    keep: Keep,
    toolbox: &mut Toolbox,
    notes: &mut Notes,
) -> anyhow::Result<()> {
    let mut servers = Vec::new();
    for (name, table) in &config.tables.mcp {
        toolbox.know_server(name.as_str());
        let hidden = |values: &std::collections::BTreeMap<String, Secret>| {
            let one = |(key, value): (&String, &Secret)| {
                Ok((key.clone(), tools::Secret::new(config.secrets.resolved(value)?.reveal())))
            };
            values.iter().map(one).collect::<Result<_, Both>>()
        };
        let reach = match (&table.command, &table.url) {
            (Some(command), _) => mcp::Reach::Stdio {
                command: command.clone(),
                arguments: table.args.clone(),
                environment: hidden(&table.env)?,
            },
            (None, url) => {
                mcp::Reach::Http { url: url.clone().unwrap_or_default(), headers: hidden(&table.headers)? }
            }
        };
        let trust = if table.trust_hints { mcp::Trust::Hints } else { mcp::Trust::None };
        servers.push(mcp::Server { name: name.clone(), reach, trust, bounds: mcp::Bounds::default() });
    }
    if servers.is_empty() {
        return Ok(());
    }
    let path = config.data_dir.join("mcp-pins.json");
    let pins = read_pins(&path)?;
    let found = mcp::connect(servers, &pins).await;
    if keep == Keep::InDataDir && found.pins != pins {
        let shown = path.display();
        crate::data_dir::write_private(&path, &serde_json::to_vec_pretty(&found.pins)?)
            .map_err(|error| both!("`{shown}`에 쓸 수 없습니다", "cannot write `{shown}`").because(error))?;
    }
    for mcp::Problem { server, ko, en } in found.problems {
        notes.push(both!("MCP 서버 `{server}`: {ko}", "MCP server `{server}`: {en}"));
    }
    for tool in found.tools {
        let server = tool.about().spec.name.split("__").next().unwrap_or_default().to_owned();
        let policy = config.tables.mcp.get(&server).and_then(|table| table.policy).unwrap_or(Policy::Ask);
        toolbox.add(tool, policy)?;
    }
    Ok(())
}

/// What tools claimed to be when they were first seen.
fn read_pins(path: &Path) -> Result<mcp::Pins, Both> {
    let shown = path.display();
    let damaged = || {
        both!(
            "`{shown}`을(를) 읽을 수 없습니다. MCP 도구를 다시 승인하려면 이 파일을 지우세요",
            "cannot read `{shown}`; remove it to approve the MCP tools anew"
        )
    };
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| damaged().because(error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(mcp::Pins::default()),
        Err(error) => Err(damaged().because(error)),
    }
}

/// Reads documents for `read_file` in a jailed child, as ingest does.
struct InJail(Reader);

#[async_trait]
impl ReadsDocuments for InJail {
    fn reads(&self, name: &str) -> bool {
        let end = name.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
        matches!(end.as_str(), "hwpx" | "hwp" | "pdf" | "docx" | "xlsx")
    }

    async fn read(&self, name: &str, bytes: Vec<u8>, language: tools::Language) -> Result<String, String> {
        match self.0.read(name, &bytes).await {
            Ok(found) => Ok(found.text),
            Err(failure) => Err(language.pick(failure.kind.ko(), failure.kind.en()).to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;
    use crate::environment::Environment;
    use crate::scratch::Scratch;

    fn config(home: &Path, variables: &[(&str, &str)]) -> Config {
        let home = home.to_str().expect("UTF-8");
        let variables = [variables, &[("HOME", home), ("DORAN_DATA_DIR", home)]].concat();
        load(&Default::default(), None, &Environment::of("/nowhere", &variables)).expect("settings").config
    }

    #[test]
    fn replicas_with_one_shared_key_sign_alike_and_those_without_do_not() {
        let (one, two) = (Scratch::new(), Scratch::new());
        let key = |home: &Scratch, shared: &[(&str, &str)], usage: &str| {
            key_for(&config(home.path(), shared), usage).expect("a key")
        };
        let shared = [(SHARED_KEY, "the key that all replicas are given")];
        assert_eq!(key(&one, &shared, "python"), key(&two, &shared, "python"));
        assert_ne!(key(&one, &shared, "python"), key(&one, &shared, "marks"));
        assert_ne!(key(&one, &[], "python"), key(&two, &[], "python"));
        assert_eq!(key(&one, &[], "python"), key(&one, &[], "python"), "it is kept");
        assert!(key_for(&config(one.path(), &[(SHARED_KEY, "short")]), "python").is_err());
    }

    #[test]
    fn only_replicas_that_lose_variables_are_told_so() {
        let home = Scratch::new();
        let postgres = ("DORAN_DATABASE", "postgres://u@h/d");
        let told = |variables: &[(&str, &str)], has_python: bool| {
            unshared(&config(home.path(), variables), has_python).is_some()
        };
        assert!(told(&[postgres], true));
        assert!(!told(&[postgres], false) && !told(&[], true));
        assert!(!told(&[postgres, (SHARED_KEY, "the key that all replicas are given")], true));
    }
}
