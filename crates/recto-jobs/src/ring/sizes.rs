//! How many bytes the messages have whose bodies a table has: what the logs of its live segments say of themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use recto_queue::{Address, Live, Segment, stored};

use crate::error::Result;
use crate::place::QueueStore;
use crate::registers::read_header;
use crate::ring::survey::SHARDS_AT_ONCE;
use crate::tables::register_partition;

/// Logs that are asked how many bytes they have when somebody looks at the ring: as many of each table as fall to it.
const MAX_SIZED: usize = 1_024;
/// Segments of which it is remembered: those that are sealed keep what they have.
const MAX_REMEMBERED: usize = 16_384;

/// What sealed segments have, as far as somebody looked: whoever looks every second asks of each once.
#[derive(Default)]
pub(crate) struct Sizes(Mutex<BTreeMap<(Address, Segment), u64>>);

/// How many bytes there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    /// Whether all logs were asked.
    pub(crate) is_exact: bool,
}

/// How many logs are asked of each of so many tables.
pub(crate) fn share(tables: usize) -> usize {
    MAX_SIZED / tables.max(1)
}

impl Sizes {
    fn known(&self) -> MutexGuard<'_, BTreeMap<(Address, Segment), u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets those that are not live any more.
    pub(crate) fn keep(&self, live: &BTreeSet<(Address, Segment)>) {
        self.known().retain(|segment, _| live.contains(segment));
    }

    /// How many bytes these have, of which so many logs are asked at most.
    pub(crate) async fn of(
        &self,
        queues: &QueueStore,
        segments: &[(Address, Segment, Live)],
        most: usize,
    ) -> Result<Size> {
        let (mut bytes, mut asked) = (0, Vec::new());
        for (address, segment, live) in segments {
            match self.known().get(&(*address, *segment)) {
                Some(known) => bytes += known,
                None => asked.push((*address, *segment, *live)),
            }
        }
        let is_exact = asked.len() <= most;
        asked.truncate(most);
        let sizes = stream::iter(asked).map(|(address, segment, live)| async move {
            let size = size_of(queues, address, segment, live).await?;
            Ok::<_, crate::QueueError>((address, segment, live, size))
        });
        let mut sizes = sizes.buffer_unordered(SHARDS_AT_ONCE);
        while let Some((address, segment, live, size)) = sizes.try_next().await? {
            bytes += size;
            let mut known = self.known();
            if live.count.is_some() && known.len() < MAX_REMEMBERED {
                known.insert((address, segment), size);
            }
        }
        Ok(Size { bytes, is_exact })
    }
}

/// What the log of a segment says; nothing, if it was released since, or nobody sent to it yet.
async fn size_of(queues: &QueueStore, address: Address, segment: Segment, live: Live) -> Result<u64> {
    let snapshot = queues.store.snapshot()?;
    let partition = register_partition(address, live.register);
    let Some((version, content)) = read_header(queues, &*snapshot, &queues.tables.logs, &partition).await?
    else {
        return Ok(0);
    };
    let header = stored::decode_log_header(version, &content)?;
    Ok(header.bytes_of(segment).unwrap_or(0))
}
