//! Timers: something that is to happen at a time, by the store's clock. What it is, is the engine's business.
//!
//! The process that finds a timer due fires it. Two may find it at once, and one may die in the middle, so what a timer does
//! must be known by the timer and its time; moving it on compares the time it had.

use std::time::Duration;

use async_trait::async_trait;

use super::{Millis, StoreError};
use crate::id::TenantId;

/// The most bytes of the id of a timer.
pub const MAX_TIMER_ID_BYTES: usize = 200;

/// The most schedules of a tenant.
pub const MAX_SCHEDULES_PER_TENANT: u64 = 10_000;

/// What a timer is for. The numbers are the stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TimerKind {
    /// A run sleeps until then.
    Wake = 1,
    /// A run is started then.
    Schedule = 2,
}

impl TimerKind {
    /// The kind with this stored number.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Wake),
            2 => Some(Self::Schedule),
            _ => None,
        }
    }

    /// The stored number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// When a timer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerTime {
    /// At this time by the store's clock.
    At(Millis),
    /// So long after it is stored.
    After(Duration),
    /// Not before it is moved.
    Never,
}

/// A timer to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTimer {
    /// What it is called: 1 to [`MAX_TIMER_ID_BYTES`] bytes without control characters.
    pub id: String,
    /// What it is for.
    pub kind: TimerKind,
    /// When it is due.
    pub time: TimerTime,
    /// What is to happen.
    pub body: Vec<u8>,
    /// Whether it takes the place of one of this id. Else that one stays as it is.
    pub replace: bool,
}

impl NewTimer {
    /// Refuses an id that breaks the rules.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.id.is_empty() || self.id.len() > MAX_TIMER_ID_BYTES || self.id.chars().any(char::is_control) {
            let message =
                format!("the id of a timer has 1 to {MAX_TIMER_ID_BYTES} bytes and no control characters");
            return Err(StoreError::Rejected(message.into()));
        }
        Ok(())
    }
}

/// A timer as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerRow {
    /// Whose it is.
    pub tenant: TenantId,
    /// What it is called.
    pub id: String,
    /// What it is for.
    pub kind: TimerKind,
    /// When it is due; `None` when it is not.
    pub at: Option<Millis>,
    /// What is to happen.
    pub body: Vec<u8>,
    /// When it was stored.
    pub created_at: Millis,
    /// When it was last stored or moved.
    pub updated_at: Millis,
}

/// The error when a tenant has all the schedules it may have.
pub fn too_many_schedules() -> StoreError {
    StoreError::Rejected(
        format!("there are {MAX_SCHEDULES_PER_TENANT} schedules already: delete some").into(),
    )
}

/// Timers.
#[async_trait]
pub trait TimerStore: Send + Sync + 'static {
    /// The time by the store's clock.
    async fn store_time(&self) -> Result<Millis, StoreError>;

    /// Stores a timer and gives it as it is stored then, the old one if that stays. A new schedule of a tenant that has
    /// [`MAX_SCHEDULES_PER_TENANT`] is [`StoreError::Rejected`].
    async fn put_timer(&self, tenant: &TenantId, timer: &NewTimer) -> Result<TimerRow, StoreError>;

    /// A timer.
    async fn timer(&self, tenant: &TenantId, id: &str) -> Result<Option<TimerRow>, StoreError>;

    /// Timers of a tenant in the order of their ids, those after `after`, at most `limit`.
    async fn timers(
        &self,
        tenant: &TenantId,
        kind: TimerKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TimerRow>, StoreError>;

    /// Removes a timer. `false` when there was none.
    async fn delete_timer(&self, tenant: &TenantId, id: &str) -> Result<bool, StoreError>;

    /// Timers of all tenants whose time has come, the earliest first, at most `limit`.
    async fn due_timers(&self, limit: usize) -> Result<Vec<TimerRow>, StoreError>;

    /// Gives a timer that is due at `from` another time, and another body unless that is `None`. `false`, and nothing
    /// changes, when it is not due at `from` any more.
    async fn move_timer(
        &self,
        tenant: &TenantId,
        id: &str,
        from: Millis,
        to: TimerTime,
        body: Option<&[u8]>,
    ) -> Result<bool, StoreError>;
}
