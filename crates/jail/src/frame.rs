//! Messages between parent and child: a length of four bytes, little-endian, then the bytes.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::IsolationLayer;

/// The first message of a child, sent before it reads any input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerHandshake {
    /// These isolation layers are active.
    Held(Vec<IsolationLayer>),
    /// The child refuses to work, for this reason.
    Refused(String),
}

/// The longest [`WorkerHandshake`].
pub(crate) const MAX_HANDSHAKE_BYTES: usize = 4096;

/// Why a message was not received.
#[derive(Debug)]
pub(crate) enum FrameError {
    /// The message is longer than allowed.
    TooLong,
    /// The other side closed the stream.
    Gone,
}

/// Reads one message. If it is too long, none of its bytes are read.
pub(crate) async fn read_frame(
    from: &mut (impl AsyncRead + Unpin),
    max_bytes: usize,
) -> Result<Vec<u8>, FrameError> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await.map_err(|_| FrameError::Gone)?;
    let length = check_length(length, max_bytes)?;
    // The length is not trusted: memory is allocated as bytes arrive.
    let mut bytes = Vec::new();
    let read = from.take(length as u64).read_to_end(&mut bytes).await.map_err(|_| FrameError::Gone)?;
    if read == length { Ok(bytes) } else { Err(FrameError::Gone) }
}

/// Like [`read_frame`], for the child, which has no async runtime.
pub(crate) fn read_frame_blocking(from: &mut impl Read, max_bytes: usize) -> Result<Vec<u8>, FrameError> {
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(|_| FrameError::Gone)?;
    let length = check_length(length, max_bytes)?;
    let mut bytes = Vec::new();
    let read = from.take(length as u64).read_to_end(&mut bytes).map_err(|_| FrameError::Gone)?;
    if read == length { Ok(bytes) } else { Err(FrameError::Gone) }
}

/// Writes the length and the bytes.
pub(crate) fn write_frame_blocking(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&length_prefix(bytes)?)?;
    to.write_all(bytes)?;
    to.flush()
}

/// The length of `bytes` in wire format.
pub(crate) fn length_prefix(bytes: &[u8]) -> io::Result<[u8; 4]> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    Ok(length.to_le_bytes())
}

fn check_length(length: [u8; 4], max_bytes: usize) -> Result<usize, FrameError> {
    usize::try_from(u32::from_le_bytes(length))
        .ok()
        .filter(|length| *length <= max_bytes)
        .ok_or(FrameError::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wire: &[u8], max_bytes: usize, expected: &str) {
        let shown = |result: Result<Vec<u8>, FrameError>| match result {
            Ok(bytes) => format!("{bytes:?}"),
            Err(broken) => format!("{broken:?}"),
        };
        assert_eq!(shown(read_frame_blocking(&mut &*wire, max_bytes)), expected);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
        assert_eq!(shown(runtime.block_on(read_frame(&mut &*wire, max_bytes))), expected);
    }

    #[test]
    fn a_message_arrives_whole_or_not_at_all() {
        check(&[2, 0, 0, 0, 7, 8], 2, "[7, 8]");
        check(&[0, 0, 0, 0], 0, "[]");
        check(&[3, 0, 0, 0, 7, 8], 9, "Gone");
        check(&[2, 0, 0], 9, "Gone");
        check(&[], 9, "Gone");
    }

    #[test]
    fn a_message_that_is_too_long_is_not_read() {
        check(&[3, 0, 0, 0, 7, 8, 9], 2, "TooLong");
        check(&[255, 255, 255, 255], 1 << 20, "TooLong");
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let mut wire = Vec::new();
        write_frame_blocking(&mut wire, b"abc").expect("write");
        check(&wire, 3, "[97, 98, 99]");
    }
}
