//! Limits of one request, and of the requests that wait.

use recto_store::Limits;

/// Limits of one request to the embedded store.
///
/// Mutations are limited to 16 MiB (half a commit log segment), and keys to 64 KiB. These limits of Cassandra
/// ensure that all data can be moved to Cassandra. Batches are not moved, so Cassandra's limit of 50 KiB does
/// not apply to them. Memory alone limits batches.
pub(crate) const LIMITS: Limits = Limits {
    mutation_bytes: 16 << 20,
    batch_bytes: 64 << 20,
    key_bytes: 65_535,
    remote: false,
    leaves_tombstones: false,
    sees_conflicts: true,
    transactions: true,
    counts_rows: true,
};

/// Maximum bytes of the keys and rows of one write call that is not atomic over its partitions.
pub const MAX_REQUEST_BYTES: usize = 256 << 20;

/// Maximum bytes of requests in the writer's queue. Further requests wait until the queue has space. A single
/// larger request waits in the queue alone.
pub const MAX_WAITING_BYTES: usize = 64 << 20;

/// Maximum number of requests in the writer's queue. Further requests wait until the queue has space.
pub const MAX_WAITING_REQUESTS: usize = 4_096;

/// Maximum bytes of write requests that the writer commits in one transaction.
pub const MAX_GROUP_BYTES: usize = 16 << 20;

/// Maximum number of write requests that the writer commits in one transaction.
pub const MAX_GROUP_REQUESTS: usize = 1_024;

/// Bytes of relaxed writes after which the next commit is durable. This limits how much a crash can lose, and
/// the memory for data that is not on disk yet.
pub const MAX_RELAXED_BYTES: usize = 64 << 20;

/// Maximum number of problems that a report of damage describes. Further problems are only counted.
pub const MAX_PROBLEMS: usize = 100;
