//! `read_file`: files below configured directories, as text.
//!
//! A path is relative to a root and taken as it is written: nothing in it is decoded or expanded. Text comes whole or
//! by lines, documents (PDF, DOCX, HWPX, …) through a [`DocumentTextReader`], directories as lists.

mod confined_directory;
mod decode;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_llm::{TextOrigin, ToolSpec};
use doran_retrieval::Language;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admission::{AdmissionPolicy, FairAdmission};

use super::text_cleaning::strip_invisible;
use super::{Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolSideEffect, names};
use confined_directory::{ConfinedDirectory, OpenRefusal, OpenedPath, list_directory, read_prefix};
use decode::decode;

/// The most bytes of text that are read of a file.
pub const MAX_TEXT_BYTES: usize = 256 * 1024;
/// How far into a file lines are looked for.
const MAX_SCANNED_BYTES: usize = 16 * 1024 * 1024;
/// The largest document.
const MAX_DOCUMENT_BYTES: usize = 50 * 1024 * 1024;

/// Documents read at once, of all tenants, and how many may wait. Each is held whole meanwhile.
const DOCUMENTS_AT_ONCE: usize = 1;
const MAX_WAITING_DOCUMENTS: usize = 64;

/// Reads documents that are not plain text.
#[async_trait]
pub trait DocumentTextReader: Send + Sync + 'static {
    /// Whether it can read a file of this name.
    fn can_read(&self, name: &str) -> bool;

    /// The text of a document; otherwise why not, in the requested language.
    async fn read(&self, name: &str, bytes: Vec<u8>, language: Language) -> Result<String, String>;
}

/// A directory that may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadableRoot {
    /// What it is called in paths when there are several: `name/path/in/it`.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// The only tenant that sees it; without one, everybody does.
    pub tenant: Option<String>,
}

/// Why files cannot be offered. The program must not start with such roots.
#[derive(Debug, thiserror::Error)]
pub enum ReadableRootError {
    /// Correct the path, or make the directory.
    #[error("the directory `{path}` cannot be opened")]
    CannotOpen {
        /// The root.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Choose a narrower root, or move what it holds.
    #[error("`{root}` holds `{inside}`, which must not be read")]
    Holds {
        /// The root.
        root: PathBuf,
        /// What is in it.
        inside: PathBuf,
    },
    /// Choose another root.
    #[error("`{root}` lies in `{outside}`, which must not be read")]
    Inside {
        /// The root.
        root: PathBuf,
        /// Where it lies.
        outside: PathBuf,
    },
    /// Choose a narrower root.
    #[error("the whole file system cannot be a root")]
    Everything,
    /// Give each root a name of its own, without `/`.
    #[error("`{0}` cannot be the name of a root, or there are two of it")]
    BadName(String),
}

struct OpenedRoot {
    root: ReadableRoot,
    directory: ConfinedDirectory,
}

/// The tool.
pub struct ReadFile {
    info: ToolInfo,
    roots: Vec<Arc<OpenedRoot>>,
    documents: Option<Arc<dyn DocumentTextReader>>,
    /// Turns to have a document read, shared out by tenant.
    turns: FairAdmission,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadFileArguments {
    #[serde(default)]
    path: String,
    #[serde(default)]
    from_line: Option<usize>,
    #[serde(default)]
    lines: Option<usize>,
}

impl ReadFile {
    /// One that reads below `roots`, none of which may hold any of the `forbidden` places, or lie in one: the database,
    /// the settings, the keys.
    pub fn new(
        roots: Vec<ReadableRoot>,
        forbidden: &[PathBuf],
        documents: Option<Arc<dyn DocumentTextReader>>,
    ) -> Result<Self, ReadableRootError> {
        let mut opened: Vec<Arc<OpenedRoot>> = Vec::new();
        for root in roots {
            let twice =
                opened.iter().any(|other| other.root.name == root.name && other.root.tenant == root.tenant);
            if root.name.is_empty() || root.name.contains('/') || root.name.starts_with('.') || twice {
                return Err(ReadableRootError::BadName(root.name));
            }
            let cannot = |source| ReadableRootError::CannotOpen { path: root.path.clone(), source };
            let real = root.path.canonicalize().map_err(cannot)?;
            if real.parent().is_none() {
                return Err(ReadableRootError::Everything);
            }
            for place in forbidden {
                let real_place = canonicalize_nearest(place);
                if real_place.starts_with(&real) {
                    return Err(ReadableRootError::Holds { root: root.path, inside: place.clone() });
                }
                if real.starts_with(&real_place) {
                    return Err(ReadableRootError::Inside { root: root.path, outside: place.clone() });
                }
            }
            let beneath = ConfinedDirectory::open(&real).map_err(cannot)?;
            opened.push(Arc::new(OpenedRoot { root, directory: beneath }));
        }
        let turns = FairAdmission::new(DOCUMENTS_AT_ONCE, MAX_WAITING_DOCUMENTS, AdmissionPolicy::UseAll);
        Ok(Self { info: tool_info(), roots: opened, documents, turns })
    }

    /// The root a path begins in, as `tenant` sees it, and the rest of the path.
    fn resolve_root<'a>(
        &self,
        path: &'a str,
        call: ToolCallContext<'_>,
    ) -> Result<(Arc<OpenedRoot>, &'a str), ToolError> {
        let seen: Vec<&Arc<OpenedRoot>> = self
            .roots
            .iter()
            .filter(|one| one.root.tenant.as_deref().is_none_or(|tenant| tenant == call.tenant))
            .collect();
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if let Some(root) = seen.iter().find(|one| one.root.name == first) {
            return Ok(((*root).clone(), rest));
        }
        match seen.as_slice() {
            [] => Err(ToolError::NotConfigured(call.language.pick(
                "읽을 수 있는 폴더가 설정되어 있지 않습니다. 설정의 `[tools] read_roots`에 폴더를 넣으세요".into(),
                "no directory is set that may be read; name one in the settings under `[tools] read_roots`".into(),
            ))),
            [only] => Ok(((*only).clone(), path)),
            several => {
                let names: Vec<&str> = several.iter().map(|one| one.root.name.as_str()).collect();
                let names = names.join(", ");
                Err(ToolError::BadArguments(call.language.pick(
                    format!("경로를 폴더 이름으로 시작하세요: {names}"),
                    format!("begin the path with the name of a directory: {names}"),
                )))
            }
        }
    }
}

impl std::fmt::Debug for ReadFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.roots.iter().map(|one| &one.root)).finish()
    }
}

#[async_trait]
impl Tool for ReadFile {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let arguments: ReadFileArguments =
            serde_json::from_value(arguments).map_err(|error| ToolError::BadArguments(error.to_string()))?;
        let (root, path) = self.resolve_root(&arguments.path, call)?;
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        let document = self.documents.as_ref().filter(|documents| documents.can_read(&name));
        let max_bytes = match (document, arguments.from_line) {
            (Some(_), _) => MAX_DOCUMENT_BYTES,
            (None, Some(_)) => MAX_SCANNED_BYTES,
            (None, None) => MAX_TEXT_BYTES,
        };
        let _turn = match document {
            Some(_) => Some(self.turns.acquire(call.tenant, 1).await.map_err(|_| {
                ToolError::Unavailable(call.language.pick(
                    "지금은 읽을 문서가 너무 많습니다. 잠시 뒤에 다시 하세요".into(),
                    "too many documents are being read just now; try again in a moment".into(),
                ))
            })?),
            None => None,
        };
        let owned = path.to_owned();
        let read = tokio::task::spawn_blocking(move || read_path(&root.directory, &owned, max_bytes)).await;
        let read = read.map_err(|_| refusal_error(OpenRefusal::Broken, path, call.language))?;
        match read.map_err(|why| refusal_error(why, path, call.language))? {
            PathContents::Directory(entries, more) => Ok(directory_output(&entries, more, call.language)),
            PathContents::File { bytes, size } => match document {
                Some(documents) => {
                    if size > bytes.len() as u64 {
                        return Err(ToolError::Failed(call.language.pick(
                            format!("문서가 너무 큽니다: {size}바이트 (최대 {MAX_DOCUMENT_BYTES})"),
                            format!("the document is too large: {size} bytes (at most {MAX_DOCUMENT_BYTES})"),
                        )));
                    }
                    let text =
                        documents.read(&name, bytes, call.language).await.map_err(ToolError::Failed)?;
                    let whole = text.len();
                    let part = select_lines(&text, &arguments);
                    Ok(text_output(part, size, "document", whole > MAX_TEXT_BYTES, false, call.language))
                }
                None => {
                    let cut = size > bytes.len() as u64;
                    let decoded =
                        decode(&bytes, cut).ok_or_else(|| not_text_error(path, size, call.language))?;
                    let part = select_lines(&decoded.text, &arguments);
                    Ok(text_output(part, size, decoded.encoding, cut, decoded.broken, call.language))
                }
            },
        }
    }
}

enum PathContents {
    File { bytes: Vec<u8>, size: u64 },
    Directory(Vec<confined_directory::DirectoryEntry>, bool),
}

fn read_path(beneath: &ConfinedDirectory, path: &str, max_bytes: usize) -> Result<PathContents, OpenRefusal> {
    match beneath.open_path(path)? {
        OpenedPath::Directory(directory) => {
            list_directory(&directory).map(|(entries, more)| PathContents::Directory(entries, more))
        }
        OpenedPath::File { file, size } => {
            let bytes = read_prefix(file, max_bytes)?;
            Ok(PathContents::File { size: size.max(bytes.len() as u64), bytes })
        }
    }
}

/// The requested lines, each with its number unless the whole file is requested.
fn select_lines(text: &str, arguments: &ReadFileArguments) -> String {
    if arguments.from_line.is_none() && arguments.lines.is_none() {
        return text.to_owned();
    }
    let from = arguments.from_line.unwrap_or(1).max(1);
    let numbered = text.lines().enumerate().skip(from - 1).take(arguments.lines.unwrap_or(usize::MAX));
    let mut part = String::new();
    for (place, line) in numbered {
        part += &format!("{}: {line}\n", place + 1);
        if part.len() > MAX_TEXT_BYTES {
            break;
        }
    }
    part
}

fn text_output(
    mut text: String,
    size: u64,
    encoding: &str,
    mut cut: bool,
    broken: bool,
    language: Language,
) -> ToolOutput {
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        cut = true;
    }
    let data = json!({ "bytes": size, "encoding": encoding, "truncated": cut, "broken": broken });
    if broken {
        text += language.pick(
            "\n(읽을 수 없는 바이트는 \u{fffd}로 바꿨습니다)",
            "\n(bytes that mean nothing were replaced by \u{fffd})",
        );
    }
    if cut {
        text += &language.pick(
            format!("\n(파일 전체 {size}바이트 중 일부입니다. from_line과 lines로 나머지를 읽으세요)"),
            format!("\n(part of a file of {size} bytes; read on with from_line and lines)"),
        );
    }
    ToolOutput { text, data, ..ToolOutput::default() }
}

fn directory_output(
    entries: &[confined_directory::DirectoryEntry],
    more: bool,
    language: Language,
) -> ToolOutput {
    let line = |entry: &confined_directory::DirectoryEntry| {
        let name = strip_invisible(&entry.name).text.replace(['\n', '\t'], " ");
        if entry.directory { format!("{name}/") } else { format!("{name}\t{}", entry.size) }
    };
    let mut text = entries.iter().map(line).collect::<Vec<_>>().join("\n");
    if entries.is_empty() {
        text = language.pick("(빈 폴더)", "(an empty directory)").to_owned();
    }
    if more {
        text += language.pick("\n(더 있습니다)", "\n(there are more)");
    }
    ToolOutput { text, data: json!({ "entries": entries.len(), "truncated": more }), ..ToolOutput::default() }
}

fn refusal_error(why: OpenRefusal, path: &str, language: Language) -> ToolError {
    let shown: String = strip_invisible(path).text.chars().take(100).collect();
    let denied = |ko: &str, en: &str| {
        ToolError::Denied(language.pick(format!("`{shown}`: {ko}"), format!("`{shown}`: {en}")))
    };
    match why {
        OpenRefusal::LeadsOut => {
            denied("허용된 폴더 밖이거나 링크입니다", "outside of what may be read, or a link")
        }
        OpenRefusal::NotAFile => denied("일반 파일이 아닙니다", "not a regular file"),
        OpenRefusal::NotPermitted => denied("읽을 권한이 없습니다", "no permission to read it"),
        OpenRefusal::NotThere => ToolError::Failed(language.pick(
            format!("`{shown}`: 그런 파일이 없습니다. 빈 경로나 폴더로 목록을 볼 수 있습니다"),
            format!("`{shown}`: there is no such file; an empty path or a directory gives a list"),
        )),
        OpenRefusal::BadPath => ToolError::BadArguments(
            language.pick("경로가 잘못되었습니다".into(), "the path is not valid".into()),
        ),
        OpenRefusal::Broken => ToolError::Failed(
            language.pick(format!("`{shown}`: 읽다가 실패했습니다"), format!("`{shown}`: reading failed")),
        ),
        OpenRefusal::Kernel => ToolError::NotConfigured(language.pick(
            "이 커널에서는 폴더를 안전하게 가둘 수 없습니다 (Linux 5.6 이상 필요)".into(),
            "this kernel cannot keep paths beneath a directory (Linux 5.6 or later is needed)".into(),
        )),
    }
}

fn not_text_error(path: &str, size: u64, language: Language) -> ToolError {
    let shown: String = strip_invisible(path).text.chars().take(100).collect();
    ToolError::Failed(language.pick(
        format!("`{shown}`: 글이 아닌 파일입니다 ({size}바이트)"),
        format!("`{shown}`: not a text file ({size} bytes)"),
    ))
}

/// The real place of `path`, or of the nearest directory above it that exists.
fn canonicalize_nearest(path: &Path) -> PathBuf {
    let mut rest = PathBuf::new();
    for above in path.ancestors() {
        if let Ok(real) = above.canonicalize() {
            return real.join(rest);
        }
        if let Some(name) = above.file_name() {
            rest = if rest.as_os_str().is_empty() { name.into() } else { Path::new(name).join(rest) };
        }
    }
    path.to_owned()
}

fn tool_info() -> ToolInfo {
    let description = "Reads a file below the directories that are open to you: text (UTF-8, UTF-16, CP949), and documents such as PDF, \
        DOCX and HWPX as text. An empty path, or a directory, gives a list. Paths are relative; from_line and lines choose a part.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "maxLength": 4096, "description": "Where the file is, such as notes/plan.md" },
            "from_line": { "type": "integer", "minimum": 1, "description": "The first line to read" },
            "lines": { "type": "integer", "minimum": 1, "maximum": 10000, "description": "How many lines to read" },
        },
        "required": ["path"],
        "additionalProperties": false,
    });
    ToolInfo {
        spec: ToolSpec { name: names::READ_FILE.into(), description: description.into(), parameters },
        ko: "허용된 폴더의 파일을 읽습니다. PDF, DOCX, HWPX도 글로 읽습니다.".into(),
        en: "Reads files below the directories that are open: PDF, DOCX and HWPX too.".into(),
        side_effect: ToolSideEffect::ReadOnly,
        outward: false,
        origin: TextOrigin::Document,
        timeout: Duration::from_secs(30),
        max_output_bytes: MAX_TEXT_BYTES + 1024,
    }
}
