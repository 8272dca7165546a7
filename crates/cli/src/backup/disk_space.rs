//! Says which disk is full, where an error alone does not.

use std::io;
use std::path::Path;

use doran_engine::store::StoreError;

use crate::output::{BilingualMessage, bilingual};

/// Whether this error of a file says that there is no room.
pub(super) fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The disk with the archive is full.
pub(super) fn full_archive_disk(folder: &Path) -> BilingualMessage {
    let shown = folder.display();
    bilingual!(
        "`{shown}`의 디스크가 가득 찼습니다. 공간을 비우거나 다른 디스크에 백업하세요. 아무것도 남기지 않았습니다",
        "the disk with `{shown}` is full; make room there or back up to another disk. Nothing was left behind"
    )
}

/// Why a database could not be copied to `folder`.
pub(super) fn copy_error(database: &Path, folder: &Path, error: StoreError) -> anyhow::Error {
    let source = database.parent().unwrap_or(database);
    // A database that no server has open needs a little room beside it to be read.
    let no_room_to_read =
        matches!(error, StoreError::Full(_) | StoreError::Unavailable(_) | StoreError::Other(_))
            && has_no_room(source);
    if no_room_to_read {
        let shown = source.display();
        return bilingual!(
            "데이터가 있는 `{shown}`의 디스크가 가득 찼습니다. 데이터베이스를 읽는 데에도 옆에 공간이 조금 필요합니다. 1 MiB쯤 비우거나, 서버를 켠 채로 백업하세요",
            "the disk with the data in `{shown}` is full, and reading the database needs a little room beside it; free about 1 MiB there, or back up while the server runs"
        )
        .into();
    }
    if matches!(error, StoreError::Full(_)) {
        return full_archive_disk(folder).into();
    }
    let shown = database.display();
    bilingual!("데이터베이스 `{shown}`을(를) 복사할 수 없습니다", "cannot copy the database `{shown}`")
        .with_cause(error)
        .into()
}

/// Whether the disk with this directory has less room than SQLite takes beside a database.
#[cfg(unix)]
fn has_no_room(folder: &Path) -> bool {
    const BESIDE_A_DATABASE: u64 = 64 << 10;
    rustix::fs::statvfs(folder)
        .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < BESIDE_A_DATABASE)
}

/// Not known here.
#[cfg(not(unix))]
fn has_no_room(_: &Path) -> bool {
    false
}
