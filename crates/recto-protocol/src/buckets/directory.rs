//! Range map of a partition, which assigns keys to buckets.
//!
//! A range map is a sorted list of [ranges](Piece), which contain each key exactly once: each range ends where the next
//! one begins. Without a range map, all keys are in bucket 0.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::buckets::limits::{
    LONG_LIFE_MS, MAX_EDGE_BYTES, MAX_FURTHER_BUCKETS, MAX_WINDOW_PIECES, Protocol,
};
use crate::buckets::names::{Bucket, Key, Version};
use crate::buckets::sampling::Sampling;

/// Range map of a partition, or a window of it: adjacent ranges that are read together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Directory {
    /// Version of the whole range map; 0: the partition has no range map.
    pub version: Version,
    /// Number that the next new bucket gets.
    pub next_bucket: Bucket,
    /// Lifetime of a cached range map, in milliseconds.
    pub life_ms: u64,
    /// Longest lifetime that any process may assume for a cached range map of this version or an earlier one, in
    /// milliseconds.
    pub longest_ms: u64,
    /// Retention bound of the partition; `None`: all rows are kept.
    pub floor: Option<Floor>,
    /// Ranges, in the order of their keys; at least one.
    pub pieces: Vec<Piece>,
    /// End of the last range, exclusive; `None`: it is the last range of the partition.
    pub end: Option<Key>,
}

/// Range of keys between two edges, with its buckets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Piece {
    /// First key of the range, or an edge before it. It is empty for the first range.
    pub start: Key,
    /// Buckets that contain the keys of the range, by role.
    pub roles: Roles,
    /// Sampling parameters of the bucket that is read.
    pub sampling: Sampling,
    /// Sampling parameters of newer buckets, while the range is split.
    pub next_sampling: Option<Sampling>,
    /// Number and bytes of the rows in the range when it was split off, if known.
    pub figures: Option<Figures>,
}

/// Buckets of a range, by role. No bucket has two roles.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Roles {
    /// Bucket that receives writes and deletions, and is read.
    pub read: Bucket,
    /// Buckets that receive writes and deletions, but are not read.
    pub writes: BTreeSet<Bucket>,
    /// Buckets that receive only deletions now, and writes later.
    pub deletes: BTreeSet<Bucket>,
    /// Buckets that receive only deletions, and received writes before. Later they are checked for remaining
    /// rows, and cleared.
    pub old: BTreeSet<Bucket>,
}

/// Estimated content of a range. Numbers of rows and bytes are sums of estimates, so the variances of their
/// errors add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Figures {
    /// Number of rows in the range.
    pub rows: u64,
    /// Variance of the number of rows; 0: the number of rows is exact.
    pub rows_variance: u64,
    /// Bytes of the rows in the range.
    pub bytes: u64,
    /// Variance of the bytes; 0: the number of bytes is exact.
    pub bytes_variance: u64,
}

/// Retention bound: rows on one side of an edge are not kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Floor {
    /// Edge between the kept rows and the other rows.
    pub at: Key,
    /// Side of the edge on which rows are kept.
    pub kept: Kept,
}

/// Side of an edge on which rows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kept {
    /// Rows from the edge on are kept. The newest rows have the greatest keys.
    After,
    /// Rows before the edge are kept. The newest rows have the smallest keys.
    Before,
}

impl Floor {
    /// Returns whether the bound hides a key.
    pub fn hides(&self, key: &[u8]) -> bool {
        match self.kept {
            Kept::After => key < self.at.as_slice(),
            Kept::Before => key >= self.at.as_slice(),
        }
    }

    /// Returns whether the bound hides all keys of a span.
    pub fn hides_all(&self, span: &Span) -> bool {
        match self.kept {
            Kept::After => span.end.as_ref().is_some_and(|end| *end <= self.at),
            Kept::Before => span.start >= self.at,
        }
    }

    /// Returns whether a retention bound at this edge would hide more keys.
    pub fn is_lower_than(&self, edge: &Key) -> bool {
        match self.kept {
            Kept::After => self.at < *edge,
            Kept::Before => self.at > *edge,
        }
    }

    /// Returns the span of keys that are kept.
    pub fn kept_span(&self) -> Span {
        let (kept, _) = self.sides();
        kept
    }

    /// Returns the span of keys that are hidden.
    pub fn hidden_span(&self) -> Span {
        let (_, hidden) = self.sides();
        hidden
    }

    /// Returns the span of keys that are kept, and the span of keys that are hidden.
    fn sides(&self) -> (Span, Span) {
        let before = Span {
            start: Key::new(),
            end: Some(self.at.clone()),
        };
        let behind = Span {
            start: self.at.clone(),
            end: None,
        };
        match self.kept {
            Kept::After => (behind, before),
            Kept::Before => (before, behind),
        }
    }
}

/// Span of keys: all keys from `start` up to `end`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// First key, or an edge before it.
    pub start: Key,
    /// End, exclusive; `None`: the span contains all keys from `start` on.
    pub end: Option<Key>,
}

impl Span {
    /// Returns the span of all keys.
    pub fn all() -> Self {
        Self::default()
    }

    /// Returns whether the span contains a key.
    pub fn has(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }

    /// Returns the common part of two spans; `None` if they have no key in common.
    pub fn common(&self, other: &Self) -> Option<Self> {
        let start = (&self.start).max(&other.start);
        let end = [&self.end, &other.end].into_iter().flatten().min();
        let is_some = end.is_none_or(|end| start < end);
        is_some.then(|| Self {
            start: start.clone(),
            end: end.cloned(),
        })
    }
}

/// Damage of a range map that was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The range map has no ranges.
    #[error("it has no key ranges")]
    Empty,
    /// No range contains the keys before this key.
    #[error("no key range has the keys before {}", hex(.0))]
    Gap(Key),
    /// Ranges overlap, or are not in order. The value is the key where they do.
    #[error("key ranges overlap, or are not in order, at {}", hex(.0))]
    Overlap(Key),
    /// The edge of a range is longer than the maximum. The value is its number of bytes.
    #[error("the edge of a key range has {0} bytes; a key has at most {MAX_EDGE_BYTES}")]
    LongEdge(usize),
    /// The window has more ranges than are read at once. The value is their number.
    #[error("it has {0} key ranges in one window; at most {MAX_WINDOW_PIECES} are read at once")]
    TooMany(usize),
    /// A range names a bucket whose number no split has assigned.
    #[error("bucket {} does not exist yet: the next one is {}", .bucket.0, .next.0)]
    NotMade {
        /// Number of the bucket.
        bucket: Bucket,
        /// Number that the next new bucket gets.
        next: Bucket,
    },
    /// A bucket has two roles in one range.
    #[error("bucket {} occurs twice in the key range that begins at {}", .bucket.0, hex(.start))]
    Twice {
        /// Number of the bucket.
        bucket: Bucket,
        /// Start of the range.
        start: Key,
    },
    /// A bucket is the [destination](Roles::destination) of two ranges that are not adjacent. A range between
    /// them has another destination.
    #[error("bucket {} is read in two places", .0.0)]
    Scattered(Bucket),
    /// The number of a bucket contradicts its role. Either a bucket that will receive writes is older than the bucket
    /// that is read, or a bucket that received writes before is newer.
    #[error("bucket {} has a wrong number for its role in the key range from {}", .bucket.0, hex(.start))]
    OutOfTurn {
        /// Number of the bucket.
        bucket: Bucket,
        /// Start of the range.
        start: Key,
    },
    /// A range has more buckets of one role than [`MAX_FURTHER_BUCKETS`]. The value is its start.
    #[error("the key range that begins at {} has more than {MAX_FURTHER_BUCKETS} additional buckets of a \
             kind", hex(.0))]
    Crowded(Key),
    /// A version or a bucket number is not valid.
    #[error("its {what} is {value}, which no split has assigned")]
    Number {
        /// Name of the invalid number, such as a version.
        what: &'static str,
        /// Value of the invalid number.
        value: i64,
    },
    /// The lifetime of cached range maps is invalid, so that processes would not wait long enough for their
    /// expiry.
    #[error(
        "cached copies of it live {life_ms} ms or up to {longest_ms} ms; at most {LONG_LIFE_MS} ms are \
         allowed"
    )]
    Life {
        /// Lifetime of a range map that is cached now, in milliseconds.
        life_ms: i64,
        /// Longest lifetime of range maps that were cached earlier, in milliseconds.
        longest_ms: i64,
    },
    /// The sampling parameters of a range are not valid.
    #[error("the key range that begins at {} has invalid sampling parameters: {unit} bytes per sample, \
             {mean} bytes per row", hex(.start))]
    Sampling {
        /// Start of the range.
        start: Key,
        /// Stored bytes per sample.
        unit: i64,
        /// Stored mean bytes of a row.
        mean: i64,
    },
    /// The recorded content of a range is not complete, or is negative.
    #[error("the counts of the key range that begins at {} are incomplete or negative", hex(.0))]
    Figures(Key),
}

/// Returns bytes in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "the beginning".to_owned();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Directory {
    /// Returns the range map of a partition that has none: all keys are in bucket 0.
    pub fn absent(sampling: Sampling, protocol: Protocol) -> Self {
        Self {
            version: 0,
            next_bucket: Bucket(1),
            life_ms: protocol.short_life_ms,
            longest_ms: protocol.short_life_ms,
            floor: None,
            pieces: vec![Piece {
                start: Key::new(),
                roles: Roles::default(),
                sampling,
                next_sampling: None,
                figures: None,
            }],
            end: None,
        }
    }

    /// Returns whether this is the whole range map. If not, it is a window of the range map.
    pub fn is_whole(&self) -> bool {
        self.end.is_none() && self.pieces.first().is_some_and(|piece| piece.start.is_empty())
    }

    /// Returns all ranges in the order of their keys, each with its span of keys.
    pub fn spans(&self) -> impl Iterator<Item = (Span, &Piece)> {
        (0..self.pieces.len()).map(|index| self.span_at(index))
    }

    /// Returns the ranges that have keys of `span`, each with the span of the range. The cost does not depend
    /// on the number of other ranges.
    pub fn spans_of(&self, span: &Span) -> impl DoubleEndedIterator<Item = (Span, &Piece)> {
        let begun = self.pieces.partition_point(|piece| piece.start <= span.start);
        let is_before_end = |piece: &Piece| span.end.as_ref().is_none_or(|end| piece.start < *end);
        let ended = self.pieces.partition_point(is_before_end);
        (begun.saturating_sub(1)..ended).map(|index| self.span_at(index))
    }

    fn span_at(&self, index: usize) -> (Span, &Piece) {
        let piece = &self.pieces[index];
        let next = self.pieces.get(index + 1).map(|next| &next.start);
        let span = Span {
            start: piece.start.clone(),
            end: next.or(self.end.as_ref()).cloned(),
        };
        (span, piece)
    }

    /// Returns the range of a key; `None` if the key is outside this window.
    pub fn piece_of(&self, key: &[u8]) -> Option<&Piece> {
        if self.end.as_ref().is_some_and(|end| key >= end.as_slice()) {
            return None;
        }
        let after = self.pieces.partition_point(|piece| piece.start.as_slice() <= key);
        self.pieces.get(after.checked_sub(1)?)
    }

    /// Returns whether a split or a join is under way. If so, a process has to continue it, after a random pause.
    pub fn is_being_cut(&self) -> bool {
        self.pieces.iter().any(|piece| !piece.roles.is_at_rest())
    }

    /// Returns whether there are old buckets that have to be cleared.
    pub fn is_to_be_cleared(&self) -> bool {
        self.pieces.iter().any(|piece| !piece.roles.old.is_empty())
    }

    /// Returns the ranges that differ from `before`. A conditional write puts only these ranges, and the columns that
    /// all ranges share.
    pub fn changed_since(&self, before: &Self) -> Vec<&Piece> {
        let before: BTreeMap<_, _> = before.pieces.iter().map(|piece| (&piece.start, piece)).collect();
        let is_new = |piece: &&Piece| before.get(&piece.start) != Some(piece);
        self.pieces.iter().filter(is_new).collect()
    }

    /// Checks that this is a valid range map, or a valid window of a range map that contains the key `from`.
    pub(crate) fn check(&self, from: &[u8]) -> Result<(), Damage> {
        let first = self.pieces.first().ok_or(Damage::Empty)?;
        if self.pieces.len() > MAX_WINDOW_PIECES {
            return Err(Damage::TooMany(self.pieces.len()));
        }
        if first.start.as_slice() > from {
            return Err(Damage::Gap(first.start.clone()));
        }
        let starts = self.pieces.iter().map(|piece| &piece.start).chain(&self.end);
        let starts: Vec<_> = starts.collect();
        for pair in starts.windows(2) {
            if pair[0] >= pair[1] {
                return Err(Damage::Overlap(pair[1].clone()));
            }
        }
        for piece in &self.pieces {
            piece.check(self.next_bucket)?;
        }
        self.check_places()
    }

    /// Checks that each bucket is the destination of only one run of adjacent ranges. The buckets that are
    /// *read* now may be scattered, because a split or a join of several ranges may continue window by window.
    /// A range in the middle may be read in its new bucket before or after the ranges on both sides.
    pub(crate) fn check_places(&self) -> Result<(), Damage> {
        let mut seen = BTreeSet::new();
        for run in self.runs() {
            let bucket = self.pieces[run.pieces.start].roles.destination();
            if !seen.insert(bucket) {
                return Err(Damage::Scattered(bucket));
            }
        }
        Ok(())
    }

    /// Returns the runs of the range map, in the order of their keys.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            let destination = piece.roles.destination();
            match runs.last_mut() {
                Some(run) if self.pieces[run.pieces.start].roles.destination() == destination => {
                    run.pieces.end = index + 1;
                }
                _ => runs.push(self.run_at(index)),
            }
        }
        if let Some(last) = runs.last_mut() {
            last.may_end_behind = self.end.is_some();
        }
        runs
    }

    /// Returns the run that begins with the range of this index, with only this range.
    pub(crate) fn run_at(&self, index: usize) -> Run {
        Run {
            pieces: index..index + 1,
            may_begin_before: index == 0 && !self.pieces[0].start.is_empty(),
            may_end_behind: false,
        }
    }

    /// Returns whether the range map has edges that a join left, and that can be removed now.
    /// [`Clearing`](crate::buckets::Clearing) removes them.
    pub fn has_inner_edges(&self, protocol: Protocol) -> bool {
        self.without_inner_edges(protocol).is_some()
    }
}

/// Adjacent ranges that have the same [destination](Roles::destination), as far as a window shows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    /// Indexes of the ranges.
    pub(crate) pieces: Range<usize>,
    /// True if the window may not show the first ranges of the run.
    pub(crate) may_begin_before: bool,
    /// True if the window may not show the last ranges of the run.
    pub(crate) may_end_behind: bool,
}

impl Run {
    /// Returns whether the window shows all ranges of the run.
    pub(crate) fn is_whole(&self) -> bool {
        !self.may_begin_before && !self.may_end_behind
    }
}

impl Piece {
    fn check(&self, next: Bucket) -> Result<(), Damage> {
        let (roles, start) = (&self.roles, &self.start);
        if start.len() > MAX_EDGE_BYTES {
            return Err(Damage::LongEdge(start.len()));
        }
        let further = [&roles.writes, &roles.deletes, &roles.old];
        if further.iter().any(|buckets| buckets.len() > MAX_FURTHER_BUCKETS) {
            return Err(Damage::Crowded(start.clone()));
        }
        let mut named = BTreeSet::from([roles.read]);
        for bucket in roles.further() {
            if !named.insert(bucket) {
                let start = start.clone();
                return Err(Damage::Twice { bucket, start });
            }
        }
        if let Some(bucket) = named.into_iter().find(|bucket| *bucket >= next) {
            return Err(Damage::NotMade { bucket, next });
        }
        let early = roles.deletes.iter().find(|bucket| **bucket < roles.read);
        let late = roles.old.iter().find(|bucket| **bucket > roles.read);
        if let Some(bucket) = early.or(late).copied() {
            let start = start.clone();
            return Err(Damage::OutOfTurn { bucket, start });
        }
        Ok(())
    }
}

impl Roles {
    /// Returns the roles of a range that has only one bucket.
    pub fn of(read: Bucket) -> Self {
        Self {
            read,
            ..Self::default()
        }
    }

    /// Returns all buckets except the bucket that is read.
    pub fn further(&self) -> impl Iterator<Item = Bucket> {
        [&self.writes, &self.deletes, &self.old]
            .into_iter()
            .flatten()
            .copied()
    }

    /// Returns whether no split or join of the range is under way.
    pub fn is_at_rest(&self) -> bool {
        self.writes.is_empty() && self.deletes.is_empty()
    }

    /// Returns the bucket that is read when all splits and joins of the range are done: the newest bucket that
    /// receives writes, now or later.
    pub fn destination(&self) -> Bucket {
        let newest = self.writes.last().max(self.deletes.last());
        newest.copied().unwrap_or(self.read).max(self.read)
    }

    /// Returns the bucket that is read next, when all rows are copied there. It is the newest bucket that receives
    /// writes, if it is newer than the bucket that is read.
    pub fn next_read(&self) -> Option<Bucket> {
        self.writes.last().copied().filter(|bucket| *bucket > self.read)
    }
}
