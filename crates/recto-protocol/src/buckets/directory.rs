//! Range map of a partition: says which bucket (stored partition) holds which keys.
//!
//! A range map is a sorted list of [ranges](Piece), which contain each key exactly once: each range ends where the next
//! one begins. Without a range map, all keys are in bucket 0.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::buckets::limits::{
    LONG_LIFE_MS, MAX_EDGE_BYTES, MAX_FURTHER_BUCKETS, MAX_WINDOW_PIECES, Protocol,
};
use crate::buckets::names::{Bucket, Key, Version};
use crate::buckets::sampling::Sampling;

/// Range map of a partition (which bucket holds which keys), or a window of it: adjacent ranges
/// that are read together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Directory {
    /// Version of the whole range map, which each change increases by 1; 0: the partition has no
    /// range map.
    pub version: Version,
    /// Id of the next new bucket.
    pub next_bucket: Bucket,
    /// Milliseconds for which a process may use its cached range map (which bucket holds which
    /// keys).
    pub life_ms: u64,
    /// Longest time for which any process may still use a cached range map of this version or an
    /// earlier one, in milliseconds.
    pub longest_ms: u64,
    /// Retention bound (rows beyond it are deleted); `None`: all rows are kept.
    pub floor: Option<Floor>,
    /// Ranges, in the order of their keys; at least one.
    pub pieces: Vec<Piece>,
    /// End of the last range, exclusive; `None`: the range has no end, because it is the last range
    /// of the partition.
    pub end: Option<Key>,
}

/// Contiguous range of keys, with the buckets that hold its rows. The range ends where the next
/// range begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Piece {
    /// First possible key of the range, inclusive. Empty for the first range of a partition.
    pub start: Key,
    /// Buckets that contain the keys of the range, by role.
    pub roles: Roles,
    /// Sampling parameters of the bucket that is read: they decide which rows are sampled.
    pub sampling: Sampling,
    /// Sampling parameters of the range's newer buckets, while the range is split or joined.
    pub next_sampling: Option<Sampling>,
    /// Estimated number and bytes of the rows in the range when it was split off; `None`: unknown.
    pub figures: Option<Figures>,
}

/// Buckets of a key range, by role. No bucket has two roles in one range.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Roles {
    /// Bucket that receives writes and deletions, and is read.
    pub read: Bucket,
    /// Buckets that receive writes and deletions, but are not read now: rows are moving to or from
    /// them.
    pub writes: BTreeSet<Bucket>,
    /// Buckets that receive only deletions now, and will receive writes later.
    pub deletes: BTreeSet<Bucket>,
    /// Old buckets: they receive only deletions, and received writes before. Later, their remaining
    /// rows are copied, and the buckets are deleted.
    pub old: BTreeSet<Bucket>,
}

/// Estimated number and bytes of the rows in a key range. When estimates are added up, their
/// variances are added up too.
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

/// Retention bound: rows on one side of the key `at` are hidden, and will be deleted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Floor {
    /// Key that separates the kept rows from the other rows.
    pub at: Key,
    /// Side of `at` on which rows are kept.
    pub kept: Kept,
}

/// Side of a retention bound (key beyond which rows are deleted) on which rows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kept {
    /// Rows from the bound on are kept: the newest rows have the greatest keys.
    After,
    /// Rows before the bound are kept: the newest rows have the smallest keys.
    Before,
}

impl Floor {
    /// Returns whether the retention bound (key beyond which rows are deleted) hides the row with
    /// this key.
    pub fn hides(&self, key: &[u8]) -> bool {
        match self.kept {
            Kept::After => key < self.at.as_slice(),
            Kept::Before => key >= self.at.as_slice(),
        }
    }

    /// Returns whether the retention bound (key beyond which rows are deleted) hides all keys of a
    /// span.
    pub fn hides_all(&self, span: &Span) -> bool {
        match self.kept {
            Kept::After => span.end.as_ref().is_some_and(|end| *end <= self.at),
            Kept::Before => span.start >= self.at,
        }
    }

    /// Returns whether a retention bound (key beyond which rows are deleted) at `edge` would hide
    /// more keys than this one.
    pub fn is_lower_than(&self, edge: &Key) -> bool {
        match self.kept {
            Kept::After => self.at < *edge,
            Kept::Before => self.at > *edge,
        }
    }

    /// Returns the span of keys that the retention bound (key beyond which rows are deleted) keeps.
    pub fn kept_span(&self) -> Span {
        let (kept, _) = self.sides();
        kept
    }

    /// Returns the span of keys that the retention bound (key beyond which rows are deleted) hides.
    pub fn hidden_span(&self) -> Span {
        let (_, hidden) = self.sides();
        hidden
    }

    /// Returns the span of keys that the retention bound keeps, and the span that it hides.
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
    /// First key of the span, inclusive; empty: the span begins with the first key of the
    /// partition.
    pub start: Key,
    /// End of the span, exclusive; `None`: the span contains all keys from `start` on.
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

/// Reason why a stored range map (which bucket holds which keys) is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The range map (which bucket holds which keys) has no ranges.
    #[error("it has no key ranges")]
    Empty,
    /// No range contains the keys before this key.
    #[error("no key range has the keys before {}", hex(.0))]
    Gap(Key),
    /// Two ranges overlap, or are not in order, at this key.
    #[error("key ranges overlap, or are not in order, at {}", hex(.0))]
    Overlap(Key),
    /// The start of a range is a key that is too long. The value is its length in bytes.
    #[error("the edge of a key range has {0} bytes; a key has at most {MAX_EDGE_BYTES}")]
    LongEdge(usize),
    /// The window has more ranges than one read returns. The value is the number of ranges.
    #[error("it has {0} key ranges in one window; at most {MAX_WINDOW_PIECES} are read at once")]
    TooMany(usize),
    /// A range names a bucket whose id was never assigned.
    #[error("bucket {} does not exist yet: the next one is {}", .bucket.0, .next.0)]
    NotMade {
        /// Id of the bucket.
        bucket: Bucket,
        /// Id of the next new bucket, greater than all assigned ids.
        next: Bucket,
    },
    /// A bucket has two roles in one range.
    #[error("bucket {} occurs twice in the key range that begins at {}", .bucket.0, hex(.start))]
    Twice {
        /// Id of the bucket.
        bucket: Bucket,
        /// Start of the range with the duplicate bucket.
        start: Key,
    },
    /// Two ranges that are not adjacent will be read in one bucket (its
    /// [destination](Roles::destination)), but a range between them in another bucket.
    #[error("bucket {} is read in two places", .0.0)]
    Scattered(Bucket),
    /// The id of a bucket contradicts its role, because newer buckets have greater ids. Either a
    /// bucket that will receive writes is older than the bucket that is read, or an old bucket is
    /// newer.
    #[error("bucket {} has a wrong number for its role in the key range from {}", .bucket.0, hex(.start))]
    OutOfTurn {
        /// Id of the bucket.
        bucket: Bucket,
        /// Start of the range that names the bucket.
        start: Key,
    },
    /// A range has more buckets of one role than [`MAX_FURTHER_BUCKETS`]. The value is the start of
    /// the range.
    #[error("the key range that begins at {} has more than {MAX_FURTHER_BUCKETS} additional buckets of a \
             kind", hex(.0))]
    Crowded(Key),
    /// The stored version, or a bucket id, is out of range.
    #[error("its {what} is {value}, which no split has assigned")]
    Number {
        /// Name of the column, such as `version`.
        what: &'static str,
        /// Stored value of the column.
        value: i64,
    },
    /// The lifetime of cached range maps is too short, too long, or inconsistent. With such a
    /// value, processes would not wait long enough for the expiry of cached range maps.
    #[error(
        "cached copies of it live {life_ms} ms or up to {longest_ms} ms; at most {LONG_LIFE_MS} ms are \
         allowed"
    )]
    Life {
        /// Stored lifetime of a newly cached range map (which bucket holds which keys), in
        /// milliseconds.
        life_ms: i64,
        /// Stored longest lifetime of range maps (which bucket holds which keys) that were cached
        /// earlier, in milliseconds.
        longest_ms: i64,
    },
    /// The sampling parameters of a range are not valid.
    #[error("the key range that begins at {} has invalid sampling parameters: {unit} bytes per sample, \
             {mean} bytes per row", hex(.start))]
    Sampling {
        /// Start of the range with the invalid parameters.
        start: Key,
        /// Stored bytes per sampled row.
        unit: i64,
        /// Stored mean size of a row, in bytes.
        mean: i64,
    },
    /// The stored row and byte counts of a range are incomplete or negative. The value is the start
    /// of the range.
    #[error("the counts of the key range that begins at {} are incomplete or negative", hex(.0))]
    Figures(Key),
}

/// Returns the bytes of a key in hexadecimal, and "the beginning" for an empty key.
fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "the beginning".to_owned();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Directory {
    /// Returns the range map of a partition that has no stored range map: all keys are in bucket 0.
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

    /// Returns whether `self` has all ranges of the partition. Otherwise it is a window of the
    /// range map.
    pub fn is_whole(&self) -> bool {
        self.end.is_none() && self.pieces.first().is_some_and(|piece| piece.start.is_empty())
    }

    /// Returns all ranges in the order of their keys, each with its start and end.
    pub fn spans(&self) -> impl Iterator<Item = (Span, &Piece)> {
        (0..self.pieces.len()).map(|index| self.span_at(index))
    }

    /// Returns the ranges that have keys of `span`, each with its start and end. A binary search
    /// finds them.
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

    /// Returns the range that contains `key`; `None` if the key is outside this window of the range
    /// map.
    pub fn piece_of(&self, key: &[u8]) -> Option<&Piece> {
        if self.end.as_ref().is_some_and(|end| key >= end.as_slice()) {
            return None;
        }
        let after = self.pieces.partition_point(|piece| piece.start.as_slice() <= key);
        self.pieces.get(after.checked_sub(1)?)
    }

    /// Returns whether a split or a join of ranges is under way, and therefore has to be continued.
    pub fn is_being_cut(&self) -> bool {
        self.pieces.iter().any(|piece| !piece.roles.is_at_rest())
    }

    /// Returns whether a split or a join left old buckets, which have to be copied and deleted.
    pub fn is_to_be_cleared(&self) -> bool {
        self.pieces.iter().any(|piece| !piece.roles.old.is_empty())
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

    /// Checks that all ranges with the same destination (bucket in which they will be read after
    /// all splits) are adjacent. The buckets that are read *now* need not be adjacent: a split of
    /// several ranges may continue window by window, so a middle range may switch to its new bucket
    /// earlier or later than its neighbors.
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

    /// Returns the runs of the range map (adjacent ranges with one destination bucket), in the
    /// order of their keys.
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

    /// Returns a run (adjacent ranges with one destination bucket) that consists only of the range
    /// at `index`.
    pub(crate) fn run_at(&self, index: usize) -> Run {
        Run {
            pieces: index..index + 1,
            may_begin_before: index == 0 && !self.pieces[0].start.is_empty(),
            may_end_behind: false,
        }
    }

    /// Returns the first edge that a join left between two ranges, if its removal may be due.
    pub fn inner_edge(&self) -> Option<&Key> {
        let is_inner = |pair: &&[Piece]| {
            pair[0].roles.read == pair[1].roles.read
                && pair[0].sampling == pair[1].sampling
                && pair
                    .iter()
                    .all(|piece| piece.roles.is_at_rest() && piece.roles.old.is_empty())
        };
        self.pieces.windows(2).find(is_inner).map(|pair| &pair[1].start)
    }
}

/// Adjacent ranges that will be read in one bucket, their [destination](Roles::destination). A
/// window of the range map may show only a part of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    /// Indexes (from 0) of the ranges in `Directory::pieces`.
    pub(crate) pieces: Range<usize>,
    /// True if the run (adjacent ranges with one destination bucket) may have earlier ranges
    /// outside the window.
    pub(crate) may_begin_before: bool,
    /// True if the run (adjacent ranges with one destination bucket) may have later ranges outside
    /// the window.
    pub(crate) may_end_behind: bool,
}

impl Run {
    /// Returns whether the window shows all ranges of the run (adjacent ranges with one destination
    /// bucket).
    pub(crate) fn is_whole(&self) -> bool {
        !self.may_begin_before && !self.may_end_behind
    }
}

impl Piece {
    pub(crate) fn check(&self, next: Bucket) -> Result<(), Damage> {
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
    /// Returns the roles for a key range whose only bucket is `read`.
    pub fn of(read: Bucket) -> Self {
        Self {
            read,
            ..Self::default()
        }
    }

    /// Returns all buckets of the range except the bucket that is read.
    pub fn further(&self) -> impl Iterator<Item = Bucket> {
        [&self.writes, &self.deletes, &self.old]
            .into_iter()
            .flatten()
            .copied()
    }

    /// Returns whether no split and no join of the range is under way. The range may still have old
    /// buckets.
    pub fn is_at_rest(&self) -> bool {
        self.writes.is_empty() && self.deletes.is_empty()
    }

    /// Returns the bucket in which the range is read when all of its splits and joins are done: the
    /// newest bucket that receives writes now or later.
    pub fn destination(&self) -> Bucket {
        let newest = self.writes.last().max(self.deletes.last());
        newest.copied().unwrap_or(self.read).max(self.read)
    }

    /// Returns the bucket that will be read after all rows are copied to it: the newest bucket that
    /// receives writes; `None` if it is not newer than the bucket that is read.
    pub fn next_read(&self) -> Option<Bucket> {
        self.writes.last().copied().filter(|bucket| *bucket > self.read)
    }
}
