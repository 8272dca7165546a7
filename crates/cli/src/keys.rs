//! The keys of the HTTP server: a file of hashes in the data directory, and the door that follows it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use doran_engine::Tenant;
use doran_server::{Key, KeyHash, Keys};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::data_dir;
use crate::output::{Both, both};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The name of the key that the program itself calls its server with.
const OWN: &str = "doran";

/// A key as the file has it. The key itself is nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) tenant: String,
    hash: String,
    /// Seconds since 1970.
    pub(crate) made: u64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    key: Vec<Row>,
}

/// Where the keys of a data directory are.
pub(crate) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("keys.toml")
}

/// Reads the file; without one there are no keys.
pub(crate) fn read(path: &Path) -> Result<Vec<Row>, Both> {
    let shown = path.display();
    let wrong = || {
        both!(
            "키 파일 `{shown}`을(를) 읽을 수 없습니다. 백업에서 되살리거나, 지우고 `doran keys new`로 다시 만드세요",
            "cannot read the file of keys `{shown}`; restore it from a backup, or remove it and make keys anew with `doran keys new`"
        )
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong().because(error)),
    };
    let file: File = toml::from_str(&text).map_err(|error| wrong().because(error.message().to_owned()))?;
    for row in &file.key {
        row.key().ok_or_else(wrong)?;
    }
    Ok(file.key)
}

/// Writes the file anew, for its owner only.
pub(crate) fn write(path: &Path, rows: &[Row]) -> Result<(), Both> {
    let shown = path.display();
    let text = toml::to_string(&File { key: rows.to_vec() }).map_err(std::io::Error::other);
    text.and_then(|text| data_dir::write_private(path, text.as_bytes())).map_err(|error| {
        both!("키 파일 `{shown}`에 쓸 수 없습니다", "cannot write the file of keys `{shown}`").because(error)
    })
}

/// A new key, and what is kept of it.
pub(crate) fn make(name: &str, tenant: &Tenant) -> (String, Row) {
    let secret = random();
    let made = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let hash = KeyHash::of(&secret).to_string();
    let row = Row { name: name.to_owned(), tenant: tenant.as_str().to_owned(), hash, made };
    (secret, row)
}

/// 244 random bits that say what they are.
fn random() -> String {
    format!("doran_{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

impl Row {
    fn key(&self) -> Option<Key> {
        let tenant = Tenant::new(&self.tenant).ok()?;
        Some(Key { name: self.name.clone(), tenant, hash: KeyHash::parse(&self.hash)? })
    }
}

/// Who is let in. Once there was a key the door stays shut for those without one, until the next start.
pub(crate) struct Door {
    pub(crate) keys: Keys,
    path: PathBuf,
    rows: Vec<Row>,
    /// The program's own key.
    own: String,
    shut: bool,
}

impl Door {
    /// With the keys of the file.
    pub(crate) fn of(data_dir: &Path) -> Result<Self, Both> {
        let (path, keys) = (path(data_dir), Keys::default());
        let rows = read(&path)?;
        let shut = !rows.is_empty();
        let mut door = Self { keys, path, rows: Vec::new(), own: random(), shut };
        door.let_in(rows);
        Ok(door)
    }

    /// The server at this address, with the key that opens it.
    pub(crate) fn client(&self, address: std::net::SocketAddr) -> Client {
        Client::new(address, self.shut.then_some(self.own.as_str()))
    }

    fn let_in(&mut self, rows: Vec<Row>) {
        self.shut |= !rows.is_empty();
        let mut keys: Vec<Key> = rows.iter().filter_map(Row::key).collect();
        if self.shut {
            keys.push(Key { name: OWN.into(), tenant: Tenant::local(), hash: KeyHash::of(&self.own) });
        }
        self.keys.replace(keys);
        self.rows = rows;
    }

    /// Reads the file again; whether something changed.
    fn look(&mut self) -> Result<bool, Both> {
        let rows = read(&self.path)?;
        if rows == self.rows {
            return Ok(false);
        }
        self.let_in(rows);
        Ok(true)
    }

    /// Follows the file until `stop`. A file that cannot be read changes nothing: those who were let in still are.
    pub(crate) async fn follow(mut self, client: Client, data_dir: PathBuf, stop: CancellationToken) {
        let mut told = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
            match self.look() {
                Ok(true) => {
                    told = false;
                    tracing::info!(keys = self.rows.len(), "keys read again");
                    if let Err(error) = self.client(client.address).announce(&data_dir) {
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
    use crate::scratch::Scratch;

    #[test]
    fn the_file_holds_no_key_and_is_its_owners() {
        let scratch = Scratch::new();
        let path = path(scratch.path());
        assert_eq!(read(&path).expect("none"), []);
        let (secret, row) = make("ci", &Tenant::local());
        write(&path, std::slice::from_ref(&row)).expect("written");
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(!text.contains(&secret) && text.contains("ci"), "{text}");
        assert_eq!(read(&path).expect("rows"), [row]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).expect("file").permissions().mode() & 0o777, 0o600);
        }
        std::fs::write(&path, "[[key]]\nname = 1").expect("written");
        assert!(read(&path).is_err());
    }

    #[test]
    fn a_door_that_was_shut_stays_shut_without_keys() {
        let scratch = Scratch::new();
        let path = path(scratch.path());
        let mut door = Door::of(scratch.path()).expect("open");
        assert!(door.keys.is_empty());
        let (_, row) = make("a", &Tenant::local());
        write(&path, &[row]).expect("written");
        assert!(door.look().expect("read") && !door.keys.is_empty());
        write(&path, &[]).expect("written");
        assert!(door.look().expect("read") && !door.keys.is_empty(), "nobody is let in without a key");
        std::fs::write(&path, "broken").expect("written");
        assert!(door.look().is_err() && !door.keys.is_empty());
    }
}
