//! The errors of the library.

use std::path::PathBuf;

use crate::passage::DocumentId;
use crate::retriever::RetrieveError;

/// Why the library rejected a request. The variants are sorted by remedy.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The file is too large.
    #[error("the file has {bytes} bytes, the most is {max}")]
    TooLarge {
        /// The size of the file.
        bytes: usize,
        /// The maximum size.
        max: usize,
    },
    /// The name is too long or empty.
    #[error("the name of a tenant or file is empty or too long")]
    BadName,
    /// The collection name is not valid.
    #[error("the name of a collection has letters, digits, spaces and - _ . · ( ), no more than a hundred")]
    BadCollection,
    /// Too many documents are queued. Retry when some have been processed.
    #[error("{0} documents are waiting already")]
    QueueFull(usize),
    /// The storage quota is used up. Remove a document first.
    #[error("there is no room for more than {0} bytes")]
    StorageFull(u64),
    /// A document of this name is still being removed. Retry later.
    #[error("a document of this name is being removed; try again in a moment")]
    BeingRemoved,
    /// The document does not exist.
    #[error("there is no document `{0}`")]
    Unknown(DocumentId),
    /// The disk reported an error.
    #[error("the library cannot use its directory `{}`", path.display())]
    Disk {
        /// The affected path.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The database that replicas share reported an error.
    #[error("the database of documents cannot be used")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The index reported an error.
    #[error("the index did not follow")]
    Index(#[from] RetrieveError),
}

impl LibraryError {
    /// Returns the error with its remedy in Korean.
    pub fn message_ko(&self) -> String {
        match self {
            Self::Empty => "빈 파일입니다. 내용이 있는 파일을 올리세요".into(),
            Self::TooLarge { bytes, max } => {
                format!("파일이 {bytes}바이트인데 {max}바이트까지 받습니다. 나누어 올리세요")
            }
            Self::BadName => "이름이 비었거나 너무 깁니다. 더 짧은 이름을 쓰세요".into(),
            Self::BadCollection => {
                "모음 이름에는 글자, 숫자, 빈칸과 - _ . · ( )만 백 자까지 쓸 수 있습니다. 다른 이름을 쓰세요"
                    .into()
            }
            Self::QueueFull(waiting) => {
                format!("이미 문서 {waiting}개가 기다리고 있습니다. 잠시 뒤에 다시 올리세요")
            }
            Self::StorageFull(max) => {
                format!("{max}바이트까지 둘 수 있습니다. 필요 없는 문서를 지우고 다시 올리세요")
            }
            Self::BeingRemoved => "같은 이름의 문서를 지우는 중입니다. 잠시 뒤에 다시 시도하세요".into(),
            Self::Unknown(id) => format!("문서 `{id}`이(가) 없습니다. 목록에서 고르세요"),
            Self::Disk { path, .. } => format!("`{}`에 쓸 수 없습니다. 디스크를 살펴보세요", path.display()),
            Self::Database(_) => "문서 데이터베이스를 쓸 수 없습니다. 잠시 뒤 다시 시도하세요".into(),
            Self::Index(_) => "색인이 따라오지 못했습니다. 잠시 뒤 다시 시도하세요".into(),
        }
    }
}
