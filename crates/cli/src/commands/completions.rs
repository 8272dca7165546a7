//! `doran completions` and `doran man`: files for shells and for `man`, made from the command line itself.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::args::CommandLineArgs;
use crate::help_language::localize_help;
use crate::output::{TerminalOutput, bilingual};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran completions bash > ~/.local/share/bash-completion/completions/doran
  doran completions zsh > ~/.zfunc/_doran
  doran completions fish > ~/.config/fish/completions/doran.fish")]
pub(crate) struct CompletionsArgs {
    /// Shell · 셸
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

/// Prints the completions of a shell.
pub(crate) fn run(args: &CompletionsArgs, output: TerminalOutput) -> anyhow::Result<()> {
    let mut text = Vec::new();
    let mut command = localize_help(CommandLineArgs::command(), output.language);
    clap_complete::generate(args.shell, &mut command, "doran", &mut text);
    output.print_data(&String::from_utf8(text)?)
}

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran man ~/.local/share/man/man1
  doran man ~/.local/share/man/ko/man1 --lang ko")]
pub(crate) struct ManArgs {
    /// Directory to write to · 저장할 디렉터리
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes a page for the program and one for each command.
pub(crate) fn run_man(args: &ManArgs, output: TerminalOutput) -> anyhow::Result<()> {
    let shown = args.directory.display();
    let command = localize_help(CommandLineArgs::command(), output.language);
    std::fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(command, &args.directory))
        .map_err(|error| {
            bilingual!("`{shown}`에 쓸 수 없습니다", "cannot write to `{shown}`").with_cause(error)
        })?;
    Ok(())
}
