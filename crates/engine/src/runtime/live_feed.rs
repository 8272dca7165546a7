//! What a run shows while it works: pieces of text before they are written, and a wake-up of watchers when the log grew.
//!
//! Pieces belong to the step in progress. When it is written they are void, and stay a while for watchers who keep up: they
//! see them before the step. Watchers read at their own pace; a slow one misses pieces, never entries, and costs the run
//! nothing. The newest entries stay here for a while, so that
//! those who keep up need not ask the store for what this process has just written.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

use crate::log::ShownPiece;
use crate::store::{CommitPosition, LogEntry, Seq};
use crate::stored_json;
use crate::task_path::TaskPath;

/// Most entries kept for watchers who keep up, and about how many bytes of them.
const MAX_RECENT_ENTRIES: usize = 16;
const MAX_RECENT_ENTRIES_BYTES: usize = 256 * 1024;

/// Most bytes of pieces kept for watchers that come late or are slow.
const MAX_BUFFERED_DELTA_BYTES: usize = 1 << 20;

/// Most bytes of pieces of steps that are written, as long as nobody watches.
const MAX_UNWATCHED_DELTA_BYTES: usize = 64 * 1024;

/// Most bytes of pieces that are kept with the next entry.
const MAX_KEPT_BYTES: usize = 256 * 1024;

/// Numbers of kept pieces between two entries.
const KEPT_PER_ENTRY: u64 = 1 << 20;

/// Most bytes of text kept of a task that was cut off, and of all tasks of a step together.
const MAX_PARTIAL_TEXT_BYTES: usize = 64 * 1024;
const MAX_STEP_PARTIAL_TEXT_BYTES: usize = 1 << 20;

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
    /// The id of what it is a piece of, where the node says so: a message of the state, for one.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_optional_text")]
    pub item: Option<Arc<str>>,
    /// The piece.
    #[serde(flatten)]
    pub piece: NodeDeltaContent,
    /// Its number among those that are kept in [`ThreadEntry::shown`](crate::ThreadEntry::shown); none if it is not kept.
    #[serde(skip)]
    pub kept: Option<u64>,
}

fn as_text<S: serde::Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

fn as_optional_text<S: serde::Serializer>(text: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
    text.as_deref().serialize(serializer)
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
    deltas: VecDeque<BufferedDelta>,
    delta_bytes: usize,
    /// The text shown so far by each task of the step in progress, from its beginning and without a hole.
    partial_texts: BTreeMap<TaskPath, PartialText>,
    partial_text_bytes: usize,
    /// Pieces to keep with the next entry, and about how many bytes they have.
    kept: Vec<ShownPiece>,
    kept_bytes: usize,
    next_kept: u64,
    /// The newest entries, without a gap, as long as somebody watched when they were written.
    recent_entries: VecDeque<(CommitPosition, Arc<LogEntry>)>,
    recent_entries_bytes: usize,
}

/// A piece with its place between the entries of the log.
struct BufferedDelta {
    number: u64,
    /// The newest entry when it was shown.
    shown_after: Seq,
    /// The entry that has what it was a piece of. It is kept for those who have not come that far.
    void_since: Option<Seq>,
    delta: Arc<NodeDelta>,
}

impl BufferedDelta {
    /// Whether it comes after this entry and before the next one.
    fn follows(&self, entry: Seq) -> bool {
        self.shown_after <= entry && self.void_since.is_none_or(|void| void > entry)
    }
}

/// The beginning of the text that a task showed.
struct PartialText {
    node: Arc<str>,
    text: String,
    /// Something did not fit, so nothing more is added.
    cut: bool,
}

impl LiveBuffer {
    fn add_partial_text(&mut self, delta: &NodeDelta) {
        match &delta.piece {
            NodeDeltaContent::Restarted(_) => {
                if let Some(void) = self.partial_texts.remove(&delta.path) {
                    self.partial_text_bytes -= void.text.len();
                }
            }
            NodeDeltaContent::Data(Value::String(more)) => {
                let shown = self.partial_texts.entry(delta.path.clone()).or_insert_with(|| PartialText {
                    node: delta.node.clone(),
                    text: String::new(),
                    cut: false,
                });
                if shown.cut {
                    return;
                }
                let room = MAX_PARTIAL_TEXT_BYTES.saturating_sub(shown.text.len());
                let room = room.min(MAX_STEP_PARTIAL_TEXT_BYTES.saturating_sub(self.partial_text_bytes));
                let fits = more.floor_char_boundary(room);
                shown.text.push_str(&more[..fits]);
                shown.cut = fits < more.len();
                self.partial_text_bytes += fits;
            }
            NodeDeltaContent::Data(_) => {}
        }
    }

    fn pop_oldest_delta(&mut self) {
        if let Some(oldest) = self.deltas.pop_front() {
            self.delta_bytes -= delta_size_bytes(&oldest.delta);
        }
    }

    /// Forgets pieces that were void when entry `before` was written, and more of the void ones if all take over `most` bytes.
    fn drop_void_deltas(&mut self, before: Seq, most: usize) {
        self.deltas.retain(|buffered| buffered.void_since.is_none_or(|void| void > before));
        self.delta_bytes = self.deltas.iter().map(|buffered| delta_size_bytes(&buffered.delta)).sum();
        while self.delta_bytes > most && self.deltas.front().is_some_and(|oldest| oldest.void_since.is_some())
        {
            self.pop_oldest_delta();
        }
    }

    fn push_recent_entries(&mut self, entries: Vec<LogEntry>, position: CommitPosition) {
        let follows =
            |entry: &LogEntry| self.recent_entries.back().is_some_and(|(_, last)| last.seq + 1 == entry.seq);
        if !entries.first().is_some_and(follows) {
            self.recent_entries.clear();
            self.recent_entries_bytes = 0;
        }
        for entry in entries {
            self.recent_entries_bytes += entry.body.len();
            self.recent_entries.push_back((position, Arc::new(entry)));
        }
        while self.recent_entries.len() > MAX_RECENT_ENTRIES
            || self.recent_entries_bytes > MAX_RECENT_ENTRIES_BYTES
        {
            let Some((_, oldest)) = self.recent_entries.pop_front() else { return };
            self.recent_entries_bytes -= oldest.body.len();
        }
    }
}

impl LiveFeed {
    pub(crate) fn new(head: Seq) -> Self {
        let buffer = LiveBuffer {
            head,
            next: 0,
            deltas: VecDeque::new(),
            delta_bytes: 0,
            partial_texts: BTreeMap::new(),
            partial_text_bytes: 0,
            kept: Vec::new(),
            kept_bytes: 0,
            next_kept: head.saturating_mul(KEPT_PER_ENTRY),
            recent_entries: VecDeque::new(),
            recent_entries_bytes: 0,
        };
        Self { wakeup: watch::Sender::new(0), buffer: Mutex::new(buffer) }
    }

    pub(crate) fn push_restarted(&self, node: &Arc<str>, path: &TaskPath, attempt: u32, why: &str) {
        let piece = NodeDeltaContent::Restarted(why.to_owned());
        self.push_delta(NodeDelta {
            node: node.clone(),
            path: path.clone(),
            attempt,
            index: 0,
            item: None,
            piece,
            kept: None,
        });
    }

    /// Takes what is to be kept with the entry that is written now.
    pub(crate) fn take_kept(&self) -> Vec<ShownPiece> {
        let mut buffer = self.lock_buffer();
        buffer.kept_bytes = 0;
        std::mem::take(&mut buffer.kept)
    }

    /// Shows a piece that is kept with the next entry, as far as there is room.
    pub(crate) fn push_kept_delta(&self, mut delta: NodeDelta) {
        if let NodeDeltaContent::Data(data) = &delta.piece {
            let mut buffer = self.lock_buffer();
            let bytes = delta_size_bytes(&delta);
            if buffer.kept_bytes + bytes <= MAX_KEPT_BYTES && stored_json::check_depth(data).is_ok() {
                let number = buffer.next_kept;
                buffer.next_kept += 1;
                buffer.kept_bytes += bytes;
                buffer.kept.push(ShownPiece { number, data: data.clone() });
                delta.kept = Some(number);
            }
        }
        self.push_delta(delta);
    }

    /// Whether somebody watches, to whom new entries are worth a copy.
    pub(crate) fn is_watched(&self) -> bool {
        self.wakeup.receiver_count() > 0
    }

    /// The log grew up to `head`, by `entries` when somebody watches: the pieces before are void. Of an inner step, in
    /// the task `within`, only its own are; what runs beside it goes on. Watchers wait until `position` is on disk.
    pub(crate) fn note_log_written(
        &self,
        head: Seq,
        within: Option<&TaskPath>,
        entries: Vec<LogEntry>,
        position: CommitPosition,
    ) {
        let mut buffer = self.lock_buffer();
        buffer.head = head;
        buffer.push_recent_entries(entries, position);
        let is_void = |delta: &NodeDelta| within.is_none_or(|path| delta.path.is_inside(path));
        for buffered in &mut buffer.deltas {
            if buffered.void_since.is_none() && is_void(&buffered.delta) {
                buffered.void_since = Some(head);
            }
        }
        let most = if self.is_watched() { MAX_BUFFERED_DELTA_BYTES } else { MAX_UNWATCHED_DELTA_BYTES };
        buffer.drop_void_deltas(head.saturating_sub(MAX_RECENT_ENTRIES as Seq), most);
        match within {
            Some(path) => buffer.partial_texts.retain(|shown, _| !shown.is_inside(path)),
            None => buffer.partial_texts.clear(),
        }
        buffer.partial_text_bytes = buffer.partial_texts.values().map(|shown| shown.text.len()).sum();
        drop(buffer);
        self.wake_watchers();
    }

    /// Wakes everybody who waits. One who comes later reads what there is first, so without a watcher this
    /// does nothing, and a step does not pay for it.
    pub(crate) fn wake_watchers(&self) {
        if self.is_watched() {
            self.wakeup.send_modify(|wakeups| *wakeups += 1);
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Seq> {
        self.wakeup.subscribe()
    }

    /// The newest entry of the log, as far as this process has written it.
    pub(crate) fn head(&self) -> Seq {
        self.lock_buffer().head
    }

    /// Up to `most` entries after entry `cursor`, and the position at which all of them are on disk. None when they are
    /// not here, or not any more: the store has them.
    pub(crate) fn recent_entries_after(
        &self,
        cursor: Seq,
        most: usize,
    ) -> (Vec<Arc<LogEntry>>, CommitPosition) {
        let buffer = self.lock_buffer();
        let all_here = buffer.recent_entries.front().is_some_and(|(_, oldest)| oldest.seq <= cursor + 1);
        let mut newest = CommitPosition::default();
        let entries = buffer.recent_entries.iter().filter(|(_, entry)| all_here && entry.seq > cursor);
        let entries = entries.take(most).map(|(position, entry)| {
            newest = newest.max(*position);
            entry.clone()
        });
        (entries.collect(), newest)
    }

    /// The first `most` pieces between entry `cursor` and the next one, from number `from` on, and the number to go on
    /// from. `None` when the log is not that far.
    pub(crate) fn deltas_after(
        &self,
        cursor: Seq,
        from: u64,
        most: usize,
    ) -> Option<(Vec<Arc<NodeDelta>>, u64)> {
        let buffer = self.lock_buffer();
        if cursor > buffer.head {
            return None;
        }
        let first = buffer.deltas.partition_point(|buffered| buffered.number < from);
        let some: Vec<&BufferedDelta> =
            buffer.deltas.iter().skip(first).filter(|buffered| buffered.follows(cursor)).take(most).collect();
        // What comes after a later entry is not passed by.
        let next = if some.len() < most && cursor == buffer.head {
            buffer.next
        } else {
            some.last().map_or(from, |last| last.number + 1)
        };
        Some((some.into_iter().map(|buffered| buffered.delta.clone()).collect(), next))
    }

    /// The text shown so far in the step in progress, by node: what is kept of it is its beginning, without a hole. Of
    /// several tries only the last counts.
    pub(crate) fn partial_text(&self) -> BTreeMap<String, String> {
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        for shown in self.lock_buffer().partial_texts.values() {
            texts.entry(shown.node.to_string()).or_default().push_str(&shown.text);
        }
        texts.retain(|_, text| !text.is_empty());
        texts
    }

    /// Shows a piece.
    pub(crate) fn push_delta(&self, delta: NodeDelta) {
        let mut buffer = self.lock_buffer();
        buffer.delta_bytes += delta_size_bytes(&delta);
        buffer.add_partial_text(&delta);
        let (number, shown_after) = (buffer.next, buffer.head);
        buffer.next += 1;
        buffer.deltas.push_back(BufferedDelta {
            number,
            shown_after,
            void_since: None,
            delta: Arc::new(delta),
        });
        while buffer.delta_bytes > MAX_BUFFERED_DELTA_BYTES && buffer.deltas.len() > 1 {
            buffer.pop_oldest_delta();
        }
        drop(buffer);
        self.wake_watchers();
    }

    fn lock_buffer(&self) -> MutexGuard<'_, LiveBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a piece takes, roughly: this bounds memory, it does not account for it.
fn delta_size_bytes(delta: &NodeDelta) -> usize {
    let bytes = match &delta.piece {
        NodeDeltaContent::Restarted(text) => text.len(),
        NodeDeltaContent::Data(data) => usize::try_from(approximate_value_bytes(data)).unwrap_or(usize::MAX),
    };
    bytes.saturating_add(128)
}

/// What a value takes in memory, roughly.
pub(crate) fn approximate_value_bytes(value: &Value) -> u64 {
    let (mut bytes, mut open) = (0, vec![value]);
    while let Some(value) = open.pop() {
        bytes += 32;
        match value {
            Value::String(text) => bytes += text.len() as u64,
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => {
                bytes += fields.keys().map(|name| name.len() as u64 + 32).sum::<u64>();
                open.extend(fields.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push_data(live: &LiveFeed, node: &str, path: &TaskPath, index: u64, data: Value) {
        let (node, path, piece) = (Arc::from(node), path.clone(), NodeDeltaContent::Data(data));
        live.push_delta(NodeDelta { node, path, attempt: 1, index, item: None, piece, kept: None });
    }

    fn push_text(live: &LiveFeed, index: u64, text: &str) {
        push_data(live, "say", &TaskPath::outermost(0, 0), index, Value::from(text));
    }

    #[test]
    fn a_late_watcher_gets_the_pieces_of_the_step_in_progress() {
        let live = LiveFeed::new(1);
        push_text(&live, 0, "안녕");
        push_text(&live, 1, "하세요");
        let (pieces, end) = live.deltas_after(1, 0, 9).expect("same step");
        assert_eq!((pieces.len(), end), (2, 2));
        assert_eq!(live.deltas_after(1, 2, 9).expect("same step").0.len(), 0);
        live.note_log_written(2, Some(&TaskPath::outermost(0, 1)), Vec::new(), CommitPosition::default());
        assert_eq!(live.deltas_after(1, 2, 9).expect("a written step").0.len(), 0, "nothing twice");
        assert_eq!(
            live.deltas_after(1, 0, 9).expect("a written step").0.len(),
            2,
            "for those who come behind"
        );
        assert!(live.deltas_after(3, 0, 9).is_none(), "no such entry yet");
        assert_eq!(live.deltas_after(2, 0, 9).expect("the step of a sibling's graph").0.len(), 2);
        assert_eq!(live.deltas_after(2, 2, 9).expect("nothing twice").0.len(), 0);
        live.note_log_written(3, None, Vec::new(), CommitPosition::default());
        assert_eq!(live.deltas_after(3, 0, 9).expect("next step").0.len(), 0);
    }

    #[test]
    fn new_entries_are_buffered_until_there_are_too_many_or_one_is_missing() {
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
            live.recent_entries_after(cursor, 8).0.iter().map(|entry| entry.seq).collect()
        };
        let live = LiveFeed::new(1);
        live.note_log_written(3, None, vec![entry(2, 1), entry(3, 1)], CommitPosition::default());
        assert_eq!(seqs(&live, 1), [2, 3]);
        assert_eq!(seqs(&live, 2), [3]);
        assert_eq!(seqs(&live, 0), Vec::<Seq>::new(), "the first is not here");
        live.note_log_written(5, None, vec![entry(5, 1)], CommitPosition::default());
        assert_eq!(seqs(&live, 2), Vec::<Seq>::new(), "4 was not seen here");
        assert_eq!(seqs(&live, 4), [5]);
        (6..40)
            .for_each(|seq| live.note_log_written(seq, None, vec![entry(seq, 1)], CommitPosition::default()));
        assert_eq!(live.lock_buffer().recent_entries.len(), MAX_RECENT_ENTRIES);
        live.note_log_written(
            40,
            None,
            vec![entry(40, MAX_RECENT_ENTRIES_BYTES + 1)],
            CommitPosition::default(),
        );
        assert_eq!(seqs(&live, 39), Vec::<Seq>::new(), "too large to keep");
        live.note_log_written(41, None, Vec::new(), CommitPosition::default());
        live.note_log_written(42, None, vec![entry(42, 1)], CommitPosition::default());
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
    fn what_is_kept_of_a_text_is_its_beginning_without_a_hole() {
        let live = LiveFeed::new(0);
        let long = "가".repeat(30_000);
        push_text(&live, 0, "begins ");
        push_text(&live, 1, &long);
        push_text(&live, 2, "and ends");
        let kept = live.partial_text().remove("say").expect("kept");
        assert!(kept.len() <= MAX_PARTIAL_TEXT_BYTES && kept.len() > MAX_PARTIAL_TEXT_BYTES - 3);
        assert!(format!("begins {long}").starts_with(&kept));
        // Pieces that watchers cannot get any more are still in the text.
        let live = LiveFeed::new(0);
        push_text(&live, 0, "first");
        for index in 1..3 {
            let path = TaskPath::outermost(0, 1);
            push_data(&live, "other", &path, index, Value::from("x".repeat(MAX_BUFFERED_DELTA_BYTES)));
        }
        assert_eq!(live.partial_text().remove("say").as_deref(), Some("first"));
    }

    #[test]
    fn a_large_value_counts_with_its_size() {
        let live = LiveFeed::new(0);
        for index in 0..100 {
            let data = serde_json::json!({ "page": ["x".repeat(100_000)] });
            push_data(&live, "say", &TaskPath::outermost(0, 0), index, data);
        }
        assert!(live.lock_buffer().deltas.len() <= 11, "a mebibyte of pieces");
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
