//! Limits how many may do something at once, shared fairly between tenants.
//!
//! Everything that is scarce and shared by tenants goes through a [`FairAdmission`]: requests, streams, uploads, memory
//! for bodies, slots of the Python interpreter. It counts units: one for a request, bytes for memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// How much one tenant may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionPolicy {
    /// As much as is still free after it. One tenant alone gets half, and who comes later still finds room. For what is
    /// held long.
    LeaveRoom,
    /// All of it while nobody else waits. Who holds least is next. For what is held briefly.
    UseAll,
    /// All but one unit, so that another tenant does not wait for the first one. Who holds least is next. For processors.
    LeaveOne,
}

/// Shares units out by tenant. Clones share the same units.
#[derive(Clone, Debug)]
pub struct FairAdmission(Arc<AdmissionQueue>);

/// There is no room: neither for the tenant now, nor for one more to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no room for this tenant now")]
pub struct AdmissionRefused;

/// Units that a tenant holds until this is dropped.
#[derive(Debug)]
pub struct AdmissionPermit {
    queue: Arc<AdmissionQueue>,
    tenant: Arc<str>,
    units: usize,
}

#[derive(Debug)]
struct AdmissionQueue {
    capacity: usize,
    max_waiting: usize,
    policy: AdmissionPolicy,
    state: Mutex<AdmissionState>,
}

#[derive(Debug)]
struct AdmissionState {
    free: usize,
    held: HashMap<Arc<str>, usize>,
    waiting: VecDeque<Waiter>,
    /// When a tenant that waits was admitted last, as a number that grows.
    admitted: HashMap<Arc<str>, u64>,
}

#[derive(Debug)]
struct Waiter {
    tenant: Arc<str>,
    units: usize,
    admit: oneshot::Sender<AdmissionPermit>,
}

impl FairAdmission {
    /// Shares out `capacity` units. At most `max_waiting` wait for some, and of one tenant at most half as many.
    pub fn new(capacity: usize, max_waiting: usize, policy: AdmissionPolicy) -> Self {
        let capacity = capacity.max(1);
        let state = AdmissionState {
            free: capacity,
            held: HashMap::new(),
            waiting: VecDeque::new(),
            admitted: HashMap::new(),
        };
        Self(Arc::new(AdmissionQueue { capacity, max_waiting, policy, state: Mutex::new(state) }))
    }

    /// Units that nobody holds.
    pub fn free(&self) -> usize {
        self.0.state().free
    }

    /// Takes units if there is room for this tenant now. More than it could ever have counts as that much.
    pub fn try_acquire(&self, tenant: &str, units: usize) -> Result<AdmissionPermit, AdmissionRefused> {
        let (tenant, units) = (Arc::from(tenant), self.0.clamp(units));
        let mut state = self.0.state();
        if !self.0.fits(&state, &tenant, units) {
            return Err(AdmissionRefused);
        }
        state.take(&tenant, units);
        drop(state);
        Ok(AdmissionPermit { queue: self.0.clone(), tenant, units })
    }

    /// Takes units, waiting for its turn if need be. Of those who wait, the tenant that holds least is next.
    pub async fn acquire(&self, tenant: &str, units: usize) -> Result<AdmissionPermit, AdmissionRefused> {
        let (tenant, units) = (Arc::<str>::from(tenant), self.0.clamp(units));
        let turn = {
            let mut state = self.0.state();
            state.waiting.retain(|waiter| !waiter.admit.is_closed());
            if state.waiting.is_empty() && self.0.fits(&state, &tenant, units) {
                state.take(&tenant, units);
                drop(state);
                return Ok(AdmissionPermit { queue: self.0.clone(), tenant, units });
            }
            let mine = state.waiting.iter().filter(|waiter| waiter.tenant == tenant).count();
            if mine + 1 > self.0.max_waiting.saturating_sub(state.waiting.len()) {
                return Err(AdmissionRefused);
            }
            let (admit, turn) = oneshot::channel();
            state.waiting.push_back(Waiter { tenant, units, admit });
            turn
        };
        self.0.admit_waiting();
        turn.await.map_err(|_| AdmissionRefused)
    }
}

impl AdmissionPermit {
    /// Takes this many units more, if there is room.
    pub fn try_grow(&mut self, units: usize) -> Result<(), AdmissionRefused> {
        let mut state = self.queue.state();
        let total = self.queue.clamp(self.units.saturating_add(units));
        let more = total - self.units;
        if !self.queue.fits(&state, &self.tenant, more) {
            return Err(AdmissionRefused);
        }
        state.take(&self.tenant, more);
        drop(state);
        self.units = total;
        Ok(())
    }
}

impl Drop for AdmissionPermit {
    fn drop(&mut self) {
        self.queue.state().give_back(&self.tenant, self.units);
        self.queue.admit_waiting();
    }
}

impl AdmissionQueue {
    fn state(&self) -> MutexGuard<'_, AdmissionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most that one tenant can hold.
    fn clamp(&self, units: usize) -> usize {
        units.min(match self.policy {
            AdmissionPolicy::LeaveRoom => self.capacity.div_ceil(2),
            AdmissionPolicy::UseAll => self.capacity,
            AdmissionPolicy::LeaveOne => self.capacity_for_one(),
        })
    }

    fn fits(&self, state: &AdmissionState, tenant: &Arc<str>, units: usize) -> bool {
        match self.policy {
            AdmissionPolicy::LeaveRoom => state.held_by(tenant) + units <= state.free,
            AdmissionPolicy::UseAll => units <= state.free,
            AdmissionPolicy::LeaveOne => {
                units <= state.free && state.held_by(tenant) + units <= self.capacity_for_one()
            }
        }
    }

    /// All units but one.
    fn capacity_for_one(&self) -> usize {
        self.capacity.saturating_sub(1).max(1)
    }

    /// Admits those who wait, as far as there is room. Nobody is passed over for one that needs less.
    fn admit_waiting(self: &Arc<Self>) {
        loop {
            let mut state = self.state();
            state.waiting.retain(|waiter| !waiter.admit.is_closed());
            let next =
                state.waiting.iter().enumerate().min_by_key(|(_, waiter)| state.order_of(&waiter.tenant));
            let Some((place, waiter)) = next else { return };
            if !self.fits(&state, &waiter.tenant, waiter.units) {
                return;
            }
            let Some(Waiter { tenant, units, admit }) = state.waiting.remove(place) else { return };
            state.take(&tenant, units);
            state.note_admitted(&tenant);
            drop(state);
            // Who went away meanwhile gives its units back.
            drop(admit.send(AdmissionPermit { queue: self.clone(), tenant, units }));
        }
    }
}

impl AdmissionState {
    fn held_by(&self, tenant: &Arc<str>) -> usize {
        self.held.get(tenant).copied().unwrap_or(0)
    }

    /// Who holds least is first; of those, who was admitted longest ago.
    fn order_of(&self, tenant: &Arc<str>) -> (usize, u64) {
        (self.held_by(tenant), self.admitted.get(tenant).copied().unwrap_or(0))
    }

    fn note_admitted(&mut self, tenant: &Arc<str>) {
        if self.waiting.is_empty() {
            self.admitted.clear();
        } else {
            let turn = self.admitted.values().max().map_or(1, |last| last + 1);
            self.admitted.insert(tenant.clone(), turn);
        }
    }

    fn take(&mut self, tenant: &Arc<str>, units: usize) {
        self.free -= units;
        *self.held.entry(tenant.clone()).or_default() += units;
    }

    fn give_back(&mut self, tenant: &Arc<str>, units: usize) {
        self.free += units;
        if let Some(held) = self.held.get_mut(tenant) {
            *held -= units;
            if *held == 0 {
                self.held.remove(tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// Takes single units until there is no more room.
    fn take_all(admission: &FairAdmission, tenant: &str) -> Vec<AdmissionPermit> {
        std::iter::from_fn(|| admission.try_acquire(tenant, 1).ok()).collect()
    }

    #[test]
    fn one_tenant_at_its_limit_leaves_room_for_others() {
        let admission = FairAdmission::new(16, 0, AdmissionPolicy::LeaveRoom);
        let (first, second) = (take_all(&admission, "a"), take_all(&admission, "b"));
        assert_eq!((first.len(), second.len()), (8, 4));
        let third = take_all(&admission, "c");
        assert_eq!(third.len(), 2, "also who comes last finds some");
        drop((first, second, third));
        assert_eq!(admission.free(), 16, "nothing is lost");
        assert_eq!(take_all(&admission, "a").len(), 8);
        let single = FairAdmission::new(1, 0, AdmissionPolicy::LeaveRoom);
        assert_eq!(take_all(&single, "a").len(), 1);
    }

    #[test]
    fn more_than_a_tenant_can_have_counts_as_all_it_can_have() {
        let admission = FairAdmission::new(10, 0, AdmissionPolicy::LeaveRoom);
        let mut permit = admission.try_acquire("a", 1000).expect("room");
        assert!(admission.try_acquire("a", 1).is_err() && admission.try_acquire("b", 2).is_ok());
        permit.try_grow(5).expect("it has all it can have");
        assert_eq!(admission.free(), 5);
    }

    #[tokio::test]
    async fn one_unit_is_left_for_another_tenant() {
        let admission = FairAdmission::new(3, usize::MAX, AdmissionPolicy::LeaveOne);
        let held = take_all(&admission, "a");
        assert_eq!((held.len(), admission.free()), (2, 1));
        let mut waiting = Box::pin(admission.acquire("a", 1));
        assert!((&mut waiting).now_or_never().is_none());
        let other = admission.acquire("b", 1).now_or_never().expect("at once").expect("room");
        let mut third = Box::pin(admission.acquire("c", 1));
        assert!((&mut third).now_or_never().is_none());
        drop(held);
        assert!((&mut third).now_or_never().is_some_and(|admitted| admitted.is_ok()));
        assert!((&mut waiting).now_or_never().is_some_and(|admitted| admitted.is_ok()));
        drop(other);
        assert_eq!(admission.free(), 3);
        assert_eq!(take_all(&FairAdmission::new(1, 0, AdmissionPolicy::LeaveOne), "a").len(), 1);
    }

    #[tokio::test]
    async fn tenants_take_turns() {
        let admission = FairAdmission::new(1, 100, AdmissionPolicy::UseAll);
        let permit = admission.acquire("a", 1).await.expect("room");
        let (order, received) = std::sync::mpsc::channel();
        let mut waiting = Vec::new();
        for tenant in ["a", "a", "a", "b", "b", "c"] {
            let (admission, order) = (admission.clone(), order.clone());
            waiting.push(Box::pin(async move {
                let _held = admission.acquire(tenant, 1).await.expect("its turn");
                order.send(tenant).expect("heard");
            }));
        }
        for one in &mut waiting {
            assert!(one.now_or_never().is_none());
        }
        drop(permit);
        futures_util::future::join_all(waiting).await;
        assert_eq!(received.try_iter().collect::<String>(), "abcaba");
    }

    #[tokio::test]
    async fn the_tenant_that_holds_least_is_next() {
        let admission = FairAdmission::new(2, 8, AdmissionPolicy::UseAll);
        let mut permits = vec![
            admission.acquire("a", 1).await.expect("room"),
            admission.acquire("a", 1).await.expect("room"),
        ];
        let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(admission.acquire("a", 1))).collect();
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()), "both units are taken");
        let mut full = Box::pin(admission.acquire("a", 1));
        assert_eq!((&mut full).now_or_never().map(|refused| refused.err()), Some(Some(AdmissionRefused)));
        let mut other = Box::pin(admission.acquire("b", 1));
        assert!((&mut other).now_or_never().is_none(), "there is a place to wait for others");
        permits.pop();
        assert!((&mut other).now_or_never().is_some_and(|admitted| admitted.is_ok()), "b holds less than a");
        assert!((&mut waiting[0]).now_or_never().is_some(), "b gave it back");
        drop(waiting);
        drop(permits);
        assert_eq!(admission.free(), 2);
    }
}
