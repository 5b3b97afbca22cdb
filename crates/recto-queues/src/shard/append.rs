//! Actions of the protocol that add messages to a shard.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use recto_protocol::queues::{
    BodyTable, Chunk, Live, LogCommand, LogResponse, Register as _, Segment, ShardAction, ShardEvent,
};

use crate::body_format::Body;
use crate::body_tables::Written;
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::shard::Shard;
use crate::tables::body_partition;

/// Messages that are sent or moved together, as one chunk (bodies that are written together). The
/// action of the protocol has the id of the chunk.
pub(crate) struct ChunkBodies {
    pub(crate) bodies: Arc<[Body]>,
    /// True if one of the messages has a deduplication id.
    pub(crate) is_deduplicated: bool,
}

impl Shard {
    /// Returns the body table that the work unit (temporary queue) of this shard uses alone.
    /// Returns `None` if the shard belongs to a queue, or if the store has no ring of body tables.
    pub(crate) async fn own_table(&self) -> Result<Option<BodyTable>> {
        let Some(unit) = self.queue.unit.get().filter(|_| self.context.has_ring()) else {
            return Ok(None);
        };
        if let Some(table) = self.context.ring.unit_table(*unit) {
            return Ok(Some(table));
        }
        self.context.read_ring().await?;
        let table = self.context.ring.unit_table(*unit);
        table.map(Some).ok_or_else(|| {
            let message = "the work unit has no table of message bodies: it has ended, or its begin was \
                           interrupted";
            QueueError::new(QueueErrorKind::NotFound, message).with_hint("begin the work unit again")
        })
    }

    /// Executes one action of the protocol within a time limit, and returns its result as the next event.
    ///
    /// # Errors
    /// The action cannot be executed in time. No message was added, except that the outcome of an
    /// append may be unknown.
    pub(crate) async fn execute_append(
        &self,
        action: ShardAction,
        load: &ChunkBodies,
        time: Duration,
    ) -> Result<ShardEvent> {
        match action {
            ShardAction::Head(commands) => {
                let mut responses = self
                    .head
                    .call_all(commands, None, time)
                    .await
                    .map_err(as_not_appended)?;
                responses
                    .pop()
                    .map(ShardEvent::Head)
                    .ok_or_else(QueueError::ended)
            }
            ShardAction::ReadRing => {
                let ring = self.context.read_ring().await.map_err(as_not_appended)?;
                Ok(ShardEvent::Ring(ring.version()))
            }
            ShardAction::Find(segment) => {
                let found = self.find(segment).await.map_err(as_not_appended)?;
                Ok(ShardEvent::Found(found))
            }
            ShardAction::Write { live, segment, chunk } => {
                let written = self.write_bodies(live, segment, chunk, load, time).await?;
                Ok(match written {
                    Written::Done => ShardEvent::Written,
                    Written::TableGone => ShardEvent::TableGone,
                })
            }
            ShardAction::Log {
                live,
                segment,
                command,
            } => {
                if load.is_deduplicated {
                    let head = self.head(false).await.map_err(as_not_appended)?;
                    let known = self.segment(segment, live);
                    let recent = tokio::time::timeout(time, known.load_recent_ids(&head)).await;
                    recent
                        .unwrap_or_else(|_| Err(not_in_time()))
                        .map_err(as_not_appended)?;
                }
                if time.is_zero() {
                    return Err(not_in_time());
                }
                let response = self.call_log(live, segment, command, load, time).await?;
                Ok(ShardEvent::Log(response))
            }
        }
    }

    /// Writes the bodies before the append, unless the transaction of the append also writes the bodies.
    async fn write_bodies(
        &self,
        live: Live,
        segment: Segment,
        chunk: Chunk,
        load: &ChunkBodies,
        time: Duration,
    ) -> Result<Written> {
        if !self.context.has_ring() {
            return Ok(Written::Done);
        }
        let indexed = (0..).zip(load.bodies.iter().map(Body::as_bytes));
        let partition = body_partition(self.address, segment);
        let tables = &self.context.tables;
        let write = tables.put_bodies(live.table, partition, chunk, indexed);
        let written = tokio::time::timeout(time, self.context.write_bodies(vec![write])).await;
        written.unwrap_or_else(|_| Err(not_in_time()))
    }

    async fn call_log(
        &self,
        live: Live,
        segment: Segment,
        command: LogCommand,
        load: &ChunkBodies,
        time: Duration,
    ) -> Result<LogResponse> {
        // Keep a reference to the segment while the command is in progress, so that the cache does not drop
        // the segment and open it a second time.
        let segment = self.segment(segment, live);
        let log = &segment.log;
        if let LogCommand::Append { chunk, .. } = &command
            && !self.context.has_ring()
        {
            let mut bodies = log.backend.bodies.lock().unwrap_or_else(PoisonError::into_inner);
            bodies.retain(|_, waiting| waiting.iter().any(|bodies| bodies.strong_count() > 0));
            let waiting = bodies.entry(*chunk).or_default();
            waiting.push(Arc::downgrade(&load.bodies));
        }
        let mut responses = log.call_all(vec![command], Some(&load.bodies), time).await?;
        responses.pop().ok_or_else(QueueError::ended)
    }
}

/// Changes an unknown outcome to a timeout. Only the append adds messages, so a failed action before it added
/// none.
fn as_not_appended(error: QueueError) -> QueueError {
    match error.kind() {
        QueueErrorKind::OutcomeUnknown => not_in_time().with_source(error),
        _ => error,
    }
}

fn not_in_time() -> QueueError {
    let message = "the store did not answer in time: nothing was sent";
    QueueError::new(QueueErrorKind::Timeout, message)
}
