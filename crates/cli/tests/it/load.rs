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
    let started = Instant::now();
    while !answer(send(&server.address, &key, &format!("GET /api/documents/{id}"), "")).contains("\"ready\"")
    {
        assert!(started.elapsed() < Duration::from_secs(120), "the document is not read");
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
        let (now, peak) = resident_mib(&server);
        println!("{route}: {} silent clients, {now} MiB now, {peak} MiB at most", silent.len());
        assert!(peak <= BODY_MEMORY_MIB + OTHER_MEMORY_MIB, "{route}: {peak} MiB");
        drop(silent);
    }
    assert!(answer(send(&server.address, &key, "GET /api/agents", "")).contains("200 OK"));
}

/// How long the requests of a tenant took: half of them at most, 95 and 99 in 100 at most.
#[derive(Debug)]
#[expect(dead_code, reason = "it is printed")]
struct QuietTenantTimes {
    p50: Duration,
    p95: Duration,
    p99: Duration,
}

/// Lists and short chats of a tenant, one after another, within its rate. Each of them is answered.
fn times_of_quiet_tenant(address: &str, key: &str, name: &str) -> QuietTenantTimes {
    let ask = json!({ "agent": "assistant", "message": "연차휴가는 며칠인가요?" }).to_string();
    let mut times: Vec<Duration> = (0..300)
        .map(|nth| {
            // The rate limit of a key is 20 requests a second.
            std::thread::sleep(Duration::from_millis(60));
            let started = Instant::now();
            let response = match nth % 4 {
                0 => answer(send(
                    address,
                    key,
                    &format!("POST /api/threads/{name}-{nth}/runs?wait=true"),
                    &ask,
                )),
                _ => answer(send(address, key, "GET /api/threads", "")),
            };
            assert!(response.starts_with("HTTP/1.1 200"), "{}", &response[..response.len().min(200)]);
            started.elapsed()
        })
        .collect();
    times.sort();
    let at = |percent: usize| times[times.len() * percent / 100];
    QuietTenantTimes { p50: at(50), p95: at(95), p99: at(99) }
}

/// A tenant that uses all it may have, until it is dropped: chats that wait in one conversation, chats in conversations of their
/// own and lists as fast as its rate allows, and uploads that never end.
struct LoudTenant {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    busy: Vec<std::thread::JoinHandle<usize>>,
    _uploads: Vec<TcpStream>,
    _waiting: Vec<TcpStream>,
}

impl LoudTenant {
    fn start(address: &str, key: &str) -> Self {
        let chat = json!({ "agent": "assistant", "message": "연차휴가는 며칠인가요?" }).to_string();
        let waiting = (0..100)
            .map(|_| send(address, key, "POST /api/threads/one/runs?wait=true&if_busy=enqueue", &chat))
            .collect();
        let uploads = (0..32)
            .map(|nth| {
                let mut socket = TcpStream::connect(address).expect("connected");
                let head = format!(
                    "POST /api/documents?name={nth}.txt HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: 1000000\r\n\r\nx"
                );
                socket.write_all(head.as_bytes()).expect("sent");
                socket
            })
            .collect();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let busy = (0..16)
            .map(|client| {
                let (address, key, stop, chat) =
                    (address.to_owned(), key.to_owned(), stop.clone(), chat.clone());
                std::thread::spawn(move || {
                    let mut answered = 0;
                    for nth in 0.. {
                        if stop.load(std::sync::atomic::Ordering::Relaxed) {
                            break;
                        }
                        let line = format!("POST /api/threads/loud-{client}-{nth}/runs?wait=true");
                        let response = answer(send(&address, &key, &line, &chat));
                        answered += usize::from(response.starts_with("HTTP/1.1 200"));
                        if response.starts_with("HTTP/1.1 429") {
                            // A client that ignores `Retry-After` takes the processor of this machine, not of the server.
                            std::thread::sleep(Duration::from_millis(50));
                        }
                    }
                    answered
                })
            })
            .collect();
        Self { stop, busy, _uploads: uploads, _waiting: waiting }
    }

    /// Ends it. Returns how many of its chats were answered.
    fn stop(self) -> usize {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.busy.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    }
}

/// Nobody of the quiet tenant is refused. How long its requests take beside the loud one is printed: the 99 in 100 are to be at
/// most twice of what they are alone. It is not a condition, because it depends on what else the machine does.
#[test]
#[ignore = "a load test"]
fn a_tenant_at_its_limits_does_not_slow_another_down() {
    let here = fresh_directory("load-tenants");
    let (loud, quiet) = (new_key(&here, "loud"), new_key(&here, "quiet"));
    let server = ServerProcess::start(&here, None);
    times_of_quiet_tenant(&server.address, &quiet, "warm");
    for round in 0..2 {
        let alone = times_of_quiet_tenant(&server.address, &quiet, &format!("alone-{round}"));
        let busy = LoudTenant::start(&server.address, &loud);
        let beside = times_of_quiet_tenant(&server.address, &quiet, &format!("beside-{round}"));
        let answered = busy.stop();
        let ratio = beside.p99.as_secs_f64() / alone.p99.as_secs_f64();
        println!(
            "alone {alone:?}\nbeside a tenant at its limits {beside:?}\np99 {ratio:.2} times; {answered} chats of the loud tenant answered"
        );
        assert!(answered > 0, "the loud tenant gets its share");
    }
}
