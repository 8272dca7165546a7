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

use crate::store::{LogEntry, Seq};
use crate::task_path::TaskPath;

/// Most entries kept for watchers who keep up, and about how many bytes of them.
const MAX_RECENT_ENTRIES: usize = 16;
const MAX_RECENT_ENTRIES_BYTES: usize = 256 * 1024;

/// Most bytes of pieces kept for watchers that come late or are slow.
const MAX_BUFFERED_DELTA_BYTES: usize = 1 << 20;

/// Most bytes of text kept of a step that was cut off.
const MAX_PARTIAL_TEXT_BYTES: usize = 64 * 1024;

/// A piece of a step in progress. Shown early, not a record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeDelta {
    /// The node.
    #[serde(serialize_with = "as_text")]
    pub node: Arc<str>,
    /// The task.
    pub path: TaskPath,
    /// Which try of the node.
    pub attempt: u32,
    /// Number of the piece within the try, from 0.
    pub index: u64,
    /// The piece.
    #[serde(flatten)]
    pub piece: NodeDeltaContent,
}

fn as_text<S: serde::Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// What a [`NodeDelta`] carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeDeltaContent {
    /// What the node showed: a string is text.
    Data(Value),
    /// The node is tried again: what its earlier try showed is void.
    Restarted(String),
}

/// The live side of one run.
pub(crate) struct LiveFeed {
    wakeup: watch::Sender<Seq>,
    buffer: Mutex<LiveBuffer>,
}

struct LiveBuffer {
    /// The entry after which the pieces come.
    head: Seq,
    /// Number of the next piece. Numbers only rise, so a watcher that knows one never sees a piece twice.
    next: u64,
    deltas: VecDeque<(u64, Arc<NodeDelta>)>,
    delta_bytes: usize,
    /// The newest entries, without a gap, as long as somebody watched when they were written.
    recent_entries: VecDeque<Arc<LogEntry>>,
    recent_entries_bytes: usize,
}

impl LiveBuffer {
    fn push_recent_entries(&mut self, entries: Vec<LogEntry>) {
        let follows =
            |entry: &LogEntry| self.recent_entries.back().is_some_and(|last| last.seq + 1 == entry.seq);
        if !entries.first().is_some_and(follows) {
            self.recent_entries.clear();
            self.recent_entries_bytes = 0;
        }
        for entry in entries {
            self.recent_entries_bytes += entry.body.len();
            self.recent_entries.push_back(Arc::new(entry));
        }
        while self.recent_entries.len() > MAX_RECENT_ENTRIES
            || self.recent_entries_bytes > MAX_RECENT_ENTRIES_BYTES
        {
            let Some(oldest) = self.recent_entries.pop_front() else { return };
            self.recent_entries_bytes -= oldest.body.len();
        }
    }
}

impl LiveFeed {
    pub(crate) fn new(head: Seq) -> Self {
        let pieces = LiveBuffer {
            head,
            next: 0,
            deltas: VecDeque::new(),
            delta_bytes: 0,
            recent_entries: VecDeque::new(),
            recent_entries_bytes: 0,
        };
        Self { wakeup: watch::Sender::new(0), buffer: Mutex::new(pieces) }
    }

    pub(crate) fn push_delta(&self, node: &Arc<str>, path: &TaskPath, attempt: u32, index: u64, data: Value) {
        let piece = NodeDeltaContent::Data(data);
        self.push(NodeDelta { node: node.clone(), path: path.clone(), attempt, index, piece });
    }

    pub(crate) fn push_restarted(&self, node: &Arc<str>, path: &TaskPath, attempt: u32, why: &str) {
        let piece = NodeDeltaContent::Restarted(why.to_owned());
        self.push(NodeDelta { node: node.clone(), path: path.clone(), attempt, index: 0, piece });
    }

    /// Whether somebody watches, to whom new entries are worth a copy.
    pub(crate) fn is_watched(&self) -> bool {
        self.wakeup.receiver_count() > 0
    }

    /// The log grew up to `head`, by `entries` when somebody watches: the pieces before are void. Of an inner step, in
    /// the task `within`, only its own are; what runs beside it goes on.
    pub(crate) fn note_log_written(&self, head: Seq, within: Option<&TaskPath>, entries: Vec<LogEntry>) {
        let mut pieces = self.lock_buffer();
        pieces.head = head;
        pieces.push_recent_entries(entries);
        if !pieces.deltas.is_empty() {
            match within {
                Some(path) => pieces.deltas.retain(|(_, delta)| !delta.path.is_inside(path)),
                None => pieces.deltas.clear(),
            }
            pieces.delta_bytes = pieces.deltas.iter().map(|(_, delta)| delta_size_bytes(delta)).sum();
        }
        drop(pieces);
        self.wake_watchers();
    }

    /// Wakes everybody who waits. One who comes later reads what there is first, so without a watcher nobody need
    /// be told, and a step does not pay for it.
    pub(crate) fn wake_watchers(&self) {
        if self.is_watched() {
            self.wakeup.send_modify(|rung| *rung += 1);
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Seq> {
        self.wakeup.subscribe()
    }

    /// The newest entry of the log, as far as this process has written it.
    pub(crate) fn head(&self) -> Seq {
        self.lock_buffer().head
    }

    /// Up to `most` entries after entry `cursor`. None when they are not here, or not any more: the store has them.
    pub(crate) fn recent_entries_after(&self, cursor: Seq, most: usize) -> Vec<Arc<LogEntry>> {
        let pieces = self.lock_buffer();
        match pieces.recent_entries.front() {
            Some(oldest) if oldest.seq <= cursor + 1 => {
                pieces.recent_entries.iter().filter(|entry| entry.seq > cursor).take(most).cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// The first `most` pieces after entry `cursor` from number `from` on, and the number to go on from. `None` when
    /// the log has grown past `cursor`.
    pub(crate) fn deltas_after(
        &self,
        cursor: Seq,
        from: u64,
        most: usize,
    ) -> Option<(Vec<Arc<NodeDelta>>, u64)> {
        let pieces = self.lock_buffer();
        if pieces.head != cursor {
            return None;
        }
        let first = pieces.deltas.partition_point(|(number, _)| *number < from);
        let some: Vec<_> = pieces.deltas.iter().skip(first).take(most).collect();
        let next = if first + some.len() < pieces.deltas.len() {
            some.last().map_or(from, |(number, _)| number + 1)
        } else {
            pieces.next
        };
        Some((some.into_iter().map(|(_, delta)| delta.clone()).collect(), next))
    }

    /// The text shown so far in the step in progress, by node. Of several tries only the last.
    pub(crate) fn partial_text(&self) -> BTreeMap<String, String> {
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        for (_, delta) in &self.lock_buffer().deltas {
            let text = texts.entry(delta.node.to_string()).or_default();
            match &delta.piece {
                NodeDeltaContent::Restarted(_) => text.clear(),
                NodeDeltaContent::Data(Value::String(more))
                    if text.len() + more.len() <= MAX_PARTIAL_TEXT_BYTES =>
                {
                    text.push_str(more);
                }
                NodeDeltaContent::Data(_) => {}
            }
        }
        texts.retain(|_, text| !text.is_empty());
        texts
    }

    fn push(&self, delta: NodeDelta) {
        let mut pieces = self.lock_buffer();
        pieces.delta_bytes += delta_size_bytes(&delta);
        let number = pieces.next;
        pieces.next += 1;
        pieces.deltas.push_back((number, Arc::new(delta)));
        while pieces.delta_bytes > MAX_BUFFERED_DELTA_BYTES && pieces.deltas.len() > 1 {
            if let Some((_, oldest)) = pieces.deltas.pop_front() {
                pieces.delta_bytes -= delta_size_bytes(&oldest);
            }
        }
        drop(pieces);
        self.wake_watchers();
    }

    fn lock_buffer(&self) -> MutexGuard<'_, LiveBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a piece takes, roughly: this bounds memory, it does not account for it.
fn delta_size_bytes(delta: &NodeDelta) -> usize {
    match &delta.piece {
        NodeDeltaContent::Data(Value::String(text)) | NodeDeltaContent::Restarted(text) => text.len() + 128,
        NodeDeltaContent::Data(_) => 512,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push_text(live: &LiveFeed, index: u64, text: &str) {
        live.push_delta(&Arc::from("say"), &TaskPath::outermost(0, 0), 1, index, Value::from(text));
    }

    #[test]
    fn a_late_watcher_gets_the_pieces_of_the_step_in_progress() {
        let live = LiveFeed::new(1);
        push_text(&live, 0, "안녕");
        push_text(&live, 1, "하세요");
        let (pieces, end) = live.deltas_after(1, 0, 9).expect("same step");
        assert_eq!((pieces.len(), end), (2, 2));
        assert_eq!(live.deltas_after(1, 2, 9).expect("same step").0.len(), 0);
        live.note_log_written(2, Some(&TaskPath::outermost(0, 1)), Vec::new());
        assert!(live.deltas_after(1, 2, 9).is_none());
        assert_eq!(live.deltas_after(2, 0, 9).expect("the step of a sibling's graph").0.len(), 2);
        assert_eq!(live.deltas_after(2, 2, 9).expect("nothing twice").0.len(), 0);
        live.note_log_written(3, None, Vec::new());
        assert_eq!(live.deltas_after(3, 0, 9).expect("next step").0.len(), 0);
    }

    #[test]
    fn new_entries_are_at_hand_until_there_are_too_many_or_one_is_missing() {
        let entry = |seq: Seq, bytes: usize| LogEntry {
            seq,
            parent: seq - 1,
            base: 0,
            run: None,
            at: 0,
            kind: crate::store::EntryKind::Step,
            body: vec![0; bytes],
        };
        let seqs = |live: &LiveFeed, cursor| -> Vec<Seq> {
            live.recent_entries_after(cursor, 8).iter().map(|entry| entry.seq).collect()
        };
        let live = LiveFeed::new(1);
        live.note_log_written(3, None, vec![entry(2, 1), entry(3, 1)]);
        assert_eq!(seqs(&live, 1), [2, 3]);
        assert_eq!(seqs(&live, 2), [3]);
        assert_eq!(seqs(&live, 0), Vec::<Seq>::new(), "the first is not here");
        live.note_log_written(5, None, vec![entry(5, 1)]);
        assert_eq!(seqs(&live, 2), Vec::<Seq>::new(), "4 was not seen here");
        assert_eq!(seqs(&live, 4), [5]);
        (6..40).for_each(|seq| live.note_log_written(seq, None, vec![entry(seq, 1)]));
        assert_eq!(live.lock_buffer().recent_entries.len(), MAX_RECENT_ENTRIES);
        live.note_log_written(40, None, vec![entry(40, MAX_RECENT_ENTRIES_BYTES + 1)]);
        assert_eq!(seqs(&live, 39), Vec::<Seq>::new(), "too large to keep");
        live.note_log_written(41, None, Vec::new());
        live.note_log_written(42, None, vec![entry(42, 1)]);
        assert_eq!((seqs(&live, 40), seqs(&live, 41)), (vec![], vec![42]));
    }

    #[test]
    fn nobody_watching_costs_a_bounded_amount() {
        let live = LiveFeed::new(0);
        for index in 0..100_000 {
            push_text(&live, index, "a piece of some forty bytes, more or less");
        }
        assert!(live.lock_buffer().deltas.len() < 10_000);
        let (pieces, end) = live.deltas_after(0, 0, usize::MAX).expect("same step");
        assert_eq!(end, 100_000);
        assert_eq!(pieces.last().expect("kept").index, 99_999);
    }

    #[test]
    fn pieces_are_taken_a_few_at_a_time_and_none_is_passed_over() {
        let live = LiveFeed::new(0);
        (0..7).for_each(|index| push_text(&live, index, "word"));
        let (mut from, mut seen) = (0, Vec::new());
        loop {
            let (pieces, next) = live.deltas_after(0, from, 3).expect("same step");
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
        let live = LiveFeed::new(0);
        push_text(&live, 0, "wrong ");
        live.push_restarted(&Arc::from("say"), &TaskPath::outermost(0, 0), 2, "reset");
        push_text(&live, 0, "right");
        assert_eq!(live.partial_text().into_iter().collect::<Vec<_>>(), [("say".into(), "right".into())]);
    }
}
