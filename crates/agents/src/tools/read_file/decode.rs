//! From bytes to text: UTF-8, UTF-16 and the Korean code page 949.

/// What bytes are as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DecodedText {
    pub(super) text: String,
    /// `UTF-8`, `UTF-16LE`, `UTF-16BE`, `CP949`.
    pub(super) encoding: &'static str,
    /// Some bytes meant nothing and were replaced.
    pub(super) broken: bool,
}

/// The text of `bytes`, or `None` if they are no text. If `cut`, the end may lie inside a character.
pub(super) fn decode(bytes: &[u8], cut: bool) -> Option<DecodedText> {
    if let Some((encoding, mark)) = encoding_rs::Encoding::for_bom(bytes) {
        return Some(decode_as(encoding, encoding_name(encoding), &bytes[mark..], cut));
    }
    if let Some(encoding) = utf16_without_mark(bytes) {
        return Some(decode_as(encoding, encoding_name(encoding), bytes, cut));
    }
    if is_binary(bytes) {
        return None;
    }
    let utf8 = decode_as(encoding_rs::UTF_8, "UTF-8", bytes, cut);
    if !utf8.broken {
        return Some(utf8);
    }
    let korean = decode_as(encoding_rs::EUC_KR, "CP949", bytes, cut);
    Some(if korean.broken { utf8 } else { korean })
}

fn decode_as(
    encoding: &'static encoding_rs::Encoding,
    name: &'static str,
    bytes: &[u8],
    cut: bool,
) -> DecodedText {
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut text =
        String::with_capacity(decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(bytes.len() * 3));
    let (_, _, broken) = decoder.decode_to_string(bytes, &mut text, !cut);
    DecodedText { text, encoding: name, broken }
}

fn encoding_name(encoding: &'static encoding_rs::Encoding) -> &'static str {
    if encoding == encoding_rs::UTF_16LE {
        "UTF-16LE"
    } else if encoding == encoding_rs::UTF_16BE {
        "UTF-16BE"
    } else {
        "UTF-8"
    }
}

/// Text of mostly Latin letters in UTF-16 has a zero in every other byte.
fn utf16_without_mark(bytes: &[u8]) -> Option<&'static encoding_rs::Encoding> {
    let sample = &bytes[..bytes.len().min(4096) & !1];
    if sample.len() < 4 {
        return None;
    }
    let zeros = |first: usize| sample.iter().skip(first).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd, pairs) = (zeros(0), zeros(1), sample.len() / 2);
    match () {
        () if odd * 10 > pairs * 7 && even * 20 < pairs => Some(encoding_rs::UTF_16LE),
        () if even * 10 > pairs * 7 && odd * 20 < pairs => Some(encoding_rs::UTF_16BE),
        () => None,
    }
}

fn is_binary(bytes: &[u8]) -> bool {
    let sample = &bytes[..bytes.len().min(8192)];
    let odd = sample.iter().filter(|byte| matches!(byte, 0x01..=0x08 | 0x0e..=0x1a | 0x1c..=0x1f)).count();
    sample.contains(&0) || odd * 20 > sample.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_in_the_encodings_people_have() {
        let korean = "가나다 ABC\n";
        let utf16 = |little: bool| -> Vec<u8> {
            korean
                .encode_utf16()
                .flat_map(|unit| if little { unit.to_le_bytes() } else { unit.to_be_bytes() })
                .collect()
        };
        let marked = |mark: [u8; 2], bytes: Vec<u8>| [mark.to_vec(), bytes].concat();
        let latin: Vec<u8> = "plain text".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let cases = [
            ("UTF-8", korean.as_bytes().to_vec(), Some((korean, "UTF-8", false))),
            (
                "UTF-8 with a mark",
                [b"\xef\xbb\xbf", korean.as_bytes()].concat(),
                Some((korean, "UTF-8", false)),
            ),
            ("UTF-16LE", marked([0xff, 0xfe], utf16(true)), Some((korean, "UTF-16LE", false))),
            ("UTF-16BE", marked([0xfe, 0xff], utf16(false)), Some((korean, "UTF-16BE", false))),
            ("UTF-16 without a mark", latin, Some(("plain text", "UTF-16LE", false))),
            ("CP949", b"\xb0\xa1\xb3\xaa\xb4\xd9 \x8c\x63".to_vec(), Some(("가나다 똠", "CP949", false))),
            ("neither", b"abc\xff\xff def".to_vec(), Some(("abc\u{fffd}\u{fffd} def", "UTF-8", true))),
            ("ELF", b"\x7fELF\x02\x01\x01\0\0\0\0\0".to_vec(), None),
            ("nothing", Vec::new(), Some(("", "UTF-8", false))),
        ];
        for (name, bytes, expected) in cases {
            let found = decode(&bytes, false);
            let expected =
                expected.map(|(text, encoding, broken)| DecodedText { text: text.into(), encoding, broken });
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn a_cut_inside_a_character_breaks_nothing() {
        let bytes = "가나다".as_bytes();
        let cut = decode(&bytes[..8], true).expect("text");
        assert_eq!((cut.text.as_str(), cut.broken), ("가나", false));
    }
}
