//! A victim as the driver sees it: started, spoken to, killed.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ledger::TortureLedger;
use crate::victim_protocol::{FromVictim, ToVictim, VictimRefusal, VictimRequest};

/// How long a request may take before the victim counts as hung.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(90);

/// A process to torture.
pub struct VictimProcess {
    child: Mutex<Child>,
    connection: Arc<VictimConnection>,
    next: AtomicU64,
    reader: Mutex<Option<JoinHandle<()>>>,
    /// The number of this process among all victims.
    pub process_number: u32,
}

/// What the reader shares with those who ask.
struct VictimConnection {
    stdin: Mutex<Option<ChildStdin>>,
    waiting: Mutex<HashMap<u64, Sender<Result<Value, VictimRefusal>>>>,
    ready: AtomicBool,
    fatal_error: Mutex<Option<String>>,
}

/// How a request ended.
pub enum VictimReply {
    Ok(Value),
    Refused(VictimRefusal),
    /// The victim is gone, or did not answer.
    NoAnswer,
}

/// A request that was sent.
pub struct PendingVictimReply(Option<Receiver<Result<Value, VictimRefusal>>>);

impl PendingVictimReply {
    pub fn wait(self) -> VictimReply {
        match self.0.map(|answer| answer.recv_timeout(REQUEST_TIMEOUT)) {
            Some(Ok(Ok(value))) => VictimReply::Ok(value),
            Some(Ok(Err(refusal))) => VictimReply::Refused(refusal),
            Some(Err(_)) | None => VictimReply::NoAnswer,
        }
    }
}

/// How a victim is started.
pub struct VictimLaunch<'a> {
    pub url: String,
    pub lease: Duration,
    pub abort_on_failure: bool,
    /// Where it says what goes wrong.
    pub log: &'a Path,
    pub env: Vec<(String, String)>,
}

impl VictimProcess {
    /// Starts a process. [`VictimProcess::wait_until_ready`] returns when it is ready.
    pub fn start(launch: &VictimLaunch<'_>, ledger: &Arc<TortureLedger>) -> Result<Self, String> {
        let this = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let log = OpenOptions::new().create(true).append(true).open(launch.log);
        let log = log.map_err(|error| format!("{}: {error}", launch.log.display()))?;
        let mut command = Command::new(this);
        command.arg(crate::VICTIM_ARGUMENT).arg(&launch.url).arg(launch.lease.as_millis().to_string());
        command.arg(if launch.abort_on_failure { "hard" } else { "clean" });
        command.env_remove("DORAN_FAILPOINT");
        command.envs(launch.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(|error| format!("cannot start a victim: {error}"))?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let connection = Arc::new(VictimConnection {
            stdin: Mutex::new(to),
            waiting: Mutex::default(),
            ready: AtomicBool::new(false),
            fatal_error: Mutex::default(),
        });
        let process_number = ledger.next_process();
        let reader = from.map(|from| {
            let (connection, ledger) = (connection.clone(), ledger.clone());
            std::thread::spawn(move || connection.read_lines(from, process_number, &ledger))
        });
        Ok(Self {
            child: Mutex::new(child),
            connection,
            next: AtomicU64::new(1),
            reader: Mutex::new(reader),
            process_number,
        })
    }

    /// Waits until the store is open. An error says that it ended before.
    pub fn wait_until_ready(&self) -> Result<(), String> {
        let started = Instant::now();
        while !self.connection.ready.load(Ordering::SeqCst) {
            if self.has_exited() {
                return Err("a victim ended before it was ready".into());
            }
            if started.elapsed() > REQUEST_TIMEOUT {
                return Err("a victim does not become ready".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Sends a request.
    pub fn send(&self, what: VictimRequest) -> PendingVictimReply {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, reply) = channel();
        lock_ignoring_poison(&self.connection.waiting).insert(id, tell);
        if self.connection.send_line(&ToVictim::Do { id, what }) {
            PendingVictimReply(Some(reply))
        } else {
            lock_ignoring_poison(&self.connection.waiting).remove(&id);
            PendingVictimReply(None)
        }
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&self, what: VictimRequest) -> VictimReply {
        self.send(what).wait()
    }

    /// As [`VictimProcess::ask`], where anything but an answer is an error.
    pub fn ask_or_error(&self, what: VictimRequest) -> Result<Value, String> {
        let request = format!("{what:?}");
        match self.ask(what) {
            VictimReply::Ok(value) => Ok(value),
            VictimReply::Refused(refusal) => Err(format!("{request}: {}: {}", refusal.code, refusal.message)),
            VictimReply::NoAnswer => {
                let ended = self.wait_for_exit(Duration::from_secs(3)).map(|status| status.to_string());
                let ended = ended.unwrap_or_else(|| "it does not answer".into());
                let trouble = self.fatal_error().unwrap_or_else(|| "no trouble".into());
                Err(format!("{request}: the victim is gone: {ended}, {trouble}"))
            }
        }
    }

    /// Why it is about to end by itself, if it reported that.
    pub fn fatal_error(&self) -> Option<String> {
        lock_ignoring_poison(&self.connection.fatal_error).clone()
    }

    pub fn has_exited(&self) -> bool {
        matches!(lock_ignoring_poison(&self.child).try_wait(), Ok(Some(_)) | Err(_))
    }

    /// Waits for the end of the process, at most so long.
    pub fn wait_for_exit(&self, time_limit: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        loop {
            if let Ok(Some(status)) = lock_ignoring_poison(&self.child).try_wait() {
                self.join_reader();
                return Some(status);
            }
            if started.elapsed() > time_limit {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills it, and reads all that it had written.
    pub fn kill(&self) {
        let mut child = lock_ignoring_poison(&self.child);
        // An error means that it is dead already.
        child.kill().ok();
        child.wait().ok();
        drop(child);
        self.join_reader();
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) -> Result<(), String> {
        let id = lock_ignoring_poison(&self.child).id().to_string();
        let sent = Command::new("kill").arg(format!("-{name}")).arg(id).status();
        match sent {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("kill -{name}: {status}")),
            Err(error) => Err(format!("kill -{name}: {error}")),
        }
    }

    fn join_reader(&self) {
        let reader = lock_ignoring_poison(&self.reader).take();
        if let Some(reader) = reader {
            // It ends with the output of the dead process. Its panic would be a bug of the driver, seen on stderr.
            reader.join().ok();
        }
    }
}

impl Drop for VictimProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl VictimConnection {
    fn send_line(&self, line: &ToVictim) -> bool {
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        match &mut *lock_ignoring_poison(&self.stdin) {
            Some(to) => to.write_all(&text).and_then(|()| to.flush()).is_ok(),
            None => false,
        }
    }

    fn read_lines(self: &Arc<Self>, from: ChildStdout, process_number: u32, ledger: &Arc<TortureLedger>) {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { break };
            // A line that was cut off by the kill does not count.
            let Ok(line) = serde_json::from_str::<FromVictim>(&line) else { continue };
            match line {
                FromVictim::Ready => self.ready.store(true, Ordering::SeqCst),
                FromVictim::Answer { id, answer } => {
                    let waiting = lock_ignoring_poison(&self.waiting).remove(&id);
                    waiting.map(|waiting| waiting.send(answer).ok());
                }
                FromVictim::Call(external_call) => {
                    let call = external_call.call;
                    let delay = ledger.record_call(process_number, external_call);
                    if let Some(id) = call {
                        self.answer_call(id, delay);
                    }
                }
                FromVictim::Seen(seen) => ledger.record_observed_entry(process_number, seen),
                FromVictim::Rested(outcome) => ledger.record_observed_outcome(outcome),
                FromVictim::Trouble { why } => *lock_ignoring_poison(&self.fatal_error) = Some(why),
            }
        }
        // In this order: a request whose line still got into the pipe of the dead process is among those that wait.
        *lock_ignoring_poison(&self.stdin) = None;
        lock_ignoring_poison(&self.waiting).clear();
    }

    fn answer_call(self: &Arc<Self>, id: u64, delay: Duration) {
        if delay.is_zero() {
            self.send_line(&ToVictim::Called { id });
            return;
        }
        let line = self.clone();
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            line.send_line(&ToVictim::Called { id });
        });
    }
}

pub fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
