//! Retention bound of each table: rows with an older time are deleted.
//!
//! There are two bounds. The *recorded* bound is stored, and reads hide the rows below it. The *due* bound
//! follows from `keep` and the local clock. It is recorded if it is higher and the clock is trusted. The
//! recorded bound is stored before a row below it is deleted, and never falls. If the clock is set back, or
//! the retention time becomes longer, reads still hide all rows below the bound. Otherwise they would show
//! some old rows but not the deleted ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recto_model::table::{ColumnKind, TableOptions, WriteKind};
use recto_model::{Cells, Column, Table, Type};
use recto_protocol::buckets::Floor;
use recto_store::{
    Atomicity, Operation, PartitionWrite, ReadOptions, Snapshot, Store, StoreError, StoreErrorKind,
    TableOutcome, TableState, TokenRange, WriteOptions, WriteOutcome,
};

use super::{RetainedStore, RetainedTable};
use crate::error::PiecesError;
use crate::limits::MAX_KNOWN_TABLES;
use crate::tables::mutation;

const NAME: &str = "recto_retention";
/// Index of the column with the bound, in a row that was read. The column follows the key.
const KEPT_FROM_MS: usize = 1;

/// Retention bounds of tables that the store has recorded. Rows beyond a bound are not kept.
pub(super) struct Bounds {
    table: Arc<Table>,
    /// Time from which the rows of each table are kept, in milliseconds since 1970.
    kept_from_ms: Mutex<HashMap<String, i64>>,
    /// Lock that a task holds while it raises a retention bound, so that no older bound replaces a
    /// newer one.
    raising: tokio::sync::Mutex<()>,
}

impl Bounds {
    /// Reads the recorded retention bounds from the store.
    pub(super) async fn read(store: &Arc<dyn Store>) -> Result<Self, StoreError> {
        let column = |name: &str, ty, kind| Column {
            name: name.into(),
            ty,
            kind,
        };
        let columns = vec![
            column("table_name", Type::Text, ColumnKind::Partition),
            column(
                "kept_from_ms",
                Type::BigInt,
                ColumnKind::Regular(WriteKind::Plain),
            ),
        ];
        let table = Table::new(NAME, columns, TableOptions::default()).expect("these columns are a table");
        let bounds = Self {
            table: Arc::new(table),
            kept_from_ms: Mutex::default(),
            raising: tokio::sync::Mutex::default(),
        };
        match store
            .compare_tables(std::slice::from_ref(&*bounds.table))
            .await?
            .pop()
        {
            Some(TableState::AsAsked) => bounds.read_all(&*store.snapshot()?).await?,
            Some(TableState::Other(difference)) => {
                let message = format!("table {NAME} has an unexpected form: {difference}");
                let error = StoreError::new(StoreErrorKind::Table, message);
                return Err(
                    error.with_hint("rename the table, which another program created, or restore the store")
                );
            }
            Some(TableState::Missing) | None => {}
        }
        Ok(bounds)
    }

    async fn read_all(&self, snapshot: &dyn Snapshot) -> Result<(), StoreError> {
        let (range, options) = (TokenRange::whole(), ReadOptions::default());
        let mut after = None;
        loop {
            let limit = MAX_KNOWN_TABLES as u32;
            let read = snapshot
                .scan(&self.table, &range, after.as_ref(), limit, &options)
                .await?;
            let mut bounds = self.lock();
            for row in read.rows.iter() {
                let name = row.get(0).and_then(|name| std::str::from_utf8(name).ok());
                let from_ms = row.get(KEPT_FROM_MS).and_then(|cell| cell.try_into().ok());
                if let Some((name, from_ms)) = name.zip(from_ms) {
                    bounds.insert(name.to_owned(), i64::from_be_bytes(from_ms));
                }
            }
            drop(bounds);
            match read.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, i64>> {
        self.kept_from_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn kept_from_ms(&self, name: &str) -> Option<i64> {
        self.lock().get(name).copied()
    }

    /// Returns the recorded retention bound of a table, or `None` if the table has none.
    pub(super) fn floor(&self, retained: &RetainedTable) -> Result<Option<Floor>, PiecesError> {
        let from_ms = self.kept_from_ms(retained.table.name());
        from_ms
            .map(|from_ms| retained.keep.floor_from(from_ms))
            .transpose()
    }

    fn write(&self, name: &str, operation: Operation, store: &RetainedStore) -> PartitionWrite {
        PartitionWrite {
            table: Arc::clone(&self.table),
            partition: std::iter::once(Some(name.as_bytes())).collect(),
            mutations: vec![mutation(operation, (store.shared.stamps)(), None)],
        }
    }
}

impl RetainedStore {
    /// Returns the retention bound below which a write may put no rows, or `None` if it may put any
    /// row. The result is the recorded bound, or the bound by the current time if that is higher
    /// and the local clock is trusted.
    pub(super) fn floor_of_writes(&self, retained: &RetainedTable) -> Result<Option<Floor>, PiecesError> {
        let recorded = self.shared.bounds.kept_from_ms(retained.table.name());
        let now = self
            .may_raise(retained)
            .then(|| retained.keep.kept_from_ms(self.shared.now_ms()));
        recorded
            .max(now)
            .map(|from_ms| retained.keep.floor_from(from_ms))
            .transpose()
    }

    /// Returns whether the local clock is trusted to decide that rows are too old.
    fn may_raise(&self, retained: &RetainedTable) -> bool {
        let guard = self.inner.clock_guard();
        guard.is_none_or(|guard| guard.allows(retained.keep.length()))
    }

    /// Returns whether the retention bound by the current time is higher than the recorded bound,
    /// and the local clock is trusted.
    pub(super) fn is_to_be_raised(&self, retained: &RetainedTable) -> bool {
        let from_ms = retained.keep.kept_from_ms(self.shared.now_ms());
        let recorded = self.shared.bounds.kept_from_ms(retained.table.name());
        recorded < Some(from_ms) && self.may_raise(retained)
    }

    /// Raises the recorded retention bound of a table to the bound by the current time, if the
    /// local clock is trusted. Does nothing if the definition `retained` is outdated.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(super) async fn raise(&self, retained: &Arc<RetainedTable>) -> Result<(), StoreError> {
        if !self.is_to_be_raised(retained) {
            return Ok(());
        }
        // Raise one bound at a time, so that no older bound is written over a newer one.
        let _raising = self.shared.bounds.raising.lock().await;
        if !self.is_to_be_raised(retained) || !self.is_current(retained) {
            return Ok(());
        }
        let (name, bounds) = (retained.table.name(), &self.shared.bounds);
        let from_ms = retained.keep.kept_from_ms(self.shared.now_ms());
        let tables = std::slice::from_ref(&*bounds.table);
        if let TableOutcome::Unknown(error) = self.inner.create_tables_once(tables).await? {
            return Err(error);
        }
        let cells: Cells = std::iter::once(Some(&from_ms.to_be_bytes()[..])).collect();
        let put = Operation::Put {
            clustering: Cells::new(),
            cells,
            replace: true,
        };
        self.record(bounds.write(name, put, self)).await?;
        let mut recorded = bounds.lock();
        let bound = recorded.entry(name.to_owned()).or_insert(from_ms);
        *bound = from_ms.max(*bound);
        Ok(())
    }

    /// Removes the retention bound of a table that was dropped.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(super) async fn forget_bound(&self, name: &str) -> Result<(), StoreError> {
        let bounds = &self.shared.bounds;
        if bounds.kept_from_ms(name).is_none() {
            return Ok(());
        }
        self.record(bounds.write(name, Operation::DeletePartition, self))
            .await?;
        bounds.lock().remove(name);
        Ok(())
    }

    async fn record(&self, write: PartitionWrite) -> Result<(), StoreError> {
        let written = self
            .inner
            .write_many(vec![write], Atomicity::Each, WriteOptions::default())
            .await?;
        match written {
            WriteOutcome::Done => Ok(()),
            WriteOutcome::Counted(met) if met.conflicts.is_empty() => Ok(()),
            WriteOutcome::Unknown(error) | WriteOutcome::Refused(error) => Err(error),
            other => {
                let message = format!("a retention bound was not recorded: {other:?}");
                Err(StoreError::new(StoreErrorKind::Other, message))
            }
        }
    }
}
