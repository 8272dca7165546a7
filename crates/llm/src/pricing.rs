//! What an answer cost. A price that is not known is none, not zero.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::model::Usage;

/// The list prices that come with the program.
const BUILT_IN_PRICES_TOML: &str = include_str!("../prices.toml");

/// What a model costs, in US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    /// Tokens read.
    pub input: f64,
    /// Tokens read from the vendor's cache; as `input` where it is not set.
    #[serde(default)]
    pub cached: Option<f64>,
    /// Tokens put into the vendor's cache; as `input` where it is not set.
    #[serde(default)]
    pub cache_write: Option<f64>,
    /// Tokens written.
    pub output: f64,
    /// What everything costs once a prompt is long, where that differs.
    #[serde(default)]
    pub long: Option<LongPromptPrice>,
}

/// What a model costs for a long prompt.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPromptPrice {
    /// A prompt of more tokens than this is long.
    pub from: u64,
    /// As in [`ModelPrice`].
    pub input: f64,
    /// As in [`ModelPrice`].
    #[serde(default)]
    pub cached: Option<f64>,
    /// As in [`ModelPrice`].
    #[serde(default)]
    pub cache_write: Option<f64>,
    /// As in [`ModelPrice`].
    pub output: f64,
}

impl ModelPrice {
    /// The price of a model that costs nothing.
    pub const FREE: Self = Self { input: 0.0, cached: None, cache_write: None, output: 0.0, long: None };

    /// Whether every number of it can be a price.
    pub fn is_valid(&self) -> bool {
        let long = self.long.map(|long| [Some(long.input), long.cached, long.cache_write, Some(long.output)]);
        let usual = [Some(self.input), self.cached, self.cache_write, Some(self.output)];
        let all = usual.into_iter().chain(long.into_iter().flatten()).flatten();
        all.into_iter().all(|dollars| dollars.is_finite() && dollars >= 0.0)
    }

    /// What a prompt of this length costs.
    fn for_prompt_length(&self, input_tokens: u64) -> Self {
        match self.long.filter(|long| input_tokens > long.from) {
            Some(LongPromptPrice { input, cached, cache_write, output, .. }) => {
                Self { input, cached, cache_write, output, long: None }
            }
            None => *self,
        }
    }
}

/// Prices by the name of the model, `provider:model`.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceList {
    /// The day on which the built-in prices were looked up.
    pub date: String,
    models: BTreeMap<String, ModelPrice>,
}

/// Why prices cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the prices cannot be read")]
pub struct PriceListError(#[from] toml::de::Error);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceListFile {
    #[serde(default)]
    date: Option<String>,
    #[serde(default)]
    models: BTreeMap<String, ModelPrice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DatedPriceListFile {
    date: String,
    models: BTreeMap<String, ModelPrice>,
}

impl PriceList {
    /// The prices that come with the program.
    pub fn built_in() -> Result<Self, PriceListError> {
        Self::parse_dated(BUILT_IN_PRICES_TOML)
    }

    fn parse_dated(toml: &str) -> Result<Self, PriceListError> {
        let DatedPriceListFile { date, models } = toml::from_str(toml)?;
        Ok(Self { date, models })
    }

    /// Lays a person's own prices over these; they win.
    pub fn with_overrides(mut self, toml: &str) -> Result<Self, PriceListError> {
        let table: PriceListFile = toml::from_str(toml)?;
        self.date = table.date.unwrap_or(self.date);
        self.models.extend(table.models);
        Ok(self)
    }

    /// Lays one price over these.
    #[must_use]
    pub fn with_price(mut self, model: impl Into<String>, price: ModelPrice) -> Self {
        self.models.insert(model.into(), price);
        self
    }

    /// Whether it is known what this model costs.
    pub fn has_price_for(&self, model: &str) -> bool {
        self.cost_micros(model, &Usage::default()).is_some()
    }

    /// The price of a model. A dated name such as `…-2026-04-01` costs what the name without the date does, and it does
    /// not matter which dialect of a vendor is used.
    pub(crate) fn price_of(&self, model: &str) -> Option<&ModelPrice> {
        if let Some(name) = model.strip_prefix("openai-responses:") {
            return self.price_of(&format!("openai:{name}"));
        }
        self.models.get(model).or_else(|| self.models.get(without_date_suffix(model)?))
    }

    /// What an answer cost in millionths of a US dollar, rounded up; none if the price is not known.
    ///
    /// A model on one's own machine costs nothing per token, and that is a price.
    pub fn cost_micros(&self, model: &str, usage: &Usage) -> Option<u64> {
        if runs_on_own_machine(model) {
            return Some(0);
        }
        let price = self.price_of(model)?.for_prompt_length(usage.input_tokens);
        let apart = usage.cached_tokens + usage.cache_written_tokens;
        let fresh = usage.input_tokens.saturating_sub(apart);
        let dollars_per_million = |tokens: u64, price: f64| tokens as f64 * price;
        let micros = dollars_per_million(fresh, price.input)
            + dollars_per_million(usage.cached_tokens, price.cached.unwrap_or(price.input))
            + dollars_per_million(usage.cache_written_tokens, price.cache_write.unwrap_or(price.input))
            + dollars_per_million(usage.output_tokens, price.output);
        (micros.is_finite() && micros >= 0.0).then(|| micros.ceil() as u64)
    }
}

/// Whether a model runs on one's own machine: on a local server at its usual address.
fn runs_on_own_machine(model: &str) -> bool {
    let local = |id: &str| {
        crate::provider::find_vendor(id).is_some_and(|vendor| {
            vendor.location == crate::provider::ModelLocation::Local && id != "openai-compatible"
        })
    };
    model.split_once(':').is_some_and(|(id, rest)| local(id) && !rest.contains('#'))
}

/// The name without a date at its end: `-2026-04-01` or `-20260401`.
fn without_date_suffix(model: &str) -> Option<&str> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (name, last) = model.rsplit_once('-')?;
    if last.len() == 8 && digits(last) {
        return Some(name);
    }
    let (name, month) = name.rsplit_once('-')?;
    let (name, year) = name.rsplit_once('-')?;
    (last.len() == 2 && month.len() == 2 && year.len() == 4 && [last, month, year].into_iter().all(digits))
        .then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TokenCountSource;

    fn prices() -> PriceList {
        let empty = PriceList { date: "2026-01-01".into(), models: BTreeMap::new() };
        empty
            .with_overrides(
                "[models.\"v:m\"]\ninput = 2.0\ncached = 0.5\noutput = 10.0\n\
                 [models.\"v:w\"]\ninput = 4.0\ncache_write = 5.0\noutput = 20.0\n\
                 [models.\"v:long\"]\ninput = 1.0\noutput = 1.0\nlong = { from = 1000, input = 2.0, output = 2.0 }\n",
            )
            .expect("prices")
    }

    fn usage(input: u64, cached: u64, written: u64, output: u64) -> Usage {
        Usage {
            input_tokens: input,
            cached_tokens: cached,
            cache_written_tokens: written,
            output_tokens: output,
            counted: TokenCountSource::Reported,
            ..Usage::default()
        }
    }

    #[test]
    fn an_answer_costs_what_its_tokens_do() {
        let cost = |model: &str, usage| prices().cost_micros(model, &usage);
        assert_eq!(cost("v:m", usage(1_000, 0, 0, 100)), Some(3_000));
        assert_eq!(cost("v:m", usage(1_000, 800, 0, 100)), Some(1_800));
        assert_eq!(cost("v:w", usage(1_000, 0, 800, 0)), Some(4_800));
        assert_eq!(cost("v:m", usage(1, 1, 0, 0)), Some(1), "a part of a millionth is one");
        assert_eq!(cost("v:long", usage(1_000, 0, 0, 100)), Some(1_100));
        assert_eq!(cost("v:long", usage(1_001, 0, 0, 100)), Some(2_202), "all of a long prompt costs more");
        assert_eq!(cost("v:m-2026-04-01", usage(1_000, 0, 0, 0)), Some(2_000));
        assert_eq!(cost("v:m-20260401", usage(1_000, 0, 0, 0)), Some(2_000));
    }

    #[test]
    fn a_price_that_is_not_known_is_not_zero() {
        assert_eq!(prices().cost_micros("v:unknown", &usage(1, 0, 0, 1)), None);
        assert_eq!(prices().cost_micros("openai-compatible:http://x/v1#m", &usage(1, 0, 0, 1)), None);
        assert_eq!(prices().cost_micros("ollama:qwen3:8b", &usage(1, 0, 0, 1)), Some(0));
        let free = prices().with_price("rules", ModelPrice::FREE);
        assert_eq!(free.cost_micros("rules", &usage(1, 0, 0, 1)), Some(0));
    }

    #[test]
    fn built_in_prices_are_dated_and_name_vendors_that_exist() {
        let prices = PriceList::built_in().expect("prices");
        assert_eq!(prices.date.len(), 10, "{}", prices.date);
        for (name, price) in &prices.models {
            let (provider, _) = name.split_once(':').expect("provider:model");
            assert!(crate::provider::find_vendor(provider).is_some(), "{name}");
            assert!(price.input >= 0.0 && price.output >= price.input, "{name}");
            assert!(price.cached.is_none_or(|cached| cached <= price.input), "{name}");
        }
    }

    #[test]
    fn prices_without_a_date_are_refused() {
        assert!(PriceList::parse_dated("date = \"2026-01-01\"\n[models]\n").is_ok());
        assert!(PriceList::parse_dated("[models]\n").is_err());
    }

    #[test]
    fn own_prices_win() {
        let prices =
            prices().with_overrides("[models.\"v:m\"]\ninput = 1.0\noutput = 1.0\n").expect("prices");
        assert_eq!(prices.cost_micros("v:m", &usage(10, 0, 0, 0)), Some(10));
        assert!(
            prices.clone().with_overrides("[models.\"v:m\"]\ninptu = 1.0\noutput = 1.0\n").is_err(),
            "a slip is told"
        );
    }
}
