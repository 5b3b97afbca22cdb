//! Shard (part of a queue with its own order), with the data that this process caches of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recto_protocol::queues::{Address, Head, Leases, Live, Segment, Seq, Tenure};

use crate::affinity::Conflicts;
use crate::cas_loop::CasLoop;
use crate::error::Result;
use crate::expiry::FirstDue;
use crate::idle_segments::IdleSegments;
use crate::local_queue::LocalQueue;
use crate::notifier::EmptyPollCache;
use crate::place::QueueStore;
use crate::register_tables::ManifestBackend;
use crate::segment::LiveSegment;

/// Maximum number of live segments of a shard whose data a process caches. The process reads the
/// data of further segments again for each use.
pub(crate) const MAX_CACHED_SEGMENTS: usize = 64;
/// Number of maintenance runs after which the cached data of an unused segment is dropped. Waiting receivers
/// use their segments more often.
const IDLE_RUNS: usize = 3;

/// Shard of a queue, with the data that this process caches of it.
pub(crate) struct Shard {
    pub(crate) queues: QueueStore,
    pub(crate) address: Address,
    /// Epoch of the queue's registry slot, which distinguishes the queue from others that had the
    /// slot before.
    pub(crate) tenure: Tenure,
    /// Data that all shards of the queue share.
    pub(crate) queue: Arc<LocalQueue>,
    pub(crate) head: Arc<CasLoop<ManifestBackend>>,
    pub(crate) leases: Arc<Mutex<Leases>>,
    /// Messages that tasks of this process are moving to another segment or queue.
    pub(crate) transfers: Mutex<BTreeSet<(Segment, Seq)>>,
    /// Counters of conditional writes in the shard that failed because another process wrote first.
    pub(crate) conflicts: Arc<Conflicts>,
    /// Time of the last poll of the whole shard, in nanoseconds of the monotonic clock. 0: never.
    pub(crate) polled_nanos: AtomicU64,
    /// Number of polls of the shard. Every second poll prefers new messages.
    pub(crate) polls: AtomicU64,
    /// Cached result of a poll: until when the shard has no message to receive.
    pub(crate) empty_poll: EmptyPollCache,
    /// For each sealed segment, the earliest due time of an unresolved message. The retention of a
    /// message counts from its due time.
    pub(crate) first_due: Mutex<FirstDue>,
    /// Segments that polls skip because none of their messages is due yet.
    pub(crate) idle_segments: Arc<IdleSegments>,
    cache: Mutex<SegmentCache>,
}

#[derive(Default)]
struct SegmentCache {
    segments: BTreeMap<Segment, (u64, Arc<LiveSegment>)>,
    /// Number of lookups of segments so far. The number serves as a clock that tells how long a
    /// segment was not used.
    lookups: u64,
    /// Values of `lookups` at the last calls of `evict_idle`, the latest call first.
    earlier_lookups: [u64; IDLE_RUNS],
}

impl Shard {
    pub(crate) fn new(queues: &QueueStore, address: Address, tenure: Tenure, queue: Arc<LocalQueue>) -> Self {
        let head = CasLoop::new(ManifestBackend {
            queues: queues.clone(),
            address,
        });
        Self {
            queues: queues.clone(),
            address,
            tenure,
            queue,
            head,
            leases: Arc::default(),
            transfers: Mutex::default(),
            conflicts: Arc::default(),
            polled_nanos: AtomicU64::new(0),
            // Begin with 0 or 1 at random: of many processes that poll only once, half then prefer
            // new messages.
            polls: AtomicU64::new(u64::from(queues.random_below(2) == 1)),
            empty_poll: EmptyPollCache::default(),
            first_due: Mutex::default(),
            idle_segments: Arc::default(),
            cache: Mutex::default(),
        }
    }

    /// Returns whether another process may change the data that this process caches.
    pub(crate) fn is_shared(&self) -> bool {
        self.queues.store.limits().remote
    }

    /// Wakes a waiting receiver of this process, because a message may have become available.
    pub(crate) fn wake_receiver(&self) {
        self.empty_poll.invalidate();
        self.queue.news.notify_one();
    }

    /// Wakes waiting receivers of this process and of other processes, because this process may have made a message
    /// available.
    pub(crate) fn notify_receivers(&self) {
        self.wake_receiver();
        self.queues.notify(self.address);
    }

    /// Returns the head (manifest) of the shard. Reads it if it is not cached, or if `anew` is set and other
    /// processes may have changed it.
    pub(crate) async fn head(&self, anew: bool) -> Result<Head> {
        let cached = self.head.with_cached(|head| Some(head?.clone()));
        match cached {
            Some(head) if !(anew && self.is_shared()) => Ok(head),
            _ => self.head.read().await,
        }
    }

    fn cache(&self) -> MutexGuard<'_, SegmentCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached data of a live segment. Creates an empty cache for the segment if there is none.
    pub(crate) fn segment(&self, number: Segment, live: Live) -> Arc<LiveSegment> {
        let mut cache = self.cache();
        cache.lookups += 1;
        let lookups = cache.lookups;
        if let Some((used, segment)) = cache.segments.get_mut(&number) {
            *used = lookups;
            return Arc::clone(segment);
        }
        if cache.segments.len() >= MAX_CACHED_SEGMENTS {
            cache.evict_one();
        }
        let segment = Arc::new(LiveSegment::new(self, number, live.register));
        cache.segments.insert(number, (lookups, Arc::clone(&segment)));
        segment
    }

    /// Returns the cached data of a segment, if there is any.
    pub(crate) fn cached_segment(&self, number: Segment) -> Option<Arc<LiveSegment>> {
        let mut cache = self.cache();
        cache.lookups += 1;
        let lookups = cache.lookups;
        let (used, segment) = cache.segments.get_mut(&number)?;
        *used = lookups;
        Some(Arc::clone(segment))
    }

    /// Returns the segments of the shard with cached data.
    pub(crate) fn cached_segments(&self) -> Vec<Arc<LiveSegment>> {
        let cache = self.cache();
        let segments = cache.segments.values().map(|(_, segment)| Arc::clone(segment));
        segments.collect()
    }

    /// Drops the cached data of segments that were not used for a while. The maintenance calls this function
    /// periodically.
    pub(crate) fn evict_idle(&self) {
        self.head.with_cached(|head| {
            if let Some(head) = head {
                self.idle_segments.prune(head);
            }
        });
        let mut cache = self.cache();
        let now = cache.lookups;
        cache.earlier_lookups.rotate_right(1);
        let first = std::mem::replace(&mut cache.earlier_lookups[0], now);
        cache
            .segments
            .retain(|_, (used, segment)| *used > first || !is_unused(segment));
    }

    /// Drops the cached data of a segment that was released.
    pub(crate) fn evict(&self, number: Segment) {
        self.cache().segments.remove(&number);
    }
}

impl SegmentCache {
    /// Drops the cached data of one segment that is not in use: the segment whose last lookup was
    /// longest ago.
    fn evict_one(&mut self) {
        let idle = self.segments.iter();
        let idle = idle.filter(|(_, (_, segment))| is_unused(segment));
        let oldest = idle.min_by_key(|(_, (used, _))| *used).map(|(number, _)| *number);
        if let Some(oldest) = oldest {
            self.segments.remove(&oldest);
        }
    }
}

/// Returns whether no caller uses the cached segment, and no request to the segment is in progress.
fn is_unused(segment: &Arc<LiveSegment>) -> bool {
    Arc::strong_count(segment) == 1 && segment.is_idle()
}
