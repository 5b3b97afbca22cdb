//! Wrappers of stores and snapshots for tests. They forward all calls that they do not change.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recto_model::{Cells, Slice, Table};

use crate::{
    Atomicity, Cas, CasOutcome, ClockGuard, ConsistencyLevel, Limits, PartitionWrite, PointRead, ReadOptions,
    RowBlock, RowEstimate, RowsRead, ScanPosition, ScanRead, Snapshot, Stamp, Store, StoreError, StoreKind,
    StoreMetrics, TableOutcome, TableState, TokenRange, TransactionOutcome, WriteOptions, WriteOutcome,
};

/// Wrapper that is a [`Store`]: it forwards all calls to an inner store, except the calls that it overrides.
#[async_trait]
pub trait StoreWrapper: Send + Sync + 'static {
    /// Returns the inner store, which receives the forwarded calls.
    fn inner(&self) -> &Arc<dyn Store>;

    /// Runs before each plain or conditional write is forwarded, and once more before its result is returned.
    /// Tests can delay the write here. The default does nothing.
    async fn pass(&self) {}

    /// Returns the snapshot that replaces a snapshot of the inner store. The default returns the same
    /// snapshot.
    fn on_snapshot(&self, snapshot: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        snapshot
    }

    /// Handles plain writes of one or several partitions. The default forwards them to the inner store.
    async fn on_writes(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        self.inner().write_many(writes, atomicity, options).await
    }

    /// Handles a conditional write. The default forwards it to the inner store.
    async fn on_cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        self.inner().cas(cas, options).await
    }

    /// Handles a transaction. The default forwards it to the inner store.
    async fn on_transaction(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        self.inner().transact(conditional, plain, options).await
    }

    /// Handles the creation of a table. The default forwards it to the inner store.
    async fn on_create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.inner().create_table(table).await
    }

    /// Handles the drop of a table. The default forwards it to the inner store.
    async fn on_drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        self.inner().drop_table(name).await
    }

    /// Handles the emptying of a table. The default forwards it to the inner store.
    async fn on_empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.inner().empty_table(table).await
    }
}

/// Wrapper that is a [`Snapshot`]: it forwards all reads to an inner snapshot, except the reads that it
/// overrides.
#[async_trait]
pub trait SnapshotWrapper: Send + Sync {
    /// Returns the inner snapshot, which receives the forwarded reads.
    fn inner(&self) -> &Arc<dyn Snapshot>;

    /// Handles the read of a slice. Implementations can change the result of the inner snapshot.
    async fn on_slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError>;

    /// Handles the read of a row by its key. The default forwards it to the inner snapshot.
    async fn on_get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.inner().get(read, options).await
    }

    /// Handles the read of the static cells of a partition. The default forwards it to the inner snapshot.
    async fn on_get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        self.inner().get_statics(table, partition, options).await
    }

    /// Returns the result of a slice if it is available without waiting. The default returns `None`.
    fn on_slice_now(&self, slice: &Slice, options: &ReadOptions) -> Option<Result<RowsRead, StoreError>> {
        let _ = (slice, options);
        None
    }

    /// Runs before each point read, read of static cells, scan, and split into token ranges. The default does
    /// nothing.
    fn on_other_read(&self) {}

    /// Runs before each read is forwarded, and once more before its result is returned. Tests can delay the
    /// read here. The default does nothing.
    async fn pass(&self) {}
}

#[async_trait]
impl<W: StoreWrapper> Store for W {
    fn kind(&self) -> StoreKind {
        self.inner().kind()
    }

    fn describe(&self) -> String {
        self.inner().describe()
    }

    fn limits(&self) -> Limits {
        self.inner().limits()
    }

    fn keeps_buckets(&self) -> bool {
        self.inner().keeps_buckets()
    }

    fn check_decisions(&self) -> Result<(), StoreError> {
        self.inner().check_decisions()
    }

    fn serial_consistency(&self) -> Option<ConsistencyLevel> {
        self.inner().serial_consistency()
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
        Ok(self.on_snapshot(self.inner().snapshot()?))
    }

    async fn write(&self, write: PartitionWrite, options: WriteOptions) -> Result<WriteOutcome, StoreError> {
        self.write_many(vec![write], Atomicity::Each, options).await
    }

    async fn write_many(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        self.pass().await;
        let outcome = self.on_writes(writes, atomicity, options).await;
        self.pass().await;
        outcome
    }

    async fn make_room(
        &self,
        sample: Vec<PartitionWrite>,
        each: u32,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        self.inner().make_room(sample, each, timeout).await
    }

    async fn cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        self.pass().await;
        let outcome = self.on_cas(cas, options).await;
        self.pass().await;
        outcome
    }

    async fn transact(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        self.on_transaction(conditional, plain, options).await
    }

    async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.on_create_table(table).await
    }

    async fn add_columns(&self, recorded: &Table, table: &Table) -> Result<TableOutcome, StoreError> {
        self.inner().add_columns(recorded, table).await
    }

    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        self.on_drop_table(name).await
    }

    async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        self.on_empty_table(table).await
    }

    async fn list_tables(&self) -> Result<Vec<Table>, StoreError> {
        self.inner().list_tables().await
    }

    async fn compare_tables(&self, tables: &[Table]) -> Result<Vec<TableState>, StoreError> {
        self.inner().compare_tables(tables).await
    }

    async fn tables_version(&self) -> Result<Option<String>, StoreError> {
        self.inner().tables_version().await
    }

    fn describe_slice(&self, slice: &Slice, options: &ReadOptions) -> Vec<String> {
        self.inner().describe_slice(slice, options)
    }

    fn expected_round_trips(&self, slice: &Slice, options: &ReadOptions) -> u32 {
        self.inner().expected_round_trips(slice, options)
    }

    fn clock_guard(&self) -> Option<&dyn ClockGuard> {
        self.inner().clock_guard()
    }

    fn newest_stamp(&self) -> Option<Stamp> {
        self.inner().newest_stamp()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner().close().await
    }

    fn metrics(&self) -> StoreMetrics {
        self.inner().metrics()
    }

    fn check_partition(&self, table: &Table, partition: &Cells) -> Result<(), StoreError> {
        self.inner().check_partition(table, partition)
    }
}

#[async_trait]
impl<W: SnapshotWrapper> Snapshot for W {
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.pass().await;
        let read = self.on_slice(slice, options).await;
        self.pass().await;
        read
    }

    fn slice_now(&self, slice: &Slice, options: &ReadOptions) -> Option<Result<RowsRead, StoreError>> {
        self.on_slice_now(slice, options)
    }

    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        self.on_other_read();
        self.pass().await;
        let read = self.on_get(read, options).await;
        self.pass().await;
        read
    }

    async fn get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        self.on_other_read();
        self.pass().await;
        let read = self.on_get_statics(table, partition, options).await;
        self.pass().await;
        read
    }

    async fn token_ranges(&self, table: &Arc<Table>, pieces: u32) -> Result<Vec<TokenRange>, StoreError> {
        self.on_other_read();
        self.pass().await;
        let read = self.inner().token_ranges(table, pieces).await;
        self.pass().await;
        read
    }

    async fn scan(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        self.on_other_read();
        self.pass().await;
        let read = self.inner().scan(table, range, after, limit, options).await;
        self.pass().await;
        read
    }

    async fn scan_partitions(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        self.on_other_read();
        self.pass().await;
        let inner = self.inner();
        let read = inner.scan_partitions(table, range, after, limit, options).await;
        self.pass().await;
        read
    }

    async fn estimate(&self, slice: &Slice, options: &ReadOptions) -> Result<RowEstimate, StoreError> {
        self.inner().estimate(slice, options).await
    }

    async fn row_at(
        &self,
        slice: &Slice,
        rank: u64,
        options: &ReadOptions,
    ) -> Result<Option<Cells>, StoreError> {
        self.inner().row_at(slice, rank, options).await
    }

    async fn blocks(&self, slice: &Slice, options: &ReadOptions) -> Result<Vec<RowBlock>, StoreError> {
        self.inner().blocks(slice, options).await
    }
}
