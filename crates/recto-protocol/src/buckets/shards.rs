//! Shards: several partitions of the store that together contain the rows of one bucket. They serve a load
//! that the replicas of one partition cannot serve.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Seed of the hash that chooses the shard of a row. It must differ from the hash that selects sampled rows.
/// With the same hash, the samples of a bucket would be in only some of its shards.
const SEED: u64 = 0x5265_6374_6F53_6861;

/// Number of a shard: one of the partitions of the store that contain the rows of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Shard(pub u32);

/// Number of shards of each bucket of a table. It stays the same as long as the table exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shards(u32);

impl Shards {
    /// One shard for each bucket: the bucket is one partition of the store.
    pub const ONE: Self = Self(1);

    /// Returns this number of shards; `None` if the number is 0.
    pub fn new(count: u8) -> Option<Self> {
        (count > 0).then_some(Self(count.into()))
    }

    /// Returns the number of shards.
    pub fn count(self) -> u32 {
        self.0
    }

    /// Returns whether each bucket has several shards.
    pub fn are_several(self) -> bool {
        self.0 > 1
    }

    /// Returns the shard of the row with this encoded key. It is the same in every process and release.
    pub fn of(self, key: &[u8]) -> Shard {
        let hash = xxh3_64_with_seed(key, SEED);
        // The cast loses nothing: the remainder is less than the number of shards, which is a
        // `u32`.
        Shard((hash % u64::from(self.0)) as u32)
    }

    /// Returns all shards of a bucket.
    pub fn all(self) -> impl ExactSizeIterator<Item = Shard> + Clone {
        (0..self.0).map(Shard)
    }
}
