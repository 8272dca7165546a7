//! More than was granted is not given.

use std::time::Duration;

use doran_jail::{JailError, JailLimits, WorkerCall};

use crate::{attempt, check, jail};

#[tokio::test]
async fn too_much_memory_is_not_given() {
    let jail = jail(JailLimits { memory: 64 << 20, ..JailLimits::default() });
    check(&jail, "allocate 1000000", "1000000").await;
    check(&jail, "allocate 2000000000", "it wanted more than 64 MiB of memory").await;
    check(&jail, "hoard", "it wanted more than 64 MiB of memory").await;
}

#[tokio::test]
async fn an_endless_loop_is_stopped_by_the_clock() {
    let jail = jail(JailLimits { wall: Duration::from_millis(1500), ..JailLimits::default() });
    for what in ["spin", "sleep", "deaf"] {
        check(&jail, what, "it was stopped after 1.5 seconds").await;
    }
}

#[tokio::test]
async fn an_endless_loop_is_stopped_by_the_processor_time() {
    let jail = jail(JailLimits {
        wall: Duration::from_secs(60),
        cpu: Duration::from_secs(1),
        ..JailLimits::default()
    });
    check(&jail, "spin", "it was stopped after 1 seconds").await;
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_not_taken() {
    let jail = jail(JailLimits { output: 1000, ..JailLimits::default() });
    check(&jail, "answer 1000", &"x".repeat(1000)).await;
    check(&jail, "answer 1001", "its answer is longer than 1000 bytes").await;
    check(&jail, "answer 10000000", "its answer is longer than 1000 bytes").await;
}

#[tokio::test]
async fn what_is_printed_is_no_answer() {
    let jail = jail(JailLimits { output: 1000, ..JailLimits::default() });
    check(&jail, "print", "10000").await;
    check(&jail, "complain", "complained").await;
}

#[tokio::test]
async fn input_that_is_too_long_starts_nothing() {
    let jail = jail(JailLimits { input: 8, ..JailLimits::default() });
    check(&jail, "echo abcd", "the input is longer than 8 bytes").await;
}

#[tokio::test]
async fn a_large_input_and_a_large_answer_pass() {
    let jail = jail(JailLimits { input: 9 << 20, output: 9 << 20, ..JailLimits::default() });
    let text = "가".repeat(2 << 20);
    check(&jail, &format!("echo {text}"), &text).await;
}

#[tokio::test]
async fn a_crash_is_reported_as_a_crash() {
    let jail = jail(JailLimits::default());
    check(&jail, "abort", "it died (signal 6)").await;
    check(&jail, "fault", "it died (signal 11)").await;
    check(&jail, "leave", "it died (exit code 7)").await;
    check(&jail, "panic", "it died (exit code 101)").await;
    let Some(result) = attempt(&jail, "recurse").await else { return };
    assert!(matches!(result, Err(JailError::Crashed { .. })), "{result:?}");
    // And the next one works.
    check(&jail, "echo a", "a").await;
}

#[tokio::test]
async fn those_who_cannot_wait_are_turned_away() {
    let jail =
        jail(JailLimits { at_once: 1, waiting: 2, wall: Duration::from_secs(60), ..JailLimits::default() });
    if attempt(&jail, "echo a").await.is_none() {
        return;
    }
    let calls = (0..8).map(|_| {
        let jail = jail.clone();
        tokio::spawn(async move { jail.run(WorkerCall { argument: "__attempt", input: b"echo a" }).await })
    });
    let calls: Vec<_> = calls.collect();
    let mut answered = 0;
    let mut busy = 0;
    for call in calls {
        match call.await.expect("joined") {
            Ok(_) => answered += 1,
            Err(JailError::Busy(2)) => busy += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((answered, busy), (3, 5));
    check(&jail, "echo b", "b").await;
}
