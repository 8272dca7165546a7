//! One reader a format.

mod csv;
mod docx;
mod html;
mod hwp;
mod hwpx;
#[cfg(feature = "pdf")]
mod pdf;
mod plain;
mod xlsx;

pub(super) use csv::csv;
pub(super) use docx::docx;
pub(super) use html::html;
pub(super) use hwp::hwp;
pub(super) use hwpx::hwpx;
#[cfg(feature = "pdf")]
pub(super) use pdf::pdf;
pub(super) use plain::{decode, is_wide, plain};
pub(super) use xlsx::xlsx;

/// An office file of these parts.
#[cfg(test)]
fn zipped(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut file = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in parts {
        file.start_file(*name, zip::write::SimpleFileOptions::default()).expect("a part");
        std::io::Write::write_all(&mut file, text.as_bytes()).expect("written");
    }
    file.finish().expect("a zip").into_inner()
}
