//! Reads that hide the rows below the retention bound.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use recto_model::{Cells, RowSet, Slice, Table};
use recto_protocol::buckets::Floor;
use recto_store::{
    PointRead, ReadOptions, RowBlock, RowEstimate, RowsRead, ScanPosition, ScanRead, Snapshot, StoreError,
    TokenRange,
};

use super::RetainedStore;
use crate::keys;

pub(super) struct RetainedSnapshot {
    pub(super) inner: Arc<dyn Snapshot>,
    pub(super) store: RetainedStore,
}

impl RetainedSnapshot {
    /// Returns the retention bound of a table, below which reads hide rows.
    fn floor(&self, table: &Arc<Table>) -> Result<Option<Floor>, StoreError> {
        match self.store.retained(table)? {
            Some(retained) => Ok(self.store.shared.bounds.floor(&retained)?),
            None => Ok(None),
        }
    }

    /// Returns the part of a slice that reads show, or `None` if the retention bound hides the whole
    /// slice.
    fn shown<'s>(&self, slice: &'s Slice) -> Result<Option<Cow<'s, Slice>>, StoreError> {
        let Some(floor) = self.floor(&slice.table)? else {
            return Ok(Some(Cow::Borrowed(slice)));
        };
        let Some(span) = keys::span_of(&slice.table, &slice.from, &slice.to)? else {
            return Ok(Some(Cow::Borrowed(slice)));
        };
        let Some(kept) = floor.kept_span().common(&span) else {
            return Ok(None);
        };
        let mut shown = slice.clone();
        if kept.start != span.start {
            shown.from = keys::bound_of(&slice.table, &kept.start)?;
        }
        if let Some(end) = kept.end.as_ref().filter(|_| kept.end != span.end) {
            shown.to = keys::bound_of(&slice.table, end)?;
        }
        Ok(Some(Cow::Owned(shown)))
    }

    fn is_hidden(&self, read: &PointRead) -> Result<bool, StoreError> {
        let Some(floor) = self.floor(&read.table)? else {
            return Ok(false);
        };
        Ok(floor.hides(&keys::key_of(&read.table, read.clustering.as_row())?))
    }
}

fn nothing(table: &Table) -> RowsRead {
    RowsRead {
        rows: RowSet::new(table.columns().len()),
        exhausted: true,
        ..RowsRead::default()
    }
}

#[async_trait]
impl Snapshot for RetainedSnapshot {
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        match self.shown(slice)? {
            Some(shown) => self.inner.slice(&shown, options).await,
            None => Ok(nothing(&slice.table)),
        }
    }

    fn slice_now(&self, slice: &Slice, options: &ReadOptions) -> Option<Result<RowsRead, StoreError>> {
        match self.shown(slice) {
            Ok(Some(shown)) => self.inner.slice_now(&shown, options),
            Ok(None) => Some(Ok(nothing(&slice.table))),
            Err(error) => Some(Err(error)),
        }
    }

    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        if self.is_hidden(read)? {
            return Ok(nothing(&read.table));
        }
        self.inner.get(read, options).await
    }

    async fn get_many(
        &self,
        reads: &[PointRead],
        options: &ReadOptions,
    ) -> Result<Vec<RowsRead>, StoreError> {
        let mut found = self.inner.get_many(reads, options).await?;
        for (read, found) in reads.iter().zip(&mut found) {
            if self.is_hidden(read)? {
                *found = nothing(&read.table);
            }
        }
        Ok(found)
    }

    async fn get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        self.inner.get_statics(table, partition, options).await
    }

    async fn token_ranges(&self, table: &Arc<Table>, pieces: u32) -> Result<Vec<TokenRange>, StoreError> {
        self.inner.token_ranges(table, pieces).await
    }

    async fn scan(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        let read = self.inner.scan(table, range, after, limit, options).await?;
        match self.floor(table)? {
            Some(floor) => without_hidden(table, &floor, read),
            None => Ok(read),
        }
    }

    async fn scan_partitions(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        self.inner
            .scan_partitions(table, range, after, limit, options)
            .await
    }

    async fn estimate(&self, slice: &Slice, options: &ReadOptions) -> Result<RowEstimate, StoreError> {
        match self.shown(slice)? {
            Some(shown) => self.inner.estimate(&shown, options).await,
            None => Ok(RowEstimate::default()),
        }
    }

    async fn row_at(
        &self,
        slice: &Slice,
        rank: u64,
        options: &ReadOptions,
    ) -> Result<Option<Cells>, StoreError> {
        match self.shown(slice)? {
            Some(shown) => self.inner.row_at(&shown, rank, options).await,
            None => Ok(None),
        }
    }

    async fn blocks(&self, slice: &Slice, options: &ReadOptions) -> Result<Vec<RowBlock>, StoreError> {
        match self.shown(slice)? {
            Some(shown) => self.inner.blocks(&shown, options).await,
            None => Ok(Vec::new()),
        }
    }
}

/// Removes rows below the retention bound `floor` from the result of a scan.
fn without_hidden(table: &Table, floor: &Floor, read: ScanRead) -> Result<ScanRead, StoreError> {
    let clustering = table.partition().len()..table.key_len();
    let mut shown = ScanRead {
        rows: RowSet::new(table.columns().len()),
        stamps: Vec::new(),
        ends_in_seconds: Vec::new(),
        ..read
    };
    for (number, row) in read.rows.iter().enumerate() {
        let cells: Cells = clustering.clone().map(|column| row.get(column)).collect();
        if floor.hides(&keys::key_of(table, cells.as_row())?) {
            continue;
        }
        shown.rows.push_row(row);
        shown.stamps.extend(read.stamps.get(number));
        shown.ends_in_seconds.extend(read.ends_in_seconds.get(number));
    }
    Ok(shown)
}
