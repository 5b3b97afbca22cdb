//! The seam between Recto and the places bytes live: a wide-column table store.
//!
//! [`Store`] is what the embedded store and Apache Cassandra both are: tables with partition and
//! clustering columns, read by [`Slice`](recto_model::Slice), written by [`Mutation`]s of one
//! partition, and changed conditionally by [`Cas`]. Whoever is above never sees the difference.
//!
//! | module | holds |
//! |---|---|
//! | [`read`] | [`Snapshot`], what a read returns, consistency, token scans |
//! | [`mod@write`] | mutations, conditions and their outcomes |
//! | [`kind`] | which store it is |
//! | [`tables`] | what making and dropping tables returns, limits |
//! | [`attached`] | tables of other keyspaces beside a store's own, read only |
//! | [`check`] | what every store refuses |
//! | [`error`] | [`StoreError`] |
//! | [`metrics`] | what a store has seen of its servers |
//! | [`panics`] | panics that become errors |
//! | `conformance` (feature) | the suite every store passes |
//! | `memory` (feature `testing`) | the reference store, in memory |
//! | `faults` (feature `testing`) | a wrapper that makes a store fail, by seed |
//! | `wrapper` (feature `testing`) | what passes on to another store what it does not do itself |
//!
//! # What every store does
//!
//! The conformance suite asserts each of these sentences.
//!
//! **Kinds.** What a store [says of itself](Store::describe) begins with the [name](StoreKind::name) of its kind.
//! Where deletions [leave no tombstones](Limits::leaves_tombstones), reads cross none.
//!
//! **Keys.** The cells of keys and edges are valid cells of their types in canonical form
//! ([`recto_model::cell::canonical_key`]); a store may take two keys as one by bytes or by order.
//! Wrong arities, null or oversize key parts, and an empty sole partition part are refused
//! ([`Limits`] checks all that a store must refuse; every store calls it first).
//!
//! **Slices.** A slice returns the first rows in its direction until it ends, has `limit` rows, or
//! has [`ReadOptions::max_bytes`] bytes (never before its first row). `exhausted` is true if and only if it
//! stopped because it ended: with exactly `limit` rows it is false, even if nothing is left. An inverted slice is
//! empty and exhausted. A partition with static cells and no rows has no rows.
//!
//! **Rows.** A put or patch makes the row exist, even with nulls only or with no columns; it then
//! exists until it is deleted or expires. Empty text or blob is a value; null is its absence.
//! Values come back byte for byte. Every row of a read carries its partition's static cells.
//!
//! **Stamps.** Of the writes to one row a store may compare stamps cell by cell (Cassandra) or row
//! by row; callers let stamps rise per row, and both then agree. A write or deletion older than
//! what a replacing put or a deletion found alive leaves it alone. At equal stamps a deletion of
//! what is there wins, and of two values the larger by bytes, cell by cell; a null in a replacing put
//! may leave a value of that very stamp, or not. A store need not keep
//! tombstones: after a deletion, a put that is older or of the same stamp may come back, or not.
//! A store that says which stamp is the [newest](Store::newest_stamp) does not forget it when it is closed.
//! Mutations of one [`PartitionWrite`] stand in any order and act by rising stamps; at equal stamps
//! deletions act last. A null in a replacing put, a patch or a static patch is a deletion of that cell.
//!
//! **Inserts.** A plain put that does not replace is an insert: it makes a row that is not there, which
//! one that was deleted or has expired is not. Where the row is there with the same values, in the columns that the
//! caller knows, it is done, and the row lives for the longer of the two times. Where another is there, a store
//! that [sees conflicts](Limits::sees_conflicts) answers [`WriteOutcome::Conflict`] and applies nothing of the call, or,
//! [row by row](WriteOptions::row_by_row), leaves it out and counts it; other stores merge the two by stamps, and
//! the time of the newer holds. Two inserts of one row in one call act one after the other. Inserts stand in no call
//! with deletions of ranges or partitions.
//!
//! **Deletions.** [`DeleteRange`](Operation::DeleteRange) leaves static cells;
//! [`DeletePartition`](Operation::DeletePartition) deletes them too. Deleting what is not there is done.
//!
//! **Expiry.** What a put or patch writes with a `ttl_seconds` is gone that many seconds later, by
//! the store's clock and to the second; a row put with one is gone whole. Callers keep one expiry per
//! row: a store may keep it per cell or per row.
//!
//! **Outcomes.** `Refused`: the request is over a limit or not allowed; nothing was sent. `Err`: the
//! call failed and nothing of it is or will be applied (no replica was reached, no such table).
//! `Unknown`: may be applied, now or at any later time; for [`Atomicity::Each`] any subset of the
//! partitions, each wholly or not at all; for [`Atomicity::Logged`] all or none. A write of no
//! mutations, or of no partitions, is `Done`.
//!
//! **Conditional writes.** A [`Cas`] puts, patches and deletes rows and patches statics; ranges and
//! partitions it may not delete, and one row it may write once. It touches only columns of kind
//! [`WriteKind::Cas`](recto_model::table::WriteKind), plain writes only the others; a replacing put
//! or a row deletion touches all regular columns, a partition deletion all columns. A column that
//! a non-replacing put leaves null is not touched. Conditional writes and serial reads of one partition are linearizable.
//!
//! **Transactions.** Where the store [has them](Limits::transactions), [`Store::transact`] applies conditional writes
//! and plain writes of any partitions and tables: all of them if all conditions hold, and else nothing, and
//! says what the column of each condition holds. A store that has none refuses every one. What is said of each
//! kind of write holds of those in it, except that a condition needs no mutation, and that conditions and both kinds
//! of writes are of columns of either kind. Of one partition there is at
//! most one conditional write; nothing is written row by row; an insert that conflicts leaves nothing applied.
//! Its writes, and their bytes, are limited. What a plain write puts keeps its stamp, and what a conditional one
//! puts is newer than what it meets. Transactions and conditional writes are linearizable. A transaction of
//! nothing is applied.
//!
//! **Deadlines.** A read whose timeout is zero fails with [`StoreErrorKind::Timeout`]; a write whose
//! timeout is zero is an `Err` or `Unknown` of that kind. No call outlives its timeout for long.
//!
//! **Tables.** Making an equal table again is done; another table of a name that is taken, and every
//! read or write of a table that is not there, is an error of kind [`StoreErrorKind::Table`] (a write
//! may be `Refused` with it). [`Store::list_tables`] returns tables equal to what was made, and
//! [`Store::compare_tables`] tells in what they differ from those asked for.
//!
//! **Emptying.** It takes one table, also what others wrote to columns that its caller does not know; the table itself
//! stays as it was made. What was acknowledged before it began is gone, what is written beside it may fail, and what
//! is written after one that is done stays. Any failure of an emptying is `Unknown`, unless it is known that nothing was
//! removed nor will be; on Cassandra what was written conditionally may be there again after one.
//!
//! **Added columns.** [`Store::add_columns`] puts regular columns after those of a table; rows that
//! are there have null in them. Whoever asks with the table as it was before goes on being served,
//! and sees and writes the columns that it knows: a replacing put leaves the added ones alone, a
//! deletion takes the row whole, and a row exists even if only an added column has a value. A snapshot
//! of a moment before the addition does not know the new table. So an
//! application of many processes changes to a schema with another field one process at a time.
//!
//! **Scans.** Every row is in one of the ranges of [`Snapshot::token_ranges`] and is returned once. A
//! scan returns at most `limit` rows, perhaps fewer, perhaps none, with a position to go on from,
//! which any later snapshot takes. A partition that has static cells and no rows is returned as one row with
//! null clustering and regular cells, so that a copy made by scanning misses nothing. Reads of
//! rows tell their stamps, and for how long they live, if asked. [`Snapshot::scan_partitions`] returns
//! each partition once, with its static cells: those that have a row, and those that have only static cells. A
//! range has the partitions that their keys say, so that a set of ranges lists each once.
//!
//! **Counts.** Where the store [counts partitions](Limits::counts_partitions), a table may
//! [ask for that](recto_model::table::TableOptions::counts_partitions) when it is made: each transaction that changes rows changes
//! the count of their partition, and [`Snapshot::count_partitions`] tells it, of the snapshot's moment. It is exact
//! unless rows or cells have ended; it counts those until they are written over. A store that does not count refuses such a table, and who
//! asks for the counts of another is refused. A table that is there does not begin to count: it is another table.

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
    BucketsRead, ColumnSet, ConsistencyLevel, PartitionCount, PointRead, ReadOptions, RowEstimate, RowsRead,
    ScanPosition, ScanRead, Snapshot, TokenRange,
};
pub use tables::{Limits, TableOutcome, TableState};
pub use write::{
    Atomicity, Cas, CasCondition, CasOutcome, Mutation, Operation, PartitionWrite, RowAddress, RowsMet,
    Stamp, TransactionOutcome, WriteOptions, WriteOutcome,
};

/// A place where bytes live. Object-safe; shared between tasks as `Arc<dyn Store>`.
///
/// Every call has a deadline, given in its options. No call blocks its thread for long: the
/// embedded store answers cached reads inline and does long work on blocking threads.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// What kind of store it is.
    fn kind(&self) -> StoreKind;

    /// What kind of store it is and where, for messages: `embedded /var/data/shop`,
    /// `cassandra 10.0.0.1:9042/shop`. Never holds a secret. Nothing is read out of it.
    fn describe(&self) -> String;

    /// What one request may hold.
    fn limits(&self) -> Limits;

    /// Whether it keeps partitions in buckets itself, where tables [ask for it](recto_model::table::TableOptions::buckets). Others
    /// are asked for tables as they lie in them.
    fn keeps_buckets(&self) -> bool {
        false
    }

    /// What to read through. On the embedded store all reads through one snapshot see the same moment;
    /// on Cassandra each read sees what its replicas have.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StoreError>;

    /// Refuses to change records that several processes change, where what one has decided another may not see, by the
    /// consistency levels that the store was opened with.
    fn check_decisions(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// At which level a read sees every conditional write that was decided before; none: at any.
    fn serial_consistency(&self) -> Option<ConsistencyLevel> {
        None
    }

    /// Applies mutations of one partition, all or none.
    async fn write(&self, write: PartitionWrite, options: WriteOptions) -> Result<WriteOutcome, StoreError>;

    /// Applies mutations of several partitions: all or none ([`Atomicity::Logged`]), or each for
    /// itself ([`Atomicity::Each`], where `Unknown` means that any subset may be applied).
    async fn write_many(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError>;

    /// Who is about to write many rows says what they will be, so that room is made for them where a partition would become too
    /// large: `sample` are some of them, each of which stands for `each` rows. Nothing of it is written. A store that keeps no
    /// partition in buckets does nothing.
    ///
    /// # Errors
    /// There is not as much room after `timeout`. The rows may be written all the same.
    async fn make_room(
        &self,
        sample: Vec<PartitionWrite>,
        each: u32,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let _ = (sample, each, timeout);
        Ok(())
    }

    /// Changes one partition if its conditions hold. Never retried below this trait: an unknown
    /// outcome is the caller's to settle.
    async fn cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError>;

    /// Changes several partitions, of any tables, if the conditions of all `conditional` writes hold: all of
    /// them and all `plain` writes are applied, or nothing. Never retried below this trait. A store that has
    /// no [transactions](Limits::transactions) refuses it.
    async fn transact(
        &self,
        conditional: Vec<Cas>,
        plain: Vec<PartitionWrite>,
        options: WriteOptions,
    ) -> Result<TransactionOutcome, StoreError> {
        let _ = (conditional, plain, options);
        Ok(TransactionOutcome::Refused(check::no_transactions(self.kind())))
    }

    /// Makes a table; nothing if one of the same columns and options is there.
    async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError>;

    /// Makes those of several tables that are not there, in this order, of none of which a second one is ever made under its
    /// name: what is written to them is not lost whoever else makes them. Where the last one is there nothing is to be done, and one look
    /// tells. Their columns are of types that any store has.
    ///
    /// # Errors
    /// As of [`create_table`](Self::create_table). `Unavailable`, with nothing done, where a table is to be made and not all
    /// servers that must know it are there.
    async fn create_tables_once(&self, tables: &[Table]) -> Result<TableOutcome, StoreError> {
        for table in tables {
            if let TableOutcome::Unknown(error) = self.create_table(table).await? {
                return Ok(TableOutcome::Unknown(error));
            }
        }
        Ok(TableOutcome::Done)
    }

    /// Adds to a table, which its users know as `recorded`, the columns that `table` has beyond it;
    /// nothing if it has none. Rows that are there read back with null in them, and those who still
    /// use the table as it was go on working.
    ///
    /// # Errors
    /// `Table`, naming the difference and leaving the table alone, if `table` is anything but
    /// `recorded` with further regular columns at its end, if there is no table of this name, or if
    /// it is anything but `table` without some of its last regular columns. A store that cannot add
    /// columns by comparing and setting does otherwise in one case: columns that neither `recorded`
    /// nor `table` has, which an addition left that was interrupted or lost to another, are no part
    /// of the table any more.
    async fn add_columns(&self, recorded: &Table, table: &Table) -> Result<TableOutcome, StoreError>;

    /// Drops a table and its rows; nothing if it is not there.
    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError>;

    /// Removes all rows of a table without leaving tombstones. It is sent once, never again below this trait.
    /// One whose outcome is `Unknown` may come at any later time and remove what was written before it:
    /// who must not lose that never writes to the table again, nor to another of its name.
    ///
    /// # Errors
    /// Nothing is removed, nor will be: the store knew before it sent anything that it could not be done.
    async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError>;

    /// The tables there are, sorted by name. Where others may change tables, those that are no tables of
    /// Recto's any more are left out.
    async fn list_tables(&self) -> Result<Vec<Table>, StoreError>;

    /// How the tables that are there compare with those asked for, one by one: whether reads and writes
    /// that say `tables` would be served rightly. Options, and what else does not matter to rows and
    /// their order, may be others than asked. A table is as asked when the store takes statements on it: if another process
    /// creates it just now, this waits.
    async fn compare_tables(&self, tables: &[Table]) -> Result<Vec<TableState>, StoreError> {
        let there = self.list_tables().await?;
        Ok(tables.iter().map(|table| tables::state(&there, table)).collect())
    }

    /// What changes when somebody changes a table, cheap enough to ask every second; `None` where only
    /// this process can.
    async fn tables_version(&self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// How it would read `slice` with these options, for people: the CQL statements it would send,
    /// with their values, or the key range.
    fn describe_slice(&self, slice: &recto_model::Slice, options: &ReadOptions) -> Vec<String>;

    /// How many round trips reading `slice` with these options takes at most, one after the other, unless a request is
    /// sent again; 0 where nothing is sent.
    fn expected_round_trips(&self, slice: &recto_model::Slice, options: &ReadOptions) -> u32 {
        let _ = (slice, options);
        0
    }

    /// Returns the guard that decides whether the local clock may delete. `None`: it always may.
    fn clock_guard(&self) -> Option<&dyn ClockGuard> {
        None
    }

    /// The newest stamp of all plain writes this store was ever given and keeps, if it keeps
    /// account of that: at least that of every acknowledged one, also after it was opened again. Whoever
    /// gives stamps by a clock begins after it, so that a clock that was set back does not make
    /// new writes older than what is there. `None`: no write was made yet, or (Cassandra, where every
    /// client gives stamps) the store cannot say.
    fn newest_stamp(&self) -> Option<Stamp> {
        None
    }

    /// Gives up what the store holds: its files and the lock on them, or its connections. What was
    /// acknowledged is durable, and what was asked for before is done. Every later call is an error of kind
    /// [`StoreErrorKind::Closed`], or `Refused`; a second `close` does nothing but wait, if the first did not
    /// wait long enough. A store that holds nothing of the kind, as one in memory, may go on as before.
    ///
    /// # Errors
    /// It could not be given up in time, because reads that began before have not ended: another `close` gives it up
    /// when they have.
    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// What it has seen of the servers it asks, since it was opened. Costs no request.
    fn metrics(&self) -> StoreMetrics {
        StoreMetrics::default()
    }

    /// Checks the bytes of one clustering or partition key against this store's limits is done by
    /// [`Limits`]; this checks that `partition` could be a partition of `table` here.
    fn check_partition(&self, table: &Table, partition: &Cells) -> Result<(), StoreError> {
        self.limits().check_partition(table, partition)
    }
}
