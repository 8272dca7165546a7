//! The fonts of a document: how long a character is, and which text it stands for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use hayro_cmap::{BfString, CMap, CMapName, CidFamily};
use hayro_font::kurbo::Vec2;
use hayro_font::{
    CMapResolverFn, Font, FontCache, FontGlyph, FontQuery, FontResolverFn, GlyphId, StandardFont,
};
use hayro_syntax::object::dict::keys::{
    CIDSYSTEMINFO, DESCENDANT_FONTS, ENCODING, ORDERING, REGISTRY, TO_UNICODE,
};
use hayro_syntax::object::{self, Array, Dict, Object, ObjectIdentifier};
use unicode_normalization::UnicodeNormalization;

/// Loads each font of a document once.
pub(super) struct FontLoader<'a> {
    font_programs: FontCache<'a>,
    font_resolver: FontResolverFn,
    cmap_resolver: CMapResolverFn,
    loaded: RefCell<HashMap<ObjectIdentifier, Option<PageFont<'a>>>>,
}

impl<'a> FontLoader<'a> {
    pub(super) fn new() -> Self {
        Self {
            font_programs: FontCache::new(),
            // Only widths are taken from a font that replaces another.
            font_resolver: Arc::new(|query| {
                Some(match query {
                    FontQuery::Standard(font) => font.get_font_data(),
                    FontQuery::Fallback(query) => query.pick_standard_font().get_font_data(),
                })
            }),
            cmap_resolver: Arc::new(hayro_cmap::load_embedded),
            loaded: RefCell::default(),
        }
    }

    /// Returns the font of a dictionary, or `None` if it cannot be used.
    pub(super) fn load(&self, dict: &Dict<'a>) -> Option<PageFont<'a>> {
        let Some(id) = dict.obj_id() else { return self.parse(dict) };
        if let Some(font) = self.loaded.borrow().get(&id) {
            return font.clone();
        }
        let font = self.parse(dict);
        self.loaded.borrow_mut().insert(id, font.clone());
        font
    }

    /// Returns the font for text whose font is missing: Helvetica, as in other readers.
    pub(super) fn load_default(&self) -> Option<PageFont<'a>> {
        let font = self.font_programs.standard_font(StandardFont::Helvetica, &self.font_resolver)?;
        Some(PageFont { font, cid_text: None })
    }

    fn parse(&self, dict: &Dict<'a>) -> Option<PageFont<'a>> {
        let font = self.font_programs.font(dict, &self.font_resolver, &self.cmap_resolver)?;
        Some(PageFont { font, cid_text: CidText::new(dict).map(Rc::new) })
    }
}

/// A font in use.
#[derive(Clone)]
pub(super) struct PageFont<'a> {
    font: Font<'a>,
    cid_text: Option<Rc<CidText>>,
}

impl PageFont<'_> {
    pub(super) fn is_vertical(&self) -> bool {
        !self.font.is_horizontal()
    }

    /// Reads the character code at a position and returns it with its length.
    pub(super) fn read_code(&self, text: &[u8], at: usize) -> (u32, usize) {
        let (code, length) = self.font.read_code(text, at);
        (code, length.max(1))
    }

    /// Returns the distance to the next character in the direction of writing, in thousandths of the font size.
    pub(super) fn advance(&self, code: u32) -> f64 {
        let advance = self.font.code_advance(code);
        if self.is_vertical() { advance.y } else { advance.x }
    }

    /// Returns the place of the character relative to its origin on the line, in thousandths of the font size.
    pub(super) fn displacement(&self, code: u32) -> Vec2 {
        self.font.origin_displacement(code)
    }

    /// Returns the text of a character code. Ligatures are spelled out.
    pub(super) fn text(&self, code: u32) -> String {
        let text = match self.font.glyph(GlyphId::NOTDEF, code) {
            FontGlyph::Outline(glyph) => glyph.as_unicode(),
            FontGlyph::Type3(glyph) => glyph.as_unicode(),
        };
        match text.or_else(|| self.cid_text.as_ref()?.text(code)) {
            Some(BfString::Char(ligature @ '\u{fb00}'..='\u{fb06}')) => ligature.nfkc().collect(),
            Some(BfString::Char(char)) => char.into(),
            Some(BfString::String(text)) => text,
            None => char::REPLACEMENT_CHARACTER.into(),
        }
    }
}

/// The text of a font of a public character collection, such as Adobe-Korea1, that is embedded without a table of its own.
struct CidText {
    encoding: CMap,
    collection: CMap,
}

impl CidText {
    fn new(dict: &Dict<'_>) -> Option<Self> {
        if dict.contains_key(TO_UNICODE) {
            return None;
        }
        let descendant = dict.get::<Array<'_>>(DESCENDANT_FONTS)?.iter::<Dict<'_>>().next()?;
        let encoding = match dict.get::<Object<'_>>(ENCODING)? {
            Object::Name(name) => match CMapName::from_bytes(&name) {
                CMapName::IdentityH => CMap::identity_h(),
                CMapName::IdentityV => CMap::identity_v(),
                name => embedded_cmap(name)?,
            },
            Object::Stream(stream) => CMap::parse(&stream.decoded_data().ok()?, hayro_cmap::load_embedded)?,
            _ => return None,
        };
        let info = descendant.get::<Dict<'_>>(CIDSYSTEMINFO)?;
        let registry = info.get::<object::String<'_>>(REGISTRY)?;
        let ordering = info.get::<object::String<'_>>(ORDERING)?;
        let family = CidFamily::from_registry_ordering(registry.as_bytes(), ordering.as_bytes());
        Some(Self { encoding, collection: embedded_cmap(family.ucs2_cmap()?)? })
    }

    fn text(&self, code: u32) -> Option<BfString> {
        let cid = (1..=4).find_map(|length| self.encoding.lookup_cid_code(code, length))?;
        self.collection.lookup_bf_string(cid)
    }
}

fn embedded_cmap(name: CMapName<'_>) -> Option<CMap> {
    CMap::parse(hayro_cmap::load_embedded(name)?, hayro_cmap::load_embedded)
}
