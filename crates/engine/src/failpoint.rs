//! Named points at which the torture tests end the process, and the seeded bugs they switch on (`mutant`). Without the feature `failpoints` a point does nothing.
//!
//! `DORAN_FAILPOINT=name:k` ends the process, without unwinding or flushing, when `name` is passed for the k-th time.

/// Passes the point `name`.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn hit(_name: &'static str) {}

/// Passes the point `name`.
#[cfg(feature = "failpoints")]
pub fn hit(name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ARMED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let armed = ARMED.get_or_init(|| {
        let spec = std::env::var_os("DORAN_FAILPOINT")?;
        Some(parse_failpoint(&spec.to_string_lossy()))
    });
    if let Some((point, nth)) = armed
        && point == name
        && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *nth
    {
        std::process::abort();
    }
}

/// Reads `name:k`. A test that armed nothing would prove nothing, so anything else ends the process.
#[cfg(any(test, feature = "failpoints"))]
fn parse_failpoint(spec: &str) -> (String, u64) {
    match spec.rsplit_once(':').map(|(point, nth)| (point, nth.parse())) {
        Some((point, Ok(nth))) if !point.is_empty() && nth > 0 => (point.to_owned(), nth),
        _ => panic!("DORAN_FAILPOINT is `{spec}`, and should be `name:k` with k from 1"),
    }
}

/// Whether the seeded bug `name` is switched on (`DORAN_MUTANT=name`). The torture tests must catch each of them.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn mutant(_name: &'static str) -> bool {
    false
}

/// Whether the seeded bug `name` is switched on (`DORAN_MUTANT=name`). The torture tests must catch each of them.
#[cfg(feature = "failpoints")]
pub fn mutant(name: &'static str) -> bool {
    use std::sync::OnceLock;

    static MUTANT: OnceLock<Option<String>> = OnceLock::new();
    MUTANT.get_or_init(|| std::env::var("DORAN_MUTANT").ok()).as_deref() == Some(name)
}

#[cfg(feature = "failpoints")]
static UNWRITTEN_ENTRIES: std::sync::Mutex<Vec<crate::store::LogEntry>> = std::sync::Mutex::new(Vec::new());

/// For the seeded bug `event_before_commit`: keeps entries for watchers that are not written yet.
pub(crate) fn keep_unwritten_entries(
    fence: &crate::store::Fence,
    head: u64,
    entries: &[crate::store::NewEntry],
) {
    #[cfg(feature = "failpoints")]
    {
        let mut early = UNWRITTEN_ENTRIES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        early.extend((head + 1..).zip(entries).map(|(seq, entry)| crate::store::LogEntry {
            seq,
            parent: seq - 1,
            base: entry.base,
            run: Some(fence.run),
            at: 0,
            kind: entry.kind,
            body: entry.body.clone(),
        }));
    }
    #[cfg(not(feature = "failpoints"))]
    let _ = (fence, head, entries);
}

/// For the seeded bug `event_before_commit`: the entries of a run right after `after`, which may not be written yet.
pub(crate) fn unwritten_entries_after(run: crate::id::RunId, after: u64) -> Vec<crate::store::LogEntry> {
    #[cfg(feature = "failpoints")]
    {
        let early = UNWRITTEN_ENTRIES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let of_run = early.iter().filter(|entry| entry.run == Some(run) && entry.seq > after);
        of_run
            .zip(after + 1..)
            .take_while(|(entry, seq)| entry.seq == *seq)
            .map(|(entry, _)| entry.clone())
            .collect()
    }
    #[cfg(not(feature = "failpoints"))]
    {
        let _ = (run, after);
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::parse_failpoint;

    #[test]
    fn a_failpoint_that_arms_nothing_is_refused() {
        assert_eq!(parse_failpoint("commit.before:3"), ("commit.before".to_owned(), 3));
        for spec in ["", "commit.before", "commit.before:", "commit.before:x", "commit.before:0", ":3"] {
            assert!(std::panic::catch_unwind(|| parse_failpoint(spec)).is_err(), "{spec}");
        }
    }
}
