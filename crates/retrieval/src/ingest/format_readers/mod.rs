//! The readers, one for each file format.

mod csv;
mod docx;
mod html;
mod hwp;
mod hwpx;
#[cfg(feature = "pdf")]
mod pdf;
mod plain_text;
mod xlsx;

pub(super) use csv::read_csv;
pub(super) use docx::read_docx;
pub(super) use html::read_html;
pub(super) use hwp::read_hwp;
pub(super) use hwpx::read_hwpx;
#[cfg(feature = "pdf")]
pub(super) use pdf::read_pdf;
pub(super) use plain_text::{decode_text, looks_like_utf16, read_plain_text};
pub(super) use xlsx::read_xlsx;

/// Builds an office file from these parts.
#[cfg(test)]
fn zip_of_parts(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut file = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in parts {
        file.start_file(*name, zip::write::SimpleFileOptions::default()).expect("a part");
        std::io::Write::write_all(&mut file, text.as_bytes()).expect("written");
    }
    file.finish().expect("a zip").into_inner()
}
