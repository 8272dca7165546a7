//! Rejects a bare LF in the head of a request.
//!
//! The HTTP parser accepts a bare LF as the end of a line, and a proxy in front of this server may not. Then the two would see
//! different headers in the same bytes (request smuggling). Bytes from the socket pass through here first: a bare LF in a head is
//! replaced by NUL, which no head may contain, and the parser rejects the request.

/// The longest line that is understood here: one that says how long a body is.
const MAX_HEADER_LINE_BYTES: usize = 64;

/// Follows the bytes of one connection from request to request.
pub(crate) struct HeaderLineGuard {
    position: HttpReadPosition,
    /// The beginning of the line that is being read.
    line: [u8; MAX_HEADER_LINE_BYTES],
    /// Bytes of that line so far, which may be more than are kept.
    line_length: usize,
    last_byte: u8,
    /// Whether the head has had a line yet: empty ones before the first are passed over.
    has_lines: bool,
    content_length: u64,
    is_chunked: bool,
}

enum HttpReadPosition {
    Head,
    /// So many bytes of a body are to come.
    Body(u64),
    /// Nothing more is looked at: the connection ends with this request.
    Unchecked,
}

impl HeaderLineGuard {
    pub(crate) fn new() -> Self {
        Self {
            position: HttpReadPosition::Head,
            line: [0; MAX_HEADER_LINE_BYTES],
            line_length: 0,
            last_byte: 0,
            has_lines: false,
            content_length: 0,
            is_chunked: false,
        }
    }

    /// Looks at bytes that have just been read, and spoils them where a head is not sound.
    pub(crate) fn check(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            match self.position {
                HttpReadPosition::Unchecked => return,
                HttpReadPosition::Body(left) => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = &mut bytes[here..];
                    let left = left - here as u64;
                    self.position =
                        if left == 0 { HttpReadPosition::Head } else { HttpReadPosition::Body(left) };
                }
                HttpReadPosition::Head => {
                    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                        self.append_to_line(bytes);
                        return;
                    };
                    let (line, rest) = bytes.split_at_mut(end);
                    self.append_to_line(line);
                    if self.last_byte != b'\r' || !self.accept_line() {
                        rest[0] = 0;
                        self.position = HttpReadPosition::Unchecked;
                        return;
                    }
                    bytes = &mut rest[1..];
                    self.line_length = 0;
                    self.last_byte = 0;
                }
            }
        }
    }

    fn append_to_line(&mut self, bytes: &[u8]) {
        let from = self.line_length.min(MAX_HEADER_LINE_BYTES);
        let more = bytes.len().min(MAX_HEADER_LINE_BYTES - from);
        self.line[from..from + more].copy_from_slice(&bytes[..more]);
        self.line_length += bytes.len();
        self.last_byte = bytes.last().copied().unwrap_or(self.last_byte);
    }

    /// Takes a whole line. What follows the head depends on two of them.
    fn accept_line(&mut self) -> bool {
        if self.line_length == 1 {
            if self.has_lines {
                self.position = match (self.is_chunked, self.content_length) {
                    (true, _) => HttpReadPosition::Unchecked,
                    (false, 0) => HttpReadPosition::Head,
                    (false, length) => HttpReadPosition::Body(length),
                };
                (self.has_lines, self.content_length, self.is_chunked) = (false, 0, false);
            }
            return true;
        }
        self.has_lines = true;
        let line = &self.line[..self.line_length.min(MAX_HEADER_LINE_BYTES)];
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return true };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let digits = value.trim_ascii();
            let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            match number {
                Some(number)
                    if self.line_length <= MAX_HEADER_LINE_BYTES && digits.iter().all(u8::is_ascii_digit) =>
                {
                    self.content_length = number;
                }
                Some(_) | None => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the parser gets of these bytes, in pieces of every size, with a NUL shown as `!`.
    fn check(bytes: &str, expected: &str) {
        for size in 1..=bytes.len() {
            let mut heads = HeaderLineGuard::new();
            let mut all = bytes.as_bytes().to_vec();
            all.chunks_mut(size).for_each(|piece| heads.check(piece));
            let got = String::from_utf8(all).expect("text").replace('\0', "!");
            assert_eq!(got, expected, "in pieces of {size}");
        }
    }

    fn passes(bytes: &str) {
        check(bytes, bytes);
    }

    #[test]
    fn sound_requests_pass_as_they_are_one_after_another() {
        passes("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n");
        passes("\r\n\r\nPOST / HTTP/1.1\r\ncontent-LENGTH:  4 \r\n\r\n\n\na\nGET / HTTP/1.1\r\n\r\n");
        passes("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n");
    }

    #[test]
    fn a_bare_line_feed_in_a_head_is_spoilt_and_one_in_a_body_is_not() {
        check("GET / HTTP/1.1\nHost: a\r\n\r\n", "GET / HTTP/1.1!Host: a\r\n\r\n");
        check("GET / HTTP/1.1\r\nX: a\nY: b\r\n\r\n", "GET / HTTP/1.1\r\nX: a!Y: b\r\n\r\n");
        check("GET / HTTP/1.1\r\nX: a\r\n\n", "GET / HTTP/1.1\r\nX: a\r\n!");
        check("\nGET / HTTP/1.1\r\n\r\n", "!GET / HTTP/1.1\r\n\r\n");
        check(
            "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n\n\nGET / HTTP/1.1\n\n",
            "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n\n\nGET / HTTP/1.1!\n",
        );
    }

    #[test]
    fn a_length_that_cannot_be_understood_is_spoilt() {
        let long = format!("{}5", " ".repeat(100));
        for length in ["+5", "5, 5", "", "-1", "0x5", "99999999999999999999", &long] {
            let head = format!("POST / HTTP/1.1\r\nContent-Length: {length}\r");
            check(&format!("{head}\n\r\n"), &format!("{head}!\r\n"));
        }
    }
}
