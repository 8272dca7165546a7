//! What a run shows while it works: pieces of text on their way, and a bell that rings when the log grew.
//!
//! Pieces belong to the step in progress and are forgotten when it is written. Watchers read at their own pace; a
//! slow one misses pieces, never entries, and costs the run nothing. The newest entries stay here for a while, so that
//! those who keep up need not ask the store for what this process has just written.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::store::{Entry, Seq};

/// Most entries kept for watchers who keep up, and about how many bytes of them.
const MOST_FRESH: usize = 16;
const MOST_FRESH_BYTES: usize = 256 * 1024;

/// Most bytes of pieces kept for watchers that come late or are slow.
const MOST_BYTES: usize = 1 << 20;

/// Most bytes of text kept of a step that was cut off.
const MOST_PARTIAL: usize = 64 * 1024;

/// A piece of a step in progress. Shown early, not a record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Delta {
    /// The node.
    #[serde(serialize_with = "as_text")]
    pub node: Arc<str>,
    /// The task, as in [`Record::path`](crate::store::Record::path).
    pub path: String,
    /// Which try of the node.
    pub attempt: u32,
    /// Number of the piece within the try, from 0.
    pub index: u64,
    /// The piece.
    #[serde(flatten)]
    pub piece: Piece,
}

fn as_text<S: serde::Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// What a [`Delta`] carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// What the node showed: a string is text.
    Data(Value),
    /// The node is tried again: what its earlier try showed is void.
    Restarted(String),
}

/// The live side of one run.
pub(crate) struct Live {
    bell: watch::Sender<Seq>,
    pieces: Mutex<Pieces>,
}

struct Pieces {
    /// The entry after which the pieces come.
    head: Seq,
    /// Number of the next piece. Numbers only rise, so a watcher that knows one never sees a piece twice.
    next: u64,
    kept: VecDeque<(u64, Arc<Delta>)>,
    bytes: usize,
    /// The newest entries, without a gap, as long as somebody watched when they were written.
    fresh: VecDeque<Arc<Entry>>,
    fresh_bytes: usize,
}

impl Pieces {
    fn keep(&mut self, entries: Vec<Entry>) {
        let follows = |entry: &Entry| self.fresh.back().is_some_and(|last| last.seq + 1 == entry.seq);
        if !entries.first().is_some_and(follows) {
            self.fresh.clear();
            self.fresh_bytes = 0;
        }
        for entry in entries {
            self.fresh_bytes += entry.body.len();
            self.fresh.push_back(Arc::new(entry));
        }
        while self.fresh.len() > MOST_FRESH || self.fresh_bytes > MOST_FRESH_BYTES {
            let Some(oldest) = self.fresh.pop_front() else { return };
            self.fresh_bytes -= oldest.body.len();
        }
    }
}

impl Live {
    pub(crate) fn new(head: Seq) -> Self {
        let pieces =
            Pieces { head, next: 0, kept: VecDeque::new(), bytes: 0, fresh: VecDeque::new(), fresh_bytes: 0 };
        Self { bell: watch::Sender::new(0), pieces: Mutex::new(pieces) }
    }

    pub(crate) fn delta(&self, node: &Arc<str>, path: &str, attempt: u32, index: u64, data: Value) {
        let piece = Piece::Data(data);
        self.push(Delta { node: node.clone(), path: path.to_owned(), attempt, index, piece });
    }

    pub(crate) fn restarted(&self, node: &Arc<str>, path: &str, attempt: u32, why: &str) {
        let piece = Piece::Restarted(why.to_owned());
        self.push(Delta { node: node.clone(), path: path.to_owned(), attempt, index: 0, piece });
    }

    /// Whether somebody watches, to whom new entries are worth a copy.
    pub(crate) fn is_watched(&self) -> bool {
        self.bell.receiver_count() > 0
    }

    /// The log grew up to `head`, by `entries` when somebody watches: the pieces before are void. Of an inner step, in
    /// the task `within`, only its own are; what runs beside it goes on.
    pub(crate) fn wrote(&self, head: Seq, within: Option<&str>, entries: Vec<Entry>) {
        let mut pieces = self.pieces();
        pieces.head = head;
        pieces.keep(entries);
        if !pieces.kept.is_empty() {
            match within {
                Some(path) => pieces.kept.retain(|(_, delta)| !is_within(&delta.path, path)),
                None => pieces.kept.clear(),
            }
            pieces.bytes = pieces.kept.iter().map(|(_, delta)| size_of(delta)).sum();
        }
        drop(pieces);
        self.ring();
    }

    /// Wakes everybody who waits. One who comes later reads what there is first, so without a watcher nobody need
    /// be told, and a step does not pay for it.
    pub(crate) fn ring(&self) {
        if self.is_watched() {
            self.bell.send_modify(|rung| *rung += 1);
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Seq> {
        self.bell.subscribe()
    }

    /// The newest entry of the log, as far as this process has written it.
    pub(crate) fn head(&self) -> Seq {
        self.pieces().head
    }

    /// Up to `most` entries after entry `cursor`. None when they are not here, or not any more: the store has them.
    pub(crate) fn fresh_after(&self, cursor: Seq, most: usize) -> Vec<Arc<Entry>> {
        let pieces = self.pieces();
        match pieces.fresh.front() {
            Some(oldest) if oldest.seq <= cursor + 1 => {
                pieces.fresh.iter().filter(|entry| entry.seq > cursor).take(most).cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The first `most` pieces after entry `cursor` from number `from` on, and the number to go on from. `None` when
    /// the log has grown past `cursor`.
    pub(crate) fn after(&self, cursor: Seq, from: u64, most: usize) -> Option<(Vec<Arc<Delta>>, u64)> {
        let pieces = self.pieces();
        if pieces.head != cursor {
            return None;
        }
        let first = pieces.kept.partition_point(|(number, _)| *number < from);
        let some: Vec<_> = pieces.kept.iter().skip(first).take(most).collect();
        let next = if first + some.len() < pieces.kept.len() {
            some.last().map_or(from, |(number, _)| number + 1)
        } else {
            pieces.next
        };
        Some((some.into_iter().map(|(_, delta)| delta.clone()).collect(), next))
    }

    /// The text shown so far in the step in progress, by node. Of several tries only the last.
    pub(crate) fn partial(&self) -> BTreeMap<String, String> {
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        for (_, delta) in &self.pieces().kept {
            let text = texts.entry(delta.node.to_string()).or_default();
            match &delta.piece {
                Piece::Restarted(_) => text.clear(),
                Piece::Data(Value::String(more)) if text.len() + more.len() <= MOST_PARTIAL => {
                    text.push_str(more);
                }
                Piece::Data(_) => {}
            }
        }
        texts.retain(|_, text| !text.is_empty());
        texts
    }

    fn push(&self, delta: Delta) {
        let mut pieces = self.pieces();
        pieces.bytes += size_of(&delta);
        let number = pieces.next;
        pieces.next += 1;
        pieces.kept.push_back((number, Arc::new(delta)));
        while pieces.bytes > MOST_BYTES && pieces.kept.len() > 1 {
            if let Some((_, oldest)) = pieces.kept.pop_front() {
                pieces.bytes -= size_of(&oldest);
            }
        }
        drop(pieces);
        self.ring();
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a piece takes, roughly: this bounds memory, it does not account for it.
fn size_of(delta: &Delta) -> usize {
    match &delta.piece {
        Piece::Data(Value::String(text)) | Piece::Restarted(text) => text.len() + 128,
        Piece::Data(_) => 512,
    }
}

/// Whether a task is one of the graph inside the task `outer`.
fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(live: &Live, index: u64, text: &str) {
        live.delta(&Arc::from("say"), "0.0", 1, index, Value::from(text));
    }

    #[test]
    fn a_late_watcher_gets_the_pieces_of_the_step_in_progress() {
        let live = Live::new(1);
        text(&live, 0, "안녕");
        text(&live, 1, "하세요");
        let (pieces, end) = live.after(1, 0, 9).expect("same step");
        assert_eq!((pieces.len(), end), (2, 2));
        assert_eq!(live.after(1, 2, 9).expect("same step").0.len(), 0);
        live.wrote(2, Some("0.1"), Vec::new());
        assert!(live.after(1, 2, 9).is_none());
        assert_eq!(live.after(2, 0, 9).expect("the step of a sibling's graph").0.len(), 2);
        assert_eq!(live.after(2, 2, 9).expect("nothing twice").0.len(), 0);
        live.wrote(3, None, Vec::new());
        assert_eq!(live.after(3, 0, 9).expect("next step").0.len(), 0);
    }

    #[test]
    fn new_entries_are_at_hand_until_there_are_too_many_or_one_is_missing() {
        let entry = |seq: Seq, bytes: usize| Entry {
            seq,
            parent: seq - 1,
            base: 0,
            run: None,
            at: 0,
            kind: crate::store::EntryKind::Step,
            body: vec![0; bytes],
        };
        let seqs = |live: &Live, cursor| -> Vec<Seq> {
            live.fresh_after(cursor, 8).iter().map(|entry| entry.seq).collect()
        };
        let live = Live::new(1);
        live.wrote(3, None, vec![entry(2, 1), entry(3, 1)]);
        assert_eq!(seqs(&live, 1), [2, 3]);
        assert_eq!(seqs(&live, 2), [3]);
        assert_eq!(seqs(&live, 0), Vec::<Seq>::new(), "the first is not here");
        live.wrote(5, None, vec![entry(5, 1)]);
        assert_eq!(seqs(&live, 2), Vec::<Seq>::new(), "4 was not seen here");
        assert_eq!(seqs(&live, 4), [5]);
        (6..40).for_each(|seq| live.wrote(seq, None, vec![entry(seq, 1)]));
        assert_eq!(live.pieces().fresh.len(), MOST_FRESH);
        live.wrote(40, None, vec![entry(40, MOST_FRESH_BYTES + 1)]);
        assert_eq!(seqs(&live, 39), Vec::<Seq>::new(), "too large to keep");
        live.wrote(41, None, Vec::new());
        live.wrote(42, None, vec![entry(42, 1)]);
        assert_eq!((seqs(&live, 40), seqs(&live, 41)), (vec![], vec![42]));
    }

    #[test]
    fn nobody_watching_costs_a_bounded_amount() {
        let live = Live::new(0);
        for index in 0..100_000 {
            text(&live, index, "a piece of some forty bytes, more or less");
        }
        assert!(live.pieces().kept.len() < 10_000);
        let (pieces, end) = live.after(0, 0, usize::MAX).expect("same step");
        assert_eq!(end, 100_000);
        assert_eq!(pieces.last().expect("kept").index, 99_999);
    }

    #[test]
    fn pieces_are_taken_a_few_at_a_time_and_none_is_passed_over() {
        let live = Live::new(0);
        (0..7).for_each(|index| text(&live, index, "word"));
        let (mut from, mut seen) = (0, Vec::new());
        loop {
            let (pieces, next) = live.after(0, from, 3).expect("same step");
            assert!(pieces.len() <= 3);
            if pieces.is_empty() {
                break;
            }
            seen.extend(pieces.iter().map(|piece| piece.index));
            from = next;
        }
        assert_eq!((seen, from), ((0..7).collect(), 7));
    }

    #[test]
    fn only_the_last_try_counts_as_shown() {
        let live = Live::new(0);
        text(&live, 0, "wrong ");
        live.restarted(&Arc::from("say"), "0.0", 2, "reset");
        text(&live, 0, "right");
        assert_eq!(live.partial().into_iter().collect::<Vec<_>>(), [("say".into(), "right".into())]);
    }
}
