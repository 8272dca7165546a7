//! The jail, attacked from inside by a worker that tries to get out.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

#[cfg(target_os = "linux")]
mod escape;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod worker_lifetime;

use doran_jail::{Jail, JailError, JailLimits, WorkerCall};

/// A jail whose worker is the attacker.
fn jail(limits: JailLimits) -> Jail {
    Jail::new(limits).with_program(env!("CARGO_BIN_EXE_jail-breaker"))
}

/// What comes of an attempt. On a machine without any walls there is nothing to test, and that is said.
async fn attempt(jail: &Jail, what: &str) -> Option<Result<String, JailError>> {
    let result = jail.run(WorkerCall { argument: "__attempt", input: what.as_bytes() }).await;
    match result {
        Err(JailError::Unavailable { why }) => {
            assert!(std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"), "no jail here: {why}");
            eprintln!("SKIPPED: no jail on this machine / 이 기계에서는 격리할 수 없음: {why}");
            None
        }
        Ok(answer) => Some(Ok(String::from_utf8(answer).expect("words"))),
        Err(error) => Some(Err(error)),
    }
}

async fn check(jail: &Jail, what: &str, expected: &str) {
    let Some(result) = attempt(jail, what).await else { return };
    let outcome = result.unwrap_or_else(|error| error.to_string());
    assert_eq!(outcome, expected, "{what}");
}

#[cfg(not(target_os = "linux"))]
#[tokio::test]
async fn there_is_no_jail_outside_linux() {
    let result =
        jail(JailLimits::default()).run(WorkerCall { argument: "__attempt", input: b"echo a" }).await;
    assert!(matches!(result, Err(JailError::Unavailable { .. })));
}
