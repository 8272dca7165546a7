//! A victim with a library of documents, its search index and remembered facts. It works by itself and says what it
//! begins and what is done.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use doran_agents::memory::{FileMemoryStore, MemoryFact, MemoryOwner, MemoryStore};
use doran_llm::{Embedder, EmbedderInfo, EmbeddingSide, ModelError};
use doran_retrieval::ingest::{IngestFailureKind, JailedFileReader, ReadLimits};
use doran_retrieval::{DocumentTenant, Library, LibraryOptions, LocalIndex, NewDocument};
use serde::{Deserialize, Serialize};

use crate::power_loss::io_trace::TracedLine;
use crate::seeded_rng::SeededRng;

/// The first argument of this victim.
pub const LIBRARY_VICTIM_ARGUMENT: &str = "--library-victim";

const DOCUMENT_NAMES: u64 = 6;
const ACTIONS_PER_LIFE: u64 = 40;
/// The log of facts is written anew when so many of its lines are history.
const FACTS_IN_A_ROW: u64 = 110;

/// What a victim says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LibraryLine {
    Begun(LibraryAction),
    Done(LibraryAction),
    Failed(String),
}

/// What is done to a library or to the facts. The content of a document is known by its version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LibraryAction {
    Add { name: String, version: u64 },
    Remove { name: String },
    Keep { fact: u64 },
    Forget { fact: u64 },
}

impl TracedLine for LibraryLine {
    fn parse_output_line(line: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(line)
    }

    fn parse_input_line(line: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(line)
    }
}

pub fn tenant() -> DocumentTenant {
    DocumentTenant::new("power")
}

pub fn fact_owner() -> MemoryOwner {
    MemoryOwner::new("power", "loss")
}

pub fn fact_text(fact: u64) -> String {
    format!("{} {}", marker_word(fact), "a fact that somebody asked to keep. ".repeat(1 + fact as usize % 30))
}

/// A word that no other version has, and that is far from the word of any other.
pub fn marker_word(version: u64) -> String {
    let mut rng = SeededRng::for_part(0x6d61_726b, version);
    (0..12).map(|_| char::from(b'a' + u8::try_from(rng.below(26)).unwrap_or_default())).collect()
}

/// The text of a version: from one to a few dozen sectors.
pub fn document_text(name: &str, version: u64) -> String {
    let word = marker_word(version);
    let paragraph =
        format!("{word} 문서 {name}의 판입니다. The words of this version are written here in full.");
    let count = 1 + usize::try_from(version % 40).unwrap_or_default();
    format!("# {name} {version}\n\n{}", vec![paragraph; count].join("\n\n"))
}

/// The version that a text is of.
pub fn version_of(text: &[u8]) -> Option<u64> {
    let first = text.split(|byte| *byte == b'\n').next()?;
    std::str::from_utf8(first).ok()?.rsplit(' ').next()?.parse().ok()
}

/// Vectors from the words alone, so that the same text always has the same.
#[derive(Debug)]
struct HashingEmbedder;

const VECTOR_NUMBERS: usize = 16;

#[async_trait]
impl Embedder for HashingEmbedder {
    fn info(&self) -> EmbedderInfo {
        EmbedderInfo { id: "torture:hashing".into(), dimension: VECTOR_NUMBERS, multilingual: true }
    }

    async fn embed(&self, texts: &[String], _side: EmbeddingSide) -> Result<Vec<Vec<f32>>, ModelError> {
        let vector = |text: &String| {
            let mut vector = [0.1_f32; VECTOR_NUMBERS];
            for word in text.split_whitespace() {
                let hash = word.bytes().fold(7_usize, |hash, byte| hash.wrapping_mul(31) ^ usize::from(byte));
                vector[hash % VECTOR_NUMBERS] += 1.0;
            }
            let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
            vector.iter().map(|number| number / length).collect()
        };
        Ok(texts.iter().map(vector).collect())
    }
}

/// Opens a search index as the program does.
pub async fn open_index(folder: &Path) -> Result<LocalIndex, doran_retrieval::RetrieveError> {
    LocalIndex::open(folder, Some(Arc::new(HashingEmbedder))).await
}

/// Opens a library with its index. With `workers` the index is brought up to date first.
pub async fn open_library(folder: &Path, index: Arc<LocalIndex>, workers: usize) -> Result<Library, String> {
    let reader = JailedFileReader::new(ReadLimits::default(), workers.max(1));
    let options = LibraryOptions { reader, workers, ..LibraryOptions::default() };
    let opened = if workers == 0 {
        Library::open(folder, index, options).await
    } else {
        let locked = Library::lock_directory(folder).await.map_err(|error| describe(&error))?;
        Library::open_synced(locked, index, options, |_| false).await
    };
    opened.map_err(|error| describe(&error))
}

/// An error with its causes.
pub fn describe(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Why documents cannot be read on this machine.
pub fn missing_jail() -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let reader = JailedFileReader::new(ReadLimits::default(), 1);
    match runtime.block_on(reader.read("a.txt", b"words")) {
        Err(failure) if failure.kind == IngestFailureKind::NoJail => {
            Some(format!("no jail: {}", failure.detail))
        }
        _ => None,
    }
}

/// Runs a victim from start to end: `FOLDER SEED PROCESS`.
pub fn library_victim_main(args: &[String]) -> ExitCode {
    let [folder, seed, process] = args else { return ExitCode::FAILURE };
    let (Ok(seed), Ok(process)) = (seed.parse(), process.parse()) else { return ExitCode::FAILURE };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let lived = match runtime {
        Ok(runtime) => runtime.block_on(live(Path::new(folder), seed, process)),
        Err(error) => Err(error.to_string()),
    };
    match lived {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&LibraryLine::Failed(why));
            ExitCode::FAILURE
        }
    }
}

fn say(line: &LibraryLine) {
    let Ok(mut line) = serde_json::to_vec(line) else { return };
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    // A closed pipe does not matter: what was printed is in the trace.
    out.write_all(&line).and_then(|()| out.flush()).ok();
}

struct LibraryVictim {
    library: Library,
    index: Arc<LocalIndex>,
    memory: FileMemoryStore,
    next_number: u64,
}

async fn live(folder: &Path, seed: u64, process: u64) -> Result<(), String> {
    let memory = FileMemoryStore::open(folder.join("memory.log")).map_err(|error| describe(&error))?;
    let index = Arc::new(open_index(&folder.join("search")).await.map_err(|error| describe(&error))?);
    let library = open_library(&folder.join("documents"), index.clone(), 1).await?;
    let mut victim = LibraryVictim { library, index, memory, next_number: process * 1000 };
    let mut rng = SeededRng::for_part(seed, process);
    victim.repeat_what_is_there().await?;
    for _ in 0..ACTIONS_PER_LIFE {
        match rng.below(100) {
            0..45 => {
                let name = document_name(&mut rng);
                let version = victim.new_number();
                victim.act(LibraryAction::Add { name, version }).await?;
            }
            45..60 => {
                let name = document_name(&mut rng);
                victim.act(LibraryAction::Remove { name }).await?;
            }
            60..75 => {
                let fact = victim.new_number();
                victim.act(LibraryAction::Keep { fact }).await?;
            }
            75..82 => {
                if let Some(fact) = rng.pick(&victim.facts().await?).copied() {
                    victim.act(LibraryAction::Forget { fact }).await?;
                }
            }
            82..85 if process == 1 => victim.compact_facts().await?,
            82..88 => victim.repeat_what_is_there().await?,
            _ => victim.rest().await,
        }
    }
    victim.rest().await;
    if process % 2 == 1 {
        victim.library.close().await;
    }
    Ok(())
}

fn document_name(rng: &mut SeededRng) -> String {
    format!("d{}.md", rng.below(DOCUMENT_NAMES))
}

impl LibraryVictim {
    fn new_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    async fn act(&self, action: LibraryAction) -> Result<(), String> {
        say(&LibraryLine::Begun(action.clone()));
        match &action {
            LibraryAction::Add { name, version } => {
                let new = NewDocument {
                    tenant: tenant(),
                    name: name.clone(),
                    collection: String::new(),
                    kind: None,
                    bytes: document_text(name, *version).into_bytes(),
                };
                self.library.add(new).await.map_err(|error| describe(&error))?;
            }
            LibraryAction::Remove { name } => {
                let id = Library::document_id(&tenant(), "", name);
                match self.library.remove(&tenant(), &id).await {
                    Ok(()) | Err(doran_retrieval::LibraryError::Unknown(_)) => {}
                    Err(error) => return Err(describe(&error)),
                }
            }
            LibraryAction::Keep { fact } => {
                let kept = MemoryFact {
                    id: fact.to_string(),
                    text: fact_text(*fact),
                    at_ms: 1,
                    taint: doran_agents::tools::Taint::default(),
                };
                self.memory.keep(&fact_owner(), kept).await.map_err(|error| describe(&error))?;
            }
            LibraryAction::Forget { fact } => {
                let gone = self.memory.forget(&fact_owner(), &fact.to_string()).await;
                gone.map_err(|error| describe(&error))?;
            }
        }
        say(&LibraryLine::Done(action));
        Ok(())
    }

    /// Asks again for what is there: it is acknowledged again, whichever process wrote it and however that process ended.
    async fn repeat_what_is_there(&self) -> Result<(), String> {
        let mut versions: BTreeMap<String, u64> = BTreeMap::new();
        for status in self.library.list(&tenant()) {
            let original = self.library.original(&tenant(), &status.id).await;
            let original = original.map_err(|error| describe(&error))?;
            versions.extend(original.as_deref().and_then(version_of).map(|version| (status.name, version)));
        }
        for (name, version) in versions {
            self.act(LibraryAction::Add { name, version }).await?;
        }
        for fact in self.facts().await?.into_iter().take(3) {
            self.act(LibraryAction::Keep { fact }).await?;
        }
        Ok(())
    }

    /// The facts that are kept, the newest first.
    async fn facts(&self) -> Result<Vec<u64>, String> {
        let facts = self.memory.list(&fact_owner()).await.map_err(|error| describe(&error))?;
        let mut numbers: Vec<u64> = facts.iter().filter_map(|fact| fact.id.parse().ok()).collect();
        numbers.sort_unstable_by(|left, right| right.cmp(left));
        Ok(numbers)
    }

    /// Makes so much history that the log of facts is written anew.
    async fn compact_facts(&mut self) -> Result<(), String> {
        for _ in 0..FACTS_IN_A_ROW {
            let fact = self.new_number();
            self.act(LibraryAction::Keep { fact }).await?;
            self.act(LibraryAction::Forget { fact }).await?;
        }
        Ok(())
    }

    /// Waits until every document is read and has its vectors.
    async fn rest(&self) {
        use doran_retrieval::DocumentIndex;
        self.library.wait_until_idle().await;
        while self.index.passages_without_vectors() > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
