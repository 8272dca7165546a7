//! Names in paths and queries of this API.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but the unreserved characters of RFC 3986.
const URL_RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a name for a path or a query.
pub fn percent_encode(name: &str) -> String {
    utf8_percent_encode(name, URL_RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_of_a_path() {
        assert_eq!(percent_encode("a/가 ?"), "a%2F%EA%B0%80%20%3F");
    }
}
