//! Messages of a queue, in all its shards.

use std::sync::Arc;

use recto_protocol::queues::{Address, Fingerprint, Place, Receipt, Shard as ShardNumber, Tenure};

use crate::affinity::{Conflicts, ShardChoice};
use crate::context::QueueContext;
use crate::error::Result;
use crate::notifier::Listener;
use crate::options::{Destination, ShardOptions};
use crate::shard::local_queue::{ClaimReservation, LocalQueue};
use crate::shard::{Shard, ShardCache};
use crate::totals::{Counter, Totals};

/// Messages of a queue, in all its shards, with the data that this process caches. Cheap to clone.
///
/// Each message is in one of the queue's shards. Messages with the same group or the same deduplication id
/// are in the same shard. All other messages go to the shard to which this process currently sends. If
/// another process sends to that shard, too, this process moves to another shard.
#[derive(Clone)]
pub struct Shards(Arc<[Arc<Shard>]>);

impl Shards {
    /// Creates a handle to the messages of a queue with `count` shards (at least one). The registry
    /// slot `place` and the epoch `tenure` (use of the slot by one queue) identify the queue.
    pub(crate) fn new(cache: &Arc<ShardCache>, place: Place, tenure: Tenure, count: u16) -> Self {
        let address = |shard| Address {
            place,
            shard: ShardNumber(shard),
        };
        let shards = (0..count.max(1)).map(|shard| cache.shard(address(shard), tenure));
        Self(shards.collect())
    }

    /// Creates a handle to the messages of the queue to which messages are moved.
    pub(crate) fn of_destination(cache: &Arc<ShardCache>, to: Destination) -> Self {
        Self::new(cache, to.place, to.tenure, to.shards)
    }

    /// Creates a handle to a single shard, even if its queue has more shards.
    pub(crate) fn only(shard: Arc<Shard>) -> Self {
        Self([shard].into())
    }

    pub(crate) fn all(&self) -> &[Arc<Shard>] {
        &self.0
    }

    /// Returns the first shard. Each queue has at least one.
    fn first(&self) -> &Shard {
        &self.0[0]
    }

    pub(crate) fn context(&self) -> &QueueContext {
        &self.first().context
    }

    /// Registers a receiver that waits for messages of other processes. `None`: the store needs no
    /// notifier.
    pub(crate) fn listen(&self) -> Option<Listener> {
        self.first().all_shards.listen()
    }

    pub(crate) fn queue(&self) -> &LocalQueue {
        &self.first().queue
    }

    /// Returns whether two queues use the same open store, so that messages can move between them.
    pub(crate) fn shares_store_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.context().commits, &other.context().commits)
    }

    /// Sets the options for all users of the queue in this process, unless their current options are from a
    /// newer version of the registry.
    pub fn set_options(&self, options: ShardOptions) {
        self.queue().options.set(options);
    }

    /// Returns the newest options of the queue that this process knows.
    pub fn options(&self) -> ShardOptions {
        self.queue().options.get()
    }

    /// Returns the counters of this process for the queue since it opened the store.
    pub fn totals(&self) -> Totals {
        self.queue().counters.totals()
    }

    /// Returns the number of receivers of this process that wait for a message.
    pub fn receivers_waiting(&self) -> u64 {
        self.queue().counters.receivers()
    }

    /// Returns the number of shards of the queue.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of live segments, in all shards.
    ///
    /// # Errors
    /// A head cannot be read.
    pub async fn segments(&self) -> Result<usize> {
        let mut segments = 0;
        for shard in self.all() {
            segments += shard.head(true).await?.live().len();
        }
        Ok(segments)
    }

    /// Returns the index of the shard that a receipt is from; `None`: the receipt is from another queue.
    pub(crate) fn shard_of_receipt(&self, receipt: &Receipt) -> Option<usize> {
        let is_it = |shard: &Arc<Shard>| shard.address == receipt.address && shard.tenure == receipt.tenure;
        self.0.iter().position(is_it)
    }

    /// Returns the index of the shard that has all messages with the group or deduplication id
    /// `name`.
    pub(crate) fn shard_of_name(&self, name: Fingerprint) -> usize {
        (name.0 % self.0.len() as u128) as usize
    }

    /// Returns the index of the shard to which this process sends messages that may go to any shard.
    pub(crate) fn shard_to_send(&self) -> usize {
        if self.0.len() == 1 {
            // Do not use `sends`, which has indexes of all shards of the queue: this set may
            // contain only one of these shards.
            return 0;
        }
        self.queue()
            .sends
            .shard(&self.choice(|conflicts| &conflicts.appends))
    }

    /// Returns the shard that a message from another queue moves to. Only its group determines the shard,
    /// because a moved message has no deduplication id.
    pub(crate) fn shard_for_transfer(&self, group: Option<Fingerprint>) -> &Arc<Shard> {
        &self.0[group.map_or_else(|| self.shard_to_send(), |group| self.shard_of_name(group))]
    }

    /// Returns the indexes of all shards, in the order in which this process receives from them.
    pub(crate) fn shards_to_receive(&self) -> impl Iterator<Item = usize> + use<> {
        let first = self
            .queue()
            .receives
            .next_shard(&self.choice(|conflicts| &conflicts.claims));
        (first..self.0.len()).chain(0..first)
    }

    /// Records that messages were received from a shard, so that the next receive of this process begins
    /// there.
    pub(crate) fn received_at(&self, shard: usize) {
        let choice = self.choice(|conflicts| &conflicts.claims);
        self.queue().receives.set_shard(shard, &choice);
    }

    fn choice(
        &self,
        which: impl Fn(&Conflicts) -> &Counter,
    ) -> ShardChoice<impl Fn(usize) -> u64, impl Fn() -> usize> {
        let environment = &self.context().environment;
        ShardChoice {
            count: self.0.len(),
            conflicts: move |shard: usize| which(&self.0[shard].conflicts).get(),
            draw: || usize::from(u16::from_be_bytes(environment.random())),
            now_nanos: environment.monotonic_nanos(),
        }
    }

    /// Reserves up to `wanted` messages of the queue's limit of messages in flight. Messages that
    /// other receivers of this process are claiming count against the limit.
    pub(crate) fn reserve_claim(&self, wanted: usize) -> ClaimReservation<'_> {
        let count_receivable = |claiming| self.count_receivable(wanted, claiming);
        self.queue().reserve_claim(count_receivable)
    }

    /// Returns how many messages may be received below the limit of messages in flight, at most `wanted`.
    /// `claiming` is the number of messages that other receivers of this process are claiming. Only cached
    /// segments are counted, so the limit may be exceeded.
    pub(crate) fn count_receivable(&self, wanted: usize, claiming: usize) -> usize {
        let most = (self.options().max_in_flight as usize).saturating_sub(claiming);
        let known: Vec<_> = self
            .all()
            .iter()
            .flat_map(|shard| shard.cached_segments())
            .collect();
        let pending: usize = known.iter().map(|segment| segment.count_pending()).sum();
        if pending + wanted <= most {
            return wanted;
        }
        let in_flight = known.iter().map(|segment| segment.count_in_flight()).sum();
        wanted.min(most.saturating_sub(in_flight))
    }
}
