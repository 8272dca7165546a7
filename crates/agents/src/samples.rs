//! A small rule book of a made-up company, so that there is something to ask about before anything was ingested.

use doran_retrieval::Document;

/// The Korean rule book: leave, attendance, expenses, security.
pub fn korean() -> Vec<Document> {
    vec![
        Document::new("samples/ko/휴가.md", "휴가 규정", include_str!("../samples/ko/휴가.md")),
        Document::new("samples/ko/근태.md", "근태 규정", include_str!("../samples/ko/근태.md")),
        Document::new("samples/ko/경비.md", "경비 규정", include_str!("../samples/ko/경비.md")),
        Document::new("samples/ko/보안.md", "보안 규정", include_str!("../samples/ko/보안.md")),
    ]
}

/// The English handbook.
pub fn english() -> Vec<Document> {
    vec![Document::new(
        "samples/en/handbook.md",
        "Employee handbook",
        include_str!("../samples/en/handbook.md"),
    )]
}

/// Both.
pub fn all() -> Vec<Document> {
    [korean(), english()].concat()
}
