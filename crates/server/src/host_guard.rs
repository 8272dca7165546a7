//! Checks `Host` and `Origin`: requests must name this machine or an allowed host, and a page must be of this server or of an
//! allowed origin. A page elsewhere that points its own name at this machine (DNS rebinding) still sends that name, and is
//! rejected.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::ServerApp;
use crate::cors::{AllowedOrigin, is_allowed_origin};
use crate::error::{ApiError, ApiErrorCode};

/// The longest name that DNS has, and its longest part between dots.
const MAX_HOST_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// Refuses what is not addressed to this machine, and marks every answer as data.
pub(crate) async fn enforce_host_and_origin(
    State(app): State<ServerApp>,
    request: Request,
    next: Next,
) -> Response {
    // Such a body can hide a request that a proxy before this server counted otherwise: nothing after it is read.
    let is_last = request.headers().contains_key(header::TRANSFER_ENCODING);
    let mut response = match check_request(&app.allowed_hosts, &app.allowed_origins, &request) {
        Ok(()) => next.run(request).await,
        Err(code) => ApiError::from(code).into_response(),
    };
    let headers = response.headers_mut();
    if is_last {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    // A page brings its own. All else is data: opened by itself it has no scripts, no forms and no origin.
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox"));
    response
}

fn check_request(names: &[String], origins: &[AllowedOrigin], request: &Request) -> Result<(), ApiErrorCode> {
    if [Method::CONNECT, Method::TRACE].contains(request.method()) {
        return Err(ApiErrorCode::MethodNotAllowed);
    }
    // Only proxies get requests for addresses of other places.
    if request.uri().authority().is_some() {
        return Err(ApiErrorCode::BadPath);
    }
    // Probes ask by the address of a container, which nobody can name beforehand. They get no data of anybody.
    let is_probe = matches!(request.uri().path(), "/healthz" | "/readyz");
    check_host_and_origin(names, origins, request.headers(), is_probe)
}

fn check_host_and_origin(
    names: &[String],
    origins: &[AllowedOrigin],
    headers: &HeaderMap,
    is_probe: bool,
) -> Result<(), ApiErrorCode> {
    let is_ours = |host: &str| is_loopback(host) || is_allowed_host(names, host);
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().ok_or(ApiErrorCode::NoHost)?;
    if hosts.next().is_some() {
        return Err(ApiErrorCode::BadHeader);
    }
    if !is_probe && !host.to_str().is_ok_and(is_ours) {
        return Err(ApiErrorCode::HostNotAllowed);
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    if is_allowed_origin(origins, origin) {
        return Ok(());
    }
    // Another port of this machine is another program: its pages are as foreign as those of another site.
    let port = host.to_str().ok().map(port_of);
    let is_own_page =
        |origin: &str| is_allowed_host(names, origin) || is_loopback(origin) && Some(port_of(origin)) == port;
    match origin.to_str().ok().and_then(origin_host).is_some_and(is_own_page) {
        true => Ok(()),
        false => Err(ApiErrorCode::OriginNotAllowed),
    }
}

fn origin_host(origin: &str) -> Option<&str> {
    origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))
}

/// Whether a host, with or without a port, is one of the names of this machine.
fn is_loopback(host: &str) -> bool {
    let name = without_port(host);
    let is_address = name.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback());
    is_address || name.eq_ignore_ascii_case("localhost") || name == "[::1]"
}

/// Whether a host is a name the server was given: with the port, or without one for any port.
fn is_allowed_host(names: &[String], host: &str) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(host) || name.eq_ignore_ascii_case(without_port(host)))
}

/// Whether this can be an allowed host: a name or an IP address, with or without a port. Requests name no others. An IPv6
/// address with a port has brackets.
pub fn is_valid_host(host: &str) -> bool {
    if host.parse::<Ipv6Addr>().is_ok() {
        return true;
    }
    let (name, port) = (without_port(host), port_of(host));
    if name != host && !port.parse::<u16>().is_ok_and(|number| number > 0 && number.to_string() == port) {
        return false;
    }
    match name.strip_prefix('[') {
        Some(address) => address.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => name.parse::<Ipv4Addr>().is_ok() || is_host_name(name),
    }
}

/// An allowed host as requests name it: with brackets around an IPv6 address.
pub(crate) fn with_brackets(host: String) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(_) => format!("[{host}]"),
        Err(_) => host,
    }
}

/// Whether a text is a name, perhaps with a dot at its end. Names of containers may have `_`.
fn is_host_name(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        let in_label = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=MAX_LABEL_BYTES).contains(&label.len())
            && label.bytes().all(in_label)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // What ends in a number is an address, and no name.
    let is_number =
        name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    name.len() <= MAX_HOST_NAME_BYTES && !is_number && name.split('.').all(is_label)
}

/// The port of a host, empty where it has none.
fn port_of(host: &str) -> &str {
    host[without_port(host).len()..].trim_start_matches(':')
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        // The last part of `[::1]` is not a port.
        Some(_) | None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_host(host: &str, expected: bool) {
        assert_eq!(is_loopback(host), expected, "{host}");
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:7979",
            "127.0.0.2",
            "127.255.0.1:1",
            "[::1]",
            "[::1]:7979",
        ] {
            check_host(host, true);
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "127.0.0.1:",
            "127.1",
            "128.0.0.1",
            "localhost:7979@evil",
            "[::1",
            "::1",
            "0.0.0.0",
        ] {
            check_host(host, false);
        }
    }

    #[test]
    fn a_page_of_another_port_of_this_machine_is_foreign() {
        let check = |host: &str, origin: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().expect("a host"));
            headers.insert(header::ORIGIN, origin.parse().expect("an origin"));
            check_host_and_origin(&["doran.example".to_owned()], &[], &headers, false)
        };
        for origin in ["http://127.0.0.1:7979", "http://localhost:7979", "https://doran.example"] {
            assert_eq!(check("127.0.0.1:7979", origin), Ok(()), "{origin}");
        }
        assert_eq!(check("localhost", "https://localhost"), Ok(()));
        for origin in ["http://localhost:3000", "http://127.0.0.1", "http://localhost:79790", "null"] {
            assert_eq!(check("127.0.0.1:7979", origin), Err(ApiErrorCode::OriginNotAllowed), "{origin}");
        }
    }

    #[test]
    fn a_name_that_was_given_is_answered_with_its_port_or_any() {
        let names = ["doran.example".to_owned(), "chat.example:8443".to_owned()];
        for (host, expected) in [
            ("doran.example", true),
            ("DORAN.example:80", true),
            ("chat.example:8443", true),
            ("chat.example", false),
            ("chat.example:80", false),
            ("evil.doran.example", false),
            ("", false),
        ] {
            assert_eq!(is_allowed_host(&names, host), expected, "{host}");
        }
    }
}
