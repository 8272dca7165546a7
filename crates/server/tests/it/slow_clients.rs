//! Clients that do not read: they cost little, are let go, and nobody else notices.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use doran_agents::RequestPurpose;
use doran_llm::{ChatModel, ChatRequest, Delta, DeltaStream, FinishReason, ModelInfo, Usage};
use doran_offline::OfflineModel;
use doran_server::{ServerApp, ServerLimits};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::socket::start_server_with;
use crate::{PATIENCE, app_with, get, post, run_location, send, text, until};

/// Clients that read a byte a second.
const SLOW_CLIENTS: usize = 1000;
/// Clients that read as they should, beside them.
const QUICK_CLIENTS: usize = 20;
/// Pieces of the answer that they read.
const PIECES: usize = 3000;
const HALF_OF_PIECES: usize = PIECES / 2;

pub const ASK_BODY: &str = r#"{"agent":"react","message":"안녕?"}"#;

/// Says this many long words.
struct LongReplyModel(usize);

impl ChatModel for LongReplyModel {
    fn info(&self) -> ModelInfo {
        OfflineModel.info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        if request.purpose != RequestPurpose::Answer {
            return OfflineModel.stream(request);
        }
        let words = (0..self.0).map(|_| Ok(Delta::Text { text: "가나다라 ".repeat(400) }));
        let last = Ok(Delta::Done { usage: Usage::default(), finish: FinishReason::Stop });
        stream::iter(words.chain([last])).boxed()
    }
}

/// Waits until it is let, then says half of many pieces, a little apart; waits again, and says the rest; waits once more
/// before it ends.
struct GatedReplyModel(Arc<Notify>);

impl ChatModel for GatedReplyModel {
    fn info(&self) -> ModelInfo {
        OfflineModel.info()
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        if request.purpose != RequestPurpose::Answer {
            return OfflineModel.stream(request);
        }
        let let_go = self.0.clone();
        let words = stream::iter(0..PIECES).then(move |piece| {
            let leave = let_go.clone();
            async move {
                if piece % HALF_OF_PIECES == 0 {
                    leave.notified().await;
                } else if piece % 10 == 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Ok(Delta::Text { text: format!("{piece:04} {} ", "가나다".repeat(15)) })
            }
        });
        let leave = self.0.clone();
        let last = stream::once(async move {
            leave.notified().await;
            Ok(Delta::Done { usage: Usage::default(), finish: FinishReason::Stop })
        });
        words.chain(last).boxed()
    }
}

/// Opens a stream, asks for it, and reads nothing.
async fn open_unread_stream(address: SocketAddr, place: &str) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    // Little of what is sent fits into the hands of the system.
    socket.set_recv_buffer_size(4096).expect("a size");
    let mut socket = socket.connect(address).await.expect("connected");
    let request = format!("GET {place} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    socket.write_all(request.as_bytes()).await.expect("sent");
    socket
}

/// Asks whether all is well, and stays connected.
pub async fn connect_and_check(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("connected");
    socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    let mut head = [0; 13];
    let read = tokio::time::timeout(PATIENCE, socket.read_exact(&mut head)).await;
    read.expect("its turn comes").expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200 ");
    socket
}

async fn open_streams(app: &ServerApp) -> usize {
    let metrics = text(send(app, get("/metrics")).await).await;
    let line = metrics.lines().find_map(|line| line.strip_prefix("doran_streams_open "));
    line.and_then(|count| count.parse().ok()).expect("a count")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_its_stream_is_let_go_and_may_come_back() {
    const DEAF: usize = 30;
    // The log of this run is a megabyte: more than the system keeps for a client.
    let limits = ServerLimits {
        write_timeout: Duration::from_secs(1),
        max_connections: DEAF,
        ..ServerLimits::default()
    };
    let app = app_with(Arc::new(LongReplyModel(200)), limits);
    let answer = send(&app, post("/api/threads/t/runs?wait=true", ASK_BODY)).await;
    let place = run_location(&answer);
    let whole = text(answer).await;
    assert!(whole.len() > 1_000_000, "{}", whole.len());
    let (address, stop, serving) = start_server_with(app.clone()).await;
    let deaf = join_all((0..DEAF).map(|_| open_unread_stream(address, &place))).await;
    // They have all the connections there are. When as many others have been answered and are still there, every one of
    // them was let go, without having read a byte.
    let others = join_all((0..DEAF).map(|_| connect_and_check(address))).await;
    until(async || open_streams(&app).await == 0).await;
    drop(others);
    for mut socket in deaf {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut rest)).await;
        let cut = ended.expect("the connection is closed").is_err() || !rest.ends_with(b"0\r\n\r\n");
        assert!(cut && rest.len() < whole.len(), "what was not read was sent all the same");
    }
    let again = text(send(&app, get(&format!("{place}?after=1"))).await).await;
    assert!(again.contains("event: finished"), "who comes back gets the rest");
    stop.cancel();
    serving.await.expect("no panic");
}

/// Memory of this process that is in use, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number")
}

/// Runs a test of this program again in a process of its own, where its memory and its files are its own too.
pub fn rerun_in_own_process(name: &str) -> bool {
    if std::env::var_os("DORAN_TEST_ALONE").is_some() {
        return true;
    }
    // One at a time: each of them has the machine to itself as far as this program goes.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let line = format!("ulimit -n $(ulimit -H -n); exec \"$0\" --exact {name} --nocapture");
    let program = std::env::current_exe().expect("a program");
    let mut shell = std::process::Command::new("sh");
    let output =
        shell.args(["-c", &line]).arg(program).env("DORAN_TEST_ALONE", "1").output().expect("it starts");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    println!("{text}");
    false
}

#[cfg(target_os = "linux")]
#[test]
fn a_thousand_clients_that_read_a_byte_a_second_cost_little_and_hold_up_nobody() {
    if rerun_in_own_process(
        "slow_clients::a_thousand_clients_that_read_a_byte_a_second_cost_little_and_hold_up_nobody",
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(slow_beside_quick());
    }
}

/// How many clients have half of the pieces, and how many have all.
#[derive(Default)]
struct ReadProgress {
    half: AtomicUsize,
    whole: AtomicUsize,
}

/// Reads a stream to its end, and keeps nothing of it. Says how far it is.
async fn read_stream_to_end(address: SocketAddr, place: String, far: Arc<ReadProgress>) {
    let mut socket = TcpStream::connect(address).await.expect("connected");
    let request = format!("GET {place} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    socket.write_all(request.as_bytes()).await.expect("sent");
    let (mut seen, mut next, mut bytes) = (Vec::new(), 0, vec![0; 65_536]);
    let reply = |seen: &[u8], words: &str| {
        let found = seen.windows(words.len()).position(|window| window == words.as_bytes());
        found.map(|at| at + words.len())
    };
    loop {
        let read = tokio::time::timeout(PATIENCE, socket.read(&mut bytes)).await;
        let read = read.expect("in time").expect("bytes");
        assert!(read > 0, "the stream ended after {next} pieces");
        seen.extend_from_slice(&bytes[..read]);
        while next < PIECES
            && let Some(end) = reply(&seen, &format!("{next:04} 가"))
        {
            seen.drain(..end);
            next += 1;
            match next {
                HALF_OF_PIECES => far.half.fetch_add(1, Ordering::SeqCst),
                PIECES => far.whole.fetch_add(1, Ordering::SeqCst),
                _ => 0,
            };
        }
        if next == PIECES && reply(&seen, "event: finished").is_some() {
            return;
        }
    }
}

/// The slowest of these but for one in a hundred.
pub fn slowest_of_most(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[(times.len() * 99 / 100).min(times.len() - 1)]
}

/// Calls the server over and over, on a new connection each time, until stopped. Gives what each call took.
async fn time_calls(address: SocketAddr, stop: Arc<Notify>) -> Vec<Duration> {
    const CALL: &[u8] = b"GET /api/threads HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut times = Vec::new();
    let stopped = stop.notified();
    tokio::pin!(stopped);
    loop {
        let started = std::time::Instant::now();
        let call = async {
            let mut socket = TcpStream::connect(address).await.expect("connected");
            socket.write_all(CALL).await.expect("sent");
            let mut answer = String::new();
            socket.read_to_string(&mut answer).await.expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        };
        tokio::time::timeout(PATIENCE, call).await.expect("answered in time");
        times.push(started.elapsed());
        tokio::select! {
            biased;
            () = &mut stopped => return times,
            () = tokio::time::sleep(Duration::from_millis(2)) => {}
        }
    }
}

/// Bytes that the system holds for the clients of this server because they do not read.
fn unread_bytes(address: SocketAddr) -> u64 {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("a table");
    let port = format!(":{:04X}", address.port());
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    let ours = rows.filter(|row| row.get(1).is_some_and(|local| local.ends_with(&port)));
    ours.filter_map(|row| u64::from_str_radix(row.get(4)?.split_once(':')?.0, 16).ok()).sum()
}

/// Waits until everybody who reads as they should is so far. How long that takes is not the point here.
async fn wait_for_quick_clients(far: &AtomicUsize) {
    let there = async {
        while far.load(Ordering::SeqCst) < QUICK_CLIENTS {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, there).await.expect("they get there");
}

/// Lets the run of a thread talk to those who read as they should, while others call. Every one of them is answered though
/// nobody can take in more than it reads. Gives what the calls took, to be printed, and the memory in use when all is said
/// and the run is not over.
async fn run_and_measure(
    address: SocketAddr,
    place: &str,
    leave: &Notify,
    app: &ServerApp,
    streams: usize,
) -> (Duration, usize) {
    let far = Arc::new(ReadProgress::default());
    let follow = |_| tokio::spawn(read_stream_to_end(address, place.to_owned(), far.clone()));
    let quick: Vec<_> = (0..QUICK_CLIENTS).map(follow).collect();
    until(async || open_streams(app).await == streams + QUICK_CLIENTS).await;
    leave.notify_one();
    wait_for_quick_clients(&far.half).await;
    until(async || {
        let before = unread_bytes(address);
        tokio::time::sleep(Duration::from_secs(1)).await;
        unread_bytes(address).abs_diff(before) <= streams as u64 * 64
    })
    .await;
    let stop = Arc::new(Notify::new());
    let calling = tokio::spawn(time_calls(address, stop.clone()));
    leave.notify_one();
    wait_for_quick_clients(&far.whole).await;
    stop.notify_one();
    let p99 = slowest_of_most(calling.await.expect("every call was answered"));
    let memory = resident();
    leave.notify_one();
    for client in quick {
        client.await.expect("it got every piece, in order, and the end");
    }
    (p99, memory)
}

async fn slow_beside_quick() {
    assert!(
        max_open_files() > 2 * (SLOW_CLIENTS + QUICK_CLIENTS) + 100,
        "this process may open too few files"
    );
    let leave = Arc::new(Notify::new());
    // Nobody is let go while this test runs. Who is held up by a client that does not read is held up until the test gives up.
    let limits = ServerLimits {
        header_timeout: Duration::from_secs(3600),
        write_timeout: Duration::from_secs(3600),
        ..ServerLimits::default()
    };
    let app = app_with(Arc::new(GatedReplyModel(leave.clone())), limits);
    let (address, stop, serving) = start_server_with(app.clone()).await;
    let asked = async |thread: &str| {
        let answer = send(&app, post(&format!("/api/threads/{thread}/runs"), ASK_BODY)).await;
        run_location(&answer)
    };
    let (alone, _) = run_and_measure(address, &asked("alone").await, &leave, &app, 0).await;
    let place = asked("t").await;
    until(async || open_streams(&app).await == 0).await;
    let mut slow = join_all((0..SLOW_CLIENTS).map(|_| open_unread_stream(address, &place))).await;
    until(async || open_streams(&app).await == SLOW_CLIENTS).await;
    let before = resident();
    let drip = tokio::spawn(async move {
        loop {
            for socket in &mut slow {
                let mut byte = [0];
                drop(tokio::time::timeout(Duration::from_millis(1), socket.read(&mut byte)).await);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let (beside, after) = run_and_measure(address, &place, &leave, &app, SLOW_CLIENTS).await;
    // The log and the pieces of the run itself are there once, whoever watches.
    let each = after.saturating_sub(before) / SLOW_CLIENTS;
    eprintln!("a slow client costs {each} bytes; p99 of a call {beside:?} beside them, {alone:?} without");
    assert!(each <= 64 * 1024, "a slow client costs {each} bytes");
    assert!(open_streams(&app).await >= SLOW_CLIENTS, "the slow ones are still there");
    drip.abort();
    stop.cancel();
    serving.await.expect("no panic");
}

/// How many files this process may open.
pub fn max_open_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(256)
}
