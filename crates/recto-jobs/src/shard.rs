//! One part of a queue, with an order of its own, as this process knows it.

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

/// Live segments of which a process keeps what it knows; of the others it reads it again.
pub(crate) const MAX_KNOWN_SEGMENTS: usize = 64;
/// What nobody looked for so many times is forgotten: who waits for messages looks more often.
const IDLE_TURNS: usize = 3;

/// A shard, as this process knows it.
pub(crate) struct Shard {
    pub(crate) queues: QueueStore,
    pub(crate) address: Address,
    /// By which use of its place the queue has it.
    pub(crate) tenure: Tenure,
    /// What it shares with the queue's other shards.
    pub(crate) common: Arc<Common>,
    pub(crate) head: Arc<Rounds<HeadGround>>,
    pub(crate) leases: Arc<Mutex<Leases>>,
    /// Messages that are on their way elsewhere by this process.
    pub(crate) moving: Mutex<BTreeSet<(Segment, Seq)>>,
    /// How often another process was quicker.
    pub(crate) losses: Arc<Losses>,
    /// When all of it was looked at last; 0: never.
    pub(crate) looked_nanos: AtomicU64,
    /// How often it was looked at.
    pub(crate) looks: AtomicU64,
    /// Whether there is nothing to receive.
    pub(crate) quiet: Quiet,
    /// Of segments that are sealed.
    pub(crate) first_due: Mutex<FirstDue>,
    /// Segments that are passed over until something of them is due.
    pub(crate) waits: Arc<Waits>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    segments: BTreeMap<Segment, (u64, Arc<LiveSegment>)>,
    /// How often one was looked for.
    turn: u64,
    /// The same, when it was looked the last times what nobody uses, the last one first.
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
            // So that processes that look once each do not all begin in the same way.
            looks: AtomicU64::new(u64::from(queues.drawn_below(2) == 1)),
            quiet: Quiet::default(),
            first_due: Mutex::default(),
            waits: Arc::default(),
            known: Mutex::default(),
        }
    }

    /// Whether another process may change what is known here.
    pub(crate) fn is_shared(&self) -> bool {
        self.queues.store.limits().remote
    }

    /// Something may be received: who waits for it here hears of that.
    pub(crate) fn wakes(&self) {
        self.quiet.ends();
        self.common.news.notify_one();
    }

    /// The same, and it was this process that did it: who waits in another one hears, too.
    pub(crate) fn tells(&self) {
        self.wakes();
        self.queues.rings(self.address);
    }

    /// The head as it is known; read, if it is not, or if others may have changed it and that matters.
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

    /// What is known of a live segment.
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

    /// The same, if anything is known of it.
    pub(crate) fn known_segment(&self, number: Segment) -> Option<Arc<LiveSegment>> {
        let mut known = self.known();
        known.turn += 1;
        let turn = known.turn;
        let (used, segment) = known.segments.get_mut(&number)?;
        *used = turn;
        Some(Arc::clone(segment))
    }

    /// The segments of which something is known.
    pub(crate) fn known_segments(&self) -> Vec<Arc<LiveSegment>> {
        let known = self.known();
        let segments = known.segments.values().map(|(_, segment)| Arc::clone(segment));
        segments.collect()
    }

    /// Forgets the segments that nobody has looked for for a while: it is called at intervals.
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

    /// A segment was released.
    pub(crate) fn forget(&self, number: Segment) {
        self.known().segments.remove(&number);
    }
}

impl Known {
    /// Forgets the one that was looked for longest ago, unless it is in use.
    fn forget_one(&mut self) {
        let idle = self.segments.iter();
        let idle = idle.filter(|(_, (_, segment))| is_unused(segment));
        let oldest = idle.min_by_key(|(_, (used, _))| *used).map(|(number, _)| *number);
        if let Some(oldest) = oldest {
            self.segments.remove(&oldest);
        }
    }
}

/// Whether nobody has it, and nothing is under way there.
fn is_unused(segment: &Arc<LiveSegment>) -> bool {
    Arc::strong_count(segment) == 1 && segment.is_idle()
}
