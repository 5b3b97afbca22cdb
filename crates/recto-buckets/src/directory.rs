//! Range maps (directories) in their table. A small range map is read as a whole, and a large one by
//! windows (parts). A range map is changed by a conditional write on its version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use recto_model::table::ReadDirection;
use recto_model::{Bound, Cells, RowRef, Slice};
use recto_protocol::buckets::limits::MAX_WINDOW_PIECES;
use recto_protocol::buckets::stored::{Ends, piece_columns, read_directory, static_columns};
use recto_protocol::buckets::{
    Decision, Directory, Key, Piece, PieceColumns, Span, StaticColumns, StoredDirectory, Version,
};
use recto_store::{
    Cas, CasCondition, CasOutcome, Mutation, Operation, ReadOptions, RowAddress, Snapshot, WriteOptions,
};

use crate::error::{PiecesError, PiecesErrorKind, Result};
use crate::limits::{MAX_CHECKED_STARTS, MAX_KNOWN_START_AGE, MAX_TORN_READS};
use crate::place::{Deadline, PieceStore, Place};
use crate::tables::Tables;

/// Index of the column with the start of a key range, in the table of range maps. `STATICS` and
/// `REGULAR` are the indexes of the first static column and of the first regular column.
pub(crate) const START: usize = 2;
pub(crate) const STATICS: usize = 3;
pub(crate) const REGULAR: usize = 8;
/// Index, among the static columns, of the version column, which conditional writes compare.
pub(crate) const COMPARED: u16 = 4;

/// Request for a window (part) of a range map. Large range maps are read by windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seek {
    /// The window that contains this key.
    At(Key),
    /// The window that contains the keys directly before this edge. `None`: the last window.
    Before(Option<Key>),
}

impl Seek {
    /// Returns the window (part of a range map) with the first keys of a span (range of keys) in
    /// the direction of the read.
    pub(crate) fn of_span(span: &Span, direction: ReadDirection) -> Self {
        match direction {
            ReadDirection::Forward => Self::At(span.start.clone()),
            ReadDirection::Backward => Self::Before(span.end.clone()),
        }
    }

    /// Returns whether `window` is a window (part of a range map) as this value requests it.
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

    /// Returns the bound directly after the last edge at which the window (part of a range map) may
    /// begin.
    fn bound(&self) -> Bound {
        let cells = |key: &Key| std::iter::once(Some(&key[..])).collect();
        match self {
            Self::At(key) => Bound::After(cells(key)),
            Self::Before(Some(edge)) => Bound::Before(cells(edge)),
            Self::Before(None) => Bound::end(),
        }
    }
}

/// Result of one read of the table of range maps.
pub(crate) enum Window {
    /// The range map or the window, and the number of tombstones that the read passed, if the store reports it.
    Read(Directory, u64),
    /// The partition has no range map.
    None,
    /// The range map changed during the read, so the rows that were read have different versions.
    Torn,
}

impl PieceStore {
    /// Reads the range map of a partition: as a whole if it is small, else the requested window. If `is_serial`, no
    /// later read returns an older range map than the returned one.
    ///
    /// # Errors
    /// The range map cannot be read in time, or is damaged.
    pub(crate) async fn read_directory(
        &self,
        place: &Place,
        seek: &Seek,
        is_serial: bool,
        deadline: Deadline,
    ) -> Result<Directory> {
        let read = self.read_directory_counting(place, seek, is_serial, deadline);
        Ok(read.await?.0)
    }

    /// Reads the range map as [`read_directory`](Self::read_directory) does. Also returns the
    /// number of sequential requests.
    ///
    /// # Errors
    /// The range map cannot be read in time, or is damaged.
    pub(crate) async fn read_directory_counting(
        &self,
        place: &Place,
        seek: &Seek,
        is_serial: bool,
        deadline: Deadline,
    ) -> Result<(Directory, u32)> {
        match &place.pieced.times {
            Some(times) => self.read_registry(place, times, seek, deadline).await,
            None => self.read_stored(place, seek, is_serial, deadline).await,
        }
    }

    /// Reads the range map as [`read_directory_counting`](Self::read_directory_counting) does, but always from the
    /// table of range maps.
    ///
    /// # Errors
    /// The range map cannot be read in time, or is damaged.
    pub(crate) async fn read_stored(
        &self,
        place: &Place,
        seek: &Seek,
        is_serial: bool,
        deadline: Deadline,
    ) -> Result<(Directory, u32)> {
        self.again(deadline, |time| async move {
            let options = self.directory_options(is_serial, time);
            let mut requests = 0;
            for attempt in 0..MAX_TORN_READS {
                if let Some(first) = self.known_start(place, seek) {
                    requests += 1;
                    if let Window::Read(window, _) = self.window(place, Some(first), &options).await?
                        && seek.is_met(&window)
                    {
                        return Ok((window, requests));
                    }
                }
                requests += 1;
                match self.window(place, None, &options).await? {
                    Window::None => {
                        let absent = Directory::absent(place.pieced.sampling, self.protocol);
                        return Ok((absent, requests));
                    }
                    Window::Read(window, _) if seek.is_met(&window) => return Ok((window, requests)),
                    Window::Torn => continue,
                    Window::Read(..) => {}
                }
                requests += 2;
                if let Some((window, _)) = self.sought_window(place, seek, attempt, &options).await? {
                    return Ok((window, requests));
                }
            }
            Err(changed_during_reads())
        })
        .await
    }

    /// Reads the range map serially, or the window of it that has a key approximately in its middle. Also returns
    /// the number of tombstones that the read passed, if the store reports it.
    ///
    /// # Errors
    /// The range map cannot be read in time, or is damaged.
    pub(crate) async fn read_around(
        &self,
        place: &Place,
        key: &Key,
        deadline: Deadline,
    ) -> Result<(Directory, u64)> {
        let seek = &Seek::At(key.clone());
        self.again(deadline, |time| async move {
            let options = self.directory_options(true, time);
            for attempt in 0..MAX_TORN_READS {
                match self.window(place, None, &options).await? {
                    Window::None => return Ok((Directory::absent(place.pieced.sampling, self.protocol), 0)),
                    Window::Read(whole, tombstones) if whole.is_whole() => return Ok((whole, tombstones)),
                    Window::Torn => continue,
                    Window::Read(..) => {}
                }
                if let Some(read) = self.sought_window(place, seek, attempt, &options).await? {
                    return Ok(read);
                }
            }
            Err(changed_during_reads())
        })
        .await
    }

    /// Searches the start of the requested window and reads the window. Also returns the number of tombstones that the
    /// read passed. Returns `None` if the range map changed meanwhile, or if the window does not reach the keys: it may
    /// have many returned rows. Each second attempt therefore begins nearer to the keys.
    async fn sought_window(
        &self,
        place: &Place,
        seek: &Seek,
        attempt: u32,
        options: &ReadOptions,
    ) -> Result<Option<(Directory, u64)>> {
        let snapshot = self.store.snapshot()?;
        let position = (seek, attempt % 2 == 1);
        let first = self
            .tables
            .window_start(&*snapshot, place, position, options)
            .await?;
        Ok(match self.window(place, first, options).await? {
            Window::Read(window, tombstones) if seek.is_met(&window) => Some((window, tombstones)),
            _ => None,
        })
    }

    /// Returns the start of the last known window that matches `seek`, unless it is the first window or too old.
    fn known_start(&self, place: &Place, seek: &Seek) -> Option<Key> {
        let last = self.copies.last(&place.id, seek)?;
        let age_nanos = self
            .environment
            .monotonic_nanos()
            .saturating_sub(last.heard_nanos);
        if Duration::from_nanos(age_nanos) > MAX_KNOWN_START_AGE {
            return None;
        }
        let first = last.directory().pieces.first()?;
        (!first.start.is_empty()).then(|| first.start.clone())
    }

    async fn window(&self, place: &Place, first: Option<Key>, options: &ReadOptions) -> Result<Window> {
        self.counters.read_directory();
        let snapshot = self.store.snapshot()?;
        self.tables.read_window(&*snapshot, place, first, options).await
    }

    /// Replaces the range map `before` by `put`, if the stored version is still that of `before`. Removes
    /// the key ranges that begin at the edges `gone`.
    ///
    /// # Errors
    /// The store rejects the write. Then it has done nothing.
    pub(crate) async fn change_directory(
        &self,
        place: &Place,
        before: &Directory,
        (put, gone): (&Directory, &[Key]),
        timeout: Duration,
    ) -> Result<Decision> {
        self.decided(self.tables.change(place, before, put, gone), timeout)
            .await
    }

    /// Sends one conditional write of a range map. Returns whether the store applied or rejected
    /// the write, or the outcome is unknown.
    ///
    /// # Errors
    /// The store rejects the write. Then it has done nothing.
    pub(crate) async fn decided(&self, cas: Cas, timeout: Duration) -> Result<Decision> {
        let options = WriteOptions {
            timeout,
            ..WriteOptions::default()
        };
        match self.store.cas(cas, options).await {
            Ok(CasOutcome::Applied) => Ok(Decision::Applied),
            Ok(CasOutcome::NotApplied { .. }) => Ok(Decision::Refused),
            Ok(CasOutcome::Unknown(_)) => Ok(Decision::Unknown),
            Ok(CasOutcome::Refused(error)) | Err(error) => {
                let error = PiecesError::from(error);
                // Report no error after a transient failure: the caller reads the range map again, and the
                // map shows whether the write was applied.
                if error.is_passing() {
                    return Ok(Decision::Unknown);
                }
                Err(error)
            }
        }
    }
}

impl Tables {
    /// Returns the start of a window that has the requested keys approximately in its middle, or, if `is_near`, at its
    /// beginning. Reads up to [`MAX_CHECKED_STARTS`] rows before the keys, so that the window does not begin with a
    /// removed key range that a node returned.
    async fn window_start(
        &self,
        snapshot: &dyn Snapshot,
        place: &Place,
        (seek, is_near): (&Seek, bool),
        options: &ReadOptions,
    ) -> Result<Option<Key>> {
        let slice = Slice {
            to: seek.bound(),
            direction: ReadDirection::Backward,
            ..self.directory_slice(place, MAX_CHECKED_STARTS)
        };
        let read = snapshot.slice(&slice, options).await?;
        let rows: Vec<RowRef<'_>> = read.rows.iter().collect();
        let mut ends = Ends::default();
        let starts = rows.into_iter().rev().filter_map(|row| {
            let start = row.get(START)?;
            let is_there = ends.continues(start, piece_of(row).as_ref());
            is_there.then(|| start.to_vec())
        });
        let mut starts: Vec<Key> = starts.collect();
        let before = if is_near { 1 } else { MAX_WINDOW_PIECES / 2 };
        starts.drain(..starts.len().saturating_sub(before));
        Ok(starts.into_iter().next())
    }

    /// Reads the window (part of a range map) whose first key range begins at `first`.
    pub(crate) async fn read_window(
        &self,
        snapshot: &dyn Snapshot,
        place: &Place,
        first: Option<Key>,
        options: &ReadOptions,
    ) -> Result<Window> {
        self.read_pieces(snapshot, place, first, MAX_WINDOW_PIECES, options)
            .await
    }

    /// Reads at most `most` key ranges. The first one begins at `first`.
    pub(crate) async fn read_pieces(
        &self,
        snapshot: &dyn Snapshot,
        place: &Place,
        first: Option<Key>,
        most: usize,
        options: &ReadOptions,
    ) -> Result<Window> {
        let mut slice = self.directory_slice(place, most as u32 + 1);
        if let Some(first) = &first {
            slice.from = Bound::Before(std::iter::once(Some(&first[..])).collect());
        }
        let read = match snapshot.slice_now(&slice, options) {
            Some(read) => read?,
            None => snapshot.slice(&slice, options).await?,
        };
        let versions: BTreeSet<_> = read
            .rows
            .iter()
            .map(|row| row.get(STATICS + usize::from(COMPARED)))
            .collect();
        if versions.len() > 1 {
            return Ok(Window::Torn);
        }
        let Some(row) = read.rows.iter().next() else {
            // If `first` is given, the window existed a moment ago, so another process changed the
            // range map during the read.
            return Ok(if first.is_some() {
                Window::Torn
            } else {
                Window::None
            });
        };
        if first
            .as_deref()
            .is_some_and(|first| row.get(START) != Some(first))
        {
            return Ok(Window::Torn);
        }
        let missing = || missing().of_partition(place);
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
        let directory = read_directory(stored, &from).map_err(PiecesError::from);
        let directory = directory.map_err(|error| error.of_partition(place))?;
        Ok(Window::Read(directory, read.tombstones))
    }

    fn directory_slice(&self, place: &Place, limit: u32) -> Slice {
        Slice::from_start(&self.directories, place.directory_partition(), limit)
    }

    /// Returns the conditional write that turns `before` into `put` and removes the key ranges that
    /// begin at `gone`. Both range maps are whole, or the same window (part).
    fn change(&self, place: &Place, before: &Directory, put: &Directory, gone: &[Key]) -> Cas {
        // A range map of version 0 is not stored, so none of its key ranges exist.
        let stored = before.spans().filter(|_| before.version > 0);
        let mut stored: BTreeMap<&Key, _> = stored
            .map(|(span, piece)| (&piece.start, piece_cells(piece, span.end.as_ref())))
            .collect();
        let mut mutations = vec![put_shared(put, Some(before))];
        for (span, piece) in put.spans() {
            let (cells, stored) = (piece_cells(piece, span.end.as_ref()), stored.remove(&piece.start));
            if stored.as_ref() != Some(&cells) {
                mutations.push(put_piece(&piece.start, cells, stored));
            }
        }
        mutations.extend(gone.iter().map(remove_piece));
        self.only_if(place, before.version, mutations)
    }

    /// Returns a write of `mutations` on the condition that the range map has the version `expected`. Version 0 means
    /// that there is no range map.
    pub(crate) fn only_if(&self, place: &Place, expected: Version, mutations: Vec<Mutation>) -> Cas {
        let condition = CasCondition {
            row: RowAddress::Static,
            column: COMPARED,
            expected: version_cell(expected),
        };
        Cas {
            table: Arc::clone(&self.directories),
            partition: place.directory_partition(),
            conditions: vec![condition],
            mutations,
        }
    }
}

/// Returns the cell that stores a version of a range map. Null means that there is no range map.
fn version_cell(version: Version) -> Option<Vec<u8>> {
    (version > 0).then(|| version.to_be_bytes().to_vec())
}

fn put_shared(directory: &Directory, before: Option<&Directory>) -> Mutation {
    let cells = shared_cells(directory);
    let before = before.filter(|before| before.version > 0).map(shared_cells);
    let (columns, cells) = changed(cells, before);
    undated(Operation::PatchStatic { columns, cells })
}

/// Returns the cells that all key ranges of a range map share, in the order of the table's static columns.
pub(crate) fn shared_cells(directory: &Directory) -> [Option<Vec<u8>>; 5] {
    let shared = static_columns(directory);
    let StaticColumns {
        version,
        next_bucket,
        life_ms,
        longest_ms,
        floor,
    } = shared;
    let [life_ms, longest_ms, next_bucket, version] =
        [life_ms, longest_ms, next_bucket, version].map(|number| Some(number.to_be_bytes().to_vec()));
    [floor, life_ms, longest_ms, next_bucket, version]
}

/// Returns the columns whose cells differ from `before`. Writing only changed cells avoids nulls:
/// each null is a tombstone, and a read of the range map reads all tombstones.
fn changed<const N: usize>(
    cells: [Option<Vec<u8>>; N],
    before: Option<[Option<Vec<u8>>; N]>,
) -> (Vec<u16>, Cells) {
    let before = before.unwrap_or([const { None }; N]);
    let changed = (0..)
        .zip(cells.iter().zip(&before))
        .filter(|(_, (cell, before))| cell != before);
    let changed: Vec<(u16, _)> = changed.map(|(column, (cell, _))| (column, cell)).collect();
    let columns = changed.iter().map(|(column, _)| *column).collect();
    (columns, changed.iter().map(|(_, cell)| cell.as_deref()).collect())
}

/// Cells of a key range in the order of the regular columns of the table of range maps.
pub(crate) type PieceCells = [Option<Vec<u8>>; 10];

/// Returns the write that stores a key range: the cells that differ from its former cells `before`.
fn put_piece(start: &Key, cells: PieceCells, before: Option<PieceCells>) -> Mutation {
    let (columns, cells) = changed(cells, before);
    undated(Operation::Patch {
        clustering: std::iter::once(Some(&start[..])).collect(),
        columns,
        cells,
    })
}

/// Returns the cells of a key range that ends at `end`; `None`: it is the last key range.
pub(crate) fn piece_cells(piece: &Piece, end: Option<&Key>) -> PieceCells {
    let columns = piece_columns(piece, end);
    let number = |number: i64| Some(number.to_be_bytes().to_vec());
    let [unit, mean] = columns.sampling.map(number);
    let [next_unit, next_mean] = match columns.next_sampling {
        Some(next) => next.map(number),
        None => [None, None],
    };
    let [rows, rows_variance, bytes, bytes_variance] = match columns.figures {
        Some(figures) => figures.map(number),
        None => [const { None }; 4],
    };
    [
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
    ]
}

fn changed_during_reads() -> PiecesError {
    let message = "a range map of buckets changed during each read";
    PiecesError::new(PiecesErrorKind::Unavailable, message)
}

pub(crate) fn remove_piece(start: &Key) -> Mutation {
    undated(Operation::DeleteRow {
        clustering: std::iter::once(Some(&start[..])).collect(),
    })
}

pub(crate) fn undated(operation: Operation) -> Mutation {
    Mutation {
        operation,
        stamp: None,
        ttl_seconds: None,
    }
}

/// Returns the cells that all key ranges share, from a row of the table of range maps. Returns `None` if a
/// cell is missing or does not have its type.
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

pub(crate) fn piece_of(row: RowRef<'_>) -> Option<PieceColumns> {
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

pub(crate) fn missing() -> PiecesError {
    let message = "a range map of buckets is damaged: cells are missing";
    PiecesError::new(PiecesErrorKind::Corrupt, message).with_hint(
        "run `recto repair`, which rebuilds the range map from its readable parts and the existing buckets: \
         another program wrote to recto_buckets",
    )
}
