//! How much there may be of everything.

use std::time::Duration;

/// Pieces of directories of which a process keeps copies, all partitions together; those go first that were read first.
pub const MAX_COPIED_PIECES: usize = 131_072;
/// Bytes of directories of which a process keeps copies.
pub const MAX_COPIED_BYTES: usize = 64 << 20;
/// Directories that a process reads at once, of those that writes and pages go by.
pub const MAX_DIRECTORIES_AT_ONCE: usize = 64;
/// Buckets that one transaction drops that are not kept any more.
pub const MAX_DROPPED_AT_ONCE: usize = 64;
/// How often it is looked in all partitions whether some are not kept any more.
pub const RETAIN_EVERY: Duration = Duration::from_secs(600);
/// How many steps somebody takes at most who drops what is not kept any more of a partition; whoever comes there next goes on.
pub const MAX_RETAIN_STEPS: usize = 4_096;
/// How often a bucket is deleted as a whole where rows have stamps of clocks that are ahead.
pub const MAX_DROP_ROUNDS: usize = 64;
/// Partitions at once in which it is looked whether some are not kept any more.
pub const MAX_RETAINED_AT_ONCE: usize = 16;
/// Buckets by time that one transaction makes.
pub const MAX_TIMES_AT_ONCE: usize = 128;
/// Buckets by time of which a process knows that they are registered; past that it begins anew.
pub const MAX_REGISTERED: usize = 65_536;
/// How many times as many bytes as it is to have a process loads into a bucket before it waits until that is cut.
pub const LOAD_FACTOR: u64 = 2;
/// How long who loads waits for a cut at most.
pub const MAX_LOAD_WAIT: Duration = Duration::from_secs(30);
/// Buckets of which a process knows how much it loaded into them.
pub const MAX_LOADED_BUCKETS: usize = 16_384;
/// Edges at which room is made at once in a partition for rows that are to be loaded.
pub const MAX_ROOM_EDGES: usize = 4_096;
/// Partitions at once in which room is made for rows that are to be loaded.
pub const MAX_ROOMS_AT_ONCE: usize = 64;
/// Pieces that are read side by side.
pub const MAX_PIECES_AT_ONCE: usize = 16;
/// Slices of shards that are read side by side for one reading: of several pieces at once, as many as have no more.
pub const MAX_SHARDS_AT_ONCE: usize = 128;
/// How often the shards of a bucket are asked for one slice: once, and once more where one has more than its share; oftener where bytes bound what is
/// read.
pub const MAX_SHARD_ROUNDS: usize = 8;
/// Partitions of which a process knows that their root is marked.
pub const MAX_MARKED_ROOTS: usize = 65_536;
/// Samples of a bucket that are looked at, by which it is cut.
pub const MAX_SAMPLES_READ: u32 = 16_384;
/// Samples of a bucket that are held to their rows before it is cut.
pub const MAX_HELD_SAMPLES: usize = 256;
/// Newest samples of a bucket by which it is said how fast it grows, and whether keys run with arrival.
pub const MAX_ARRIVALS: usize = 16;
/// Rows that are copied by one request.
pub const MAX_COPIED_ROWS: u32 = 512;
/// About as many bytes of rows are copied by one request; one row at least.
pub const MAX_COPIED_ROW_BYTES: u64 = 1 << 20;
/// Keys of a bucket that are counted before it is cut, where it is to have so many rows; more are cut at their samples.
pub const MAX_COUNTED_KEYS: usize = 32_768;
/// Requests that copy rows at once, in a process.
pub const MAX_COPIES_AT_ONCE: usize = 2;
/// Cuts and clearings that a process is at, those that wait included.
pub const MAX_JOBS: usize = 1_024;
/// Clearings among them, which wait for an hour.
pub const MAX_CLEARINGS: usize = 768;
/// What is noticed of partitions and not looked at yet. What is noticed then is forgotten, and noticed again when somebody
/// comes there again.
pub const MAX_NOTICES: usize = 8_192;
/// Of those, buckets of one partition that are looked at together.
pub const MAX_TAKEN: usize = 128;
/// How often a directory is read that changes meanwhile.
pub const MAX_TORN_READS: u32 = 8;
/// How often who finds a cut half done looks whether others are done with it.
pub const MAX_PATIENCE: u32 = 256;
/// How long one request to the store may take, if there is so much time.
pub const MAX_REQUEST_TIME: Duration = Duration::from_secs(5);
/// For how long one step of a cut is tried in vain; who comes there later goes on with it.
pub const MAX_STEP_TIME: Duration = Duration::from_secs(120);
/// The longest pause before a request that failed is sent again.
pub const MAX_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause, drawn, before somebody goes on with a cut that was left half done, or clears what one left.
pub const MAX_PATIENT_PAUSE: Duration = Duration::from_secs(30);
/// Tables kept in buckets of which a process knows both forms; past that it begins anew.
pub const MAX_KNOWN_TABLES: usize = 1_024;
/// The largest row, in bytes, that samples are made for; a target that is small takes smaller ones.
pub const MAX_SAMPLED_ROW_BYTES: u64 = 64 << 10;
/// Partitions that a scan reads side by side.
pub const MAX_SCANNED_PARTITIONS: u32 = 16;
/// Partitions that are looked at by one request, when a table is forgotten.
pub const MAX_FORGOTTEN_AT_ONCE: u32 = 1_024;
/// Locks of partitions that are cut by transactions, which partitions share by their hashes.
pub const MAX_LOCKS: usize = 1_024;
/// Bytes of rows that one transaction moves, or one row; less where the store takes less.
pub const MAX_MOVED_BYTES: usize = 4 << 20;
/// Rows that one transaction moves.
pub const MAX_MOVED_ROWS: u32 = 32_768;
/// Partitions that are cut at once by transactions.
pub const MAX_CUTS_AT_ONCE: usize = 4;
/// How often a bucket is cut one time after the other, before others have their turn.
pub const MAX_CUT_ROUNDS: usize = 64;
/// How often a cut is tried that the store does not do.
pub const MAX_CUT_ATTEMPTS: usize = 8;
/// Bytes of a key by which it is said where rows come into a bucket; of a longer one only these are compared.
pub const MAX_ARRIVAL_KEY_BYTES: usize = 256;
/// Pieces of a partition whose rows are counted, where the store counts.
pub const MAX_COUNTED_PIECES: usize = 1 << 20;
/// Pieces that are summed up together.
pub const MAX_BLOCK_PIECES: usize = 64;
/// Sums that are read by one request.
pub const MAX_SUMS_READ: u32 = 4_096;
/// How many requests read the sums of a partition.
pub const MAX_SUM_READS: usize = 256;
/// Pieces of a partition that are listed beside its sums, to say how many rows it has: those that are not summed up.
pub const MAX_OPENED_PIECES: usize = 4_096;
/// Pieces that are looked at to say how many rows many of them have.
pub const MAX_DRAWN_PIECES: usize = 64;
/// Pieces beside those of which it is not known what they hold, or of which a part is asked for, each of which is looked at.
pub const MAX_CERTAIN_PIECES: usize = 32;
/// Pieces of a slice whose rows are read to know how many there are, where nobody counts: as many as are read side by side.
pub const MAX_EXACT_PIECES: usize = 16;
/// Rows of a slice that are read to know how many there are, where nobody counts.
pub const MAX_EXACT_ROWS: u32 = 256;
/// Rows that are read at once to know how many there are.
pub const MAX_STEPPED_ROWS: u32 = 4_096;
/// Pieces of a partition that are listed at once.
pub const MAX_LISTED_PIECES: usize = 256;
/// Pieces of a partition whose samples are read to say how large it is as a whole; more are counted.
pub const MAX_SUMMED_PIECES: usize = 1_024;
/// How often a call makes room for its rows, before it is written where there is too little.
pub const MAX_ROOM_ATTEMPTS: usize = 8;
/// Partitions that are listed at once.
pub const MAX_LISTED_PARTITIONS: usize = 256;
/// Of those, partitions that are looked at side by side.
pub const MAX_LISTED_AT_ONCE: usize = 4;
/// How often a scan goes on for a list of partitions: it meets their further buckets, too.
pub const MAX_LIST_SCANS: usize = 64;
/// Buckets of which it is noted that they are too large; of more they are not counted.
pub const MAX_NOTED_BUCKETS: usize = 65_536;
/// Partitions that are mended side by side.
pub const MAX_MENDED_AT_ONCE: usize = 4;
/// What seems wrong with buckets, before it is looked at once more.
pub const MAX_SUSPECTS: usize = 256;
/// Of that, how much is looked at side by side.
pub const MAX_LOOKS_AT_ONCE: usize = 16;
/// How long who may have been writing what seems wrong has had by then.
pub const SUSPECT_AGE: Duration = Duration::from_secs(6);
/// Bytes of rows that a check of buckets reads at a time.
pub const MAX_CHECKED_BYTES: u64 = 1 << 20;
/// After how long nobody is taken to be at a cut any more.
pub const HALF_DONE_AGE: Duration = Duration::from_secs(900);
/// Partitions whose directories a check makes anew at a time.
pub const MAX_RUINS: usize = 256;
/// Buckets of these together.
pub const MAX_RUIN_BUCKETS: usize = 65_536;
/// Pieces of a directory that are read at once, or made anew.
pub const MAX_REBUILT_PIECES: u32 = 2_048;
