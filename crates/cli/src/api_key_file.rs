//! The keys of the HTTP server: a file of hashes in the data directory, and the door that follows it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use doran_engine::TenantId;
use doran_server::{ApiKey, ApiKeys, KeyHash};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::client::ServerHttpClient;
use crate::data_dir;
use crate::output::{BilingualMessage, bilingual};

/// How often the file is looked at.
const KEY_FILE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The name of the key that the program itself calls its server with.
const OWN_KEY_NAME: &str = "doran";

/// A key as the file has it. The key itself is nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiKeyRecord {
    pub(crate) name: String,
    pub(crate) tenant: String,
    hash: String,
    /// Seconds since 1970.
    pub(crate) made: u64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ApiKeyFile {
    key: Vec<ApiKeyRecord>,
}

/// Where the keys of a data directory are.
pub(crate) fn key_file_path(data_dir: &Path) -> PathBuf {
    data_dir.join("keys.toml")
}

/// Reads the file; without one there are no keys.
pub(crate) fn read_keys(path: &Path) -> Result<Vec<ApiKeyRecord>, BilingualMessage> {
    let shown = path.display();
    let wrong = || {
        bilingual!(
            "키 파일 `{shown}`을(를) 읽을 수 없습니다. 백업에서 되살리거나, 지우고 `doran keys new`로 다시 만드세요",
            "cannot read the file of keys `{shown}`; restore it from a backup, or remove it and make keys anew with `doran keys new`"
        )
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong().with_cause(error)),
    };
    let file: ApiKeyFile =
        toml::from_str(&text).map_err(|error| wrong().with_cause(error.message().to_owned()))?;
    for row in &file.key {
        row.to_server_key().ok_or_else(wrong)?;
    }
    Ok(file.key)
}

/// Changes the keys of a data directory. Nobody else changes them between reading and writing, so no change is lost.
pub(crate) fn update_keys<T>(
    data_dir: &Path,
    change: impl FnOnce(&mut Vec<ApiKeyRecord>) -> Result<T, BilingualMessage>,
) -> Result<T, BilingualMessage> {
    data_dir::ensure_private_dir(data_dir)?;
    let shown = data_dir.display();
    let _lock = data_dir::wait_for_lock(data_dir, "keys.lock").map_err(|error| {
        bilingual!("`{shown}`의 키를 잠글 수 없습니다", "cannot lock the keys in `{shown}`").with_cause(error)
    })?;
    let path = key_file_path(data_dir);
    let mut rows = read_keys(&path)?;
    let changed = change(&mut rows)?;
    write_keys(&path, &rows)?;
    Ok(changed)
}

/// Writes the file anew, for its owner only.
fn write_keys(path: &Path, rows: &[ApiKeyRecord]) -> Result<(), BilingualMessage> {
    let shown = path.display();
    let text = toml::to_string(&ApiKeyFile { key: rows.to_vec() }).map_err(std::io::Error::other);
    text.and_then(|text| data_dir::write_private_file(path, text.as_bytes())).map_err(|error| {
        bilingual!("키 파일 `{shown}`에 쓸 수 없습니다", "cannot write the file of keys `{shown}`")
            .with_cause(error)
    })
}

/// A new key, and what is kept of it.
pub(crate) fn generate_key(name: &str, tenant: &TenantId) -> (String, ApiKeyRecord) {
    let secret = random_key();
    let made = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let hash = KeyHash::from_secret(&secret).to_string();
    let row = ApiKeyRecord { name: name.to_owned(), tenant: tenant.as_str().to_owned(), hash, made };
    (secret, row)
}

/// 244 random bits that say what they are.
fn random_key() -> String {
    format!("doran_{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

impl ApiKeyRecord {
    fn to_server_key(&self) -> Option<ApiKey> {
        let tenant = TenantId::new(&self.tenant).ok()?;
        Some(ApiKey { name: self.name.clone(), tenant, hash: KeyHash::parse(&self.hash)? })
    }
}

/// Who is let in. Once there was a key the door stays shut for those without one, until the next start.
pub(crate) struct ApiKeyWatcher {
    pub(crate) keys: ApiKeys,
    path: PathBuf,
    records: Vec<ApiKeyRecord>,
    /// The program's own key.
    own_key: String,
    requires_key: bool,
}

impl ApiKeyWatcher {
    /// With the keys of the file.
    pub(crate) fn from_data_dir(data_dir: &Path) -> Result<Self, BilingualMessage> {
        let (path, keys) = (key_file_path(data_dir), ApiKeys::default());
        let rows = read_keys(&path)?;
        let shut = !rows.is_empty();
        let mut door = Self { keys, path, records: Vec::new(), own_key: random_key(), requires_key: shut };
        door.replace_keys(rows);
        Ok(door)
    }

    /// The server at this address, with the key that opens it.
    pub(crate) fn server_client(&self, address: std::net::SocketAddr) -> ServerHttpClient {
        ServerHttpClient::new(address, self.requires_key.then_some(self.own_key.as_str()))
    }

    fn replace_keys(&mut self, rows: Vec<ApiKeyRecord>) {
        self.requires_key |= !rows.is_empty();
        let mut keys: Vec<ApiKey> = rows.iter().filter_map(ApiKeyRecord::to_server_key).collect();
        if self.requires_key {
            keys.push(ApiKey {
                name: OWN_KEY_NAME.into(),
                tenant: TenantId::local(),
                hash: KeyHash::from_secret(&self.own_key),
            });
        }
        self.keys.replace(keys);
        self.records = rows;
    }

    /// Reads the file again; whether something changed.
    fn reload_if_changed(&mut self) -> Result<bool, BilingualMessage> {
        let rows = read_keys(&self.path)?;
        if rows == self.records {
            return Ok(false);
        }
        self.replace_keys(rows);
        Ok(true)
    }

    /// Follows the file until `stop`. A file that cannot be read changes nothing: those who were let in still are.
    pub(crate) async fn watch_key_file(
        mut self,
        client: ServerHttpClient,
        data_dir: PathBuf,
        stop: CancellationToken,
    ) {
        let mut told = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(KEY_FILE_POLL_INTERVAL) => {}
            }
            match self.reload_if_changed() {
                Ok(true) => {
                    told = false;
                    tracing::info!(keys = self.records.len(), "keys read again");
                    if let Err(error) = self.server_client(client.address).write_address_file(&data_dir) {
                        tracing::warn!(%error, "the place of the server is not written");
                    }
                }
                Ok(false) => told = false,
                Err(error) if !told => {
                    told = true;
                    tracing::warn!(%error, "the keys stay as they were");
                }
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::TestDirectory;

    #[test]
    fn the_file_holds_no_key_and_is_its_owners() {
        let scratch = TestDirectory::new();
        let path = key_file_path(scratch.path());
        assert_eq!(read_keys(&path).expect("none"), []);
        let (secret, row) = generate_key("ci", &TenantId::local());
        write_keys(&path, std::slice::from_ref(&row)).expect("written");
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(!text.contains(&secret) && text.contains("ci"), "{text}");
        assert_eq!(read_keys(&path).expect("rows"), [row]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).expect("file").permissions().mode() & 0o777, 0o600);
        }
        std::fs::write(&path, "[[key]]\nname = 1").expect("written");
        assert!(read_keys(&path).is_err());
    }

    #[test]
    fn a_door_that_was_shut_stays_shut_without_keys() {
        let scratch = TestDirectory::new();
        let path = key_file_path(scratch.path());
        let mut door = ApiKeyWatcher::from_data_dir(scratch.path()).expect("open");
        assert!(door.keys.is_empty());
        let (_, row) = generate_key("a", &TenantId::local());
        write_keys(&path, &[row]).expect("written");
        assert!(door.reload_if_changed().expect("read") && !door.keys.is_empty());
        write_keys(&path, &[]).expect("written");
        assert!(
            door.reload_if_changed().expect("read") && !door.keys.is_empty(),
            "nobody is let in without a key"
        );
        std::fs::write(&path, "broken").expect("written");
        assert!(door.reload_if_changed().is_err() && !door.keys.is_empty());
    }
}
