//! The parameters of the ranking.

/// Added if the passage is the article that the query names by number. It exceeds what words and a heading give.
pub(crate) const ARTICLE_NUMBER_BOOST: f32 = 2.25;

/// The parameters of the ranking. The defaults were tuned on the development sets and are not meant to be changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RankingParameters {
    /// How soon repetitions of a term stop counting, in BM25.
    pub k1: f32,
    /// How much long passages are penalised, in BM25.
    pub b: f32,
    /// The weight of the stem layer. The layer of syllable pairs has the weight 1.
    pub stem_layer_weight: f32,
    /// The weight of a synonym beside a word of the query.
    pub synonym_weight: f32,
    /// The weight of the likeliest correction of a typo beside a correct word.
    pub typo_weight: f32,
    /// The maximum that is added if the passage contains the words of the query side by side.
    pub phrase_boost: f32,
    /// The maximum that is added if the heading of the passage matches the query.
    pub heading_boost: f32,
}

impl Default for RankingParameters {
    fn default() -> Self {
        Self {
            k1: 1.0,
            b: 0.75,
            stem_layer_weight: 1.0,
            synonym_weight: 0.5,
            typo_weight: 0.5,
            phrase_boost: 0.02,
            heading_boost: 0.2,
        }
    }
}
