//! Reads a zip in memory under limits. Decompressed sizes are counted while reading and not taken from a header.
//! Nothing is written to disk, and nested archives are not unpacked.

use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use super::{IngestFailure, IngestFailureKind, ReadLimits};

/// A part may always decompress to this many bytes, because small texts compress very well.
const MIN_UNPACK_ALLOWANCE_BYTES: u64 = 1 << 20;

/// An open zip.
pub(super) struct LimitedZipArchive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    names: Vec<String>,
    bytes_left: u64,
    ratio: u64,
}

impl<'a> LimitedZipArchive<'a> {
    pub(super) fn open(bytes: &'a [u8], limits: &ReadLimits) -> Result<Self, IngestFailure> {
        let mut zip = ZipArchive::new(Cursor::new(bytes)).map_err(zip_failure)?;
        if zip.len() > limits.entries {
            return Err(IngestFailure::new(
                IngestFailureKind::TooLarge,
                format!("{} parts in a zip", zip.len()),
            ));
        }
        let mut names = Vec::new();
        for at in 0..zip.len() {
            let part = zip.by_index_raw(at).map_err(zip_failure)?;
            let name = part.name().map_err(zip_failure)?.into_owned();
            // Nothing is written, so these names are harmless here. An honest document does not have them.
            let outside = name.starts_with('/')
                || name.contains(['\\', ':', '\0'])
                || name.split('/').any(|step| step == "..");
            if outside || part.is_symlink() {
                return Err(IngestFailure::corrupt(format!("a part called {name:?}")));
            }
            if part.encrypted() {
                return Err(IngestFailure::new(IngestFailureKind::Encrypted, "an encrypted zip"));
            }
            names.push(name);
        }
        Ok(Self { zip, names, bytes_left: limits.unpacked, ratio: limits.ratio })
    }

    /// Returns the names of its parts, in the order of the file.
    pub(super) fn part_names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn has_part(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Returns a decompressed part.
    pub(super) fn read_part(&mut self, name: &str) -> Result<Vec<u8>, IngestFailure> {
        let Some(at) = self.names.iter().position(|known| known == name) else {
            return Err(IngestFailure::corrupt(format!("no part {name:?}")));
        };
        let part = self.zip.by_index(at).map_err(zip_failure)?;
        let packed = part.compressed_size();
        let limit = self.bytes_left.min(MIN_UNPACK_ALLOWANCE_BYTES.max(packed.saturating_mul(self.ratio)));
        let mut bytes = Vec::new();
        let read = part.take(limit + 1).read_to_end(&mut bytes).map_err(IngestFailure::corrupt)? as u64;
        if read > limit {
            return Err(IngestFailure::new(
                IngestFailureKind::TooLarge,
                format!("{name:?} unpacks to more than {limit} bytes"),
            ));
        }
        self.bytes_left -= read;
        Ok(bytes)
    }

    /// Returns a part as the text of an XML file.
    pub(super) fn read_xml(&mut self, name: &str) -> Result<String, IngestFailure> {
        super::xml_reader::decode_xml(&self.read_part(name)?)
    }

    /// Returns an optional part as the text of an XML file, or `None` if it does not exist.
    pub(super) fn read_optional_xml(&mut self, name: &str) -> Result<Option<String>, IngestFailure> {
        if self.has_part(name) { self.read_xml(name).map(Some) } else { Ok(None) }
    }
}

fn zip_failure(error: ZipError) -> IngestFailure {
    match error {
        ZipError::UnsupportedArchive(why) if why.contains("assword") => {
            IngestFailure::new(IngestFailureKind::Encrypted, why)
        }
        error => IngestFailure::corrupt(error),
    }
}
