//! Part of a queue with its own order, as this process knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use recto_protocol::queues::{Address, Head, Leases, Live, Segment, Seq, Tenure};

use crate::affinity::Losses;
use crate::bell::Quiet;
use crate::common::Common;
use crate::error::Result;
use crate::expiring::FirstDue;
use crate::place::QueueStore;
use crate::registers::HeadGround;
use crate::rounds::Rounds;
use crate::segment::LiveSegment;
use crate::waits::Waits;

/// Maximum number of live segments whose data a process caches. It reads the data of other segments again.
pub(crate) const MAX_KNOWN_SEGMENTS: usize = 64;
/// Number of maintenance runs after which the data of an unused segment is forgotten. Waiting receivers use their
/// segments more often.
const IDLE_TURNS: usize = 3;

/// Shard, as this process knows it.
pub(crate) struct Shard {
    pub(crate) queues: QueueStore,
    pub(crate) address: Address,
    /// Epoch in which the queue has its slot.
    pub(crate) tenure: Tenure,
    /// Data that all shards of the queue share.
    pub(crate) common: Arc<Common>,
    pub(crate) head: Arc<Rounds<HeadGround>>,
    pub(crate) leases: Arc<Mutex<Leases>>,
    /// Messages that this process is moving to another segment.
    pub(crate) moving: Mutex<BTreeSet<(Segment, Seq)>>,
    /// Number of conditional writes that failed because another process wrote first.
    pub(crate) losses: Arc<Losses>,
    /// Time of the last poll of the whole shard, by the monotonic clock; 0: never.
    pub(crate) looked_nanos: AtomicU64,
    /// Number of polls.
    pub(crate) looks: AtomicU64,
    /// Knowledge that the shard has nothing to receive.
    pub(crate) quiet: Quiet,
    /// Earliest times from which the retention of a message counts, for sealed segments.
    pub(crate) first_due: Mutex<FirstDue>,
    /// Segments that are skipped until a message of them is due.
    pub(crate) waits: Arc<Waits>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    segments: BTreeMap<Segment, (u64, Arc<LiveSegment>)>,
    /// Number of lookups of segments.
    turn: u64,
    /// Values of `turn` at the last calls of `forget_idle`, the last call first.
    looked_at: [u64; IDLE_TURNS],
}

impl Shard {
    pub(crate) fn new(queues: &QueueStore, address: Address, tenure: Tenure, common: Arc<Common>) -> Self {
        let head = Rounds::new(HeadGround {
            queues: queues.clone(),
            address,
        });
        Self {
            queues: queues.clone(),
            address,
            tenure,
            common,
            head,
            leases: Arc::default(),
            moving: Mutex::default(),
            losses: Arc::default(),
            looked_nanos: AtomicU64::new(0),
            // Begin with 0 or 1 at random: of many processes that poll only once, half then prefer
            // new messages.
            looks: AtomicU64::new(u64::from(queues.drawn_below(2) == 1)),
            quiet: Quiet::default(),
            first_due: Mutex::default(),
            waits: Arc::default(),
            known: Mutex::default(),
        }
    }

    /// Returns whether another process may change the data that this process caches.
    pub(crate) fn is_shared(&self) -> bool {
        self.queues.store.limits().remote
    }

    /// Wakes a waiting receiver of this process, because a message may have become available.
    pub(crate) fn wakes(&self) {
        self.quiet.ends();
        self.common.news.notify_one();
    }

    /// Wakes waiting receivers of this process and of other processes, because this process may have made a message
    /// available.
    pub(crate) fn tells(&self) {
        self.wakes();
        self.queues.rings(self.address);
    }

    /// Returns the head as it is known. Reads it if it is not known. Also reads it if `anew` is set and other processes
    /// may have changed it.
    pub(crate) async fn head(&self, anew: bool) -> Result<Head> {
        let known = self.head.with_copy(|head| Some(head?.clone()));
        match known {
            Some(head) if !(anew && self.is_shared()) => Ok(head),
            _ => self.head.read().await,
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cached data of a live segment.
    pub(crate) fn segment(&self, number: Segment, live: Live) -> Arc<LiveSegment> {
        let mut known = self.known();
        known.turn += 1;
        let turn = known.turn;
        if let Some((used, segment)) = known.segments.get_mut(&number) {
            *used = turn;
            return Arc::clone(segment);
        }
        if known.segments.len() >= MAX_KNOWN_SEGMENTS {
            known.forget_one();
        }
        let segment = Arc::new(LiveSegment::new(self, number, live.register));
        known.segments.insert(number, (turn, Arc::clone(&segment)));
        segment
    }

    /// Returns the cached data of a segment, if there is any.
    pub(crate) fn known_segment(&self, number: Segment) -> Option<Arc<LiveSegment>> {
        let mut known = self.known();
        known.turn += 1;
        let turn = known.turn;
        let (used, segment) = known.segments.get_mut(&number)?;
        *used = turn;
        Some(Arc::clone(segment))
    }

    /// Returns the segments with cached data.
    pub(crate) fn known_segments(&self) -> Vec<Arc<LiveSegment>> {
        let known = self.known();
        let segments = known.segments.values().map(|(_, segment)| Arc::clone(segment));
        segments.collect()
    }

    /// Forgets the segments that were not looked up for a while. The maintenance calls this function periodically.
    pub(crate) fn forget_idle(&self) {
        self.head.with_copy(|head| {
            if let Some(head) = head {
                self.waits.prune(head);
            }
        });
        let mut known = self.known();
        let now = known.turn;
        known.looked_at.rotate_right(1);
        let first = std::mem::replace(&mut known.looked_at[0], now);
        known
            .segments
            .retain(|_, (used, segment)| *used > first || !is_unused(segment));
    }

    /// Forgets a segment that was released.
    pub(crate) fn forget(&self, number: Segment) {
        self.known().segments.remove(&number);
    }
}

impl Known {
    /// Forgets the segment that was looked up longest ago, among the segments that are not in use.
    fn forget_one(&mut self) {
        let idle = self.segments.iter();
        let idle = idle.filter(|(_, (_, segment))| is_unused(segment));
        let oldest = idle.min_by_key(|(_, (used, _))| *used).map(|(number, _)| *number);
        if let Some(oldest) = oldest {
            self.segments.remove(&oldest);
        }
    }
}

/// Returns whether no caller has the segment, and no request to it is in progress.
fn is_unused(segment: &Arc<LiveSegment>) -> bool {
    Arc::strong_count(segment) == 1 && segment.is_idle()
}
