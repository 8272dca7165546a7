//! Very many clients: they all come back at once, or do nothing at all.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use doran_offline::OfflineModel;
use doran_server::ServerLimits;
use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::slow_clients::{
    ASK_BODY, connect_and_check, max_open_files, rerun_in_own_process, slowest_of_most,
};
use crate::socket::start_server_with;
use crate::{PATIENCE, app_with, post, run_location, send, text};

/// A test that needs so many files, in a process of its own.
fn with_file_limit(name: &str, wanted: usize, test: impl Future<Output = ()>) {
    if rerun_in_own_process(name) {
        let max_files = max_open_files();
        if max_files < wanted {
            assert!(
                std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"),
                "{max_files} files, {wanted} wanted"
            );
            println!(
                "SKIPPED: {wanted} files wanted, {max_files} allowed / 파일 {wanted}개가 필요한데 {max_files}개까지만 열 수 있음"
            );
            return;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(test);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn two_thousand_clients_that_come_back_at_once_are_all_served_and_spread_out() {
    let name = "many_clients::two_thousand_clients_that_come_back_at_once_are_all_served_and_spread_out";
    with_file_limit(name, 4200, reconnect_all(2000));
}

async fn reconnect_all(count: usize) {
    // How soon a head has to be here is the law of another test.
    let limits = ServerLimits { header_timeout: Duration::from_secs(3600), ..ServerLimits::default() };
    let app = app_with(Arc::new(OfflineModel), limits);
    let answer = send(&app, post("/api/threads/t/runs", ASK_BODY)).await;
    let place = run_location(&answer);
    drop(text(answer).await);
    let (address, _stop, _serving) = start_server_with(app).await;
    let request =
        format!("GET {place} HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 1\r\nConnection: close\r\n\r\n");
    let started = std::time::Instant::now();
    let come = join_all((0..count).map(|_| async {
        let mut socket = TcpStream::connect(address).await.expect("connected");
        socket.write_all(request.as_bytes()).await.expect("sent");
        let mut first = [0];
        let read = tokio::time::timeout(PATIENCE, socket.read_exact(&mut first)).await;
        read.expect("served in time").expect("a first byte");
        let waited = started.elapsed();
        let mut rest = String::new();
        let read = tokio::time::timeout(PATIENCE, socket.read_to_string(&mut rest)).await;
        read.expect("served in time").expect("text");
        (waited, rest)
    }))
    .await;
    let mut retries = BTreeSet::new();
    let mut times = Vec::new();
    for (waited, frames) in come {
        times.push(waited);
        assert!(frames.starts_with("TTP/1.1 200 ") && frames.contains("event: finished"), "{frames}");
        assert!(frames.contains("id: 2\n") && !frames.contains("id: 1\n"), "{frames}");
        retries
            .insert(frames.lines().find_map(|line| line.strip_prefix("retry: ")).expect("a time").to_owned());
    }
    assert!(retries.len() > count / 20, "they would all come back together: {}", retries.len());
    let p99 = slowest_of_most(times);
    // How long it takes is told and not judged: it depends on what else the machine does. Two seconds are wanted.
    eprintln!("{count} clients at once: p99 to the first byte {p99:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn ten_thousand_sockets_that_do_nothing_are_waited_out_and_others_are_served() {
    let name = "many_clients::ten_thousand_sockets_that_do_nothing_are_waited_out_and_others_are_served";
    with_file_limit(name, 16_200, check_idle_sockets(10_000));
}

async fn check_idle_sockets(count: usize) {
    // Fewer connections than there are sockets: the server stops accepting, and goes on when it lets some go.
    let limits = ServerLimits {
        max_connections: count * 3 / 5,
        header_timeout: Duration::from_secs(5),
        ..ServerLimits::default()
    };
    let (address, stop, serving) = start_server_with(app_with(Arc::new(OfflineModel), limits)).await;
    let mut idle = Vec::with_capacity(count);
    for _ in 0..count {
        let connected = tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await;
        idle.push(connected.expect("in time").expect("connected"));
    }
    // It stands behind them all, and its turn comes.
    drop(connect_and_check(address).await);
    // Every one of them is let go, and none was answered.
    for mut socket in idle {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut rest)).await;
        drop(ended.expect("it is closed"));
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
    drop(connect_and_check(address).await);
    stop.cancel();
    serving.await.expect("no panic");
}
