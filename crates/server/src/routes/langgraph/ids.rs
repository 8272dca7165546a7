//! Ids as LangGraph's clients know them. All are UUIDs, and all but those of runs are made from what they stand for, so that
//! nothing has to be stored to find it again.

use doran_engine::store::Seq;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The bits that every checkpoint id has.
const CHECKPOINT_BITS: u128 = 0x0000_0000_0000_8000_8000_0000_0000_0000;

/// A place in the log of a thread where a run can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CheckpointId {
    pub(super) seq: Seq,
    /// After the entry; else before its input was folded in.
    pub(super) is_after: bool,
}

impl CheckpointId {
    pub(super) fn to_text(self) -> String {
        let number = u128::from(self.seq) * 2 + u128::from(self.is_after);
        Uuid::from_u128(CHECKPOINT_BITS | number).to_string()
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let bits = Uuid::parse_str(text).ok()?.as_u128();
        let number = u64::try_from(bits ^ CHECKPOINT_BITS).ok()?;
        (number >> 48 == 0).then_some(Self { seq: number / 2, is_after: number % 2 == 1 })
    }
}

/// The assistant that every graph has.
pub(super) fn graph_assistant_id(graph: &str) -> String {
    hashed_id(&["assistant", graph])
}

/// A task of a step: the `index`th node after a checkpoint.
pub(super) fn task_id(thread: &str, after: CheckpointId, node: &str, index: usize) -> String {
    hashed_id(&["task", thread, &after.to_text(), node, &index.to_string()])
}

fn hashed_id(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_id_is_read_as_it_is_written_and_sorts_by_its_place() {
        let id = |seq, is_after| CheckpointId { seq, is_after };
        let ids = [id(1, false), id(1, true), id(2, false), id(40_000_000_000, true)];
        for pair in ids.windows(2) {
            assert!(pair[0].to_text() < pair[1].to_text());
        }
        for one in ids {
            assert_eq!(CheckpointId::parse(&one.to_text()), Some(one));
        }
        for wrong in ["", "x", "7894a87b-ac9b-47c2-8c91-5bce3d29988b", "00000000-0000-0000-0000-000000000003"]
        {
            assert_eq!(CheckpointId::parse(wrong), None, "{wrong}");
        }
    }
}
