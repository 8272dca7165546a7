//! HTTP calls of described agents: a node or a tool that a program in any language serves.
//!
//! Where a call goes is written in the file and cannot be changed by words of people or models: the scheme, host and port
//! are fixed, and what fills the path or the query is percent-encoded. What fills a header cannot begin another one.
//! Redirects are not followed. An address that is not public is refused unless the file says `private = true`.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use doran_engine::NodeError;
use doran_llm::{TRACEPARENT, TraceContext, is_too_deep};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, Url};
use serde_json::Value;

use super::description::HttpDescription;
use super::template;
use crate::tools::{
    EgressOptions, ToolSecret, fixed_origin_client, is_public, strip_invisible, truncate_with_note,
};

/// The most bytes of a response.
const MAX_RESPONSE_BYTES: usize = 1 << 20;
/// The most bytes of a response that an error tells.
const MAX_ERROR_BYTES: usize = 300;
const DEFAULT_TIMEOUT_SECONDS: u64 = 30;
const MAX_TIMEOUT_SECONDS: u64 = 600;
const MAX_RETRIES: u32 = 10;
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// The header by which a program recognises a call that is made again.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Headers that say where a request goes and where it ends, and those that every call gets.
const OWN_HEADERS: [&str; 6] =
    ["host", "connection", "content-length", "transfer-encoding", IDEMPOTENCY_KEY, TRACEPARENT];

/// What HTTP calls of described agents need from outside: a proxy, and the values of environment variables.
#[derive(Clone)]
pub struct HttpCallParts {
    /// A proxy for public addresses.
    pub proxy: Option<String>,
    /// The value of an environment variable.
    pub variable: Arc<dyn Fn(&str) -> Option<ToolSecret> + Send + Sync>,
}

impl Default for HttpCallParts {
    /// No proxy and no variables.
    fn default() -> Self {
        Self { proxy: None, variable: Arc::new(|_| None) }
    }
}

impl fmt::Debug for HttpCallParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpCallParts").field("proxy", &self.proxy).finish_non_exhaustive()
    }
}

/// A call that can be made.
#[derive(Clone)]
pub(super) struct HttpCall {
    description: HttpDescription,
    method: Method,
    origin: String,
    /// The headers of the file, as templates.
    headers: Vec<(HeaderName, String)>,
    key: Option<(HeaderName, HeaderValue)>,
    client: Arc<OnceLock<Client>>,
    options: EgressOptions,
}

/// A call with its places filled.
#[derive(Clone, Debug)]
pub(super) struct RenderedCall {
    pub(super) url: Url,
    pub(super) body: Option<Value>,
    headers: HeaderMap,
}

/// Why a call gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpCallError {
    pub(super) reason: String,
    pub(super) kind: HttpFailureKind,
}

/// What can be done about a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpFailureKind {
    /// It did not reach the other side. It can be made again, also one that must not happen twice.
    NotSent,
    /// Whether it was done is open. It may work the next time.
    Transient,
    /// It was answered with a no: it was not done.
    Refused,
    /// It was not sent, and makes no sense to try again.
    Impossible,
    /// It was answered, and the answer cannot be used. Whether it was done is open.
    Unusable,
}

impl HttpCall {
    /// Checks a description. The error says what to change.
    pub(super) fn new(description: &HttpDescription, parts: &HttpCallParts) -> Result<Self, String> {
        let method = description.method.as_deref().unwrap_or("POST");
        if !METHODS.contains(&method) {
            return Err(format!("`method` is `{method}`; it is one of: {}", METHODS.join(", ")));
        }
        if method == "GET" && description.body.is_some() {
            return Err("a `GET` takes no `body`".to_owned());
        }
        if description.once && description.retries.is_some_and(|retries| retries > 0) {
            return Err("a call that happens at most once takes no `retries`".to_owned());
        }
        if description.retries.is_some_and(|retries| retries > MAX_RETRIES) {
            return Err(format!("`retries` is at most {MAX_RETRIES}"));
        }
        if !description.timeout_seconds.is_none_or(|seconds| (1..=MAX_TIMEOUT_SECONDS).contains(&seconds)) {
            return Err(format!("`timeout_seconds` is from 1 to {MAX_TIMEOUT_SECONDS}"));
        }
        let origin = fixed_origin(&description.url)?;
        let options = EgressOptions {
            time: Duration::from_secs(description.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS)),
            proxy: parts.proxy.clone().filter(|_| !description.private),
            ..EgressOptions::default()
        };
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
        let key = key_header(description, parts)?;
        let headers = header_templates(description, key.as_ref().map(|(name, _)| name))?;
        let (description, client) = (description.clone(), Arc::default());
        Ok(Self { description, method, origin, headers, key, client, options })
    }

    /// The templates of the call, to check what they use.
    pub(super) fn templates(description: &HttpDescription) -> Vec<(&'static str, Value)> {
        let url = ("url", Value::String(description.url.clone()));
        let headers = description.headers.values().cloned().map(Value::String).collect();
        let body = description.body.clone().map(|body| ("body", body));
        [url, ("headers", headers)].into_iter().chain(body).collect()
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.method == Method::GET
    }

    pub(super) fn once(&self) -> bool {
        self.description.once
    }

    pub(super) fn is_private(&self) -> bool {
        self.description.private
    }

    /// Tries in all, the first included.
    pub(super) fn attempts(&self) -> u32 {
        1 + self.description.retries.unwrap_or(if self.description.once { 0 } else { 2 })
    }

    pub(super) fn time(&self) -> Duration {
        self.options.time
    }

    /// The call for these variables. Without a body in the file it sends `default_body`.
    pub(super) fn render(
        &self,
        variables: &Value,
        default_body: &Value,
    ) -> Result<RenderedCall, HttpCallError> {
        let url = template::render_url(&self.description.url, variables).map_err(impossible)?;
        if has_dot_segment(&url) {
            return Err(impossible(
                "`url`: a part of the path is `.` or `..`, which would change the path".to_owned(),
            ));
        }
        let url = Url::parse(&url).map_err(|error| impossible(format!("`url`: {error}")))?;
        if url.origin().ascii_serialization() != self.origin {
            return Err(impossible("`url` leads to another host".to_owned()));
        }
        let body = match &self.description.body {
            Some(body) => Some(template::render_json(body, variables).map_err(impossible)?),
            None if self.method == Method::GET || self.method == Method::DELETE => None,
            None => Some(default_body.clone()),
        };
        let mut headers = HeaderMap::new();
        for (name, text) in &self.headers {
            let text = template::render_text(text, variables)
                .map_err(|error| impossible(format!("the header `{name}`: {error}")))?;
            headers.insert(name.clone(), header_value(name, text.trim()).map_err(impossible)?);
        }
        if let Some((name, value)) = self.key.clone() {
            headers.insert(name, value);
        }
        Ok(RenderedCall { url, body, headers })
    }

    /// Makes the call once. `key` is the same for every attempt of it.
    pub(super) async fn send(&self, rendered: RenderedCall, key: &str) -> Result<Value, HttpCallError> {
        let RenderedCall { url, body, headers } = rendered;
        // It is fixed by the file, so it may be shown. The rest of the address may hold values of a conversation.
        let origin = url.origin().ascii_serialization();
        let named =
            |error: HttpCallError| HttpCallError { reason: format!("`{origin}`: {}", error.reason), ..error };
        let address = url.host_str().and_then(|host| host.trim_matches(['[', ']']).parse().ok());
        if !self.description.private && address.is_some_and(|address| !is_public(address)) {
            return Err(named(impossible(NOT_PUBLIC.to_owned())));
        }
        let client = self.client()?;
        let mut request = client.request(self.method.clone(), url).headers(headers);
        if let Some(body) = &body {
            request = request.json(body);
        }
        if !self.is_read_only() {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        if let Some(trace) = TraceContext::outgoing_header() {
            request = request.header(TRACEPARENT, trace);
        }
        let response = request.send().await.map_err(|error| named(send_error(&error)))?;
        self.read(response).await
    }

    /// What is left of a response for these variables and the response itself.
    pub(super) fn result(&self, response: Value, variables: &Value) -> Result<Value, HttpCallError> {
        let Some(result) = &self.description.result else { return Ok(response) };
        let mut variables = variables.clone();
        variables["response"] = response;
        template::render_json(result, &variables).map_err(unusable)
    }

    fn client(&self) -> Result<&Client, HttpCallError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let made = fixed_origin_client(&self.options, self.description.private)
            .map_err(|error| impossible(error.to_string()))?;
        Ok(self.client.get_or_init(|| made))
    }

    async fn read(&self, mut response: Response) -> Result<Value, HttpCallError> {
        let status = response.status();
        let is_json = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.contains("json"));
        let mut bytes = Vec::new();
        let broken =
            |error: reqwest::Error| transient(format!("the response broke off: {}", error.without_url()));
        while let Some(piece) = response.chunk().await.map_err(broken)? {
            if bytes.len() + piece.len() > MAX_RESPONSE_BYTES {
                return Err(unusable(format!("the response is larger than {MAX_RESPONSE_BYTES} bytes")));
            }
            bytes.extend_from_slice(&piece);
        }
        if !status.is_success() {
            let words = strip_invisible(&String::from_utf8_lossy(&bytes)).text;
            let words = truncate_with_note(words, MAX_ERROR_BYTES);
            let reason = format!("status {}: {words}", status.as_u16());
            let may_pass = matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502..=504);
            return Err(match status.as_u16() {
                _ if may_pass => transient(reason),
                400..=499 => HttpCallError { reason, kind: HttpFailureKind::Refused },
                _ => unusable(reason),
            });
        }
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        if !is_json {
            return Ok(Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        }
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|error| unusable(format!("the response is not the JSON it says it is: {error}")))?;
        if is_too_deep(&value) {
            return Err(unusable("the response is nested too deep".to_owned()));
        }
        Ok(value)
    }
}

const NOT_PUBLIC: &str =
    "the address is not public; write `private = true` if the call is meant for this machine or its network";

impl fmt::Debug for HttpCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpCall({} {})", self.method, self.description.url)
    }
}

impl PartialEq for HttpCall {
    fn eq(&self, other: &Self) -> bool {
        self.description == other.description
    }
}

impl From<HttpCallError> for NodeError {
    fn from(error: HttpCallError) -> Self {
        match error.kind {
            HttpFailureKind::NotSent | HttpFailureKind::Transient => Self::transient(error.reason),
            HttpFailureKind::Refused | HttpFailureKind::Impossible | HttpFailureKind::Unusable => {
                Self::permanent(error.reason)
            }
        }
    }
}

/// Whether a part of the path is `.` or `..`, also percent-encoded: whoever parses the address removes it, and with `..` the
/// part before it.
fn has_dot_segment(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.split(['/', '\\'])
        .any(|segment| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | ".."))
}

/// Scheme, host and port, which no template may change.
fn fixed_origin(url: &str) -> Result<String, String> {
    let host_end = url
        .find("://")
        .map(|at| at + 3)
        .and_then(|start| url[start..].find(['/', '?', '#']).map(|end| start + end).or(Some(url.len())));
    let Some(host_end) = host_end else {
        return Err("`url` begins with `http://` or `https://`".to_owned());
    };
    if url[..host_end].contains('{') {
        return Err("`url`: the scheme, host and port are fixed; a template may fill the path and the query"
            .to_owned());
    }
    let parsed = Url::parse(&url[..host_end]).map_err(|error| format!("`url`: {error}"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err("`url` begins with `http://` or `https://`".to_owned());
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err("`url` has a name or a password; use `key_variable`".to_owned());
    }
    Ok(parsed.origin().ascii_serialization())
}

/// The headers of the file, as templates.
fn header_templates(
    description: &HttpDescription,
    key: Option<&HeaderName>,
) -> Result<Vec<(HeaderName, String)>, String> {
    let mut headers = Vec::new();
    for (name, text) in &description.headers {
        let parsed = HeaderName::try_from(name.as_str()).map_err(|_| format!("`{name}` is no header"))?;
        if OWN_HEADERS.contains(&parsed.as_str()) {
            return Err(format!("the header `{name}` is set by Doran; leave it out"));
        }
        if key == Some(&parsed) {
            return Err(format!("the header `{name}` carries the key; leave it out of `headers`"));
        }
        header_value(&parsed, text)?;
        headers.push((parsed, text.clone()));
    }
    Ok(headers)
}

/// A text as the value of a header. What would end the header, or be read in another way on the other side, is refused.
fn header_value(name: &HeaderName, text: &str) -> Result<HeaderValue, String> {
    match HeaderValue::try_from(text) {
        Ok(value) if text.is_ascii() => Ok(value),
        _ => Err(format!(
            "the header `{name}` takes ASCII characters without line breaks; send other text in the `body`"
        )),
    }
}

/// The header that carries the key.
fn key_header(
    description: &HttpDescription,
    parts: &HttpCallParts,
) -> Result<Option<(HeaderName, HeaderValue)>, String> {
    let Some(variable) = &description.key_variable else {
        return match description.key_header {
            Some(_) => Err("`key_header` needs a `key_variable`".to_owned()),
            None => Ok(None),
        };
    };
    let key = (parts.variable)(variable)
        .ok_or_else(|| format!("the environment variable `{variable}` is not set"))?;
    let (name, text) = match &description.key_header {
        Some(name) => (
            HeaderName::try_from(name.as_str())
                .map_err(|_| format!("`key_header`: `{name}` is no header"))?,
            key.reveal().to_owned(),
        ),
        None => (AUTHORIZATION, format!("Bearer {}", key.reveal())),
    };
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| format!("the value of `{variable}` cannot be sent in a header"))?;
    value.set_sensitive(true);
    Ok(Some((name, value)))
}

fn send_error(error: &reqwest::Error) -> HttpCallError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    let mut innermost = None;
    while let Some(inner) = source {
        innermost = Some(inner.to_string());
        source = inner.source();
    }
    let reason = innermost.unwrap_or_else(|| "broken off".to_owned());
    if reason.contains("not public") {
        return impossible(NOT_PUBLIC.to_owned());
    }
    let kind = if error.is_connect() { HttpFailureKind::NotSent } else { HttpFailureKind::Transient };
    let reason = if error.is_timeout() { "no response in time".to_owned() } else { reason };
    HttpCallError { reason, kind }
}

fn impossible(reason: String) -> HttpCallError {
    HttpCallError { reason, kind: HttpFailureKind::Impossible }
}

fn unusable(reason: String) -> HttpCallError {
    HttpCallError { reason, kind: HttpFailureKind::Unusable }
}

fn transient(reason: String) -> HttpCallError {
    HttpCallError { reason, kind: HttpFailureKind::Transient }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(url: &str, expected: Result<&str, &str>) {
        match (fixed_origin(url), expected) {
            (Ok(origin), Ok(expected)) => assert_eq!(origin, expected, "{url}"),
            (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{url}: {reason}"),
            (got, _) => panic!("{url}: {got:?}"),
        }
    }

    #[test]
    fn no_template_decides_where_a_call_goes() {
        check("https://api.example/a/{{ values.b }}", Ok("https://api.example"));
        check("http://127.0.0.1:8000?q={{ question }}", Ok("http://127.0.0.1:8000"));
        check("http://{{ values.host }}/a", Err("fixed"));
        check("http://a{{ values.host }}", Err("fixed"));
        check("{{ values.url }}", Err("begins with"));
        check("file:///etc/passwd", Err("begins with"));
        check("http://me:pw@a.example/", Err("key_variable"));
    }

    #[test]
    fn what_fills_a_url_stays_in_its_place() {
        let description = HttpDescription {
            url: "http://a.example/items/{{ values.id }}?q={{ question }}".to_owned(),
            method: Some("GET".to_owned()),
            ..HttpDescription::default()
        };
        let call = HttpCall::new(&description, &HttpCallParts::default()).expect("a call");
        let variables = json!({ "question": "a&b=c 가", "values": { "id": "../../admin?x#y@evil" } });
        let rendered = call.render(&variables, &variables).expect("a URL");
        assert_eq!(
            rendered.url.as_str(),
            "http://a.example/items/..%2F..%2Fadmin%3Fx%23y%40evil?q=a%26b%3Dc%20%EA%B0%80"
        );
        assert_eq!(rendered.body, None);
    }

    #[test]
    fn no_value_changes_the_path() {
        let description = HttpDescription {
            url: "http://a.example/customers/{{ values.id }}/all".to_owned(),
            ..HttpDescription::default()
        };
        let call = HttpCall::new(&description, &HttpCallParts::default()).expect("a call");
        for id in [".", "..", "%2e", "%2E.", ".%2e", "a/..", "..b", "...", ""] {
            let variables = json!({ "values": { "id": id } });
            match call.render(&variables, &variables) {
                Ok(rendered) => {
                    assert_eq!(rendered.url.path().split('/').count(), 4, "{id}: {}", rendered.url);
                    assert!(rendered.url.path().starts_with("/customers/"), "{id}: {}", rendered.url);
                }
                Err(error) => {
                    assert!(matches!(id, "." | ".."), "{id}: {}", error.reason);
                    assert_eq!(error.kind, HttpFailureKind::Impossible);
                }
            }
        }
    }

    #[test]
    fn mistakes_are_reported_before_a_call_is_made() {
        let error = |change: fn(&mut HttpDescription)| {
            let mut description =
                HttpDescription { url: "http://a.example/".to_owned(), ..HttpDescription::default() };
            change(&mut description);
            HttpCall::new(&description, &HttpCallParts::default()).expect_err("a mistake")
        };
        assert!(error(|one| one.method = Some("FETCH".to_owned())).contains("`method` is `FETCH`"));
        assert!(error(|one| (one.once, one.retries) = (true, Some(1))).contains("at most once"));
        assert!(
            error(|one| one.key_variable = Some("NO_SUCH_KEY".to_owned()))
                .contains("`NO_SUCH_KEY` is not set")
        );
        assert!(error(|one| one.key_header = Some("x-key".to_owned())).contains("key_variable"));
        assert!(error(|one| one.timeout_seconds = Some(0)).contains("timeout_seconds"));
        let header = |name: &'static str, value: &'static str| {
            let mut description =
                HttpDescription { url: "http://a.example/".to_owned(), ..HttpDescription::default() };
            description.headers.insert(name.to_owned(), value.to_owned());
            HttpCall::new(&description, &HttpCallParts::default()).expect_err("a mistake")
        };
        assert!(header("a b", "").contains("`a b`"));
        assert!(header("x-a", "1\r\nx-b: 2").contains("line breaks"));
        assert!(header("x-a", "팀").contains("ASCII"));
        assert!(header("Host", "b.example").contains("`Host` is set by Doran"));
        assert!(header("Idempotency-Key", "1").contains("set by Doran"));
    }
}
