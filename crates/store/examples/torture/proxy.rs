//! A wire between a replica and its database that can be slow, cut or dead.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::child::lock;

/// What the wire does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// Everything comes later.
    Delay(Duration),
    /// Nothing comes through, and nobody is told.
    BlackHole,
}

/// A port of our own that leads to the database.
pub struct Proxy {
    pub port: u16,
    wire: Arc<Wire>,
}

struct Wire {
    to: SocketAddr,
    mode: Mutex<Mode>,
    open: Mutex<Vec<TcpStream>>,
    /// Bytes until every connection is cut.
    left: AtomicU64,
    over: AtomicBool,
}

impl Proxy {
    pub fn start(to: SocketAddr) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let wire = Arc::new(Wire {
            to,
            mode: Mutex::new(Mode::Pass),
            open: Mutex::default(),
            left: AtomicU64::new(u64::MAX),
            over: AtomicBool::new(false),
        });
        let accepting = wire.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                if accepting.over.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(near) = near {
                    let wire = accepting.clone();
                    std::thread::spawn(move || wire.join(near));
                }
            }
        });
        Ok(Self { port, wire })
    }

    pub fn set(&self, mode: Mode) {
        *lock(&self.wire.mode) = mode;
    }

    /// Ends every connection now.
    pub fn cut(&self) {
        for stream in lock(&self.wire.open).drain(..) {
            // An error means that it is closed already.
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    /// Ends every connection after so many more bytes.
    pub fn cut_after(&self, bytes: u64) {
        self.wire.left.store(bytes, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.wire.over.store(true, Ordering::SeqCst);
        self.set(Mode::Pass);
        self.cut();
        // Wakes the thread that accepts.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Wire {
    fn join(self: Arc<Self>, near: TcpStream) {
        self.hold();
        let Ok(far) = TcpStream::connect(self.to) else { return };
        near.set_nodelay(true).and_then(|()| far.set_nodelay(true)).ok();
        let (Ok(near_copy), Ok(far_copy)) = (near.try_clone(), far.try_clone()) else { return };
        if let (Ok(near), Ok(far)) = (near.try_clone(), far.try_clone()) {
            lock(&self.open).extend([near, far]);
        }
        let back = self.clone();
        std::thread::spawn(move || back.pump(far_copy, near_copy));
        self.pump(near, far);
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 4096];
        while let Ok(size @ 1..) = from.read(&mut bytes) {
            self.hold();
            let left = self.left.load(Ordering::SeqCst);
            if left != u64::MAX {
                let rest = left.saturating_sub(size as u64);
                self.left.store(rest, Ordering::SeqCst);
                if rest == 0 {
                    self.left.store(u64::MAX, Ordering::SeqCst);
                    let part = usize::try_from(left).unwrap_or(size).min(size);
                    to.write_all(&bytes[..part]).ok();
                    for stream in lock(&self.open).drain(..) {
                        stream.shutdown(Shutdown::Both).ok();
                    }
                    break;
                }
            }
            if to.write_all(&bytes[..size]).is_err() {
                break;
            }
        }
        from.shutdown(Shutdown::Both).ok();
        to.shutdown(Shutdown::Both).ok();
    }

    /// Waits as long as the mode says.
    fn hold(&self) {
        let delay = match *lock(&self.mode) {
            Mode::Delay(delay) => delay,
            Mode::Pass | Mode::BlackHole => Duration::ZERO,
        };
        std::thread::sleep(delay);
        while *lock(&self.mode) == Mode::BlackHole && !self.over.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
