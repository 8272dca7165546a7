//! Reading back.

use super::{RamRun, RamState, RamTenant, RamThread};
use crate::id::{RunKey, TenantId, ThreadId, ThreadKey};
use crate::store::{
    DeletedUsage, LoadedLog, LogEntry, Millis, RunFilter, RunRow, Seq, StoreError, ThreadFilter, ThreadRow,
    check_metadata, entries_leading_to,
};

impl RamThread {
    pub(super) fn load(&self, at: Seq) -> Result<LoadedLog, StoreError> {
        let head = self.head;
        if at == 0 {
            return Ok(LoadedLog { head, ..LoadedLog::default() });
        }
        let entry = self.entry(at).ok_or_else(|| StoreError::no_entry(at))?;
        if let Some(snapshot) = self.snapshots.get(&at) {
            return Ok(LoadedLog { head, snapshot: Some((at, snapshot.clone())), entries: Vec::new() });
        }
        let base = entry.base;
        let snapshot = self.snapshots.get(&base).map(|snapshot| (base, snapshot.clone()));
        let entries = entries_leading_to(self.entries_between(base, at), at);
        // `gc` may have cleared a part of the way to an entry of a branch that was left.
        let whole = entries.first().is_some_and(|first| first.parent == base);
        if !whole || (base > 0 && snapshot.is_none()) {
            return Err(StoreError::no_entry(at));
        }
        Ok(LoadedLog { head, snapshot, entries })
    }
}

impl RamState {
    pub(in super::super) fn load(&self, key: &ThreadKey, at: Option<Seq>) -> Result<LoadedLog, StoreError> {
        let thread = self.find_thread(key).ok_or_else(|| StoreError::no_thread(key))?;
        thread.load(at.unwrap_or(thread.head))
    }

    pub(in super::super) fn entries(
        &self,
        key: &ThreadKey,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let thread = self.find_thread(key).ok_or_else(|| StoreError::no_thread(key))?;
        let from = thread.log.partition_point(|entry| entry.seq <= after);
        Ok(thread.log.range(from..).take(limit).cloned().collect())
    }

    pub(in super::super) fn run(&self, key: &RunKey) -> Result<RunRow, StoreError> {
        let run = self.tenants.get(&key.tenant).and_then(|home| home.runs.get(&key.run));
        run.map(|run| run.row.clone()).ok_or_else(|| StoreError::no_run(key))
    }

    pub(in super::super) fn runs(&self, tenant: &TenantId, filter: &RunFilter) -> Vec<RunRow> {
        let Some(home) = self.tenants.get(tenant) else { return Vec::new() };
        let fits = |run: &&RamRun| {
            filter.thread.as_ref().is_none_or(|thread| run.row.thread.thread == *thread)
                && filter.status.is_none_or(|status| run.row.status == status)
        };
        let before = home.ids.iter().rev().filter(|id| filter.before.is_none_or(|before| **id < before));
        let runs = before.filter_map(|id| home.runs.get(id)).filter(fits);
        runs.take(filter.limit).map(|run| run.row.clone()).collect()
    }

    pub(in super::super) fn deleted_usage(&self, tenant: &TenantId, since: Millis) -> Vec<DeletedUsage> {
        let Some(home) = self.tenants.get(tenant) else { return Vec::new() };
        home.deleted_usage.range((since, String::new())..).map(|(_, usage)| usage.clone()).collect()
    }

    pub(in super::super) fn thread(&self, key: &ThreadKey) -> Result<ThreadRow, StoreError> {
        self.find_thread(key).map(|thread| thread.row(key)).ok_or_else(|| StoreError::no_thread(key))
    }

    pub(in super::super) fn threads(
        &self,
        tenant: &TenantId,
        filter: &ThreadFilter,
    ) -> Result<Vec<ThreadRow>, StoreError> {
        check_metadata(&filter.metadata)?;
        let Some(home) = self.tenants.get(tenant) else { return Ok(Vec::new()) };
        let page = home.matching_threads(filter).into_iter().skip(filter.offset).take(filter.limit);
        let row = |(id, thread): (&ThreadId, &RamThread)| {
            thread.row(&ThreadKey { tenant: tenant.clone(), thread: id.clone() })
        };
        Ok(page.map(row).collect())
    }
}

impl RamTenant {
    /// The threads that fit, the last changed first.
    fn matching_threads(&self, filter: &ThreadFilter) -> Vec<(&ThreadId, &RamThread)> {
        let fits = |thread: &RamThread| {
            filter.metadata.iter().all(|(key, value)| thread.metadata.get(key) == Some(value))
        };
        let is_after = |id: &ThreadId, thread: &RamThread| {
            filter
                .after
                .as_ref()
                .is_none_or(|after| (after.updated_at, id) > (thread.updated_at, &after.thread))
        };
        let threads = self.threads.iter().filter(|(id, thread)| fits(thread) && is_after(id, thread));
        let mut found: Vec<_> = threads.collect();
        found.sort_by(|(left_id, left), (right_id, right)| {
            right.updated_at.cmp(&left.updated_at).then_with(|| left_id.cmp(right_id))
        });
        found
    }
}

impl RamThread {
    pub(super) fn row(&self, key: &ThreadKey) -> ThreadRow {
        ThreadRow {
            key: key.clone(),
            head: self.head,
            active: self.active,
            created_at: self.created_at,
            updated_at: self.updated_at,
            metadata: self.metadata.clone(),
        }
    }

    /// The entries after `base`, up to `at`.
    fn entries_between(&self, base: Seq, at: Seq) -> Vec<LogEntry> {
        let from = self.log.partition_point(|entry| entry.seq <= base);
        let to = self.log.partition_point(|entry| entry.seq <= at);
        self.log.range(from..to).cloned().collect()
    }
}
