//! What a victim did to its files and said meanwhile, as the shim wrote it down.

use std::path::Path;

use crate::victim_protocol::{FromVictim, ToVictim};

/// One record, in the order in which it happened.
pub enum TraceRecord {
    /// A process began.
    ProcessStarted,
    Write {
        file: String,
        at: usize,
        bytes: Vec<u8>,
    },
    SetLength {
        file: String,
        length: usize,
    },
    /// A sync keeps what was written before it began, once it has ended.
    SyncStarted {
        number: usize,
        target: SyncTarget,
    },
    SyncEnded {
        number: usize,
    },
    Unlink {
        file: String,
    },
    Rename {
        from: String,
        to: String,
    },
    /// The driver asked for something.
    Heard(ToVictim),
    /// The victim said something.
    Said(FromVictim),
}

/// What a sync is for.
pub enum SyncTarget {
    File(String),
    /// The names of the files.
    Folder,
}

impl TraceRecord {
    /// Whether it changes what is on the disk, or what is sure to be.
    pub fn is_disk_operation(&self) -> bool {
        !matches!(self, Self::ProcessStarted | Self::Heard(_) | Self::Said(_))
    }
}

/// Reads a trace. The process may have been killed in the middle of the last record, which then counts for nothing.
pub fn parse_trace(trace: &[u8], folder: &Path) -> Result<Vec<TraceRecord>, String> {
    let mut records = Vec::new();
    let (mut heard, mut said) = (Vec::new(), Vec::new());
    let mut rest = trace;
    while let Some((kind, number, path, data)) = take_record(&mut rest) {
        let file = || -> Result<String, String> {
            let path = std::str::from_utf8(path).map_err(|error| error.to_string())?;
            let inside = Path::new(path).strip_prefix(folder).map_err(|error| format!("{path}: {error}"))?;
            Ok(inside.display().to_string())
        };
        match kind {
            b'L' => {
                heard.clear();
                said.clear();
                records.push(TraceRecord::ProcessStarted);
            }
            b'W' => records.push(TraceRecord::Write { file: file()?, at: number, bytes: data.to_vec() }),
            b'T' => records.push(TraceRecord::SetLength { file: file()?, length: number }),
            b'S' => records.push(TraceRecord::SyncStarted { number, target: SyncTarget::File(file()?) }),
            b'D' => records.push(TraceRecord::SyncStarted { number, target: SyncTarget::Folder }),
            b'E' | b'F' => records.push(TraceRecord::SyncEnded { number }),
            b'U' => records.push(TraceRecord::Unlink { file: file()? }),
            b'R' => {
                let to = std::str::from_utf8(data).map_err(|error| error.to_string())?;
                let to = Path::new(to).strip_prefix(folder).map_err(|error| format!("{to}: {error}"))?;
                records.push(TraceRecord::Rename { from: file()?, to: to.display().to_string() });
            }
            b'I' => read_lines(&mut heard, data, |line| records.push(TraceRecord::Heard(line)))?,
            b'O' => read_lines(&mut said, data, |line| records.push(TraceRecord::Said(line)))?,
            other => return Err(format!("a trace with a record of kind {other}")),
        }
    }
    Ok(records)
}

type RawRecord<'a> = (u8, usize, &'a [u8], &'a [u8]);

fn take_record<'a>(rest: &mut &'a [u8]) -> Option<RawRecord<'a>> {
    let mut left = *rest;
    let kind = *left.split_off_first()?;
    let mut number = || -> Option<usize> {
        let bytes: [u8; 8] = left.split_off(..8)?.try_into().ok()?;
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    };
    let (offset, path, data) = (number()?, number()?, number()?);
    let (path, data) = (left.split_off(..path)?, left.split_off(..data)?);
    *rest = left;
    Some((kind, offset, path, data))
}

/// Takes the lines that are complete now.
fn read_lines<T: serde::de::DeserializeOwned>(
    begun: &mut Vec<u8>,
    more: &[u8],
    mut take: impl FnMut(T),
) -> Result<(), String> {
    begun.extend_from_slice(more);
    while let Some(end) = begun.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = begun.drain(..=end).collect();
        take(serde_json::from_slice(&line).map_err(|error| format!("a line of the trace: {error}"))?);
    }
    Ok(())
}
