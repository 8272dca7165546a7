//! A sentence transformer from a local folder: a BERT encoder with WordPiece, in the format in which `all-MiniLM-L6-v2`
//! and similar models are published. It runs in this process and needs no network.
//!
//! The folder contains `config.json`, `model.safetensors` and either `tokenizer.json` or `vocab.txt`. It may also
//! contain `sentence_bert_config.json` and `1_Pooling/config.json`. Any other architecture is rejected with an error
//! that names it.

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

use self::bert::{BertConfig, BertEncoder};
use self::safetensors::SafeTensors;
use self::wordpiece::WordPieceTokenizer;
use super::matrix::to_unit_length;
use super::{Embedder, EmbedderInfo, EmbeddingSide};
use crate::error::ModelError;

/// The maximum size of the weights file.
const MAX_WEIGHTS_FILE_BYTES: u64 = 2 << 30;

/// The maximum number of tokens of a text if the folder does not specify it.
const DEFAULT_MAX_PIECES: usize = 256;

/// An encoder read from a folder. Clones share its weights.
#[derive(Clone)]
pub struct SentenceTransformer(Arc<SentenceTransformerParts>);

struct SentenceTransformerParts {
    tokenizer: WordPieceTokenizer,
    bert: BertEncoder,
    pooling: SentencePooling,
    max_pieces: usize,
    id: String,
}

/// How the token vectors are combined into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentencePooling {
    Mean,
    ClsToken,
}

/// Why a folder cannot be opened as an encoder.
#[derive(Debug, thiserror::Error)]
pub enum OpenSentenceTransformerError {
    /// A file cannot be read. Name another folder, or add the file.
    #[error("`{path}` cannot be read")]
    Unreadable {
        /// Which file.
        path: String,
        /// The underlying error.
        #[source]
        source: std::io::Error,
    },
    /// A file is damaged. Download it again.
    #[error("`{path}` is damaged: {reason}")]
    Damaged {
        /// Which file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The architecture is not supported. Use BERT with WordPiece, with mean or first-token pooling.
    #[error("`{path}` asks for {what}, which is not known here; BERT encoders with WordPiece are")]
    Unknown {
        /// Which file.
        path: String,
        /// What is not supported.
        what: String,
    },
}

impl SentenceTransformer {
    /// Opens an encoder. This takes about a second, and as much memory as the weights file, or twice that for 16-bit
    /// weights.
    pub fn open(folder: &Path) -> Result<Self, OpenSentenceTransformerError> {
        let files = EncoderFolder(folder);
        let config =
            files.read_json("config.json")?.ok_or_else(|| files.missing_file_error("config.json"))?;
        let shape: BertConfig = files.parse_typed("config.json", &config)?;
        let kind = config.get("model_type").and_then(Value::as_str).unwrap_or("bert");
        let activation = config.get("hidden_act").and_then(Value::as_str).unwrap_or("gelu");
        let positions = config.get("position_embedding_type").and_then(Value::as_str).unwrap_or("absolute");
        for (what, known) in [(kind, "bert"), (activation, "gelu"), (positions, "absolute")] {
            if what != known {
                return Err(files.unsupported_setting_error("config.json", what));
            }
        }
        shape.check().map_err(|reason| files.damaged_file_error("config.json", reason))?;
        let (tokenizer, most_pieces) =
            (files.read_tokenizer()?, files.read_max_pieces()?.min(shape.positions()));
        let (pooling, weights) = (files.read_pooling()?, files.read_bytes("model.safetensors")?);
        let damaged = |reason| files.damaged_file_error("model.safetensors", reason);
        let bert = BertEncoder::from_tensors(&SafeTensors::parse(&weights).map_err(damaged)?, &shape)
            .map_err(damaged)?;
        if tokenizer.len() > bert.vocabulary_rows() {
            let reason = format!("{} pieces for {} rows", tokenizer.len(), bert.vocabulary_rows());
            return Err(files.damaged_file_error("tokenizer.json", reason));
        }
        // The same weights under another name are the same encoder.
        let hash: String = hex::encode(&Sha256::digest(&weights)[..6]);
        let id = format!("local:sentence-transformer-{hash}-{most_pieces}");
        Ok(Self(Arc::new(SentenceTransformerParts { tokenizer, bert, pooling, max_pieces: most_pieces, id })))
    }

    /// Embeds one text on the calling thread.
    pub(crate) fn embed_blocking(&self, text: &str) -> Vec<f32> {
        let SentenceTransformerParts { tokenizer, bert, pooling, max_pieces: most_pieces, .. } = &*self.0;
        let rows = bert.encode(&tokenizer.encode(text, *most_pieces));
        let mut vector = match pooling {
            SentencePooling::ClsToken => rows.row(0).to_vec(),
            SentencePooling::Mean => {
                let mut sum = vec![0.0; rows.width];
                (0..rows.rows()).for_each(|row| super::matrix::add_in_place(&mut sum, rows.row(row)));
                sum
            }
        };
        to_unit_length(&mut vector);
        vector
    }
}

#[async_trait]
impl Embedder for SentenceTransformer {
    fn info(&self) -> EmbedderInfo {
        EmbedderInfo { id: self.0.id.clone(), dimension: self.0.bert.width(), multilingual: false }
    }

    async fn embed(&self, texts: &[String], _: EmbeddingSide) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut vectors = Vec::with_capacity(texts.len());
        // A few texts at a time: if the caller drops the future, the rest is not computed.
        for some in texts.chunks(4) {
            let (own, some) = (self.clone(), some.to_vec());
            let work = tokio::task::spawn_blocking(move || -> Vec<Vec<f32>> {
                some.iter().map(|text| own.embed_blocking(text)).collect()
            });
            vectors.extend(work.await.map_err(|error| ModelError::Broken { reason: error.to_string() })?);
        }
        Ok(vectors)
    }
}

/// The files of a folder.
struct EncoderFolder<'a>(&'a Path);

#[derive(Deserialize)]
struct PoolingConfigFile {
    #[serde(default)]
    pooling_mode_cls_token: bool,
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
}

#[derive(Deserialize)]
struct SentenceBertConfigFile {
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

impl EncoderFolder<'_> {
    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn missing_file_error(&self, name: &str) -> OpenSentenceTransformerError {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        OpenSentenceTransformerError::Unreadable { path: self.path(name), source }
    }

    fn damaged_file_error(&self, name: &str, reason: impl Into<String>) -> OpenSentenceTransformerError {
        OpenSentenceTransformerError::Damaged { path: self.path(name), reason: reason.into() }
    }

    fn unsupported_setting_error(&self, name: &str, what: impl Into<String>) -> OpenSentenceTransformerError {
        OpenSentenceTransformerError::Unknown { path: self.path(name), what: what.into() }
    }

    fn read_bytes(&self, name: &str) -> Result<Vec<u8>, OpenSentenceTransformerError> {
        let path = self.0.join(name);
        let unreadable = |source| OpenSentenceTransformerError::Unreadable { path: self.path(name), source };
        if fs::metadata(&path).map_err(unreadable)?.len() > MAX_WEIGHTS_FILE_BYTES {
            return Err(self.damaged_file_error(name, "it is larger than any encoder that fits here"));
        }
        fs::read(&path).map_err(unreadable)
    }

    /// Reads a JSON file. Returns `None` if it does not exist.
    fn read_json(&self, name: &str) -> Result<Option<Value>, OpenSentenceTransformerError> {
        if !self.0.join(name).exists() {
            return Ok(None);
        }
        let value = serde_json::from_slice(&self.read_bytes(name)?);
        value.map(Some).map_err(|error| self.damaged_file_error(name, error.to_string()))
    }

    fn parse_typed<T: for<'de> Deserialize<'de>>(
        &self,
        name: &str,
        value: &Value,
    ) -> Result<T, OpenSentenceTransformerError> {
        T::deserialize(value).map_err(|error| self.damaged_file_error(name, error.to_string()))
    }

    fn read_tokenizer(&self) -> Result<WordPieceTokenizer, OpenSentenceTransformerError> {
        if let Some(value) = self.read_json("tokenizer.json")? {
            let kind = value.pointer("/model/type").and_then(Value::as_str).unwrap_or("WordPiece");
            if kind != "WordPiece" {
                return Err(self.unsupported_setting_error("tokenizer.json", kind));
            }
            return WordPieceTokenizer::from_tokenizer_json(&value)
                .map_err(|reason| self.damaged_file_error("tokenizer.json", reason));
        }
        let text = String::from_utf8(self.read_bytes("vocab.txt")?)
            .map_err(|error| self.damaged_file_error("vocab.txt", error.to_string()))?;
        let lower = match self.read_json("tokenizer_config.json")? {
            Some(value) => value.get("do_lower_case").and_then(Value::as_bool).unwrap_or(true),
            None => true,
        };
        WordPieceTokenizer::from_vocab_txt(&text, lower)
            .map_err(|reason| self.damaged_file_error("vocab.txt", reason))
    }

    fn read_max_pieces(&self) -> Result<usize, OpenSentenceTransformerError> {
        let name = "sentence_bert_config.json";
        let Some(value) = self.read_json(name)? else { return Ok(DEFAULT_MAX_PIECES) };
        let file: SentenceBertConfigFile = self.parse_typed(name, &value)?;
        if file.do_lower_case {
            return Err(self.unsupported_setting_error(name, "`do_lower_case`"));
        }
        Ok(file.max_seq_length.unwrap_or(DEFAULT_MAX_PIECES).max(3))
    }

    fn read_pooling(&self) -> Result<SentencePooling, OpenSentenceTransformerError> {
        let name = "1_Pooling/config.json";
        let Some(value) = self.read_json(name)? else { return Ok(SentencePooling::Mean) };
        let file: PoolingConfigFile = self.parse_typed(name, &value)?;
        let others =
            ["pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_lasttoken"];
        if let Some(other) = others.iter().find(|name| value.get(**name) == Some(&Value::Bool(true))) {
            return Err(self.unsupported_setting_error(name, format!("`{other}`")));
        }
        match (file.pooling_mode_mean_tokens, file.pooling_mode_cls_token) {
            (true, false) => Ok(SentencePooling::Mean),
            (false, true) => Ok(SentencePooling::ClsToken),
            _ => Err(self.unsupported_setting_error(name, "no way of pooling, or two")),
        }
    }
}

#[cfg(test)]
mod tests;
