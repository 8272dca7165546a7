//! Every sentence that the built-in model may say of its own: the closed list in `data/phrases.tsv`. Whatever else an answer
//! holds was quoted.

use std::sync::LazyLock;

use doran_agents::Language;

macro_rules! phrases {
    ($($name:ident),* $(,)?) => {
        /// A sentence of the program, by what it says.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum FixedPhrase { $($name),* }

        impl FixedPhrase {
            /// Every sentence.
            pub(super) const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

phrases! {
    Quote, QuoteContract, QuoteStandard, QuoteMore, MissingArticles, ExtraArticles, ChangedArticles, SameArticles, ListedArticle, ListedStandard, ListedMore,
    QuoteContractArticle, QuoteStandardArticle, SameWords, QuoteTool, QuoteGiven, Nearest, Recall, RecallSaid,
    RecallSummary, Note, NoteSaid, NotTold, NotFound, NotFoundPart, NotFoundPlace, Noted, Hello, Welcome, Bye,
    Introduce, Cannot, Connect, AskPlace, AskFormula, Computed, Time, Weather, Encyclopedia, Web, Ran, File,
    Result, ResultMore, ResultEmpty, ResultCut, Failed, Refused, Recalled, RecalledAll, NoFormula, NoValue, FailedAdvice,
    Digest, DigestUser, DigestAnswer, DigestEmpty, Previous, PreviousLine, NoCalls,
}

#[allow(clippy::expect_used, reason = "the file is compiled in, and every test reads it")]
static TEMPLATES: LazyLock<Vec<[&str; 2]>> = LazyLock::new(|| {
    let template = |phrase: &FixedPhrase| {
        let name = format!("{phrase:?}\t");
        let rows = include_str!("data/phrases.tsv").lines();
        let row = rows.filter_map(|row| row.strip_prefix(&name)).next().expect("a row for every phrase");
        row.split_once('\t').map(|(ko, en)| [ko, en]).expect("two languages")
    };
    FixedPhrase::ALL.iter().map(template).collect()
});

impl FixedPhrase {
    /// The sentence with its slots filled.
    pub(super) fn filled(self, language: Language, slots: &[&str]) -> String {
        let mut filled = String::new();
        for (at, piece) in self.template(language).split("{}").enumerate() {
            filled.push_str(at.checked_sub(1).and_then(|at| slots.get(at)).copied().unwrap_or_default());
            filled.push_str(piece);
        }
        filled
    }

    /// The sentence with `{}` for each slot.
    pub(super) fn template(self, language: Language) -> &'static str {
        let [ko, en] = TEMPLATES[self as usize];
        language.pick(ko, en)
    }
}
