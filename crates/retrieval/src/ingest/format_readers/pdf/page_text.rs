//! Runs the content streams of a page and collects its characters with their positions. Whatever only paints is
//! skipped.

use hayro_font::kurbo::{Affine, Vec2};
use hayro_syntax::content::TypedIter;
use hayro_syntax::content::ops::TypedInstruction;
use hayro_syntax::object::dict::keys::{ACTUAL_TEXT, FORM, MATRIX, RESOURCES, SUBTYPE};
use hayro_syntax::object::{self, Array, Dict, Name, Number, Object, Stream};
use hayro_syntax::page::{Page, Resources};

use super::fonts::{FontLoader, PageFont};
use super::layout::PdfGlyph;
use super::page_content::{PageBudget, page_content, unpack};
use super::{IngestFailure, IngestFailureKind};

/// The maximum depth of forms in forms.
const MAX_FORM_DEPTH: usize = 16;

/// The maximum depth of saved states and of marked content.
const MAX_NESTING: usize = 100_000;

/// A character in the coordinates of its line: `x` grows in the direction of writing.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnedGlyph {
    /// How its line is rotated on the page, in quarter turns to the left.
    pub(super) quarter_turns: usize,
    pub(super) glyph: PdfGlyph,
}

/// Returns the characters of a page in the order in which they are painted.
pub(super) fn page_glyphs<'a>(
    page: &Page<'a>,
    fonts: &FontLoader<'a>,
    budget: &mut PageBudget,
) -> Result<Vec<TurnedGlyph>, IngestFailure> {
    let content = page_content(page, budget)?;
    let mut interpreter = TextInterpreter {
        fonts,
        budget,
        glyphs: Vec::new(),
        state: TextState::new(),
        saved: Vec::new(),
        marked_content: Vec::new(),
        line_start: Affine::IDENTITY,
        position: Affine::IDENTITY,
    };
    interpreter.run(&content, page.resources(), 0)?;
    Ok(interpreter.glyphs)
}

/// The part of the graphics state that places text.
#[derive(Clone)]
struct TextState<'a> {
    to_page: Affine,
    font: Option<PageFont<'a>>,
    font_size: f64,
    character_spacing: f64,
    word_spacing: f64,
    horizontal_scale: f64,
    leading: f64,
    rise: f64,
}

impl TextState<'_> {
    fn new() -> Self {
        Self {
            to_page: Affine::IDENTITY,
            font: None,
            font_size: 1.0,
            character_spacing: 0.0,
            word_spacing: 0.0,
            horizontal_scale: 1.0,
            leading: 0.0,
            rise: 0.0,
        }
    }

    /// Returns a distance in the direction of writing.
    fn along_line(&self, distance: f64) -> Vec2 {
        if self.font.as_ref().is_some_and(PageFont::is_vertical) {
            Vec2::new(0.0, distance)
        } else {
            Vec2::new(distance * self.horizontal_scale, 0.0)
        }
    }
}

/// A marked part of the content.
struct MarkedContent {
    /// The text that stands for its characters.
    actual_text: Option<String>,
    /// The index of its first character.
    first_glyph: usize,
}

struct TextInterpreter<'a, 'b> {
    fonts: &'b FontLoader<'a>,
    budget: &'b mut PageBudget,
    glyphs: Vec<TurnedGlyph>,
    state: TextState<'a>,
    saved: Vec<TextState<'a>>,
    marked_content: Vec<MarkedContent>,
    line_start: Affine,
    position: Affine,
}

impl<'a> TextInterpreter<'a, '_> {
    fn run(&mut self, content: &[u8], resources: &Resources<'a>, depth: usize) -> Result<(), IngestFailure> {
        use TypedInstruction as Op;
        let saved = self.saved.len();
        let mut instructions = TypedIter::new(content);
        while let Some(instruction) = instructions.next() {
            match instruction {
                Op::SaveState(_) => {
                    check_nesting(self.saved.len())?;
                    self.saved.push(self.state.clone());
                }
                // A form cannot restore what its page saved.
                Op::RestoreState(_) if self.saved.len() > saved => self.restore(self.saved.len() - 1),
                Op::Transform(m) => self.state.to_page *= affine([m.0, m.1, m.2, m.3, m.4, m.5]),
                Op::BeginText(_) => self.start_line(Affine::IDENTITY),
                Op::TextFont(font) => {
                    self.state.font = match resources.get_font(font.0) {
                        Some(dict) => self.fonts.load(&dict),
                        None => self.fonts.load_default(),
                    };
                    self.state.font_size = font.1.as_f64();
                }
                Op::CharacterSpacing(spacing) => self.state.character_spacing = spacing.0.as_f64(),
                Op::WordSpacing(spacing) => self.state.word_spacing = spacing.0.as_f64(),
                Op::HorizontalScaling(percent) => self.state.horizontal_scale = percent.0.as_f64() / 100.0,
                Op::TextLeading(leading) => self.state.leading = leading.0.as_f64(),
                Op::TextRise(rise) => self.state.rise = rise.0.as_f64(),
                Op::SetTextMatrix(m) => self.start_line(affine([m.0, m.1, m.2, m.3, m.4, m.5])),
                Op::NextLine(by) => self.next_line(by.0.as_f64(), by.1.as_f64()),
                Op::NextLineAndSetLeading(by) => {
                    self.state.leading = -by.1.as_f64();
                    self.next_line(by.0.as_f64(), by.1.as_f64());
                }
                Op::NextLineUsingLeading(_) => self.next_line(0.0, -self.state.leading),
                Op::ShowText(text) => self.show(text.0.as_bytes())?,
                Op::NextLineAndShowText(text) => {
                    self.next_line(0.0, -self.state.leading);
                    self.show(text.0.as_bytes())?;
                }
                Op::ShowTextWithParameters(text) => {
                    self.state.word_spacing = text.0.as_f64();
                    self.state.character_spacing = text.1.as_f64();
                    self.next_line(0.0, -self.state.leading);
                    self.show(text.2.as_bytes())?;
                }
                Op::ShowTexts(parts) => self.show_parts(parts.0)?,
                Op::BeginMarkedContent(_) => self.begin_marked_content(None)?,
                Op::BeginMarkedContentWithProperties(marked) => {
                    let properties = match marked.1 {
                        Object::Name(name) => resources.properties.get::<Dict<'_>>(name),
                        properties => properties.clone().into_dict(),
                    };
                    self.begin_marked_content(properties.as_ref())?;
                }
                Op::EndMarkedContent(_) => self.end_marked_content()?,
                Op::XObject(name) if depth < MAX_FORM_DEPTH => {
                    if let Some(form) = resources.get_x_object(name.0).filter(is_form) {
                        self.run_form(&form, resources, depth + 1)?;
                    }
                }
                _ => {}
            }
        }
        self.restore(saved);
        Ok(())
    }

    fn run_form(
        &mut self,
        form: &Stream<'a>,
        outer: &Resources<'a>,
        depth: usize,
    ) -> Result<(), IngestFailure> {
        let content = unpack(form, self.budget)?;
        let own = form.dict().get::<Dict<'_>>(RESOURCES).map(Resources::new);
        let outside = (self.state.clone(), self.line_start, self.position);
        if let Some(matrix) = form.dict().get::<[f64; 6]>(MATRIX) {
            self.state.to_page *= Affine::new(matrix);
        }
        self.run(&content, own.as_ref().unwrap_or(outer), depth)?;
        (self.state, self.line_start, self.position) = outside;
        Ok(())
    }

    /// Restores saved states until this many are left.
    fn restore(&mut self, left: usize) {
        if let Some(state) = self.saved.drain(left..).next() {
            self.state = state;
        }
    }

    fn start_line(&mut self, start: Affine) {
        (self.line_start, self.position) = (start, start);
    }

    fn next_line(&mut self, right: f64, up: f64) {
        self.start_line(self.line_start * Affine::translate((right, up)));
    }

    fn show_parts(&mut self, parts: &Array<'_>) -> Result<(), IngestFailure> {
        for part in parts.iter::<Object<'_>>() {
            match part {
                Object::String(text) => self.show(text.as_bytes())?,
                Object::Number(back) => {
                    let by = self.state.along_line(-back.as_f64() / 1000.0 * self.state.font_size);
                    self.position *= Affine::translate(by);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn show(&mut self, text: &[u8]) -> Result<(), IngestFailure> {
        let Some(font) = self.state.font.clone() else { return Ok(()) };
        let mut at = 0;
        while at < text.len() {
            let (code, length) = font.read_code(text, at);
            at += length;
            let width = font.advance(code) / 1000.0 * self.state.font_size;
            self.place(&font, code, width)?;
            let blank = if code == 32 && length == 1 { self.state.word_spacing } else { 0.0 };
            let by = self.state.along_line(width + self.state.character_spacing + blank);
            self.position *= Affine::translate(by);
        }
        Ok(())
    }

    /// Adds the text of a character code at the current position.
    fn place(&mut self, font: &PageFont<'a>, code: u32, width: f64) -> Result<(), IngestFailure> {
        let TextState { font_size, rise, character_spacing, .. } = self.state;
        let to_page = self.state.to_page * self.position;
        // In spaced type the space is part of the character and does not separate words.
        let advance = turned(to_page, self.state.along_line(width + character_spacing.max(0.0)));
        let origin = Vec2::new(0.0, rise) + font.displacement(code) * (font_size / 1000.0);
        let origin = to_page.translation() + turned(to_page, origin);
        let Some(turns) = quarter_turns(turned(to_page, Vec2::new(font_size, 0.0))) else { return Ok(()) };
        // A vertical line is a line that is rotated to the right.
        let turns = if font.is_vertical() { (turns + 3) % 4 } else { turns };
        let (x, y) = (origin.x as f32, origin.y as f32);
        let (x, y) = [(x, y), (y, -x), (-x, -y), (-y, x)][turns];
        let size = turned(to_page, Vec2::new(0.0, font_size)).hypot() as f32;
        let width = advance.hypot() as f32;
        if x.is_finite() && y.is_finite() && width.is_finite() && size.is_finite() && size > 0.1 {
            self.push(&font.text(code), turns, PdfGlyph { char: ' ', x, y, width, size })?;
        }
        Ok(())
    }

    /// Adds the characters of a text side by side in the space of one.
    fn push(&mut self, text: &str, quarter_turns: usize, space: PdfGlyph) -> Result<(), IngestFailure> {
        let count = text.chars().count();
        self.budget.take_characters(count)?;
        let width = space.width / count.max(1) as f32;
        self.glyphs.extend(text.chars().enumerate().map(|(at, char)| TurnedGlyph {
            quarter_turns,
            glyph: PdfGlyph { char, x: space.x + at as f32 * width, width, ..space },
        }));
        Ok(())
    }

    fn begin_marked_content(&mut self, properties: Option<&Dict<'_>>) -> Result<(), IngestFailure> {
        check_nesting(self.marked_content.len())?;
        let text = properties.and_then(|properties| properties.get::<object::String<'_>>(ACTUAL_TEXT));
        self.marked_content.push(MarkedContent {
            actual_text: text.map(|text| decode_text_string(text.as_bytes())),
            first_glyph: self.glyphs.len(),
        });
        Ok(())
    }

    /// Replaces the characters of a marked part with the text that it declares. Where one text stands for several lines,
    /// it does not say which word is on which, so the characters stay.
    fn end_marked_content(&mut self) -> Result<(), IngestFailure> {
        let Some(MarkedContent { actual_text: Some(text), first_glyph }) = self.marked_content.pop() else {
            return Ok(());
        };
        let Some(TurnedGlyph { quarter_turns, glyph: first }) = self.glyphs.get(first_glyph).copied() else {
            return Ok(());
        };
        let marked = &self.glyphs[first_glyph..];
        let on_one_line = marked.iter().all(|other| {
            other.quarter_turns == quarter_turns && (other.glyph.y - first.y).abs() < 0.5 * first.size
        });
        if on_one_line {
            let end = marked.iter().map(|one| one.glyph.x + one.glyph.width).fold(first.x, f32::max);
            self.glyphs.truncate(first_glyph);
            self.push(&text, quarter_turns, PdfGlyph { width: end - first.x, ..first })?;
        }
        Ok(())
    }
}

fn is_form(object: &Stream<'_>) -> bool {
    object.dict().get::<Name<'_>>(SUBTYPE).is_some_and(|subtype| *subtype == *FORM)
}

fn check_nesting(depth: usize) -> Result<(), IngestFailure> {
    if depth < MAX_NESTING {
        return Ok(());
    }
    Err(IngestFailure::new(IngestFailureKind::TooLarge, format!("content nested {depth} deep")))
}

fn affine(numbers: [Number; 6]) -> Affine {
    Affine::new(numbers.map(|number| number.as_f64()))
}

/// Returns a vector as a matrix turns it, without moving it.
fn turned(matrix: Affine, vector: Vec2) -> Vec2 {
    let [a, b, c, d, _, _] = matrix.as_coeffs();
    Vec2::new(a * vector.x + c * vector.y, b * vector.x + d * vector.y)
}

/// Returns the direction of a line in quarter turns to the left, or `None` for other angles, such as watermarks.
fn quarter_turns(direction: Vec2) -> Option<usize> {
    let degrees = direction.atan2().to_degrees();
    let turns = (degrees / 90.0).round();
    let straight = (degrees - turns * 90.0).abs() < 5.0;
    straight.then(|| (turns as i64).rem_euclid(4) as usize)
}

/// Decodes a text string: UTF-16 or UTF-8 with a byte order mark, otherwise Latin-1.
fn decode_text_string(bytes: &[u8]) -> String {
    match encoding_rs::Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding.decode(bytes).0.into_owned(),
        None => bytes.iter().copied().map(char::from).collect(),
    }
}
