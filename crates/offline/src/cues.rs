//! Patterns of what people say, from `data/cues.tsv`.

use std::sync::LazyLock;

use regex::Regex;

macro_rules! cues {
    ($($name:ident),* $(,)?) => {
        /// What the words of a question tell about it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Cue { $($name),* }

        impl Cue {
            const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

cues! {
    Greeting, Thanks, Bye, Filler, AsksWhatItIs, WantsWriter, WantsSummary, AboutConversation, AboutDocuments,
    NamesDocuments, AsksOrRequests, States, AsksSomething, AsksToRecall, AboutContracts, OffTopic, PointsBack,
    GoesOn, ShowsAgain, OpensFollowUp, AboutStandard, Decides, AsksForList, LeadsToList, Compares,
    AsksForPlace, AsksForRules, NamesRules, FollowsUp, NamesTheRest, SaysThatItWasSaid, AsksAnything, AsksAboutMe, GivesOrders,
}

#[allow(clippy::expect_used, reason = "the file is compiled in, and every test reads it")]
static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let lines = || include_str!("data/cues.tsv").lines().filter_map(|line| line.split_once('\t'));
    let pattern = |cue: &Cue| {
        let name = format!("{cue:?}");
        let (_, pattern) = lines().find(|(known, _)| *known == name).expect("a line for every cue");
        Regex::new(&format!("(?i){pattern}")).expect("a pattern")
    };
    Cue::ALL.iter().map(pattern).collect()
});

impl Cue {
    /// Whether a text holds the cue.
    pub(super) fn is_in(self, text: &str) -> bool {
        PATTERNS[self as usize].is_match(text)
    }
}
