//! How far a run may go, and which limit it broke.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::store::RunUsage;

/// How far a run may go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunLimits {
    /// Supersteps.
    pub steps: u32,
    /// Time worked on, waiting for people not counted. A node that is still at work then is stopped.
    pub active: Option<Duration>,
    /// Tokens in and out together.
    pub tokens: Option<u64>,
    /// Millionths of a US dollar.
    pub cost_micros: Option<u64>,
    /// Bytes that nodes show watchers with [`Cx::emit`](crate::Cx::emit), about, each time the run is worked on.
    pub shown_bytes: u64,
}

/// What a run emits at most unless its limits say otherwise.
const DEFAULT_SHOWN_BYTES: u64 = 64 << 20;

impl Default for RunLimits {
    fn default() -> Self {
        Self { steps: 1000, active: None, tokens: None, cost_micros: None, shown_bytes: DEFAULT_SHOWN_BYTES }
    }
}

/// A limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExceededLimit {
    #[error("the run may take at most {0} steps")]
    Steps(u32),
    #[error("the run may be worked on for at most {0:?}")]
    Active(Duration),
    #[error("the run may use at most {0} tokens")]
    Tokens(u64),
    #[error("the run may show watchers at most {0} bytes")]
    ShownBytes(u64),
    #[error("the run may cost at most {} US dollars", *.0 as f64 / 1e6)]
    Cost(u64),
}

/// The limit that these numbers break, if any. `steps` are those already finished.
pub(crate) fn exceeded_limit(
    limits: &RunLimits,
    steps: u32,
    active: Duration,
    usage: &RunUsage,
) -> Option<ExceededLimit> {
    if steps >= limits.steps {
        return Some(ExceededLimit::Steps(limits.steps));
    }
    if let Some(most) = limits.active
        && active >= most
    {
        return Some(ExceededLimit::Active(most));
    }
    if let Some(most) = limits.tokens
        && usage.input_tokens.saturating_add(usage.output_tokens) > most
    {
        return Some(ExceededLimit::Tokens(most));
    }
    if let Some(most) = limits.cost_micros
        && usage.cost_micros > most
    {
        return Some(ExceededLimit::Cost(most));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_named_when_it_is_broken() {
        let limits = RunLimits {
            steps: 5,
            active: Some(Duration::from_secs(9)),
            tokens: Some(100),
            cost_micros: Some(7),
            ..RunLimits::default()
        };
        let used = |input, cost| RunUsage { input_tokens: input, output_tokens: 1, cost_micros: cost };
        let second = Duration::from_secs(1);
        assert_eq!(exceeded_limit(&limits, 4, second, &used(99, 7)), None);
        assert_eq!(exceeded_limit(&limits, 5, second, &used(0, 0)), Some(ExceededLimit::Steps(5)));
        assert_eq!(
            exceeded_limit(&limits, 0, second * 9, &used(0, 0)),
            Some(ExceededLimit::Active(second * 9))
        );
        assert_eq!(exceeded_limit(&limits, 0, second, &used(100, 0)), Some(ExceededLimit::Tokens(100)));
        assert_eq!(exceeded_limit(&limits, 0, second, &used(0, 8)), Some(ExceededLimit::Cost(7)));
    }
}
