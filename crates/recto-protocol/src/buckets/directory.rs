//! Which buckets a partition is kept in.
//!
//! A directory is a sorted list of [pieces](Piece), which leave no key out and have none in common: each ends where the next
//! one begins. Where there is none, all is in bucket 0.

use std::collections::{BTreeMap, BTreeSet};

use crate::buckets::limits::{
    LONG_LIFE_MS, MAX_EDGE_BYTES, MAX_FURTHER_BUCKETS, MAX_WINDOW_PIECES, Protocol,
};
use crate::buckets::names::{Bucket, Key, Version};
use crate::buckets::sampling::Sampling;

/// The directory of a partition, or a window of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Directory {
    /// Of the whole directory; 0: there is none.
    pub version: Version,
    /// The number of the next bucket.
    pub next_bucket: Bucket,
    /// For how long a copy of it is gone by.
    pub life_ms: u64,
    /// For how long a copy may be gone by that somebody has, of this version or of one before.
    pub longest_ms: u64,
    /// What is not kept any more.
    pub floor: Option<Floor>,
    /// In the order of their keys; one at least.
    pub pieces: Vec<Piece>,
    /// Where the last of these pieces ends; none: it is the last one that there is.
    pub end: Option<Key>,
}

/// What lies between two edges.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Its first key, or an edge before that. The first piece's is empty.
    pub start: Key,
    /// What its buckets are for.
    pub roles: Roles,
    /// By what rows are sampled in the bucket that is read.
    pub sampling: Sampling,
    /// The same in newer buckets, of a piece that is cut.
    pub next_sampling: Option<Sampling>,
    /// What it held when it was cut off, where that is known.
    pub figures: Option<Figures>,
}

/// What buckets are for a piece. None is two of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Roles {
    /// Takes writes and deletions, and is read.
    pub read: Bucket,
    /// Take writes and deletions.
    pub writes: BTreeSet<Bucket>,
    /// Take deletions only: not yet more.
    pub deletes: BTreeSet<Bucket>,
    /// Take deletions only: not more any longer. What they still hold is to be looked at once more, and goes then.
    pub old: BTreeSet<Bucket>,
}

/// What a piece holds, as far as it is known: sums of estimates, whose errors add as variances do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Figures {
    /// How many rows.
    pub rows: u64,
    /// The variance of that; 0: it is exact.
    pub rows_variance: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// The variance of that; 0: it is exact.
    pub bytes_variance: u64,
}

/// What is not kept any more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Floor {
    /// Up to where.
    pub at: Key,
    /// On which side of that rows are kept.
    pub kept: Kept,
}

/// On which side of an edge rows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kept {
    /// From the edge on: the newest rows are the last.
    After,
    /// Before the edge: the newest rows are the first.
    Before,
}

impl Floor {
    /// Whether a key is below it.
    pub fn hides(&self, key: &[u8]) -> bool {
        match self.kept {
            Kept::After => key < self.at.as_slice(),
            Kept::Before => key >= self.at.as_slice(),
        }
    }

    /// Whether all of a span is below it.
    pub fn hides_all(&self, span: &Span) -> bool {
        match self.kept {
            Kept::After => span.end.as_ref().is_some_and(|end| *end <= self.at),
            Kept::Before => span.start >= self.at,
        }
    }

    /// Whether one at this edge would hide more.
    pub fn is_lower_than(&self, edge: &Key) -> bool {
        match self.kept {
            Kept::After => self.at < *edge,
            Kept::Before => self.at > *edge,
        }
    }

    /// Where rows are kept.
    pub fn kept_span(&self) -> Span {
        let (kept, _) = self.sides();
        kept
    }

    /// Where they are not.
    pub fn hidden_span(&self) -> Span {
        let (_, hidden) = self.sides();
        hidden
    }

    /// Where rows are kept, and where they are not.
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

/// A range of keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// The first of them, or an edge before that.
    pub start: Key,
    /// Where it ends, without that; none: at the last of all.
    pub end: Option<Key>,
}

impl Span {
    /// All keys.
    pub fn all() -> Self {
        Self::default()
    }

    /// Whether a key is one of them.
    pub fn has(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }

    /// What it has in common with another; none: nothing.
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

/// What is wrong with what was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// There are no pieces.
    #[error("it has no pieces")]
    Empty,
    /// Nothing says where keys belong.
    #[error("no piece has the keys before {}", hex(.0))]
    Gap(Key),
    /// Pieces overlap, or are not in order.
    #[error("two pieces begin at {}, or one that comes later begins before it", hex(.0))]
    Overlap(Key),
    /// An edge is longer than any key.
    #[error("the edge of a piece has {0} bytes; at most {MAX_EDGE_BYTES} are a key")]
    LongEdge(usize),
    /// There is more of it than is read at once.
    #[error("it has {0} pieces in one window; at most {MAX_WINDOW_PIECES} are read at once")]
    TooMany(usize),
    /// A bucket has a number that no cut has given.
    #[error("bucket {} is none that was made: the next one is {}", .bucket.0, .next.0)]
    NotMade {
        /// The bucket.
        bucket: Bucket,
        /// The number of the next one.
        next: Bucket,
    },
    /// A bucket is two things for one piece.
    #[error("bucket {} is named twice by the piece that begins at {}", .bucket.0, hex(.start))]
    Twice {
        /// The bucket.
        bucket: Bucket,
        /// Where the piece begins.
        start: Key,
    },
    /// A bucket is read in two places, with another between them, and stays so.
    #[error("bucket {} is read in two places", .0.0)]
    Scattered(Bucket),
    /// A bucket is about to take writes, or takes none any more, and its number says that it cannot be so.
    #[error("bucket {} cannot be what the piece that begins at {} says: numbers only rise", .bucket.0, hex(.start))]
    OutOfTurn {
        /// The bucket.
        bucket: Bucket,
        /// Where the piece begins.
        start: Key,
    },
    /// A piece has more buckets than there may be.
    #[error("the piece that begins at {} has more than {MAX_FURTHER_BUCKETS} further buckets of a kind", hex(.0))]
    Crowded(Key),
    /// A version or number is none.
    #[error("its {what} is {value}, which no cut has given")]
    Number {
        /// Which.
        what: &'static str,
        /// What it is.
        value: i64,
    },
    /// Copies would live for a time that nobody waits for.
    #[error("its copies live {life_ms} ms, and may live {longest_ms} ms: at most {LONG_LIFE_MS} ms")]
    Life {
        /// How long copies live that are taken now.
        life_ms: i64,
        /// How long others may.
        longest_ms: i64,
    },
    /// Rows cannot be sampled by what it says.
    #[error("the piece that begins at {} samples by {unit} bytes, and a mean of {mean}", hex(.start))]
    Sampling {
        /// Where the piece begins.
        start: Key,
        /// Bytes for each sample.
        unit: i64,
        /// Bytes of the mean row.
        mean: i64,
    },
    /// What a piece held is not known by such numbers.
    #[error("the figures of the piece that begins at {} are not whole, or less than nothing", hex(.0))]
    Figures(Key),
}

/// Bytes as people read them.
fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "the beginning".to_owned();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Directory {
    /// Of a partition that has none: all of it is in bucket 0.
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

    /// Whether it is all that there is, and no window.
    pub fn is_whole(&self) -> bool {
        self.end.is_none() && self.pieces.first().is_some_and(|piece| piece.start.is_empty())
    }

    /// From where to where each piece goes.
    pub fn spans(&self) -> impl Iterator<Item = (Span, &Piece)> {
        (0..self.pieces.len()).map(|index| self.span_at(index))
    }

    /// Those of them that have keys of a span: where there are many pieces, no others are looked at.
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

    /// The piece that a key belongs to; none: it is outside this window.
    pub fn piece_of(&self, key: &[u8]) -> Option<&Piece> {
        if self.end.as_ref().is_some_and(|end| key >= end.as_slice()) {
            return None;
        }
        let after = self.pieces.partition_point(|piece| piece.start.as_slice() <= key);
        self.pieces.get(after.checked_sub(1)?)
    }

    /// Whether something is under way: somebody has to go on with that, after a random pause.
    pub fn is_being_cut(&self) -> bool {
        self.pieces.iter().any(|piece| !piece.roles.is_at_rest())
    }

    /// Whether buckets were left that are to be looked at once more.
    pub fn is_to_be_cleared(&self) -> bool {
        self.pieces.iter().any(|piece| !piece.roles.old.is_empty())
    }

    /// The pieces that are not as they were, which is all that a conditional write puts beside the columns that all share.
    pub fn changed_since(&self, before: &Self) -> Vec<&Piece> {
        let before: BTreeMap<_, _> = before.pieces.iter().map(|piece| (&piece.start, piece)).collect();
        let is_new = |piece: &&Piece| before.get(&piece.start) != Some(piece);
        self.pieces.iter().filter(is_new).collect()
    }

    /// An error if that cannot be a directory, or a window of it that has the key `from`.
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

    /// An error if a bucket is read in two places for good. Pieces of one cut may be moved on by windows, so that one in the middle is read in
    /// a newer bucket already; but all of the others but one are about to be.
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
    /// Of a piece that lies in one bucket.
    pub fn of(read: Bucket) -> Self {
        Self {
            read,
            ..Self::default()
        }
    }

    /// All buckets but the one that is read.
    pub fn further(&self) -> impl Iterator<Item = Bucket> {
        [&self.writes, &self.deletes, &self.old]
            .into_iter()
            .flatten()
            .copied()
    }

    /// Whether no cut is under way.
    pub fn is_at_rest(&self) -> bool {
        self.writes.is_empty() && self.deletes.is_empty()
    }

    /// Whether another bucket is to be read soon.
    fn are_leaving(&self) -> bool {
        !self.deletes.is_empty() || self.next_read().is_some()
    }

    /// The bucket that is read next, when all is copied there: the newest of those that take writes already.
    pub fn next_read(&self) -> Option<Bucket> {
        self.writes.last().copied().filter(|bucket| *bucket > self.read)
    }
}
