//! The contract of [`ChatModel`](crate::ChatModel) as a suite. A model calls [`check`] in its tests; a broken law
//! panics with its name.

use futures_util::StreamExt;

use crate::message::Message;
use crate::model::{ChatModel, ChatRequest, Delta, Finish, collect};

/// Checks every law that any model must keep, whatever it answers.
pub async fn check(model: &dyn ChatModel) {
    it_says_what_it_is(model);
    the_end_comes_once_and_last(model).await;
    whole_is_streamed(model).await;
    usage_is_counted(model).await;
    dropping_stops_it_and_harms_nobody(model).await;
    streams_do_not_disturb_each_other(model).await;
    a_limit_is_kept_and_told(model).await;
}

fn request() -> ChatRequest {
    ChatRequest::new(vec![Message::user("m1", "안녕하세요, 무엇을 할 수 있나요?")])
}

fn it_says_what_it_is(model: &dyn ChatModel) {
    let about = model.about();
    assert!(
        !about.name.is_empty() && !about.ko.is_empty() && !about.en.is_empty(),
        "it_says_what_it_is: {about:?}"
    );
}

async fn deltas(model: &dyn ChatModel, request: ChatRequest) -> Vec<Delta> {
    let mut stream = model.stream(request);
    let mut deltas = Vec::new();
    while let Some(delta) = stream.next().await {
        match delta {
            Ok(delta) => deltas.push(delta),
            Err(error) => panic!("the model failed: {error}"),
        }
    }
    deltas
}

async fn the_end_comes_once_and_last(model: &dyn ChatModel) {
    let deltas = deltas(model, request()).await;
    let ends: Vec<usize> = (0..deltas.len()).filter(|at| matches!(deltas[*at], Delta::Done { .. })).collect();
    assert_eq!(ends, [deltas.len().saturating_sub(1)], "the_end_comes_once_and_last");
}

async fn whole_is_streamed(model: &dyn ChatModel) {
    let mut streamed = String::new();
    let mut pieces = 0;
    for delta in deltas(model, request()).await {
        if let Delta::Text { text } = delta {
            assert!(!text.is_empty(), "whole_is_streamed: an empty text is no news");
            streamed.push_str(&text);
            pieces += 1;
        }
    }
    assert!(pieces > 1, "whole_is_streamed: the answer came in one piece");
    match collect(model.stream(request())).await {
        Ok(reply) => assert_eq!(reply.text, streamed, "whole_is_streamed"),
        Err(error) => panic!("whole_is_streamed: {error}"),
    }
}

async fn usage_is_counted(model: &dyn ChatModel) {
    match collect(model.stream(request())).await {
        Ok(reply) => {
            assert!(reply.usage.input_tokens > 0, "usage_is_counted: nothing was read");
            assert!(reply.usage.output_tokens > 0, "usage_is_counted: nothing was written");
            assert_eq!(reply.finish, Finish::Stop, "usage_is_counted: the answer is whole");
        }
        Err(error) => panic!("usage_is_counted: {error}"),
    }
}

async fn dropping_stops_it_and_harms_nobody(model: &dyn ChatModel) {
    let mut first = model.stream(request());
    assert!(first.next().await.is_some(), "dropping_stops_it: nothing came");
    drop(first);
    drop(model.stream(request()));
    assert!(collect(model.stream(request())).await.is_ok(), "dropping_harms_nobody");
}

async fn streams_do_not_disturb_each_other(model: &dyn ChatModel) {
    let mut first = model.stream(request());
    let held = first.next().await;
    assert!(collect(model.stream(request())).await.is_ok(), "streams_do_not_disturb_each_other: the second");
    drop(held);
    assert!(collect(first).await.is_ok(), "streams_do_not_disturb_each_other: the first");
}

async fn a_limit_is_kept_and_told(model: &dyn ChatModel) {
    let request = ChatRequest { max_output_tokens: Some(2), ..request() };
    match collect(model.stream(request)).await {
        Ok(reply) => {
            assert_eq!(reply.finish, Finish::Length, "a_limit_is_kept_and_told: told");
            assert!(reply.usage.output_tokens <= 2, "a_limit_is_kept_and_told: {:?}", reply.usage);
        }
        Err(error) => panic!("a_limit_is_kept_and_told: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, stream};

    use super::*;
    use crate::model::{About, Counted, DeltaStream, Kind, Usage};

    /// Gives the same deltas whatever is asked.
    struct Fixed(Vec<Delta>);

    impl ChatModel for Fixed {
        fn about(&self) -> About {
            About { name: "fixed".into(), kind: Kind::Extractive, ko: "고정".into(), en: "fixed".into() }
        }

        fn stream(&self, _: ChatRequest) -> DeltaStream {
            stream::iter(self.0.clone().into_iter().map(Ok)).boxed()
        }
    }

    async fn broken_law(deltas: &[Delta]) -> String {
        let model = Fixed(deltas.to_vec());
        let outcome = std::panic::AssertUnwindSafe(check(&model)).catch_unwind().await;
        let panic = outcome.expect_err("a broken law");
        let fixed = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        fixed.or_else(|| panic.downcast_ref::<String>().cloned()).expect("a message")
    }

    #[tokio::test]
    async fn a_model_that_breaks_the_contract_is_caught() {
        let word = |text: &str| Delta::Text { text: text.into() };
        let done = |output_tokens| Delta::Done {
            usage: Usage { input_tokens: 1, output_tokens, counted: Counted::Reported, ..Usage::default() },
            finish: Finish::Stop,
        };
        for (deltas, law) in [
            (vec![word("a"), word("b")], "the_end_comes_once_and_last"),
            (vec![word("a"), done(1), done(1)], "the_end_comes_once_and_last"),
            (vec![done(1), word("a")], "the_end_comes_once_and_last"),
            (vec![word("a"), word(""), done(1)], "whole_is_streamed"),
            (vec![word("whole"), done(1)], "whole_is_streamed"),
            (vec![word("a"), word("b"), done(0)], "usage_is_counted"),
            (vec![word("a"), word("b"), done(9)], "a_limit_is_kept_and_told"),
        ] {
            let told = broken_law(&deltas).await;
            assert!(told.contains(law), "{law} for {deltas:?}: {told}");
        }
    }
}
