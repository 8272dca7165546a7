//! Tells systemd, or another service manager with its protocol, that the program is ready, stopping and alive.
//!
//! The messages are datagrams to the socket in `NOTIFY_SOCKET`. Without that variable nothing is sent.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// The service manager that started the program, if there is one.
#[derive(Debug, Default)]
pub(crate) struct SystemdNotifier {
    #[cfg(unix)]
    socket: Option<(std::os::unix::net::UnixDatagram, std::os::unix::net::SocketAddr)>,
    /// The most time between two watchdog notifications.
    watchdog: Option<Duration>,
}

impl SystemdNotifier {
    /// The one that the environment names.
    pub(crate) fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        // The interval may be meant for another process, such as a parent.
        let is_ours = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let watchdog = variable("WATCHDOG_USEC").and_then(|time| time.parse().ok()).filter(|_| is_ours);
        Self {
            #[cfg(unix)]
            socket: variable("NOTIFY_SOCKET").and_then(|name| match open_socket(&name) {
                Ok(socket) => Some(socket),
                Err(error) => {
                    tracing::warn!(%error, "cannot reach the service manager in `NOTIFY_SOCKET`");
                    None
                }
            }),
            watchdog: watchdog.map(Duration::from_micros),
        }
    }

    /// The program serves requests.
    pub(crate) fn notify_ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The program is about to end.
    pub(crate) fn notify_stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    /// Sends a watchdog notification twice in every interval, until `stop`. A process whose tasks no longer run sends none and is
    /// restarted.
    pub(crate) async fn send_watchdog(&self, stop: &CancellationToken) {
        let Some(interval) = self.watchdog else { return stop.cancelled().await };
        loop {
            self.send("WATCHDOG=1");
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(interval / 2) => {}
            }
        }
    }

    fn send(&self, message: &str) {
        #[cfg(unix)]
        if let Some((socket, address)) = &self.socket
            && let Err(error) = socket.send_to_addr(message.as_bytes(), address)
        {
            tracing::warn!(%error, "cannot write to the service manager in `NOTIFY_SOCKET`");
        }
        #[cfg(not(unix))]
        let _ = message;
    }
}

#[cfg(unix)]
fn open_socket(
    name: &str,
) -> std::io::Result<(std::os::unix::net::UnixDatagram, std::os::unix::net::SocketAddr)> {
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    // A name that starts with `@` is in the abstract namespace, which only Linux has.
    #[cfg(target_os = "linux")]
    let address = match name.strip_prefix('@') {
        Some(name) => <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    #[cfg(not(target_os = "linux"))]
    let address = SocketAddr::from_pathname(name)?;
    let socket = UnixDatagram::unbound()?;
    // A service manager that does not read must not stop the program.
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}
