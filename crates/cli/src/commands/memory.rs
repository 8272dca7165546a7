//! `doran memory`: lists and deletes the memories of agents.

use doran_agents::memory::{DEFAULT_SPACE, MAX_FACTS_PER_OWNER, MemoryOwner};
use doran_engine::TenantId;
use doran_server::api::{MemoryFactInfo, MemoryFactList};
use doran_server::percent_encode;
use serde_json::json;

use crate::agent_client;
use crate::assemble;
use crate::config::Config;
use crate::output::{BilingualMessage, TerminalOutput, bilingual};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran memory list
  doran memory list 생일
  doran memory forget 3f9c01d2ab77")]
pub(crate) struct MemoryArgs {
    #[command(subcommand)]
    what: MemoryCommand,
}

/// What to do with it.
#[derive(Debug, clap::Subcommand)]
enum MemoryCommand {
    /// List memories, newest first · 메모리 목록을 최신순으로 보여 줍니다
    List {
        /// Only memories that match these words, best first · 이 단어와 맞는 메모리만, 관련도순
        #[arg(value_name = "WORDS")]
        words: Vec<String>,
        /// Print one JSON object per line · 한 줄에 JSON 하나씩 출력합니다
        #[arg(long)]
        json: bool,
    },
    /// Delete memories by id · ID로 메모리를 삭제합니다
    Forget {
        /// Ids from the list · 목록에 나온 ID
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
}

/// Runs the command in the data directory, or through the server that has it open.
pub(crate) async fn run(args: &MemoryArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    match &args.what {
        MemoryCommand::List { words, json } => list(words.join(" ").trim(), *json, config, output).await,
        MemoryCommand::Forget { ids } => {
            // All ids are checked before anything is deleted.
            let known = load_facts("", config).await?;
            for id in ids {
                if !known.iter().any(|fact| fact.id == *id) {
                    return Err(unknown_fact_error(id).into());
                }
            }
            for id in ids {
                forget(id, config, output).await?;
            }
            Ok(())
        }
    }
}

/// Loads all memories, or those that match the words.
async fn load_facts(words: &str, config: &Config) -> anyhow::Result<Vec<MemoryFactInfo>> {
    Ok(match agent_client::running_server(config) {
        Some(client) => {
            let path = format!("/api/memory?q={}", percent_encode(words));
            client.get::<MemoryFactList>(&path).await?.facts
        }
        None => {
            let (memories, owner) = (assemble::open_memories(config).await?, local_owner());
            let facts = match words {
                "" => memories.list(&owner).await?,
                words => memories.find(&owner, words, MAX_FACTS_PER_OWNER).await?,
            };
            facts.into_iter().map(MemoryFactInfo::from_fact).collect()
        }
    })
}

async fn list(words: &str, as_json: bool, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let facts = load_facts(words, config).await?;
    if facts.is_empty() {
        output.print_message(&match words {
            "" => bilingual!("기억한 것이 없습니다", "nothing is remembered"),
            words => bilingual!(
                "`{words}`에 맞는 기억이 없습니다. `doran memory list`가 모두 보여 줍니다",
                "nothing that is remembered matches `{words}`; `doran memory list` shows everything"
            ),
        });
    }
    let line = |fact: &MemoryFactInfo| match as_json {
        true => format!("{}\n", json!(fact)),
        false => format!("{}  {}\n", fact.id, fact.text.split_whitespace().collect::<Vec<_>>().join(" ")),
    };
    output.print_data(&facts.iter().map(line).collect::<String>())
}

async fn forget(id: &str, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let was_there = match agent_client::running_server(config) {
        Some(client) => client.delete(&format!("/api/memory/{}", percent_encode(id))).await?,
        None => assemble::open_memories(config).await?.forget(&local_owner(), id).await?,
    };
    if !was_there {
        return Err(unknown_fact_error(id).into());
    }
    output.print_message(&bilingual!("잊었습니다: {id}", "forgotten: {id}"));
    Ok(())
}

fn unknown_fact_error(id: &str) -> BilingualMessage {
    bilingual!(
        "`{id}`(으)로 기억한 것이 없습니다. `doran memory list`가 번호를 보여 줍니다",
        "nothing is remembered as `{id}`; `doran memory list` shows the ids"
    )
}

/// The owner of memories when no API keys are in use.
fn local_owner() -> MemoryOwner {
    MemoryOwner::new(TenantId::local().as_str(), DEFAULT_SPACE)
}
