//! Plain writes with write timestamps.
//!
//! The mutations of one partition are sent as one statement or one unlogged batch, which Cassandra
//! applies as one mutation. Every statement contains its write timestamp, so repeating the
//! statement changes nothing. Therefore all statements are marked as idempotent.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use recto_model::{Bound, Cells, Table, Type};
use recto_store::{
    Atomicity, Mutation, Operation, PartitionWrite, Stamp, StoreError, StoreErrorKind, WriteOptions,
    WriteOutcome,
};
use scylla::statement::batch::BatchType;

use crate::client::{Call, Client, Prepared, Settings};
use crate::cql::{Insert, RegularColumns, Request, Statements};
use crate::error::{Effect, Failure};
use crate::pace::Sending;
use crate::pieces::{Piece, TupleBound, pieces};
use crate::values::Values;

/// Maximum number of statements of a batch; the protocol allows no more.
const MAX_BATCH_STATEMENTS: usize = u16::MAX as usize;
/// Maximum number of bytes of one batch of `write_many`, which combines writes of one partition. A
/// load of many rows into one partition thus needs one request per batch, not one per row.
const GROUP_BYTES: usize = 32 << 10;
/// Maximum number of statements of one partition that `write_many` puts into one batch.
const GROUP_STATEMENTS: usize = 128;

impl Client {
    pub(crate) async fn write(
        &self,
        write: &PartitionWrite,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        let checked = self
            .check_partition(&write.table, &write.partition)
            .and_then(|()| self.limits.check_write(write))
            .and_then(|()| check_statements(write));
        if let Err(error) = checked {
            return Ok(WriteOutcome::Refused(error));
        }
        let settings = self.settings(options.consistency, options.timeout);
        settings.deadline.remaining()?;
        let sent = self.send_writes(&[write], BatchType::Unlogged, &settings).await;
        outcome(sent)
    }

    pub(crate) async fn write_many(
        &self,
        writes: &[PartitionWrite],
        atomicity: Atomicity,
        options: WriteOptions,
    ) -> Result<WriteOutcome, StoreError> {
        let logged = atomicity == Atomicity::Logged;
        let checked = writes
            .iter()
            .try_for_each(|write| self.check_partition(&write.table, &write.partition))
            .and_then(|()| self.limits.check_writes(writes, logged))
            .and_then(|()| writes.iter().try_for_each(check_statements));
        if let Err(error) = checked {
            return Ok(WriteOutcome::Refused(error));
        }
        let settings = self.settings(options.consistency, options.timeout);
        settings.deadline.remaining()?;
        if logged {
            let writes: Vec<&PartitionWrite> = writes.iter().collect();
            return outcome(self.send_writes(&writes, BatchType::Logged, &settings).await);
        }
        self.write_each(writes, &settings).await
    }

    /// Writes groups of one partition each, several groups concurrently. After the first failure,
    /// starts no more groups.
    async fn write_each(
        &self,
        writes: &[PartitionWrite],
        settings: &Settings,
    ) -> Result<WriteOutcome, StoreError> {
        let groups = group(writes);
        let mut waiting = groups.iter();
        let mut sending = FuturesUnordered::new();
        let mut any_done = false;
        let mut first_failure: Option<Failure> = None;
        loop {
            while sending.is_empty() || self.pace.has_room() {
                let Some(group) = waiting.next() else { break };
                let room = self.pace.send();
                sending.push(self.send_paced(group, settings, room));
            }
            match sending.next().await {
                None => break,
                Some(Ok(())) => any_done = true,
                // Drop the requests in flight: the effect of these requests, and of the whole call,
                // is then unknown.
                Some(Err(failure)) => {
                    first_failure = Some(failure);
                    break;
                }
            }
        }
        let Some(mut failure) = first_failure else {
            return Ok(WriteOutcome::Done);
        };
        if any_done || groups.len() > 1 {
            failure.effect = Effect::Unknown;
        }
        outcome::<()>(Err(failure))
    }

    async fn send_paced(
        &self,
        group: &[&PartitionWrite],
        settings: &Settings,
        room: Sending<'_>,
    ) -> Result<(), Failure> {
        let now_nanos = || self.environment.monotonic_nanos();
        let sent_at_nanos = now_nanos();
        let sent = self.send_writes(group, BatchType::Unlogged, settings).await;
        let is_well = sent.as_ref().is_ok_and(|attempts| *attempts <= 1);
        self.pace.note(sent_at_nanos, now_nanos(), is_well);
        drop(room);
        sent.map(drop)
    }

    /// Sends all mutations of `writes` as one statement or one batch. Returns the number of attempts.
    async fn send_writes(
        &self,
        writes: &[&PartitionWrite],
        batch_type: BatchType,
        settings: &Settings,
    ) -> Result<u32, Failure> {
        let mut statements: Vec<(Arc<Prepared>, Values)> = Vec::new();
        for write in writes {
            let (keyspace, table) = (&self.config.keyspace, &write.table);
            let clears = write.mutations.iter().any(clears_cells)
                && self.knows_all_columns(table, &settings.deadline).await;
            for mutation in &write.mutations {
                let requests = if clears && let Some(stamp) = stamp_before(mutation) {
                    replacing_requests(keyspace, table, &write.partition, mutation, stamp)
                } else {
                    requests(keyspace, table, &write.partition, mutation)
                };
                for request in requests {
                    let prepared = self
                        .prepare(&request, &settings.deadline)
                        .await
                        .map_err(|error| Failure::not_sent(error.with_table(table.name())))?;
                    statements.push((prepared, request.values));
                }
            }
        }
        let call = match statements.as_slice() {
            [] => return Ok(0),
            [(prepared, values)] => Call::Statement(prepared, values),
            more => Call::Batch(batch_type, more),
        };
        let sent = self.send(call, settings).await;
        sent.map(|answer| answer.attempts).map_err(|failure| Failure {
            error: failure.error.with_table(writes[0].table.name()),
            ..failure
        })
    }
}

/// Rejects a write that may need more statements than a batch can have. (A logged batch reaches its
/// limit of bytes much earlier.)
fn check_statements(write: &PartitionWrite) -> Result<(), StoreError> {
    let most: usize = write
        .mutations
        .iter()
        .map(|mutation| match mutation.operation {
            // Each clustering column can add one range at each bound, and one more range is between
            // the bounds. A range without bounds needs two statements.
            Operation::DeleteRange { .. } => 2 * write.table.clustering().len() + 2,
            // A put that replaces the row deletes the existing row first.
            Operation::Put { replace: true, .. } => 2,
            _ => 1,
        })
        .sum();
    if most > MAX_BATCH_STATEMENTS {
        return Err(StoreError::new(
            StoreErrorKind::Invalid,
            format!(
                "the write to table {} has up to {most} statements; a batch has at most \
                 {MAX_BATCH_STATEMENTS}",
                write.table.name()
            ),
        )
        .with_hint("write smaller batches"));
    }
    Ok(())
}

/// Converts the result of sending a plain write to its outcome.
fn outcome<T>(sent: Result<T, Failure>) -> Result<WriteOutcome, StoreError> {
    match sent {
        Ok(_) => Ok(WriteOutcome::Done),
        Err(failure) if failure.effect == Effect::Unknown => Ok(WriteOutcome::Unknown(failure.error)),
        Err(failure) => Err(failure.error),
    }
}

/// Groups the writes by partition and table, in order; each group has a maximum size.
fn group(writes: &[PartitionWrite]) -> Vec<Vec<&PartitionWrite>> {
    struct Open {
        index: usize,
        bytes: usize,
        statements: usize,
    }
    let mut groups: Vec<Vec<&PartitionWrite>> = Vec::with_capacity(writes.len());
    let mut open: HashMap<(&str, &Cells), Open> = HashMap::with_capacity(writes.len());
    for write in writes {
        let (bytes, statements) = (write.byte_len(), write.mutations.len());
        let key = (write.table.name(), &write.partition);
        if let Some(group) = open.get_mut(&key)
            && group.bytes + bytes <= GROUP_BYTES
            && group.statements + statements <= GROUP_STATEMENTS
        {
            group.bytes += bytes;
            group.statements += statements;
            groups[group.index].push(write);
            continue;
        }
        let index = groups.len();
        groups.push(vec![write]);
        open.insert(
            key,
            Open {
                index,
                bytes,
                statements,
            },
        );
    }
    groups
}

/// Returns whether a mutation replaces a row and sets some of its columns to null.
fn clears_cells(mutation: &Mutation) -> bool {
    match &mutation.operation {
        Operation::Put { cells, replace, .. } => *replace && cells.iter().any(|cell| cell.is_none()),
        _ => false,
    }
}

/// Returns the write timestamp just before that of a mutation that [clears cells](clears_cells).
fn stamp_before(mutation: &Mutation) -> Option<Stamp> {
    let stamp = mutation.stamp.filter(|_| clears_cells(mutation))?;
    // Cassandra uses the minimum number for a missing timestamp, so the earlier timestamp must be
    // above it.
    let before = stamp.0.checked_sub(1).filter(|before| *before > i64::MIN);
    before.map(Stamp)
}

/// Returns the statements of a put that [clears cells](clears_cells). They delete the row at the
/// write timestamp `before`, and set the cells that are not null. This writes one tombstone instead
/// of one for each null. Cassandra does not count this tombstone when it reads the row.
fn replacing_requests<'t>(
    keyspace: &'t str,
    table: &'t Table,
    partition: &Cells,
    mutation: &Mutation,
    before: Stamp,
) -> Vec<Request<'t>> {
    let Operation::Put {
        clustering, cells, ..
    } = &mutation.operation
    else {
        return requests(keyspace, table, partition, mutation);
    };
    let step = |operation, stamp, ttl_seconds| Mutation {
        operation,
        stamp,
        ttl_seconds,
    };
    let deletion = Operation::DeleteRow {
        clustering: clustering.clone(),
    };
    let put = Operation::Put {
        clustering: clustering.clone(),
        cells: cells.clone(),
        replace: false,
    };
    let steps = [
        step(deletion, Some(before), None),
        step(put, mutation.stamp, mutation.ttl_seconds),
    ];
    let each = steps.iter();
    each.flat_map(|step| requests(keyspace, table, partition, step))
        .collect()
}

/// Returns the CQL statements that apply one mutation: one, or several for a range of rows.
pub(crate) fn requests<'t>(
    keyspace: &'t str,
    table: &'t Table,
    partition: &Cells,
    mutation: &Mutation,
) -> Vec<Request<'t>> {
    let statements = Statements::new(keyspace, table);
    let stamp = mutation.stamp.map(|stamp| stamp.0);
    let insert = |clustering, columns, cells, nulls| {
        let insert = Insert {
            clustering,
            columns,
            cells,
            nulls,
            stamp,
            ttl_seconds: mutation.ttl_seconds,
        };
        vec![statements.insert(&insert, partition)]
    };
    match &mutation.operation {
        Operation::Put {
            clustering,
            cells,
            replace,
        } => insert(
            clustering,
            RegularColumns::All(table.regular().len() as u16),
            cells,
            *replace,
        ),
        Operation::Patch {
            clustering,
            columns,
            cells,
        } => insert(clustering, RegularColumns::Some(columns), cells, true),
        Operation::PatchStatic { columns, cells } => {
            vec![statements.update_statics(partition, columns, cells, stamp, mutation.ttl_seconds)]
        }
        Operation::DeleteRow { clustering } if table.clustering().is_empty() => {
            debug_assert!(clustering.is_empty());
            vec![statements.delete_piece(partition, &everything(), stamp)]
        }
        Operation::DeleteRow { clustering } => vec![statements.delete_row(partition, clustering, stamp)],
        Operation::DeleteRange { from, to } => range_pieces(table, from, to)
            .iter()
            .map(|piece| statements.delete_piece(partition, piece, stamp))
            .collect(),
        Operation::DeletePartition => vec![statements.delete_piece(partition, &everything(), stamp)],
    }
}

fn everything() -> Piece {
    Piece {
        pinned: Cells::new(),
        lower: None,
        upper: None,
    }
}

/// Returns the key ranges to delete. In a table with static columns, a range without bounds is
/// divided at an arbitrary value of the first clustering column. Without the division, the
/// statement would also delete the static cells of the partition.
fn range_pieces(table: &Table, from: &Bound, to: &Bound) -> Vec<Piece> {
    let pieces = pieces(table, from, to);
    if pieces != [everything()] || table.statics().is_empty() {
        return pieces;
    }
    let some_value: Cells = [Some(some_cell(&table.clustering()[0].ty))].into_iter().collect();
    let bound = |inclusive| {
        Some(TupleBound {
            cells: some_value.clone(),
            inclusive,
        })
    };
    vec![
        Piece {
            lower: bound(true),
            ..everything()
        },
        Piece {
            upper: bound(false),
            ..everything()
        },
    ]
}

/// Returns a valid cell of the key type `ty`, with an arbitrary value.
fn some_cell(ty: &Type) -> &'static [u8] {
    match ty {
        Type::Boolean | Type::TinyInt | Type::Varint => &[0],
        Type::SmallInt => &[0; 2],
        Type::Int | Type::Float | Type::Date | Type::Inet => &[0; 4],
        Type::Decimal => &[0; 5],
        Type::BigInt | Type::Double | Type::Time | Type::Timestamp => &[0; 8],
        // Use a UUID of version 1, because a timeuuid requires it.
        Type::TimeUuid | Type::Uuid => &[0, 0, 0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0, 0, 0, 0, 0],
        // An empty cell is valid for text, ASCII and blobs. No key contains another type.
        _ => &[],
    }
}
