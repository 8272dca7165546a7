//! Conformance cases for timers.

use std::time::Duration;

use super::fixture::*;
use crate::store::*;

const HOUR: Duration = Duration::from_secs(3600);

fn timer(id: &str, time: TimerTime) -> NewTimer {
    NewTimer {
        id: id.into(),
        kind: TimerKind::Schedule,
        time,
        body: format!("body of {id}").into(),
        replace: true,
    }
}

impl<S: Store> StoreFixture<S> {
    async fn put_timer(&self, timer: NewTimer) -> TimerRow {
        self.store.put_timer(&self.tenant, &timer).await.expect("put")
    }

    /// The ids of this tenant's timers that are due.
    async fn due(&self) -> String {
        let due = self.store.due_timers(usize::MAX).await.expect("due");
        let ids: Vec<String> =
            due.into_iter().filter(|timer| timer.tenant == self.tenant).map(|timer| timer.id).collect();
        ids.join(" ")
    }

    async fn listed(&self, kind: TimerKind, after: Option<&str>, limit: usize) -> String {
        let timers = self.store.timers(&self.tenant, kind, after, limit).await.expect("list");
        timers.into_iter().map(|timer| timer.id).collect::<Vec<String>>().join(" ")
    }
}

pub(super) async fn a_timer_comes_back<S: Store>(b: StoreFixture<S>) {
    assert_eq!(b.store.timer(&b.tenant, "t").await.expect("read"), None);
    let body: Vec<u8> = (0..=255).collect();
    let wake = NewTimer { kind: TimerKind::Wake, body: body.clone(), ..timer("t", TimerTime::At(5)) };
    let row = b.put_timer(wake).await;
    assert_eq!((row.tenant.clone(), row.id.as_str(), row.kind), (b.tenant.clone(), "t", TimerKind::Wake));
    assert_eq!((row.at, row.body.clone(), row.created_at), (Some(5), body, row.updated_at));
    assert_eq!(b.store.timer(&b.tenant, "t").await.expect("read"), Some(row));
    let never = b.put_timer(timer("never", TimerTime::Never)).await;
    assert_eq!(never.at, None);
    let now = b.store.store_time().await.expect("time");
    let later = b.put_timer(timer("later", TimerTime::After(HOUR))).await;
    let hour = Millis::try_from(HOUR.as_millis()).expect("an hour");
    assert!((now + hour..now + hour + 60_000).contains(&later.at.expect("a time")), "{later:?}");
    assert_eq!(later.at, Some(later.updated_at + hour));
    for id in ["", "a\nb", &"x".repeat(MAX_TIMER_ID_BYTES + 1)] {
        let refused = b.store.put_timer(&b.tenant, &timer(id, TimerTime::Never)).await;
        assert!(matches!(refused, Err(StoreError::Rejected(_))), "{refused:?}");
    }
}

pub(super) async fn a_timer_is_replaced_or_stays<S: Store>(b: StoreFixture<S>) {
    let first = b.put_timer(timer("t", TimerTime::At(5))).await;
    let stays = b.put_timer(NewTimer { replace: false, body: vec![1], ..timer("t", TimerTime::At(9)) }).await;
    assert_eq!(stays, first);
    let replaced = b.put_timer(NewTimer { body: vec![2], ..timer("t", TimerTime::Never) }).await;
    assert_eq!((replaced.at, replaced.body.as_slice()), (None, [2].as_slice()));
    assert_eq!(replaced.created_at, first.created_at);
    assert_eq!(b.due().await, "");
}

pub(super) async fn timers_are_due_in_the_order_of_their_times<S: Store>(b: StoreFixture<S>) {
    for (id, time) in [
        ("second", TimerTime::At(20)),
        ("first", TimerTime::At(10)),
        ("later", TimerTime::After(HOUR)),
        ("never", TimerTime::Never),
        ("now", TimerTime::After(Duration::ZERO)),
    ] {
        b.put_timer(timer(id, time)).await;
    }
    sleep_millis(5).await;
    assert_eq!(b.due().await, "first second now");
    assert_eq!(b.store.due_timers(1).await.expect("due").len(), 1);
    assert!(b.store.delete_timer(&b.tenant, "first").await.expect("delete"));
    assert!(!b.store.delete_timer(&b.tenant, "first").await.expect("delete"));
    assert_eq!(b.due().await, "second now");
}

pub(super) async fn a_timer_is_moved_once<S: Store>(b: StoreFixture<S>) {
    b.put_timer(timer("t", TimerTime::At(10))).await;
    let move_it = async |from, to, body: Option<&[u8]>| {
        b.store.move_timer(&b.tenant, "t", from, to, body).await.expect("move")
    };
    assert!(!move_it(11, TimerTime::At(12), None).await);
    assert!(move_it(10, TimerTime::At(20), Some(b"new")).await);
    assert!(!move_it(10, TimerTime::At(30), None).await, "it was moved before");
    let moved = b.store.timer(&b.tenant, "t").await.expect("read").expect("there");
    assert_eq!((moved.at, moved.body.as_slice()), (Some(20), b"new".as_slice()));
    assert!(move_it(20, TimerTime::After(HOUR), None).await);
    assert_eq!(b.due().await, "");
    let at = b.store.timer(&b.tenant, "t").await.expect("read").expect("there").at.expect("a time");
    assert!(move_it(at, TimerTime::Never, None).await);
    let rests = b.store.timer(&b.tenant, "t").await.expect("read").expect("there");
    assert_eq!((rests.at, rests.body.as_slice()), (None, b"new".as_slice()));
    assert!(!b.store.move_timer(&b.tenant, "ghost", 1, TimerTime::Never, None).await.expect("move"));
}

pub(super) async fn one_of_many_moves_wins<S: Store>(b: StoreFixture<S>) {
    b.put_timer(timer("t", TimerTime::At(10))).await;
    let moves: Vec<_> = (0..8)
        .map(|n| {
            let b = b.clone();
            tokio::spawn(async move {
                b.store.move_timer(&b.tenant, "t", 10, TimerTime::At(20 + n), None).await.expect("move")
            })
        })
        .collect();
    let mut won = 0;
    for one in moves {
        won += u32::from(one.await.expect("no panic"));
    }
    assert_eq!(won, 1);
}

pub(super) async fn timers_are_listed_by_kind<S: Store>(b: StoreFixture<S>) {
    for id in ["c", "a", "b", "가"] {
        b.put_timer(timer(id, TimerTime::Never)).await;
    }
    b.put_timer(NewTimer { kind: TimerKind::Wake, ..timer("w", TimerTime::Never) }).await;
    assert_eq!(b.listed(TimerKind::Schedule, None, 100).await, "a b c 가");
    assert_eq!(b.listed(TimerKind::Schedule, Some("a"), 2).await, "b c");
    assert_eq!(b.listed(TimerKind::Wake, None, usize::MAX).await, "w");
}

pub(super) async fn timers_belong_to_a_tenant<S: Store>(b: StoreFixture<S>) {
    let other = b.with_other_tenant();
    b.put_timer(timer("t", TimerTime::At(1))).await;
    assert_eq!(other.store.timer(&other.tenant, "t").await.expect("read"), None);
    assert!(!other.store.delete_timer(&other.tenant, "t").await.expect("delete"));
    assert!(!other.store.move_timer(&other.tenant, "t", 1, TimerTime::Never, None).await.expect("move"));
    assert_eq!(other.listed(TimerKind::Schedule, None, 9).await, "");
    other.put_timer(timer("t", TimerTime::Never)).await;
    assert_eq!(b.due().await, "t");
}
