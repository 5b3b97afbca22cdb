//! Directories as they lie in their table: read whole or by windows, and changed by one conditional write on the version.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use recto_buckets::limits::MAX_WINDOW_PIECES;
use recto_buckets::stored::{piece_columns, read_directory, static_columns};
use recto_buckets::{Decision, Directory, Key, Piece, PieceColumns, StaticColumns, StoredDirectory, Version};
use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, RowRef, Slice};
use recto_store::{
    Cas, CasCondition, CasOutcome, Mutation, Operation, ReadOptions, RowAddress, WriteOptions,
};

use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::limits::MAX_TORN_READS;
use crate::place::{Deadline, PieceStore, Place};

/// Where the columns of a row of the table stand.
pub(crate) const START: usize = 2;
pub(crate) const STATICS: usize = 3;
const REGULAR: usize = 8;
/// Which static column conditional writes compare.
pub(crate) const COMPARED: u16 = 4;

/// Which window of a directory is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seek {
    /// The one that has this key.
    At(Key),
    /// The one that has the keys just before this edge; none: the last ones.
    Before(Option<Key>),
}

impl Seek {
    /// Whether this window is it.
    pub(crate) fn is_met(&self, window: &Directory) -> bool {
        match self {
            Self::At(key) => window.piece_of(key).is_some(),
            Self::Before(Some(edge)) => {
                let begins = window.pieces.first().is_some_and(|piece| piece.start < *edge);
                begins && window.end.as_ref().is_none_or(|end| edge <= end)
            }
            Self::Before(None) => window.end.is_none(),
        }
    }

    /// Behind the last edge that the window may begin at.
    fn bound(&self) -> Bound {
        let cells = |key: &Key| std::iter::once(Some(&key[..])).collect();
        match self {
            Self::At(key) => Bound::After(cells(key)),
            Self::Before(Some(edge)) => Bound::Before(cells(edge)),
            Self::Before(None) => Bound::end(),
        }
    }
}

/// What one read of the table returned.
enum Window {
    /// This.
    Read(Directory),
    /// There is no directory.
    None,
    /// It was changed meanwhile: what was read is not of one version.
    Torn,
}

impl PieceStore {
    /// Reads the directory of a partition, whole if it is small, else the window that is wanted. `is_serial`: nobody reads an
    /// older one any more than what is read.
    ///
    /// # Errors
    /// It cannot be read in time, or is damaged.
    pub(crate) async fn read_directory(
        &self,
        place: &Place,
        seek: &Seek,
        is_serial: bool,
        deadline: Deadline,
    ) -> Result<Directory> {
        self.again(deadline, |time| async move {
            let options = self.directory_options(is_serial, time);
            for _ in 0..MAX_TORN_READS {
                match self.read_window(place, None, &options).await? {
                    Window::None => {
                        return Ok(Directory::absent(place.pieced.sampling, self.protocol));
                    }
                    Window::Read(window) if seek.is_met(&window) => return Ok(window),
                    Window::Torn => continue,
                    Window::Read(_) => {}
                }
                let first = self.window_start(place, seek, &options).await?;
                if let Window::Read(window) = self.read_window(place, first, &options).await?
                    && seek.is_met(&window)
                {
                    return Ok(window);
                }
            }
            let message = "a directory of buckets changed whenever it was read";
            Err(PiecesError::new(PiecesErrorKind::Unavailable, message))
        })
        .await
    }

    /// Where a window begins that has what is wanted about in its middle.
    async fn window_start(&self, place: &Place, seek: &Seek, options: &ReadOptions) -> Result<Option<Key>> {
        let slice = Slice {
            to: seek.bound(),
            direction: ReadDirection::Backward,
            ..self.directory_slice(place, MAX_WINDOW_PIECES as u32 / 2)
        };
        let read = self.store.snapshot()?.slice(&slice, options).await?;
        let starts = read.rows.iter().filter_map(|row| Some(row.get(START)?.to_vec()));
        Ok(starts.min())
    }

    /// The pieces from one that begins at an edge, as many as a window has.
    async fn read_window(&self, place: &Place, first: Option<Key>, options: &ReadOptions) -> Result<Window> {
        let mut slice = self.directory_slice(place, MAX_WINDOW_PIECES as u32 + 1);
        if let Some(first) = &first {
            slice.from = Bound::Before(std::iter::once(Some(&first[..])).collect());
        }
        let read = self.store.snapshot()?.slice(&slice, options).await?;
        let versions: BTreeSet<_> = read
            .rows
            .iter()
            .map(|row| row.get(STATICS + usize::from(COMPARED)))
            .collect();
        if versions.len() > 1 {
            return Ok(Window::Torn);
        }
        let Some(row) = read.rows.iter().next() else {
            // Of a window that was there a moment ago.
            return Ok(if first.is_some() {
                Window::Torn
            } else {
                Window::None
            });
        };
        let shared = shared_of(row).ok_or_else(missing)?;
        let pieces: Option<Vec<_>> = read.rows.iter().map(piece_of).collect();
        let mut pieces = pieces.ok_or_else(missing)?;
        let is_more = !read.exhausted && pieces.len() > 1;
        let end = if is_more { pieces.pop() } else { None };
        let stored = StoredDirectory {
            shared,
            pieces,
            end: end.map(|piece| piece.start),
        };
        let from = first.unwrap_or_default();
        Ok(Window::Read(read_directory(stored, &from)?))
    }

    fn directory_slice(&self, place: &Place, limit: u32) -> Slice {
        Slice::from_start(&self.tables.directories, place.directory_partition(), limit)
    }

    /// Makes one directory of the other, if it is still of that version; `before` is what it was when that was read.
    ///
    /// # Errors
    /// The store does not take it: nothing was sent.
    pub(crate) async fn change_directory(
        &self,
        place: &Place,
        before: &Directory,
        put: &Directory,
        timeout: Duration,
    ) -> Result<Decision> {
        let options = WriteOptions {
            timeout,
            ..WriteOptions::default()
        };
        match self.store.cas(self.change(place, before, put), options).await {
            Ok(CasOutcome::Applied) => Ok(Decision::Applied),
            Ok(CasOutcome::NotApplied { .. }) => Ok(Decision::Refused),
            Ok(CasOutcome::Unknown(_)) => Ok(Decision::Unknown),
            Ok(CasOutcome::Refused(error)) | Err(error) => {
                let error = PiecesError::from(error);
                // What passes is looked at, and tried again by what is found then.
                if error.is_passing() {
                    return Ok(Decision::Unknown);
                }
                Err(error)
            }
        }
    }

    fn change(&self, place: &Place, before: &Directory, put: &Directory) -> Cas {
        let pieces: Vec<&Piece> = match before.version {
            // Nothing of it is stored.
            0 => put.pieces.iter().collect(),
            _ => put.changed_since(before),
        };
        let mut mutations = vec![put_shared(put)];
        mutations.extend(pieces.into_iter().map(put_piece));
        let condition = CasCondition {
            row: RowAddress::Static,
            column: COMPARED,
            expected: version_cell(before.version),
        };
        Cas {
            table: Arc::clone(&self.tables.directories),
            partition: place.directory_partition(),
            conditions: vec![condition],
            mutations,
        }
    }
}

/// As the column holds it; null: there is no directory.
fn version_cell(version: Version) -> Option<Vec<u8>> {
    (version > 0).then(|| version.to_be_bytes().to_vec())
}

fn put_shared(directory: &Directory) -> Mutation {
    let shared = static_columns(directory);
    let StaticColumns {
        version,
        next_bucket,
        life_ms,
        longest_ms,
        floor,
    } = shared;
    let [life_ms, longest_ms, next_bucket, version] =
        [life_ms, longest_ms, next_bucket, version].map(i64::to_be_bytes);
    let cells = [
        floor.as_deref(),
        Some(&life_ms[..]),
        Some(&longest_ms),
        Some(&next_bucket),
        Some(&version),
    ];
    undated(Operation::PatchStatic {
        columns: (0..cells.len() as u16).collect(),
        cells: cells.into_iter().collect(),
    })
}

fn put_piece(piece: &Piece) -> Mutation {
    let columns = piece_columns(piece);
    let number = |number: i64| Some(number.to_be_bytes().to_vec());
    let [unit, mean] = columns.sampling.map(number);
    let [next_unit, next_mean] = match columns.next_sampling {
        Some(next) => next.map(number),
        None => [None, None],
    };
    let [rows, rows_variance, bytes, bytes_variance] = match columns.figures {
        Some(figures) => figures.map(number),
        None => [None, None, None, None],
    };
    // In the order of the table's columns.
    let cells = [
        number(columns.bucket),
        bytes,
        bytes_variance,
        columns.further,
        mean,
        next_mean,
        next_unit,
        rows,
        rows_variance,
        unit,
    ];
    undated(Operation::Put {
        clustering: std::iter::once(Some(&columns.start[..])).collect(),
        cells: cells.iter().map(Option::as_deref).collect::<Cells>(),
        replace: true,
    })
}

fn undated(operation: Operation) -> Mutation {
    Mutation {
        operation,
        stamp: None,
        ttl_seconds: None,
    }
}

/// None: a cell is missing, or is not of its type.
fn shared_of(row: RowRef<'_>) -> Option<StaticColumns> {
    let number = |column: usize| Some(i64::from_be_bytes(row.get(STATICS + column)?.try_into().ok()?));
    Some(StaticColumns {
        floor: row.get(STATICS).map(<[u8]>::to_vec),
        life_ms: number(1)?,
        longest_ms: number(2)?,
        next_bucket: number(3)?,
        version: number(4)?,
    })
}

fn piece_of(row: RowRef<'_>) -> Option<PieceColumns> {
    let cell = |column: usize| row.get(REGULAR + column);
    let number = |column: usize| Some(i64::from_be_bytes(cell(column)?.try_into().ok()?));
    let all = |columns: &[usize]| -> Option<Option<Vec<i64>>> {
        if columns.iter().all(|column| cell(*column).is_none()) {
            return Some(None);
        }
        columns
            .iter()
            .map(|column| number(*column))
            .collect::<Option<Vec<_>>>()
            .map(Some)
    };
    let next_sampling = match all(&[6, 5])? {
        Some(next) => Some(next.try_into().ok()?),
        None => None,
    };
    let figures = match all(&[7, 8, 1, 2])? {
        Some(figures) => Some(figures.try_into().ok()?),
        None => None,
    };
    Some(PieceColumns {
        start: row.get(START)?.to_vec(),
        bucket: number(0)?,
        further: cell(3).map(<[u8]>::to_vec),
        sampling: [number(9)?, number(4)?],
        next_sampling,
        figures,
    })
}

fn missing() -> PiecesError {
    let message = "a directory of buckets is damaged: cells are missing";
    PiecesError::new(PiecesErrorKind::Corrupt, message).with_hint(
        "something else than Recto wrote to recto_buckets: restore this partition of it from a backup",
    )
}
