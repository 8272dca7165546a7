//! Writes beside every answer what it cost.

use std::sync::Arc;

use futures_util::StreamExt;

use crate::model::{ChatModel, ChatRequest, Delta, DeltaStream, ModelInfo, ModelRole, Usage};
use crate::pricing::PriceList;

/// A model whose answers say what they cost, by a table of prices.
///
/// The price is that of the model that answers in the role of the request. A cost that an answer brings along stays:
/// what was played back or taken from a cache was not paid for again.
#[derive(Clone)]
pub struct PricedModel {
    inner: Arc<dyn ChatModel>,
    prices: Arc<PriceList>,
}

impl PricedModel {
    /// Looks the answers of a model up in a table.
    pub fn new(inner: Arc<dyn ChatModel>, prices: Arc<PriceList>) -> Self {
        Self { inner, prices }
    }
}

impl ChatModel for PricedModel {
    fn info(&self) -> ModelInfo {
        self.inner.info()
    }

    fn info_for_role(&self, role: ModelRole) -> ModelInfo {
        self.inner.info_for_role(role)
    }

    fn cost_micros(&self, role: ModelRole, usage: &Usage) -> Option<u64> {
        self.prices.cost_micros(&self.inner.info_for_role(role).name, usage)
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let name = self.inner.info_for_role(request.role).name;
        let prices = self.prices.clone();
        let deltas = self.inner.stream(request).map(move |delta| {
            let mut delta = delta?;
            if let Delta::Done { usage, .. } = &mut delta {
                usage.cost_micros = usage.cost_micros.or_else(|| prices.cost_micros(&name, usage));
            }
            Ok(delta)
        });
        deltas.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect_reply;
    use crate::message::Message;
    use crate::model::TokenCountSource;
    use crate::scripted::{ScriptedModel, ScriptedReply};

    async fn cost(name: &str, usage: Usage) -> Option<u64> {
        let price = "[models.\"v:m\"]\ninput = 2.0\noutput = 10.0\n";
        let prices = PriceList::built_in().expect("prices").with_overrides(price).expect("prices");
        let model = ScriptedModel::new([ScriptedReply::text("a").usage(usage)]).with_name(name);
        let priced = PricedModel::new(Arc::new(model), Arc::new(prices));
        let request = ChatRequest::new(vec![Message::user("m", "?")]);
        collect_reply(priced.stream(request)).await.expect("an answer").usage.cost_micros
    }

    #[tokio::test]
    async fn an_answer_says_what_it_cost_and_nothing_where_that_is_not_known() {
        for counted in [TokenCountSource::Reported, TokenCountSource::Estimated] {
            let usage = Usage { input_tokens: 1_000, output_tokens: 100, counted, ..Usage::default() };
            assert_eq!(cost("v:m", usage).await, Some(3_000));
            assert_eq!(cost("v:unknown", usage).await, None);
            assert_eq!(cost("ollama:qwen3:8b", usage).await, Some(0));
            assert_eq!(cost("v:m", Usage { cost_micros: Some(0), ..usage }).await, Some(0), "paid before");
        }
    }
}
