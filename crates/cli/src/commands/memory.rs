//! `doran memory`: what agents were asked to remember, seen and forgotten.

use doran_agents::memory::{Fact, MOST_FACTS, Owner, SPACE};
use doran_engine::Tenant;
use serde_json::{Value, json};

use crate::assemble;
use crate::client::encoded;
use crate::config::Config;
use crate::desk;
use crate::output::{Both, Output, both};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 보기:
  doran memory list
  doran memory list 생일
  doran memory forget 3f9c01d2ab77")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// What to do with it.
#[derive(Debug, clap::Subcommand)]
enum What {
    /// List what is remembered, the newest first · 기억한 것을 새것부터 나열한다
    List {
        /// Only what shares words with this, the best first · 이 말과 통하는 것만, 잘 맞는 것부터
        #[arg(value_name = "WORDS")]
        words: Vec<String>,
        /// Print one JSON object a line · 한 줄에 JSON 하나씩 출력
        #[arg(long)]
        json: bool,
    },
    /// Forget what the list shows under these ids · 목록에 이 번호로 나온 것을 잊는다
    Forget {
        /// The ids · 잊을 것의 번호
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
}

/// Does it, in the data directory or by the server that has it.
pub(crate) async fn run(args: &Args, config: &Config, output: Output) -> anyhow::Result<()> {
    match &args.what {
        What::List { words, json } => list(words.join(" ").trim(), *json, config, output).await,
        What::Forget { ids } => {
            // All are looked up before anything is forgotten.
            let known = facts("", config).await?;
            for id in ids {
                if !known.iter().any(|fact| fact.id == *id) {
                    return Err(unknown(id).into());
                }
            }
            for id in ids {
                forget(id, config, output).await?;
            }
            Ok(())
        }
    }
}

/// What is remembered, or what of it shares words with these.
async fn facts(words: &str, config: &Config) -> anyhow::Result<Vec<Fact>> {
    Ok(match desk::server(config) {
        Some(client) => {
            let listed = client.get(&format!("/api/memory?q={}", encoded(words))).await?;
            let facts = listed["facts"].as_array().map(Vec::as_slice).unwrap_or_default();
            facts.iter().map(of_json).collect()
        }
        None => {
            let (memories, owner) = (assemble::memories(config)?, owner());
            match words {
                "" => memories.list(&owner).await?,
                words => memories.find(&owner, words, MOST_FACTS).await?,
            }
        }
    })
}

async fn list(words: &str, as_json: bool, config: &Config, output: Output) -> anyhow::Result<()> {
    let facts = facts(words, config).await?;
    if facts.is_empty() {
        output.tell(&both!("기억한 것이 없습니다", "nothing is remembered"));
    }
    let line = |Fact { id, text, at_ms }: &Fact| match as_json {
        true => format!("{}\n", json!({ "id": id, "text": text, "at": at_ms })),
        false => format!("{id}  {}\n", text.split_whitespace().collect::<Vec<_>>().join(" ")),
    };
    output.data(&facts.iter().map(line).collect::<String>())
}

async fn forget(id: &str, config: &Config, output: Output) -> anyhow::Result<()> {
    let was_there = match desk::server(config) {
        Some(client) => client.delete(&format!("/api/memory/{}", encoded(id))).await?,
        None => assemble::memories(config)?.forget(&owner(), id).await?,
    };
    if !was_there {
        return Err(unknown(id).into());
    }
    output.tell(&both!("잊었습니다: {id}", "forgotten: {id}"));
    Ok(())
}

fn unknown(id: &str) -> Both {
    both!(
        "`{id}`(으)로 기억한 것이 없습니다. `doran memory list`가 번호를 보여 줍니다",
        "nothing is remembered as `{id}`; `doran memory list` shows the ids"
    )
}

/// Whose memory it is without keys.
fn owner() -> Owner {
    Owner::new(Tenant::local().as_str(), SPACE)
}

fn of_json(fact: &Value) -> Fact {
    let text = |name: &str| fact[name].as_str().unwrap_or_default().to_owned();
    Fact { id: text("id"), text: text("text"), at_ms: fact["at"].as_i64().unwrap_or_default() }
}
