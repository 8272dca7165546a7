//! The one place where this crate names a point at which a test may end the process.

/// Passes the point `name`.
pub(crate) fn hit(_name: &'static str) {}
