//! Where the files of evaluations are: in `evals/` of the data directory, or, where replicas share a database, in the database.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use doran_engine::TenantId;
use doran_engine::store::{KeyValueWrite, StoreError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::data_dir;
use crate::output::{BilingualMessage, bilingual};
use crate::replica::SharedValues;

/// The folder in the data directory.
const EVALS_FOLDER: &str = "evals";
/// Where the files are in a database. A value is about a file, and its blob is the content.
const EVAL_BUCKET: &str = "evals";
const CONTENT_BLOB: &str = "content";
/// The most bytes of a file.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The files of all tenants. Cheap to clone.
#[derive(Clone)]
pub(crate) enum EvalFolder {
    Directory {
        path: PathBuf,
        /// Held while a file is compared and replaced.
        writing: Arc<tokio::sync::Mutex<()>>,
    },
    Database(SharedValues),
}

/// A file in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EvalFileInfo {
    pub(crate) name: String,
    /// When it was written, in milliseconds since 1970.
    pub(crate) written_at: i64,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EvalFile {
    pub(crate) bytes: Vec<u8>,
    /// Another one for every other content.
    pub(crate) revision: u64,
}

/// Which file a write replaces.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReplacedFile {
    /// Whatever is there.
    Any,
    /// The one with this revision; none if there is to be none.
    Revision(Option<u64>),
}

/// What the database has about a file.
#[derive(Serialize, Deserialize)]
struct StoredFileInfo {
    written_at: i64,
}

impl EvalFolder {
    /// The files in the data directory, or in the database that replicas share.
    pub(crate) fn new(data_dir: &Path, shared: Option<&SharedValues>) -> Self {
        match shared {
            Some(values) => Self::Database(values.clone()),
            None => Self::in_directory(data_dir),
        }
    }

    /// The files in the data directory.
    pub(crate) fn in_directory(data_dir: &Path) -> Self {
        Self::Directory { path: data_dir.join(EVALS_FOLDER), writing: Arc::default() }
    }

    /// All files of a tenant, by name.
    pub(crate) async fn list(&self, tenant: &TenantId) -> Result<Vec<EvalFileInfo>, BilingualMessage> {
        match self {
            Self::Directory { path, .. } => list_directory(&tenant_directory(path, tenant)),
            Self::Database(values) => {
                let prefix = tenant_prefix(tenant);
                let found = values.key_values(EVAL_BUCKET, &prefix).await.map_err(database_error)?;
                let files = found.into_iter().map(|found| {
                    let key = &found.key;
                    let StoredFileInfo { written_at } =
                        serde_json::from_slice(&found.value).map_err(|error| {
                            bilingual!(
                                "데이터베이스의 평가 `{key}`을(를) 읽을 수 없습니다",
                                "the evaluation file `{key}` in the database cannot be read"
                            )
                            .with_cause(error)
                        })?;
                    Ok(EvalFileInfo { name: key.strip_prefix(&prefix).unwrap_or(key).to_owned(), written_at })
                });
                files.collect()
            }
        }
    }

    /// A file, if there is one.
    pub(crate) async fn read(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Option<EvalFile>, BilingualMessage> {
        match self {
            Self::Directory { path, .. } => read_file(&tenant_directory(path, tenant).join(name)),
            Self::Database(values) => {
                let key = file_key(tenant, name);
                let found = values.key_value(EVAL_BUCKET, &key).await.map_err(database_error)?;
                let Some(found) = found else { return Ok(None) };
                // A file that is replaced between both comes with the revision of the one before, which then is not
                // replaced by mistake.
                let bytes = values.key_value_blob(EVAL_BUCKET, &key, CONTENT_BLOB).await;
                let bytes = bytes.map_err(database_error)?;
                Ok(bytes.map(|bytes| EvalFile { bytes, revision: found.revision }))
            }
        }
    }

    /// Writes a file. False, and nothing is changed, if another one is there than is to be replaced.
    pub(crate) async fn write(
        &self,
        tenant: &TenantId,
        name: &str,
        replaced: ReplacedFile,
        bytes: &[u8],
    ) -> Result<bool, BilingualMessage> {
        match self {
            Self::Directory { path, writing } => {
                let _held = writing.lock().await;
                let directory = tenant_directory(path, tenant);
                let file = directory.join(name);
                if let ReplacedFile::Revision(expected) = replaced
                    && read_file(&file)?.map(|file| file.revision) != expected
                {
                    return Ok(false);
                }
                data_dir::ensure_private_dir(path)?;
                data_dir::ensure_private_dir(&directory)?;
                let shown = file.display();
                data_dir::write_private_file(&file, bytes).map_err(|error| {
                    bilingual!("`{shown}`에 쓸 수 없습니다", "cannot write to `{shown}`").with_cause(error)
                })?;
                Ok(true)
            }
            Self::Database(values) => write_value(values, &file_key(tenant, name), replaced, bytes).await,
        }
    }

    /// Deletes a file, if it is there.
    pub(crate) async fn remove(&self, tenant: &TenantId, name: &str) -> Result<(), BilingualMessage> {
        match self {
            Self::Directory { path, .. } => {
                let file = tenant_directory(path, tenant).join(name);
                let shown = file.display();
                match fs::remove_file(&file) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        Err(bilingual!("`{shown}`을(를) 지울 수 없습니다", "cannot delete `{shown}`")
                            .with_cause(error))
                    }
                    Ok(()) | Err(_) => Ok(()),
                }
            }
            Self::Database(values) => {
                let key = file_key(tenant, name);
                loop {
                    let found = values.key_value(EVAL_BUCKET, &key).await.map_err(database_error)?;
                    let Some(found) = found else { return Ok(()) };
                    let write = KeyValueWrite {
                        delete_blobs: &[CONTENT_BLOB],
                        ..KeyValueWrite::remove(EVAL_BUCKET, &key, found.revision)
                    };
                    if values.write_key_value(write).await.map_err(database_error)?.is_some() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// What the reports of a set are called. Those in the data directory are also made by the command line, where two sets in
    /// different places may have the same name.
    pub(crate) fn report_stem(&self, tenant: &TenantId, set: &str, file_name: &str) -> String {
        match self {
            Self::Directory { path, .. } => stem_of_path(&tenant_directory(path, tenant).join(file_name)),
            Self::Database(_) => format!("{set}-report"),
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The name of a file without its end, and a hash of its full path.
pub(crate) fn stem_of_path(file: &Path) -> String {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let place = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let digest = Sha256::digest(place.as_os_str().as_encoded_bytes());
    format!("{stem}-{}", hex::encode(&digest[..4]))
}

/// Each tenant has a folder. That of a program without keys is the one that the command line uses.
fn tenant_directory(folder: &Path, tenant: &TenantId) -> PathBuf {
    if *tenant == TenantId::local() {
        return folder.to_owned();
    }
    // The names of two tenants may differ in capital letters only, which some file systems do not tell apart.
    let digest = Sha256::digest(tenant.as_str().as_bytes());
    folder.join(format!("tenant-{}", hex::encode(&digest[..16])))
}

/// No name of a tenant holds a slash.
fn tenant_prefix(tenant: &TenantId) -> String {
    format!("{}/", tenant.as_str())
}

fn file_key(tenant: &TenantId, name: &str) -> String {
    tenant_prefix(tenant) + name
}

async fn write_value(
    values: &SharedValues,
    key: &str,
    replaced: ReplacedFile,
    bytes: &[u8],
) -> Result<bool, BilingualMessage> {
    let info = StoredFileInfo { written_at: now_millis() };
    let info =
        serde_json::to_vec(&info).map_err(|error| database_error(StoreError::Rejected(error.into())))?;
    loop {
        let expected = match replaced {
            ReplacedFile::Revision(expected) => expected,
            ReplacedFile::Any => {
                let found = values.key_value(EVAL_BUCKET, key).await.map_err(database_error)?;
                found.map(|found| found.revision)
            }
        };
        let write = KeyValueWrite {
            put_blobs: &[(CONTENT_BLOB, bytes)],
            ..KeyValueWrite::put(EVAL_BUCKET, key, expected, &info)
        };
        let is_written = values.write_key_value(write).await.map_err(database_error)?.is_some();
        if is_written || matches!(replaced, ReplacedFile::Revision(_)) {
            return Ok(is_written);
        }
    }
}

fn read_file(path: &Path) -> Result<Option<EvalFile>, BilingualMessage> {
    let read = match fs::metadata(path) {
        Ok(about) if about.len() > MAX_FILE_BYTES => Err(std::io::Error::other("the file is too large")),
        Ok(_) => fs::read(path),
        Err(error) => Err(error),
    };
    match read {
        Ok(bytes) => {
            let digest = Sha256::digest(&bytes);
            let revision = digest.iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
            Ok(Some(EvalFile { bytes, revision }))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let shown = path.display();
            let wrong = bilingual!("`{shown}`을(를) 읽을 수 없습니다", "cannot read `{shown}`");
            Err(wrong.with_cause(error))
        }
    }
}

/// The files of a folder; none if it is not there.
fn list_directory(folder: &Path) -> Result<Vec<EvalFileInfo>, BilingualMessage> {
    let shown = folder.display();
    let wrong = || bilingual!("폴더 `{shown}`을(를) 읽을 수 없습니다", "cannot read the folder `{shown}`");
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong().with_cause(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| wrong().with_cause(error))?;
        let about = match entry.metadata() {
            Ok(about) => about,
            // It was deleted meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(wrong().with_cause(error)),
        };
        let (Ok(name), true) = (entry.file_name().into_string(), about.is_file()) else { continue };
        let written = about.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let written_at = written.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0);
        files.push(EvalFileInfo { name, written_at });
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

fn database_error(error: StoreError) -> BilingualMessage {
    bilingual!(
        "데이터베이스의 평가를 읽거나 쓸 수 없습니다",
        "the evaluations in the database cannot be read or written"
    )
    .with_cause(error)
}

#[cfg(test)]
mod tests {
    use doran_engine::store::RamStore;

    use super::*;
    use crate::test_directory::TestDirectory;

    async fn check(folder: EvalFolder) {
        let (here, other) = (TenantId::local(), TenantId::new("..").expect("a name"));
        let any = ReplacedFile::Any;
        assert_eq!(folder.list(&here).await.expect("a list"), []);
        assert!(folder.read(&here, "a.toml").await.expect("read").is_none());
        let new = ReplacedFile::Revision(None);
        assert!(folder.write(&here, "a.toml", new, b"one").await.expect("written"));
        assert!(!folder.write(&here, "a.toml", new, b"two").await.expect("refused"), "one is there");
        let read = folder.read(&here, "a.toml").await.expect("read").expect("a file");
        assert_eq!(read.bytes, b"one");
        let second = ReplacedFile::Revision(Some(read.revision));
        assert!(folder.write(&here, "a.toml", second, b"two").await.expect("written"));
        assert!(!folder.write(&here, "a.toml", second, b"three").await.expect("refused"), "it was changed");
        assert!(folder.write(&here, "b.json", any, &[7; 3 * 1024 * 1024]).await.expect("written"));
        assert!(folder.write(&here, "b.json", any, b"four").await.expect("written"));
        assert!(folder.write(&other, "a.toml", any, b"theirs").await.expect("written"));
        let names = async |tenant| {
            let files = folder.list(tenant).await.expect("a list");
            files.into_iter().map(|file| file.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&here).await, ["a.toml", "b.json"]);
        assert_eq!(names(&other).await, ["a.toml"]);
        folder.remove(&here, "a.toml").await.expect("removed");
        folder.remove(&here, "a.toml").await.expect("nothing to remove");
        assert_eq!(names(&here).await, ["b.json"]);
        assert_eq!(folder.read(&here, "b.json").await.expect("read").expect("a file").bytes, b"four");
        assert_eq!(folder.read(&other, "a.toml").await.expect("read").expect("a file").bytes, b"theirs");
    }

    #[tokio::test]
    async fn files_are_those_of_a_tenant_and_no_change_is_lost() {
        let directory = TestDirectory::new();
        check(EvalFolder::new(directory.path(), None)).await;
        let values: SharedValues = Arc::new(RamStore::new());
        check(EvalFolder::new(directory.path(), Some(&values))).await;
    }

    #[tokio::test]
    async fn a_damaged_file_in_the_database_is_an_error_that_names_it() {
        let (values, here): (SharedValues, _) = (Arc::new(RamStore::new()), TenantId::local());
        let folder = EvalFolder::Database(values.clone());
        assert!(folder.write(&here, "a.toml", ReplacedFile::Any, b"one").await.expect("written"));
        let key = file_key(&here, "usage.1.json");
        let damaged = KeyValueWrite::put(EVAL_BUCKET, &key, None, b"damaged");
        values.write_key_value(damaged).await.expect("written").expect("new");
        let error = folder.list(&here).await.expect_err("damaged");
        assert!(error.en.contains(&format!("`{key}`")), "{error}");
    }
}
