//! Requests to the writer, and replies of the writer.

use std::sync::Arc;

use recto_model::Table;
use recto_store::{Cas, CasCondition, RowAddress, RowsMet, StoreError};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::batch::Batch;
use crate::catalog::{Catalog, StoredTable};
use crate::keys;
use crate::shared::Shared;

/// Prepared conditional writes, and the writes that are applied if all their conditions hold.
pub(crate) struct Conditional {
    pub(crate) guards: Vec<Guard>,
    pub(crate) batch: Batch,
}

/// Conditions of one conditional write, which the writer checks before it applies anything.
pub(crate) struct Guard {
    pub(crate) table: Arc<StoredTable>,
    /// Conditions, each with the key of its row.
    pub(crate) conditions: Vec<(Vec<u8>, CasCondition)>,
}

impl Guard {
    pub(crate) fn byte_len(&self) -> usize {
        let conditions = self.conditions.iter();
        let bytes = conditions.map(|(key, condition)| {
            size_of::<(Vec<u8>, CasCondition)>() + key.len() + condition.expected.as_ref().map_or(0, Vec::len)
        });
        bytes.sum()
    }
}

impl Conditional {
    pub(crate) fn byte_len(&self) -> usize {
        self.batch.byte_len() + self.guards.iter().map(Guard::byte_len).sum::<usize>()
    }
}

/// Work that the writer executes alone, without other requests.
pub(crate) type Exclusive = Box<dyn FnOnce(&Shared) -> Result<(), StoreError> + Send>;

pub(crate) enum Work {
    Write(Batch),
    Conditional(Conditional),
    Create(Arc<Table>),
    AddColumns(Arc<Table>),
    Drop(String),
    Empty(Arc<Table>),
    /// Changes nothing. The commit makes earlier relaxed writes durable.
    Sync,
    /// Like `Sync`, and the log gets no further record, because the store is being closed.
    Close,
    /// Stores a time in the clock record, in microseconds since 1970.
    RecordTime(i64),
    Exclusive(Exclusive),
}

/// Reply of the writer to a request that it has executed.
#[derive(Debug)]
pub(crate) enum Reply {
    Done,
    /// The writes are applied, row by row. Contains the counts of existing rows that the writes found.
    Counted(RowsMet),
    /// Nothing is written, because the mutation with this index inserts a row that exists with other values.
    Conflict(usize),
    /// Nothing is written, because a condition does not hold. Contains, for each conditional write, the
    /// current cells of the columns in its conditions.
    NotApplied(Vec<Vec<Option<Vec<u8>>>>),
    /// The engine failed during the commit, so the writes may or may not be applied.
    Unknown(StoreError),
}

pub(crate) struct Request {
    pub(crate) work: Work,
    /// True if the caller does not wait for the disk.
    pub(crate) relaxed: bool,
    /// Deadline, in nanoseconds of the monotonic clock. The writer does not execute a request that is still
    /// queued then, because no caller waits for the reply.
    pub(crate) deadline_nanos: u64,
    pub(crate) reply: oneshot::Sender<Result<Reply, StoreError>>,
    /// Part of the queue's capacity that the request uses. It is released when the request is answered.
    pub(crate) _room: OwnedSemaphorePermit,
}

impl Request {
    pub(crate) fn byte_len(&self) -> usize {
        match &self.work {
            Work::Write(batch) => batch.byte_len(),
            Work::Conditional(conditional) => conditional.byte_len(),
            _ => 0,
        }
    }

    /// Returns the newest timestamp of the request's mutations.
    pub(crate) fn newest_stamp(&self) -> Option<i64> {
        let batch = match &self.work {
            Work::Write(batch) => batch,
            Work::Conditional(conditional) => &conditional.batch,
            _ => return None,
        };
        batch.changes.iter().filter_map(|change| change.stamp).max()
    }

    pub(crate) fn answer(self, reply: Result<Reply, StoreError>) {
        // Ignore a send error, because the caller may have given up.
        let _ = self.reply.send(reply);
    }
}

/// Returns the conditions of a conditional write, with the keys of their rows.
pub(crate) fn guard(catalog: &Catalog, cas: &Cas) -> Result<Guard, StoreError> {
    let mut conditions = Vec::with_capacity(cas.conditions.len());
    for condition in &cas.conditions {
        let mut key = Vec::new();
        keys::push_partition(&cas.table, &cas.partition, &mut key)?;
        match &condition.row {
            RowAddress::Static => key.push(keys::STATIC),
            RowAddress::Row(clustering) => {
                key.push(keys::ROW);
                keys::push_clustering(&cas.table, clustering, &mut key)?;
            }
        }
        conditions.push((key, condition.clone()));
    }
    Ok(Guard {
        table: Arc::clone(catalog.find(&cas.table)?),
        conditions,
    })
}
