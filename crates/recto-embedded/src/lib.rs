//! Embedded store of Recto, on redb: a directory that one process opens, with nothing to install.
//!
//! [`EmbeddedStore`] is a [`Store`](recto_store::Store). Its rows are stored under byte-comparable keys in a
//! copy-on-write tree. A [`Slice`](recto_model::Slice) is one range of bytes, which is read forwards or
//! backwards from a snapshot that writers do not change.
//!
//! | module | content |
//! |---|---|
//! | `store` | [`EmbeddedStore`]: opening, and the methods of the trait |
//! | `options`, `data` | options to open a store; its data file |
//! | `directory` | the files of a store, its lock, and the rejection of other directories |
//! | `verified`, `pages` | the engine's file, whose pages are verified when they are read |
//! | `state`, `snapshot`, `read`, `scan` | tables of one commit, snapshots, slices, scans |
//! | `blocks` | numbers of rows by block, for tables that count their rows |
//! | `walk` | entries in order, from an edge that is verified |
//! | `queue`, `writer`, `batch`, `apply` | the one writer: group commit, merging by timestamps |
//! | `log` | the commit log: small groups become durable by one append and one sync |
//! | `keys`, `row`, `catalog`, `meta` | the bytes on disk, described in `docs/format.md` |
//!
//! # Durability
//!
//! An acknowledged write is on disk: the caller gets the answer after the write is in the commit log, or in a
//! durable commit of the engine. When the store is opened after a crash, it applies the records of the log
//! that the engine does not contain (`docs/design/commit-log.md`).
//! [Relaxed](recto_store::WriteOptions::relaxed) writes are on disk after the next write that is not relaxed. A crash
//! loses only relaxed writes, each as a whole, the newest first.
//!
//! A store opens at once after its process was killed. If a store has a commit log, or at least
//! [`QUICK_REPAIR_BYTES`] of data, every durable commit also saves the state of the engine's allocator, and
//! syncs twice. This bounds the time to open the store. If the last commit before the crash did not save this state, the engine reads
//! the whole file, even if earlier commits saved it. Reading a smaller file is quick too, so commits to it
//! sync only once.
//!
//! When the disk is full or fails, the affected write returns `Unknown`, and the engine is closed. The store
//! reopens the engine as soon as the disk works: with the next write, or because reads fail (at most every
//! [`REVIVE_INTERVAL`]). If the failure lost relaxed writes, the store rejects writes until a program opens
//! it again. Otherwise a bulk load could assume that its lost writes are durable. A store that is open
//! read-only does not reopen itself.
//!
//! The store keeps the newest timestamp of its plain writes, which
//! [`Store::newest_stamp`](recto_store::Store::newest_stamp) returns.
//!
//! # Speed
//!
//! On two cores, with 5 million rows of 107 bytes, a slice of 21 rows takes 7 µs in either direction. Bulk loading in
//! key order stores 1,000,000 rows/s. 64 writers make 7,000 to 26,000 durable writes/s, depending on the disk.
//! `cargo run --release -p recto-embedded --example embedded_speed` measures it.
//!
//! # Damage
//!
//! Every row has a checksum of its table, its key and its bytes, which is verified whenever the row is read.
//! The keys on both sides of the start and the end of a read are verified too, so that a damaged key never
//! hides rows. Every page that is read from the file is also verified. A damaged page is not passed to the
//! engine, which would trust it. The engine gets damaged pages only if they contain rows.
//! (`docs/design/embedded-store.md` lists when each kind of damage is noticed. [`EmbeddedStore::check`] and
//! [`EmbeddedStore::scrub_step`] find the rest.)
//!
//! On a damaged page of rows the engine may panic. The panic is caught where this crate calls redb, and
//! becomes an error of kind [`Corrupt`](recto_store::StoreErrorKind::Corrupt). A program that has to report
//! damage and continue must not be built with `panic = "abort"`.

mod apply;
mod batch;
mod blocks;
mod catalog;
mod check;
mod clock;
mod copy;
mod damage;
mod data;
mod describe;
mod directory;
mod error;
mod expired;
mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod keys;
mod limits;
mod log;
mod meta;
mod operations;
mod options;
mod pages;
mod partitions;
mod queue;
mod read;
mod row;
mod runs;
mod scan;
mod scrub;
mod shared;
mod snapshot;
mod state;
mod store;
mod verified;
mod walk;
mod work;
mod writer;

pub use catalog::TABLE_FORMAT_VERSION;
pub use check::{CheckReport, CheckedTable, Problem};
pub use copy::{Progress, ROWS_PER_REPORT};
pub use directory::{STORE_FORMAT_VERSION, StoreHolder, refuse_occupied, store_holder};
pub use limits::{
    MAX_GROUP_BYTES, MAX_GROUP_REQUESTS, MAX_PROBLEMS, MAX_RELAXED_BYTES, MAX_REQUEST_BYTES,
    MAX_WAITING_BYTES, MAX_WAITING_REQUESTS,
};
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use log::LogStorage;
pub use log::{
    DEFAULT_CHECKPOINT_AFTER, DEFAULT_LOG_BYTES, FIRST_LOG_BYTES, IDLE_BEFORE_CHECKPOINT, LOG_FORMAT_VERSION,
    LogStatistics, MAX_LOG_BYTES, MAX_RECORD_AGE, MAX_RECORD_BYTES, MIN_LOG_BYTES,
};
pub use operations::{BackupReport, CompactReport, Statistics, TableStatistics};
pub use options::{DEFAULT_CACHE_BYTES, EmbeddedOptions};
pub use queue::REVIVE_INTERVAL;
pub use read::INLINE_ROWS;
pub use row::ROW_FORMAT_VERSION;
pub use scan::MAX_PIECES;
pub use scrub::{ScrubPosition, ScrubStep};
pub use shared::QUICK_REPAIR_BYTES;
pub use store::EmbeddedStore;
pub use verified::MAX_VERIFIED_PAGES;
