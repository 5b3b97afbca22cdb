//! Requests of a change of a record: the conditional write of the row, the mark that its entries
//! are written, and the entries.

use std::sync::Arc;

use recto_model::Cells;
use recto_protocol::views::stored::encode_tokens;
use recto_protocol::views::write::Conditional;
use recto_protocol::views::{
    BaseTable, Entries, KeyCells, StoredError, Version, ViewNumber, ViewedCollection,
};
use recto_store::{
    Cas, CasCondition, Limits, Mutation, Operation, PartitionWrite, RowAddress, Stamp, Store, StoreError,
};

use super::common::Known;
use crate::entries::EntryWrites;

/// Returns the conditional write of a record's row. `ttl_seconds` is the time for which the row
/// must be kept.
pub(super) fn conditional(
    known: &Known,
    key: &Cells,
    asked: &Conditional<ViewedCollection>,
    ttl_seconds: Option<u32>,
) -> Result<Cas, StoredError> {
    let patch = Operation::Patch {
        clustering: Cells::new(),
        columns: known.base.conditional_columns(),
        cells: known.base.conditional_cells(&asked.row)?,
    };
    Ok(Cas {
        table: Arc::clone(known.base.table()),
        partition: key.clone(),
        conditions: vec![CasCondition {
            row: RowAddress::Row(Cells::new()),
            column: BaseTable::TOKENS,
            expected: asked.expected.as_ref().map(encode_tokens),
        }],
        mutations: vec![Mutation {
            operation: patch,
            stamp: None,
            ttl_seconds,
        }],
    })
}

/// Returns the write that marks in the base row that all view entries of a version of the record
/// are written.
pub(super) fn mark(known: &Known, key: &Cells, version: Version, ttl_seconds: Option<u32>) -> PartitionWrite {
    let patch = Operation::Patch {
        clustering: Cells::new(),
        columns: vec![BaseTable::DONE],
        cells: BaseTable::done_cell(version),
    };
    PartitionWrite {
        table: Arc::clone(known.base.table()),
        partition: key.clone(),
        mutations: vec![Mutation {
            operation: patch,
            stamp: Some(Stamp(version.0)),
            ttl_seconds,
        }],
    }
}

/// Request that writes the view entries of one version of a record, in one partition of a view.
#[derive(Debug, Clone)]
pub(super) struct EntryWrite {
    pub(super) view: ViewNumber,
    write: PartitionWrite,
}

impl EntryWrite {
    /// Returns the request, with a TTL for the entries that it puts: they expire after
    /// `ttl_seconds`. `None`: they never expire.
    pub(super) fn request(&self, ttl_seconds: Option<u32>) -> PartitionWrite {
        let mut write = self.write.clone();
        for mutation in &mut write.mutations {
            mutation.ttl_seconds = ttl_seconds.filter(|_| !mutation.operation.deletes());
        }
        write
    }
}

/// Returns the requests that write the view entries of one version of a record. All entries in one
/// partition are in one request. If an entry moves within the partition, readers then never see it
/// twice or not at all.
pub(super) fn entry_writes(
    limits: Limits,
    views: &ViewedCollection,
    entries: &Entries<KeyCells, Cells>,
) -> Vec<EntryWrite> {
    let made = EntryWrites::new(limits);
    let removals = entries.removals.iter().filter_map(|(key, stamp)| {
        let write = EntryWrites::remove(views.view(key.view)?, &key.key, *stamp)?;
        Some(EntryWrite {
            view: key.view,
            write,
        })
    });
    let puts = entries.puts.iter().filter_map(|entry| {
        let view = entry.key.view;
        let write = made.put(views.view(view)?, entry, entries.version, None)?;
        Some(EntryWrite { view, write })
    });
    let mut writes: Vec<EntryWrite> = Vec::new();
    for added in removals.chain(puts) {
        let is_of_one = |there: &&mut EntryWrite| {
            there.view == added.view && there.write.partition == added.write.partition
        };
        match writes.iter_mut().find(is_of_one) {
            Some(there) => there.write.mutations.extend(added.write.mutations),
            None => writes.push(added),
        }
    }
    writes
}

/// Rejects a change whose requests exceed limits of the store. The check precedes the write of the
/// row, because a written row requires that its view entries can be written, too.
pub(super) fn check(store: &Arc<dyn Store>, cas: &Cas, writes: &[EntryWrite]) -> Result<(), StoreError> {
    let limits = store.limits();
    store.check_partition(&cas.table, &cas.partition)?;
    limits.check_cas(cas)?;
    for EntryWrite { write, .. } in writes {
        store.check_partition(&write.table, &write.partition)?;
        limits.check_write(write)?;
    }
    Ok(())
}
