//! What an MCP server gave, for a model: text without invisible characters and of limited length, and the images that
//! the settings let through.

use doran_llm::{ImageReference, TextOrigin};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use super::{McpImages, McpServer};
use crate::tools::ToolOutput;
use crate::tools::text_cleaning::strip_invisible;

/// What stands for content of a kind that a later version of the protocol may bring.
const UNKNOWN_CONTENT: &str = "[content of a kind that is not known here]";
/// The kinds of images that models read.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// The most images of one result, and the most bytes of all of them, encoded.
const MAX_IMAGES: usize = 8;
const MAX_IMAGE_BYTES: usize = 3 << 20;

/// `text` without what people cannot see, cut after `most` bytes.
pub(super) fn clean_and_truncate(text: &str, max_bytes: usize) -> String {
    let mut text = strip_invisible(text).text;
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes));
        text.push('…');
    }
    text
}

/// What a call gave.
pub(super) fn call_result(result: &CallToolResult, server: &McpServer) -> ToolOutput {
    let mut content = McpContent::new(server);
    result.content.iter().for_each(|block| content.add(block));
    if content.text.is_empty()
        && let Some(structured) = &result.structured_content
    {
        content.add_text(&structured.to_string());
    }
    content.into_output()
}

/// Content that is put together piece by piece, up to the limit of a server.
pub(super) struct McpContent {
    text: String,
    images: Vec<ImageReference>,
    max_bytes: usize,
    pass_images: McpImages,
}

impl McpContent {
    pub(super) fn new(server: &McpServer) -> Self {
        let (max_bytes, pass_images) = (server.bounds.output, server.images);
        Self { text: String::new(), images: Vec::new(), max_bytes, pass_images }
    }

    /// Adds a block. Links are named and not followed; one to anything but the web is not even named.
    pub(super) fn add(&mut self, block: &ContentBlock) {
        match block {
            ContentBlock::Text(piece) => self.add_text(&piece.text),
            ContentBlock::Image(image) => self.add_image(&image.mime_type, &image.data),
            ContentBlock::Audio(audio) => {
                self.add_text(&described_content(
                    "audio",
                    &audio.mime_type,
                    audio.data.len(),
                    ", not played",
                ));
            }
            ContentBlock::Resource(resource) => self.add_resource(&resource.resource),
            ContentBlock::ResourceLink(link) => self.add_text(&link_text(&link.name, &link.uri)),
            _ => self.add_text(UNKNOWN_CONTENT),
        }
    }

    /// Adds what a resource holds.
    pub(super) fn add_resource(&mut self, contents: &ResourceContents) {
        match contents {
            ResourceContents::TextResourceContents { text, .. } => self.add_text(text),
            ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                let kind = mime_type.as_deref().unwrap_or("unknown type");
                if kind.starts_with("image/") {
                    self.add_image(kind, blob);
                } else {
                    self.add_text(&described_content("file", kind, blob.len(), ", not shown"));
                }
            }
            _ => self.add_text(UNKNOWN_CONTENT),
        }
    }

    /// Adds words.
    pub(super) fn add_text(&mut self, piece: &str) {
        if self.text.len() > self.max_bytes {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&clean_and_truncate(piece, self.max_bytes));
    }

    /// Adds an image beside the text, or says why there is none.
    fn add_image(&mut self, kind: &str, data: &str) {
        let taken: usize = self.images.iter().map(|image| image.url.len()).sum();
        let is_base64 = data.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        let left_out = if self.pass_images == McpImages::Describe {
            ", not shown to the model"
        } else if !IMAGE_TYPES.contains(&kind) || !is_base64 {
            ", of a kind that models do not read"
        } else if self.images.len() >= MAX_IMAGES || taken + data.len() > MAX_IMAGE_BYTES {
            ", too large or too many"
        } else {
            let (url, media_type) = (format!("data:{kind};base64,{data}"), kind.to_owned());
            self.images.push(ImageReference { url, media_type, origin: TextOrigin::Web });
            ""
        };
        self.add_text(&described_content("image", kind, data.len(), left_out));
    }

    pub(super) fn into_output(mut self) -> ToolOutput {
        self.text.truncate(self.text.floor_char_boundary(self.max_bytes));
        ToolOutput { images: self.images, ..ToolOutput::text(self.text) }
    }
}

fn described_content(what: &str, kind: &str, encoded: usize, note: &str) -> String {
    format!("[{what} {}, {} bytes{note}]", clean_and_truncate(kind, 100), encoded / 4 * 3)
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
    use crate::tools::mcp::{McpLimits, McpTransport, McpTrust};

    #[allow(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]
    fn output(content: serde_json::Value, images: McpImages) -> ToolOutput {
        let result: CallToolResult = serde_json::from_value(json!({ "content": content })).expect("a result");
        let server = McpServer {
            name: "s".to_owned(),
            reach: McpTransport::Http { url: String::new(), headers: Default::default() },
            trust: McpTrust::None,
            images,
            bounds: McpLimits { output: 60, ..McpLimits::default() },
        };
        call_result(&result, &server)
    }

    #[allow(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]
    fn check(content: serde_json::Value, expected: &str) {
        assert_eq!(output(content, McpImages::Describe).text, expected);
    }

    #[test]
    fn every_kind_of_content_has_words() {
        check(json!([{ "type": "text", "text": "하나" }, { "type": "text", "text": "two" }]), "하나\ntwo");
        check(
            json!([{ "type": "image", "data": "AAAA", "mimeType": "image/png" }]),
            "[image image/png, 3 bytes, not shown to the model]",
        );
        check(json!([{ "type": "resource", "resource": { "uri": "x:y", "text": "inside" } }]), "inside");
        check(json!([]), "");
    }

    #[test]
    fn images_pass_where_the_settings_let_them() {
        let image = |kind: &str, data: &str| json!({ "type": "image", "data": data, "mimeType": kind });
        let pass = |content| output(json!([content]), McpImages::Pass);
        let passed = pass(image("image/png", "AAAA"));
        assert_eq!(passed.text, "[image image/png, 3 bytes]");
        assert_eq!(passed.images[0].url, "data:image/png;base64,AAAA");
        assert!(pass(image("image/svg+xml", "AAAA")).images.is_empty(), "a kind that no model reads");
        assert!(pass(image("image/png", "\"><script>")).images.is_empty(), "not base64");
        assert!(pass(image("image/png", &"A".repeat(4 << 20))).images.is_empty(), "too large");
        let blob = json!({ "uri": "x:y", "blob": "AAAA", "mimeType": "image/png" });
        assert_eq!(pass(json!({ "type": "resource", "resource": blob })).images.len(), 1);
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
