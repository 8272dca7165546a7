//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::commands;
use crate::config::SettingFlags;
use crate::output::{BilingualMessage, bilingual};

const EXAMPLES: &str = "Examples · 예시:
  doran demo                            sample questions with answers · 예시 질문과 답
  doran ask '연차휴가는 며칠인가요?'    one answer · 답 하나
  doran chat                            chat in the terminal · 터미널에서 대화
  echo '연차휴가는 며칠인가요?' | doran chat
  doran serve --port 8080               start the HTTP server · HTTP 서버 시작
  doran mcp                             serve Claude Desktop, Cursor, VS Code · Claude Desktop, Cursor, VS Code에 연결
  doran ingest 규정/                    add documents · 문서 추가
  doran search 육아휴직                 search without a model · 모델 없이 검색
  doran documents list                  list documents · 문서 목록
  doran reindex                         rebuild the search index · 검색 색인 다시 만들기
  doran models                          list models · 모델 목록
  doran keys new laptop                 create an API key · API 키 만들기
  doran doctor                          check this machine · 이 컴퓨터 점검
  doran config                          show all settings · 모든 설정 보기";

/// Durable chat agents in one program · 중간에 꺼져도 이어지는 대화 에이전트
#[derive(Debug, Parser)]
#[command(name = "doran", version, long_version = crate::version::long_version(), after_help = EXAMPLES, after_long_help = long_help(), arg_required_else_help = true)]
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
    /// Data directory · 데이터 디렉터리
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<String>,
    /// Database: sqlite, sqlite:PATH or postgres://… · 데이터베이스: sqlite, sqlite:경로, postgres://…
    #[arg(long, global = true, value_name = "PLACE")]
    database: Option<String>,
    /// Address of the HTTP server · HTTP 서버 주소
    #[arg(long, global = true, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Language of messages and help: auto, ko, en · 메시지와 도움말의 언어: auto, ko, en
    #[arg(long, global = true, value_name = "LANG")]
    pub(crate) lang: Option<String>,
    /// Log filter, for example info · 로그 필터. 예: info
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,
    /// Model that answers · 답하는 모델
    #[arg(long, global = true, value_name = "MODEL")]
    model: Option<String>,
    /// Search index: local, memory, opensearch · 검색 색인: local, memory, opensearch
    #[arg(long, global = true, value_name = "STORE")]
    store: Option<String>,
    /// Encoder for semantic search: built-in, none, use-multilingual, PROVIDER:MODEL or a directory · 의미 검색 인코더: built-in, none, use-multilingual, PROVIDER:MODEL, 디렉터리
    #[arg(long, global = true, value_name = "ENCODER")]
    encoder: Option<String>,
    /// Address of OpenSearch · OpenSearch 주소
    #[arg(long, global = true, value_name = "URL")]
    opensearch: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Answer a few sample questions and start the page · 예시 질문에 답하고 웹 화면을 시작합니다
    Demo(commands::demo::DemoArgs),
    /// Ask one question · 질문 하나에 답합니다
    Ask(commands::ask::AskArgs),
    /// Chat in the terminal · 터미널에서 대화합니다
    Chat(commands::chat::ChatArgs),
    /// Start the HTTP server and the page · HTTP 서버와 웹 화면을 시작합니다
    Serve(commands::serve::ServeArgs),
    /// Serve MCP hosts on standard input and output · 표준 입출력으로 MCP 호스트에 연결합니다
    Mcp(commands::mcp::McpArgs),
    /// Add files to the document library · 파일을 문서로 추가합니다
    Ingest(commands::ingest::IngestArgs),
    /// Search the documents · 문서를 검색합니다
    Search(commands::search::SearchArgs),
    /// List, remove, pause and retry documents · 문서 목록을 보고 삭제, 일시 중지, 재시도합니다
    Documents(commands::documents::DocumentsArgs),
    /// Rebuild the search index · 검색 색인을 다시 만듭니다
    #[command(after_help = "Examples · 예시:
  doran reindex")]
    Reindex,
    /// List threads · 스레드 목록을 보여 줍니다
    Threads(commands::threads::ThreadsArgs),
    /// List runs · 실행 목록을 보여 줍니다
    Runs(commands::runs::RunsArgs),
    /// List and delete memories · 메모리 목록을 보고 삭제합니다
    Memory(commands::memory::MemoryArgs),
    /// List agents and tools · 에이전트와 도구 목록을 보여 줍니다
    Agents(commands::agents::AgentsArgs),
    /// List models and choose one · 모델 목록을 보고 선택합니다
    Models(commands::models::ModelsArgs),
    /// Create, list and revoke API keys · API 키를 만들고 목록을 보고 폐기합니다
    Keys(commands::keys::KeysArgs),
    /// Check this machine and the settings · 이 컴퓨터와 설정을 점검합니다
    Doctor(commands::doctor::DoctorArgs),
    /// Draw an agent's graph · 에이전트의 그래프를 그립니다
    Graph(commands::graph::GraphArgs),
    /// Evaluate search and answers · 검색과 답을 평가합니다
    Eval(commands::eval::EvalArgs),
    /// Write all data into one archive · 모든 데이터를 파일 하나에 백업합니다
    Backup(commands::backup::BackupArgs),
    /// Put a backup into an empty data directory · 빈 데이터 디렉터리에 백업을 복원합니다
    Restore(commands::restore::RestoreArgs),
    /// Delete old data that is no longer needed · 더 필요하지 않은 오래된 데이터를 삭제합니다
    #[command(after_help = "Examples · 예시:
  doran gc
  DORAN_RETENTION_DAYS=90 doran gc")]
    Gc,
    /// Show all settings with their values and origins · 모든 설정의 값과 출처를 보여 줍니다
    Config(commands::config::ConfigArgs),
    /// Print the completions of a shell · 셸의 자동 완성 파일을 출력합니다
    Completions(commands::completions::CompletionsArgs),
    /// Write the man pages · man 페이지를 저장합니다
    Man(commands::completions::ManArgs),
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

/// Says which values an argument takes, as the error of its parser.
pub(crate) fn expected_values(values: &str) -> BilingualMessage {
    bilingual!("필요한 것: {values}", "it must be one of {values}")
}

/// Parses how many there are to be.
pub(crate) fn parse_count(text: &str) -> Result<NonZeroUsize, BilingualMessage> {
    text.parse().map_err(|_| bilingual!("필요한 것: 1 이상의 정수", "it must be a whole number from 1"))
}

/// Parses a port.
pub(crate) fn parse_port(text: &str) -> Result<u16, BilingualMessage> {
    text.parse()
        .map_err(|_| bilingual!("필요한 것: 0부터 65535까지의 정수", "it must be a whole number up to 65535"))
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
            let examples = help.strip_prefix("Examples · 예시:\n");
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
        text.contains(doran_retrieval::is_hangul_syllable)
    }
}
