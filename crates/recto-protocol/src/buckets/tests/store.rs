//! Store of the model, for one row: a range map that conditional writes change, buckets that plain
//! writes change, and requests under way. Each request may arrive at any time or never.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::SAMPLING;
use crate::buckets::{Bucket, Directory, Micros, Operation, Piece, Protocol, Span, Version};

/// Key of the only row of the model.
pub(crate) const KEY: &[u8] = b"m";

/// Process of the model that waits for the reply to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Process {
    Writer(u8),
    Splitter(u8),
    Clearer,
}

/// Request to the store that has not arrived.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    /// Puts or deletes the row in this bucket, with this write timestamp.
    Row(Bucket, Operation, Micros),
    /// Replaces the range map (which bucket holds which keys), if the stored version is this one.
    Cas(Version, Arc<Directory>),
}

/// State of the row in one bucket, as in Cassandra: the newest timestamps of its puts and
/// deletions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Slot {
    put: Micros,
    deleted: Micros,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) directory: Arc<Directory>,
    /// Range map before the last conditional write, as long as a read without serial consistency
    /// may return it.
    pub(crate) missed: Option<Arc<Directory>>,
    pub(crate) is_root_marked: bool,
    buckets: BTreeMap<Bucket, Slot>,
    keeps_tombstones: bool,
}

impl Store {
    pub(crate) fn new(protocol: Protocol, keeps_tombstones: bool) -> Self {
        Self {
            directory: Arc::new(Directory::absent(SAMPLING, protocol)),
            missed: None,
            is_root_marked: false,
            buckets: BTreeMap::new(),
            keeps_tombstones,
        }
    }

    pub(crate) fn row(&mut self, bucket: Bucket, operation: Operation, stamp: Micros) {
        let slot = self.buckets.entry(bucket).or_default();
        match operation {
            Operation::Put => slot.put = slot.put.max(stamp),
            Operation::Delete => slot.deleted = slot.deleted.max(stamp),
        }
        if slot.put <= slot.deleted {
            slot.put = 0;
        }
        if !self.keeps_tombstones {
            slot.deleted = 0;
        }
        self.tidy();
    }

    /// Returns the write timestamp of the row in a bucket; `None` if the row is not there.
    pub(crate) fn seen(&self, bucket: Bucket) -> Option<Micros> {
        let slot = self.buckets.get(&bucket)?;
        (slot.put > 0).then_some(slot.put)
    }

    /// Returns whether the operation on the row would change nothing.
    pub(crate) fn is_spent(&self, bucket: Bucket, operation: Operation, stamp: Micros) -> bool {
        let mut after = self.clone();
        after.row(bucket, operation, stamp);
        after == *self
    }

    pub(crate) fn purge(&mut self) {
        for slot in self.buckets.values_mut() {
            slot.deleted = 0;
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        self.buckets.retain(|_, slot| *slot != Slot::default());
    }
}

/// Returns the window of the range map with the ranges that begin in `span`, or the whole range map
/// if no range begins there.
pub(crate) fn window_of(directory: &Directory, span: Option<&Span>) -> Directory {
    let Some(span) = span else {
        return directory.clone();
    };
    let is_inside = |piece: &&Piece| span.has(&piece.start);
    let pieces: Vec<Piece> = directory.pieces.iter().filter(is_inside).cloned().collect();
    let is_behind = |piece: &&Piece| pieces.last().is_some_and(|last| piece.start > last.start);
    let end = directory
        .pieces
        .iter()
        .find(is_behind)
        .map(|piece| piece.start.clone());
    if pieces.is_empty() {
        return directory.clone();
    }
    Directory {
        pieces,
        end,
        ..directory.clone()
    }
}

/// Returns the range map (which bucket holds which keys) after the ranges of a window are replaced
/// by `window`.
pub(crate) fn put_window(directory: &Directory, window: &Directory) -> Directory {
    let (first, end) = (&window.pieces[0].start, window.end.as_ref());
    let before = directory.pieces.iter().filter(|piece| piece.start < *first);
    let is_behind = |piece: &&Piece| end.is_some_and(|end| piece.start >= *end);
    let behind = directory.pieces.iter().filter(is_behind);
    Directory {
        pieces: before.chain(&window.pieces).chain(behind).cloned().collect(),
        end: None,
        ..window.clone()
    }
}
