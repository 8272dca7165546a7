//! Compares an encoder from a folder with the vectors of other implementations for the same texts.
//!
//! `tests/sentence` contains a tiny BERT and `golden.jsonl`, both made by `make.py` with `tokenizers` and `numpy`. To
//! run the same test on a real encoder, set `DORAN_TEST_SENTENCE` to its folder after `make.py FOLDER` wrote the golden
//! file.

use std::path::PathBuf;
use std::{env, fs};

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct SentenceGoldenRow {
    text: String,
    pieces: Vec<u32>,
    vector: Vec<f32>,
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sentence")
}

fn folder() -> PathBuf {
    env::var_os("DORAN_TEST_SENTENCE").map_or_else(fixture, PathBuf::from)
}

fn golden(folder: &Path) -> Vec<SentenceGoldenRow> {
    let file = fs::read_to_string(folder.join("golden.jsonl")).expect("golden vectors");
    let golden: Vec<SentenceGoldenRow> =
        file.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
    assert!(golden.len() > 10);
    golden
}

#[test]
fn texts_are_cut_and_encoded_as_others_do() {
    let folder = folder();
    let encoder = SentenceTransformer::open(&folder).expect("an encoder");
    for SentenceGoldenRow { text, pieces, vector } in golden(&folder) {
        let shown: String = text.chars().take(40).collect();
        assert_eq!(encoder.0.tokenizer.encode(&text, encoder.0.max_pieces), pieces, "{shown:?}");
        let own = encoder.embed_blocking(&text);
        let far = own.iter().zip(&vector).map(|(own, known)| (own - known).abs()).fold(0.0, f32::max);
        assert!(own.len() == vector.len() && far < 2e-5, "{shown:?} is off by {far}");
    }
}

#[tokio::test]
async fn an_embedder_keeps_its_contract() {
    let encoder = SentenceTransformer::open(&fixture()).expect("an encoder");
    let texts: Vec<String> = ["a happy man", "", "a happy man", "漢字 \u{0} !"].map(String::from).to_vec();
    let vectors = encoder.embed(&texts, EmbeddingSide::Passage).await.expect("vectors");
    assert_eq!(vectors.len(), 4);
    assert_eq!(vectors[0], vectors[2], "the same text, the same vector");
    assert_eq!(encoder.embed(&texts[..1], EmbeddingSide::Query).await.expect("one")[0], vectors[0]);
    for vector in &vectors {
        assert_eq!(vector.len(), encoder.info().dimension);
        assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4);
    }
    assert!(encoder.info().id.starts_with("local:sentence-transformer-"));
}

/// Returns the result of opening the fixture after one of its files was changed.
fn open_outcome_after_change(file: &str, change: impl Fn(Vec<u8>) -> Option<Vec<u8>>) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["config.json", "vocab.txt", "model.safetensors"] {
        let bytes = fs::read(fixture().join(name)).expect("a file");
        let bytes = if name == file { change(bytes) } else { Some(bytes) };
        if let Some(bytes) = bytes {
            fs::write(folder.path().join(name), bytes).expect("written");
        }
    }
    if !["config.json", "vocab.txt", "model.safetensors"].contains(&file) {
        fs::create_dir_all(folder.path().join("1_Pooling")).expect("a folder");
        fs::write(folder.path().join(file), change(Vec::new()).expect("bytes")).expect("written");
    }
    match SentenceTransformer::open(folder.path()) {
        Ok(_) => "opened".into(),
        Err(error) => error.to_string().replace(&folder.path().display().to_string(), "…"),
    }
}

#[test]
fn a_folder_that_is_no_such_encoder_is_refused_with_the_name_of_the_file() {
    let replaced = |from: &'static str, to: &'static str| {
        move |bytes: Vec<u8>| Some(String::from_utf8(bytes).expect("text").replace(from, to).into_bytes())
    };
    let fixed = |text: &'static str| move |_: Vec<u8>| Some(text.as_bytes().to_vec());
    assert_eq!(open_outcome_after_change("config.json", Some), "opened");
    assert_eq!(open_outcome_after_change("config.json", |_| None), "`…/config.json` cannot be read");
    assert_eq!(
        open_outcome_after_change("model.safetensors", |_| None),
        "`…/model.safetensors` cannot be read"
    );
    for kind in ["xlm-roberta", "mpnet"] {
        let other = move |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("text");
            Some(text.replace("\"bert\"", &format!("{kind:?}")).into_bytes())
        };
        assert!(
            open_outcome_after_change("config.json", other)
                .contains(&format!("asks for {kind}, which is not known here"))
        );
    }
    assert!(
        open_outcome_after_change("config.json", replaced("\"gelu\"", "\"relu\"")).contains("asks for relu")
    );
    assert!(
        open_outcome_after_change("config.json", replaced("16", "17"))
            .contains("its sizes are not those of an encoder")
    );
    assert!(open_outcome_after_change("config.json", replaced("40", "4000000000")).contains("its sizes"));
    assert!(
        open_outcome_after_change("config.json", replaced("40", "41"))
            .contains("there are only 40 positions")
    );
    assert!(open_outcome_after_change("config.json", replaced("24", "25")).contains("should be"));
    assert!(open_outcome_after_change("vocab.txt", replaced("[CLS]", "[X]")).contains("there is no `[CLS]`"));
    let not_utf8 = open_outcome_after_change("vocab.txt", |mut bytes| {
        bytes.extend(b"\xff\n");
        Some(bytes)
    });
    assert!(not_utf8.contains("is damaged"), "{not_utf8}");
    assert!(
        open_outcome_after_change("vocab.txt", |mut bytes| {
            bytes.extend_from_slice(b"one more\n");
            Some(bytes)
        })
        .contains("pieces for")
    );
    assert!(
        open_outcome_after_change("model.safetensors", |bytes| Some(bytes[..bytes.len() - 1].to_vec()))
            .contains("is damaged")
    );
    assert_eq!(
        open_outcome_after_change("1_Pooling/config.json", fixed(r#"{"pooling_mode_cls_token":true}"#)),
        "opened"
    );
    assert!(
        open_outcome_after_change("1_Pooling/config.json", fixed(r#"{"pooling_mode_max_tokens":true}"#))
            .contains("pooling_mode_max")
    );
    assert!(
        open_outcome_after_change("tokenizer.json", fixed(r#"{"model":{"type":"Unigram"}}"#))
            .contains("asks for Unigram")
    );
    assert!(open_outcome_after_change("tokenizer.json", fixed("{")).contains("is damaged"));
}
