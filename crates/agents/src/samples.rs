//! A small rule book of a made-up company and a contract with its standard form, so that there is something to ask
//! about before anything was ingested.
//!
//! The files are as people have them: Markdown, HWPX, DOCX and PDF. Those that are not text are made by
//! `samples/make/make.py`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use doran_engine::TenantId;
use doran_retrieval::ingest::{ReadLimits, extract_text};
use doran_retrieval::{Document, DocumentKind, DocumentTenant, Library};

/// The collection of samples that were ingested as files, as `doran demo` does.
pub const SAMPLE_COLLECTION: &str = "samples";

/// A sample as a file.
#[derive(Clone, Debug)]
pub struct SampleFile {
    /// Where it lies below the samples, such as `ko/휴가.md`.
    pub name: &'static str,
    /// What is written on it.
    pub title: &'static str,
    /// All of it.
    pub bytes: &'static [u8],
    /// What it is.
    pub kind: DocumentKind,
}

macro_rules! sample {
    ($name:literal, $title:literal, $kind:expr) => {
        SampleFile {
            name: $name,
            title: $title,
            bytes: include_bytes!(concat!("../samples/", $name)),
            kind: $kind,
        }
    };
}

/// Every sample: the rules in Korean, the handbook in English, the contracts in both.
pub fn files() -> Vec<SampleFile> {
    use DocumentKind::{Contract, General, Standard};
    vec![
        sample!("ko/휴가.md", "휴가 규정", General),
        sample!("ko/근태.md", "근태 규정", General),
        sample!("ko/경비.md", "경비 규정", General),
        sample!("ko/보안.md", "보안 규정", General),
        sample!("ko/복리후생.hwpx", "복리후생 규정", General),
        sample!("ko/인사.docx", "인사 규정", General),
        sample!("ko/자산.pdf", "업무용 기기와 자산 규정", General),
        sample!("en/handbook.md", "Employee handbook", General),
        sample!("contracts/용역계약서.docx", "소프트웨어 개발 용역계약서", Contract),
        sample!("contracts/표준용역계약서.hwpx", "표준 용역계약서", Standard("용역".into())),
        sample!("contracts/service-agreement.md", "Consulting Services Agreement", Contract),
        sample!(
            "contracts/standard-service-agreement.md",
            "Standard Services Agreement",
            Standard("services".into())
        ),
    ]
}

/// The Korean rule book: leave, attendance, expenses, security, benefits, personnel, equipment.
pub fn korean() -> Vec<Document> {
    documents_in_folder("ko/")
}

/// The English handbook.
pub fn english() -> Vec<Document> {
    documents_in_folder("en/")
}

/// Both rule books.
pub fn rule_books() -> Vec<Document> {
    [korean(), english()].concat()
}

/// The contracts and their standard forms.
pub fn contracts() -> Vec<Document> {
    documents_in_folder("contracts/")
}

/// The sample of this id, such as `samples/ko/휴가.md`.
pub fn document(id: &str) -> Option<Document> {
    SAMPLE_DOCUMENTS.iter().find(|document| document.id.as_str() == id).cloned()
}

/// Whether a document is a sample: one that is compiled in, or one that was ingested as a file.
pub fn is_sample(id: &str) -> bool {
    static IDS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let tenant = DocumentTenant::new(TenantId::local().as_str());
        let ids = files().into_iter().flat_map(|file| {
            let ingested = Library::document_id(&tenant, SAMPLE_COLLECTION, file.name);
            [format!("samples/{}", file.name), ingested.to_string()]
        });
        ids.collect()
    });
    IDS.contains(id)
}

/// The samples, read once. They are ours, so they are read without a jail.
static SAMPLE_DOCUMENTS: LazyLock<Vec<Document>> = LazyLock::new(|| {
    let limits = ReadLimits::default();
    let read = |file: SampleFile| match extract_text(file.name, file.bytes, &limits) {
        Ok(found) => {
            let document = Document::new(format!("samples/{}", file.name), file.title, found.text);
            Some(Document { kind: file.kind, pages: found.pages, ..document })
        }
        Err(failure) => {
            tracing::error!(name = file.name, detail = %failure.detail, "cannot read a sample document");
            None
        }
    };
    files().into_iter().filter_map(read).collect()
});

fn documents_in_folder(folder: &str) -> Vec<Document> {
    let folder = format!("samples/{folder}");
    SAMPLE_DOCUMENTS.iter().filter(|document| document.id.as_str().starts_with(&folder)).cloned().collect()
}
