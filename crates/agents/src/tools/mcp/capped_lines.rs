//! A stream that fails when one message is too long, so that it cannot use up the memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// Lines, none longer than a limit.
#[derive(Debug)]
pub(super) struct CappedLines<R> {
    inner: R,
    max_bytes: usize,
    line_bytes: usize,
}

impl<R> CappedLines<R> {
    pub(super) fn new(inner: R, limit: usize) -> Self {
        Self { inner, max_bytes: limit, line_bytes: 0 }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for CappedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let read = &buffer.filled()[before..];
        self.line_bytes = match read.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => read.len() - at - 1,
            None => self.line_bytes + read.len(),
        };
        if self.line_bytes > self.max_bytes {
            // A failed read has read nothing: that is what its caller may rely on.
            buffer.set_filled(before);
            return Poll::Ready(Err(io::Error::other(format!(
                "a message is longer than {} bytes",
                self.max_bytes
            ))));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn read(text: &str, max_bytes: usize) -> Option<String> {
        let mut all = String::new();
        CappedLines::new(text.as_bytes(), max_bytes).read_to_string(&mut all).await.ok().map(|_| all)
    }

    #[tokio::test]
    async fn a_line_that_does_not_end_is_not_kept() {
        assert_eq!(read("ab\ncd\n", 3).await.as_deref(), Some("ab\ncd\n"));
        assert_eq!(read(&"a\n".repeat(100_000), 3).await.map(|all| all.len()), Some(200_000));
        assert_eq!(read(&"a".repeat(100_000), 1000).await, None);
    }
}
