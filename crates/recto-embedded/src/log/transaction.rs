//! Write transaction whose tables record every change. The writer has no other way to change anything.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::ops::{Bound, RangeBounds};

use recto_store::StoreError;
use redb::{
    AccessGuard, Cursor, CursorError, CursorMut, Database, Range, ReadableTable, ReadableTableMetadata,
    StorageError, Table, TableDefinition, TableStats, WriteTransaction,
};

use super::changes::Changes;
use crate::error::engine;

type Bytes = &'static [u8];
type Guard<'a> = AccessGuard<'a, Bytes>;

/// Write transaction of the engine that records its changes.
pub(crate) struct Transaction {
    inner: WriteTransaction,
    changes: RefCell<Changes>,
}

impl Transaction {
    pub(crate) fn begin(database: &Database) -> Result<Self, StoreError> {
        Self::with(database, Changes::recorded())
    }

    /// Begins a transaction whose changes need no record: that of a copy of a store, of a replay, or of the last
    /// checkpoint.
    pub(crate) fn begin_copy(database: &Database) -> Result<Self, StoreError> {
        Self::with(database, Changes::unrecorded())
    }

    fn with(database: &Database, changes: Changes) -> Result<Self, StoreError> {
        Ok(Self {
            inner: database.begin_write().map_err(engine)?,
            changes: RefCell::new(changes),
        })
    }

    /// Opens a table of the engine, and creates it if it does not exist.
    pub(crate) fn open(&self, name: &str) -> Result<WriteTable<'_>, StoreError> {
        let table = self
            .inner
            .open_table(TableDefinition::new(name))
            .map_err(engine)?;
        Ok(WriteTable {
            table,
            name: name.to_owned(),
            changes: &self.changes,
        })
    }

    /// Opens the table of table definitions. A transaction that changes the schema has no record.
    pub(crate) fn open_catalog(&self, name: &str) -> Result<WriteTable<'_>, StoreError> {
        self.changes.borrow_mut().give_up();
        self.open(name)
    }

    /// Deletes a table of the engine. A transaction that changes the schema has no record.
    pub(crate) fn delete_table(&self, name: &str) -> Result<(), StoreError> {
        self.changes.borrow_mut().give_up();
        let table: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new(name);
        self.inner.delete_table(table).map(drop).map_err(engine)
    }

    /// Puts a value that has no place in the record of this transaction, because the replay computes it.
    pub(super) fn put_unrecorded(&self, table: &str, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let table: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new(table);
        let mut table = self.inner.open_table(table).map_err(engine)?;
        table.insert(key, value).map_err(engine)?;
        Ok(())
    }

    /// Returns the engine's transaction and the recorded changes. All tables must be closed.
    pub(crate) fn into_parts(self) -> (WriteTransaction, Changes) {
        (self.inner, self.changes.into_inner())
    }

    /// Returns the names of the engine's tables.
    pub(super) fn table_names(&self) -> Result<Vec<String>, StoreError> {
        let tables = self.inner.list_tables().map_err(engine)?;
        Ok(tables
            .map(|table| redb::TableHandle::name(&table).to_owned())
            .collect())
    }

    pub(crate) fn changes(&self) -> std::cell::Ref<'_, Changes> {
        self.changes.borrow()
    }

    pub(crate) fn abort(self) -> Result<(), StoreError> {
        self.inner.abort().map_err(engine)
    }
}

/// Table of a write transaction, which records every change.
pub(crate) struct WriteTable<'t> {
    table: Table<'t, Bytes, Bytes>,
    name: String,
    changes: &'t RefCell<Changes>,
}

impl WriteTable<'_> {
    /// Puts a value, and returns the previous one.
    #[inline]
    pub(crate) fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Guard<'_>>, StorageError> {
        let mut changes = self.changes.borrow_mut();
        changes.put(&self.name, key, value);
        self.table.insert(key, value).inspect_err(|_| changes.give_up())
    }

    /// Removes a key, and returns its value.
    #[inline]
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<Option<Guard<'_>>, StorageError> {
        let mut changes = self.changes.borrow_mut();
        changes.remove(&self.name, key);
        self.table.remove(key).inspect_err(|_| changes.give_up())
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) -> Result<(), StorageError> {
        self.retain_in(.., |_, _| false)
    }

    /// Removes the entries of a key range for which `retains` returns false.
    pub(crate) fn retain_in<'a>(
        &mut self,
        range: impl RangeBounds<&'a [u8]> + 'a,
        mut retains: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StorageError> {
        let (changes, name) = (self.changes, &self.name);
        let retained = self.table.retain_in::<&[u8], _>(range, |key, value| {
            let stays = retains(key, value);
            if !stays {
                changes.borrow_mut().remove(name, key);
            }
            stays
        });
        retained.inspect_err(|_| changes.borrow_mut().give_up())
    }

    /// Returns a cursor at the gap before the first key that satisfies the lower bound.
    pub(crate) fn lower_bound_mut(&mut self, bound: Bound<&[u8]>) -> Result<WriteCursor<'_>, StorageError> {
        Ok(WriteCursor {
            cursor: self.table.lower_bound_mut(bound)?,
            name: &self.name,
            changes: self.changes,
        })
    }

    /// Returns a cursor at the gap after the last key.
    pub(crate) fn end_mut(&mut self) -> Result<WriteCursor<'_>, StorageError> {
        Ok(WriteCursor {
            cursor: self.table.upper_bound_mut(Bound::<&[u8]>::Unbounded)?,
            name: &self.name,
            changes: self.changes,
        })
    }
}

/// Cursor that inserts entries in key order, and records them.
pub(crate) struct WriteCursor<'c> {
    cursor: CursorMut<'c, Bytes, Bytes>,
    name: &'c str,
    changes: &'c RefCell<Changes>,
}

impl WriteCursor<'_> {
    /// Inserts an entry before the cursor.
    pub(crate) fn insert_before(&mut self, key: &[u8], value: &[u8]) -> Result<(), CursorError> {
        match self.cursor.insert_before(key, value) {
            Ok(()) => {
                self.changes.borrow_mut().put(self.name, key, value);
                Ok(())
            }
            Err(CursorError::UnorderedKey) => Err(CursorError::UnorderedKey),
            Err(error) => {
                self.changes.borrow_mut().give_up();
                Err(error)
            }
        }
    }

    /// Completes the inserts.
    pub(crate) fn close(self) -> Result<(), StorageError> {
        let changes = self.changes;
        self.cursor
            .close()
            .inspect_err(|_| changes.borrow_mut().give_up())
    }
}

impl ReadableTableMetadata for WriteTable<'_> {
    fn stats(&self) -> Result<TableStats, StorageError> {
        self.table.stats()
    }

    fn len(&self) -> Result<u64, StorageError> {
        self.table.len()
    }
}

impl ReadableTable<Bytes, Bytes> for WriteTable<'_> {
    fn get<'a>(&self, key: impl Borrow<&'a [u8]>) -> Result<Option<Guard<'_>>, StorageError> {
        self.table.get(key)
    }

    fn range<'a, KR>(&self, range: impl RangeBounds<KR> + 'a) -> Result<Range<'_, Bytes, Bytes>, StorageError>
    where
        KR: Borrow<&'a [u8]> + 'a,
    {
        self.table.range(range)
    }

    fn first(&self) -> Result<Option<(Guard<'_>, Guard<'_>)>, StorageError> {
        self.table.first()
    }

    fn last(&self) -> Result<Option<(Guard<'_>, Guard<'_>)>, StorageError> {
        self.table.last()
    }

    fn lower_bound<'a>(
        &self,
        bound: Bound<impl Borrow<&'a [u8]>>,
    ) -> Result<Cursor<'_, Bytes, Bytes>, StorageError> {
        self.table.lower_bound(bound)
    }

    fn upper_bound<'a>(
        &self,
        bound: Bound<impl Borrow<&'a [u8]>>,
    ) -> Result<Cursor<'_, Bytes, Bytes>, StorageError> {
        self.table.upper_bound(bound)
    }
}
