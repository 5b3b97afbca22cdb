//! Shards: partitions of the store among which the rows of one bucket are distributed, for a load
//! that the replicas of one partition cannot serve.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Seed of the hash that chooses the shard of a row. The hash must differ from the hash that
/// selects sampled rows. Otherwise, only some shards would contain samples.
const SEED: u64 = 0x5265_6374_6F53_6861;

/// Index (from 0) of a shard: one of the store partitions that share the rows of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Shard(pub u32);

/// Number of shards (store partitions) of each bucket of a table. It never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shards(u32);

impl Shards {
    /// One shard: each bucket is one partition of the store.
    pub const ONE: Self = Self(1);

    /// Creates a number of shards; `None` if `count` is 0.
    pub fn new(count: u8) -> Option<Self> {
        (count > 0).then_some(Self(count.into()))
    }

    /// Returns the number of shards of each bucket.
    pub fn count(self) -> u32 {
        self.0
    }

    /// Returns whether each bucket has several shards.
    pub fn are_several(self) -> bool {
        self.0 > 1
    }

    /// Returns the shard of the row with this encoded key. It never differs between processes or
    /// releases.
    pub fn of(self, key: &[u8]) -> Shard {
        let hash = xxh3_64_with_seed(key, SEED);
        // The cast loses nothing: the remainder is less than `self.0`, which is a `u32`.
        Shard((hash % u64::from(self.0)) as u32)
    }

    /// Returns the indexes of all shards of a bucket.
    pub fn all(self) -> impl ExactSizeIterator<Item = Shard> + Clone {
        (0..self.0).map(Shard)
    }
}
