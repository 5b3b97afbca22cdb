//! Limits of one request, and of the requests that wait.

use recto_store::Limits;

/// Limits of the embedded store.
///
/// Rows and keys have the limits of Cassandra, so that a move to Cassandra never fails. They are 16 MiB for a mutation
/// (half a commit log segment), and 64 KiB for a key. Batches are not moved, so only memory limits them, and not the 50
/// KiB of Cassandra.
pub(crate) const LIMITS: Limits = Limits {
    mutation_bytes: 16 << 20,
    batch_bytes: 64 << 20,
    key_bytes: 65_535,
    remote: false,
    leaves_tombstones: false,
    sees_conflicts: true,
    transactions: true,
    counts_partitions: true,
    counts_rows: true,
};

/// Maximum bytes of the keys and rows of one write call whose writes are independent of each other.
pub const MAX_REQUEST_BYTES: usize = 256 << 20;

/// Maximum bytes of requests that wait for the writer. Further requests wait outside the queue. A single request that
/// is larger waits alone.
pub const MAX_WAITING_BYTES: usize = 64 << 20;

/// Maximum number of requests that wait for the writer.
pub const MAX_WAITING_REQUESTS: usize = 4_096;

/// Maximum bytes of requests that are committed together.
pub const MAX_GROUP_BYTES: usize = 16 << 20;

/// Maximum number of requests that are committed together.
pub const MAX_GROUP_REQUESTS: usize = 1_024;

/// Bytes of relaxed writes after which the next commit is durable. This limits the loss by a crash, and the memory for
/// data that is not on disk yet.
pub const MAX_RELAXED_BYTES: usize = 64 << 20;

/// Maximum number of problems that a report describes. It counts all problems.
pub const MAX_PROBLEMS: usize = 100;
