//! The seam between Recto and the places bytes live: a wide-column table store.
//!
//! [`Store`] is what the embedded store and Apache Cassandra both are: tables with partition and
//! clustering columns, read by [`Slice`](recto_model::Slice), written by [`Mutation`]s of one
//! partition, and changed conditionally by [`Cas`]. Whoever is above never sees the difference.
//!
//! | module | holds |
//! |---|---|
//! | [`read`] | [`ReadView`], what a read returns, consistency, token scans |
//! | [`write`] | mutations, conditions and their outcomes |
//! | [`tables`] | what making and dropping tables returns, limits |
//! | [`error`] | [`StoreError`] |

pub mod error;
pub mod read;
pub mod tables;
pub mod write;

use std::sync::Arc;

use async_trait::async_trait;
use recto_model::{Cells, Table};

pub use error::{StoreError, StoreErrorKind};
pub use read::{
    ConsistencyLevel, PointRead, ReadOptions, ReadView, RowsRead, ScanPosition, ScanRead, TokenRange,
};
pub use tables::{Limits, TableOutcome};
pub use write::{
    Atomicity, Cas, CasCondition, CasOutcome, Mutation, Operation, PartitionWrite, RowAddress, Stamp,
    WriteOptions, WriteOutcome,
};

/// A place where bytes live. Object-safe; shared between tasks as `Arc<dyn Store>`.
///
/// Every call has a deadline, given in its options. No call blocks its thread for long: the
/// embedded store answers cached reads inline and does long work on blocking threads.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// What kind of store it is and where, for messages: `embedded /var/data/shop`,
    /// `cassandra 10.0.0.1:9042/shop`. Never holds a secret.
    fn describe(&self) -> String;

    /// What one request may hold.
    fn limits(&self) -> Limits;

    /// A view to read through. On the embedded store all reads through one view see one snapshot;
    /// on Cassandra each read sees what its replicas have.
    fn view(&self) -> Result<Arc<dyn ReadView>, StoreError>;

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

    /// Changes one partition if its conditions hold. Never retried below this trait: an unknown
    /// outcome is the caller's to settle.
    async fn cas(&self, cas: Cas, options: WriteOptions) -> Result<CasOutcome, StoreError>;

    /// Makes a table; nothing if one of the same columns and options is there.
    async fn create_table(&self, table: &Table) -> Result<TableOutcome, StoreError>;

    /// Drops a table and its rows; nothing if it is not there.
    async fn drop_table(&self, name: &str) -> Result<TableOutcome, StoreError>;

    /// Removes all rows of a table without leaving tombstones.
    async fn empty_table(&self, table: &Table) -> Result<TableOutcome, StoreError>;

    /// The tables there are, sorted by name.
    async fn list_tables(&self) -> Result<Vec<Table>, StoreError>;

    /// How it would read `slice`, for people: the CQL statements it would send, or the key range.
    fn describe_slice(&self, slice: &recto_model::Slice) -> Vec<String>;

    /// Checks the bytes of one clustering or partition key against this store's limits is done by
    /// [`Limits`]; this checks that `partition` could be a partition of `table` here.
    fn check_partition(&self, table: &Table, partition: &Cells) -> Result<(), StoreError> {
        self.limits().check_partition(table, partition)
    }
}
