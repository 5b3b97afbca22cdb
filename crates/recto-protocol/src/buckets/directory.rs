//! Range map of a partition, which assigns keys to buckets.
//!
//! A range map is a sorted list of [ranges](Piece), which contain each key exactly once: each range ends where the next
//! one begins. Without a range map, all keys are in bucket 0.

use std::collections::{BTreeMap, BTreeSet};

use crate::buckets::limits::{
    LONG_LIFE_MS, MAX_EDGE_BYTES, MAX_FURTHER_BUCKETS, MAX_WINDOW_PIECES, Protocol,
};
use crate::buckets::names::{Bucket, Key, Version};
use crate::buckets::sampling::Sampling;

/// Range map of a partition, or a window of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Directory {
    /// Version of the whole range map; 0: the partition has no range map.
    pub version: Version,
    /// Number of the next bucket.
    pub next_bucket: Bucket,
    /// Lifetime of a cached range map, in milliseconds.
    pub life_ms: u64,
    /// Longest lifetime that any process may assume for a cached range map of this version or an earlier one, in
    /// milliseconds.
    pub longest_ms: u64,
    /// Retention bound, if there is one.
    pub floor: Option<Floor>,
    /// Ranges, in the order of their keys; at least one.
    pub pieces: Vec<Piece>,
    /// End of the last range; `None`: it is the last range of the partition.
    pub end: Option<Key>,
}

/// Range of keys between two edges, with its buckets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Piece {
    /// First key of the range, or an edge before it. It is empty for the first range.
    pub start: Key,
    /// Buckets of the range, by role.
    pub roles: Roles,
    /// Sampling parameters of the bucket that is read.
    pub sampling: Sampling,
    /// Sampling parameters of newer buckets, while the range is split.
    pub next_sampling: Option<Sampling>,
    /// Content of the range when it was split off, if known.
    pub figures: Option<Figures>,
}

/// Buckets of a range, by role. No bucket has two roles.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Roles {
    /// Receives writes and deletions, and is read.
    pub read: Bucket,
    /// Receive writes and deletions.
    pub writes: BTreeSet<Bucket>,
    /// Receive only deletions now, and writes later.
    pub deletes: BTreeSet<Bucket>,
    /// Receive only deletions; they received writes before. Later they are checked for remaining rows, and cleared.
    pub old: BTreeSet<Bucket>,
}

/// Content of a range, as far as it is known. Rows and bytes are sums of estimates, so the variances of their errors
/// add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Figures {
    /// Number of rows.
    pub rows: u64,
    /// Variance of the number of rows; 0: the number is exact.
    pub rows_variance: u64,
    /// Bytes of the rows.
    pub bytes: u64,
    /// Variance of the bytes; 0: the number is exact.
    pub bytes_variance: u64,
}

/// Retention bound: rows on one side of an edge are not kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Floor {
    /// Edge.
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

    /// Returns whether a bound at this edge would hide more.
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

/// Span of keys.
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
    /// There are no ranges.
    #[error("it has no key ranges")]
    Empty,
    /// No range contains the keys before this one.
    #[error("no key range has the keys before {}", hex(.0))]
    Gap(Key),
    /// Ranges overlap, or are not in order.
    #[error("key ranges overlap, or are not in order, at {}", hex(.0))]
    Overlap(Key),
    /// An edge is longer than any key.
    #[error("the edge of a key range has {0} bytes; a key has at most {MAX_EDGE_BYTES}")]
    LongEdge(usize),
    /// There are more ranges than are read at once.
    #[error("it has {0} key ranges in one window; at most {MAX_WINDOW_PIECES} are read at once")]
    TooMany(usize),
    /// A bucket has a number that no split has assigned.
    #[error("bucket {} does not exist yet: the next one is {}", .bucket.0, .next.0)]
    NotMade {
        /// Bucket.
        bucket: Bucket,
        /// Number of the next bucket.
        next: Bucket,
    },
    /// A bucket has two roles in one range.
    #[error("bucket {} occurs twice in the key range that begins at {}", .bucket.0, hex(.start))]
    Twice {
        /// Bucket.
        bucket: Bucket,
        /// Start of the range.
        start: Key,
    },
    /// A bucket is read in two places, with another bucket between them, and would stay so.
    #[error("bucket {} is read in two places", .0.0)]
    Scattered(Bucket),
    /// The number of a bucket contradicts its role. Either a bucket that will receive writes is older than the bucket
    /// that is read, or a bucket that received writes before is newer.
    #[error("bucket {} has a wrong number for its role in the key range from {}", .bucket.0, hex(.start))]
    OutOfTurn {
        /// Bucket.
        bucket: Bucket,
        /// Start of the range.
        start: Key,
    },
    /// A range has more buckets than the limit.
    #[error("the key range that begins at {} has more than {MAX_FURTHER_BUCKETS} additional buckets of a \
             kind", hex(.0))]
    Crowded(Key),
    /// A version or a bucket number is not valid.
    #[error("its {what} is {value}, which no split has assigned")]
    Number {
        /// Name of the number.
        what: &'static str,
        /// Value of the number.
        value: i64,
    },
    /// Cached range maps would have a lifetime for which no process waits.
    #[error(
        "cached copies of it live {life_ms} ms or up to {longest_ms} ms; at most {LONG_LIFE_MS} ms are \
         allowed"
    )]
    Life {
        /// Lifetime of range maps that are cached now, in milliseconds.
        life_ms: i64,
        /// Longest lifetime of other cached range maps, in milliseconds.
        longest_ms: i64,
    },
    /// The sampling parameters are not valid.
    #[error("the key range that begins at {} has invalid sampling parameters: {unit} bytes per sample, \
             {mean} bytes per row", hex(.start))]
    Sampling {
        /// Start of the range.
        start: Key,
        /// Bytes per sample.
        unit: i64,
        /// Bytes of the mean row.
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

    /// Returns whether this is the whole range map, and not a window.
    pub fn is_whole(&self) -> bool {
        self.end.is_none() && self.pieces.first().is_some_and(|piece| piece.start.is_empty())
    }

    /// Returns each range with its span.
    pub fn spans(&self) -> impl Iterator<Item = (Span, &Piece)> {
        (0..self.pieces.len()).map(|index| self.span_at(index))
    }

    /// Returns the ranges that have keys of a span, each with its span. If there are many ranges, it does not look at
    /// the others.
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

    /// Returns whether a split is under way. Then a process has to continue it, after a random pause.
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

    /// Checks that this can be a range map, or a window of it that has the key `from`.
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

    /// Checks that no bucket is read in two places permanently. A split of several ranges may continue window by
    /// window. So a range in the middle may already be read in a newer bucket, while the ranges on both sides are read
    /// in the old bucket. Then the old bucket may stay in one of these places only. In the other places, another bucket
    /// will be read soon.
    pub(crate) fn check_places(&self) -> Result<(), Damage> {
        let mut stays: BTreeMap<Bucket, usize> = BTreeMap::new();
        let (mut place, mut before) = (0, None);
        for piece in &self.pieces {
            let bucket = piece.roles.read;
            place += usize::from(before != Some(bucket));
            before = Some(bucket);
            if !piece.roles.are_leaving() && *stays.entry(bucket).or_insert(place) != place {
                return Err(Damage::Scattered(bucket));
            }
        }
        Ok(())
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
    /// Returns the roles of a range that is in one bucket.
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

    /// Returns whether no split is under way.
    pub fn is_at_rest(&self) -> bool {
        self.writes.is_empty() && self.deletes.is_empty()
    }

    /// Returns whether another bucket will be read soon.
    fn are_leaving(&self) -> bool {
        !self.deletes.is_empty() || self.next_read().is_some()
    }

    /// Returns the bucket that is read next, when all rows are copied there. It is the newest bucket that receives
    /// writes, if it is newer than the bucket that is read.
    pub fn next_read(&self) -> Option<Bucket> {
        self.writes.last().copied().filter(|bucket| *bucket > self.read)
    }
}
