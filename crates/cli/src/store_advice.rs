//! Why a store cannot be opened or goes on no more, and what to do about it.

use std::error::Error;
use std::io;

use doran_engine::store::StoreError;
use doran_store::RefusedLogin;

use crate::config::Database;
use crate::output::{BilingualMessage, bilingual};

/// The error of a store that cannot be opened.
pub(crate) fn store_open_error(database: &Database, error: StoreError) -> BilingualMessage {
    bilingual!("저장소 `{database}`을(를) 열 수 없습니다", "cannot open the store `{database}`")
        .with_cause(store_advice(database, error))
}

/// What is wrong with a store, and the way out.
pub(crate) fn store_advice(database: &Database, error: StoreError) -> BilingualMessage {
    let (is_postgres, detail) = (matches!(database, Database::Postgres(_)), innermost_cause(&error));
    let login = error.source().and_then(|cause| cause.downcast_ref());
    let message = match (&error, login) {
        (StoreError::Newer { found, known }, _) => newer_format_message(*found, *known),
        (_, Some(RefusedLogin::Credentials(_))) => bilingual!(
            "PostgreSQL이 사용자나 비밀번호를 받아들이지 않습니다. `database`의 사용자와 비밀번호, 서버의 `pg_hba.conf`를 확인하세요 ({detail})",
            "PostgreSQL does not accept the user or the password; check both in `database`, and `pg_hba.conf` of the server ({detail})"
        ),
        (_, Some(RefusedLogin::NoDatabase(_))) => bilingual!(
            "PostgreSQL에 그런 이름의 데이터베이스가 없습니다. `database`의 이름을 고치거나 `createdb`로 만드세요 ({detail})",
            "PostgreSQL has no database of that name; correct it in `database`, or make it with `createdb` ({detail})"
        ),
        (error, _) if is_disk_full(error) => bilingual!(
            "디스크가 가득 찼습니다. 공간을 비우고 다시 시작하세요. 저장된 것은 그대로입니다 ({detail})",
            "the disk is full; make room and start again; what is stored is untouched ({detail})"
        ),
        (StoreError::Unavailable(_), _) if is_postgres => bilingual!(
            "PostgreSQL에 닿지 않습니다. 서버가 켜져 있는지, `database`의 주소와 포트가 맞는지 확인하세요 ({detail})",
            "PostgreSQL cannot be reached; check that it runs, and the address and port in `database` ({detail})"
        ),
        (StoreError::Unavailable(_), _) => bilingual!(
            "파일을 쓸 수 없습니다. 다른 프로그램이 쓰고 있으면 끝내고, 아니면 파일과 디렉터리의 권한을 확인하세요 ({detail})",
            "the file cannot be used; end the program that has it open, or check the permissions of the file and its directory ({detail})"
        ),
        (StoreError::Damaged(_), _) if is_postgres => bilingual!(
            "데이터베이스의 내용이 손상되었습니다. `pg_dump`로 만든 백업에서 되살리세요 ({detail})",
            "what is in the database is damaged; restore it from a dump of `pg_dump` ({detail})"
        ),
        (StoreError::Damaged(_), _) => bilingual!(
            "파일이 손상되었습니다. 데이터 디렉터리를 다른 곳으로 옮기고 `doran restore 백업파일`로 되살리세요 ({detail})",
            "the file is damaged; move the data directory away and restore a backup with `doran restore FILE` ({detail})"
        ),
        _ => bilingual!(
            "`database`의 값과 그 권한을 확인하세요 ({detail})",
            "check the value of `database` and its permissions ({detail})"
        ),
    };
    message.saying_cause(error)
}

/// That this program is too old for the database.
pub(crate) fn newer_format_message(found: u32, known: u32) -> BilingualMessage {
    bilingual!(
        "더 새로운 버전의 도란이 데이터베이스를 형식 {found}(으)로 바꿨고, 이 프로그램은 형식 {known}까지만 압니다. 새 버전의 doran을 설치하세요. 이전 버전으로 돌아가려면 업그레이드 전의 백업에서 되살립니다",
        "a newer doran has migrated the database to format {found}, and this program knows formats up to {known}; install the newer doran, or go back to a backup from before the upgrade"
    )
}

fn is_disk_full(error: &StoreError) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        let is_full = error.downcast_ref::<io::Error>().is_some_and(|error| {
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        });
        if is_full || matches!(error.downcast_ref(), Some(StoreError::Full(_))) {
            return true;
        }
        next = error.source();
    }
    false
}

fn innermost_cause(error: &StoreError) -> String {
    if let StoreError::Damaged(what) = error {
        return what.clone();
    }
    let mut innermost: &dyn Error = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, error: StoreError, ko: &str, en: &str) {
        let database = match url {
            "sqlite" => Database::Sqlite("doran.db".into()),
            _ => Database::Postgres(crate::secret::SecretText::new(url)),
        };
        let advice = store_advice(&database, error);
        assert!(advice.ko.contains(ko) && advice.en.contains(en), "{advice:?}");
    }

    #[test]
    fn each_trouble_has_its_way_out() {
        let postgres = "postgres://doran:pw@localhost/doran";
        let refused = |refused: RefusedLogin| StoreError::Unavailable(refused.into());
        check(
            postgres,
            StoreError::Newer { found: 9, known: 7 },
            "새 버전의 doran을 설치",
            "install the newer",
        );
        check(postgres, refused(RefusedLogin::Credentials("no".into())), "비밀번호", "the password");
        check(postgres, refused(RefusedLogin::NoDatabase("no".into())), "createdb", "createdb");
        check(postgres, StoreError::Unavailable("refused".into()), "닿지 않습니다", "check that it runs");
        check("sqlite", StoreError::Unavailable("in use".into()), "권한", "permissions");
        check("sqlite", StoreError::Full("full".into()), "공간을 비우고", "make room");
        let full = io::Error::from(io::ErrorKind::StorageFull);
        check("sqlite", StoreError::Other(full.into()), "공간을 비우고", "make room");
        check("sqlite", StoreError::Damaged("page 7".into()), "doran restore", "doran restore");
        check(postgres, StoreError::Damaged("no format".into()), "pg_dump", "pg_dump");
    }
}
