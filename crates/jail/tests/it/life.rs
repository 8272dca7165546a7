//! A worker lives no longer than somebody wants its answer.

use std::process::{Command, Stdio};
use std::time::Duration;

use doran_jail::{Limits, Worker};

use crate::{attempt, jail};

#[tokio::test]
async fn a_dropped_call_leaves_nothing_running() {
    let mark = mark(1);
    let jail = jail(Limits {
        wall: Duration::from_secs(60),
        cpu: Duration::from_secs(60),
        output: mark,
        ..Limits::default()
    });
    if attempt(&jail, "echo a").await.is_none() {
        return;
    }
    let call = tokio::spawn({
        let jail = jail.clone();
        async move { jail.run(Worker { argument: "__attempt", input: b"spin" }).await }
    });
    until(|| workers(mark) == 1).await;
    call.abort();
    until(|| workers(mark) == 0).await;
}

#[tokio::test]
async fn a_worker_dies_with_its_parent() {
    let mark = mark(2);
    if attempt(&jail(Limits::default()), "echo a").await.is_none() {
        return;
    }
    let mut parent = Command::new(env!("CARGO_BIN_EXE_jail-breaker"))
        .args(["__parent", &mark.to_string()])
        .stdin(Stdio::null())
        .spawn()
        .expect("start");
    until(|| workers(mark) == 1).await;
    parent.kill().expect("kill");
    parent.wait().expect("wait");
    until(|| workers(mark) == 0).await;
}

/// A limit that no other jail has, to know its workers by.
fn mark(which: usize) -> usize {
    (1 << 20) + usize::try_from(std::process::id()).expect("a number") * 4 + which
}

/// How many workers with this mark are alive and locked in.
fn workers(mark: usize) -> usize {
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
async fn until(holds: impl Fn() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it did not happen within 30 seconds");
}
