//! Entries of views, as plain writes of a store.

use std::sync::Arc;

use recto_model::Cells;
use recto_protocol::views::collection::{KeyCells, ViewTable};
use recto_protocol::views::{Entry, EntryOperation, Version, operations};
use recto_store::{Limits, Mutation, Operation, PartitionWrite, Stamp};

/// How entries are written to a store.
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

    /// Puts an entry whole; none if it is of another number of columns than its view.
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
                // To clear a row for nulls saves tombstones where there are any. Elsewhere a put that takes no row's
                // place would conflict with a newer one that is there.
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

    /// Inserts the entry of a record that is never changed; none as [`put`](Self::put).
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

    /// Puts those cells of an entry that are known, and leaves the others as they are; none as [`put`](Self::put).
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

    /// Deletes an entry at a stamp; none if the key is of another number of columns than its view's.
    pub(crate) fn remove(view: &ViewTable, key: &KeyCells, stamp: Version) -> Option<PartitionWrite> {
        at(view, key, |clustering| vec![delete(clustering, stamp)])
    }
}

/// What is written to the row of a view that has this key; none if it is of another number of columns than the view's.
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
