//! Newest states of threads that were in use lately, so that the next run need not read the log. Bounded in number
//! and in bytes; the longest unused goes first.

use std::collections::{BTreeMap, HashMap};

use crate::drive::ThreadState;
use crate::id::{RunId, ThreadKey};
use crate::state::State;
use crate::store::Seq;

/// The most cached threads of a graph, and about how many bytes of them.
const MAX_CACHED_THREADS: usize = 256;
const MAX_CACHED_BYTES: u64 = 64 << 20;

/// Caches the states of threads that were used last.
pub(crate) struct StateCache<S> {
    threads: HashMap<ThreadKey, CachedThreadState<S>>,
    by_last_use: BTreeMap<u64, ThreadKey>,
    use_counter: u64,
    bytes: u64,
}

struct CachedThreadState<S> {
    head: Seq,
    /// The run that wrote the head: a thread that was deleted and made again has another one there.
    run: RunId,
    last_use: u64,
    thread_state: ThreadState<S>,
}

impl<S> Default for StateCache<S> {
    fn default() -> Self {
        Self { threads: HashMap::new(), by_last_use: BTreeMap::new(), use_counter: 0, bytes: 0 }
    }
}

impl<S: State> StateCache<S> {
    /// The state of a thread whose newest entry is `head`, with the run that wrote it. Taken out: the caller may
    /// change it in place.
    pub(crate) fn take(&mut self, thread: &ThreadKey, head: Seq) -> Option<(RunId, ThreadState<S>)> {
        let kept = self.threads.remove(thread)?;
        self.by_last_use.remove(&kept.last_use);
        self.bytes -= kept.thread_state.approximate_bytes();
        (kept.head == head).then_some((kept.run, kept.thread_state))
    }

    /// Keeps the state of a thread whose newest entry is `head`, written by `run`.
    pub(crate) fn insert(&mut self, thread: ThreadKey, head: Seq, run: RunId, at: ThreadState<S>) {
        drop(self.take(&thread, head));
        self.use_counter += 1;
        self.bytes += at.approximate_bytes();
        self.by_last_use.insert(self.use_counter, thread.clone());
        self.threads
            .insert(thread, CachedThreadState { head, run, last_use: self.use_counter, thread_state: at });
        while self.threads.len() > MAX_CACHED_THREADS
            || (self.bytes > MAX_CACHED_BYTES && self.threads.len() > 1)
        {
            let Some((_, oldest)) = self.by_last_use.pop_first() else { return };
            if let Some(kept) = self.threads.remove(&oldest) {
                self.bytes -= kept.thread_state.approximate_bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanPosition;

    #[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
    struct EmptyCacheTestState {}

    impl State for EmptyCacheTestState {
        type Update = ();

        fn apply(&mut self, (): ()) {}
    }

    fn key(n: usize) -> ThreadKey {
        ThreadKey::local(&format!("t{n}")).expect("a name")
    }

    #[test]
    fn the_longest_unused_goes_first_and_an_old_head_is_no_use() {
        let mut hot: StateCache<EmptyCacheTestState> = StateCache::default();
        for n in 0..=MAX_CACHED_THREADS {
            hot.insert(key(n), 1, RunId::random(), ThreadState::new(PlanPosition::default()));
        }
        assert!(hot.take(&key(0), 1).is_none());
        assert!(hot.take(&key(1), 2).is_none());
        assert!(hot.take(&key(2), 1).is_some());
        assert!(hot.take(&key(2), 1).is_none(), "it was taken");
        assert_eq!(
            (hot.threads.len(), hot.by_last_use.len()),
            (MAX_CACHED_THREADS - 2, MAX_CACHED_THREADS - 2)
        );
    }
}
