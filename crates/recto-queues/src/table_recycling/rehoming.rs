//! Copying (rehoming) of a segment's remaining bodies to the open table, so that nothing refers to the old
//! table.

use std::collections::BTreeMap;
use std::sync::Arc;

use recto_protocol::queues::{
    Address, BodyTable, Chunk, Entry, KeepAction, KeepEvent, Live, Rehoming, Segment,
};

use crate::body_tables::Written;
use crate::error::{QueueError, QueueErrorKind, Result};
use crate::shard::Shard;
use crate::table_recycling::TableRecycler;
use crate::table_recycling::fencing::{call_manifest, damaged};
use crate::tables::body_partition;

/// Maximum number of messages whose bodies are copied in one step.
const COPIED_AT_ONCE: usize = 256;
/// Maximum number of bytes that are copied in one step, unless a single message has more.
const COPIED_BYTES: u64 = 4 << 20;

impl TableRecycler {
    /// Copies the remaining bodies of a segment to the open table, or releases the segment if all its messages are
    /// resolved.
    pub(crate) async fn rehome(&self, address: Address, number: Segment, live: Live) -> Result<()> {
        let shard = self.shards.shard_at(address);
        let segment = shard.segment(number, live);
        shard.load(&segment).await?;
        if segment.is_done() {
            return shard.release(&segment, false).await.map(drop);
        }
        let mut rehoming = Rehoming::new(number, live, self.context.protocol);
        let mut event = KeepEvent::Begin;
        loop {
            event = match rehoming.step(event) {
                KeepAction::ReadRing => KeepEvent::Ring(self.context.read_ring().await?),
                KeepAction::Copy { segment, live, to } => copy(&shard, segment, live, to).await?,
                KeepAction::Head(command) => call_manifest(&shard, command).await?,
                KeepAction::Find(segment) => KeepEvent::Found(shard.find(segment).await?),
                KeepAction::Damaged(_) => return Err(damaged()),
                _ => return Ok(()),
            };
        }
    }
}

/// Copies the bodies of all unresolved messages of a segment to the table `to`. A missing body is skipped.
async fn copy(shard: &Arc<Shard>, segment: Segment, live: Live, to: BodyTable) -> Result<KeepEvent> {
    let known = shard.segment(segment, live);
    // Use the log that is read here, and not the cached log, which may be older while an append of this process is in
    // progress.
    let log = known.log.read().await?;
    if log.segment() != segment || log.sealed() != live.count {
        return Ok(KeepEvent::SegmentGone);
    }
    let state = known.claims.read().await?;
    let is_open = |seq| state.segment() != segment || !state.resolved().has(seq);
    let open = log.messages().filter(|(seq, ..)| is_open(*seq));
    let open: Vec<_> = open.map(|(_, chunk, entry)| (chunk, *entry)).collect();
    let mut rest = &open[..];
    while !rest.is_empty() {
        let (messages, others) = rest.split_at(fitting(rest));
        rest = others;
        let Some(bodies) = shard.bodies(live.table, segment, messages).await? else {
            return Ok(KeepEvent::TableGone(live.table));
        };
        let mut chunks: BTreeMap<Chunk, Vec<(u16, &[u8])>> = BTreeMap::new();
        for ((chunk, entry), body) in messages.iter().zip(&bodies) {
            if let Some(body) = body {
                chunks.entry(*chunk).or_default().push((entry.index, body));
            }
        }
        let (tables, partition) = (&shard.context.tables, body_partition(shard.address, segment));
        let put = |(chunk, bodies)| tables.put_bodies(to, partition.clone(), chunk, bodies);
        let writes: Vec<_> = chunks.into_iter().map(put).collect();
        if writes.is_empty() {
            continue;
        }
        let written = tokio::time::timeout(shard.context.request_timeout, shard.context.write_bodies(writes));
        let written = written.await.unwrap_or_else(|_| {
            let message = "the store did not answer in time: message bodies were not copied";
            Err(QueueError::new(QueueErrorKind::Timeout, message))
        });
        if written? == Written::TableGone {
            return Ok(KeepEvent::TableGone(to));
        }
    }
    Ok(KeepEvent::Copied)
}

/// Returns the number of messages to copy in the next step, at least 1.
fn fitting(messages: &[(Chunk, Entry)]) -> usize {
    let mut bytes = 0;
    let fits = |(_, entry): &&(Chunk, Entry)| {
        bytes += u64::from(entry.size);
        bytes <= COPIED_BYTES
    };
    let count = messages.iter().take(COPIED_AT_ONCE).take_while(fits).count();
    count.max(1)
}
