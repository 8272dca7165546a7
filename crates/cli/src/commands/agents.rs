//! `doran agents`: who may be asked, with what they use.

use std::sync::Arc;

use doran_agents::described::{self, describe};
use doran_agents::tools::Policy;
use doran_retrieval::RamKeyword;
use serde_json::json;

use crate::assemble::{self, Keep, Tape};
use crate::config::Config;
use crate::output::{Language, Output, both, padded, width};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 보기:
  doran agents
  doran agents --tools
  doran agents export docqa > my-agent.toml")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Print one JSON object a line · 한 줄에 JSON 하나씩 출력
    #[arg(long)]
    json: bool,
    /// List tools instead, with their policies · 대신 도구와 정책을 나열한다
    #[arg(long)]
    tools: bool,
}

/// What else to do with them.
#[derive(Debug, clap::Subcommand)]
enum What {
    /// Write an agent's graph as a file in agents/ describes it · 에이전트의 그래프를 agents/의 파일과 같은 꼴로 쓴다
    Export(Export),
}

#[derive(Debug, clap::Args)]
struct Export {
    /// Agent to write down · 적을 에이전트
    #[arg(value_name = "AGENT")]
    agent: String,
    /// How to write it · 적는 방법
    #[arg(long, value_enum, default_value_t = Format::Toml)]
    format: Format,
}

/// Ways to write a graph.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Toml,
    Yaml,
}

/// Lists them, or writes one down.
pub(crate) async fn run(args: &Args, config: &Config, output: Output) -> anyhow::Result<()> {
    let index = Arc::new(RamKeyword::default());
    let staff = assemble::staff(config, &Tape::default(), index, Keep::Nothing).await?;
    staff.notes.iter().for_each(|note| output.tell(note));
    if let Some(What::Export(args)) = &args.what {
        return export(args, &staff.agents, output);
    }
    let rows: Vec<[String; 3]> = if args.tools {
        staff.tools.list().map(|(about, policy)| tool(about, policy, args.json, output.language)).collect()
    } else {
        staff.agents.iter().map(|agent| one(agent, args.json, output.language)).collect()
    };
    let wide = |at: usize| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0);
    let (first, second) = (wide(0), wide(1));
    let line = |[left, middle, right]: &[String; 3]| match args.json {
        true => format!("{left}\n"),
        false => format!("{}  {}  {right}\n", padded(left, first), padded(middle, second)),
    };
    output.data(&rows.iter().map(line).collect::<String>())
}

fn export(args: &Export, agents: &[doran_agents::Agent], output: Output) -> anyhow::Result<()> {
    let asked = &args.agent;
    let Some(agent) = agents.iter().find(|agent| agent.name == *asked) else {
        let known = agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(both!(
            "`{asked}`(이)라는 에이전트는 없습니다. 있는 것: {known}",
            "there is no agent `{asked}`; there are: {known}"
        )
        .into());
    };
    let format = match args.format {
        Format::Toml => described::Format::Toml,
        Format::Yaml => described::Format::Yaml,
    };
    let description = describe(agent);
    let head = description.head();
    let gap = if head.is_empty() { "" } else { "\n" };
    output.data(&format!("{head}{gap}{}", description.write(format)?))
}

fn one(agent: &doran_agents::Agent, as_json: bool, language: Language) -> [String; 3] {
    if as_json {
        let shown = json!({
            "agent": agent.name, "kind": agent.kind, "model": agent.model.name, "ko": agent.ko, "en": agent.en,
        });
        return [shown.to_string(), String::new(), String::new()];
    }
    let about = match language {
        Language::Korean => &agent.ko,
        Language::English => &agent.en,
    };
    [agent.name.clone(), agent.model.name.clone(), about.clone()]
}

fn tool(
    about: &doran_agents::tools::About,
    policy: Policy,
    as_json: bool,
    language: Language,
) -> [String; 3] {
    let (name, policy) = (
        about.spec.name.clone(),
        match policy {
            Policy::Allow => "allow",
            Policy::Ask => "ask",
            Policy::Deny => "deny",
        },
    );
    if as_json {
        let shown = json!({ "tool": name, "policy": policy, "outward": about.outward, "ko": about.ko, "en": about.en });
        return [shown.to_string(), String::new(), String::new()];
    }
    let words = match language {
        Language::Korean => &about.ko,
        Language::English => &about.en,
    };
    [name, policy.to_owned(), words.clone()]
}
