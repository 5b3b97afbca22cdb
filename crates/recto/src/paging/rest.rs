//! Unread part of one of a plan's sources (ranges of a table).

use recto_model::{RowRef, RowSet, Slice};
use recto_plan::plan::beyond_row;
use recto_store::{BucketsRead, ReadOptions, RowsRead, StoreError, StoreErrorKind};

use super::budget::Meter;
use super::reader::Reader;
use crate::error::Result;

/// Unread part of one of a plan's sources (ranges of a table), in the direction of travel.
pub(super) struct Rest {
    /// Slice (range of a partition) that contains the unread rows. `None`: everything was read.
    slice: Option<Slice>,
    /// True if the next read is known to wait for the store, because an attempt without waiting
    /// failed.
    waits: bool,
}

impl Rest {
    pub(super) fn new(slice: Slice) -> Self {
        Self {
            slice: Some(slice),
            waits: false,
        }
    }

    /// Reads the next rows like [`next`](Self::next), with the limit of the slice. Returns `None`
    /// if everything was read, or if the store cannot answer without waiting.
    pub(super) fn next_now(
        &mut self,
        reader: &Reader<'_>,
        options: &ReadOptions,
    ) -> Option<Result<RowsRead>> {
        let read = reader.snapshot.slice_now(self.slice.as_ref()?, options);
        self.waits = read.is_none();
        Some(read?.map_err(Into::into))
    }

    /// Reads at most `limit` more rows with at most about `max_bytes` bytes. Returns `None` if the
    /// time of the page is over. The result may be empty although rows remain; `exhausted` is true
    /// if none remain.
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
        if std::mem::take(&mut self.waits) {
            return reader.slice_later(slice, max_bytes, meter).await;
        }
        reader.slice(slice, max_bytes, meter).await
    }

    /// Reads like [`next`](Self::next), but repeats the read until it returns rows or the source
    /// ends.
    pub(super) async fn first_rows(
        &mut self,
        reader: &Reader<'_>,
        limit: u32,
        max_bytes: u64,
        meter: &Meter,
    ) -> Result<Option<RowsRead>> {
        let (mut round_trips, mut statements, mut tombstones) = (0, 0, 0);
        let mut buckets = BucketsRead::default();
        while let Some(mut read) = self.next(reader, limit, max_bytes, meter).await? {
            round_trips += read.round_trips;
            statements += read.statements;
            tombstones += read.tombstones;
            buckets.add(std::mem::take(&mut read.buckets));
            if read.exhausted || !read.rows.is_empty() {
                read.round_trips = round_trips;
                read.statements = statements;
                read.tombstones = tombstones;
                read.buckets = buckets;
                return Ok(Some(read));
            }
            // Yield, so that empty reads do not starve other tasks.
            tokio::task::yield_now().await;
        }
        Ok(None)
    }

    /// Records that all rows up to `last` were read, so that the next read continues after it.
    pub(super) fn pass(&mut self, last: RowRef<'_>) {
        self.slice = self.slice.take().and_then(|slice| beyond_row(slice, last));
    }
}

/// Sends a read to the store with the remaining time of the page as its limit. Returns `None` if no
/// time is left.
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
