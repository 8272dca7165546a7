//! Who serves from one database. Each server keeps a lease there that says how it works. A server whose index is on its
//! own disk must be the only one: two such indexes give different answers.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use doran_engine::store::{KeyValue, KeyValueWrite};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::SharedValues;
use crate::agent_files;
use crate::assemble;
use crate::config::{Config, SearchStore};
use crate::data_dir;
use crate::output::{BilingualMessage, bilingual};

/// Where the leases are.
const REPLICA_BUCKET: &str = "replicas";

/// How long a server counts as alive after its last report, and how often it reports.
const LEASE: Duration = Duration::from_secs(20);
const RENEWAL_INTERVAL: Duration = Duration::from_millis(2500);

/// How often a server that may not start looks whether the other one is still alive.
const CONFLICT_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Where a server has its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReplicaIndex {
    /// On its own machine.
    Local,
    /// In a cluster that others can use.
    Shared,
}

/// How a server works, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplicaInfo {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) index: ReplicaIndex,
    /// A hash of the files with agents.
    pub(crate) agents: String,
    /// A hash that is the same for servers with the same shared key; none without one.
    pub(crate) shared_key: Option<String>,
    /// The revision of its first lease, once it is known: lower ones were there before.
    first: Option<u64>,
}

/// Another server that is alive.
#[derive(Clone, Debug)]
pub(crate) struct LiveReplica {
    id: String,
    revision: u64,
    /// None if another version wrote it in another way.
    info: Option<ReplicaInfo>,
}

impl LiveReplica {
    /// The revision of its first lease. A server that cannot be read counts as one that was there before.
    fn first(&self) -> u64 {
        self.info.as_ref().map_or(0, |info| info.first.unwrap_or(self.revision))
    }

    /// Whether a server with this index may not run beside it. Nobody knows where one that cannot be read has its index.
    fn conflicts_with(&self, own: ReplicaIndex) -> bool {
        let theirs = self.info.as_ref().map(|info| info.index);
        own == ReplicaIndex::Local || theirs == Some(ReplicaIndex::Local)
    }
}

impl fmt::Display for LiveReplica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.info {
            Some(info) => write!(f, "{} (pid {})", info.host, info.pid),
            None => f.write_str(self.id.split('/').next().unwrap_or(&self.id)),
        }
    }
}

/// That a server may not start beside another one.
#[derive(Debug)]
pub(crate) struct ReplicaConflict;

impl fmt::Display for ReplicaConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("replicas need a shared index")
    }
}

impl std::error::Error for ReplicaConflict {}

/// The lease of this server.
pub(crate) struct ReplicaRegistration {
    values: SharedValues,
    id: String,
    info: ReplicaInfo,
    stop: CancellationToken,
    renewing: Option<tokio::task::JoinHandle<()>>,
}

/// How this server works.
pub(crate) async fn describe_replica(config: &Config) -> anyhow::Result<ReplicaInfo> {
    let index = match config.search.store {
        SearchStore::OpenSearch(_) => ReplicaIndex::Shared,
        SearchStore::Local(_) | SearchStore::Memory => ReplicaIndex::Local,
    };
    Ok(ReplicaInfo {
        host: host_name(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        index,
        agents: agent_files::hash_files(agent_files::agent_folder(&config.data_dir)).await?,
        shared_key: assemble::shared_key_hash(config)?,
        first: None,
    })
}

/// The servers that are alive, this one included.
pub(crate) async fn list_replicas(values: &SharedValues) -> anyhow::Result<Vec<LiveReplica>> {
    let found = values.key_values(REPLICA_BUCKET, "").await?;
    Ok(found.iter().map(read_replica).collect())
}

fn read_replica(stored: &KeyValue) -> LiveReplica {
    let info = serde_json::from_slice(&stored.value).ok();
    LiveReplica { id: stored.key.clone(), revision: stored.revision, info }
}

/// What servers must have in common and have not, in words.
pub(crate) fn find_differences(ours: &ReplicaInfo, theirs: &LiveReplica) -> Vec<BilingualMessage> {
    let Some(info) = &theirs.info else {
        return vec![bilingual!(
            "서버 {theirs}은(는) 버전이 달라 정보를 읽을 수 없습니다",
            "the server {theirs} has another version, and what it says about itself cannot be read"
        )];
    };
    let mut differences = Vec::new();
    if ours.agents != info.agents {
        differences.push(bilingual!(
            "서버 {theirs}의 `agents/` 파일이 다릅니다. 모든 서버에 같은 파일을 두세요",
            "the files in `agents/` of the server {theirs} are different; give all servers the same files"
        ));
    }
    if ours.shared_key != info.shared_key {
        differences.push(bilingual!(
            "서버 {theirs}의 `DORAN_SHARED_KEY`가 다릅니다. 모든 서버에 같은 값을 주세요",
            "the `DORAN_SHARED_KEY` of the server {theirs} is different; give all servers the same one"
        ));
    }
    if ours.version != info.version {
        let (own, other) = (&ours.version, &info.version);
        differences.push(bilingual!(
            "서버 {theirs}은(는) 버전 {other}이고 이 서버는 {own}입니다",
            "the server {theirs} has version {other}, and this one {own}"
        ));
    }
    differences
}

impl ReplicaRegistration {
    /// Takes the lease of this server. Fails if it or another living server has its index on its own disk. The lease of a
    /// server that died is waited for.
    pub(crate) async fn register(config: &Config, values: SharedValues) -> anyhow::Result<Self> {
        let info = describe_replica(config).await?;
        let id = format!("{}/{}", info.host, read_or_create_id(&config.data_dir)?);
        let stop = CancellationToken::new();
        let mut own = Self { values, id, info, stop, renewing: None };
        own.info.first = Some(own.renew().await?);
        own.renew().await?;
        if let Err(error) = own.wait_for_conflicts().await {
            own.remove().await?;
            return Err(error);
        }
        own.renewing = Some(tokio::spawn(keep_lease(
            own.values.clone(),
            own.id.clone(),
            own.info.clone(),
            config.clone(),
            own.stop.clone(),
        )));
        Ok(own)
    }

    async fn renew(&self) -> anyhow::Result<u64> {
        renew_lease(&self.values, &self.id, &self.info).await
    }

    /// Ends when no server is left that this one may not stand beside.
    async fn wait_for_conflicts(&self) -> anyhow::Result<()> {
        let mut seen: Option<Vec<(String, u64)>> = None;
        let mut polls: u32 = 0;
        loop {
            let conflicting: Vec<LiveReplica> = list_replicas(&self.values)
                .await?
                .into_iter()
                .filter(|other| other.id != self.id && Some(other.first()) < self.info.first)
                .filter(|other| other.conflicts_with(self.info.index))
                .collect();
            if conflicting.is_empty() {
                return Ok(());
            }
            // A lease that was renewed is one of a server that is alive.
            let leases: Vec<(String, u64)> =
                conflicting.iter().map(|other| (other.id.clone(), other.revision)).collect();
            let first = seen.get_or_insert_with(|| {
                tracing::warn!(
                    "another server has used this database; waiting until it is known whether it is alive"
                );
                leases.clone()
            });
            let renewed = conflicting.iter().zip(&leases).find(|(_, lease)| !first.contains(lease));
            if let Some((other, _)) = renewed {
                return Err(conflict_error(other, self.info.index).into());
            }
            polls += 1;
            if polls.is_multiple_of(4) {
                self.renew().await?;
            }
            tokio::time::sleep(CONFLICT_POLL_INTERVAL).await;
        }
    }

    async fn remove(&self) -> anyhow::Result<()> {
        if let Some(known) = self.values.key_value(REPLICA_BUCKET, &self.id).await? {
            let write = KeyValueWrite::remove(REPLICA_BUCKET, &self.id, known.revision);
            self.values.write_key_value(write).await?;
        }
        Ok(())
    }

    /// Gives the lease back.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        if let Some(renewing) = self.renewing.take() {
            // A task that panicked has ended, too.
            renewing.await.ok();
        }
        if let Err(error) = self.remove().await {
            tracing::debug!(%error, "the lease of this server runs out by itself");
        }
    }
}

async fn renew_lease(values: &SharedValues, id: &str, info: &ReplicaInfo) -> anyhow::Result<u64> {
    let bytes = serde_json::to_vec(info)?;
    loop {
        let known = values.key_value(REPLICA_BUCKET, id).await?;
        let expected = known.map(|known| known.revision);
        let write = KeyValueWrite {
            lifetime: Some(LEASE),
            ..KeyValueWrite::put(REPLICA_BUCKET, id, expected, &bytes)
        };
        // The lease may run out between both.
        if let Some(revision) = values.write_key_value(write).await? {
            return Ok(revision);
        }
    }
}

/// Renews the lease until `stop`, and tells once of each difference to another server.
async fn keep_lease(
    values: SharedValues,
    id: String,
    mut info: ReplicaInfo,
    config: Config,
    stop: CancellationToken,
) {
    let mut reported = BTreeSet::new();
    loop {
        match agent_files::hash_files(agent_files::agent_folder(&config.data_dir)).await {
            Ok(hash) => info.agents = hash,
            Err(error) => tracing::error!("the agent files could not be read: {error:#}"),
        }
        match list_replicas(&values).await {
            Ok(replicas) => {
                for other in replicas.iter().filter(|other| other.id != id) {
                    for difference in find_differences(&info, other) {
                        if reported.insert(difference.en.clone()) {
                            tracing::warn!("{}", difference.en);
                        }
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "the other servers are not known"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RENEWAL_INTERVAL) => {}
        }
        if let Err(error) = renew_lease(&values, &id, &info).await {
            tracing::debug!(%error, "the lease of this server could not be renewed");
        }
    }
}

fn conflict_error(other: &LiveReplica, own: ReplicaIndex) -> BilingualMessage {
    let message = match own {
        ReplicaIndex::Local => bilingual!(
            "서버 {other}가 이 데이터베이스를 쓰고 있고, 이 서버의 검색 색인은 이 컴퓨터에 있습니다. 색인이 따로 있으면 서버마다 다르게 답합니다. 모든 서버에 `store = \"opensearch\"`를 설정하거나 서버를 하나만 실행하세요",
            "the server {other} uses this database, and the search index of this server is on this machine; with separate indexes each server answers differently. Set `store = \"opensearch\"` on all servers, or run one only"
        ),
        ReplicaIndex::Shared => bilingual!(
            "서버 {other}가 이 데이터베이스를 쓰고 있고, 그 서버의 검색 색인은 그 컴퓨터에 있습니다. 색인이 따로 있으면 서버마다 다르게 답합니다. 그 서버에도 `store = \"opensearch\"`를 설정하거나 그 서버를 멈추세요",
            "the server {other} uses this database, and its search index is on its own machine; with separate indexes each server answers differently. Set `store = \"opensearch\"` there too, or stop it"
        ),
    };
    message.with_cause(ReplicaConflict)
}

/// The name of this data directory. A server that is started there again takes over the lease of the one before.
fn read_or_create_id(data_dir: &Path) -> Result<String, BilingualMessage> {
    data_dir::ensure_private_dir(data_dir)?;
    let path = data_dir.join("replica.id");
    let shown = path.display();
    let cannot = || bilingual!("`{shown}`을(를) 읽거나 쓸 수 없습니다", "cannot read or write `{shown}`");
    match std::fs::read_to_string(&path) {
        Ok(id) if !id.trim().is_empty() && id.len() <= 64 => Ok(id.trim().to_owned()),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(cannot().with_cause(error)),
        Ok(_) | Err(_) => {
            let id = uuid::Uuid::new_v4().simple().to_string();
            data_dir::write_private_file(&path, id.as_bytes()).map_err(|error| cannot().with_cause(error))?;
            Ok(id)
        }
    }
}

/// What this machine or container is called.
fn host_name() -> String {
    let read = |path| std::fs::read_to_string(path).ok();
    let name = read("/proc/sys/kernel/hostname").or_else(|| read("/etc/hostname")).unwrap_or_default();
    let name: String = name.trim().chars().filter(|char| !char.is_control()).take(64).collect();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// A hash that tells nothing of what was hashed and is the same for the same.
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes)[..8])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use doran_engine::store::RamStore;

    use super::*;

    fn info(index: ReplicaIndex) -> ReplicaInfo {
        ReplicaInfo {
            host: "here".into(),
            pid: 1,
            version: "1".into(),
            index,
            agents: String::new(),
            shared_key: None,
            first: None,
        }
    }

    async fn registration(values: &SharedValues, id: &str, index: ReplicaIndex) -> ReplicaRegistration {
        let stop = CancellationToken::new();
        let mut own = ReplicaRegistration {
            values: values.clone(),
            id: id.into(),
            info: info(index),
            stop,
            renewing: None,
        };
        own.info.first = Some(own.renew().await.expect("renewed"));
        own.renew().await.expect("renewed");
        own
    }

    /// The other one renews its lease as long as it lives.
    async fn check(first: ReplicaIndex, second: ReplicaIndex, may_start: bool) {
        let values: SharedValues = Arc::new(RamStore::new());
        let one = registration(&values, "one", first).await;
        let two = registration(&values, "two", second).await;
        one.wait_for_conflicts().await.expect("the first one stays");
        let renewing = async {
            loop {
                one.renew().await.expect("renewed");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let allowed = tokio::select! {
            allowed = two.wait_for_conflicts() => allowed,
            () = renewing => unreachable!("it renews for ever"),
        };
        assert_eq!(allowed.is_ok(), may_start, "{first:?} {second:?} {allowed:?}");
        if let Err(error) = allowed {
            assert!(error.chain().any(|cause| cause.is::<ReplicaConflict>()));
        }
        one.remove().await.expect("removed");
        two.wait_for_conflicts().await.expect("alone");
    }

    #[tokio::test]
    async fn a_server_with_its_own_index_stands_alone() {
        use ReplicaIndex::{Local, Shared};
        check(Local, Local, false).await;
        check(Local, Shared, false).await;
        check(Shared, Local, false).await;
        check(Shared, Shared, true).await;
    }

    #[tokio::test]
    async fn a_server_that_cannot_be_read_is_alive_and_no_local_index_runs_beside_it() {
        let values: SharedValues = Arc::new(RamStore::new());
        let write = KeyValueWrite::put(REPLICA_BUCKET, "old/1", None, b"{}");
        let old = values.write_key_value(write).await.expect("written");
        let renewing = async {
            let mut revision = old;
            loop {
                let write = KeyValueWrite::put(REPLICA_BUCKET, "old/1", revision, b"{}");
                revision = values.write_key_value(write).await.expect("written");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let starting = async {
            let shared = registration(&values, "shared", ReplicaIndex::Shared).await;
            shared.wait_for_conflicts().await.expect("a shared index may be used by all");
            shared.remove().await.expect("removed");
            let local = registration(&values, "local", ReplicaIndex::Local).await;
            let error = local.wait_for_conflicts().await.expect_err("a local index");
            assert!(error.chain().any(|cause| cause.is::<ReplicaConflict>()), "{error}");
            let others = list_replicas(&values).await.expect("list");
            let old = others.iter().find(|other| other.id == "old/1").expect("the old one");
            assert_eq!((old.to_string(), find_differences(&local.info, old).len()), ("old".to_owned(), 1));
        };
        tokio::select! {
            () = starting => {}
            () = renewing => unreachable!("it renews for ever"),
        }
    }

    #[tokio::test]
    async fn the_lease_of_a_dead_server_runs_out() {
        let time = Arc::new(std::sync::atomic::AtomicI64::new(1_000));
        let clock = time.clone();
        let now = move || clock.load(std::sync::atomic::Ordering::SeqCst);
        let values: SharedValues = Arc::new(RamStore::with_clock(Arc::new(now)));
        let dead = registration(&values, "dead", ReplicaIndex::Local).await;
        time.fetch_add(19_000, std::sync::atomic::Ordering::SeqCst);
        let new = registration(&values, "new", ReplicaIndex::Local).await;
        let waiting = new.wait_for_conflicts();
        tokio::pin!(waiting);
        let early = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
        assert!(early.is_err(), "it is not known yet whether the other one lives");
        time.fetch_add(2_000, std::sync::atomic::Ordering::SeqCst);
        waiting.await.expect("the lease ran out");
        assert_eq!(list_replicas(&values).await.expect("list").len(), 1);
        drop(dead);
    }

    #[test]
    fn differences_are_named() {
        let other = |info| LiveReplica { id: "x".into(), revision: 1, info: Some(info) };
        let own = info(ReplicaIndex::Shared);
        assert!(find_differences(&own, &other(own.clone())).is_empty());
        let changed = ReplicaInfo {
            agents: "other".into(),
            shared_key: Some("other".into()),
            version: "2".into(),
            ..own.clone()
        };
        let text: Vec<String> =
            find_differences(&own, &other(changed)).into_iter().map(|difference| difference.en).collect();
        assert_eq!(text.len(), 3, "{text:?}");
        assert!(text[0].contains("`agents/`") && text[1].contains("DORAN_SHARED_KEY"), "{text:?}");
    }
}
