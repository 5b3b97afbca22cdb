//! Writes from which the rows below the retention bound are removed.

use std::sync::Arc;

use recto_model::Table;
use recto_protocol::buckets::Unrouted;
use recto_store::{Mutation, Operation, RowsMet, StoreError, WriteOptions, WriteOutcome};

use super::RetainedStore;
use crate::keys;
use crate::sending::refused;

/// Result of the removal of late rows (rows below the retention bound) from writes.
pub(super) enum Filtered {
    /// A row is below the retention bound of a table that rejects such rows.
    Late,
    Kept(Numbers),
}

/// Indexes, in the caller's request, of the mutations that remain after late rows were removed.
#[derive(Default)]
pub(super) struct Numbers {
    /// Original index of each remaining mutation. `None` if no mutation was removed.
    of_call: Option<Vec<usize>>,
}

impl Filtered {
    /// Removes late puts and patches from the mutations of tables that skip late rows. Returns
    /// `Late` if a table that rejects late rows gets such a put or patch.
    pub(super) fn new<'w>(
        store: &RetainedStore,
        writes: impl Iterator<Item = (&'w Arc<Table>, &'w mut Vec<Mutation>)>,
    ) -> Result<Self, StoreError> {
        let (mut of_call, mut number, mut is_some_skipped) = (Vec::new(), 0, false);
        for (table, mutations) in writes {
            let Some(retained) = store.retained(table)? else {
                of_call.extend(number..number + mutations.len());
                number += mutations.len();
                continue;
            };
            let floor = store.floor_of_writes(&retained)?;
            let mut kept = Vec::with_capacity(mutations.len());
            for mutation in mutations.drain(..) {
                let is_put = matches!(
                    mutation.operation,
                    Operation::Put { .. } | Operation::Patch { .. }
                );
                let row = mutation.operation.row().filter(|_| is_put);
                let is_late = match (row, &floor) {
                    (Some(row), Some(floor)) => floor.hides(&keys::key_of(table, row.as_row())?),
                    _ => false,
                };
                if !is_late {
                    of_call.push(number);
                    kept.push(mutation);
                } else if retained.leaves_out_late {
                    is_some_skipped = true;
                } else {
                    return Ok(Self::Late);
                }
                number += 1;
            }
            *mutations = kept;
        }
        Ok(Self::Kept(Numbers {
            of_call: is_some_skipped.then_some(of_call),
        }))
    }
}

impl Numbers {
    pub(super) fn has_skipped(&self) -> bool {
        self.of_call.is_some()
    }

    /// Returns the index that a remaining mutation had in the caller's request.
    pub(super) fn before(&self, number: usize) -> usize {
        let of_call = self.of_call.as_ref().and_then(|of_call| of_call.get(number));
        of_call.copied().unwrap_or(number)
    }

    /// Returns the outcome with indexes of the caller's request.
    pub(super) fn outcome(&self, outcome: WriteOutcome) -> WriteOutcome {
        match outcome {
            WriteOutcome::Conflict(number) => WriteOutcome::Conflict(self.before(number)),
            WriteOutcome::Counted(mut met) => {
                let conflicts = met.conflicts.iter_mut();
                conflicts.for_each(|number| *number = self.before(*number));
                WriteOutcome::Counted(met)
            }
            other => other,
        }
    }
}

/// Returns the outcome of a write of which all mutations were removed.
pub(super) fn nothing_written(options: &WriteOptions) -> WriteOutcome {
    if options.row_by_row {
        WriteOutcome::Counted(RowsMet::default())
    } else {
        WriteOutcome::Done
    }
}

/// Returns the error of a put below the retention bound.
#[cold]
pub(super) fn below_bound() -> StoreError {
    refused(Unrouted::BelowFloor).into()
}
