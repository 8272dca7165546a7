//! Making, changing and clearing threads, and the cache of nodes.

use std::collections::btree_map::Entry;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{RamCachedValue, RamState, RamTenant, RamThread, add_duration, subtract_duration};
use crate::id::{TenantId, ThreadId, ThreadKey};
use crate::store::{
    DeletedUsage, GcReport, Millis, NewEntry, Retention, Seq, StoreError, ThreadRow, check_metadata,
};

impl RamState {
    pub(in super::super) fn put_thread(
        &mut self,
        key: &ThreadKey,
        metadata: &Map<String, Value>,
        now: Millis,
    ) -> Result<ThreadRow, StoreError> {
        check_metadata(metadata)?;
        let home = self.tenants.entry(key.tenant.clone()).or_default();
        let thread =
            home.threads.entry(key.thread.clone()).or_insert_with(|| RamThread::new(now, Map::new()));
        for (name, value) in metadata {
            if value.is_null() {
                thread.metadata.remove(name);
            } else {
                thread.metadata.insert(name.clone(), value.clone());
            }
        }
        thread.updated_at = now;
        Ok(thread.row(key))
    }

    pub(in super::super) fn append_entry(
        &mut self,
        key: &ThreadKey,
        expect: Seq,
        entry: NewEntry,
        now: Millis,
    ) -> Result<Seq, StoreError> {
        let thread = self.tenants.get_mut(&key.tenant).and_then(|home| home.threads.get_mut(&key.thread));
        let thread = thread.ok_or_else(|| StoreError::no_thread(key))?;
        if let Some(run) = thread.active {
            return Err(StoreError::Busy { thread: key.thread.clone(), run });
        }
        if thread.head != expect {
            return Err(StoreError::Conflict(format!("the newest entry is {}, not {expect}", thread.head)));
        }
        if let Some(parent) = entry.parent {
            thread.load(parent)?;
        }
        thread.updated_at = now;
        Ok(thread.push_entry(None, entry, now))
    }

    pub(in super::super) fn copy_thread(
        &mut self,
        from: &ThreadKey,
        to: &ThreadId,
        stands: Option<NewEntry>,
        now: Millis,
    ) -> Result<ThreadRow, StoreError> {
        let source = self.find_thread(from).ok_or_else(|| StoreError::no_thread(from))?;
        let mut copy = RamThread {
            log: source.log.clone(),
            head: source.head,
            snapshots: source.snapshots.clone(),
            ..RamThread::new(now, source.metadata.clone())
        };
        let key = ThreadKey { tenant: from.tenant.clone(), thread: to.clone() };
        if let Some(entry) = stands
            && entry.parent != Some(copy.head)
        {
            if let Some(parent) = entry.parent {
                copy.load(parent)?;
            }
            copy.push_entry(None, entry, now);
        }
        let row = copy.row(&key);
        let home = self.tenants.entry(key.tenant).or_default();
        if home.threads.contains_key(to) {
            return Err(StoreError::Conflict(format!("thread `{to}` exists already")));
        }
        home.threads.insert(key.thread, copy);
        Ok(row)
    }

    pub(in super::super) fn delete_thread(&mut self, key: &ThreadKey) -> bool {
        let Some(home) = self.tenants.get_mut(&key.tenant) else { return false };
        let Some(thread) = home.threads.remove(&key.thread) else { return false };
        for id in &thread.runs {
            home.ids.remove(id);
            let Some(run) = home.runs.remove(id) else { continue };
            home.keep_usage(DeletedUsage::of_run(&run.row));
        }
        if let Some(ticket) = thread.ready {
            self.ready.remove(&(ticket, key.clone()));
        }
        if let Some(until) = thread.lease {
            self.leases.remove(&(until, key.clone()));
        }
        true
    }

    pub(in super::super) fn gc(&mut self, retention: &Retention, now: Millis) -> GcReport {
        let mut cleared = GcReport::default();
        if let Some(age) = retention.idle_threads {
            for key in self.idle_threads(subtract_duration(now, age)) {
                cleared.threads += u64::from(self.delete_thread(&key));
            }
        }
        for home in self.tenants.values_mut() {
            if let Some(age) = retention.old_entries {
                let old = subtract_duration(now, age);
                let free = home.threads.values_mut().filter(|thread| thread.is_idle());
                cleared.entries += free.map(|thread| thread.remove_old_entries(old)).sum::<u64>();
            }
            let keys = home.idempotency_keys.len();
            let old = subtract_duration(now, retention.idempotency);
            home.idempotency_keys.retain(|_, key| key.at > old);
            cleared.keys += (keys - home.idempotency_keys.len()) as u64;
            cleared.keys += home.remove_expired_responses(now);
            let cached = home.cache.len();
            home.cache.retain(|_, kept| kept.is_alive(now));
            cleared.cached += (cached - home.cache.len()) as u64;
            cleared.items += home.remove_expired_items(now);
        }
        self.tenants.retain(|_, home| !home.is_empty());
        cleared
    }

    pub(in super::super) fn cached_value(
        &self,
        tenant: &TenantId,
        key: &str,
        now: Millis,
    ) -> Option<Vec<u8>> {
        let kept = self.tenants.get(tenant)?.cache.get(key)?;
        kept.is_alive(now).then(|| kept.value.clone())
    }

    pub(in super::super) fn cache_value(
        &mut self,
        tenant: &TenantId,
        key: &str,
        value: &[u8],
        lifetime: Option<Duration>,
        now: Millis,
    ) {
        let kept = RamCachedValue {
            value: value.to_vec(),
            until: lifetime.map(|lifetime| add_duration(now, lifetime)),
        };
        self.tenants.entry(tenant.clone()).or_default().cache.insert(key.to_owned(), kept);
    }

    fn idle_threads(&self, since: Millis) -> Vec<ThreadKey> {
        let mut found = Vec::new();
        for (tenant, home) in &self.tenants {
            let idle =
                home.threads.iter().filter(|(_, thread)| thread.is_idle() && thread.updated_at <= since);
            found.extend(idle.map(|(id, _)| ThreadKey { tenant: tenant.clone(), thread: id.clone() }));
        }
        found
    }
}

impl RamTenant {
    fn is_empty(&self) -> bool {
        self.threads.is_empty()
            && self.runs.is_empty()
            && self.idempotency_keys.is_empty()
            && self.cache.is_empty()
            && self.responses.is_empty()
            && self.items.is_empty()
            && self.timers.is_empty()
            && self.deleted_usage.is_empty()
    }

    fn keep_usage(&mut self, more: DeletedUsage) {
        match self.deleted_usage.entry((more.at, more.graph.clone())) {
            Entry::Vacant(place) => drop(place.insert(more)),
            Entry::Occupied(mut kept) => {
                let kept = kept.get_mut();
                kept.runs += more.runs;
                kept.usage += more.usage;
                kept.is_exact &= more.is_exact;
            }
        }
    }
}

impl RamThread {
    /// Nobody works on it and nobody waits for it.
    fn is_idle(&self) -> bool {
        self.active.is_none() && self.waiting.is_empty()
    }

    /// Removes what lies before the snapshot that the newest state starts from, but for entries younger than `old`
    /// and what those are rebuilt from.
    fn remove_old_entries(&mut self, old: Millis) -> u64 {
        let mut keep_from = self.base_after(self.head);
        let young = self.log.iter().take_while(|entry| entry.seq < keep_from).find(|entry| entry.at > old);
        if let Some(first) = young {
            let rest = self.log.range(self.log.partition_point(|entry| entry.seq < first.seq)..);
            let before = rest.take_while(|entry| entry.seq < keep_from);
            keep_from = before.map(|entry| entry.seq.min(entry.base)).min().unwrap_or(keep_from);
        }
        let removed = self.log.partition_point(|entry| entry.seq < keep_from);
        self.log.drain(..removed);
        self.snapshots = self.snapshots.split_off(&keep_from);
        removed as u64
    }
}

impl RamCachedValue {
    fn is_alive(&self, now: Millis) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}
