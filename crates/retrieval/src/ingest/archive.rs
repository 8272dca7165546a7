//! A zip, read in memory under limits. Sizes are counted as bytes come out, never believed from a header; nothing is
//! ever written to a disk, and nothing inside is unpacked a second time.

use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use super::{Failure, FailureKind, ReadLimits};

/// A part may unpack to this many bytes whatever it takes packed: small texts pack very well.
const FREE: u64 = 1 << 20;

/// An open zip.
pub(super) struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    names: Vec<String>,
    left: u64,
    ratio: u64,
}

impl<'a> Archive<'a> {
    pub(super) fn open(bytes: &'a [u8], limits: &ReadLimits) -> Result<Self, Failure> {
        let mut zip = ZipArchive::new(Cursor::new(bytes)).map_err(failure)?;
        if zip.len() > limits.entries {
            return Err(Failure::new(FailureKind::TooLarge, format!("{} parts in a zip", zip.len())));
        }
        let mut names = Vec::new();
        for at in 0..zip.len() {
            let part = zip.by_index_raw(at).map_err(failure)?;
            let name = part.name().map_err(failure)?.into_owned();
            // Nothing is written, so these names could do no harm. A document that has them is no honest one.
            let outside = name.starts_with('/')
                || name.contains(['\\', ':', '\0'])
                || name.split('/').any(|step| step == "..");
            if outside || part.is_symlink() {
                return Err(Failure::corrupt(format!("a part called {name:?}")));
            }
            if part.encrypted() {
                return Err(Failure::new(FailureKind::Encrypted, "an encrypted zip"));
            }
            names.push(name);
        }
        Ok(Self { zip, names, left: limits.unpacked, ratio: limits.ratio })
    }

    /// The names of its parts, in the order of the file.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// A part, unpacked.
    pub(super) fn part(&mut self, name: &str) -> Result<Vec<u8>, Failure> {
        let Some(at) = self.names.iter().position(|known| known == name) else {
            return Err(Failure::corrupt(format!("no part {name:?}")));
        };
        let part = self.zip.by_index(at).map_err(failure)?;
        let packed = part.compressed_size();
        let most = self.left.min(FREE.max(packed.saturating_mul(self.ratio)));
        let mut bytes = Vec::new();
        let read = part.take(most + 1).read_to_end(&mut bytes).map_err(Failure::corrupt)? as u64;
        if read > most {
            return Err(Failure::new(
                FailureKind::TooLarge,
                format!("{name:?} unpacks to more than {most} bytes"),
            ));
        }
        self.left -= read;
        Ok(bytes)
    }

    /// A part as the text of an XML file.
    pub(super) fn xml(&mut self, name: &str) -> Result<String, Failure> {
        super::xml::text(&self.part(name)?)
    }

    /// A part as the text of an XML file, where a document may do without it.
    pub(super) fn optional_xml(&mut self, name: &str) -> Result<Option<String>, Failure> {
        if self.has(name) { self.xml(name).map(Some) } else { Ok(None) }
    }
}

fn failure(error: ZipError) -> Failure {
    match error {
        ZipError::UnsupportedArchive(why) if why.contains("assword") => {
            Failure::new(FailureKind::Encrypted, why)
        }
        error => Failure::corrupt(error),
    }
}
