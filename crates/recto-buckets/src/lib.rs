//! Partitions of bounded size on a store: the engine of `recto_protocol::buckets`.
//!
//! The protocol decides each step, and this crate executes it. It reads range maps (*directories*)
//! and changes them by conditional writes. It caches range maps, writes rows to their buckets, and
//! reads them back. It samples rows and splits buckets that have grown too large. A *piece* is a
//! key range between two edges of a partition's sort order. The layers above never see which bucket
//! holds a key range. `docs/design/buckets.md` gives the reasons.
//!
//! A [`BucketedStore`] serves stores without transactions, and hides the buckets. A [`RetainedStore`]
//! serves stores with transactions, which keep each partition whole. It enforces only the retention time
//! (`keep`). It also computes the buckets that a store without transactions would have, so that an
//! operator can list them.
//!
//! | module | content |
//! |---|---|
//! | [`error`] | [`PiecesError`] |
//! | [`limits`] | limits of the engine |
//! | [`tables`] | [`PiecedTable`], and the tables of range maps, samples and sums |
//! | [`place`] | [`PieceStore`]: the store and its clocks; [`Partition`]: a partition that a query names |
//! | `directory` | reading and changing range maps |
//! | `copies` | cached range maps and their lifetimes |
//! | `samples` | writing and reading samples |
//! | `shards` | reads that merge the shards of a bucket; marks of partitions for scans |
//! | [`writer`] | [`RowChange`]: the change of a row |
//! | `sending` | writing rows to the buckets that accept them |
//! | `room` | splits before a load, to make room for its rows |
//! | `loading` | backpressure for loads that outrun the splits |
//! | `reader` | reading rows |
//! | `times` | mapping from keys to time buckets |
//! | `registry` | registry of the existing time buckets |
//! | `retaining` | deletion of expired rows and buckets |
//! | `notices` | queue of partitions that may need a split |
//! | `growth` | split policy: whether to split a bucket, and where |
//! | `holding` | comparison of samples with their rows |
//! | `copying` | copying rows from one bucket to another |
//! | `bucketed` | [`BucketedStore`]: a store over a store, whose tables hide all buckets |
//! | `counters` | counters of the work that a process does for buckets |
//! | `bytes` | byte encoding of positions |
//! | [`check`] | consistency check of buckets |
//! | `forget` | removal of all bucket data of a dropped table |
//! | `splitter` | making, resuming and clearing splits |
//! | `sums` | sums of the sizes of consecutive key ranges |
//! | `survey` | estimates of row counts, from these sums and a few sampled key ranges |
//! | [`list`] | buckets as an operator sees them |
//! | `mend` | [`Mended`]: background work, done on demand |
//! | `retained` | [`RetainedStore`]: retention, and computed buckets, on a store that keeps partitions whole |
//! | `late` | [`LateRows`]: rows that a retention time deletes |
//! | `keys` | encoded clustering keys: edges and spans in the order of rows |

mod bucketed;
mod bytes;
pub mod check;
mod copies;
mod copying;
mod counters;
mod directory;
pub mod error;
mod forget;
mod growth;
mod holding;
mod joins;
mod keys;
mod late;
pub mod limits;
pub mod list;
mod loading;
mod mend;
mod notices;
pub mod place;
mod reader;
mod registry;
mod retained;
mod retaining;
mod room;
mod samples;
mod sending;
mod shards;
mod splitter;
mod sums;
mod survey;
pub mod tables;
#[cfg(test)]
mod tests;
mod times;
mod unregistering;
pub mod writer;

pub use bucketed::{BucketedStore, table_in_store};
pub use check::{BucketCheck, CheckStep, Fault, FaultKind, FaultOutcome};
pub use counters::BucketMetrics;
pub use error::{PiecesError, PiecesErrorKind, Result};
pub use late::LateRows;
pub use list::{Partitions, PartitionsPosition};
pub use mend::Mended;
pub use place::{Partition, PieceStore, Place, Stamps};
pub use retained::RetainedStore;
pub use tables::{BucketSize, PiecedTable};
pub use writer::{Change, RowChange};
