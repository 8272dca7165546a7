//! `doran graph`: draws an agent. No store is opened.

use std::sync::Arc;

use doran_retrieval::RamKeyword;

use crate::assemble::{self, Keep, Tape};
use crate::config::Config;
use crate::output::{Output, both};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 보기:
  doran graph assistant
  doran graph contract --format svg > contract.svg")]
pub(crate) struct Args {
    /// Agent to draw · 그릴 에이전트
    #[arg(value_name = "AGENT")]
    agent: String,
    /// How to draw it · 그리는 방법
    #[arg(long, value_enum, default_value_t = Format::Mermaid)]
    format: Format,
}

/// Ways to draw.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Mermaid,
    Json,
    Svg,
}

/// Prints the drawing.
pub(crate) async fn run(args: &Args, config: &Config, output: Output) -> anyhow::Result<()> {
    let index = Arc::new(RamKeyword::default());
    let staff = assemble::staff(config, &Tape::default(), index, Keep::Nothing).await?;
    let agents = staff.agents;
    let Some(agent) = agents.iter().find(|agent| agent.name == args.agent) else {
        let asked = &args.agent;
        let known = agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(both!(
            "`{asked}`(이)라는 에이전트는 없습니다. 있는 것: {known}",
            "there is no agent `{asked}`; there are: {known}"
        )
        .into());
    };
    let drawing = agent.drawing();
    let text = match args.format {
        Format::Mermaid => drawing.mermaid(),
        Format::Json => format!("{:#}", drawing.json()),
        Format::Svg => drawing.svg(),
    };
    output.data(&format!("{}\n", text.trim_end()))
}
