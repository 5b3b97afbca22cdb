//! Requests of a change of a record: the conditional write of the row, its mark, and its entries.

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

/// Returns the conditional write of a record's row. Its TTL is as long as the row must be kept.
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

/// Returns the write that marks the entries of a version as written.
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

/// Writes of a version to one partition of a view, as one request.
#[derive(Debug, Clone)]
pub(super) struct EntryWrite {
    pub(super) view: ViewNumber,
    write: PartitionWrite,
}

impl EntryWrite {
    /// Returns the request. Its puts get the TTL `ttl_seconds`.
    pub(super) fn request(&self, ttl_seconds: Option<u32>) -> PartitionWrite {
        let mut write = self.write.clone();
        for mutation in &mut write.mutations {
            mutation.ttl_seconds = ttl_seconds.filter(|_| !mutation.operation.deletes());
        }
        write
    }
}

/// Returns the writes of a version to the views. The writes of one partition form one request, so that readers never
/// see an entry twice or not at all while it moves within the partition.
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

/// Rejects a change that the store would always reject, before the row is written that requires the entries.
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
