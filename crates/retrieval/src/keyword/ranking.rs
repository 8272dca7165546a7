//! The few numbers that decide how passages are ranked.

/// How passages are ranked. The defaults were chosen on the development sets and are meant to stay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankingParameters {
    /// How fast repeats of a term stop counting, in BM25.
    pub k1: f32,
    /// How much long passages are held back, in BM25.
    pub b: f32,
    /// How much stems count beside pairs, which count 1.
    pub stem_layer_weight: f32,
    /// How much a word that was not asked but means the same counts beside one that was.
    pub synonym_weight: f32,
    /// What is added when the passage is the article that was asked for by number: more than words and a heading give.
    pub article_number_boost: f32,
    /// How much the likeliest meaning of a mistyped word counts beside a word that is right.
    pub typo_weight: f32,
    /// What is added at most when the passage says the words of the question side by side.
    pub phrase_boost: f32,
    /// What is added at most when the heading of the passage is what was asked.
    pub heading_boost: f32,
}

impl Default for RankingParameters {
    fn default() -> Self {
        Self {
            k1: 1.0,
            b: 0.75,
            stem_layer_weight: 1.0,
            synonym_weight: 0.5,
            article_number_boost: 2.25,
            typo_weight: 0.5,
            phrase_boost: 0.02,
            heading_boost: 0.2,
        }
    }
}
