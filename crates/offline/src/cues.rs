//! Patterns of what people say, from `data/cues.tsv`.

use std::sync::LazyLock;

use regex::{CaptureMatches, Captures, Regex};

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
    Greeting, Thanks, Bye, Filler, AsksWhatItIs, WantsWriter, WantsSummary, AboutConversation, SaysHowToSumUp,
    NamesDocuments, States, AsksSomething, AsksToRecall, AboutContracts, OffTopic, PointsBack,
    GoesOn, ShowsAgain, OpensFollowUp, AboutStandard, Decides, AsksForList, LeadsToList, Compares,
    AsksForPlace, AsksForRules, NamesRules, FollowsUp, NamesThing, SaysHowItIs, NamesQuestion, NamesTheRest, SaysThatItWasSaid, AsksAnything, IsOwn, AsksAboutMe, GivesOrders,
    AsksForValue, AsksToCompute, Miswritten, PointsAtThing, CalledFormula, Date, DateOfYear, EndsAtDate, Year, AsksForWeather, IsTimeWord, IsNoPlace, FileName, Quoted, LooksInDocuments, SearchesWeb, IsRole, AsksWho,
    SaysHowToSearch, AsksToRun, AsksForAnything, NamesProvisions, NamesContract, ComparesWholes, BesideStandard, SignsContract, NamesStandard, ContractAsFront, OnOneSide, OwnContract, BeyondStandard, SaysMissing,
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

    /// What the groups of its pattern hold, wherever it stands in a text.
    pub(super) fn all(self, text: &str) -> CaptureMatches<'static, '_> {
        PATTERNS[self as usize].captures_iter(text)
    }

    /// What the groups of its pattern hold in a text.
    pub(super) fn captures(self, text: &str) -> Option<Captures<'_>> {
        PATTERNS[self as usize].captures(text)
    }
}
