//! Why a file could not be ingested, sorted by what a person can do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum size of the detail. Part of it is quoted from the file, which may be very long.
const MAX_DETAIL_BYTES: usize = 1 << 10;

/// Why a file could not be ingested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct IngestFailure {
    /// The kind of failure.
    pub kind: IngestFailureKind,
    /// Details for the log; may be empty.
    #[serde(default)]
    pub detail: String,
}

/// The kinds of failure, by remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IngestFailureKind {
    /// It needs a password.
    Encrypted,
    /// It is a distribution document (배포용), which can be viewed but not extracted.
    Locked,
    /// It is damaged, or not of the format it claims.
    Corrupt,
    /// It has no text, only scanned pages or pictures.
    NoText,
    /// It is too large, either itself or decompressed.
    TooLarge,
    /// Its format is not supported.
    Unsupported,
    /// Reading it took too long.
    TimedOut,
    /// Reading it took too much memory.
    OutOfMemory,
    /// It has no bytes.
    Empty,
    /// The child process that read it died.
    Crashed,
    /// This machine has no sandbox, so untrusted files cannot be read safely.
    NoJail,
    /// It was read, but the index rejected it.
    NotIndexed,
    /// The disk reported an error.
    Disk,
}

impl IngestFailureKind {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::Encrypted,
        Self::Locked,
        Self::Corrupt,
        Self::NoText,
        Self::TooLarge,
        Self::Unsupported,
        Self::TimedOut,
        Self::OutOfMemory,
        Self::Empty,
        Self::Crashed,
        Self::NoJail,
        Self::NotIndexed,
        Self::Disk,
    ];

    /// The stable name, for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Encrypted => "encrypted",
            Self::Locked => "locked",
            Self::Corrupt => "corrupt",
            Self::NoText => "no_text",
            Self::TooLarge => "too_large",
            Self::Unsupported => "unsupported",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory => "out_of_memory",
            Self::Empty => "empty",
            Self::Crashed => "crashed",
            Self::NoJail => "no_jail",
            Self::NotIndexed => "not_indexed",
            Self::Disk => "disk",
        }
    }

    /// Returns what happened and what to do, in Korean.
    pub fn message_ko(self) -> &'static str {
        match self {
            Self::Encrypted => "암호가 걸린 문서입니다. 암호를 풀어 저장한 뒤 다시 올리세요",
            Self::Locked => {
                "배포용 문서라 글을 꺼낼 수 없습니다. 작성자에게 배포용이 아닌 원본을 받아 올리세요"
            }
            Self::Corrupt => "파일이 손상되었습니다. 원래 프로그램에서 열어 다시 저장한 뒤 올리세요",
            Self::NoText => {
                "글자가 없는 문서입니다(스캔한 그림일 수 있습니다). 글자 인식(OCR)을 거친 파일을 올리세요"
            }
            Self::TooLarge => "파일이 너무 큽니다. 나누어 올리거나 그림을 빼고 저장하세요",
            Self::Unsupported => {
                "읽을 줄 모르는 형식입니다. HWPX, HWP, PDF, DOCX, XLSX, CSV, HTML, Markdown, 텍스트로 저장해 올리세요"
            }
            Self::TimedOut => {
                "읽는 데 너무 오래 걸려 멈췄습니다. 나누어 올리거나 다른 형식으로 저장해 올리세요"
            }
            Self::OutOfMemory => "읽는 데 메모리가 너무 많이 듭니다. 나누어 올리거나 그림을 빼고 저장하세요",
            Self::Empty => "빈 파일입니다. 내용이 있는 파일을 올리세요",
            Self::Crashed => "파일을 읽던 작업이 죽었습니다. 원래 프로그램에서 열어 다시 저장한 뒤 올리세요",
            Self::NoJail => {
                "이 컴퓨터에서는 파일을 격리해 읽을 수 없어 읽지 않았습니다. `doran doctor`가 알려 주는 대로 격리를 켠 뒤 다시 시도하세요"
            }
            Self::NotIndexed => "글은 읽었지만 색인에 넣지 못했습니다. 잠시 뒤 다시 시도하세요",
            Self::Disk => "디스크에 쓰거나 읽지 못했습니다. 자리가 있는지 살펴보고 다시 시도하세요",
        }
    }

    /// Returns what happened and what to do, in English.
    pub fn message_en(self) -> &'static str {
        match self {
            Self::Encrypted => "the file needs a password; save it without one and add it again",
            Self::Locked => {
                "the file is a view-only 배포용 document; ask its author for the original and add that"
            }
            Self::Corrupt => "the file is damaged; open it in its own program, save it again and add that",
            Self::NoText => {
                "the file has no text, only pictures perhaps; run text recognition (OCR) over it and add the result"
            }
            Self::TooLarge => "the file is too large; add it in parts, or save it without pictures",
            Self::Unsupported => {
                "the format is not read here; save it as HWPX, HWP, PDF, DOCX, XLSX, CSV, HTML, Markdown or text and add that"
            }
            Self::TimedOut => {
                "reading took too long and was stopped; add the file in parts or in another format"
            }
            Self::OutOfMemory => {
                "reading takes too much memory; add the file in parts, or save it without pictures"
            }
            Self::Empty => "the file is empty; add one with content",
            Self::Crashed => {
                "the reader of the file died; open the file in its own program, save it again and add that"
            }
            Self::NoJail => {
                "files cannot be read in isolation on this machine, so it was not read; turn isolation on as `doran doctor` says and try again"
            }
            Self::NotIndexed => "the text was read but the index did not take it; try again later",
            Self::Disk => "the disk did not take it or give it back; see whether there is room and try again",
        }
    }
}

impl IngestFailure {
    /// Creates a failure. At most a thousand bytes of the detail are kept.
    pub fn new(kind: IngestFailureKind, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        detail.truncate(detail.floor_char_boundary(MAX_DETAIL_BYTES));
        Self { kind, detail }
    }

    pub(super) fn corrupt(detail: impl fmt::Display) -> Self {
        Self::new(IngestFailureKind::Corrupt, detail.to_string())
    }
}

impl fmt::Display for IngestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.message_en())
    }
}

impl std::error::Error for IngestFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_says_the_way_out_in_both_languages() {
        let hangul = |text: &str| text.chars().filter(|char| ('가'..='힣').contains(char)).count();
        for kind in IngestFailureKind::ALL {
            assert!(hangul(kind.message_ko()) > 10 && hangul(kind.message_en()) < 5, "{kind:?}");
            assert!(kind.message_en().contains("; "), "{kind:?} says no way out");
            assert_eq!(serde_json::to_value(kind).expect("json"), kind.as_str());
        }
    }

    #[test]
    fn what_was_seen_is_kept_as_far_as_a_log_needs_it() {
        assert_eq!(IngestFailure::corrupt("no part").detail, "no part");
        let long = IngestFailure::corrupt("가".repeat(1 << 20)).detail;
        assert_eq!(long, "가".repeat(341));
    }
}
