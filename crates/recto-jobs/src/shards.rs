//! A queue's messages, in all of its shards.

use std::sync::Arc;

use recto_protocol::queues::{Address, Fingerprint, Place, Receipt, Shard as ShardNumber, Tenure};

use crate::affinity::{Choice, Losses};
use crate::common::Common;
use crate::error::Result;
use crate::options::{Destination, ShardOptions};
use crate::place::QueueStore;
use crate::shard::Shard;
use crate::totals::{Counter, Totals};

/// A queue's messages, as this process knows them. Cheap to clone.
///
/// Each message is in one of the queue's shards. A group's, and those of one deduplication id, are all in the same; others are where
/// this process sends just now, which is where other processes do not, as far as it finds out.
#[derive(Clone)]
pub struct Shards(Arc<[Arc<Shard>]>);

impl QueueStore {
    /// The shards of the queue that has this place by this use of it; it has so many, or one.
    pub fn shards(&self, place: Place, tenure: Tenure, count: u16) -> Shards {
        let address = |shard| Address {
            place,
            shard: ShardNumber(shard),
        };
        let shards = (0..count.max(1)).map(|shard| self.shard(address(shard), tenure));
        Shards(shards.collect())
    }

    /// Those of the queue where messages are moved to.
    pub(crate) fn shards_of(&self, destination: Destination) -> Shards {
        let Destination {
            place,
            tenure,
            shards,
        } = destination;
        self.shards(place, tenure, shards)
    }
}

impl Shards {
    /// One alone, whatever others there are.
    pub(crate) fn only(shard: Arc<Shard>) -> Self {
        Self([shard].into())
    }

    pub(crate) fn all(&self) -> &[Arc<Shard>] {
        &self.0
    }

    /// There is one at least.
    fn first(&self) -> &Shard {
        &self.0[0]
    }

    pub(crate) fn queues(&self) -> &QueueStore {
        &self.first().queues
    }

    pub(crate) fn common(&self) -> &Common {
        &self.first().common
    }

    /// Whether both are of one open store.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.queues().trains, &other.queues().trains)
    }

    /// From now on that holds for all who use the queue here, unless a newer registry said something else.
    pub fn set_options(&self, options: ShardOptions) {
        self.common().options.set(options);
    }

    /// What holds now.
    pub fn options(&self) -> ShardOptions {
        self.common().options.get()
    }

    /// What this process did here since it opened the store.
    pub fn totals(&self) -> Totals {
        self.common().counters.totals()
    }

    /// How many wait here for a message now.
    pub fn receivers_waiting(&self) -> u64 {
        self.common().counters.receivers()
    }

    /// How many shards there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// How many segments are live.
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

    /// Which shard a receipt is of; none: it is of another queue.
    pub(crate) fn of_receipt(&self, receipt: &Receipt) -> Option<usize> {
        let is_it = |shard: &Arc<Shard>| shard.address == receipt.address && shard.tenure == receipt.tenure;
        self.0.iter().position(is_it)
    }

    /// The shard of all messages that have this name in common.
    pub(crate) fn of_name(&self, name: Fingerprint) -> usize {
        (name.0 % self.0.len() as u128) as usize
    }

    /// The shard to which this process sends what may go to any.
    pub(crate) fn to_send(&self) -> usize {
        if self.0.len() == 1 {
            // It may be one alone of several, which does not say where this process sends.
            return 0;
        }
        self.common().sends.shard(&self.choice(|losses| &losses.appends))
    }

    /// The shard of a message that comes from another queue, which left its deduplication id there.
    pub(crate) fn to_move(&self, group: Option<Fingerprint>) -> &Arc<Shard> {
        &self.0[group.map_or_else(|| self.to_send(), |group| self.of_name(group))]
    }

    /// All shards, as this process receives from them.
    pub(crate) fn to_receive(&self) -> impl Iterator<Item = usize> + use<> {
        let first = self
            .common()
            .receives
            .next_shard(&self.choice(|losses| &losses.claims));
        (first..self.0.len()).chain(0..first)
    }

    /// There was something to receive at that one.
    pub(crate) fn received_at(&self, shard: usize) {
        let choice = self.choice(|losses| &losses.claims);
        self.common().receives.goes_to(shard, &choice);
    }

    fn choice(
        &self,
        which: impl Fn(&Losses) -> &Counter,
    ) -> Choice<impl Fn(usize) -> u64, impl Fn() -> usize> {
        let environment = &self.queues().environment;
        Choice {
            count: self.0.len(),
            losses: move |shard: usize| which(&self.0[shard].losses).get(),
            draw: || usize::from(u16::from_be_bytes(environment.random())),
            now_nanos: environment.monotonic_nanos(),
        }
    }
}
