//! The program `doran`: reads the environment, the settings and the command line, and hands over.

mod args;
mod commands;
mod config;
#[cfg_attr(not(test), expect(dead_code, reason = "no command opens a store yet"))]
mod data_dir;
mod environment;
mod output;
#[cfg(test)]
mod scratch;
mod secret;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::{Args, Command};
use crate::environment::Environment;
use crate::output::{Language, Output};

fn main() -> ExitCode {
    let args = Args::parse();
    let environment = match Environment::of_process() {
        Ok(environment) => environment,
        Err(error) => {
            Output::new(Language::English, None).fail(&error.into());
            return ExitCode::FAILURE;
        }
    };
    let language = config::early_language(args.settings.lang.as_deref(), &environment);
    let output = Output::new(language, environment.get("NO_COLOR"));
    match run(&args, &environment, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output.fail(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args, environment: &Environment, output: Output) -> anyhow::Result<()> {
    let loaded = config::load(&args.settings.flags(), args.config.as_deref(), environment)?;
    let output = Output { language: loaded.config.language, ..output };
    start_log(&loaded.config.log, output)?;
    tracing::debug!(file = ?loaded.file, "settings read");
    match &args.command {
        Command::Config(args) => commands::config::run(args, &loaded, output),
    }
}

fn start_log(filter: &str, output: Output) -> anyhow::Result<()> {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(output.colour);
    tracing_subscriber::registry().with(lines).with(filter.parse::<Targets>()?).try_init()?;
    Ok(())
}
