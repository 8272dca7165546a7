//! Reads PDF, page by page. The parser returns content streams and fonts. Characters with positions, lines, headings,
//! paragraphs and tables are found here, because heuristics made for Latin text join Korean words wrongly.

mod fonts;
mod layout;
mod page_content;
mod page_text;
mod word_breaks;

use hayro_syntax::object::Dict;
use hayro_syntax::object::dict::keys::{COUNT, PAGES};
use hayro_syntax::page::Page;
use hayro_syntax::{LoadPdfError, Pdf};

use super::super::markdown_writer::MarkdownWriter;
use super::super::{ExtractedText, FileFormat, IngestFailure, IngestFailureKind, ReadLimits};
use fonts::FontLoader;
use layout::{FontSizes, PdfBlock, PdfGlyph, PdfLine};
use page_content::PageBudget;
use word_breaks::WordBreaks;

/// Extracts the text of every page.
pub(in super::super) fn read_pdf(bytes: &[u8], limits: &ReadLimits) -> Result<ExtractedText, IngestFailure> {
    let document = Pdf::new(bytes.to_vec()).map_err(pdf_failure)?;
    let pages = document.pages();
    if pages.is_empty() {
        return Err(IngestFailure::corrupt("a PDF without pages"));
    }
    if pages.len() > limits.pages {
        return Err(IngestFailure::new(IngestFailureKind::TooLarge, format!("{} pages", pages.len())));
    }
    // The parser leaves out pages that it cannot read, and accepts half a file. The rest would be taken for the whole
    // document.
    let declared = declared_page_count(&document);
    if declared > pages.len() {
        return Err(IngestFailure::corrupt(format!("only {} of {declared} pages can be read", pages.len())));
    }
    let tail = &bytes[bytes.len().saturating_sub(64 << 10)..];
    if !tail.windows(5).any(|window| window == b"%%EOF") {
        return Err(IngestFailure::corrupt("a PDF without its end"));
    }
    let (mut sizes, mut breaks) = (FontSizes::default(), WordBreaks::default());
    let mut found_on = Vec::new();
    let mut length = 0;
    let (fonts, mut budget) = (FontLoader::new(), PageBudget::new(limits));
    for page in pages.iter() {
        let found = page_lines(page, &fonts, &mut budget)?;
        length += found.iter().map(PdfLine::len).sum::<usize>();
        if length > limits.text {
            return Err(IngestFailure::new(
                IngestFailureKind::TooLarge,
                format!("more than {} bytes of text", limits.text),
            ));
        }
        found.iter().for_each(|line| sizes.add_line(line));
        found.iter().filter_map(PdfLine::single_text).for_each(|words| breaks.learn_words(words));
        found_on.push(found);
    }
    let mut writer = MarkdownWriter::new(limits);
    for found in found_on {
        writer.start_page()?;
        for block in layout::group_into_blocks(found, &sizes, &breaks) {
            match block {
                PdfBlock::Heading(level, words) => {
                    if level == 1 {
                        writer.set_title(&words);
                    }
                    writer.write_heading(level, &words)?;
                }
                PdfBlock::Paragraph(words) => writer.write_paragraph(&words)?,
                PdfBlock::Table(rows) => writer.write_table(&rows)?,
            }
        }
    }
    Ok(writer.finish(FileFormat::Pdf))
}

/// Returns the number of pages that the page tree declares.
fn declared_page_count(document: &Pdf) -> usize {
    let catalog = document.xref().get::<Dict<'_>>(document.xref().root_id());
    let tree = catalog.and_then(|catalog| catalog.get::<Dict<'_>>(PAGES));
    tree.and_then(|tree| tree.get::<u32>(COUNT)).map_or(0, |count| count as usize)
}

/// Returns the lines of a page.
fn page_lines<'a>(
    page: &Page<'a>,
    fonts: &FontLoader<'a>,
    budget: &mut PageBudget,
) -> Result<Vec<PdfLine>, IngestFailure> {
    let mut turned: [Vec<PdfGlyph>; 4] = Default::default();
    for one in page_text::page_glyphs(page, fonts, budget)? {
        turned[one.quarter_turns].push(one.glyph);
    }
    let all: usize = turned.iter().map(Vec::len).sum();
    // A stamp along the edge is not part of the text, but a rotated page or table is.
    let mut turned: Vec<Vec<PdfGlyph>> = turned.into_iter().filter(|some| some.len() * 5 >= all).collect();
    turned.sort_by_key(|some| std::cmp::Reverse(some.len()));
    Ok(turned.into_iter().flat_map(layout::group_into_lines).collect())
}

fn pdf_failure(error: LoadPdfError) -> IngestFailure {
    match error {
        LoadPdfError::Decryption(error) => {
            IngestFailure::new(IngestFailureKind::Encrypted, format!("a PDF with a password: {error:?}"))
        }
        LoadPdfError::Invalid => IngestFailure::corrupt("not a readable PDF"),
    }
}
