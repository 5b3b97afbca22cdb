//! The embedded store of Recto, on redb: a directory, one process, nothing to install.
//!
//! [`EmbeddedStore`] is a [`Store`](recto_store::Store). Its rows lie under byte-comparable keys in
//! a copy-on-write tree, so that a [`Slice`](recto_model::Slice) is one range of bytes, read
//! forwards or backwards from a snapshot that no writer disturbs.
//!
//! | module | holds |
//! |---|---|
//! | `store` | [`EmbeddedStore`]: opening, and what the trait asks |
//! | `options`, `data` | how to open a store; its data file |
//! | `directory` | the files of a store, who holds it, what is refused |
//! | `verified`, `pages` | the engine's file, whose pages are verified as they are read |
//! | `state`, `snapshot`, `read`, `scan` | the tables of one commit, snapshots, slices, scans |
//! | `counts`, `audit` | how many rows and bytes partitions have, where tables count them |
//! | `walk` | entries in order from an edge that is verified |
//! | `queue`, `writer`, `batch`, `apply` | the one writer: group commit, merging by stamps |
//! | `keys`, `row`, `catalog`, `meta` | the bytes on disk, drawn in `docs/format.md` |
//!
//! # Durability
//!
//! An acknowledged write is on disk: whoever waits is answered after the commit that holds their
//! write. [Relaxed](recto_store::WriteOptions::relaxed) writes are on disk after the next write that is not
//! relaxed; a crash takes back whole ones of them, newest first, and nothing else.
//!
//! A process that is killed leaves a store that opens at once: from [`QUICK_REPAIR_BYTES`] of data on,
//! every durable commit saves the state of the engine's allocator beside the data, and syncs twice. That
//! is what bounds reopening: the last commit before the crash must be such a one, or the engine
//! reads the whole file, whatever was saved before. In smaller files that is quick too, so commits there
//! sync once. Relaxed commits are in memory only; a crash finds the last durable one.
//!
//! When the disk is full or fails, the write that met it is `Unknown` and the engine is closed. The next write
//! opens it again, or reads do that fail (every [`REVIVE_INTERVAL`] at most), as soon as the disk is well. Only if relaxed
//! writes were lost by it does the store refuse writes until somebody opens it anew, so that no bulk load
//! takes them for durable. A store that is open read-only does not open itself again.
//!
//! The newest stamp of plain writes is kept: [`Store::newest_stamp`](recto_store::Store::newest_stamp).
//!
//! # Speed
//!
//! On two cores, 5 million rows of 107 bytes: a slice of 21 rows 7 µs in either direction, bulk loading in
//! key order 1,000,000 rows/s, 64 writers 7,000 to 26,000 durable writes/s (the disk decides). `cargo run
//! --release -p recto-embedded --example embedded_speed` measures it.
//!
//! # Damage
//!
//! Every row carries a checksum over its table, key and bytes, which is checked whenever it is read. So are
//! the keys on either side of where a read begins and ends, so that a damaged key never hides rows. And so is every
//! page that is read from the file: one that does not hold is kept from the engine, which would trust it.
//! (`docs/design/embedded-store.md` says what is noticed when; [`EmbeddedStore::check`] and
//! [`EmbeddedStore::scrub_step`] find the rest.) On pages of rows the engine may panic; that is caught where this crate
//! calls redb and becomes an error of kind [`Corrupt`](recto_store::StoreErrorKind::Corrupt). (So do not build with
//! `panic = "abort"` where damage must be reported rather than end the process.)

mod apply;
mod audit;
mod batch;
mod catalog;
mod check;
mod clock;
mod copy;
mod counts;
mod damage;
mod data;
mod describe;
mod directory;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod keys;
mod limits;
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
