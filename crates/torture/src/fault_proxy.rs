//! A wire between a replica and its database that can be slow, cut or dead.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::victim_process::lock_ignoring_poison;

/// What the wire does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultProxyMode {
    Pass,
    /// Everything comes later.
    Delay(Duration),
    /// Nothing comes through, and neither side gets an error.
    BlackHole,
}

/// A port of our own that leads to the database.
pub struct FaultProxy {
    pub port: u16,
    link: Arc<FaultProxyLink>,
}

struct FaultProxyLink {
    to: SocketAddr,
    mode: Mutex<FaultProxyMode>,
    open: Mutex<Vec<TcpStream>>,
    /// Bytes until every connection is cut.
    bytes_until_cut: AtomicU64,
    stopped: AtomicBool,
}

impl FaultProxy {
    pub fn start(to: SocketAddr) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let wire = Arc::new(FaultProxyLink {
            to,
            mode: Mutex::new(FaultProxyMode::Pass),
            open: Mutex::default(),
            bytes_until_cut: AtomicU64::new(u64::MAX),
            stopped: AtomicBool::new(false),
        });
        let accepting = wire.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                if accepting.stopped.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(near) = near {
                    let wire = accepting.clone();
                    std::thread::spawn(move || wire.forward_connection(near));
                }
            }
        });
        Ok(Self { port, link: wire })
    }

    pub fn set(&self, mode: FaultProxyMode) {
        *lock_ignoring_poison(&self.link.mode) = mode;
    }

    /// Ends every connection now.
    pub fn cut(&self) {
        for stream in lock_ignoring_poison(&self.link.open).drain(..) {
            // An error means that it is closed already.
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    /// Ends every connection after so many more bytes.
    pub fn cut_after(&self, bytes: u64) {
        self.link.bytes_until_cut.store(bytes, Ordering::SeqCst);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.link.stopped.store(true, Ordering::SeqCst);
        self.set(FaultProxyMode::Pass);
        self.cut();
        // Wakes the thread that accepts.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl FaultProxyLink {
    fn forward_connection(self: Arc<Self>, near: TcpStream) {
        self.wait_as_mode_says();
        let Ok(far) = TcpStream::connect(self.to) else { return };
        near.set_nodelay(true).and_then(|()| far.set_nodelay(true)).ok();
        let (Ok(near_copy), Ok(far_copy)) = (near.try_clone(), far.try_clone()) else { return };
        if let (Ok(near), Ok(far)) = (near.try_clone(), far.try_clone()) {
            lock_ignoring_poison(&self.open).extend([near, far]);
        }
        let back = self.clone();
        std::thread::spawn(move || back.forward_bytes(far_copy, near_copy));
        self.forward_bytes(near, far);
    }

    fn forward_bytes(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 4096];
        while let Ok(size @ 1..) = from.read(&mut bytes) {
            self.wait_as_mode_says();
            let left = self.bytes_until_cut.load(Ordering::SeqCst);
            if left != u64::MAX {
                let rest = left.saturating_sub(size as u64);
                self.bytes_until_cut.store(rest, Ordering::SeqCst);
                if rest == 0 {
                    self.bytes_until_cut.store(u64::MAX, Ordering::SeqCst);
                    let part = usize::try_from(left).unwrap_or(size).min(size);
                    to.write_all(&bytes[..part]).ok();
                    for stream in lock_ignoring_poison(&self.open).drain(..) {
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
    fn wait_as_mode_says(&self) {
        let delay = match *lock_ignoring_poison(&self.mode) {
            FaultProxyMode::Delay(delay) => delay,
            FaultProxyMode::Pass | FaultProxyMode::BlackHole => Duration::ZERO,
        };
        std::thread::sleep(delay);
        while *lock_ignoring_poison(&self.mode) == FaultProxyMode::BlackHole
            && !self.stopped.load(Ordering::SeqCst)
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
