//! Foreign words, made fit to be shown: nothing invisible, nothing endless.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::tools::text_cleaning::strip_invisible;

/// What stands for content of a kind that a later version of the protocol may bring.
const UNKNOWN_CONTENT: &str = "[content of a kind that is not known here]";

/// `text` without what people cannot see, cut after `most` bytes.
pub(super) fn clean_and_truncate(text: &str, most: usize) -> String {
    let mut text = strip_invisible(text).text;
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

/// What a call gave, as text. Links are named and not followed; one to anything but the web is not even named.
pub(super) fn result_text(result: &CallToolResult, most: usize) -> String {
    let mut text = String::new();
    for block in &result.content {
        let piece = match block {
            ContentBlock::Text(piece) => piece.text.clone(),
            ContentBlock::Image(image) => omitted_content("image", &image.mime_type, image.data.len()),
            ContentBlock::Audio(audio) => omitted_content("audio", &audio.mime_type, audio.data.len()),
            ContentBlock::Resource(resource) => match &resource.resource {
                ResourceContents::TextResourceContents { text, .. } => text.clone(),
                ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                    omitted_content("file", mime_type.as_deref().unwrap_or("unknown type"), blob.len())
                }
                _ => UNKNOWN_CONTENT.to_string(),
            },
            ContentBlock::ResourceLink(link) => link_text(&link.name, &link.uri),
            _ => UNKNOWN_CONTENT.to_string(),
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&clean_and_truncate(&piece, most));
        if text.len() > most {
            break;
        }
    }
    if text.is_empty()
        && let Some(structured) = &result.structured_content
    {
        text = clean_and_truncate(&structured.to_string(), most);
    }
    text.truncate(text.floor_char_boundary(most));
    text
}

fn omitted_content(what: &str, kind: &str, encoded: usize) -> String {
    format!("[{what} {}, {} bytes, not shown]", clean_and_truncate(kind, 100), encoded / 4 * 3)
}

fn link_text(name: &str, address: &str) -> String {
    let name = clean_and_truncate(name, 200);
    if address.starts_with("https://") || address.starts_with("http://") {
        format!("[link: {name} {}]", clean_and_truncate(address, 2000))
    } else {
        let scheme = clean_and_truncate(address.split(':').next().unwrap_or_default(), 20);
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
        assert_eq!(result_text(&result, 60), expected);
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
        assert_eq!(
            clean_and_truncate("a\u{202e}b\u{200b}c\u{e0041}d\u{1b}[31me\r\n가", 100),
            "abcd[31me\n가"
        );
        assert_eq!(clean_and_truncate("가나다", 6), "가나…");
    }
}
