//! Shards: the rows of one bucket spread over several partitions of the store, where more is asked of it than the replicas of one
//! bear.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Another hash than the one that says which rows are sampled: else the samples of a bucket would lie in some of its shards.
const SEED: u64 = 0x5265_6374_6F53_6861;

/// One of the partitions of the store that a bucket is kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Shard(pub u32);

/// How many shards each bucket of a table has: the same for as long as there is the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shards(u32);

impl Shards {
    /// Each bucket is one partition of the store.
    pub const ONE: Self = Self(1);

    /// So many; none: that is less than one.
    pub fn new(count: u8) -> Option<Self> {
        (count > 0).then_some(Self(count.into()))
    }

    /// How many.
    pub fn count(self) -> u32 {
        self.0
    }

    /// Whether there are several.
    pub fn are_several(self) -> bool {
        self.0 > 1
    }

    /// The one that has the row of an encoded key: the same in every process and release.
    pub fn of(self, key: &[u8]) -> Shard {
        let hash = xxh3_64_with_seed(key, SEED);
        // What remains is less than what there are.
        Shard((hash % u64::from(self.0)) as u32)
    }

    /// All of them.
    pub fn all(self) -> impl ExactSizeIterator<Item = Shard> + Clone {
        (0..self.0).map(Shard)
    }
}
