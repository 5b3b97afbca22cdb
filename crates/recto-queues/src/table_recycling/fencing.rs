//! Closing (fencing) of a body table: no head opens a segment there anymore, and the open segments there are
//! sealed.

use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use recto_protocol::queues::{
    Address, BodyTable, Fencing, HeadCommand, KeepAction, KeepEvent, Life, LogCommand, LogResponse,
    Register as _, Registry, Ring, RingCommand,
};

use crate::error::{QueueError, QueueErrorKind, RESTORE_ALL, Result};
use crate::shard::Shard;
use crate::table_recycling::TableRecycler;
use crate::table_recycling::references::{SHARDS_AT_ONCE, addresses};

impl TableRecycler {
    /// Records in every head (shard manifest) that the table is closing. The caller must have read
    /// `registry` after `ring`.
    pub(crate) async fn fence(
        &self,
        ring: &Ring,
        registry: &Registry,
        table: BodyTable,
        life: Life,
    ) -> Result<()> {
        let fences = stream::iter(addresses(registry)).map(|address| self.fence_one(ring, table, address));
        let fenced: Vec<Result<()>> = fences.buffer_unordered(SHARDS_AT_ONCE).collect().await;
        // Return an error only after all heads got the command, so that one unreachable head does not keep
        // the table open in the other heads.
        for one in fenced {
            one?;
        }
        self.call(RingCommand::Fenced(table, life)).await.map(drop)
    }

    async fn fence_one(&self, ring: &Ring, table: BodyTable, address: Address) -> Result<()> {
        let shard = self.shards.shard_at(address);
        let mut fencing = Fencing::new(table, ring.version(), self.context.protocol);
        let mut event = KeepEvent::Begin;
        loop {
            event = match fencing.step(event) {
                KeepAction::Head(command) => call_manifest(&shard, command).await?,
                KeepAction::Seal(segment, live) => {
                    let segment = shard.segment(segment, live);
                    match segment.log.call(LogCommand::Seal).await? {
                        LogResponse::Sealed(count) => KeepEvent::Sealed(Some(count)),
                        _ => KeepEvent::Sealed(None),
                    }
                }
                KeepAction::Damaged(_) => return Err(damaged()),
                _ => return Ok(()),
            };
        }
    }
}

/// Sends a command to a shard's head (manifest). Returns its response, and the head after the
/// command.
pub(crate) async fn call_manifest(shard: &Arc<Shard>, command: HeadCommand) -> Result<KeepEvent> {
    let response = shard.head.call(command).await?;
    Ok(KeepEvent::Head(response, shard.head(false).await?))
}

/// Returns the error for a head (shard manifest) that refers to a missing segment or table.
pub(crate) fn damaged() -> QueueError {
    let message = "the tables of a queue are from different points in time: its table of message bodies \
                   cannot be emptied";
    QueueError::new(QueueErrorKind::Corrupt, message).with_hint(RESTORE_ALL)
}
