//! `doran agents`: lists the agents with their models and tools.

use std::io::Write;
use std::sync::Arc;

use doran_agents::described::{self, describe};
use doran_agents::tools::ToolPolicy;
use doran_agents::{MAX_AGENT_NAME_CHARS, is_agent_name, is_built_in_agent};
use doran_retrieval::{Language, RamKeywordIndex};
use serde_json::json;

use crate::agent_files::agent_folder;
use crate::assemble::{self, DataDirWrites, RecordReplay};
use crate::config::Config;
use crate::data_dir::ensure_private_dir;
use crate::output::{TerminalOutput, bilingual, display_width, pad_to_width};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran agents
  doran agents --tools
  doran agents new helpdesk                    write a commented template · 설명이 달린 템플릿 만들기
  doran agents export docqa > my-agent.toml
  doran agents schema > agent.schema.json      for editors · 편집기용")]
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
    /// Write a commented template to agents/ of the data directory · 데이터 디렉터리의 agents/에 설명이 달린 템플릿을 만듭니다
    New(NewAgentArgs),
    /// Print the JSON Schema of agent files · 에이전트 파일의 JSON 스키마를 출력합니다
    Schema,
    /// Print an agent as a file for agents/ · 에이전트를 agents/용 파일 형식으로 출력합니다
    Export(ExportAgentArgs),
}

#[derive(Debug, clap::Args)]
struct NewAgentArgs {
    /// Name of the agent · 에이전트 이름
    #[arg(value_name = "NAME")]
    name: String,
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
    match &args.what {
        Some(AgentsCommand::New(args)) => return write_template(args, config, output),
        Some(AgentsCommand::Schema) => return output.print_data(&schema_text()?),
        Some(AgentsCommand::Export(_)) | None => {}
    }
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
            .map(|(about, policy)| tool_row(&about, policy, args.json, output.language))
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

fn schema_text() -> serde_json::Result<String> {
    serde_json::to_string_pretty(&described::AgentDescription::json_schema()).map(|text| text + "\n")
}

/// Writes a template and the schema that editors check it by.
fn write_template(args: &NewAgentArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let name = args.name.as_str();
    if !is_agent_name(name) {
        return Err(bilingual!(
            "에이전트 이름은 글자나 숫자로 시작하고, 글자, 숫자, `-`, `_`, `.`을 {MAX_AGENT_NAME_CHARS}자까지 쓸 수 있습니다",
            "the name of an agent has 1 to {MAX_AGENT_NAME_CHARS} letters, digits, `-`, `_` and `.`, and begins with a letter or a digit"
        )
        .into());
    }
    if is_built_in_agent(name) {
        return Err(bilingual!(
            "`{name}`은(는) 프로그램에 들어 있는 에이전트의 이름입니다. 다른 이름을 쓰세요",
            "`{name}` is an agent of the program; choose another name"
        )
        .into());
    }
    let folder = agent_folder(&config.data_dir);
    let path = folder.join(format!("{name}.toml"));
    let shown = path.display();
    let cannot = || bilingual!("`{shown}`에 쓸 수 없습니다", "cannot write `{shown}`");
    ensure_private_dir(&config.data_dir)?;
    std::fs::create_dir_all(&folder).map_err(|error| cannot().with_cause(error))?;
    std::fs::write(folder.join("agent.schema.json"), schema_text()?)
        .map_err(|error| cannot().with_cause(error))?;
    let text = described::template(name, output.language);
    let written = std::fs::File::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            bilingual!("`{shown}`이(가) 이미 있습니다", "`{shown}` exists already")
        }
        _ => cannot().with_cause(error),
    })?;
    output.print_message(&bilingual!(
        "`{shown}`을(를) 만들었습니다. 실행 중인 서버가 바로 읽습니다. `doran ask --agent {name} …`으로 물어보세요",
        "wrote `{shown}`; a running server reads it at once. Ask it with `doran ask --agent {name} …`"
    ));
    Ok(())
}

fn export_agent(
    args: &ExportAgentArgs,
    agents: &[doran_agents::Agent],
    output: TerminalOutput,
) -> anyhow::Result<()> {
    let name = &args.agent;
    let Some(agent) = agents.iter().find(|agent| agent.name == *name) else {
        let known = agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(bilingual!(
            "`{name}`(이)라는 에이전트는 없습니다. 있는 것: {known}",
            "there is no agent `{name}`; there are: {known}"
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

fn agent_row(agent: &doran_agents::Agent, as_json: bool, language: Language) -> [String; 3] {
    let model = agent.model().map(|model| model.name).unwrap_or_default();
    if as_json {
        let shown = json!({
            "agent": agent.name, "kind": agent.kind, "model": model, "ko": agent.ko, "en": agent.en,
            "hidden": agent.is_hidden,
        });
        return [shown.to_string(), String::new(), String::new()];
    }
    let about = language.pick(&agent.ko, &agent.en);
    let mark = if agent.is_hidden { language.pick(" (메뉴에 없음)", " (not in menus)") } else { "" };
    [agent.name.clone(), model, format!("{about}{mark}")]
}

fn tool_row(
    about: &doran_agents::tools::ToolInfo,
    policy: ToolPolicy,
    as_json: bool,
    language: Language,
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
    let words = language.pick(&about.ko, &about.en);
    [name, policy.to_owned(), words.clone()]
}
