//! The data directory, its disk, the database and the search index.

use std::path::Path;

use doran_agents::memory::FileMemoryStore;
use doran_engine::store::StoreError;
use doran_retrieval::Library;
use doran_server::api::ThreadList;
use doran_store::InspectedFormat;

use super::{DoctorCheck, bilingual_error};
use crate::assemble::{check_stored_keys, search_index};
use crate::client::ServerHttpClient;
use crate::config::{Config, Database, SearchStore};
use crate::data_dir;
use crate::output::bilingual;
use crate::store_advice::store_advice;

const MIB: u64 = 1 << 20;

pub(super) fn check_data_dir(config: &Config, server: Option<&ServerHttpClient>) -> DoctorCheck {
    let (name, shown) = ("data", config.data_dir.display());
    let exposed = data_dir::exposed_paths(config);
    let (of_others, exposed): (Vec<_>, Vec<_>) =
        exposed.into_iter().partition(|path| data_dir::is_of_another_user(path));
    if let Some(exposed) = exposed.first() {
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
    if data_dir::has_unfinished_restore(&config.data_dir) {
        return DoctorCheck::fail(name, data_dir::unfinished_restore_error(&config.data_dir));
    }
    let probe = config.data_dir.join(".doctor");
    match data_dir::write_private_file(&probe, b"") {
        Ok(()) if !of_others.is_empty() => {
            std::fs::remove_file(&probe).ok();
            DoctorCheck::warn(
                name,
                bilingual!(
                    "{shown}: 쓸 수 있지만 다른 사용자의 것이어서 이 컴퓨터의 다른 사용자도 목록을 볼 수 있습니다. 파일의 내용은 볼 수 없습니다. `data_dir`를 그 안의 디렉터리로 정하면 목록도 가려집니다",
                    "{shown}: can be written, but belongs to another user, so that other users of this machine can list it; the files themselves are private. Set `data_dir` to a directory inside it to hide the list too"
                ),
            )
        }
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
pub(super) fn check_disk_space(folder: &Path) -> DoctorCheck {
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

/// What was found of the database.
pub(super) struct CheckedDatabase {
    pub(super) check: DoctorCheck,
    /// Whether opening it changes nothing, so that other checks may read what is in it.
    pub(super) may_be_opened: bool,
}

/// Looks at the database without changing it.
pub(super) async fn check_database(config: &Config, server: Option<&ServerHttpClient>) -> CheckedDatabase {
    let (name, shown) = ("database", &config.database);
    let looked = |check| CheckedDatabase { check, may_be_opened: true };
    match shown {
        Database::Sqlite(_) if server.is_some() => {}
        Database::Sqlite(path) if !path.exists() => {
            return looked(DoctorCheck::ok(
                name,
                bilingual!(
                    "{shown}: 아직 없음. 처음 쓸 때 만듭니다",
                    "{shown}: not there yet; made at first use"
                ),
            ));
        }
        Database::Sqlite(path)
            if !data_dir::is_locked(&config.data_dir) && doran_store::sqlite::is_file_locked(path) =>
        {
            return looked(DoctorCheck::fail(
                name,
                bilingual!(
                    "{shown}: 다른 데이터 디렉터리의 doran이 쓰고 있습니다. 그 doran을 끝내거나 `database`를 다른 파일로 정하세요",
                    "{shown}: in use by a doran with another data directory; stop it, or set `database` to another file"
                ),
            ));
        }
        Database::Sqlite(_) if data_dir::is_locked(&config.data_dir) => {
            return looked(DoctorCheck::warn(
                name,
                bilingual!(
                    "{shown}: 다른 doran이 쓰고 있어 보지 않았습니다",
                    "{shown}: in use by another doran, not looked at"
                ),
            ));
        }
        Database::Sqlite(_) | Database::Postgres(_) => {}
    }
    // What a server of ours has open in a file is looked at through it.
    let inspected = match (server, shown) {
        (Some(_), Database::Sqlite(_)) => None,
        _ => Some(inspect_database(shown).await),
    };
    match (inspected, server) {
        (Some(Err(check)), _) => CheckedDatabase { check, may_be_opened: false },
        (_, Some(server)) => looked(match server.get::<ThreadList>("/api/threads?limit=1").await {
            Ok(_) => {
                DoctorCheck::ok(name, bilingual!("{shown}: 서버가 읽고 있음", "{shown}: the server reads it"))
            }
            Err(error) => DoctorCheck::fail(name, bilingual_error(&error)),
        }),
        (_, None) => {
            looked(DoctorCheck::ok(name, bilingual!("{shown}: 온전함", "{shown}: opens and is whole")))
        }
    }
}

/// Reads the format of the database. The check says what is to be known if it is not the one that this program writes.
async fn inspect_database(shown: &Database) -> Result<(), DoctorCheck> {
    let name = "database";
    let unusable = |error| {
        let advice = store_advice(shown, error);
        let (ko, en) = (&advice.ko, &advice.en);
        DoctorCheck::fail(
            name,
            bilingual!("{shown}: 열 수 없습니다. {ko}", "{shown}: cannot be opened: {en}"),
        )
    };
    let InspectedFormat { found, known } = doran_store::inspect(&shown.url()).await.map_err(unusable)?;
    match found {
        Some(found) if found > known => Err(unusable(StoreError::Newer { found, known })),
        Some(found) if found < known => Err(DoctorCheck::warn(
            name,
            bilingual!(
                "{shown}: 형식 {found}. 다음에 시작하면 형식 {known}(으)로 바꿉니다. 먼저 백업하세요",
                "{shown}: format {found}; the next start migrates it to {known}; back it up first"
            ),
        )),
        Some(_) => Ok(()),
        None => Err(DoctorCheck::ok(
            name,
            bilingual!(
                "{shown}: 아직 비어 있음. 처음 쓸 때 만듭니다",
                "{shown}: still empty; made at first use"
            ),
        )),
    }
}

/// Checks the files beside the database: remembered facts, keys of the data directory, and the library.
pub(super) fn check_stored_files(config: &Config) -> DoctorCheck {
    let name = "files";
    let memories = config.data_dir.join("memory.log");
    let library = config.data_dir.join("library");
    let checked = check_stored_keys(&config.data_dir).and_then(|()| {
        if memories.exists() {
            FileMemoryStore::check_file(&memories).map_err(|error| {
                let shown = memories.display();
                bilingual!(
                    "`{shown}`: 기억을 읽을 수 없습니다. 백업에서 되살리세요",
                    "`{shown}`: the memories cannot be read; restore them from a backup"
                )
                .with_cause(error)
            })?;
        }
        if library.exists() {
            Library::origins(&library).map_err(|error| {
                let shown = library.display();
                bilingual!(
                    "`{shown}`: 문서 보관함을 읽을 수 없습니다. 백업에서 되살리세요",
                    "`{shown}`: the library cannot be read; restore it from a backup"
                )
                .with_cause(error)
            })?;
        }
        Ok(())
    });
    match checked {
        Ok(()) => DoctorCheck::ok(
            name,
            bilingual!("기억, 키, 문서를 읽을 수 있음", "memories, keys and documents can be read"),
        ),
        Err(problem) => DoctorCheck::fail(name, bilingual_error(&problem.into())),
    }
}

/// Checks that the search index can be reached.
pub(super) async fn check_search_index(config: &Config) -> DoctorCheck {
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
