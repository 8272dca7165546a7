//! The address by which a client reached this server, for links in answers.

use axum::http::{HeaderMap, header};

/// Such as `https://doran.example.com`. The guard has checked the host. A proxy that speaks HTTPS for this server says so.
pub(crate) fn request_origin(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let scheme = if text("x-forwarded-proto").eq_ignore_ascii_case("https") { "https" } else { "http" };
    format!("{scheme}://{}", text(header::HOST.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_says_that_it_speaks_https() {
        let mut headers = HeaderMap::new();
        headers.insert("host", "doran.example:8080".parse().expect("a host"));
        assert_eq!(request_origin(&headers), "http://doran.example:8080");
        headers.insert("x-forwarded-proto", "https".parse().expect("a scheme"));
        assert_eq!(request_origin(&headers), "https://doran.example:8080");
        headers.insert("x-forwarded-proto", "javascript".parse().expect("a scheme"));
        assert_eq!(request_origin(&headers), "http://doran.example:8080");
    }
}
