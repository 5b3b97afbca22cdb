//! Number and size of the messages in a body table, as the logs of its live segments show them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use recto_protocol::queues::{Address, Live, Segment, Seq, stored};

use crate::context::QueueContext;
use crate::error::Result;
use crate::register_tables::read_header;
use crate::table_recycling::references::SHARDS_AT_ONCE;
use crate::tables::register_partition;

/// Maximum number of logs that one view of the ring of body tables reads. Each table may read an
/// equal share of them.
const MAX_SIZED: usize = 1_024;
/// Maximum number of segments whose sizes are remembered. Only sealed segments are remembered, because their sizes do
/// not change.
const MAX_REMEMBERED: usize = 16_384;

/// Cached sizes of sealed segments. If a user views the ring of body tables every second, each
/// sealed segment is nevertheless read only once.
#[derive(Default)]
pub(crate) struct SegmentSizes(Mutex<BTreeMap<(Address, Segment), (Seq, u64)>>);

/// Number of messages in a body table, and their total size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TableSize {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// True if all logs were read. Otherwise, the numbers are lower bounds.
    pub(crate) is_exact: bool,
}

/// Returns the maximum number of logs to read for each of `tables` tables.
pub(crate) fn share(tables: usize) -> usize {
    MAX_SIZED / tables.max(1)
}

impl TableSize {
    fn add(&mut self, (messages, bytes): (Seq, u64)) {
        self.messages += u64::from(messages);
        self.bytes += bytes;
    }
}

impl SegmentSizes {
    fn known(&self) -> MutexGuard<'_, BTreeMap<(Address, Segment), (Seq, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the cached sizes of segments that are no longer live.
    pub(crate) fn keep(&self, live: &BTreeSet<(Address, Segment)>) {
        self.known().retain(|segment, _| live.contains(segment));
    }

    /// Returns the total size of `segments`. Reads at most `most` logs.
    pub(crate) async fn of(
        &self,
        context: &QueueContext,
        segments: &[(Address, Segment, Live)],
        most: usize,
    ) -> Result<TableSize> {
        let (mut size, mut asked) = (TableSize::default(), Vec::new());
        for (address, segment, live) in segments {
            match self.known().get(&(*address, *segment)) {
                Some(known) => size.add(*known),
                None => asked.push((*address, *segment, *live)),
            }
        }
        size.is_exact = asked.len() <= most;
        asked.truncate(most);
        let sizes = stream::iter(asked).map(|(address, segment, live)| async move {
            let sent = sent_to(context, address, segment, live).await?;
            Ok::<_, crate::QueueError>((address, segment, live, sent))
        });
        let mut sizes = sizes.buffer_unordered(SHARDS_AT_ONCE);
        while let Some((address, segment, live, sent)) = sizes.try_next().await? {
            size.add(sent);
            let mut known = self.known();
            if live.count.is_some() && known.len() < MAX_REMEMBERED {
                known.insert((address, segment), sent);
            }
        }
        Ok(size)
    }
}

/// Reads the number of messages and of bytes from the log of a segment. The numbers are 0 if the
/// segment was released in the meantime, or if nothing was sent to it yet.
async fn sent_to(
    context: &QueueContext,
    address: Address,
    segment: Segment,
    live: Live,
) -> Result<(Seq, u64)> {
    let snapshot = context.store.snapshot()?;
    let partition = register_partition(address, live.register);
    let Some((version, content)) = read_header(context, &*snapshot, &context.tables.logs, &partition).await?
    else {
        return Ok((0, 0));
    };
    let header = stored::decode_log_header(version, &content)?;
    Ok(header.sent_to(segment).unwrap_or_default())
}
