//! Shard (part of a queue with its own order), with the data that this process caches of it, and the
//! steps that read and change one shard.
//!
//! | module | content |
//! |---|---|
//! | `local_queue` | data that all shards of a queue share in this process |
//! | `empty_poll` | cached result of a poll that found no message |
//! | `segment` | cached data of one live segment |
//! | `body_reads` | reads of logs, states and message bodies |
//! | `append` | actions of the protocol that add messages |
//! | `segment_release` | removal of a segment whose messages are resolved |

pub(crate) mod append;
mod body_reads;
pub(crate) mod empty_poll;
pub(crate) mod local_queue;
pub(crate) mod segment;
mod segment_release;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use recto_protocol::queues::{
    Address, Head, Leases, Live, Micros, Place, RegisterNumber, Segment, Seq, Tenure,
};

use crate::affinity::Conflicts;
use crate::cas_loop::CasLoop;
use crate::context::QueueContext;
use crate::error::{QueueError, Result};
use crate::idle_segments::IdleSegments;
use crate::notifier::{Listener, Notifier};
use crate::register_tables::{ClaimsBackend, LogBackend, ManifestBackend};
use crate::shard::empty_poll::EmptyPollCache;
use crate::shard::local_queue::LocalQueue;
use crate::shard::segment::LiveSegment;

/// Maximum number of live segments of a shard whose data a process caches. The process reads the
/// data of further segments again for each use.
pub(crate) const MAX_CACHED_SEGMENTS: usize = 64;
/// Number of maintenance runs after which the cached data of an unused segment is dropped. Waiting receivers
/// use their segments more often.
const IDLE_RUNS: usize = 3;

/// For each segment, the due time of its oldest unresolved message, as the last check of the
/// segment found it. The retention of a message counts from its due time.
pub(crate) type FirstDue = BTreeMap<Segment, Micros>;

/// Shard of a queue, with the data that this process caches of it.
pub(crate) struct Shard {
    pub(crate) context: QueueContext,
    /// Shards of this process, to which messages may move.
    pub(crate) all_shards: Arc<ShardCache>,
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

/// Shards that this process uses, each with one shared instance, and the data of their queues.
#[derive(Default)]
struct KnownShards {
    /// Shards by address, and by the epoch of their registry slot (one use of the slot by a queue).
    shards: BTreeMap<(Address, Tenure), Weak<Shard>>,
    queues: BTreeMap<(Place, Tenure), Weak<LocalQueue>>,
}

/// Shards of this process, each with one shared instance, and the notifier of the process.
pub(crate) struct ShardCache {
    pub(crate) context: QueueContext,
    /// Notifier, by which processes learn of messages that other processes sent.
    pub(crate) notifier: Arc<Notifier>,
    known: Mutex<KnownShards>,
}

impl ShardCache {
    pub(crate) fn new(context: QueueContext) -> Arc<Self> {
        Arc::new(Self {
            notifier: Notifier::new(&context),
            context,
            known: Mutex::default(),
        })
    }

    fn known(&self) -> MutexGuard<'_, KnownShards> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the shard at `address`, for the queue that used the registry slot in the epoch
    /// `tenure`. All users in this process share the shard and its cached data.
    pub(crate) fn shard(self: &Arc<Self>, address: Address, tenure: Tenure) -> Arc<Shard> {
        let mut known = self.known();
        if let Some(shard) = known.shards.get(&(address, tenure)).and_then(Weak::upgrade) {
            return shard;
        }
        let shard = Arc::new(Shard::new(
            self,
            address,
            tenure,
            known.queue(address.place, tenure),
        ));
        // Remove unused entries, so that the size of the map depends on the shards in use, and not
        // on all shards that were ever used.
        known.shards.retain(|_, shard| shard.strong_count() > 0);
        known.shards.insert((address, tenure), Arc::downgrade(&shard));
        shard
    }

    /// Returns the shards of this process at `address`, of all queues that have used the registry
    /// slot.
    pub(crate) fn cached_at(&self, address: Address) -> Vec<Arc<Shard>> {
        let known = self.known();
        let here = (address, Tenure::default())..=(address, Tenure(u64::MAX));
        let here = known.shards.range(here);
        here.filter_map(|(_, shard)| shard.upgrade()).collect()
    }

    /// Wakes one waiting receiver of each selected shard, because a message may have become available.
    fn wake(&self, is_woken: &dyn Fn(Address) -> bool) {
        let known = self.known();
        let woken = known.shards.iter().filter(|((address, _), _)| is_woken(*address));
        let woken: Vec<_> = woken.filter_map(|(_, shard)| shard.upgrade()).collect();
        drop(known);
        for shard in woken {
            shard.wake_receiver();
        }
    }

    /// Returns the shard at `address`, for the newest queue with this registry slot that the
    /// process knows.
    pub(crate) fn shard_at(self: &Arc<Self>, address: Address) -> Arc<Shard> {
        let newest = self
            .cached_at(address)
            .into_iter()
            .max_by_key(|shard| shard.tenure);
        newest.unwrap_or_else(|| self.shard(address, Tenure::default()))
    }

    /// Registers a receiver that waits for messages of other processes. `None`: the store needs no
    /// notifier.
    pub(crate) fn listen(self: &Arc<Self>) -> Option<Listener> {
        let cache = Arc::clone(self);
        self.notifier
            .listen(Box::new(move |is_woken| cache.wake(is_woken)))
    }
}

impl KnownShards {
    /// Returns the data that the shards of a queue share. `place` is the queue's registry slot, and
    /// `tenure` the epoch (use of the slot by one queue).
    fn queue(&mut self, place: Place, tenure: Tenure) -> Arc<LocalQueue> {
        if let Some(queue) = self.queues.get(&(place, tenure)).and_then(Weak::upgrade) {
            return queue;
        }
        self.queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::<LocalQueue>::default();
        self.queues.insert((place, tenure), Arc::downgrade(&queue));
        queue
    }
}

impl Shard {
    fn new(all_shards: &Arc<ShardCache>, address: Address, tenure: Tenure, queue: Arc<LocalQueue>) -> Self {
        let context = &all_shards.context;
        let head = CasLoop::new(ManifestBackend {
            context: context.clone(),
            address,
        });
        Self {
            context: context.clone(),
            all_shards: Arc::clone(all_shards),
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
            polls: AtomicU64::new(u64::from(context.random_below(2) == 1)),
            empty_poll: EmptyPollCache::default(),
            first_due: Mutex::default(),
            idle_segments: Arc::default(),
            cache: Mutex::default(),
        }
    }

    /// Returns whether another process may change the data that this process caches.
    pub(crate) fn is_shared(&self) -> bool {
        self.context.is_shared()
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
        self.all_shards.notifier.notify(self.address);
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

    /// Reads the head (manifest of the shard) with serial consistency, and returns its entry for a
    /// segment. Returns `None` if the segment was released.
    pub(crate) async fn find(&self, number: Segment) -> Result<Option<Live>> {
        let head = self.head.read().await?;
        Ok(head.live().get(&number).copied())
    }

    /// Returns the head (manifest) of the shard.
    ///
    /// # Errors
    /// The queue was deleted, so another queue may use its registry slot, or the store is
    /// unreachable.
    pub(crate) async fn serving(&self) -> Result<Head> {
        // Take a snapshot, which fails if the store is closed. Otherwise, a call with a cached head
        // would succeed on a closed store.
        self.context.store.snapshot()?;
        let head = self.head(true).await?;
        if head.serves(self.tenure) && !self.queue.is_deleted.load(Ordering::Acquire) {
            Ok(head)
        } else {
            Err(QueueError::deleted())
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
        let segment = Arc::new(self.open_segment(number, live.register));
        cache.segments.insert(number, (lookups, Arc::clone(&segment)));
        segment
    }

    fn open_segment(&self, number: Segment, register: RegisterNumber) -> LiveSegment {
        let log = LogBackend {
            context: self.context.clone(),
            address: self.address,
            segment: number,
            register,
            recent: OnceLock::new(),
            bodies: Mutex::default(),
            conflicts: Arc::clone(&self.conflicts),
        };
        LiveSegment::new(number, log, |log| ClaimsBackend {
            context: self.context.clone(),
            address: self.address,
            segment: number,
            register,
            log,
            leases: Arc::clone(&self.leases),
            options: Arc::clone(&self.queue.options),
            order: Mutex::default(),
            idle_segments: Arc::clone(&self.idle_segments),
            conflicts: Arc::clone(&self.conflicts),
        })
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
