//! Writes to tables that are kept in buckets, and the other writes of the same call.

use recto_protocol::buckets::Unrouted;
use recto_store::{
    Atomicity, Mutation, Operation, PartitionWrite, Stamp, StoreError, StoreErrorKind, WriteOptions,
    WriteOutcome,
};

use super::tables::Bucketed;
use super::{BucketedStore, not_in_buckets};
use crate::error::{PiecesError, PiecesErrorKind};
use crate::place::Partition;
use crate::sending::refused;
use crate::writer::{Change, Ended, Group, MapFreshness, RowChange, RowWrite};

impl BucketedStore {
    /// Writes rows of tables that are kept in buckets to their buckets, together with writes to other
    /// tables.
    pub(super) async fn write_rows(
        &self,
        writes: Vec<PartitionWrite>,
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        let limits = self.inner.limits();
        if let Err(error) = limits.check_writes(&writes, atomicity == Atomicity::Logged) {
            return Ok(WriteOutcome::Refused(error));
        }
        let pieces = self.pieces().await?;
        let (mut rows, mut others) = (Vec::new(), Vec::new());
        for (number, write) in writes.into_iter().enumerate() {
            let Some(bucketed) = self.bucketed(&write.table)? else {
                others.push(write);
                continue;
            };
            let partition = pieces
                .partition(&bucketed.pieced, write.partition)
                .map_err(StoreError::from);
            let partition = match partition {
                Ok(partition) => partition,
                Err(error) => return Ok(WriteOutcome::Refused(error)),
            };
            let floor = bucketed.pieced.floor(self.shared.environment.now_micros())?;
            for mutation in write.mutations {
                match row(&bucketed, &partition, mutation) {
                    // Compare with the current retention bound here, because the bound that is
                    // stored in the partition may be older.
                    Ok(row) if row.is_below(floor.as_ref()) => {
                        if bucketed.pieced.leaves_out_late {
                            continue;
                        }
                        return Ok(WriteOutcome::Refused(refused(Unrouted::BelowFloor).into()));
                    }
                    Ok(row) => rows.push(RowWrite { number, ..row }),
                    Err(error) => return Ok(WriteOutcome::Refused(error)),
                }
            }
        }
        if rows.is_empty() && others.is_empty() {
            return Ok(WriteOutcome::Done);
        }
        let since = match options.looked_nanos {
            Some(nanos) => MapFreshness::Looked(nanos),
            None if options.relaxed => MapFreshness::Sent,
            None => MapFreshness::Stamps,
        };
        let group = Group {
            rows,
            others,
            atomicity,
            since,
            options,
        };
        let deadline = pieces.deadline(options.timeout);
        if options.relaxed {
            pieces.slow_down(&group, deadline).await;
        }
        loop {
            return match pieces.write_group(&group, deadline).await {
                Ok(Ended::Done) => Ok(WriteOutcome::Done),
                Ok(Ended::Moved { .. }) if group.may_go_on() => continue,
                Ok(Ended::Moved { is_sent: false }) => Err(moved()),
                Ok(Ended::Moved { is_sent: true }) => Ok(WriteOutcome::Unknown(moved())),
                Err(error) => outcome_of(error),
            };
        }
    }
}

/// Returns the outcome of a failed write: unknown, rejected, or an error.
fn outcome_of(error: PiecesError) -> Result<WriteOutcome, StoreError> {
    match error.kind() {
        PiecesErrorKind::OutcomeUnknown => Ok(WriteOutcome::Unknown(error.into())),
        PiecesErrorKind::InvalidArgument | PiecesErrorKind::BelowFloor => {
            Ok(WriteOutcome::Refused(error.into()))
        }
        _ => Err(error.into()),
    }
}

/// Returns the write of a row of the stored table that a mutation of the logical table requires.
pub(super) fn row(
    bucketed: &Bucketed,
    partition: &Partition,
    mutation: Mutation,
) -> Result<RowWrite, StoreError> {
    let logical = &bucketed.logical;
    let ttl_seconds = mutation.ttl_seconds;
    let (clustering, change) = match mutation.operation {
        Operation::Put {
            clustering,
            cells,
            replace,
        } => {
            let cells = Bucketed::with_row_cell(&cells);
            let put = Change::Put {
                cells,
                replace,
                ttl_seconds,
            };
            (clustering, put)
        }
        Operation::Patch {
            clustering,
            columns,
            cells,
        } => {
            let columns = columns.into_iter().map(Bucketed::regular).collect();
            let patch = Change::Patch {
                columns,
                cells,
                ttl_seconds,
            };
            (clustering, patch)
        }
        Operation::DeleteRow { clustering } => (clustering, Change::Delete),
        Operation::PatchStatic { .. } | Operation::DeleteRange { .. } | Operation::DeletePartition => {
            return Err(not_in_buckets(logical, "can only be written row by row"));
        }
    };
    // The default is never used, because an earlier check rejects a write without a timestamp.
    let stamp = mutation.stamp.unwrap_or(Stamp(0));
    Ok(RowWrite::new(
        partition.clone(),
        RowChange { clustering, change },
        stamp,
    )?)
}

#[cold]
fn moved() -> StoreError {
    let message = "rows were moved to another bucket during the write";
    StoreError::new(StoreErrorKind::Moved, message).with_hint("repeat the write with newer timestamps")
}

impl From<PiecesError> for StoreError {
    fn from(error: PiecesError) -> Self {
        let kind = match error.kind() {
            PiecesErrorKind::InvalidArgument | PiecesErrorKind::BelowFloor => StoreErrorKind::Invalid,
            PiecesErrorKind::Conflict => StoreErrorKind::Conflict,
            PiecesErrorKind::Unavailable => StoreErrorKind::Unavailable,
            PiecesErrorKind::Closed => StoreErrorKind::Closed,
            PiecesErrorKind::Timeout | PiecesErrorKind::OutcomeUnknown => StoreErrorKind::Timeout,
            PiecesErrorKind::Corrupt => StoreErrorKind::Corrupt,
            PiecesErrorKind::Store => error.of_store().unwrap_or(StoreErrorKind::Other),
        };
        let made = Self::new(kind, error.to_string());
        let made = match error.hint() {
            Some(hint) => made.with_hint(hint),
            None => made,
        };
        made.with_source(error)
    }
}
