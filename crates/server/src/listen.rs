//! The socket: connection limits, deadlines for requests, and graceful shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::write_timeout::WriteTimeoutSocket;
use crate::{ApiKeys, ServerApp, router};

/// Wait after a failed accept: the usual reason is that there are too many open files, which passes.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Connections that the system holds until they are accepted. After a restart all clients reconnect at once.
const ACCEPT_BACKLOG: u32 = 4096;

/// Bytes that the system holds for a client that is slow to read. Left alone it would take megabytes for each.
const SEND_BUFFER_BYTES: u32 = 128 * 1024;

/// Bytes that a connection holds of what it reads and of what it writes. Left alone it would be hundreds of thousands.
const CONNECTION_BUFFER_BYTES: usize = 32 * 1024;

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Other machines could reach it, and there are no keys by which to tell them apart.
    #[error(
        "`{0}` can be reached from other machines, and there are no keys to protect it; make one with `doran keys new`, or use a loopback address such as 127.0.0.1"
    )]
    NotLoopback(SocketAddr),
    /// Another program has it.
    #[error("`{0}` is in use by another program")]
    InUse(SocketAddr),
    /// The system says no.
    #[error("cannot listen on `{address}`")]
    Other {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Takes an address. One that other machines can reach is taken only if there are keys.
pub async fn bind(address: SocketAddr, keys: &ApiKeys) -> Result<TcpListener, BindError> {
    if !address.ip().is_loopback() && keys.is_empty() {
        return Err(BindError::NotLoopback(address));
    }
    open_listener(address).map_err(|source| match source.kind() {
        std::io::ErrorKind::AddrInUse => BindError::InUse(address),
        _ => BindError::Other { address, source },
    })
}

fn open_listener(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that was killed may start again in the same place at once. Elsewhere this would share the port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    // Connections take this after the socket that accepts them.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(ACCEPT_BACKLOG)
}

/// Answers until `stop`, then lets open connections end: streams say `draining` at once, the rest has the time of
/// the limits.
pub async fn serve(listener: TcpListener, app: ServerApp, stop: CancellationToken) {
    let limits = app.limits;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_header_size(limits.max_header_bytes);
    http.max_buf_size(CONNECTION_BUFFER_BYTES.max(limits.max_header_bytes));
    let service = TowerToHyperService::new(router(&app));
    let permits = Arc::new(Semaphore::new(limits.max_connections));
    let open = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accept(&listener, &permits) => accepted,
        };
        let (socket, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let socket = TokioIo::new(WriteTimeoutSocket::new(socket, limits.write_timeout));
        let connection = open.watch(http.serve_connection(socket, service.clone()));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection closed by the client");
            }
            drop(permit);
        });
    }
    drop(listener);
    app.draining.cancel();
    if timeout(limits.shutdown_timeout, open.shutdown()).await.is_err() {
        tracing::warn!("closing connections that did not end within the shutdown timeout");
    }
    if timeout(limits.shutdown_timeout, app.eval_runs.wait_for_end()).await.is_err() {
        tracing::warn!("an evaluation did not end within the shutdown timeout");
    }
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> std::io::Result<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = permits.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (socket, _) = listener.accept().await?;
    // Pieces of an answer are small and are wanted at once.
    socket.set_nodelay(true)?;
    Ok((socket, permit))
}
