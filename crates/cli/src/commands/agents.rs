//! `doran agents`: lists the agents with their models and tools.

use std::sync::Arc;

use doran_agents::described::{self, describe};
use doran_agents::tools::ToolPolicy;
use doran_retrieval::RamKeywordIndex;
use serde_json::json;

use crate::assemble::{self, DataDirWrites, RecordReplay};
use crate::config::Config;
use crate::output::{OutputLanguage, TerminalOutput, bilingual, display_width, pad_to_width};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran agents
  doran agents --tools
  doran agents export docqa > my-agent.toml")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    what: Option<AgentsCommand>,
    /// Print one JSON object per line · 한 줄에 JSON 하나씩 출력합니다
    #[arg(long)]
    json: bool,
    /// List tools and their policies instead · 대신 도구와 정책 목록을 보여 줍니다
    #[arg(long)]
    tools: bool,
}

/// What else to do with them.
#[derive(Debug, clap::Subcommand)]
enum AgentsCommand {
    /// Print an agent as a file for agents/ · 에이전트를 agents/용 파일 형식으로 출력합니다
    Export(ExportAgentArgs),
}

#[derive(Debug, clap::Args)]
struct ExportAgentArgs {
    /// Agent to print · 출력할 에이전트
    #[arg(value_name = "AGENT")]
    agent: String,
    /// Output format · 출력 형식
    #[arg(long, value_enum, default_value_t = AgentExportFormat::Toml)]
    format: AgentExportFormat,
}

/// Ways to write a graph.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum AgentExportFormat {
    Toml,
    Yaml,
}

/// Lists the agents or exports one.
pub(crate) async fn run(args: &AgentsArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let index = Arc::new(RamKeywordIndex::default());
    let staff =
        assemble::assemble_agents(config, &RecordReplay::default(), index, DataDirWrites::Forbidden).await?;
    staff.notes.iter().for_each(|note| output.print_message(note));
    if let Some(AgentsCommand::Export(args)) = &args.what {
        return export_agent(args, &staff.agents, output);
    }
    let rows: Vec<[String; 3]> = if args.tools {
        staff
            .tools
            .list()
            .map(|(about, policy)| tool_row(about, policy, args.json, output.language))
            .collect()
    } else {
        staff.agents.iter().map(|agent| agent_row(agent, args.json, output.language)).collect()
    };
    let wide = |at: usize| rows.iter().map(|row| display_width(&row[at])).max().unwrap_or(0);
    let (first, second) = (wide(0), wide(1));
    let line = |[left, middle, right]: &[String; 3]| match args.json {
        true => format!("{left}\n"),
        false => format!("{}  {}  {right}\n", pad_to_width(left, first), pad_to_width(middle, second)),
    };
    output.print_data(&rows.iter().map(line).collect::<String>())
}

fn export_agent(
    args: &ExportAgentArgs,
    agents: &[doran_agents::Agent],
    output: TerminalOutput,
) -> anyhow::Result<()> {
    let asked = &args.agent;
    let Some(agent) = agents.iter().find(|agent| agent.name == *asked) else {
        let known = agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(bilingual!(
            "`{asked}`(이)라는 에이전트는 없습니다. 있는 것: {known}",
            "there is no agent `{asked}`; there are: {known}"
        )
        .into());
    };
    let format = match args.format {
        AgentExportFormat::Toml => described::DescriptionFormat::Toml,
        AgentExportFormat::Yaml => described::DescriptionFormat::Yaml,
    };
    let description = describe(agent);
    let head = description.header_comment();
    let gap = if head.is_empty() { "" } else { "\n" };
    output.print_data(&format!("{head}{gap}{}", description.write(format)?))
}

fn agent_row(agent: &doran_agents::Agent, as_json: bool, language: OutputLanguage) -> [String; 3] {
    if as_json {
        let shown = json!({
            "agent": agent.name, "kind": agent.kind, "model": agent.model.name, "ko": agent.ko, "en": agent.en,
        });
        return [shown.to_string(), String::new(), String::new()];
    }
    let about = match language {
        OutputLanguage::Korean => &agent.ko,
        OutputLanguage::English => &agent.en,
    };
    [agent.name.clone(), agent.model.name.clone(), about.clone()]
}

fn tool_row(
    about: &doran_agents::tools::ToolInfo,
    policy: ToolPolicy,
    as_json: bool,
    language: OutputLanguage,
) -> [String; 3] {
    let (name, policy) = (
        about.spec.name.clone(),
        match policy {
            ToolPolicy::Allow => "allow",
            ToolPolicy::Ask => "ask",
            ToolPolicy::Deny => "deny",
        },
    );
    if as_json {
        let shown = json!({ "tool": name, "policy": policy, "outward": about.outward, "ko": about.ko, "en": about.en });
        return [shown.to_string(), String::new(), String::new()];
    }
    let words = match language {
        OutputLanguage::Korean => &about.ko,
        OutputLanguage::English => &about.en,
    };
    [name, policy.to_owned(), words.clone()]
}
