//! Plain writes of message bodies, and the check whether their table was dropped.

use recto_protocol::queues::{BodyTable, Phase};
use recto_store::{Atomicity, PartitionWrite, WriteOutcome};

use crate::context::{QueueContext, is_temporary, is_unknown_table, write_options};
use crate::error::{QueueError, QueueErrorKind, Result};

/// Outcome of a write of message bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// The bodies are written.
    Done,
    /// The bodies are not written: their table was dropped.
    TableGone,
}

impl QueueContext {
    /// Writes bodies by plain writes, and retries until they are written. The caller has a deadline, at which it drops
    /// the future.
    ///
    /// # Errors
    /// The store rejects the writes.
    pub(crate) async fn write_bodies(&self, writes: Vec<PartitionWrite>) -> Result<Written> {
        let mut attempt = 1;
        loop {
            let sent = self
                .store
                .write_many(writes.clone(), Atomicity::Each, write_options());
            match sent.await {
                Ok(WriteOutcome::Done | WriteOutcome::Counted(_)) => return Ok(Written::Done),
                Ok(WriteOutcome::Refused(error)) | Err(error) if is_unknown_table(&error) => {
                    let table = writes.first().map_or("", |write| write.table.name());
                    if self.is_dropped(table).await? {
                        return Ok(Written::TableGone);
                    }
                }
                Ok(WriteOutcome::Refused(error)) => return Err(error.into()),
                Ok(WriteOutcome::Conflict(_)) => {
                    let message = "the store mistook a message body for one of its own rows";
                    return Err(QueueError::new(QueueErrorKind::Store, message));
                }
                Err(error) if !is_temporary(&error) => return Err(error.into()),
                Ok(WriteOutcome::Unknown(_)) | Err(_) => {}
            }
            self.pause(attempt).await;
            attempt += 1;
        }
    }

    /// Returns whether a body table that a node [does not know](is_unknown_table) was dropped, according
    /// to the ring of body tables. A node that was down does not know the tables that were created
    /// in the meantime, either, until it learns of them.
    pub(crate) async fn is_dropped(&self, table: &str) -> Result<bool> {
        if !self.has_ring() {
            return Ok(true);
        }
        let ring = self.read_ring().await?;
        let is_kept = |(number, phase): (&BodyTable, &Phase)| {
            *phase != Phase::Retired && self.tables.bodies(*number).name() == table
        };
        Ok(!ring.tables().iter().any(is_kept))
    }
}
