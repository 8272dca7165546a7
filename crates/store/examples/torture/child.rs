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

use crate::book::Book;
use crate::wire::{FromVictim, Refusal, ToVictim, What};

/// How long a request may take before the victim counts as hung.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process to torture.
pub struct Victim {
    child: Mutex<Child>,
    line: Arc<Line>,
    next: AtomicU64,
    reader: Mutex<Option<JoinHandle<()>>>,
    /// Which life of all victims this is.
    pub life: u32,
}

/// What the reader shares with those who ask.
struct Line {
    to: Mutex<Option<ChildStdin>>,
    waiting: Mutex<HashMap<u64, Sender<Result<Value, Refusal>>>>,
    ready: AtomicBool,
    trouble: Mutex<Option<String>>,
}

/// How a request ended.
pub enum Told {
    Ok(Value),
    Refused(Refusal),
    /// The victim is gone, or did not answer.
    Nothing,
}

/// A request that was sent.
pub struct Pending(Option<Receiver<Result<Value, Refusal>>>);

impl Pending {
    pub fn wait(self) -> Told {
        match self.0.map(|answer| answer.recv_timeout(PATIENCE)) {
            Some(Ok(Ok(value))) => Told::Ok(value),
            Some(Ok(Err(refusal))) => Told::Refused(refusal),
            Some(Err(_)) | None => Told::Nothing,
        }
    }
}

/// How a victim is started.
pub struct Birth<'a> {
    pub url: String,
    pub lease: Duration,
    pub hard: bool,
    /// Where it says what goes wrong.
    pub log: &'a Path,
    pub env: Vec<(String, String)>,
}

impl Victim {
    /// Starts a process. It is ready once [`Victim::ready`] says so.
    pub fn start(birth: &Birth<'_>, book: &Arc<Book>) -> Result<Self, String> {
        let this = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let log = OpenOptions::new().create(true).append(true).open(birth.log);
        let log = log.map_err(|error| format!("{}: {error}", birth.log.display()))?;
        let mut command = Command::new(this);
        command.arg(crate::VICTIM).arg(&birth.url).arg(birth.lease.as_millis().to_string());
        command.arg(if birth.hard { "hard" } else { "clean" });
        command.env_remove("DORAN_FAILPOINT");
        command.envs(birth.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(|error| format!("cannot start a victim: {error}"))?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let line = Arc::new(Line {
            to: Mutex::new(to),
            waiting: Mutex::default(),
            ready: AtomicBool::new(false),
            trouble: Mutex::default(),
        });
        let life = book.next_life();
        let reader = from.map(|from| {
            let (line, book) = (line.clone(), book.clone());
            std::thread::spawn(move || line.read(from, life, &book))
        });
        Ok(Self { child: Mutex::new(child), line, next: AtomicU64::new(1), reader: Mutex::new(reader), life })
    }

    /// Waits until the store is open. An error says that it ended before.
    pub fn ready(&self) -> Result<(), String> {
        let begun = Instant::now();
        while !self.line.ready.load(Ordering::SeqCst) {
            if self.is_over() {
                return Err("a victim ended before it was ready".into());
            }
            if begun.elapsed() > PATIENCE {
                return Err("a victim does not become ready".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Sends a request.
    pub fn send(&self, what: What) -> Pending {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = channel();
        lock(&self.line.waiting).insert(id, tell);
        if self.line.say(&ToVictim::Do { id, what }) {
            Pending(Some(told))
        } else {
            lock(&self.line.waiting).remove(&id);
            Pending(None)
        }
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&self, what: What) -> Told {
        self.send(what).wait()
    }

    /// As [`Victim::ask`], where anything but an answer is an error.
    pub fn must(&self, what: What) -> Result<Value, String> {
        let asked = format!("{what:?}");
        match self.ask(what) {
            Told::Ok(value) => Ok(value),
            Told::Refused(refusal) => Err(format!("{asked}: {}: {}", refusal.code, refusal.message)),
            Told::Nothing => {
                let ended = self.over_within(Duration::from_secs(3)).map(|status| status.to_string());
                let ended = ended.unwrap_or_else(|| "it does not answer".into());
                let trouble = self.trouble().unwrap_or_else(|| "no trouble".into());
                Err(format!("{asked}: the victim is gone: {ended}, {trouble}"))
            }
        }
    }

    /// Why it is about to end by itself, if it said so.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.line.trouble).clone()
    }

    pub fn is_over(&self) -> bool {
        matches!(lock(&self.child).try_wait(), Ok(Some(_)) | Err(_))
    }

    /// Waits for the end of the process, at most so long.
    pub fn over_within(&self, patience: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Ok(Some(status)) = lock(&self.child).try_wait() {
                self.drain();
                return Some(status);
            }
            if begun.elapsed() > patience {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills it, and hears all that it had said.
    pub fn kill(&self) {
        let mut child = lock(&self.child);
        // An error means that it is dead already.
        child.kill().ok();
        child.wait().ok();
        drop(child);
        self.drain();
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) -> Result<(), String> {
        let id = lock(&self.child).id().to_string();
        let sent = Command::new("kill").arg(format!("-{name}")).arg(id).status();
        match sent {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("kill -{name}: {status}")),
            Err(error) => Err(format!("kill -{name}: {error}")),
        }
    }

    fn drain(&self) {
        let reader = lock(&self.reader).take();
        if let Some(reader) = reader {
            // It ends with the output of the dead process. Its panic would be a bug of the driver, seen on stderr.
            reader.join().ok();
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Line {
    fn say(&self, line: &ToVictim) -> bool {
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        match &mut *lock(&self.to) {
            Some(to) => to.write_all(&text).and_then(|()| to.flush()).is_ok(),
            None => false,
        }
    }

    fn read(self: &Arc<Self>, from: ChildStdout, life: u32, book: &Arc<Book>) {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { break };
            // A line that was cut off by the kill was not said.
            let Ok(line) = serde_json::from_str::<FromVictim>(&line) else { continue };
            match line {
                FromVictim::Ready => self.ready.store(true, Ordering::SeqCst),
                FromVictim::Answer { id, answer } => {
                    let waiting = lock(&self.waiting).remove(&id);
                    waiting.map(|waiting| waiting.send(answer).ok());
                }
                FromVictim::Deed(deed) => {
                    let call = deed.call;
                    let delay = book.deed(life, deed);
                    if let Some(id) = call {
                        self.called(id, delay);
                    }
                }
                FromVictim::Seen(seen) => book.seen(life, seen),
                FromVictim::Trouble { why } => *lock(&self.trouble) = Some(why),
            }
        }
        lock(&self.waiting).clear();
        *lock(&self.to) = None;
    }

    fn called(self: &Arc<Self>, id: u64, delay: Duration) {
        if delay.is_zero() {
            self.say(&ToVictim::Called { id });
            return;
        }
        let line = self.clone();
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            line.say(&ToVictim::Called { id });
        });
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
