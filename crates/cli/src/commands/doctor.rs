//! `doran doctor`: checks the machine and the settings, and says what to do about each problem. It changes nothing.

mod models;
mod network;
mod readiness;
mod stored_data;

use doran_jail::Jail;
use doran_retrieval::ingest::{self, JailedFileReader, ReadLimits};
use serde_json::json;

use crate::agent_client;
use crate::config::{Database, LoadedConfig};
use crate::output::{BilingualMessage, TerminalOutput, bilingual, error_message, pluralize};
use models::{check_agents, check_encoder, check_model, check_model_servers, check_reranker};
use network::{check_allowed_origins, check_api_keys, check_port, check_replicas};
use stored_data::{
    CheckedDatabase, check_data_dir, check_database, check_disk_space, check_search_index, check_stored_files,
};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran doctor
  doran doctor --json
  doran doctor --ready                    # for health checks of containers · 컨테이너의 상태 확인용")]
pub(crate) struct DoctorArgs {
    /// Print one JSON object per line · 한 줄에 JSON 하나씩 출력합니다
    #[arg(long)]
    json: bool,

    /// Ask only whether the running server is ready. The exit code is 0 if it is · 실행 중인 서버가 준비되었는지만
    /// 확인합니다. 준비되었으면 종료 코드가 0입니다
    #[arg(long, conflicts_with = "json")]
    ready: bool,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckHealth {
    Ok,
    Warn,
    Fail,
}

/// A check with its result.
struct DoctorCheck {
    name: &'static str,
    health: CheckHealth,
    message: BilingualMessage,
}

impl DoctorCheck {
    fn ok(name: &'static str, message: BilingualMessage) -> Self {
        Self { name, health: CheckHealth::Ok, message }
    }

    fn warn(name: &'static str, message: BilingualMessage) -> Self {
        Self { name, health: CheckHealth::Warn, message }
    }

    fn fail(name: &'static str, message: BilingualMessage) -> Self {
        Self { name, health: CheckHealth::Fail, message }
    }
}

/// Runs all checks. Returns an error if one fails; warnings are not errors.
pub(crate) async fn run(
    args: &DoctorArgs,
    loaded: &LoadedConfig,
    output: TerminalOutput,
) -> anyhow::Result<()> {
    let config = &loaded.config;
    if args.ready {
        return readiness::check_server_is_ready(config).await;
    }
    let server = agent_client::running_server(config);
    let CheckedDatabase { check: database, may_be_opened } = check_database(config, server.as_ref()).await;
    let may_be_opened = may_be_opened || matches!(config.database, Database::Sqlite(_));
    let checks = [
        check_settings(loaded),
        check_data_dir(config, server.as_ref()),
        check_disk_space(&config.data_dir),
        database,
        check_stored_files(config),
        check_search_index(config).await,
        check_jail().await,
        check_model(config).await,
        check_model_servers().await,
        check_agents(config).await,
        check_encoder(config),
        check_reranker(config).await,
        if may_be_opened { check_api_keys(config, server.as_ref()).await } else { not_looked_at("keys") },
        if may_be_opened {
            check_allowed_origins(config, server.as_ref()).await
        } else {
            not_looked_at("origins")
        },
        if may_be_opened { check_replicas(config).await } else { not_looked_at("replicas") },
        check_port(config, server.as_ref()).await,
    ];
    let language = output.language;
    let mut text = String::new();
    for DoctorCheck { name, health, message } in &checks {
        let sign = match health {
            CheckHealth::Ok => "ok",
            CheckHealth::Warn => "warn",
            CheckHealth::Fail => "fail",
        };
        text.push_str(&match args.json {
            true => {
                format!("{}\n", json!({ "check": name, "health": sign, "ko": message.ko, "en": message.en }))
            }
            false => format!("{sign:<4}  {name:<9}  {}\n", message.text(language)),
        });
    }
    output.print_data(&text)?;
    let failed = checks.iter().filter(|check| check.health == CheckHealth::Fail).count();
    if failed > 0 {
        let counted = pluralize(failed, "check");
        return Err(bilingual!("검사 {failed}개가 실패했습니다", "{counted} failed").into());
    }
    Ok(())
}

/// What is in a database that was not opened: opening it would migrate it, or it cannot be opened.
fn not_looked_at(name: &'static str) -> DoctorCheck {
    DoctorCheck::warn(
        name,
        bilingual!(
            "데이터베이스에 있어 보지 않았습니다. `database` 줄을 보세요",
            "in the database, not looked at; see the line `database`"
        ),
    )
}

fn check_settings(loaded: &LoadedConfig) -> DoctorCheck {
    let notes = loaded.notes.join("; ");
    if !notes.is_empty() {
        return DoctorCheck::warn("settings", BilingualMessage::new(notes.clone(), notes));
    }
    DoctorCheck::ok(
        "settings",
        match &loaded.file {
            Some(path) => {
                let path = path.display();
                bilingual!("설정 파일 {path}", "settings file {path}")
            }
            None => bilingual!("설정 파일 없음. 기본값을 씁니다", "no settings file; defaults are used"),
        },
    )
}

fn bilingual_error(error: &anyhow::Error) -> BilingualMessage {
    use doran_retrieval::Language::{English, Korean};
    BilingualMessage::new(error_message(error, Korean), error_message(error, English))
}

/// Checks the isolation of the child processes that read documents.
async fn check_jail() -> DoctorCheck {
    let jail = Jail::new(JailedFileReader::jail_limits(&ReadLimits::default(), 1));
    match jail.layers(ingest::EXTRACT_WORKER_ARG).await {
        Ok(layers) => {
            let layers = layers.iter().map(|layer| format!("{layer:?}")).collect::<Vec<_>>().join(", ");
            DoctorCheck::ok(
                "jail",
                bilingual!("문서를 격리해서 읽습니다: {layers}", "documents are read in isolation: {layers}"),
            )
        }
        Err(error) => DoctorCheck::fail(
            "jail",
            bilingual!(
                "문서를 격리해서 읽을 수 없어 읽지 않습니다 ({error}). Linux 5.13 이상과 Landlock, seccomp가 필요합니다",
                "documents cannot be read in isolation and are not read ({error}); Linux 5.13 or newer with Landlock and seccomp is needed"
            ),
        ),
    }
}
