//! Conversion of view entries (rows of a view) to writes of a store.

use std::sync::Arc;

use recto_model::Cells;
use recto_protocol::views::collection::{KeyCells, ViewTable};
use recto_protocol::views::{Entry, EntryOperation, Version, operations};
use recto_store::{Limits, Mutation, Operation, PartitionWrite, Stamp};

/// Converts view entries (rows of views) to writes. The writes depend on whether the store keeps tombstones
/// (markers of deleted rows).
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryWrites {
    leaves_tombstones: bool,
}

impl EntryWrites {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            leaves_tombstones: limits.leaves_tombstones,
        }
    }

    /// Returns the write that puts a whole entry. Returns `None` if the entry does not have the number of
    /// columns of its view.
    pub(crate) fn put(
        self,
        view: &ViewTable,
        entry: &Entry<KeyCells, Cells>,
        version: Version,
        ttl_seconds: Option<u32>,
    ) -> Option<PartitionWrite> {
        at(view, &entry.key.key, |clustering| {
            let cells = view.regular_cells(entry, version);
            let put = |replace| Operation::Put {
                clustering: clustering.clone(),
                cells: cells.clone(),
                replace,
            };
            if !self.leaves_tombstones {
                // A store without tombstones needs only a put that replaces the row. Without `replace`, the
                // put would conflict with a newer row.
                return vec![mutation(put(true), version, ttl_seconds)];
            }
            let operations = operations(entry, version).into_iter();
            let mutations = operations.map(|operation| match operation {
                EntryOperation::Delete(stamp) => delete(clustering.clone(), stamp),
                EntryOperation::Put { stamp, replaces, .. } => mutation(put(replaces), stamp, ttl_seconds),
            });
            mutations.collect()
        })
    }

    /// Returns the write that inserts the entry of a record that never changes. Returns `None` if the entry
    /// does not have the number of columns of its view.
    pub(crate) fn insert(
        view: &ViewTable,
        entry: &Entry<KeyCells, Cells>,
        version: Version,
        ttl_seconds: Option<u32>,
    ) -> Option<PartitionWrite> {
        at(view, &entry.key.key, |clustering| {
            let insert = Operation::Put {
                clustering,
                cells: view.regular_cells(entry, version),
                replace: false,
            };
            vec![mutation(insert, version, ttl_seconds)]
        })
    }

    /// Returns the write that sets the cells of an entry whose fields `is_known` accepts, and keeps the other
    /// cells. Returns `None` if the entry does not have the number of columns of its view.
    pub(crate) fn patch(
        view: &ViewTable,
        entry: &Entry<KeyCells, Cells>,
        version: Version,
        (ttl_seconds, is_known): (Option<u32>, impl Fn(usize) -> bool),
    ) -> Option<PartitionWrite> {
        at(view, &entry.key.key, |clustering| {
            let (columns, cells) = (view.known_columns(is_known), view.regular_cells(entry, version));
            let patch = Operation::Patch {
                clustering,
                cells: columns.iter().map(|&column| cells.get(column.into())).collect(),
                columns,
            };
            vec![mutation(patch, version, ttl_seconds)]
        })
    }

    /// Returns the write that deletes an entry at the write timestamp `stamp`. Returns `None` if the key does
    /// not have the number of columns of the view's key.
    pub(crate) fn remove(view: &ViewTable, key: &KeyCells, stamp: Version) -> Option<PartitionWrite> {
        at(view, key, |clustering| vec![delete(clustering, stamp)])
    }
}

/// Returns the write that applies `mutations` to the row of a view with the given key. Returns `None` if the
/// key does not have the number of columns of the view's key.
fn at(
    view: &ViewTable,
    key: &KeyCells,
    mutations: impl FnOnce(Cells) -> Vec<Mutation>,
) -> Option<PartitionWrite> {
    let (partition, clustering) = key.in_table(view.table())?;
    Some(PartitionWrite {
        table: Arc::clone(view.table()),
        partition,
        mutations: mutations(clustering),
    })
}

fn delete(clustering: Cells, stamp: Version) -> Mutation {
    mutation(Operation::DeleteRow { clustering }, stamp, None)
}

fn mutation(operation: Operation, stamp: Version, ttl_seconds: Option<u32>) -> Mutation {
    Mutation {
        operation,
        stamp: Some(Stamp(stamp.0)),
        ttl_seconds,
    }
}
