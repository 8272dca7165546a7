//! Tests of the encoder with the weights that are compiled in.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::answer_scorer::{BUILT_IN_SCORER, MAX_QUESTION_PIECES};
use super::forward_pass::{PassBuffers, encode_portable};
use super::{AnswerCandidate, AnswerScorer, BUILT_IN, EncoderFileError, MAX_PIECES, TextEncoder, TextSide};

fn built_in() -> &'static TextEncoder {
    TextEncoder::built_in().unwrap()
}

/// Texts with their pieces and vectors, written by `training/export.py` from the weights before they were rounded.
struct ReferenceText {
    text: String,
    side: TextSide,
    pieces: Vec<u32>,
    vector: Vec<f32>,
}

fn reference_texts() -> Vec<ReferenceText> {
    let records: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("../weights/reference.json")).unwrap();
    records
        .iter()
        .map(|record| ReferenceText {
            text: record["text"].as_str().unwrap().to_string(),
            side: if record["side"] == "query" { TextSide::Query } else { TextSide::Passage },
            pieces: serde_json::from_value(record["tokens"].clone()).unwrap(),
            vector: serde_json::from_value(record["vector"].clone()).unwrap(),
        })
        .collect()
}

#[test]
fn pieces_are_those_of_the_training_side() {
    for reference in reference_texts() {
        assert_eq!(
            built_in().pieces(&reference.text, reference.side),
            reference.pieces,
            "{:?}",
            reference.text
        );
    }
}

#[test]
fn vectors_are_those_of_the_training_side() {
    for reference in reference_texts() {
        let vector = built_in().encode(&reference.text, reference.side);
        assert_eq!(vector.len(), reference.vector.len());
        let cosine: f32 = vector.iter().zip(&reference.vector).map(|(one, other)| one * other).sum();
        let largest =
            vector.iter().zip(&reference.vector).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
        assert!(cosine > 0.99, "cosine {cosine} for {:?}", reference.text);
        // An empty text is the prefix alone: no other piece averages out the rounding of its activations.
        let limit = if reference.pieces.len() == 1 { 2e-2 } else { 1e-2 };
        assert!(largest < limit, "difference {largest} for {:?}", reference.text);
    }
}

#[test]
fn portable_instructions_give_the_same_vectors() {
    for reference in reference_texts() {
        let best = built_in().encode(&reference.text, reference.side);
        let portable = encode_portable(&built_in().weights, &[reference.pieces], &mut PassBuffers::default())
            .swap_remove(0);
        let largest = best.iter().zip(&portable).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
        assert!(largest < 1e-3, "difference {largest} for {:?}", reference.text);
    }
}

#[test]
fn a_vector_does_not_depend_on_the_texts_beside_it() {
    let mut texts: Vec<String> = reference_texts().into_iter().map(|reference| reference.text).collect();
    texts.extend(["계약 ".repeat(300), String::new(), "짧은 글".to_owned()]);
    let together = built_in().encode_all(&texts, TextSide::Passage);
    let alone: Vec<_> = texts.iter().map(|text| built_in().encode(text, TextSide::Passage)).collect();
    assert_eq!(together, alone);
    assert!(built_in().encode_all::<String>(&[], TextSide::Passage).is_empty());
}

#[test]
fn hostile_texts_give_vectors_of_length_1() {
    let texts = [
        String::new(),
        "\0".repeat(1 << 20),
        "🙂".repeat(1 << 18),
        "a".repeat(1 << 20),
        "\u{301}".repeat(1 << 19),
        "\u{fdfa}".repeat(1 << 16),
        " \u{200b}\u{feff}\t\r\n".repeat(1 << 16),
        "ꙮ𓂀𝕬 ༄ ߷ ﷽".to_string(),
    ];
    for text in texts {
        for side in [TextSide::Query, TextSide::Passage] {
            assert!(built_in().pieces(&text, side).len() <= MAX_PIECES + 1);
            let vector = built_in().encode(&text, side);
            let length: f32 = vector.iter().map(|value| value * value).sum();
            assert!((length - 1.0).abs() < 1e-4, "length {length}");
        }
    }
}

#[test]
fn text_after_the_last_piece_does_not_matter() {
    let long = "계약 ".repeat(MAX_PIECES);
    let longer = format!("{long} 그리고 더 긴 글");
    let encoder = built_in();
    assert_eq!(encoder.encode(&long, TextSide::Passage), encoder.encode(&longer, TextSide::Passage));
}

#[test]
fn near_texts_have_a_larger_product() {
    let product = |query: &str, passage: &str| -> f32 {
        let query = built_in().encode(query, TextSide::Query);
        let passage = built_in().encode(passage, TextSide::Passage);
        query.iter().zip(&passage).map(|(one, other)| one * other).sum()
    };
    let (wages, dogs) = ("임금은 매월 1회 이상 지급하여야 한다.", "개를 데리고 산책할 때에는 목줄을 한다.");
    assert!(product("임금 지급 시기", wages) > product("임금 지급 시기", dogs));
    assert!(product("when wages are paid", wages) > product("when wages are paid", dogs));
}

#[test]
fn the_hash_is_that_of_the_content() {
    assert_eq!(BUILT_IN[12..44], *Sha256::digest(&BUILT_IN[44..]));
}

#[test]
fn only_small_buffers_are_kept() {
    let encoder = TextEncoder::read(BUILT_IN).unwrap();
    let kept = || encoder.buffers.lock().unwrap().len();
    encoder.encode("휴가는 며칠인가요?", TextSide::Query);
    assert_eq!(kept(), 1);
    encoder.encode(&"계약 ".repeat(MAX_PIECES), TextSide::Passage);
    assert_eq!(kept(), 0);
}

/// The file is never freed, as an encoder expects.
fn check_error(file: impl Into<Vec<u8>>, expected: &EncoderFileError) {
    assert_eq!(TextEncoder::read(file.into().leak()).err().as_ref(), Some(expected));
}

#[test]
fn damaged_files_are_refused() {
    check_error(*b"", &EncoderFileError::NotAnEncoder);
    check_error(*b"GGUF and more", &EncoderFileError::NotAnEncoder);
    check_error(&BUILT_IN[..10], &EncoderFileError::Damaged { reason: "it is cut short" });
    let mut file = BUILT_IN.to_vec();
    file[8] = 9;
    check_error(file, &EncoderFileError::OtherVersion { found: 9 });
    let cut = &BUILT_IN[..BUILT_IN.len() - 1];
    check_error(cut, &EncoderFileError::Damaged { reason: "it is cut short" });
    let longer = [BUILT_IN, b"x"].concat();
    check_error(longer, &EncoderFileError::Damaged { reason: "bytes follow the vocabulary" });
    let mut sizes = BUILT_IN.to_vec();
    sizes[48..52].copy_from_slice(&u32::MAX.to_le_bytes());
    check_error(sizes, &EncoderFileError::Damaged { reason: "a size is out of range" });
    let mut number = BUILT_IN.to_vec();
    number[72..76].copy_from_slice(&f32::NAN.to_le_bytes());
    check_error(number, &EncoderFileError::Damaged { reason: "a weight is not a number" });
}

#[test]
fn threads_share_an_encoder() {
    let expected = Arc::new(built_in().encode("여러 스레드", TextSide::Query));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let expected = Arc::clone(&expected);
            std::thread::spawn(move || {
                assert_eq!(built_in().encode("여러 스레드", TextSide::Query), *expected);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

fn scorer() -> &'static AnswerScorer {
    AnswerScorer::built_in().unwrap()
}

/// Pairs with their pieces and scores, written by `training/answers/scorer/export.py` from the weights before they were
/// rounded.
#[test]
fn scores_are_those_of_the_training_side() {
    let records: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("../weights/scorer-reference.json")).unwrap();
    for record in &records {
        let text = |name: &str| record[name].as_str().unwrap();
        let question = text("question");
        let candidate = AnswerCandidate {
            title: text("title"),
            lead: text("lead"),
            header: text("header"),
            sentence: text("sentence"),
        };
        let asked = built_in().weights.tokenizer.split(question, MAX_QUESTION_PIECES);
        let pieces: Vec<u32> =
            scorer().pieces(&asked, &candidate).into_iter().map(|(piece, _)| piece).collect();
        let expected: Vec<u32> = serde_json::from_value(record["tokens"].clone()).unwrap();
        assert_eq!(pieces, expected, "{question}");
        let score = scorer().score(question, &[candidate])[0];
        let expected = record["score"].as_f64().unwrap() as f32;
        assert!((score - expected).abs() < 0.15, "{score} instead of {expected} for {record}");
    }
}

#[test]
fn a_score_does_not_depend_on_the_candidates_beside_it() {
    let long = "계약 해지 ".repeat(100);
    let candidates = [
        AnswerCandidate { sentence: "연차는 3일 전에 신청합니다.", ..AnswerCandidate::default() },
        AnswerCandidate { title: &long, lead: &long, header: &long, sentence: &long },
        AnswerCandidate::default(),
        AnswerCandidate {
            title: "규정", sentence: "병가는 연 60일입니다.", ..AnswerCandidate::default()
        },
    ];
    let together = scorer().score("연차는 언제까지 신청해?", &candidates);
    let alone: Vec<f32> =
        candidates.iter().flat_map(|one| scorer().score("연차는 언제까지 신청해?", &[*one])).collect();
    assert_eq!(together, alone);
    assert!(together.iter().all(|score| score.is_finite()));
    assert!(scorer().score("연차", &[]).is_empty());
}

#[test]
fn a_sentence_that_answers_scores_higher() {
    let score = |question: &str, sentence: &str| {
        scorer().score(question, &[AnswerCandidate { sentence, ..AnswerCandidate::default() }])[0]
    };
    let (leave, sick) = ("연차 휴가는 사용일 3일 전까지 신청합니다.", "병가는 진단서를 내야 합니다.");
    assert!(
        score("연차는 며칠 전에 신청해야 하나요?", leave) > score("연차는 며칠 전에 신청해야 하나요?", sick)
    );
    assert!(score("병가 쓰려면 뭐가 필요해?", sick) > score("병가 쓰려면 뭐가 필요해?", leave));
}

#[test]
fn damaged_files_of_a_scorer_are_refused() {
    let check = |file: Vec<u8>, expected: EncoderFileError| {
        assert_eq!(AnswerScorer::read(file.leak(), built_in()).err(), Some(expected));
    };
    check(BUILT_IN.to_vec(), EncoderFileError::NotAScorer);
    let mut file = BUILT_IN_SCORER.to_vec();
    file[8] = 7;
    check(file, EncoderFileError::OtherVersion { found: 7 });
    let mut file = BUILT_IN_SCORER.to_vec();
    file[12..16].copy_from_slice(&128_u32.to_le_bytes());
    check(file, EncoderFileError::Damaged { reason: "the sizes do not fit each other" });
    let mut file = BUILT_IN_SCORER.to_vec();
    file[28..32].copy_from_slice(&f32::NAN.to_le_bytes());
    check(file, EncoderFileError::Damaged { reason: "a weight is not a number" });
    check(
        BUILT_IN_SCORER[..BUILT_IN_SCORER.len() - 1].to_vec(),
        EncoderFileError::Damaged { reason: "it is cut short" },
    );
    check([BUILT_IN_SCORER, b"x"].concat(), EncoderFileError::Damaged { reason: "bytes follow the weights" });
}
