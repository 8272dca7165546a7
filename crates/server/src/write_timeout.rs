//! A socket with a write timeout: a connection whose client does not read is closed. Bytes that are read pass through
//! [`HeaderLineGuard`].
//!
//! HTTP servers have a deadline for what a client sends, and none for what it takes. Without this timeout a client that stops
//! reading would keep its connection, and the bytes that wait in it, for ever.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::header_lines::HeaderLineGuard;

/// A socket that gives up on a client that does not read.
pub(crate) struct WriteTimeoutSocket<S> {
    socket: S,
    write_timeout: Duration,
    /// Runs from the first write that had to wait until one that did not.
    write_deadline: Option<Pin<Box<Sleep>>>,
    header_lines: HeaderLineGuard,
}

impl<S> WriteTimeoutSocket<S> {
    pub(crate) fn new(socket: S, write_timeout: Duration) -> Self {
        Self { socket, write_timeout, write_deadline: None, header_lines: HeaderLineGuard::new() }
    }

    /// The result of a write, or an error if it has waited too long.
    fn check_write_deadline<T>(&mut self, cx: &mut Context<'_>, wrote: Poll<Result<T>>) -> Poll<Result<T>> {
        if wrote.is_ready() {
            self.write_deadline = None;
            return wrote;
        }
        let write_timeout = self.write_timeout;
        let waiting = self.write_deadline.get_or_insert_with(|| Box::pin(sleep(write_timeout)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutSocket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buf);
        self.header_lines.check(&mut buf.filled_mut()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let wrote = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.check_write_deadline(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let wrote = Pin::new(&mut self.socket).poll_write_vectored(cx, parts);
        self.check_write_deadline(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        self.check_write_deadline(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_now_and_then_is_kept_and_one_that_does_not_is_let_go() {
        let (mut client, server) = duplex(4);
        let mut server = WriteTimeoutSocket::new(server, Duration::from_secs(60));
        let writing = tokio::spawn(async move { server.write_all(&[7; 100]).await });
        let mut some = [0; 4];
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(50)).await;
            client.read_exact(&mut some).await.expect("bytes");
        }
        assert!(!writing.is_finished());
        tokio::time::sleep(Duration::from_secs(61)).await;
        let error = writing.await.expect("no panic").expect_err("given up");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
