//! Decodes server-sent events from chunks of bytes.
//!
//! Lines end with LF, CRLF or CR. The space after a colon is optional. Comments and unknown fields are ignored. Invalid
//! UTF-8 becomes U+FFFD once a line is complete, so a character that is split between chunks is decoded correctly.

use std::borrow::Cow;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The `event` field; empty if there is none.
    pub(crate) name: String,
    /// The `data` fields, joined by line feeds.
    pub(crate) data: String,
}

/// A decoder from bytes to events.
#[derive(Debug)]
pub(crate) struct SseDecoder {
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    after_cr: bool,
    at_start: bool,
    max_event_bytes: usize,
}

/// An event exceeds the size limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SseEventTooLong;

impl SseDecoder {
    /// Creates a decoder for events of at most this many bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            event: SseEvent::default(),
            has_data: false,
            after_cr: false,
            at_start: true,
            max_event_bytes: limit,
        }
    }

    /// Decodes the next bytes and calls `found` for every event that they complete.
    pub(crate) fn feed<E: From<SseEventTooLong>>(
        &mut self,
        mut bytes: &[u8],
        mut found: impl FnMut(&SseEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.after_cr {
            if let Some(rest) = bytes.strip_prefix(b"\n") {
                bytes = rest;
            }
            self.after_cr = bytes.is_empty() && self.after_cr;
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let cr = bytes[end] == b'\r';
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.line.is_empty() {
                self.check_size(line.len())?;
                self.take_line(line, &mut found)?;
            } else {
                self.check_size(self.line.len() + line.len())?;
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.take_line(&whole, &mut found)?;
                whole.clear();
                self.line = whole;
            }
            bytes = rest;
            if cr {
                match bytes.strip_prefix(b"\n") {
                    Some(rest) => bytes = rest,
                    None => self.after_cr = bytes.is_empty(),
                }
            }
        }
        self.check_size(self.line.len() + bytes.len())?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn check_size(&self, more: usize) -> Result<(), SseEventTooLong> {
        if self.event.data.len() + more > self.max_event_bytes { Err(SseEventTooLong) } else { Ok(()) }
    }

    fn take_line<E>(
        &mut self,
        mut line: &[u8],
        found: &mut impl FnMut(&SseEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            let outcome = if self.has_data { found(&self.event) } else { Ok(()) };
            self.event.name.clear();
            self.event.data.clear();
            self.has_data = false;
            return outcome;
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(&decode_lossy(value));
            }
            b"event" => self.event.name = decode_lossy(value).into_owned(),
            _ => {}
        }
        Ok(())
    }
}

fn decode_lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct SseTestError;

    impl From<SseEventTooLong> for SseTestError {
        fn from(_: SseEventTooLong) -> Self {
            Self
        }
    }

    fn events(pieces: &[&[u8]]) -> Vec<String> {
        let mut decoder = SseDecoder::new(1_000);
        let mut events = Vec::new();
        for piece in pieces {
            decoder
                .feed::<SseTestError>(piece, |event| {
                    events.push(format!("{}|{}", event.name, event.data));
                    Ok(())
                })
                .expect("short");
        }
        events
    }

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut() {
        let text = "\u{feff}: hello\r\nevent: a\r\ndata: 안녕\r\ndata:하세요\r\n\r\n:ping\n\ndata:{\"x\":1}\nid: 7\n\nretry: 3\rdata\r\rdata: 끝 🎉\n\n";
        let expected = ["a|안녕\n하세요", "|{\"x\":1}", "|", "|끝 🎉"];
        assert_eq!(events(&[text.as_bytes()]), expected);
        for cut in 0..=text.len() {
            let (left, right) = text.as_bytes().split_at(cut);
            assert_eq!(events(&[left, right]), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(events(&single), expected, "byte by byte");
    }

    #[test]
    fn an_event_without_its_empty_line_is_not_one() {
        assert_eq!(events(&[b"data: half"]), Vec::<String>::new());
        assert_eq!(events(&[b"data: half\n"]), Vec::<String>::new());
        assert_eq!(events(&[b"event: lonely\n\n"]), Vec::<String>::new());
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(events(&[b"data: a\xffb\n\n"]), ["|a\u{fffd}b"]);
    }

    #[test]
    fn an_event_that_grows_without_end_is_refused() {
        for piece in ["data: aaaaaaaa\n", "aaaaaaaaaaaa"] {
            let mut decoder = SseDecoder::new(64);
            let refused =
                (0..100).any(|_| decoder.feed::<SseTestError>(piece.as_bytes(), |_| Ok(())).is_err());
            assert!(refused, "{piece}");
        }
    }
}
