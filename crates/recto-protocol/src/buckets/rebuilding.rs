//! Reconstruction of a damaged or lost range map (which bucket holds which keys), from its readable
//! parts and from the existing buckets.
//!
//! The new range map names for each key only the bucket that is read. A repair then moves rows of
//! the key from other buckets to that bucket, with their own timestamps. So no row is lost even if
//! the new range map is wrong. A better range map only leaves fewer rows to move.

use std::collections::{BTreeMap, BTreeSet};

use crate::buckets::directory::{Damage, Directory, Piece, Roles, Span};
use crate::buckets::limits::{MAX_EDGE_BYTES, MAX_NUMBER, MAX_WINDOW_PIECES, Protocol};
use crate::buckets::names::{Bucket, Key, Version};
use crate::buckets::sampling::Sampling;
use crate::buckets::stored::{
    Ends, PieceColumns, StaticColumns, StoredDirectory, StoredError, piece_columns, read_directory,
    read_piece_alone, static_columns,
};

/// Gap between the greatest id of an existing bucket and the next assigned id, if the stored next
/// id is lost. The gap prevents a second use of the id of a deleted bucket. Old tombstones of the
/// deleted bucket could otherwise delete rows of the new bucket.
const UNKNOWN_NUMBERS: u64 = 1 << 32;

/// Readable columns of a damaged range map; `None`: the column is missing or has a wrong type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remains {
    /// Column `version`: version of the range map (which bucket holds which keys), which
    /// conditional writes compare.
    pub version: Option<i64>,
    /// Column `next_bucket`: id of the next new bucket.
    pub next_bucket: Option<i64>,
    /// Column `life_ms`: time for which a process may use a cached range map (which bucket holds
    /// which keys), in milliseconds.
    pub life_ms: Option<i64>,
    /// Column `longest_ms`: longest lifetime of any range map (which bucket holds which keys) that
    /// is still cached, in milliseconds.
    pub longest_ms: Option<i64>,
    /// Column `floor`: encoded retention bound (rows beyond it are deleted).
    pub floor: Option<Vec<u8>>,
    /// Key ranges, in the order of their starts.
    pub pieces: Vec<PieceRemains>,
}

/// Readable columns of one key range in a damaged range map (which bucket holds which keys).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceRemains {
    /// Start of the range.
    pub start: Key,
    /// Column `bucket`: id of the bucket that is read.
    pub bucket: Option<i64>,
    /// All columns of the range; `None`: a required column is missing, or has a wrong type.
    pub columns: Option<PieceColumns>,
}

/// Bucket that exists in the store and has rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBucket {
    /// Id of the bucket.
    pub bucket: Bucket,
    /// Key of the first row in the bucket.
    pub first: Key,
    /// Key of the last row in the bucket.
    pub last: Key,
}

impl Remains {
    /// Decodes the range map, if it is not damaged.
    ///
    /// # Errors
    /// The range map is damaged. The error gives the first reason.
    pub fn directory(&self) -> Result<Directory, StoredError> {
        let missing = |what| StoredError::Bytes {
            what,
            reason: "missing, or of a wrong type",
        };
        let shared = StaticColumns {
            version: self.version.ok_or_else(|| missing("version"))?,
            next_bucket: self.next_bucket.ok_or_else(|| missing("next bucket"))?,
            life_ms: self.life_ms.ok_or_else(|| missing("lifetime of cached copies"))?,
            longest_ms: self
                .longest_ms
                .ok_or_else(|| missing("longest lifetime of cached copies"))?,
            floor: self.floor.clone(),
        };
        let pieces = self.live_pieces().map(|piece| piece.columns.clone());
        let pieces: Option<Vec<PieceColumns>> = pieces.collect();
        let pieces = pieces.ok_or_else(|| missing("columns of a key range"))?;
        let mut whole: Option<Directory> = None;
        let ends = pieces.chunks(MAX_WINDOW_PIECES).skip(1);
        let ends = ends.map(|next| Some(next[0].start.clone())).chain([None]);
        let windows = pieces.chunks(MAX_WINDOW_PIECES).zip(ends);
        for (window, end) in windows {
            let from = whole.as_ref().map_or(Key::new(), |_| window[0].start.clone());
            let stored = StoredDirectory {
                shared: shared.clone(),
                pieces: window.to_vec(),
                end,
            };
            let window = read_directory(stored, &from)?;
            match &mut whole {
                None => whole = Some(window),
                Some(whole) => {
                    whole.pieces.extend(window.pieces);
                    whole.end = window.end;
                }
            }
        }
        let whole = whole.ok_or(Damage::Empty)?;
        whole.check_places()?;
        Ok(whole)
    }

    /// Builds a range map that assigns each key to one bucket. A range keeps its bucket if the
    /// bucket is readable. Otherwise the existing buckets `held` determine the bucket. Ranges whose
    /// sampling parameters are unreadable get `sampling`. `version` is used if the stored version
    /// is unreadable.
    ///
    /// # Errors
    /// A newer release wrote the range map, or its retention bound is not readable.
    pub fn rebuilt(
        &self,
        held: &[HeldBucket],
        sampling: Sampling,
        version: Version,
        protocol: Protocol,
    ) -> Result<Directory, StoredError> {
        let shared = StaticColumns {
            version: 1,
            next_bucket: i64::MAX,
            life_ms: 1,
            longest_ms: 1,
            floor: self.floor.clone(),
        };
        let mut pieces = Vec::new();
        for remains in self.live_pieces().filter(|one| one.start.len() <= MAX_EDGE_BYTES) {
            pieces.push(remains.piece(sampling)?);
        }
        // Decode the retention bound separately, so that a damaged bound is an error even if the
        // range map has no ranges.
        let floor = read_directory(
            StoredDirectory {
                shared,
                pieces: vec![piece_columns(&at_rest(Key::new(), Bucket(0), sampling), None)],
                end: None,
            },
            &[],
        )?
        .floor;
        if self.pieces.is_empty() {
            pieces = painted(held, sampling);
        } else if pieces.first().is_none_or(|(piece, _)| !piece.start.is_empty()) {
            pieces.insert(0, (at_rest(Key::new(), Bucket(0), sampling), false));
        }
        let mut next = self.next_number(&pieces, held);
        let pieces = settled(pieces, held, &mut next);
        let known = self.version.and_then(|version| u64::try_from(version).ok());
        Ok(Directory {
            version: known
                .filter(|known| *known > 0)
                .map_or(version, |known| known + 1),
            next_bucket: next,
            life_ms: protocol.short_life_ms,
            longest_ms: protocol.long_life_ms,
            floor,
            pieces,
            end: None,
        })
    }

    /// Returns each row, and whether its range was not removed.
    fn checked_pieces(&self) -> impl Iterator<Item = (&PieceRemains, bool)> {
        let mut ends = Ends::default();
        self.pieces
            .iter()
            .map(move |piece| (piece, ends.continues(&piece.start, piece.columns.as_ref())))
    }

    /// Returns the rows of ranges that were not removed.
    fn live_pieces(&self) -> impl Iterator<Item = &PieceRemains> {
        self.checked_pieces()
            .filter_map(|(piece, is_live)| is_live.then_some(piece))
    }

    /// Returns the starts of the removed ranges whose rows are there again: a node of Cassandra missed the removal,
    /// and was not repaired in time.
    pub fn returned(&self) -> Vec<Key> {
        let removed = self.checked_pieces().filter(|(_, is_live)| !is_live);
        removed.map(|(piece, _)| piece.start.clone()).collect()
    }

    /// Returns a number for the next new bucket that is greater than all numbers that were assigned.
    fn next_number(&self, pieces: &[(Piece, bool)], held: &[HeldBucket]) -> Bucket {
        let known = self.next_bucket.and_then(|next| u64::try_from(next).ok());
        let known = known.filter(|next| (1..MAX_NUMBER - UNKNOWN_NUMBERS).contains(next));
        let roles = pieces.iter().map(|(piece, _)| &piece.roles);
        let named = roles.flat_map(|roles| roles.further().chain([roles.read]));
        let greatest = named.chain(held.iter().map(|one| one.bucket)).max();
        let above = greatest.unwrap_or_default().0 + 1;
        Bucket(match known {
            // Existing buckets may have the stored next id or a greater one, so return an id above
            // all known ids.
            Some(known) => known.max(above),
            None => above + UNKNOWN_NUMBERS,
        })
    }
}

impl PieceRemains {
    /// Returns the readable part of the range, and whether the bucket that is read is known.
    fn piece(&self, sampling: Sampling) -> Result<(Piece, bool), StoredError> {
        match self.columns.clone().map(read_piece_alone) {
            Some(Ok(piece)) if piece.check(Bucket(MAX_NUMBER)).is_ok() => return Ok((piece, true)),
            Some(Err(error @ StoredError::UnknownVersion { .. })) => return Err(error),
            _ => {}
        }
        let bucket = self.bucket.and_then(|bucket| u64::try_from(bucket).ok());
        let piece = at_rest(self.start.clone(), Bucket(bucket.unwrap_or_default()), sampling);
        Ok((piece, bucket.is_some()))
    }
}

fn at_rest(start: Key, bucket: Bucket, sampling: Sampling) -> Piece {
    Piece {
        start,
        roles: Roles::of(bucket),
        sampling,
        next_sampling: None,
        figures: None,
    }
}

/// Derives ranges from the existing buckets alone. A range begins at the first row of its bucket.
/// If the rows of a bucket lie within those of a newer bucket (greater id), the older bucket is
/// ignored, because it was read before the newer one.
fn painted(held: &[HeldBucket], sampling: Sampling) -> Vec<(Piece, bool)> {
    let mut sorted: Vec<&HeldBucket> = held.iter().collect();
    sorted.sort_by(|one, other| (&one.first, other.bucket).cmp(&(&other.first, one.bucket)));
    let mut pieces: Vec<(Piece, bool)> = Vec::new();
    let mut newer: Vec<&HeldBucket> = Vec::new();
    for one in sorted {
        let is_within = |other: &&HeldBucket| other.bucket > one.bucket && other.last >= one.last;
        let is_begun = pieces.last().is_some_and(|(piece, _)| piece.start == one.first);
        if is_begun || newer.iter().any(is_within) || one.first.len() > MAX_EDGE_BYTES {
            continue;
        }
        // Buckets are sorted by their first rows, so a bucket that ends before `one` begins
        // contains neither `one` nor a later bucket.
        newer.retain(|other| other.last >= one.first);
        newer.push(one);
        let start = if pieces.is_empty() {
            Key::new()
        } else {
            one.first.clone()
        };
        pieces.push((at_rest(start, one.bucket, sampling), true));
    }
    if pieces.is_empty() {
        pieces.push((at_rest(Key::new(), Bucket(0), sampling), true));
    }
    pieces
}

/// Assigns each range its own bucket, by these rules:
///
/// - A range keeps its bucket if the bucket is known and no other range keeps it.
/// - Another range gets the newest existing bucket that has rows in the range and that no range
///   names.
/// - If no such bucket exists, the range gets a new bucket, with the id `next`.
fn settled(mut pieces: Vec<(Piece, bool)>, held: &[HeldBucket], next: &mut Bucket) -> Vec<Piece> {
    let spans: Vec<Span> = (0..pieces.len())
        .map(|index| Span {
            start: pieces[index].0.start.clone(),
            end: pieces.get(index + 1).map(|(piece, _)| piece.start.clone()),
        })
        .collect();
    let held: BTreeMap<Bucket, &HeldBucket> = held.iter().map(|one| (one.bucket, one)).collect();
    let lies_in = |bucket: &Bucket, span: &Span| {
        let one = held.get(bucket);
        one.is_some_and(|one| one.last >= span.start && span.end.as_ref().is_none_or(|end| one.first < *end))
    };
    let mut destinations = BTreeSet::new();
    // If several groups of ranges have the same destination bucket, only the first group keeps it.
    // So first visit the groups whose buckets have rows in the group.
    for has_rows in [true, false] {
        let mut begin = 0;
        while begin < pieces.len() {
            let bucket = pieces[begin].0.roles.destination();
            // Treat adjacent ranges with one destination bucket as one range: they keep or lose
            // their buckets together.
            let beside = pieces[begin..].iter();
            let beside =
                beside.take_while(|(piece, is_known)| *is_known && piece.roles.destination() == bucket);
            let end = begin + beside.count();
            let of = Span {
                start: spans[begin].start.clone(),
                end: spans[end.max(begin + 1) - 1].end.clone(),
            };
            let mut named = pieces[begin..end].iter().map(|(piece, _)| piece.roles.read);
            let are_there = lies_in(&bucket, &of) || named.any(|read| lies_in(&read, &of));
            if end > begin && are_there == has_rows && !destinations.insert(bucket) {
                for (_, is_known) in &mut pieces[begin..end] {
                    *is_known = false;
                }
            }
            begin = end.max(begin + 1);
        }
    }
    let named = pieces.iter().filter(|(_, is_known)| *is_known);
    let named = named.flat_map(|(piece, _)| piece.roles.further().chain([piece.roles.read]));
    let mut taken: BTreeSet<Bucket> = named.chain(destinations).collect();
    for ((piece, is_known), span) in pieces.iter_mut().zip(&spans) {
        if *is_known {
            continue;
        }
        let free = held
            .keys()
            .rev()
            .find(|bucket| !taken.contains(bucket) && lies_in(bucket, span));
        let bucket = free.copied().unwrap_or_else(|| {
            let made = *next;
            next.0 += 1;
            made
        });
        taken.insert(bucket);
        *piece = at_rest(piece.start.clone(), bucket, piece.sampling);
    }
    pieces.into_iter().map(|(piece, _)| piece).collect()
}

/// Converts an undamaged range map (which bucket holds which keys): all columns are readable.
impl From<&Directory> for Remains {
    fn from(directory: &Directory) -> Self {
        let shared = static_columns(directory);
        let piece = |(span, piece): (Span, &Piece)| {
            let columns = piece_columns(piece, span.end.as_ref());
            PieceRemains {
                start: columns.start.clone(),
                bucket: Some(columns.bucket),
                columns: Some(columns),
            }
        };
        Self {
            version: Some(shared.version),
            next_bucket: Some(shared.next_bucket),
            life_ms: Some(shared.life_ms),
            longest_ms: Some(shared.longest_ms),
            floor: shared.floor,
            pieces: directory.spans().map(piece).collect(),
        }
    }
}
