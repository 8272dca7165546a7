//! Names of [`doran_retrieval::Language`] for crates that still use the old ones.
pub use doran_retrieval::{Language as UserLanguage, is_hangul};
