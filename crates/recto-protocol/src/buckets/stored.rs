//! Stored columns of range maps (which bucket holds which keys), in the table `recto_buckets`. See
//! `docs/format.md`, "Buckets". Most columns are plain CQL. This module encodes the other columns
//! as bytes.
//!
//! A decoder accepts only the exact bytes that a writer of a known version produces, so decoding
//! and encoding returns the same bytes.

use std::collections::BTreeSet;

use crate::buckets::directory::{Damage, Directory, Figures, Floor, Kept, Piece, Roles};
use crate::buckets::limits::{LONG_LIFE_MS, MAX_FURTHER_BUCKETS, MAX_NUMBER};
use crate::buckets::names::{Bucket, Key};
use crate::buckets::sampling::Sampling;

/// Version of the format of the column `further`: buckets of a range that are not read, and the end of the
/// range. Version 1 has no end.
pub const FURTHER_FORMAT_VERSION: u8 = 2;
/// Version of the format of the column `floor`: the retention bound.
pub const FLOOR_FORMAT_VERSION: u8 = 1;

const KEPT_AFTER: u8 = 0;
const KEPT_BEFORE: u8 = 1;
/// The range is the last one of its partition.
const ENDS_NOWHERE: u8 = 0;
/// The range ends at the key that follows.
const ENDS_AT: u8 = 1;

/// Reason why a stored range map (which bucket holds which keys) cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoredError {
    /// A column has a format version that this release does not support.
    #[error("a range map of buckets has {what} of version {version}, which this release does not support")]
    UnknownVersion {
        /// Name of the column's content.
        what: &'static str,
        /// Format version that the column contains.
        version: u8,
    },
    /// A column contains bytes that no release writes.
    #[error("a range map of buckets is damaged: {what}: {reason}")]
    Bytes {
        /// Name of the column's content.
        what: &'static str,
        /// Fault of the bytes, such as missing bytes.
        reason: &'static str,
    },
    /// The decoded columns are not a valid range map (which bucket holds which keys).
    #[error("a range map of buckets is damaged: {0}")]
    Damaged(#[from] Damage),
}

impl StoredError {
    /// Returns advice for the user, in the imperative.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::UnknownVersion { .. } => "use the newer release that wrote it, or a later one",
            Self::Bytes { .. } | Self::Damaged(_) => {
                "run `recto repair`, which rebuilds the range map from its readable parts and the existing \
                 buckets: another program wrote to recto_buckets"
            }
        }
    }
}

/// Static columns of a range map (which bucket holds which keys): one value for all of its key
/// ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticColumns {
    /// `version`: version of the range map (which bucket holds which keys), which conditional
    /// writes compare.
    pub version: i64,
    /// `next_bucket`: id of the next new bucket.
    pub next_bucket: i64,
    /// `life_ms`: time for which a process may use a cached range map (which bucket holds which
    /// keys), in milliseconds.
    pub life_ms: i64,
    /// `longest_ms`: longest lifetime of any range map (which bucket holds which keys) that is
    /// still cached, in milliseconds.
    pub longest_ms: i64,
    /// `floor`: encoded retention bound (rows beyond it are deleted); null: all rows are kept.
    pub floor: Option<Vec<u8>>,
}

/// Columns of the stored row of one key range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceColumns {
    /// `start`: first key of the range, and clustering key of the row.
    pub start: Key,
    /// `bucket`: id of the bucket that is read.
    pub bucket: i64,
    /// `further`: the other buckets, and the end of the range; null: the range has no other buckets, and its
    /// end is unknown.
    pub further: Option<Vec<u8>>,
    /// `unit` and `mean`: sampling parameters of the bucket that is read, in bytes.
    pub sampling: [i64; 2],
    /// `next_unit` and `next_mean`: sampling parameters of newer buckets; null: the range is not
    /// being split.
    pub next_sampling: Option<[i64; 2]>,
    /// `rows`, `rows_variance`, `bytes`, `bytes_variance`: estimated content of the range when it
    /// was split off; null: unknown.
    pub figures: Option<[i64; 4]>,
}

/// Undecoded columns of a range map, or of a window of it, as read from the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDirectory {
    /// Static columns of the range map (which bucket holds which keys).
    pub shared: StaticColumns,
    /// Rows of the key ranges, in the order of their starts.
    pub pieces: Vec<PieceColumns>,
    /// Start of the range after `pieces`; `None`: `pieces` includes the last range.
    pub end: Option<Key>,
}

/// Returns the static columns of a range map (which bucket holds which keys).
pub fn static_columns(directory: &Directory) -> StaticColumns {
    let floor = directory.floor.as_ref().map(|floor| {
        let kept = match floor.kept {
            Kept::After => KEPT_AFTER,
            Kept::Before => KEPT_BEFORE,
        };
        [&[FLOOR_FORMAT_VERSION, kept], floor.at.as_slice()].concat()
    });
    StaticColumns {
        version: column(directory.version),
        next_bucket: column(directory.next_bucket.0),
        life_ms: column(directory.life_ms),
        longest_ms: column(directory.longest_ms),
        floor,
    }
}

/// End of a range, as its row has it. A reader compares it with the start of the next row, and so recognizes the
/// rows of ranges that a join or a retention bound removed. A node of Cassandra brings back such a row if it
/// misses the removal and is not repaired in time.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StoredEnd {
    /// The row was written before rows had ends.
    Unknown,
    /// The range ends at this key, exclusive.
    At(Key),
    /// The range is the last one of its partition.
    Nowhere,
}

impl StoredEnd {
    fn of(columns: &PieceColumns) -> Self {
        let decoded = decode_further(columns.further.as_deref());
        decoded.map_or(Self::Unknown, |(_, end)| end)
    }

    /// Returns whether the range contains a key behind its start.
    fn is_behind(&self, key: &[u8]) -> bool {
        match self {
            Self::Unknown => false,
            Self::At(end) => key < end.as_slice(),
            Self::Nowhere => true,
        }
    }
}

/// Ends of the rows of a range map, one row after the other. It recognizes rows of removed ranges.
#[derive(Debug)]
pub struct Ends(StoredEnd);

impl Default for Ends {
    fn default() -> Self {
        Self(StoredEnd::Unknown)
    }
}

impl Ends {
    /// Continues with the next row. Returns false if its range was removed: the range before it contains the
    /// start. A row with unreadable columns counts as one whose end is unknown.
    pub fn continues(&mut self, start: &[u8], columns: Option<&PieceColumns>) -> bool {
        let is_there = !self.0.is_behind(start);
        if is_there {
            self.0 = columns.map_or(StoredEnd::Unknown, StoredEnd::of);
        }
        is_there
    }
}

/// Returns the columns of the row of a range that ends at `end`; `None`: it is the last range.
pub fn piece_columns(piece: &Piece, end: Option<&Key>) -> PieceColumns {
    let figures = piece.figures.map(|figures| {
        let Figures {
            rows,
            rows_variance,
            bytes,
            bytes_variance,
        } = figures;
        [rows, rows_variance, bytes, bytes_variance].map(column)
    });
    PieceColumns {
        start: piece.start.clone(),
        bucket: column(piece.roles.read.0),
        further: Some(encode_further(&piece.roles, end)),
        sampling: sampling_columns(piece.sampling),
        next_sampling: piece.next_sampling.map(sampling_columns),
        figures,
    }
}

/// Decodes the range map of these columns, or the window of it that contains the key `from`. Leaves out the rows
/// of removed ranges.
///
/// # Errors
/// A column has an unsupported format version, or the columns are not a valid range map.
pub fn read_directory(stored: StoredDirectory, from: &[u8]) -> Result<Directory, StoredError> {
    let shared = stored.shared;
    let (life_ms, longest_ms) = (shared.life_ms, shared.longest_ms);
    if life_ms < 1 || longest_ms < life_ms || longest_ms > column(LONG_LIFE_MS) {
        return Err(Damage::Life { life_ms, longest_ms }.into());
    }
    let (pieces, end) = read_pieces(stored.pieces, stored.end)?;
    let directory = Directory {
        version: number("version", shared.version)?,
        next_bucket: Bucket(number("next bucket", shared.next_bucket)?),
        life_ms: life_ms.unsigned_abs(),
        longest_ms: longest_ms.unsigned_abs(),
        floor: shared.floor.map(decode_floor).transpose()?,
        pieces,
        end,
    };
    directory.check(from)?;
    Ok(directory)
}

/// Decodes the ranges of these rows, without those of removed ranges, and returns the end of the last one. `behind`
/// is the start of the row behind them.
fn read_pieces(
    rows: Vec<PieceColumns>,
    behind: Option<Key>,
) -> Result<(Vec<Piece>, Option<Key>), StoredError> {
    let (mut pieces, mut end) = (Vec::with_capacity(rows.len()), StoredEnd::Unknown);
    for columns in rows {
        if end.is_behind(&columns.start) {
            continue;
        }
        check_no_gap(&end, Some(&columns.start))?;
        let piece;
        (piece, end) = read_piece(columns)?;
        pieces.push(piece);
    }
    check_no_gap(&end, behind.as_ref())?;
    let end = match end {
        StoredEnd::Unknown => behind,
        StoredEnd::Nowhere => None,
        StoredEnd::At(end) => Some(end),
    };
    Ok((pieces, end))
}

/// Checks that a range begins where the range before it ends.
fn check_no_gap(end: &StoredEnd, start: Option<&Key>) -> Result<(), Damage> {
    match (end, start) {
        (StoredEnd::At(end), Some(start)) if end < start => Err(Damage::Gap(start.clone())),
        _ => Ok(()),
    }
}

/// Decodes the row of a range.
pub(crate) fn read_piece_alone(columns: PieceColumns) -> Result<Piece, StoredError> {
    Ok(read_piece(columns)?.0)
}

fn read_piece(columns: PieceColumns) -> Result<(Piece, StoredEnd), StoredError> {
    let start = columns.start;
    let sampling = read_sampling(columns.sampling, &start)?;
    let next_sampling = columns.next_sampling.map(|next| read_sampling(next, &start));
    let (mut roles, end) = decode_further(columns.further.as_deref())?;
    let bucket = u64::try_from(columns.bucket).ok();
    roles.read = Bucket(bucket.ok_or(Damage::Number {
        what: "bucket",
        value: columns.bucket,
    })?);
    let figures = match columns.figures {
        None => None,
        Some(figures) if figures.iter().any(|figure| *figure < 0) => {
            return Err(Damage::Figures(start).into());
        }
        Some(figures) => {
            let [rows, rows_variance, bytes, bytes_variance] = figures.map(i64::unsigned_abs);
            Some(Figures {
                rows,
                rows_variance,
                bytes,
                bytes_variance,
            })
        }
    };
    let piece = Piece {
        start,
        roles,
        sampling,
        next_sampling: next_sampling.transpose()?,
        figures,
    };
    Ok((piece, end))
}

fn sampling_columns(sampling: Sampling) -> [i64; 2] {
    [sampling.unit, sampling.mean].map(column)
}

fn read_sampling([unit, mean]: [i64; 2], start: &Key) -> Result<Sampling, Damage> {
    if unit < 1 || mean < 1 {
        let start = start.clone();
        return Err(Damage::Sampling { start, unit, mean });
    }
    Ok(Sampling {
        unit: unit.unsigned_abs(),
        mean: mean.unsigned_abs(),
    })
}

fn number(what: &'static str, value: i64) -> Result<u64, Damage> {
    let number = u64::try_from(value).ok().filter(|number| *number > 0);
    number.ok_or(Damage::Number { what, value })
}

/// Returns a number as a column value, at most [`MAX_NUMBER`].
fn column(number: u64) -> i64 {
    number.min(MAX_NUMBER).cast_signed()
}

fn encode_further(roles: &Roles, end: Option<&Key>) -> Vec<u8> {
    let mut bytes = vec![FURTHER_FORMAT_VERSION];
    for buckets in [&roles.writes, &roles.deletes, &roles.old] {
        bytes.push(buckets.len() as u8);
        bytes.extend(buckets.iter().flat_map(|bucket| bucket.0.to_be_bytes()));
    }
    match end {
        None => bytes.push(ENDS_NOWHERE),
        Some(end) => {
            bytes.push(ENDS_AT);
            bytes.extend(end);
        }
    }
    bytes
}

fn decode_further(bytes: Option<&[u8]>) -> Result<(Roles, StoredEnd), StoredError> {
    const WHAT: &str = "additional buckets";
    let damaged = |reason| StoredError::Bytes { what: WHAT, reason };
    let mut roles = Roles::default();
    let Some(bytes) = bytes else {
        return Ok((roles, StoredEnd::Unknown));
    };
    let (version, mut rest) = versioned(WHAT, FURTHER_FORMAT_VERSION, bytes)?;
    for buckets in [&mut roles.writes, &mut roles.deletes, &mut roles.old] {
        let (count, after) = rest.split_first().ok_or_else(|| damaged("bytes are missing"))?;
        rest = after;
        let count = usize::from(*count);
        if count > MAX_FURTHER_BUCKETS {
            return Err(damaged("there are too many"));
        }
        for _ in 0..count {
            let split = rest.split_first_chunk();
            let (bucket, after) = split.ok_or_else(|| damaged("bytes are missing"))?;
            rest = after;
            push_bucket(buckets, Bucket(u64::from_be_bytes(*bucket)))
                .ok_or_else(|| damaged("they are not in order"))?;
        }
    }
    let end = match (version, rest) {
        (1, []) if roles.is_at_rest() && roles.old.is_empty() => {
            return Err(damaged("the list is empty, but not null"));
        }
        (1, []) => StoredEnd::Unknown,
        (1, _) => return Err(damaged("bytes follow them")),
        (_, [ENDS_NOWHERE]) => StoredEnd::Nowhere,
        (_, [ENDS_AT, end @ ..]) if !end.is_empty() => StoredEnd::At(end.to_vec()),
        _ => return Err(damaged("the end of the key range is not valid")),
    };
    Ok((roles, end))
}

/// Adds a bucket id; `None` if it is not greater than the ids in `buckets`.
fn push_bucket(buckets: &mut BTreeSet<Bucket>, bucket: Bucket) -> Option<()> {
    let is_next = buckets.last().is_none_or(|last| *last < bucket);
    is_next.then(|| {
        buckets.insert(bucket);
    })
}

fn decode_floor(bytes: Vec<u8>) -> Result<Floor, StoredError> {
    const WHAT: &str = "retention bound";
    let (_, rest) = versioned(WHAT, FLOOR_FORMAT_VERSION, &bytes)?;
    let damaged = |reason| StoredError::Bytes { what: WHAT, reason };
    let (kept, at) = rest.split_first().ok_or_else(|| damaged("bytes are missing"))?;
    let kept = match *kept {
        KEPT_AFTER => Kept::After,
        KEPT_BEFORE => Kept::Before,
        _ => return Err(damaged("the direction is neither after nor before")),
    };
    Ok(Floor {
        at: at.to_vec(),
        kept,
    })
}

/// Returns the version of encoded bytes, which is at most `newest`, and the bytes after it.
fn versioned<'b>(what: &'static str, newest: u8, bytes: &'b [u8]) -> Result<(u8, &'b [u8]), StoredError> {
    match bytes.split_first() {
        Some((version, rest)) if (1..=newest).contains(version) => Ok((*version, rest)),
        Some((0, _)) | None => {
            let reason = "the version is invalid";
            Err(StoredError::Bytes { what, reason })
        }
        Some((version, _)) => {
            let version = *version;
            Err(StoredError::UnknownVersion { what, version })
        }
    }
}
