//! Limits of the engine that keeps partitions in buckets.

use std::time::Duration;

/// Maximum number of key ranges of all cached range maps of a process. Beyond it, the process evicts the range map that
/// it read first.
pub const MAX_COPIED_PIECES: usize = 131_072;
/// Maximum number of bytes of all cached range maps of a process.
pub const MAX_COPIED_BYTES: usize = 64 << 20;
/// Maximum number of range maps that a process reads concurrently for its cache, on behalf of writes and pages.
pub const MAX_DIRECTORIES_AT_ONCE: usize = 64;
/// Interval between two searches of all partitions for expired data.
pub const RETAIN_EVERY: Duration = Duration::from_secs(600);
/// Maximum number of steps in which one run removes expired data of a partition. The next run
/// continues.
pub const MAX_RETAIN_STEPS: usize = 4_096;
/// Maximum number of attempts to delete all rows of an expired bucket. A further attempt is necessary if a
/// writer with a fast clock gave a row a later timestamp than the deletion.
pub const MAX_DROP_ROUNDS: usize = 64;
/// Maximum number of partitions whose expired data is removed concurrently.
pub const MAX_RETAINED_AT_ONCE: usize = 16;
/// Maximum number of time buckets that a process remembers as registered. At this number, the
/// process forgets all time buckets.
pub const MAX_REGISTERED: usize = 65_536;
/// Multiple of the target size of a bucket that the loads of a process may write to the bucket
/// before they wait for a split.
pub const LOAD_FACTOR: u64 = 2;
/// Maximum time that a load waits for a split.
pub const MAX_LOAD_WAIT: Duration = Duration::from_secs(30);
/// Maximum number of buckets for which a process records the bytes that it loaded.
pub const MAX_LOADED_BUCKETS: usize = 16_384;
/// Maximum number of edges at which a partition is split at once, to make room for rows before a load.
pub const MAX_ROOM_EDGES: usize = 4_096;
/// Maximum number of partitions in which room for a load is made concurrently.
pub const MAX_ROOMS_AT_ONCE: usize = 64;
/// Maximum number of key ranges that one read reads concurrently.
pub const MAX_PIECES_AT_ONCE: usize = 16;
/// Maximum number of slices of shards that one read requests concurrently. If buckets have shards,
/// a read therefore reads fewer key ranges at once.
pub const MAX_SHARDS_AT_ONCE: usize = 128;
/// Maximum number of rounds in which a slice of a bucket is requested from its shards. One round is enough as a rule. A
/// second round follows if a shard has more than its share of the rows. More rounds follow if a limit of bytes ends the
/// reads.
pub const MAX_SHARD_ROUNDS: usize = 8;
/// Maximum number of partitions whose root mark a process remembers as written. The root mark is a static
/// cell of bucket 0, by which scans find the partition.
pub const MAX_MARKED_ROOTS: usize = 65_536;
/// Maximum number of samples (keys and sizes of sampled rows) of a bucket that are read to decide where to
/// split it.
pub const MAX_SAMPLES_READ: u32 = 16_384;
/// Maximum number of samples (stored keys and sizes of some rows) of a bucket that are compared
/// with their rows before a split.
pub const MAX_HELD_SAMPLES: usize = 256;
/// Maximum number of the newest samples of a bucket by which its growth is estimated. The samples
/// also show whether its keys rise or fall with the time of arrival.
pub const MAX_ARRIVALS: usize = 16;
/// Maximum number of rows that one request copies.
pub const MAX_COPIED_ROWS: u32 = 512;
/// Approximate maximum number of bytes of rows that one request copies. A request copies at least one row.
pub const MAX_COPIED_ROW_BYTES: u64 = 1 << 20;
/// Time without new samples of a bucket before its key ranges are joined with others. Rows that arrive would fill
/// the joined bucket.
pub const JOIN_QUIET: Duration = Duration::from_secs(600);
/// Pause between two checks of the joins of a window of a range map, if the first check finds none.
pub const JOIN_PAUSE: Duration = Duration::from_secs(600);
/// Maximum number of partitions for which a process records pauses of joins. At this number, it forgets all of them.
pub const MAX_JOIN_PAUSES: usize = 16_384;
/// Maximum number of key ranges before a window of a large range map that are read to check the start of the window.
/// The start may be a removed key range that a node returned.
pub const MAX_CHECKED_STARTS: u32 = 1_024;
/// Maximum age of a cached window whose start a read of a range map uses again. After a longer time, a join may have
/// removed the start, and a node that missed the removal may have returned it.
pub const MAX_KNOWN_START_AGE: Duration = Duration::from_secs(3_600);
/// Maximum number of keys of a bucket that are counted before a split, if a number of rows limits the bucket. A bucket
/// with more keys is split at its samples.
pub const MAX_COUNTED_KEYS: usize = 32_768;
/// Maximum number of concurrent requests of a process that copy rows.
pub const MAX_COPIES_AT_ONCE: usize = 2;
/// Maximum number of jobs (splits and removals of old buckets) that run or wait in a process.
pub const MAX_JOBS: usize = 1_024;
/// Maximum number of jobs of a process that remove old buckets. Each of these jobs waits for an
/// hour, so the limit leaves jobs for splits.
pub const MAX_CLEARINGS: usize = 768;
/// Maximum number of notices (requests for work in a partition) that wait for a job. A further
/// notice is dropped, and the next visit to its partition creates the notice again.
pub const MAX_NOTICES: usize = 8_192;
/// Maximum number of notices (requests for work) about grown buckets of one partition that one job
/// handles.
pub const MAX_TAKEN: usize = 128;
/// Maximum number of attempts to read a range map. An attempt fails if another process changes the
/// range map during it.
pub const MAX_TORN_READS: u32 = 8;
/// Maximum number of times that a job checks whether another process has finished a split.
pub const MAX_PATIENCE: u32 = 256;
/// Maximum duration of one request to the store. An earlier deadline shortens it.
pub const MAX_REQUEST_TIME: Duration = Duration::from_secs(5);
/// Maximum time for which one step of a split is retried. The next visit to the partition continues the split.
pub const MAX_STEP_TIME: Duration = Duration::from_secs(120);
/// Maximum pause before a retry of a failed request.
pub const MAX_PAUSE: Duration = Duration::from_millis(500);
/// Maximum random pause before a process continues a split that another process left unfinished, or
/// removes the old buckets of such a split.
pub const MAX_PATIENT_PAUSE: Duration = Duration::from_secs(30);
/// Maximum number of tables with buckets whose logical and stored definitions a process caches. At this
/// number, the process clears the cache.
pub const MAX_KNOWN_TABLES: usize = 1_024;
/// Maximum size of a row, in bytes, up to which the sampling rate is chosen to estimate sizes well. If the
/// target size of a bucket is small, the limit is smaller.
pub const MAX_SAMPLED_ROW_BYTES: u64 = 64 << 10;
/// Maximum number of partitions that a scan reads concurrently.
pub const MAX_SCANNED_PARTITIONS: u32 = 16;
/// Maximum number of partitions that one request lists when the data of a dropped table is removed.
pub const MAX_FORGOTTEN_AT_ONCE: u32 = 1_024;
/// Maximum number of rounds in which one call splits buckets of a partition. Each round of a repair
/// splits all buckets that are due. Each round of a preparation of a load splits the buckets of one
/// window (part) of the range map.
pub const MAX_CUT_ROUNDS: usize = 64;
/// Maximum number of key ranges whose sizes and row counts one stored sum adds up.
pub const MAX_BLOCK_PIECES: usize = 64;
/// Maximum number of stored sums that one request reads.
pub const MAX_SUMS_READ: u32 = 4_096;
/// Maximum number of requests that read the sums of a partition.
pub const MAX_SUM_READS: usize = 256;
/// Maximum number of key ranges that an estimate of a row count lists one by one, because no stored sum
/// covers them.
pub const MAX_OPENED_PIECES: usize = 4_096;
/// Maximum number of randomly drawn key ranges that an estimate of the rows of many key ranges reads.
pub const MAX_DRAWN_PIECES: usize = 64;
/// Maximum number of key ranges that an estimate reads in any case, in addition to the randomly
/// drawn key ranges: key ranges of unknown content, and key ranges that are requested only in part.
pub const MAX_CERTAIN_PIECES: usize = 32;
/// Maximum number of key ranges of a slice whose rows are counted exactly by reading them, on
/// stores that do not count rows. This number of key ranges can be read concurrently.
pub const MAX_EXACT_PIECES: usize = 16;
/// Maximum number of rows of a slice that are read for an exact count, on stores that do not count rows.
pub const MAX_EXACT_ROWS: u32 = 256;
/// Maximum number of rows that one request reads to count rows.
pub const MAX_STEPPED_ROWS: u32 = 4_096;
/// Maximum number of key ranges of a partition in one listing.
pub const MAX_LISTED_PIECES: usize = 256;
/// Maximum number of key ranges of a partition whose sampled rows are read to estimate the total
/// size. Further key ranges are only counted.
pub const MAX_SUMMED_PIECES: usize = 1_024;
/// Maximum number of partitions in one listing.
pub const MAX_LISTED_PARTITIONS: usize = 256;
/// Maximum number of partitions of one listing that are read concurrently.
pub const MAX_LISTED_AT_ONCE: usize = 4;
/// Maximum number of scans for one list of partitions. Several scans can be necessary, because a scan also
/// returns the further buckets of partitions that are already in the list.
pub const MAX_LIST_SCANS: usize = 64;
/// Maximum number of buckets that are recorded as too large. Further buckets are not counted.
pub const MAX_NOTED_BUCKETS: usize = 65_536;
/// Maximum number of partitions that are repaired concurrently.
pub const MAX_MENDED_AT_ONCE: usize = 4;
/// Maximum number of suspected faults of buckets that a check collects before it examines them
/// again.
pub const MAX_SUSPECTS: usize = 256;
/// Maximum number of suspected faults of buckets that a check examines concurrently.
pub const MAX_LOOKS_AT_ONCE: usize = 16;
/// Time that a check waits before it examines a suspected fault again, so that a concurrent writer
/// can finish.
pub const SUSPECT_AGE: Duration = Duration::from_secs(6);
/// Maximum number of bytes of rows that one step of a check of buckets reads.
pub const MAX_CHECKED_BYTES: u64 = 1 << 20;
/// Age at which a check regards a split under way as abandoned.
pub const HALF_DONE_AGE: Duration = Duration::from_secs(900);
/// Maximum number of partitions whose damaged or lost range maps one check rebuilds at a time.
pub const MAX_RUINS: usize = 256;
/// Maximum number of buckets of all partitions whose range maps one check rebuilds at a time.
pub const MAX_RUIN_BUCKETS: usize = 65_536;
/// Maximum number of key ranges that one read of a damaged range map returns, or one rebuild writes.
pub const MAX_REBUILT_PIECES: u32 = 2_048;
