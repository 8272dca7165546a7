//! The few numbers that decide how passages are ranked.

/// How passages are ranked. The defaults were chosen on the development sets and are meant to stay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranking {
    /// How fast repeats of a term stop counting, in BM25.
    pub k1: f32,
    /// How much long passages are held back, in BM25.
    pub b: f32,
    /// How much stems count beside pairs, which count 1.
    pub stems: f32,
    /// How much a word that was not asked but means the same counts beside one that was.
    pub meant: f32,
    /// What is added when the passage is the article that was asked for by number: more than words and a heading give.
    pub article: f32,
    /// How much the likeliest meaning of a mistyped word counts beside a word that is right.
    pub slip: f32,
    /// What is added at most when the passage says the words of the question side by side.
    pub phrase: f32,
    /// What is added at most when the heading of the passage is what was asked.
    pub heading: f32,
}

impl Default for Ranking {
    fn default() -> Self {
        Self {
            k1: 1.0,
            b: 0.75,
            stems: 1.0,
            meant: 0.5,
            article: 2.25,
            slip: 0.5,
            phrase: 0.02,
            heading: 0.2,
        }
    }
}
