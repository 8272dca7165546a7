//! A document with its passages in a compact form: passages share the text of the document.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::passage::{ArticleNumber, Document, DocumentId, Passage, PassageId};
use crate::text_analysis::normalization::{is_letter_or_digit, normalize};

use super::SegmentDocument;

/// Shared bytes, such as those of a mapped file.
pub(crate) type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A document with its passages.
#[derive(Clone, Debug)]
pub(crate) struct StoredDocument {
    metadata: Arc<StoredDocumentMetadata>,
    text: StoredText,
}

#[derive(Debug)]
struct StoredDocumentMetadata {
    /// The metadata. Its `text` is empty.
    document: Document,
    /// The title in the normalised form in which queries are compared with it.
    normalized_title: String,
    passages: Vec<StoredPassage>,
}

/// A passage without what its document already stores.
#[derive(Debug)]
enum StoredPassage {
    /// The text is a range of the document, and the identifier follows from that range.
    InDocument { title: Arc<str>, range: Range<u32>, page: Option<u32>, article: Option<ArticleNumber> },
    /// Any other passage, stored whole.
    Standalone(Box<Passage>),
}

#[derive(Clone)]
enum StoredText {
    Owned(Arc<str>),
    /// A range of shared bytes that is known to be UTF-8.
    Shared(SharedBytes, Range<usize>),
}

/// The serialised form of a document without its text.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredDocumentRecord<'a> {
    document: Cow<'a, Document>,
    /// The length of its text in bytes.
    pub(crate) length: usize,
    passages: Vec<StoredPassageRecord<'a>>,
}

/// The serialised form of a passage. A missing title means that of the previous passage, or for the first that of the
/// document.
#[derive(Default, Serialize, Deserialize)]
struct StoredPassageRecord<'a> {
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    title: Option<Cow<'a, str>>,
    #[serde(rename = "r", default)]
    range: (u32, u32),
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    article: Option<ArticleNumber>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    odd: Option<Cow<'a, Passage>>,
}

impl StoredDocument {
    pub(crate) fn new(document: &Document, passages: &[Passage]) -> Self {
        let mut above: Arc<str> = document.title.as_str().into();
        let slim = passages
            .iter()
            .map(|passage| StoredPassage::from_passage(passage, document, &mut above))
            .collect();
        let Document { id, title, collection, kind, version, text, pages } = document;
        let about = Document {
            id: id.clone(),
            title: title.clone(),
            collection: collection.clone(),
            kind: kind.clone(),
            version: version.clone(),
            text: String::new(),
            pages: pages.clone(),
        };
        Self {
            metadata: Arc::new(StoredDocumentMetadata::new(about, slim)),
            text: StoredText::Owned(text.as_str().into()),
        }
    }

    /// Converts documents. Of two with the same identifier the later one is kept.
    pub(crate) fn latest_by_id(documents: &[(Document, Vec<Passage>)]) -> Vec<Arc<Self>> {
        let mut held: Vec<Arc<Self>> = Vec::with_capacity(documents.len());
        let mut places: HashMap<&DocumentId, usize> = HashMap::with_capacity(documents.len());
        for (document, passages) in documents {
            let new = Arc::new(Self::new(document, passages));
            match places.get(&document.id) {
                Some(at) => held[*at] = new,
                None => {
                    places.insert(&document.id, held.len());
                    held.push(new);
                }
            }
        }
        held
    }

    /// Returns the same document with its text in other bytes, which must be equal.
    pub(crate) fn with_text_at(&self, kept: SharedBytes, range: Range<usize>) -> Self {
        Self { metadata: Arc::clone(&self.metadata), text: StoredText::Shared(kept, range) }
    }

    /// Reads what [`to_record`](Self::to_record) returned. Returns `None` if the bytes are not UTF-8.
    pub(crate) fn from_record(
        line: StoredDocumentRecord<'_>,
        kept: SharedBytes,
        range: Range<usize>,
    ) -> Option<Self> {
        std::str::from_utf8((*kept).as_ref().get(range.clone())?).ok()?;
        let document = line.document.into_owned();
        let mut above: Arc<str> = document.title.as_str().into();
        let slim = line.passages.into_iter().map(|written| match written.odd {
            Some(odd) => StoredPassage::Standalone(Box::new(odd.into_owned())),
            None => {
                if let Some(title) = written.title {
                    above = title.into();
                }
                let (start, end) = written.range;
                let (page, article) = (written.page, written.article);
                StoredPassage::InDocument { title: Arc::clone(&above), range: start..end, page, article }
            }
        });
        let slim = slim.collect();
        Some(Self {
            metadata: Arc::new(StoredDocumentMetadata::new(document, slim)),
            text: StoredText::Shared(kept, range),
        })
    }

    /// Returns the serialised form without the text.
    pub(crate) fn to_record(&self) -> StoredDocumentRecord<'_> {
        let StoredDocumentMetadata { document, passages, .. } = &*self.metadata;
        let mut above = document.title.as_str();
        let written = passages.iter().map(|slim| match slim {
            StoredPassage::Standalone(odd) => {
                StoredPassageRecord { odd: Some(Cow::Borrowed(&**odd)), ..StoredPassageRecord::default() }
            }
            StoredPassage::InDocument { title, range, page, article } => {
                let new = **title != *std::mem::replace(&mut above, title);
                let title = new.then_some(Cow::Borrowed(&**title));
                StoredPassageRecord {
                    title,
                    range: (range.start, range.end),
                    page: *page,
                    article: *article,
                    odd: None,
                }
            }
        });
        StoredDocumentRecord {
            document: Cow::Borrowed(document),
            length: self.text_bytes().len(),
            passages: written.collect(),
        }
    }

    /// Returns the entry for the list of a segment.
    pub(crate) fn to_segment_document(&self) -> SegmentDocument {
        let Document { id, version, .. } = &self.metadata.document;
        SegmentDocument { id: id.clone(), version: version.clone(), passages: self.len() as u32 }
    }

    /// Returns the document without its text.
    pub(crate) fn metadata(&self) -> &Document {
        &self.metadata.document
    }

    /// Returns the title in the normalised form in which queries are compared with it.
    pub(crate) fn normalized_title(&self) -> &str {
        &self.metadata.normalized_title
    }

    /// Returns the whole document.
    pub(crate) fn to_document(&self) -> Document {
        Document {
            text: String::from_utf8_lossy(self.text_bytes()).into_owned(),
            ..self.metadata.document.clone()
        }
    }

    /// Returns the bytes of its text.
    pub(crate) fn text_bytes(&self) -> &[u8] {
        match &self.text {
            StoredText::Owned(text) => text.as_bytes(),
            StoredText::Shared(kept, range) => (**kept).as_ref().get(range.clone()).unwrap_or_default(),
        }
    }

    /// Returns the number of passages.
    pub(crate) fn len(&self) -> usize {
        self.metadata.passages.len()
    }

    /// Returns the title and the text of a passage, and its article if the source had one.
    pub(crate) fn passage_title_and_text(&self, at: usize) -> Option<(&str, &str, Option<ArticleNumber>)> {
        Some(match self.metadata.passages.get(at)? {
            StoredPassage::Standalone(passage) => (&passage.title, &passage.text, passage.article),
            StoredPassage::InDocument { title, range, article, .. } => {
                let range = range.start as usize..range.end as usize;
                let words = match &self.text {
                    StoredText::Owned(text) => text.get(range)?,
                    StoredText::Shared(..) => std::str::from_utf8(self.text_bytes().get(range)?).ok()?,
                };
                (title, words, *article)
            }
        })
    }

    /// Returns the title of a passage and the bytes of its text.
    pub(crate) fn passage_title_and_bytes(&self, at: usize) -> Option<(&str, &[u8])> {
        Some(match self.metadata.passages.get(at)? {
            StoredPassage::Standalone(passage) => (&passage.title, passage.text.as_bytes()),
            StoredPassage::InDocument { title, range, .. } => {
                (title, self.text_bytes().get(range.start as usize..range.end as usize)?)
            }
        })
    }

    /// Returns a passage by its position.
    pub(crate) fn passage(&self, at: usize) -> Option<Passage> {
        let (title, range, page) = match self.metadata.passages.get(at)? {
            StoredPassage::Standalone(passage) => return Some((**passage).clone()),
            StoredPassage::InDocument { title, range, page, .. } => (title, range, page),
        };
        let (_, text, article) = self.passage_title_and_text(at)?;
        let Document { id, version, kind, .. } = &self.metadata.document;
        Some(Passage {
            id: PassageId::from_start(id, range.start as usize),
            document: id.clone(),
            version: version.clone(),
            kind: kind.clone(),
            title: title.as_ref().to_owned(),
            text: text.to_owned(),
            range: range.start as usize..range.end as usize,
            page: *page,
            article,
        })
    }

    /// Returns all passages in order.
    pub(crate) fn passages(&self) -> impl Iterator<Item = Passage> {
        (0..self.len()).filter_map(|at| self.passage(at))
    }
}

impl StoredDocumentMetadata {
    fn new(document: Document, passages: Vec<StoredPassage>) -> Self {
        Self { normalized_title: letters_and_digits(&document.title), document, passages }
    }
}

impl StoredPassage {
    /// Consecutive passages with the same title share it.
    fn from_passage(passage: &Passage, document: &Document, above: &mut Arc<str>) -> Self {
        let range = u32::try_from(passage.range.start)
            .and_then(|start| u32::try_from(passage.range.end).map(|end| start..end));
        let usual = passage.document == document.id
            && passage.version == document.version
            && passage.kind == document.kind
            && document.text.get(passage.range.clone()) == Some(passage.text.as_str())
            && passage.id.is_for_start(&document.id, passage.range.start);
        match range {
            Ok(range) if usual => {
                if **above != *passage.title {
                    *above = passage.title.as_str().into();
                }
                let Passage { page, article, .. } = *passage;
                Self::InDocument { title: Arc::clone(above), range, page, article }
            }
            _ => Self::Standalone(Box::new(passage.clone())),
        }
    }
}

impl fmt::Debug for StoredText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owned(text) => write!(f, "{} bytes", text.len()),
            Self::Shared(_, range) => write!(f, "{range:?}"),
        }
    }
}

/// Returns the normalised letters and digits of a text, without anything between them.
pub(crate) fn letters_and_digits(text: &str) -> String {
    normalize(text).iter().map(|letter| letter.char).filter(|char| is_letter_or_digit(*char)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_small_comes_back_whole() {
        let document = Document { version: "v".to_owned(), ..Document::new("d", "글", "하나 둘 셋") };
        let usual = |range: Range<usize>, title: &str| Passage {
            id: PassageId::from_start(&document.id, range.start),
            document: document.id.clone(),
            version: "v".to_owned(),
            title: title.to_owned(),
            text: document.text[range.clone()].to_owned(),
            range,
            page: Some(3),
            article: Some(ArticleNumber { number: 5, branch: 2 }),
            ..Passage::default()
        };
        let passages = vec![
            usual(0..6, "글"),
            usual(7..10, "글 › 둘"),
            Passage { text: "다른 말".to_owned(), ..usual(0..6, "글") },
            Passage { version: "older".to_owned(), ..usual(0..6, "글") },
            usual(11..14, "글 › 둘"),
            usual(11..14, "글"),
        ];
        let held = StoredDocument::new(&document, &passages);
        let line = serde_json::to_string(&held.to_record()).expect("json");
        let kept: SharedBytes = Arc::new(format!("..{}", document.text).into_bytes());
        let range = 2..2 + document.text.len();
        let read = StoredDocument::from_record(
            serde_json::from_str(&line).expect("json"),
            Arc::clone(&kept),
            range.clone(),
        );
        for held in [held.with_text_at(Arc::clone(&kept), range), read.expect("text"), held] {
            assert_eq!(held.to_document(), document);
            assert_eq!(held.passages().collect::<Vec<_>>(), passages);
        }
        let line = serde_json::from_str(&line).expect("json");
        assert!(StoredDocument::from_record(line, Arc::new(vec![0xff_u8; 20]), 0..14).is_none(), "no text");
    }
}
