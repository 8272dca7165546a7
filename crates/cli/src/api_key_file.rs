//! The keys of the HTTP server: a file of hashes in the data directory, and the watcher that follows the keys.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use doran_engine::TenantId;
use doran_server::{ApiKey, ApiKeys, KeyHash};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::api_key_store::ApiKeyStore;
use crate::client::ServerHttpClient;
use crate::config::{API_KEYS_VARIABLE, Config};
use crate::data_dir;
use crate::output::{BilingualMessage, bilingual};
use crate::replica::SharedValues;

/// How often the keys are looked at: those of a database have to be known to all replicas within a second.
const KEY_POLL_INTERVAL: Duration = Duration::from_millis(250);
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
    /// Whether it may change what holds for everybody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) admin: bool,
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
pub(crate) fn generate_key(name: &str, tenant: &TenantId, admin: bool) -> (String, ApiKeyRecord) {
    let secret = random_key();
    let made = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let hash = KeyHash::from_secret(&secret).to_string();
    let row = ApiKeyRecord { name: name.to_owned(), tenant: tenant.as_str().to_owned(), hash, made, admin };
    (secret, row)
}

/// 244 random bits that say what they are.
fn random_key() -> String {
    format!("doran_{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

impl ApiKeyRecord {
    /// Whether both are the same key.
    pub(crate) fn has_same_hash(&self, other: &Self) -> bool {
        self.hash == other.hash
    }

    pub(crate) fn to_server_key(&self) -> Option<ApiKey> {
        let tenant = TenantId::new(&self.tenant).ok()?;
        let (name, hash) = (self.name.clone(), KeyHash::parse(&self.hash)?);
        Some(ApiKey { name, tenant, hash, is_admin: self.admin })
    }
}

/// The fewest characters of a key that is not generated here.
const MIN_GIVEN_KEY_CHARS: usize = 32;

/// The number of keys in the file or the database, and in the environment.
pub(crate) async fn count_keys(config: &Config) -> anyhow::Result<usize> {
    Ok(ApiKeyStore::count(config).await? + given_keys(config)?.len())
}

/// The keys of the environment, which are valid besides those of the file or the database.
pub(crate) fn given_keys(config: &Config) -> Result<Vec<ApiKeyRecord>, BilingualMessage> {
    parse_given_keys(config.secrets.get(API_KEYS_VARIABLE).map_or("", |keys| keys.reveal()))
}

/// Reads the keys of the environment: `NAME=KEY` or `NAME@TENANT=KEY`, separated by commas or white space. `:admin` before
/// the `=` makes it the key of an administrator. Errors do not contain a key.
fn parse_given_keys(text: &str) -> Result<Vec<ApiKeyRecord>, BilingualMessage> {
    let words = text.split(|char: char| char == ',' || char.is_whitespace()).filter(|word| !word.is_empty());
    let mut rows: Vec<ApiKeyRecord> = Vec::new();
    for (at, word) in words.enumerate() {
        let number = at + 1;
        let wrong = || {
            bilingual!(
                "`{API_KEYS_VARIABLE}`의 {number}번째 키가 맞지 않습니다. `이름=키`, `이름@테넌트=키`로, 관리자 키는 `이름:admin=키`로 적으세요. 이름은 서로 달라야 하고 키는 {MIN_GIVEN_KEY_CHARS}자 이상입니다. 예: `openssl rand -hex 32`",
                "key {number} of `{API_KEYS_VARIABLE}` does not fit; write `NAME=KEY`, `NAME@TENANT=KEY` or, for an administrator, `NAME:admin=KEY`, with different names and keys of at least {MIN_GIVEN_KEY_CHARS} characters, such as `openssl rand -hex 32`"
            )
        };
        let (owner, secret) = word.split_once('=').ok_or_else(wrong)?;
        let (owner, admin) = match owner.split_once(':') {
            None => (owner, false),
            Some((owner, "admin")) => (owner, true),
            // The word is not repeated: it may be a key at the wrong place.
            Some(_) => {
                return Err(bilingual!(
                    "`{API_KEYS_VARIABLE}`의 {number}번째 키에서 `:` 다음의 말을 알 수 없습니다. 쓸 수 있는 말은 `admin`뿐입니다: `이름:admin=키`, `이름@테넌트:admin=키`",
                    "key {number} of `{API_KEYS_VARIABLE}` has an unknown word after `:`; the only one known is `admin`: `NAME:admin=KEY` or `NAME@TENANT:admin=KEY`"
                ));
            }
        };
        let local = TenantId::local();
        let (name, tenant) = owner.split_once('@').unwrap_or((owner, local.as_str()));
        let tenant = TenantId::new(tenant).map_err(|_| wrong())?;
        let taken = rows.iter().any(|row| row.name == name);
        if name.is_empty() || name.len() > 64 || taken || secret.chars().count() < MIN_GIVEN_KEY_CHARS {
            return Err(wrong());
        }
        let hash = KeyHash::from_secret(secret).to_string();
        rows.push(ApiKeyRecord {
            name: name.to_owned(),
            tenant: tenant.as_str().to_owned(),
            hash,
            made: 0,
            admin,
        });
    }
    Ok(rows)
}

/// Who is let in. Once there was a key, requests without one are rejected, until the next start.
pub(crate) struct ApiKeyWatcher {
    pub(crate) keys: ApiKeys,
    store: ApiKeyStore,
    /// The revision of the keys that were read.
    revision: Option<u64>,
    records: Vec<ApiKeyRecord>,
    /// The keys of the environment. They are valid besides those of the store.
    given: Vec<ApiKeyRecord>,
    /// The program's own key.
    own_key: String,
    requires_key: bool,
}

impl ApiKeyWatcher {
    /// With the keys of the file or the database, and of the environment.
    pub(crate) async fn open(config: &Config) -> anyhow::Result<Self> {
        let given = given_keys(config)?;
        Ok(Self::new(ApiKeyStore::open(config).await?, given).await?)
    }

    async fn new(store: ApiKeyStore, given: Vec<ApiKeyRecord>) -> Result<Self, BilingualMessage> {
        let (keys, own_key) = (ApiKeys::default(), random_key());
        // A change between both is read again.
        let revision = store.revision().await?;
        let rows = store.list().await?;
        let requires_key = !given.is_empty();
        let mut key_watcher =
            Self { keys, store, revision, records: Vec::new(), given, own_key, requires_key };
        key_watcher.replace_keys(rows);
        Ok(key_watcher)
    }

    /// The database, if replicas share one.
    pub(crate) fn shared_values(&self) -> Option<&SharedValues> {
        self.store.shared_values()
    }

    /// The server at this address, with the key that opens it.
    pub(crate) fn server_client(&self, address: std::net::SocketAddr) -> ServerHttpClient {
        ServerHttpClient::new(address, self.requires_key.then_some(self.own_key.as_str()))
    }

    fn replace_keys(&mut self, rows: Vec<ApiKeyRecord>) {
        self.requires_key |= !rows.is_empty();
        let mut keys: Vec<ApiKey> =
            rows.iter().chain(&self.given).filter_map(ApiKeyRecord::to_server_key).collect();
        if self.requires_key {
            keys.push(ApiKey {
                name: OWN_KEY_NAME.into(),
                tenant: TenantId::local(),
                hash: KeyHash::from_secret(&self.own_key),
                is_admin: false,
            });
        }
        self.keys.replace(keys);
        self.records = rows;
    }

    /// Reads the keys again; whether something changed.
    async fn reload_if_changed(&mut self) -> Result<bool, BilingualMessage> {
        let revision = self.store.revision().await?;
        if revision.is_some() && revision == self.revision {
            return Ok(false);
        }
        let rows = self.store.list().await?;
        self.revision = revision;
        if rows == self.records {
            return Ok(false);
        }
        self.replace_keys(rows);
        Ok(true)
    }

    /// Follows the keys until `stop`. Keys that cannot be read change nothing: those who were let in still are.
    pub(crate) async fn watch_keys(
        mut self,
        client: ServerHttpClient,
        data_dir: PathBuf,
        stop: CancellationToken,
    ) {
        let mut reported = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(KEY_POLL_INTERVAL) => {}
            }
            match self.reload_if_changed().await {
                Ok(true) => {
                    reported = false;
                    tracing::info!(keys = self.records.len(), "API keys reloaded");
                    if let Err(error) = self.server_client(client.address).write_address_file(&data_dir) {
                        tracing::warn!(%error, "cannot write `server.json`; other commands will not find this server");
                    }
                }
                Ok(false) => reported = false,
                Err(error) if !reported => {
                    reported = true;
                    tracing::warn!(%error, "cannot read the API keys; the keys that were read before stay valid");
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

    async fn open_key_watcher(
        scratch: &TestDirectory,
        given: Vec<ApiKeyRecord>,
    ) -> Result<ApiKeyWatcher, BilingualMessage> {
        ApiKeyWatcher::new(ApiKeyStore::File(scratch.path().to_owned()), given).await
    }

    #[test]
    fn the_file_holds_no_key_and_is_its_owners() {
        let scratch = TestDirectory::new();
        let path = key_file_path(scratch.path());
        assert_eq!(read_keys(&path).expect("none"), []);
        let (secret, row) = generate_key("ci", &TenantId::local(), false);
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

    #[tokio::test]
    async fn keys_of_the_environment_are_read_and_never_repeated() {
        let secret = "0123456789abcdef0123456789abcdef";
        let rows = parse_given_keys(&format!("laptop={secret}, ci@sales={secret}=\n")).expect("keys");
        let found: Vec<(&str, &str)> = rows.iter().map(|row| (&*row.name, &*row.tenant)).collect();
        assert_eq!(found, [("laptop", "local"), ("ci", "sales")]);
        assert_eq!(rows[0].hash, KeyHash::from_secret(secret).to_string());
        assert_eq!(parse_given_keys(" \n").expect("none"), []);
        let admins = parse_given_keys(&format!("a:admin={secret} b@sales:admin={secret}")).expect("keys");
        let shown: Vec<_> =
            admins.iter().map(|row| (row.name.as_str(), row.tenant.as_str(), row.admin)).collect();
        assert_eq!(shown, [("a", "local", true), ("b", "sales", true)]);
        for wrong in [
            secret.to_owned(),
            "a=hunter2".to_owned(),
            format!("={secret}"),
            format!("a@={secret}"),
            format!("a={secret},a={secret}"),
        ] {
            let error = parse_given_keys(&wrong).expect_err(&wrong);
            for text in [&error.ko, &error.en] {
                assert!(!text.contains(secret) && !text.contains("hunter2"), "{text}");
            }
        }
        for misspelt in
            ["laptop:amdin", "laptop:", "laptop:admin@sales", "laptop:admin:admin", "ci@sales:Admin"]
        {
            let error = parse_given_keys(&format!("{misspelt}={secret}")).expect_err(misspelt);
            for text in [&error.ko, &error.en] {
                assert!(text.contains("`admin`") && !text.contains(secret), "{misspelt}: {text}");
            }
        }
        let scratch = TestDirectory::new();
        let mut key_watcher = open_key_watcher(&scratch, rows).await.expect("shut");
        assert!(!key_watcher.keys.is_empty());
        write_keys(&key_file_path(scratch.path()), &[generate_key("a", &TenantId::local(), false).1])
            .expect("written");
        assert!(key_watcher.reload_if_changed().await.expect("read"));
        write_keys(&key_file_path(scratch.path()), &[]).expect("written");
        assert!(key_watcher.reload_if_changed().await.expect("read"), "the keys of the environment stay");
    }

    #[tokio::test]
    async fn a_door_that_was_shut_stays_shut_without_keys() {
        let scratch = TestDirectory::new();
        let path = key_file_path(scratch.path());
        let mut key_watcher = open_key_watcher(&scratch, Vec::new()).await.expect("open");
        assert!(key_watcher.keys.is_empty());
        let (_, row) = generate_key("a", &TenantId::local(), false);
        write_keys(&path, &[row]).expect("written");
        assert!(key_watcher.reload_if_changed().await.expect("read") && !key_watcher.keys.is_empty());
        write_keys(&path, &[]).expect("written");
        assert!(
            key_watcher.reload_if_changed().await.expect("read") && !key_watcher.keys.is_empty(),
            "nobody is let in without a key"
        );
        std::fs::write(&path, "broken").expect("written");
        assert!(key_watcher.reload_if_changed().await.is_err() && !key_watcher.keys.is_empty());
    }
}
