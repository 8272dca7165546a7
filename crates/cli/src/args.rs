//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::commands;
use crate::config::SettingFlags;

const EXAMPLES: &str = "Examples · 보기:
  doran demo                            a few questions, answered · 질문 몇 개와 답
  doran ask 육아휴직은 얼마나 쓸 수 있나요?   one answer · 답 하나
  doran chat                            talk in the terminal · 터미널에서 대화
  echo '연차휴가는 며칠인가요?' | doran chat
  doran serve --port 8080               the HTTP server · HTTP 서버
  doran ingest 규정/                    read files, then ask about them · 파일을 읽어 두고 묻기
  doran search 육아휴직                 find passages, no model · 모델 없이 문단 찾기
  doran documents list                  what was taken in · 넣은 문서
  doran reindex                         after another encoder was chosen · 인코더를 바꾼 뒤
  doran models                          what can answer · 답할 수 있는 모델
  doran keys new laptop                 let another machine in · 다른 컴퓨터를 들인다
  doran doctor                          check this machine · 이 컴퓨터를 살핀다
  doran config                          every setting and its origin · 모든 설정과 그 출처";

/// Durable chat agents in one program · 꺼져도 이어지는 대화 에이전트
#[derive(Debug, Parser)]
#[command(name = "doran", version, after_help = EXAMPLES, after_long_help = long_help(), arg_required_else_help = true)]
pub(crate) struct CommandLineArgs {
    /// Settings file · 설정 파일
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) settings: SettingArgs,

    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

fn long_help() -> String {
    format!("{EXAMPLES}\n\n{}", crate::exit::EXIT_CODES_HELP)
}

/// Settings that have a flag. Text here; checked with all others.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Settings · 설정")]
pub(crate) struct SettingArgs {
    /// Directory for the database and the lock · 데이터베이스와 잠금을 둘 곳
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<String>,
    /// sqlite, sqlite:PATH or postgres://… · 대화를 둘 곳
    #[arg(long, global = true, value_name = "PLACE")]
    database: Option<String>,
    /// Address of the HTTP server · HTTP 서버 주소
    #[arg(long, global = true, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Language of messages: auto, ko, en · 메시지 언어
    #[arg(long, global = true, value_name = "LANG")]
    pub(crate) lang: Option<String>,
    /// Log filter, such as info · 로그 필터
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,
    /// Model that answers · 답하는 모델
    #[arg(long, global = true, value_name = "MODEL")]
    model: Option<String>,
    /// Where documents are searched: local, memory, opensearch · 문서를 찾는 곳
    #[arg(long, global = true, value_name = "STORE")]
    store: Option<String>,
    /// Encoder that finds by meaning: none, use-multilingual, a folder · 뜻으로 찾는 인코더
    #[arg(long, global = true, value_name = "ENCODER")]
    encoder: Option<String>,
    /// Address of OpenSearch · OpenSearch 주소
    #[arg(long, global = true, value_name = "URL")]
    opensearch: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Ask a few questions and print what happened · 질문 몇 개를 하고 일어난 일을 보여 준다
    Demo(commands::demo::DemoArgs),
    /// Ask one question · 질문 하나를 한다
    Ask(commands::ask::AskArgs),
    /// Talk in the terminal · 터미널에서 대화한다
    Chat(commands::chat::ChatArgs),
    /// Serve HTTP with server-sent events · HTTP 서버를 연다
    Serve(commands::serve::ServeArgs),
    /// Take files into the library · 파일을 문서 보관함에 넣는다
    Ingest(commands::ingest::IngestArgs),
    /// Look through all documents · 모든 문서에서 찾는다
    Search(commands::search::SearchArgs),
    /// List, remove, pause and retry documents · 문서를 나열하고 지우고 멈추고 다시 읽는다
    Documents(commands::documents::DocumentsArgs),
    /// Make the index of the documents anew · 문서의 색인을 다시 만든다
    #[command(after_help = "Examples · 보기:
  doran reindex
  doran models install use-multilingual && doran reindex     to find by meaning · 뜻으로도 찾으려면")]
    Reindex,
    /// List conversations · 대화를 나열한다
    Threads(commands::threads::ThreadsArgs),
    /// List runs · 실행을 나열한다
    Runs(commands::runs::RunsArgs),
    /// List and forget what agents remember · 에이전트가 기억하는 것을 나열하고 잊는다
    Memory(commands::memory::MemoryArgs),
    /// List agents and tools · 에이전트와 도구를 나열한다
    Agents(commands::agents::AgentsArgs),
    /// List models, and choose one · 모델을 나열하고 고른다
    Models(commands::models::ModelsArgs),
    /// Make, list and revoke keys of the server · 서버의 키를 만들고 나열하고 없앤다
    Keys(commands::keys::KeysArgs),
    /// Check this machine and the settings · 이 컴퓨터와 설정을 살핀다
    Doctor(commands::doctor::DoctorArgs),
    /// Draw an agent · 에이전트를 그린다
    Graph(commands::graph::GraphArgs),
    /// Measure how well passages are found and questions answered · 단락을 얼마나 잘 찾고 얼마나 잘 답하는지 잰다
    Eval(commands::eval::EvalArgs),
    /// Copy the database to a file · 데이터베이스를 파일로 복사한다
    Backup(commands::backup::BackupArgs),
    /// Remove what need not be kept any more · 더 둘 필요가 없는 것을 지운다
    #[command(after_help = "Examples · 보기:
  doran gc
  DORAN_RETENTION_DAYS=90 doran gc")]
    Gc,
    /// Show every setting, its value and origin · 모든 설정과 값, 출처를 보여 준다
    Config(commands::config::ConfigArgs),
}

impl SettingArgs {
    /// The flags that were given, by the key of their setting.
    pub(crate) fn given_flags(&self) -> SettingFlags {
        let Self { data_dir, database, listen, lang, log, model, store, encoder, opensearch } = self;
        let all = [
            ("data_dir", data_dir),
            ("database", database),
            ("listen", listen),
            ("language", lang),
            ("log", log),
            ("model", model),
            ("store", store),
            ("encoder", encoder),
            ("opensearch", opensearch),
        ];
        all.into_iter().filter_map(|(key, text)| text.clone().map(|text| (key, text))).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::config::SETTINGS;

    #[test]
    fn the_command_line_is_sound() {
        CommandLineArgs::command().debug_assert();
    }

    #[test]
    fn every_flag_of_the_table_sets_its_setting() {
        for setting in SETTINGS {
            let Some(flag) = setting.flag else { continue };
            let args = CommandLineArgs::try_parse_from(["doran", flag, "x", "config"]).expect(flag);
            assert_eq!(
                args.settings.given_flags(),
                SettingFlags::from([(setting.key, "x".to_owned())]),
                "{flag}"
            );
        }
    }

    #[test]
    fn every_help_line_is_in_both_languages() {
        let mut command = CommandLineArgs::command();
        // The lines that clap adds itself are English alone.
        command.build();
        let mut open = vec![&command];
        let mut seen = 0;
        while let Some(command) = open.pop() {
            open.extend(command.get_subcommands().filter(|sub| sub.get_name() != "help"));
            let helps =
                command.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str()));
            let helps = helps.map(|arg| (arg.get_id().to_string(), arg.get_help().map(ToString::to_string)));
            let about = (command.get_name().to_owned(), command.get_about().map(ToString::to_string));
            for (name, help) in helps.chain([about]) {
                let help = help.unwrap_or_else(|| panic!("`{name}` has no help"));
                let pair = help.split_once(" · ");
                assert!(
                    pair.is_some_and(|(en, ko)| !contains_hangul(en) && contains_hangul(ko)),
                    "{name}: {help}"
                );
                seen += 1;
            }
        }
        assert!(seen > 50, "only {seen} lines were found: the search is broken");
    }

    #[test]
    fn every_command_shows_how_it_is_used() {
        let mut command = CommandLineArgs::command();
        command.build();
        let mut seen = 0;
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let name = sub.get_name();
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = help.strip_prefix("Examples · 보기:\n");
            assert!(examples.is_some_and(|text| text.contains(&format!("doran {name}"))), "{name}: {help}");
            for inner in sub.get_subcommands().filter(|inner| inner.get_name() != "help") {
                let call = format!("doran {name} {}", inner.get_name());
                assert!(help.contains(&call), "`{call}` has no example: {help}");
            }
            seen += 1;
        }
        assert!(seen >= 20, "only {seen} commands were found: the search is broken");
    }

    fn contains_hangul(text: &str) -> bool {
        text.chars().any(|char| ('가'..='힣').contains(&char))
    }
}
