//! How long a server that has too much to do is asked again.

use std::time::{Duration, Instant};

/// A queue moves on when a document was read, which may take a minute. After this long without any nothing moves.
const MOST: Duration = Duration::from_secs(600);
/// A wait that people do not notice needs no word.
const UNNOTICED: Duration = Duration::from_secs(5);

/// The patience of one run, over all that it hands in. Whoever has waited in vain does not wait for the next one too.
#[derive(Debug)]
pub(crate) struct Patience {
    pub(crate) most: Duration,
    /// When the server first did not take what is handed in now.
    since: Option<Instant>,
    told: bool,
}

/// What to do about a server that is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Quietly,
    /// And say what is waited for.
    Aloud,
    /// No longer.
    InVain,
}

impl Default for Patience {
    fn default() -> Self {
        Self::of(MOST)
    }
}

impl Patience {
    /// One that lasts so long.
    pub(crate) fn of(most: Duration) -> Self {
        Self { most, since: None, told: false }
    }

    /// The server is busy.
    pub(crate) fn wait(&mut self, now: Instant) -> Wait {
        let waited = now.saturating_duration_since(*self.since.get_or_insert(now));
        if waited >= self.most {
            return Wait::InVain;
        }
        if waited < UNNOTICED || self.told {
            return Wait::Quietly;
        }
        self.told = true;
        Wait::Aloud
    }

    /// The server has taken something, so it moves.
    pub(crate) fn renew(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_once_and_ends_unless_something_moves() {
        let mut patience = Patience::default();
        let began = Instant::now();
        let mut after = |seconds| patience.wait(began + Duration::from_secs(seconds));
        assert_eq!(
            [0, 4, 5, 6, 599].map(&mut after),
            [Wait::Quietly, Wait::Quietly, Wait::Aloud, Wait::Quietly, Wait::Quietly]
        );
        assert_eq!([600, 601].map(after), [Wait::InVain; 2]);
        patience.renew();
        let mut after = |seconds| patience.wait(began + Duration::from_secs(seconds));
        assert_eq!([700, 1299, 1300].map(&mut after), [Wait::Quietly, Wait::Quietly, Wait::InVain]);
    }
}
