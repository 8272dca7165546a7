//! `doran graph`: draws an agent. Does not open the store.

use std::sync::Arc;

use doran_retrieval::RamKeywordIndex;

use crate::assemble::{self, DataDirWrites, RecordReplay};
use crate::config::Config;
use crate::output::{TerminalOutput, bilingual};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran graph assistant
  doran graph assistant --format ascii
  doran graph contract --format svg > contract.svg")]
pub(crate) struct GraphArgs {
    /// Agent to draw · 그릴 에이전트
    #[arg(value_name = "AGENT")]
    agent: String,
    /// Output format · 출력 형식
    #[arg(long, value_enum, default_value_t = GraphOutputFormat::Mermaid)]
    format: GraphOutputFormat,
}

/// Ways to draw.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum GraphOutputFormat {
    Mermaid,
    Json,
    Svg,
    Ascii,
}

/// Prints the topology.
pub(crate) async fn run(args: &GraphArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let index = Arc::new(RamKeywordIndex::default());
    let staff =
        assemble::assemble_agents(config, &RecordReplay::default(), index, DataDirWrites::Forbidden).await?;
    let agents = staff.agents;
    let Some(agent) = agents.iter().find(|agent| agent.name == args.agent) else {
        let name = &args.agent;
        let known = agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(bilingual!(
            "`{name}`(이)라는 에이전트는 없습니다. 있는 것: {known}",
            "there is no agent `{name}`; there are: {known}"
        )
        .into());
    };
    let topology = agent.topology();
    let text = match args.format {
        GraphOutputFormat::Mermaid => doran_draw::draw_mermaid(&topology),
        GraphOutputFormat::Json => format!("{:#}", serde_json::json!(doran_draw::draw_json(&topology))),
        GraphOutputFormat::Svg => doran_draw::draw_svg(&topology),
        GraphOutputFormat::Ascii => doran_draw::draw_text(&topology),
    };
    output.print_data(&format!("{}\n", text.trim_end()))
}
