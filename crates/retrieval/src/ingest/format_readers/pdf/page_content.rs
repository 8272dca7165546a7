//! Unpacks the content streams of pages and forms, within limits.

use flate2::{Decompress, FlushDecompress, Status};
use hayro_syntax::Filter;
use hayro_syntax::object::dict::keys::{CONTENTS, DECODE_PARMS};
use hayro_syntax::object::{Object, Stream};
use hayro_syntax::page::Page;

use super::{IngestFailure, IngestFailureKind, ReadLimits};

/// What is left of the limits of a file.
#[derive(Debug)]
pub(super) struct PageBudget {
    characters: usize,
    unpacked: u64,
}

impl PageBudget {
    pub(super) fn new(limits: &ReadLimits) -> Self {
        Self { characters: limits.text, unpacked: limits.unpacked }
    }

    /// Takes characters from the budget.
    pub(super) fn take_characters(&mut self, count: usize) -> Result<(), IngestFailure> {
        self.characters = self.characters.checked_sub(count).ok_or_else(|| {
            IngestFailure::new(IngestFailureKind::TooLarge, "more characters than the limit")
        })?;
        Ok(())
    }
}

/// Returns the unpacked content of a page. Content that is missing or damaged is an error: the rest of the file would be
/// taken for the whole document.
pub(super) fn page_content(page: &Page<'_>, budget: &mut PageBudget) -> Result<Vec<u8>, IngestFailure> {
    let missing = || IngestFailure::corrupt("a page whose content is missing");
    let streams: Vec<Stream<'_>> = match page.raw().get::<Object<'_>>(CONTENTS) {
        Some(Object::Stream(stream)) => vec![stream],
        Some(Object::Array(parts)) => parts
            .iter::<Object<'_>>()
            .map(|part| part.into_stream().ok_or_else(missing))
            .collect::<Result<_, _>>()?,
        Some(Object::Null(_)) => Vec::new(),
        None if !page.raw().contains_key(CONTENTS) => Vec::new(),
        Some(_) | None => return Err(missing()),
    };
    let mut content = Vec::new();
    for stream in streams {
        content.extend(unpack(&stream, budget)?);
        // An instruction may end at the end of a stream.
        content.push(b'\n');
    }
    Ok(content)
}

/// Returns the unpacked bytes of a stream. The parser returns what it can unpack of a damaged stream, so the usual
/// compression is undone here.
pub(super) fn unpack(stream: &Stream<'_>, budget: &mut PageBudget) -> Result<Vec<u8>, IngestFailure> {
    let only_deflate =
        stream.filters().as_slice() == [Filter::FlateDecode] && !stream.dict().contains_key(DECODE_PARMS);
    let bytes = if only_deflate {
        inflate(&stream.raw_data(), budget.unpacked)
    } else {
        stream.decoded_data().ok().map(|bytes| bytes.into_owned())
    };
    let bytes = bytes.ok_or_else(|| IngestFailure::corrupt("a page that cannot be unpacked"))?;
    budget.unpacked = budget.unpacked.checked_sub(bytes.len() as u64).ok_or_else(|| {
        IngestFailure::new(IngestFailureKind::TooLarge, "pages that unpack to more than the limit")
    })?;
    Ok(bytes)
}

/// Undoes zlib or plain deflate and returns little more than the limit. Data that ends early is damaged. The checksum is
/// not compared, because files with a wrong one are common.
fn inflate(packed: &[u8], limit: u64) -> Option<Vec<u8>> {
    [2, 0].into_iter().find_map(|header| inflate_to_end(packed.get(header..)?, limit))
}

fn inflate_to_end(packed: &[u8], limit: u64) -> Option<Vec<u8>> {
    let mut state = Decompress::new(false);
    let mut bytes = Vec::new();
    loop {
        bytes.reserve(64 << 10);
        let (before, written) = (state.total_in() as usize, state.total_out());
        let status = state.decompress_vec(&packed[before..], &mut bytes, FlushDecompress::None).ok()?;
        if status == Status::StreamEnd || state.total_out() > limit {
            return Some(bytes);
        }
        if state.total_out() == written {
            return None;
        }
    }
}
