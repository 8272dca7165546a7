//! Hostile files, each with the expected result. The numbers are those of the list of hostile inputs in the book.

use std::io::{Cursor, Write};
use std::time::{Duration, Instant};

use doran_retrieval::ingest::{IngestFailureKind, ReadLimits};
use doran_retrieval::{Document, split_into_passages};
use zip::write::SimpleFileOptions;

use crate::{jailed_reader, read_in_jail};

type ExpectedRead = Result<&'static str, &'static [IngestFailureKind]>;

const TOO_LARGE: ExpectedRead = Err(&[IngestFailureKind::TooLarge]);
const CORRUPT: ExpectedRead = Err(&[IngestFailureKind::Corrupt]);

/// Reads a file in the jail and checks the result: words that must be in the text, or the allowed failures.
async fn check(case: &str, name: &str, bytes: &[u8], expected: ExpectedRead) {
    let Some(found) = read_in_jail(&jailed_reader(ReadLimits::default()), name, bytes).await else { return };
    match (found, expected) {
        (Ok(found), Ok(words)) => assert!(found.text.contains(words), "{case}: {}", found.text),
        (Err(failure), Err(kinds)) => assert!(kinds.contains(&failure.kind), "{case}: {failure:?}"),
        (found, expected) => panic!("{case}: {found:?} is not {expected:?}"),
    }
}

pub(crate) fn zip_of_parts(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in parts {
        file.start_file(*name, SimpleFileOptions::default()).expect("a part");
        file.write_all(bytes).expect("written");
    }
    file.finish().expect("a zip").into_inner()
}

const WORD_NAMESPACE: &str = "xmlns:w='http://schemas.openxmlformats.org/wordprocessingml/2006/main'";

pub(crate) fn docx_with_body(body: &str) -> Vec<u8> {
    let document = format!("<w:document {WORD_NAMESPACE}><w:body>{body}</w:body></w:document>");
    zip_of_parts(&[("word/document.xml", document.as_bytes())])
}

fn xlsx_with_sheet(sheet: &str) -> Vec<u8> {
    zip_of_parts(&[
        ("xl/workbook.xml", b"<workbook><sheets><sheet name='S' id='r1'/></sheets></workbook>"),
        ("xl/_rels/workbook.xml.rels", b"<R><Relationship Id='r1' Target='worksheets/sheet1.xml'/></R>"),
        ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
    ])
}

#[tokio::test]
async fn a_zip_that_grows_without_end_is_too_large() {
    let zeros = vec![b' '; 150 << 20];
    check("one part", "a.docx", &zip_of_parts(&[("word/document.xml", &zeros)]), TOO_LARGE).await;
    drop(zeros);
    let bomb = zip_of_parts(&[("word/document.xml", &vec![b'x'; 50 << 20])]);
    let nested = zip_of_parts(&[
        ("inner.zip", &bomb),
        ("word/media/a.zip", &bomb),
        (
            "word/document.xml",
            format!("<w:document {WORD_NAMESPACE}><w:p><w:r><w:t>겉</w:t></w:r></w:p></w:document>")
                .as_bytes(),
        ),
    ]);
    check("zips in zips are not opened", "a.docx", &nested, Ok("겉")).await;
    let names: Vec<String> = (0..10_001).map(|at| format!("p{at}")).collect();
    let mut parts: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    parts.push(("word/document.xml", b"<a/>"));
    check("too many parts", "a.docx", &zip_of_parts(&parts), TOO_LARGE).await;
}

#[tokio::test]
async fn a_sheet_is_what_it_holds_not_what_it_declares() {
    let sheet = "<worksheet><dimension ref='A1:XFD1048576'/><sheetData><row r='1048576'><c r='XFD1048576' t='inlineStr'><is><t>마지막 칸</t></is></c></row></sheetData></worksheet>";
    check("one cell far away", "a.xlsx", &xlsx_with_sheet(sheet), Ok("| 마지막 칸 |")).await;
    let cells = "<row>".to_owned() + &"<c><v>1</v></c>".repeat(20_000) + "</row>";
    let wide = format!("<worksheet><sheetData>{cells}</sheetData></worksheet>");
    check("a row of 20,000 cells", "a.xlsx", &xlsx_with_sheet(&wide), Ok("| 1 | 1 |")).await;
}

#[tokio::test]
async fn nothing_in_xml_expands_or_reaches_out() {
    let laughs = "<!DOCTYPE l [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'><!ENTITY c '&b;&b;&b;&b;&b;&b;&b;&b;'>]>";
    let document =
        format!("{laughs}<w:document {WORD_NAMESPACE}><w:p><w:r><w:t>&c;</w:t></w:r></w:p></w:document>");
    check("billion laughs", "a.docx", &zip_of_parts(&[("word/document.xml", document.as_bytes())]), CORRUPT)
        .await;
    let canary = std::env::temp_dir().join("doran-canary");
    std::fs::write(&canary, "CANARY").expect("a canary");
    let outside = format!(
        "<!DOCTYPE l [<!ENTITY a SYSTEM 'file://{}'>]><w:document {WORD_NAMESPACE}><w:p><w:r><w:t>&a;</w:t></w:r></w:p></w:document>",
        canary.display()
    );
    check(
        "an entity from outside",
        "a.docx",
        &zip_of_parts(&[("word/document.xml", outside.as_bytes())]),
        CORRUPT,
    )
    .await;
    check("an unknown entity", "a.docx", &docx_with_body("<w:p><w:r><w:t>&nbsp;</w:t></w:r></w:p>"), CORRUPT)
        .await;
    let deep = docx_with_body(&"<w:p>".repeat(100_000));
    check("elements 100,000 deep", "a.docx", &deep, CORRUPT).await;
    let tables = docx_with_body(&("<w:tbl><w:tr><w:tc>".repeat(60) + &"</w:tc></w:tr></w:tbl>".repeat(60)));
    check("tables 60 deep", "a.docx", &tables, TOO_LARGE).await;
}

#[cfg(feature = "pdf")]
pub(crate) mod pdf {
    use super::*;

    const ANY_READ_FAILURE: ExpectedRead = Err(&[
        IngestFailureKind::Corrupt,
        IngestFailureKind::NoText,
        IngestFailureKind::TooLarge,
        IngestFailureKind::TimedOut,
        IngestFailureKind::OutOfMemory,
        IngestFailureKind::Crashed,
    ]);

    pub(crate) fn pdf_of_objects(objects: &[String]) -> Vec<u8> {
        let mut bytes = b"%PDF-1.7\n".to_vec();
        let mut places = Vec::new();
        for (at, object) in objects.iter().enumerate() {
            places.push(bytes.len());
            bytes.extend_from_slice(format!("{} 0 obj\n{object}\nendobj\n", at + 1).as_bytes());
        }
        let start = bytes.len();
        let rows: String = places.iter().map(|place| format!("{place:010} 00000 n \n")).collect();
        let size = objects.len() + 1;
        bytes.extend_from_slice(format!("xref\n0 {size}\n0000000000 65535 f \n{rows}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF").as_bytes());
        bytes
    }

    #[tokio::test]
    async fn a_table_of_objects_without_end_is_a_failure() {
        let stream = "1 0 obj\n<< /Type /XRef /Size 1 /W [0 0 0] /Index [0 9223372036854775807] /Length 0 >>\nstream\n\nendstream\nendobj\n";
        let bytes = format!("%PDF-1.5\n{stream}startxref\n9\n%%EOF");
        check("an endless index", "a.pdf", bytes.as_bytes(), ANY_READ_FAILURE).await;
    }

    #[tokio::test]
    async fn a_stream_that_grows_without_end_is_a_failure() {
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        let zeros = vec![b' '; 1 << 20];
        for _ in 0..700 {
            packed.write_all(&zeros).expect("packed");
        }
        let packed = packed.finish().expect("packed");
        let objects = [
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
            "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /MediaBox [0 0 10 10] >>".to_owned(),
        ];
        let mut bytes = b"%PDF-1.7\n".to_vec();
        let mut places = Vec::new();
        for (at, object) in objects.iter().enumerate() {
            places.push(bytes.len());
            bytes.extend_from_slice(format!("{} 0 obj\n{object}\nendobj\n", at + 1).as_bytes());
        }
        places.push(bytes.len());
        bytes.extend_from_slice(
            format!("4 0 obj\n<< /Filter /FlateDecode /Length {} >>\nstream\n", packed.len()).as_bytes(),
        );
        bytes.extend_from_slice(&packed);
        bytes.extend_from_slice(b"\nendstream\nendobj\n");
        let start = bytes.len();
        let rows: String = places.iter().map(|place| format!("{place:010} 00000 n \n")).collect();
        bytes.extend_from_slice(format!("xref\n0 5\n0000000000 65535 f \n{rows}trailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n{start}\n%%EOF").as_bytes());
        check("700 MB of blanks", "a.pdf", &bytes, ANY_READ_FAILURE).await;
        // A predictor row that is larger than any memory.
        for columns in ["2147483647", "9223372036854775807"] {
            let parts = format!("/DecodeParms << /Predictor 12 /Columns {columns} >> /Length ");
            let at = bytes.windows(8).position(|window| window == b"/Length ").expect("there");
            let mut wide = bytes[..at].to_vec();
            wide.extend_from_slice(parts.as_bytes());
            wide.extend_from_slice(&bytes[at + 8..]);
            check(columns, "a.pdf", &wide, ANY_READ_FAILURE).await;
        }
    }

    #[tokio::test]
    async fn arrays_100_000_deep_cost_one_child_at_most() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let objects = [
            format!("<< /Type /Catalog /Pages 2 0 R /X {deep} >>"),
            "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
            format!("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 10 10] /X {deep} >>"),
        ];
        check("deep arrays", "a.pdf", &pdf_of_objects(&objects), ANY_READ_FAILURE).await;
        let ring = [
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>".to_owned(),
        ];
        check("pages that are their own pages", "a.pdf", &pdf_of_objects(&ring), ANY_READ_FAILURE).await;
    }

    #[tokio::test]
    async fn encrypted_truncated_and_pictures_are_distinguished() {
        check(
            "encrypted",
            "a.pdf",
            &crate::read_fixture("encrypted.pdf"),
            Err(&[IngestFailureKind::Encrypted]),
        )
        .await;
        check("truncated", "a.pdf", &crate::read_fixture("report.pdf")[..20_000], CORRUPT).await;
        check("pictures", "a.pdf", &crate::read_fixture("picture.pdf"), Err(&[IngestFailureKind::NoText]))
            .await;
    }
}

#[tokio::test]
async fn a_hwpx_that_lacks_a_section_it_names_is_broken() {
    let contents = "<opf:package xmlns:opf='o'><opf:manifest><opf:item href='Contents/section0.xml'/><opf:item href='Contents/section1.xml'/></opf:manifest></opf:package>";
    let section =
        "<hs:sec xmlns:hs='s' xmlns:hp='p'><hp:p><hp:run><hp:t>하나</hp:t></hp:run></hp:p></hs:sec>";
    let first = ("Contents/section0.xml", section.as_bytes());
    let hpf = ("Contents/content.hpf", contents.as_bytes());
    check("a section is missing", "a.hwpx", &zip_of_parts(&[hpf, first]), CORRUPT).await;
    let whole = zip_of_parts(&[hpf, first, ("Contents/section1.xml", section.as_bytes())]);
    if let Some(found) = read_in_jail(&jailed_reader(ReadLimits::default()), "a.hwpx", &whole).await {
        assert_eq!(found.expect("text").text, "하나\n\n하나");
    }
}

#[tokio::test]
async fn parts_that_point_outside_are_refused() {
    for name in ["../../x", "/etc/xx", "a/../../x", "a\\..\\x", "C:/x"] {
        // A zip writer rejects such a name, so another of the same length is written and then replaced.
        let stand_in = "z".repeat(name.len());
        let mut bytes = zip_of_parts(&[("word/document.xml", b"<w:document/>"), (&stand_in, b"x")]);
        let places: Vec<usize> = (0..bytes.len() - name.len())
            .filter(|at| bytes[*at..].starts_with(stand_in.as_bytes()))
            .collect();
        assert_eq!(places.len(), 2, "in the part and in the directory");
        for at in places {
            bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
        }
        check(name, "a.docx", &bytes, CORRUPT).await;
    }
    let mut file = zip::ZipWriter::new(Cursor::new(Vec::new()));
    file.add_symlink("word/document.xml", "/etc/passwd", SimpleFileOptions::default()).expect("a link");
    check("a link", "a.docx", &file.finish().expect("a zip").into_inner(), CORRUPT).await;
}

#[tokio::test]
async fn many_lines_and_one_endless_word_take_time_in_proportion() {
    let articles = |count: usize| (1..=count).map(|at| format!("제{at}조\n")).collect::<String>();
    let cases: [(&str, &dyn Fn(usize) -> String, usize); 4] = [
        ("a million lines", &|count| "짧다\n".repeat(count), 1_000_000),
        ("many paragraphs", &|count| "짧다\n\n".repeat(count), 300_000),
        ("a word of 10 MB", &|count| "가".repeat(count), 3_400_000),
        (
            "many articles, and the first again and again",
            &|count| format!("{}x\n제{}조\n{}", articles(count), count + 1, "제1조\n".repeat(9 * count)),
            20_000,
        ),
    ];
    for (case, text, count) in cases {
        let mut best = [Duration::MAX; 2];
        let mut is_in_proportion = false;
        // Quadratic work takes 64 times as long however often it is measured. A busy machine slows a few measurements.
        for _ in 0..10 {
            for (best, text) in best.iter_mut().zip([text(count / 8), text(count)]) {
                let began = Instant::now();
                let Some(found) =
                    read_in_jail(&jailed_reader(ReadLimits::default()), "a.txt", text.as_bytes()).await
                else {
                    return;
                };
                assert!(
                    !split_into_passages(&Document::new("d", "t", found.expect(case).text)).is_empty(),
                    "{case}"
                );
                *best = began.elapsed().min(*best);
            }
            is_in_proportion = best[1] < best[0] * 28;
            if is_in_proportion {
                break;
            }
        }
        assert!(is_in_proportion, "{case}: {best:?}");
    }
}

#[tokio::test]
async fn sizes_at_the_edge_and_names_that_lie() {
    let limits = ReadLimits { input: 100, ..ReadLimits::default() };
    let small = jailed_reader(limits);
    for (bytes, expected) in
        [(0, Some(IngestFailureKind::Empty)), (100, None), (101, Some(IngestFailureKind::TooLarge))]
    {
        let Some(found) = read_in_jail(&small, "a.txt", &vec![b'x'; bytes]).await else { return };
        assert_eq!(found.err().map(|failure| failure.kind), expected, "{bytes} bytes");
    }
    check(
        "a Word file called PDF",
        "a.pdf",
        &docx_with_body("<w:p><w:r><w:t>속은 워드</w:t></w:r></w:p>"),
        Ok("속은 워드"),
    )
    .await;
    check(
        "a program called text",
        "a.txt",
        b"\x7FELF\x02\x01\x01\0\0\0",
        Err(&[IngestFailureKind::Unsupported]),
    )
    .await;
    check("an old Word file", "a.docx", &cfb_with("/WordDocument"), Err(&[IngestFailureKind::Unsupported]))
        .await;
    check(
        "a locked Word file",
        "a.docx",
        &cfb_with("/EncryptedPackage"),
        Err(&[IngestFailureKind::Encrypted]),
    )
    .await;
}

fn cfb_with(stream: &str) -> Vec<u8> {
    let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).expect("a file");
    file.create_stream(stream).expect("a stream").write_all(b"x").expect("written");
    file.flush().expect("flushed");
    file.into_inner().into_inner()
}

/// Builds an HWP file whose header has these flags.
fn hwp_with_flags(flags: u32, section: &[u8]) -> Vec<u8> {
    let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).expect("a file");
    let mut header = vec![0; 256];
    header[..17].copy_from_slice(b"HWP Document File");
    header[36..40].copy_from_slice(&flags.to_le_bytes());
    file.create_stream("/FileHeader").expect("a stream").write_all(&header).expect("written");
    file.create_storage("/BodyText").expect("a storage");
    file.create_stream("/BodyText/Section0").expect("a stream").write_all(section).expect("written");
    file.flush().expect("flushed");
    file.into_inner().into_inner()
}

#[tokio::test]
async fn a_hwp_says_that_it_is_locked_and_does_not_grow_without_end() {
    check("a password", "a.hwp", &hwp_with_flags(0b11, b""), Err(&[IngestFailureKind::Encrypted])).await;
    check("for distribution", "a.hwp", &hwp_with_flags(0b101, b""), Err(&[IngestFailureKind::Locked])).await;
    let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&vec![0; 250 << 20]).expect("packed");
    check("250 MB of zeros", "a.hwp", &hwp_with_flags(1, &packed.finish().expect("packed")), TOO_LARGE).await;
    let nested: Vec<u8> = (0..1000u32)
        .flat_map(|level| [(66 | level << 10, ()), (71 | level << 10, ()), (72 | level << 10, ())])
        .flat_map(|(head, ())| head.to_le_bytes())
        .collect();
    check(
        "paragraphs 1,000 deep",
        "a.hwp",
        &hwp_with_flags(0, &nested),
        Err(&[IngestFailureKind::Corrupt, IngestFailureKind::NoText]),
    )
    .await;
    check(
        "a record longer than all",
        "a.hwp",
        &hwp_with_flags(0, &[0x42, 0, 0xF0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]),
        CORRUPT,
    )
    .await;
}
