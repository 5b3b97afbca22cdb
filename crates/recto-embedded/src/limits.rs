//! What one request may hold.

use recto_store::Limits;

/// The limits of the embedded store.
///
/// Rows and keys are held to Cassandra's limits, so that a move to it never fails: a mutation of
/// 16 MiB (half a commit log segment), 64 KiB of key. Batches are not moved, so they are bounded by
/// memory only and not by Cassandra's 50 KiB.
pub(crate) const LIMITS: Limits = Limits {
    mutation_bytes: 16 << 20,
    batch_bytes: 64 << 20,
    key_bytes: 65_535,
    remote: false,
    leaves_tombstones: false,
    sees_conflicts: true,
    transactions: true,
    counts_partitions: true,
};

/// The most bytes of one write call whose writes stand for themselves, as keys and rows.
pub const MAX_REQUEST_BYTES: usize = 256 << 20;

/// The most bytes of requests that wait for the writer; who comes after waits outside. One larger
/// request waits alone.
pub const MAX_WAITING_BYTES: usize = 64 << 20;

/// The most requests that wait for the writer.
pub const MAX_WAITING_REQUESTS: usize = 4_096;

/// The most bytes of requests that are committed together.
pub const MAX_GROUP_BYTES: usize = 16 << 20;

/// The most requests that are committed together.
pub const MAX_GROUP_REQUESTS: usize = 1_024;

/// After this many bytes of relaxed writes the next commit is durable: it bounds what a crash
/// loses, and the memory of what is not on disk yet.
pub const MAX_RELAXED_BYTES: usize = 64 << 20;

/// The most problems a report describes; all are counted.
pub const MAX_PROBLEMS: usize = 100;
