//! Commit log: makes a small group of writes durable by one append and one sync, before the engine (redb)
//! writes its pages.
//!
//! A durable commit of the engine writes about ten pages. With the log, the engine commits most groups
//! without durability, which keeps their pages in memory. A *checkpoint* is a durable commit of the engine,
//! which writes all these pages. After a crash, the records after the last checkpoint are applied again.
//! `docs/design/commit-log.md` gives the reasons.
//!
//! | module | content |
//! |---|---|
//! | `changes` | physical changes of one transaction, and their bytes |
//! | `transaction` | the write transaction and its table type, which records every change |
//! | `record` | bytes of a record |
//! | `position` | entry of the engine that names the last record it contains |
//! | `file` | log files: their header, preparation and folder |
//! | `appender` | the open log: the choice between log and engine, appends, checkpoints |
//! | `checkpoint` | rule for the time of a checkpoint |
//! | `replay` | recovery: reads the records, and applies them |
//! | `status` | numbers for operators |
//! | `testing` | log files on a storage of a test |
//!
//! # Bytes
//!
//! All integers are little-endian. A log file begins with a header, and its records begin at byte 4,096:
//!
//! ```text
//!  offset  bytes  header of a file
//!       0      8  `rectolog`
//!       8      4  format version: 1
//!      12      4  number of the file: 0 or 1
//!      16     16  id of the log, random
//!      32      4  CRC32C of bytes 0 to 31
//!
//!  offset  bytes  record
//!       0      4  format version: 1
//!       4      4  n, number of bytes of the changes
//!       8     16  id of the log
//!      24     16  id of the generation, random
//!      40      8  number of the record
//!      48      4  CRC32C of the record before; of the first record: CRC32C of the id of the generation
//!      52      4  CRC32C of all other bytes of the record
//!      56      n  changes
//!  56 + n         zeros up to a multiple of 8
//!
//!  bytes            change
//!  00 l name        the following changes belong to the engine's table `name`; l: 2 bytes, its length
//!  01 k v key value the value of `key` is now `value`; k, v: 4 bytes each, the lengths
//!  02 k key         `key` is removed
//!
//!  offset  bytes  entry `log` of the engine's table `meta`
//!       0      1  format version: 1
//!       1     16  id of the log
//!      17     16  id of the generation; zeros: no generation is in use
//!      33      1  number of the file of the generation
//!      34      8  number of the last record whose changes the engine contains
//!      42      4  CRC32C of `log` and bytes 0 to 41
//! ```
//!
//! # Rules
//!
//! 1. A caller gets its answer after the record of its group was written and synced, or after a durable
//!    commit of the engine that contains the group.
//! 2. From the first appended byte on, every failure is an unknown outcome and stops the engine.
//! 3. All changes of a transaction go through [`WriteTable`], which records them. If the engine fails during
//!    a change, or the changes are too many, the transaction has no record and is committed durably.
//! 4. A record contains values and removals, never differences. Applying it twice has the effect of once.
//! 5. Each transaction that appends a record also stores the record's number in the entry `log`. Replay skips
//!    the records up to this number. The first later one must have the next number.
//! 6. Each durable commit begins a new *generation*: it stores a new random id, and increases the number by
//!    one. Only records of the stored generation are replayed, so that old records in a file are never
//!    mistaken for new ones.
//! 7. Groups of more than [`MAX_RECORD_BYTES`], schema changes and syncs are durable commits. While relaxed
//!    writes are pending, every group that is not relaxed is one too. Otherwise a crash could lose the relaxed
//!    rows of a load and keep its progress.
//! 8. A file is filled with zeros and synced before its first record, and its folder is synced, on a second
//!    thread. The store's format version is raised before that, so that an earlier release does not open a
//!    store with a log.
//! 9. After a write or a sync of a file failed, the file gets no record. It is prepared again after a later
//!    durable commit of a newly opened engine. Linux keeps the pages of a failed sync as if they were on disk.
//! 10. Durable commits of a store that has or can get a log are two-phase, and save the allocator's state (quick
//!     repair).
//! 11. Recovery runs whenever the engine is opened, before the catalog is read. It commits without
//!     durability. The checkpoint comes later, and before the next record.
//! 12. A record that is not valid, followed by a valid later one, is damage: `Corrupt`. If it is the last one,
//!     it cannot be distinguished from an incomplete write. It ends the replay, and is reported.
//! 13. If a record cannot be applied because a page is damaged, a process that may write the store can still
//!     read it, in the state before this record. The store rejects writes, and keeps the log. It cannot be
//!     opened read-only, because that needs a checkpoint.

mod appender;
mod changes;
mod checkpoint;
mod file;
mod position;
mod record;
mod replay;
mod status;
#[cfg(feature = "testing")]
mod testing;
mod transaction;

#[cfg(test)]
mod tests;

pub use changes::MAX_RECORD_BYTES;
pub use checkpoint::{DEFAULT_CHECKPOINT_AFTER, IDLE_BEFORE_CHECKPOINT, MAX_RECORD_AGE};
pub use file::{DEFAULT_LOG_BYTES, FIRST_LOG_BYTES, LOG_FORMAT_VERSION, MAX_LOG_BYTES, MIN_LOG_BYTES};
pub use status::LogStatistics;

pub(crate) use appender::{Log, LogSettings, Plan, unrecovered};
pub(crate) use file::FolderOfStore;
pub(crate) use position::{LOG_ENTRY, META_NAME};
pub(crate) use replay::is_in_use;
pub(crate) use status::Counters;
#[cfg(feature = "testing")]
pub use testing::LogStorage;
pub(crate) use transaction::{Transaction, WriteCursor, WriteTable};
#[cfg(feature = "testing")]
pub(crate) use {file::LogFolder, testing::FolderOfTest};
