//! The program under load, over loopback. These tests measure and take minutes, so they run on request only:
//! `cargo test -p doran --test it load:: -- --ignored --nocapture --test-threads 1`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::program::{ServerProcess, fresh_directory, run_doran, utf8};

/// The memory that the server may use for bodies, in MiB, and what the rest of the program may take beside it.
const BODY_MEMORY_MIB: u64 = 64;
const OTHER_MEMORY_MIB: u64 = 400;
const SILENT_CLIENTS: usize = 200;

/// The memory of a process in MiB: now, and the most it ever had.
fn resident_mib(server: &ServerProcess) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).expect("a process");
    let kib = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).expect(name);
        line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).expect("a number")
    };
    (kib("VmRSS:") / 1024, kib("VmHWM:") / 1024)
}

fn send(address: &str, key: &str, line: &str, body: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).expect("connected");
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(body.as_bytes())).expect("sent");
    socket
}

fn answer(mut socket: TcpStream) -> String {
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).ok();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn new_key(here: &Path, tenant: &str) -> String {
    let made = run_doran(here, &["keys", "new", tenant, "--tenant", tenant], "");
    utf8(&made.stdout).trim().to_owned()
}

#[test]
#[ignore = "a load test"]
fn clients_that_never_read_stay_within_the_memory_budget() {
    let here = fresh_directory("load-silent");
    fs::write(here.join("doran.toml"), format!("max_body_memory_mib = {BODY_MEMORY_MIB}\n"))
        .expect("settings");
    let key = new_key(&here, "a");
    let server = ServerProcess::start(&here, None);
    let document = "긴 문장이 이어집니다. ".repeat(300_000);
    let path = "POST /api/documents?name=long.txt";
    let added = answer(send(&server.address, &key, path, &document));
    assert!(added.contains("202 "), "{}", &added[..added.len().min(300)]);
    let id =
        added.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id").to_owned();
    let message = json!({ "agent": "assistant", "message": "말 ".repeat(40_000) }).to_string();
    for _ in 0..20 {
        answer(send(&server.address, &key, "POST /api/threads/t/runs?wait=true", &message));
    }
    let begun = Instant::now();
    while !answer(send(&server.address, &key, &format!("GET /api/documents/{id}"), "")).contains("\"ready\"")
    {
        assert!(begun.elapsed() < Duration::from_secs(120), "the document is not read");
        std::thread::sleep(Duration::from_millis(200));
    }
    println!("before: {:?} MiB (now, most)", resident_mib(&server));
    for route in [
        format!("GET /api/documents/{id}/text"),
        "GET /api/threads/t/messages".to_owned(),
        "GET /api/threads/t/history".to_owned(),
        "GET /api/threads/t/state".to_owned(),
        "GET /openapi.json".to_owned(),
    ] {
        let silent: Vec<TcpStream> =
            (0..SILENT_CLIENTS).map(|_| send(&server.address, &key, &route, "")).collect();
        std::thread::sleep(Duration::from_secs(3));
        let (now, most) = resident_mib(&server);
        println!("{route}: {} silent clients, {now} MiB now, {most} MiB at most", silent.len());
        assert!(most <= BODY_MEMORY_MIB + OTHER_MEMORY_MIB, "{route}: {most} MiB");
        drop(silent);
    }
    assert!(answer(send(&server.address, &key, "GET /api/agents", "")).contains("200 OK"));
}

/// The time that 99 in 100 requests of a tenant take at most: lists and short chats, one after another, within its rate.
fn p99(address: &str, key: &str, name: &str) -> Duration {
    let ask = json!({ "agent": "assistant", "message": "안녕하세요" }).to_string();
    let mut times: Vec<Duration> = (0..150)
        .map(|nth| {
            // The rate limit of a key is 20 requests a second.
            std::thread::sleep(Duration::from_millis(60));
            let begun = Instant::now();
            let said = match nth % 4 {
                0 => answer(send(
                    address,
                    key,
                    &format!("POST /api/threads/{name}-{nth}/runs?wait=true"),
                    &ask,
                )),
                _ => answer(send(address, key, "GET /api/threads", "")),
            };
            assert!(said.starts_with("HTTP/1.1 200"), "{}", &said[..said.len().min(200)]);
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() * 99 / 100]
}

#[test]
#[ignore = "a load test"]
fn a_tenant_at_its_limits_does_not_slow_another_down() {
    let here = fresh_directory("load-tenants");
    let (loud, quiet) = (new_key(&here, "loud"), new_key(&here, "quiet"));
    let server = ServerProcess::start(&here, None);
    p99(&server.address, &quiet, "warm");
    let alone = p99(&server.address, &quiet, "alone");
    // As many waiting chats and uploads that never end as it can have, and requests as fast as they are answered.
    let chat = json!({ "agent": "assistant", "message": "안녕하세요" }).to_string();
    let waiting: Vec<TcpStream> = (0..600)
        .map(|_| send(&server.address, &loud, "POST /api/threads/one/runs?wait=true&if_busy=enqueue", &chat))
        .collect();
    let uploads: Vec<TcpStream> = (0..32)
        .map(|nth| {
            let mut socket = TcpStream::connect(&server.address).expect("connected");
            let head = format!(
                "POST /api/documents?name={nth}.txt HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {loud}\r\nContent-Length: 1000000\r\n\r\nx"
            );
            socket.write_all(head.as_bytes()).expect("sent");
            socket
        })
        .collect();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let busy: Vec<_> = (0..4)
        .map(|_| {
            let (address, key, stop) = (server.address.clone(), loud.clone(), stop.clone());
            std::thread::spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    answer(send(&address, &key, "GET /api/threads", ""));
                }
            })
        })
        .collect();
    let beside = p99(&server.address, &quiet, "beside");
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().expect("no panic"));
    println!(
        "p99 alone {alone:?}, beside a tenant at its limits {beside:?} ({} waiting, {} uploads)",
        waiting.len(),
        uploads.len()
    );
}
