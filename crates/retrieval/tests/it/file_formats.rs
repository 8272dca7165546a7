//! Reads a real file of every format, and damaged copies of it.

use doran_retrieval::ingest::{ExtractedText, FileFormat, IngestFailureKind, ReadLimits, extract_text};

use crate::read_fixture;

fn read(name: &str) -> ExtractedText {
    extract_text(name, &read_fixture(name), &ReadLimits::default())
        .unwrap_or_else(|failure| panic!("{name}: {failure:?}"))
}

fn check(name: &str, format: FileFormat, title: Option<&str>, text: &str) {
    let found = read(name);
    assert_eq!((found.format, found.title.as_deref(), found.text.as_str()), (format, title, text), "{name}");
}

#[test]
fn word_keeps_numbers_tables_and_pages() {
    check(
        "numbered.docx",
        FileFormat::Docx,
        Some("비밀유지 계약"),
        "# 비밀유지계약서\n\n제1조 (목적)\n\n① 갑은 비밀을 지킨다.\n② 을도 비밀을 지킨다.\n가. 문서\n나. 파일\n\n제2조 (기간)\n\n1년으로 한다.\n\n글상자\n\n| 구분 | 금액 |\n| --- | --- |\n| 합계 100원 |  |",
    );
    let found = read("numbered.docx");
    assert_eq!(found.pages, [0, found.text.find("제2조").expect("there")]);
}

#[test]
fn hwpx_keeps_numbers_tables_and_the_order_of_sections() {
    check(
        "numbered.hwpx",
        FileFormat::Hwpx,
        None,
        "제1조 (목적)\n\n① 갑은 일한다.\n② 을은 쉰다.\n\n제2조 (기간)\n\n표는 아래와 같다.\n\n| 가 | 나 |\n| --- | --- |\n| 다 | 안 쪽 |\n\n줄\n바꿈\t칸\n\n끝.",
    );
}

#[test]
fn hwp_of_hangul_itself_is_read() {
    let hello = read("hello.hwp");
    assert!(hello.format == FileFormat::Hwp && hello.text.contains("Hello World"), "{}", hello.text);
    check("draw_text.hwp", FileFormat::Hwp, None, "글상자1\n\n글상자2");
}

#[test]
fn a_workbook_is_its_visible_cells() {
    check(
        "sheet.xlsx",
        FileFormat::Xlsx,
        None,
        "## 경비\n\n| 항목 | 금액 | 날짜 | 비율 |\n| --- | --- | --- | --- |\n| 식비 | 40000 | 2026-03-01 | 7% |\n| 숙박비 | 120000.5 | 2026-12-31 | 100% |\n\n| 따로 떨어진 칸 |\n| --- |",
    );
}

#[test]
fn texts_are_read_in_korean_encodings() {
    let words = "연차휴가는 1년에 15일을 준다.\n똠방각하도 쉰다.";
    check("cp949.txt", FileFormat::Text, None, words);
    check("utf16.txt", FileFormat::Text, None, words);
    check("cp949.csv", FileFormat::Csv, None, "| 이름 | 부서 |\n| --- | --- |\n| 김도란 | 인사, 총무 |");
    check("euckr.html", FileFormat::Html, Some("안내"), "# 휴가 안내\n\n연차는 15일이다.");
}

#[cfg(feature = "pdf")]
#[test]
fn a_pdf_is_read_page_by_page() {
    for name in ["report.pdf"] {
        let found = read(name);
        assert_eq!((found.format, found.pages.len()), (FileFormat::Pdf, 2), "{name}: {}", found.text);
        for words in [
            "# 월간 보고서\n\n## 요약\n\n",
            "| 구분 | 금액 |\n| --- | --- |\n| 매출 | 120 |\n| 비용 | 80 |",
            "3월 매출은",
            "7퍼센트 늘었다.",
            "서버 고장은 한 번 있었고 30분 만에 고쳤다.",
        ] {
            assert!(found.text.contains(words), "{name}: {words}\n{}", found.text);
        }
        assert!(
            found.text[found.pages[1]..].starts_with("## 고장 현황"),
            "{name}: {:?}",
            &found.text[found.pages[1]..]
        );
    }
}

/// Builds a PDF with one page for each content; the second page is rotated.
#[cfg(feature = "pdf")]
fn pdf_of_pages(contents: &[&[u8]], filter: &str) -> Vec<u8> {
    let kids: String = (0..contents.len()).map(|at| format!("{} 0 R ", 4 + 2 * at)).collect();
    let mut objects: Vec<Vec<u8>> = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!("<< /Type /Pages /Kids [{kids}] /Count {} >>", contents.len()).into_bytes(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_vec(),
    ];
    for (at, content) in contents.iter().enumerate() {
        let turn = if at == 1 { "/Rotate 90" } else { "" };
        let page = format!(
            "<< /Type /Page /Parent 2 0 R {turn} /MediaBox [0 0 595 842] /Contents {} 0 R /Resources << /Font << /F 3 0 R >> >> >>",
            5 + 2 * at
        );
        let mut stream = format!("<< {filter} /Length {} >>\nstream\n", content.len()).into_bytes();
        stream.extend_from_slice(content);
        stream.extend_from_slice(b"\nendstream");
        objects.extend([page.into_bytes(), stream]);
    }
    let mut bytes = b"%PDF-1.7\n".to_vec();
    let mut places = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        places.push(bytes.len());
        bytes.extend_from_slice(format!("{} 0 obj\n", at + 1).as_bytes());
        bytes.extend_from_slice(object);
        bytes.extend_from_slice(b"\nendobj\n");
    }
    let (start, size) = (bytes.len(), objects.len() + 1);
    let rows: String = places.iter().map(|place| format!("{place:010} 00000 n \n")).collect();
    bytes.extend_from_slice(format!("xref\n0 {size}\n0000000000 65535 f \n{rows}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF").as_bytes());
    bytes
}

#[cfg(feature = "pdf")]
#[test]
fn a_page_that_lies_on_its_side_is_read_and_a_stamp_along_the_edge_is_not() {
    let upright = "BT /F 12 Tf 72 700 Td (The first page stands and speaks of whales.) Tj ET";
    let lying = "BT /F 12 Tf 0 1 -1 0 95 72 Tm (A wide table lists) Tj ET BT /F 12 Tf 0 1 -1 0 110 72 Tm (sharks and squids.) Tj ET";
    let stamped = format!("{upright} BT /F 12 Tf 0 1 -1 0 20 300 Tm (draft) Tj ET");
    let bytes = pdf_of_pages(&[upright.as_bytes(), lying.as_bytes(), stamped.as_bytes()], "");
    let found = extract_text("a.pdf", &bytes, &ReadLimits::default()).expect("text");
    let page = |at: usize| {
        found.text[found.pages[at]..found.pages.get(at + 1).copied().unwrap_or(found.text.len())].trim()
    };
    assert_eq!(page(0), "The first page stands and speaks of whales.");
    assert_eq!(page(1), "A wide table lists\nsharks and squids.");
    assert_eq!(page(2), page(0));
}

#[cfg(feature = "pdf")]
#[test]
fn a_page_that_cannot_be_unpacked_is_not_passed_over() {
    use std::io::Write;
    let packed = |words: &str| {
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        for line in 0..60 {
            writeln!(packed, "BT /F 12 Tf 72 {} Td ({words} {line}) Tj ET", 800 - 12 * line).expect("packed");
        }
        packed.finish().expect("packed")
    };
    let (one, two) = (packed("whales"), packed("sharks"));
    let whole = pdf_of_pages(&[&one, &two], "/Filter /FlateDecode");
    assert!(extract_text("a.pdf", &whole, &ReadLimits::default()).expect("text").text.contains("sharks 59"));
    let mut broken = two.clone();
    for at in (10..broken.len() - 10).step_by(3) {
        broken[at] ^= 0x15;
    }
    let mut without_page = whole.clone();
    let count = whole.windows(8).position(|window| window == b"/Count 2").expect("there") + 7;
    without_page[count] = b'3';
    for bytes in [
        pdf_of_pages(&[&one, &broken], "/Filter /FlateDecode"),
        pdf_of_pages(&[&one, &two[..two.len() / 2]], "/Filter /FlateDecode"),
        without_page,
    ] {
        let kind = extract_text("a.pdf", &bytes, &ReadLimits::default()).map_err(|failure| failure.kind);
        assert_eq!(kind.map(|found| found.text), Err(IngestFailureKind::Corrupt));
    }
}

/// Reads a PDF of one page with a font and a content. `/X` is a form with the given content.
#[cfg(feature = "pdf")]
fn read_pdf_page(font: &str, content: &str, form: &str) -> String {
    let stream =
        |keys: &str, bytes: &str| format!("<< {keys} /Length {} >>\nstream\n{bytes}\nendstream", bytes.len());
    let bytes = crate::hostile_files::pdf::pdf_of_objects(&[
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> /XObject << /X 6 0 R >> >> >>".to_owned(),
        stream("", content),
        font.to_owned(),
        stream("/Type /XObject /Subtype /Form /BBox [0 0 595 842] /Matrix [1 0 0 1 0 -300]", form),
    ]);
    extract_text("a.pdf", &bytes, &ReadLimits::default()).expect("text").text.trim().to_owned()
}

#[cfg(feature = "pdf")]
const HELVETICA: &str = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>";

#[cfg(feature = "pdf")]
#[test]
fn a_declared_text_replaces_its_characters_and_ligatures_are_spelled_out() {
    let marked = "BT /F 12 Tf 72 700 Td (two) Tj /Span << /ActualText <FEFF0020> >> BDC (\\003) Tj EMC (words, e\\002cient) Tj ET";
    let with_ligature = format!(
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /Differences [2 /ffi] >> /FirstChar 2 /LastChar 126 /Widths [833 {}] >>",
        "500 ".repeat(124)
    );
    assert_eq!(read_pdf_page(&with_ligature, marked, ""), "two words, efficient");
    // One text for two lines does not say which word is on which.
    let lines =
        "/Span << /ActualText (replaced) >> BDC BT /F 12 Tf 14 TL 72 700 Td (first) Tj T* (second) Tj ET EMC";
    assert_eq!(read_pdf_page(HELVETICA, lines, ""), "first\nsecond");
}

#[cfg(feature = "pdf")]
#[test]
fn spaced_type_is_one_word_and_a_form_stands_where_its_page_puts_it() {
    let page = "BT /F 12 Tf 4 Tc 72 700 Td (heading) Tj 0 Tc 0 -40 Td (words ) Tj [(ap) 80 (art) -400 (too)] TJ ET q 1 0 0 1 0 200 cm /X Do Q BT /F 12 Tf 72 300 Td (last) Tj ET";
    let form = "BT /F 12 Tf 72 700 Td (inside) Tj ET";
    assert_eq!(read_pdf_page(HELVETICA, page, form), "heading\nwords apart too\n\ninside\n\nlast");
}

#[cfg(feature = "pdf")]
#[test]
fn korean_without_a_table_of_characters_and_vertical_korean_are_read() {
    assert_eq!(read("korea1.pdf").text.trim(), "연차휴가는 1년에 15일을 준다.");
    let vertical = "<< /Type /Font /Subtype /Type0 /BaseFont /HYSMyeongJo-Medium /Encoding /UniKS-UCS2-V /DescendantFonts [<< /Type /Font /Subtype /CIDFontType0 /BaseFont /HYSMyeongJo-Medium /CIDSystemInfo << /Registry (Adobe) /Ordering (Korea1) /Supplement 1 >> >>] >>";
    let hex = |text: &str| text.encode_utf16().map(|unit| format!("{unit:04X}")).collect::<String>();
    let columns = format!(
        "BT /F 12 Tf 300 700 Td <{}> Tj ET BT /F 12 Tf 280 700 Td <{}> Tj ET",
        hex("오른쪽 줄이 먼저"),
        hex("왼쪽 줄은 나중")
    );
    assert_eq!(read_pdf_page(vertical, &columns, ""), "오른쪽 줄이 먼저\n왼쪽 줄은 나중");
}

#[cfg(feature = "pdf")]
#[test]
fn a_pdf_that_only_its_owner_may_print_is_read() {
    for name in ["owner-rc4.pdf", "owner-aes.pdf"] {
        assert_eq!(read(name).text.trim(), "Receipts are kept for seven years.", "{name}");
    }
}

#[cfg(feature = "pdf")]
#[test]
fn a_pdf_says_why_it_has_no_words() {
    let half = read_fixture("report.pdf")[..20_000].to_vec();
    for (name, bytes, expected) in [
        ("encrypted.pdf", read_fixture("encrypted.pdf"), IngestFailureKind::Encrypted),
        ("picture.pdf", read_fixture("picture.pdf"), IngestFailureKind::NoText),
        ("half.pdf", half, IngestFailureKind::Corrupt),
    ] {
        let kind = extract_text(name, &bytes, &ReadLimits::default()).map_err(|failure| failure.kind);
        assert_eq!(kind.map(|found| found.text), Err(expected), "{name}");
    }
}

#[test]
fn broken_twins_fail_or_are_read_but_never_panic() {
    for name in ["numbered.docx", "numbered.hwpx", "hello.hwp", "draw_text.hwp", "sheet.xlsx"] {
        let whole = read_fixture(name);
        let half = extract_text(name, &whole[..whole.len() / 2], &ReadLimits::default());
        assert_eq!(
            half.map_err(|failure| failure.kind).map(|found| found.text),
            Err(IngestFailureKind::Corrupt),
            "{name} cut"
        );
        // Bytes are flipped all along the file. Any result is fine, as long as there is one.
        for step in 0..64 {
            let mut bytes = whole.clone();
            let at = bytes.len() * step / 64;
            bytes[at] ^= 0x55;
            let end = (at + 8).min(bytes.len());
            bytes[at..end].reverse();
            if let Err(failure) = extract_text(name, &bytes, &ReadLimits::default()) {
                assert!(!failure.kind.message_ko().is_empty(), "{name} at {at}");
            }
        }
    }
}
