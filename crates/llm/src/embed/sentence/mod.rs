//! A sentence transformer from a folder on this machine: a BERT encoder with WordPiece, as `all-MiniLM-L6-v2` and its
//! relatives are published. It runs in this process and asks nobody.
//!
//! The folder holds `config.json`, `model.safetensors` and `tokenizer.json` or `vocab.txt`, and, if they are there,
//! `sentence_bert_config.json` and `1_Pooling/config.json`. Anything else is refused by name rather than guessed at.

mod bert;
mod safetensors;
mod wordpiece;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use self::bert::{Bert, Shape};
use self::safetensors::Tensors;
use self::wordpiece::WordPiece;
use super::matrix::to_unit_length;
use super::{Embedder, EmbedderAbout, Side};
use crate::error::ModelError;

/// The largest file of weights that is read.
const MOST_BYTES: u64 = 2 << 30;

/// The most pieces of a text that are read when the folder does not say.
const USUAL_PIECES: usize = 256;

/// An encoder read from a folder. Cloning shares its numbers.
#[derive(Clone)]
pub struct SentenceTransformer(Arc<Parts>);

struct Parts {
    tokenizer: WordPiece,
    bert: Bert,
    pooling: Pooling,
    most_pieces: usize,
    id: String,
}

/// How the vectors of pieces become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pooling {
    Mean,
    First,
}

/// Why a folder is not an encoder.
#[derive(Debug, thiserror::Error)]
pub enum OpenFolderError {
    /// Name another folder, or put the file there.
    #[error("`{path}` cannot be read")]
    Unreadable {
        /// Which file.
        path: String,
        /// What lies beneath.
        #[source]
        source: std::io::Error,
    },
    /// Get the file again.
    #[error("`{path}` is damaged: {reason}")]
    Damaged {
        /// Which file.
        path: String,
        /// What was seen.
        reason: String,
    },
    /// Use an encoder of a kind that is known: BERT with WordPiece, pooled by mean or by the first piece.
    #[error("`{path}` asks for {what}, which is not known here; BERT encoders with WordPiece are")]
    Unknown {
        /// Which file.
        path: String,
        /// What it asks for.
        what: String,
    },
}

impl SentenceTransformer {
    /// Reads an encoder from its folder. Takes a second and as much memory as the file of weights, or twice that where
    /// its numbers are short.
    pub fn open(folder: &Path) -> Result<Self, OpenFolderError> {
        let files = Files(folder);
        let config = files.json("config.json")?.ok_or_else(|| files.missing("config.json"))?;
        let shape: Shape = files.typed("config.json", &config)?;
        let kind = config.get("model_type").and_then(Value::as_str).unwrap_or("bert");
        let activation = config.get("hidden_act").and_then(Value::as_str).unwrap_or("gelu");
        let positions = config.get("position_embedding_type").and_then(Value::as_str).unwrap_or("absolute");
        for (what, known) in [(kind, "bert"), (activation, "gelu"), (positions, "absolute")] {
            if what != known {
                return Err(files.unknown("config.json", what));
            }
        }
        shape.check().map_err(|reason| files.damaged("config.json", reason))?;
        let (tokenizer, most_pieces) = (files.tokenizer()?, files.most_pieces()?.min(shape.positions()));
        let (pooling, weights) = (files.pooling()?, files.bytes("model.safetensors")?);
        let damaged = |reason| files.damaged("model.safetensors", reason);
        let bert = Bert::read(&Tensors::read(&weights).map_err(damaged)?, &shape).map_err(damaged)?;
        if tokenizer.len() > bert.pieces() {
            let reason = format!("{} pieces for {} rows", tokenizer.len(), bert.pieces());
            return Err(files.damaged("tokenizer.json", reason));
        }
        // The same weights under another name are the same encoder.
        let hash: String =
            Sha256::digest(&weights).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let id = format!("local:sentence-transformer-{hash}-{most_pieces}");
        Ok(Self(Arc::new(Parts { tokenizer, bert, pooling, most_pieces, id })))
    }

    /// The vector of one text, on the thread that asks.
    pub fn embed_now(&self, text: &str) -> Vec<f32> {
        let Parts { tokenizer, bert, pooling, most_pieces, .. } = &*self.0;
        let rows = bert.encode(&tokenizer.encode(text, *most_pieces));
        let mut vector = match pooling {
            Pooling::First => rows.row(0).to_vec(),
            Pooling::Mean => {
                let mut sum = vec![0.0; rows.width];
                (0..rows.rows()).for_each(|row| super::matrix::add(&mut sum, rows.row(row)));
                sum
            }
        };
        to_unit_length(&mut vector);
        vector
    }
}

#[async_trait]
impl Embedder for SentenceTransformer {
    fn about(&self) -> EmbedderAbout {
        EmbedderAbout { id: self.0.id.clone(), dimension: self.0.bert.width(), multilingual: false }
    }

    async fn embed(&self, texts: &[String], _: Side) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut vectors = Vec::with_capacity(texts.len());
        // A few texts at a time: whoever drops the call stops the rest.
        for some in texts.chunks(4) {
            let (own, some) = (self.clone(), some.to_vec());
            let work = tokio::task::spawn_blocking(move || -> Vec<Vec<f32>> {
                some.iter().map(|text| own.embed_now(text)).collect()
            });
            vectors.extend(work.await.map_err(|error| ModelError::Broken { reason: error.to_string() })?);
        }
        Ok(vectors)
    }
}

/// The files of a folder.
struct Files<'a>(&'a Path);

#[derive(Deserialize)]
struct PoolingFile {
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
}

#[derive(Deserialize)]
struct LengthFile {
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

impl Files<'_> {
    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn missing(&self, name: &str) -> OpenFolderError {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        OpenFolderError::Unreadable { path: self.path(name), source }
    }

    fn damaged(&self, name: &str, reason: impl Into<String>) -> OpenFolderError {
        OpenFolderError::Damaged { path: self.path(name), reason: reason.into() }
    }

    fn unknown(&self, name: &str, what: impl Into<String>) -> OpenFolderError {
        OpenFolderError::Unknown { path: self.path(name), what: what.into() }
    }

    fn bytes(&self, name: &str) -> Result<Vec<u8>, OpenFolderError> {
        let path = self.0.join(name);
        let unreadable = |source| OpenFolderError::Unreadable { path: self.path(name), source };
        if fs::metadata(&path).map_err(unreadable)?.len() > MOST_BYTES {
            return Err(self.damaged(name, "it is larger than any encoder that fits here"));
        }
        fs::read(&path).map_err(unreadable)
    }

    /// What a file holds; none where there is no such file.
    fn json(&self, name: &str) -> Result<Option<Value>, OpenFolderError> {
        if !self.0.join(name).exists() {
            return Ok(None);
        }
        let value = serde_json::from_slice(&self.bytes(name)?);
        value.map(Some).map_err(|error| self.damaged(name, error.to_string()))
    }

    fn typed<T: for<'de> Deserialize<'de>>(&self, name: &str, value: &Value) -> Result<T, OpenFolderError> {
        T::deserialize(value).map_err(|error| self.damaged(name, error.to_string()))
    }

    fn tokenizer(&self) -> Result<WordPiece, OpenFolderError> {
        if let Some(value) = self.json("tokenizer.json")? {
            let kind = value.pointer("/model/type").and_then(Value::as_str).unwrap_or("WordPiece");
            if kind != "WordPiece" {
                return Err(self.unknown("tokenizer.json", kind));
            }
            return WordPiece::of_json(&value).map_err(|reason| self.damaged("tokenizer.json", reason));
        }
        let text = String::from_utf8_lossy(&self.bytes("vocab.txt")?).into_owned();
        let lower = match self.json("tokenizer_config.json")? {
            Some(value) => value.get("do_lower_case").and_then(Value::as_bool).unwrap_or(true),
            None => true,
        };
        WordPiece::of_lines(&text, lower).map_err(|reason| self.damaged("vocab.txt", reason))
    }

    fn most_pieces(&self) -> Result<usize, OpenFolderError> {
        let name = "sentence_bert_config.json";
        let Some(value) = self.json(name)? else { return Ok(USUAL_PIECES) };
        let file: LengthFile = self.typed(name, &value)?;
        if file.do_lower_case {
            return Err(self.unknown(name, "`do_lower_case`"));
        }
        Ok(file.max_seq_length.unwrap_or(USUAL_PIECES).max(3))
    }

    fn pooling(&self) -> Result<Pooling, OpenFolderError> {
        let name = "1_Pooling/config.json";
        let Some(value) = self.json(name)? else { return Ok(Pooling::Mean) };
        let file: PoolingFile = self.typed(name, &value)?;
        let others =
            ["pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_lasttoken"];
        if let Some(other) = others.iter().find(|name| value.get(**name) == Some(&Value::Bool(true))) {
            return Err(self.unknown(name, format!("`{other}`")));
        }
        match (file.pooling_mode_mean_tokens, file.pooling_mode_cls_token) {
            (true, false) => Ok(Pooling::Mean),
            (false, true) => Ok(Pooling::First),
            _ => Err(self.unknown(name, "no way of pooling, or two")),
        }
    }
}

#[cfg(test)]
mod tests;
