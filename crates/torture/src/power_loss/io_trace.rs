//! What a process did to its files and printed meanwhile, as the shim recorded it.

use std::path::Path;

use crate::power_loss::simulated_disk::SimulatedDisk;
use crate::victim_protocol::{FromVictim, ToVictim};

/// One record, in the order in which it happened. The lines of a victim are of type `L`.
pub enum TraceRecord<L> {
    /// A process began.
    ProcessStarted,
    Disk(DiskOperation),
    Line(L),
}

impl<L> TraceRecord<L> {
    /// Does to the disk what was done.
    pub fn apply_to(&self, disk: &mut SimulatedDisk) {
        match self {
            Self::ProcessStarted => disk.forget_syncs(),
            Self::Disk(operation) => disk.apply(operation),
            Self::Line(_) => {}
        }
    }

    pub fn ends_sync(&self) -> bool {
        matches!(self, Self::Disk(DiskOperation::SyncEnded { .. }))
    }
}

/// What changes a disk, or what is sure to be on it. Paths are relative to the recorded folder.
pub enum DiskOperation {
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
    /// A file or an empty folder.
    Remove {
        path: String,
    },
    MakeFolder {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
}

/// What a sync is for.
pub enum SyncTarget {
    File(String),
    /// The names in it.
    Folder(String),
}

/// What a victim prints, and reads if it gets a message.
pub trait TracedLine: Sized {
    fn parse_output_line(line: &[u8]) -> serde_json::Result<Self>;
    fn parse_input_line(line: &[u8]) -> serde_json::Result<Self>;
}

/// A line between the driver and a victim on a database.
pub enum VictimLine {
    Heard(ToVictim),
    Said(FromVictim),
}

impl TracedLine for VictimLine {
    fn parse_output_line(line: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(line).map(Self::Said)
    }

    fn parse_input_line(line: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(line).map(Self::Heard)
    }
}

/// Reads a trace. The process may have been killed in the middle of the last record, which then counts for nothing.
pub fn parse_trace<L: TracedLine>(trace: &[u8], folder: &Path) -> Result<Vec<TraceRecord<L>>, String> {
    let mut records = Vec::new();
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut rest = trace;
    while let Some((kind, number, path, data)) = take_record(&mut rest) {
        let relative = |path: &[u8]| -> Result<String, String> {
            let path = std::str::from_utf8(path).map_err(|error| error.to_string())?;
            let inside = Path::new(path).strip_prefix(folder).map_err(|error| format!("{path}: {error}"))?;
            Ok(inside.display().to_string())
        };
        let operation = match kind {
            b'L' => {
                input.clear();
                output.clear();
                records.push(TraceRecord::ProcessStarted);
                continue;
            }
            b'I' => {
                read_lines(&mut input, data, L::parse_input_line, &mut records)?;
                continue;
            }
            b'O' => {
                read_lines(&mut output, data, L::parse_output_line, &mut records)?;
                continue;
            }
            b'W' => DiskOperation::Write { file: relative(path)?, at: number, bytes: data.to_vec() },
            b'T' => DiskOperation::SetLength { file: relative(path)?, length: number },
            b'S' => DiskOperation::SyncStarted { number, target: SyncTarget::File(relative(path)?) },
            b'D' => DiskOperation::SyncStarted { number, target: SyncTarget::Folder(relative(path)?) },
            b'E' => DiskOperation::SyncEnded { number },
            b'U' => DiskOperation::Remove { path: relative(path)? },
            b'M' => DiskOperation::MakeFolder { path: relative(path)? },
            b'R' => {
                let (from, to) = (relative(path)?, relative(data)?);
                if Path::new(&from).parent() != Path::new(&to).parent() {
                    return Err(format!(
                        "`{from}` moves to another folder, which the disk does not simulate"
                    ));
                }
                DiskOperation::Rename { from, to }
            }
            other => return Err(format!("a trace with a record of kind {other}")),
        };
        records.push(TraceRecord::Disk(operation));
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
fn read_lines<L>(
    buffer: &mut Vec<u8>,
    more: &[u8],
    parse: impl Fn(&[u8]) -> serde_json::Result<L>,
    records: &mut Vec<TraceRecord<L>>,
) -> Result<(), String> {
    buffer.extend_from_slice(more);
    while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = buffer.drain(..=end).collect();
        records
            .push(TraceRecord::Line(parse(&line).map_err(|error| format!("a line of the trace: {error}"))?));
    }
    Ok(())
}
