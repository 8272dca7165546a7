//! Every format, read from a real file, and its broken twins.

use doran_retrieval::ingest::{Extracted, FailureKind, Format, ReadLimits, extract};

use crate::fixture;

fn read(name: &str) -> Extracted {
    extract(name, &fixture(name), &ReadLimits::default())
        .unwrap_or_else(|failure| panic!("{name}: {failure:?}"))
}

fn check(name: &str, format: Format, title: Option<&str>, text: &str) {
    let found = read(name);
    assert_eq!((found.format, found.title.as_deref(), found.text.as_str()), (format, title, text), "{name}");
}

#[test]
fn word_keeps_numbers_tables_and_pages() {
    check(
        "numbered.docx",
        Format::Docx,
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
        Format::Hwpx,
        None,
        "제1조 (목적)\n\n① 갑은 일한다.\n② 을은 쉰다.\n\n제2조 (기간)\n\n표는 아래와 같다.\n\n| 가 | 나 |\n| --- | --- |\n| 다 | 안 쪽 |\n\n줄\n바꿈\t칸\n\n끝.",
    );
}

#[test]
fn hwp_of_hangul_itself_is_read() {
    let hello = read("hello.hwp");
    assert!(hello.format == Format::Hwp && hello.text.contains("Hello World"), "{}", hello.text);
    check("draw_text.hwp", Format::Hwp, None, "글상자1\n\n글상자2");
}

#[test]
fn a_workbook_is_its_visible_cells() {
    check(
        "sheet.xlsx",
        Format::Xlsx,
        None,
        "## 경비\n\n| 항목 | 금액 | 날짜 | 비율 |\n| --- | --- | --- | --- |\n| 식비 | 40000 | 2026-03-01 | 7% |\n| 숙박비 | 120000.5 | 2026-12-31 | 100% |\n\n| 따로 떨어진 칸 |\n| --- |",
    );
}

#[test]
fn texts_are_read_in_korean_encodings() {
    let words = "연차휴가는 1년에 15일을 준다.\n똠방각하도 쉰다.";
    check("cp949.txt", Format::Text, None, words);
    check("utf16.txt", Format::Text, None, words);
    check("cp949.csv", Format::Csv, None, "| 이름 | 부서 |\n| --- | --- |\n| 김도란 | 인사, 총무 |");
    check("euckr.html", Format::Html, Some("안내"), "# 휴가 안내\n\n연차는 15일이다.");
}

#[cfg(feature = "pdf")]
#[test]
fn a_pdf_is_read_page_by_page() {
    for name in ["report.pdf"] {
        let found = read(name);
        assert_eq!((found.format, found.pages.len()), (Format::Pdf, 2), "{name}: {}", found.text);
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

#[cfg(feature = "pdf")]
#[test]
fn a_pdf_says_why_it_has_no_words() {
    let half = fixture("report.pdf")[..20_000].to_vec();
    for (name, bytes, expected) in [
        ("encrypted.pdf", fixture("encrypted.pdf"), FailureKind::Encrypted),
        ("picture.pdf", fixture("picture.pdf"), FailureKind::NoText),
        ("half.pdf", half, FailureKind::Corrupt),
    ] {
        let kind = extract(name, &bytes, &ReadLimits::default()).map_err(|failure| failure.kind);
        assert_eq!(kind.map(|found| found.text), Err(expected), "{name}");
    }
}

#[test]
fn broken_twins_fail_or_are_read_but_never_panic() {
    for name in ["numbered.docx", "numbered.hwpx", "hello.hwp", "draw_text.hwp", "sheet.xlsx"] {
        let whole = fixture(name);
        let half = extract(name, &whole[..whole.len() / 2], &ReadLimits::default());
        assert_eq!(
            half.map_err(|failure| failure.kind).map(|found| found.text),
            Err(FailureKind::Corrupt),
            "{name} cut"
        );
        // Bytes turned over all along the file: whatever comes of it, it is an answer.
        for step in 0..64 {
            let mut bytes = whole.clone();
            let at = bytes.len() * step / 64;
            bytes[at] ^= 0x55;
            let end = (at + 8).min(bytes.len());
            bytes[at..end].reverse();
            if let Err(failure) = extract(name, &bytes, &ReadLimits::default()) {
                assert!(!failure.kind.ko().is_empty(), "{name} at {at}");
            }
        }
    }
}
