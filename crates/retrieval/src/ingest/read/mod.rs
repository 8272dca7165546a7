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
pub(super) use plain::{decode, plain};
pub(super) use xlsx::xlsx;
