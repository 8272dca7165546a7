//! Help in one language. Every help line is written as `English · 한국어`; [`localize_help`] keeps one side.

use clap::builder::StyledStr;
use clap::{Arg, Command};
use doran_retrieval::Language;

/// What separates the English from the Korean half of a line.
const SEPARATOR: &str = " · ";

/// clap writes its own headings in English; this template has them in Korean.
const KOREAN_TEMPLATE: &str = "{about-with-newline}\n사용법: {usage}\n\n{all-args}{after-help}";

/// The language that `--lang` asks for, before the command line is parsed: help may be what was asked for.
pub(crate) fn requested_language(args: impl IntoIterator<Item = String>) -> Option<String> {
    let mut args = args.into_iter().take_while(|arg| arg != "--");
    while let Some(arg) = args.next() {
        match arg.strip_prefix("--lang") {
            Some("") => return args.next(),
            Some(value) if value.starts_with('=') => return Some(value[1..].to_owned()),
            Some(_) | None => {}
        }
    }
    None
}

/// The command with all help texts in one language.
pub(crate) fn localize_help(mut command: Command, language: Language) -> Command {
    // Adds the `help` and `version` flags, so that their texts are changed, too.
    command.build();
    localize(command, language)
}

fn localize(mut command: Command, language: Language) -> Command {
    let pick = |text: &StyledStr| pick_language(&text.to_string(), language);
    if let Some(about) = command.get_about().map(pick) {
        command = command.about(about);
    }
    if let Some(help) = command.get_after_help().map(pick) {
        command = command.after_help(help);
    }
    if let Some(help) = command.get_after_long_help().map(pick) {
        command = command.after_long_help(help);
    }
    if language == Language::Korean {
        command = command.help_template(KOREAN_TEMPLATE).subcommand_help_heading("명령");
        if command.get_name() == "help" {
            command = command.about("이 도움말 또는 명령의 도움말을 보여 줍니다");
        }
    }
    command
        .mut_args(|arg| localize_arg(arg, language))
        .mut_subcommands(|subcommand| localize(subcommand, language))
}

fn localize_arg(arg: Arg, language: Language) -> Arg {
    let help = arg.get_help().map(|help| pick_language(&help.to_string(), language));
    let is_setting = arg.get_help_heading().is_some();
    let (settings, arguments, options) = match language {
        Language::English => ("Settings", "Arguments", "Options"),
        Language::Korean => ("설정", "인자", "옵션"),
    };
    let heading = match (is_setting, arg.is_positional()) {
        (true, _) => settings,
        (false, true) => arguments,
        (false, false) => options,
    };
    let help = match (arg.get_id().as_str(), language) {
        ("help", Language::Korean) => Some("도움말을 보여 줍니다".to_owned()),
        ("version", Language::Korean) => Some("버전을 보여 줍니다".to_owned()),
        _ => help,
    };
    let arg = arg.help_heading(heading);
    match help {
        // The help flag has a longer text of its own in English.
        Some(help) if arg.get_long_help().is_some() && language == Language::Korean => {
            arg.long_help(help.clone()).help(help)
        }
        Some(help) => arg.help(help),
        None => arg,
    }
}

/// One side of each line. A line without both sides stays as it is. An example keeps its command, which stands before two
/// or more spaces.
fn pick_language(text: &str, language: Language) -> String {
    let pick = |line: &str| match (line.split_once(SEPARATOR), language) {
        (None, _) => line.to_owned(),
        (Some((english, _)), Language::English) => match english.strip_suffix(':') {
            Some(_) => english.to_owned(),
            None if line.ends_with(':') => format!("{english}:"),
            None => english.to_owned(),
        },
        (Some((english, korean)), Language::Korean) => {
            let indent = english.len() - english.trim_start().len();
            match english[indent..].rfind("  ") {
                Some(gap) => format!("{}{korean}", &english[..indent + gap + 2]),
                None => format!("{}{korean}", &english[..indent]),
            }
        }
    };
    text.lines().map(pick).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::CommandLineArgs;
    use crate::output::display_width;

    fn check(line: &str, english: &str, korean: &str) {
        assert_eq!(pick_language(line, Language::English), english);
        assert_eq!(pick_language(line, Language::Korean), korean);
    }

    #[test]
    fn a_line_keeps_one_side_and_an_example_its_command() {
        check("List runs · 실행 목록을 보여 줍니다", "List runs", "실행 목록을 보여 줍니다");
        check("Examples · 예시:", "Examples:", "예시:");
        check("  doran chat    chat · 대화", "  doran chat    chat", "  doran chat    대화");
        check("  doran ask 연차?", "  doran ask 연차?", "  doran ask 연차?");
    }

    #[test]
    fn an_example_keeps_its_command_and_its_column_in_both_languages() {
        let mut commands_of_languages = Vec::new();
        for language in [Language::English, Language::Korean] {
            let command = localize_help(CommandLineArgs::command(), language);
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> = help.lines().skip(1).collect();
            assert!(examples.iter().all(|line| line.contains("doran ")), "{help}");
            let explained = examples.iter().filter_map(|line| {
                let gap = line.rfind("  ").filter(|gap| *gap > 0)?;
                Some(display_width(&line[..gap + 2]))
            });
            let mut columns: Vec<usize> = explained.collect();
            assert!(columns.len() > 10, "{help}");
            columns.dedup();
            assert_eq!(columns.len(), 1, "{help}");
            let count = |sub: &Command| {
                let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                (sub.get_name().to_owned(), help.matches("doran ").count())
            };
            commands_of_languages.push(command.get_subcommands().map(count).collect::<Vec<_>>());
        }
        assert_eq!(commands_of_languages[0], commands_of_languages[1]);
    }

    #[test]
    fn the_language_is_known_before_the_command_line_is_parsed() {
        let requested = |args: &[&str]| requested_language(args.iter().map(|arg| (*arg).to_owned()));
        assert_eq!(requested(&["doran", "--lang", "ko", "--help"]).as_deref(), Some("ko"));
        assert_eq!(requested(&["doran", "chat", "--lang=en"]).as_deref(), Some("en"));
        assert_eq!(requested(&["doran", "ask", "--", "--lang", "ko"]), None);
    }

    #[test]
    fn help_has_one_language() {
        for language in [Language::English, Language::Korean] {
            let mut open = vec![localize_help(CommandLineArgs::command(), language)];
            while let Some(mut command) = open.pop() {
                let help = command.render_long_help().to_string();
                assert!(!help.contains(SEPARATOR), "{help}");
                let english = ["Usage:", "Options:", "Arguments:", "Commands:", "Examples", "Print help"];
                let found = english.iter().find(|word| help.contains(*word));
                assert_eq!(found.is_none(), language == Language::Korean, "{found:?} in:\n{help}");
                open.extend(command.get_subcommands().cloned());
            }
        }
    }
}
