//! Serves the web page, which is compiled in from `ui/dist` (built from `ui/`). The page loads nothing from other hosts, and its
//! content security policy enforces that.

use std::io::Write;
use std::sync::LazyLock;

use axum::extract::RawQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

/// What the page may do: run its own script, show its own style and pictures, and talk to this server. Text cannot
/// become markup: the one place that parses has a name.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types doran-picture";

/// Characters of the hash that an address carries, as `ui/vite.config.ts` writes it.
const ASSET_HASH_CHARS: usize = 12;

/// A file of the page.
struct Asset {
    mime: &'static str,
    bytes: &'static [u8],
    hash: LazyLock<String>,
    /// The same bytes, compressed once.
    gzip: LazyLock<Vec<u8>>,
}

macro_rules! asset {
    ($mime:literal, $file:literal) => {
        Asset {
            mime: $mime,
            bytes: include_bytes!(concat!("../ui/dist/", $file)),
            hash: LazyLock::new(|| sha256_hex(include_bytes!(concat!("../ui/dist/", $file)))),
            gzip: LazyLock::new(|| compress(include_bytes!(concat!("../ui/dist/", $file)))),
        }
    };
}

static PAGE: Asset = asset!("text/html; charset=utf-8", "index.html");
static SCRIPT: Asset = asset!("text/javascript; charset=utf-8", "app.js");
static STYLE: Asset = asset!("text/css; charset=utf-8", "app.css");
static HIGHLIGHT: Asset = asset!("text/javascript; charset=utf-8", "highlight.js");
static TEMML: Asset = asset!("text/javascript; charset=utf-8", "temml.js");
static DIAGRAM: Asset = asset!("text/javascript; charset=utf-8", "diagram.js");
static ICON: Asset = asset!("image/svg+xml", "icon.svg");

/// The page itself, which every address within it gives: a reload anywhere shows the same again.
pub(crate) async fn page(headers: HeaderMap) -> Response {
    PAGE.respond(RawQuery(None), &headers)
}

/// Its script.
pub(crate) async fn script(query: RawQuery, headers: HeaderMap) -> Response {
    SCRIPT.respond(query, &headers)
}

/// Its style.
pub(crate) async fn style(query: RawQuery, headers: HeaderMap) -> Response {
    STYLE.respond(query, &headers)
}

/// The renderer of source code, loaded on demand.
pub(crate) async fn highlight_script(query: RawQuery, headers: HeaderMap) -> Response {
    HIGHLIGHT.respond(query, &headers)
}

/// The renderer of formulas, loaded on demand.
pub(crate) async fn temml_script(query: RawQuery, headers: HeaderMap) -> Response {
    TEMML.respond(query, &headers)
}

/// What draws diagrams, loaded on demand.
pub(crate) async fn diagram_script(query: RawQuery, headers: HeaderMap) -> Response {
    DIAGRAM.respond(query, &headers)
}

/// Its icon.
pub(crate) async fn icon(query: RawQuery, headers: HeaderMap) -> Response {
    ICON.respond(query, &headers)
}

/// Whether a browser asks to show something, rather than a program to read it.
pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("text/html"))
}

impl Asset {
    fn respond(&'static self, RawQuery(query): RawQuery, headers: &HeaderMap) -> Response {
        // A client that understands no gzip, or one file that does not get smaller, gets the bytes as they are.
        let is_compressed = accepts_gzip(headers) && self.gzip.len() < self.bytes.len();
        let tag = format!("\"{}{}\"", *self.hash, if is_compressed { "-gzip" } else { "" });
        let wanted = query.as_deref().and_then(|query| query.strip_prefix("v="));
        // An address with the hash of these bytes never means others.
        let cache_control = if wanted == self.hash.get(..ASSET_HASH_CHARS) && wanted.is_some() {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        };
        let mut response = if matches_etag(headers, &tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else if is_compressed {
            self.gzip.as_slice().into_response()
        } else {
            self.bytes.into_response()
        };
        let mut set = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        };
        set(header::CONTENT_TYPE, self.mime);
        set(header::CACHE_CONTROL, cache_control);
        set(header::ETAG, &tag);
        set(header::VARY, "accept-encoding");
        if is_compressed {
            set(header::CONTENT_ENCODING, "gzip");
        }
        set(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
        set(header::REFERRER_POLICY, "no-referrer");
        set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
        response
    }
}

/// Whether the client has these bytes already.
fn matches_etag(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known.flat_map(|value| value.split(',')).any(|one| one.trim().trim_start_matches("W/") == tag)
}

/// Whether the client understands gzip: it names it, and does not rule it out with `q=0`.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let named = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    named.flat_map(|value| value.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let quality =
            quality.trim().strip_prefix("q=").and_then(|quality| quality.trim().parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && quality != Some(0.0)
    })
}

/// The bytes as gzip, or nothing if that fails, which a buffer in memory does not.
fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    match encoder.write_all(bytes).and_then(|()| encoder.finish()) {
        Ok(compressed) => compressed,
        Err(error) => {
            tracing::error!(%error, "a file of the page cannot be compressed");
            bytes.to_vec()
        }
    }
}

fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_its_files_by_their_content() {
        let html = std::str::from_utf8(PAGE.bytes).expect("text");
        for (name, asset) in [("/app.js", &SCRIPT), ("/app.css", &STYLE)] {
            let address = format!("{name}?v={}", &asset.hash[..ASSET_HASH_CHARS]);
            assert!(html.contains(&address), "the page does not name {address}");
        }
    }

    #[test]
    fn the_page_names_no_other_place_and_holds_no_script_of_its_own() {
        let html = std::str::from_utf8(PAGE.bytes).expect("text");
        for part in html.split(['"', '\'']).filter(|part| part.contains("//")) {
            assert!(!part.starts_with("http") && !part.starts_with("//"), "{part}");
        }
        assert_eq!(html.matches("<script").count(), html.matches("<script type=\"module\"").count());
        assert!(!html.contains(" style=") && !html.contains("<style") && !html.contains(" onload="));
        let style = std::str::from_utf8(STYLE.bytes).expect("text");
        assert!(!style.contains("url(") && !style.contains("@import"));
    }

    #[test]
    fn a_file_is_compressed_for_clients_that_accept_it() {
        use std::io::Read;
        let check = |accept: Option<&str>, is_compressed: bool| {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_str(accept).expect("a header"));
            }
            let response = SCRIPT.respond(RawQuery(None), &headers);
            assert_eq!(
                response.headers().contains_key(header::CONTENT_ENCODING),
                is_compressed,
                "{accept:?}"
            );
            // A client that has these bytes gets no others.
            headers.insert(header::IF_NONE_MATCH, response.headers()[header::ETAG].clone());
            assert_eq!(SCRIPT.respond(RawQuery(None), &headers).status(), StatusCode::NOT_MODIFIED);
            response.headers()[header::ETAG].clone()
        };
        let compressed = check(Some("gzip, deflate, br, zstd"), true);
        let plain = check(None, false);
        assert_ne!(compressed, plain);
        check(Some("br;q=1.0, gzip;q=0.5"), true);
        check(Some("gzip;q=0"), false);
        check(Some("identity"), false);
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(SCRIPT.gzip.as_slice()).read_to_end(&mut unpacked).expect("gzip");
        assert!(unpacked == SCRIPT.bytes && SCRIPT.gzip.len() * 2 < SCRIPT.bytes.len());
    }

    #[test]
    fn browsers_and_programs_are_distinguished() {
        let check = |accept: &str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_str(accept).expect("a header"));
            assert_eq!(is_browser(&headers), expected, "{accept}");
        };
        check("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true);
        check("application/json", false);
        check("*/*", false);
        assert!(!is_browser(&HeaderMap::new()));
    }
}
