//! Snapshots: the state of the store at one commit. All readers share a snapshot until the next commit.

use std::sync::Arc;

use async_trait::async_trait;
use recto_model::{Cells, Slice, Table};
use recto_store::{
    PointRead, ReadOptions, RowBlock, RowEstimate, RowsRead, ScanPosition, ScanRead, Snapshot, StoreError,
    TokenRange,
};

use crate::read::{Disk, INLINE_ROWS};
use crate::state::{State, blocking};
use crate::{blocks, partitions, read, scan};

/// [`Snapshot`] of the store at one commit.
#[derive(Clone)]
pub(crate) struct EmbeddedSnapshot {
    pub(crate) state: Arc<State>,
}

#[async_trait]
impl Snapshot for EmbeddedSnapshot {
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        let (state, slice, options) = (Arc::clone(&self.state), slice.clone(), *options);
        let work = move || state.read(|| read::slice(&state, &slice, &options, Disk::Wait));
        let read = blocking(work).await?;
        Ok(read.expect("only a read that avoids the disk ends for it"))
    }

    fn slice_now(&self, slice: &Slice, options: &ReadOptions) -> Option<Result<RowsRead, StoreError>> {
        if slice.limit > INLINE_ROWS {
            return None;
        }
        // Read on this thread only if few pages must be awaited: those that lead to the first row,
        // and one page of rows. The read ends after a page that was not in memory. A later read on
        // another thread then finds these pages in memory.
        self.state
            .read(|| read::slice(&self.state, slice, options, Disk::Avoid))
            .transpose()
    }

    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.state.read(|| read::get(&self.state, read, options))
    }

    async fn get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        self.state
            .read(|| read::get_statics(&self.state, table, partition, options))
    }

    async fn token_ranges(&self, table: &Arc<Table>, pieces: u32) -> Result<Vec<TokenRange>, StoreError> {
        let (state, table) = (Arc::clone(&self.state), Arc::clone(table));
        blocking(move || state.read(|| scan::token_ranges(&state, &table, pieces))).await
    }

    async fn scan(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        let (state, table, range) = (Arc::clone(&self.state), Arc::clone(table), range.clone());
        let (after, options) = (after.cloned(), *options);
        // A scan reads many rows, usually from disk, so run it on a thread that may block.
        blocking(move || state.read(|| scan::scan(&state, &table, &range, after.as_ref(), limit, &options)))
            .await
    }

    async fn scan_partitions(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        let (state, table, range) = (Arc::clone(&self.state), Arc::clone(table), range.clone());
        let (after, options) = (after.cloned(), *options);
        // The number of expired rows between two partitions is unknown, so run the scan on a thread
        // that may block.
        blocking(move || {
            state.read(|| partitions::scan(&state, &table, &range, after.as_ref(), limit, &options))
        })
        .await
    }

    async fn estimate(&self, slice: &Slice, options: &ReadOptions) -> Result<RowEstimate, StoreError> {
        let (state, slice, options) = (Arc::clone(&self.state), slice.clone(), *options);
        let rows = blocking(move || state.read(|| blocks::count(&state, &slice, &options))).await?;
        Ok(RowEstimate { rows, variance: 0 })
    }

    async fn row_at(
        &self,
        slice: &Slice,
        rank: u64,
        options: &ReadOptions,
    ) -> Result<Option<Cells>, StoreError> {
        let (state, slice, options) = (Arc::clone(&self.state), slice.clone(), *options);
        blocking(move || state.read(|| blocks::row_at(&state, &slice, rank, &options))).await
    }

    async fn blocks(&self, slice: &Slice, options: &ReadOptions) -> Result<Vec<RowBlock>, StoreError> {
        let (state, slice, options) = (Arc::clone(&self.state), slice.clone(), *options);
        blocking(move || state.read(|| blocks::sizes(&state, &slice, &options))).await
    }
}
