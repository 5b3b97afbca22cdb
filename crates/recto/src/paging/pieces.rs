//! The stage between plan and slices: a partition as queries name it becomes the partitions that its rows lie in.
//!
//! A plan's source is a piece of one logical partition. Where that is a partition of the table it is read as it
//! is. Where it is kept in several, which [`Pieces`] knows when the page is read, they are read one after the
//! other in the direction of travel, and none is looked for before the ones before it are read to their end.
//! Whoever reads a [`Rest`] sees one sequence of rows.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use recto_model::{Bound, RowRef, RowSet, Slice, Type};
use recto_plan::plan::{Piece, beyond_piece, beyond_row};
use recto_plan::segments::Segment;
use recto_store::{ReadOptions, RowsRead, Snapshot, StoreError, StoreErrorKind};

use super::budget::Meter;
use super::reader::Reader;
use crate::error::{Error, ErrorKind, Result};

/// Tells which pieces partitions are kept in, where arrangements have hidden partition columns.
#[async_trait]
pub trait Pieces: Debug + Send + Sync {
    /// The pieces in which `slice` is to be read, in the direction it is read in: the one that it begins in, and of
    /// those behind it as many as are at hand. For the others it is asked again, with what is left of the slice.
    async fn find(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        slice: &Slice,
        options: &ReadOptions,
    ) -> Result<Found, StoreError>;
}

/// What [`Pieces::find`] found.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The pieces: at least one.
    pub pieces: Vec<Piece>,
    /// Sequential round trips it took; 0 on the embedded store.
    pub round_trips: u32,
    /// Requests sent; 0 on the embedded store.
    pub statements: u32,
}

/// Every partition is one piece: that of number 0, as all are before they are first split.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Undivided;

#[async_trait]
impl Pieces for Undivided {
    async fn find(
        &self,
        _snapshot: &Arc<dyn Snapshot>,
        slice: &Slice,
        _options: &ReadOptions,
    ) -> Result<Found, StoreError> {
        let hidden = &slice.table.partition()[slice.partition.len()..];
        debug_assert!(hidden.iter().all(|column| column.ty == Type::BigInt));
        let number = 0_i64.to_be_bytes();
        let whole = Piece {
            hidden: hidden.iter().map(|_| Some(number.as_slice())).collect(),
            rows: Segment {
                from: Bound::start(),
                to: Bound::end(),
            },
        };
        Ok(Found {
            pieces: vec![whole],
            ..Found::default()
        })
    }
}

/// What is still to be read of a logical source, in the direction of travel.
pub(super) struct Rest {
    /// What no read has passed, in the logical partition; none if nothing is left.
    slice: Option<Slice>,
    /// Where the partition is kept in pieces: those found and not yet read to their end.
    pieces: VecDeque<Piece>,
    in_pieces: bool,
    /// Whether it is known that the next read waits.
    waits: bool,
}

impl Rest {
    pub(super) fn new(slice: Slice, in_pieces: bool) -> Self {
        Self {
            slice: Some(slice),
            pieces: VecDeque::new(),
            in_pieces,
            waits: false,
        }
    }

    /// What [`next`](Self::next) would read, as many rows as the slice says, if that can be had at once without
    /// waiting.
    pub(super) fn next_now(
        &mut self,
        reader: &Reader<'_>,
        options: &ReadOptions,
    ) -> Option<Result<RowsRead>> {
        let slice = self.slice.as_ref().filter(|_| !self.in_pieces)?;
        let read = reader.snapshot.slice_now(slice, options);
        self.waits = read.is_none();
        Some(read?.map_err(Into::into))
    }

    /// At most `limit` rows more, of at most about `max_bytes`; `None` if the time is over. There may be none with
    /// more to come: only `exhausted` says that nothing is left.
    pub(super) async fn next(
        &mut self,
        reader: &Reader<'_>,
        limit: u32,
        max_bytes: u64,
        meter: &Meter,
    ) -> Result<Option<RowsRead>> {
        let Some(slice) = &mut self.slice else {
            return Ok(Some(nothing(reader)));
        };
        slice.limit = limit;
        if self.in_pieces {
            // Boxed: what it awaits is large, and every page's future would hold it.
            return Box::pin(self.next_of_piece(reader, max_bytes, meter)).await;
        }
        if std::mem::take(&mut self.waits) {
            return reader.slice_later(slice, max_bytes, meter).await;
        }
        reader.slice(slice, max_bytes, meter).await
    }

    /// As [`next`](Self::next), but without rows only if nothing is left; an error if the time is over.
    pub(super) async fn first_rows(
        &mut self,
        reader: &Reader<'_>,
        limit: u32,
        max_bytes: u64,
        meter: &Meter,
    ) -> Result<Option<RowsRead>> {
        let (mut round_trips, mut statements, mut tombstones) = (0, 0, 0);
        while let Some(mut read) = self.next(reader, limit, max_bytes, meter).await? {
            round_trips += read.round_trips;
            statements += read.statements;
            tombstones += read.tombstones;
            if read.exhausted || !read.rows.is_empty() {
                read.round_trips = round_trips;
                read.statements = statements;
                read.tombstones = tombstones;
                return Ok(Some(read));
            }
        }
        Ok(None)
    }

    /// Goes on beyond the last row that was read.
    pub(super) fn pass(&mut self, last: RowRef<'_>) {
        // What is in pieces was passed when it was read.
        if !self.in_pieces {
            self.slice = self.slice.take().and_then(|slice| beyond_row(slice, last));
        }
    }

    /// Reads on in the piece that is next.
    async fn next_of_piece(
        &mut self,
        reader: &Reader<'_>,
        max_bytes: u64,
        meter: &Meter,
    ) -> Result<Option<RowsRead>> {
        let (mut round_trips, mut statements) = (0, 0);
        let Some(whole) = &self.slice else {
            return Ok(Some(nothing(reader)));
        };
        if self.pieces.is_empty() {
            let find = |options| async move { reader.pieces.find(reader.snapshot, whole, &options).await };
            let Some(found) = in_time(find, u64::MAX, meter).await? else {
                return Ok(None);
            };
            (round_trips, statements) = (found.round_trips, found.statements);
            self.pieces = found.pieces.into();
        }
        let piece = self.pieces.front();
        let Some(slice) = piece.and_then(|piece| piece.slice(whole)) else {
            return Err(not_adjoining(whole));
        };
        let Some(mut read) = reader.slice(&slice, max_bytes, meter).await? else {
            return Ok(None);
        };
        read.round_trips += round_trips;
        read.statements += statements;
        self.pass_in_piece(&mut read);
        if read.rows.is_empty() {
            // Nothing else waits, however many empty pieces follow one another.
            tokio::task::yield_now().await;
        }
        Ok(Some(read))
    }

    /// Goes on beyond what was read of a piece, and to the next one if that was its end.
    fn pass_in_piece(&mut self, read: &mut RowsRead) {
        let Some(slice) = self.slice.take() else { return };
        self.slice = match (read.exhausted, read.rows.iter().next_back()) {
            (true, _) => {
                let ended = self.pieces.pop_front();
                ended.and_then(|piece| beyond_piece(slice, &piece))
            }
            (false, Some(last)) => beyond_row(slice, last),
            (false, None) => Some(slice),
        };
        // The last row that was read may have been the last that could be in its piece.
        if let (Some(slice), Some(piece)) = (&self.slice, self.pieces.front())
            && piece.slice(slice).is_none()
        {
            self.pieces.pop_front();
        }
        read.exhausted &= self.slice.is_none();
    }
}

/// Asks the store within the time left; `None` if there is none left.
pub(super) async fn in_time<F, R>(
    ask: impl FnOnce(ReadOptions) -> F,
    max_bytes: u64,
    meter: &Meter,
) -> Result<Option<R>>
where
    F: Future<Output = Result<R, StoreError>>,
{
    let Some(mut options) = meter.read_options() else {
        return Ok(None);
    };
    options.max_bytes = options.max_bytes.min(max_bytes);
    match ask(options).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind() == StoreErrorKind::Timeout && meter.read_options().is_none() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn nothing(reader: &Reader<'_>) -> RowsRead {
    RowsRead {
        rows: RowSet::new(reader.width()),
        exhausted: true,
        ..RowsRead::default()
    }
}

/// The error of pieces between which rows would be lost.
#[cold]
fn not_adjoining(slice: &Slice) -> Error {
    let message = format!(
        "the pieces of a partition of table {} do not adjoin: there is none where the page goes on",
        slice.table.name()
    );
    Error::new(ErrorKind::Corrupt, message).with_hint("a check of the store tells what is damaged")
}
