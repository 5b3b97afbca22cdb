//! Types of keys, versions, timestamps and bucket numbers.

/// Complete encoded clustering key, or an edge between such keys. Keys are compared byte by byte, which gives the sort
/// order.
pub type Key = Vec<u8>;

/// Version of a range map. Each conditional write increases it by one. 0: there is no range map.
pub type Version = u64;

/// Write timestamp, in microseconds.
pub type Micros = i64;

/// Number of a bucket. A bucket is a partition of the store that contains ranges of one partition of the
/// application. Within the application's partition, no number is used twice, and a newer bucket has a greater
/// number. Without a range map, all rows are in bucket 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bucket(pub u64);
