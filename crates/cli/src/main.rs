//! The program `doran`: reads the environment, the settings and the command line, and hands over.

mod agent_client;
mod agent_files;
mod api_key_file;
mod api_key_store;
mod args;
mod assemble;
mod attachment_cleanup;
mod backup;
mod busy_server_retry;
mod client;
mod commands;
mod config;
mod data_dir;
mod document_client;
mod environment;
mod eval_files;
mod eval_folder;
mod exit;
mod free_memory;
mod help_language;
mod line_reader;
mod local_api;
mod log;
mod output;
mod replica;
mod secret;
mod start_screen;
mod step_lines;
mod store_advice;
mod stored_models;
mod streamed_answer;
mod systemd_notify;
mod terminal_markdown;
#[cfg(test)]
mod test_directory;
mod version;

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use doran_agents::tools::python;
use doran_retrieval::{Language, ingest};

use crate::args::{CliCommand, CommandLineArgs};
use crate::environment::Environment;
use crate::output::{BilingualMessage, TerminalOutput};

/// Gives memory back that thousands of connections took, and is quicker than what most systems bring.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    data_dir::set_private_umask();
    if let Some(ended) = run_as_worker(std::env::args_os().nth(1).as_deref()) {
        return ended;
    }
    let language = help_language();
    let args = match parse_command_line(language) {
        Ok(args) => args,
        Err(error) => return report_parse_error(&error, language),
    };
    let environment = match Environment::from_process() {
        Ok(environment) => environment,
        Err(error) => {
            TerminalOutput::new(Language::English, None, None).print_error(&error.into());
            return ExitCode::FAILURE;
        }
    };
    let language = config::early_language(args.settings.lang.as_deref(), &environment);
    let output = TerminalOutput::new(language, environment.get("NO_COLOR"), environment.get("TERM"));
    match run(&args, &environment, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output.print_error(&error);
            exit::exit_code(&error)
        }
    }
}

/// The language of help: `--lang`, then `DORAN_LANGUAGE`, then the locale.
fn help_language() -> Language {
    let requested = help_language::requested_language(
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()),
    );
    match Environment::from_process() {
        Ok(environment) => config::early_language(requested.as_deref(), &environment),
        // The same error is reported in English, once the command line is parsed.
        Err(_) => Language::English,
    }
}

fn parse_command_line(language: Language) -> Result<CommandLineArgs, clap::Error> {
    let command = help_language::localize_help(CommandLineArgs::command(), language);
    CommandLineArgs::from_arg_matches(&command.try_get_matches()?)
}

/// Prints help, the version, or what is wrong with the command line, in one language.
fn report_parse_error(error: &clap::Error, language: Language) -> ExitCode {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let is_bare = matches!(error.kind(), ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
        && std::env::args_os().len() == 1;
    if is_bare {
        // `doran` without arguments is a request for help, not a mistake.
        let output = TerminalOutput::new(language, None, None);
        let printed = match std::io::stdout().is_terminal() {
            true => start_screen::print_start_screen(output),
            false => output.print_data(&error.render().to_string()),
        };
        return match printed {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                output.print_error(&error);
                exit::exit_code(&error)
            }
        };
    }
    let is_help =
        matches!(error.kind(), ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand) || !error.use_stderr();
    if language == Language::Korean && !is_help {
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
                format!("필요한 값이 없습니다:{}", named(ContextKind::InvalidArg))
            }
            ErrorKind::MissingSubcommand => "명령을 적어 주세요".to_owned(),
            _ => "잘못된 명령줄입니다".to_owned(),
        };
        let expected = match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(values)) if !values.is_empty() => {
                format!(". 필요한 것: {}", values.join(", "))
            }
            // The parsers of this program say it themselves.
            _ => std::error::Error::source(error)
                .and_then(|source| source.downcast_ref::<BilingualMessage>())
                .map(|expected| format!(". {}", expected.ko))
                .unwrap_or_default(),
        };
        let suggestion =
            [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue]
                .into_iter()
                .find_map(|kind| error.get(kind))
                .map(|suggested| format!(". 비슷한 것: `{suggested}`"))
                .unwrap_or_default();
        let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
        let command = named_command(words);
        TerminalOutput::new(Language::Korean, None, None).print_note(&format!(
            "오류: {what}{expected}{suggestion}. 사용법은 `{command} --help`로 볼 수 있습니다"
        ));
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    // If nobody reads the output, the exit code still tells what happened.
    drop(error.print());
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// The command that was misused, as far as these words name one.
fn named_command(words: impl IntoIterator<Item = String>) -> String {
    let mut command = &CommandLineArgs::command();
    let mut names = vec![command.get_name().to_owned()];
    for word in words.into_iter().take_while(|word| word != "--") {
        if let Some(named) = command.find_subcommand(&word) {
            command = named;
            names.push(word);
        }
    }
    names.join(" ")
}

/// The program starts itself again to work on hostile input in a jail. The first argument says what on; people never
/// write it, and `--help` does not show it.
fn run_as_worker(argument: Option<&OsStr>) -> Option<ExitCode> {
    match argument?.to_str()? {
        ingest::EXTRACT_WORKER_ARG => Some(ingest::extract_worker_main()),
        python::WORKER_ARGUMENT => Some(python::worker_main()),
        _ => None,
    }
}

fn run(args: &CommandLineArgs, environment: &Environment, output: TerminalOutput) -> anyhow::Result<()> {
    let loaded = config::load(&args.settings.given_flags(), args.config.as_deref(), environment)?;
    let output = TerminalOutput { language: loaded.config.language, ..output };
    let is_conversation = matches!(args.command, CliCommand::Ask(_) | CliCommand::Chat(_));
    // Between questions and answers, warnings of the crates below would be noise. Those of this one are about the user's files.
    let quiet = "error,doran::=warn";
    let filter = if is_conversation && loaded.is_default("log") { quiet } else { &loaded.config.log };
    log::init_logging(filter, loaded.config.log_is_json)?;
    tracing::debug!(file = ?loaded.file, "settings loaded");
    let config = &loaded.config;
    match &args.command {
        CliCommand::Completions(args) => commands::completions::run(args, output),
        CliCommand::Man(args) => commands::completions::run_man(args, output),
        CliCommand::Config(args) => commands::config::run(args, &loaded, output),
        CliCommand::Demo(args) => block_on_command(commands::demo::run(args, config, output)),
        CliCommand::Ask(args) => block_on_command(commands::ask::run(args, config, output)),
        CliCommand::Chat(args) => block_on_command(commands::chat::run(args, config, output)),
        CliCommand::Serve(args) => block_on_command(commands::serve::run(args, config, output)),
        CliCommand::Mcp(args) => block_on_command(commands::mcp::run(args, config, output)),
        CliCommand::Ingest(args) => block_on_command(commands::ingest::run(args, config, output)),
        CliCommand::Search(args) => block_on_command(commands::search::run(args, config, output)),
        CliCommand::Documents(args) => block_on_command(commands::documents::run(args, config, output)),
        CliCommand::Reindex => block_on_command(commands::reindex::run(config, output)),
        CliCommand::Threads(args) => block_on_command(commands::threads::run(args, config, output)),
        CliCommand::Runs(args) => block_on_command(commands::runs::run(args, config, output)),
        CliCommand::Memory(args) => block_on_command(commands::memory::run(args, config, output)),
        CliCommand::Agents(args) => block_on_command(commands::agents::run(args, config, output)),
        CliCommand::Models(args) => {
            block_on_command(commands::models::run(args, &loaded, environment, output))
        }
        CliCommand::Keys(args) => block_on_command(commands::keys::run(args, config, output)),
        CliCommand::Doctor(args) => block_on_command(commands::doctor::run(args, &loaded, output)),
        CliCommand::Graph(args) => block_on_command(commands::graph::run(args, config, output)),
        CliCommand::Eval(args) => block_on_command(commands::eval::run(args, config, output)),
        CliCommand::Backup(args) => block_on_command(commands::backup::run(args, config, output)),
        CliCommand::Restore(args) => block_on_command(commands::restore::run(args, config, output)),
        CliCommand::Gc => block_on_command(commands::gc::run(config, output)),
    }
}

fn block_on_command(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(command)
}
