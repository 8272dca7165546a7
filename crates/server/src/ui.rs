//! The web page, carried in the binary. It is built from `ui/` and kept there as `ui/dist`; the server knows only its
//! files. Nothing on it comes from another place, and the policy sent with it says so to the browser.

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
}

macro_rules! asset {
    ($mime:literal, $file:literal) => {
        Asset {
            mime: $mime,
            bytes: include_bytes!(concat!("../ui/dist/", $file)),
            hash: LazyLock::new(|| sha256_hex(include_bytes!(concat!("../ui/dist/", $file)))),
        }
    };
}

static PAGE: Asset = asset!("text/html; charset=utf-8", "index.html");
static SCRIPT: Asset = asset!("text/javascript; charset=utf-8", "app.js");
static STYLE: Asset = asset!("text/css; charset=utf-8", "app.css");
static HIGHLIGHT: Asset = asset!("text/javascript; charset=utf-8", "highlight.js");
static TEMML: Asset = asset!("text/javascript; charset=utf-8", "temml.js");
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
    fn respond(&self, RawQuery(query): RawQuery, headers: &HeaderMap) -> Response {
        let tag = format!("\"{}\"", *self.hash);
        let wanted = query.as_deref().and_then(|query| query.strip_prefix("v="));
        // An address with the hash of these bytes never means others.
        let kept = if wanted == self.hash.get(..ASSET_HASH_CHARS) && wanted.is_some() {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        };
        let mut response = if matches_etag(headers, &tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            self.bytes.into_response()
        };
        let mut set = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        };
        set(header::CONTENT_TYPE, self.mime);
        set(header::CACHE_CONTROL, kept);
        set(header::ETAG, &tag);
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
    fn a_browser_is_told_from_a_program() {
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
