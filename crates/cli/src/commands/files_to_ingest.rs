//! Finds the files to ingest and chooses their document names.
//!
//! A file is named by its file name, a file in a directory by its path below that directory. The library stores the
//! origin of each document, so a file that is ingested again keeps its name, whichever path is given. If the name is
//! taken by another file, parent directories are added until it is unique. A file that was moved keeps its name.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use doran_retrieval::{DocumentStatus, IngestState, LibraryError};

use crate::output::{BilingualMessage, bilingual};

/// The deepest directory level that is searched.
const MAX_DIRECTORY_DEPTH: usize = 32;

/// A file to ingest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileToIngest {
    /// The path as given.
    pub(crate) path: PathBuf,
    /// The canonical path.
    pub(crate) origin: String,
    /// The document name.
    pub(crate) name: String,
}

/// The files at the given paths.
#[derive(Debug, Default)]
pub(crate) struct CollectedFiles {
    /// Each file once, by path.
    pub(crate) files: Vec<FileToIngest>,
    /// The given directories, as canonical paths.
    pub(crate) folders: Vec<PathBuf>,
    /// Files and directories that could not be read.
    pub(crate) unreadable: Vec<BilingualMessage>,
    /// Files that were skipped.
    pub(crate) skipped: SkippedFiles,
    seen: HashSet<String>,
}

/// Files in the directories that were not ingested. They are listed so that the user notices.
#[derive(Debug, Default)]
pub(crate) struct SkippedFiles {
    hidden: Vec<String>,
    links: Vec<String>,
    /// Sockets, devices, and directories that are too deep.
    other: Vec<String>,
}

/// The most names on one line.
const MAX_NAMES_PER_LINE: usize = 5;

impl SkippedFiles {
    /// One message for each reason.
    pub(crate) fn messages(&self) -> Vec<BilingualMessage> {
        let some = |names: &[String]| {
            let mut shown: Vec<String> =
                names.iter().take(MAX_NAMES_PER_LINE).map(|name| format!("`{name}`")).collect();
            shown.extend(
                (names.len() > MAX_NAMES_PER_LINE)
                    .then(|| format!("… +{}", names.len() - MAX_NAMES_PER_LINE)),
            );
            (!shown.is_empty()).then(|| shown.join(", "))
        };
        let hidden = some(&self.hidden).map(|names| {
            bilingual!(
                "숨은 파일이거나 다른 프로그램의 임시 파일이라 건너뛰었습니다: {names}",
                "left out, because hidden or another program's scratch: {names}"
            )
        });
        let links = some(&self.links).map(|names| {
            bilingual!(
                "링크라 건너뛰었습니다. 넣으려면 그 경로를 직접 적으세요: {names}",
                "left out, because links; name one itself to take it in: {names}"
            )
        });
        let other = some(&self.other).map(|names| {
            bilingual!(
                "파일이 아니거나 너무 깊이 있어 건너뛰었습니다: {names}",
                "left out, because no file or too deep: {names}"
            )
        });
        [hidden, links, other].into_iter().flatten().collect()
    }
}

impl CollectedFiles {
    /// Collects every file at or below these paths, with its short name. Hidden files and symbolic links inside a
    /// directory are skipped.
    pub(crate) fn collect(paths: &[PathBuf]) -> Self {
        let mut gathered = Self::default();
        for path in paths {
            gathered.collect_path(path, path, 0);
        }
        gathered.files.sort_by(|one, other| one.path.cmp(&other.path));
        gathered
    }

    fn collect_path(&mut self, path: &Path, top: &Path, depth: usize) {
        if let Err(error) = self.try_collect_path(path, top, depth) {
            self.unreadable.push(file_unreadable_message(path, &error));
        }
    }

    fn try_collect_path(&mut self, path: &Path, top: &Path, depth: usize) -> std::io::Result<()> {
        let about = std::fs::metadata(path)?;
        if about.is_file() {
            let origin = path_text(path.canonicalize()?.as_os_str());
            let below = path.strip_prefix(top).ok().filter(|below| !below.as_os_str().is_empty());
            let name = below.map(Path::as_os_str).or(path.file_name()).unwrap_or(path.as_os_str());
            if self.seen.insert(origin.clone()) {
                let name = path_text(name);
                self.files.push(FileToIngest { path: path.to_owned(), origin, name });
            }
            return Ok(());
        }
        if !about.is_dir() || depth >= MAX_DIRECTORY_DEPTH {
            self.skipped.other.push(path.display().to_string());
            return Ok(());
        }
        if depth == 0 {
            self.folders.push(path.canonicalize()?);
        }
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            let path = entry.path();
            if is_hidden(&entry.file_name().to_string_lossy()) {
                self.skipped.hidden.push(path.display().to_string());
            } else if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                self.skipped.links.push(path.display().to_string());
            } else {
                self.collect_path(&path, top, depth + 1);
            }
        }
        Ok(())
    }
}

/// A path as text. Bytes that are not UTF-8 are written `%FF`, so that different paths stay different.
fn path_text(path: &std::ffi::OsStr) -> String {
    let mut text = String::new();
    for chunk in path.as_encoded_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("%{byte:02X}")));
    }
    text
}

/// Whether a file is hidden: dot files, lock files of office programs, and files that Windows creates in directories.
fn is_hidden(name: &str) -> bool {
    let kept = ["thumbs.db", "desktop.ini"].iter().any(|kept| name.eq_ignore_ascii_case(kept));
    name.starts_with('.') || name.starts_with("~$") || kept
}

/// Assigns document names in a collection that already has `known`. `exists` says whether the original file of a
/// document still exists.
pub(crate) fn assign_document_names(
    files: Vec<FileToIngest>,
    known: &[DocumentStatus],
    exists: impl Fn(&str) -> bool,
) -> Vec<FileToIngest> {
    let placed = known.iter().filter_map(|status| Some((status.origin.as_deref()?, status.name.as_str())));
    let by_place: HashMap<&str, &str> = placed.collect();
    // A name whose original file no longer exists is free: the file was moved or replaced.
    let known_origins = known.iter().filter_map(|status| Some((status.name.clone(), status.origin.clone()?)));
    let mut used_names: BTreeMap<String, String> =
        known_origins.filter(|(_, origin)| exists(origin)).collect();
    let mut alike: HashMap<String, usize> = HashMap::new();
    for file in files.iter().filter(|file| !by_place.contains_key(file.origin.as_str())) {
        *alike.entry(file.name.clone()).or_default() += 1;
    }
    let mut named = Vec::with_capacity(files.len());
    for mut file in files {
        if let Some(name) = by_place.get(file.origin.as_str()) {
            file.name = (*name).to_owned();
        } else if alike.get(&file.name).is_some_and(|count| *count > 1) || used_names.contains_key(&file.name)
        {
            file.name = name_with_parent_folders(&file, &used_names);
        }
        used_names.insert(file.name.clone(), file.origin.clone());
        named.push(file);
    }
    named
}

/// The file name with as few parent directories as make it unique.
fn name_with_parent_folders(file: &FileToIngest, used_names: &BTreeMap<String, String>) -> String {
    let parts: Vec<&str> = file.origin.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    let short = Path::new(&file.name).components().count();
    let names = (short + 1..=parts.len()).map(|count| parts[parts.len() - count..].join("/"));
    names.into_iter().find(|name| !used_names.contains_key(name)).unwrap_or_else(|| file.origin.clone())
}

/// Searchable documents that came from these directories and whose files no longer exist.
pub(crate) fn documents_with_missing_files<'a>(
    folders: &[PathBuf],
    known: &'a [DocumentStatus],
    exists: impl Fn(&str) -> bool,
) -> Vec<&'a DocumentStatus> {
    let inside = |origin: &str| folders.iter().any(|folder| Path::new(origin).starts_with(folder));
    let is_gone = |status: &&DocumentStatus| {
        status.state == IngestState::Ready
            && status.origin.as_deref().is_some_and(|origin| inside(origin) && !exists(origin))
    };
    known.iter().filter(is_gone).collect()
}

/// Reads a file of at most `most` bytes. A larger file is not read.
pub(crate) fn read_limited(path: &Path, max_bytes: usize) -> Result<Vec<u8>, BilingualMessage> {
    let wrong = |error: std::io::Error| file_unreadable_message(path, &error);
    let file = std::fs::File::open(path).map_err(wrong)?;
    let bytes = usize::try_from(file.metadata().map_err(wrong)?.len()).unwrap_or(usize::MAX);
    if bytes > max_bytes {
        let error = LibraryError::TooLarge { bytes, max: max_bytes };
        return Err(file_refused_message(
            path,
            &BilingualMessage::new(error.message_ko(), error.to_string()),
        ));
    }
    let mut read = Vec::with_capacity(bytes);
    // A file that grows while it is read, or has no known length, is read up to one byte over the limit. The library
    // then rejects it.
    file.take(max_bytes as u64 + 1).read_to_end(&mut read).map_err(wrong)?;
    Ok(read)
}

/// The message for a file that the library rejects.
pub(crate) fn file_refused_message(path: &Path, why: &BilingualMessage) -> BilingualMessage {
    let (shown, ko, en) = (path.display(), &why.ko, &why.en);
    bilingual!("`{shown}`을(를) 받지 않았습니다: {ko}", "`{shown}` was not taken: {en}")
}

fn file_unreadable_message(path: &Path, error: &std::io::Error) -> BilingualMessage {
    let shown = path.display();
    bilingual!("`{shown}`을(를) 읽을 수 없습니다: {error}", "cannot read `{shown}`: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(origin: &str, name: &str) -> FileToIngest {
        FileToIngest { path: origin.into(), origin: origin.into(), name: name.into() }
    }

    fn known(origin: Option<&str>, name: &str) -> DocumentStatus {
        let about = serde_json::json!({
            "id": name, "name": name, "title": name, "collection": "", "kind": "general", "state": "ready",
            "progress": 1.0, "failure": null, "format": null, "passages": 1, "pages": 0, "bytes": 1, "version": "",
            "hidden": 0, "added_at": 0, "changed_at": 0,
        });
        let status: DocumentStatus = serde_json::from_value(about).expect("a status");
        DocumentStatus { origin: origin.map(ToOwned::to_owned), ..status }
    }

    fn check(files: &[(&str, &str)], known: &[DocumentStatus], expected: &[&str]) {
        let files = files.iter().map(|(origin, name)| file(origin, name)).collect();
        let named = assign_document_names(files, known, |origin| !origin.starts_with("/gone"));
        assert_eq!(named.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), expected);
    }

    #[cfg(unix)]
    #[test]
    fn names_that_differ_only_in_bytes_that_are_not_text_stay_different() {
        use std::os::unix::ffi::OsStrExt;
        let text = |bytes: &[u8]| path_text(std::ffi::OsStr::from_bytes(bytes));
        assert_eq!(text(b"a\xff.txt"), "a%FF.txt");
        assert_ne!(text(b"a\xff.txt"), text(b"a\xfe.txt"));
        assert_eq!(text("휴가.txt".as_bytes()), "휴가.txt");
    }

    #[test]
    fn two_files_never_have_one_name_and_one_file_never_has_two() {
        check(&[("/a/x.md", "x.md"), ("/b/y.md", "y.md")], &[], &["x.md", "y.md"]);
        check(&[("/a/x.md", "x.md"), ("/b/x.md", "x.md")], &[], &["a/x.md", "b/x.md"]);
        check(&[("/1/a/x", "x"), ("/2/a/x", "x")], &[], &["a/x", "2/a/x"]);
        let known_documents = [known(Some("/a/x.md"), "x.md")];
        check(&[("/b/x.md", "x.md")], &known_documents, &["b/x.md"]);
        check(&[("/a/x.md", "a/x.md"), ("/b/x.md", "x.md")], &known_documents, &["x.md", "b/x.md"]);
        check(&[("/b/x.md", "x.md")], &[known(Some("/gone/x.md"), "x.md")], &["x.md"]);
        check(&[("/b/x.md", "x.md")], &[known(None, "x.md")], &["x.md"]);
    }

    #[test]
    fn what_is_left_out_is_named_with_the_reason() {
        let names = |count: usize| (0..count).map(|nth| format!("f{nth}")).collect::<Vec<_>>();
        let left_out = SkippedFiles { hidden: names(1), links: names(7), other: Vec::new() };
        let messages: Vec<String> = left_out.messages().iter().map(ToString::to_string).collect();
        assert_eq!(messages[0], "left out, because hidden or another program's scratch: `f0`");
        assert!(messages[1].ends_with("`f4`, … +2") && messages[1].contains("links"), "{messages:?}");
        assert_eq!(messages.len(), 2);
    }

    #[test]
    fn only_what_was_taken_from_a_folder_can_be_gone_from_it() {
        let all = [
            known(Some("/gone/a"), "a"),
            known(Some("/gone-too/b"), "b"),
            known(Some("/here/c"), "c"),
            known(None, "d"),
            DocumentStatus { state: IngestState::Failed, ..known(Some("/gone/e"), "e") },
        ];
        let gone = documents_with_missing_files(&["/gone".into(), "/here".into()], &all, |origin| {
            origin.starts_with("/here")
        });
        assert_eq!(gone.iter().map(|status| status.name.as_str()).collect::<Vec<_>>(), ["a"]);
    }
}
