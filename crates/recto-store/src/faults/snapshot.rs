//! Snapshot wrapper that makes reads fail.

use std::sync::Arc;

use async_trait::async_trait;
use recto_model::{Cells, Slice, Table};

use super::plan::FaultKind;
use super::{FaultyStore, same_partition, timeout, unavailable};
use crate::{
    ConsistencyLevel, PointRead, ReadOptions, RowBlock, RowEstimate, RowsRead, ScanPosition, ScanRead,
    Snapshot, StoreError, TokenRange,
};

/// Snapshot whose reads fail as the seed determines. Its `slice_now` returns no slice, so that each read goes
/// through the code that can fail.
pub(super) struct FaultySnapshot {
    store: FaultyStore,
    inner: Arc<dyn Snapshot>,
}

impl FaultySnapshot {
    pub(super) fn new(store: FaultyStore, inner: Arc<dyn Snapshot>) -> Self {
        Self { store, inner }
    }

    /// Begins a read. Returns an error if the seed determines that the read fails or times out.
    async fn begin(&self, what: &str, options: &ReadOptions) -> Result<(), StoreError> {
        self.store.begin(what, options.timeout).await?;
        let mut state = self.store.lock();
        let rates = state.plan.rates;
        if state.plan.chance(rates.fail) {
            state.plan.record(FaultKind::Failed, what);
            return Err(unavailable(what));
        }
        if state.plan.chance(rates.read_timeout) {
            state.plan.record(FaultKind::ReadTimedOut, what);
            return Err(timeout(what));
        }
        Ok(())
    }

    /// Returns the snapshot from which to read a partition. A serial read first applies the decided
    /// conditional writes of the partition. It then uses a newer snapshot, which contains these writes.
    async fn of_partition(
        &self,
        table: &Table,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<Arc<dyn Snapshot>, StoreError> {
        let serial = [ConsistencyLevel::Serial, ConsistencyLevel::LocalSerial];
        if !options.consistency.is_some_and(|level| serial.contains(&level)) {
            return Ok(self.inner.clone());
        }
        self.store
            .learn(|decided| same_partition(decided, table, partition))
            .await;
        self.store.inner.snapshot()
    }
}

#[async_trait]
impl Snapshot for FaultySnapshot {
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.begin(&format!("a slice of {}", slice.table.name()), options)
            .await?;
        let snapshot = self.of_partition(&slice.table, &slice.partition, options).await?;
        snapshot.slice(slice, options).await
    }

    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.begin(&format!("a read of a row of {}", read.table.name()), options)
            .await?;
        let snapshot = self.of_partition(&read.table, &read.partition, options).await?;
        snapshot.get(read, options).await
    }

    async fn get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        self.begin(&format!("a read of statics of {}", table.name()), options)
            .await?;
        let snapshot = self.of_partition(table, partition, options).await?;
        snapshot.get_statics(table, partition, options).await
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
        self.begin(&format!("a scan of {}", table.name()), options)
            .await?;
        self.inner.scan(table, range, after, limit, options).await
    }

    async fn scan_partitions(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        self.begin(&format!("a scan of partitions of {}", table.name()), options)
            .await?;
        let inner = &self.inner;
        inner.scan_partitions(table, range, after, limit, options).await
    }

    async fn estimate(&self, slice: &Slice, options: &ReadOptions) -> Result<RowEstimate, StoreError> {
        self.inner.estimate(slice, options).await
    }

    async fn row_at(
        &self,
        slice: &Slice,
        rank: u64,
        options: &ReadOptions,
    ) -> Result<Option<Cells>, StoreError> {
        self.inner.row_at(slice, rank, options).await
    }

    async fn blocks(&self, slice: &Slice, options: &ReadOptions) -> Result<Vec<RowBlock>, StoreError> {
        self.inner.blocks(slice, options).await
    }
}
