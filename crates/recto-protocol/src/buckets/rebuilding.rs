//! A directory is made anew of what can be read of one that is damaged, or that is gone, and of the buckets that there are.
//!
//! It says for each key which bucket is read, and no more: what other buckets have there is to be taken to that one, each row at its
//! own stamp. So no row is lost by whatever it says; only where it says what is so, little is to be moved.

use std::collections::{BTreeMap, BTreeSet};

use crate::buckets::directory::{Damage, Directory, Piece, Roles, Span};
use crate::buckets::limits::{MAX_EDGE_BYTES, MAX_NUMBER, MAX_WINDOW_PIECES, Protocol};
use crate::buckets::names::{Bucket, Key, Version};
use crate::buckets::sampling::Sampling;
use crate::buckets::stored::{
    PieceColumns, StaticColumns, StoredDirectory, StoredError, piece_columns, read_directory, static_columns,
};

/// Where nobody knows which number is the next one, it is so much greater than that of any bucket there is: one that is used again would
/// be deleted in, at stamps of before.
const UNKNOWN_NUMBERS: u64 = 1 << 32;

/// What can be read of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Remains {
    /// `version`.
    pub version: Option<i64>,
    /// `next_bucket`.
    pub next_bucket: Option<i64>,
    /// `life_ms`.
    pub life_ms: Option<i64>,
    /// `longest_ms`.
    pub longest_ms: Option<i64>,
    /// `floor`.
    pub floor: Option<Vec<u8>>,
    /// Its rows, in the order of their starts.
    pub pieces: Vec<PieceRemains>,
}

/// What can be read of a piece's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceRemains {
    /// Where it begins.
    pub start: Key,
    /// `bucket`.
    pub bucket: Option<i64>,
    /// All columns; none: one is missing that is always there, or is none of its type.
    pub columns: Option<PieceColumns>,
}

/// A bucket that has rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBucket {
    /// Its number.
    pub bucket: Bucket,
    /// The key of its first row.
    pub first: Key,
    /// That of its last one.
    pub last: Key,
}

impl Remains {
    /// The directory, if nothing is wrong with it.
    ///
    /// # Errors
    /// What is wrong with it, or the first such thing.
    pub fn directory(&self) -> Result<Directory, StoredError> {
        let missing = |what| StoredError::Bytes {
            what,
            reason: "it is missing, or not of its type",
        };
        let shared = StaticColumns {
            version: self.version.ok_or_else(|| missing("version"))?,
            next_bucket: self.next_bucket.ok_or_else(|| missing("next bucket"))?,
            life_ms: self.life_ms.ok_or_else(|| missing("life of copies"))?,
            longest_ms: self.longest_ms.ok_or_else(|| missing("longest life of copies"))?,
            floor: self.floor.clone(),
        };
        let pieces = self.pieces.iter().map(|piece| piece.columns.clone());
        let pieces: Option<Vec<PieceColumns>> = pieces.collect();
        let pieces = pieces.ok_or_else(|| missing("columns of a piece"))?;
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

    /// A directory that has each key in one bucket: as it was where that can be read, else by the buckets that there are. What cannot be read of
    /// pieces is as in tables that are `sampling` like this. `version`: the one it is of if nobody knows which it was of.
    ///
    /// # Errors
    /// A newer release wrote it; or nobody knows what is kept of it.
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
        for remains in self.pieces.iter().filter(|one| one.start.len() <= MAX_EDGE_BYTES) {
            pieces.push(remains.piece(&shared, sampling)?);
        }
        // What is kept must be known, pieces or none.
        let floor = read_directory(
            StoredDirectory {
                shared,
                pieces: vec![piece_columns(&at_rest(Key::new(), Bucket(0), sampling))],
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

    /// A number that is greater than all that were given.
    fn next_number(&self, pieces: &[(Piece, bool)], held: &[HeldBucket]) -> Bucket {
        let known = self.next_bucket.and_then(|next| u64::try_from(next).ok());
        let known = known.filter(|next| (1..MAX_NUMBER - UNKNOWN_NUMBERS).contains(next));
        let roles = pieces.iter().map(|(piece, _)| &piece.roles);
        let named = roles.flat_map(|roles| roles.further().chain([roles.read]));
        let greatest = named.chain(held.iter().map(|one| one.bucket)).max();
        let above = greatest.unwrap_or_default().0 + 1;
        Bucket(match known {
            // It was too low by what was made with it since.
            Some(known) => known.max(above),
            None => above + UNKNOWN_NUMBERS,
        })
    }
}

impl PieceRemains {
    /// The piece, as far as it can be read; and whether it can be read which bucket is read.
    fn piece(&self, shared: &StaticColumns, sampling: Sampling) -> Result<(Piece, bool), StoredError> {
        let alone = |columns: &PieceColumns| {
            let stored = StoredDirectory {
                shared: shared.clone(),
                pieces: vec![columns.clone()],
                end: None,
            };
            read_directory(stored, &self.start)
        };
        match self.columns.as_ref().map(alone) {
            Some(Ok(mut read)) => {
                if let Some(piece) = read.pieces.pop() {
                    return Ok((piece, true));
                }
            }
            Some(Err(error @ StoredError::UnknownVersion { .. })) => return Err(error),
            Some(Err(_)) | None => {}
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

/// Pieces by nothing but the buckets that there are: one begins where the rows of its bucket do. Numbers rise, so that of what lies within
/// the rows of a newer bucket nothing is read any more.
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
        // Those that end before this one begins have nothing more to say.
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

/// Gives each piece a bucket of its own: those of which it is not known, or whose bucket another piece has, one that there is and that
/// no piece names, the newest that has rows there; else a new one.
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
    let mut read = BTreeSet::new();
    // Those first whose buckets have rows there.
    for has_rows in [true, false] {
        let mut begin = 0;
        while begin < pieces.len() {
            let bucket = pieces[begin].0.roles.read;
            // What lies side by side in one bucket stays so.
            let beside = pieces[begin..].iter();
            let beside = beside.take_while(|(piece, is_known)| *is_known && piece.roles.read == bucket);
            let end = begin + beside.count();
            let of = Span {
                start: spans[begin].start.clone(),
                end: spans[end.max(begin + 1) - 1].end.clone(),
            };
            if end > begin && lies_in(&bucket, &of) == has_rows && !read.insert(bucket) {
                for (_, is_known) in &mut pieces[begin..end] {
                    *is_known = false;
                }
            }
            begin = end.max(begin + 1);
        }
    }
    let named = pieces.iter().filter(|(_, is_known)| *is_known);
    let further = named.flat_map(|(piece, _)| piece.roles.further());
    let mut taken: BTreeSet<Bucket> = further.chain(read).collect();
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

/// What a directory that was read says, as it would be read of what is stored.
impl From<&Directory> for Remains {
    fn from(directory: &Directory) -> Self {
        let shared = static_columns(directory);
        let piece = |piece: &Piece| {
            let columns = piece_columns(piece);
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
            pieces: directory.pieces.iter().map(piece).collect(),
        }
    }
}
