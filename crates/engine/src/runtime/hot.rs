//! Newest states of threads that were in use lately, so that the next turn need not read the log. Bounded in number
//! and in bytes; the longest unused goes first.

use std::collections::{BTreeMap, HashMap};

use crate::drive::At;
use crate::id::{RunId, ThreadKey};
use crate::state::State;
use crate::store::Seq;

/// Most threads at hand, for each graph, and about how many bytes of them.
const THREADS: usize = 256;
const BYTES: u64 = 64 << 20;

/// States at hand.
pub(crate) struct Hot<S> {
    threads: HashMap<ThreadKey, Kept<S>>,
    by_use: BTreeMap<u64, ThreadKey>,
    uses: u64,
    bytes: u64,
}

struct Kept<S> {
    head: Seq,
    /// The run that wrote the head: a thread that was deleted and made again has another one there.
    run: RunId,
    used: u64,
    at: At<S>,
}

impl<S> Default for Hot<S> {
    fn default() -> Self {
        Self { threads: HashMap::new(), by_use: BTreeMap::new(), uses: 0, bytes: 0 }
    }
}

impl<S: State> Hot<S> {
    /// The state of a thread whose newest entry is `head`, with the run that wrote it. Taken out: whoever has it may
    /// change it in place.
    pub(crate) fn take(&mut self, thread: &ThreadKey, head: Seq) -> Option<(RunId, At<S>)> {
        let kept = self.threads.remove(thread)?;
        self.by_use.remove(&kept.used);
        self.bytes -= kept.at.weight();
        (kept.head == head).then_some((kept.run, kept.at))
    }

    /// Keeps the state of a thread whose newest entry is `head`, written by `run`.
    pub(crate) fn keep(&mut self, thread: ThreadKey, head: Seq, run: RunId, at: At<S>) {
        drop(self.take(&thread, head));
        self.uses += 1;
        self.bytes += at.weight();
        self.by_use.insert(self.uses, thread.clone());
        self.threads.insert(thread, Kept { head, run, used: self.uses, at });
        while self.threads.len() > THREADS || (self.bytes > BYTES && self.threads.len() > 1) {
            let Some((_, oldest)) = self.by_use.pop_first() else { return };
            if let Some(kept) = self.threads.remove(&oldest) {
                self.bytes -= kept.at.weight();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Position;

    #[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
    struct Empty {}

    impl State for Empty {
        type Update = ();

        fn apply(&mut self, (): ()) {}
    }

    fn key(n: usize) -> ThreadKey {
        ThreadKey::local(&format!("t{n}")).expect("a name")
    }

    #[test]
    fn the_longest_unused_goes_first_and_an_old_head_is_no_use() {
        let mut hot: Hot<Empty> = Hot::default();
        for n in 0..=THREADS {
            hot.keep(key(n), 1, RunId::random(), At::fresh(Position::default()));
        }
        assert!(hot.take(&key(0), 1).is_none());
        assert!(hot.take(&key(1), 2).is_none());
        assert!(hot.take(&key(2), 1).is_some());
        assert!(hot.take(&key(2), 1).is_none(), "it was taken");
        assert_eq!((hot.threads.len(), hot.by_use.len()), (THREADS - 2, THREADS - 2));
    }
}
