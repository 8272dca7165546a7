//! Stable codes for search errors, and the advice that is shown for each code.

use doran_llm::{ModelError, ModelErrorAdvice};

use crate::RetrieveError;

const UNAVAILABLE: &str = "index_unavailable";
const NAME_TAKEN: &str = "index_name_taken";
const OTHER_EMBEDDER: &str = "index_other_embedder";
const STALE: &str = "index_stale";

impl RetrieveError {
    /// Returns the code that is stored with a failed run. If the embedder caused the failure, this is the embedder's
    /// code.
    pub fn failure_code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } | Self::Missing { .. } => {
                self.embedder_error().map_or(UNAVAILABLE, |error| error.kind().failure_code())
            }
            Self::NameTaken { .. } => NAME_TAKEN,
            Self::OtherEmbedder { .. } => OTHER_EMBEDDER,
            Self::Stale { .. } => STALE,
        }
    }

    /// Returns the error of the embedder, if that caused the failure.
    pub(crate) fn embedder_error(&self) -> Option<&ModelError> {
        match self {
            Self::Unavailable { source: Some(source), .. } => source.downcast_ref(),
            _ => None,
        }
    }

    /// Returns what a person can do about a run that failed with this code, or `None` if the code is not a search
    /// error.
    pub fn advice(code: &str) -> Option<ModelErrorAdvice> {
        let (ko, en) = match code {
            UNAVAILABLE => (
                "문서 색인이 지금 답하지 못합니다. 잠시 뒤 다시 시도하세요.",
                "The index of the documents cannot be asked now. Try again in a while.",
            ),
            NAME_TAKEN => (
                "OpenSearch에 색인 별칭과 이름이 같은 다른 색인이 있습니다. 관리자가 그 색인을 지우거나 다른 이름을 정해야 합니다.",
                "OpenSearch has another index with the name of the alias. An administrator has to delete it or choose another name.",
            ),
            OTHER_EMBEDDER => (
                "색인이 다른 임베딩 모델로 만들어졌습니다. 그 모델로 열거나 문서를 다시 색인하세요.",
                "The index was made with another embedding model. Open it with that one, or index the documents again.",
            ),
            STALE => (
                "색인이 손상되었거나 다른 버전의 것입니다. 문서를 다시 색인하세요.",
                "The index is damaged or of another version. Index the documents again.",
            ),
            _ => return None,
        };
        Some(ModelErrorAdvice { ko, en })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedder_that_failed_is_named_and_not_the_index() {
        let reason = || "seen".to_owned();
        let refused = ModelError::Unauthorized { reason: reason() };
        let codes = [
            RetrieveError::Unavailable { reason: reason(), source: None },
            RetrieveError::Unavailable { reason: reason(), source: Some("a socket".into()) },
            RetrieveError::Unavailable { reason: reason(), source: Some(Box::new(refused)) },
            RetrieveError::Missing { index: reason() },
            RetrieveError::NameTaken { index: reason(), foreign: 1 },
            RetrieveError::OtherEmbedder { made: "a".into(), wanted: "b".into() },
            RetrieveError::Stale { reason: reason() },
        ]
        .map(|error| error.failure_code());
        let all = [UNAVAILABLE, NAME_TAKEN, OTHER_EMBEDDER, STALE];
        assert_eq!(codes[..3], [UNAVAILABLE, UNAVAILABLE, "model_unauthorized"]);
        assert_eq!(codes[3..], all);
        for code in all {
            let ModelErrorAdvice { ko, en } = RetrieveError::advice(code).expect(code);
            assert!(en.is_ascii() && en.ends_with('.') && ko.ends_with('.') && !ko.is_ascii(), "{code}");
        }
        assert_eq!(RetrieveError::advice("model_unauthorized"), None);
    }
}
