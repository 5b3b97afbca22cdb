//! One part of a queue, with an order of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use recto_queue::{Address, Head, Leases, Live, QueueId, Segment, Seq, Tenure};
use tokio::sync::Notify;

use crate::bell::Quiet;
use crate::error::Result;
use crate::expiring::FirstDue;
use crate::options::{NewestOptions, ShardOptions};
use crate::place::QueueStore;
use crate::registers::HeadGround;
use crate::rounds::Rounds;
use crate::segment::LiveSegment;
use crate::totals::{Counters, Totals};
use crate::waits::Waits;

/// Live segments of which a process keeps what it knows; of the others it reads it again.
pub(crate) const MAX_KNOWN_SEGMENTS: usize = 64;

/// A shard, as this process knows it. Cheap to clone.
#[derive(Clone)]
pub struct Shard(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) queues: QueueStore,
    pub(crate) address: Address,
    /// By which use of its place the queue has it.
    pub(crate) tenure: Tenure,
    /// The work unit that has it, if it is one's.
    pub(crate) unit: OnceLock<QueueId>,
    pub(crate) head: Arc<Rounds<HeadGround>>,
    pub(crate) leases: Arc<Mutex<Leases>>,
    /// What the queue is like.
    pub(crate) options: Arc<NewestOptions>,
    /// What was done here.
    pub(crate) counters: Counters,
    /// Whether the queue was deleted, and what is known here is not so any more.
    pub(crate) is_deleted: AtomicBool,
    /// Messages that are on their way elsewhere by this process.
    pub(crate) moving: Mutex<BTreeSet<(Segment, Seq)>>,
    /// Something may be received that could not before.
    pub(crate) news: Notify,
    /// When all of it was looked at last.
    pub(crate) looked_nanos: AtomicU64,
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
    /// The same, when it was looked last what nobody uses.
    last_turn: u64,
}

impl Shard {
    /// Whether both are of one open store.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.queues.trains, &other.0.queues.trains)
    }

    /// From now on that holds for all who use the shard here, unless a newer registry said something else.
    pub fn set_options(&self, options: ShardOptions) {
        self.0.options.set(options);
    }

    /// What holds now.
    pub fn options(&self) -> ShardOptions {
        self.0.options.get()
    }

    /// What this process did here since it opened the store.
    pub fn totals(&self) -> Totals {
        self.0.counters.totals()
    }

    /// How many wait here for a message now.
    pub fn receivers_waiting(&self) -> u64 {
        self.0.counters.receivers()
    }

    /// How many segments are live.
    ///
    /// # Errors
    /// The head cannot be read.
    pub async fn segments(&self) -> Result<usize> {
        let head = self.0.head(true).await?;
        Ok(head.live().len())
    }
}

impl Inner {
    pub(crate) fn new(queues: &QueueStore, address: Address, tenure: Tenure) -> Self {
        let head = Rounds::new(HeadGround {
            queues: queues.clone(),
            address,
        });
        Self {
            queues: queues.clone(),
            address,
            tenure,
            unit: OnceLock::new(),
            head,
            leases: Arc::default(),
            options: Arc::default(),
            counters: Counters::default(),
            is_deleted: AtomicBool::new(false),
            moving: Mutex::default(),
            news: Notify::new(),
            looked_nanos: AtomicU64::new(0),
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
        self.news.notify_one();
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
        let (queues, address) = (&self.queues, self.address);
        let segment = LiveSegment::new(
            queues,
            address,
            number,
            live.register,
            &self.leases,
            &self.options,
            &self.waits,
        );
        let segment = Arc::new(segment);
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

    /// Forgets the segments that nobody has looked for since this was done last: it is called at intervals.
    pub(crate) fn forget_idle(&self) {
        self.head.with_copy(|head| {
            if let Some(head) = head {
                self.waits.prune(head);
            }
        });
        let mut known = self.known();
        let last_turn = known.last_turn;
        known.last_turn = known.turn;
        known
            .segments
            .retain(|_, (used, segment)| *used > last_turn || !is_unused(segment));
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
