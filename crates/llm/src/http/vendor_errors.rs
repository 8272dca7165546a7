//! Converts vendor errors to [`ModelError`], sorted by remedy.
//!
//! A vendor's message is shown only if it is a sentence in a JSON error. It is shortened, and words that may be a key
//! are removed. HTML is never shown.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::ModelApiKey;
use crate::error::ModelError;

/// The maximum length of a vendor's message that is shown.
const MAX_VENDOR_MESSAGE_CHARS: usize = 300;

/// Converts a response that is not a success.
pub(crate) fn classify_error_response(
    status: u16,
    retry_after: Option<Duration>,
    body: &[u8],
    secret: &ModelApiKey,
) -> ModelError {
    let body: Option<Value> = serde_json::from_slice(body).ok();
    classify_error_body(status, retry_after, &VendorErrorBody::parse(body.as_ref()), secret)
}

fn classify_error_body(
    status: u16,
    retry_after: Option<Duration>,
    fault: &VendorErrorBody,
    secret: &ModelApiKey,
) -> ModelError {
    let retry_after = retry_after.or(fault.retry_after);
    let message = safe_vendor_message(&fault.message, secret);
    let reason =
        if message.is_empty() { format!("status {status}") } else { format!("status {status}: {message}") };
    if let Some(error) = fault.error_by_code_or_message(&reason, retry_after) {
        return error;
    }
    match status {
        401 | 403 => ModelError::Unauthorized { reason: format!("status {status}") },
        402 => ModelError::OutOfCredit { reason },
        413 => ModelError::TooLong { reason },
        429 => ModelError::RateLimited { reason, retry_after },
        404 => ModelError::Rejected {
            reason: format!("{reason} (is the name of the model and the address right?)"),
        },
        300..=399 => ModelError::Rejected {
            reason: format!(
                "status {status}: the server sends the request elsewhere, and a key is not sent along"
            ),
        },
        408 | 409 | 425 | 500..=599 => ModelError::Unavailable { reason, retry_after, source: None },
        _ => ModelError::Rejected { reason },
    }
}

/// Converts an error inside a stream whose status was a success.
pub(crate) fn classify_stream_error(error: &Value, secret: &ModelApiKey) -> ModelError {
    let wrapped = serde_json::json!({ "error": error });
    let fault = VendorErrorBody::parse(Some(&wrapped));
    let message = safe_vendor_message(&fault.message, secret);
    let reason = if message.is_empty() { "an error without words".to_owned() } else { message };
    if let Some(error) = fault.error_by_code_or_message(&reason, fault.retry_after) {
        return error;
    }
    match fault.status {
        Some(status @ 400..=599) => classify_error_body(status, fault.retry_after, &fault, secret),
        _ => ModelError::Unavailable { reason, retry_after: fault.retry_after, source: None },
    }
}

/// Returns a vendor's message shortened, on one line and without keys.
pub(crate) fn safe_vendor_message(message: &str, secret: &ModelApiKey) -> String {
    let message = if secret.is_empty() { message.to_owned() } else { without_key(message, secret.reveal()) };
    let words = message.split_whitespace().map(|word| if looks_like_api_key(word) { "…" } else { word });
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_VENDOR_MESSAGE_CHARS) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

/// Removes a key from a message in every spelling that a program may give it: as it is, reversed, with other case, as
/// base64, in hexadecimal, and with any of its characters percent-encoded.
fn without_key(message: &str, key: &str) -> String {
    let reversed: String = key.chars().rev().collect();
    let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut spellings = vec![key.to_owned(), reversed, hex];
    for alphabet in [BASE64, BASE64_URL] {
        spellings.extend((0..3).map(|offset| base64_core(key.as_bytes(), offset, alphabet)));
    }
    // Short pieces would remove ordinary words.
    spellings.retain(|spelling| spelling.len() >= MIN_KEY_SPELLING_BYTES || spelling == key);
    let mut message = message.to_owned();
    for spelling in &spellings {
        message = replace_ignoring_case(&message, spelling);
    }
    // A message with percent signs is shown decoded if it holds the key that way.
    let decoded = percent_decoded(&message);
    let folded = decoded.to_ascii_lowercase();
    let hides_key = spellings.iter().any(|spelling| folded.contains(&spelling.to_ascii_lowercase()));
    if hides_key { without_key(&decoded, key) } else { message }
}

/// Shorter spellings of a key are not looked for.
const MIN_KEY_SPELLING_BYTES: usize = 8;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The base64 of bytes that stand `offset` bytes behind the start of a group of three, as far as it depends on nothing
/// else.
fn base64_core(bytes: &[u8], offset: usize, alphabet: &[u8; 64]) -> String {
    let padded: Vec<u8> = std::iter::repeat_n(0, offset).chain(bytes.iter().copied()).collect();
    let letters = (0..padded.len() * 8 / 6).map(|at| {
        let bit = at * 6;
        let pair =
            u16::from(padded[bit / 8]) << 8 | padded.get(bit / 8 + 1).map_or(0, |byte| u16::from(*byte));
        char::from(alphabet[usize::from(pair >> (10 - bit % 8) & 0x3f)])
    });
    // The first letters also hold bits of what stands before.
    letters.skip((offset * 8).div_ceil(6)).collect()
}

fn replace_ignoring_case(text: &str, pattern: &str) -> String {
    // Upper and lower case of ASCII letters have the same length, so places in one text are places in the other.
    let (folded, pattern) = (text.to_ascii_lowercase(), pattern.to_ascii_lowercase());
    let (mut replaced, mut after) = (String::new(), 0);
    for (at, found) in folded.match_indices(&pattern) {
        replaced.push_str(&text[after..at]);
        replaced.push('…');
        after = at + found.len();
    }
    replaced.push_str(&text[after..]);
    replaced
}

fn percent_decoded(text: &str) -> String {
    let (bytes, mut decoded, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.filter(|_| bytes[at] == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Parses `Retry-After` in seconds or as a date, or `retry-after-ms`.
pub(crate) fn parse_retry_after(
    milliseconds: Option<&str>,
    seconds: Option<&str>,
    now: SystemTime,
) -> Option<Duration> {
    if let Some(milliseconds) = milliseconds.and_then(|text| text.trim().parse::<f64>().ok()) {
        return duration_from_seconds(milliseconds / 1_000.0);
    }
    let text = seconds?.trim();
    match text.parse::<f64>() {
        Ok(seconds) => duration_from_seconds(seconds),
        Err(_) => {
            let date = httpdate::parse_http_date(text).ok()?;
            Some(date.duration_since(now).unwrap_or_default())
        }
    }
}

fn duration_from_seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// Returns whether a word looks like a key. Vendors mask keys in different ways (`sk-ab***yz`), so the prefix decides.
fn looks_like_api_key(word: &str) -> bool {
    let word = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let begins = ["sk-", "sk_", "gsk_", "xai-", "up_", "AIza", "pplx-", "csk-", "nv-", "fw_", "tgp_"];
    word.len() > 8 && begins.iter().any(|begin| word.starts_with(begin))
}

/// The fields that the error objects of all vendors have in common.
#[derive(Default)]
struct VendorErrorBody {
    message: String,
    codes: String,
    status: Option<u16>,
    retry_after: Option<Duration>,
}

impl VendorErrorBody {
    fn parse(body: Option<&Value>) -> Self {
        // Gemini wraps a streamed error in a list. Some servers put the message beside `error` instead of inside it.
        let body = match body {
            Some(Value::Array(list)) => list.first(),
            other => other,
        };
        let Some(body) = body else { return Self::default() };
        let error = body.get("error").unwrap_or(body);
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut message = match error {
            Value::String(message) => message.clone(),
            other => text(other, "message"),
        };
        if message.is_empty() {
            message = text(body, "message");
        }
        if message.is_empty() {
            message = text(body, "detail");
        }
        let mut codes = ["code", "type", "status", "reason"].map(|key| text(error, key)).join(" ");
        let details = error.get("details").and_then(Value::as_array);
        for detail in details.into_iter().flatten() {
            codes.push(' ');
            codes.push_str(&text(detail, "reason"));
        }
        let delay = details.into_iter().flatten().find_map(|detail| detail.get("retryDelay")?.as_str());
        let retry_after =
            delay.and_then(|delay| duration_from_seconds(delay.trim_end_matches('s').parse().ok()?));
        let status = error.get("code").or_else(|| error.get("status")).and_then(Value::as_u64);
        let status = status.and_then(|status| u16::try_from(status).ok());
        Self { message, codes: codes.to_ascii_lowercase(), status, retry_after }
    }

    /// Returns the error that the vendor's code or message implies, whatever the status.
    fn error_by_code_or_message(&self, reason: &str, retry_after: Option<Duration>) -> Option<ModelError> {
        let reason = reason.to_owned();
        let message = self.message.to_ascii_lowercase();
        let coded = |words: &[&str]| words.iter().any(|word| self.codes.contains(word));
        let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
        if coded(&["insufficient_quota", "billing", "insufficient_balance", "credit"])
            || says(&["credit balance is too low", "insufficient balance", "exceeded your current quota"])
                && !coded(&["resource_exhausted"])
        {
            return Some(ModelError::OutOfCredit { reason });
        }
        if coded(&["invalid_api_key", "api_key_invalid", "authentication", "permission"]) {
            return Some(ModelError::Unauthorized { reason: "the vendor does not know or allow it".into() });
        }
        if coded(&["context_length", "request_too_large", "string_above_max_length"])
            || says(&[
                "maximum context length",
                "context window",
                "prompt is too long",
                "exceeds the maximum number of tokens",
                "exceed context",
                "exceeds the available context size",
                "too many tokens",
            ])
        {
            return Some(ModelError::TooLong { reason });
        }
        if coded(&["content_filter", "content_policy", "responsibleai", "safety"]) {
            return Some(ModelError::Filtered { reason });
        }
        if coded(&["rate_limit", "resource_exhausted", "too_many_requests"]) {
            return Some(ModelError::RateLimited { reason, retry_after });
        }
        if coded(&["overloaded", "server_error", "api_error", "unavailable"]) {
            return Some(ModelError::Unavailable { reason, retry_after, source: None });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_classification(status: u16, body: &str, expected: &str) {
        let error = classify_error_response(status, None, body.as_bytes(), &ModelApiKey::new("topsecret"));
        assert_eq!(format!("{}: {error}", error.code()), expected);
    }

    #[test]
    fn a_key_is_hidden_in_every_spelling() {
        let key = ModelApiKey::new("topsecret-0123456789");
        for message in [
            "bad key topsecret-0123456789!",
            "bad key TOPSECRET-0123456789!",
            "bad key 9876543210-tercespot!",
            "bad key dG9wc2VjcmV0LTAxMjM0NTY3ODk=!",
            "Basic OnRvcHNlY3JldC0wMTIzNDU2Nzg5!",
            "bad key 746f707365637265742d30313233343536373839!",
            "bad key topsecret%2D0123456789!",
            "bad key %74%6F%70%73%65%63%72%65%74-0123456789!",
        ] {
            let safe = safe_vendor_message(message, &key);
            let left = safe.chars().filter(|char| char.is_alphanumeric()).count();
            assert!(safe.contains('…') && left <= 13, "{message} → {safe}");
        }
        assert_eq!(safe_vendor_message("100% of your quota", &key), "100% of your quota");
    }

    #[test]
    fn a_fault_is_sorted_by_what_can_be_done() {
        let unauthorized = "unauthorized: the API key is missing or was refused: ";
        check_classification(
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-abcd***wxyz"}}"#,
            &format!("{unauthorized}status 401"),
        );
        check_classification(
            400,
            r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
            &format!("{unauthorized}the vendor does not know or allow it"),
        );
        check_classification(
            429,
            r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
            "out_of_credit: the account at the model's vendor has run out: status 429: You exceeded your current quota",
        );
        check_classification(429, "", "rate_limited: the model is asked too often: status 429");
        check_classification(
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#,
            "too_long: the conversation is too long for the model: status 400: This model's maximum context length is 8192 tokens.",
        );
        check_classification(
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "unavailable: the model cannot answer now: status 529: Overloaded",
        );
        check_classification(
            400,
            r#"{"error":{"message":"filtered","code":"content_filter"}}"#,
            "filtered: the model's vendor held the request back: status 400: filtered",
        );
        check_classification(
            422,
            r#"{"detail":"no such field"}"#,
            "rejected: the model does not take the request: status 422: no such field",
        );
    }

    #[test]
    fn a_raw_page_is_never_shown() {
        check_classification(
            502,
            "<html><h1>Bad Gateway</h1></html>",
            "unavailable: the model cannot answer now: status 502",
        );
    }

    #[test]
    fn a_key_is_never_shown() {
        check_classification(
            400,
            r#"{"error":{"message":"header topsecret and sk-ant-REDACTED are odd"}}"#,
            "rejected: the model does not take the request: status 400: header … and … are odd",
        );
    }

    #[test]
    fn a_long_sentence_is_cut() {
        let message = safe_vendor_message(&"가".repeat(1_000), &ModelApiKey::none());
        assert_eq!(message.chars().count(), MAX_VENDOR_MESSAGE_CHARS + 1);
    }

    #[test]
    fn the_wait_is_read_in_seconds_milliseconds_and_dates() {
        let now = httpdate::parse_http_date("Sun, 15 Nov 2026 09:00:00 GMT").expect("date");
        let check = |milliseconds, seconds, expected: Option<u64>| {
            assert_eq!(parse_retry_after(milliseconds, seconds, now), expected.map(Duration::from_millis));
        };
        check(None, Some("2"), Some(2_000));
        check(None, Some("0.5"), Some(500));
        check(Some("1500"), Some("2"), Some(1_500));
        check(None, Some("Sun, 15 Nov 2026 09:00:07 GMT"), Some(7_000));
        check(None, Some("Sun, 15 Nov 2026 08:00:00 GMT"), Some(0));
        check(None, Some("-3"), None);
        check(None, Some("soon"), None);
        check(None, None, None);
    }
}
