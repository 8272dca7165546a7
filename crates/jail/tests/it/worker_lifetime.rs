//! A worker lives no longer than somebody wants its answer.

use std::process::{Command, Stdio};
use std::time::Duration;

use doran_jail::{JailLimits, WorkerCall};

use crate::{attempt, jail};

#[tokio::test]
async fn a_dropped_call_leaves_nothing_running() {
    let mark = unique_output_limit(1);
    let jail = jail(JailLimits {
        wall: Duration::from_secs(60),
        cpu: Duration::from_secs(60),
        output: mark,
        ..JailLimits::default()
    });
    if attempt(&jail, "echo a").await.is_none() {
        return;
    }
    let call = tokio::spawn({
        let jail = jail.clone();
        async move { jail.run(WorkerCall { argument: "__attempt", input: b"spin" }).await }
    });
    wait_until(|| count_locked_workers(mark) == 1).await;
    call.abort();
    wait_until(|| count_locked_workers(mark) == 0).await;
}

#[tokio::test]
async fn a_worker_dies_with_its_parent() {
    let mark = unique_output_limit(2);
    if attempt(&jail(JailLimits::default()), "echo a").await.is_none() {
        return;
    }
    let mut parent = Command::new(env!("CARGO_BIN_EXE_jail-breaker"))
        .args(["__parent", &mark.to_string()])
        .stdin(Stdio::null())
        .spawn()
        .expect("start");
    wait_until(|| count_locked_workers(mark) == 1).await;
    parent.kill().expect("kill");
    parent.wait().expect("wait");
    wait_until(|| count_locked_workers(mark) == 0).await;
}

/// A limit that no other jail has, to know its workers by.
fn unique_output_limit(which: usize) -> usize {
    (1 << 20) + usize::try_from(std::process::id()).expect("a number") * 4 + which
}

/// How many workers with this mark are alive and locked in.
fn count_locked_workers(mark: usize) -> usize {
    let mark = format!("\"output\":{mark},");
    let locked_in = |place: &std::path::Path| {
        let rules = std::fs::read(place.join("cmdline")).unwrap_or_default();
        let status = std::fs::read_to_string(place.join("status")).unwrap_or_default();
        String::from_utf8_lossy(&rules).contains(&mark) && status.contains("Seccomp:\t2")
    };
    let processes = std::fs::read_dir("/proc").expect("list").filter_map(Result::ok);
    processes.filter(|process| locked_in(&process.path())).count()
}

/// Waits for something that must happen soon, on however slow a machine.
async fn wait_until(holds: impl Fn() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it did not happen within 30 seconds");
}
