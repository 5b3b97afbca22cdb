//! Storage interface of Recto: a wide-column table store.
//!
//! The embedded store and Apache Cassandra both implement [`Store`]. Its tables have partition and clustering
//! columns. Callers read them by [`Slice`](recto_model::Slice), write them by [`Mutation`]s of one partition,
//! and change them conditionally by [`Cas`]. The layers above need not know which store they use.
//!
//! | module | content |
//! |---|---|
//! | [`read`] | [`Snapshot`], results of reads, consistency levels, token scans |
//! | [`mod@write`] | mutations, conditions and their outcomes |
//! | [`kind`] | kinds of stores |
//! | [`tables`] | outcomes of creating and dropping tables, limits |
//! | [`attached`] | read-only tables of other keyspaces, next to a store's own tables |
//! | [`check`] | checks of requests that every store rejects |
//! | [`error`] | [`StoreError`] |
//! | [`metrics`] | measurements of a store's servers |
//! | [`panics`] | conversion of panics to errors |
//! | `conformance` (feature) | test suite that every store passes |
//! | `memory` (feature `testing`) | reference store, in memory |
//! | `faults` (feature `testing`) | wrapper that injects failures into a store, by seed |
//! | `wrapper` (feature `testing`) | traits for stores that forward calls to another store |
//!
//! # Behavior of every store
//!
//! The conformance suite asserts each of these sentences.
//!
//! **Kinds.** A store's [description of itself](Store::describe) begins with the [name](StoreKind::name) of
//! its kind. If deletions [leave no tombstones](Limits::leaves_tombstones), reads cross no tombstones.
//!
//! **Keys.** The cells of keys and edges are valid cells of their types in canonical form
//! ([`recto_model::cell::canonical_key`]). A store may decide by bytes or by order whether two keys are
//! equal. Stores reject wrong arities, null or oversize key parts, and an empty sole partition part.
//! [`Limits`] checks everything that a store must reject; every store calls it first.
//!
//! **Slices.** A read of a slice returns the first rows of the slice in its direction. It stops at the end of
//! the slice, after `limit` rows, or after [`ReadOptions::max_bytes`] bytes (never before its first row).
//! `exhausted` is true if and only if it stopped at the end of the slice. After exactly `limit` rows
//! `exhausted` is false, even if no rows remain. A slice whose end is before its start is empty and
//! exhausted. A partition with static cells and no rows has no rows.
//!
//! **Rows.** A put or patch makes the row exist, even with only nulls or with no columns. The row then exists
//! until it is deleted or expires. Empty text or an empty blob is a value; null is the absence of a value.
//! Reads return values byte for byte as written. Every row of a read carries its partition's static cells.
//!
//! **Stamps.** A stamp is a write timestamp. A store may compare the stamps of writes to one row cell by cell
//! (Cassandra) or row by row. Callers increase the stamps per row; then both methods agree. A write or
//! deletion has no effect on existing data with a newer stamp. At equal
//! stamps, a deletion of existing data wins. If two values have equal stamps, the larger by bytes wins, cell
//! by cell. A null in a replacing put may or may not delete a value of exactly the same stamp. A store need
//! not keep tombstones: after a deletion, a put of the same or an older stamp may or may not take effect. A
//! store that reports its [newest stamp](Store::newest_stamp) remembers the stamp when it is closed.
//! Mutations of one [`PartitionWrite`] may have any order, and take effect by rising stamps. At equal stamps,
//! deletions take effect last. A null in a replacing put, a patch or a static patch deletes that cell.
//!
//! **Inserts.** A plain put that does not replace is an insert. It creates a row that does not exist; a
//! deleted or expired row does not exist. If the row exists with the same values, in the columns that the
//! caller knows, the insert succeeds. The row then lives for the longer of the two times. If a row with other
//! values exists, the result depends on the store:
//!
//! - A store that [sees conflicts](Limits::sees_conflicts) returns [`WriteOutcome::Conflict`] and applies
//!   nothing of the call. If the call writes [row by row](WriteOptions::row_by_row), the store instead skips
//!   the conflicting insert and counts it.
//! - Other stores merge the two rows by stamps, and keep the TTL of the newer row.
//!
//! Two inserts of one row in one call take effect one after the other. A call with inserts contains no
//! deletions of ranges or partitions.
//!
//! **Deletions.** [`DeleteRange`](Operation::DeleteRange) keeps static cells;
//! [`DeletePartition`](Operation::DeletePartition) deletes them too. Deleting data that does not exist
//! succeeds.
//!
//! **Expiry.** Cells that a put or patch writes with a `ttl_seconds` expire after that many seconds, by the
//! store's clock and to the second. A row put with a TTL expires whole. Callers keep one expiry per row: a
//! store may keep expiry per cell or per row.
//!
//! **Outcomes.**
//!
//! - `Refused`: the request exceeds a limit or is not allowed. The store sent nothing.
//! - `Err`: the call failed and nothing of it is or will be applied (no replica was reached, no such table).
//! - `Unknown`: the write may be applied, now or at any later time. [`Atomicity::Each`]: any subset
//!   of the partitions may be applied, each wholly or not at all. [`Atomicity::Logged`]: all or
//!   none are applied.
//!
//! A write without mutations, or without partitions, is `Done`.
//!
//! **Conditional writes.** A [`Cas`] puts, patches and deletes rows and patches statics. It must not delete
//! ranges or partitions, and writes each row at most once. It touches only columns of kind
//! [`WriteKind::Cas`](recto_model::table::WriteKind); plain writes touch only the other columns. A replacing
//! put or a row deletion touches all regular columns, a partition deletion all columns. A non-replacing put
//! does not touch the columns that it leaves null. Conditional writes and serial reads of one partition are
//! linearizable.
//!
//! **Transactions.** If the store [has transactions](Limits::transactions), [`Store::transact`]
//! applies conditional writes and plain writes of any partitions and tables. It applies all of them
//! if all conditions hold, otherwise nothing. It also returns the content of the column of each
//! condition. A store without transactions rejects every transaction. The rules for each kind of
//! write also apply inside a transaction, with two exceptions. A condition needs no mutation.
//! Conditions and both kinds of writes may use columns of either kind. A transaction has at most
//! one conditional write per partition. It writes nothing row by row, and a conflicting insert
//! leaves nothing applied. The number of its writes and their bytes are limited. A plain write in a
//! transaction keeps its stamp. A conditional write in a transaction gets a newer stamp than the
//! data that it replaces. Transactions and conditional writes are linearizable. An empty
//! transaction is applied.
//!
//! **Deadlines.** A read whose timeout is zero fails with [`StoreErrorKind::Timeout`]. A write whose timeout
//! is zero is an `Err` or `Unknown` of that kind. No call exceeds its timeout by much.
//!
//! **Tables.** Creating a table that exists with equal columns and options succeeds. Creating a different
//! table under an existing name is an error of kind [`StoreErrorKind::Table`]. Every read or write of a table
//! that does not exist is an error of the same kind (a write may be `Refused` with it).
//! [`Store::list_tables`] returns tables equal to the created ones. [`Store::compare_tables`] reports how
//! tables differ from the requested ones.
//!
//! **Emptying.** Emptying removes the rows of one table, including cells that others wrote to columns that
//! the caller does not know. The table itself stays as it was created. Emptying removes all rows acknowledged
//! before it began. Concurrent writes may fail. Rows written after a completed emptying stay. Any failure of
//! an emptying is `Unknown`, unless the store knows that nothing was removed and nothing will be. On
//! Cassandra, conditionally written rows may reappear after an emptying.
//!
//! **Added columns.** [`Store::add_columns`] adds regular columns after the existing columns of a table.
//! Existing rows have null in the new columns. Requests that use the old table definition still work, and see
//! and write only the columns that they know. Their replacing puts do not change the added columns, and their
//! deletions delete the whole row. A row exists even if only an added column has a value. A snapshot from
//! before the addition does not know the new table. Therefore an application of many processes can adopt a
//! schema with a new field one process at a time.
//!
//! **Scans.** Every row is in exactly one of the ranges of [`Snapshot::token_ranges`], and scans return it
//! once. A scan returns at most `limit` rows, perhaps fewer, perhaps none, with a position from which to
//! continue. Any later snapshot accepts the position. A scan returns a partition that has static cells and no
//! rows as one row with null clustering and regular cells, so that a copy by scanning misses nothing. On
//! request, reads of rows return the stamps and the remaining lifetimes of the rows.
//! [`Snapshot::scan_partitions`] returns each partition once, with its static cells. It returns partitions
//! that have a row and partitions that have only static cells. The partition key alone decides the range of a
//! partition, so that a set of ranges lists each partition once.
//!
//! **Counts.** If the store [counts rows](Limits::counts_rows), a new table may [ask for
//! counts](recto_model::table::TableOptions::counts_rows). Each transaction that changes rows then changes their
//! counts. [`Snapshot::estimate`] returns the number of rows of any slice at the moment of the snapshot, without
//! expired rows. A store without counts ignores the option.

pub mod attached;
pub mod check;
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod error;
#[cfg(feature = "testing")]
pub mod faults;
pub mod kind;
#[cfg(feature = "testing")]
pub mod memory;
pub mod metrics;
pub mod panics;
pub mod read;
pub mod tables;
#[cfg(feature = "testing")]
pub mod wrapper;
pub mod write;

#[cfg(any(feature = "conformance", feature = "testing"))]
mod random;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use recto_model::{Cells, Table};

pub use attached::AttachedStore;
pub use clock::{ClockGuard, ClockState, ClockStatus};
pub use error::{StoreError, StoreErrorKind};
pub use kind::StoreKind;
pub use metrics::{NodeMetrics, StoreMetrics};
pub use read::{
    BucketsRead, ColumnSet, ConsistencyLevel, PointRead, ReadOptions, RowBlock, RowEstimate, RowsRead,
    ScanPosition, ScanRead, Snapshot, TokenRange,
};
pub use tables::{Limits, TableOutcome, TableState};
pub use write::{
    Atomicity, Cas, CasCondition, CasOutcome, Mutation, Operation, PartitionWrite, RowAddress, RowsMet,
    Stamp, TransactionOutcome, WriteOptions, WriteOutcome,
};

/// Table store, usable as a trait object. Tasks share it as `Arc<dyn Store>`.
///
/// Every call has a deadline, given in its options. No call blocks its thread for long: the embedded store
/// answers cached reads inline and does long work on blocking threads.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the kind of the store.
    fn kind(&self) -> StoreKind;

    /// Returns a text with the kind and the location of the store, for messages: `embedded /var/data/shop`,
    /// `cassandra 10.0.0.1:9042/shop`. The text never contains a secret. Do not parse it.
    fn describe(&self) -> String;

    /// Returns the limits of one request, and the abilities of the store.
    fn limits(&self) -> Limits;

    /// Returns whether the store itself splits the partitions of tables that [ask for
    /// buckets](recto_model::table::TableOptions::buckets) into buckets (key ranges, each stored as a
    /// partition of its own). If not, a layer above the store does, and this store sees only the tables that
    /// contain the buckets.
    fn keeps_buckets(&self) -> bool {
        false
    }

    /// Returns a snapshot, through which the caller reads. On the embedded store all reads through one
    /// snapshot see the state at the same moment. On Cassandra each read sees the current data of its
    /// replicas.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError>;

    /// Checks that the consistency levels of the store let every process see the conditional writes of all
    /// others. Otherwise, returns an error: several processes must not change the same records.
    fn check_decisions(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the consistency level at which a read sees every conditional write that was decided before.
    /// `None`: a read at any level sees these writes.
    fn serial_consistency(&self) -> Option<ConsistencyLevel> {
        None
    }

    /// Applies mutations of one partition, all or none.
    async fn write(&self, write: PartitionWrite, options: WriteOptions) -> Result<WriteOutcome, StoreError>;

    /// Applies mutations of several partitions.
    ///
    /// - [`Atomicity::Logged`]: it applies all or none.
    /// - [`Atomicity::Each`]: each partition succeeds or fails alone, and `Unknown` means that any
    ///   subset may be applied.
    async fn write_many(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError>;

    /// Splits partitions into buckets (key ranges) if they would become too large, before the caller writes
    /// many rows. `sample` contains some of the planned rows, and each row of the sample represents `each`
    /// planned rows. The call does not write `sample`. A store that keeps no partitions in buckets does
    /// nothing.
    ///
    /// # Errors
    /// The store could not split the partitions within `timeout`. The caller may write the rows nevertheless.
    async fn make_room(
        &self,
        sample: Vec<PartitionWrite>,
        each: u32,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let _ = (sample, each, timeout);
        Ok(())
    }

    /// Changes one partition if its conditions hold. No layer below this trait retries the call: the caller
    /// must resolve an unknown outcome.
    async fn cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError>;

    /// Changes several partitions, of any tables, if the conditions of all `conditional` writes hold. The
    /// store applies all `conditional` and all `plain` writes, or nothing. No layer below this trait retries
    /// the call. A store that has no [transactions](Limits::transactions) rejects it.
    async fn transact(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        let _ = (conditional, plain, options);
        Ok(TransactionOutcome::Refused(check::no_transactions(self.kind())))
    }

    /// Creates a table. If a table with the same name, columns and options exists, the call does nothing.
    async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError>;

    /// Creates the tables of `tables` that are missing, in this order. The store never creates two tables
    /// with one of these names, because writes to one of the two would be lost. If the last table exists, all
    /// tables exist, and the call needs only one lookup. The columns of the tables have types that every
    /// store supports.
    ///
    /// # Errors
    /// The errors of [`create_table`](Self::create_table). `Unavailable` if a table is missing and some
    /// servers that must know it are unreachable. In this case nothing was created.
    async fn create_tables_once(&self, tables: &[Table]) -> Result<TableOutcome, StoreError> {
        for table in tables {
            if let TableOutcome::Unknown(error) = self.create_table(table).await? {
                return Ok(TableOutcome::Unknown(error));
            }
        }
        Ok(TableOutcome::Done)
    }

    /// Adds the columns that `table` has and `recorded` does not. Both are definitions of one table: clients
    /// use `recorded` so far. If no column is missing, the call does nothing. Existing rows have null in the
    /// added columns. Users of the old definition can continue.
    ///
    /// # Errors
    /// `Table` in these cases, with the difference in the message. The table is unchanged.
    ///
    /// - `table` is not `recorded` with further regular columns at its end.
    /// - No table of this name exists.
    /// - The existing table is not `table` without some of its last regular columns.
    ///
    /// A store that cannot add columns by compare-and-set differs in one case. An interrupted addition, or
    /// one that lost a race, may have left columns that neither `recorded` nor `table` has. These columns
    /// then no longer belong to the table.
    async fn add_columns(&self, recorded: &Table, table: &Table) -> Result<TableOutcome, StoreError>;

    /// Drops a table and its rows. If the table does not exist, the call does nothing.
    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError>;

    /// Removes all rows of a table without leaving tombstones. No layer below this trait sends the request
    /// twice. An emptying whose outcome is `Unknown` may take effect at any later time, and remove all rows
    /// that were written until then. After this outcome, write nothing to a table of this name that must not
    /// be lost.
    ///
    /// # Errors
    /// The store could not empty the table, and sent nothing. No row is or will be removed.
    async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError>;

    /// Returns the existing tables, sorted by name. If other programs may change tables, the list omits
    /// tables that are no longer valid tables of Recto.
    async fn list_tables(&self) -> Result<Vec<Table>, StoreError>;

    /// Compares the existing tables with the requested `tables`, one by one. The results say whether the
    /// store can correctly serve reads and writes that use `tables`. Options and other properties that do not
    /// affect rows and their order may differ. A table is as requested once the store accepts statements on
    /// it. If another process is creating the table, this call waits.
    async fn compare_tables(&self, tables: &[Table]) -> Result<Vec<TableState>, StoreError> {
        let there = self.list_tables().await?;
        Ok(tables.iter().map(|table| tables::state(&there, table)).collect())
    }

    /// Returns a value that changes when any process changes a table. The call is cheap enough for one call a
    /// second. `None`: only this process can change tables.
    async fn tables_version(&self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Describes to users how the store would read `slice` with these options: the CQL statements with their
    /// values, or the key range.
    fn describe_slice(&self, slice: &recto_model::Slice, options: &ReadOptions) -> Vec<String>;

    /// Returns the maximum number of sequential round trips of reading `slice` with these options, without
    /// repeated requests. 0 if the store sends no requests.
    fn expected_round_trips(&self, slice: &recto_model::Slice, options: &ReadOptions) -> u32 {
        let _ = (slice, options);
        0
    }

    /// Returns the guard that decides whether the local clock is trusted to delete data. `None`: the clock is
    /// always trusted.
    fn clock_guard(&self) -> Option<&dyn ClockGuard> {
        None
    }

    /// Returns the newest stamp of all plain writes that the store ever received, if the store records it.
    /// The stamp is not older than that of any acknowledged write, also after reopening. Clocks that give
    /// stamps start after it. Otherwise a clock that was set back would give new writes older stamps than
    /// existing data. `None`: no write was made yet, or the store does not know (Cassandra, where every
    /// client gives stamps).
    fn newest_stamp(&self) -> Option<Stamp> {
        None
    }

    /// Releases the resources of the store: its files and their lock, or its connections. Acknowledged writes
    /// are durable, and earlier calls have completed. Every later call returns an error of kind
    /// [`StoreErrorKind::Closed`], or `Refused`. A second `close` only waits, if the first one did not wait
    /// long enough. A store without such resources, for example one in memory, may continue to work.
    ///
    /// # Errors
    /// The store could not release its resources in time, because earlier reads have not ended. Another
    /// `close` releases them when the reads have ended.
    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns measurements of the servers that the store has used since it was opened. Sends no request.
    fn metrics(&self) -> StoreMetrics {
        StoreMetrics::default()
    }

    /// Checks that `partition` could be the key of a partition of `table` in this store. [`Limits`] checks
    /// the bytes of a single clustering or partition key.
    fn check_partition(&self, table: &Table, partition: &Cells) -> Result<(), StoreError> {
        self.limits().check_partition(table, partition)
    }
}
