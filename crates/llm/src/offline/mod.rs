//! The built-in model `offline-extractive-1`: rules, not a language model.
//!
//! It quotes a sentence of the passages it was given, recalls what the person said earlier in the same conversation,
//! and otherwise says what it is. The same request always gives the same bytes. What to say is decided in `answer`;
//! here the answer becomes a stream.

mod answer;
mod facts;
mod text;

use futures_util::{StreamExt, stream};

use crate::message::{Message, Part};
use crate::model::{
    About, ChatModel, ChatRequest, Counted, Delta, DeltaStream, Finish, Kind, ModelError, Usage,
};

/// The name of the built-in model.
pub const OFFLINE_MODEL: &str = "offline-extractive-1";

/// The built-in model. It has no settings and no memory of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfflineModel;

impl ChatModel for OfflineModel {
    fn about(&self) -> About {
        About {
            name: OFFLINE_MODEL.into(),
            kind: Kind::Extractive,
            ko: "오프라인 추출 모드 · LLM 아님. 정해진 규칙으로 움직이며, 주어진 문서의 문장을 그대로 인용하고 \
                 이 대화에서 들은 사실을 되짚습니다. 문장을 새로 쓰거나 추론하지 않습니다."
                .into(),
            en: "Offline extractive - not an LLM. Works by fixed rules: it quotes sentences of the documents it \
                 is given, word for word, and recalls facts stated in this conversation. It neither writes \
                 sentences of its own nor reasons."
                .into(),
        }
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        stream::once(async move { deltas(&request) }).flat_map(stream::iter).boxed()
    }
}

/// The answer word by word, each with the space after it.
fn deltas(request: &ChatRequest) -> Vec<Result<Delta, ModelError>> {
    let Some(whole) = answer::answer(&request.messages) else {
        let reason = "there is no message of the user to answer".into();
        return vec![Err(ModelError::Rejected { reason })];
    };
    let mut given = Tokens::default();
    let mut finish = Finish::Stop;
    let mut deltas = Vec::new();
    for word in whole.split_inclusive(char::is_whitespace) {
        let longer = given.and(word);
        if request.max_output_tokens.is_some_and(|most| longer.count() > most) {
            finish = Finish::Length;
            break;
        }
        given = longer;
        deltas.push(Ok(Delta::Text { text: word.into() }));
    }
    let input_tokens = request.messages.iter().map(read).sum();
    let usage = Usage { input_tokens, output_tokens: given.count(), ..Usage::default() };
    deltas.push(Ok(Delta::Done { usage, finish }));
    deltas
}

fn read(message: &Message) -> u64 {
    let tokens = message.parts.iter().map(|part| match part {
        Part::Text { text, .. } => estimate(text),
        Part::Passage(passage) => estimate(&passage.title) + estimate(&passage.text),
        Part::ToolResult(result) => estimate(&result.text),
        Part::ToolCall(call) => estimate(&call.name) + estimate(&call.arguments.to_string()),
        Part::Image(_) | Part::Reasoning { .. } => 0,
    });
    tokens.sum()
}

fn estimate(text: &str) -> u64 {
    Tokens::default().and(text).count()
}

/// About a token for four ASCII characters and one for each other character: near what common tokenizers give for
/// English and Korean, and reported as an estimate.
#[derive(Clone, Copy, Default)]
struct Tokens {
    ascii: u64,
    other: u64,
}

impl Tokens {
    fn and(self, text: &str) -> Self {
        let ascii = text.chars().filter(char::is_ascii).count() as u64;
        let other = text.chars().count() as u64 - ascii;
        Self { ascii: self.ascii + ascii, other: self.other + other }
    }

    fn count(self) -> u64 {
        self.ascii.div_ceil(4) + self.other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{collect, conformance};

    #[tokio::test]
    async fn the_built_in_model_keeps_the_contract() {
        conformance::check(&OfflineModel).await;
    }

    #[tokio::test]
    async fn a_request_without_a_question_is_rejected() {
        for messages in [vec![], vec![Message::assistant("a", "hello")], vec![Message::user("u", "  ")]] {
            let error =
                collect(OfflineModel.stream(ChatRequest::new(messages))).await.expect_err("no question");
            assert!(matches!(error, ModelError::Rejected { .. }), "{error}");
        }
    }

    #[test]
    fn it_does_not_claim_to_be_a_language_model() {
        let about = OfflineModel.about();
        assert_eq!((about.name.as_str(), about.kind), ("offline-extractive-1", Kind::Extractive));
        assert!(about.ko.contains("LLM 아님") && about.en.contains("not an LLM"));
    }
}
