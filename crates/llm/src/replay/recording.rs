//! Records answers in a JSON Lines file, and replays them without a model.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use super::fingerprint::request_fingerprint;
use super::mark_as_already_paid;
use crate::error::ModelError;
use crate::model::{ChatModel, ChatRequest, Delta, DeltaStream, ModelInfo, ModelKind, ModelRole};

/// One line of the file.
#[derive(Serialize, Deserialize)]
struct RecordingLine {
    /// The version of the line format.
    version: u32,
    /// The fingerprint of the request.
    key: String,
    /// The model that answered.
    model: String,
    /// What kind of model it was. A recording without it is of a language model.
    #[serde(default = "language_model")]
    kind: ModelKind,
    /// The request, for human readers.
    request: ChatRequest,
    /// The whole answer.
    deltas: Vec<Delta>,
}

const RECORDING_VERSION: u32 = 1;

fn language_model() -> ModelKind {
    ModelKind::Language
}

/// A model that records complete answers in a file. Failed requests are not recorded.
#[derive(Clone)]
pub struct RecordingModel {
    inner: Arc<dyn ChatModel>,
    file: Arc<Mutex<File>>,
}

impl RecordingModel {
    /// Appends to a file, which is created if it does not exist.
    pub fn append_to_file(inner: Arc<dyn ChatModel>, path: &Path) -> std::io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { inner, file: Arc::new(Mutex::new(file)) })
    }
}

impl ChatModel for RecordingModel {
    fn info(&self) -> ModelInfo {
        self.inner.info()
    }

    fn info_for_role(&self, role: ModelRole) -> ModelInfo {
        self.inner.info_for_role(role)
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let ModelInfo { name: model, kind, .. } = self.inner.info_for_role(request.role);
        let key = match request_fingerprint(&request) {
            Ok(key) => key,
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let file = self.file.clone();
        let mut line = RecordingLine {
            version: RECORDING_VERSION,
            key,
            model,
            kind,
            request: request.clone(),
            deltas: Vec::new(),
        };
        let deltas = self.inner.stream(request).map(move |delta| {
            let delta = delta?;
            line.deltas.push(delta.clone());
            if matches!(delta, Delta::Done { .. }) {
                write_line(&file, &line)?;
            }
            Ok(delta)
        });
        deltas.boxed()
    }
}

/// Writes one line. A write error fails the request, because a recording with gaps would be noticed much later.
fn write_line(file: &Mutex<File>, line: &RecordingLine) -> Result<(), ModelError> {
    let failed = |error: &dyn std::error::Error| ModelError::Rejected {
        reason: format!("the answer could not be recorded: {error}"),
    };
    let mut text = serde_json::to_string(line).map_err(|error| failed(&error))?;
    text.push('\n');
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    file.write_all(text.as_bytes()).map_err(|error| failed(&error))
}

/// A model that replays recorded answers and sends no requests.
///
/// A request that is repeated gets its answers in the order in which they were recorded, and then the last one again.
#[derive(Debug)]
pub struct ReplayingModel {
    name: String,
    /// The kind of the model that wrote the answers: agents may put their requests differently for it.
    kind: ModelKind,
    answers: HashMap<String, Vec<Vec<Delta>>>,
    times_given: Mutex<HashMap<String, usize>>,
}

impl ReplayingModel {
    /// Reads a recording.
    pub fn from_file(path: &Path) -> std::io::Result<Self> {
        let mut answers: HashMap<String, Vec<Vec<Delta>>> = HashMap::new();
        let (mut name, mut kind) = ("replay".to_owned(), ModelKind::Language);
        for (at, line) in BufReader::new(File::open(path)?).lines().enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let invalid = |why: String| {
                std::io::Error::new(std::io::ErrorKind::InvalidData, format!("line {}: {why}", at + 1))
            };
            let line: RecordingLine =
                serde_json::from_str(&line).map_err(|error| invalid(error.to_string()))?;
            if line.version != RECORDING_VERSION {
                return Err(invalid(format!("version {} is not known", line.version)));
            }
            name = line.model;
            if line.request.role == ModelRole::Main {
                kind = line.kind;
            }
            answers.entry(line.key).or_default().push(line.deltas);
        }
        Ok(Self { name, kind, answers, times_given: Mutex::default() })
    }

    fn next_recorded_answer(&self, request: &ChatRequest) -> Result<Vec<Delta>, ModelError> {
        let key = request_fingerprint(request)?;
        let Some(answers) = self.answers.get(&key) else {
            let question: String = request.question().unwrap_or_default().chars().take(60).collect();
            let reason = format!("{} for `{question}` (key {})", request.purpose, &key[..12]);
            return Err(ModelError::NotRecorded { reason });
        };
        let mut given = self.times_given.lock().unwrap_or_else(PoisonError::into_inner);
        let count = given.entry(key).or_default();
        let at = (*count).min(answers.len().saturating_sub(1));
        *count += 1;
        Ok(answers[at].clone())
    }
}

impl ChatModel for ReplayingModel {
    fn info(&self) -> ModelInfo {
        ModelInfo {
            name: self.name.clone(),
            kind: self.kind,
            ko: "녹음된 답을 그대로 다시 들려줍니다. 모델을 부르지 않습니다.".into(),
            en: "Plays recorded answers back as they were. No model is asked.".into(),
            unsupported_settings: Vec::new(),
        }
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        match self.next_recorded_answer(&request) {
            Ok(deltas) => {
                stream::iter(deltas.into_iter().map(|delta| Ok(mark_as_already_paid(delta)))).boxed()
            }
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::collect_reply;
    use crate::message::Message;
    use crate::scripted::{ScriptedModel, ScriptedReply};

    fn ask(id: &str, text: &str) -> ChatRequest {
        ChatRequest::new(vec![Message::user(id, text)])
    }

    #[tokio::test]
    async fn what_was_recorded_is_played_back_exactly() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("answers.jsonl");
        let lost = ModelError::Broken { reason: "reset".into() };
        let model = ScriptedModel::new([
            ScriptedReply::text("첫 번째 답").and_call("calculator", json!({"x": 1})),
            ScriptedReply::text("두 번째 답"),
            ScriptedReply::text("반").then_fails(lost),
        ]);
        let recording = RecordingModel::append_to_file(Arc::new(model), &path).expect("file");
        let first = collect_reply(recording.stream(ask("a", "질문"))).await.expect("reply");
        let second = collect_reply(recording.stream(ask("b", "질문"))).await.expect("reply");
        assert!(collect_reply(recording.stream(ask("c", "끊김"))).await.is_err());

        let replaying = ReplayingModel::from_file(&path).expect("recording");
        for expected in [&first, &second, &second] {
            let reply = collect_reply(replaying.stream(ask("other id", "질문"))).await.expect("reply");
            let usage = crate::Usage { cost_micros: Some(0), ..expected.usage };
            assert_eq!(reply, crate::ModelReply { usage, ..expected.clone() }, "and it costs nothing again");
        }
        let error = collect_reply(replaying.stream(ask("a", "끊김"))).await.expect_err("not recorded");
        assert_eq!(error.code(), "not_recorded");
        assert!(error.to_string().contains("`끊김`"), "{error}");
    }

    #[test]
    fn a_damaged_recording_is_reported_by_its_line() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("answers.jsonl");
        std::fs::write(&path, "\n{\"version\":1}\n").expect("file");
        let error = ReplayingModel::from_file(&path).expect_err("damaged");
        assert!(error.to_string().starts_with("line 2: "), "{error}");
    }
}
