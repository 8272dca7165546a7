//! `doran doctor`: checks the machine and the settings, and says what to do about each problem.

use std::path::Path;
use std::sync::Arc;

use doran_jail::Jail;
use doran_llm::embed;
use doran_offline::is_offline_model;
use doran_retrieval::ingest::{self, JailedFileReader, ReadLimits};
use doran_retrieval::{BuiltInEncoder, RamKeywordIndex};
use serde_json::json;

use crate::assemble::{self, Agents, DataDirWrites, RecordReplay, model, search_index};
use crate::client::ServerHttpClient;
use crate::commands::models::install_encoder;
use crate::commands::serve;
use crate::config::{Config, Database, EncoderChoice, LoadedConfig, SearchStore};
use crate::output::{BilingualMessage, TerminalOutput, bilingual, error_message, pluralize};
use crate::replica::open_shared_values;
use crate::replica::registration::{self, ReplicaIndex, describe_replica, find_differences};
use crate::{agent_client, api_key_file, data_dir};

const MIB: u64 = 1 << 20;

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran doctor
  doran doctor --json")]
pub(crate) struct DoctorArgs {
    /// Print one JSON object per line · 한 줄에 JSON 하나씩 출력합니다
    #[arg(long)]
    json: bool,
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
    let server = agent_client::running_server(config);
    let checks = [
        check_settings(loaded),
        check_data_dir(config, server.as_ref()),
        check_disk_space(&config.data_dir),
        check_database(config, server.as_ref()).await,
        check_search_index(config).await,
        check_jail().await,
        check_model(config).await,
        check_model_servers().await,
        check_agents(config).await,
        check_encoder(config),
        check_api_keys(config).await,
        check_allowed_origins(config).await,
        check_replicas(config).await,
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
        return Err(bilingual!("{failed}가지를 고쳐야 합니다", "{failed} things must be put right").into());
    }
    Ok(())
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

fn check_data_dir(config: &Config, server: Option<&ServerHttpClient>) -> DoctorCheck {
    let (name, shown) = ("data", config.data_dir.display());
    if let Some(exposed) = data_dir::exposed_paths(config).first() {
        let exposed = exposed.display();
        return DoctorCheck::fail(
            name,
            bilingual!(
                "{exposed}: 이 컴퓨터의 다른 사용자도 읽을 수 있습니다. doran을 다시 시작하거나 `chmod -R go= {shown}`으로 고치세요",
                "{exposed}: other users of this machine can read it; start doran again, or correct it with `chmod -R go= {shown}`"
            ),
        );
    }
    if let Some(server) = server {
        let address = server.address;
        return DoctorCheck::ok(
            name,
            bilingual!(
                "{shown}: 서버 http://{address} 가 쓰는 중",
                "{shown}: in use by the server http://{address}"
            ),
        );
    }
    if data_dir::is_locked(&config.data_dir) {
        return DoctorCheck::warn(
            name,
            bilingual!(
                "{shown}: 다른 doran이 쓰고 있습니다. 끝내거나 `--data-dir`로 다른 곳을 고르세요",
                "{shown}: another doran is using it; stop it, or choose another with `--data-dir`"
            ),
        );
    }
    if !config.data_dir.exists() {
        return DoctorCheck::ok(
            name,
            bilingual!(
                "{shown}: 아직 없음. 처음 쓸 때 만듭니다",
                "{shown}: not there yet; made at first use"
            ),
        );
    }
    let probe = config.data_dir.join(".doctor");
    match data_dir::write_private_file(&probe, b"") {
        Ok(()) => {
            std::fs::remove_file(&probe).ok();
            DoctorCheck::ok(name, bilingual!("{shown}: 쓸 수 있음", "{shown}: can be written"))
        }
        Err(error) => DoctorCheck::fail(
            name,
            bilingual!(
                "{shown}: 쓸 수 없습니다 ({error}). 권한을 고치거나 `--data-dir`로 다른 곳을 고르세요",
                "{shown}: cannot be written ({error}); correct its permissions, or choose another with `--data-dir`"
            ),
        ),
    }
}

/// Checks the free space of the disk with the data directory.
fn check_disk_space(folder: &Path) -> DoctorCheck {
    let there = folder.ancestors().find(|path| path.exists()).unwrap_or(folder);
    let Some(free) = free_bytes(there) else {
        return DoctorCheck::ok(
            "disk",
            bilingual!(
                "이 시스템에서는 남은 공간을 알 수 없습니다",
                "free space is not known on this system"
            ),
        );
    };
    let mib = free / MIB;
    let message = bilingual!("{mib} MiB 남음", "{mib} MiB free");
    match mib {
        0..100 => DoctorCheck::fail(
            "disk",
            bilingual!(
                "{mib} MiB만 남았습니다. 공간을 비우거나 `--data-dir`로 다른 디스크를 고르세요",
                "only {mib} MiB free; make room, or choose another disk with `--data-dir`"
            ),
        ),
        100..1024 => DoctorCheck::warn("disk", message),
        _ => DoctorCheck::ok("disk", message),
    }
}

#[cfg(unix)]
fn free_bytes(path: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(path).ok()?;
    about.f_bavail.checked_mul(about.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

async fn check_database(config: &Config, server: Option<&ServerHttpClient>) -> DoctorCheck {
    let (name, shown) = ("database", &config.database);
    if let Some(server) = server {
        return match server.get("/api/threads?limit=1").await {
            Ok(_) => {
                DoctorCheck::ok(name, bilingual!("{shown}: 서버가 읽고 있음", "{shown}: the server reads it"))
            }
            Err(error) => DoctorCheck::fail(name, bilingual_error(&error)),
        };
    }
    match shown {
        Database::Sqlite(path) if !path.exists() => {
            return DoctorCheck::ok(
                name,
                bilingual!(
                    "{shown}: 아직 없음. 처음 쓸 때 만듭니다",
                    "{shown}: not there yet; made at first use"
                ),
            );
        }
        Database::Sqlite(_) if data_dir::is_locked(&config.data_dir) => {
            return DoctorCheck::warn(
                name,
                bilingual!(
                    "{shown}: 다른 doran이 쓰고 있어 보지 않았습니다",
                    "{shown}: in use by another doran, not looked at"
                ),
            );
        }
        Database::Sqlite(_) | Database::Postgres(_) => {}
    }
    let opened = match doran_store::open(&shown.url()).await {
        Ok(opened) => match &opened.file_maintenance {
            Some(file) => file.integrity_check().await,
            None => Ok(()),
        },
        Err(error) => Err(error),
    };
    match opened {
        Ok(()) => DoctorCheck::ok(name, bilingual!("{shown}: 온전함", "{shown}: opens and is whole")),
        Err(error) => DoctorCheck::fail(
            name,
            bilingual!(
                "{shown}: 열 수 없습니다 ({error}). 주소와 권한을 확인하거나 백업에서 되살리세요",
                "{shown}: cannot be opened ({error}); check its address and permissions, or restore a backup"
            ),
        ),
    }
}

/// Builds the agents and their tools, those of files and of MCP servers included.
async fn check_agents(config: &Config) -> DoctorCheck {
    let (name, index) = ("agents", Arc::new(RamKeywordIndex::default()));
    let built =
        assemble::assemble_agents(config, &RecordReplay::default(), index, DataDirWrites::Forbidden).await;
    let Agents { agents, notes, .. } = match built {
        Ok(built) => built,
        Err(error) => return DoctorCheck::fail(name, bilingual_error(&error)),
    };
    if !notes.is_empty() {
        let ko = notes.iter().map(|note| note.ko.as_str()).collect::<Vec<_>>().join("; ");
        let en = notes.iter().map(|note| note.en.as_str()).collect::<Vec<_>>().join("; ");
        return DoctorCheck::warn(name, BilingualMessage::new(ko, en));
    }
    let (count, all) = (agents.len(), pluralize(agents.len(), "agent"));
    DoctorCheck::ok(name, bilingual!("에이전트 {count}개", "{all}"))
}

/// Checks that the search index can be reached.
async fn check_search_index(config: &Config) -> DoctorCheck {
    let name = "search";
    let SearchStore::OpenSearch(_) = &config.search.store else {
        return DoctorCheck::ok(
            name,
            bilingual!("색인이 이 컴퓨터에 있습니다", "the index is on this machine"),
        );
    };
    match search_index::check_opensearch(config).await {
        Ok(()) => DoctorCheck::ok(name, bilingual!("OpenSearch에 닿음", "OpenSearch is reached")),
        Err(error) => DoctorCheck::fail(name, bilingual_error(&error)),
    }
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

async fn check_model(config: &Config) -> DoctorCheck {
    let (check, name) = ("model", &config.model);
    if is_offline_model(name) {
        return DoctorCheck::ok(
            check,
            bilingual!(
                "{name}: 내장, LLM 아님. 고르려면 `doran models`",
                "{name}: built in, not an LLM; `doran models` to choose another"
            ),
        );
    }
    if let Err(error) = model::open_model(config, name) {
        return DoctorCheck::fail(check, bilingual_error(&error.into()));
    }
    let listed = match model::model_config_and_key(config, name) {
        Ok((how, secret)) => doran_llm::list_models(&how, secret).await.map(|names| (how.id.model, names)),
        Err(error) => return DoctorCheck::fail(check, bilingual_error(&error.into())),
    };
    match listed {
        Ok((wanted, names)) if names.contains(&wanted) => {
            DoctorCheck::ok(check, bilingual!("{name}: 닿음", "{name}: reached"))
        }
        Ok(_) => DoctorCheck::warn(
            check,
            bilingual!(
                "{name}: 서버에는 닿지만 목록에 그 모델이 없습니다. `doran models`로 확인하세요",
                "{name}: the server is reached but does not list that model; see `doran models`"
            ),
        ),
        Err(error) => {
            let (ko, en) = error.advice();
            DoctorCheck::fail(
                check,
                bilingual!("{name}: 닿지 않음 ({error}). {ko}", "{name}: not reached ({error}). {en}"),
            )
        }
    }
}

async fn check_model_servers() -> DoctorCheck {
    let found = doran_llm::discover_local_servers().await;
    let names = found
        .iter()
        .map(|one| format!("{} {} ({})", one.provider, one.base_url, one.models.len()))
        .collect::<Vec<_>>();
    let names = names.join(", ");
    DoctorCheck::ok(
        "servers",
        match found.is_empty() {
            true => {
                bilingual!("이 컴퓨터에 켜진 모델 서버 없음", "no model server is running on this machine")
            }
            false => bilingual!(
                "이 컴퓨터의 모델 서버: {names}. 쓰려면 `doran models`",
                "model servers on this machine: {names}; `doran models` to use one"
            ),
        },
    )
}

/// Checks the encoder of the settings. Installed files must be complete even if they are not used.
fn check_encoder(config: &Config) -> DoctorCheck {
    let folder = install_encoder::encoder_folder(config);
    let (name, shown) = ("encoder", folder.display());
    if folder.exists() && !embed::is_encoder_installed(&folder) {
        return DoctorCheck::fail(
            name,
            bilingual!(
                "{shown}: 파일이 없거나 손상되었습니다. `doran models install use-multilingual`로 다시 설치하세요",
                "{shown}: files are missing or damaged; install again with `doran models install use-multilingual`"
            ),
        );
    }
    match &config.search.encoder {
        EncoderChoice::Off => DoctorCheck::ok(
            name,
            bilingual!(
                "없음. 키워드로만 검색합니다. 의미로도 검색하려면 `encoder = \"built-in\"`",
                "none; search is by keywords only. For semantic search set `encoder = \"built-in\"`"
            ),
        ),
        EncoderChoice::BuiltIn => match BuiltInEncoder::open() {
            Ok(_) => DoctorCheck::ok(name, bilingual!("내장 인코더", "the built-in encoder")),
            Err(error) => DoctorCheck::fail(
                name,
                bilingual!(
                    "내장 인코더를 읽을 수 없습니다: {error}",
                    "the built-in encoder cannot be read: {error}"
                ),
            ),
        },
        EncoderChoice::Directory(folder) => {
            let shown = folder.display();
            match folder.exists() {
                true => DoctorCheck::ok(name, bilingual!("{shown}: 있음", "{shown}: found")),
                false => DoctorCheck::fail(
                    name,
                    bilingual!(
                        "{shown}: 없습니다. `doran models install use-multilingual`로 설치하거나 `encoder = \"built-in\"`으로 두세요",
                        "{shown}: does not exist; install it with `doran models install use-multilingual`, or set `encoder = \"built-in\"`"
                    ),
                ),
            }
        }
        EncoderChoice::Endpoint(model) => {
            DoctorCheck::ok(name, bilingual!("임베딩 엔드포인트 {model}", "the embeddings endpoint {model}"))
        }
    }
}

async fn check_api_keys(config: &Config) -> DoctorCheck {
    let rows = match api_key_file::count_keys(config).await {
        Ok(rows) => rows,
        Err(error) => return DoctorCheck::fail("keys", bilingual_error(&error)),
    };
    let (address, outward) = (config.listen, !config.listen.ip().is_loopback());
    match rows {
        0 if outward => DoctorCheck::fail(
            "keys",
            bilingual!(
                "`listen`이 {address}인데 키가 없습니다. `doran keys new 이름`으로 만드세요",
                "`listen` is {address} and there are no keys; make one with `doran keys new NAME`"
            ),
        ),
        0 => DoctorCheck::ok(
            "keys",
            bilingual!(
                "없음. 이 컴퓨터만 서버를 쓸 수 있습니다",
                "none; only this machine may use the server"
            ),
        ),
        _ if outward && config.allowed_hosts.is_empty() => DoctorCheck::warn(
            "keys",
            bilingual!(
                "키 {rows}개. 다른 컴퓨터가 쓰는 이름을 `allowed_hosts`에 적어야 닿습니다",
                "{rows} keys; other machines get in only by a name in `allowed_hosts`"
            ),
        ),
        _ => DoctorCheck::ok("keys", bilingual!("키 {rows}개", "{rows} keys")),
    }
}

async fn check_allowed_origins(config: &Config) -> DoctorCheck {
    let name = "origins";
    let origins: Vec<String> = config.allowed_origins.iter().map(ToString::to_string).collect();
    if origins.is_empty() {
        return DoctorCheck::ok(
            name,
            bilingual!(
                "없음. 이 서버의 페이지만 브라우저에서 호출할 수 있습니다",
                "none; only pages of this server may call it from a browser"
            ),
        );
    }
    let list = origins.join(", ");
    match api_key_file::count_keys(config).await {
        Ok(0) => DoctorCheck::warn(
            name,
            bilingual!(
                "{list}의 페이지가 키 없이 이 서버를 쓸 수 있습니다. `doran keys new 이름`으로 키를 만드세요",
                "pages of {list} can use this server without a key; make one with `doran keys new NAME`"
            ),
        ),
        // What is wrong with the keys is told by its own check.
        Ok(_) | Err(_) => DoctorCheck::ok(name, BilingualMessage::new(list.clone(), list)),
    }
}

/// Checks which servers use the database, and whether they fit together.
async fn check_replicas(config: &Config) -> DoctorCheck {
    let name = "replicas";
    let listed = async {
        let Some(values) = open_shared_values(config).await? else { return Ok(None) };
        let own = describe_replica(config).await?;
        Ok::<_, anyhow::Error>(Some((registration::list_replicas(&values).await?, own)))
    };
    let (replicas, own) = match listed.await {
        Ok(None) => {
            return DoctorCheck::ok(
                name,
                bilingual!("SQLite: 서버 하나만 씁니다", "SQLite: one server only"),
            );
        }
        Ok(Some(found)) => found,
        Err(error) => return DoctorCheck::fail(name, bilingual_error(&error)),
    };
    let problems: Vec<BilingualMessage> =
        replicas.iter().flat_map(|other| find_differences(&own, other)).collect();
    if !problems.is_empty() {
        let ko = problems.iter().map(|problem| problem.ko.as_str()).collect::<Vec<_>>().join("; ");
        let en = problems.iter().map(|problem| problem.en.as_str()).collect::<Vec<_>>().join("; ");
        return DoctorCheck::warn(name, BilingualMessage::new(ko, en));
    }
    let count = replicas.len();
    let running = pluralize(count, "server");
    DoctorCheck::ok(
        name,
        match own.index {
            ReplicaIndex::Shared => bilingual!(
                "실행 중인 서버 {count}개. 대화, 키, 문서, 기억을 함께 씁니다",
                "{running} running; they share threads, keys, documents and memory"
            ),
            ReplicaIndex::Local => bilingual!(
                "실행 중인 서버 {count}개. 검색 색인이 이 컴퓨터에 있으므로 서버는 하나만 실행할 수 있습니다",
                "{running} running; the search index is on this machine, so one server only can run"
            ),
        },
    )
}

async fn check_port(config: &Config, server: Option<&ServerHttpClient>) -> DoctorCheck {
    let address = config.listen;
    if server.is_some_and(|server| server.address.port() == address.port()) {
        return DoctorCheck::ok(
            "port",
            bilingual!("{address}: 우리 서버가 쓰는 중", "{address}: our server has it"),
        );
    }
    if !address.ip().is_loopback() {
        return DoctorCheck::ok(
            "port",
            bilingual!("{address}: 시작할 때 확인합니다", "{address}: looked at when it starts"),
        );
    }
    match serve::bind_listener(address, &doran_server::ApiKeys::default()).await {
        Ok(_) => DoctorCheck::ok("port", bilingual!("{address}: 비어 있음", "{address}: free")),
        Err(error) => DoctorCheck::warn("port", BilingualMessage::new(error.ko, error.en)),
    }
}
