//! Named points at which the torture tests end the process. Without the feature `failpoints` a point is nothing.
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
        let spec = std::env::var("DORAN_FAILPOINT").ok()?;
        let (point, nth) = spec.rsplit_once(':')?;
        Some((point.to_owned(), nth.parse().ok()?))
    });
    if let Some((point, nth)) = armed
        && point == name
        && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *nth
    {
        std::process::abort();
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
