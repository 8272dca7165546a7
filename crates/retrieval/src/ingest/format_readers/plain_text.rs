//! Reads plain text and Markdown in any of the supported encodings.

use std::ops::Range;

use encoding_rs::{EUC_KR, Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::super::text_cleaning::clean_text;
use super::super::{ExtractedText, FileFormat, IngestFailure, IngestFailureKind, ReadLimits};
use crate::contract::find_article_references;

/// Reads text. The title of Markdown is the heading at the start, or else the `title` of the front matter; that of plain
/// text is a first line that stands apart. Form feeds start pages.
pub(in super::super) fn read_plain_text(
    format: FileFormat,
    bytes: &[u8],
    limits: &ReadLimits,
) -> Result<ExtractedText, IngestFailure> {
    let decoded = decode_text(bytes, None)
        .ok_or_else(|| IngestFailure::new(IngestFailureKind::Corrupt, "text in an unknown encoding"))?;
    let (cleaned, hidden) = clean_text(&decoded);
    let mut text = cleaned.into_owned();
    text.truncate(text.trim_end().len());
    if text.len() > limits.text {
        return Err(IngestFailure::new(IngestFailureKind::TooLarge, format!("{} bytes of text", text.len())));
    }
    let feeds: Vec<usize> = text.match_indices('\u{c}').map(|(at, _)| at + 1).take(limits.pages).collect();
    let pages = if feeds.is_empty() { Vec::new() } else { [0].into_iter().chain(feeds).collect() };
    let mut title = (format == FileFormat::Text).then(|| title_line(&text)).flatten();
    if format == FileFormat::Markdown {
        let fields = front_matter_range(&text);
        title = fields.as_ref().and_then(|fields| front_matter_title(&text[fields.clone()]));
        let body = fields.as_ref().map_or(0, |fields| fields.end + FRONT_MATTER_FENCE.len());
        let first = text[body..].lines().find(|line| !line.trim().is_empty());
        let heading = first.and_then(|line| line.strip_prefix("# ")).map(|title| title.trim().to_owned());
        title = heading.or(title);
        if let Some(fields) = fields {
            // With its fences the last field would be parsed as a heading.
            text.replace_range(fields.end..fields.end + FRONT_MATTER_FENCE.len(), "   ");
            text.replace_range(..FRONT_MATTER_FENCE.len(), "   ");
        }
    }
    // A form feed becomes a line end, which has the same size.
    Ok(ExtractedText { format, title, text: text.replace('\u{c}', "\n"), pages, hidden })
}

/// The longest first line that is a title, in characters.
const MAX_TITLE_LINE_CHARS: usize = 60;
/// The most lines above the first empty line of a text with a title: the title, and lines such as an edition or a date.
const MAX_TITLE_BLOCK_LINES: usize = 3;

/// Returns the first line of a text that has marks for nothing, if it stands apart as a title does: it is short, ends
/// without a stop, and only lines like it stand between it and an empty line, below which the text goes on. Lines of
/// lists, articles, settings and programs are no titles.
fn title_line(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| line.is_empty());
    let block: Vec<&str> =
        lines.by_ref().take_while(|line| !line.is_empty()).take(MAX_TITLE_BLOCK_LINES + 1).collect();
    let is_short = |line: &&str| {
        line.chars().count() <= MAX_TITLE_LINE_CHARS && !line.ends_with(['.', '!', '?', '。', ',', ';'])
    };
    let first = block.first().copied()?;
    let is_marked = first.contains([':', '=', '{', '}', '<', '>', '|', '\t'])
        || !first.starts_with(|char: char| char.is_alphanumeric() || "「『《".contains(char))
        || first.trim_start_matches(|char: char| char.is_ascii_digit()).starts_with(['.', ')'])
        || !find_article_references(first).is_empty();
    let stands_apart = block.len() <= MAX_TITLE_BLOCK_LINES
        && block.iter().all(is_short)
        && lines.any(|line| !line.is_empty());
    (stands_apart && !is_marked).then(|| first.to_owned())
}

/// The line before and after the front matter of a Markdown text.
const FRONT_MATTER_FENCE: &str = "---";
/// Front matter with more lines than this is treated as text.
const MAX_FRONT_MATTER_LINES: usize = 100;

/// Returns the range of the front matter between its fences, or `None` if the text starts otherwise, such as with a
/// horizontal rule.
fn front_matter_range(text: &str) -> Option<Range<usize>> {
    let mut lines = text.split_inclusive('\n');
    let mut at = lines.next().filter(|line| line.trim_end() == FRONT_MATTER_FENCE)?.len();
    let start = at;
    for line in lines.take(MAX_FRONT_MATTER_LINES) {
        if line.trim_end() == FRONT_MATTER_FENCE {
            return (at > start).then_some(start..at);
        }
        let is_field = line.split_once(':').is_some_and(|(name, _)| !name.trim().is_empty());
        if !is_field && !line.starts_with([' ', '\t', '-', '#']) && !line.trim().is_empty() {
            return None;
        }
        at += line.len();
    }
    None
}

fn front_matter_title(fields: &str) -> Option<String> {
    let title = fields.lines().find_map(|line| line.strip_prefix("title:"))?;
    let title = title.trim().trim_matches(['"', '\'']).trim();
    (!title.is_empty()).then(|| title.to_owned())
}

/// Decodes UTF-8, UTF-16, CP949 or the declared encoding. UTF-8 that is truncated or has a few invalid bytes is decoded
/// with U+FFFD in those places and never taken for CP949, although parts of it would be valid there.
pub(in super::super) fn decode_text(bytes: &[u8], declared: Option<&'static Encoding>) -> Option<String> {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return decode_strictly(encoding, &bytes[mark..]);
    }
    if let Some(encoding) = detect_utf16(bytes) {
        return decode_strictly(encoding, bytes);
    }
    decode_strictly(UTF_8, bytes)
        .or_else(|| declared.and_then(|encoding| decode_strictly(encoding, bytes)))
        .or_else(|| match Utf8Damage::measure(bytes) {
            stains if stains.is_certainly_utf8() => Some(String::from_utf8_lossy(bytes).into_owned()),
            stains if stains.starts_with_wide_char => None,
            stains => decode_strictly(EUC_KR, bytes)
                .or_else(|| stains.is_negligible().then(|| String::from_utf8_lossy(bytes).into_owned())),
        })
}

/// How much of a byte string is valid UTF-8.
struct Utf8Damage {
    total_bytes: usize,
    /// Bytes that belong to no character.
    invalid_bytes: usize,
    /// Bytes of characters that are encoded in three bytes or more, such as Hangul.
    wide_char_bytes: usize,
    /// Whether such a character precedes the first invalid byte. Text in CP949 hardly ever starts like that.
    starts_with_wide_char: bool,
    /// Whether the only error is a truncated last character.
    is_cut: bool,
}

impl Utf8Damage {
    fn measure(bytes: &[u8]) -> Self {
        let (mut bad, mut wide) = (0, 0);
        for chunk in bytes.utf8_chunks() {
            bad += chunk.invalid().len();
            wide += chunk.valid().chars().map(char::len_utf8).filter(|len| *len > 2).sum::<usize>();
        }
        let (sound, is_cut) = match std::str::from_utf8(bytes) {
            Ok(_) => (bytes, false),
            Err(error) => (&bytes[..error.valid_up_to()], error.error_len().is_none()),
        };
        let begins_wide = String::from_utf8_lossy(sound).chars().any(|char| char.len_utf8() > 2);
        Self {
            total_bytes: bytes.len(),
            invalid_bytes: bad,
            wide_char_bytes: wide,
            starts_with_wide_char: begins_wide,
            is_cut,
        }
    }

    /// Returns whether this is certainly UTF-8.
    fn is_certainly_utf8(&self) -> bool {
        self.starts_with_wide_char && self.is_cut || self.wide_char_bytes > self.invalid_bytes * 8
    }

    /// Returns whether hardly any byte is invalid.
    fn is_negligible(&self) -> bool {
        self.invalid_bytes * 100 <= self.total_bytes
    }
}

fn decode_strictly(encoding: &'static Encoding, bytes: &[u8]) -> Option<String> {
    encoding.decode_without_bom_handling_and_without_replacement(bytes).map(std::borrow::Cow::into_owned)
}

/// Detects UTF-16 without a byte order mark: spaces and digits have a zero byte, always on the same side.
fn detect_utf16(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(4096) & !1];
    let zeros = |side: usize| head.iter().skip(side).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    let enough = head.len() / 20;
    match () {
        () if bytes.len() % 2 == 1 || head.len() < 4 => None,
        // 가 and some other syllables also end in a zero byte, so a few on the other side prove nothing.
        () if odd > enough && even * 2 < odd => Some(UTF_16LE),
        () if even > enough && odd * 2 < even => Some(UTF_16BE),
        () => None,
    }
}

/// Returns whether bytes are the start of a UTF-16 text without a byte order mark, and not other data with many zeros.
pub(in super::super) fn looks_like_utf16(head: &[u8]) -> bool {
    let Some(encoding) = detect_utf16(head) else { return false };
    let (text, _) = encoding.decode_without_bom_handling(&head[..head.len() & !1]);
    let usual = |char: &char| {
        matches!(char, ' '..='~' | '\t' | '\n' | '\r' | '\u{a0}'..='\u{ff}' | '\u{1100}'..='\u{11ff}')
            || matches!(char, '\u{2000}'..='\u{9fff}' | '가'..='힣' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}')
    };
    let known = text.chars().filter(usual).count();
    known * 20 >= text.chars().count() * 19
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn korean_is_read_in_every_usual_encoding() {
        let words = "연차휴가는 1년에 15일을 준다.";
        let wide = |le: bool| {
            words
                .encode_utf16()
                .flat_map(|unit| if le { unit.to_le_bytes() } else { unit.to_be_bytes() })
                .collect::<Vec<u8>>()
        };
        let cp949 = EUC_KR.encode(words).0.into_owned();
        let marked = [b"\xEF\xBB\xBF".to_vec(), words.as_bytes().to_vec()].concat();
        for bytes in [
            words.as_bytes().to_vec(),
            marked,
            wide(true),
            wide(false),
            cp949,
            [vec![0xFF, 0xFE], wide(true)].concat(),
        ] {
            assert_eq!(decode_text(&bytes, None).as_deref(), Some(words));
        }
        // 똠 is not in KS X 1001 but in CP949.
        assert_eq!(decode_text(&EUC_KR.encode("똠방각하").0, None).as_deref(), Some("똠방각하"));
        assert_eq!(decode_text(b"\x80\xFF\x81", None), None);
    }

    #[test]
    fn one_bad_byte_does_not_cost_a_text() {
        let words = "출장비는 하루 5만 원이다. 영수증을 붙인다.";
        for cut in (3..words.len()).filter(|at| !words.is_char_boundary(*at)) {
            let read = decode_text(&words.as_bytes()[..cut], None).expect("text");
            let sound = read.trim_end_matches('\u{FFFD}');
            assert!(words.starts_with(sound) && words.len() - sound.len() > 0, "{cut}: {read}");
            assert!(read.ends_with('\u{FFFD}'), "{cut}: {read}");
        }
        assert_eq!(decode_text(&"출장".as_bytes()[..5], None).as_deref(), Some("출\u{FFFD}"));
        let mut stained = words.as_bytes().to_vec();
        stained.insert("출장비".len(), 0xFF);
        assert_eq!(decode_text(&stained, None), Some(words.replacen("출장비", "출장비\u{FFFD}", 1)));
        let mut english = "Receipts are kept for five years. ".repeat(10).into_bytes();
        english[40] = 0x80;
        assert!(decode_text(&english, None).expect("text").contains("five years"));
        // Korean in CP949 is recognised however much English surrounds it.
        for korean in ["연차휴가", "출장 여비를 정산한다.", "漢字와 한글", "뷁"] {
            let text = format!("{} {korean} {}", "rules ".repeat(100), "rules ".repeat(100));
            assert_eq!(decode_text(&EUC_KR.encode(&text).0, None), Some(text));
        }
        let failure =
            read_plain_text(FileFormat::Text, b"\x80\xFF\x81", &ReadLimits::default()).expect_err("no text");
        assert_eq!(failure.kind, IngestFailureKind::Corrupt);
    }

    #[test]
    fn fields_above_a_text_give_it_a_title_and_no_heading() {
        let read = |text: &str| {
            let found =
                read_plain_text(FileFormat::Markdown, text.as_bytes(), &ReadLimits::default()).expect("text");
            (found.title, found.text)
        };
        let fields = "---\ntitle: \"휴가 규정\"\ntags:\n  - 인사\n---\n\n연차는 15일이다.";
        let (title, text) = read(fields);
        assert_eq!(title.as_deref(), Some("휴가 규정"));
        assert_eq!(text.len(), fields.len());
        assert!(text.contains("인사\n   \n") && !text.contains("---"), "{text}");
        assert_eq!(read("---\ntitle: 가\n---\n# 나\n다").0.as_deref(), Some("나"));
        for other in ["---\n\n그냥 글이다\n\n---\n", "---\ntitle: 가\n글", "---", "---\n---\n글", "# 가"]
        {
            assert_eq!(read(other).1, other.trim_end(), "{other}");
        }
    }

    #[test]
    fn a_first_line_that_stands_apart_is_the_title_of_a_text() {
        let title = |text: &str| {
            let read = read_plain_text(FileFormat::Text, text.as_bytes(), &ReadLimits::default());
            read.expect("text").title.unwrap_or_default()
        };
        assert_eq!(
            title("\n사내 생활 안내서\n2026년판 / 피플팀 발행\n\n연차는 15일이다."),
            "사내 생활 안내서"
        );
        assert_eq!(title("2026년 책 축제\n\n10월에 연다."), "2026년 책 축제");
        for other in [
            "연차는 15일이다.",
            "사내 생활 안내서",
            "연차는 15일이다.\n\n병가는 60일이다.",
            "첫 줄이 있고\n둘째 줄이 있고\n셋째 줄이 있고\n넷째 줄이 있다\n\n끝",
            "첫 줄은\n이렇게 이어진다.\n\n끝",
            "1. 목적\n\n이 글은 짧다.",
            "제1조(목적)\n\n이 규정은 목적을 정한다.",
            "name: doran\n\nport: 9000",
            "- 하나\n\n둘",
        ] {
            assert_eq!(title(other), "", "{other}");
        }
    }

    #[test]
    fn a_form_feed_begins_a_page() {
        let found = read_plain_text(FileFormat::Text, "하나\u{c}둘".as_bytes(), &ReadLimits::default())
            .expect("text");
        assert_eq!((found.text.as_str(), found.pages), ("하나\n둘", vec![0, 7]));
    }
}
