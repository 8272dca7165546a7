//! The program `doran`: reads the environment, the settings and the command line, and hands over.

mod answer;
mod args;
mod assemble;
mod client;
mod commands;
mod config;
mod data_dir;
mod desk;
mod environment;
mod exit;
mod keys;
mod log;
mod output;
mod patience;
#[cfg(test)]
mod scratch;
mod secret;
mod shelf;

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::Parser;
use doran_agents::tools::python;
use doran_retrieval::ingest;

use crate::args::{Args, Command};
use crate::environment::Environment;
use crate::output::{Language, Output};

/// Gives memory back that thousands of connections took, and is quicker than what most systems bring.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(ended) = as_worker(std::env::args_os().nth(1).as_deref()) {
        return ended;
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return misread(&error),
    };
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
            exit::code(&error)
        }
    }
}

/// Help and versions are no mistakes. A mistake is told in English by the parser, and in Korean before it where that is
/// the language of the system.
fn misread(error: &clap::Error) -> ExitCode {
    use clap::error::{ContextKind, ErrorKind};
    let korean = Environment::of_process()
        .is_ok_and(|environment| config::early_language(None, &environment) == Language::Korean);
    if korean && error.use_stderr() {
        let named = |kind| error.get(kind).map(|value| format!(" `{value}`")).unwrap_or_default();
        let what = match error.kind() {
            ErrorKind::UnknownArgument => format!("그런 옵션은 없습니다:{}", named(ContextKind::InvalidArg)),
            ErrorKind::InvalidSubcommand => {
                format!("그런 명령은 없습니다:{}", named(ContextKind::InvalidSubcommand))
            }
            ErrorKind::InvalidValue | ErrorKind::ValueValidation => format!(
                "옵션{}에 맞지 않는 값입니다:{}",
                named(ContextKind::InvalidArg),
                named(ContextKind::InvalidValue)
            ),
            ErrorKind::MissingRequiredArgument => {
                format!("빠진 것이 있습니다:{}", named(ContextKind::InvalidArg))
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
                "무엇을 할지 적어 주세요".to_owned()
            }
            _ => "명령을 알아듣지 못했습니다".to_owned(),
        };
        Output::new(Language::Korean, None)
            .note(&format!("오류: {what}. 쓰는 법은 `doran --help`로 볼 수 있습니다"));
    }
    // Where nobody reads what is printed, the code still tells.
    drop(error.print());
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// The program starts itself again to work on hostile input in a jail. The first argument says what on; people never
/// write it, and `--help` does not show it.
fn as_worker(argument: Option<&OsStr>) -> Option<ExitCode> {
    match argument?.to_str()? {
        ingest::WORKER => Some(ingest::worker_main()),
        python::WORKER => Some(python::worker_main()),
        _ => None,
    }
}

fn run(args: &Args, environment: &Environment, output: Output) -> anyhow::Result<()> {
    let loaded = config::load(&args.settings.flags(), args.config.as_deref(), environment)?;
    let output = Output { language: loaded.config.language, ..output };
    log::start(&loaded.config.log, loaded.config.log_is_json)?;
    tracing::debug!(file = ?loaded.file, "settings read");
    let config = &loaded.config;
    match &args.command {
        Command::Config(args) => commands::config::run(args, &loaded, output),
        Command::Demo(args) => wait(commands::demo::run(args, config, output)),
        Command::Ask(args) => wait(commands::ask::run(args, config, output)),
        Command::Chat(args) => wait(commands::chat::run(args, config, output)),
        Command::Serve(args) => wait(commands::serve::run(args, config, output)),
        Command::Ingest(args) => wait(commands::ingest::run(args, config, output)),
        Command::Search(args) => wait(commands::search::run(args, config, output)),
        Command::Documents(args) => wait(commands::documents::run(args, config, output)),
        Command::Reindex => wait(commands::reindex::run(config, output)),
        Command::Threads(args) => wait(commands::threads::run(args, config, output)),
        Command::Runs(args) => wait(commands::runs::run(args, config, output)),
        Command::Memory(args) => wait(commands::memory::run(args, config, output)),
        Command::Agents(args) => wait(commands::agents::run(args, config, output)),
        Command::Models(args) => wait(commands::models::run(args, &loaded, environment, output)),
        Command::Keys(args) => commands::keys::run(args, config, output),
        Command::Doctor(args) => wait(commands::doctor::run(args, &loaded, output)),
        Command::Graph(args) => wait(commands::graph::run(args, config, output)),
        Command::Eval(args) => wait(commands::eval::run(args, config, output)),
        Command::Backup(args) => wait(commands::backup::run(args, config, output)),
        Command::Gc => wait(commands::gc::run(config, output)),
    }
}

fn wait(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(command)
}
