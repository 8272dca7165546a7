//! Foreign words, made fit to be shown: nothing invisible, nothing endless.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::tools::clean;

/// What stands for content of a kind that a later version of the protocol may bring.
const NEWER: &str = "[content of a kind that is not known here]";

/// `text` without what people cannot see, cut after `most` bytes.
pub(super) fn plain(text: &str, most: usize) -> String {
    let mut text = clean(text).text;
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

/// What a call gave, as text. Links are named and not followed; one to anything but the web is not even named.
pub(super) fn text_of(result: &CallToolResult, most: usize) -> String {
    let mut text = String::new();
    for block in &result.content {
        let piece = match block {
            ContentBlock::Text(piece) => piece.text.clone(),
            ContentBlock::Image(image) => not_shown("image", &image.mime_type, image.data.len()),
            ContentBlock::Audio(audio) => not_shown("audio", &audio.mime_type, audio.data.len()),
            ContentBlock::Resource(resource) => match &resource.resource {
                ResourceContents::TextResourceContents { text, .. } => text.clone(),
                ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                    not_shown("file", mime_type.as_deref().unwrap_or("unknown type"), blob.len())
                }
                _ => NEWER.to_string(),
            },
            ContentBlock::ResourceLink(link) => linked(&link.name, &link.uri),
            _ => NEWER.to_string(),
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&plain(&piece, most));
        if text.len() > most {
            break;
        }
    }
    if text.is_empty()
        && let Some(structured) = &result.structured_content
    {
        text = plain(&structured.to_string(), most);
    }
    text.truncate(text.floor_char_boundary(most));
    text
}

fn not_shown(what: &str, kind: &str, encoded: usize) -> String {
    format!("[{what} {}, {} bytes, not shown]", plain(kind, 100), encoded / 4 * 3)
}

fn linked(name: &str, address: &str) -> String {
    let name = plain(name, 200);
    if address.starts_with("https://") || address.starts_with("http://") {
        format!("[link: {name} {}]", plain(address, 2000))
    } else {
        let scheme = plain(address.split(':').next().unwrap_or_default(), 20);
        format!("[link: {name}, refused: `{scheme}:` is not the web]")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]
    fn check(content: serde_json::Value, expected: &str) {
        let result: CallToolResult = serde_json::from_value(json!({ "content": content })).expect("a result");
        assert_eq!(text_of(&result, 60), expected);
    }

    #[test]
    fn every_kind_of_content_has_words() {
        check(json!([{ "type": "text", "text": "하나" }, { "type": "text", "text": "two" }]), "하나\ntwo");
        check(
            json!([{ "type": "image", "data": "AAAA", "mimeType": "image/png" }]),
            "[image image/png, 3 bytes, not shown]",
        );
        check(json!([{ "type": "resource", "resource": { "uri": "x:y", "text": "inside" } }]), "inside");
        check(json!([]), "");
    }

    #[test]
    fn links_are_not_followed_and_only_the_web_is_named() {
        check(
            json!([{ "type": "resource_link", "name": "a", "uri": "https://a.example/b" }]),
            "[link: a https://a.example/b]",
        );
        check(
            json!([{ "type": "resource_link", "name": "a", "uri": "file:///etc/passwd" }]),
            "[link: a, refused: `file:` is not the web]",
        );
    }

    #[test]
    fn words_end_and_hide_nothing() {
        check(json!([{ "type": "text", "text": "x".repeat(1000) }]), &"x".repeat(60));
        assert_eq!(plain("a\u{202e}b\u{200b}c\u{e0041}d\u{1b}[31me\r\n가", 100), "abcd[31me\n가");
        assert_eq!(plain("가나다", 6), "가나…");
    }
}
