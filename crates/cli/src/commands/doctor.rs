//! `doran doctor`: looks at the machine and the settings, and says for each thing whether it is well and what to do.

use std::path::Path;

use doran_jail::Jail;
use doran_llm::{OFFLINE_MODEL, embed};
use doran_retrieval::ingest::{self, ReadLimits, Reader};
use serde_json::json;

use crate::assemble::model;
use crate::client::Client;
use crate::commands::models::install;
use crate::commands::serve;
use crate::config::{Config, Database, Loaded};
use crate::output::{Both, Output, both, sentence};
use crate::{data_dir, desk, keys};

const MIB: u64 = 1 << 20;

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 보기:
  doran doctor
  doran doctor --json")]
pub(crate) struct Args {
    /// Print one JSON object a line · 한 줄에 JSON 하나씩 출력
    #[arg(long)]
    json: bool,
}

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Ok,
    Warn,
    Fail,
}

/// A thing that was looked at.
struct Check {
    name: &'static str,
    health: Health,
    told: Both,
}

impl Check {
    fn ok(name: &'static str, told: Both) -> Self {
        Self { name, health: Health::Ok, told }
    }

    fn warn(name: &'static str, told: Both) -> Self {
        Self { name, health: Health::Warn, told }
    }

    fn fail(name: &'static str, told: Both) -> Self {
        Self { name, health: Health::Fail, told }
    }
}

/// Looks at everything. Ends with an error when something fails; a warning is none.
pub(crate) async fn run(args: &Args, loaded: &Loaded, output: Output) -> anyhow::Result<()> {
    let config = &loaded.config;
    let server = desk::server(config);
    let checks = [
        settings(loaded),
        directory(config, server.as_ref()),
        space(&config.data_dir),
        database(config, server.as_ref()).await,
        jail().await,
        model_of(config).await,
        servers().await,
        encoder(config),
        keys_of(config),
        port(config, server.as_ref()).await,
    ];
    let language = output.language;
    let mut text = String::new();
    for Check { name, health, told } in &checks {
        let sign = match health {
            Health::Ok => "ok",
            Health::Warn => "warn",
            Health::Fail => "fail",
        };
        text.push_str(&match args.json {
            true => format!("{}\n", json!({ "check": name, "health": sign, "ko": told.ko, "en": told.en })),
            false => format!("{sign:<4}  {name:<9}  {}\n", told.text(language)),
        });
    }
    output.data(&text)?;
    let failed = checks.iter().filter(|check| check.health == Health::Fail).count();
    if failed > 0 {
        return Err(both!("{failed}가지를 고쳐야 합니다", "{failed} things must be put right").into());
    }
    Ok(())
}

fn settings(loaded: &Loaded) -> Check {
    let notes = loaded.notes.join("; ");
    if !notes.is_empty() {
        return Check::warn("settings", Both::new(notes.clone(), notes));
    }
    Check::ok(
        "settings",
        match &loaded.file {
            Some(path) => {
                let path = path.display();
                both!("설정 파일 {path}", "settings file {path}")
            }
            None => both!("설정 파일 없음. 기본값을 씁니다", "no settings file; defaults are used"),
        },
    )
}

fn directory(config: &Config, server: Option<&Client>) -> Check {
    let (name, shown) = ("data", config.data_dir.display());
    if let Some(server) = server {
        let address = server.address;
        return Check::ok(
            name,
            both!(
                "{shown}: 서버 http://{address} 가 쓰는 중",
                "{shown}: in use by the server http://{address}"
            ),
        );
    }
    if data_dir::is_held(&config.data_dir) {
        return Check::warn(
            name,
            both!(
                "{shown}: 다른 doran이 쓰고 있습니다. 끝내거나 `--data-dir`로 다른 곳을 고르세요",
                "{shown}: another doran is using it; stop it, or choose another with `--data-dir`"
            ),
        );
    }
    if !config.data_dir.exists() {
        return Check::ok(
            name,
            both!("{shown}: 아직 없음. 처음 쓸 때 만듭니다", "{shown}: not there yet; made at first use"),
        );
    }
    let probe = config.data_dir.join(".doctor");
    match data_dir::write_private(&probe, b"") {
        Ok(()) => {
            std::fs::remove_file(&probe).ok();
            Check::ok(name, both!("{shown}: 쓸 수 있음", "{shown}: can be written"))
        }
        Err(error) => Check::fail(
            name,
            both!(
                "{shown}: 쓸 수 없습니다 ({error}). 권한을 고치거나 `--data-dir`로 다른 곳을 고르세요",
                "{shown}: cannot be written ({error}); correct its permissions, or choose another with `--data-dir`"
            ),
        ),
    }
}

/// The room on the disk that the directory is on, or will be.
fn space(folder: &Path) -> Check {
    let there = folder.ancestors().find(|path| path.exists()).unwrap_or(folder);
    let Some(free) = free_bytes(there) else {
        return Check::ok(
            "disk",
            both!("이 시스템에서는 남은 공간을 알 수 없습니다", "free space is not known on this system"),
        );
    };
    let mib = free / MIB;
    let told = both!("{mib} MiB 남음", "{mib} MiB free");
    match mib {
        0..100 => Check::fail(
            "disk",
            both!(
                "{mib} MiB만 남았습니다. 공간을 비우거나 `--data-dir`로 다른 디스크를 고르세요",
                "only {mib} MiB free; make room, or choose another disk with `--data-dir`"
            ),
        ),
        100..1024 => Check::warn("disk", told),
        _ => Check::ok("disk", told),
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

async fn database(config: &Config, server: Option<&Client>) -> Check {
    let (name, shown) = ("database", &config.database);
    if let Some(server) = server {
        return match server.get("/api/threads?limit=1").await {
            Ok(_) => Check::ok(name, both!("{shown}: 서버가 읽고 있음", "{shown}: the server reads it")),
            Err(error) => Check::fail(name, told(&error)),
        };
    }
    match shown {
        Database::Sqlite(path) if !path.exists() => {
            return Check::ok(
                name,
                both!("{shown}: 아직 없음. 처음 쓸 때 만듭니다", "{shown}: not there yet; made at first use"),
            );
        }
        Database::Sqlite(_) if data_dir::is_held(&config.data_dir) => {
            return Check::warn(
                name,
                both!(
                    "{shown}: 다른 doran이 쓰고 있어 보지 않았습니다",
                    "{shown}: in use by another doran, not looked at"
                ),
            );
        }
        Database::Sqlite(_) | Database::Postgres(_) => {}
    }
    match doran_store::open(&shown.url()).await {
        Ok(_) => Check::ok(name, both!("{shown}: 열림", "{shown}: opens")),
        Err(error) => Check::fail(
            name,
            both!(
                "{shown}: 열 수 없습니다 ({error}). 주소와 권한을 확인하거나 백업에서 되살리세요",
                "{shown}: cannot be opened ({error}); check its address and permissions, or restore a backup"
            ),
        ),
    }
}

fn told(error: &anyhow::Error) -> Both {
    use crate::output::Language::{English, Korean};
    Both::new(sentence(error, Korean), sentence(error, English))
}

/// The walls around children that read documents.
async fn jail() -> Check {
    let jail = Jail::new(Reader::jail_limits(&ReadLimits::default(), 1));
    match jail.layers(ingest::WORKER).await {
        Ok(layers) => {
            let layers = layers.iter().map(|layer| format!("{layer:?}")).collect::<Vec<_>>().join(", ");
            Check::ok(
                "jail",
                both!("문서를 격리해서 읽습니다: {layers}", "documents are read in isolation: {layers}"),
            )
        }
        Err(error) => Check::fail(
            "jail",
            both!(
                "문서를 격리해서 읽을 수 없어 읽지 않습니다 ({error}). Linux 5.13 이상과 Landlock, seccomp가 필요합니다",
                "documents cannot be read in isolation and are not read ({error}); Linux 5.13 or newer with Landlock and seccomp is needed"
            ),
        ),
    }
}

async fn model_of(config: &Config) -> Check {
    let (check, name) = ("model", &config.model);
    if name == OFFLINE_MODEL {
        return Check::ok(
            check,
            both!(
                "{name}: 내장, LLM 아님. 고르려면 `doran models`",
                "{name}: built in, not an LLM; `doran models` to choose another"
            ),
        );
    }
    if let Err(error) = model::one(config, name) {
        return Check::fail(check, told(&error.into()));
    }
    let listed = match model::reached(config, name) {
        Ok((how, secret)) => doran_llm::list_models(&how, secret).await.map(|names| (how.id.model, names)),
        Err(error) => return Check::fail(check, told(&error.into())),
    };
    match listed {
        Ok((wanted, names)) if names.contains(&wanted) => {
            Check::ok(check, both!("{name}: 닿음", "{name}: reached"))
        }
        Ok(_) => Check::warn(
            check,
            both!(
                "{name}: 서버에는 닿지만 목록에 그 모델이 없습니다. `doran models`로 확인하세요",
                "{name}: the server is reached but does not list that model; see `doran models`"
            ),
        ),
        Err(error) => {
            let (ko, en) = error.advice();
            Check::fail(
                check,
                both!("{name}: 닿지 않음 ({error}). {ko}", "{name}: not reached ({error}). {en}"),
            )
        }
    }
}

async fn servers() -> Check {
    let found = doran_llm::discover().await;
    let names = found
        .iter()
        .map(|one| format!("{} {} ({})", one.provider, one.base_url, one.models.len()))
        .collect::<Vec<_>>();
    let names = names.join(", ");
    Check::ok(
        "servers",
        match found.is_empty() {
            true => both!("이 컴퓨터에 켜진 모델 서버 없음", "no model server is running on this machine"),
            false => both!(
                "이 컴퓨터의 모델 서버: {names}. 쓰려면 `doran models`",
                "model servers on this machine: {names}; `doran models` to use one"
            ),
        },
    )
}

/// The encoder may be missing; files that are there must be whole.
fn encoder(config: &Config) -> Check {
    let folder = install::folder(config);
    let (name, shown) = ("encoder", folder.display());
    if !folder.exists() {
        return Check::ok(
            name,
            both!(
                "없음. 뜻으로 찾으려면 `doran models install use-multilingual`",
                "none; for search by meaning `doran models install use-multilingual`"
            ),
        );
    }
    match embed::is_installed(&folder) {
        true => Check::ok(name, both!("{shown}: 온전함", "{shown}: whole")),
        false => Check::fail(
            name,
            both!(
                "{shown}: 파일이 빠졌거나 상했습니다. `doran models install use-multilingual`로 다시 설치하세요",
                "{shown}: files are missing or damaged; install again with `doran models install use-multilingual`"
            ),
        ),
    }
}

fn keys_of(config: &Config) -> Check {
    let rows = match keys::read(&keys::path(&config.data_dir)) {
        Ok(rows) => rows.len(),
        Err(error) => return Check::fail("keys", told(&error.into())),
    };
    let (address, outward) = (config.listen, !config.listen.ip().is_loopback());
    match rows {
        0 if outward => Check::fail(
            "keys",
            both!(
                "`listen`이 {address}인데 키가 없습니다. `doran keys new 이름`으로 만드세요",
                "`listen` is {address} and there are no keys; make one with `doran keys new NAME`"
            ),
        ),
        0 => Check::ok(
            "keys",
            both!("없음. 이 컴퓨터만 서버를 쓸 수 있습니다", "none; only this machine may use the server"),
        ),
        _ if outward && config.allowed_hosts.is_empty() => Check::warn(
            "keys",
            both!(
                "키 {rows}개. 다른 컴퓨터가 쓰는 이름을 `allowed_hosts`에 적어야 닿습니다",
                "{rows} keys; other machines get in only by a name in `allowed_hosts`"
            ),
        ),
        _ => Check::ok("keys", both!("키 {rows}개", "{rows} keys")),
    }
}

async fn port(config: &Config, server: Option<&Client>) -> Check {
    let address = config.listen;
    if server.is_some_and(|server| server.address.port() == address.port()) {
        return Check::ok("port", both!("{address}: 우리 서버가 쓰는 중", "{address}: our server has it"));
    }
    if !address.ip().is_loopback() {
        return Check::ok(
            "port",
            both!("{address}: 시작할 때 확인합니다", "{address}: looked at when it starts"),
        );
    }
    match serve::bind(address, &doran_server::Keys::default()).await {
        Ok(_) => Check::ok("port", both!("{address}: 비어 있음", "{address}: free")),
        Err(error) => Check::warn("port", Both::new(error.ko, error.en)),
    }
}
