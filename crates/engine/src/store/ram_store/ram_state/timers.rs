//! Timers.

use super::{RamState, add_duration};
use crate::id::TenantId;
use crate::store::{
    MAX_SCHEDULES_PER_TENANT, Millis, NewTimer, StoreError, TimerKind, TimerRow, TimerTime,
    too_many_schedules,
};

fn due_at(time: TimerTime, now: Millis) -> Option<Millis> {
    match time {
        TimerTime::At(at) => Some(at),
        TimerTime::After(wait) => Some(add_duration(now, wait)),
        TimerTime::Never => None,
    }
}

impl RamState {
    pub(in super::super) fn put_timer(
        &mut self,
        tenant: &TenantId,
        timer: &NewTimer,
        now: Millis,
    ) -> Result<TimerRow, StoreError> {
        timer.check()?;
        let home = self.tenants.entry(tenant.clone()).or_default();
        let old = home.timers.get(&timer.id);
        if let Some(old) = old.filter(|_| !timer.replace) {
            return Ok(old.clone());
        }
        let schedules =
            || home.timers.values().filter(|timer| timer.kind == TimerKind::Schedule).count() as u64;
        if old.is_none() && timer.kind == TimerKind::Schedule && schedules() >= MAX_SCHEDULES_PER_TENANT {
            return Err(too_many_schedules());
        }
        let row = TimerRow {
            tenant: tenant.clone(),
            id: timer.id.clone(),
            kind: timer.kind,
            at: due_at(timer.time, now),
            body: timer.body.clone(),
            created_at: old.map_or(now, |old| old.created_at),
            updated_at: now,
        };
        if let Some(at) = old.and_then(|old| old.at) {
            self.due.remove(&(at, tenant.clone(), timer.id.clone()));
        }
        self.due.extend(row.at.map(|at| (at, tenant.clone(), timer.id.clone())));
        home.timers.insert(timer.id.clone(), row.clone());
        Ok(row)
    }

    pub(in super::super) fn timer(&self, tenant: &TenantId, id: &str) -> Option<TimerRow> {
        self.tenants.get(tenant)?.timers.get(id).cloned()
    }

    pub(in super::super) fn timers(
        &self,
        tenant: &TenantId,
        kind: TimerKind,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<TimerRow> {
        let Some(home) = self.tenants.get(tenant) else { return Vec::new() };
        let wanted =
            |timer: &&TimerRow| timer.kind == kind && after.is_none_or(|after| timer.id.as_str() > after);
        home.timers.values().filter(wanted).take(limit).cloned().collect()
    }

    pub(in super::super) fn delete_timer(&mut self, tenant: &TenantId, id: &str) -> bool {
        let removed = self.tenants.get_mut(tenant).and_then(|home| home.timers.remove(id));
        if let Some(at) = removed.as_ref().and_then(|removed| removed.at) {
            self.due.remove(&(at, tenant.clone(), id.to_owned()));
        }
        removed.is_some()
    }

    pub(in super::super) fn due_timers(&self, limit: usize, now: Millis) -> Vec<TimerRow> {
        let due = self.due.iter().take_while(|(at, ..)| *at <= now).take(limit);
        due.filter_map(|(_, tenant, id)| self.timer(tenant, id)).collect()
    }

    pub(in super::super) fn move_timer(
        &mut self,
        tenant: &TenantId,
        id: &str,
        from: Millis,
        (to, body): (TimerTime, Option<&[u8]>),
        now: Millis,
    ) -> bool {
        let timer = self.tenants.get_mut(tenant).and_then(|home| home.timers.get_mut(id));
        let Some(timer) = timer.filter(|timer| timer.at == Some(from)) else { return false };
        self.due.remove(&(from, tenant.clone(), id.to_owned()));
        (timer.at, timer.updated_at) = (due_at(to, now), now);
        if let Some(body) = body {
            timer.body = body.to_vec();
        }
        self.due.extend(timer.at.map(|at| (at, tenant.clone(), id.to_owned())));
        true
    }
}
