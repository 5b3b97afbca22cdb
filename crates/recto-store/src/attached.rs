//! Store that can also read tables of other keyspaces, and never writes them.
//!
//! A table whose name has a dot, `keyspace.table`, is in another keyspace and is called *attached*. No table
//! of Recto itself has a dot in its name. A read of an attached table uses the store that is connected to its
//! keyspace. All other calls use the own store. Calls that would change an attached table are rejected here,
//! before a request is sent.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use recto_model::schema::AttachedTable;
use recto_model::{Cells, RowRef, RowSet, Slice, Table};

use crate::{
    Atomicity, Cas, CasOutcome, ClockGuard, ConsistencyLevel, Limits, PartitionWrite, PointRead, ReadOptions,
    RowBlock, RowEstimate, RowsRead, ScanPosition, ScanRead, Snapshot, Stamp, Store, StoreError,
    StoreErrorKind, StoreKind, StoreMetrics, TableOutcome, TableState, TokenRange, TransactionOutcome,
    WriteOptions, WriteOutcome,
};

/// Stores that read attached tables, by the names of the keyspaces to which they are connected.
type Reached = Arc<BTreeMap<String, Arc<dyn Store>>>;

/// Store with its own tables, and read-only access to attached tables through the stores of their keyspaces.
pub struct AttachedStore {
    own: Arc<dyn Store>,
    reached: RwLock<Reached>,
}

impl AttachedStore {
    /// Returns a store with the tables of `own` and without attached keyspaces.
    pub fn over(own: Arc<dyn Store>) -> Self {
        Self {
            own,
            reached: RwLock::default(),
        }
    }

    /// Connects a keyspace: from now on, `store` reads its tables. Replaces a store that was connected to the
    /// keyspace before.
    pub fn reach(&self, keyspace: &str, store: Arc<dyn Store>) {
        let mut reached = self.reached.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = BTreeMap::clone(&reached);
        all.insert(keyspace.to_owned(), store);
        *reached = Arc::new(all);
    }

    /// Returns the store that is connected to this keyspace. `None`: no store is connected.
    pub fn reached_by(&self, keyspace: &str) -> Option<Arc<dyn Store>> {
        self.reached().get(keyspace).cloned()
    }

    fn reached(&self) -> Reached {
        Arc::clone(&self.reached.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the store that reads a table of this name. Returns the own store if the table is not attached,
    /// or if no store is connected to its keyspace.
    fn of(&self, table: &str) -> Arc<dyn Store> {
        store_of(table, &self.reached()).map_or_else(
            |_| Arc::clone(&self.own),
            |found| found.map_or_else(|| Arc::clone(&self.own), Arc::clone),
        )
    }
}

/// Returns the store that is connected to the keyspace of an attached table. Returns `None` for a table that
/// is not attached.
fn store_of<'r>(table: &str, reached: &'r Reached) -> Result<Option<&'r Arc<dyn Store>>, StoreError> {
    let Some(keyspace) = AttachedTable::keyspace_of(table) else {
        return Ok(None);
    };
    reached
        .get(keyspace)
        .map(Some)
        .ok_or_else(|| not_reached(table, keyspace))
}

#[cold]
fn not_reached(table: &str, keyspace: &str) -> StoreError {
    let message = format!("table {table} is attached, but the address of keyspace {keyspace} is unknown");
    StoreError::new(StoreErrorKind::Table, message)
        .with_hint(format!(
            "run `recto attach {table} --from cassandra://host/{keyspace}`, which records the address"
        ))
        .with_table(table)
}

/// Returns the error for a change of an attached table, which belongs to another program.
#[cold]
fn read_only(table: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Invalid,
        format!("table {table} is attached, so it is read-only here"),
    )
    .with_hint("change it with CQL in its own cluster")
    .with_table(table)
}

/// Returns the error for the first attached table among `tables`, because attached tables must not be
/// changed.
fn refuses<'t>(tables: impl IntoIterator<Item = &'t str>) -> Option<StoreError> {
    let mut tables = tables.into_iter();
    tables
        .find(|name| AttachedTable::keyspace_of(name).is_some())
        .map(read_only)
}

/// Checks that none of `tables` is attached, before tables are created, changed or dropped.
fn check_own<'t>(tables: impl IntoIterator<Item = &'t str>) -> Result<(), StoreError> {
    refuses(tables).map_or(Ok(()), Err)
}

#[async_trait]
impl Store for AttachedStore {
    fn kind(&self) -> StoreKind {
        self.own.kind()
    }

    fn describe(&self) -> String {
        self.own.describe()
    }

    fn limits(&self) -> Limits {
        self.own.limits()
    }

    fn keeps_buckets(&self) -> bool {
        self.own.keeps_buckets()
    }

    fn check_decisions(&self) -> Result<(), StoreError> {
        self.own.check_decisions()
    }

    fn serial_consistency(&self) -> Option<ConsistencyLevel> {
        self.own.serial_consistency()
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError> {
        let (own, reached) = (self.own.snapshot()?, self.reached());
        if reached.is_empty() {
            return Ok(own);
        }
        Ok(Arc::new(AttachedSnapshot { own, reached }))
    }

    async fn write(&self, write: PartitionWrite, options: WriteOptions) -> Result<WriteOutcome, StoreError> {
        match refuses([write.table.name()]) {
            Some(error) => Ok(WriteOutcome::Refused(error)),
            None => self.own.write(write, options).await,
        }
    }

    async fn write_many(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        match refuses(writes.iter().map(|write| write.table.name())) {
            Some(error) => Ok(WriteOutcome::Refused(error)),
            None => self.own.write_many(writes, atomicity, options).await,
        }
    }

    async fn make_room(
        &self,
        sample: Vec<PartitionWrite>,
        each: u32,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        self.own.make_room(sample, each, timeout).await
    }

    async fn cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError> {
        match refuses([cas.table.name()]) {
            Some(error) => Ok(CasOutcome::Refused(error)),
            None => self.own.cas(cas, options).await,
        }
    }

    async fn transact(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        let tables = conditional.iter().map(|cas| cas.table.name());
        match refuses(tables.chain(plain.iter().map(|write| write.table.name()))) {
            Some(error) => Ok(TransactionOutcome::Refused(error)),
            None => self.own.transact(conditional, plain, options).await,
        }
    }

    async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        check_own([table.name()])?;
        self.own.create_table(table).await
    }

    async fn create_tables_once(&self, tables: &[Table]) -> Result<TableOutcome, StoreError> {
        check_own(tables.iter().map(Table::name))?;
        self.own.create_tables_once(tables).await
    }

    async fn add_columns(&self, recorded: &Table, table: &Table) -> Result<TableOutcome, StoreError> {
        check_own([recorded.name(), table.name()])?;
        self.own.add_columns(recorded, table).await
    }

    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError> {
        check_own([name])?;
        self.own.drop_table(name).await
    }

    async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError> {
        check_own([table.name()])?;
        self.own.empty_table(table).await
    }

    async fn list_tables(&self) -> Result<Vec<Table>, StoreError> {
        self.own.list_tables().await
    }

    async fn compare_tables(&self, tables: &[Table]) -> Result<Vec<TableState>, StoreError> {
        let mut by_keyspace: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
        for (index, table) in tables.iter().enumerate() {
            by_keyspace
                .entry(AttachedTable::keyspace_of(table.name()))
                .or_default()
                .push(index);
        }
        let reached = self.reached();
        let mut states = vec![TableState::Missing; tables.len()];
        for (keyspace, indexes) in by_keyspace {
            let asked: Vec<Table> = indexes.iter().map(|index| tables[*index].clone()).collect();
            let found = match keyspace.map(|keyspace| reached.get(keyspace)) {
                None => self.own.compare_tables(&asked).await?,
                Some(Some(store)) => store.compare_tables(&asked).await?,
                Some(None) => continue,
            };
            for (index, state) in indexes.into_iter().zip(found) {
                states[index] = state;
            }
        }
        Ok(states)
    }

    /// Returns the version of the own tables only. Other keyspaces may be unreachable, and callers query each
    /// of them [separately](AttachedStore::reached_by).
    async fn tables_version(&self) -> Result<Option<String>, StoreError> {
        self.own.tables_version().await
    }

    fn describe_slice(&self, slice: &Slice, options: &ReadOptions) -> Vec<String> {
        self.of(slice.table.name()).describe_slice(slice, options)
    }

    fn expected_round_trips(&self, slice: &Slice, options: &ReadOptions) -> u32 {
        self.of(slice.table.name()).expected_round_trips(slice, options)
    }

    fn clock_guard(&self) -> Option<&dyn ClockGuard> {
        self.own.clock_guard()
    }

    fn newest_stamp(&self) -> Option<Stamp> {
        self.own.newest_stamp()
    }

    async fn close(&self) -> Result<(), StoreError> {
        for store in self.reached().values() {
            store.close().await?;
        }
        self.own.close().await
    }

    /// Returns the metrics of the own servers and of the servers of the attached keyspaces.
    fn metrics(&self) -> StoreMetrics {
        let mut metrics = self.own.metrics();
        for store in self.reached().values() {
            let more = store.metrics();
            metrics.retries += more.retries;
            metrics.narrowed_reads += more.narrowed_reads;
            metrics.tombstones += more.tombstones;
            for node in more.nodes {
                match metrics.nodes.iter_mut().find(|one| one.address == node.address) {
                    Some(known) => {
                        known.up |= node.up;
                        known.requests += node.requests;
                        known.failures += node.failures;
                        known.timeouts += node.timeouts;
                    }
                    None => metrics.nodes.push(node),
                }
            }
        }
        metrics
    }

    fn check_partition(&self, table: &Table, partition: &Cells) -> Result<(), StoreError> {
        self.of(table.name()).check_partition(table, partition)
    }
}

/// Snapshot of the own tables, and the stores of the other keyspaces. A read of an attached table sees the
/// state at the time of the read, not of the snapshot.
struct AttachedSnapshot {
    own: Arc<dyn Snapshot>,
    reached: Reached,
}

impl AttachedSnapshot {
    /// Returns the snapshot that can read a table of this name.
    fn of(&self, table: &str) -> Result<Arc<dyn Snapshot>, StoreError> {
        match store_of(table, &self.reached)? {
            None => Ok(Arc::clone(&self.own)),
            Some(store) => store.snapshot(),
        }
    }

    /// Returns a function that adds the address of the table's keyspace to the errors of unavailable servers
    /// and timeouts. The messages of a driver do not contain the address.
    fn located(&self, table: &str) -> impl Fn(StoreError) -> StoreError {
        move |error| match (store_of(table, &self.reached), error.kind()) {
            (Ok(Some(store)), StoreErrorKind::Unavailable | StoreErrorKind::Timeout) => error.about(
                format_args!("table {table} is attached from {}", store.describe()),
            ),
            _ => error,
        }
    }
}

/// Removes partitions that have static cells and no rows from the result of a scan. The static columns of an
/// attached table are ordinary columns for Recto, so such a partition would look like a row without a key.
fn leave_out_rowless(table: &Table, read: &mut ScanRead) {
    let key = table.partition().len()..table.key_len();
    let is_row = |row: RowRef<'_>| key.clone().all(|column| row.get(column).is_some());
    let kept: Vec<bool> = read.rows.iter().map(is_row).collect();
    if kept.iter().all(|is_kept| *is_kept) {
        return;
    }
    let mut rows = RowSet::new(read.rows.width());
    for (row, _) in read.rows.iter().zip(&kept).filter(|(_, is_kept)| **is_kept) {
        rows.push_row(row);
    }
    read.rows = rows;
    let mut each = kept.iter();
    read.stamps.retain(|_| each.next().copied().unwrap_or(true));
    let mut each = kept.iter();
    read.ends_in_seconds
        .retain(|_| each.next().copied().unwrap_or(true));
}

#[async_trait]
impl Snapshot for AttachedSnapshot {
    async fn slice(&self, slice: &Slice, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        let table = slice.table.name();
        let read = self.of(table)?.slice(slice, options).await;
        read.map_err(self.located(table))
    }

    fn slice_now(&self, slice: &Slice, options: &ReadOptions) -> Option<Result<RowsRead, StoreError>> {
        match self.of(slice.table.name()) {
            Ok(snapshot) => snapshot.slice_now(slice, options),
            Err(error) => Some(Err(error)),
        }
    }

    async fn get(&self, read: &PointRead, options: &ReadOptions) -> Result<RowsRead, StoreError> {
        let table = read.table.name();
        let found = self.of(table)?.get(read, options).await;
        found.map_err(self.located(table))
    }

    async fn get_many(
        &self,
        reads: &[PointRead],
        options: &ReadOptions,
    ) -> Result<Vec<RowsRead>, StoreError> {
        let first = reads.first().map(|read| read.table.name());
        match first {
            Some(first) if reads.iter().all(|read| read.table.name() == first) => {
                let found = self.of(first)?.get_many(reads, options).await;
                found.map_err(self.located(first))
            }
            _ => crate::read::get_each(self, reads, options).await,
        }
    }

    async fn get_statics(
        &self,
        table: &Arc<Table>,
        partition: &Cells,
        options: &ReadOptions,
    ) -> Result<RowsRead, StoreError> {
        self.of(table.name())?
            .get_statics(table, partition, options)
            .await
            .map_err(self.located(table.name()))
    }

    async fn token_ranges(&self, table: &Arc<Table>, pieces: u32) -> Result<Vec<TokenRange>, StoreError> {
        let ranges = self.of(table.name())?.token_ranges(table, pieces).await;
        ranges.map_err(self.located(table.name()))
    }

    async fn scan(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        let snapshot = self.of(table.name())?;
        let read = snapshot.scan(table, range, after, limit, options).await;
        let mut read = read.map_err(self.located(table.name()))?;
        if AttachedTable::keyspace_of(table.name()).is_some() {
            leave_out_rowless(table, &mut read);
        }
        Ok(read)
    }

    async fn scan_partitions(
        &self,
        table: &Arc<Table>,
        range: &TokenRange,
        after: Option<&ScanPosition>,
        limit: u32,
        options: &ReadOptions,
    ) -> Result<ScanRead, StoreError> {
        let snapshot = self.of(table.name())?;
        snapshot
            .scan_partitions(table, range, after, limit, options)
            .await
            .map_err(self.located(table.name()))
    }

    async fn estimate(&self, slice: &Slice, options: &ReadOptions) -> Result<RowEstimate, StoreError> {
        self.of(slice.table.name())?.estimate(slice, options).await
    }

    async fn row_at(
        &self,
        slice: &Slice,
        rank: u64,
        options: &ReadOptions,
    ) -> Result<Option<Cells>, StoreError> {
        self.of(slice.table.name())?.row_at(slice, rank, options).await
    }

    async fn blocks(&self, slice: &Slice, options: &ReadOptions) -> Result<Vec<RowBlock>, StoreError> {
        self.of(slice.table.name())?.blocks(slice, options).await
    }
}
