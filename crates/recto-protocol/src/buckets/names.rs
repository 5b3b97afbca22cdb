//! Types of keys, versions, timestamps and bucket ids.

/// Complete encoded clustering key, or an edge between two keys. The order of its bytes is the sort
/// order.
pub type Key = Vec<u8>;

/// Version of a range map (which bucket holds which keys). Each conditional write increases it by
/// 1. 0: there is no range map.
pub type Version = u64;

/// Write timestamp, in microseconds since 1970.
pub type Micros = i64;

/// Id of a bucket: a stored partition that contains key ranges of one partition of the application.
/// Within that partition, ids rise and are never reused, so a newer bucket has a greater id.
/// Without a range map, all rows are in bucket 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bucket(pub u64);
