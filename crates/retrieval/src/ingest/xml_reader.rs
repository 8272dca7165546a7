//! Reads the XML that documents use: elements and text. Document types and custom entities are rejected, so nothing
//! expands and nothing external is loaded.

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::IngestFailure;
use super::format_readers::decode_text;

/// The maximum nesting depth of elements. Real documents stay below a hundred.
const MAX_XML_DEPTH: usize = 400;

/// An XML event. Names have no prefix.
#[derive(Debug)]
pub(super) enum XmlEvent<'a> {
    Start(XmlElement<'a>),
    End(String),
    Text(String),
}

/// The start of an element.
#[derive(Debug)]
pub(super) struct XmlElement<'a>(BytesStart<'a>);

impl XmlElement<'_> {
    pub(super) fn name(&self) -> &str {
        self.0.local_name().into_inner()
    }

    /// Returns an attribute by its name without prefix.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        let mut attributes = self.0.attributes();
        attributes.with_checks(false);
        let mut found =
            attributes.flatten().filter(|attribute| attribute.key.local_name().into_inner() == name);
        found.next().map(|attribute| match attribute.normalized_value(XmlVersion::Implicit1_0) {
            Ok(value) => value.into_owned(),
            Err(_) => attribute.value.into_owned(),
        })
    }

    /// Returns an attribute as a number.
    pub(super) fn number_attribute(&self, name: &str) -> Option<usize> {
        self.attribute(name)?.trim().parse().ok()
    }
}

/// A reader of XML.
pub(super) struct XmlReader<'a> {
    reader: Reader<&'a [u8]>,
    depth: usize,
}

/// Decodes an XML file, whatever its encoding.
pub(super) fn decode_xml(bytes: &[u8]) -> Result<String, IngestFailure> {
    decode_text(bytes, None).ok_or_else(|| IngestFailure::corrupt("XML in an unknown encoding"))
}

impl<'a> XmlReader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
        reader.config_mut().expand_empty_elements = true;
        reader.config_mut().allow_dangling_amp = true;
        Self { reader, depth: 0 }
    }

    /// Returns the next event, or `None` at the end.
    pub(super) fn next_event(&mut self) -> Result<Option<XmlEvent<'a>>, IngestFailure> {
        loop {
            let piece = match self.reader.read_event().map_err(IngestFailure::corrupt)? {
                Event::Start(start) => {
                    self.depth += 1;
                    if self.depth > MAX_XML_DEPTH {
                        return Err(IngestFailure::corrupt("XML nested too deep"));
                    }
                    XmlEvent::Start(XmlElement(start))
                }
                Event::End(end) => {
                    self.depth = self.depth.saturating_sub(1);
                    XmlEvent::End(end.local_name().into_inner().to_owned())
                }
                Event::Text(text) => XmlEvent::Text(text.into_inner().into_owned()),
                Event::CData(text) => XmlEvent::Text(text.into_inner().into_owned()),
                Event::GeneralRef(entity) => {
                    XmlEvent::Text(match entity.resolve_char_ref().map_err(IngestFailure::corrupt)? {
                        Some(char) => char.to_string(),
                        None => match resolve_predefined_entity(&entity) {
                            Some(text) => text.to_owned(),
                            None => return Err(IngestFailure::corrupt("XML with entities of its own")),
                        },
                    })
                }
                Event::DocType(_) => return Err(IngestFailure::corrupt("XML with a document type")),
                Event::Eof if self.depth > 0 => return Err(IngestFailure::corrupt("XML ends too early")),
                Event::Eof => return Ok(None),
                Event::Empty(start) => XmlEvent::Start(XmlElement(start)),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => continue,
            };
            return Ok(Some(piece));
        }
    }

    /// Skips the rest of the element that was just started.
    pub(super) fn skip_element(&mut self) -> Result<(), IngestFailure> {
        let outside = self.depth.saturating_sub(1);
        while self.depth > outside {
            if self.next_event()?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the text inside the element that was just started, including nested elements.
    pub(super) fn inner_text(&mut self) -> Result<String, IngestFailure> {
        let outside = self.depth.saturating_sub(1);
        let mut text = String::new();
        while self.depth > outside {
            match self.next_event()? {
                Some(XmlEvent::Text(more)) => text.push_str(&more),
                Some(XmlEvent::Start(_) | XmlEvent::End(_)) => {}
                None => break,
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, IngestFailure> {
        let mut xml = XmlReader::new(text);
        let mut shown = String::new();
        while let Some(piece) = xml.next_event()? {
            match piece {
                XmlEvent::Start(element) => shown.push_str(&format!("<{}>", element.name())),
                XmlEvent::End(name) => shown.push_str(&format!("</{name}>")),
                XmlEvent::Text(text) => shown.push_str(&text),
            }
        }
        Ok(shown)
    }

    #[test]
    fn elements_and_text_come_without_prefixes() {
        assert_eq!(
            read("<w:p a='1'><w:t>a &amp; b &#xAC00;</w:t><w:br/></w:p>").expect("xml"),
            "<p><t>a & b 가</t><br></br></p>"
        );
    }

    #[test]
    fn nothing_expands() {
        let laughs = "<!DOCTYPE a [<!ENTITY x 'ha'><!ENTITY y '&x;&x;'>]><a>&y;</a>";
        for text in [laughs, "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>", "<a>&x;</a>", "<a>"] {
            assert_eq!(
                read(text).map_err(|failure| failure.kind),
                Err(crate::ingest::IngestFailureKind::Corrupt),
                "{text}"
            );
        }
        assert!(read(&"<a>".repeat(100_000)).is_err());
    }
}
