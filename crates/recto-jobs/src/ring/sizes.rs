//! How many messages have their bodies in a table, and how many bytes: what the logs of its live segments say of themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use recto_protocol::queues::{Address, Live, Segment, Seq, stored};

use crate::error::Result;
use crate::place::QueueStore;
use crate::registers::read_header;
use crate::ring::survey::SHARDS_AT_ONCE;
use crate::tables::register_partition;

/// Logs that are asked how much they have when somebody looks at the ring: as many of each table as fall to it.
const MAX_SIZED: usize = 1_024;
/// Segments of which it is remembered: those that are sealed keep what they have.
const MAX_REMEMBERED: usize = 16_384;

/// What sealed segments have, as far as somebody looked: whoever looks every second asks of each once.
#[derive(Default)]
pub(crate) struct Sizes(Mutex<BTreeMap<(Address, Segment), (Seq, u64)>>);

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Size {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Whether all logs were asked.
    pub(crate) is_exact: bool,
}

/// How many logs are asked of each of so many tables.
pub(crate) fn share(tables: usize) -> usize {
    MAX_SIZED / tables.max(1)
}

impl Size {
    fn add(&mut self, (messages, bytes): (Seq, u64)) {
        self.messages += u64::from(messages);
        self.bytes += bytes;
    }
}

impl Sizes {
    fn known(&self) -> MutexGuard<'_, BTreeMap<(Address, Segment), (Seq, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets those that are not live any more.
    pub(crate) fn keep(&self, live: &BTreeSet<(Address, Segment)>) {
        self.known().retain(|segment, _| live.contains(segment));
    }

    /// How much these have, of which so many logs are asked at most.
    pub(crate) async fn of(
        &self,
        queues: &QueueStore,
        segments: &[(Address, Segment, Live)],
        most: usize,
    ) -> Result<Size> {
        let (mut size, mut asked) = (Size::default(), Vec::new());
        for (address, segment, live) in segments {
            match self.known().get(&(*address, *segment)) {
                Some(known) => size.add(*known),
                None => asked.push((*address, *segment, *live)),
            }
        }
        size.is_exact = asked.len() <= most;
        asked.truncate(most);
        let sizes = stream::iter(asked).map(|(address, segment, live)| async move {
            let sent = sent_to(queues, address, segment, live).await?;
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

/// What the log of a segment says; nothing, if it was released since, or nobody sent to it yet.
async fn sent_to(queues: &QueueStore, address: Address, segment: Segment, live: Live) -> Result<(Seq, u64)> {
    let snapshot = queues.store.snapshot()?;
    let partition = register_partition(address, live.register);
    let Some((version, content)) = read_header(queues, &*snapshot, &queues.tables.logs, &partition).await?
    else {
        return Ok((0, 0));
    };
    let header = stored::decode_log_header(version, &content)?;
    Ok(header.sent_to(segment).unwrap_or_default())
}
