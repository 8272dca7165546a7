//! Keys, origins, replicas and the port.

use super::{DoctorCheck, bilingual_error};
use crate::api_key_file;
use crate::client::ServerHttpClient;
use crate::commands::serve;
use crate::config::{API_KEYS_VARIABLE, Config};
use crate::output::{BilingualMessage, bilingual, pluralize};
use crate::replica::open_shared_values;
use crate::replica::registration::{self, ReplicaIndex, describe_replica, find_differences};

/// Whether a server runs here that rejects requests without a key: it has a key for this program then.
fn requires_key(server: Option<&ServerHttpClient>) -> bool {
    server.is_some_and(|server| server.key().is_some())
}

pub(super) async fn check_api_keys(config: &Config, server: Option<&ServerHttpClient>) -> DoctorCheck {
    let rows = match api_key_file::count_keys(config).await {
        Ok(rows) => rows,
        Err(error) => return DoctorCheck::fail("keys", bilingual_error(&error)),
    };
    let (address, outward) = (config.listen, !config.listen.ip().is_loopback());
    match rows {
        0 if requires_key(server) => DoctorCheck::warn(
            "keys",
            bilingual!(
                "여기서는 키가 보이지 않지만, 실행 중인 서버는 키가 있는 요청만 받습니다. 서버를 시작할 때 `{API_KEYS_VARIABLE}`로 키를 주었거나 마지막 키를 폐기했습니다. `doran keys new 이름`으로 키를 더할 수 있습니다",
                "no keys are seen here, but the running server answers only requests with a key: they were given to it by `{API_KEYS_VARIABLE}`, or its last key was revoked; `doran keys new NAME` adds one"
            ),
        ),
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

pub(super) async fn check_allowed_origins(config: &Config, server: Option<&ServerHttpClient>) -> DoctorCheck {
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
        Ok(0) if !requires_key(server) => DoctorCheck::warn(
            name,
            bilingual!(
                "{list}의 페이지가 키 없이 이 서버를 쓸 수 있습니다. `doran keys new 이름`으로 키를 만드세요",
                "pages of {list} can use this server without a key; make one with `doran keys new NAME`"
            ),
        ),
        // What is wrong with the keys is reported by a check of its own.
        Ok(_) | Err(_) => DoctorCheck::ok(name, BilingualMessage::new(list.clone(), list)),
    }
}

/// Checks which servers use the database, and whether they fit together.
pub(super) async fn check_replicas(config: &Config) -> DoctorCheck {
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
                "실행 중인 서버 {count}개. 대화, 키, 문서, 메모리를 함께 씁니다",
                "{running} running; they share threads, keys, documents and memory"
            ),
            ReplicaIndex::Local => bilingual!(
                "실행 중인 서버 {count}개. 검색 색인이 이 컴퓨터에 있으므로 서버는 하나만 실행할 수 있습니다",
                "{running} running; the search index is on this machine, so one server only can run"
            ),
        },
    )
}

pub(super) async fn check_port(config: &Config, server: Option<&ServerHttpClient>) -> DoctorCheck {
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
